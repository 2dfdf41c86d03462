/* SPDX-License-Identifier: Apache-2.0 */
/*
 * image_rules.c - rules of models of images and text: parts that are trained,
 * their learning rates, sizes of images
 *
 * Whether the model has a tower is known when its config.json is read
 * (run/images.h).
 */
#include "config.h"

#include "conf/keys/draft.h"

#define VISION_LR "optimizer.vision_lr"
#define PROJECTOR_LR "optimizer.projector_lr"

static bool trains_language(const struct dt_conf *conf)
{
    return conf->model.train_language == DT_CONF_AUTO_CHOICE
               ? conf->model.stage != DT_CONF_STAGE_PRETRAIN
               : conf->model.train_language;
}

/* The key that says that the language model is frozen. */
static const char *freezing_key(const struct dt_conf *conf)
{
    return conf->model.train_language == DT_CONF_AUTO_CHOICE
               ? "model.stage"
               : "model.train_language";
}

/* Checks the parts of a run that trains weights of the model itself. */
static void check_parts(struct dt_conf_draft *draft)
{
    const struct dt_conf *conf = draft->conf;
    const bool projects = conf->model.train_projector != DT_CONF_FALSE;
    if (!trains_language(conf) && !projects && !conf->model.train_vision)
        PROBLEM(draft, freezing_key(conf),
                "nothing is trained: model.train_vision, train_projector and "
                "train_language are all false");
    if (conf->optimizer.vision_lr > 0 && !conf->model.train_vision)
        PROBLEM(draft, VISION_LR,
                "the vision tower is frozen: write model.train_vision: true, "
                "or remove it");
    if (conf->optimizer.projector_lr > 0 && !projects)
        PROBLEM(draft, PROJECTOR_LR,
                "the projector is frozen by model.train_projector: remove one "
                "of them");
}

/* Checks those of a run that trains an adapter. */
static void check_adapter(struct dt_conf_draft *draft)
{
    static const char text[] = "an adapter has one learning rate, "
                               "optimizer.lr: remove it";
    const struct dt_conf *conf = draft->conf;
    if (!trains_language(conf))
        PROBLEM(draft, freezing_key(conf),
                "an adapter is of the language model: train the projector "
                "without one");
    if (conf->optimizer.vision_lr > 0)
        PROBLEM(draft, VISION_LR, "%s", text);
    if (conf->optimizer.projector_lr > 0)
        PROBLEM(draft, PROJECTOR_LR, "%s", text);
}

void dt_conf_check_images(struct dt_conf_draft *draft)
{
    const struct dt_conf *conf = draft->conf;
    const long least = conf->data.image_min_pixels;
    const long most = conf->data.image_max_pixels;
    if (conf->adapter.type == DT_CONF_ADAPTER_NONE)
        check_parts(draft);
    else
        check_adapter(draft);
    if (most > 0 && least > most)
        PROBLEM(draft, "data.image_min_pixels",
                "%ld is more than data.image_max_pixels, %ld", least, most);
}
