/* SPDX-License-Identifier: Apache-2.0 */
/* store.c - keeps images under the hash of their bytes */
#include "config.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/file.h"
#include "image/store_impl.h"

int dt_image_read(struct dt_image_file *file, int fd, const char *path,
                  const struct dt_image_limits *limits, struct dt_error *err)
{
    struct stat st;
    int bad, rc = -1;
    *file = (struct dt_image_file){0};
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        dt_error_set(err, EX_NOINPUT, "%s: not a regular file", path);
    else if ((uint64_t)st.st_size > limits->bytes)
        dt_error_set(err, EX_DATAERR,
                     "%s: an image of %llu bytes: at most %zu are read", path,
                     (unsigned long long)st.st_size, limits->bytes);
    else if (!(file->data = malloc((size_t)st.st_size + 1)))
        dt_error_set(err, EX_OSERR, "%s: out of memory", path);
    else if ((bad = dt_file_fill(fd, file->data, (size_t)st.st_size,
                                 &file->bytes))) /* fewer, if cut meanwhile */
        dt_error_set(err, EX_IOERR, "%s: cannot read: %s", path, strerror(bad));
    else
        rc = 0;
    close(fd);
    if (rc < 0) {
        free(file->data);
        *file = (struct dt_image_file){0};
    }
    return rc;
}

/* The path of `name`; a folder for its first two digits keeps folders small. */
static int store_path(char path[PATH_MAX], const char *dir, const char *name,
                      struct dt_error *err)
{
    static const char digits[] = "0123456789abcdef";
    if (strlen(name) != DT_SHA256_HEX - 1 ||
        strspn(name, digits) != DT_SHA256_HEX - 1)
        return dt_error_set(err, EX_DATAERR,
                            "%s: an image without a name of 64 digits", dir);
    if (snprintf(path, PATH_MAX, "%s/%.2s/%s", dir, name, name + 2) >= PATH_MAX)
        return dt_error_set(err, EX_CANTCREAT, "%s: the path is too long", dir);
    return 0;
}

/* Readable by all who may enter the store. */
enum { MODE = 0444 };

static int write_file(const char *path, const void *data, size_t bytes,
                      struct dt_error *err)
{
    char temporary[PATH_MAX];
    int fd = -1, bad = ENAMETOOLONG;
    if (snprintf(temporary, PATH_MAX, "%s.XXXXXX", path) < PATH_MAX &&
        (fd = mkstemp(temporary)) < 0)
        bad = errno;
    if (fd < 0)
        return dt_error_set(err, EX_CANTCREAT, "%s: cannot create: %s",
                            temporary, strerror(bad));
    bad = dt_fault("image.write") ? ENOSPC : dt_file_write(fd, data, bytes);
    if (!bad && fchmod(fd, MODE) < 0)
        bad = errno;
    if (close(fd) < 0 && !bad)
        bad = errno;
    if (!bad && rename(temporary, path) < 0)
        bad = errno;
    if (!bad)
        return 0;
    unlink(temporary);
    return dt_error_set(err, EX_IOERR, "%s: cannot write: %s", temporary,
                        strerror(bad));
}

static int put_in(const char *dir, const void *data, size_t bytes,
                  const char *name, struct dt_error *err)
{
    char path[PATH_MAX];
    struct stat st;
    if (store_path(path, dir, name, err) < 0)
        return -1;
    /* a file of another size was damaged since, and is written again */
    if (stat(path, &st) == 0 && (size_t)st.st_size == bytes)
        return 0;
    char *slash = strrchr(path, '/');
    *slash = '\0';
    if (mkdir(path, 0777) < 0 && errno != EEXIST)
        return dt_error_set(err, EX_CANTCREAT, "%s: cannot create: %s", path,
                            strerror(errno));
    *slash = '/';
    return write_file(path, data, bytes, err);
}

static int get_from(struct dt_image_file *file, const char *dir,
                    const char *name, const struct dt_image_limits *limits,
                    struct dt_error *err)
{
    char path[PATH_MAX], found[DT_SHA256_HEX];
    if (store_path(path, dir, name, err) < 0)
        return -1;
    const int fd = dt_file_open(path, err);
    if (fd < 0 || dt_image_read(file, fd, path, limits, err) < 0)
        return -1;
    dt_sha256_hex(file->data, file->bytes, found);
    if (strcmp(found, name) == 0)
        return 0;
    free(file->data);
    *file = (struct dt_image_file){0};
    return dt_error_set(err, EX_DATAERR,
                        "%s: damaged: its bytes are not those of its name; "
                        "remove it and prepare the data again",
                        path);
}

void dt_image_store_fini(struct dt_image_store *store)
{
    dt_image_unnamed_destroy(store->unnamed);
    store->unnamed = NULL;
}

int dt_image_store_put(struct dt_image_store *store, const void *data,
                       size_t bytes, char name[DT_SHA256_HEX],
                       struct dt_error *err)
{
    dt_sha256_hex(data, bytes, name);
    return store->dir
               ? put_in(store->dir, data, bytes, name, err)
               : dt_image_unnamed_put(&store->unnamed, data, bytes, name, err);
}

int dt_image_store_get(struct dt_image_file *file,
                       const struct dt_image_store *store, const char *name,
                       const struct dt_image_limits *limits,
                       struct dt_error *err)
{
    *file = (struct dt_image_file){0};
    return store->dir ? get_from(file, store->dir, name, limits, err)
                      : dt_image_unnamed_get(file, store->unnamed, name, err);
}
