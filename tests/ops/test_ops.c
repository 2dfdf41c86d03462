/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_ops.c - every operation of a backend
 *
 *   test_ops                 of every CPU variant this processor runs
 *   test_ops cuda [WORD ...] of the module for NVIDIA GPUs, where there is one
 *
 * `fast` lets it give other bits in every run, `math` lets no library compute
 * the attention, `small` leaves out the large cases, and `only=TEXT` runs the
 * cases whose names have TEXT in them.
 */
#include "config.h"

#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "bridge.h"
#include "harness.h"
#include "ops/cpu/cpu.h"

static const struct {
    const char *name;
    void (*run)(void **state);
    bool matmul; /* a library may split its sums */
} CASES[] = {
    {"embedding", test_embedding, false},
    {"dropout", test_dropout, false},
    {"linear", test_linear, true},
    {"linear, several blocks", test_linear_blocks, true},
    {"linear, few rows", test_linear_few_rows, false},
    {"linear, some rows", test_linear_some_rows, false},
    {"linear with activation", test_linear_activation, true},
    {"norm", test_norm, false},
    {"low_rank", test_low_rank, true},
    {"low_rank_few_rows", test_low_rank_few_rows, false},
    {"frozen", test_frozen, false},
    {"no rows", test_empty, false},
    {"activation", test_activation, false},
    {"gelu keeps its digits", test_gelu_digits, false},
    {"glu", test_glu, false},
    {"rope", test_rope, false},
    {"rope of equal axes", test_rope_equal_axes, false},
    {"heads_norm", test_heads_norm, false},
    {"attention", test_attention, false},
    {"attention with heads of each size", test_attention_heads, false},
    {"attention with dropout", test_attention_dropout, false},
    {"attention with bounds", test_attention_bounds, false},
    {"images do not see each other", test_attention_unseen, false},
    {"documents of any lengths", test_attention_documents, false},
    {"documents do not see each other", test_attention_isolation, false},
    {"a window leaves documents of a row room", test_attention_room, false},
    {"attention skips tiles without a trace", test_attention_skip, false},
    {"attention visits the tiles that are seen", test_attention_tiles, false},
    {"attention keeps NaN", test_attention_nan, false},
    {"attention has the bits of a document alone", test_attention_places,
     false},
    {"attention of a tower", test_tower_attention, false},
    {"kv", test_kv, false},
    {"sample", test_sample, false},
    {"cross_entropy", test_cross_entropy, true},
    {"cross_entropy has the bits of any larger plan", test_planned_rows, true},
    {"cross_entropy without targets", test_no_targets, false},
    {"scaled and capped logits", test_logit_rules, true},
    {"logprob", test_logprob, true},
    {"logprob has the bits of any larger plan", test_logprob_planned_rows,
     true},
    {"logprob by chunks of any size", test_logprob_bits, false},
    {"logprob and cross_entropy agree", test_logprob_of_cross_entropy, true},
    {"logprob of certain, equal and NaN logits", test_logprob_extremes, false},
    {"logprob without targets", test_logprob_without_targets, false},
    {"scatter_rows", test_scatter_rows, false},
    {"add_rows", test_add_rows, false},
    {"patch_rows", test_patch_rows, false},
    {"sparse_matmul", test_sparse_matmul, false},
    {"score", test_score, true},
    {"zero", test_zero, false},
    {"convert", test_convert, false},
    {"add", test_add, false},
    {"combine", test_combine, false},
    {"hash", test_hash, false},
    {"hash of one other bit", test_hash_bits, false},
    {"sum_of_squares", test_sum_of_squares, false},
    {"step_begin", test_step_begin, false},
    {"clip_and_check", test_clip_and_check, false},
    {"a step that overflows", test_step_overflow, false},
    {"a step with large gradients", test_step_large, false},
    {"adamw", test_adamw, false},
    {"adamw in the bits of adamw.h", test_adamw_bits, false},
    {"adamw at a rate of its own", test_adamw_rate, false},
    {"adamw of a step that is skipped", test_adamw_skipped, false},
    {"adamw of parts has the bits of the whole", test_adamw_parts, false},
    {"dither of any number", test_dither_number, false},
    {"dither has Philox's bits", test_dither_generator, false},
    {"dither is right on average", test_dither_mean, false},
    {"add_dithered", test_add_dithered, false},
    {"add of bf16", test_add_bf16, false},
    {"sum_of_squares of bf16", test_squares_bf16, false},
    {"adamw in bf16", test_adamw_dithered, false},
    {"adamw in bf16 of parts", test_adamw_dithered_parts, false},
    {"adamw with gradients in bf16", test_adamw_bf16_gradients, false},
};

/* Only on hardware, where they take seconds. */
static const struct {
    const char *name;
    void (*run)(void **state);
} LARGE[] = {
    {"large linear layers", test_large_linear},
    {"large norms", test_large_norm},
    {"large embeddings", test_large_embedding},
    {"large activations", test_large_activation},
    {"large rotations", test_large_rope},
    {"large attention", test_large_attention},
    {"large caches", test_large_kv},
    {"large heads", test_large_loss},
    {"large log-probabilities", test_large_logprob},
    {"large updates", test_large_update},
};

enum {
    CASE_COUNT = sizeof(CASES) / sizeof(CASES[0]),
    LARGE_COUNT = sizeof(LARGE) / sizeof(LARGE[0]),
    MAX_VARIANTS = 8,
    NAME_BYTES = 64,
};

static const struct dt_ops *variants[MAX_VARIANTS];
static size_t variant_count;

static void threads_do_not_change_the_bits(void **state)
{
#ifdef SANITIZER /* with which all cases run with three threads */
    skip();
#endif
    for (size_t i = 0; i < CASE_COUNT; i++) {
        if (CASES[i].matmul)
            continue;
        check_threads(CASES[i].run, state);
        assert_int_equal(case_teardown(state), 0);
        case_setup(state);
    }
}

/* Another backend may lack an operation, the CPU may not. */
static void every_variant_has_all_operations(void **state)
{
    (void)state;
    for (size_t i = 0; i < variant_count; i++) {
        const struct dt_ops *o = variants[i];
        assert_true(o->library && o->emulation);
        assert_true(o->embedding_forward && o->embedding_backward);
        assert_true(o->linear_forward && o->linear_backward);
        assert_true(o->norm_forward && o->residual_norm_forward);
        assert_true(o->norm_backward && o->dropout_backward);
        assert_true(o->linear_activation_forward &&
                    o->linear_activation_backward);
        assert_true(o->activation_forward && o->activation_backward);
        assert_true(o->low_rank_forward && o->low_rank_backward);
        assert_true(o->glu_forward && o->glu_backward);
        assert_true(o->heads_norm_forward && o->heads_norm_backward);
        assert_true(o->rope_forward && o->rope_backward);
        assert_true(o->attention_forward && o->attention_backward);
        assert_true(o->attention_workspace && o->kv_store && o->kv_attention);
        assert_true(o->sample);
        assert_true(o->linear_cross_entropy && o->loss_workspace);
        assert_true(o->linear_logprob_forward && o->linear_logprob_backward);
        assert_true(o->scatter_rows && o->add_rows && o->patch_rows);
        assert_true(o->sparse_matmul);
        assert_true(o->zero && o->convert && o->add);
        assert_true(o->add_dithered);
        assert_true(o->combine && o->hash && o->apply_logit_rule);
        assert_true(o->step_begin && o->step_add);
        assert_true(o->sum_of_squares && o->clip_and_check && o->adamw);
    }
    assert_ptr_equal(dt_ops_cpu(), variants[0]);
}

/* The variants are one source at several widths, and a sanitizer is slow. */
#ifdef SANITIZER
enum { WIDEST_AND_GENERIC_ONLY = true };
#else
enum { WIDEST_AND_GENERIC_ONLY = false };
#endif

static int test_cpu(void)
{
    static char names[MAX_VARIANTS][CASE_COUNT + 1][NAME_BYTES];
    static struct CMUnitTest tests[MAX_VARIANTS * (CASE_COUNT + 1) + 3];
    size_t count = 0;

    while (variant_count < MAX_VARIANTS && dt_cpu_variant(variant_count)) {
        variants[variant_count] = dt_cpu_variant(variant_count);
        printf("# supported: %s\n", variants[variant_count]->name);
        variant_count++;
    }
    tests[count++] =
        (struct CMUnitTest)cmocka_unit_test(every_variant_has_all_operations);
    tests[count++] =
        (struct CMUnitTest){"bf16 by oneDNN", test_onednn, case_setup,
                            case_teardown, (void *)variants[0]};
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(test_onednn_threads);
    for (size_t i = 0; i < variant_count; i++) {
        if (WIDEST_AND_GENERIC_ONLY && i > 0 && i + 1 < variant_count)
            continue;
        for (size_t j = 0; j <= CASE_COUNT; j++) {
            bool last = j == CASE_COUNT;
            if (WIDEST_AND_GENERIC_ONLY && last && i > 0)
                continue; /* all cases three times */
            snprintf(names[i][j], NAME_BYTES, "%s: %s", variants[i]->name,
                     last ? "same bits with 1, 2 and 3 threads"
                          : CASES[j].name);
            tests[count++] = (struct CMUnitTest){
                names[i][j],
                last ? threads_do_not_change_the_bits : CASES[j].run,
                case_setup, case_teardown, (void *)variants[i]};
        }
    }
    return _cmocka_run_group_tests("ops", tests, count, NULL, NULL);
}

/* What the words behind a backend's name choose. */
struct choice {
    struct dt_backend_options options;
    bool small;
    const char *only; /* NULL: all */
};

/* Prints what is wrong and returns false if a word is. */
static bool parse_words(struct choice *c, int count, char **words)
{
    static const char only[] = "only=";

    for (int i = 0; i < count; i++) {
        if (strcmp(words[i], "fast") == 0) {
            c->options.deterministic = false;
        } else if (strcmp(words[i], "math") == 0) {
            c->options.attention = DT_ATTENTION_MATH;
        } else if (strcmp(words[i], "small") == 0) {
            c->small = true;
        } else if (strncmp(words[i], only, strlen(only)) == 0) {
            c->only = words[i] + strlen(only);
        } else {
            fprintf(stderr,
                    "test_ops: unknown word '%s': expected fast, math, small "
                    "or only=TEXT\n",
                    words[i]);
            return false;
        }
    }
    return true;
}

/* The CPU computes what a large case is compared with, for seconds on three
 * threads, and these cases come last.
 */
static int large_setup(void **state)
{
    omp_set_num_threads(omp_get_num_procs());
    return case_setup(state);
}

/* The chosen cases. Returns how many. */
static size_t choose_cases(const char *backend, const struct choice *c,
                           const struct dt_ops *table,
                           struct CMUnitTest tests[CASE_COUNT + LARGE_COUNT])
{
    static char names[CASE_COUNT + LARGE_COUNT][NAME_BYTES];
    bool small = c->small || !bridge_is_real();
    size_t end = CASE_COUNT + (small ? 0 : LARGE_COUNT), count = 0;

    for (size_t i = 0; i < end; i++) {
        bool large = i >= CASE_COUNT;
        const char *name = large ? LARGE[i - CASE_COUNT].name : CASES[i].name;
        if (c->only && !strstr(name, c->only))
            continue;
        snprintf(names[count], NAME_BYTES, "%s: %s", backend, name);
        tests[count] = (struct CMUnitTest){
            names[count], large ? LARGE[i - CASE_COUNT].run : CASES[i].run,
            large ? large_setup : case_setup, case_teardown, (void *)table};
        count++;
    }
    return count;
}

static int test_backend(const char *name, const struct choice *c)
{
    static struct CMUnitTest tests[CASE_COUNT + LARGE_COUNT];
    struct dt_error err;
    const struct dt_ops *table = bridge_open(name, &c->options, &err);

    if (!table) {
        printf("1..0 # SKIP %s\n", err.text);
        return 0;
    }
    size_t count = choose_cases(name, c, table, tests);
    if (count == 0) {
        fprintf(stderr,
                "test_ops: no case that runs here has '%s' in its "
                "name\n",
                c->only);
        return EX_USAGE;
    }
    return _cmocka_run_group_tests("ops", tests, count, NULL, NULL);
}

int main(int argc, char **argv)
{
    struct choice choice = {.options.deterministic = true};

    omp_set_num_threads(3);
    if (argc < 2)
        return test_cpu();
    if (!parse_words(&choice, argc - 2, argv + 2))
        return EX_USAGE;
    return test_backend(argv[1], &choice);
}
