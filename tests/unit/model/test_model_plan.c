/* SPDX-License-Identifier: Apache-2.0 */
/* test_model_plan.c - memory that is planned for the largest batch is enough
 * for every other one
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "model/model_impl.h"
#include "model/decode.h"
#include "ops/cpu/cpu.h"
#include "ops/workspace.h"

enum { B = 4, T = 500 };

/* The head of GPT-2 makes logits of up to 667 rows at a time on a CPU. */
static const char *const models[] = {
    "{\"model_type\": \"gpt2\", \"vocab_size\": 50257, \"n_positions\": 512,"
    " \"n_embd\": 32, \"n_layer\": 1, \"n_head\": 2}",
    "{\"model_type\": \"llama\", \"vocab_size\": 1000, \"hidden_size\": 32,"
    " \"intermediate_size\": 96, \"num_hidden_layers\": 2,"
    " \"num_attention_heads\": 4, \"num_key_value_heads\": 2,"
    " \"max_position_embeddings\": 512, \"rms_norm_eps\": 1e-5}",
    "{\"model_type\": \"mistral\", \"vocab_size\": 32000, \"hidden_size\": 16,"
    " \"intermediate_size\": 24, \"num_hidden_layers\": 3,"
    " \"num_attention_heads\": 2, \"num_key_value_heads\": 1,"
    " \"max_position_embeddings\": 512, \"rms_norm_eps\": 1e-5,"
    " \"sliding_window\": 64}",
};

static const struct dt_model_options uses[] = {
    {.train = true, .documents = true, .dropout = true},
    {.train = true, .save_activations = true, .whole_head = true},
    {.train = true, .recompute = true, .offload = true},
    {.train = true, .recompute = true, .offload = true, .lowest = 2},
    {.train = true, .lowest = 2},
    {.train = true, .values = true, .entropies = true, .logits = true},
    {.values = true, .documents = true},
    {.decode = 512, .documents = true, .table = 512},
};

/* Operations that want more for fewer rows. */
static size_t loss_of_few(enum dt_dtype type, size_t N, size_t C, size_t V,
                          bool whole)
{
    (void)type, (void)V, (void)whole;
    return C + 1000000 / N;
}

static size_t attention_of_few(enum dt_dtype type,
                               const struct dt_attention *attention)
{
    (void)type;
    return 1000000 / (attention->B * attention->T);
}

static const struct dt_ops odd = {
    .attention_workspace = attention_of_few,
    .loss_workspace = loss_of_few,
};

static void parse(struct dt_model_config *config, const char *json)
{
    struct dt_error err;
    assert_int_equal(dt_model_config_parse(config, json, "model", &err), 0);
}

/* Every batch of at most B * T tokens, in rows of at most T. */
static void no_batch_needs_more_than_the_largest(void **state)
{
    static const size_t lengths[] = {1,   2,   3,   7,   63,  64,  65, 166,
                                     167, 249, 250, 251, 333, 499, T};
    const struct dt_ops *tables[] = {dt_ops_cpu(), dt_ops_planned_gpu(), &odd};
    (void)state;
    for (size_t i = 0; i < sizeof(models) / sizeof(*models) * 3; i++) {
        struct dt_model_config config;
        parse(&config, models[i / 3]);
        for (size_t u = 0; u < sizeof(uses) / sizeof(*uses); u++) {
            struct dt_model_options options = uses[u];
            struct dt_acts acts;
            options.B = B;
            options.T = T;
            const size_t most =
                dt_model_memory_bytes(&config, tables[i % 3], &options);
            for (size_t l = 0; l < sizeof(lengths) / sizeof(*lengths); l++)
                for (size_t rows = 1; rows * lengths[l] <= B * T; rows++) {
                    const struct dt_acts_for plan = {
                        &config, tables[i % 3], &options, rows, lengths[l]};
                    if (dt_acts_plan(&acts, NULL, NULL, &plan) > most)
                        fail_msg("model %zu, table %zu, use %zu: %zu x %zu",
                                 i / 3, i % 3, u, rows, lengths[l]);
                }
        }
        dt_model_config_fini(&config);
    }
}

/* With 8 channels, for a vocabulary. */
static void expect_chunks(size_t V)
{
    static const size_t most[] = {1, 700, 21000, 45000, 70000};
    static const enum dt_dtype types[] = {DT_F32, DT_BF16};
    enum { C = 8 };
    for (size_t i = 0; i < 4 * sizeof(most) / sizeof(*most); i++) {
        const enum dt_dtype type = types[i % 2];
        const bool whole = i / 2 % 2;
        const size_t room = dt_workspace_head(type, most[i / 4], C, V, whole) -
                            dt_workspace_head_copy(type, C, V) / sizeof(float);
        for (size_t n = 1; n <= most[i / 4]; n++) {
            const size_t own = dt_workspace_head(type, n, C, V, whole);
            for (size_t p = 0; p < 2; p++) {
                const size_t rows = dt_workspace_head_rows(
                    type, types[p ? 0 : i % 2], n, C, V,
                    dt_workspace_head(type, most[i / 4], C, V, whole));
                const size_t bytes = rows * dt_workspace_head_columns(V) *
                                     dt_dtype_bytes(types[p ? 0 : i % 2]);
                if (bytes > room * sizeof(float))
                    fail_msg("%zu of %zu rows need more", n, most[i / 4]);
                if (rows * dt_workspace_head_columns(V) > INT32_MAX)
                    fail_msg("%zu rows at once are too many", rows);
                if (rows != dt_workspace_head_rows(type, types[p ? 0 : i % 2],
                                                   n, C, V, own))
                    fail_msg("%zu of %zu rows are cut otherwise", n,
                             most[i / 4]);
            }
        }
    }
}

/* Chunks of the head on GPUs are those of the batch alone, and have fewer than
 * 2^31 logits.
 */
static void no_plan_for_more_rows_changes_chunks_on_a_gpu(void **state)
{
    (void)state;
    expect_chunks(50257);
    expect_chunks(151936);
}

/* A model with memory for 2 rows of 8 tokens, and a batch of other sizes. */
static void bind(size_t rows, size_t length, size_t picked, bool numbered,
                 const char *said)
{
    static int32_t ids[64];
    static const int64_t numbers[8];
    static const char json[] =
        "{\"model_type\": \"gpt2\", \"vocab_size\": 50, \"n_positions\": 32,"
        " \"n_embd\": 8, \"n_layer\": 1, \"n_head\": 1}";
    const struct dt_exec exec = dt_exec_cpu();
    const struct dt_model_options options = {.B = 2, .T = 8};
    const struct dt_batch batch = {.B = rows,
                                   .T = length,
                                   .inputs = ids,
                                   .targets = ids,
                                   .rows = numbered ? numbers : NULL,
                                   .picked = picked > 0 ? ids : NULL,
                                   .picked_count = picked};
    struct dt_model_config config;
    struct dt_error err = {.text = ""};
    parse(&config, json);
    struct dt_layout *layout = dt_model_layout(&config, 1, &err);
    struct dt_buffer *weights = dt_buffer_create(
        exec.device, layout->count * sizeof(float), "weights", &err);
    struct dt_model *model = dt_model_create(
        &config, layout, &exec, dt_places_flat(dt_view_of(weights, DT_F32)),
        (struct dt_places){0}, &options, &err);
    assert_non_null(model);
    int rc = dt_model_bind(model, &batch, false, &err);
    assert_int_equal(rc, said ? -1 : 0);
    if (said)
        assert_non_null(strstr(err.text, said));
    if (said)
        assert_int_equal(err.status, EX_SOFTWARE);
    dt_model_destroy(model);
    dt_buffer_destroy(weights);
    dt_layout_destroy(layout);
    dt_model_config_fini(&config);
}

static void a_batch_beyond_the_plan_is_an_error_with_both_sizes(void **state)
{
    (void)state;
    bind(2, 8, 0, true, NULL);
    bind(4, 4, 0, false, NULL);
    bind(1, 1, 0, true, NULL);
    bind(3, 8, 0, false, "a batch of 3 x 8 tokens takes ");
    bind(1, 9, 0, false, "planned for 2 x 8 tokens: please report this");
    bind(4, 4, 0, true,
         "a batch has 4 numbered rows, but there is memory for 2: ");
    bind(2, 8, 1, false,
         "a batch has 1 picked tokens, but there is memory for 0: ");
}

/* Tensors begin at multiples of 256 bytes. */
static void assert_near(size_t bytes, size_t expected)
{
    if (bytes + 8 * 256 < expected || bytes > expected + 8 * 256)
        fail_msg("%zu bytes, expected %zu", bytes, expected);
}

/* The tensors of a block that goes back, of T tokens of the last model: x, qkv,
 * attention, x_mid, both halves of fc, and lse.
 */
enum { KEPT = (16 + 32 + 16 + 16 + 48 + 2) * B * T * 4 };

/* Blocks below the lowest trained unit share the memory of one, which that unit
 * has, too; with recomputation only inputs of blocks are kept, and with
 * offloading those of two are on the device.
 */
static void nothing_is_kept_below_the_lowest_trained_unit(void **state)
{
    struct dt_model_config config = {0};
    (void)state;
    parse(&config, models[2]);
    for (int i = 0; i < 3; i++) {
        size_t bytes[5], host[5];
        for (size_t lowest = 0; lowest < 5; lowest++) {
            const struct dt_model_options options = {.B = B,
                                                     .T = T,
                                                     .train = true,
                                                     .recompute = i > 0,
                                                     .offload = i == 2,
                                                     .lowest = lowest};
            bytes[lowest] =
                dt_model_memory_bytes(&config, dt_ops_cpu(), &options);
            host[lowest] = dt_model_host_bytes(&config, &options);
        }
        const size_t input = (size_t)16 * B * T * 4;
        assert_int_equal(bytes[0], bytes[1]);
        assert_near(bytes[1] - bytes[2], i == 0 ? KEPT : i == 1 ? input : 0);
        assert_near(bytes[2] - bytes[3], i == 0 ? KEPT : input);
        assert_near(bytes[3] - bytes[4], input);
        assert_int_equal(host[0], i == 2 ? input : 0);
        assert_int_equal(host[1], host[0]);
        assert_int_equal(host[2], 0);
        assert_int_equal(host[4], 0);
    }
    dt_model_config_fini(&config);
}

/* The pairs of an adapter read act after its gradient is there. */
static void the_gradient_of_act_has_its_place_unless_an_adapter_reads_act(
    void **state)
{
    (void)state;
    for (size_t i = 0; i < 2 * sizeof(models) / sizeof(*models); i++) {
        struct dt_model_config config = {0};
        parse(&config, models[i / 2]);
        const size_t r = i % 2 * 4;
        const struct dt_model_options options = {
            .B = B, .T = T, .train = true, .adapter.r = r};
        const struct dt_acts_for plan = {&config, dt_ops_cpu(), &options, B, T};
        struct dt_acts acts;
        dt_acts_plan(&acts, NULL, NULL, &plan);
        assert_int_equal(acts.d_act.count, r ? B * T * config.n_inner : 0);
        dt_model_config_fini(&config);
    }
}

static const char pictures[] =
    "{\"model_type\": \"smolvlm\", \"scale_factor\": 2,"
    " \"image_token_id\": 5, \"vision_config\": {\"hidden_size\": 32,"
    " \"intermediate_size\": 64, \"num_hidden_layers\": 2,"
    " \"num_attention_heads\": 2, \"image_size\": 16, \"patch_size\": 4},"
    " \"text_config\": {\"model_type\": \"llama\", \"vocab_size\": 100,"
    " \"hidden_size\": 32, \"intermediate_size\": 96,"
    " \"num_hidden_layers\": 1, \"num_attention_heads\": 2,"
    " \"max_position_embeddings\": 512, \"rms_norm_eps\": 1e-5}}";

/* 16 patches of a picture are 4 features, whose gradients are not there while
 * the embedding is computed.
 */
static void gradients_of_features_take_the_memory_of_the_embedding(void **state)
{
    struct dt_model_config config = {0};
    size_t bytes[2];
    (void)state;
    parse(&config, pictures);
    for (int i = 0; i < 2; i++) {
        const struct dt_model_options options = {
            .B = 1,
            .T = 64,
            .patches = 128,
            .pictures = 8,
            .train = i > 0,
            .lowest = dt_model_first_unit(&config) - 1};
        const struct dt_tower_for tower = {config.vision, &options,
                                           config.n_embd};
        bytes[i] = dt_tower_bytes(&tower, dt_ops_cpu());
    }
    assert_int_equal(bytes[0], bytes[1]);
    dt_model_config_fini(&config);
}

static size_t bounded, unbounded; /* plans of attention */

static size_t count_plans(enum dt_dtype type,
                          const struct dt_attention *attention)
{
    const bool last = attention->last.count == attention->B * attention->T;
    (void)type;
    (last && attention->documents.spans.count == 0 ? &bounded
                                                   : &unbounded)[0]++;
    return 1;
}

/* Or plans of documents are made that no picture is computed by. */
static void pictures_are_planned_to_see_later_positions(void **state)
{
    const struct dt_ops ops = {.attention_workspace = count_plans};
    const struct dt_model_options options = {
        .B = 1, .T = 64, .patches = 128, .pictures = 8, .train = true};
    struct dt_model_config config = {0};
    (void)state;
    parse(&config, pictures);
    const struct dt_tower_for tower = {config.vision, &options, config.n_embd};
    assert_true(dt_tower_bytes(&tower, &ops) < SIZE_MAX);
    assert_true(bounded > 0);
    assert_int_equal(unbounded, 0);
    dt_model_config_fini(&config);
}

static struct dt_documents asked; /* of the last plan of attention */

static size_t see_documents(enum dt_dtype type,
                            const struct dt_attention *attention)
{
    (void)type;
    asked = attention->documents;
    return 1;
}

/* Or plans are made for lengths that no document has. */
static void attention_is_planned_for_the_longest_document(void **state)
{
    static const size_t sizes[][2] = {
        {0, B * T}, {1, 1}, {T, T}, {B * T + 1, B * T}};
    const struct dt_ops ops = {.attention_workspace = see_documents,
                               .loss_workspace = loss_of_few};
    struct dt_model_config config = {0};
    (void)state;
    parse(&config, models[1]);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        const struct dt_model_options options = {.B = B,
                                                 .T = T,
                                                 .train = true,
                                                 .documents = true,
                                                 .document = sizes[i][0]};
        assert_true(dt_model_memory_bytes(&config, &ops, &options) < SIZE_MAX);
        assert_int_equal(asked.tokens, B * T);
        assert_int_equal(asked.longest, sizes[i][1]);
    }
    dt_model_config_fini(&config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attention_is_planned_for_the_longest_document),
        cmocka_unit_test(pictures_are_planned_to_see_later_positions),
        cmocka_unit_test(
            gradients_of_features_take_the_memory_of_the_embedding),
        cmocka_unit_test(
            the_gradient_of_act_has_its_place_unless_an_adapter_reads_act),
        cmocka_unit_test(nothing_is_kept_below_the_lowest_trained_unit),
        cmocka_unit_test(no_batch_needs_more_than_the_largest),
        cmocka_unit_test(no_plan_for_more_rows_changes_chunks_on_a_gpu),
        cmocka_unit_test(a_batch_beyond_the_plan_is_an_error_with_both_sizes),
    };
    return cmocka_run_group_tests_name("model plan", tests, NULL, NULL);
}
