/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config_vision.c - reads config.json of a model with a tower
 *
 * It has an object for the language model and one for the tower, which are read
 * as models are; Qwen's of transformers 4 has the keys of the language model
 * itself.
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/family/family.h"

/* Adds the problems of a part of the file, with its key in front. */
static void add_problems(struct dt_error *problems, const char *key,
                         const struct dt_error *own)
{
    if (own->text[0])
        dt_error_add(problems, EX_DATAERR, "%s: %s", key, own->text);
}

/* Whether a class has the head that gives one number: a classifier of one label
 * or, where there are no classifiers, the base class with one label.
 */
static bool class_scores(const struct dt_vision_family *family,
                         const char *name, const json_t *root)
{
    const char *class = family->scores ? family->scores : family->base;
    return strcmp(name, class) == 0 &&
           (family->scores ||
            json_object_size(json_object_get(root, "id2label")) == 1);
}

static void parse_architecture(struct dt_model_config *config,
                               const struct dt_vision_family *family,
                               const json_t *root, struct dt_error *problems)
{
    const json_t *first =
        json_array_get(json_object_get(root, "architectures"), 0);
    const char *name = json_string_value(first);
    config->scores = name && class_scores(family, name, root);
    if (config->scores)
        dt_config_parse_labels(root, problems);
    else if (first && (!name || (strcmp(name, family->causal) != 0 &&
                                 strcmp(name, family->base) != 0)))
        dt_config_unexpected(problems, "", "architectures", family->causal,
                             first);
}

/* --- the language model --- */

/* Sets the family by model_type, by default llama: positions of its own have no
 * place for pictures. false: there is none of that name.
 */
static bool find_text(struct dt_model_config *config, const json_t *object,
                      struct dt_error *problems)
{
    const json_t *type = dt_config_value(object, "model_type");
    char known[1024] = "";
    config->family =
        dt_model_family_find(!type                  ? "llama"
                             : json_is_string(type) ? json_string_value(type)
                                                    : "");
    if (config->family && !config->family->learns_positions)
        return true;
    for (size_t i = 0; dt_families[i]; i++)
        if (!dt_families[i]->learns_positions)
            dt_config_add_word(known, sizeof(known), dt_families[i]->type);
    config->family = NULL;
    dt_config_unexpected(problems, "", "model_type", known, type);
    return false;
}

/* Keys of the file itself that stand for missing ones of its language model:
 * whether the head is tied, and ids.
 */
static void take_root(struct dt_model_config *config,
                      const struct dt_vision_family *family, const json_t *root,
                      struct dt_error *problems)
{
    struct dt_model_config own = {.family = config->family,
                                  .vocab_size = config->vocab_size};
    bool tied = family->tied;
    dt_config_parse_flag(root, "tie_word_embeddings", &tied, problems);
    config->tie_word_embeddings =
        tied || (config->tie_word_embeddings && !family->ties_root);
    dt_config_check_only(root, problems);
    dt_config_parse_ids(&own, root, problems);
    if (config->bos < 0)
        config->bos = own.bos;
    if (config->pad < 0)
        config->pad = own.pad;
    if (config->eos_count == 0) {
        memcpy(config->eos, own.eos, sizeof(own.eos));
        config->eos_count = own.eos_count;
    }
}

/* false: nothing else can be read. */
static bool parse_text(struct dt_model_config *config,
                       const struct dt_vision_family *family,
                       const json_t *root, struct dt_error *problems)
{
    const json_t *own = dt_config_value(root, "text_config");
    const json_t *object = own ? own : root;
    struct dt_error inside = {0};
    if (own && !json_is_object(own)) {
        dt_config_unexpected(problems, "", "text_config", "an object", own);
        return false;
    }
    config->family = family->text;
    if (!config->family && !own)
        dt_config_unexpected(problems, "", "text_config", "an object",
                             json_object_get(root, "text_config"));
    else if (config->family || find_text(config, object, &inside))
        dt_config_parse_model(config, object, true, &inside);
    if (own)
        add_problems(problems, "text_config", &inside);
    else if (inside.text[0])
        dt_error_add(problems, EX_DATAERR, "%s", inside.text);
    if (!config->family)
        return false;
    if (own)
        take_root(config, family, root, problems);
    /* transformers puts a plain head on the trunk of the language model */
    config->logits_softcap = 0;
    config->logits_scaling = 1;
    return true;
}

/* --- the tower --- */

/* The tower of model_type, which counts if there are several. NULL: none. */
static const struct dt_tower_traits *find_tower(
    const struct dt_vision_family *family, const json_t *object,
    struct dt_error *problems)
{
    const json_t *type = dt_config_value(object, "model_type");
    const struct dt_tower_traits *const *tower = family->towers;
    const char *name = json_string_value(type);
    char known[256] = "";
    if (!type || !tower[1])
        return tower[0];
    for (; *tower; tower++) {
        if (name && !strcmp(name, (*tower)->family.type))
            return *tower;
        dt_config_add_word(known, sizeof(known), (*tower)->family.type);
    }
    dt_config_unexpected(problems, "", "model_type", known, type);
    return NULL;
}

/* Refuses any other number than `only`. */
static void check_number(const json_t *object, const char *key, size_t only,
                         struct dt_error *problems)
{
    const json_t *value = dt_config_value(object, key);
    char what[32];
    snprintf(what, sizeof(what), "%zu", only);
    if (value && json_integer_value(value) != (json_int_t)only)
        dt_config_unexpected(problems, "", key, what, value);
}

/* Patches, and where there are as many of each picture, their positions. */
static void parse_patches(struct dt_vision_config *vision,
                          const struct dt_tower_traits *tower,
                          const json_t *object, struct dt_error *problems)
{
    size_t image = tower->image;
    vision->patch = tower->patch;
    check_number(object, tower->channels, 3, problems);
    dt_config_parse_size(object, "", "patch_size", 256, &vision->patch,
                         problems);
    if (image > 0)
        dt_config_parse_size(object, "", "image_size", 1 << 14, &image,
                             problems);
    if (tower->frames > 0)
        check_number(object, "temporal_patch_size", tower->frames, problems);
    vision->frames = tower->frames > 0 ? tower->frames : 1;
    vision->class_first = tower->class_first;
    vision->grid = image / vision->patch; /* the rest is not looked at */
    if (image > 0 && vision->grid == 0)
        dt_error_add(problems, EX_DATAERR,
                     "image_size: expected at least patch_size %zu, got %zu",
                     vision->patch, image);
    if (tower->image > 0)
        vision->tower.n_positions =
            vision->grid * vision->grid + vision->class_first;
}

/* false: nothing else can be read. */
static bool parse_tower(struct dt_vision_config *vision, const json_t *object,
                        struct dt_error *problems)
{
    const struct dt_tower_traits *tower =
        find_tower(vision->family, object, problems);
    if (!tower)
        return false;
    vision->tower.family = &tower->family;
    dt_config_parse_model(&vision->tower, object, true, problems);
    vision->layers = vision->tower.n_layer;
    parse_patches(vision, tower, object, problems);
    return true;
}

/* Reads the id of a placeholder; `usual`: without the key. */
static void parse_token(const json_t *root, const char *key, size_t usual,
                        int32_t *token, struct dt_error *problems)
{
    const json_t *value = dt_config_value(root, key);
    const json_int_t id = value ? json_integer_value(value) : (json_int_t)usual;
    if ((value && !json_is_integer(value)) || id < 0 || id > INT32_MAX)
        dt_config_unexpected(problems, "", key, "a token id", value);
    else
        *token = (int32_t)id;
}

static void parse_tokens(struct dt_vision_config *vision, const json_t *root,
                         struct dt_error *problems)
{
    const struct dt_vision_family *family = vision->family;
    const char *key = "image_token_id", *other = family->token_index;
    if (other && dt_config_value(root, other))
        key = other;
    parse_token(root, key, family->token, &vision->token, problems);
    vision->video = -1;
    if (family->video > 0)
        parse_token(root, "video_token_id", family->video, &vision->video,
                    problems);
}

/* Blocks above the last tap are carried along, not computed. */
static void drop_blocks(struct dt_vision_config *vision)
{
    size_t last = 0;
    for (size_t i = 0; i < vision->tap_count; i++)
        if (vision->taps[i] > last)
            last = vision->taps[i];
    vision->tower.n_layer = last;
}

static void parse_vision(struct dt_vision_config *vision,
                         const struct dt_model_config *text, const json_t *root,
                         struct dt_error *problems)
{
    const json_t *object = dt_config_value(root, "vision_config");
    struct dt_error inside = {0};
    if (!json_is_object(object)) {
        dt_config_unexpected(problems, "", "vision_config", "an object",
                             json_object_get(root, "vision_config"));
        return;
    }
    const bool known = parse_tower(vision, object, &inside);
    add_problems(problems, "vision_config", &inside);
    parse_tokens(vision, root, problems);
    if (!known || inside.text[0]) /* what follows needs its sizes */
        return;
    vision->merge = 1;
    vision->tap_count = 1;
    vision->taps[0] = vision->layers;
    for (size_t i = 0; i < DT_NAMES; i++)
        vision->names[i] = vision->family->names[i][0];
    vision->family->parse(vision, text, root, object, problems);
    drop_blocks(vision);
}

void dt_config_parse_vision(struct dt_model_config *config,
                            const struct dt_vision_family *family,
                            const json_t *root, struct dt_error *problems)
{
    config->vision = calloc(1, sizeof(*config->vision));
    if (!config->vision) {
        dt_error_add(problems, EX_OSERR, "out of memory");
        return;
    }
    config->vision->family = family;
    parse_architecture(config, family, root, problems);
    if (parse_text(config, family, root, problems))
        parse_vision(config->vision, config, root, problems);
}
