/* SPDX-License-Identifier: Apache-2.0 */
/*
 * follow.c - moves the reference towards the model every few steps
 *
 * Every few steps it becomes a mean of itself and of the model (Gorbatovski et
 * al., "Learn Your Reference Model for Real Good Alignment", arXiv 2404.09656).
 * Each rank moves its parts in fp32, on the host, so that the bits are the same
 * for all strategies, wherever the state of the optimizer is. The moved
 * reference is saved with the optimizer state.
 *
 * A unit is moved in memory of its own, and then copied to its place, so that
 * another process can end the move if this one is killed within it: it copies
 * once more, or moves the unit.
 *
 * Fault point: reference.move, where a unit is in its place again.
 */
#include "config.h"

#include <string.h>

#include "base/fault.h"
#include "run/reference/reference.h"
#include "run/run.h"
#include "tensor/half.h"
#include "weights/parts.h"

bool dt_run_reference_follows(const struct dt_run *run)
{
    return run->reference.parallel && dt_run_sync_ref(&run->spec.conf)->enabled;
}

/* --- after a step --- */

/* to = alpha * from + (1 - alpha) * to; `from` is in fp32 or bf16 */
static void mix(float *to, const void *from, enum dt_dtype type, size_t count,
                double alpha)
{
    const float share = (float)alpha, rest = (float)(1.0 - alpha);
    const float *wide = from;
    const uint16_t *half = from;
    for (size_t i = 0; i < count; i++)
        to[i] = share * (type == DT_BF16 ? dt_bf16_to_f32(half[i]) : wide[i]) +
                rest * to[i];
}

/* Waits until all queued copies are done. */
static int wait_copies(struct dt_run *run, struct dt_error *err)
{
    const struct dt_device *device = run->spec.exec.device;
    struct dt_event *there = run->learner.values.there;
    if (device->event_record(there, run->spec.exec.stream, err) < 0)
        return -1;
    return dt_comm_wait_event(run->comm, device, there, err);
}

/* How far the moves after a step are. Two parts follow: of the reference, and
 * of the model.
 */
struct moved {
    uint64_t step;
    uint64_t halves; /* two of each unit that is done; one more: the part of the
                        next one is moved, and not in its place */
};

static void in_order(void)
{
    __atomic_thread_fence(__ATOMIC_RELEASE);
}

int dt_run_reference_room(struct dt_run *run, struct dt_segment *segment,
                          struct dt_error *err)
{
    const size_t bytes =
        sizeof(struct moved) +
        2 * dt_learner_unit_elements(&run->learner) * sizeof(float);
    if (!dt_run_reference_follows(run))
        return 0;
    run->reference.moved =
        segment
            ? dt_segment_room(segment, "a unit of the reference", bytes, err)
            : dt_buffer_create(&dt_cpu, bytes, "a unit of the reference", err);
    if (run->reference.moved && !segment)
        memset(run->reference.moved->data, 0, sizeof(struct moved));
    return run->reference.moved ? 0 : -1;
}

/* Moves this rank's part of unit u. */
static int move_part(struct dt_run *run, size_t u, struct dt_error *err)
{
    struct dt_parallel *reference = run->reference.parallel;
    struct moved *moved = run->reference.moved->data;
    struct dt_view there = dt_parallel_part(reference, DT_OWNED_MASTER, u);
    struct dt_view from =
        dt_parallel_part(run->learner.parallel, DT_OWNED_MASTER, u);
    float *to = (float *)(moved + 1);
    void *model = to + there.count;
    if (moved->halves == 2 * u && from.count > 0) {
        if (dt_parallel_get(reference, there, to, err) < 0 ||
            dt_parallel_get(run->learner.parallel, from, model, err) < 0 ||
            wait_copies(run, err) < 0)
            return -1;
        mix(to, model, from.dtype, there.count,
            dt_run_sync_ref(&run->spec.conf)->alpha);
        in_order();
        moved->halves++;
        in_order();
    }
    if (from.count > 0) { /* not of a frozen part */
        if (dt_parallel_put(reference, there, to, err) < 0)
            return -1;
        dt_fault("reference.move");
    }
    in_order();
    moved->halves = 2 * (u + 1);
    in_order();
    return 0;
}

int dt_run_reference_follow(struct dt_run *run, long step, struct dt_error *err)
{
    if (!dt_run_reference_follows(run) ||
        step % dt_run_sync_ref(&run->spec.conf)->steps != 0)
        return 0;
    struct moved *moved = run->reference.moved->data;
    if (moved->step != (uint64_t)step) {
        moved->halves = 0;
        in_order();
        moved->step = (uint64_t)step;
        in_order();
    }
    for (size_t u = moved->halves / 2; u < run->spec.learner.layout->unit_count;
         u++)
        if (move_part(run, u, err) < 0)
            return -1;
    return dt_run_reference_changed(run, err);
}

int dt_run_reference_renew(struct dt_run *run, struct dt_error *err)
{
    return dt_run_reference_follows(run)
               ? dt_parallel_renew(run->reference.parallel, err)
               : dt_run_reference_read(run, err);
}

/* --- in a checkpoint --- */

/* A run without a following reference would start over with the initial one. */
static int refuse(const struct dt_run *run, struct dt_error *err)
{
    return dt_conf_error_set(
        &run->spec.conf,
        run->spec.conf.algorithm == DT_CONF_GRPO ? "grpo.sync_ref.enabled"
                                                 : "dpo.sync_ref.enabled",
        err,
        "the checkpoint has a reference that followed the model: set it to "
        "true, or start a new run in another run.output_dir");
}

/* Loads this rank's parts. */
static int load_parts(struct dt_run *run, const struct dt_parts *parts,
                      struct dt_error *err)
{
    struct dt_parallel *reference = run->reference.parallel;
    const struct dt_layout *layout = run->spec.learner.layout;
    struct dt_buffer *room = dt_buffer_create(
        &dt_cpu, dt_learner_unit_elements(&run->learner) * sizeof(float),
        "a unit", err);
    int result = room ? 0 : -1;
    for (size_t u = dt_layout_next(layout, 0);
         u < layout->unit_count && result == 0;
         u = dt_layout_next(layout, u + 1)) {
        struct dt_range part = dt_layout_part(
            layout, u, dt_parallel_index(reference), run->spec.world);
        struct dt_view here =
            dt_view_slice(dt_view_of(room, DT_F32), 0, part.count);
        memset(dt_view_data(here), 0, part.count * sizeof(float));
        result = dt_parts_read(parts, DT_PARTS_REFERENCE, part, here, err);
        if (result == 0)
            result = dt_parallel_put(
                reference, dt_parallel_part(reference, DT_OWNED_MASTER, u),
                dt_view_data(here), err);
    }
    dt_buffer_destroy(room);
    return result;
}

int dt_run_reference_load(struct dt_run *run, const char *dir,
                          struct dt_error *err)
{
    struct dt_parts *parts;
    if (dt_parts_open(dir, run->spec.learner.layout, &parts, err) < 0)
        return -1;
    int there = parts ? dt_parts_have(parts, DT_PARTS_REFERENCE, err) : 0;
    int result = there < 0 ? -1 : 0;
    if (there > 0 && !dt_run_reference_follows(run))
        result = refuse(run, err);
    else if (there > 0)
        result = load_parts(run, parts, err);
    dt_parts_close(parts);
    return result < 0 || there == 0 ? result
                                    : dt_run_reference_changed(run, err);
}
