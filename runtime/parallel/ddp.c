/* SPDX-License-Identifier: Apache-2.0 */
/* ddp.c - sums gradients bucket by bucket during the backward pass */
#include "config.h"

#include <stdlib.h>

#include "parallel/parallel.h"

struct dt_parallel {
    const struct dt_layout *layout;
    struct dt_comm *comm;
    struct dt_view grads;
    struct dt_parallel_options options;
    size_t first, count; /* the open bucket: ready, not started yet */
    dt_ticket_t last;    /* of the newest reduction */
};

struct dt_parallel *
dt_parallel_create(const struct dt_layout *layout, struct dt_comm *comm,
                   struct dt_view grads,
                   const struct dt_parallel_options *options,
                   struct dt_error *err)
{
    struct dt_parallel *parallel = calloc(1, sizeof(*parallel));
    if (!parallel) {
        dt_error_set(err, EX_OSERR, "out of memory");
        return NULL;
    }
    parallel->layout = layout;
    parallel->comm = comm;
    parallel->grads = grads;
    parallel->options = *options;
    return parallel;
}

void dt_parallel_destroy(struct dt_parallel *parallel)
{
    free(parallel);
}

static int start_bucket(struct dt_parallel *p, struct dt_error *err)
{
    struct dt_view bucket = dt_view_slice(p->grads, p->first, p->count);
    p->count = 0;
    return dt_comm_all_reduce(p->comm, bucket, DT_SUM, p->options.wire,
                              &p->last, err);
}

int dt_parallel_ready(struct dt_parallel *p, size_t u, struct dt_error *err)
{
    const struct dt_unit *unit = &p->layout->units[u];
    assert(p->count == 0 || unit->offset + unit->count == p->first);
    p->first = unit->offset;
    p->count += unit->count;
    if (u == 0 || p->count * sizeof(float) >= p->options.bucket_bytes)
        return start_bucket(p, err);
    return 0;
}

int dt_parallel_finish(struct dt_parallel *p, struct dt_error *err)
{
    assert(p->count == 0);
    return dt_comm_wait(p->comm, p->last, err);
}
