/* SPDX-License-Identifier: Apache-2.0 */
/* wandb_dir.c - names directories, and finds those of earlier starts */
#include "config.h"

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/str.h"
#include "report/checksum.h"
#include "report/wandb_dir.h"

#define PREFIX "offline-run-"
#define SUPERSEDED "superseded-"

/* Joins a path, or says that it is too long. */
static int join_path(char path[PATH_MAX], const char *dir, const char *name,
                     struct dt_error *err)
{
    int n = snprintf(path, PATH_MAX, "%s/%s", dir, name);
    if (n < 0 || n >= PATH_MAX)
        return dt_error_set(err, EX_CANTCREAT, "%s: path too long", dir);
    return 0;
}

/* Whether a directory is that of an offline run with this id. */
static bool is_of_run(const char *name, const char *id)
{
    char end[DT_WANDB_ID_BYTES + 1];
    snprintf(end, sizeof(end), "-%s", id);
    return !strncmp(name, PREFIX, sizeof(PREFIX) - 1) &&
           dt_str_ends_with(name, end);
}

/* Whether `wandb sync` has uploaded the run of this id in the directory. */
static bool is_synced(const char *dir, const char *name, const char *id)
{
    char path[PATH_MAX];
    int n = snprintf(path, sizeof(path), "%s/%s/run-%s.wandb.synced", dir, name,
                     id);
    return n > 0 && (size_t)n < sizeof(path) && access(path, F_OK) == 0;
}

/* The id that follows one which is taken on the server. */
static void next_id(char id[DT_WANDB_ID_BYTES])
{
    struct dt_checksum checksum;
    dt_checksum_init(&checksum, DT_CHECKSUM_IEEE);
    snprintf(id, DT_WANDB_ID_BYTES, "%08x",
             (unsigned)dt_checksum_add(&checksum, 0, id, strlen(id)));
}

/* Takes an id as it is if it can be part of a name of a file. */
static void first_id(char id[DT_WANDB_ID_BYTES], const char *run_id)
{
    size_t good = strspn(run_id, "0123456789abcdefghijklmnopqrstuvwxyz"
                                 "ABCDEFGHIJKLMNOPQRSTUVWXYZ_-");
    snprintf(id, DT_WANDB_ID_BYTES, "%s", run_id);
    if (good == 0 || run_id[good] || good >= DT_WANDB_ID_BYTES)
        next_id(id);
}

static bool was_uploaded(const char *dir, const char *id)
{
    bool found = false;
    const struct dirent *entry;
    DIR *stream = opendir(dir);
    while (stream && !found && (entry = readdir(stream)))
        found =
            is_of_run(entry->d_name, id) && is_synced(dir, entry->d_name, id);
    if (stream)
        closedir(stream);
    return found;
}

/* Renames the directories of this id, none of which was uploaded. */
static int supersede(const char *dir, const char *id, struct dt_error *err)
{
    int rc = 0;
    const struct dirent *entry;
    DIR *stream = opendir(dir);
    while (stream && rc == 0 && (entry = readdir(stream))) {
        char from[PATH_MAX], to[PATH_MAX], name[NAME_MAX + sizeof(SUPERSEDED)];
        if (!is_of_run(entry->d_name, id))
            continue;
        snprintf(name, sizeof(name), SUPERSEDED "%s", entry->d_name);
        if (join_path(from, dir, entry->d_name, err) < 0 ||
            join_path(to, dir, name, err) < 0)
            rc = -1;
        else if (rename(from, to) < 0)
            rc = dt_error_set(err, EX_CANTCREAT,
                              "%s: cannot be renamed to %s: %s", from, name,
                              strerror(errno));
    }
    if (stream)
        closedir(stream);
    return rc;
}

/* A name that none has: starts within a second are counted on. */
static int make_new(struct dt_wandb_dir *made, const char *dir, double wall,
                    struct dt_error *err)
{
    enum { TRIES = 100 };
    char path[PATH_MAX], name[128], file[128], date[32];
    for (int i = 0; i < TRIES; i++) {
        const time_t seconds = (time_t)wall + i;
        struct tm local;
        struct stat st;
        localtime_r(&seconds, &local);
        strftime(date, sizeof(date), "%Y%m%d_%H%M%S", &local);
        snprintf(name, sizeof(name), PREFIX "%s-%s", date, made->id);
        snprintf(file, sizeof(file), SUPERSEDED PREFIX "%s-%s", date, made->id);
        if (join_path(path, dir, file, err) < 0)
            return -1;
        if (stat(path, &st) == 0)
            continue;
        snprintf(file, sizeof(file), "run-%s.wandb", made->id);
        if (join_path(path, dir, name, err) < 0 ||
            dt_file_mkdirs(path, err) < 0 ||
            join_path(made->file, path, file, err) < 0)
            return -1;
        return 0;
    }
    return dt_error_set(err, EX_CANTCREAT, "%s: no name is free for a run",
                        dir);
}

int dt_wandb_dir_make(struct dt_wandb_dir *made, const char *dir,
                      const char *run_id, double wall, struct dt_error *err)
{
    char path[PATH_MAX];
    first_id(made->id, run_id);
    if (join_path(path, dir, "wandb", err) < 0)
        return -1;
    while (was_uploaded(path, made->id))
        next_id(made->id);
    if (supersede(path, made->id, err) < 0)
        return -1;
    return make_new(made, path, wall, err);
}
