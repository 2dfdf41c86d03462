/* SPDX-License-Identifier: Apache-2.0 */
/* test_replicas.c - one bit that differs is found and its rank named, and no
 * other is
 */
#include "config.h"

#include "parallel/parallel_impl.h"
#include "tests/unit/train/adapter_scene.h"
#include "train/watch/watch_impl.h"

#define NEW "algorithm: sft\n" ROWS_OF MODEL
#define STEPS "training: {train_batch_size: 12, max_steps: 100}\n"
#define EACH_STEP "distributed.check_replicas: 1\n"

/* --- the vote --- */

static void a_majority_names_the_others(void **state)
{
    static const struct {
        uint64_t values[6];
        int sets[6];
        size_t world;
        const char *odd; /* a digit for each rank */
    } votes[] = {
        {{7}, {0}, 1, "0"},
        {{7, 7}, {0, 0}, 2, "00"},
        {{7, 8}, {0, 0}, 2, "11"},
        {{7, 8, 7}, {0, 0, 0}, 3, "010"},
        {{7, 8, 9}, {0, 0, 0}, 3, "111"},
        {{7, 8, 7, 8}, {0, 0, 0, 0}, 4, "1111"},
        {{7, 7, 7, 8}, {0, 0, 0, 0}, 4, "0001"},
        {{8, 7, 7, 9, 7}, {0, 0, 0, 0, 0}, 5, "10010"},
        /* sets have nothing to do with each other */
        {{7, 8, 7, 8}, {0, 1, 0, 1}, 4, "0000"},
        {{7, 8, 7, 9, 7, 8}, {0, 1, 0, 1, 0, 1}, 6, "000100"},
        {{7, 8, 9}, {0, 1, 2}, 3, "000"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(votes) / sizeof(votes[0]); i++) {
        bool odd[6];
        size_t want = 0;
        size_t count = dt_replicas_vote(votes[i].values, votes[i].sets,
                                        votes[i].world, odd);
        for (size_t r = 0; r < votes[i].world; r++) {
            assert_int_equal(odd[r], votes[i].odd[r] == '1');
            want += odd[r];
        }
        assert_int_equal(count, want);
    }
}

/* --- one bit of one rank --- */

/* Memory of an engine, as of a block's first weight: a kind of state, or... */
enum { WEIGHTS = DT_OWNED_COUNT, SHARES, FROZEN };

struct flaw {
    const char *lines;
    int world;
    int memory; /* enum dt_owned, or one of the above */
    int ranks;  /* so many from 1 on have it */
    const char *said;
};

static struct dt_view memory_of(struct dt_run *run, int memory)
{
    const struct dt_parallel *p =
        memory == FROZEN ? run->learner.frozen : run->learner.parallel;
    const size_t u = dt_layout_next(p->layout, 1);
    if (memory == SHARES)
        return dt_unit_share(p, u);
    return memory >= WEIGHTS ? dt_unit_weights(p, u)
                             : dt_owned_unit(p, (enum dt_owned)memory, u);
}

static int find_flaw(struct dt_run *run, void *arg)
{
    const struct flaw *flaw = arg;
    const bool mine = run->spec.rank >= 1 && run->spec.rank <= flaw->ranks;
    struct dt_error err = {0};
    int rank = -1;
    TRY(steps(run, 2, &err) == 0);
    TRY(dt_replicas_compare(run, 2, &rank, &err) == 0);
    uint32_t *word = dt_view_data(memory_of(run, flaw->memory));
    for (unsigned bit = 0; bit < 32; bit += 31) {
        *word ^= (uint32_t)mine << bit;
        TRY(dt_replicas_compare(run, 2, &rank, &err) == 1);
        *word ^= (uint32_t)mine << bit;
        if (!strstr(err.text, flaw->said)) {
            fprintf(stderr, "# %s\n# is not said: %s\n", flaw->said, err.text);
            return -1;
        }
    }
    TRY(err.status == EX_OSERR);
    TRY(rank == (run->spec.world == 2 ? 0 : 1));
    TRY(dt_replicas_compare(run, 2, &rank, &err) == 0);
    return 0;
}

#define DIFFERS "step 2: ranks hold different bits of what should be equal; "
#define FIRST " from transformer.h.0.ln_1.weight on"
#define MOST "; most replicas agree with each other; "

static void one_bit_of_one_rank_is_found_and_named(void **state)
{
    static const struct flaw flaws[] = {
        {NEW BF16, 3, DT_OWNED_MASTER, 1,
         DIFFERS "rank 1 on h1: fp32 weights" FIRST MOST},
        {NEW, 3, DT_OWNED_M, 1, "rank 1 on h1: AdamW's m" FIRST MOST},
        {NEW, 3, DT_OWNED_V, 1, "rank 1 on h1: AdamW's v" FIRST MOST},
        {NEW, 3, DT_OWNED_GRADS, 1, "rank 1 on h1: gradients" FIRST MOST},
        {NEW, 3, WEIGHTS, 1, "rank 1 on h1: weights" FIRST MOST},
        {NEW BF16 "distributed.strategy: zero1\n", 3, WEIGHTS, 1,
         "rank 1 on h1: weights" FIRST MOST},
        {NEW BF16 "distributed.strategy: zero2\n", 3, WEIGHTS, 1,
         "rank 1 on h1: weights" FIRST MOST},
        /* three groups of two: the second rank of each has the same share */
        {NEW "distributed: {strategy: zero3, shard_group: 2}\n", 6, SHARES, 1,
         "rank 1 on h1: weights" FIRST MOST},
        /* of two groups, one is wrong */
        {NEW "distributed: {strategy: zero3, shard_group: 2}\n", 4, SHARES, 1,
         "rank 1 on h1: weights" FIRST "; rank 3 on h3: weights" FIRST
         "; too few replicas tell which of them is wrong; "},
        {SFT LORA, 3, FROZEN, 1, "rank 1 on h1: frozen weights" FIRST MOST},
        {NEW, 2, DT_OWNED_M, 1,
         "rank 0 on h0: AdamW's m" FIRST "; rank 1 on h1: AdamW's m" FIRST
         "; too few replicas tell which of them is wrong; "},
        {NEW, 12, DT_OWNED_M, 4,
         "; rank 3 on h3: AdamW's m" FIRST "; and 1 more ranks" MOST},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(flaws) / sizeof(flaws[0]); i++) {
        char lines[1024];
        struct flaw flaw = flaws[i];
        snprintf(lines, sizeof(lines), "%s" STEPS, flaw.lines);
        small_runs(flaw.world, lines, find_flaw, &flaw);
    }
}

/* --- no bit differs --- */

static int run_long(struct dt_run *run, void *arg)
{
    struct dt_error err = {0};
    const bool overflows = *(const bool *)arg;
    TRY(run->same);
#ifdef SANITIZER
    const int count = 20;
#else
    const int count = 100;
#endif
    TRY(steps(run, count, &err) == 0);
    TRY((run->progress.skipped > 0) == overflows);
    return 0;
}

/* Each step compares, those that overflow, too. With a sanitizer there are
 * fewer; contrib/check also runs all without one.
 */
static void no_alarm_where_nothing_is_wrong(void **state)
{
    static const struct {
        const char *lines;
        int world;
        bool overflows;
    } runs[] = {
        {NEW, 2, false},
        {NEW "precision: {compute: fp16, initial_scale_power: 31}\n", 3, true},
        {NEW BF16 "distributed.strategy: zero1\n", 3, false},
        {NEW BF16 "precision.reduce_dtype: bf16\n", 3, false},
        {NEW BF16 "distributed: {strategy: zero2, shard_group: 2}\n", 4, false},
        {NEW "distributed.strategy: zero3\n", 2, false},
        {NEW BF16 "distributed: {strategy: zero3, shard_group: 2}\n", 4, false},
        {SFT LORA "adapter.dropout: 0.1\n", 2, false},
        {SFT LORA BF16 "distributed: {strategy: zero3, shard_group: 2}\n", 4,
         false},
        {"algorithm: dpo\nmodel.path: base\ndpo.sync_ref: {enabled: true, "
         "steps: 7}\n"
         "data: {train: pairs.jsonl, max_length: 32}\n"
         "distributed.strategy: zero2\n",
         3, false},
        {"algorithm: ppo\nmodel.path: base\n"
         "data: {train: prompts.jsonl, max_length: 12, max_prompt_length: 4}\n"
         "rollout.max_completion_length: 8\n"
         "reward.functions: [{type: regex, pattern: \"(?s)[ -~].*\"}]\n",
         3, false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(runs) / sizeof(runs[0]); i++) {
        char lines[1024];
        snprintf(lines, sizeof(lines), "%s" STEPS EACH_STEP, runs[i].lines);
        small_runs(runs[i].world, lines, run_long, (void *)&runs[i].overflows);
    }
}

/* --- without --- */

static int compares_nothing(struct dt_run *run, void *arg)
{
    struct dt_error err = {0};
    (void)arg;
    TRY(!run->same && !dt_replicas_due(run, 100));
    TRY(dt_replicas_check(run, 100, &err) == 0);
    return 0;
}

static void one_rank_and_an_interval_of_0_compare_nothing(void **state)
{
    (void)state;
    small_runs(1, NEW STEPS EACH_STEP, compares_nothing, NULL);
    small_runs(2, NEW STEPS "distributed.check_replicas: 0\n", compares_nothing,
               NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_majority_names_the_others),
        cmocka_unit_test_teardown(one_bit_of_one_rank_is_found_and_named,
                                  small_clean),
        cmocka_unit_test_teardown(no_alarm_where_nothing_is_wrong, small_clean),
        cmocka_unit_test_teardown(one_rank_and_an_interval_of_0_compare_nothing,
                                  small_clean),
    };
    return cmocka_run_group_tests_name("replicas", tests, adapter_enter,
                                       small_leave);
}
