/* SPDX-License-Identifier: Apache-2.0 */
/*
 * row_images.h - the images of a line: which it has, and their sizes
 *
 * A line names an image by a path or a data: URI, or has {"bytes": .., "path":
 * ..} as the Image feature of data sets, whose bytes win. Readers of tables
 * keep bytes of columns in the store and write {"image": "sha256:.."} in their
 * place. The file goes to the store, and its header says how many tokens it
 * becomes; pixels are not decoded here.
 */
#ifndef DT_DATA_ROW_IMAGES_H
#define DT_DATA_ROW_IMAGES_H

#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>

#include "base/error.h"
#include "data/example.h"
#include "data/forms/forms.h"
#include "image/processor.h"

/* The images in the columns `images` and `image` of a line, in an array of
 * values; release with json_decref. NULL and err: EX_DATAERR, it has both;
 * EX_OSERR.
 */
json_t *dt_row_images_listed(const json_t *line, struct dt_error *err);

/* Refuses the columns of a line that nothing would read: images of a model that
 * `sees` none, and videos and sounds. -1: EX_DATAERR.
 */
int dt_row_images_refuse(const json_t *line, bool sees, struct dt_error *err);

/* Images of a line, in the order of their placeholders. Starts zeroed and may
 * be reused.
 */
struct dt_row_images {
    struct dt_example_image *images; /* [count], `first` is not set */
    struct dt_image_plan *plans;     /* [count] */
    size_t count, capacity;
};
void dt_row_images_fini(struct dt_row_images *row); /* a zeroed one is fine */

/* Puts the files of values into the store, and plans them. -1 with the number
 * of the image: EX_NOINPUT, it is missing, not an image that is read, or beyond
 * a limit; EX_CONFIG, a path, and there is no root; EX_CANTCREAT, EX_IOERR,
 * EX_OSERR.
 */
int dt_row_images_read(struct dt_row_images *row, const json_t *values,
                       const struct dt_example_images *options,
                       struct dt_error *err);

/* Names values, whose images were read to `images` (as many): [{"sha256": of
 * the file in the store, "path": if the line names one}, ..]; release with
 * json_decref. NULL: out of memory.
 */
json_t *dt_row_images_names(const json_t *values,
                            const struct dt_example_image *images);

/* Keeps bytes of columns in the store of options (struct dt_example_images). */
struct dt_lines_keep dt_row_images_keep(
    const struct dt_example_images *options);

#endif /* DT_DATA_ROW_IMAGES_H */
