/* SPDX-License-Identifier: Apache-2.0 */
/*
 * settled.h - a run between two steps, in memory that outlives its process
 *
 * All that the host needs beside tensors to go on with the next step.
 */
#ifndef DT_TRAIN_RESUME_SETTLED_H
#define DT_TRAIN_RESUME_SETTLED_H

#include "run/run.h"
#include "sampling/sampling.h"

enum { DT_SETTLED_LEARNERS = 2 };

struct dt_settled {
    struct dt_progress progress;
    struct dt_saves saves;
    enum dt_health health;
    struct dt_samples_point samples;
    struct {
        long steps;
        struct dt_scaler scaler;
    } learners[DT_SETTLED_LEARNERS];
};

/* Sets *settled to where the run is, with no step in flight. */
void dt_settled_note(struct dt_run *run, struct dt_settled *settled);

/* Goes on there, but for the samples. */
void dt_settled_take(struct dt_run *run, const struct dt_settled *settled);

/* A hash of all on which the memory of a run with such engines depends, and of
 * the size of its record. -1: EX_OSERR.
 */
int dt_settled_hash(const struct dt_run *run,
                    const struct dt_parallel_options *options,
                    size_t record_bytes, uint64_t *hash, struct dt_error *err);

/* The mark of a record is 0 while it is written. A process that is killed stops
 * between two instructions, and memory has all stores of those before.
 */
static inline void dt_settled_begin(uint64_t *mark)
{
    __atomic_store_n(mark, 0, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_RELEASE);
}

static inline void dt_settled_end(uint64_t *mark, uint64_t value)
{
    __atomic_store_n(mark, value, __ATOMIC_RELEASE);
    __atomic_thread_fence(__ATOMIC_RELEASE);
}

#endif /* DT_TRAIN_RESUME_SETTLED_H */
