/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store.h - where images come from, and where those of a data set are kept
 *
 * A row of data names an image by a path, or holds its bytes, plain or as a
 * data: URI. Rows are strangers' data: a path is opened only within the
 * directory that the user names, links included, and nothing is fetched from
 * the network.
 *
 * Preparing a data set puts the bytes into a store, a directory in which a file
 * is named by the SHA-256 of its content: ab/cdef... That makes a data set of
 * many copies small and its cache one place to read from, and bytes that are
 * read are those that were prepared, or an error. Files appear by a rename, so
 * any number of processes may put the same images at once.
 *
 * What only one process needs goes to a store without a directory: to a file in
 * TMPDIR that has no name, so that nothing is left of it, whatever ends the
 * process.
 */
#ifndef DT_IMAGE_STORE_H
#define DT_IMAGE_STORE_H

#include "base/sha256.h"
#include "image/image.h"

/* A file in memory; free() data. */
struct dt_image_file {
    uint8_t *data;
    size_t bytes;
};

/* Reads the image that `from` names: a path within the directory `root`, or a
 * data: URI of base64. root may be NULL if there is none: paths are refused.
 * -1: EX_NOINPUT, no such regular file; EX_DATAERR, a path that leads out of
 * root, a URL, not base64, more bytes than the limit; EX_CONFIG, no root;
 * EX_IOERR, EX_OSERR.
 */
int dt_image_fetch(struct dt_image_file *file, const char *from,
                   const char *root, const struct dt_image_limits *limits,
                   struct dt_error *err);

/* Reads an open regular file, and closes it. -1: EX_NOINPUT, EX_DATAERR,
 * EX_IOERR, EX_OSERR, with the path.
 */
int dt_image_read(struct dt_image_file *file, int fd, const char *path,
                  const struct dt_image_limits *limits, struct dt_error *err);

/* A store. */
struct dt_image_store {
    const char *dir; /* that is there; NULL: it has none, and: */
    struct dt_image_unnamed *unnamed; /* NULL before the first image */
};

/* Removes the images of a store without a directory; a zeroed one is fine. */
void dt_image_store_fini(struct dt_image_store *store);

/* Puts bytes into the store, unless it has them, and sets their name in it. Of
 * a store without a directory one thread at a time puts or gets. -1:
 * EX_CANTCREAT, EX_IOERR, EX_OSERR, with the path.
 */
int dt_image_store_put(struct dt_image_store *store, const void *data,
                       size_t bytes, char name[DT_SHA256_HEX],
                       struct dt_error *err);

/* Reads the bytes of this name. -1: EX_NOINPUT, they are not there; EX_DATAERR,
 * damaged, or no name; EX_IOERR, EX_OSERR.
 */
int dt_image_store_get(struct dt_image_file *file,
                       const struct dt_image_store *store, const char *name,
                       const struct dt_image_limits *limits,
                       struct dt_error *err);

#endif /* DT_IMAGE_STORE_H */
