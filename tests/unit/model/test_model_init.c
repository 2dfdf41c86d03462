/* SPDX-License-Identifier: Apache-2.0 */
/* test_model_init.c - first weights are what Hugging Face would draw */
#include "config.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "model/model.h"
#include "tests/unit/random_weights.h"
#include "tests/families.h"

static struct dt_model_config make_config(const struct dt_family *family)
{
    bool gpt2 = family == &dt_family_gpt2;
    return (struct dt_model_config){
        .family = family,
        .vocab_size = 500,
        .n_positions = 64,
        .n_embd = 96,
        .n_layer = 2,
        .n_head = 6,
        .n_kv_head = gpt2 ? 6 : 2,
        .head_size = 16,
        .n_inner = 200,
        .norm_epsilon = 1e-5,
        .initializer_range = 0.02,
        .tie_word_embeddings = gpt2,
        .qkv_bias = true,
        .out_bias = gpt2,
        .mlp_bias = gpt2,
        .rope_theta = 1e4,
        .padding_row = -1,
    };
}

/* GPT-2's projections into the residual stream are smaller. */
static double expected(const struct dt_model_config *config,
                       const struct dt_param *param)
{
    if (strstr(param->name, "bias"))
        return 0;
    if (param->ndim == 1)
        return 1;
    if (strstr(param->name, "c_proj.weight"))
        return 0.02 / sqrt(2.0 * (double)config->n_layer);
    return 0.02;
}

static void check_init(const struct dt_family *family)
{
    struct dt_model_config config = make_config(family);
    struct dt_layout *one = dt_model_layout(&config, 1, NULL);
    struct dt_layout *six = dt_model_layout(&config, 6, NULL);
    struct dt_buffer *a = dt_buffer_create(&dt_cpu, one->count * 4, "a", NULL);
    struct dt_buffer *b = dt_buffer_create(&dt_cpu, six->count * 4, "b", NULL);
    struct dt_view wa = dt_view_of(a, DT_F32), wb = dt_view_of(b, DT_F32);
    assert_true(one->count != six->count);
    random_weights(&config, one, wa, 5);
    random_weights(&config, six, wb, 5);
    for (size_t i = 0; i < one->param_count; i++) {
        const struct dt_param *param = &one->params[i];
        const float *w = dt_view_f32(dt_layout_param(one, wa, i));
        double squares = 0, want = expected(&config, param);
        if (i > 0 && param->ndim == 2) /* no two parameters are the same */
            assert_memory_not_equal(w, dt_view_f32(wa), 4 * sizeof(*w));
        assert_memory_equal(w, dt_view_f32(dt_layout_param(six, wb, i)),
                            param->count * sizeof(*w));
        for (size_t j = 0; j < param->count; j++)
            squares += (double)w[j] * w[j];
        double got = sqrt(squares / (double)param->count);
        if (fabs(got - want) > 0.05 * want)
            fail_msg("%s: %g, expected %g", param->name, got, want);
    }
    dt_buffer_destroy(a);
    dt_buffer_destroy(b);
    dt_layout_destroy(one);
    dt_layout_destroy(six);
}

/* The same for any world size, and as large as they should be. */
static void initial_weights_do_not_depend_on_world_size(void **state)
{
    (void)state;
    check_init(&dt_family_gpt2);
    check_init(&dt_family_qwen3);
}

static void a_padding_row_begins_as_0_and_changes_no_other_weight(void **state)
{
    enum { ROW = 7, C = 96 };
    struct dt_model_config config = make_config(&dt_family_llama);
    struct dt_layout *layout = dt_model_layout(&config, 1, NULL);
    const size_t bytes = layout->count * sizeof(float);
    struct dt_buffer *all = dt_buffer_create(&dt_cpu, bytes, "all", NULL);
    struct dt_buffer *but = dt_buffer_create(&dt_cpu, bytes, "but one", NULL);
    float *row = (float *)all->data + ROW * C;
    (void)state;
    random_weights(&config, layout, dt_view_of(all, DT_F32), 5);
    config.padding_row = ROW;
    random_weights(&config, layout, dt_view_of(but, DT_F32), 5);
    assert_memory_not_equal(all->data, but->data, bytes);
    memset(row, 0, C * sizeof(*row));
    assert_memory_equal(all->data, but->data, bytes);
    dt_buffer_destroy(all);
    dt_buffer_destroy(but);
    dt_layout_destroy(layout);
}

static void different_seeds_give_different_weights(void **state)
{
    struct dt_model_config config = make_config(&dt_family_llama);
    struct dt_layout *layout = dt_model_layout(&config, 1, NULL);
    struct dt_buffer *bufs[2];
    (void)state;
    for (uint64_t i = 0; i < 2; i++) {
        bufs[i] = dt_buffer_create(&dt_cpu, layout->count * 4, "a test", NULL);
        random_weights(&config, layout, dt_view_of(bufs[i], DT_F32), i);
    }
    assert_memory_not_equal(bufs[0]->data, bufs[1]->data, 400);
    dt_buffer_destroy(bufs[0]);
    dt_buffer_destroy(bufs[1]);
    dt_layout_destroy(layout);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(initial_weights_do_not_depend_on_world_size),
        cmocka_unit_test(a_padding_row_begins_as_0_and_changes_no_other_weight),
        cmocka_unit_test(different_seeds_give_different_weights),
    };
    return cmocka_run_group_tests_name("model_init", tests, NULL, NULL);
}
