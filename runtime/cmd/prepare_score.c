/* SPDX-License-Identifier: Apache-2.0 */
/* prepare_score.c - `disttrain prepare --score`: pairs as reward models see
 * them
 */
#include "config.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include <jansson.h>

#include "backend/backend.h"
#include "base/kind.h"
#include "base/str.h"
#include "cmd/cmd_impl.h"
#include "cmd/score.h"
#include "data/forms/forms.h"
#include "data/jsonl.h"
#include "rollout/engine.h"

/* The scores of a reward model: of each pair the chosen side's, then the
 * rejected one's.
 */
struct scores {
    float *of;
    size_t count, room;
    bool full; /* out of memory */
};

static void take_score(void *ctx, float score)
{
    struct scores *scores = ctx;
    if (scores->count == scores->room) {
        const size_t room = scores->room * 2 + 1024;
        float *of = reallocarray(scores->of, room, sizeof(*of));
        scores->full |= !of;
        if (!of)
            return;
        scores->of = of;
        scores->room = room;
    }
    scores->of[scores->count++] = score;
}

static int check_model(const struct dt_engine *engine, const char *dir,
                       struct dt_error *err)
{
    if (engine->config.scores && engine->tokenizer)
        return 0;
    return dt_error_set(err, EX_DATAERR, "%s: %s", dir,
                        engine->config.scores
                            ? "has no tokenizer.json"
                            : "a language model: --score needs a reward "
                              "model, as algorithm rm trains it");
}

/* Scores the sides of all pairs with one model. */
static int score_pairs(const struct dt_judging *judging,
                       const struct dt_judge *judge, struct dt_exec exec,
                       struct scores *scores, struct dt_error *err)
{
    const struct dt_example_options options = {
        .format = DT_FORMAT_PREFERENCE,
        .chat_template = "auto",
        .parse_special = true,
        .keep_marks = true,
    };
    const struct dt_error no_chat = {0};
    struct dt_prompter *prompter = NULL;
    struct dt_engine engine = {.exec = exec};
    int rc = dt_engine_open(&engine, judge->dir, DT_F32, err);
    if (rc == 0)
        rc = check_model(&engine, judge->dir, err);
    if (rc == 0 && !(prompter = dt_prompter_create(&engine, NULL, &no_chat,
                                                   judging->image_root, err)))
        rc = -1;
    if (rc == 0)
        rc = dt_score_file(&engine, prompter, judging->path, &options,
                           take_score, scores, err);
    if (rc == 0 && scores->full)
        rc = dt_error_set(err, EX_OSERR, "out of memory");
    dt_prompter_destroy(prompter);
    dt_engine_close(&engine);
    return rc;
}

static int score_all(const struct dt_judging *judging, struct scores *scores,
                     struct dt_error *err)
{
    const struct dt_backend_options options = {0};
    char note[512]; /* not printed: no need to say that it is the CPU */
    const struct dt_backend *backend =
        dt_backend_open("auto", &options, note, sizeof(note), err);
    if (!backend)
        return -1;
    struct dt_exec exec = {backend->device, backend->ops, NULL};
    int rc = exec.device->stream_create(&exec.stream, err);
    for (size_t k = 0; rc == 0 && k < judging->judge_count; k++)
        rc = score_pairs(judging, &judging->judges[k], exec, &scores[k], err);
    if (exec.stream)
        exec.device->stream_destroy(exec.stream);
    return rc;
}

/* --- lines --- */

/* The scores of pair `pair` by all models, as arrays, and how much more the
 * chosen side has in all.
 */
static json_t *list_scores(const struct dt_judging *judging,
                           const struct scores *scores, size_t pair,
                           double *margin)
{
    json_t *sides[DT_SIDES] = {json_array(), json_array()};
    *margin = 0;
    for (size_t k = 0; k < judging->judge_count; k++)
        for (int i = 0; i < DT_SIDES; i++) {
            const double score = (double)scores[k].of[2 * pair + (size_t)i];
            *margin +=
                (i == DT_CHOSEN ? 1 : -1) * judging->judges[k].weight * score;
            json_array_append_new(sides[i], json_real(score));
        }
    return json_pack("{soso}", "chosen", sides[DT_CHOSEN], "rejected",
                     sides[DT_REJECTED]);
}

/* Exchanges the values of two keys. */
static void exchange(json_t *object, const char *a, const char *b)
{
    json_t *first = json_incref(json_object_get(object, a));
    json_object_set(object, a, json_object_get(object, b));
    json_object_set_new(object, b, first);
}

/* Writes a line with the side of more reward as the chosen one, the margin
 * between both, and all scores.
 */
static int write_line(FILE *out, json_t *line, const struct dt_judging *judging,
                      const struct scores *of, size_t pair, size_t *changed,
                      struct dt_error *err)
{
    double margin;
    if (!dt_line_value(line, "chosen") || !dt_line_value(line, "rejected"))
        return dt_error_set(err, EX_DATAERR, "expected chosen and rejected");
    json_t *scores = list_scores(judging, of, pair, &margin);
    if (!isfinite(margin)) {
        json_decref(scores);
        return dt_error_set(err, EX_DATAERR,
                            "expected scores that are numbers, got a margin of "
                            "%g: is a model with these weights damaged?",
                            margin);
    }
    if (margin < 0) {
        exchange(line, "chosen", "rejected");
        exchange(scores, "chosen", "rejected");
        ++*changed;
    }
    if (json_object_set_new(line, "scores", scores) < 0 ||
        json_object_set_new(line, "margin", json_real(fabs(margin))) < 0)
        return dt_error_set(err, EX_OSERR, "out of memory");
    return json_dumpf(line, out, JSON_COMPACT) < 0 || putc('\n', out) == EOF
               ? dt_error_set(err, EX_IOERR, "cannot write: %s",
                              strerror(errno))
               : 0;
}

/* Writes all lines of the file, which are as many as pairs. */
static int write_lines(const struct dt_judging *judging,
                       const struct scores *scores, const struct dt_map *map,
                       FILE *out, struct dt_error *err)
{
    const size_t pairs = scores[0].count / DT_SIDES;
    size_t at = 0, length, pair = 0, changed = 0;
    uint64_t number = 0;
    const char *text;
    while (
        (text = dt_jsonl_next(map->data, map->bytes, &at, &number, &length))) {
        json_t *line = dt_line_parse(text, length, err);
        int rc = line ? 0 : -1;
        if (line && pair == pairs)
            rc = dt_error_set(err, EX_DATAERR, "the file has changed");
        if (rc == 0)
            rc = write_line(out, line, judging, scores, pair++, &changed, err);
        json_decref(line);
        if (rc < 0)
            return dt_error_prefix(err, "%s:%" PRIu64, judging->path, number);
    }
    printf("%s: %zu pair%s, of which %zu changed sides\n", judging->out, pair,
           dt_str_plural(pair), changed);
    return 0;
}

/* Writes the file next to its place, and puts it there when it is whole. */
static int write_file(const struct dt_judging *judging,
                      const struct scores *scores, const struct dt_map *map,
                      struct dt_error *err)
{
    char *part = NULL;
    if (asprintf(&part, "%s.part", judging->out) < 0)
        return dt_error_set(err, EX_OSERR, "out of memory");
    FILE *out = fopen(part, "we");
    int rc = out ? write_lines(judging, scores, map, out, err)
                 : dt_error_set(err, EX_CANTCREAT, "%s: cannot create: %s",
                                part, strerror(errno));
    if (out && fclose(out) != 0 && rc == 0)
        rc = dt_error_set(err, EX_IOERR, "%s: cannot write: %s", part,
                          strerror(errno));
    if (rc == 0 && rename(part, judging->out) < 0)
        rc = dt_error_set(err, EX_CANTCREAT, "%s: cannot create: %s",
                          judging->out, strerror(errno));
    if (out && rc < 0)
        unlink(part);
    free(part);
    return rc;
}

/* Rows of other forms cannot be written as they were read. */
static int check_form(const char *path, struct dt_error *err)
{
    struct dt_found found;
    if (dt_kind_find(path, DT_ASKED_LINES, &found, err) < 0)
        return -1;
    if (found.kind == DT_KIND_LINES && found.form == DT_FORM_PLAIN &&
        found.codec == DT_CODEC_NONE)
        return 0;
    return dt_error_set(err, EX_DATAERR,
                        "%s: %s: --score writes lines of JSON, and reads them",
                        path, dt_kind_name(&found));
}

int dt_prepare_scores(const struct dt_judging *judging, struct dt_error *err)
{
    struct dt_map map = {0};
    struct scores *scores = calloc(judging->judge_count, sizeof(*scores));
    if (!scores)
        return dt_error_set(err, EX_OSERR, "out of memory");
    int rc = check_form(judging->path, err);
    if (rc == 0)
        rc = score_all(judging, scores, err);
    if (rc == 0)
        rc = dt_map_init(&map, judging->path, err);
    if (rc == 0)
        rc = write_file(judging, scores, &map, err);
    dt_map_fini(&map);
    for (size_t k = 0; k < judging->judge_count; k++)
        free(scores[k].of);
    free(scores);
    return rc;
}
