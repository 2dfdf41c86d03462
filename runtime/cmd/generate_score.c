/* SPDX-License-Identifier: Apache-2.0 */
/* generate_score.c - scores the texts of a file, several in one row */
#include "config.h"

#include <errno.h>
#include <limits.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "cmd/generate_score.h"
#include "data/examples.h"
#include "model/model.h"
#include "model/score.h"

enum { ROW_TOKENS = 2048 }; /* of a forward pass, unless a text is longer */

/* A row of texts, and what the model makes of it. */
struct scorer {
    struct dt_engine *engine;
    struct dt_model *model;
    size_t T;                              /* room of a row */
    int32_t *inputs, *targets, *doc_start; /* (T) */
    int32_t *picked;                       /* (T) */
    float *scores;                         /* (T) */
    size_t used, count;                    /* tokens and texts in the row */
};

static void scorer_fini(struct scorer *s)
{
    dt_model_destroy(s->model);
    free(s->inputs);
    free(s->targets);
    free(s->doc_start);
    free(s->picked);
    free(s->scores);
}

static int scorer_init(struct scorer *s, size_t longest, struct dt_error *err)
{
    struct dt_engine *engine = s->engine;
    s->T = longest > ROW_TOKENS ? longest : ROW_TOKENS;
    const struct dt_model_options options = {
        .B = 1,
        .T = s->T,
        .compute = engine->weights.dtype,
        .documents = true,
        .values = true,
    };
    s->inputs = malloc(s->T * sizeof(*s->inputs));
    s->targets = malloc(s->T * sizeof(*s->targets));
    s->doc_start = malloc(s->T * sizeof(*s->doc_start));
    s->picked = malloc(s->T * sizeof(*s->picked));
    s->scores = malloc(s->T * sizeof(*s->scores));
    if (!s->inputs || !s->targets || !s->doc_start || !s->picked || !s->scores)
        return dt_error_set(err, EX_OSERR, "out of memory");
    s->model = dt_model_create(&engine->config, engine->layout, &engine->exec,
                               dt_places_flat(engine->weights),
                               (struct dt_places){0}, &options, err);
    return s->model ? 0 : -1;
}

/* Prints the scores of the texts in the row, which is empty then. */
static int flush_row(struct scorer *s, struct dt_error *err)
{
    const struct dt_exec *exec = &s->engine->exec;
    const struct dt_batch batch = {
        .B = 1,
        .T = s->used,
        .inputs = s->inputs,
        .targets = s->targets,
        .doc_start = s->doc_start,
        .picked = s->picked,
        .picked_count = s->count,
    };
    if (s->count == 0)
        return 0;
    if (dt_model_bind(s->model, &batch, false, err) < 0)
        return -1;
    for (size_t u = 0; u + 1 < s->engine->layout->unit_count; u++)
        dt_model_forward(s->model, u);
    dt_model_values_forward(s->model);
    if (exec->device->copy(exec->stream, s->scores,
                           dt_view_data(dt_model_values(s->model).value),
                           s->count * sizeof(*s->scores), err) < 0 ||
        exec->device->stream_wait(exec->stream, err) < 0)
        return -1;
    for (size_t i = 0; i < s->count; i++)
        printf("%.9g\n", (double)s->scores[i]);
    s->used = s->count = 0;
    return 0;
}

/* Puts example i behind those in the row, after a pass if it is full. */
static int add_text(struct scorer *s, const struct dt_examples *examples,
                    size_t i, struct dt_error *err)
{
    size_t count, V = s->engine->config.vocab_size;
    const uint32_t *tokens = dt_example(examples, i, &count);
    if (s->used + count > s->T && flush_row(s, err) < 0)
        return -1;
    for (size_t t = 0; t < count; t++) {
        uint32_t id = tokens[t] & ~DT_TARGET_BIT;
        if (id >= V)
            return dt_error_set(err, EX_DATAERR,
                                "text %zu: token %u is not in the model, "
                                "which has %zu",
                                i + 1, id, V);
        s->inputs[s->used + t] = (int32_t)id;
        s->targets[s->used + t] = DT_IGNORE;
        s->doc_start[s->used + t] = (int32_t)s->used;
    }
    s->picked[s->count++] =
        (int32_t)(s->used + dt_score_token(s->inputs + s->used, count,
                                           s->engine->config.pad));
    s->used += count;
    return 0;
}

static int score_examples(struct dt_engine *engine,
                          const struct dt_examples *examples,
                          struct dt_error *err)
{
    struct scorer s = {.engine = engine};
    size_t longest = 0, n = dt_examples_count(examples);
    int result = 0;
    for (size_t i = 0, count; i < n && result == 0; i++) {
        dt_example(examples, i, &count);
        longest = count > longest ? count : longest;
        if (count == 0 || count > engine->config.n_positions)
            result = dt_error_set(err, EX_DATAERR,
                                  "text %zu has %zu tokens: expected 1 to %zu, "
                                  "the positions of the model",
                                  i + 1, count, engine->config.n_positions);
    }
    if (result == 0)
        result = scorer_init(&s, longest, err);
    for (size_t i = 0; i < n && result == 0; i++)
        result = add_text(&s, examples, i, err);
    if (result == 0)
        result = flush_row(&s, err);
    scorer_fini(&s);
    return result;
}

int dt_generate_score(struct dt_engine *engine, const char *path,
                      const char *chat_template, struct dt_error *err)
{
    const char *temporary = getenv("TMPDIR");
    char cache[PATH_MAX];
    const struct dt_example_options options = {
        .chat_template = chat_template,
        .parse_special = true,
        .threads = omp_get_max_threads(),
        .cache_dir = cache,
    };
    struct dt_error late;
    bool made;
    if (!engine->tokenizer)
        return dt_error_set(err, EX_USAGE,
                            "--score needs a tokenizer, and the model has no "
                            "tokenizer.json");
    if (snprintf(cache, sizeof(cache), "%s/disttrain-score-XXXXXX",
                 temporary ? temporary : "/tmp") >= (int)sizeof(cache))
        return dt_error_set(err, EX_CANTCREAT, "TMPDIR is too long");
    if (!mkdtemp(cache))
        return dt_error_set(err, EX_CANTCREAT, "%s: cannot create: %s", cache,
                            strerror(errno));
    struct dt_examples *examples =
        dt_examples_open(path, engine->tokenizer, &options, &made, err);
    int result = examples ? score_examples(engine, examples, err) : -1;
    if (examples && result < 0)
        dt_error_prefix(err, "%s", path);
    dt_examples_close(examples);
    dt_file_remove_tree(cache, &late);
    return result;
}
