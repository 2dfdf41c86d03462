/* SPDX-License-Identifier: Apache-2.0 */
/* test_weights.c - which tensors of a file fill a model, and which complain */
#include "config.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ckpt/ckpt.h"
#include "ckpt/safetensors.h"
#include "model/model.h"
#include "tensor/tensor.h"
#include "tests/unit/scratch.h"
#include "weights/weights.h"
#include "tests/unit/random_weights.h"
#include "tests/families.h"

enum { MAX_TENSORS = 40 };

static const struct dt_model_config config = {
    .family = &dt_family_gpt2,
    .vocab_size = 5,
    .n_positions = 4,
    .n_embd = 4,
    .n_layer = 1,
    .n_head = 2,
    .n_kv_head = 2,
    .head_size = 2,
    .n_inner = 16,
    .norm_epsilon = 1e-5,
    .initializer_range = 0.02,
    .tie_word_embeddings = true,
    .qkv_bias = true,
    .out_bias = true,
    .mlp_bias = true,
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
    s.buf = dt_buffer_create(&dt_cpu, s.layout->count * 4, "weights", &err);
    s.loaded = dt_buffer_create(&dt_cpu, s.layout->count * 4, "weights", &err);
    s.weights = dt_view_of(s.buf, DT_F32);
    s.into = dt_view_of(s.loaded, DT_F32);
    random_weights(&config, s.layout, s.weights, 1);
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

/* What is loaded in `dir`; -1 with the text without the directory. */
static int load(struct sample *s, const char *dir, char *text)
{
    struct dt_error err = {0};
    size_t n = strlen(dir);
    memset(s->loaded->data, 0, s->loaded->bytes);
    int result = dt_weights_load(dir, s->layout, s->into, &err);
    strcpy(text, err.text);
    for (char *at; (at = strstr(text, dir));)
        memmove(at, at + n, strlen(at + n) + 1);
    if (result < 0)
        assert_int_equal(err.status, EX_DATAERR);
    else
        assert_memory_equal(s->buf->data, s->loaded->data, s->buf->bytes);
    return result;
}

/* Writes the tensors into one file and loads them. */
static int write_and_load(struct sample *s, char text[DT_ERROR_TEXT_BYTES])
{
    struct dt_error err;
    const char *path = scratch_path("model.safetensors");
    assert_int_equal(dt_safetensors_write(path, s->tensors, s->count, NULL,
                                          &(uint64_t){0}, &err),
                     0);
    return load(s, scratch_root, text);
}

static void prefixed_names_fill_the_model(void **state)
{
    char text[DT_ERROR_TEXT_BYTES];
    assert_int_equal(write_and_load(*state, text), 0);
}

/* As in the files of the hub: no prefix, masks, a copy of the embedding. */
static void names_without_a_prefix_fill_the_model(void **state)
{
    struct sample *s = *state;
    char text[DT_ERROR_TEXT_BYTES];
    for (size_t i = 0; i < s->count; i++)
        s->tensors[i].name += strlen("transformer.");
    assert_int_equal(write_and_load(s, text), 0); /* as GPT2Model saves them */
    add_tensor(s, "h.0.attn.bias", 2, 4, 4);
    add_tensor(s, "h.0.attn.masked_bias", 1, 1, 0);
    add_tensor(s, "lm_head.weight", 2, 5, 4);
    assert_int_equal(write_and_load(s, text), 0);
    s->tensors[s->count - 1].view.offset++;
    assert_int_equal(write_and_load(s, text), -1);
    assert_string_equal(text, ": lm_head.weight differs from "
                              "wte.weight, but config.json ties "
                              "them: write \"tie_word_embeddings\": false "
                              "there if the model has a head of its own, or "
                              "save the model without lm_head.weight if its "
                              "head is its embedding");
}

static void either_name_of_tied_weights_fills_them(void **state)
{
    struct sample *s = *state;
    char text[DT_ERROR_TEXT_BYTES];
    enum dt_dtype dtype;
    struct dt_error err;
    for (size_t i = 0; i < s->count; i++)
        if (!strcmp(s->tensors[i].name, "transformer.wte.weight"))
            s->tensors[i].name = "lm_head.weight";
    assert_int_equal(write_and_load(s, text), 0);
    assert_int_equal(dt_weights_dtype(scratch_root, s->layout, &dtype, &err),
                     0);
    assert_int_equal(dtype, DT_F32);
}

static void missing_unexpected_and_misshapen_tensors_are_named(void **state)
{
    struct sample *s = *state;
    char text[DT_ERROR_TEXT_BYTES];
    s->tensors[0].name = "score.weight\n";
    s->tensors[1].shape[0] = 2;
    s->tensors[1].view.count = 8;
    assert_int_equal(write_and_load(s, text), -1);
    assert_string_equal(text, ": missing transformer.wte.weight; "
                              "unexpected score.weight?; "
                              "/model.safetensors: tensor "
                              "\"transformer.wpe.weight\" is [2, 4], "
                              "expected [4, 4]");
}

static void eight_missing_tensors_are_named_and_more_counted(void **state)
{
    struct sample *s = *state;
    char text[DT_ERROR_TEXT_BYTES];
    s->tensors[1] = s->tensors[0];
    s->tensors[1].name = "wte.weight";
    s->count = 2;
    assert_int_equal(write_and_load(s, text), -1);
    assert_string_equal(
        text, ": missing transformer.h.0.attn.c_attn.bias, "
              "transformer.h.0.attn.c_attn.weight, "
              "transformer.h.0.attn.c_proj.bias, "
              "transformer.h.0.attn.c_proj.weight, transformer.h.0.ln_1.bias, "
              "transformer.h.0.ln_1.weight, transformer.h.0.ln_2.bias, "
              "transformer.h.0.ln_2.weight and 7 more");
}

/* As releases of transformers have written models with a tower. */
static void what_files_have_in_two_spellings_has_to_be_equal(void **state)
{
    struct sample *s = *state;
    char text[DT_ERROR_TEXT_BYTES];
    add_tensor(s, "wte.weight", 2, 5, 4);
    s->tensors[s->count - 1].view = s->tensors[0].view;
    assert_int_equal(write_and_load(s, text), 0);
    add_tensor(s, "h.0.ln_1.weight", 1, 4, 0);
    assert_int_equal(write_and_load(s, text), -1);
    assert_string_equal(text, ": h.0.ln_1.weight differs from "
                              "transformer.h.0.ln_1.weight, which is the same "
                              "parameter in another spelling: remove the one "
                              "that is wrong");
}

static void four_wrong_shapes_are_named_and_more_counted(void **state)
{
    struct sample *s = *state;
    char text[DT_ERROR_TEXT_BYTES];
    for (size_t i = 0; i < 6; i++) {
        s->tensors[i].ndim = 1;
        s->tensors[i].shape[0] = 1;
        s->tensors[i].view.count = 1;
    }
    assert_int_equal(write_and_load(s, text), -1);
    assert_non_null(strstr(text, "tensor \"transformer.h.0.ln_1.bias\" is [1], "
                                 "expected [4]; 2 more tensors do not fit"));
}

static void a_sharded_checkpoint_fills_the_model(void **state)
{
    struct sample *s = *state;
    char text[DT_ERROR_TEXT_BYTES];
    struct dt_error err;
    struct dt_ckpt_writer *writer =
        dt_ckpt_begin_dir(scratch_path("shards"), true, &err);
    assert_non_null(writer);
    assert_int_equal(
        dt_ckpt_add_model(writer, 1, s->tensors, s->count, 300, NULL, &err), 0);
    assert_int_equal(dt_ckpt_commit(writer, &err), 0);
    assert_int_equal(load(s, scratch_path("shards"), text), 0);
}

/* Weights of a model are kept in half precision, and so were those of others.
 */
static void weights_convert_between_half_precision_types(void **state)
{
    struct sample *s = *state;
    static const enum dt_dtype types[] = {DT_BF16, DT_F16};
    struct dt_error err;
    const char *path = scratch_path("model.safetensors");
    for (size_t k = 0; k < 2; k++) {
        for (size_t i = 0; i < s->count; i++)
            s->tensors[i].stored = types[1 - k];
        assert_int_equal(dt_safetensors_write(path, s->tensors, s->count, NULL,
                                              &(uint64_t){0}, &err),
                         0);
        struct dt_view into = {s->loaded, 0, s->layout->count, types[k]};
        if (dt_weights_load(scratch_root, s->layout, into, &err) < 0)
            fail_msg("%s", err.text);
        for (size_t i = 0; i < s->count; i++) {
            float value, want = *dt_view_f32(s->tensors[i].view);
            dt_convert(&value, DT_F32,
                       dt_view_data(dt_layout_param(s->layout, into, i)),
                       types[k], 1);
            assert_true(value - want <= 0.01f && want - value <= 0.01f);
            assert_true(want == 0 || value != 0);
        }
    }
}

/* Wherever it is, and in whatever types. */
static void weights_that_are_not_finite_are_refused(void **state)
{
    static const float values[] = {NAN, INFINITY, -INFINITY};
    static const enum dt_dtype types[] = {DT_F32, DT_BF16, DT_F16};
    struct sample *s = *state;
    char text[DT_ERROR_TEXT_BYTES];
    struct dt_view wpe = s->tensors[1].view;
    float *last = &dt_view_f32(wpe)[wpe.count - 1];
    for (size_t k = 0; k < 9; k++) {
        *last = values[k % 3];
        s->into =
            (struct dt_view){s->loaded, 0, s->layout->count, types[k / 3]};
        for (size_t i = 0; i < s->count; i++)
            s->tensors[i].stored = types[(k + 1) % 3];
        assert_int_equal(write_and_load(s, text), -1);
        text[strcspn(text, ",")] = '\0';
        assert_string_equal(text, "/model.safetensors: tensor "
                                  "\"transformer.wpe.weight\" has values that "
                                  "are NaN or infinite");
    }
    *last = 65520;
    s->tensors[1].stored = DT_F32;
    assert_int_equal(write_and_load(s, text), -1);
    assert_non_null(strstr(text, "infinite, or too large for fp16"));
}

/* A layout of another family: its own prefix, a head that is not tied. */
static void llama_weights_load_by_their_own_names(void **state)
{
    static const char *const names[] = {
        "model.embed_tokens.weight", "model.layers.0.self_attn.q_proj.weight",
        "model.layers.1.self_attn.q_proj.weight", "lm_head.weight"};
    struct dt_error err;
    struct sample s = {.layout = dt_layout_create(&err)};
    char text[DT_ERROR_TEXT_BYTES];
    (void)state;
    dt_layout_add_unit(s.layout, DT_UNIT_EMBEDDING, DT_PART_LANGUAGE, &err);
    for (size_t i = 0; i < 4; i++)
        dt_layout_add_param(s.layout, names[i], true, 1, (size_t[]){4}, &err);
    dt_layout_finish(s.layout, 1);
    s.buf = dt_buffer_create(&dt_cpu, s.layout->count * 4, "weights", &err);
    s.loaded = dt_buffer_create(&dt_cpu, s.layout->count * 4, "weights", &err);
    s.weights = dt_view_of(s.buf, DT_F32);
    s.into = dt_view_of(s.loaded, DT_F32);
    for (size_t i = 0; i < 4; i++) {
        add_tensor(&s, names[i] + (i < 2 ? strlen("model.") : 0), 1, 4, 0);
        s.tensors[i].view = dt_layout_param(s.layout, s.weights, i);
        *dt_view_f32(s.tensors[i].view) = (float)i;
    }
    add_tensor(&s, "model.layers.0.self_attn.rotary_emb.inv_freq", 1, 2, 0);
    assert_int_equal(write_and_load(&s, text), 0);
    s.count = 3; /* a file of the part below the head */
    assert_int_equal(write_and_load(&s, text), -1);
    assert_string_equal(text,
                        ": missing lm_head.weight; the model was saved without "
                        "its head: save it from AutoModelForCausalLM, or write "
                        "\"tie_word_embeddings\": true in config.json if its "
                        "head is its embedding");
    s.tensors[2].name = "layers.7.self_attn.q_proj.weight";
    assert_int_equal(write_and_load(&s, text), -1);
    assert_string_equal(text,
                        ": missing lm_head.weight, "
                        "model.layers.1.self_attn.q_proj.weight; unexpected "
                        "layers.7.self_attn.q_proj.weight");
    teardown((void *[]){&s});
}

/* The layout of a model with two tokens more than the files of it have. */
static struct dt_layout *grown_layout(struct dt_model_config *grown,
                                      struct dt_error *err)
{
    *grown = config;
    grown->tie_word_embeddings = false;
    dt_model_config_grow(grown, 7);
    return dt_model_layout(grown, 1, err);
}

/* A file of the smaller model; its head is another tensor. */
static void write_smaller(struct sample *s)
{
    struct dt_error err;
    add_tensor(s, "lm_head.weight", 2, 5, 4);
    s->tensors[s->count - 1].view = dt_view_slice(s->weights, 4, 20);
    if (dt_safetensors_write(scratch_path("model.safetensors"), s->tensors,
                             s->count, NULL, &(uint64_t){0}, &err) < 0)
        fail_msg("%s", err.text);
}

static void new_rows_are_the_mean_of_the_old_ones(void **state)
{
    struct sample *s = *state;
    static const char *const names[] = {"transformer.wte.weight",
                                        "lm_head.weight"};
    struct dt_model_config grown;
    struct dt_error err;
    struct dt_layout *layout = grown_layout(&grown, &err);
    write_smaller(s);
    struct dt_weights *w = dt_weights_open(scratch_root, layout, &err);
    if (!w)
        fail_msg("%s", err.text);
    struct dt_buffer *buf =
        dt_buffer_create(&dt_cpu, layout->count * 4, "weights", &err);
    struct dt_view all = dt_view_of(buf, DT_F32);
    for (size_t at = 0; at < layout->count; at += 5) { /* across rows */
        const size_t left = layout->count - at, n = left < 5 ? left : 5;
        if (dt_weights_read(w, (struct dt_range){at, n},
                            dt_view_slice(all, at, n), &err) < 0)
            fail_msg("%s", err.text);
    }
    for (size_t k = 0; k < 2; k++) {
        const int i = dt_layout_find(layout, names[k]);
        const float *old = (const float *)dt_view_data(s->weights) + 4 * k;
        const float *rows =
            dt_view_f32(dt_layout_param(layout, all, (size_t)i));
        assert_memory_equal(rows, old, 20 * sizeof(float));
        for (size_t c = 0; c < 4; c++) {
            double sum = 0;
            for (size_t r = 0; r < 5; r++)
                sum += (double)old[4 * r + c];
            assert_true(rows[20 + c] == (float)(sum / 5));
            assert_true(rows[24 + c] == (float)(sum / 5));
        }
    }
    dt_buffer_destroy(buf);
    dt_weights_close(w);
    dt_layout_destroy(layout);
}

/* Only the rows that the files had may be missing. */
static void other_shapes_are_refused_in_a_model_that_grows(void **state)
{
    struct sample *s = *state;
    struct dt_model_config grown = config;
    struct dt_error err;
    grown.vocab_size = 6;
    dt_model_config_grow(&grown, 7);
    struct dt_layout *layout = dt_model_layout(&grown, 1, &err);
    if (dt_safetensors_write(scratch_path("model.safetensors"), s->tensors,
                             s->count, NULL, &(uint64_t){0}, &err) < 0)
        fail_msg("%s", err.text);
    assert_null(dt_weights_open(scratch_root, layout, &err));
    assert_non_null(strstr(err.text, "tensor \"transformer.wte.weight\" is "
                                     "[5, 4], expected [7, 4]"));
    dt_layout_destroy(layout);
}

static void a_grown_model_is_saved_with_its_new_vocabulary(void **state)
{
    static const char text[] =
        "{\"model_type\": \"gpt2\", \"vocab_size\": 5, \"n_positions\": 4, "
        "\"n_embd\": 4, \"n_layer\": 1, \"n_head\": 2}";
    struct dt_model_config read;
    struct dt_error err;
    (void)state;
    if (dt_model_config_parse(&read, text, "config.json", &err) < 0)
        fail_msg("%s", err.text);
    dt_model_config_grow(&read, 7);
    char *saved = dt_model_config_format(&read, DT_F32, &err);
    assert_non_null(strstr(saved, "\"vocab_size\": 7"));
    free(saved);
    dt_model_config_fini(&read);
}

static void a_missing_weights_file_is_refused(void **state)
{
    struct sample *s = *state;
    struct dt_error err;
    assert_int_equal(dt_weights_load("/nowhere", s->layout, s->into, &err), -1);
    assert_int_equal(err.status, EX_NOINPUT);
    assert_memory_equal(err.text, "/nowhere: no weights here: ", 27);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(prefixed_names_fill_the_model),
        TEST(names_without_a_prefix_fill_the_model),
        TEST(either_name_of_tied_weights_fills_them),
        TEST(missing_unexpected_and_misshapen_tensors_are_named),
        TEST(eight_missing_tensors_are_named_and_more_counted),
        TEST(four_wrong_shapes_are_named_and_more_counted),
        TEST(a_sharded_checkpoint_fills_the_model),
        TEST(weights_convert_between_half_precision_types),
        TEST(weights_that_are_not_finite_are_refused),
        TEST(new_rows_are_the_mean_of_the_old_ones),
        TEST(other_shapes_are_refused_in_a_model_that_grows),
        TEST(a_grown_model_is_saved_with_its_new_vocabulary),
        TEST(a_missing_weights_file_is_refused),
        TEST(what_files_have_in_two_spellings_has_to_be_equal),
        cmocka_unit_test(llama_weights_load_by_their_own_names),
    };
    return cmocka_run_group_tests_name("weights", tests, NULL, NULL);
}
