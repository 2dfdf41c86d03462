/* SPDX-License-Identifier: Apache-2.0 */
/* generate_score.c - scores the texts of a file */
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
#include "reward/scorer.h"

static void print_score(void *ctx, float score)
{
    (void)ctx;
    printf("%.9g\n", (double)score);
}

static int score_examples(struct dt_engine *engine,
                          const struct dt_examples *examples,
                          struct dt_error *err)
{
    struct dt_scorer *scorer = NULL;
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
    if (result == 0 && !(scorer = dt_scorer_create(engine, longest, 0,
                                                   print_score, NULL, err)))
        result = -1;
    for (size_t i = 0, count; i < n && result == 0; i++) {
        const uint32_t *tokens = dt_example(examples, i, &count);
        result = dt_examples_check(examples, tokens, count, err);
        if (result == 0)
            result = dt_scorer_add(scorer, tokens, count, err);
        if (result < 0)
            dt_error_prefix(err, "text %zu", i + 1);
    }
    if (result == 0)
        result = dt_scorer_flush(scorer, err);
    dt_scorer_destroy(scorer);
    return result;
}

int dt_generate_score(struct dt_engine *engine, const char *path,
                      const char *chat_template, const char *chat_variables,
                      struct dt_error *err)
{
    const char *temporary = getenv("TMPDIR");
    char cache[PATH_MAX];
    const struct dt_example_options options = {
        .chat_template = chat_template,
        .chat_variables = chat_variables,
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
