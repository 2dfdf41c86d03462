/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bridge_low_rank.c - wrappers of pairs of low rank; see bridge.h
 *
 * A GPU may round the product with a pair's first matrix, so results are as far
 * from the CPU's as those of two layers. Its workspaces have what it likes.
 */
#include "config.h"

#include "bridge.h"
#include "harness.h"

/* The pair with the views of this pass; until the next one. */
static const struct dt_low_rank *pair_at(const struct dt_low_rank *pair)
{
    static struct dt_low_rank there;

    there = *pair;
    there.a = at(pair->a);
    there.b = at(pair->b);
    there.dropout.rows = at(pair->dropout.rows);
    there.low = at_lost(pair->low);
    there.dropped = at_lost(pair->dropped);
    return &there;
}

void bridge_low_rank_forward(struct dt_stream *stream, struct dt_view out,
                             struct dt_view x, const struct dt_low_rank *pair,
                             size_t N)
{
    (void)stream;
    CALL(low_rank_forward, inner(x.dtype), at(out), at(x), pair_at(pair), N);
}

void bridge_low_rank_backward(struct dt_stream *stream, struct dt_view dx,
                              struct dt_view da, struct dt_view db,
                              struct dt_view dout, struct dt_view x,
                              const struct dt_low_rank *pair, size_t N,
                              bool accumulate)
{
    (void)stream;
    CALL(low_rank_backward, inner(x.dtype), at(dx), at(da), at(db), at(dout),
         at(x), pair_at(pair), N, accumulate);
}
