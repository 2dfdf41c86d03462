/* SPDX-License-Identifier: Apache-2.0 */
/*
 * restore.c - reads the state with which a run begins
 *
 * Rank 0 chooses and checks the checkpoint; then every rank reads its parts of
 * it, whatever the world was that saved it.
 */
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "algo/progress.h"
#include "algo/run.h"
#include "base/log.h"
#include "weights/parts.h"
#include "weights/weights.h"

/* What dt_run_save will write, except for a few texts. */
static size_t checkpoint_bytes(const struct dt_run *run)
{
    enum dt_dtype stored = dt_run_stored_type(run);
    size_t optim = stored == DT_F32 ? 2 : 3; /* as state.c */
    return run->learner.layout->param_total *
           (dt_dtype_bytes(stored) +
            (run->conf.checkpoint.only_model ? 0 : optim * sizeof(float)));
}

/* Finds what would prevent saving, before any work could be lost. */
static int check_saving(const struct dt_run *run, struct dt_error *err)
{
    if (run->conf.training.eval_only)
        return 0;
    int rc = dt_ckpt_probe(run->ckpt_root, checkpoint_bytes(run), err);
    if (rc > 0)
        dt_log(DT_LOG_WARN, "algo", "%s", err->text);
    return rc < 0 ? dt_error_prefix(err, "no checkpoint can be saved") : 0;
}

/* --- the checkpoint, on rank 0 --- */

static void note_damaged(const char *text)
{
    dt_log(DT_LOG_WARN, "ckpt", "%s", text);
}

static int find_newest(struct dt_run *run, const struct dt_ckpt_watch *watch,
                       char **dir, struct dt_error *err)
{
    if (dt_ckpt_find(run->ckpt_root, watch, dir, err) < 0) {
        if (err->status == EX_DATAERR)
            dt_error_add(err, EX_DATAERR,
                         "restore one, or start a new run: in another "
                         "run.output_dir, or here with training.resume: none "
                         "and run.overwrite: true");
        return -1;
    }
    if (!*dir)
        dt_log(DT_LOG_INFO, "algo",
               "no checkpoint in %s: the run starts at its first step",
               run->ckpt_root);
    return 0;
}

/* The checkpoint to resume from into *dir (free it), or NULL for none. */
static int choose_checkpoint(struct dt_run *run, char **dir,
                             struct dt_error *err)
{
    const struct dt_conf *conf = &run->conf;
    const struct dt_ckpt_watch watch = {note_damaged, run->stop};
    *dir = NULL;
    if (conf->training.resume == DT_CONF_RESUME_AUTO)
        return find_newest(run, &watch, dir, err);
    if (conf->training.resume == DT_CONF_RESUME_PATH) {
        if (dt_ckpt_verify(conf->training.resume_path, &watch, err) < 0)
            return -1;
        if (!(*dir = strdup(conf->training.resume_path)))
            return dt_error_set(err, EX_OSERR, "out of memory");
    }
    return 0;
}

/* After a rename the run would resume at one step and overwrite the checkpoint
 * of another.
 */
static int check_step(const struct dt_run *run, const char *dir,
                      struct dt_error *err)
{
    long step = dt_ckpt_step(dir);
    if (step < 0 || step == run->progress.step)
        return 0;
    return dt_error_set(err, EX_DATAERR,
                        "%s: the checkpoint of step %ld, as its %s says: "
                        "rename it back to checkpoint-%ld",
                        dir, run->progress.step, DT_PROGRESS_FILE,
                        run->progress.step);
}

/* A run cannot be resumed from weights alone. */
static int check_optimizer(const char *dir, struct dt_error *err)
{
    int there = dt_parts_exist(dir, err);
    if (there != 0)
        return there < 0 ? -1 : 0;
    return dt_error_set(err, EX_NOINPUT,
                        "%s: has no optimizer state (checkpoint.only_model was "
                        "set): name it in model.path to start from its weights",
                        dir);
}

/* The optimizer's files without moments. */
static int check_moments(const char *dir, const struct dt_parts *parts,
                         struct dt_error *err)
{
    int m = parts ? dt_parts_have(parts, DT_OWNED_M, err) : 0;
    int v = m > 0 ? dt_parts_have(parts, DT_OWNED_V, err) : m;
    if (v != 0)
        return v < 0 ? -1 : 0;
    return dt_error_set(err, EX_DATAERR,
                        "%s: the optimizer's files have no moments", dir);
}

/* --- the files that all ranks read --- */

struct source {
    struct dt_weights *weights; /* of the model; NULL: not needed */
    struct dt_parts *parts;     /* of the optimizer; NULL: a new run */
    bool master;                /* parts have the fp32 weights */
    bool new_head;              /* weights lack score.weight */
};

static void close_source(struct source *source)
{
    dt_weights_close(source->weights);
    dt_parts_close(source->parts);
}

/* Opens the checkpoint `dir`, or for NULL the model that the run starts from.
 * close_source in any case.
 */
static int open_source(const struct dt_run *run, const char *dir,
                       struct source *source, struct dt_error *err)
{
    const struct dt_conf *conf = &run->conf;
    const struct dt_layout *layout = run->learner.layout;
    *source = (struct source){0};
    if (dir) {
        if (dt_parts_open(dir, layout, &source->parts, err) < 0 ||
            check_moments(dir, source->parts, err) < 0)
            return -1;
        int master = dt_parts_have(source->parts, DT_OWNED_MASTER, err);
        if (master < 0)
            return -1;
        source->master = master;
    } else if (conf->model.random_init) {
        return 0;
    }
    if (source->master)
        return 0;
    if (dir || !run->algo->scores) {
        source->weights =
            dt_weights_open(dir ? dir : conf->model.path, layout, err);
    } else {
        bool scores;
        source->weights =
            dt_weights_open_trunk(conf->model.path, layout, &scores, err);
        source->new_head = !scores;
    }
    return source->weights ? 0 : -1;
}

/* Finds, before the others read, what is wrong with the files. */
static int check_source(struct dt_run *run, const char *dir,
                        struct dt_error *err)
{
    struct source source;
    if (dir &&
        (check_optimizer(dir, err) < 0 || dt_progress_load(run, dir, err) < 0 ||
         check_step(run, dir, err) < 0))
        return -1;
    int result = open_source(run, dir, &source, err);
    if (result == 0 && source.weights)
        result = dt_weights_check_head(source.weights, err);
    if (result == 0 && source.new_head)
        dt_log(DT_LOG_INFO, "algo",
               "%s has no score.weight: it begins at random (normal, standard "
               "deviation %g, run.seed)",
               run->conf.model.path,
               run->learner.model_config.initializer_range);
    close_source(&source);
    return result;
}

/* The kind of this rank's part of unit u into `to`, which is in host memory; a
 * unit of random weights goes to `unit` first.
 */
static int read_part(const struct dt_run *run, const struct source *source,
                     enum dt_owned kind, size_t u, struct dt_view unit,
                     struct dt_view to, struct dt_error *err)
{
    const struct dt_learner *learner = &run->learner;
    struct dt_range part = dt_layout_part(
        learner->layout, u, dt_parallel_index(learner->parallel), run->world);
    if (kind != DT_OWNED_MASTER || source->master)
        return dt_parts_read(source->parts, kind, part, to, err);
    bool is_new = source->new_head && u + 1 == learner->layout->unit_count;
    if (source->weights && !is_new)
        return dt_weights_read(source->weights, part, to, err);
    memset(dt_view_data(unit), 0, unit.count * sizeof(float));
    dt_model_init_unit(&learner->model_config, learner->layout, u, unit,
                       run->conf.run.seed);
    memcpy(dt_view_data(to),
           dt_view_f32(unit) + (part.first - learner->layout->units[u].offset),
           part.count * sizeof(float));
    return is_new ? dt_weights_read(source->weights, part, to, err) : 0;
}

/* Loads one kind of this rank's part of unit u. `room`: two units in host
 * memory.
 */
static int load_part(struct dt_run *run, const struct source *source,
                     enum dt_owned kind, size_t u, struct dt_buffer *room,
                     struct dt_error *err)
{
    const struct dt_exec *exec = &run->exec;
    struct dt_learner *learner = &run->learner;
    size_t count = learner->layout->units[u].count;
    struct dt_view there = dt_parallel_part(learner->parallel, kind, u);
    struct dt_view unit = dt_view_slice(dt_view_of(room, DT_F32), 0, count);
    struct dt_view here = there;
    if (!exec->device->is_host || !there.buf) {
        here = dt_view_slice(dt_view_of(room, DT_F32), count, there.count);
        memset(dt_view_data(here), 0, here.count * sizeof(float));
    }
    if (read_part(run, source, kind, u, unit, here, err) < 0)
        return -1;
    if (here.buf == there.buf)
        return 0;
    return dt_parallel_put(learner->parallel, there, dt_view_data(here), err);
}

static int load_parts(struct dt_run *run, const struct source *source,
                      struct dt_error *err)
{
    size_t elements = 2 * dt_learner_unit_elements(&run->learner);
    enum dt_owned end = source->parts ? DT_OWNED_GRADS : DT_OWNED_M;
    struct dt_buffer *room =
        dt_buffer_create(&dt_cpu, elements * sizeof(float), "a unit", err);
    int result = room ? 0 : -1;
    for (size_t u = 0; u < run->learner.layout->unit_count && result == 0; u++)
        for (enum dt_owned kind = 0; kind < end && result == 0; kind++)
            result = load_part(run, source, kind, u, room, err);
    dt_buffer_destroy(room);
    return result;
}

/* --- all ranks together --- */

enum { NAME_BYTES = 64 };

/* The directory that rank 0 has chosen, on every rank: `name` below
 * run->ckpt_root, or as training.resume names it if `name` is empty.
 */
struct chosen {
    bool resumes;
    char name[NAME_BYTES];
};

static void name_choice(const struct dt_run *run, const char *dir,
                        struct chosen *chosen)
{
    size_t root = strlen(run->ckpt_root);
    *chosen = (struct chosen){.resumes = dir};
    if (dir && run->conf.training.resume == DT_CONF_RESUME_AUTO)
        snprintf(chosen->name, sizeof(chosen->name), "%s", dir + root + 1);
}

static int share_choice(struct dt_run *run, struct chosen *chosen,
                        struct dt_error *err)
{
    double codes[NAME_BYTES + 1] = {chosen->resumes};
    for (size_t i = 0; i < NAME_BYTES; i++)
        codes[i + 1] = (unsigned char)chosen->name[i];
    if (dt_comm_reduce_scalars(run->comm, codes, NAME_BYTES + 1, DT_MAX, err) <
        0)
        return -1;
    chosen->resumes = codes[0] > 0;
    for (size_t i = 0; i < NAME_BYTES; i++)
        chosen->name[i] = (char)codes[i + 1];
    return 0;
}

/* For a checkpoint whose content is wrong. */
static void offer_another(struct dt_error *err)
{
    if (err->status == EX_DATAERR)
        dt_error_add(err, EX_DATAERR,
                     "to resume from another checkpoint, name it in "
                     "training.resume");
}

/* Rank 0: finds what would prevent saving, and what to resume from. */
static int choose_here(struct dt_run *run, struct chosen *chosen,
                       struct dt_error *err)
{
    char *dir;
    if (choose_checkpoint(run, &dir, err) < 0)
        return -1;
    int result = check_saving(run, err);
    if (result == 0) {
        if (dir)
            dt_log(DT_LOG_INFO, "algo", "resuming from %s", dir);
        result = check_source(run, dir, err);
        if (result < 0 && dir)
            offer_another(err);
    }
    name_choice(run, dir, chosen);
    free(dir);
    return result;
}

/* Whether rank 0 was told to stop while it read. */
static int share_stop(struct dt_run *run, bool stopped, struct dt_error *err)
{
    double any = stopped;
    if (run->world > 1 &&
        dt_comm_reduce_scalars(run->comm, &any, 1, DT_MAX, err) < 0)
        return -1;
    if (any > 0)
        return dt_error_set(err, EX_TEMPFAIL,
                            "stopped by a signal before the first step");
    return 0;
}

/* All ranks write checkpoints where rank 0 does. */
static int check_shared(const struct dt_run *run, struct dt_error *err)
{
    if (run->rank == 0 || run->conf.training.eval_only ||
        access(run->ckpt_root, W_OK) == 0)
        return 0;
    return dt_error_set(err, EX_CANTCREAT,
                        "%s: rank 0 can write there, but this host cannot: %s; "
                        "all ranks write checkpoints, so run.output_dir has to "
                        "be on a file system that all nodes share",
                        run->ckpt_root, strerror(errno));
}

static int load_here(struct dt_run *run, const struct chosen *chosen,
                     struct dt_error *err)
{
    char dir[PATH_MAX];
    struct source source;
    if (chosen->name[0])
        snprintf(dir, sizeof(dir), "%s/%s", run->ckpt_root, chosen->name);
    else
        snprintf(dir, sizeof(dir), "%s",
                 chosen->resumes ? run->conf.training.resume_path : "");
    int result = open_source(run, chosen->resumes ? dir : NULL, &source, err);
    if (result == 0)
        result = load_parts(run, &source, err);
    if (result < 0 && chosen->resumes)
        offer_another(err);
    close_source(&source);
    return result;
}

int dt_run_restore(struct dt_run *run, struct dt_error *err)
{
    struct chosen chosen = {0};
    int result = run->rank == 0 ? choose_here(run, &chosen, err) : 0;
    bool stopped = result < 0 && err->status == EX_TEMPFAIL;
    if ((result < 0 && !stopped) || share_stop(run, stopped, err) < 0)
        return -1;
    if (run->world > 1 && (dt_progress_share(run, err) < 0 ||
                           share_choice(run, &chosen, err) < 0))
        return -1;
    if (check_shared(run, err) < 0 || load_here(run, &chosen, err) < 0)
        return -1;
    for (size_t u = 0; u < run->learner.layout->unit_count; u++)
        if (dt_parallel_loaded(run->learner.parallel, u, err) < 0)
            return -1;
    /* wait here, where a lost peer is noticed: later waits are for the device
     */
    if (dt_run_wait(run, err) < 0 ||
        (run->world > 1 && dt_comm_barrier(run->comm, err) < 0))
        return -1;
    run->queued = run->unproven_step = run->progress.step;
    dt_parallel_resume(run->learner.parallel, (uint64_t)run->queued * run->A);
    return 0;
}
