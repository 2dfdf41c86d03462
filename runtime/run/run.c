/* SPDX-License-Identifier: Apache-2.0 */
/* run.c - helpers that several parts of a run share */
#include "config.h"

#include "base/log.h"
#include "run/run.h"

struct dt_learner *dt_run_learner(struct dt_run *run, size_t i)
{
    if (i == 0)
        return &run->learner;
    return i == 1 && run->spec.critic.layout ? &run->critic : NULL;
}

int dt_run_timeout_ms(const struct dt_run *run)
{
    return (int)(run->spec.conf.distributed.timeout_s * 1000);
}

int dt_run_share_stop(const struct dt_run *run, bool stopped,
                      struct dt_error *err)
{
    double any = stopped;
    if (run->spec.world > 1 &&
        dt_comm_reduce_scalars(run->comm, &any, 1, DT_MAX, err) < 0)
        return -1;
    if (any > 0)
        return dt_error_set(err, EX_TEMPFAIL,
                            "stopped by a signal before the first step");
    return 0;
}

int dt_run_wait(struct dt_run *run, struct dt_error *err)
{
    const struct dt_exec *exec = &run->spec.exec;
    struct dt_event *end = run->learner.results[0].done;
    assert(!run->in_flight[0].open && !run->in_flight[1].open);
    if (exec->device->event_record(end, exec->stream, err) < 0)
        return -1;
    return dt_comm_wait_event(run->comm, exec->device, end, err);
}

void dt_run_pass_notices(const struct dt_run *run)
{
    const struct dt_ops *ops = run->spec.exec.ops;
    const char *text;
    while (ops->notice && (text = ops->notice()))
        dt_log(run->spec.rank == 0 ? DT_LOG_WARN : DT_LOG_DEBUG, "algo", "%s",
               text);
}

/* Batches of B rows, or of B * accumulation samples within the tokens. */
static struct dt_loader_options loader_options(const struct dt_run *run,
                                               size_t B, size_t accumulation)
{
    const struct dt_spec *spec = &run->spec;
    const struct dt_conf *conf = &spec->conf;
    return (struct dt_loader_options){
        .B = B,
        .tokens = spec->tokens,
        .accumulation = accumulation,
        .multiple_of = dt_spec_length_step(spec),
        .rank = spec->rank,
        .world = spec->world,
        .seed = conf->run.data_seed,
        .workers =
            conf->data.num_workers > 1 ? (size_t)conf->data.num_workers : 1,
        .prefetch = dt_run_prefetch(conf),
        .timeout_ms = dt_run_timeout_ms(run),
    };
}

/* The samples that all queued steps consume. */
static uint64_t queued_position(const struct dt_run *run)
{
    const struct dt_in_flight *newest =
        &run->in_flight[run->queued % DT_MAX_IN_FLIGHT];
    return newest->open ? newest->position : run->progress.position;
}

struct dt_loader *dt_run_loader(const struct dt_run *run, struct dt_error *err)
{
    struct dt_loader_options options =
        loader_options(run, run->spec.B, run->spec.A);
    options.shuffle = run->spec.conf.data.shuffle;
    options.repeat = true;
    return dt_loader_create(run->data.train, &options, queued_position(run),
                            err);
}

struct dt_loader *dt_run_pass(const struct dt_run *run,
                              const struct dt_rows *rows, struct dt_error *err)
{
    const struct dt_loader_options options =
        loader_options(run, run->spec.eval_B, 1);
    return dt_loader_create(rows, &options, 0, err);
}
