/* SPDX-License-Identifier: Apache-2.0 */
/* launch_nopmix.c - in place of launch_pmix.c where there is no PMIx */
#include "config.h"

#include "launch/launch_impl.h"

struct dt_launch *dt_launch_pmix(int timeout_ms, struct dt_error *err)
{
    (void)timeout_ms;
    dt_error_set(err, EX_UNAVAILABLE,
                 "launch: a PMIx launcher started this process, but disttrain "
                 "was built without PMIx: configure it --with-pmix (Debian: "
                 "libpmix-dev)");
    return NULL;
}

const char *dt_launch_library(void)
{
    return "none, built --without-pmix";
}
