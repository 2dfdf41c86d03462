/* SPDX-License-Identifier: Apache-2.0 */
/* micro.c - fills micro-batches with samples in their order */
#include "config.h"

#include <stdlib.h>

#include "data/micro.h"

uint64_t dt_micro_sample(const struct dt_loader_options *opt, int rank,
                         uint64_t p, size_t i)
{
    const uint64_t world = (uint64_t)opt->world;
    return p + (i / opt->B * world + (uint64_t)rank) * opt->B + i % opt->B;
}

static size_t samples_of(const struct dt_micro *m)
{
    return m->opt->B * m->opt->accumulation;
}

/* The number of batches of a rank; `begin`, if it is not NULL, is where they
 * begin in the samples of its step.
 */
static size_t divide(const struct dt_micro *m, int rank, size_t *begin)
{
    size_t count = 1, used = 0;
    for (size_t i = 0; i < samples_of(m); i++) {
        size_t length =
            m->length(m->ctx, dt_micro_sample(m->opt, rank, m->p, i));
        if (used + length > m->opt->tokens) {
            if (begin)
                begin[count] = i;
            count++;
            used = 0;
        }
        used += length;
    }
    return count;
}

void dt_micro_step(struct dt_micro *m, uint64_t p)
{
    const size_t samples = samples_of(m);
    m->p = p;
    m->begin[0] = 0;
    size_t own = divide(m, m->opt->rank, m->begin);
    m->count = own;
    for (int rank = 0; rank < m->opt->world; rank++) {
        size_t count = rank == m->opt->rank ? own : divide(m, rank, NULL);
        m->count = count > m->count ? count : m->count;
    }
    for (size_t i = own; i <= m->count; i++)
        m->begin[i] = samples;
}

int dt_micro_init(struct dt_micro *m, uint64_t p, struct dt_error *err)
{
    m->begin = calloc(samples_of(m) + 1, sizeof(*m->begin));
    if (!m->begin)
        return dt_error_set(err, EX_OSERR, "data: out of memory");
    dt_micro_step(m, p);
    return 0;
}

void dt_micro_fini(struct dt_micro *m)
{
    free(m->begin);
    m->begin = NULL;
}
