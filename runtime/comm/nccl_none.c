/* SPDX-License-Identifier: Apache-2.0 */
/* nccl_none.c - a module for one GPU only */
#include "config.h"

#include "comm/comm_impl.h"

struct dt_comm *dt_comm_nccl(const struct dt_comm_world *world,
                             const struct dt_comm_options *options,
                             struct dt_error *err)
{
    (void)options;
    dt_error_set(err, EX_CONFIG,
                 "comm: this disttrain was built without NCCL, so it cannot "
                 "use %d GPUs: configure it --with-nccl and --with-gloo",
                 world->size);
    return NULL;
}

const char *dt_comm_nccl_library(void)
{
    return "none, built --without-nccl";
}
