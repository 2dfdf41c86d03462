/* SPDX-License-Identifier: Apache-2.0 */
/* ckpt_probe.c - whether a directory can hold checkpoints, and who sees it */
#include "config.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "ckpt/ckpt_impl.h"

/* A save renames a link to `latest`, which fails if that is a directory and
 * would replace any other file.
 */
static int check_latest(const char *root, struct dt_error *err)
{
    struct stat st;
    char *latest = dt_ckpt_format(err, "%s/latest", root);
    int rc = latest ? 0 : -1;
    if (latest && lstat(latest, &st) == 0 && !S_ISLNK(st.st_mode))
        rc = dt_error_set(err, EX_CANTCREAT,
                          "%s: expected a symbolic link, or nothing; move it "
                          "away: the link to the newest checkpoint goes there",
                          latest);
    free(latest);
    return rc;
}

/* Writes a directory, then replaces it, as a save of a step that was saved
 * before does.
 */
static int try_directory(const char *root, struct dt_error *err)
{
    char *path = dt_ckpt_format(err, "%s/" TEMP_PREFIX "probe", root);
    int rc = path ? 0 : -1;
    for (int i = 0; i < 2 && rc == 0; i++) {
        struct dt_ckpt_writer *writer = dt_ckpt_begin_dir(path, true, err);
        rc = -1;
        if (writer && dt_ckpt_add_text(writer, "probe", "probe\n", err) == 0)
            rc = dt_ckpt_commit(writer, err);
        else
            dt_ckpt_abandon(writer);
    }
    if (path && dt_file_remove(path, rc < 0 ? NULL : err) < 0)
        rc = -1;
    free(path);
    return rc;
}

/* Makes a link and replaces `latest`, if there is one, by an equal link. */
static int try_link(const char *root, struct dt_error *err)
{
    char target[PATH_MAX] = "checkpoint";
    char *path = dt_ckpt_format(err, "%s/" TEMP_PREFIX "link", root);
    char *latest = dt_ckpt_format(err, "%s/latest", root);
    int rc = path && latest ? dt_file_remove(path, err) : -1;
    ssize_t n = rc == 0 ? readlink(latest, target, sizeof(target) - 1) : -1;
    if (n >= 0)
        target[n] = '\0';
    if (rc == 0 && symlink(target, path) < 0)
        rc = dt_error_set(err, EX_CANTCREAT,
                          "%s: cannot make a symbolic link: %s", path,
                          strerror(errno));
    if (rc == 0 && n >= 0 && rename(path, latest) < 0)
        rc = dt_error_set(err, EX_CANTCREAT,
                          "%s: cannot be replaced, as each save does: %s; "
                          "remove it, or have its owner do it",
                          latest, strerror(errno));
    if (path && dt_file_remove(path, rc < 0 ? NULL : err) < 0)
        rc = -1;
    free(latest);
    free(path);
    return rc;
}

int dt_ckpt_space(const char *root, double bytes, struct dt_error *err)
{
    struct statvfs fs;
    if (statvfs(root, &fs) < 0 || fs.f_blocks == 0)
        return 0;
    double left = (double)fs.f_bavail * (double)fs.f_frsize;
    if (left >= bytes)
        return 0;
    dt_error_set(err, EX_IOERR,
                 "%s: %.1f MB free, and a checkpoint takes %.1f MB", root,
                 left / 1e6, bytes / 1e6);
    return 1;
}

int dt_ckpt_probe(const char *root, size_t bytes, struct dt_error *err)
{
    if (dt_file_mkdirs(root, err) < 0 || check_latest(root, err) < 0 ||
        try_directory(root, err) < 0 || try_link(root, err) < 0)
        return -1;
    return dt_ckpt_space(root, (double)bytes, err);
}

/* --- marks that other hosts see --- */

int dt_ckpt_mark(const char *root, char name[DT_CKPT_MARK_BYTES],
                 struct dt_error *err)
{
    char *path = dt_ckpt_format(err, "%s/" TEMP_PREFIX "mark-XXXXXX", root);
    int fd = path ? mkstemp(path) : -1;
    int rc = fd < 0 ? -1 : 0;
    if (path && fd < 0)
        dt_error_set(err, EX_CANTCREAT, "%s: %s", path, strerror(errno));
    if (fd >= 0)
        close(fd);
    if (rc == 0)
        snprintf(name, DT_CKPT_MARK_BYTES, "%s", strrchr(path, '/') + 1);
    free(path);
    return rc;
}

void dt_ckpt_unmark(const char *root, const char *name)
{
    char *path = dt_ckpt_format(NULL, "%s/%s", root, name);
    if (path)
        unlink(path);
    free(path);
}

bool dt_ckpt_sees_mark(const char *root, const char *name, int wait_ms)
{
    const double end = dt_clock_now() + wait_ms / 1e3;
    char *path = dt_ckpt_format(NULL, "%s/%s", root, name);
    bool seen = path && access(path, F_OK) == 0;
    for (double pause = 0.01; path && !seen && dt_clock_now() < end;
         pause = pause < 0.5 ? 2 * pause : pause) {
        dt_clock_sleep(pause);
        DIR *dir = opendir(root); /* NFS then asks the server for its time */
        if (dir)
            closedir(dir);
        seen = access(path, F_OK) == 0;
    }
    free(path);
    return seen;
}
