/* SPDX-License-Identifier: Apache-2.0 */
/* generation_state.c - saves and loads sampled completions */
#include "config.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/file.h"
#include "ckpt/safetensors.h"
#include "sampling/sampling.h"
#include "sampling/sampling_impl.h"

#define STATE_FILE "alignment.json"
#define EXPERIENCE_FILE "experience.safetensors"

enum { STATE_VERSION = 1, STATE_MAX_BYTES = 1 << 20 };

/* --- saving --- */

static json_t *format_sums(const struct dt_samples *s)
{
    json_t *sums = json_object();
    for (size_t i = 0; i < s->numbers.count; i++)
        json_object_set_new(
            sums, s->names[i],
            json_pack("[f, f]", s->sums.sum[i], s->sums.steps[i]));
    return sums;
}

/* JSON has no NaN. */
static json_t *number_or_null(double value)
{
    return isnan(value) ? json_null() : json_real(value);
}

static double read_number_or_null(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

/* The controller of the KL divergence, and what it has left out. */
static json_t *format_ppo(const struct dt_ppo *ppo)
{
    return json_pack("{s:f, s:o, s:I}", "kl_coef", ppo->kl_coef, "kl",
                     number_or_null(ppo->kl), "left_out",
                     (json_int_t)ppo->left_out);
}

static json_t *format_refill(const struct dt_samples *s)
{
    json_t *list = json_array();
    for (size_t i = 0; i < DT_REFILL_NUMBERS; i++)
        json_array_append_new(
            list, isnan(s->refill[i]) ? json_null() : json_real(s->refill[i]));
    return list;
}

static int add_state(const struct dt_run *run, struct dt_ckpt_writer *writer,
                     struct dt_error *err)
{
    const struct dt_spec *spec = &run->spec;
    const struct dt_samples *s = &run->samples;
    json_t *state = json_pack(
        "{s:i, s:I, s:I, s:I, s:I, s:i, s:o}", "version", STATE_VERSION,
        "generation", (json_int_t)s->generation, "use", (json_int_t)s->use,
        "prompts", (json_int_t)spec->sampling.groups, "completions",
        (json_int_t)spec->sampling.copies, "idle", s->idle, "sums",
        format_sums(s));
    json_object_set_new(state, "first_reward", number_or_null(s->first_reward));
    if (s->ahead.groups > 0)
        json_object_set_new(state, "ahead", json_true());
    if (spec->algo->critic_loss)
        json_object_set_new(state, "ppo", format_ppo(&run->ppo));
    if (spec->conf.grpo.dynamic_sampling.enabled)
        json_object_set_new(state, "dynamic_sampling", format_refill(s));
    char *text =
        state ? json_dumps(state, JSON_INDENT(2) | JSON_REAL_PRECISION(17))
              : NULL;
    int rc = text ? dt_ckpt_add_text(writer, STATE_FILE, text, err)
                  : dt_error_set(err, EX_OSERR, STATE_FILE ": out of memory");
    free(text);
    json_decref(state);
    return rc;
}

int dt_alignment_save(struct dt_run *run, struct dt_ckpt_writer *writer,
                      struct dt_error *err)
{
    struct dt_samples *s = &run->samples;
    struct dt_experience *e = s->use > 0 ? &s->experience : &s->ahead;
    struct dt_generation_arrays t;
    if (!run->spec.algo->advantages)
        return 0;
    if (add_state(run, writer, err) < 0)
        return -1;
    if (e->groups == 0)
        return 0;
    dt_generation_list(e, &t);
    return dt_ckpt_add_tensors(writer, EXPERIENCE_FILE, t.tensor, t.count, NULL,
                               err);
}

/* --- loading --- */

static void read_sums(struct dt_samples *s, const json_t *sums)
{
    for (size_t i = 0; i < s->numbers.count; i++) {
        const json_t *pair = json_object_get(sums, s->names[i]);
        s->sums.sum[i] = json_number_value(json_array_get(pair, 0));
        s->sums.steps[i] = json_number_value(json_array_get(pair, 1));
    }
}

/* Those of a run that did not replace prompts are unknown. */
static void read_refill(struct dt_samples *s, const json_t *list)
{
    for (size_t i = 0; i < DT_REFILL_NUMBERS; i++) {
        const json_t *value = json_array_get(list, i);
        s->refill[i] = json_is_number(value) ? json_number_value(value) : NAN;
    }
}

/* -1: it is not there, or something else. */
static int read_ppo(struct dt_ppo *ppo, const json_t *state)
{
    const json_t *own = json_object_get(state, "ppo");
    json_int_t left_out = 0;
    if (json_unpack((json_t *)own, "{s:F, s?I}", "kl_coef", &ppo->kl_coef,
                    "left_out", &left_out) < 0 ||
        left_out < 0)
        return -1;
    ppo->left_out = (long)left_out;
    ppo->kl = read_number_or_null(own, "kl");
    return 0;
}

/* Whether what was sampled ahead is of use to this run. Otherwise its prompts
 * are sampled again, so that none is left out.
 */
static bool read_ahead(struct dt_run *run, const json_t *state, size_t groups,
                       size_t copies)
{
    struct dt_samples *s = &run->samples;
    if (!json_is_true(json_object_get(state, "ahead")))
        return false;
    if (run->spec.conf.rollout.overlap > 0 &&
        groups == run->spec.sampling.groups &&
        copies == run->spec.sampling.copies)
        return true;
    s->position -= groups < s->position ? groups : s->position;
    return false;
}

static int parse_state(struct dt_run *run, const char *path, const char *text,
                       bool *ahead, struct dt_error *err)
{
    const struct dt_spec *spec = &run->spec;
    struct dt_samples *s = &run->samples;
    json_error_t why;
    json_int_t generation, use, groups, copies;
    int version, idle, rc = 0;
    json_t *sums, *state = json_loads(text, JSON_REJECT_DUPLICATES, &why);
    if (!state ||
        json_unpack_ex(state, &why, 0, "{s:i, s:I, s:I, s:I, s:I, s:i, s:o}",
                       "version", &version, "generation", &generation, "use",
                       &use, "prompts", &groups, "completions", &copies, "idle",
                       &idle, "sums", &sums) < 0)
        rc = dt_error_set(err, EX_DATAERR, "%s:%d:%d: %s", path, why.line,
                          why.column, why.text);
    else if (version != STATE_VERSION || generation < 0 || use < 0)
        rc = dt_error_set(err, EX_DATAERR,
                          "%s: version %d, generation %lld, use %lld: expected "
                          "version %d and numbers >= 0",
                          path, version, (long long)generation, (long long)use,
                          STATE_VERSION);
    else if (use > 0 && ((size_t)groups != spec->sampling.groups ||
                         (size_t)copies != spec->sampling.copies ||
                         (size_t)use >= spec->sampling.uses))
        rc = dt_error_set(err, EX_CONFIG,
                          "%s: is in the middle of a generation of %lld "
                          "prompts with %lld completions, of which %lld steps "
                          "are done; this run has %zu, %zu and %zu steps: "
                          "resume with the same training.train_batch_size and "
                          "keys of grpo, or from a checkpoint between "
                          "generations",
                          path, (long long)groups, (long long)copies,
                          (long long)use, spec->sampling.groups,
                          spec->sampling.copies, spec->sampling.uses);
    else if (spec->algo->critic_loss && read_ppo(&run->ppo, state) < 0)
        rc = dt_error_set(err, EX_DATAERR,
                          "%s: ppo: expected kl_coef, a number", path);
    if (rc == 0) {
        s->generation = (uint64_t)generation;
        s->use = (size_t)use;
        s->idle = idle;
        s->first_reward = read_number_or_null(state, "first_reward");
        read_sums(s, sums);
        read_refill(s, json_object_get(state, "dynamic_sampling"));
        *ahead = read_ahead(run, state, (size_t)groups, (size_t)copies);
    }
    json_decref(state);
    return rc;
}

static int read_file(void *from, const struct dt_ckpt_tensor *tensors,
                     size_t count, struct dt_error *err)
{
    return dt_safetensors_read_all(from, tensors, count, err);
}

static int read_experience(struct dt_run *run, struct dt_experience *e,
                           const char *path, struct dt_error *err)
{
    struct dt_safetensors *st = dt_safetensors_open(path, err);
    int rc = st ? dt_generation_fill(run, e, read_file, st, err) : -1;
    dt_safetensors_close(st);
    return rc;
}

/* Reads the generation in use, or the one that was sampled ahead, and keeps it
 * for a process after this one.
 */
static int load_generation(struct dt_run *run, bool ahead, const char *path,
                           struct dt_error *err)
{
    struct dt_samples *s = &run->samples;
    struct dt_experience *e = ahead ? &s->ahead : &s->experience;
    if (read_experience(run, e, path, err) < 0)
        return dt_error_prefix(err, "%s", path);
    s->sampled = run->spec.sampling.groups;
    dt_generation_put(run, e, s->generation + ahead);
    return ahead ? 0 : dt_generation_begin_again(run, err);
}

int dt_alignment_load(struct dt_run *run, const char *dir, struct dt_error *err)
{
    struct dt_samples *s = &run->samples;
    char path[PATH_MAX + 32];
    bool ahead = false;
    if (!run->spec.algo->advantages)
        return 0;
    s->position = run->progress.position;
    snprintf(path, sizeof(path), "%s/" STATE_FILE, dir);
    char *text = dt_file_read(path, STATE_MAX_BYTES, err);
    int rc = text ? parse_state(run, path, text, &ahead, err) : -1;
    free(text);
    if (rc < 0 || (s->use == 0 && !ahead))
        return rc;
    snprintf(path, sizeof(path), "%s/" EXPERIENCE_FILE, dir);
    return load_generation(run, ahead, path, err);
}
