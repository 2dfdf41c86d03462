/* SPDX-License-Identifier: Apache-2.0 */
/*
 * generation_memory.c - generations in memory that outlives the process
 *
 * A generation is kept once it is complete, so that a process after this one
 * asks for no reward again; one that is sampled ahead, with its completions
 * alone. With rollout.overlap two may be needed at once: the one of the step
 * that may have to be repeated, and the next. Otherwise a new one is complete
 * only when no rank can need the one before. All ranks have the same, so each
 * can give its own to those that were killed before they had kept it.
 *
 * Fault point: samples.keep, when it is there.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "run/exchange.h"
#include "sampling/sampling_impl.h"

enum { SLOTS = 2 };

/* The beginning of a slot; arrays follow. */
struct head {
    uint64_t number; /* of the generation; 0: not whole */
    uint64_t bytes;  /* of all arrays */
    uint64_t sampled;
    double refill[DT_REFILL_NUMBERS];
};

struct dt_generations {
    size_t count; /* of slots */
    struct dt_buffer *slots[SLOTS];
};

/* --- the memory --- */

size_t dt_samples_bytes(const struct dt_spec *spec)
{
    enum { ROW_ARRAYS = 3, TOKEN_ARRAYS = 6 }; /* of 4 bytes, at most */
    if (!spec->algo->advantages)
        return 0;
    const size_t rows = spec->sampling.groups * spec->sampling.copies;
    const size_t tokens =
        rows * (size_t)spec->conf.rollout.max_completion_length;
    return sizeof(struct head) + spec->sampling.groups * sizeof(uint64_t) +
           rows * dt_reward_columns(&spec->conf) * sizeof(double) +
           rows * ROW_ARRAYS * sizeof(float) +
           tokens * TOKEN_ARRAYS * sizeof(float);
}

int dt_samples_keep(struct dt_run *run, struct dt_segment *segment,
                    struct dt_error *err)
{
    static const char *const names[SLOTS] = {"a generation", "the next one"};
    const struct dt_spec *spec = &run->spec;
    if (!spec->algo->advantages)
        return 0;
    struct dt_generations *kept = run->samples.kept = calloc(1, sizeof(*kept));
    if (!kept)
        return dt_error_set(err, EX_OSERR, "out of memory");
    kept->count = spec->conf.rollout.overlap > 0 ? SLOTS : 1;
    for (size_t i = 0; i < kept->count; i++)
        if (!(kept->slots[i] = dt_segment_room(segment, names[i],
                                               dt_samples_bytes(spec), err)))
            return -1;
    return 0;
}

void dt_samples_keep_end(struct dt_run *run)
{
    struct dt_generations *kept = run->samples.kept;
    for (size_t i = 0; kept && i < kept->count; i++)
        dt_buffer_destroy(kept->slots[i]);
    free(kept);
    run->samples.kept = NULL;
}

/* The slot of generation `number`. */
static struct dt_buffer *slot_of(const struct dt_run *run, uint64_t number)
{
    const struct dt_generations *kept = run->samples.kept;
    return kept->slots[number % kept->count];
}

/* Sets the number of a slot after all stores before. */
static void mark(struct head *head, uint64_t number)
{
    __atomic_store_n(&head->number, number, __ATOMIC_RELEASE);
    __atomic_thread_fence(__ATOMIC_RELEASE);
}

bool dt_generation_is_kept(const struct dt_run *run, uint64_t number)
{
    if (!run->samples.kept)
        return false;
    const struct head *head = slot_of(run, number)->data;
    return head->number == number;
}

static void store(struct dt_run *run, struct dt_experience *e, uint64_t number,
                  const struct dt_buffer *slot)
{
    struct dt_generation_arrays arrays;
    struct head *head = slot->data;
    char *to = (char *)(head + 1);
    mark(head, 0);
    dt_generation_list(e, &arrays);
    for (size_t i = 0; i < arrays.count; i++) {
        const struct dt_view view = arrays.tensor[i].view;
        memcpy(to, dt_view_data(view), dt_view_bytes(view));
        to += dt_view_bytes(view);
    }
    head->bytes = (uint64_t)(to - (char *)(head + 1));
    assert(sizeof(*head) + head->bytes <= slot->bytes);
    head->sampled = run->samples.sampled;
    memcpy(head->refill, run->samples.refill, sizeof(head->refill));
    mark(head, number);
}

void dt_generation_put(struct dt_run *run, struct dt_experience *e,
                       uint64_t number)
{
    if (!run->samples.kept)
        return;
    store(run, e, number, slot_of(run, number));
    dt_fault("samples.keep");
}

/* What is not yet read of a slot. */
struct rest {
    const char *at;
    size_t bytes;
};

static int read_rest(void *from, const struct dt_ckpt_tensor *tensors,
                     size_t count, struct dt_error *err)
{
    struct rest *rest = from;
    for (size_t i = 0; i < count; i++) {
        const size_t bytes = dt_view_bytes(tensors[i].view);
        if (bytes > rest->bytes)
            return dt_error_set(err, EX_SOFTWARE,
                                "memory has no whole generation");
        memcpy(dt_view_data(tensors[i].view), rest->at, bytes);
        rest->at += bytes;
        rest->bytes -= bytes;
    }
    return 0;
}

static int fetch(struct dt_run *run, struct dt_experience *e,
                 const struct dt_buffer *slot, struct dt_error *err)
{
    struct dt_samples *s = &run->samples;
    const struct head *head = slot->data;
    struct rest rest = {(const char *)(head + 1), slot->bytes - sizeof(*head)};
    s->sampled = head->sampled;
    memcpy(s->refill, head->refill, sizeof(s->refill));
    return dt_generation_fill(run, e, read_rest, &rest, err);
}

int dt_generation_get(struct dt_run *run, struct dt_experience *e,
                      uint64_t number, struct dt_error *err)
{
    return fetch(run, e, slot_of(run, number), err);
}

/* --- after a restart --- */

void dt_samples_note(const struct dt_run *run, struct dt_samples_point *point)
{
    const struct dt_samples *s = &run->samples;
    if (!run->spec.algo->advantages)
        return;
    *point = (struct dt_samples_point){
        .generation = s->generation,
        .position = s->position,
        .use = s->use,
        .ahead = s->ahead.groups > 0,
        .sums = s->sums,
        .first_reward = s->first_reward,
        .idle = s->idle,
        .disagrees = s->disagrees,
        .kl_coef = run->ppo.kl_coef,
        .kl = run->ppo.kl,
        .left_out = run->ppo.left_out,
    };
    memcpy(point->refill, s->refill, sizeof(point->refill));
}

static void take_point(struct dt_run *run, const struct dt_samples_point *point)
{
    struct dt_samples *s = &run->samples;
    s->generation = point->generation;
    s->position = point->position;
    s->use = point->use;
    memcpy(s->refill, point->refill, sizeof(s->refill));
    s->sums = point->sums;
    s->first_reward = point->first_reward;
    s->idle = point->idle;
    s->disagrees = point->disagrees;
    run->ppo.kl_coef = point->kl_coef;
    run->ppo.kl = point->kl;
    run->ppo.left_out = point->left_out;
}

/* Brings `bytes` bytes of rank `from` to the ranks with `takes`, by way of the
 * device, as ranks may have no other way.
 */
static int send_bytes(struct dt_run *run, void *data, size_t bytes, int from,
                      bool takes, struct dt_error *err)
{
    const struct dt_exec *exec = &run->spec.exec;
    dt_ticket_t ticket;
    struct dt_buffer *room =
        dt_buffer_create(exec->device, bytes, "a generation", err);
    if (!room)
        return -1;
    int rc = 0;
    if (dt_comm_rank(run->comm) == from)
        rc = exec->device->copy(exec->stream, room->data, data, bytes, err);
    if (rc == 0)
        rc = dt_comm_broadcast(run->comm, dt_view_of(room, DT_U8), from,
                               &ticket, err);
    if (rc == 0)
        rc = dt_comm_wait(run->comm, ticket, err);
    if (rc == 0 && takes)
        rc = exec->device->copy(exec->stream, data, room->data, bytes, err);
    if (rc == 0)
        rc = exec->device->stream_wait(exec->stream, err);
    dt_comm_forget_memory(run->comm);
    dt_buffer_destroy(room);
    return rc;
}

/* Brings the slot of rank `from` to the ranks with `takes`. The number is the
 * last that they store.
 */
static int send_slot(struct dt_run *run, struct dt_buffer *slot, int from,
                     bool takes, struct dt_error *err)
{
    struct head *own = slot->data, head = *own;
    if (takes)
        mark(own, 0);
    if (dt_gather_bytes_of(run->comm, from, &head, sizeof(head), err) < 0)
        return -1;
    if (head.bytes > slot->bytes - sizeof(head))
        return dt_error_set(err, EX_SOFTWARE, "memory has no whole generation");
    if (head.bytes > 0 &&
        send_bytes(run, own + 1, head.bytes, from, takes, err) < 0)
        return -1;
    if (!takes)
        return 0;
    const uint64_t number = head.number;
    head.number = 0;
    *own = head;
    mark(own, number);
    return 0;
}

/* Brings generation `number` from a rank that has it to all. 1; 0: none has it.
 */
static int bring(struct dt_run *run, uint64_t number, struct dt_error *err)
{
    const int world = run->spec.world;
    const bool has = dt_generation_is_kept(run, number);
    double told[] = {has ? world - run->spec.rank : 0, !has};
    if (world > 1 &&
        dt_comm_reduce_scalars(run->comm, told, 2, DT_MAX, err) < 0)
        return -1;
    if (told[0] == 0)
        return 0;
    return told[1] > 0 && send_slot(run, slot_of(run, number),
                                    world - (int)told[0], !has, err) < 0
               ? -1
               : 1;
}

/* The same for one that the run cannot do without. */
static int bring_needed(struct dt_run *run, struct dt_experience *e,
                        uint64_t number, struct dt_error *err)
{
    const int there = bring(run, number, err);
    if (there == 0)
        return dt_error_set(err, EX_SOFTWARE,
                            "no rank has generation %llu in memory",
                            (unsigned long long)number);
    return there < 0 ? -1 : dt_generation_get(run, e, number, err);
}

int dt_samples_take(struct dt_run *run, const struct dt_samples_point *point,
                    struct dt_error *err)
{
    struct dt_samples *s = &run->samples;
    if (!run->spec.algo->advantages)
        return 0;
    if ((point->use > 0 &&
         bring_needed(run, &s->experience, point->generation, err) < 0) ||
        (point->ahead &&
         bring_needed(run, &s->ahead, point->generation + 1, err) < 0))
        return -1;
    take_point(run, point);
    if (point->use > 0)
        return dt_generation_begin_again(run, err);
    /* the next one, of which the step may not be committed */
    return bring(run, point->generation + 1, err) < 0 ? -1 : 0;
}

/* --- in a copy --- */

void dt_samples_copy(struct dt_run *run, const struct dt_buffer *to)
{
    struct dt_samples *s = &run->samples;
    struct dt_experience *e = s->use > 0 ? &s->experience : &s->ahead;
    if (run->spec.algo->advantages && e->groups > 0)
        store(run, e, s->generation, to);
}

int dt_samples_send_copy(struct dt_run *run, struct dt_buffer *copy, int from,
                         bool takes, struct dt_error *err)
{
    return copy ? send_slot(run, copy, from, takes, err) : 0;
}

int dt_samples_take_copy(struct dt_run *run,
                         const struct dt_samples_point *point,
                         const struct dt_buffer *from, struct dt_error *err)
{
    struct dt_samples *s = &run->samples;
    struct dt_experience *e = point->use > 0 ? &s->experience : &s->ahead;
    if (!run->spec.algo->advantages)
        return 0;
    if ((point->use > 0 || point->ahead) && fetch(run, e, from, err) < 0)
        return -1;
    take_point(run, point);
    return point->use > 0 ? dt_generation_begin_again(run, err) : 0;
}
