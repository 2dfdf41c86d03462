/* SPDX-License-Identifier: Apache-2.0 */
/* compose_config.c - config.json of both halves, and how images are seen */
#include "config.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/str.h"
#include "compose/compose_impl.h"
#include "weights/weights.h"

enum { ROWS_OF = 64 }; /* the vocabulary is a multiple of it */

bool dt_compose_has_weights(const char *dir)
{
    return dt_weights_has_file(dir, "model.safetensors") ||
           dt_weights_has_file(dir, "model.safetensors.index.json");
}

json_t *dt_compose_json(const char *dir, const char *name, struct dt_error *err)
{
    char path[PATH_MAX];
    *err = (struct dt_error){0};
    if (snprintf(path, sizeof(path), "%s/%s", dir, name) >= (int)sizeof(path)) {
        dt_error_set(err, EX_NOINPUT, "%s: the name is too long", dir);
        return NULL;
    }
    if (dt_file_exists(path, err) <= 0)
        return NULL;
    char *text = dt_file_read(path, DT_COMPOSE_FILE_BYTES, err);
    json_t *root = text ? dt_json_parse(path, text, err) : NULL;
    free(text);
    if (root && !json_is_object(root)) {
        dt_error_set(err, EX_DATAERR, "%s: expected an object", path);
        json_decref(root);
        return NULL;
    }
    return root;
}

char *dt_compose_dump(json_t *root, struct dt_error *err)
{
    char *text = json_dumps(root, JSON_INDENT(2) | JSON_REAL_PRECISION(17));
    char *line = NULL;
    json_decref(root);
    if (!text || asprintf(&line, "%s\n", text) < 0)
        line = NULL;
    free(text);
    if (!line)
        dt_error_set(err, EX_OSERR, "out of memory");
    return line;
}

/* --- the tower --- */

/* model_type of a whole model, and of its tower. */
static const struct {
    const char *whole, *tower;
} towers[] = {
    {"clip", "clip_vision_model"},
    {"siglip", "siglip_vision_model"},
};

/* Keys of a file that a part of one does not have. */
static void drop_keys(json_t *object)
{
    static const char *const keys[] = {"architectures", "_name_or_path",
                                       "transformers_version", "auto_map"};
    for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++)
        json_object_del(object, keys[i]);
}

/* The object of the tower in `root`, a new reference; NULL: there is none. */
static json_t *find_tower(struct dt_halves *halves, json_t *root)
{
    const char *type = json_string_value(json_object_get(root, "model_type"));
    json_t *own = json_object_get(root, "vision_config");
    for (size_t i = 0; type && i < sizeof(towers) / sizeof(*towers); i++) {
        const bool whole = !strcmp(type, towers[i].whole);
        if (!whole && strcmp(type, towers[i].tower) != 0)
            continue;
        json_t *object = json_deep_copy(whole ? own : root);
        halves->clip = i == 0;
        if (!json_is_object(object) ||
            json_object_set_new(object, "model_type",
                                json_string(towers[i].tower)) < 0) {
            json_decref(object);
            return NULL;
        }
        return object;
    }
    return NULL;
}

static int read_tower(struct dt_halves *halves, struct dt_error *err)
{
    const char *dir = halves->compose->vision;
    json_t *root = dt_compose_json(dir, "config.json", err);
    if (!root)
        return err->text[0] ? -1
                            : dt_error_set(err, EX_NOINPUT,
                                           "%s: there is no config.json", dir);
    const char *type = json_string_value(json_object_get(root, "model_type"));
    halves->tower = find_tower(halves, root);
    if (!halves->tower)
        dt_error_set(err, EX_DATAERR,
                     "%s/config.json: model_type: expected clip_vision_model, "
                     "siglip_vision_model, or clip or siglip with a "
                     "vision_config, got \"%.60s\"",
                     dir, type ? type : "");
    else
        drop_keys(halves->tower);
    json_decref(root);
    const enum dt_compose_rows rows = halves->compose->rows;
    halves->full =
        rows == DT_COMPOSE_AUTO ? !halves->clip : rows == DT_COMPOSE_FULL;
    return halves->tower ? 0 : -1;
}

/* --- the language model --- */

/* LLaVA of transformers has a plain head on the trunk of a language model. */
static int check_language(const struct dt_halves *halves, struct dt_error *err)
{
    const struct dt_model_config *language = &halves->language;
    const char *dir = halves->compose->language;
    if (language->vision)
        return dt_error_set(err, EX_DATAERR,
                            "%s: %s is a model of images and text already: "
                            "name it as model.path",
                            dir, dt_model_type(language));
    if (dt_model_learns_positions(language))
        return dt_error_set(err, EX_DATAERR,
                            "%s: %s learns an embedding of each position; "
                            "pictures need a language model with RoPE, as "
                            "llama or qwen2",
                            dir, dt_model_type(language));
    if (language->scores)
        return dt_error_set(err, EX_DATAERR,
                            "%s: a reward model: expected a language model",
                            dir);
    if (language->logits_scaling != 1 && language->logits_scaling != 0)
        return dt_error_set(err, EX_DATAERR,
                            "%s: %s divides logits by logits_scaling, and "
                            "LLaVA of transformers does not",
                            dir, dt_model_type(language));
    return 0;
}

/* Sets *id to that of a token. Returns whether it is new: the next one. */
static bool take_id(const struct dt_tokenizer *tokenizer, const char *text,
                    size_t *tokens, int32_t *id)
{
    *id = dt_tokenizer_id(tokenizer, text);
    const bool is_new = *id < 0;
    if (is_new)
        *id = (int32_t)(*tokens)++;
    return is_new;
}

static void choose_ids(struct dt_halves *halves)
{
    const struct dt_tokenizer *tokenizer = halves->tokenizer;
    size_t tokens = dt_tokenizer_vocab_size(tokenizer);
    halves->image_is_new =
        take_id(tokenizer, DT_COMPOSE_TOKEN, &tokens, &halves->image);
    halves->pad = -1;
    if (dt_tokenizer_special(tokenizer, DT_TOKEN_PAD) < 0)
        halves->pad_is_new =
            take_id(tokenizer, DT_COMPOSE_PAD, &tokens, &halves->pad);
    if (tokens < halves->language.vocab_size)
        tokens = halves->language.vocab_size;
    halves->vocab_size = (tokens + ROWS_OF - 1) / ROWS_OF * ROWS_OF;
}

static int read_language(struct dt_halves *halves, struct dt_error *err)
{
    const char *dir = halves->compose->language;
    if (dt_model_config_load(&halves->language, dir, err) < 0 ||
        check_language(halves, err) < 0)
        return -1;
    if (!dt_tokenizer_in(dir))
        return dt_error_set(err, EX_NOINPUT,
                            "%s has no tokenizer.json or tokenizer.model, to "
                            "which a token for images is added",
                            dir);
    halves->tokenizer = dt_tokenizer_load(dir, err);
    if (!halves->tokenizer)
        return -1;
    choose_ids(halves);
    return 0;
}

int dt_halves_init(struct dt_halves *halves, const struct dt_compose *compose,
                   struct dt_error *err)
{
    *halves = (struct dt_halves){.compose = compose};
    if (read_tower(halves, err) < 0)
        return dt_error_prefix(err, "model.vision");
    if (read_language(halves, err) < 0)
        return dt_error_prefix(err, "model.language");
    return 0;
}

void dt_halves_fini(struct dt_halves *halves)
{
    json_decref(halves->tower);
    dt_model_config_fini(&halves->language);
    dt_tokenizer_destroy(halves->tokenizer);
    *halves = (struct dt_halves){0};
}

/* --- config.json --- */

/* The language model's, with the vocabulary of both. NULL: out of memory. */
static json_t *text_config(const struct dt_halves *halves)
{
    const struct dt_model_config *language = &halves->language;
    json_t *object = dt_json_parse("config.json", language->text, NULL);
    if (!object)
        return NULL;
    drop_keys(object);
    int bad =
        json_object_set_new(object, "vocab_size",
                            json_integer((json_int_t)halves->vocab_size)) |
        json_object_set_new(object, "tie_word_embeddings",
                            json_boolean(language->tie_word_embeddings));
    if (halves->pad >= 0)
        bad |= json_object_set_new(object, "pad_token_id",
                                   json_integer(halves->pad));
    if (bad == 0)
        return object;
    json_decref(object);
    return NULL;
}

/* The tower's. A random one needs nothing that no feature is made of. */
static json_t *vision_config(const struct dt_halves *halves)
{
    json_t *object = json_deep_copy(halves->tower);
    if (!object || halves->clip ||
        dt_compose_has_weights(halves->compose->vision) ||
        json_object_set_new(object, "vision_use_head", json_false()) == 0)
        return object;
    json_decref(object);
    return NULL;
}

static const char *strategy_of(const struct dt_halves *halves)
{
    return halves->full ? "full" : "default";
}

/* transformers writes dtype and rope_parameters since release 5. */
static json_t *whole_config(const struct dt_halves *halves)
{
    json_t *root = json_pack(
        "{s:[s], s:s, s:i, s:o, s:o, s:s, s:b, s:I, s:s, s:b}", "architectures",
        "LlavaForConditionalGeneration", "model_type", "llava",
        "image_token_index", halves->image, "vision_config",
        vision_config(halves), "text_config", text_config(halves),
        "projector_hidden_act", "gelu", "multimodal_projector_bias", 1,
        "vision_feature_layer", (json_int_t)halves->compose->layer,
        "vision_feature_select_strategy", strategy_of(halves),
        "tie_word_embeddings", halves->language.tie_word_embeddings);
    if (root && halves->pad >= 0 &&
        json_object_set_new(root, "pad_token_id", json_integer(halves->pad)) <
            0) {
        json_decref(root);
        return NULL;
    }
    return root;
}

/* Adds how many tokens an image has, which the parsed config says. */
static int count_tokens(json_t *root, const struct dt_halves *halves,
                        struct dt_error *err)
{
    const struct dt_compose *compose = halves->compose;
    struct dt_model_config config;
    char *text = json_dumps(root, 0), name[2 * PATH_MAX];
    if (!text)
        return dt_error_set(err, EX_OSERR, "out of memory");
    snprintf(name, sizeof(name), "%s with %s", compose->language,
             compose->vision);
    int rc = dt_model_config_parse(&config, text, name, err);
    if (rc == 0) {
        const struct dt_vision_config *vision = config.vision;
        const size_t features =
            dt_vision_features(vision, vision->grid, vision->grid);
        rc = json_object_set_new(root, "image_seq_length",
                                 json_integer((json_int_t)features));
        if (rc < 0)
            dt_error_set(err, EX_OSERR, "out of memory");
    }
    dt_model_config_fini(&config);
    free(text);
    return rc;
}

static int make_config(struct dt_composed *composed,
                       const struct dt_halves *halves, struct dt_error *err)
{
    json_t *root = whole_config(halves);
    if (!root)
        return dt_error_set(err, EX_OSERR, "out of memory");
    if (count_tokens(root, halves, err) < 0) {
        json_decref(root);
        return -1;
    }
    composed->config = dt_compose_dump(root, err);
    return composed->config ? 0 : -1;
}

/* --- images --- */

static json_int_t tower_size(const struct dt_halves *halves, const char *key,
                             json_int_t usual)
{
    const json_t *value = json_object_get(halves->tower, key);
    return json_is_integer(value) ? json_integer_value(value) : usual;
}

/* The processor that transformers has for a tower without files of one. */
static json_t *usual_image(const struct dt_halves *halves)
{
    const json_int_t side = tower_size(halves, "image_size", 224);
    return halves->clip
               ? json_pack("{s:s, s:{s:I}, s:{s:I, s:I}}",
                           "image_processor_type", "CLIPImageProcessor", "size",
                           "shortest_edge", side, "crop_size", "height", side,
                           "width", side)
               : json_pack("{s:s, s:{s:I, s:I}}", "image_processor_type",
                           "SiglipImageProcessor", "size", "height", side,
                           "width", side);
}

/* Old files have the class's old name alone, which release 5 does not read. */
static int name_class(json_t *image)
{
    const char *old =
        json_string_value(json_object_get(image, "feature_extractor_type"));
    char name[128];
    if (json_object_get(image, "image_processor_type") || !old ||
        !dt_str_ends_with(old, "FeatureExtractor"))
        return 0;
    snprintf(name, sizeof(name), "%.*sImageProcessor",
             (int)(strlen(old) - strlen("FeatureExtractor")), old);
    json_object_del(image, "feature_extractor_type");
    return json_object_set_new(image, "image_processor_type",
                               json_string(name));
}

/* The tower's own keys of images, or the usual ones. NULL: err. */
static json_t *find_image(const struct dt_halves *halves, struct dt_error *err)
{
    const char *dir = halves->compose->vision;
    json_t *whole = dt_compose_json(dir, "processor_config.json", err);
    if (!whole && err->text[0])
        return NULL;
    json_t *image = json_incref(json_object_get(whole, "image_processor"));
    json_decref(whole);
    if (!image)
        image = dt_compose_json(dir, "preprocessor_config.json", err);
    if (!image && err->text[0])
        return NULL;
    if (!image)
        image = usual_image(halves);
    if (!image || name_class(image) < 0)
        dt_error_set(err, EX_OSERR, "out of memory");
    return image;
}

static int make_processors(struct dt_composed *composed,
                           const struct dt_halves *halves, struct dt_error *err)
{
    static const char class[] = "LlavaProcessor";
    json_t *image = find_image(halves, err);
    json_t *whole = json_pack(
        "{s:s, s:s, s:i, s:I, s:s}", "processor_class", class, "image_token",
        DT_COMPOSE_TOKEN, "num_additional_image_tokens", (int)halves->clip,
        "patch_size", tower_size(halves, "patch_size", halves->clip ? 32 : 16),
        "vision_feature_select_strategy", strategy_of(halves));
    if (!image) {
        json_decref(whole);
        return -1;
    }
    if (!whole ||
        json_object_set_new(image, "processor_class", json_string(class)) < 0)
        return dt_error_set(err, EX_OSERR, "out of memory");
    composed->image = dt_compose_dump(image, err);
    composed->processor = dt_compose_dump(whole, err);
    return composed->image && composed->processor ? 0 : -1;
}

int dt_compose_config_texts(struct dt_composed *composed,
                            const struct dt_halves *halves,
                            struct dt_error *err)
{
    const size_t had = halves->language.vocab_size;
    composed->vocab_size = halves->vocab_size;
    composed->new_rows = halves->vocab_size - had;
    return make_config(composed, halves, err) < 0 ||
                   make_processors(composed, halves, err) < 0
               ? -1
               : 0;
}
