/* SPDX-License-Identifier: Apache-2.0 */
/* score.c - scores the texts of a file with a reward model */
#include "config.h"

#include <errno.h>
#include <limits.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "base/file.h"
#include "cmd/cmd_impl.h"
#include "cmd/score.h"
#include "image/store.h"
#include "reward/scorer.h"
#include "rollout/engine.h"

/* The texts of a file, while they are scored. */
struct scoring {
    struct dt_engine *engine;
    const char *path;
    const struct dt_examples *examples;
    const struct dt_example_images *images; /* NULL: the model sees none */
    bool pairs;
    struct dt_scorer_room room;
    struct dt_scorer *scorer;
};

/* The texts of an example: one or, of a pair, two with the same images. */
struct texts {
    const uint32_t *tokens[DT_SIDES];
    size_t count[DT_SIDES];
    size_t sides;
    struct dt_pictures found;
    size_t patches;
};

/* Finds the texts of example i; dt_pictures_fini of texts->found in any case.
 */
static int find_texts(const struct scoring *s, size_t i, struct texts *texts,
                      struct dt_error *err)
{
    struct dt_example_parts parts = {0};
    struct dt_pair pair;
    size_t words;
    const uint32_t *example = dt_example(s->examples, i, &words);
    *texts = (struct texts){.sides = 1};
    if (dt_examples_check(s->examples, example, words, err) < 0)
        return -1;
    parts.tokens = example;
    parts.token_count = words;
    if (s->images && (!dt_example_find(example, words, &parts) ||
                      dt_pictures_find(&texts->found, &texts->patches, example,
                                       words, s->images, err) < 0))
        return -1;
    texts->tokens[0] = parts.tokens;
    texts->count[0] = parts.token_count;
    if (s->pairs && dt_pair_find(parts.tokens, parts.token_count, &pair)) {
        memcpy(texts->tokens, pair.tokens, sizeof(texts->tokens));
        memcpy(texts->count, pair.count, sizeof(texts->count));
        texts->sides = DT_SIDES;
    }
    return 0;
}

/* Puts the place of example i in front of an error. Lines are known of those
 * that may have images. Returns -1.
 */
static int name_text(const struct scoring *s, size_t i, struct dt_error *err)
{
    struct dt_example_parts parts;
    size_t words;
    const uint32_t *example = dt_example(s->examples, i, &words);
    if (s->images && dt_example_find(example, words, &parts) && parts.line > 0)
        return dt_examples_name_line(s->examples, parts.line, err);
    return dt_error_prefix(err, "%s: text %zu", s->path, i + 1);
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* Makes the room large enough for the texts of example i. */
static int measure(struct scoring *s, size_t i, struct dt_error *err)
{
    const size_t most = s->engine->config.n_positions;
    struct texts texts;
    int rc = find_texts(s, i, &texts, err);
    s->room.patches = larger(s->room.patches, texts.patches);
    s->room.pictures = larger(s->room.pictures, texts.found.picture_count);
    for (size_t k = 0; rc == 0 && k < texts.sides; k++) {
        s->room.longest = larger(s->room.longest, texts.count[k]);
        if (texts.count[k] == 0 || texts.count[k] > most)
            rc = dt_error_set(err, EX_DATAERR,
                              "%zu tokens: expected 1 to %zu, the positions of "
                              "the model",
                              texts.count[k], most);
    }
    dt_pictures_fini(&texts.found);
    return rc;
}

/* The pixels of these images, for free(). NULL and err: as dt_pictures_read. */
static uint8_t *read_pixels(const struct scoring *s, const struct texts *texts,
                            struct dt_error *err)
{
    const size_t row = s->images ? dt_image_row_bytes(s->images->processor) : 0;
    uint8_t *pixels = calloc(texts->patches + 1, row + 1), *to = pixels;
    if (!pixels)
        dt_error_set(err, EX_OSERR, "out of memory");
    for (size_t i = 0; to && i < texts->found.image_count; i++)
        if (!(to = dt_pictures_read(to, &texts->found.images[i], s->images,
                                    err)))
            dt_error_prefix(err, "image %zu", i + 1);
    if (!to) {
        free(pixels);
        return NULL;
    }
    return pixels;
}

static int add_texts(const struct scoring *s, size_t i, struct dt_error *err)
{
    struct texts texts;
    uint8_t *pixels = NULL;
    int rc = find_texts(s, i, &texts, err);
    if (rc == 0 && !(pixels = read_pixels(s, &texts, err)))
        rc = -1;
    for (size_t k = 0; rc == 0 && k < texts.sides; k++) {
        const struct dt_scored_text text = {
            .tokens = texts.tokens[k],
            .count = texts.count[k],
            .pictures = texts.found.pictures,
            .picture_count = texts.found.picture_count,
            .pixels = pixels,
        };
        rc = dt_scorer_add(s->scorer, &text, err);
    }
    free(pixels);
    dt_pictures_fini(&texts.found);
    return rc;
}

static int score_examples(struct scoring *s,
                          void (*done)(void *ctx, float score), void *ctx,
                          struct dt_error *err)
{
    const size_t count = dt_examples_count(s->examples);
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < count; i++)
        if ((rc = measure(s, i, err)) < 0)
            name_text(s, i, err);
    if (rc == 0 &&
        !(s->scorer = dt_scorer_create(s->engine, &s->room, done, ctx, err)))
        rc = -1;
    for (size_t i = 0; rc == 0 && i < count; i++)
        if ((rc = add_texts(s, i, err)) < 0)
            name_text(s, i, err);
    if (rc == 0)
        rc = dt_scorer_flush(s->scorer, err);
    dt_scorer_destroy(s->scorer);
    return rc;
}

/* Tokenizes the file into a cache in the directory `dir`, and scores it. */
static int score_in(const char *dir, struct dt_engine *engine,
                    const struct dt_prompter *prompter, const char *path,
                    const struct dt_example_options *options,
                    void (*done)(void *ctx, float score), void *ctx,
                    struct dt_error *err)
{
    const struct dt_example_images *sees = dt_prompter_reads(prompter);
    struct dt_example_options own = *options;
    struct dt_example_images images;
    struct dt_image_store store = {.dir = dir};
    bool made;
    own.cache_dir = dir;
    own.threads = omp_get_max_threads();
    if (sees) {
        images = *sees;
        images.store = &store;
        own.images = &images;
    }
    struct dt_examples *examples =
        dt_examples_open(path, engine->tokenizer, &own, &made, err);
    if (!examples)
        return -1;
    struct scoring scoring = {
        .engine = engine,
        .path = path,
        .examples = examples,
        .images = own.images,
        .pairs = options->format == DT_FORMAT_PREFERENCE,
        .room = {.colors = dt_prompter_colors(prompter)},
    };
    int rc = score_examples(&scoring, done, ctx, err);
    dt_examples_close(examples);
    return rc;
}

int dt_score_file(struct dt_engine *engine, const struct dt_prompter *prompter,
                  const char *path, const struct dt_example_options *options,
                  void (*done)(void *ctx, float score), void *ctx,
                  struct dt_error *err)
{
    const char *temporary = getenv("TMPDIR");
    char dir[PATH_MAX];
    if (snprintf(dir, sizeof(dir), "%s/disttrain-score-XXXXXX",
                 temporary ? temporary : "/tmp") >= (int)sizeof(dir))
        return dt_error_set(err, EX_CANTCREAT, "TMPDIR is too long");
    if (!mkdtemp(dir))
        return dt_error_set(err, EX_CANTCREAT, "%s: cannot create: %s", dir,
                            strerror(errno));
    int rc = score_in(dir, engine, prompter, path, options, done, ctx, err);
    dt_file_remove_tree(dir, NULL);
    return rc;
}

/* --- disttrain generate --score --- */

static void print_score(void *ctx, float score)
{
    (void)ctx;
    printf("%.9g\n", (double)score);
}

int dt_generate_score(struct dt_engine *engine,
                      const struct dt_prompter *prompter, const char *path,
                      const char *chat_template, const char *chat_variables,
                      struct dt_error *err)
{
    const struct dt_example_options options = {
        .chat_template = chat_template,
        .chat_variables = chat_variables,
        .parse_special = true,
        .keep_marks = true,
    };
    return dt_score_file(engine, prompter, path, &options, print_score, NULL,
                         err);
}
