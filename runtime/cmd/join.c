/* SPDX-License-Identifier: Apache-2.0 */
/* join.c - a rank's hardware and its connection to the others */
#include "config.h"

#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sysexits.h>
#include <unistd.h>

#include "backend/backend.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/proc.h"
#include "base/span.h"
#include "cmd/cmd_impl.h"
#include "contract/contract.h"
#include "launch/launch.h"
#include "report/report.h"
#include "run/exchange.h"

void dt_join_threads(const struct dt_launch *launch)
{
    const int cpus = dt_cpus_usable(""), asked = omp_get_max_threads();
    const int share = cpus / dt_launch_local_size(launch);
    if (!getenv("OMP_NUM_THREADS")) {
        omp_set_num_threads(share > 1 ? share : 1);
    } else if (asked > cpus) {
        dt_log(dt_launch_rank(launch) == 0 ? DT_LOG_WARN : DT_LOG_DEBUG, "cmd",
               "OMP_NUM_THREADS is %d, but a rank may use %d CPU%s here: it "
               "has that many threads",
               asked, cpus, cpus == 1 ? "" : "s");
        omp_set_num_threads(cpus);
    }
}

const struct dt_backend *dt_join_hardware(const struct dt_conf *conf,
                                          const struct dt_launch *launch,
                                          struct dt_exec *exec,
                                          struct dt_error *err)
{
    static const char *const names[] = {
        [DT_CONF_AUTO_DEVICE] = "auto",
        [DT_CONF_CPU] = "cpu",
        [DT_CONF_CUDA] = "cuda",
    };
    const struct dt_backend_options options = {
        .local_rank = launch ? dt_launch_local_rank(launch) : 0,
        .deterministic = conf->run.deterministic,
        .tf32 = conf->precision.tf32,
        .attention = conf->model.attention,
    };
    char note[512];
    const struct dt_backend *backend = dt_backend_open(
        names[conf->run.device], &options, note, sizeof(note), err);
    if (!backend)
        return NULL;
    if (launch && note[0])
        dt_log(dt_launch_rank(launch) == 0 ? DT_LOG_INFO : DT_LOG_DEBUG, "cmd",
               "%s", note);
    *exec = (struct dt_exec){backend->device, backend->ops, NULL};
    dt_span_ranges(backend->device->range_begin, backend->device->range_end);
    dt_span_lane("host"); /* before threads that may be more than lanes */
    if (backend->device->stream_create(&exec->stream, err) < 0)
        return NULL;
    return backend;
}

static void warn(const char *line)
{
    dt_log(DT_LOG_WARN, "comm", "%s", line);
}

struct dt_comm *dt_join_ranks(const struct dt_conf *conf,
                              const struct dt_backend *backend,
                              struct dt_stream *stream,
                              struct dt_launch *launch, struct dt_error *err)
{
    const struct dt_comm_world world = dt_world_of(launch);
    const struct dt_comm_options options = {
        .interface = conf->distributed.interface,
        .timeout_ms = (int)(conf->distributed.timeout_s * 1000),
        .outage_ms = (int)(conf->distributed.outage_s * 1000),
        .secret = getenv(DT_ENV_STEP_SECRET),
        .warn = warn,
        .deterministic = conf->run.deterministic,
        .stream = stream,
    };
    if (world.size > 1 &&
        dt_backend_agree(backend, &world, options.timeout_ms, err) < 0)
        return NULL;
    return dt_backend_connect(backend, &world, &options, err);
}

/* Whether this rank tells the user about a failure. It reports its own. It does
 * not report a peer's failure if the peer could report it. If a peer was lost
 * silently, one rank reports that for all, after a moment so that Slurm and the
 * plugin can report first what they know.
 */
static bool should_report(int rank, const struct dt_error *err)
{
    if (err->lost_rank < 0)
        return true;
    if (err->status != EX_UNAVAILABLE)
        return false;
    dt_clock_sleep(0.3);
    return rank == (err->lost_rank == 0 ? 1 : 0);
}

void dt_join_tell(struct dt_launch *launch, struct dt_comm *comm,
                  const struct dt_error *err)
{
    int rank = dt_launch_rank(launch), size = dt_launch_size(launch);
    if (err->status == EX_TEMPFAIL) {
        if (rank == 0)
            fprintf(stderr, "disttrain: %s\n", err->text);
        dt_comm_destroy(comm);
        return;
    }
    if (dt_launch_is_kept(launch) && err->lost_rank >= 0)
        dt_launch_note(launch, err->text);
    else if (should_report(rank, err))
        dt_report_failure(rank, size, dt_launch_host(launch, rank), err);
    if (!comm && size > 1)
        dt_launch_abort(launch, err->status, err->text);
    dt_comm_abandon(comm, err);
}

int dt_join_end(const struct dt_launch *launch, const struct dt_error *err)
{
    if (dt_launch_size(launch) > 1 && err->status != EX_TEMPFAIL)
        _exit(err->status);
    return err->status;
}

int dt_join_failed(struct dt_launch *launch, struct dt_comm *comm,
                   const struct dt_error *err)
{
    dt_join_tell(launch, comm, err);
    return dt_join_end(launch, err);
}
