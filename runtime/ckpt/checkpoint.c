/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint.c - writes directories that are either whole or absent */
#include "config.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include <xxhash.h>

#include "base/fault.h"
#include "base/file.h"
#include "ckpt/ckpt_impl.h"

static void writer_free(struct dt_ckpt_writer *writer)
{
    free(writer->root);
    free(writer->path);
    free(writer->temp);
    free(writer->sums);
    free(writer);
}

static int sync_dir(const char *path, struct dt_error *err)
{
    if (dt_fault("ckpt.fsync"))
        return dt_error_set(err, EX_IOERR, "%s: cannot sync directory: %s",
                            path, strerror(EIO));
    return dt_file_sync_dir(path, err);
}

/* --- begin --- */

/* Makes the empty directory writer->temp. */
static int make_temp(const struct dt_ckpt_writer *writer, struct dt_error *err)
{
    return dt_ckpt_clear(writer->root, writer->temp, err) < 0
               ? -1
               : dt_file_mkdirs(writer->temp, err);
}

int dt_ckpt_make_room(const struct dt_ckpt_writer *writer, struct dt_error *err)
{
    if (dt_file_mkdirs(writer->root, err) < 0)
        return -1;
    if (writer->rank == 0) /* the others may have made the new one already */
        dt_ckpt_tidy_beside(writer->root, strrchr(writer->temp, '/') + 1, NULL);
    return dt_file_mkdirs(writer->temp, err);
}

/* A writer of <root>/<name>, by way of TEMP_PREFIX and `temp`. Takes ownership
 * of the malloc'ed `root` (which may be NULL if memory is out) and copies the
 * names.
 */
static struct dt_ckpt_writer *writer_create(char *root, const char *name,
                                            const char *temp,
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
    writer->temp = dt_ckpt_format(err, "%s/" TEMP_PREFIX "%s", root, temp);
    writer->sums = dt_ckpt_format(err, "%s", "");
    if (writer->path && writer->temp && writer->sums)
        return writer;
    writer_free(writer);
    return NULL;
}

/* A writer of the checkpoint of `step`. */
static struct dt_ckpt_writer *step_writer(const char *root, long step,
                                          uint32_t nonce, struct dt_error *err)
{
    char name[40], temp[64];
    assert(step >= 0);
    snprintf(name, sizeof(name), STEP_PREFIX "%ld", step);
    snprintf(temp, sizeof(temp), "%s.%08" PRIx32, name, nonce);
    struct dt_ckpt_writer *writer =
        writer_create(strdup(root), name, temp, err);
    if (writer) {
        writer->step = step;
        writer->nonce = nonce;
    }
    return writer;
}

/* A random number; any other one would do where there is no entropy. */
static uint32_t draw(void)
{
    uint32_t number = (uint32_t)getpid();
    if (getrandom(&number, sizeof(number), GRND_NONBLOCK) < 0)
        number ^= (uint32_t)time(NULL);
    return number;
}

struct dt_ckpt_writer *dt_ckpt_begin(const char *root, long step,
                                     struct dt_error *err)
{
    struct dt_ckpt_writer *writer = step_writer(root, step, draw(), err);
    if (!writer)
        return NULL;
    if (dt_ckpt_make_room(writer, err) == 0)
        return writer;
    writer_free(writer);
    return NULL;
}

uint32_t dt_ckpt_nonce(const struct dt_ckpt_writer *writer)
{
    return writer->nonce;
}

struct dt_ckpt_writer *dt_ckpt_join(const char *root, long step, int rank,
                                    uint32_t nonce, struct dt_error *err)
{
    struct dt_ckpt_writer *writer = step_writer(root, step, nonce, err);
    if (!writer)
        return NULL;
    writer->rank = rank;
    if (access(writer->temp, W_OK) == 0)
        return writer;
    dt_error_set(err, EX_CANTCREAT,
                 "%s: rank 0 has created it, but this host cannot write to "
                 "it: %s; all ranks write checkpoints, so run.output_dir has "
                 "to be on a file system that all nodes share",
                 writer->temp, strerror(errno));
    writer_free(writer);
    return NULL;
}

struct dt_ckpt_writer *dt_ckpt_stage_begin(struct dt_ckpt_stage *stage,
                                           const char *root, long step,
                                           struct dt_error *err)
{
    return dt_ckpt_stage_join(stage, root, step, 0, draw(), err);
}

struct dt_ckpt_writer *dt_ckpt_stage_join(struct dt_ckpt_stage *stage,
                                          const char *root, long step, int rank,
                                          uint32_t nonce, struct dt_error *err)
{
    struct dt_ckpt_writer *writer = step_writer(root, step, nonce, err);
    if (!writer)
        return NULL;
    dt_ckpt_stage_clear(stage);
    writer->stage = stage;
    writer->rank = rank;
    return writer;
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
    if (!name)
        return NULL;
    struct dt_ckpt_writer *writer = writer_create(
        slash > 0 ? strndup(path, slash > 1 ? slash - 1 : 1) : strdup("."),
        name, name, err);
    free(name);
    if (!writer)
        return NULL;
    writer->step = -1;
    writer->replace = replace;
    if (dt_file_mkdirs(writer->root, err) == 0 && make_temp(writer, err) == 0)
        return writer;
    writer_free(writer);
    return NULL;
}

/* --- folders --- */

const char *dt_ckpt_folder(const struct dt_ckpt_writer *writer)
{
    return writer->folder;
}

int dt_ckpt_enter(struct dt_ckpt_writer *writer, const char *folder,
                  struct dt_error *err)
{
    size_t left = strlen(writer->folder);
    assert(strlen(folder) + 2 <= sizeof(writer->folder));
    if (writer->stage) {
        snprintf(writer->folder, sizeof(writer->folder), "%s%s", folder,
                 *folder ? "/" : "");
        return 0;
    }
    char *path = dt_ckpt_format(err, "%s/%.*s", writer->temp,
                                left > 0 ? (int)left - 1 : 0, writer->folder);
    int rc = path && left > 0 ? sync_dir(path, err) : path ? 0 : -1;
    free(path);
    snprintf(writer->folder, sizeof(writer->folder), "%s%s", folder,
             *folder ? "/" : "");
    if (rc < 0 || !*folder)
        return rc;
    path = dt_ckpt_format(err, "%s/%s", writer->temp, folder);
    rc = path ? dt_file_mkdirs(path, err) : -1;
    free(path);
    return rc;
}

/* --- end --- */

/* Makes a link to `target`, and replaces an entry at `path`. */
static int make_link(const char *target, const char *path, struct dt_error *err)
{
    if (dt_file_remove(path, err) < 0)
        return -1;
    return symlink(target, path) < 0
               ? dt_error_set(err, EX_IOERR, "%s: cannot create: %s", path,
                              strerror(errno))
               : 0;
}

/* Creates the link to `path` that rename_latest turns into <root>/latest, in
 * place of one that dt_ckpt_tidy could not bring there.
 */
static int link_latest(const char *root, const char *path, struct dt_error *err)
{
    char *temp = dt_ckpt_format(err, "%s/" TEMP_LATEST, root);
    int rc = temp ? make_link(strrchr(path, '/') + 1, temp, err) : -1;
    free(temp);
    return rc;
}

static int rename_latest(const char *root, struct dt_error *err)
{
    char *temp = dt_ckpt_format(err, "%s/" TEMP_LATEST, root);
    char *latest = dt_ckpt_format(err, "%s/latest", root);
    int rc = temp && latest ? dt_ckpt_rename(temp, latest, err) : -1;
    free(latest);
    free(temp);
    return rc < 0 ? -1 : sync_dir(root, err);
}

int dt_ckpt_set_latest(const char *root, const char *path, struct dt_error *err)
{
    return link_latest(root, path, err) < 0 ? -1 : rename_latest(root, err);
}

int dt_ckpt_retreat(const char *root, long step, char **path,
                    struct dt_error *err)
{
    if (dt_ckpt_find_below(root, step, path, err) < 0)
        return -1;
    if (!*path || dt_ckpt_set_latest(root, *path, err) == 0)
        return 0;
    free(*path);
    *path = NULL;
    return -1;
}

static int publish_dir(struct dt_ckpt_writer *writer, bool replace,
                       struct dt_error *err)
{
    if (sync_dir(writer->temp, err) < 0 ||
        (replace ? dt_ckpt_replace(writer->temp, writer->path, err)
                 : dt_ckpt_rename(writer->temp, writer->path, err)) < 0)
        return -1;
    writer->in_place = true;
    return sync_dir(writer->root, err);
}

/* Publishes a checkpoint, then `latest`. If there is no checkpoint of this step
 * yet, the temporary link is created first: if the save is interrupted between
 * the two renames, or the second one fails, that link still says which
 * checkpoint was saved last.
 */
static int publish_step(struct dt_ckpt_writer *writer, struct dt_error *err)
{
    const char *root = writer->root, *path = writer->path;
    bool first = access(path, F_OK) < 0 && errno == ENOENT;
    if ((first && link_latest(root, path, err) < 0) ||
        publish_dir(writer, true, err) < 0 ||
        (!first && link_latest(root, path, err) < 0))
        return -1;
    return rename_latest(root, err);
}

static int write_sums(struct dt_ckpt_writer *writer, struct dt_error *err)
{
    uint64_t xxh3 = XXH3_64bits(writer->sums, strlen(writer->sums));
    char *text = dt_ckpt_format(err, "%s" SUMS_SEAL "%016" PRIx64 "\n",
                                writer->sums, xxh3);
    int rc =
        text ? dt_ckpt_write_text(writer, SUMS_NAME, text, &xxh3, err) : -1;
    free(text);
    return rc;
}

const char *dt_ckpt_sums(const struct dt_ckpt_writer *writer)
{
    return writer->sums;
}

int dt_ckpt_merge(struct dt_ckpt_writer *writer, const char *sums,
                  struct dt_error *err)
{
    if (dt_ckpt_each_sum(writer->temp, sums, dt_ckpt_is_there, writer->temp,
                         err) < 0)
        return -1;
    char *all = dt_ckpt_format(err, "%s%s", writer->sums, sums);
    if (!all)
        return -1;
    free(writer->sums);
    writer->sums = all;
    return 0;
}

int dt_ckpt_commit(struct dt_ckpt_writer *writer, struct dt_error *err)
{
    int rc = dt_ckpt_enter(writer, "", err);
    if (rc == 0 && writer->step < 0)
        rc = publish_dir(writer, writer->replace, err);
    else if (rc == 0 && (rc = write_sums(writer, err)) == 0)
        rc = publish_step(writer, err);
    dt_ckpt_abandon(writer);
    return rc;
}

void dt_ckpt_abandon(struct dt_ckpt_writer *writer)
{
    if (!writer)
        return;
    /* Best effort: the next dt_ckpt_begin removes the rest. */
    if (writer->rank == 0 && !writer->stage) {
        char *link = dt_ckpt_format(NULL, "%s/" TEMP_LATEST, writer->root);
        if (link && writer->step >= 0 && !writer->in_place)
            unlink(link);
        free(link);
        dt_file_remove(writer->temp, NULL);
    }
    writer_free(writer);
}

int dt_ckpt_set_best(const char *root, long step, struct dt_error *err)
{
    char *link = dt_ckpt_format(err, "%s/best", root);
    char *temp = dt_ckpt_format(err, "%s/" TEMP_PREFIX "best", root);
    char *name = dt_ckpt_format(err, STEP_PREFIX "%ld", step);
    int rc = -1;
    if (link && temp && name)
        rc = step < 0 ? dt_file_remove(link, err) : make_link(name, temp, err);
    if (rc == 0 && step >= 0)
        rc = dt_ckpt_rename(temp, link, err);
    free(name);
    free(temp);
    free(link);
    return rc;
}
