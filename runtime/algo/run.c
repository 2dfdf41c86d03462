/* SPDX-License-Identifier: Apache-2.0 */
/* run.c - what several parts of a run need */
#include "config.h"

#include "algo/run.h"

const struct dt_algo *dt_algo_of(const struct dt_conf *conf)
{
    static const struct dt_algo *const algos[] = {
        [DT_CONF_SFT] = &dt_algo_sft,
        [DT_CONF_RM] = &dt_algo_rm,
        [DT_CONF_DPO] = &dt_algo_dpo,
    };
    return algos[conf->algorithm];
}

int dt_algo_adapt(const struct dt_algo *algo, struct dt_model_config *config,
                  const char *dir, struct dt_error *err)
{
    if (config->scores && !algo->scores)
        return dt_error_set(err, EX_CONFIG,
                            "%s: a reward model, but algorithm %s trains a "
                            "language model",
                            dir, algo->name);
    config->scores = algo->scores;
    return 0;
}

int dt_run_timeout_ms(const struct dt_run *run)
{
    return (int)(run->conf.distributed.timeout_s * 1000);
}

int dt_run_reduce(struct dt_run *run, struct dt_view step, struct dt_error *err)
{
    dt_ticket_t ticket;
    if (dt_comm_all_reduce(run->comm, dt_view_slice(step, 0, DT_STEP_SUMS),
                           DT_SUM, DT_F32, &ticket, err) < 0)
        return -1;
    return dt_comm_wait(run->comm, ticket, err);
}

int dt_run_wait(struct dt_run *run, struct dt_error *err)
{
    const struct dt_exec *exec = &run->exec;
    struct dt_event *end = run->in_flight[0].done;
    assert(!run->in_flight[0].open && !run->in_flight[1].open);
    if (exec->device->event_record(end, exec->stream, err) < 0)
        return -1;
    return dt_comm_wait_event(run->comm, exec->device, end, err);
}

size_t dt_run_unit_elements(const struct dt_run *run)
{
    size_t most = 0;
    for (size_t u = 0; u < run->layout->unit_count; u++)
        if (run->layout->units[u].count > most)
            most = run->layout->units[u].count;
    return most;
}
