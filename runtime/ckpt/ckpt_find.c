/* SPDX-License-Identifier: Apache-2.0 */
/* ckpt_find.c - finds the checkpoint to resume from */
#include "config.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "ckpt/ckpt_impl.h"

long dt_ckpt_best(const char *root)
{
    char *link = dt_ckpt_format(NULL, "%s/best", root);
    char target[PATH_MAX];
    ssize_t n = link ? readlink(link, target, sizeof(target) - 1) : -1;
    free(link);
    if (n < 0)
        return -1;
    target[n] = '\0';
    return dt_ckpt_step_of(target);
}

int dt_ckpt_count(const char *root, long *newest, struct dt_error *err)
{
    struct dirent **entries;
    int n = dt_ckpt_list(root, &entries, dt_ckpt_is_step, err);
    if (n > 0)
        *newest = dt_ckpt_step_of(entries[0]->d_name);
    dt_ckpt_free_list(entries, n);
    return n;
}

/* --- find --- */

static int note_temps(const char *root, void (*note)(const char *text),
                      struct dt_error *err)
{
    struct dirent **entries;
    int n = dt_ckpt_list(root, &entries, dt_ckpt_is_temp, err);
    int rc = n < 0 ? -1 : 0;
    for (int i = 0; i < n && rc == 0; i++) {
        char *text = dt_ckpt_format(err, "%s/%s: left by an interrupted save",
                                    root, entries[i]->d_name);
        if (text)
            note(text);
        else
            rc = -1;
        free(text);
    }
    dt_ckpt_free_list(entries, n);
    return rc;
}

static bool is_called(const char *name, const char *target)
{
    return strcmp(name, target) == 0 ||
           (dt_ckpt_is_old(name) &&
            strcmp(name + strlen(OLD_PREFIX), target) == 0);
}

/* Where the link <root>/<file> leads. 1; 0: there is no such link. -1:
 * EX_IOERR, it cannot be read.
 */
static int read_link(const char *root, const char *file, char target[PATH_MAX],
                     struct dt_error *err)
{
    char *link = dt_ckpt_format(err, "%s/%s", root, file);
    ssize_t bytes = link ? readlink(link, target, PATH_MAX - 1) : -1;
    int rc = bytes >= 0 ? 1 : -1;
    if (bytes >= 0)
        target[bytes] = '\0';
    else if (link && (dt_file_is_missing(errno) || errno == EINVAL))
        rc = 0;
    else if (link)
        dt_error_set(err, EX_IOERR, "%s: cannot read this link: %s", link,
                     strerror(errno));
    free(link);
    return rc;
}

/* Cuts the name of an entry of root out of the target of a link there, which
 * may be spelled "checkpoint-2/", "./checkpoint-2" or as a whole path. NULL: it
 * leads to another directory.
 */
static const char *name_of(const char *root, char *target)
{
    struct stat here, there;
    char dir[2 * PATH_MAX];
    size_t n = strlen(target);
    while (n > 1 && target[n - 1] == '/')
        target[--n] = '\0';
    char *slash = strrchr(target, '/');
    if (!slash)
        return target;
    *slash = '\0';
    snprintf(dir, sizeof(dir), "%s/%s",
             slash == target || *target == '/' ? "" : root, target);
    return stat(root, &here) == 0 && stat(dir, &there) == 0 &&
                   here.st_ino == there.st_ino && here.st_dev == there.st_dev
               ? slash + 1
               : NULL;
}

/* Moves the entry that the link <root>/<file> names to the front. 1; 0: there
 * is no such link, or, which `note` is told unless it is NULL, no such entry.
 * -1: EX_IOERR.
 */
static int prefer_linked(const char *root, const char *file,
                         struct dirent **entries, int n,
                         void (*note)(const char *text), struct dt_error *err)
{
    char target[PATH_MAX];
    struct dt_error text;
    int rc = read_link(root, file, target, err);
    if (rc <= 0)
        return rc;
    dt_error_set(&text, 0,
                 "%s/%s: names %s, which is no checkpoint here; the one of the "
                 "highest step is taken",
                 root, file, target);
    const char *name = name_of(root, target);
    for (int i = 0; name && i < n; i++) {
        struct dirent *entry = entries[i];
        if (!is_called(entry->d_name, name))
            continue;
        memmove(entries + 1, entries, (size_t)i * sizeof(*entries));
        entries[0] = entry;
        return 1;
    }
    if (note)
        note(text.text);
    return 0;
}

/* Lists the checkpoints that could be resumed, the preferred one first. The one
 * that `latest` names comes before higher steps: after a run resumed from an
 * older checkpoint, higher steps may belong to the abandoned run. If a save was
 * interrupted, its temporary link may name a checkpoint that is newer still, or
 * none yet. *linked: a link names the first one.
 */
static int list_candidates(const char *root, struct dirent ***entries,
                           bool *linked, void (*note)(const char *text),
                           struct dt_error *err)
{
    int latest = 0, temp = 0;
    int n = dt_ckpt_list(root, entries, dt_ckpt_is_candidate, err);
    if (n > 0)
        latest = prefer_linked(root, "latest", *entries, n, note, err);
    if (n > 0 && latest >= 0)
        temp = prefer_linked(root, TEMP_LATEST, *entries, n, NULL, err);
    *linked = latest > 0 || temp > 0;
    if (latest >= 0 && temp >= 0)
        return n;
    dt_ckpt_free_list(*entries, n);
    *entries = NULL;
    return -1;
}

/* Notes that the first entry is preferred to others because a link names it. */
static void note_passed(const char *root, struct dirent **entries, int n,
                        void (*note)(const char *text))
{
    struct dt_error text;
    int highest = 0;
    for (int i = 1; i < n; i++)
        if (dt_ckpt_step_of(entries[i]->d_name) >
            dt_ckpt_step_of(entries[highest]->d_name))
            highest = i;
    if (highest == 0)
        return;
    dt_error_set(&text, 0,
                 "%s/%s: passed over, because latest names %s; to resume from "
                 "%s, make latest a link to it",
                 root, entries[highest]->d_name, entries[0]->d_name,
                 entries[highest]->d_name);
    note(text.text);
}

static int verify(const char *path, const struct dt_ckpt_watch *watch,
                  struct dt_error *err)
{
    return watch && watch->verify ? watch->verify(watch->ctx, path, err)
                                  : dt_ckpt_verify(path, watch, err);
}

/* The path (malloc'ed) of the first whole one of n > 0 candidates. Damaged ones
 * are passed over; one that cannot be read is an error.
 */
static char *first_whole(const char *root, struct dirent **entries, int n,
                         const struct dt_ckpt_watch *watch,
                         struct dt_error *err)
{
    struct dt_error why;
    for (int i = 0; i < n; i++) {
        char *path = dt_ckpt_format(err, "%s/%s", root, entries[i]->d_name);
        if (!path || verify(path, watch, &why) == 0)
            return path;
        free(path);
        if (why.status != EX_DATAERR && why.status != EX_NOINPUT) {
            if (err)
                *err = why;
            return NULL;
        }
        if (watch && watch->note) {
            struct dt_error text = why;
            dt_error_add(&text, 0, "%s is passed over", entries[i]->d_name);
            watch->note(text.text);
        }
    }
    dt_error_set(err, EX_DATAERR,
                 "%s: no checkpoint here is whole, the last one because of %s",
                 root, why.text);
    return NULL;
}

static int is_like_step(const struct dirent *entry)
{
    return strncmp(entry->d_name, STEP_PREFIX, strlen(STEP_PREFIX)) == 0;
}

/* Without a checkpoint, a run starts from scratch. Fails if a link says that
 * there was one, which somebody has renamed or removed.
 */
static int check_empty(const char *root, struct dt_error *err)
{
    struct dirent **entries;
    char target[PATH_MAX];
    int n = dt_ckpt_list(root, &entries, is_like_step, err);
    int rc = n < 0 ? -1 : 0;
    if (n > 0)
        rc = dt_error_set(err, EX_DATAERR,
                          "%s/%s: its name is not " STEP_PREFIX
                          "STEP, and no other checkpoint is here",
                          root, entries[0]->d_name);
    else if (rc == 0 && (rc = read_link(root, "latest", target, err)) > 0)
        rc = dt_error_set(err, EX_DATAERR,
                          "%s/latest: names %s, and no checkpoint is here",
                          root, target);
    dt_ckpt_free_list(entries, n);
    return rc;
}

int dt_ckpt_find(const char *root, const struct dt_ckpt_watch *watch,
                 char **path, struct dt_error *err)
{
    struct dirent **entries;
    void (*note)(const char *text) = watch ? watch->note : NULL;
    bool linked;
    *path = NULL;
    if (note && note_temps(root, note, err) < 0)
        return -1;
    int n = list_candidates(root, &entries, &linked, note, err);
    if (n > 0)
        *path = first_whole(root, entries, n, watch, err);
    if (*path && note && linked &&
        is_called(*path + strlen(root) + 1, entries[0]->d_name))
        note_passed(root, entries, n, note);
    dt_ckpt_free_list(entries, n);
    return n == 0 ? check_empty(root, err) : *path ? 0 : -1;
}

int dt_ckpt_check_path(const char *path, struct dt_error *err)
{
    static const char *const folders[] = {"", "/checkpoints"};
    char name[PATH_MAX];
    struct dirent **entries;
    snprintf(name, sizeof(name), "%s/" SUMS_NAME, path);
    if (access(name, F_OK) == 0 || errno != ENOENT)
        return 0;
    if (access(path, F_OK) < 0)
        return dt_error_set(err, EX_NOINPUT, "%s: %s", path, strerror(errno));
    for (size_t i = 0; i < 2; i++) {
        snprintf(name, sizeof(name), "%s%s", path, folders[i]);
        int n = dt_ckpt_list(name, &entries, dt_ckpt_is_step, NULL);
        if (n > 0)
            dt_error_set(err, EX_NOINPUT,
                         "%s: not a checkpoint, but it has some: name one of "
                         "them, such as %s/%s",
                         path, name, entries[0]->d_name);
        dt_ckpt_free_list(entries, n);
        if (n > 0)
            return -1;
    }
    return dt_error_set(err, EX_NOINPUT,
                        "%s: not a checkpoint: there is no " SUMS_NAME, path);
}

int dt_ckpt_find_below(const char *root, long step, char **path,
                       struct dt_error *err)
{
    struct dirent **entries;
    *path = NULL;
    int n = dt_ckpt_list(root, &entries, dt_ckpt_is_step, err);
    int below = 0;
    while (below < n && dt_ckpt_step_of(entries[below]->d_name) >= step)
        below++;
    if (n > below)
        *path = first_whole(root, entries + below, n - below, NULL, err);
    dt_ckpt_free_list(entries, n);
    return n == below || *path ? 0 : -1;
}
