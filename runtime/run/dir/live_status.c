/* SPDX-License-Identifier: Apache-2.0 */
/* live_status.c - status of a run, for those who watch it begin and end */
#include "config.h"

#include <stdlib.h>

#include "run/dir/dir.h"
#include "run/run.h"

int dt_run_live_begin(struct dt_run *run, const char *algorithm,
                      struct dt_error *err)
{
    const struct dt_spec *spec = &run->spec;
    const char *prometheus = spec->conf.logging.prometheus;
    const struct dt_live_options options = {
        .name = spec->conf.run.name,
        .algorithm = algorithm,
        .world = spec->world,
        .prometheus = prometheus ? prometheus : getenv("DISTTRAIN_PROMETHEUS"),
        .progress = spec->conf.logging.to_stdout && spec->conf.logging.progress,
    };
    const char **hosts = calloc((size_t)spec->world, sizeof(*hosts));
    for (int rank = 0; hosts && rank < spec->world; rank++)
        hosts[rank] = dt_comm_host(run->comm, rank);
    run->live = dt_live_create(&options, err);
    if (hosts)
        dt_live_hosts(run->live, hosts, (size_t)spec->world);
    free(hosts);
    return run->live ? 0 : -1;
}

void dt_run_live_end(struct dt_run *run, int result, const struct dt_error *err)
{
    bool stopped = result < 0 && err->status == EX_TEMPFAIL;
    dt_live_end(run->live,
                result == 0 ? "finished"
                : stopped   ? "stopped"
                            : "failed",
                result == 0 ? NULL : err->text);
}
