/* SPDX-License-Identifier: Apache-2.0 */
/* samples_log.c - samples-<step>.jsonl: completions for people to read */
#include "config.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/log.h"
#include "sampling/sampling_impl.h"

/* A number, or null if it is none. */
static json_t *number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *rewards_of(const struct dt_run *run, size_t row)
{
    const struct dt_samples *s = &run->samples;
    const struct dt_experience *e = &s->experience;
    json_t *rewards = json_object();
    for (size_t k = 0; k < e->columns; k++)
        json_object_set_new(rewards, s->columns[k].name,
                            number(e->rewards[row * e->columns + k]));
    return rewards;
}

static json_t *ids_of(const struct dt_experience *e, size_t row)
{
    const int32_t *ids = dt_experience_ids(e, row);
    json_t *list = json_array();
    for (int32_t t = 0; t < e->count[row]; t++)
        json_array_append_new(list, json_integer(ids[t]));
    return list;
}

/* A line of the file; NULL: a text is not UTF-8, or out of memory. */
static json_t *describe(const struct dt_run *run, size_t row,
                        const struct dt_prompt_line *line)
{
    static const char *const ends[] = {[DT_END_EOS] = "eos",
                                       [DT_END_STRING] = "string",
                                       [DT_END_LENGTH] = "length"};
    const struct dt_experience *e = &run->samples.experience;
    size_t bytes, g = row / e->copies;
    char *text =
        dt_detokenize_all(run->data.tokenizer, true, dt_experience_ids(e, row),
                          (size_t)e->count[row], &bytes);
    json_t *prompt = line->messages ? json_incref(line->messages)
                                    : json_stringn(line->text, line->bytes);
    json_t *json = json_pack(
        "{s:o, s:O*, s:o, s:I, s:I, s:o, s:o, s:s, s:o, s:O}", "prompt", prompt,
        "images", line->images, "completion",
        text ? json_stringn(text, bytes) : NULL, "number",
        (json_int_t)e->number[g], "copy", (json_int_t)(row % e->copies),
        "rewards", rewards_of(run, row), "advantage",
        number(e->advantages[row]), "end", ends[e->end[row]], "ids",
        ids_of(e, row), "columns", line->columns);
    free(text);
    return json;
}

static int write_line(json_t *json, FILE *file, struct dt_error *err)
{
    if (!json)
        return dt_error_set(err, EX_DATAERR,
                            "a text that is no UTF-8, or no memory");
    if (json_dumpf(json, file, JSON_COMPACT) < 0 || fputc('\n', file) == EOF)
        return dt_error_set(err, EX_IOERR, "%s", strerror(errno));
    return 0;
}

static int write_group(const struct dt_run *run, size_t g, FILE *file,
                       struct dt_error *err)
{
    const struct dt_experience *e = &run->samples.experience;
    struct dt_prompt_line line;
    int rc = dt_prompts_read(run->data.prompts, e->number[g], &line, err);
    for (size_t copy = 0; copy < e->copies && rc == 0; copy++) {
        json_t *json = describe(run, g * e->copies + copy, &line);
        rc = write_line(json, file, err);
        json_decref(json);
    }
    dt_prompt_line_fini(&line);
    return rc;
}

static int write_samples(const struct dt_run *run, const char *path,
                         struct dt_error *err)
{
    const size_t groups = run->samples.experience.groups;
    const size_t most = (size_t)run->spec.conf.rollout.log_samples;
    FILE *file = fopen(path, "we");
    if (!file)
        return dt_error_set(err, EX_CANTCREAT, "%s", strerror(errno));
    int rc = 0;
    for (size_t g = 0; g < most && g < groups && rc == 0; g++)
        rc = write_group(run, g, file, err);
    if (fclose(file) != 0 && rc == 0)
        rc = dt_error_set(err, EX_IOERR, "%s", strerror(errno));
    return rc;
}

void dt_run_log_samples(const struct dt_run *run, long step)
{
    const struct dt_conf *conf = &run->spec.conf;
    long every = conf->rollout.log_every;
    char path[PATH_MAX];
    struct dt_error err;
    if (run->spec.rank != 0 || every == 0 || conf->rollout.log_samples == 0 ||
        (step > 1 && (step - 1) / every ==
                         (step - 1 - (long)run->spec.sampling.uses) / every))
        return;
    snprintf(path, sizeof(path), "%s/samples-%ld.jsonl", conf->logging.dir,
             step);
    if (write_samples(run, path, &err) < 0)
        dt_log(DT_LOG_WARN, "algo", "%s: samples are not logged: %s", path,
               err.text);
}
