/* SPDX-License-Identifier: Apache-2.0 */
/* store_impl.h - stores without a directory (private to image/) */
#ifndef DT_IMAGE_STORE_IMPL_H
#define DT_IMAGE_STORE_IMPL_H

#include "image/store.h"

/* As dt_image_store_put and dt_image_store_get, of a store without a directory;
 * `name` is that of the bytes. The first image creates *unnamed. Destroying it
 * removes all images; NULL is fine.
 */
int dt_image_unnamed_put(struct dt_image_unnamed **unnamed, const void *data,
                         size_t bytes, const char *name, struct dt_error *err);
int dt_image_unnamed_get(struct dt_image_file *file,
                         const struct dt_image_unnamed *unnamed,
                         const char *name, struct dt_error *err);
void dt_image_unnamed_destroy(struct dt_image_unnamed *unnamed);

#endif /* DT_IMAGE_STORE_IMPL_H */
