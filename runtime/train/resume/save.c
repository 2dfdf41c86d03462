/* SPDX-License-Identifier: Apache-2.0 */
/* save.c - saves a run: when, and on all ranks together */
#include "config.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/span.h"
#include "run/dir/dir.h"
#include "train/resume/resume_impl.h"

/* --- saves that the run waits for --- */

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
    struct dt_error space;
    *writer = NULL;
    if (first)
        dt_save_tell_full(run,
                          dt_save_look_ahead(run, dt_run_checkpoint_bytes(run),
                                             dt_save_may_go(run), &space),
                          &space);
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
    int failed = dt_save_any_failed(run, !*writer, why, err);
    if (failed == 0)
        return 0;
    dt_ckpt_abandon(*writer);
    *writer = NULL;
    return failed;
}

/* Commits the checkpoint on rank 0, which has the sums of the others. */
static int commit(struct dt_run *run, struct dt_ckpt_writer *writer,
                  const char *sums, struct dt_error *why, struct dt_error *err)
{
    int result = 0;
    if (dt_ckpt_merge(writer, sums, why) == 0 &&
        (result = dt_run_keep_output(run, err)) == 0)
        /* dt_run_judge removes older ones when this one is known to be good */
        return dt_save_commit(run, writer, why) < 0;
    dt_ckpt_abandon(writer);
    return result < 0 ? -1 : 1;
}

/* Ends the save after all ranks have written their files. `failed`: this rank
 * could not.
 */
static int end(struct dt_run *run, struct dt_ckpt_writer *writer, bool failed,
               struct dt_error *why, struct dt_error *err)
{
    int any = dt_save_any_failed(run, failed, why, err);
    char *sums = any == 0 ? dt_save_gather_sums(run, writer, err) : NULL;
    if (sums && run->spec.rank == 0) {
        any = commit(run, writer, sums, why, err);
    } else {
        dt_ckpt_abandon(writer);
        any = sums || any > 0 ? any : -1;
    }
    free(sums);
    return any;
}

int dt_run_save(struct dt_run *run, struct dt_error *why, struct dt_error *err)
{
    struct dt_ckpt_writer *writer;
    bool lost = false;
    if (dt_run_check_output(run, err) < 0)
        return -1;
    int result = begin(run, &writer, why, err);
    if (result != 0) {
        dt_save_tell_failure(run, why);
        return result;
    }
    bool failed = dt_run_add_files(run, writer, NULL, &lost, why) < 0;
    if (lost) {
        dt_ckpt_abandon(writer);
        *err = *why;
        return -1;
    }
    result = end(run, writer, failed, why, err);
    if (result > 0)
        dt_save_tell_failure(run, why);
    return result;
}

/* --- when, and how --- */

bool dt_run_save_due(const struct dt_run *run, long step)
{
    const struct dt_conf *conf = &run->spec.conf;
    return step == run->total_steps || step == run->saves.retry ||
           (conf->checkpoint.strategy == DT_CONF_STEPS &&
            step % conf->checkpoint.steps == 0);
}

static int save_and_wait(struct dt_run *run, bool last, struct dt_error *err)
{
    struct dt_error why = {0};
    struct dt_save_end end = {.step = run->progress.step, .last = last};
    const double begin = dt_clock_now();
    if (dt_run_save_finish(run, err) < 0)
        return -1;
    int result = dt_run_save(run, &why, err);
    if (result < 0)
        return -1;
    end.failed = result > 0;
    end.seconds = end.took = dt_clock_now() - begin;
    return dt_save_conclude(run, &end, &why, err);
}

/* A checkpoint that is needed at once, as the link to the best one names it. */
static bool is_best(const struct dt_run *run)
{
    return run->spec.conf.training.load_best_model_at_end &&
           run->progress.best.step == run->progress.step;
}

static int save_or_retry(struct dt_run *run, bool last, struct dt_error *err)
{
    if (!run->flight || last || is_best(run))
        return save_and_wait(run, last, err);
    if (run->saves.flight > 0 && !dt_save_is_kept(run, run->progress.step)) {
        dt_flight_skip(run);
        return 0;
    }
    return dt_run_save_finish(run, err) < 0 ? -1 : dt_flight_begin(run, err);
}

int dt_run_save_or_retry(struct dt_run *run, bool last, struct dt_error *err)
{
    struct dt_span span;
    dt_span_begin_number(&span, DT_SPAN_SAVE, (uint64_t)run->progress.step);
    int rc = save_or_retry(run, last, err);
    dt_span_end(&span);
    return rc;
}

int dt_run_save_advance(struct dt_run *run, struct dt_error *err)
{
    struct dt_span span;
    dt_span_begin_number(&span, DT_SPAN_SAVE, (uint64_t)run->progress.step);
    int rc = dt_flight_advance(run, err);
    dt_span_end(&span);
    return rc;
}
