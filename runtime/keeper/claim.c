/* SPDX-License-Identifier: Apache-2.0 */
/*
 * claim.c - the file of an epoch
 *
 * It has one line, and is there with the whole of it or not at all, since who
 * comes later is bound to what is in it. Where a file system can do neither of
 * the two calls that give a whole file its name, a line without an end is no
 * proposal yet.
 */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/epoch.h"
#include "base/file.h"
#include "base/siphash.h"
#include "keeper/agree.h"

enum {
    LINE_BYTES = DT_EPOCH_PROPOSAL_BYTES + 1,
    READS = 20, /* of a line that others are writing */
    READ_MS = 100,
};

/* Writes the line and closes the file. -1: it cannot be written. */
static int write_line(int fd, const char *proposal)
{
    char line[LINE_BYTES];
    const int bytes = snprintf(line, sizeof(line), "%s\n", proposal);
    const bool written = write(fd, line, (size_t)bytes) == bytes;
    const bool kept = fsync(fd) == 0;
    return close(fd) == 0 && kept && written ? 0 : -1;
}

/* Writes a file of its own name. -1: it cannot be written. */
static int write_own(char *own, const char *proposal)
{
    int fd = mkostemp(own, O_CLOEXEC);
    if (fd < 0)
        return -1;
    if (write_line(fd, proposal) == 0)
        return 0;
    unlink(own);
    return -1;
}

/* Gives a whole file its name, unless that is taken. Which error says that a
 * file system has no hard links, or cannot rename so, is its own affair. -1: it
 * can do neither.
 */
static int place(const char *own, const char *path)
{
    if (link(own, path) == 0 || errno == EEXIST)
        return 0;
    return renameat2(AT_FDCWD, own, AT_FDCWD, path, RENAME_NOREPLACE) == 0 ||
                   errno == EEXIST
               ? 0
               : -1;
}

/* Writes the file in its place, unless there is one. A part of a line, which
 * nobody believes, is removed. -1: it cannot be written.
 */
static int write_in_place(const char *path, const char *proposal)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return errno == EEXIST ? 0 : -1;
    if (write_line(fd, proposal) == 0)
        return 0;
    unlink(path);
    return -1;
}

/* Creates the file, unless it exists. -1: it cannot be written. */
static int create(const char *path, const char *proposal)
{
    char own[PATH_MAX + sizeof(".XXXXXX")];
    snprintf(own, sizeof(own), "%s.XXXXXX", path);
    if (write_own(own, proposal) < 0)
        return -1;
    const bool placed = place(own, path) == 0;
    unlink(own);
    return placed ? 0 : write_in_place(path, proposal);
}

/* Reads the file into text[LINE_BYTES + 1]. Returns how much it has; -1: it
 * cannot be read.
 */
static ssize_t read_line(const char *path, char *text)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    const ssize_t got = read(fd, text, LINE_BYTES);
    close(fd);
    text[got > 0 ? got : 0] = '\0';
    return got;
}

/* Which proposal the file has is read back, as on a file system over a network
 * the answer to a link that was sent twice may be wrong.
 */
static enum dt_claim read_back(const char *path, const char *proposal)
{
    char text[LINE_BYTES + 1];
    for (int i = 0; i < READS; i++) {
        if (read_line(path, text) < 0)
            return DT_CLAIM_FAILED;
        char *end = strchr(text, '\n');
        if (end) {
            *end = '\0';
            return strcmp(text, proposal) == 0 ? DT_CLAIM_OURS : DT_CLAIM_LOST;
        }
        dt_clock_sleep(READ_MS / 1e3);
    }
    return DT_CLAIM_FAILED;
}

enum dt_claim dt_epoch_claim(const char *dir, const char *step, uint32_t epoch,
                             const char *proposal)
{
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/" DT_EPOCH_DIR, dir);
    if (dt_file_mkdirs(path, NULL) < 0)
        return DT_CLAIM_FAILED;
    dt_epoch_path(path, dir, step, epoch);
    return create(path, proposal) < 0 ? DT_CLAIM_FAILED
                                      : read_back(path, proposal);
}

void dt_epoch_step(const char *secret, char step[DT_EPOCH_STEP_BYTES])
{
    static const uint8_t word[DT_SIPHASH_BYTES] = "dt.epoch";
    uint8_t hash[DT_SIPHASH_BYTES];
    dt_siphash(word, secret, strlen(secret), hash);
    for (size_t i = 0; i < DT_EPOCH_STEP_BYTES / 2; i++)
        snprintf(step + 2 * i, 3, "%02x", hash[i]);
}
