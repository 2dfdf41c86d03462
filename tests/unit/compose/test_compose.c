/* SPDX-License-Identifier: Apache-2.0 */
/* test_compose.c - a model that is made of a tower and a language model */
#include "config.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/json.h"
#include "ckpt/safetensors.h"
#include "compose/compose.h"
#include "model/model.h"
#include "tests/unit/scratch.h"
#include "tokenizer/tokenizer.h"
#include "weights/weights.h"

enum { C = 8, TOWER_C = 4, BLOCKS = 2, MAX_TENSORS = 64 };

static const char *const files[] = {"config.json",
                                    "model.safetensors",
                                    "tokenizer.json",
                                    "tokenizer_config.json",
                                    "special_tokens_map.json",
                                    "generation_config.json",
                                    "chat_template.jinja",
                                    "preprocessor_config.json",
                                    "processor_config.json",
                                    "composition.json"};

static float values[1 << 14]; /* 1, 2, 3 ...: of all tensors */
static struct dt_error err;

static void must(int rc)
{
    if (rc < 0)
        fail_msg("%s", err.text);
}

/* --- the two directories --- */

static void write_text(const char *dir, const char *name, const char *text)
{
    char path[128];
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    mkdir(scratch_path(dir), 0777);
    scratch_write(path, text, strlen(text));
}

static char *read_text(const char *dir, const char *name)
{
    char path[128];
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    return dt_file_read(scratch_path(path), 1 << 20, &err);
}

static json_t *read_json(const char *dir, const char *name)
{
    char *text = read_text(dir, name);
    json_t *root = text ? dt_json_parse(name, text, &err) : NULL;
    free(text);
    if (!root)
        fail_msg("%s/%s: %s", dir, name, err.text);
    return root;
}

/* Adds a tensor whose elements begin with the number `first`. */
static void add(struct dt_ckpt_tensor *tensors, size_t *count, char *name,
                int ndim, const size_t *shape)
{
    static struct dt_buffer buf = {values, sizeof(values), &dt_cpu};
    struct dt_ckpt_tensor *tensor = &tensors[*count];
    size_t elements = 1;
    for (int d = 0; d < ndim; d++)
        elements *= shape[d];
    *tensor = (struct dt_ckpt_tensor){.name = name, .ndim = ndim};
    memcpy(tensor->shape, shape, (size_t)ndim * sizeof(*shape));
    tensor->view = dt_view_slice(dt_view_of(&buf, DT_F32), *count, elements);
    tensor->stored = DT_F32;
    ++*count;
}

static void write_tensors(const char *dir, const struct dt_ckpt_tensor *tensors,
                          size_t count)
{
    char path[128];
    snprintf(path, sizeof(path), "%s/model.safetensors", dir);
    must(dt_safetensors_write(scratch_path(path), tensors, count, NULL,
                              &(uint64_t){0}, &err));
    for (size_t i = 0; i < count; i++)
        free((char *)(uintptr_t)tensors[i].name);
}

static char *name_of(const char *prefix, const char *rest)
{
    char *name;
    if (asprintf(&name, "%s%s", prefix, rest) < 0)
        abort();
    return name;
}

/* The tensors of a tower of CLIP or SigLIP, with `prefix` before their names,
 * and those of a model of text, if it is a whole one.
 */
static void write_tower_weights(const char *dir, bool clip, const char *prefix,
                                size_t left_out)
{
    static const char *const parts[] = {
        "self_attn.k_proj", "self_attn.v_proj",
        "self_attn.q_proj", "self_attn.out_proj",
        "layer_norm1",      "layer_norm2",
        "mlp.fc1",          "mlp.fc2"};
    static const char *const ends[] = {".weight", ".bias"};
    const size_t vector[] = {TOWER_C}, square[] = {TOWER_C, TOWER_C};
    const size_t patch[] = {TOWER_C, 3, 2, 2};
    const size_t positions[] = {clip ? 5 : 4, TOWER_C};
    struct dt_ckpt_tensor t[MAX_TENSORS];
    size_t n = 0;
    add(t, &n, name_of(prefix, "embeddings.patch_embedding.weight"), 4, patch);
    add(t, &n, name_of(prefix, "embeddings.position_embedding.weight"), 2,
        positions);
    if (clip) {
        add(t, &n, name_of(prefix, "embeddings.class_embedding"), 1, vector);
        add(t, &n, name_of(prefix, "pre_layrnorm.weight"), 1, vector);
        add(t, &n, name_of(prefix, "pre_layrnorm.bias"), 1, vector);
    } else {
        add(t, &n, name_of(prefix, "embeddings.patch_embedding.bias"), 1,
            vector);
        add(t, &n, name_of(prefix, "head.probe"), 1, vector);
    }
    for (int l = 0; l < BLOCKS; l++)
        for (int i = 0; i < 16; i++) {
            const bool norm = i / 2 == 4 || i / 2 == 5;
            char rest[64];
            snprintf(rest, sizeof(rest), "encoder.layers.%d.%s%s", l,
                     parts[i / 2], ends[i % 2]);
            add(t, &n, name_of(prefix, rest), i % 2 || norm ? 1 : 2,
                i % 2 || norm ? vector : square);
        }
    add(t, &n, name_of(prefix, "post_layernorm.weight"), 1, vector);
    add(t, &n, name_of(prefix, "post_layernorm.bias"), 1, vector);
    if (*prefix) {
        add(t, &n, name_of("text_model.encoder.layers.0.", "mlp.fc1.bias"), 1,
            vector);
        add(t, &n, name_of("", "logit_scale"), 1, (const size_t[]){1});
    }
    for (size_t i = n - left_out; i < n; i++)
        free((char *)(uintptr_t)t[i].name);
    write_tensors(dir, t, n - left_out);
}

#define TOWER(type)                                                            \
    "{\"model_type\":\"" type "\",\"hidden_size\":4,\"intermediate_size\":4,"  \
    "\"num_hidden_layers\":2,\"num_attention_heads\":1,\"image_size\":4,"      \
    "\"patch_size\":2}"

/* A directory with a tower: alone, or in a whole model. */
static void write_tower(const char *dir, bool clip, bool whole)
{
    const char *tower =
        clip ? TOWER("clip_vision_model") : TOWER("siglip_vision_model");
    char text[512];
    snprintf(text, sizeof(text),
             whole ? "{\"model_type\":\"%s\",\"vision_config\":%s,"
                     "\"text_config\":{}}"
                   : "%.0s%s",
             clip ? "clip" : "siglip", tower);
    write_text(dir, "config.json", text);
    write_tower_weights(dir, clip, whole ? "vision_model." : "", 0);
}

/* A tokenizer of the bytes of a vocabulary of `tokens`, the last of which ends
 * a text, with other keys.
 */
static void write_tokenizer(const char *dir, size_t tokens, const char *more)
{
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    fprintf(out, "{%s\"model\": {\"type\": \"BPE\", \"vocab\": {", more);
    for (size_t i = 0; i + 1 < tokens; i++)
        fprintf(out, "\"%c%c\": %zu, ", (int)('a' + i / 26),
                (int)('a' + i % 26), i);
    fprintf(out, "\"</s>\": %zu}, \"merges\": []}}\n", tokens - 1);
    fclose(out);
    write_text(dir, "tokenizer.json", text);
    write_text(dir, "tokenizer_config.json",
               "{\"eos_token\": \"</s>\", \"chat_template\": \"{{ "
               "messages[0]['content'] }}\"}");
    free(text);
}

/* A language model of so many rows and tokens. */
static void write_language(size_t rows, size_t tokens)
{
    static const struct {
        const char *name;
        size_t rows, columns;
    } block[] = {
        {"self_attn.q_proj.weight", C, C},
        {"self_attn.k_proj.weight", C, C},
        {"self_attn.v_proj.weight", C, C},
        {"self_attn.o_proj.weight", C, C},
        {"mlp.gate_proj.weight", C, C},
        {"mlp.up_proj.weight", C, C},
        {"mlp.down_proj.weight", C, C},
        {"input_layernorm.weight", C, 0},
        {"post_attention_layernorm.weight", C, 0},
    };
    struct dt_ckpt_tensor t[MAX_TENSORS];
    size_t n = 0;
    char text[512];
    snprintf(text, sizeof(text),
             "{\"model_type\":\"llama\",\"architectures\":[\"LlamaForCausalLM\""
             "],\"vocab_size\":%zu,\"hidden_size\":8,\"intermediate_size\":8,"
             "\"num_hidden_layers\":1,\"num_attention_heads\":2,"
             "\"max_position_embeddings\":64,\"rms_norm_eps\":1e-6,"
             "\"torch_dtype\":\"float32\",\"eos_token_id\":%zu}",
             rows, tokens - 1);
    dt_file_remove_tree(scratch_path("language"), NULL);
    write_text("language", "config.json", text);
    write_tokenizer("language", tokens, "");
    add(t, &n, name_of("model.", "embed_tokens.weight"), 2,
        (const size_t[]){rows, C});
    for (size_t i = 0; i < sizeof(block) / sizeof(*block); i++)
        add(t, &n, name_of("model.layers.0.", block[i].name),
            block[i].columns ? 2 : 1,
            (const size_t[]){block[i].rows, block[i].columns});
    add(t, &n, name_of("model.", "norm.weight"), 1, (const size_t[]){C});
    add(t, &n, name_of("", "lm_head.weight"), 2, (const size_t[]){rows, C});
    write_tensors("language", t, n);
}

static int setup(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(values) / sizeof(*values); i++)
        values[i] = (float)(i + 1);
    write_tower("clip", true, false);
    write_tower("clip_whole", true, true);
    write_tower("siglip", false, false);
    write_tower("siglip_whole", false, true);
    write_language(62, 62);
    return 0;
}

/* --- the model --- */

static struct dt_compose of_tower(const char *tower)
{
    static char vision[256], language[256];
    snprintf(vision, sizeof(vision), "%s", scratch_path(tower));
    snprintf(language, sizeof(language), "%s", scratch_path("language"));
    return (struct dt_compose){.vision = vision,
                               .language = language,
                               .layer = -2,
                               .seed = 1,
                               .max_shard_bytes = 1 << 30};
}

/* Makes the directory "made". -1: err. */
static int make(const struct dt_compose *compose)
{
    struct dt_composed composed;
    int rc = dt_compose_read(&composed, compose, &err);
    if (rc == 0)
        rc = dt_compose_write(compose, &composed, scratch_path("made"), true,
                              &err);
    dt_composed_fini(&composed);
    return rc;
}

/* Loads the config and opens the weights as a run does. */
static struct dt_weights *open_made(struct dt_model_config *config,
                                    struct dt_layout **layout)
{
    must(dt_model_config_load(config, scratch_path("made"), &err));
    *layout = dt_model_layout(config, 1, &err);
    must(*layout ? 0 : -1);
    struct dt_weights *weights =
        dt_weights_open(scratch_path("made"), *layout, &err);
    must(weights ? 0 : -1);
    return weights;
}

/* The floats of a tensor of "made"; *count is their number. */
static float *read_tensor(const char *name, size_t *count)
{
    struct dt_safetensors *st =
        dt_safetensors_open_model(scratch_path("made"), &err);
    struct dt_ckpt_tensor tensor;
    must(st ? 0 : -1);
    must(dt_safetensors_describe(st, name, &tensor, &err));
    *count = tensor.view.count;
    struct dt_buffer *buf =
        dt_buffer_create(&dt_cpu, *count * sizeof(float), "a tensor", &err);
    float *copy = malloc(*count * sizeof(float));
    tensor.view = dt_view_of(buf, DT_F32);
    must(dt_safetensors_read_all(st, &tensor, 1, &err));
    memcpy(copy, buf->data, *count * sizeof(float));
    dt_buffer_destroy(buf);
    dt_safetensors_close(st);
    return copy;
}

/* Whether a tensor has the values from `first` on. */
static void check_values(const char *name, float first)
{
    size_t count;
    float *copy = read_tensor(name, &count);
    for (size_t i = 0; i < count; i++)
        assert_float_equal(copy[i], first + (float)i, 0);
    free(copy);
}

#define V "vision_tower.vision_model."
#define T "language_model.model."

static void test_has_the_tensors_of_both(void **state)
{
    static const char *const towers[] = {"clip", "clip_whole", "siglip",
                                         "siglip_whole"};
    (void)state;
    for (size_t i = 0; i < 4; i++) {
        struct dt_model_config config;
        struct dt_layout *layout;
        const struct dt_compose compose = of_tower(towers[i]);
        must(make(&compose));
        dt_weights_close(open_made(&config, &layout));
        dt_layout_destroy(layout);
        dt_model_config_fini(&config);
        check_values(V "embeddings.patch_embedding.weight", 1);
        check_values(V "encoder.layers.0.self_attn.k_proj.weight",
                     i > 1 ? 5 : 6);
        check_values(V "encoder.layers.1.mlp.fc2.bias", i > 1 ? 36 : 37);
        check_values(V "post_layernorm.weight", i > 1 ? 37 : 38);
        if (i > 1)
            check_values(V "head.probe", 4);
        check_values(T "layers.0.mlp.down_proj.weight", 8);
        check_values(T "norm.weight", 11);
    }
}

static void test_takes_nothing_else_of_a_whole_model(void **state)
{
    (void)state;
    const struct dt_compose compose = of_tower("clip_whole");
    must(make(&compose));
    struct dt_safetensors *st =
        dt_safetensors_open_model(scratch_path("made"), &err);
    must(st ? 0 : -1);
    /* of the tower, the projector and the language model */
    assert_int_equal(dt_safetensors_count(st), 39 + 4 + 12);
    dt_safetensors_close(st);
}

static void check_growth(size_t rows, size_t tokens, size_t grown)
{
    size_t count;
    write_language(rows, tokens);
    const struct dt_compose compose = of_tower("clip");
    must(make(&compose));
    float *head = read_tensor("language_model.lm_head.weight", &count);
    assert_int_equal(count, grown * C);
    for (size_t r = rows; r < grown; r++)
        for (size_t c = 0; c < C; c++) /* the mean of first + r C + c */
            assert_float_equal(head[r * C + c],
                               12 + (float)c + (float)(rows - 1) / 2 * C, 0);
    free(head);
    json_t *root = read_json("made", "config.json");
    assert_int_equal(json_integer_value(json_object_get(
                         json_object_get(root, "text_config"), "vocab_size")),
                     grown);
    json_decref(root);
}

static void test_grows_to_whole_rows_of_64(void **state)
{
    (void)state;
    check_growth(61, 61, 64);
    check_growth(62, 62, 64);
    check_growth(63, 63, 128);
    check_growth(64, 62, 64); /* the model has rows for the new tokens */
    check_growth(64, 63, 128);
    check_growth(62, 62, 64);
}

static void test_draws_the_projector_by_the_seed(void **state)
{
    static const char matrix[] = "multi_modal_projector.linear_2.weight";
    (void)state;
    size_t count;
    double squares = 0, other = 0;
    struct dt_compose compose = of_tower("clip");
    must(make(&compose));
    float *first = read_tensor(matrix, &count);
    float *bias = read_tensor("multi_modal_projector.linear_1.bias", &count);
    for (size_t i = 0; i < count; i++)
        assert_float_equal(bias[i], 0, 0);
    compose.seed = 2;
    must(make(&compose));
    float *second = read_tensor(matrix, &count);
    for (size_t i = 0; i < count; i++) {
        squares += (double)first[i] * (double)first[i];
        other += fabs((double)first[i] - (double)second[i]);
    }
    assert_in_range(1e4 * sqrt(squares / (double)count), 150, 250);
    assert_true(other > 0);
    free(first);
    free(second);
    free(bias);
}

static void check_keys(const char *tower, const char *strategy, int more,
                       int tokens)
{
    const struct dt_compose compose = of_tower(tower);
    must(make(&compose));
    json_t *config = read_json("made", "config.json");
    json_t *processor = read_json("made", "processor_config.json");
    const char *key = "vision_feature_select_strategy";
    assert_string_equal(json_string_value(json_object_get(config, key)),
                        strategy);
    assert_string_equal(json_string_value(json_object_get(processor, key)),
                        strategy);
    assert_int_equal(json_integer_value(json_object_get(
                         processor, "num_additional_image_tokens")),
                     more);
    assert_int_equal(
        json_integer_value(json_object_get(config, "image_seq_length")),
        tokens);
    assert_int_equal(
        json_integer_value(json_object_get(config, "image_token_index")), 62);
    json_decref(processor);
    json_decref(config);
}

static void test_reads_the_rows_that_fit_the_tower(void **state)
{
    (void)state;
    check_keys("clip", "default", 1, 4);
    check_keys("siglip", "full", 0, 4);
    struct dt_compose compose = of_tower("clip");
    compose.rows = DT_COMPOSE_FULL;
    compose.layer = -1;
    must(make(&compose));
    json_t *config = read_json("made", "config.json");
    assert_int_equal(
        json_integer_value(json_object_get(config, "image_seq_length")), 5);
    assert_int_equal(
        json_integer_value(json_object_get(config, "vision_feature_layer")),
        -1);
    json_decref(config);
}

static void test_adds_tokens_to_the_tokenizer(void **state)
{
    (void)state;
    const struct dt_compose compose = of_tower("clip");
    must(make(&compose));
    struct dt_tokenizer *tokenizer =
        dt_tokenizer_load(scratch_path("made"), &err);
    must(tokenizer ? 0 : -1);
    assert_int_equal(dt_tokenizer_id(tokenizer, "<image>"), 62);
    assert_int_equal(dt_tokenizer_id(tokenizer, "<pad>"), 63);
    assert_int_equal(dt_tokenizer_special(tokenizer, DT_TOKEN_PAD), 63);
    assert_int_equal(dt_tokenizer_special(tokenizer, DT_TOKEN_EOS), 61);
    assert_non_null(strstr(dt_tokenizer_chat_template(tokenizer), "<image>"));
    dt_tokenizer_destroy(tokenizer);
}

/* The list of added tokens begins with "before", and ends after the new ones.
 */
static void check_added(const char *keys, const char *expected)
{
    write_tokenizer("language", 62, keys);
    const struct dt_compose compose = of_tower("clip");
    must(make(&compose));
    char *text = read_text("made", "tokenizer.json");
    must(text ? 0 : -1);
    if (!strstr(text, expected))
        fail_msg("%s: expected %s", text, expected);
    free(text);
}

static void test_leaves_the_rest_of_tokenizer_json(void **state)
{
#define IMAGE                                                                  \
    "{\"content\": \"<image>\", \"single_word\": false, \"lstrip\": false, "   \
    "\"rstrip\": false, \"normalized\": false, \"special\": true, \"id\": 62}"
#define PAD                                                                    \
    "{\"content\": \"<pad>\", \"single_word\": false, \"lstrip\": false, "     \
    "\"rstrip\": false, \"normalized\": false, \"special\": true, \"id\": 63}"
#define END                                                                    \
    "{\"id\": 61, \"content\": \"</s>\", \"special\": true, \"rstrip\": false" \
    ", \"lstrip\": false, \"normalized\": false, \"single_word\": false}"
    (void)state;
    check_added("", "{\n  \"added_tokens\": [\n    " IMAGE ",\n    " PAD
                    "],\"model\": {");
    check_added("\"added_tokens\": [ ], ",
                "{\"added_tokens\": [ \n    " IMAGE ",\n    " PAD "], ");
    check_added("\"version\": \"]\\\"added_tokens\", \"added_tokens\": [" END
                "], \"truncation\": null, ",
                "{\"version\": \"]\\\"added_tokens\", \"added_tokens\": [" END
                ",\n    " IMAGE ",\n    " PAD "], \"truncation\": null, ");
    write_tokenizer("language", 62, "");
}

static void test_takes_tokens_that_are_there(void **state)
{
    (void)state;
    write_text("language", "tokenizer_config.json",
               "{\"eos_token\": \"</s>\", \"pad_token\": \"ab\"}");
    write_text("language", "special_tokens_map.json",
               "{\"pad_token\": \"ab\"}");
    const struct dt_compose compose = of_tower("clip");
    must(make(&compose));
    json_t *config = read_json("made", "config.json");
    json_t *map = read_json("made", "special_tokens_map.json");
    assert_null(json_object_get(config, "pad_token_id"));
    assert_string_equal(json_string_value(json_object_get(map, "pad_token")),
                        "ab");
    json_decref(map);
    json_decref(config);
    write_language(62, 62);
}

static void test_keeps_a_template_that_shows_images(void **state)
{
    static const char own[] =
        "{% for m in messages %}{% if m.content is string %}{{ m.content }}"
        "{% else %}{% for p in m.content %}{{ '<image>' if p.type == 'image' "
        "else p.text }}{% endfor %}{% endif %}</s>{% endfor %}";
    (void)state;
    write_text("language", "chat_template.jinja", own);
    const struct dt_compose compose = of_tower("clip");
    must(make(&compose));
    char *text = read_text("made", "chat_template.jinja");
    must(text ? 0 : -1);
    assert_string_equal(text, own);
    free(text);
    write_language(62, 62);
}

static void test_makes_random_halves(void **state)
{
    (void)state;
    struct dt_model_config config;
    struct dt_layout *layout;
    struct dt_compose compose = of_tower("bare");
    write_text("bare", "config.json", TOWER("siglip_vision_model"));
    assert_int_equal(make(&compose), -1);
    assert_non_null(strstr(err.text, "model.init: random makes new ones"));
    compose.random = true;
    must(make(&compose));
    dt_weights_close(open_made(&config, &layout));
    dt_layout_destroy(layout);
    dt_model_config_fini(&config);
    check_values(T "norm.weight", 11); /* the other half has weights */
    size_t count;
    float *norm = read_tensor(V "post_layernorm.weight", &count);
    assert_float_equal(norm[0], 1, 0);
    free(norm);
    json_t *root = read_json("made", "config.json");
    assert_true(json_is_false(json_object_get(
        json_object_get(root, "vision_config"), "vision_use_head")));
    json_decref(root);
    assert_int_equal(unlink(scratch_path("language/model.safetensors")), 0);
    must(make(&compose));
    write_language(62, 62);
}

static void test_writes_shards(void **state)
{
    (void)state;
    struct dt_model_config config;
    struct dt_layout *layout;
    struct dt_compose compose = of_tower("clip");
    compose.max_shard_bytes = 4096;
    must(make(&compose));
    assert_int_equal(
        access(scratch_path("made/model.safetensors.index.json"), F_OK), 0);
    dt_weights_close(open_made(&config, &layout));
    dt_layout_destroy(layout);
    dt_model_config_fini(&config);
}

/* --- refusals --- */

static void refuse(const char *tower, const char *expected)
{
    const struct dt_compose compose = of_tower(tower);
    dt_file_remove_tree(scratch_path("made"), NULL);
    assert_int_equal(make(&compose), -1);
    if (!strstr(err.text, expected))
        fail_msg("%s: expected %s", err.text, expected);
    assert_int_equal(access(scratch_path("made"), F_OK), -1);
}

static void test_refuses_other_towers(void **state)
{
    (void)state;
    mkdir(scratch_path("empty"), 0777);
    refuse("empty", "model.vision: ");
    refuse("language", "model_type: expected clip_vision_model, "
                       "siglip_vision_model, or clip or siglip with a "
                       "vision_config, got \"llama\"");
    write_text("half", "config.json", "{\"model_type\": \"clip\"}");
    refuse("half", "with a vision_config, got \"clip\"");
    write_text("half", "config.json", TOWER("clip_vision_model"));
    write_tower_weights("half", true, "", 4);
    refuse("half", "missing vision_tower.vision_model.encoder.layers.1.mlp."
                   "fc2.bias, vision_tower.vision_model.encoder.layers.1.mlp."
                   "fc2.weight");
    write_text("half", "config.json", TOWER("siglip_vision_model"));
    refuse("half", "\"embeddings.position_embedding.weight\" is [5, 4], "
                   "expected [4, 4]");
}

static void test_refuses_other_language_models(void **state)
{
    (void)state;
    const struct dt_compose compose = of_tower("clip");
    must(make(&compose));
    char *made = read_text("made", "config.json");
    write_text("language", "config.json", made);
    free(made);
    refuse("clip", "llava is a model of images and text already");
    write_text("language", "config.json",
               "{\"model_type\":\"gpt2\",\"vocab_size\":62,\"n_embd\":8,"
               "\"n_layer\":1,\"n_head\":1,\"n_positions\":8}");
    refuse("clip", "model.language: ");
    refuse("clip", "gpt2 learns an embedding of each position");
    write_language(62, 62);
    unlink(scratch_path("language/tokenizer.json"));
    refuse("clip", "has no tokenizer.json or tokenizer.model");
    write_language(62, 62);
}

static void test_finds_what_it_made(void **state)
{
    (void)state;
    struct dt_compose compose = of_tower("clip");
    char made[256];
    snprintf(made, sizeof(made), "%s", scratch_path("made"));
    dt_file_remove_tree(made, NULL);
    assert_int_equal(dt_compose_find(made, &compose, &err), 0);
    must(make(&compose));
    assert_int_equal(dt_compose_find(made, &compose, &err), 1);
    compose.vision = "/models/other";
    assert_int_equal(dt_compose_find(made, &compose, &err), -1);
    assert_non_null(strstr(err.text, "made was made with model.vision "));
    assert_non_null(strstr(err.text, "/clip, not /models/other: set it back"));
    compose = of_tower("clip");
    compose.seed = 3;
    assert_int_equal(dt_compose_find(made, &compose, &err), -1);
    assert_non_null(strstr(err.text, "with run.seed 1, not 3: set it back"));
    mkdir(scratch_path("foreign"), 0777);
    assert_int_equal(dt_compose_find(scratch_path("foreign"), &compose, &err),
                     -1);
    assert_non_null(strstr(err.text, "foreign has no composition.json"));
}

static void test_has_all_files(void **state)
{
    (void)state;
    write_text("language", "generation_config.json", "{\"eos_token_id\": 61}");
    write_text("language", "special_tokens_map.json", "{}");
    const struct dt_compose compose = of_tower("clip");
    must(make(&compose));
    for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++) {
        char path[64];
        snprintf(path, sizeof(path), "made/%s", files[i]);
        if (access(scratch_path(path), F_OK) < 0)
            fail_msg("%s is not there", path);
    }
    json_t *generation = read_json("made", "generation_config.json");
    assert_int_equal(
        json_integer_value(json_object_get(generation, "pad_token_id")), 63);
    json_decref(generation);
    write_language(62, 62);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_has_the_tensors_of_both),
        cmocka_unit_test(test_takes_nothing_else_of_a_whole_model),
        cmocka_unit_test(test_grows_to_whole_rows_of_64),
        cmocka_unit_test(test_draws_the_projector_by_the_seed),
        cmocka_unit_test(test_reads_the_rows_that_fit_the_tower),
        cmocka_unit_test(test_adds_tokens_to_the_tokenizer),
        cmocka_unit_test(test_leaves_the_rest_of_tokenizer_json),
        cmocka_unit_test(test_takes_tokens_that_are_there),
        cmocka_unit_test(test_keeps_a_template_that_shows_images),
        cmocka_unit_test(test_makes_random_halves),
        cmocka_unit_test(test_writes_shards),
        cmocka_unit_test(test_refuses_other_towers),
        cmocka_unit_test(test_refuses_other_language_models),
        cmocka_unit_test(test_finds_what_it_made),
        cmocka_unit_test(test_has_all_files),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
