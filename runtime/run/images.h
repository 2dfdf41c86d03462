/* SPDX-License-Identifier: Apache-2.0 */
/* images.h - how a run reads images, if its model has a tower */
#ifndef DT_RUN_IMAGES_H
#define DT_RUN_IMAGES_H

#include <limits.h>

#include "conf/conf.h"
#include "data/example.h"
#include "image/processor.h"
#include "image/store.h"
#include "model/model.h"

struct dt_run_images {
    bool there; /* the model has a tower; else nothing else is set */
    struct dt_image_processor processor;
    struct dt_image_files files; /* that say so, for checkpoints: the model's
                                    may go while the run goes on */
    struct dt_image_table colors;
    double patches, pictures; /* of a token on average: of the data, or before
                                 they are known the most there can be */
    bool counted;             /* they are known */
    char store_dir[PATH_MAX]; /* of the files that lines name */
    struct dt_image_store store;
    struct dt_example_images options;
};

/* Reads the processor in the directory of the model, whose config this is, and
 * the keys of the configuration. It points into itself, and so do copies.
 * Release with dt_run_images_fini. -1: EX_CONFIG, a key does not fit; errors of
 * dt_image_processor_load.
 */
int dt_run_images_init(struct dt_run_images *images, const struct dt_conf *conf,
                       const struct dt_model_config *config,
                       struct dt_error *err);
void dt_run_images_fini(struct dt_run_images *images);

/* Checks what dt_run_images_init does, for `disttrain check`. -1: *key is the
 * one that does not fit, or NULL, and the text begins with a file; errors as
 * there.
 */
int dt_run_images_fit(const struct dt_conf *conf,
                      const struct dt_model_config *config, const char **key,
                      struct dt_error *err);

/* Checks that a second model, in `dir` and of this config, sees the pictures
 * that the model of `images` sees. -1: EX_CONFIG; errors of
 * dt_image_processor_load.
 */
int dt_run_images_same(const struct dt_run_images *images,
                       const struct dt_conf *conf,
                       const struct dt_model_config *config, const char *dir,
                       struct dt_error *err);

/* Makes the directory of the store. -1: EX_CANTCREAT. */
int dt_run_images_make_store(const struct dt_run_images *images,
                             struct dt_error *err);

enum { DT_IMAGES_TEXT = 160 };

/* Writes what becomes of an image: "the shorter side 336, the center 336 x 336,
 * resized as torchvision does". Returns text.
 */
const char *dt_run_images_text(const struct dt_run_images *images,
                               char text[DT_IMAGES_TEXT]);

/* Bounds of the pictures of a batch of so many tokens, whatever the data are.
 */
void dt_run_images_bound(const struct dt_model_config *config, size_t tokens,
                         size_t *patches, size_t *pictures);

#endif /* DT_RUN_IMAGES_H */
