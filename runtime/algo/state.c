/* SPDX-License-Identifier: Apache-2.0 */
/* state.c - what a checkpoint holds, saved and restored */
#include "config.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "algo/run.h"
#include "algo/weights.h"
#include "base/file.h"
#include "base/log.h"

#define STATE_FILE "trainer_state.json"

enum { STATE_VERSION = 1, STATE_MAX_BYTES = 1 << 20 };

/* Adds one file with the parameters of `count` flat buffers. */
static int add_flat(struct dt_run *run, struct dt_ckpt_writer *writer,
                    const char *file, const struct dt_view *flats,
                    const char *const *prefixes, size_t count,
                    struct dt_error *err)
{
    size_t n = run->layout->param_count * count;
    struct dt_ckpt_tensor *tensors =
        dt_weights_list(run->layout, flats, prefixes, count, DT_F32, err);
    int rc = tensors ? dt_ckpt_add_tensors(writer, file, tensors, n, err) : -1;
    dt_weights_free_list(tensors, n);
    return rc;
}

static char *format_state(const struct dt_run *run, struct dt_error *err)
{
    const struct dt_progress *p = &run->progress;
    char hash[17];
    snprintf(hash, sizeof(hash), "%016" PRIx64, run->data_hash);
    json_t *state = json_pack(
        "{s:i, s:I, s:I, s:I, s:I, s:f, s:f, s:f, s:f, s:i, s:I, s:s, s:I,"
        " s:I}",
        "version", STATE_VERSION, "step", (json_int_t)p->step,
        "optimizer_steps", (json_int_t)dt_optim_steps(run->optim),
        "skipped_in_row", (json_int_t)p->skipped_in_row, "position",
        (json_int_t)p->position, "tokens", p->tokens, "first_loss",
        p->first_loss, "loss_sum", p->loss_sum, "loss_tokens", p->loss_tokens,
        "world", run->world, "samples_per_step",
        (json_int_t)(run->B * run->A * (size_t)run->world), "data_hash", hash,
        "max_length", (json_int_t)run->T, "data_seed",
        (json_int_t)run->conf.run.data_seed);
    char *text = state ? json_dumps(state, JSON_INDENT(2) |
                                               JSON_REAL_PRECISION(17))
                       : NULL;
    json_decref(state);
    if (!text)
        dt_error_set(err, EX_OSERR, STATE_FILE ": cannot be formatted");
    return text;
}

static int add_texts(struct dt_run *run, struct dt_ckpt_writer *writer,
                     struct dt_error *err)
{
    char *config = dt_model_config_format(&run->model_config, DT_F32, err);
    char *state = config ? format_state(run, err) : NULL;
    int result = -1;
    if (state && dt_ckpt_add_text(writer, "config.json", config, err) == 0)
        result = dt_ckpt_add_text(writer, STATE_FILE, state, err);
    free(config);
    free(state);
    return result;
}

int dt_run_save(struct dt_run *run, struct dt_error *err)
{
    if (run->rank != 0)
        return 0;
    if (dt_report_sync(run->report, err) < 0)
        return -1;
    struct dt_ckpt_writer *writer =
        dt_ckpt_begin(run->ckpt_root, run->progress.step, err);
    if (!writer)
        return -1;
    const struct dt_view moments[] = {dt_optim_m(run->optim),
                                      dt_optim_v(run->optim)};
    if (add_flat(run, writer, "model.safetensors", &run->weights,
                 (const char *const[]){""}, 1, err) < 0 ||
        add_flat(run, writer, DT_OPTIM_FILE, moments,
                 (const char *const[]){"m/", "v/"}, 2, err) < 0 ||
        add_texts(run, writer, err) < 0) {
        dt_ckpt_abandon(writer);
        return -1;
    }
    if (dt_ckpt_commit(writer, (int)run->conf.checkpoint.total_limit, err) < 0)
        return -1;
    snprintf(run->ckpt_path, sizeof(run->ckpt_path), "%s/latest",
             run->ckpt_root);
    return 0;
}

/* --- restoring, on rank 0 --- */

static int load_moments(struct dt_run *run, const char *dir,
                        struct dt_error *err)
{
    char path[PATH_MAX];
    size_t n = 2 * run->layout->param_count;
    const struct dt_view moments[] = {dt_optim_m(run->optim),
                                      dt_optim_v(run->optim)};
    snprintf(path, sizeof(path), "%s/%s", dir, DT_OPTIM_FILE);
    struct dt_ckpt_tensor *tensors =
        dt_weights_list(run->layout, moments,
                        (const char *const[]){"m/", "v/"}, 2, DT_F32, err);
    struct dt_safetensors *st = tensors ? dt_safetensors_open(path, err) : NULL;
    int rc = st ? dt_safetensors_read_all(st, tensors, n, err) : -1;
    dt_safetensors_close(st);
    dt_weights_free_list(tensors, n);
    return rc;
}

/* A resumed run must be the same run: the same data in the same order. */
static int check_same_run(const struct dt_run *run, const char *path,
                          const char *hash, json_int_t length, json_int_t seed,
                          json_int_t samples, struct dt_error *err)
{
    char mine[17];
    snprintf(mine, sizeof(mine), "%016" PRIx64, run->data_hash);
    if (strcmp(mine, hash) != 0)
        return dt_error_set(err, EX_CONFIG, "%s: was trained on other data "
                            "(hash %s, data.train has %s); use the same data, "
                            "or start anew in another run.output_dir",
                            path, hash, mine);
    if ((size_t)length != run->T)
        return dt_error_set(err, EX_CONFIG, "%s: was trained with "
                            "data.max_length %lld, not %zu", path,
                            (long long)length, run->T);
    if ((uint64_t)seed != run->conf.run.data_seed)
        return dt_error_set(err, EX_CONFIG, "%s: was trained with "
                            "run.data_seed %lld, not %" PRIu64, path,
                            (long long)seed, run->conf.run.data_seed);
    size_t now = run->B * run->A * (size_t)run->world;
    if ((size_t)samples != now)
        dt_log(DT_LOG_WARN, "algo", "the effective batch was %lld samples "
               "before and is %zu now: the curve will differ from an "
               "uninterrupted run", (long long)samples, now);
    return 0;
}

static int parse_state(struct dt_run *run, const char *path, const char *text,
                       struct dt_error *err)
{
    struct dt_progress *p = &run->progress;
    json_error_t why;
    json_int_t step, steps, skipped, position, length, seed, samples;
    const char *hash;
    int version;
    json_t *state = json_loads(text, JSON_REJECT_DUPLICATES, &why);
    int result = -1;
    if (!state ||
        json_unpack_ex(state, &why, 0,
                       "{s:i, s:I, s:I, s:I, s:I, s:F, s:F, s:F, s:F, s:s,"
                       " s:I, s:I, s:I}",
                       "version", &version, "step", &step, "optimizer_steps",
                       &steps, "skipped_in_row", &skipped, "position",
                       &position, "tokens", &p->tokens, "first_loss",
                       &p->first_loss, "loss_sum", &p->loss_sum, "loss_tokens",
                       &p->loss_tokens, "data_hash", &hash, "max_length",
                       &length, "data_seed", &seed, "samples_per_step",
                       &samples) < 0)
        dt_error_set(err, EX_DATAERR, "%s:%d:%d: %s", path, why.line,
                     why.column, why.text);
    else if (version != STATE_VERSION || step < 0 || steps < 0 || position < 0)
        dt_error_set(err, EX_DATAERR, "%s: version %d, step %lld: not written "
                     "by this version", path, version, (long long)step);
    else
        result = check_same_run(run, path, hash, length, seed, samples, err);
    if (result == 0) {
        p->step = (long)step;
        p->skipped_in_row = (long)skipped;
        p->position = (uint64_t)position;
        dt_optim_set_steps(run->optim, (long)steps);
    }
    json_decref(state);
    return result;
}

static int load_state(struct dt_run *run, const char *dir,
                      struct dt_error *err)
{
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/%s", dir, STATE_FILE);
    char *text = dt_file_read(path, STATE_MAX_BYTES, err);
    int result = text ? parse_state(run, path, text, err) : -1;
    free(text);
    return result;
}

static void note_damaged(void *ctx, const char *text)
{
    (void)ctx;
    dt_log(DT_LOG_WARN, "ckpt", "%s", text);
}

/* The checkpoint to resume from into *dir (free it), or NULL for none. */
static int choose_checkpoint(struct dt_run *run, char **dir,
                             struct dt_error *err)
{
    const struct dt_conf *conf = &run->conf;
    *dir = NULL;
    if (conf->training.resume == DT_CONF_RESUME_AUTO)
        return dt_ckpt_find(run->ckpt_root, dir, note_damaged, NULL, err);
    if (conf->training.resume == DT_CONF_RESUME_PATH) {
        if (dt_ckpt_verify(conf->training.resume_path, err) < 0)
            return -1;
        if (!(*dir = strdup(conf->training.resume_path)))
            return dt_error_set(err, EX_OSERR, "out of memory");
    }
    return 0;
}

static int restore_here(struct dt_run *run, struct dt_error *err)
{
    const struct dt_conf *conf = &run->conf;
    char *dir;
    if (choose_checkpoint(run, &dir, err) < 0)
        return -1;
    if (dir) {
        dt_log(DT_LOG_INFO, "algo", "resuming from %s", dir);
        int result = load_state(run, dir, err) < 0 ||
                     dt_weights_load(dir, run->layout, run->weights, err) < 0 ||
                     load_moments(run, dir, err) < 0;
        free(dir);
        return result ? -1 : 0;
    }
    if (!conf->model.random_init)
        return dt_weights_load(conf->model.path, run->layout, run->weights,
                               err);
    dt_model_init_weights(&run->model_config, run->layout, run->weights,
                          conf->run.seed);
    return 0;
}

/* --- and from rank 0 to the others --- */

static int share_progress(struct dt_run *run, struct dt_error *err)
{
    struct dt_progress *p = &run->progress;
    double values[] = {(double)p->step,       (double)p->skipped_in_row,
                       (double)p->position,   p->tokens,
                       p->first_loss,         p->loss_sum,
                       p->loss_tokens,        (double)dt_optim_steps(run->optim)};
    size_t count = sizeof(values) / sizeof(values[0]);
    if (run->rank != 0)
        memset(values, 0, sizeof(values));
    if (dt_comm_reduce_scalars(run->comm, values, count, DT_SUM, err) < 0)
        return -1;
    *p = (struct dt_progress){
        (long)values[0], (long)values[1], (uint64_t)values[2], values[3],
        values[4],       values[5],       values[6]};
    dt_optim_set_steps(run->optim, (long)values[7]);
    return 0;
}

int dt_run_restore(struct dt_run *run, struct dt_error *err)
{
    dt_ticket_t ticket;
    if (run->rank == 0 && restore_here(run, err) < 0)
        return -1;
    if (run->world == 1)
        return 0;
    if (share_progress(run, err) < 0 ||
        dt_comm_broadcast(run->comm, run->weights, 0, &ticket, err) < 0)
        return -1;
    if (run->progress.step > 0 &&
        (dt_comm_broadcast(run->comm, dt_optim_m(run->optim), 0, &ticket,
                           err) < 0 ||
         dt_comm_broadcast(run->comm, dt_optim_v(run->optim), 0, &ticket,
                           err) < 0))
        return -1;
    return dt_comm_wait(run->comm, ticket, err);
}
