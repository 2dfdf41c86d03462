/* SPDX-License-Identifier: Apache-2.0 */
/* prepare_reference.c - opens the hardware for one pass of the reference */
#include "config.h"

#include "backend/backend.h"
#include "cmd/join.h"
#include "cmd/prepare_reference.h"
#include "train/trainer.h"

int dt_prepare_reference(const struct dt_conf *conf, struct dt_error *err)
{
    const struct dt_comm_world alone = {.rank = 0, .size = 1};
    struct dt_comm_options options = {
        .timeout_ms = (int)(conf->distributed.timeout_s * 1000)};
    struct dt_exec exec;
    if (conf->algorithm != DT_CONF_DPO ||
        conf->dpo.reference.mode != DT_CONF_REFERENCE_PRECOMPUTE)
        return dt_conf_error_set(conf, "dpo.reference.mode", err,
                                 "--reference is for algorithm dpo with "
                                 "precompute");
    const struct dt_backend *backend = dt_join_hardware(conf, NULL, &exec, err);
    if (!backend)
        return -1;
    options.stream = exec.stream;
    struct dt_comm *comm = dt_backend_connect(backend, &alone, &options, err);
    int result = comm ? dt_trainer_prepare(conf, &exec, comm, err) : -1;
    dt_comm_destroy(comm);
    exec.device->stream_destroy(exec.stream);
    return result;
}
