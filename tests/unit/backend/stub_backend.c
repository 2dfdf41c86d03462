/* SPDX-License-Identifier: Apache-2.0 */
/* stub_backend.c - a module without hardware: $STUB_ERROR is what it lacks */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>

#include "backend/backend.h"

static int open_stub(const struct dt_backend_options *options,
                     struct dt_error *err)
{
    const char *text = getenv("STUB_ERROR");
    if (text)
        return dt_error_set(err, EX_UNAVAILABLE, "%s, local rank %d", text,
                            options->local_rank);
    return 0;
}

static void describe(char *text, size_t bytes)
{
    snprintf(text, bytes, "CUDA: a stub\nGPU 0: none of course\n");
}

static struct dt_comm *connect_stub(const struct dt_comm_world *world,
                                    const struct dt_comm_options *options,
                                    struct dt_error *err)
{
    (void)options;
    dt_error_set(err, EX_UNAVAILABLE, "stub of %d", world->size);
    return NULL;
}

const struct dt_backend dt_backend_module = {
    .version = STUB_VERSION,
    .name = "cuda",
    .open = open_stub,
    .describe = describe,
    .connect = connect_stub,
};
