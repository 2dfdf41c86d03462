/* SPDX-License-Identifier: Apache-2.0 */
/*
 * restore.c - reads the state that a run starts from
 *
 * Rank 0 chooses the checkpoint, which all ranks verify together. Then every
 * rank reads its parts of it, whatever the size of the world that saved it.
 */
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "algo/algo.h"
#include "base/file.h"
#include "base/log.h"
#include "base/str.h"
#include "run/dir/dir.h"
#include "run/exchange.h"
#include "run/reference/reference.h"
#include "sampling/sampling.h"
#include "train/resume/copies.h"
#include "train/resume/resume_impl.h"
#include "train/resume/run_state.h"

/* Checks that the run can be saved, before any work could be lost. */
static int check_saving(struct dt_run *run, struct dt_error *err)
{
    if (run->spec.conf.training.eval_only)
        return 0;
    int rc =
        dt_ckpt_probe(run->spec.ckpt_root, dt_run_checkpoint_bytes(run), err);
    if (rc > 0)
        dt_log(DT_LOG_WARN, "algo", "%s", err->text);
    return rc < 0 ? dt_error_prefix(err, "no checkpoint can be saved") : 0;
}

/* --- the checkpoint, on rank 0 --- */

static void warn(const char *text)
{
    dt_log(DT_LOG_WARN, "ckpt", "%s", text);
}

static int find_newest(struct dt_run *run, const struct dt_ckpt_watch *watch,
                       char **dir, struct dt_error *err)
{
    if (dt_ckpt_find(run->spec.ckpt_root, watch, dir, err) < 0) {
        if (err->status == EX_DATAERR)
            dt_error_add(err, EX_DATAERR,
                         "restore one, or start a new run: in another "
                         "run.output_dir, or here with training.resume: none "
                         "and run.overwrite: true");
        return -1;
    }
    if (!*dir)
        dt_log(DT_LOG_NEWS, "algo",
               "no checkpoint in %s: the run starts at its first step",
               run->spec.ckpt_root);
    return 0;
}

int dt_run_check_resume(const struct dt_conf *conf, struct dt_error *err)
{
    if (conf->training.resume != DT_CONF_RESUME_PATH ||
        dt_ckpt_check_path(conf->training.resume_path, err) == 0)
        return 0;
    return dt_error_add(err, EX_NOINPUT,
                        "training.resume: auto takes the newest whole one of "
                        "run.output_dir");
}

/* Sets *dir to the checkpoint to resume from (free it), or NULL for none. */
static int choose_checkpoint(struct dt_run *run, char **dir,
                             struct dt_error *err)
{
    const struct dt_conf *conf = &run->spec.conf;
    const struct dt_ckpt_watch watch = {warn, run->stop, dt_verify_together,
                                        run};
    *dir = NULL;
    if (conf->training.resume == DT_CONF_RESUME_AUTO ||
        conf->training.restarted) {
        if (find_newest(run, &watch, dir, err) < 0)
            return -1;
        if (*dir)
            return 0;
    }
    if (conf->training.resume == DT_CONF_RESUME_PATH) {
        if (dt_run_check_resume(conf, err) < 0 ||
            dt_verify_together(run, conf->training.resume_path, err) < 0)
            return -1;
        if (!(*dir = strdup(conf->training.resume_path)))
            return dt_error_set(err, EX_OSERR, "out of memory");
    }
    return 0;
}

/* Refuses a renamed checkpoint: the run would resume at one step and overwrite
 * the checkpoint of another.
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

enum { DIR_BYTES = PATH_MAX + 64 };

/* Directory of a learner's files in the checkpoint `dir`; NULL for no `dir`. */
static const char *learner_dir(const struct dt_learner *learner,
                               const char *dir, char path[DIR_BYTES])
{
    if (!dir)
        return NULL;
    snprintf(path, DIR_BYTES, "%s%s%s", dir, *learner->spec->folder ? "/" : "",
             learner->spec->folder);
    return path;
}

/* Checks the files before the other ranks read them. */
static int check_source(struct dt_run *run, const char *dir,
                        struct dt_error *err)
{
    const struct dt_learner *learner;
    char path[DIR_BYTES];
    if (dir &&
        (dt_learner_check_optimizer(dir, err) < 0 ||
         dt_progress_load(run, dir, err) < 0 || check_step(run, dir, err) < 0))
        return -1;
    for (size_t i = 0; (learner = dt_run_learner(run, i)); i++) {
        const char *own = learner_dir(learner, dir, path);
        if ((own && dt_learner_check_optimizer(own, err) < 0) ||
            dt_learner_check_files(learner, own, err) < 0)
            return -1;
    }
    return 0;
}

/* --- all ranks together --- */

enum { NAME_BYTES = 64 };

/* The directory that rank 0 has chosen, on every rank: `name` below
 * run->spec.ckpt_root, or as training.resume names it if `name` is empty.
 */
struct chosen {
    bool resumes;
    char name[NAME_BYTES];
};

static void name_choice(const struct dt_run *run, const char *dir,
                        struct chosen *chosen)
{
    const char *name = dir ? dt_str_after(dir, run->spec.ckpt_root) : NULL;
    *chosen = (struct chosen){.resumes = dir};
    if (name && *name == '/')
        snprintf(chosen->name, sizeof(chosen->name), "%s", name + 1);
}

static int share_choice(struct dt_run *run, struct chosen *chosen,
                        struct dt_error *err)
{
    double resumes = chosen->resumes;
    if (dt_comm_reduce_scalars(run->comm, &resumes, 1, DT_MAX, err) < 0)
        return -1;
    chosen->resumes = resumes > 0;
    return dt_gather_text_of(run->comm, 0, chosen->name, NAME_BYTES, err);
}

/* Adds advice to the error of a checkpoint whose content is wrong. */
static void offer_another(struct dt_error *err)
{
    if (err->status == EX_DATAERR)
        dt_error_add(err, EX_DATAERR,
                     "to resume from another checkpoint, name it in "
                     "training.resume");
}

/* Rank 0: takes the directory, checks that the run can be saved, and chooses
 * the checkpoint to resume from.
 */
static int choose_here(struct dt_run *run, struct chosen *chosen,
                       struct dt_error *err)
{
    char *dir;
    if (dt_run_take_output(run, false, err) < 0 ||
        choose_checkpoint(run, &dir, err) < 0)
        return -1;
    int result = check_saving(run, err);
    if (result == 0) {
        if (dir)
            dt_log(DT_LOG_NEWS, "algo", "resuming from %s", dir);
        result = check_source(run, dir, err);
        if (result < 0 && dir)
            offer_another(err);
        else if (result == 0)
            dt_best_look(run);
    }
    name_choice(run, dir, chosen);
    free(dir);
    return result;
}

/* Checks that this rank can write checkpoints where rank 0 does. The wait is
 * shorter than the other ranks' deadline.
 */
static int check_shared(const struct dt_run *run, struct dt_error *err)
{
    const struct dt_spec *spec = &run->spec;
    enum { SEEN_MS = 10000 };
    const int quarter = dt_run_timeout_ms(run) / 4;
    if (spec->world == 1 || spec->conf.training.eval_only)
        return 0;
    if (dt_agree_directory(run->comm, spec->ckpt_root,
                           quarter < SEEN_MS ? quarter : SEEN_MS, err) < 0)
        return -1;
    if (spec->rank == 0 || access(spec->ckpt_root, W_OK) == 0)
        return 0;
    return dt_error_set(err, EX_CANTCREAT,
                        "%s: rank 0 can write there, but this host cannot: %s; "
                        "all ranks write checkpoints, so run.output_dir has to "
                        "be on a file system that all nodes share",
                        spec->ckpt_root, strerror(errno));
}

/* Its path; "": the run starts from the beginning. */
static void path_of(const struct dt_run *run, const struct chosen *chosen,
                    char dir[PATH_MAX])
{
    if (chosen->name[0])
        snprintf(dir, PATH_MAX, "%s/%s", run->spec.ckpt_root, chosen->name);
    else
        snprintf(dir, PATH_MAX, "%s",
                 chosen->resumes ? run->spec.conf.training.resume_path : "");
}

static int load_here(struct dt_run *run, const struct chosen *chosen,
                     struct dt_error *err)
{
    char dir[PATH_MAX], path[DIR_BYTES];
    struct dt_learner *learner;
    int result = 0;
    path_of(run, chosen, dir);
    for (size_t i = 0; result == 0 && (learner = dt_run_learner(run, i)); i++)
        result = dt_learner_load(
            learner, learner_dir(learner, chosen->resumes ? dir : NULL, path),
            run->spec.conf.run.seed, err);
    if (result == 0 && chosen->resumes)
        result = dt_run_reference_load(run, dir, err);
    if (result == 0 && chosen->resumes)
        result = dt_alignment_load(run, dir, err);
    if (result < 0 && chosen->resumes)
        offer_another(err);
    return result;
}

/* Rank 0, if the run goes on with the state of another process: takes the
 * directory, and checks that the run can be saved.
 */
static int continue_here(struct dt_run *run, struct dt_error *err)
{
    return dt_run_take_output(run, true, err) < 0 ? -1 : check_saving(run, err);
}

/* Loads the checkpoint that rank 0 has chosen, on all ranks. */
static int load_chosen(struct dt_run *run, struct chosen *chosen,
                       struct dt_error *err)
{
    if (run->spec.world > 1 &&
        (dt_progress_share(run, err) < 0 || share_choice(run, chosen, err) < 0))
        return -1;
    if (check_shared(run, err) < 0 || dt_run_reference_read(run, err) < 0 ||
        load_here(run, chosen, err) < 0)
        return -1;
    /* wait here, where a lost peer is noticed: later waits are on the device */
    if (dt_run_wait(run, err) < 0)
        return -1;
    run->queued = run->progress.step;
    run->saves.newest = run->saves.unproven = run->progress.step;
    /* a newer one that was saved before is damaged, or abandoned */
    dt_copies_saved(run, run->progress.step);
    return 0;
}

/* Whether all ranks can go on with what their earlier processes have left. 1,
 * 0; -1: a peer failed, EX_OSERR.
 */
static int agree(struct dt_run *run, struct dt_error *err)
{
    return run->copies ? dt_copies_agree(run, err) : dt_state_agree(run, err);
}

/* Goes on with it. -1: files cannot be read; a peer failed. */
static int take(struct dt_run *run, struct dt_error *err)
{
    return run->copies ? dt_copies_take(run, err) : dt_state_take(run, err);
}

/* Rank 0: makes the checkpoint that the run has resumed from, if it is one of
 * the run's folder, the one that the next start finds: until the first save
 * `latest` would name one that this run has left behind. One of another folder
 * stays what a restart reads until then.
 */
static int adopt(const struct dt_run *run, const struct chosen *chosen,
                 struct dt_error *err)
{
    const struct dt_spec *spec = &run->spec;
    char dir[PATH_MAX], own[DIR_BYTES], latest[DIR_BYTES];
    path_of(run, chosen, dir);
    snprintf(own, sizeof(own), "%s/checkpoint-%ld", spec->ckpt_root,
             run->progress.step);
    snprintf(latest, sizeof(latest), "%s/latest", spec->ckpt_root);
    if (!chosen->resumes || !dt_file_is_same(dir, own))
        return 0;
    if (!dt_file_is_same(latest, own) &&
        dt_ckpt_set_latest(spec->ckpt_root, own, err) < 0)
        return -1;
    return dt_hold_set(spec->conf.run.output_dir, DT_HOLD_ALL, err);
}

int dt_run_restore(struct dt_run *run, struct dt_error *err)
{
    const struct dt_spec *spec = &run->spec;
    struct chosen chosen = {0};
    const int there = agree(run, err);
    int result = 0;
    if (there < 0)
        return -1;
    if (spec->rank == 0)
        result =
            there ? continue_here(run, err) : choose_here(run, &chosen, err);
    bool stopped = result < 0 && err->status == EX_TEMPFAIL;
    if ((result < 0 && !stopped) || dt_verify_end(run, err) < 0 ||
        dt_run_share_stop(run, stopped, err) < 0)
        return -1;
    if ((there ? take(run, err) : load_chosen(run, &chosen, err)) < 0)
        return -1;
    if (spec->world > 1 && dt_comm_barrier(run->comm, err) < 0)
        return -1;
    /* no rank reads there from here on */
    if (spec->rank == 0 && !spec->conf.training.eval_only) {
        if (dt_run_keep_output(run, err) < 0)
            return -1;
        dt_ckpt_tidy(spec->ckpt_root, warn);
        dt_best_link_again(run);
        if (adopt(run, &chosen, err) < 0)
            return -1;
    }
    if (there)
        return 0;
    /* no rank has a state to go on with before rank 0 has done so */
    if (spec->world > 1 && dt_comm_barrier(run->comm, err) < 0)
        return -1;
    dt_state_settle(run);
    return dt_copies_measure(run, err);
}
