/* SPDX-License-Identifier: Apache-2.0 */
/* store_unnamed.c - keeps images in a file without a name */
#include "config.h"

#include <errno.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/file.h"
#include "image/store_impl.h"

struct dt_image_unnamed {
    int fd;
    off_t end;
    void *kept; /* tsearch's tree of these: */
};

struct kept {
    char name[DT_SHA256_HEX]; /* first: what they are compared by */
    off_t at;
    size_t bytes;
};

static int compare(const void *a, const void *b)
{
    return memcmp(a, b, DT_SHA256_HEX);
}

static struct dt_image_unnamed *create(struct dt_error *err)
{
    const char *temporary = getenv("TMPDIR");
    const char *dir = temporary ? temporary : "/tmp";
    struct dt_image_unnamed *unnamed = calloc(1, sizeof(*unnamed));
    if (!unnamed) {
        dt_error_set(err, EX_OSERR, "out of memory");
        return NULL;
    }
    unnamed->fd = dt_file_unnamed(dir);
    if (unnamed->fd >= 0)
        return unnamed;
    dt_error_set(err, EX_CANTCREAT,
                 "%s: cannot create a file for images: %s: let TMPDIR name a "
                 "directory that can be written",
                 dir, strerror(errno));
    free(unnamed);
    return NULL;
}

void dt_image_unnamed_destroy(struct dt_image_unnamed *unnamed)
{
    if (!unnamed)
        return;
    tdestroy(unnamed->kept, free);
    close(unnamed->fd);
    free(unnamed);
}

/* Writes bytes behind the others, and remembers where they are. */
static int append(struct dt_image_unnamed *unnamed, const void *data,
                  size_t bytes, const char *name, struct dt_error *err)
{
    struct kept *kept = malloc(sizeof(*kept));
    if (!kept)
        return dt_error_set(err, EX_OSERR, "out of memory");
    memcpy(kept->name, name, sizeof(kept->name));
    kept->at = unnamed->end;
    kept->bytes = bytes;
    int bad = dt_fault("image.write") ? ENOSPC : 0;
    if (!bad && lseek(unnamed->fd, kept->at, SEEK_SET) < 0)
        bad = errno;
    if (!bad)
        bad = dt_file_write(unnamed->fd, data, bytes);
    if (!bad && tsearch(kept, &unnamed->kept, compare)) {
        unnamed->end += (off_t)bytes;
        return 0;
    }
    free(kept);
    return bad ? dt_error_set(err, EX_IOERR,
                              "TMPDIR: cannot write an image there: %s",
                              strerror(bad))
               : dt_error_set(err, EX_OSERR, "out of memory");
}

/* The place of an image; NULL: there is none of this name. */
static const struct kept *find(const struct dt_image_unnamed *unnamed,
                               const char *name)
{
    struct kept *const *found = unnamed && strlen(name) == DT_SHA256_HEX - 1
                                    ? tfind(name, &unnamed->kept, compare)
                                    : NULL;
    return found ? *found : NULL;
}

int dt_image_unnamed_put(struct dt_image_unnamed **unnamed, const void *data,
                         size_t bytes, const char *name, struct dt_error *err)
{
    if (!*unnamed && !(*unnamed = create(err)))
        return -1;
    return find(*unnamed, name) ? 0 : append(*unnamed, data, bytes, name, err);
}

int dt_image_unnamed_get(struct dt_image_file *file,
                         const struct dt_image_unnamed *unnamed,
                         const char *name, struct dt_error *err)
{
    const struct kept *kept = find(unnamed, name);
    if (!kept)
        return dt_error_set(err, EX_NOINPUT, "there is no image %s", name);
    uint8_t *data = malloc(kept->bytes + 1);
    if (!data)
        return dt_error_set(err, EX_OSERR, "out of memory");
    int bad = lseek(unnamed->fd, kept->at, SEEK_SET) < 0
                  ? errno
                  : dt_file_fill(unnamed->fd, data, kept->bytes, &file->bytes);
    if (!bad && file->bytes == kept->bytes) {
        file->data = data;
        return 0;
    }
    free(data);
    *file = (struct dt_image_file){0};
    return dt_error_set(err, EX_IOERR, "TMPDIR: cannot read image %s: %s", name,
                        bad ? strerror(bad) : "it was cut short");
}
