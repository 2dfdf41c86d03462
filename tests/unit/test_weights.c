/* SPDX-License-Identifier: Apache-2.0 */
/* test_weights.c - which tensors of a file fill a model, and which complain */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "algo/weights.h"
#include "ckpt/ckpt.h"
#include "model/model.h"
#include "tests/unit/scratch.h"

enum { MAX_TENSORS = 40 };

static const struct dt_model_config config = {
    .model_type = "gpt2",
    .vocab_size = 5,
    .n_positions = 4,
    .n_embd = 4,
    .n_layer = 1,
    .n_head = 2,
    .n_inner = 16,
    .layer_norm_epsilon = 1e-5,
    .initializer_range = 0.02,
    .tie_word_embeddings = true,
};

/* A model with random weights, and the tensors of a file that holds them. */
struct sample {
    struct dt_layout *layout;
    struct dt_buffer *buf, *loaded;
    struct dt_view weights, into;
    struct dt_ckpt_tensor tensors[MAX_TENSORS];
    size_t count;
};

static void add_tensor(struct sample *s, const char *name, int ndim, size_t d0,
                       size_t d1)
{
    struct dt_ckpt_tensor *t = &s->tensors[s->count++];
    *t = (struct dt_ckpt_tensor){.name = name, .ndim = ndim, .shape = {d0, d1}};
    t->view = dt_view_slice(s->weights, 0, ndim == 2 ? d0 * d1 : d0);
}

static int setup(void **state)
{
    static struct sample s;
    struct dt_error err;
    s = (struct sample){.layout = dt_model_layout(&config, 1, &err)};
    s.buf = dt_buffer_create(s.layout->count * 4, "weights", &err);
    s.loaded = dt_buffer_create(s.layout->count * 4, "weights", &err);
    s.weights = dt_view_of(s.buf, DT_F32);
    s.into = dt_view_of(s.loaded, DT_F32);
    dt_model_init_weights(&config, s.layout, s.weights, 1);
    for (size_t i = 0; i < s.layout->param_count; i++) {
        const struct dt_param *p = &s.layout->params[i];
        add_tensor(&s, p->name, p->ndim, p->shape[0], p->shape[1]);
        s.tensors[i].view = dt_layout_param(s.layout, s.weights, i);
    }
    *state = &s;
    return 0;
}

static int teardown(void **state)
{
    struct sample *s = *state;
    dt_layout_destroy(s->layout);
    dt_buffer_destroy(s->buf);
    dt_buffer_destroy(s->loaded);
    return 0;
}

/* Writes the tensors and loads them; -1 with the text after the path. */
static int write_and_load(struct sample *s, char text[DT_ERROR_TEXT_BYTES])
{
    struct dt_error err = {0};
    const char *path = scratch_path("model.safetensors");
    assert_int_equal(
        dt_safetensors_write(path, s->tensors, s->count, &(uint64_t){0}, &err),
        0);
    int result = dt_weights_load(scratch_root, s->layout, s->into, &err);
    strcpy(text, err.text);
    for (char *at; (at = strstr(text, path));)
        memmove(at, at + strlen(path) + 2, strlen(at + strlen(path) + 2) + 1);
    if (result < 0)
        assert_int_equal(err.status, EX_DATAERR);
    else
        assert_memory_equal(s->buf->data, s->loaded->data, s->buf->bytes);
    return result;
}

static void test_prefixed(void **state)
{
    char text[DT_ERROR_TEXT_BYTES];
    assert_int_equal(write_and_load(*state, text), 0);
}

/* As in the files of the hub: no prefix, masks, a copy of the embedding. */
static void test_bare(void **state)
{
    struct sample *s = *state;
    char text[DT_ERROR_TEXT_BYTES];
    for (size_t i = 0; i < s->count; i++)
        s->tensors[i].name += strlen("transformer.");
    add_tensor(s, "h.0.attn.bias", 2, 4, 4);
    add_tensor(s, "h.0.attn.masked_bias", 1, 1, 0);
    add_tensor(s, "lm_head.weight", 2, 5, 4);
    assert_int_equal(write_and_load(s, text), 0);
    s->tensors[s->count - 1].view.offset++;
    assert_int_equal(write_and_load(s, text), -1);
    assert_string_equal(text, "lm_head.weight differs from "
                              "transformer.wte.weight, but config.json ties "
                              "them");
}

static void test_misfits(void **state)
{
    struct sample *s = *state;
    char text[DT_ERROR_TEXT_BYTES];
    s->tensors[0].name = "score.weight\n";
    s->tensors[1].shape[0] = 2;
    s->tensors[1].view.count = 8;
    assert_int_equal(write_and_load(s, text), -1);
    assert_string_equal(text, "missing transformer.wte.weight; "
                              "unexpected score.weight?; "
                              "tensor \"transformer.wpe.weight\" is [2, 4], "
                              "expected [4, 4]");
}

static void test_many_missing(void **state)
{
    struct sample *s = *state;
    char text[DT_ERROR_TEXT_BYTES];
    s->tensors[1] = s->tensors[0];
    s->tensors[1].name = "wte.weight";
    s->count = 2;
    assert_int_equal(write_and_load(s, text), -1);
    assert_string_equal(
        text, "missing transformer.wpe.weight, transformer.h.0.ln_1.weight, "
              "transformer.h.0.ln_1.bias, transformer.h.0.attn.c_attn.weight "
              "and 11 more; unexpected wte.weight");
}

static void test_no_file(void **state)
{
    struct sample *s = *state;
    struct dt_error err;
    assert_int_equal(dt_weights_load("/nowhere", s->layout, s->into, &err), -1);
    assert_int_equal(err.status, EX_NOINPUT);
    assert_memory_equal(err.text, "/nowhere/model.safetensors: ", 28);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_prefixed),     TEST(test_bare),    TEST(test_misfits),
        TEST(test_many_missing), TEST(test_no_file),
    };
    return cmocka_run_group_tests_name("weights", tests, NULL, NULL);
}
