/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_experience.c - completions come to all ranks in one order, and are dealt
 * to micro-batches without padding
 */
#include "config.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "run/experience.h"
#include "run/sample_batches.h"
#include "base/rng.h"
#include "tests/unit/scratch.h"
#include "tests/unit/world.h"

enum { GROUPS = 5, COPIES = 3, ROWS = GROUPS * COPIES, COLUMNS = 2, MOST = 9 };

/* --- experience --- */

/* What a sampler would give for a prompt and a copy: a function of them. */
struct made {
    int32_t ids[MOST];
    float logps[MOST];
    size_t count;
    int end;
};

static void make(uint64_t prompt, uint32_t copy, struct made *made)
{
    uint32_t word[4];
    dt_rng_block(1, DT_RNG_SHUFFLE, prompt * COPIES + copy, word);
    made->count = 1 + word[0] % MOST;
    made->end = (int)(word[1] % 3);
    for (size_t t = 0; t < MOST; t++) {
        made->ids[t] = (int32_t)(prompt * 100 + copy * 10 + t);
        made->logps[t] = -(float)(word[2] % 100) / 7 - (float)t;
    }
}

static int add(struct dt_experience *e, size_t g, uint32_t copy,
               const struct made *made, struct dt_error *err)
{
    return dt_experience_add(e, g * COPIES + copy, made->ids, made->logps,
                             made->count, made->end, err);
}

static const uint64_t numbers[GROUPS] = {7, 8, 9, 10, 13};

#define TRY(condition)                                                         \
    do {                                                                       \
        if (!(condition)) {                                                    \
            fprintf(stderr, "# %s:%d: %s: %s\n", __FILE__, __LINE__,           \
                    #condition, err.text);                                     \
            return -1;                                                         \
        }                                                                      \
    } while (0)

/* Adds this rank's completions, the last ones first. */
static int add_own(struct dt_experience *e, bool *have, int rank, int world)
{
    struct dt_error err = {0};
    struct made made;
    for (size_t g = GROUPS; g-- > 0;)
        for (uint32_t copy = 0; copy < COPIES; copy++) {
            if (dt_experience_rank(e, g, world) != rank)
                continue;
            make(numbers[g], copy, &made);
            TRY(add(e, g, copy, &made, &err) == 0);
            have[(g * COPIES + copy) * COLUMNS] = true;
            e->rewards[(g * COPIES + copy) * COLUMNS] =
                copy == 1 ? (double)NAN : (double)g + 0.5 * copy;
        }
    return 0;
}

struct kept {
    uint64_t hash[WORLD_MAX];
    float old[WORLD_MAX];
};

static int gather(const struct dt_comm_world *world, void *arg)
{
    const struct dt_comm_options options = {.interface = "lo",
                                            .timeout_ms = 30000};
    const struct dt_exec exec = dt_exec_cpu();
    bool have[ROWS * COLUMNS] = {false};
    struct dt_error err = {0};
    struct dt_experience e = {0};
    struct kept *kept = arg;
    struct dt_comm *comm = dt_comm_create(world->size > 1 ? "gloo" : "self",
                                          world, &options, &err);
    TRY(comm);
    TRY(dt_experience_begin(&e, numbers, GROUPS, COPIES, COLUMNS, &err) == 0);
    TRY(add_own(&e, have, world->rank, world->size) == 0);
    TRY(dt_experience_gather(&e, comm, &exec, &err) == 0);
    TRY(dt_experience_share_rewards(&e, have, comm, &err) == 0);
    for (size_t i = 0; i < ROWS; i++)
        if ((int)i % world->size == world->rank)
            e.old[e.at[i]] = (float)i;
    TRY(dt_experience_share_values(e.old, e.tokens, comm, &exec, &err) == 0);
    kept->old[world->rank] = e.old[e.at[ROWS - 1]];
    kept->hash[world->rank] = dt_experience_hash(&e);
    dt_experience_fini(&e);
    dt_comm_destroy(comm);
    return 0;
}

static void all_ranks_of_any_world_have_the_same_experience(void **state)
{
    struct kept one, kept;
    (void)state;
    world_threads(1, gather, &one);
    for (int size = 2; size <= 4; size++) {
        world_threads(size, gather, &kept);
        for (int rank = 0; rank < size; rank++) {
            assert_int_equal(kept.hash[rank], one.hash[0]);
            assert_true(kept.old[rank] == ROWS - 1);
        }
    }
}

static int look(const struct dt_comm_world *world, void *arg)
{
    const struct dt_exec exec = dt_exec_cpu();
    bool have[ROWS * COLUMNS] = {false};
    const struct dt_comm_options options = {.timeout_ms = 30000};
    struct dt_error err = {0};
    struct dt_experience e = {0};
    struct made made;
    struct dt_comm *comm = dt_comm_create("self", world, &options, &err);
    (void)arg;
    TRY(comm);
    TRY(dt_experience_begin(&e, numbers, GROUPS, COPIES, COLUMNS, &err) == 0);
    TRY(add_own(&e, have, 0, 1) == 0);
    make(13, 2, &made);
    TRY(dt_experience_ids(&e, ROWS - 1)[0] == made.ids[0]);
    TRY(dt_experience_gather(&e, comm, &exec, &err) == 0);
    TRY(dt_experience_share_rewards(&e, have, comm, &err) == 0);
    TRY(dt_experience_ids(&e, ROWS - 1)[0] == made.ids[0]);
    TRY(e.logps[e.at[ROWS - 1]] == made.logps[0]);
    TRY((size_t)e.count[ROWS - 1] == made.count);
    TRY(e.end[ROWS - 1] == made.end);
    TRY(isnan(e.rewards[(ROWS - 2) * COLUMNS]));
    TRY(e.rewards[(ROWS - 1) * COLUMNS] == 5.0);
    dt_experience_fini(&e);
    dt_comm_destroy(comm);
    return 0;
}

static void completions_stand_in_the_order_of_prompts(void **state)
{
    (void)state;
    world_threads(1, look, NULL);
}

enum { MANY = 3000 }; /* rewards that take several calls */

/* Ranks have rewards in turn; every seventh is none. */
static int share_many(const struct dt_comm_world *world, void *arg)
{
    const struct dt_comm_options options = {.interface = "lo",
                                            .timeout_ms = 30000};
    static const uint64_t all[MANY];
    struct dt_error err = {0};
    struct dt_experience e = {0};
    bool have[MANY];
    struct dt_comm *comm = dt_comm_create("gloo", world, &options, &err);
    (void)arg;
    TRY(comm);
    TRY(dt_experience_begin(&e, all, MANY, 1, 1, &err) == 0);
    for (int i = 0; i < MANY; i++) {
        have[i] = i % world->size == world->rank;
        e.rewards[i] = i % 7 ? i : (double)NAN;
    }
    TRY(dt_experience_share_rewards(&e, have, comm, &err) == 0);
    for (int i = 0; i < MANY; i++)
        TRY(i % 7 ? e.rewards[i] == i : isnan(e.rewards[i]));
    dt_experience_fini(&e);
    dt_comm_destroy(comm);
    return 0;
}

static void any_number_of_rewards_is_shared(void **state)
{
    (void)state;
    world_threads(2, share_many, NULL);
}

/* --- deals --- */

static void each_row_is_in_one_micro_batch_within_the_limit(void **state)
{
    size_t lengths[64], load[64];
    struct dt_error err;
    (void)state;
    for (uint64_t i = 0; i < 64; i++)
        lengths[i] = 1 + (size_t)dt_rng_permute(3, i, i, 64);
    for (int world = 1; world <= 4; world++) {
        struct dt_deal deal;
        memset(load, 0, sizeof(load));
        assert_int_equal(dt_deal_make(&deal, lengths, 64, 200, world, &err), 0);
        for (size_t i = 0; i < 64; i++) {
            assert_true(deal.bin[i] < deal.count * (size_t)world);
            load[deal.bin[i]] += lengths[i];
        }
        for (size_t k = 0; k < deal.count * (size_t)world; k++)
            assert_in_range(load[k], 1, 200);
        dt_deal_fini(&deal);
    }
}

/* Loads differ by no more than the shortest row. */
static void micro_batches_have_about_equally_many_tokens(void **state)
{
    const size_t lengths[] = {50, 40, 30, 30, 20, 10, 10, 10};
    struct dt_error err;
    struct dt_deal deal;
    size_t load[2] = {0};
    (void)state;
    assert_int_equal(dt_deal_make(&deal, lengths, 8, 100, 2, &err), 0);
    assert_int_equal(deal.count, 1);
    for (size_t i = 0; i < 8; i++)
        load[deal.bin[i]] += lengths[i];
    assert_int_equal(load[0], 100);
    assert_int_equal(load[1], 100);
    dt_deal_fini(&deal);
}

static void the_order_depends_on_seed_and_generation(void **state)
{
    size_t order[3][32];
    uint32_t seen = 0;
    (void)state;
    dt_deal_order(order[0], 32, 1, 0);
    dt_deal_order(order[1], 32, 1, 1);
    dt_deal_order(order[2], 32, 2, 0);
    assert_memory_not_equal(order[0], order[1], sizeof(order[0]));
    assert_memory_not_equal(order[0], order[2], sizeof(order[0]));
    for (size_t i = 0; i < 32; i++)
        seen |= UINT32_C(1) << order[0][i];
    assert_int_equal(seen, UINT32_MAX);
}

/* --- micro-batches --- */

enum { PER_STEP = 6, LIMIT = 24 };

/* Prompts "a", "bb", "ccc" .. in the order of the file. */
static struct dt_prompts *open_prompts(const struct dt_tokenizer *tokenizer)
{
    const struct dt_prompts_options options = {
        .lines = {.chat_template = "none"}, .max_length = 8, .vocab_size = 257};
    char text[500] = "";
    struct dt_error err;
    for (int i = 1; i <= 5; i++)
        snprintf(text + strlen(text), sizeof(text) - strlen(text),
                 "{\"prompt\": \"%.*s\"}\n", i, "abcdefgh");
    const char *path = scratch_write("p.jsonl", text, strlen(text));
    struct dt_prompts *prompts =
        dt_prompts_open(&path, 1, tokenizer, &options, &err);
    if (!prompts)
        fail_msg("%s", err.text);
    return prompts;
}

/* Checks a document: the prompt, then the completion; its last token is there
 * if it has fewer than `longest`.
 */
static void check_sample(const struct dt_prompts *prompts,
                         const struct dt_batch *batch,
                         const struct dt_batch_sample *sample, size_t longest)
{
    struct made made;
    size_t count;
    uint64_t number = numbers[sample->number / COPIES];
    const int32_t *prompt = dt_prompts_ids(prompts, number, &count);
    size_t start = sample->first + 1 - count;
    make(number, (uint32_t)(sample->number % COPIES), &made);
    assert_int_equal(sample->count, made.count);
    assert_int_equal(sample->picked, made.count + (made.count < longest));
    if (sample->picked > made.count)
        assert_int_equal(batch->inputs[sample->first + made.count],
                         made.ids[made.count - 1]);
    for (size_t t = 0; t + 1 < count + sample->count; t++) {
        assert_int_equal(batch->inputs[start + t],
                         t < count ? prompt[t] : made.ids[t - count]);
        assert_int_equal(batch->targets[start + t],
                         t + 1 < count ? DT_IGNORE : made.ids[t + 1 - count]);
        assert_int_equal(batch->doc_start[start + t], start);
    }
}

/* All steps of a generation on all ranks of a world: marks the rows. */
static void check_world(const struct dt_experience *e,
                        const struct dt_prompts *prompts, int world,
                        size_t step_of[ROWS])
{
    struct dt_error err;
    struct dt_batch batch;
    for (int rank = 0; rank < world; rank++) {
        const struct dt_sample_batches_options options = {
            .rows = PER_STEP,
            .limit = LIMIT,
            .multiple_of = 8,
            .longest = world == 2 ? 5 : 0,
            .rank = rank,
            .world = world,
            .seed = 11};
        struct dt_sample_batches b;
        assert_int_equal(dt_sample_batches_init(&b, &options, prompts, &err),
                         0);
        assert_int_equal(dt_sample_batches_begin(&b, e, 4, &err), 0);
        for (size_t part = 0; part < 2; part++) {
            assert_int_equal(dt_sample_batches_step(&b, part, &err), 0);
            for (size_t a = 0; a < dt_sample_batches_count(&b); a++) {
                size_t targets = 0;
                assert_int_equal(dt_sample_batches_get(&b, a, &batch, &err), 0);
                assert_int_equal(batch.T % 8, 0);
                assert_in_range(batch.T, 8, LIMIT);
                for (size_t i = 0; i < batch.sample_count; i++) {
                    check_sample(prompts, &batch, &batch.samples[i],
                                 options.longest);
                    step_of[batch.samples[i].number] += 1 + 10 * part;
                    targets += batch.samples[i].count;
                }
                assert_int_equal(batch.target_count, targets);
            }
        }
        dt_sample_batches_fini(&b);
    }
}

static int make_experience(const struct dt_comm_world *world, void *arg)
{
    const struct dt_exec exec = dt_exec_cpu();
    const struct dt_comm_options options = {.timeout_ms = 30000};
    struct dt_error err = {0};
    struct dt_experience *e = arg;
    struct dt_comm *comm = dt_comm_create("self", world, &options, &err);
    TRY(comm);
    TRY(dt_experience_begin(e, numbers, 4, COPIES, COLUMNS, &err) == 0);
    for (size_t g = 0; g < 4; g++)
        for (uint32_t copy = 0; copy < COPIES; copy++) {
            struct made made;
            make(numbers[g], copy, &made);
            TRY(add(e, g, copy, &made, &err) == 0);
        }
    TRY(dt_experience_gather(e, comm, &exec, &err) == 0);
    dt_comm_destroy(comm);
    return 0;
}

/* Which row trains in which step is the same in every world, and each row is in
 * one step on one rank.
 */
static void steps_have_the_same_rows_in_every_world(void **state)
{
    struct dt_experience e = {0};
    struct dt_error err;
    struct dt_tokenizer *tokenizer = dt_tokenizer_load("byte", &err);
    struct dt_prompts *prompts = open_prompts(tokenizer);
    size_t steps[4][ROWS] = {{0}};
    (void)state;
    world_threads(1, make_experience, &e);
    for (int world = 1; world <= 4; world++) {
        check_world(&e, prompts, world, steps[world - 1]);
        assert_memory_equal(steps[world - 1], steps[0], sizeof(steps[0]));
    }
    for (size_t i = 0; i < 4 * COPIES; i++)
        assert_true(steps[0][i] == 1 || steps[0][i] == 11);
    dt_experience_fini(&e);
    dt_prompts_close(prompts);
    dt_tokenizer_destroy(tokenizer);
}

static void a_generation_that_is_not_whole_steps_is_an_error(void **state)
{
    const struct dt_experience e = {.rows = 7};
    struct dt_sample_batches b = {.options.rows = 3};
    struct dt_error err;
    (void)state;
    assert_int_equal(dt_sample_batches_begin(&b, &e, 0, &err), -1);
    assert_int_equal(err.status, EX_SOFTWARE);
    assert_string_equal(err.text, "a generation has 7 completions, which are "
                                  "not whole steps of 3: please report this");
}

/* --- choosing groups --- */

/* An experience of the prompts number(groups), on one rank. */
static int make_one(struct dt_experience *e, const uint64_t *number,
                    size_t groups)
{
    const struct dt_exec exec = dt_exec_cpu();
    struct dt_comm_world world = {.size = 1};
    const struct dt_comm_options options = {.timeout_ms = 30000};
    struct dt_error err = {0};
    struct dt_comm *comm = dt_comm_create("self", &world, &options, &err);
    struct made made;
    TRY(comm);
    TRY(dt_experience_begin(e, number, groups, COPIES, COLUMNS, &err) == 0);
    for (size_t g = 0; g < groups; g++)
        for (uint32_t copy = 0; copy < COPIES; copy++) {
            make(number[g], copy, &made);
            TRY(add(e, g, copy, &made, &err) == 0);
            for (size_t k = 0; k < COLUMNS; k++)
                e->rewards[(g * COPIES + copy) * COLUMNS + k] =
                    (double)(number[g] * 10 + copy * COLUMNS + k);
        }
    TRY(dt_experience_gather(e, comm, &exec, &err) == 0);
    dt_comm_destroy(comm);
    return 0;
}

static void chosen_groups_are_an_experience(void **state)
{
    static const uint64_t first[] = {1, 2, 3}, more[] = {7, 8};
    static const uint64_t chosen[] = {1, 3, 8};
    static const bool keep[] = {true, false, true, false, true};
    struct dt_experience e = {0}, other = {0}, wanted = {0};
    struct dt_error err = {0};
    (void)state;
    assert_int_equal(make_one(&e, first, 3), 0);
    assert_int_equal(make_one(&other, more, 2), 0);
    assert_int_equal(make_one(&wanted, chosen, 3), 0);
    assert_int_equal(dt_experience_merge(&e, &other, keep, &err), 0);
    assert_int_equal(e.groups, 3);
    assert_int_equal(e.tokens, wanted.tokens);
    assert_memory_equal(e.at, wanted.at, (e.rows + 1) * sizeof(*e.at));
    assert_int_equal(dt_experience_hash(&e), dt_experience_hash(&wanted));
    dt_experience_fini(&wanted);
    dt_experience_fini(&other);
    dt_experience_fini(&e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_ranks_of_any_world_have_the_same_experience),
        cmocka_unit_test(completions_stand_in_the_order_of_prompts),
        cmocka_unit_test(any_number_of_rewards_is_shared),
        cmocka_unit_test(each_row_is_in_one_micro_batch_within_the_limit),
        cmocka_unit_test(micro_batches_have_about_equally_many_tokens),
        cmocka_unit_test(the_order_depends_on_seed_and_generation),
        cmocka_unit_test(steps_have_the_same_rows_in_every_world),
        cmocka_unit_test(a_generation_that_is_not_whole_steps_is_an_error),
        cmocka_unit_test(chosen_groups_are_an_experience),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
