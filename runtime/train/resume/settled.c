/* SPDX-License-Identifier: Apache-2.0 */
/* settled.c - notes where a run is between two steps, and goes on there */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/sha256.h"
#include "train/resume/resume.h"
#include "train/resume/settled.h"

void dt_settled_note(struct dt_run *run, struct dt_settled *s)
{
    struct dt_learner *learner;
    s->progress = run->progress;
    s->saves = run->saves;
    s->health = run->health;
    dt_samples_note(run, &s->samples);
    for (size_t i = 0; (learner = dt_run_learner(run, i)); i++) {
        s->learners[i].steps = dt_optim_steps(learner->optim);
        s->learners[i].scaler = learner->scaler;
    }
}

void dt_settled_take(struct dt_run *run, const struct dt_settled *s)
{
    struct dt_learner *learner;
    run->progress = s->progress;
    run->saves = s->saves;
    run->health = s->health;
    for (size_t i = 0; (learner = dt_run_learner(run, i)); i++) {
        dt_optim_set_steps(learner->optim, s->learners[i].steps);
        learner->scaler = s->learners[i].scaler;
    }
    run->queued = run->progress.step;
}

int dt_settled_hash(const struct dt_run *run,
                    const struct dt_parallel_options *options,
                    size_t record_bytes, uint64_t *hash, struct dt_error *err)
{
    const struct dt_spec *spec = &run->spec;
    uint8_t sum[DT_SHA256_BYTES];
    char *text = NULL;
    json_t *settings = dt_same_settings(spec, err);
    if (!settings)
        return -1;
    json_t *all = json_pack(
        "{s:s, s:I, s:i, s:i, s:I, s:[i, i, i, i, i, i, b, b], s:[I, I, I], "
        "s:o}",
        "release", PACKAGE_VERSION, "record", (json_int_t)record_bytes, "rank",
        spec->rank, "world", spec->world, "data", (json_int_t)run->data.hash,
        "ranks", options->strategy, options->compute, options->wire,
        options->when, options->group, options->node, options->int8,
        options->hybrid, "step", (json_int_t)spec->B, (json_int_t)spec->A,
        (json_int_t)spec->T, "settings", settings);
    if (all)
        text = json_dumps(all, JSON_COMPACT | JSON_SORT_KEYS);
    json_decref(all);
    if (!text)
        return dt_error_set(err, EX_OSERR, "out of memory");
    dt_sha256(text, strlen(text), sum);
    memcpy(hash, sum, sizeof(*hash));
    free(text);
    return 0;
}
