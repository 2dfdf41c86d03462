/* SPDX-License-Identifier: Apache-2.0 */
/* state.c - saves and restores checkpoints */
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "algo/numerics.h"
#include "algo/progress.h"
#include "algo/run.h"
#include "base/log.h"
#include "weights/host_copy.h"
#include "weights/weights.h"

/* checkpoint.save_dtype; auto is the compute type. */
static enum dt_dtype stored_type(const struct dt_run *run)
{
    int wanted = run->conf.checkpoint.save_dtype;
    return wanted == DT_CONF_AUTO_DTYPE ? run->weights.dtype
                                        : dt_run_dtype(wanted);
}

/* Host copies of the flat buffers of a checkpoint. */
enum flat { MASTER, M, V, FLATS };

struct flats {
    struct dt_host_copy copy[FLATS];
    struct dt_view view[FLATS];
};

static void close_flats(struct flats *flats)
{
    for (int i = 0; i < FLATS; i++)
        dt_host_copy_close(&flats->copy[i]);
}

/* Opens the first `count`, with their contents if `fetch`. */
static int open_flats(struct flats *flats, const struct dt_run *run, int count,
                      bool fetch, struct dt_error *err)
{
    const struct dt_view there[FLATS] = {run->master, dt_optim_m(run->optim),
                                         dt_optim_v(run->optim)};
    *flats = (struct flats){0};
    for (int i = 0; i < count; i++) {
        if (dt_host_copy_open(&flats->copy[i], &run->exec, there[i], fetch,
                              err) < 0) {
            close_flats(flats);
            return -1;
        }
        flats->view[i] = flats->copy[i].here;
    }
    return 0;
}

/* config.json, weights, and the tokenizer's files. */
static int add_model(struct dt_run *run, const struct flats *flats,
                     struct dt_ckpt_writer *writer, enum dt_dtype stored,
                     struct dt_error *err)
{
    const struct dt_conf *conf = &run->conf;
    char *config = dt_model_config_format(&run->model_config, stored, err);
    const struct dt_weights_files files = {
        .config = config,
        .layout = run->layout,
        .weights = flats->view[MASTER],
        .stored = stored,
        .max_shard_bytes = (size_t)conf->checkpoint.max_shard_size,
        .source = dt_run_tokenizer_dir(conf),
    };
    int result = config ? dt_weights_save(writer, &files, err) : -1;
    free(config);
    return result;
}

/* AdamW's state, and fp32 weights if the model's file has rounded ones. */
static int add_optim(struct dt_run *run, const struct flats *flats,
                     struct dt_ckpt_writer *writer, enum dt_dtype stored,
                     struct dt_error *err)
{
    const struct dt_view all[] = {flats->view[M], flats->view[V],
                                  flats->view[MASTER]};
    size_t kinds = stored == DT_F32 ? 2 : 3;
    size_t count = run->layout->param_count * kinds;
    struct dt_ckpt_tensor *tensors = dt_weights_list(
        run->layout, all, (const char *const[]){"m/", "v/", DT_OPTIM_MASTER},
        kinds, DT_F32, err);
    char *text = tensors ? dt_progress_format(run, err) : NULL;
    int result = -1;
    if (text &&
        dt_ckpt_add_tensors(writer, DT_OPTIM_FILE, tensors, count, err) == 0)
        result = dt_ckpt_add_text(writer, DT_PROGRESS_FILE, text, err);
    free(text);
    dt_weights_free_list(tensors, count);
    return result;
}

static int write_checkpoint(struct dt_run *run, const struct flats *flats,
                            struct dt_error *err)
{
    enum dt_dtype stored = stored_type(run);
    struct dt_ckpt_writer *writer =
        dt_ckpt_begin(run->ckpt_root, run->progress.step, err);
    if (!writer)
        return -1;
    if (add_model(run, flats, writer, stored, err) < 0 ||
        (!run->conf.checkpoint.only_model &&
         add_optim(run, flats, writer, stored, err) < 0)) {
        dt_ckpt_abandon(writer);
        return -1;
    }
    /* dt_run_judge removes older ones when this one is known to be good */
    return dt_ckpt_commit(writer, err);
}

/* Is run.output_dir still there, and still ours? */
static int check_owner(struct dt_run *run, struct dt_error *err)
{
    int found = run->owner ? dt_owner_check(run->owner, err) : 0;
    if (found == 1)
        dt_log(DT_LOG_WARN, "algo",
               "%s: was removed or moved during the run; it is created "
               "again, without the checkpoints that were in it",
               run->conf.run.output_dir);
    return found < 0 ? -1 : 0;
}

int dt_run_save(struct dt_run *run, struct dt_error *err)
{
    struct flats flats;
    int count = run->conf.checkpoint.only_model ? 1 : FLATS;
    if (check_owner(run, err) < 0)
        return -1;
    if (dt_report_sync(run->report, err) < 0)
        return 1;
    if (open_flats(&flats, run, count, true, err) < 0)
        return -1;
    int result = write_checkpoint(run, &flats, err);
    close_flats(&flats);
    if (result < 0)
        return 1;
    snprintf(run->ckpt_path, sizeof(run->ckpt_path), "%s/latest",
             run->ckpt_root);
    return 0;
}

/* What write_checkpoint will write, except for a few texts. */
static size_t checkpoint_bytes(const struct dt_run *run)
{
    enum dt_dtype stored = stored_type(run);
    size_t optim = stored == DT_F32 ? 2 : 3; /* as add_optim */
    return run->layout->param_total *
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

/* --- restoring, on rank 0 --- */

/* A run cannot be resumed from weights alone. */
static int check_optimizer(const char *dir, struct dt_error *err)
{
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/%s", dir, DT_OPTIM_FILE);
    if (access(path, F_OK) == 0 || errno != ENOENT)
        return 0;
    return dt_error_set(err, EX_NOINPUT,
                        "%s: has no optimizer state (checkpoint.only_model was "
                        "set): name it in model.path to start from its weights",
                        dir);
}

static int load_moments(struct dt_run *run, const struct flats *flats,
                        const char *dir, struct dt_error *err)
{
    char path[PATH_MAX];
    size_t n = 2 * run->layout->param_count;
    const struct dt_view moments[] = {flats->view[M], flats->view[V]};
    snprintf(path, sizeof(path), "%s/%s", dir, DT_OPTIM_FILE);
    struct dt_ckpt_tensor *tensors =
        dt_weights_list(run->layout, moments, (const char *const[]){"m/", "v/"},
                        2, DT_F32, err);
    for (size_t i = 0; tensors && i < n; i++)
        tensors[i].finite =
            true; /* they would never recover: every step would be skipped */
    struct dt_safetensors *st = tensors ? dt_safetensors_open(path, err) : NULL;
    int rc = st ? dt_safetensors_read_all(st, tensors, n, err) : -1;
    dt_safetensors_close(st);
    dt_weights_free_list(tensors, n);
    return rc;
}

/* The fp32 weights of a checkpoint, from the optimizer's file or the model's.
 */
static int load_weights(struct dt_run *run, struct dt_view master,
                        const char *dir, struct dt_error *err)
{
    int found = dt_weights_load_master(dir, run->layout, master, err);
    if (found == 0)
        return dt_weights_load(dir, run->layout, master, err);
    return found < 0 ? -1 : 0;
}

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

static int read_checkpoint(struct dt_run *run, const struct flats *flats,
                           const char *dir, struct dt_error *err)
{
    dt_log(DT_LOG_INFO, "algo", "resuming from %s", dir);
    if (check_optimizer(dir, err) == 0 &&
        dt_progress_load(run, dir, err) == 0 &&
        check_step(run, dir, err) == 0 &&
        load_moments(run, flats, dir, err) == 0 &&
        load_weights(run, flats->view[MASTER], dir, err) == 0)
        return 0;
    return err->status == EX_DATAERR
               ? dt_error_add(err, EX_DATAERR,
                              "to resume from another checkpoint, name it in "
                              "training.resume")
               : -1;
}

/* Fills the flat buffers from a checkpoint, or the weights from model.path or
 * at random.
 */
static int read_flats(struct dt_run *run, const struct flats *flats,
                      const char *dir, struct dt_error *err)
{
    const struct dt_conf *conf = &run->conf;
    struct dt_view master = flats->view[MASTER];
    if (dir)
        return read_checkpoint(run, flats, dir, err);
    if (!conf->model.random_init)
        return dt_weights_load(conf->model.path, run->layout, master, err);
    dt_model_init_weights(&run->model_config, run->layout, master,
                          conf->run.seed);
    return 0;
}

static int restore_here(struct dt_run *run, struct dt_error *err)
{
    struct flats flats;
    char *dir;
    if (choose_checkpoint(run, &dir, err) < 0)
        return -1;
    int count = dir ? FLATS : 1;
    int result = check_saving(run, err);
    if (result == 0)
        result = open_flats(&flats, run, count, false, err);
    if (result == 0) {
        result = read_flats(run, &flats, dir, err);
        for (int i = 0; result == 0 && i < count; i++)
            result = dt_host_copy_publish(&flats.copy[i], err);
        close_flats(&flats);
    }
    free(dir);
    return result;
}

/* --- and from rank 0 to the others --- */

static int share_state(struct dt_run *run, struct dt_error *err)
{
    dt_ticket_t ticket;
    if (dt_progress_share(run, err) < 0 ||
        dt_comm_broadcast(run->comm, run->master, 0, &ticket, err) < 0)
        return -1;
    if (run->progress.step > 0 &&
        (dt_comm_broadcast(run->comm, dt_optim_m(run->optim), 0, &ticket, err) <
             0 ||
         dt_comm_broadcast(run->comm, dt_optim_v(run->optim), 0, &ticket, err) <
             0))
        return -1;
    /* wait here, where a lost peer is noticed: later waits are for the device
     */
    if (dt_comm_wait(run->comm, ticket, err) < 0)
        return -1;
    return dt_comm_barrier(run->comm, err);
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

int dt_run_restore(struct dt_run *run, struct dt_error *err)
{
    int result = run->rank == 0 ? restore_here(run, err) : 0;
    bool stopped = result < 0 && err->status == EX_TEMPFAIL;
    if ((result < 0 && !stopped) || share_stop(run, stopped, err) < 0)
        return -1;
    if (run->world > 1 && share_state(run, err) < 0)
        return -1;
    if (run->weights_buf)
        run->exec.ops->convert(run->exec.stream, run->weights, run->master);
    run->queued = run->unproven_step = run->progress.step;
    return 0;
}
