/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint.c - directories that are whole or absent */
#include "config.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/file.h"
#include "ckpt/checkpoint_impl.h"
#include "ckpt/sink.h"

char *dt_ckpt_format(struct dt_error *err, const char *fmt, ...)
{
    char *text;
    va_list ap;
    va_start(ap, fmt);
    int n = vasprintf(&text, fmt, ap);
    va_end(ap);
    if (n >= 0)
        return text;
    dt_error_set(err, EX_OSERR, "checkpoint: out of memory");
    return NULL;
}

static void writer_free(struct dt_ckpt_writer *writer)
{
    free(writer->root);
    free(writer->path);
    free(writer->temp);
    free(writer->sums);
    free(writer);
}

static int remove_temps(const char *root, struct dt_error *err)
{
    struct dirent **entries;
    int n = dt_ckpt_list(root, &entries, dt_ckpt_is_temp, err);
    int rc = n < 0 ? -1 : 0;
    for (int i = 0; i < n && rc == 0; i++) {
        char *path = dt_ckpt_format(err, "%s/%s", root, entries[i]->d_name);
        if (!path || (unlink(path) < 0 && dt_file_remove_tree(path, err) < 0))
            rc = -1;
        free(path);
    }
    dt_ckpt_free_list(entries, n);
    return rc;
}

/* Makes root and an empty temporary directory; a damaged checkpoint of the
 * same step is of no use to anybody and goes.
 */
static int make_room(const struct dt_ckpt_writer *writer, struct dt_error *err)
{
    if (dt_file_mkdirs(writer->root, err) < 0 ||
        remove_temps(writer->root, err) < 0)
        return -1;
    if (access(writer->path, F_OK) == 0 &&
        dt_ckpt_verify(writer->path, NULL) < 0 &&
        dt_file_remove_tree(writer->path, err) < 0)
        return -1;
    return dt_file_mkdirs(writer->temp, err);
}

/* A writer of <root>/<name>, malloc'ed texts that it takes. */
static struct dt_ckpt_writer *writer_create(char *root, const char *name,
                                            struct dt_error *err)
{
    struct dt_ckpt_writer *writer = calloc(1, sizeof(*writer));
    if (!writer || !root) {
        free(writer);
        free(root);
        dt_error_set(err, EX_OSERR, "%s: out of memory", name);
        return NULL;
    }
    writer->root = root;
    writer->path = dt_ckpt_format(err, "%s/%s", root, name);
    writer->temp = dt_ckpt_format(err, "%s/" TEMP_PREFIX "%s", root, name);
    writer->sums = dt_ckpt_format(err, "%s", "");
    if (writer->path && writer->temp && writer->sums)
        return writer;
    writer_free(writer);
    return NULL;
}

struct dt_ckpt_writer *dt_ckpt_begin(const char *root, long step,
                                     struct dt_error *err)
{
    char name[40];
    assert(step >= 0);
    snprintf(name, sizeof(name), STEP_PREFIX "%ld", step);
    struct dt_ckpt_writer *writer = writer_create(strdup(root), name, err);
    if (!writer)
        return NULL;
    writer->step = step;
    if (make_room(writer, err) == 0)
        return writer;
    writer_free(writer);
    return NULL;
}

struct dt_ckpt_writer *dt_ckpt_begin_dir(const char *path, bool replace,
                                         struct dt_error *err)
{
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/')
        n--;
    size_t slash = n;
    while (slash > 0 && path[slash - 1] != '/')
        slash--;
    char *name = dt_ckpt_format(err, "%.*s", (int)(n - slash), path + slash);
    char *root = slash > 0 ? strndup(path, slash) : strdup(".");
    struct dt_ckpt_writer *writer =
        name ? writer_create(root, name, err) : NULL;
    free(name);
    if (!writer)
        return NULL;
    writer->step = -1;
    writer->replace = replace;
    if (dt_file_mkdirs(writer->root, err) == 0 &&
        dt_file_remove_tree(writer->temp, err) == 0 &&
        dt_file_mkdirs(writer->temp, err) == 0)
        return writer;
    writer_free(writer);
    return NULL;
}

static int sync_dir(const char *path, struct dt_error *err)
{
    if (dt_fault("ckpt.fsync"))
        return dt_error_set(err, EX_IOERR, "%s: cannot sync directory: %s",
                            path, strerror(EIO));
    return dt_file_sync_dir(path, err);
}

/* With `replace`, what `to` names already becomes `from`. */
static int rename_path(const char *from, const char *to, bool replace,
                       struct dt_error *err)
{
    int bad = dt_fault("ckpt.rename") ? EIO : rename(from, to) < 0 ? errno : 0;
    if (replace && (bad == EEXIST || bad == ENOTEMPTY))
        bad = renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_EXCHANGE) < 0
                  ? errno
                  : 0;
    if (bad)
        return dt_error_set(err, EX_IOERR, "%s: cannot rename to %s: %s", from,
                            to, strerror(bad));
    return 0;
}

/* Points <root>/latest at the new checkpoint. */
static int replace_latest(const struct dt_ckpt_writer *writer,
                          struct dt_error *err)
{
    char *temp = dt_ckpt_format(err, "%s/" TEMP_LATEST, writer->root);
    char *latest = dt_ckpt_format(err, "%s/latest", writer->root);
    int rc = -1;
    if (temp && latest) {
        const char *target = strrchr(writer->path, '/') + 1;
        if (symlink(target, temp) < 0)
            dt_error_set(err, EX_IOERR, "%s: cannot create: %s", temp,
                         strerror(errno));
        else
            rc = rename_path(temp, latest, false, err);
        if (rc < 0)
            unlink(temp);
    }
    free(latest);
    free(temp);
    return rc < 0 ? -1 : sync_dir(writer->root, err);
}

static int remove_old(const char *root, const char *name, struct dt_error *err)
{
    char *path = dt_ckpt_format(err, "%s/%s", root, name);
    char *temp = dt_ckpt_format(err, "%s/" TEMP_PREFIX "%s", root, name);
    int rc = -1;
    if (path && temp && rename_path(path, temp, true, err) == 0)
        rc = dt_file_remove_tree(temp, err);
    free(temp);
    free(path);
    return rc;
}

static int prune(const struct dt_ckpt_writer *writer, int total_limit,
                 struct dt_error *err)
{
    struct dirent **entries;
    int n = dt_ckpt_list(writer->root, &entries, dt_ckpt_is_step, err);
    int rc = n < 0 ? -1 : 0;
    int excess = total_limit > 0 ? n - total_limit : 0;
    for (int i = n - 1; i >= 0 && excess > 0 && rc == 0; i--) {
        if (dt_ckpt_step_of(entries[i]->d_name) == writer->step)
            continue;
        rc = remove_old(writer->root, entries[i]->d_name, err);
        excess--;
    }
    dt_ckpt_free_list(entries, n);
    return rc;
}

/* Makes the temporary directory the one at path. */
static int publish(const struct dt_ckpt_writer *writer, bool replace,
                   struct dt_error *err)
{
    if (sync_dir(writer->temp, err) < 0 ||
        rename_path(writer->temp, writer->path, replace, err) < 0)
        return -1;
    return sync_dir(writer->root, err);
}

int dt_ckpt_commit(struct dt_ckpt_writer *writer, int total_limit,
                   struct dt_error *err)
{
    uint64_t xxh3;
    int rc = -1;
    if (writer->step < 0)
        rc = publish(writer, writer->replace, err);
    else if (dt_ckpt_write_text(writer, SUMS_NAME, writer->sums, &xxh3, err) ==
                 0 &&
             publish(writer, true, err) == 0 &&
             replace_latest(writer, err) == 0)
        rc = prune(writer, total_limit, err);
    dt_ckpt_abandon(writer);
    return rc;
}

void dt_ckpt_abandon(struct dt_ckpt_writer *writer)
{
    if (!writer)
        return;
    /* Best effort: what stays is removed by the next dt_ckpt_begin. */
    dt_file_remove_tree(writer->temp, NULL);
    writer_free(writer);
}
