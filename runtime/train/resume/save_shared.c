/* SPDX-License-Identifier: Apache-2.0 */
/* save_shared.c - parts of a save, whether the run waits for it or not */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "run/dir/dir.h"
#include "run/exchange.h"
#include "train/resume/copies.h"
#include "train/resume/resume_impl.h"

/* --- before --- */

bool dt_save_is_kept(const struct dt_run *run, long step)
{
    const long every = run->spec.conf.checkpoint.keep_every;
    return every > 0 && step % every == 0;
}

long dt_save_may_go(const struct dt_run *run)
{
    return run->saves.unproven == 0 ? run->saves.newest : 0;
}

bool dt_save_look_ahead(const struct dt_run *run, size_t bytes, long may_go,
                        struct dt_error *why)
{
    const char *root = run->spec.ckpt_root;
    const double most = 1.2 * (double)bytes;
    int full = dt_ckpt_space(root, most, why);
    if (full && may_go > 0) {
        dt_run_prune(run, may_go, 1);
        full = dt_ckpt_space(root, most, why);
    }
    return full;
}

void dt_save_tell_full(struct dt_run *run, bool full,
                       const struct dt_error *why)
{
    if (full && !run->saves.told_short)
        dt_run_warn(run, "the disk is nearly full, and saving is tried: %s",
                    why->text);
    run->saves.told_short = full;
}

/* --- together --- */

#define ANOTHER "another rank cannot write its files, as its message says"

int dt_save_any_failed(struct dt_run *run, bool failed, struct dt_error *why,
                       struct dt_error *err)
{
    double any = failed;
    if (run->spec.world > 1 &&
        dt_comm_reduce_scalars(run->comm, &any, 1, DT_MAX, err) < 0)
        return -1;
    if (any > 0 && !failed)
        dt_error_set(why, EX_IOERR, ANOTHER);
    return any > 0;
}

void dt_save_tell_failure(const struct dt_run *run, const struct dt_error *why)
{
    if (run->spec.rank > 0 && why->text[0] && strcmp(why->text, ANOTHER) != 0)
        dt_log(DT_LOG_WARN, "algo", "%s", why->text);
}

char *dt_save_gather_sums(struct dt_run *run,
                          const struct dt_ckpt_writer *writer,
                          struct dt_error *err)
{
    const int world = run->spec.world;
    const char *mine = run->spec.rank > 0 ? dt_ckpt_sums(writer) : "";
    double most = (double)strlen(mine);
    if (world > 1 &&
        dt_comm_reduce_scalars(run->comm, &most, 1, DT_MAX, err) < 0)
        return NULL;
    const size_t bytes = (size_t)most / 6 * 6 + 6; /* as dt_gather_texts asks */
    char *texts = malloc((size_t)world * (bytes + 1));
    if (!texts) {
        dt_error_set(err, EX_OSERR, "out of memory");
        return NULL;
    }
    if (dt_gather_texts(run->comm, mine, bytes, texts, err) < 0) {
        free(texts);
        return NULL;
    }
    char *to = texts; /* joined */
    for (int r = 0; r < world; r++) {
        const char *from = texts + (size_t)r * (bytes + 1);
        const size_t length = strlen(from);
        memmove(to, from, length + 1);
        to += length;
    }
    return texts;
}

/* --- after, and again after a failure --- */

enum { HALVINGS = 3 }; /* of the interval, one for each failure */

/* Step of the retry after the n-th failure in a row: interval / 2^n later, at
 * least an eighth of the interval.
 */
static long retry_step(const struct dt_run *run, long step)
{
    int failures = run->saves.failures;
    long steps = run->spec.conf.checkpoint.steps >>
                 (failures < HALVINGS ? failures : HALVINGS);
    return step + (steps > 1 ? steps : 1);
}

/* On rank 0: whether the failed save ends the run. */
static bool gives_up(const struct dt_run *run, const struct dt_save_end *end,
                     struct dt_error *err)
{
    long failures = run->saves.failures + 1;
    long most = run->spec.conf.checkpoint.max_failures;
    if (end->last)
        dt_error_prefix(err, "step %ld, the last one, could not be saved",
                        end->step);
    else if (failures >= most)
        dt_error_prefix(err,
                        "step %ld could not be saved, which was failure %ld of "
                        "%ld in a row (checkpoint.max_failures)",
                        end->step, failures, most);
    return end->last || failures >= most;
}

/* On all ranks: schedules the next try. */
static void plan_retry(struct dt_run *run, const struct dt_save_end *end,
                       const char *why)
{
    const long step = end->step, now = run->progress.step;
    run->saves.failures++;
    run->saves.retry = retry_step(run, step);
    if (run->saves.retry <= now)
        run->saves.retry = now + 1;
    run->saves.maybe = end->good ? 0 : step;
    dt_run_event(run, "save_failed", end->seconds, "%s", why);
    if (run->spec.rank == 0)
        dt_log(DT_LOG_WARN, "algo",
               "step %ld could not be saved, and the run continues: %s; "
               "failure %d of %ld in a row (checkpoint.max_failures), next "
               "try after step %ld",
               step, why, run->saves.failures,
               run->spec.conf.checkpoint.max_failures, run->saves.retry);
}

int dt_save_commit(const struct dt_run *run, struct dt_ckpt_writer *writer,
                   struct dt_error *why)
{
    struct dt_error late;
    if (dt_ckpt_commit(writer, why) < 0)
        return -1;
    if (dt_hold_set(run->spec.conf.run.output_dir, DT_HOLD_ALL, &late) < 0)
        dt_log(DT_LOG_WARN, "algo",
               "%s: ranks that start again may not find this checkpoint",
               late.text);
    return 0;
}

static void note_save(struct dt_run *run, const struct dt_save_end *end)
{
    char path[PATH_MAX + 32];
    snprintf(path, sizeof(path), "%s/checkpoint-%ld", run->spec.ckpt_root,
             end->step);
    if (run->report)
        dt_report_event(run->report,
                        &(struct dt_report_event){
                            .kind = "save",
                            .step = end->step,
                            .seconds = end->seconds,
                            .bytes = (double)dt_run_checkpoint_bytes(run),
                            .rank = -1,
                            .text = path});
}

int dt_save_conclude(struct dt_run *run, const struct dt_save_end *end,
                     struct dt_error *why, struct dt_error *err)
{
    struct dt_saves *saves = &run->saves;
    if (end->failed && run->spec.rank == 0 && gives_up(run, end, why)) {
        dt_run_event(run, "save_failed", end->seconds, "%s", why->text);
        *err = *why;
        return -1;
    }
    double failed = end->failed;
    if (run->spec.world > 1 &&
        dt_comm_reduce_scalars(run->comm, &failed, 1, DT_MAX, err) < 0)
        return -1;
    if (failed > 0) {
        plan_retry(run, end, why->text);
        return 0;
    }
    snprintf(saves->path, sizeof(saves->path), "%s/latest",
             run->spec.ckpt_root);
    note_save(run, end);
    saves->failures = 0;
    saves->seconds = end->took;
    saves->retry = saves->maybe = 0;
    saves->newest = end->step;
    saves->unproven = end->good ? 0 : end->step;
    if (!dt_run_saves_model_alone(run))
        dt_copies_saved(run, end->step);
    return 0;
}
