/* SPDX-License-Identifier: Apache-2.0 */
/* parallel_reduce.c - sums the gradients of a unit over ranks */
#include "config.h"

#include "parallel/parallel_impl.h"

bool dt_parallel_begin(struct dt_parallel *p, uint64_t step, size_t a,
                       size_t count)
{
    p->step = step;
    p->micro_batch = a;
    p->final = a + 1 == count;
    return !p->kept.grads_pass_slots && a > 0;
}

void dt_parallel_drop_grads(struct dt_parallel *p)
{
    const struct dt_view grads = p->kinds[DT_OWNED_GRADS];
    if (grads.count > 0)
        p->exec.ops->zero(p->exec.stream, grads);
}

/* --- gradients that are kept in bf16 --- */

static bool rounds(const struct dt_parallel *p)
{
    return p->options.grads != DT_F32;
}

/* How much of a unit a rank sums for itself, in all micro-batches but the last
 * one of a step.
 */
static enum dt_extent sums_of(const struct dt_parallel *p)
{
    return p->kept.grads == DT_OWN ? DT_OWN : DT_SHARE;
}

/* Adds what this rank keeps to the slot, before the last sum of the step. */
static void add_kept(struct dt_parallel *p, size_t u)
{
    const enum dt_extent sums = sums_of(p);
    struct dt_view kept = dt_owned_unit(p, DT_OWNED_GRADS, u);
    p->exec.ops->add(p->exec.stream,
                     dt_levels_cut(p, dt_unit_grads(p, u), DT_WHOLE, sums),
                     dt_levels_cut(p, kept, p->kept.grads, sums));
}

/* Rounds the sum in a slot, or adds it, to what this rank keeps. The numbers of
 * its elements go on from one micro-batch of a step to the next.
 */
static void round_sum(struct dt_parallel *p, const struct dt_sum *sum,
                      struct dt_view to, struct dt_view from)
{
    const struct dt_layout *layout = p->layout;
    const struct dt_dither dither = {
        .seed = p->options.seed,
        .step = sum->step,
        .first =
            sum->micro_batch * dt_layout_number(layout, layout->unit_count) +
            dt_layout_number(layout, sum->unit) + from.offset -
            dt_unit_grads(p, sum->unit).offset,
    };
    p->exec.ops->add_dithered(p->exec.stream, to, from,
                              sum->micro_batch > 0 && !sum->final, &dither);
}

/* --- sums in slots --- */

/* The gradients of unit u that this rank keeps are those of its group, or in
 * ddp of its share: sums them over groups, unless the slot has been, and in ddp
 * brings all together.
 */
static int end_sums(struct dt_parallel *p, size_t u, struct dt_error *err)
{
    struct dt_view kept = dt_owned_unit(p, DT_OWNED_GRADS, u);
    struct dt_view share = dt_levels_cut(p, kept, p->kept.grads, DT_SHARE);
    p->reducing = true;
    if (p->levels.across && !rounds(p) &&
        dt_levels_sum_across(p, share, p->layout->units[u].offset, &p->reduced,
                             err) < 0)
        return -1;
    return p->kept.state == DT_WHOLE
               ? dt_levels_gather(p, kept, &p->reduced, err)
               : 0;
}

/* Adds the sum in a slot to the gradients that this rank keeps. */
static int take_sum(struct dt_parallel *p, struct dt_sum *sum,
                    struct dt_error *err)
{
    const struct dt_ops *ops = p->exec.ops;
    if (!sum->open)
        return 0;
    sum->open = false;
    if (dt_comm_wait(p->comm, sum->ticket, err) < 0)
        return -1;
    enum dt_extent sums = rounds(p) && sum->final ? DT_OWN : sums_of(p);
    struct dt_view from =
        dt_levels_cut(p, dt_unit_grads(p, sum->unit), DT_WHOLE, sums);
    struct dt_view to = dt_levels_cut(
        p, dt_owned_unit(p, DT_OWNED_GRADS, sum->unit), p->kept.grads, sums);
    if (rounds(p))
        round_sum(p, sum, to, from);
    else if (sum->micro_batch == 0)
        ops->convert(p->exec.stream, to, from);
    else
        ops->add(p->exec.stream, to, from);
    return sum->final && p->kept.grads != DT_OWN ? end_sums(p, sum->unit, err)
                                                 : 0;
}

/* Units of different shapes share a slot, and padding must stay zero. */
static void zero_padding(struct dt_parallel *p, size_t u)
{
    const struct dt_unit *unit = &p->layout->units[u];
    struct dt_view view = dt_unit_grads(p, u);
    size_t at = 0;
    for (size_t i = 0; i <= unit->param_count; i++) {
        const struct dt_param *param =
            &p->layout->params[unit->first_param + i];
        bool end = i == unit->param_count;
        size_t next = end ? unit->count : param->offset - unit->offset;
        if (next > at)
            p->exec.ops->zero(p->exec.stream,
                              dt_view_slice(view, at, next - at));
        if (!end)
            at = next + param->count;
    }
}

static int prepare_grads(struct dt_parallel *p, size_t u, struct dt_error *err)
{
    if (!p->kept.grads_pass_slots || p->layout->units[u].count == 0)
        return 0;
    if (take_sum(p, &p->sums[p->grads_slots.of[u]], err) < 0)
        return -1;
    zero_padding(p, u);
    return 0;
}

int dt_parallel_backward(struct dt_parallel *p, size_t u, struct dt_error *err)
{
    const struct dt_layout *layout = p->layout;
    const size_t next = dt_layout_before(layout, u, p->options.lowest);
    const size_t after = dt_layout_before(layout, next, p->options.lowest);
    const size_t tied = layout->tied_unit;
    const bool reads = layout->units[u].kind != DT_UNIT_EMBEDDING;
    const bool shares = u == p->last && dt_layout_is_tied(layout, tied);
    /* the head has put its share into the place of the other unit already */
    const bool prepared = dt_layout_is_tied(layout, u);
    if ((reads && dt_weights_need(p, u, err) < 0) ||
        dt_weights_prefetch(p, u, next, err) < 0 ||
        dt_weights_expect(p, after, err) < 0 ||
        (!prepared && prepare_grads(p, u, err) < 0) ||
        (shares && prepare_grads(p, tied, err) < 0))
        return -1;
    return reads ? dt_weights_take(p, u, err) : 0;
}

static int start_bucket(struct dt_parallel *p, struct dt_error *err)
{
    struct dt_view bucket =
        dt_view_slice(p->kinds[DT_OWNED_GRADS], p->begin, p->count);
    p->count = 0;
    p->reducing = true;
    return dt_levels_sum(p, bucket, p->begin, &p->reduced, err);
}

/* Adds unit u to the bucket, and starts its reduction if it is full. */
static int add_to_bucket(struct dt_parallel *p, size_t u, struct dt_error *err)
{
    const struct dt_unit *unit = &p->layout->units[u];
    assert(p->count == 0 || unit->offset + unit->count == p->begin);
    p->begin = unit->offset;
    p->count += unit->count;
    if (u == p->first_unit ||
        p->count * sizeof(float) >= p->options.bucket_bytes)
        return start_bucket(p, err);
    return 0;
}

/* Starts the sum of a slot. */
static int start_sum(struct dt_parallel *p, size_t u, struct dt_error *err)
{
    struct dt_sum *sum = &p->sums[p->grads_slots.of[u]];
    struct dt_view unit = dt_unit_grads(p, u);
    size_t first = p->layout->units[u].offset;
    *sum = (struct dt_sum){.unit = u,
                           .step = p->step,
                           .micro_batch = p->micro_batch,
                           .open = true,
                           .final = p->final};
    if (rounds(p) && p->final && p->micro_batch > 0)
        add_kept(p, u);
    return p->kept.grads == DT_OWN || (rounds(p) && p->final)
               ? dt_levels_sum_own(p, unit, first, &sum->ticket, err)
               : dt_levels_sum_share(p, unit, &sum->ticket, err);
}

int dt_parallel_ready(struct dt_parallel *p, size_t u, struct dt_error *err)
{
    if (p->layout->units[u].count == 0)
        return 0;
    if (p->kept.grads_pass_slots)
        return start_sum(p, u, err);
    if (!p->final)
        return 0;
    if (p->kept.state == DT_WHOLE)
        return add_to_bucket(p, u, err);
    p->reducing = true;
    return dt_levels_sum_own(p, dt_unit_grads(p, u), p->layout->units[u].offset,
                             &p->reduced, err);
}

int dt_parallel_finish(struct dt_parallel *p, struct dt_error *err)
{
    assert(p->count == 0);
    for (size_t i = 0; i < p->grads_slots.count; i++)
        if (take_sum(p, &p->sums[i], err) < 0)
            return -1;
    if (!p->reducing)
        return 0;
    p->reducing = false;
    return dt_comm_wait(p->comm, p->reduced, err);
}
