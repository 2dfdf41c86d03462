/* SPDX-License-Identifier: Apache-2.0 */
/*
 * generate_prompt.c - texts, conversations and their images become prompts
 *
 * As rows of training do: the files of images go to a store, here one of the
 * process, which has those of a prompt at a time as pixels.
 */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include <jansson.h>

#include "cmd/generate.h"
#include "data/image_text.h"
#include "data/mask.h"
#include "data/row_images.h"
#include "data/turns.h"
#include "image/store.h"
#include "rollout/engine.h"
#include "rollout/sight.h"

struct dt_prompter {
    const struct dt_engine *engine;
    struct dt_masker *masker;
    struct dt_marked marked;         /* the prompt being made */
    struct dt_example_images images; /* without a tower all zero */
    struct dt_image_processor processor;
    struct dt_image_table colors;
    struct dt_image_store store; /* of the process alone */
};

/* --- images --- */

static bool sees(const struct dt_prompter *p)
{
    return p->images.processor;
}

/* Lets prompts have images, if the model sees them. */
static int open_images(struct dt_prompter *p, const char *root,
                       struct dt_error *err)
{
    const struct dt_model_config *config = &p->engine->config;
    const struct dt_vision_config *vision = config->vision;
    const char *dir = p->engine->image_dir;
    if (!vision)
        return 0;
    if (dt_sight_load(&p->processor, vision, dir, err) < 0)
        return -1;
    p->colors = dt_image_table(&p->processor);
    p->images = (struct dt_example_images){
        .processor = &p->processor,
        .text = dt_image_text_find(dt_model_type(config)),
        .root = root,
        .store = &p->store,
    };
    return dt_masker_use_images(p->masker, &p->images, err);
}

int dt_prompter_image(struct dt_prompter *p, const char *path, json_t *images,
                      struct dt_error *err)
{
    char name[DT_SHA256_HEX];
    struct dt_image_file file;
    if (!sees(p))
        return dt_error_set(err, EX_DATAERR,
                            "--image: the model sees only text: it has no "
                            "vision tower");
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return dt_error_set(err, EX_NOINPUT, "--image %s: cannot open: %s",
                            path, strerror(errno));
    if (dt_image_read(&file, fd, path, &p->processor.limits, err) < 0)
        return dt_error_prefix(err, "--image");
    int rc = dt_image_store_put(&p->store, file.data, file.bytes, name, err);
    free(file.data);
    if (rc < 0)
        return -1;
    json_t *value = json_pack("{s{ss+}, ss}", "bytes", "image", "sha256:", name,
                              "path", path);
    if (!value)
        return dt_error_set(err, EX_USAGE, "--image: not a UTF-8 path");
    return json_array_append_new(images, value) < 0
               ? dt_error_set(err, EX_OSERR, "out of memory")
               : 0;
}

const float *dt_prompter_colors(const struct dt_prompter *p)
{
    return sees(p) ? &p->colors.of[0][0] : NULL;
}

/* --- prompts --- */

void dt_made_prompt_fini(struct dt_made_prompt *made)
{
    free(made->ids);
    dt_pictures_fini(&made->found);
    *made = (struct dt_made_prompt){0};
}

/* Takes tokens, -1 at those of pictures, and checks the others: the embedding
 * may have fewer rows than the tokenizer has tokens.
 */
static int take_tokens(const struct dt_prompter *p, struct dt_made_prompt *made,
                       const uint32_t *tokens, size_t count,
                       struct dt_error *err)
{
    const struct dt_engine *engine = p->engine;
    const size_t V = engine->config.vocab_size;
    made->ids = calloc(count + 1, sizeof(*made->ids));
    if (!made->ids)
        return dt_error_set(err, EX_OSERR, "out of memory");
    made->count = count;
    for (size_t i = 0; i < count; i++)
        made->ids[i] = (int32_t)tokens[i];
    for (size_t i = 0; i < made->found.picture_count; i++) {
        const struct dt_batch_picture *picture = &made->found.pictures[i];
        for (size_t t = 0; t < picture->tokens; t++)
            made->ids[picture->first + t] = -1;
    }
    for (size_t i = 0; i < count; i++)
        if (made->ids[i] >= 0 && (size_t)made->ids[i] >= V)
            return dt_error_set(err, EX_DATAERR,
                                "E120 the tokenizer %s has a token %d, but the "
                                "model's vocab_size is %zu: is it the "
                                "tokenizer of this model?",
                                engine->tokenizer_dir, made->ids[i], V);
    return 0;
}

/* An empty prompt is the token that begins texts: BOS, or EOS without one. */
static int begin_text(const struct dt_prompter *p, struct dt_made_prompt *made,
                      struct dt_error *err)
{
    const int32_t id = dt_tokenizer_empty(p->engine->tokenizer);
    if (id < 0)
        return dt_error_set(err, EX_USAGE,
                            "the prompt is empty, and the tokenizer has no "
                            "token that begins a text");
    made->ids[made->count++] = id;
    return 0;
}

static int take(struct dt_prompter *p, struct dt_made_prompt *made,
                struct dt_error *err)
{
    struct dt_example_parts parts = {.tokens = p->marked.tokens,
                                     .token_count = p->marked.count};
    if (sees(p)) {
        if (dt_pictures_find(&made->found, &made->patches, p->marked.tokens,
                             p->marked.count, &p->images, err) < 0)
            return -1;
        dt_example_find(p->marked.tokens, p->marked.count, &parts);
    }
    if (take_tokens(p, made, parts.tokens, parts.token_count, err) < 0)
        return -1;
    return made->count > 0 ? 0 : begin_text(p, made, err);
}

int dt_prompter_text(struct dt_prompter *p, const char *text, size_t bytes,
                     const json_t *images, struct dt_made_prompt *made,
                     struct dt_error *err)
{
    const struct dt_prompt_of of = {
        .text = text, .bytes = bytes, .images = images};
    *made = (struct dt_made_prompt){0};
    p->marked.count = 0;
    if (dt_masker_add_prompt(p->masker, &of, &p->marked, err) < 0)
        return -1;
    return take(p, made, err);
}

int dt_prompter_turns(struct dt_prompter *p, struct dt_turns *turns,
                      json_t *images, struct dt_made_prompt *made,
                      struct dt_error *err)
{
    struct dt_prompt_of of = {.turns = turns};
    json_t *values = NULL;
    *made = (struct dt_made_prompt){0};
    p->marked.count = 0;
    if (sees(p) && !(values = dt_turns_place_images(turns, images,
                                                    p->images.text->line, err)))
        return -1;
    of.images = values;
    int rc = dt_masker_add_prompt(p->masker, &of, &p->marked, err);
    json_decref(values);
    return rc < 0 ? -1 : take(p, made, err);
}

json_t *dt_prompter_images(const struct dt_prompter *p, const json_t *line,
                           struct dt_error *err)
{
    static const char *const keys[] = {"images", "image"};
    if (sees(p))
        return dt_row_images_listed(line, err);
    for (size_t i = 0; i < 2; i++) {
        const json_t *value = dt_line_value(line, keys[i]);
        if (value && !(json_is_array(value) && json_array_size(value) == 0)) {
            dt_error_set(err, EX_DATAERR,
                         "%s: the model sees only text: leave it out, or take "
                         "a model with a vision tower",
                         keys[i]);
            return NULL;
        }
    }
    json_t *none = json_array();
    if (!none)
        dt_error_set(err, EX_OSERR, "out of memory");
    return none;
}

const struct dt_example_images *dt_prompter_reads(const struct dt_prompter *p)
{
    return sees(p) ? &p->images : NULL;
}

bool dt_prompter_sees(const struct dt_prompter *p)
{
    return sees(p);
}

int dt_prompter_give(const struct dt_prompter *p,
                     const struct dt_made_prompt *made, uint8_t **pixels,
                     struct dt_prompt *prompt, struct dt_error *err)
{
    const size_t row = sees(p) ? dt_image_row_bytes(&p->processor) : 0;
    prompt->ids = made->ids;
    prompt->count = made->count;
    prompt->pictures = made->found.pictures;
    prompt->picture_count = made->found.picture_count;
    free(*pixels);
    *pixels = calloc(made->patches + 1, row + 1);
    if (!*pixels)
        return dt_error_set(err, EX_OSERR, "out of memory");
    uint8_t *to = *pixels;
    for (size_t i = 0; i < made->found.image_count; i++) {
        to = dt_pictures_read(to, &made->found.images[i], &p->images, err);
        if (!to)
            return dt_error_prefix(err, "image %zu", i + 1);
    }
    prompt->pixels = *pixels;
    return 0;
}

/* --- create, destroy --- */

static int need_tokenizer(const struct dt_engine *engine, struct dt_error *err)
{
    if (engine->tokenizer)
        return 0;
    return dt_error_set(err, EX_USAGE,
                        "the model has %zu tokens and no tokenizer.json: let "
                        "transformers write one, AutoTokenizer.from_pretrained("
                        "DIR).save_pretrained(DIR), or give the prompt as ids "
                        "with --tokens",
                        engine->config.vocab_size);
}

struct dt_prompter *dt_prompter_create(const struct dt_engine *engine,
                                       const struct dt_chat *chat,
                                       const struct dt_error *no_chat,
                                       const char *image_root,
                                       struct dt_error *err)
{
    if (need_tokenizer(engine, err) < 0)
        return NULL;
    struct dt_prompter *p = calloc(1, sizeof(*p));
    if (!p) {
        dt_error_set(err, EX_OSERR, "out of memory");
        return NULL;
    }
    p->engine = engine;
    p->masker = dt_masker_create(engine->tokenizer, chat, no_chat,
                                 DT_LOSS_COMPLETION, true, err);
    if (p->masker && open_images(p, image_root, err) == 0)
        return p;
    dt_prompter_destroy(p);
    return NULL;
}

void dt_prompter_destroy(struct dt_prompter *p)
{
    if (!p)
        return;
    dt_image_store_fini(&p->store);
    dt_masker_destroy(p->masker);
    free(p->marked.tokens);
    free(p);
}
