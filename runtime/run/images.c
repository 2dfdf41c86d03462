/* SPDX-License-Identifier: Apache-2.0 */
/* images.c - the processor of a run's model, and where its images are */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "data/image_text.h"
#include "rollout/sight.h"
#include "run/composed.h"
#include "run/images.h"

enum { MANY_TOKENS = 1 << 20 };

/* The store is where the caches of tokens are: in data.cache_dir, or next to
 * the first file.
 */
static int name_store(struct dt_run_images *images, const struct dt_conf *conf,
                      struct dt_error *err)
{
    const char *first = conf->data.train.text[0];
    const char *slash = strrchr(first, '/');
    const int dir = slash ? (int)(slash + 1 - first) : 0;
    const size_t room = sizeof(images->store_dir);
    int n = conf->data.cache_dir
                ? snprintf(images->store_dir, room, "%s/images",
                           conf->data.cache_dir)
                : snprintf(images->store_dir, room,
                           "%.*s.disttrain-cache/images", dir, first);
    return n < (int)room
               ? 0
               : dt_error_set(err, EX_CONFIG, "%s: path too long", first);
}

/* Those of the directory that says how the run's model sees images, or of one
 * that is still to be made. *dir: the one to name.
 */
static int read_files(struct dt_image_files *files, const struct dt_conf *conf,
                      const char **dir, struct dt_error *err)
{
    const char *base =
        conf->model.path ? conf->model.path : conf->model.config_path;
    const char *adapter = conf->adapter.path;
    *files = (struct dt_image_files){0};
    *dir = adapter ? dt_sight_dir(adapter, base) : base;
    const int needed = *dir == base ? dt_run_needs_model(conf, err) : 0;
    if (needed <= 0)
        return needed < 0 ? -1 : dt_image_files_read(files, *dir, err);
    const struct dt_compose compose = dt_run_compose(conf);
    struct dt_composed composed;
    const int rc = dt_compose_read(&composed, &compose, err);
    if (rc == 0) {
        *files = (struct dt_image_files){composed.image, composed.processor};
        composed.image = composed.processor = NULL;
        *dir = conf->model.vision;
    }
    dt_composed_fini(&composed);
    return rc;
}

/* What the keys of the configuration ask of a processor. */
static struct dt_image_options options_of(const struct dt_conf *conf,
                                          const struct dt_vision_config *vision)
{
    struct dt_image_options options = {
        .backend = conf->data.image_backend == DT_CONF_IMAGE_PILLOW
                       ? DT_IMAGE_PILLOW
                       : DT_IMAGE_TORCHVISION,
        .limits = &dt_image_limits_usual,
        .min_pixels = (uint64_t)conf->data.image_min_pixels,
        .max_pixels = (uint64_t)conf->data.image_max_pixels,
        .pad = conf->data.image_pad == DT_CONF_AUTO_CHOICE
                   ? -1
                   : conf->data.image_pad,
    };
    dt_sight_ask(&options, vision);
    return options;
}

/* Reads the processor as the keys of the configuration say, and its files, with
 * what they change of it.
 */
static int load_processor(struct dt_run_images *images,
                          const struct dt_conf *conf,
                          const struct dt_vision_config *vision,
                          struct dt_error *err)
{
    struct dt_image_processor *processor = &images->processor;
    struct dt_image_files *files = &images->files;
    const char *dir;
    const struct dt_image_options options = options_of(conf, vision);
    if (read_files(files, conf, &dir, err) < 0)
        return -1;
    if (dt_image_processor_parse(processor, dir, files, &options, err) == 0 &&
        dt_sight_check(processor, vision, dir, err) == 0 &&
        dt_image_files_change(files, dir, processor, err) == 0)
        return 0;
    dt_image_files_fini(files);
    return -1;
}

/* A key that asks for what only a model with a tower does, or NULL. A file may
 * give defaults: those that a run has resolved do.
 */
static const char *asks_for_tower(const struct dt_conf *conf)
{
    const struct {
        const char *key;
        bool asks;
    } keys[] = {
        {"model.stage", conf->model.stage == DT_CONF_STAGE_PRETRAIN},
        {"model.train_language", conf->model.train_language == DT_CONF_FALSE},
        {"model.train_vision", conf->model.train_vision},
        {"model.train_projector", conf->model.train_projector == DT_CONF_TRUE},
        {"optimizer.vision_lr", conf->optimizer.vision_lr > 0},
        {"optimizer.projector_lr", conf->optimizer.projector_lr > 0},
        {"data.train_on_image_tokens", conf->data.train_on_image_tokens},
        {"data.image_root", conf->data.image_root},
        {"data.image_errors", conf->data.image_errors != DT_CONF_IMAGE_FAIL},
        {"data.image_min_pixels", conf->data.image_min_pixels > 0},
        {"data.image_max_pixels", conf->data.image_max_pixels > 0},
        {"data.image_backend",
         conf->data.image_backend != DT_CONF_IMAGE_TORCHVISION},
        {"data.image_pad", conf->data.image_pad != DT_CONF_AUTO_CHOICE},
    };
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        if (keys[i].asks)
            return keys[i].key;
    return NULL;
}

/* Checks keys against the sizes of images that the tower sees. */
static int check_sizes(const struct dt_conf *conf,
                       const struct dt_model_config *config, const char **key,
                       struct dt_error *err)
{
    const struct dt_vision_config *vision = config->vision;
    const bool pads = conf->data.image_pad == DT_CONF_TRUE;
    const size_t side = vision->grid * vision->patch;
    *key = conf->data.image_max_pixels > 0 ? "data.image_max_pixels"
                                           : "data.image_min_pixels";
    if (side > 0 && conf->data.image_max_pixels + conf->data.image_min_pixels)
        return dt_error_set(err, EX_CONFIG,
                            "pictures of this model (%s) have one size, %zu x "
                            "%zu pixels: remove it",
                            dt_model_type(config), side, side);
    *key = "data.image_pad";
    return side > 0 || !pads
               ? 0
               : dt_error_set(err, EX_CONFIG,
                              "images of this model (%s) keep their shape, and "
                              "are not padded: remove it",
                              dt_model_type(config));
}

/* Checks the keys of images and parts against the model. -1: *key is the one to
 * name, NULL if it is that of the model.
 */
static int check_keys(const struct dt_conf *conf,
                      const struct dt_model_config *config, const char **key,
                      struct dt_error *err)
{
    if (!config->vision) {
        *key = asks_for_tower(conf);
        return !*key ? 0
                     : dt_error_set(err, EX_CONFIG,
                                    "the model (%s) sees only text: remove it, "
                                    "or train a model with a vision tower",
                                    dt_model_type(config));
    }
    return check_sizes(conf, config, key, err);
}

int dt_run_images_fit(const struct dt_conf *conf,
                      const struct dt_model_config *config, const char **key,
                      struct dt_error *err)
{
    struct dt_run_images images;
    if (check_keys(conf, config, key, err) < 0)
        return -1;
    *key = NULL;
    if (!config->vision)
        return 0;
    if (load_processor(&images, conf, config->vision, err) < 0)
        return -1;
    dt_image_files_fini(&images.files);
    return 0;
}

int dt_run_images_init(struct dt_run_images *images, const struct dt_conf *conf,
                       const struct dt_model_config *config,
                       struct dt_error *err)
{
    struct dt_error own;
    const char *key;
    *images = (struct dt_run_images){.there = config->vision};
    if (check_keys(conf, config, &key, &own) < 0)
        return dt_conf_error_set(conf, key, err, "%s", own.text);
    if (!images->there)
        return 0;
    if (load_processor(images, conf, config->vision, err) < 0 ||
        name_store(images, conf, err) < 0)
        return -1;
    images->store.dir = images->store_dir;
    images->colors = dt_image_table(&images->processor);
    size_t patches, pictures;
    dt_run_images_bound(config, MANY_TOKENS, &patches, &pictures);
    images->patches = (double)patches / MANY_TOKENS;
    images->pictures = (double)pictures / MANY_TOKENS;
    images->options = (struct dt_example_images){
        .processor = &images->processor,
        .text = dt_image_text_find(dt_model_type(config)),
        .root = conf->data.image_root,
        .store = &images->store,
        .drop = conf->data.image_errors == DT_CONF_IMAGE_DROP,
        .train_on_image_tokens = conf->data.train_on_image_tokens,
    };
    return 0;
}

void dt_run_images_fini(struct dt_run_images *images)
{
    dt_image_files_fini(&images->files);
}

int dt_run_images_same(const struct dt_run_images *images,
                       const struct dt_conf *conf,
                       const struct dt_model_config *config, const char *dir,
                       struct dt_error *err)
{
    struct dt_image_processor other;
    if (images->there != (config->vision != NULL))
        return dt_error_set(err, EX_CONFIG, "%s: sees %s, and the model %s",
                            dir, config->vision ? "images" : "only text",
                            config->vision ? "only text" : "images");
    if (!images->there)
        return 0;
    const struct dt_image_options options = options_of(conf, config->vision);
    if (dt_image_processor_load(&other, dir, &options, err) < 0)
        return -1;
    return dt_image_processor_hash(&images->processor) ==
                   dt_image_processor_hash(&other)
               ? 0
               : dt_error_set(err, EX_CONFIG,
                              "%s: its image processor makes other pictures "
                              "than the model's",
                              dir);
}

int dt_run_images_make_store(const struct dt_run_images *images,
                             struct dt_error *err)
{
    return images->there ? dt_file_mkdirs(images->store_dir, err) : 0;
}

const char *dt_run_images_text(const struct dt_run_images *images,
                               char text[DT_IMAGES_TEXT])
{
    const struct dt_image_processor *p = &images->processor;
    const uint32_t step = p->patch * p->merge;
    int n = 0;
    switch (p->kind) {
    case DT_IMAGE_FIXED:
        n = snprintf(text, DT_IMAGES_TEXT, "%u x %u", p->height, p->width);
        break;
    case DT_IMAGE_SHORTEST:
        n = snprintf(text, DT_IMAGES_TEXT,
                     "the shorter side %u, the center %u x %u", p->height,
                     p->crop_height, p->crop_width);
        break;
    case DT_IMAGE_PIXELS:
        n = snprintf(text, DT_IMAGES_TEXT,
                     "multiples of %u x %u, %" PRIu64 " to %" PRIu64 " pixels",
                     step, step, p->min_pixels, p->max_pixels);
        break;
    case DT_IMAGE_TILES:
        n = snprintf(text, DT_IMAGES_TEXT, "the longer side %u, tiles %u x %u",
                     p->longest, p->tile, p->tile);
        break;
    }
    snprintf(text + n, DT_IMAGES_TEXT - (size_t)n, "%s, resized as %s does",
             p->pad ? ", padded to a square" : "",
             p->backend == DT_IMAGE_PILLOW ? "Pillow" : "torchvision");
    return text;
}

void dt_run_images_bound(const struct dt_model_config *config, size_t tokens,
                         size_t *patches, size_t *pictures)
{
    const struct dt_vision_config *v = config->vision;
    const size_t grid = v->grid > 0 ? v->grid : v->merge;
    *pictures = tokens / dt_vision_features(v, grid, grid);
    *patches = *pictures * grid * grid;
}
