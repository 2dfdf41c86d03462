/* SPDX-License-Identifier: Apache-2.0 */
/*
 * precompute.c - the reference's sums for all pairs, before the first step
 *
 * The reference never changes, so one pass over the pairs is enough for this
 * run and for later ones. Its sums are kept in a file next to the data, named
 * by a hash of everything they depend on. If the reference is the model before
 * the first step, that model computes them, and no second one is loaded.
 */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <xxhash.h>

#include "base/file.h"
#include "base/log.h"
#include "ckpt/safetensors.h"
#include "run/reference/reference.h"
#include "run/run.h"
#include "weights/weights.h"

enum { CHUNK = 4096 }; /* numbers summed over ranks in one call */

static const char *const parts[] = {"train", "eval"};

static struct dt_rows *rows_of(const struct dt_run *run, int part)
{
    return part == 0 ? run->data.train : run->data.eval;
}

/* --- the key --- */

static uint64_t hash_bytes(uint64_t hash, const void *data, size_t bytes)
{
    return XXH3_64bits_withSeed(data, bytes, hash);
}

/* Hashes the values of all parameters, however they are split into files. */
static int hash_weights(const struct dt_run *run, const char *dir,
                        uint64_t *hash, struct dt_error *err)
{
    const struct dt_layout *layout =
        dt_learner_model_layout(&run->spec.learner);
    struct dt_weights *weights = dt_weights_open(dir, layout, err);
    struct dt_buffer *room =
        weights ? dt_buffer_create(&dt_cpu,
                                   dt_layout_largest(layout) * sizeof(float),
                                   "a unit", err)
                : NULL;
    int result = room ? 0 : -1;
    for (size_t i = 0; i < layout->param_count && result == 0; i++) {
        const struct dt_param *param = &layout->params[i];
        struct dt_view view =
            dt_view_slice(dt_view_of(room, DT_F32), 0, param->count);
        result = dt_weights_read(
            weights, (struct dt_range){param->offset, param->count}, view, err);
        if (result == 0)
            *hash = hash_bytes(*hash, dt_view_data(view),
                               param->count * sizeof(float));
    }
    dt_buffer_destroy(room);
    dt_weights_close(weights);
    return result;
}

/* Makes the key from the reference, the pairs, and how they are cut and summed.
 */
static int make_key(const struct dt_run *run, uint64_t *key,
                    struct dt_error *err)
{
    const struct dt_spec *spec = &run->spec;
    const struct dt_conf *conf = &spec->conf;
    const char *dir = dt_learner_adapts(&spec->learner)
                          ? spec->learner.start
                          : dt_run_reference_dir(run);
    const struct dt_model_config *config = &spec->learner.config;
    const uint64_t shape = dt_model_config_hash(config);
    const double numbers[] = {
        (double)spec->T,   conf->data.truncation,   run->learner.compute,
        run->dpo.ld_alpha, conf->model.random_init, config->initializer_range};
    *key = hash_bytes(0, numbers, sizeof(numbers));
    *key = hash_bytes(*key, &shape, sizeof(shape));
    *key = hash_bytes(*key, &run->data.hash, sizeof(run->data.hash));
    *key = hash_bytes(*key, &run->data.eval_hash, sizeof(run->data.eval_hash));
    if (dir)
        return hash_weights(run, dir, key, err);
    *key = hash_bytes(*key, &conf->run.seed, sizeof(conf->run.seed));
    return 0;
}

/* --- the file --- */

/* Path in data.cache_dir, or next to the first file of pairs. -1: EX_CANTCREAT.
 */
static int name_file(const struct dt_run *run, uint64_t key,
                     char path[PATH_MAX], struct dt_error *err)
{
    const char *first = run->spec.conf.data.train.text[0];
    const char *dir = run->spec.conf.data.cache_dir;
    int beside = (int)(strrchr(first, '/') - first);
    int n =
        snprintf(path, PATH_MAX, "%.*s%s/reference-%016" PRIx64 ".safetensors",
                 dir ? (int)strlen(dir) : beside, dir ? dir : first,
                 dir ? "" : "/.disttrain-cache", key);
    if (n < 0 || n >= PATH_MAX - 8)
        return dt_error_set(err, EX_CANTCREAT, "%s: path too long", first);
    return 0;
}

/* Contents of the file: the sums, and the key, by which another file in its
 * place is found out.
 */
struct content {
    uint64_t key;
    struct dt_buffer buf; /* of the key */
    struct dt_ckpt_tensor tensors[3];
    size_t count;
};

static void list_content(const struct dt_run *run, struct content *c)
{
    c->buf = (struct dt_buffer){.data = &c->key, .bytes = sizeof(c->key)};
    c->count = 0;
    c->tensors[c->count++] =
        (struct dt_ckpt_tensor){.name = "key",
                                .ndim = 1,
                                .shape = {1},
                                .view = dt_view_of(&c->buf, DT_I64),
                                .stored = DT_I64};
    for (int part = 0; part < 2; part++) {
        const struct dt_sums *sums = &run->reference.precomputed[part];
        if (sums->pairs > 0)
            c->tensors[c->count++] = (struct dt_ckpt_tensor){
                .name = parts[part],
                .ndim = 2,
                .shape = {sums->pairs, 2},
                .view = dt_view_of(sums->buf, DT_F32),
                .stored = DT_F32,
                .finite = true,
            };
    }
}

/* Reads the sums. 1; 0 if there is no such file. -1: it cannot be read, or has
 * another key.
 */
static int read_file(const struct dt_run *run, const char *path, uint64_t key,
                     struct dt_error *err)
{
    struct content content;
    if (access(path, F_OK) < 0)
        return 0;
    list_content(run, &content);
    struct dt_safetensors *st = dt_safetensors_open(path, err);
    int result =
        st ? dt_safetensors_read_all(st, content.tensors, content.count, err)
           : -1;
    dt_safetensors_close(st);
    if (result == 0 && content.key != key)
        result = dt_error_set(err, EX_DATAERR,
                              "%s: was computed with another reference or "
                              "other pairs",
                              path);
    if (result < 0)
        return dt_error_add(err, err->status,
                            "remove it to compute the reference's sums "
                            "again");
    dt_log(DT_LOG_INFO, "algo", "%s: log-probabilities of the reference", path);
    return 1;
}

/* Writes the file. This run does not need it, so a failure is a warning. */
static void write_file(const struct dt_run *run, const char *path, uint64_t key)
{
    struct content content = {.key = key};
    char temporary[PATH_MAX + 16], dir[PATH_MAX];
    struct dt_error err;
    uint64_t hash;
    list_content(run, &content);
    snprintf(dir, sizeof(dir), "%.*s", (int)(strrchr(path, '/') - path), path);
    snprintf(temporary, sizeof(temporary), "%s.%d", path, (int)getpid());
    if (dt_file_mkdirs(dir, &err) < 0 ||
        dt_safetensors_write(temporary, content.tensors, content.count, NULL,
                             &hash, &err) < 0) {
        dt_log(DT_LOG_WARN, "algo",
               "%s; log-probabilities of the reference are not kept for later "
               "runs",
               err.text);
        return;
    }
    if (rename(temporary, path) < 0)
        unlink(temporary);
    else
        dt_log(DT_LOG_INFO, "algo",
               "%s: log-probabilities of the reference, for later runs", path);
}

/* --- the sums --- */

static int allocate(struct dt_run *run, struct dt_error *err)
{
    for (int part = 0; part < 2; part++) {
        const struct dt_rows *rows = rows_of(run, part);
        struct dt_sums *sums = &run->reference.precomputed[part];
        for (size_t i = 0; rows && i < dt_rows_count(rows); i++) {
            uint64_t number = dt_rows_pair(rows, i)->number;
            sums->pairs = number >= sums->pairs ? number + 1 : sums->pairs;
        }
        if (sums->pairs == 0)
            continue;
        sums->buf = dt_buffer_create(&dt_cpu, 2 * sums->pairs * sizeof(float),
                                     "a reference", err);
        if (!sums->buf)
            return -1;
        memset(sums->buf->data, 0, sums->buf->bytes);
    }
    return 0;
}

/* Computes the reference's values of the picked tokens of the bound batch. */
static int pass(struct dt_run *run, struct dt_error *err)
{
    struct dt_learner *learner = &run->learner;
    return dt_run_refers(run)
               ? dt_run_reference(run, NULL, err)
               : dt_learner_values(learner, learner->values.reference, err);
}

static void keep_sums(struct dt_run *run, const struct dt_batch *batch,
                      struct dt_sums *sums)
{
    const float *logp = run->learner.values.reference;
    float *to = dt_view_f32(dt_view_of(sums->buf, DT_F32));
    for (size_t i = 0; i < batch->pair_count; i++) {
        const struct dt_batch_pair *pair = &batch->pairs[i];
        size_t chosen = pair->chosen.end - 1 - pair->chosen.first;
        size_t rejected = pair->rejected.end - 1 - pair->rejected.first;
        float *two = to + 2 * pair->number;
        two[0] = (float)dt_dpo_sum(&run->dpo, logp, chosen, rejected);
        two[1] = (float)dt_dpo_sum(&run->dpo, logp + chosen, rejected, chosen);
        logp += chosen + rejected;
    }
}

/* One pass over the pairs. Each rank keeps the sums of its own. */
static int compute_part(struct dt_run *run, int part, struct dt_error *err)
{
    struct dt_batch batch;
    struct dt_sums *sums = &run->reference.precomputed[part];
    if (sums->pairs == 0)
        return 0;
    struct dt_loader *loader = dt_run_pass(run, rows_of(run, part), err);
    int more = loader ? 1 : -1;
    while (more > 0 && (more = dt_loader_next(loader, &batch, err)) > 0) {
        dt_run_pick(run, &batch);
        if (dt_run_share_stop(run, run->stop && run->stop(), err) < 0 ||
            dt_model_bind(run->learner.model, &batch, false, err) < 0 ||
            pass(run, err) < 0)
            more = -1;
        else
            keep_sums(run, &batch, sums);
    }
    dt_loader_destroy(loader);
    return more;
}

/* Computes all sums. Without model.reference_path the model itself is the
 * reference until its first step.
 */
static int compute(struct dt_run *run, struct dt_error *err)
{
    bool own = !run->spec.conf.model.reference_path && run->progress.step == 0;
    dt_log(run->spec.rank == 0 ? DT_LOG_NEWS : DT_LOG_DEBUG, "algo",
           "computing the log-probabilities of the reference");
    if (!own && (dt_run_reference_init(run, NULL, err) < 0 ||
                 dt_run_reference_read(run, err) < 0))
        return -1;
    for (int part = 0; part < 2; part++)
        if (compute_part(run, part, err) < 0)
            return -1;
    dt_run_reference_fini(run);
    return 0;
}

/* Brings each rank's sums to all ranks. */
static int share(struct dt_run *run, struct dt_error *err)
{
    double values[CHUNK];
    for (int part = 0; part < 2 && run->spec.world > 1; part++) {
        const struct dt_sums *sums = &run->reference.precomputed[part];
        float *own = sums->buf ? sums->buf->data : NULL;
        for (size_t at = 0; at < 2 * sums->pairs; at += CHUNK) {
            size_t left = 2 * sums->pairs - at;
            size_t count = left < CHUNK ? left : CHUNK;
            for (size_t i = 0; i < count; i++)
                values[i] = (double)own[at + i];
            if (dt_comm_reduce_scalars(run->comm, values, count, DT_SUM, err) <
                0)
                return -1;
            for (size_t i = 0; i < count; i++)
                own[at + i] = (float)values[i];
        }
    }
    return 0;
}

int dt_run_precompute(struct dt_run *run, struct dt_error *err)
{
    char path[PATH_MAX];
    uint64_t key = 0;
    double found = 0;
    if (allocate(run, err) < 0)
        return -1;
    if (run->spec.rank == 0) {
        if (make_key(run, &key, err) < 0 || name_file(run, key, path, err) < 0)
            return -1;
        found = read_file(run, path, key, err);
        if (found < 0)
            return -1;
    }
    if (run->spec.world > 1 &&
        dt_comm_reduce_scalars(run->comm, &found, 1, DT_MAX, err) < 0)
        return -1;
    if (found == 0 && compute(run, err) < 0)
        return -1;
    if (share(run, err) < 0)
        return -1;
    if (found == 0 && run->spec.rank == 0)
        write_file(run, path, key);
    return 0;
}

void dt_run_precompute_fini(struct dt_run *run)
{
    for (int part = 0; part < 2; part++)
        dt_buffer_destroy(run->reference.precomputed[part].buf);
}
