/* SPDX-License-Identifier: Apache-2.0 */
/* trial.c - a world of learners, and what they own in the end */
#include "config.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <cmocka.h>

#include "tests/parity/trial.h"
#include "tests/unit/world.h"
#include "weights/adapter_file.h"

/* The rows of micro-batch `a` that are this rank's; the last of more than two
 * ranks has none.
 */
static void take_rows(const struct trial *t, size_t rank, size_t world,
                      size_t k, size_t a, struct rows *part)
{
    struct rows all;
    bool empty = world > 2 && rank + 1 == world;
    reference_rows(t->reference, (k + a) % REFERENCE_BATCHES, true, false, &all,
                   NULL);
    rows_take(part, &all, rank % all.batch.B, world, 1);
    for (size_t i = 0; empty && i < part->batch.B * part->batch.T; i++)
        part->targets[i] = -100;
    if (empty)
        part->batch.target_count = 0;
}

static int run_step(const struct trial *t, struct learner *l, size_t k,
                    double scalars[DT_STEP_COUNT])
{
    size_t rank = (size_t)dt_comm_rank(l->comm);
    size_t world = (size_t)dt_comm_size(l->comm);
    struct rows part;
    learner_begin(l, k, t->overflow && k == 2 ? INFINITY : 0x1p-5);
    for (size_t a = 0; a < t->micro_batches; a++) {
        take_rows(t, rank, world, k, a, &part);
        if (learner_pass(l, a, t->micro_batches, &part.batch, true) < 0)
            return -1;
    }
    if (learner_update(l, scalars) < 0)
        return -1;
    if (!t->evaluates || k != 1)
        return 0;
    take_rows(t, rank, world, k, 0, &part);
    return learner_pass(l, 0, 1, &part.batch, false);
}

static int run_steps(struct trial *t, struct learner *l)
{
    double scalars[DT_STEP_COUNT];
    for (size_t k = 0; k < TRIAL_STEPS; k++) {
        if (run_step(t, l, k, scalars) < 0)
            return -1;
        if (dt_comm_rank(l->comm) == 0)
            t->norms[k] = scalars[DT_STEP_NORM];
        if ((scalars[DT_STEP_OUTCOME] == DT_STEP_OVERFLOW) !=
            (t->overflow && k == 2))
            return dt_error_set(&l->err, EX_DATAERR, "step %zu: outcome %g", k,
                                scalars[DT_STEP_OUTCOME]);
    }
    for (enum dt_owned kind = 0; kind < DT_OWNED_GRADS; kind++)
        if (learner_fetch(l, kind, t->state[kind]) < 0)
            return -1;
    return 0;
}

static int rank_main(const struct dt_comm_world *world, void *arg)
{
    struct trial *t = arg;
    const struct dt_comm_options options = {.interface = "lo",
                                            .timeout_ms = 30000};
    struct learner l = {0};
    struct dt_comm *comm = dt_comm_create("gloo", world, &options, &l.err);
    int rc = comm ? learner_init(&l, t->reference, &t->options, comm) : -1;
    if (rc == 0)
        rc = run_steps(t, &l);
    if (rc < 0)
        fprintf(stderr, "# rank %d: %s\n", world->rank, l.err.text);
    learner_fini(&l);
    return rc;
}

static void *share(size_t bytes)
{
    void *data = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(data != MAP_FAILED);
    return data;
}

/* Elements of what is trained. */
static size_t count_trained(const struct trial *t, int world)
{
    struct learner l = {.reference = t->reference, .options = t->options};
    if (learner_describe(&l, world) < 0)
        fail_msg("%s", l.err.text);
    size_t count = l.spec.layout->count;
    learner_forget(&l);
    return count;
}

struct trial trial_run(const struct trial *like, enum dt_strategy s, int world)
{
    struct trial t = *like;
    int statuses[WORLD_MAX];
    t.count = count_trained(&t, world);
    t.options.parallel.strategy = s;
    for (enum dt_owned kind = 0; kind < DT_OWNED_GRADS; kind++)
        t.state[kind] = share(t.count * sizeof(float));
    t.norms = share(TRIAL_STEPS * sizeof(*t.norms));
    world_processes(world, rank_main, &t, statuses);
    for (int rank = 0; rank < world; rank++)
        assert_int_equal(statuses[rank], 0);
    if (t.options.max_norm > 0 && t.norms[0] <= t.options.max_norm)
        fail_msg("a norm of %g is not clipped to %g", t.norms[0],
                 t.options.max_norm);
    return t;
}

void trial_free(struct trial *t)
{
    for (enum dt_owned kind = 0; kind < DT_OWNED_GRADS; kind++)
        munmap(t->state[kind], t->count * sizeof(float));
    munmap(t->norms, TRIAL_STEPS * sizeof(*t->norms));
}

struct trial trial_run_way(const struct trial *like,
                           const struct trial_way *way, int world)
{
    struct trial t = *like;
    t.options.parallel.hybrid = way->hybrid;
    t.options.parallel.when = way->when;
    return trial_run(&t, way->strategy, world);
}

void trial_compare(const struct trial *like, int world,
                   const struct trial_way *ways, size_t count)
{
    struct trial first = trial_run_way(like, &ways[0], world);
    for (size_t i = 1; i < count; i++) {
        struct trial other = trial_run_way(like, &ways[i], world);
        trial_check_same(&first, &other);
        trial_free(&other);
    }
    trial_free(&first);
}

void trial_check_same(const struct trial *a, const struct trial *b)
{
    for (size_t k = 0; k < TRIAL_STEPS; k++)
        if (memcmp(&a->norms[k], &b->norms[k], sizeof(a->norms[k])) != 0)
            fail_msg("strategy %d and %d, step %zu: norms %.17g and %.17g",
                     a->options.parallel.strategy, b->options.parallel.strategy,
                     k, a->norms[k], b->norms[k]);
    for (enum dt_owned kind = 0; kind < DT_OWNED_GRADS; kind++)
        assert_memory_equal(a->state[kind], b->state[kind],
                            a->count * sizeof(float));
}

bool trial_has_ranks(void)
{
#ifdef HAVE_GLOO
    return subject_exec()->device->is_host;
#else
    return false;
#endif
}
