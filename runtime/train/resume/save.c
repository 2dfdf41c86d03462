/* SPDX-License-Identifier: Apache-2.0 */
/* save.c - saves a run: when, on all ranks together, and again after a failure
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/span.h"
#include "run/dir/dir.h"
#include "run/exchange.h"
#include "train/resume/resume_impl.h"

/* --- saving together --- */

#define ANOTHER "another rank cannot write its files, as its message says"

/* Whether a rank has failed: 1 or 0. -1: a peer is lost. */
static int any_failed(struct dt_run *run, bool failed, struct dt_error *err)
{
    double any = failed;
    if (run->spec.world > 1 &&
        dt_comm_reduce_scalars(run->comm, &any, 1, DT_MAX, err) < 0)
        return -1;
    return any > 0;
}

/* On rank 0: makes room for this checkpoint if the disk may be too full for it
 * and older ones may go. The newest one stays, and all until it is known to be
 * good.
 */
static void look_ahead(struct dt_run *run)
{
    const struct dt_saves *saves = &run->saves;
    const char *root = run->spec.ckpt_root;
    const double bytes = 1.2 * (double)dt_run_checkpoint_bytes(run);
    struct dt_error why;
    int full = dt_ckpt_space(root, bytes, &why);
    if (full && saves->newest > 0 && saves->unproven == 0) {
        dt_run_prune(run, saves->newest, 1);
        full = dt_ckpt_space(root, bytes, &why);
    }
    if (full && !saves->told_short)
        dt_run_warn(run, "the disk is nearly full, and saving is tried: %s",
                    why.text);
    run->saves.told_short = full;
}

/* Rank 0 creates the directory, and the others join. `why` is this rank's
 * error.
 */
static int begin(struct dt_run *run, struct dt_ckpt_writer **writer,
                 struct dt_error *why, struct dt_error *err)
{
    const struct dt_spec *spec = &run->spec;
    long step = run->progress.step;
    bool first = spec->rank == 0;
    double nonce = -1; /* a higher one means that rank 0 has begun */
    *writer = NULL;
    if (first)
        look_ahead(run);
    if (first && dt_report_sync(run->report, why) == 0)
        *writer = dt_ckpt_begin(spec->ckpt_root, step, why);
    if (*writer)
        nonce = dt_ckpt_nonce(*writer);
    if (spec->world > 1 &&
        dt_comm_reduce_scalars(run->comm, &nonce, 1, DT_MAX, err) < 0)
        return -1;
    if (nonce < 0)
        return 1;
    if (!first)
        *writer = dt_ckpt_join(spec->ckpt_root, step, spec->rank,
                               (uint32_t)nonce, why);
    int failed = any_failed(run, !*writer, err);
    if (failed == 0)
        return 0;
    if (failed > 0 && *writer)
        dt_error_set(why, EX_CANTCREAT, ANOTHER);
    dt_ckpt_abandon(*writer);
    *writer = NULL;
    return failed;
}

/* Rank 0 takes the files of all ranks into the checkpoint, in their order. 0;
 * 1: it cannot, as `why` says. -1: a peer failed.
 */
static int merge_sums(struct dt_run *run, struct dt_ckpt_writer *writer,
                      struct dt_error *why, struct dt_error *err)
{
    const int world = run->spec.world;
    const char *mine = run->spec.rank > 0 ? dt_ckpt_sums(writer) : "";
    double most = (double)strlen(mine);
    if (world == 1)
        return 0;
    if (dt_comm_reduce_scalars(run->comm, &most, 1, DT_MAX, err) < 0)
        return -1;
    const size_t bytes = (size_t)most / 6 * 6 + 6; /* as dt_gather_texts asks */
    char *texts = malloc((size_t)world * (bytes + 1));
    if (!texts)
        return dt_error_set(err, EX_OSERR, "out of memory");
    int rc = dt_gather_texts(run->comm, mine, bytes, texts, err);
    for (int r = 1; run->spec.rank == 0 && rc == 0 && r < world; r++)
        if (dt_ckpt_merge(writer, texts + (size_t)r * (bytes + 1), why) < 0)
            rc = 1;
    free(texts);
    return rc;
}

/* Commits the checkpoint after all ranks have written their files. `failed`:
 * this rank could not.
 */
static int end(struct dt_run *run, struct dt_ckpt_writer *writer, bool failed,
               struct dt_error *why, struct dt_error *err)
{
    int any = any_failed(run, failed, err);
    if (any > 0 && !failed)
        dt_error_set(why, EX_IOERR, ANOTHER);
    if (any == 0)
        any = merge_sums(run, writer, why, err);
    if (any == 0 && run->spec.rank == 0 && dt_run_keep_output(run, err) < 0)
        any = -1;
    if (any != 0 || run->spec.rank > 0) {
        dt_ckpt_abandon(writer);
        return any;
    }
    /* dt_run_judge removes older ones when this one is known to be good */
    return dt_ckpt_commit(writer, why) < 0;
}

/* Logs the error on ranks other than 0, whose errors the caller does not
 * report.
 */
static void tell_failure(const struct dt_run *run, const struct dt_error *why)
{
    if (run->spec.rank > 0 && why->text[0] && strcmp(why->text, ANOTHER) != 0)
        dt_log(DT_LOG_WARN, "algo", "%s", why->text);
}

int dt_run_save(struct dt_run *run, struct dt_error *why, struct dt_error *err)
{
    struct dt_ckpt_writer *writer;
    bool lost = false;
    if (dt_run_check_output(run, err) < 0)
        return -1;
    int result = begin(run, &writer, why, err);
    if (result != 0) {
        tell_failure(run, why);
        return result;
    }
    bool failed = dt_run_add_files(run, writer, &lost, why) < 0;
    if (lost) {
        dt_ckpt_abandon(writer);
        *err = *why;
        return -1;
    }
    result = end(run, writer, failed, why, err);
    if (result > 0)
        tell_failure(run, why);
    if (result == 0)
        snprintf(run->saves.path, sizeof(run->saves.path), "%s/latest",
                 run->spec.ckpt_root);
    return result;
}

/* --- when, and again after a failure --- */

enum { HALVINGS = 3 }; /* of the interval, one for each failure */

bool dt_run_save_due(const struct dt_run *run, long step)
{
    const struct dt_conf *conf = &run->spec.conf;
    return step == run->total_steps || step == run->saves.retry ||
           (conf->checkpoint.strategy == DT_CONF_STEPS &&
            step % conf->checkpoint.steps == 0);
}

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
static bool gives_up(const struct dt_run *run, bool last, struct dt_error *err)
{
    long failures = run->saves.failures + 1;
    long most = run->spec.conf.checkpoint.max_failures;
    if (last)
        dt_error_prefix(err, "step %ld, the last one, could not be saved",
                        run->progress.step);
    else if (failures >= most)
        dt_error_prefix(err,
                        "step %ld could not be saved, which was failure %ld of "
                        "%ld in a row (checkpoint.max_failures)",
                        run->progress.step, failures, most);
    return last || failures >= most;
}

/* On all ranks: schedules the next try. */
static void plan_retry(struct dt_run *run, const char *why, double seconds)
{
    long step = run->progress.step;
    run->saves.failures++;
    run->saves.retry = retry_step(run, step);
    run->saves.maybe = step;
    dt_run_event(run, "save_failed", seconds, "%s", why);
    if (run->spec.rank == 0)
        dt_log(DT_LOG_WARN, "algo",
               "step %ld could not be saved, and the run continues: %s; "
               "failure %d of %ld in a row (checkpoint.max_failures), next "
               "try after step %ld",
               step, why, run->saves.failures,
               run->spec.conf.checkpoint.max_failures, run->saves.retry);
}

static void note_save(struct dt_run *run, double seconds)
{
    if (run->report)
        dt_report_event(run->report,
                        &(struct dt_report_event){
                            .kind = "save",
                            .step = run->progress.step,
                            .seconds = seconds,
                            .bytes = (double)dt_run_checkpoint_bytes(run),
                            .rank = -1,
                            .text = run->saves.path});
}

static int save_or_retry(struct dt_run *run, bool last, struct dt_error *err)
{
    struct dt_error why = {0}, lost;
    const double begin = dt_clock_now();
    int result = dt_run_save(run, &why, err);
    if (result < 0)
        return -1;
    const double seconds = dt_clock_now() - begin;
    if (result > 0 && run->spec.rank == 0 && gives_up(run, last, &why)) {
        dt_run_event(run, "save_failed", seconds, "%s", why.text);
        *err = why;
        return -1;
    }
    double failed = result;
    if (run->spec.world > 1 &&
        dt_comm_reduce_scalars(run->comm, &failed, 1, DT_MAX, &lost) < 0) {
        *err = lost;
        return -1;
    }
    if (failed > 0) {
        plan_retry(run, why.text, seconds);
        return 0;
    }
    note_save(run, seconds);
    run->saves.failures = 0;
    run->saves.retry = run->saves.maybe = 0;
    run->saves.newest = run->saves.unproven = run->progress.step;
    return 0;
}

int dt_run_save_or_retry(struct dt_run *run, bool last, struct dt_error *err)
{
    struct dt_span span;
    dt_span_begin_number(&span, DT_SPAN_SAVE, (uint64_t)run->progress.step);
    int rc = save_or_retry(run, last, err);
    dt_span_end(&span);
    return rc;
}
