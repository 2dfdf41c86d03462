/* SPDX-License-Identifier: Apache-2.0 */
/*
 * generation_arrays.c - the arrays of a generation, wherever it is kept, and
 * what follows from them
 */
#include "config.h"

#include <stdlib.h>

#include "sampling/sampling_impl.h"

/* --- as tensors --- */

enum {
    NUMBERS,
    COUNTS,
    ENDS,
    REWARDS,
    HEADS,
    IDS = HEADS,
    LOGPS,
    OLD,
    MORE, /* what not every run has: the critic's, or entropies */
};

static void add_tensor(struct dt_generation_arrays *t, int i, const char *name,
                       void *data, size_t rows, size_t columns,
                       enum dt_dtype type)
{
    t->buf[i] = (struct dt_buffer){data, rows * columns * dt_dtype_bytes(type),
                                   &dt_cpu};
    t->tensor[i] = (struct dt_ckpt_tensor){
        .name = name,
        .ndim = columns > 1 ? 2 : 1,
        .shape = {rows, columns},
        .view = dt_view_of(&t->buf[i], type),
        .stored = type,
    };
}

/* Those whose sizes do not depend on lengths, then those of tokens. */
static void list_heads(struct dt_experience *e, struct dt_generation_arrays *t)
{
    add_tensor(t, NUMBERS, "numbers", e->number, e->groups, 1, DT_I64);
    add_tensor(t, COUNTS, "counts", e->count, e->rows, 1, DT_I32);
    add_tensor(t, ENDS, "ends", e->end, e->rows, 1, DT_I32);
    add_tensor(t, REWARDS, "rewards", e->rewards, e->rows, e->columns, DT_F64);
}

static void list_tokens(struct dt_experience *e, struct dt_generation_arrays *t)
{
    int count = MORE;
    add_tensor(t, IDS, "ids", e->ids, e->tokens, 1, DT_I32);
    add_tensor(t, LOGPS, "logps", e->logps, e->tokens, 1, DT_F32);
    add_tensor(t, OLD, "old", e->old, e->tokens, 1, DT_F32);
    if (e->entropy)
        add_tensor(t, count++, "entropy", e->entropy, e->tokens, 1, DT_F32);
    if (e->reference)
        add_tensor(t, count++, "reference", e->reference, e->tokens, 1, DT_F32);
    if (e->values)
        add_tensor(t, count++, "values", e->values, e->tokens, 1, DT_F32);
    if (e->after)
        add_tensor(t, count++, "after", e->after, e->rows, 1, DT_F32);
    t->count = (size_t)count;
}

void dt_generation_list(struct dt_experience *e, struct dt_generation_arrays *t)
{
    list_heads(e, t);
    list_tokens(e, t);
}

/* Lengths and ids may come from a file. */
static int check_rows(const struct dt_run *run, const struct dt_experience *e,
                      struct dt_error *err)
{
    const long most = run->spec.conf.rollout.max_completion_length;
    for (size_t i = 0; i < e->rows; i++)
        if (e->count[i] < 1 || e->count[i] > most || e->end[i] < 0 ||
            e->end[i] > DT_END_LENGTH)
            return dt_error_set(err, EX_DATAERR,
                                "completion %zu: length %d, end %d: expected "
                                "up to %ld tokens",
                                i, e->count[i], e->end[i], most);
    return 0;
}

static int check_ids(const struct dt_run *run, const struct dt_experience *e,
                     struct dt_error *err)
{
    const size_t V = run->spec.learner.config.vocab_size;
    for (size_t i = 0; i < e->tokens; i++)
        if (e->ids[i] < 0 || (size_t)e->ids[i] >= V)
            return dt_error_set(err, EX_DATAERR, "token id %d of %zu",
                                e->ids[i], V);
    return 0;
}

/* Only of a generation in use there is more than its completions. */
int dt_generation_fill(struct dt_run *run, struct dt_experience *e,
                       dt_generation_read_f *read, void *from,
                       struct dt_error *err)
{
    const struct dt_spec *spec = &run->spec;
    struct dt_generation_arrays t;
    uint64_t *number = calloc(spec->sampling.groups, sizeof(*number));
    int rc = number ? dt_experience_begin(e, number, spec->sampling.groups,
                                          spec->sampling.copies,
                                          dt_reward_columns(&spec->conf), err)
                    : dt_error_set(err, EX_OSERR, "out of memory");
    free(number);
    if (rc < 0)
        return -1;
    e->prompts = run->data.prompts;
    list_heads(e, &t);
    if (read(from, t.tensor, HEADS, err) < 0 || check_rows(run, e, err) < 0 ||
        dt_experience_place(e, err) < 0 ||
        (e == &run->samples.experience && dt_run_old_room(run, err) < 0))
        return -1;
    list_tokens(e, &t);
    if (read(from, t.tensor + HEADS, t.count - HEADS, err) < 0)
        return -1;
    return check_ids(run, e, err);
}

/* --- in use --- */

int dt_run_order_rows(struct dt_run *run, struct dt_error *err)
{
    const struct dt_spec *spec = &run->spec;
    struct dt_samples *s = &run->samples;
    uint64_t first = s->generation - (s->use > 0);
    uint64_t key = spec->algo->critic_loss
                       ? first * (spec->sampling.uses / spec->sampling.parts) +
                             s->use / spec->sampling.parts
                       : first;
    return dt_sample_batches_begin(&s->batches, &s->experience, key, err);
}

int dt_generation_begin_again(struct dt_run *run, struct dt_error *err)
{
    if (run->spec.algo->advantages(run, err) < 0 ||
        dt_run_order_rows(run, err) < 0)
        return -1;
    dt_run_make_numbers(run);
    return 0;
}
