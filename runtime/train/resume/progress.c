/* SPDX-License-Identifier: Apache-2.0 */
/* progress.c - trainer_state.json: the progress of a run */
#include "config.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <jansson.h>

#include "algo/algo.h"
#include "base/file.h"
#include "run/exchange.h"
#include "train/resume/resume_impl.h"

enum { STATE_VERSION = 2, STATE_MAX_BYTES = 1 << 20 };

/* Adds the metrics since the last report. -1: out of memory. */
static int add_metrics(json_t *state, const struct dt_run *run)
{
    const struct dt_metrics *m = &run->progress.metrics;
    json_t *values = json_array();
    int result = json_array_append_new(values, json_real(m->tokens));
    double value;
    if (run->spec.algo->metric_count == 0 || m->pairs == 0) {
        json_decref(values);
        return 0;
    }
    for (size_t i = 0; i < run->spec.algo->metric_count; i++) {
        value = m->value[i];
        result |= json_array_append_new(
            values, isfinite(value) ? json_real(value) : json_null());
    }
    return json_object_set_new(state, "metrics", values) | result;
}

/* Reads them; those of pairs are as many as loss_tokens. -1: they are not
 * what this algorithm writes.
 */
static int read_metrics(struct dt_run *run, const json_t *state)
{
    struct dt_metrics *m = &run->progress.metrics;
    const json_t *values = json_object_get(state, "metrics");
    size_t count = run->spec.algo->metric_count;
    dt_metrics_clear(run->spec.algo, m);
    if (!values)
        return 0;
    if (json_array_size(values) != count + 1)
        return -1;
    m->loss = run->progress.loss_sum;
    m->pairs = run->progress.loss_tokens;
    m->tokens = json_number_value(json_array_get(values, 0));
    for (size_t i = 0; i < count; i++) {
        const json_t *value = json_array_get(values, i + 1);
        m->value[i] = json_is_null(value) ? NAN : json_number_value(value);
    }
    return 0;
}

/* Adds what the critic counts, as the fields of the model. -1: out of memory.
 */
static int add_critic(json_t *state, const struct dt_learner *critic)
{
    const struct dt_scaler *s = &critic->scaler;
    if (!critic->model)
        return 0;
    return json_object_set_new(
        state, "critic",
        json_pack("{s:I, s:{s:i, s:f, s:I, s:I, s:I}}", "optimizer_steps",
                  (json_int_t)dt_optim_steps(critic->optim), "scaler", "kind",
                  (int)s->options.kind, "scale", s->scale, "steps",
                  (json_int_t)s->steps, "last_overflow",
                  (json_int_t)s->last_overflow, "hysteresis",
                  (json_int_t)s->hysteresis));
}

char *dt_progress_format(const struct dt_run *run, struct dt_error *err)
{
    const struct dt_spec *spec = &run->spec;
    const struct dt_progress *p = &run->progress;
    const struct dt_scaler *scaler = &run->learner.scaler;
    char hash[17];
    snprintf(hash, sizeof(hash), "%016" PRIx64, run->data.hash);
    json_t *state = json_pack(
        "{s:i, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:f, s:f, s:i, s:I, s:s, s:I,"
        " s:I, s:{s:i, s:f, s:I, s:I, s:I}, s:O}",
        "version", STATE_VERSION, "step", (json_int_t)p->step,
        "optimizer_steps", (json_int_t)dt_optim_steps(run->learner.optim),
        "skipped_in_row", (json_int_t)p->skipped_in_row, "skipped",
        (json_int_t)p->skipped, "position", (json_int_t)p->position, "tokens",
        p->tokens, "first_loss", p->first_loss, "loss_sum", p->loss_sum,
        "loss_tokens", p->loss_tokens, "world", spec->world, "samples_per_step",
        (json_int_t)(spec->B * spec->A * (size_t)spec->world), "data_hash",
        hash, "max_length", (json_int_t)spec->T, "data_seed",
        (json_int_t)spec->conf.run.data_seed, "scaler", "kind",
        (int)scaler->options.kind, "scale", scaler->scale, "steps",
        (json_int_t)scaler->steps, "last_overflow",
        (json_int_t)scaler->last_overflow, "hysteresis",
        (json_int_t)scaler->hysteresis, "settings", run->settings);
    char *text =
        state && add_metrics(state, run) == 0 &&
                add_critic(state, &run->critic) == 0 &&
                dt_best_put(state, run) == 0
            ? json_dumps(state, JSON_INDENT(2) | JSON_REAL_PRECISION(17))
            : NULL;
    json_decref(state);
    if (!text)
        dt_error_set(err, EX_OSERR, DT_PROGRESS_FILE ": cannot be formatted");
    return text;
}

/* A scaler of another kind starts from its own options. */
static void resume_scaler(struct dt_scaler *scaler, json_int_t kind,
                          double scale, json_int_t hysteresis)
{
    if (kind != scaler->options.kind || kind == DT_SCALER_STATIC)
        return;
    scaler->scale = scale;
    scaler->hysteresis = (long)hysteresis;
}

/* Reads what the critic counted. -1: it is not there, or something else. */
static int read_critic(const json_t *state, struct dt_learner *critic)
{
    struct dt_scaler *s = &critic->scaler;
    json_int_t optimizer, steps, last, hysteresis;
    double scale;
    int kind;
    if (!critic->model)
        return 0;
    if (json_unpack(json_object_get(state, "critic"),
                    "{s:I, s:{s:i, s:F, s:I, s:I, s:I}}", "optimizer_steps",
                    &optimizer, "scaler", "kind", &kind, "scale", &scale,
                    "steps", &steps, "last_overflow", &last, "hysteresis",
                    &hysteresis) < 0)
        return -1;
    dt_optim_set_steps(critic->optim, (long)optimizer);
    s->steps = (long)steps;
    s->last_overflow = (long)last;
    resume_scaler(s, kind, scale, hysteresis);
    return 0;
}

/* Reads what the state of some algorithms has. */
static int read_more(struct dt_run *run, const json_t *state, const char *path,
                     struct dt_error *err)
{
    if (dt_best_get(state, run) < 0)
        return dt_error_set(err, EX_DATAERR,
                            "%s: best: expected the best evaluation", path);
    if (read_metrics(run, state) < 0)
        return dt_error_set(err, EX_DATAERR,
                            "%s: metrics: not those of algorithm %s", path,
                            run->spec.algo->name);
    if (read_critic(state, &run->critic) < 0)
        return dt_error_set(err, EX_DATAERR,
                            "%s: critic: expected what a critic counts", path);
    return 0;
}

static int parse_state(struct dt_run *run, const char *dir, const char *path,
                       const char *text, struct dt_error *err)
{
    struct dt_progress *p = &run->progress;
    struct dt_scaler *scaler = &run->learner.scaler;
    json_error_t why;
    json_int_t step, steps, skipped, position, length, seed, samples;
    json_int_t scaler_steps, last_overflow, hysteresis;
    double scale;
    int kind;
    const char *hash;
    json_t *state = json_loads(text, JSON_REJECT_DUPLICATES, &why);
    json_int_t version = json_integer_value(json_object_get(state, "version"));
    int result = -1;
    if (state && version != STATE_VERSION)
        dt_error_set(err, EX_DATAERR,
                     "%s: has version %lld, but this program reads version "
                     "%d: name the checkpoint in model.path to start from "
                     "its weights",
                     path, (long long)version, STATE_VERSION);
    else if (!state ||
             json_unpack_ex(state, &why, 0,
                            "{s:I, s:I, s:I, s:I, s:F, s:F, s:F, s:F, s:s,"
                            " s:I, s:I, s:I, s:{s:i, s:F, s:I, s:I, s:I}}",
                            "step", &step, "optimizer_steps", &steps,
                            "skipped_in_row", &skipped, "position", &position,
                            "tokens", &p->tokens, "first_loss", &p->first_loss,
                            "loss_sum", &p->loss_sum, "loss_tokens",
                            &p->loss_tokens, "data_hash", &hash, "max_length",
                            &length, "data_seed", &seed, "samples_per_step",
                            &samples, "scaler", "kind", &kind, "scale", &scale,
                            "steps", &scaler_steps, "last_overflow",
                            &last_overflow, "hysteresis", &hysteresis) < 0)
        dt_error_set(err, EX_DATAERR, "%s:%d:%d: %s", path, why.line,
                     why.column, why.text);
    else if (step < 0 || steps < 0 || position < 0)
        dt_error_set(err, EX_DATAERR,
                     "%s: step %lld, position %lld: expected numbers >= 0",
                     path, (long long)step, (long long)position);
    else
        result =
            dt_same_run(run, dir,
                        &(struct dt_same_state){
                            json_object_get(state, "settings"), (long)samples,
                            hash, (size_t)length, (uint64_t)seed},
                        err);
    if (result == 0)
        result = read_more(run, state, path, err);
    if (result == 0) {
        p->step = (long)step;
        p->skipped_in_row = (long)skipped;
        p->skipped = /* 0 in older ones */
            (long)json_integer_value(json_object_get(state, "skipped"));
        p->position = (uint64_t)position;
        dt_optim_set_steps(run->learner.optim, (long)steps);
        scaler->steps = (long)scaler_steps;
        scaler->last_overflow = (long)last_overflow;
        resume_scaler(scaler, kind, scale, hysteresis);
    }
    json_decref(state);
    return result;
}

int dt_progress_load(struct dt_run *run, const char *dir, struct dt_error *err)
{
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/%s", dir, DT_PROGRESS_FILE);
    char *text = dt_file_read(path, STATE_MAX_BYTES, err);
    int result = text ? parse_state(run, dir, path, text, err) : -1;
    free(text);
    return result;
}

int dt_progress_share(struct dt_run *run, struct dt_error *err)
{
    struct {
        struct dt_progress progress;
        struct {
            long steps;
            struct dt_scaler scaler;
        } learner[2];
    } all = {.progress = run->progress};
    struct dt_learner *learner;
    for (size_t i = 0; (learner = dt_run_learner(run, i)); i++) {
        all.learner[i].steps = dt_optim_steps(learner->optim);
        all.learner[i].scaler = learner->scaler;
    }
    if (dt_gather_bytes_of(run->comm, 0, &all, sizeof(all), err) < 0)
        return -1;
    run->progress = all.progress;
    for (size_t i = 0; (learner = dt_run_learner(run, i)); i++) {
        dt_optim_set_steps(learner->optim, all.learner[i].steps);
        learner->scaler = all.learner[i].scaler;
    }
    return 0;
}
