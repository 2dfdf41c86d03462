/* SPDX-License-Identifier: Apache-2.0 */
/* drive.h - a directory on a drive for the files of swaps, removed at exit */
#ifndef TESTS_UNIT_DRIVE_H
#define TESTS_UNIT_DRIVE_H

#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "parallel/swap.h"

enum {
    BLOCK = 64 << 10,
    TILE = 3 * BLOCK + 20000, /* no multiple of a block or of a page */
    TILES = 5,
    BUFFERS = 3,
};

/* Sizes that make a test fast, and every remainder appear. */
static inline struct dt_swap_options small_swap(void)
{
    return (struct dt_swap_options){.tile_bytes = TILE,
                                    .tile_count = TILES,
                                    .buffer_count = BUFFERS,
                                    .block_bytes = BLOCK,
                                    .queue_depth = 4};
}

static char drive_root[256];
static pid_t drive_owner;

static inline void drive_remove(void)
{
    if (getpid() == drive_owner)
        dt_file_remove_tree(drive_root, NULL);
}

/* A directory that is not in memory; /tmp often is. */
static inline const char *drive(void)
{
    const char *bases[] = {getenv("TMPDIR"), "/tmp", ".", "/var/tmp"};
    struct statfs fs;
    for (size_t i = 0; i < 4 && !drive_owner; i++) {
        if (!bases[i] || statfs(bases[i], &fs) < 0 || fs.f_type == 0x01021994)
            continue;
        snprintf(drive_root, sizeof(drive_root), "%s/disttrain-XXXXXX",
                 bases[i]);
        if (!mkdtemp(drive_root))
            continue;
        drive_owner = getpid();
        atexit(drive_remove);
    }
    if (!drive_owner)
        abort();
    return drive_root;
}

/* Whether io_uring can be used here. */
static inline bool has_uring(void)
{
#ifdef HAVE_URING
    return syscall(SYS_io_uring_setup, 1, NULL) < 0 && errno == EFAULT;
#else
    return false;
#endif
}

/* The same for a whole program; if not, prints for TAP why. */
static inline bool may_use_uring(void)
{
    if (has_uring())
        return true;
#ifdef HAVE_URING
    printf("1..0 # SKIP io_uring is not allowed here: %s\n", strerror(errno));
#else
    printf("1..0 # SKIP built without liburing\n");
#endif
    return false;
}

/* The number of names in a directory. */
static inline int names_in(const char *path)
{
    int count = -2; /* . and .. */
    DIR *dir = opendir(path);
    if (!dir)
        abort();
    while (readdir(dir))
        count++;
    closedir(dir);
    return count;
}

/* Fills a buffer with bytes that depend on a seed and on their place. */
static inline void fill(void *buffer, unsigned seed)
{
    uint32_t *at = buffer, x = seed * 2654435761u + 1;
    for (size_t i = 0; i < TILE / sizeof(*at); i++) {
        x = x * 1664525u + 1013904223u;
        at[i] = x;
    }
}

/* Whether a buffer is as fill() left it. */
static inline bool holds(const void *buffer, unsigned seed)
{
    static uint32_t expected[TILE / sizeof(uint32_t)];
    fill(expected, seed);
    return memcmp(buffer, expected, TILE) == 0;
}

#endif /* TESTS_UNIT_DRIVE_H */
