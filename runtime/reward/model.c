/* SPDX-License-Identifier: Apache-2.0 */
/* model.c - a reward function that is a reward model */
#include "config.h"

#include <math.h>
#include <omp.h>
#include <stdlib.h>

#include "base/log.h"
#include "data/mask.h"
#include "reward/reward_impl.h"
#include "reward/scorer.h"
#include "tokenizer/chat/chat.h"

struct model {
    struct dt_engine engine;
    struct dt_chat *chat; /* NULL: no_chat says why */
    struct dt_error no_chat;
    struct dt_masker *masker;
    struct dt_scorer *scorer; /* NULL: not used yet */
    struct dt_marked tokens;  /* of a sample */
    double **to;              /* where the scores of texts go ... */
    size_t queued, room;      /* ... that were given to the scorer */
    size_t scored;            /* of these */
    bool too_large;           /* a score was, or was not finite */
    bool warned;              /* of a text that was cut */
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
    model->masker = dt_masker_create(model->engine.tokenizer, model->chat,
                                     &model->no_chat, DT_LOSS_FULL, true, err);
    return model->masker ? 0 : -1;
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
    free(model->tokens.tokens);
    free(model->to);
    free(model);
}

/* Tokens of a sample as training has them: the completion is the assistant's
 * answer to messages, or follows a text and is ended by EOS.
 */
static int add_tokens(struct model *model,
                      const struct dt_reward_sample *sample,
                      struct dt_error *err)
{
    struct dt_record record = {
        .format = DT_FORMAT_PROMPT_COMPLETION,
        .prompt = sample->prompt_text,
        .completion = sample->completion_text,
    };
    const json_t *messages = sample->messages;
    json_t *answer = NULL;
    bool seam;
    int rc = 0;
    if (messages) {
        record.prompt = record.completion = NULL;
        answer = json_pack("{s:s, s:s}", "role", "assistant", "content",
                           sample->completion_text);
        rc = answer ? dt_turns_add(&record.turns, messages, "prompt", err)
                    : dt_error_set(err, EX_OSERR, "out of memory");
        record.prompt_turns = record.turns.count;
        if (rc == 0)
            rc = dt_turns_add_one(&record.turns, answer, "completion", err);
    }
    if (rc == 0)
        rc = dt_masker_add(model->masker, &record, &model->tokens, &seam, err);
    dt_turns_fini(&record.turns);
    json_decref(answer);
    return rc;
}

/* Leaves out the beginning of a text that is longer than the model's positions;
 * the end is scored.
 */
static void cut(struct dt_reward_lane *lane, const uint32_t **tokens,
                size_t *count)
{
    struct model *model = lane->state;
    size_t most = model->engine.config.n_positions;
    if (*count <= most)
        return;
    if (!model->warned)
        dt_log(DT_LOG_WARN, "reward",
               "%s: %zu tokens do not fit into the %zu positions of the model: "
               "the beginning is left out, also of further ones",
               lane->conf->name, *count, most);
    model->warned = true;
    *tokens += *count - most;
    *count = most;
}

/* Makes sure that a row has room for a text. */
static int make_room(struct model *model, size_t count, struct dt_error *err)
{
    const struct dt_scorer_room room = {.longest = count, .shape = ROW_TOKENS};
    if (model->scorer && dt_scorer_fits(model->scorer, count, 0, 0))
        return 0;
    if (model->scorer && dt_scorer_flush(model->scorer, err) < 0)
        return -1;
    dt_scorer_destroy(model->scorer);
    model->scorer =
        dt_scorer_create(&model->engine, &room, take_score, model, err);
    return model->scorer ? 0 : -1;
}

static int score_one(struct dt_reward_lane *lane,
                     const struct dt_reward_sample *sample, double *value,
                     struct dt_error *err)
{
    struct model *model = lane->state;
    model->tokens.count = 0;
    if (add_tokens(model, sample, err) < 0)
        return -1;
    const uint32_t *tokens = model->tokens.tokens;
    size_t count = model->tokens.count;
    if (count == 0)
        return dt_error_set(err, EX_DATAERR,
                            "prompt %llu and its completion have no token",
                            (unsigned long long)sample->prompt);
    cut(lane, &tokens, &count);
    if (make_room(model, count, err) < 0 || queue_score(model, value, err) < 0)
        return -1;
    const struct dt_scored_text text = {.tokens = tokens, .count = count};
    return dt_scorer_add(model->scorer, &text, err);
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
