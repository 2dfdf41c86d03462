/* SPDX-License-Identifier: Apache-2.0 */
/* model.c - a reward function that is a reward model */
#include "config.h"

#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "batch/pictures.h"
#include "data/image_text.h"
#include "data/mask.h"
#include "image/store.h"
#include "reward/reward_impl.h"
#include "reward/scorer.h"
#include "rollout/sight.h"
#include "tokenizer/chat/chat.h"

struct model {
    struct dt_engine engine;
    struct dt_chat *chat; /* NULL: no_chat says why */
    struct dt_error no_chat;
    struct dt_masker *masker;
    struct dt_image_processor processor; /* of a model that sees images */
    struct dt_image_table colors;
    struct dt_image_store store; /* the run's */
    struct dt_example_images images;
    struct dt_scorer *scorer;  /* NULL: not used yet */
    struct dt_scorer_room row; /* that its rows have */
    struct dt_marked words;    /* of a sample, as an example */
    struct dt_pictures read;   /* images of the last sample with any, ... */
    uint8_t *pixels;           /* ... and their pixels */
    double **to;               /* where the scores of texts go ... */
    size_t queued, room;       /* ... that were given to the scorer */
    size_t scored;             /* of these */
    bool too_large;            /* a score was, or was not finite */
    bool warned;               /* of a text that was cut */
};

/* Rows of this many tokens cost little more than their texts; with a row for
 * each short text, one would cost as much as a dozen together.
 */
enum { ROW_TOKENS = 256 };

static void take_score(void *ctx, float score)
{
    struct model *model = ctx;
    *model->to[model->scored++] = (double)score;
    model->too_large |= !(fabs((double)score) <= DT_REWARD_MOST);
}

/* Remembers where the score of the next text goes. */
static int queue_score(struct model *model, double *to, struct dt_error *err)
{
    if (model->queued == model->room) {
        size_t room = model->room * 2 + 64;
        double **list = realloc(model->to, room * sizeof(*list));
        if (!list)
            return dt_error_set(err, EX_OSERR, "out of memory");
        model->to = list;
        model->room = room;
    }
    model->to[model->queued++] = to;
    return 0;
}

/* Leaves the number of threads to the trainer, which has the larger model. */
static int open_engine(struct dt_engine *engine,
                       const struct dt_reward_lane *lane, struct dt_error *err)
{
    int threads = omp_get_max_threads();
    engine->exec = *lane->exec;
    int rc = dt_engine_open(engine, lane->conf->path, lane->dtype, err);
    omp_set_num_threads(threads);
    return rc;
}

static bool sees(const struct model *model)
{
    return model->engine.config.vision;
}

/* Lets samples have images, which it reads as its own files say. */
static int open_images(struct model *model, const struct dt_reward_lane *lane,
                       struct dt_error *err)
{
    const struct dt_engine *engine = &model->engine;
    if (!sees(model))
        return 0;
    if (dt_sight_load(&model->processor, engine->config.vision,
                      engine->image_dir, err) < 0)
        return -1;
    model->colors = dt_image_table(&model->processor);
    if (lane->images)
        model->store = *lane->images->store;
    model->row.colors = &model->colors.of[0][0];
    model->images = (struct dt_example_images){
        .processor = &model->processor,
        .text = dt_image_text_find(dt_model_type(&engine->config)),
        .store = &model->store,
    };
    return dt_masker_use_images(model->masker, &model->images, err);
}

static int make_scorer(struct model *model, struct dt_error *err)
{
    model->row.shape = ROW_TOKENS;
    model->scorer =
        dt_scorer_create(&model->engine, &model->row, take_score, model, err);
    return model->scorer ? 0 : -1;
}

/* Takes the memory that was planned, before the first text. */
static int take_room(struct model *model, const struct dt_reward_room *room,
                     struct dt_error *err)
{
    if (!room)
        return 0;
    model->row.longest = room->longest;
    model->row.patches = room->patches;
    model->row.pictures = room->pictures;
    return make_scorer(model, err);
}

static int open_model(struct dt_reward_lane *lane, struct dt_error *err)
{
    const char *path = lane->conf->path;
    struct model *model = calloc(1, sizeof(*model));
    lane->state = model;
    if (!model)
        return dt_error_set(err, EX_OSERR, "out of memory");
    if (!lane->exec)
        return dt_error_set(err, EX_CONFIG,
                            "%s: a model needs a device: only training runs "
                            "have one",
                            path);
    if (open_engine(&model->engine, lane, err) < 0)
        return -1;
    if (!model->engine.config.scores)
        return dt_error_set(err, EX_CONFIG,
                            "%s: a language model: expected a reward model, "
                            "which gives one number to a text",
                            path);
    if (!model->engine.tokenizer)
        return dt_error_set(err, EX_CONFIG,
                            "%s: has no tokenizer.json, so that it cannot "
                            "read completions",
                            path);
    model->chat =
        dt_chat_create("auto", NULL, model->engine.tokenizer, &model->no_chat);
    if (!model->chat && model->no_chat.status == EX_OSERR) {
        *err = model->no_chat;
        return -1;
    }
    model->masker = dt_masker_create(
        model->engine.tokenizer, model->chat, &model->no_chat, DT_LOSS_FULL,
        lane->rewards->conf->data.parse_special, err);
    if (!model->masker || open_images(model, lane, err) < 0)
        return -1;
    return take_room(model, lane->room, err);
}

static void close_model(struct dt_reward_lane *lane)
{
    struct model *model = lane->state;
    if (!model)
        return;
    dt_scorer_destroy(model->scorer);
    dt_masker_destroy(model->masker);
    dt_chat_destroy(model->chat);
    if (lane->exec)
        dt_engine_close(&model->engine);
    free(model->words.tokens);
    dt_pictures_fini(&model->read);
    free(model->pixels);
    free(model->to);
    free(model);
}

/* The files of the images of a sample, as values of a line. */
static json_t *files_of(const struct dt_reward_sample *sample)
{
    json_t *files = json_array();
    const json_t *image;
    size_t i;
    json_array_foreach(sample->images, i, image)
    {
        const char *name = json_string_value(json_object_get(image, "sha256"));
        if (json_array_append_new(
                files, json_pack("{s:s+}", "image", "sha256:", name)) == 0)
            continue;
        json_decref(files);
        return NULL;
    }
    return files;
}

static int check_sight(const struct model *model,
                       const struct dt_reward_sample *sample,
                       struct dt_error *err)
{
    if (sees(model) || !sample->images)
        return 0;
    return dt_error_set(err, EX_DATAERR,
                        "prompt %llu has images, and the model sees only text: "
                        "take one with a vision tower",
                        (unsigned long long)sample->prompt);
}

/* Gives the record the images of the sample. */
static int place_images(const struct model *model,
                        const struct dt_reward_sample *sample,
                        struct dt_record *record, struct dt_error *err)
{
    if (!sees(model))
        return 0;
    json_t *files = files_of(sample);
    if (!files)
        return dt_error_set(err, EX_OSERR, "out of memory");
    record->images = files;
    if (!sample->messages)
        return 0;
    record->images = dt_turns_place_images(&record->turns, files,
                                           model->images.text->line, err);
    json_decref(files);
    return record->images ? 0 : -1;
}

/* Words of a sample as training has them: the completion is the assistant's
 * answer to messages, or follows a text and is ended by EOS, unless it was cut.
 * What it spells is text, since its control tokens have been left out.
 */
static int add_words(struct model *model, const struct dt_reward_sample *sample,
                     struct dt_error *err)
{
    struct dt_record record = {
        .format = DT_FORMAT_PROMPT_COMPLETION,
        .prompt = sample->prompt_text,
        .completion = sample->completion_text,
        .completion_bytes = sample->completion_bytes,
        .answered = true,
        .cut = sample->truncated,
        .turns.allow_images = sees(model),
    };
    const json_t *messages = sample->messages;
    json_t *answer = NULL;
    bool seam;
    int rc = 0;
    model->words.count = 0;
    if (messages) {
        record.prompt = record.completion = NULL;
        answer = json_pack("{s:s, s:s%}", "role", "assistant", "content",
                           sample->completion_text, sample->completion_bytes);
        rc = answer ? dt_turns_add(&record.turns, messages, "prompt", err)
                    : dt_error_set(err, EX_OSERR, "out of memory");
        record.prompt_turns = record.turns.count;
        if (rc == 0)
            rc = dt_turns_add_one(&record.turns, answer, "completion", err);
    }
    if (rc == 0)
        rc = place_images(model, sample, &record, err);
    if (rc == 0)
        rc = dt_masker_add(model->masker, &record, &model->words, &seam, err);
    dt_turns_fini(&record.turns);
    json_decref(record.images);
    json_decref(answer);
    return rc;
}

/* Leaves out the beginning of a text that is longer than the model's positions;
 * the end is scored. Images belong to a beginning.
 */
static int cut(struct dt_reward_lane *lane, struct dt_scored_text *text,
               struct dt_error *err)
{
    struct model *model = lane->state;
    size_t most = model->engine.config.n_positions;
    if (text->count <= most)
        return 0;
    if (text->picture_count > 0)
        return dt_error_set(err, EX_DATAERR,
                            "%zu tokens, with those of images, do not fit into "
                            "the %zu positions of the model",
                            text->count, most);
    if (!model->warned)
        dt_log(DT_LOG_WARN, "reward",
               "%s: %zu tokens do not fit into the %zu positions of the model: "
               "the beginning is left out, also of further ones",
               lane->conf->name, text->count, most);
    model->warned = true;
    text->tokens += text->count - most;
    text->count = most;
    return 0;
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* Makes sure that a row has room for a text: more than was planned, if the
 * model has more tokens for it than the policy.
 */
static int make_room(struct dt_reward_lane *lane,
                     const struct dt_scored_text *text, size_t patches,
                     struct dt_error *err)
{
    struct model *model = lane->state;
    struct dt_scorer_room *row = &model->row;
    if (model->scorer && dt_scorer_fits(model->scorer, text->count, patches,
                                        text->picture_count))
        return 0;
    if (model->scorer && dt_scorer_flush(model->scorer, err) < 0)
        return -1;
    dt_scorer_destroy(model->scorer);
    model->scorer = NULL;
    row->longest = larger(row->longest, text->count);
    row->patches = larger(row->patches, patches);
    row->pictures = larger(row->pictures, text->picture_count);
    if (lane->room)
        dt_log(DT_LOG_WARN, "reward",
               "%s: a text of %zu tokens and %zu patches: the model takes more "
               "memory than was planned",
               lane->conf->name, text->count, patches);
    return make_scorer(model, err);
}

static bool are_same(const struct dt_pictures *a, const struct dt_pictures *b)
{
    if (a->image_count != b->image_count)
        return false;
    for (size_t i = 0; i < a->image_count; i++)
        if (memcmp(a->images[i].sha256, b->images[i].sha256, DT_SHA256_BYTES) !=
            0)
            return false;
    return true;
}

/* Decodes the images of a text, unless they are those of the text before, as
 * for completions of a prompt. May take those of *found.
 */
static int read_pixels(struct model *model, struct dt_pictures *found,
                       size_t patches, struct dt_error *err)
{
    if (found->image_count == 0 || are_same(found, &model->read))
        return 0;
    dt_pictures_fini(&model->read);
    free(model->pixels);
    model->pixels = calloc(patches + 1, dt_image_row_bytes(&model->processor));
    if (!model->pixels)
        return dt_error_set(err, EX_OSERR, "out of memory");
    uint8_t *to = model->pixels;
    for (size_t i = 0; i < found->image_count; i++)
        if (!(to =
                  dt_pictures_read(to, &found->images[i], &model->images, err)))
            return dt_error_prefix(err, "image %zu", i + 1);
    model->read.images = found->images;
    model->read.image_count = found->image_count;
    found->images = NULL;
    found->image_count = 0;
    return 0;
}

/* Gives a text to the scorer. */
static int add_text(struct dt_reward_lane *lane, struct dt_scored_text *text,
                    size_t patches, double *value, struct dt_error *err)
{
    struct model *model = lane->state;
    if (cut(lane, text, err) < 0 || make_room(lane, text, patches, err) < 0 ||
        queue_score(model, value, err) < 0)
        return -1;
    if (dt_scorer_add(model->scorer, text, err) == 0)
        return 0;
    model->queued--; /* it will have no score */
    return -1;
}

static int score_one(struct dt_reward_lane *lane,
                     const struct dt_reward_sample *sample, double *value,
                     struct dt_error *err)
{
    struct model *model = lane->state;
    struct dt_pictures found = {0};
    size_t patches = 0;
    if (check_sight(model, sample, err) < 0 ||
        add_words(model, sample, err) < 0)
        return -1;
    struct dt_example_parts parts = {.tokens = model->words.tokens,
                                     .token_count = model->words.count};
    int rc = 0;
    if (sees(model)) {
        dt_example_find(model->words.tokens, model->words.count, &parts);
        rc = dt_pictures_find(&found, &patches, model->words.tokens,
                              model->words.count, &model->images, err);
        if (rc == 0)
            rc = read_pixels(model, &found, patches, err);
    }
    struct dt_scored_text text = {.tokens = parts.tokens,
                                  .count = parts.token_count,
                                  .pictures = found.pictures,
                                  .picture_count = found.picture_count,
                                  .pixels = model->pixels};
    if (rc == 0 && text.count == 0)
        rc = dt_error_set(err, EX_DATAERR,
                          "prompt %llu and its completion have no token",
                          (unsigned long long)sample->prompt);
    if (rc == 0)
        rc = add_text(lane, &text, patches, value, err);
    dt_pictures_fini(&found);
    return rc;
}

/* Rows hold texts of all calls and have one shape, so that a score has the same
 * bits on any rank.
 */
static int score_model(struct dt_reward_lane *lane,
                       const struct dt_reward_part *part, double *values,
                       struct dt_error *err)
{
    for (size_t i = 0; i < part->count; i++)
        if (score_one(lane, dt_reward_at(part, i), values + i, err) < 0)
            return -1;
    return 0;
}

static int flush_model(struct dt_reward_lane *lane, struct dt_error *err)
{
    struct model *model = lane->state;
    if (model->scorer && dt_scorer_flush(model->scorer, err) < 0)
        return -1;
    model->queued = model->scored = 0;
    return model->too_large
               ? dt_error_set(err, EX_DATAERR,
                              "the score of a completion is not finite, or "
                              "beyond %g: try another precision.compute",
                              DT_REWARD_MOST)
               : 0;
}

const struct dt_reward_kind dt_reward_model = {
    .open = open_model,
    .score = score_model,
    .flush = flush_model,
    .close = close_model,
    .here = true,
    .one = true,
};
