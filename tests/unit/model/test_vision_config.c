/* SPDX-License-Identifier: Apache-2.0 */
/* test_vision_config.c - config.json of models with a tower, and their layouts
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model/family/family.h"
#include "model/family/roles.h"
#include "tests/parity/stored.h"

static void parse_stored(struct dt_model_config *c, const json_t *json,
                         const char *name)
{
    struct dt_error err = {0};
    char *text = json_dumps(json, 0);
    assert_non_null(text);
    if (dt_model_config_parse(c, text, name, &err) < 0)
        fail_msg("%s", err.text);
    if (dt_model_config_check(c, &err) < 0)
        fail_msg("%s: %s", name, err.text);
    assert_non_null(c->vision);
    free(text);
}

static bool is_listed(const json_t *list, const char *name)
{
    for (size_t i = 0; i < json_array_size(list); i++)
        if (!strcmp(json_string_value(json_array_get(list, i)), name))
            return true;
    return false;
}

/* The shape is that of transformers; a matrix decays, and what is in `decays`.
 */
static void check_param(const struct dt_param *param, const json_t *grad,
                        const json_t *decays)
{
    const json_t *shape = json_array_get(grad, 0);
    if (json_array_size(grad) < 2)
        fail_msg("%s: transformers has no gradient of it", param->name);
    assert_int_equal(param->ndim, json_array_size(shape));
    for (int d = 0; d < param->ndim; d++)
        assert_int_equal(param->shape[d],
                         json_integer_value(json_array_get(shape, (size_t)d)));
    if (param->decay != (param->ndim > 1 || is_listed(decays, param->name)))
        fail_msg("%s decays in one of both only", param->name);
}

static void check_variant(const char *name, const json_t *stored)
{
    const json_t *grads = json_object_get(stored, "grads"), *grad;
    struct dt_model_config c;
    size_t computed = 0;
    const char *key;
    parse_stored(&c, json_object_get(stored, "config"), name);
    struct dt_layout *layout = dt_model_layout(&c, 1, NULL);
    assert_non_null(layout);
    for (size_t i = 0; i < layout->param_count; i++)
        check_param(&layout->params[i],
                    json_object_get(grads, layout->params[i].name),
                    json_object_get(stored, "decays"));
    json_object_foreach((json_t *)grads, key, grad) computed +=
        json_array_size(grad) > 1;
    assert_int_equal(layout->param_count, computed);
    assert_int_equal(layout->unit_count,
                     dt_model_first_unit(&c) + c.n_layer + 2);
    dt_layout_destroy(layout);
    dt_model_config_fini(&c);
}

static void layouts_are_what_transformers_trains(void **state)
{
    json_t *file = stored_load("vision.json"), *stored;
    const char *name;
    (void)state;
    json_object_foreach(json_object_get(file, "variants"), name, stored)
        check_variant(name, stored);
    json_decref(file);
}

static void files_of_all_releases_are_read(void **state)
{
    json_t *file = stored_load("vision_names.json"), *families, *stored;
    const char *release, *name;
    struct dt_model_config c;
    (void)state;
    json_object_foreach(file, release, families)
        json_object_foreach(families, name, stored)
    {
        parse_stored(&c, json_object_get(stored, "config"), name);
        assert_int_equal(c.vocab_size, 79);
        assert_int_equal(c.n_embd, 24);
        assert_int_equal(c.vision->tower.n_embd, 24);
        assert_int_equal(c.vision->token, 77);
        assert_int_equal(c.vision->video,
                         strncmp(name, "qwen", 4) == 0 ? 78 : -1);
        assert_int_equal(c.vision->layers, 1);
        dt_model_config_fini(&c);
    }
    json_decref(file);
}

/* The forms of published files: keys that only their classes have, or that are
 * at the root, or that transformers ignores.
 */
static const char llava_file[] =
    "{\"architectures\": [\"LlavaForConditionalGeneration\"],"
    " \"ignore_index\": -100, \"image_token_index\": 32000,"
    " \"model_type\": \"llava\", \"pad_token_id\": 32001,"
    " \"projector_hidden_act\": \"gelu\", \"text_config\": {"
    "  \"_name_or_path\": \"lmsys/vicuna-7b-v1.5\","
    "  \"architectures\": [\"LlamaForCausalLM\"],"
    "  \"max_position_embeddings\": 4096, \"model_type\": \"llama\","
    "  \"rms_norm_eps\": 1e-05, \"torch_dtype\": \"float16\","
    "  \"vocab_size\": 32064}, \"torch_dtype\": \"float16\","
    " \"vision_config\": {\"hidden_size\": 1024, \"image_size\": 336,"
    "  \"intermediate_size\": 4096, \"model_type\": \"clip_vision_model\","
    "  \"num_attention_heads\": 16, \"num_hidden_layers\": 24,"
    "  \"patch_size\": 14, \"projection_dim\": 768, \"vocab_size\": 32000},"
    " \"vision_feature_layer\": -2,"
    " \"vision_feature_select_strategy\": \"default\","
    " \"vocab_size\": 32064}";

static const char smolvlm_file[] =
    "{\"architectures\": [\"Idefics3ForConditionalGeneration\"],"
    " \"image_token_id\": 49190, \"model_type\": \"idefics3\","
    " \"scale_factor\": 4, \"text_config\": {"
    "  \"architectures\": [\"VLlama3ForCausalLM\"], \"head_dim\": 64,"
    "  \"hidden_size\": 576, \"intermediate_size\": 1536,"
    "  \"max_position_embeddings\": 8192, \"model_type\": \"llama\","
    "  \"num_attention_heads\": 9, \"num_hidden_layers\": 30,"
    "  \"num_key_value_heads\": 3, \"pad_token_id\": 2,"
    "  \"pixel_shuffle_factor\": 4, \"qk_layer_norms\": false,"
    "  \"rms_norm_eps\": 1e-05, \"rope_theta\": 100000,"
    "  \"tie_word_embeddings\": true, \"vocab_size\": 49280},"
    " \"tie_word_embeddings\": false, \"torch_dtype\": \"bfloat16\","
    " \"vision_config\": {\"hidden_size\": 768, \"image_size\": 512,"
    "  \"max_image_size\": {\"longest_edge\": 512},"
    "  \"model_type\": \"idefics3\", \"num_attention_heads\": 12,"
    "  \"patch_size\": 16, \"size\": {\"longest_edge\": 2048},"
    "  \"tie_word_embeddings\": false, \"use_base_siglip\": true},"
    " \"vocab_size\": 49280}";

static const char qwen_file[] =
    "{\"architectures\": [\"Qwen2_5_VLForConditionalGeneration\"],"
    " \"attention_dropout\": 0.0, \"bos_token_id\": 151643,"
    " \"eos_token_id\": 151645, \"vision_start_token_id\": 151652,"
    " \"vision_end_token_id\": 151653, \"vision_token_id\": 151654,"
    " \"image_token_id\": 151655, \"video_token_id\": 151656,"
    " \"hidden_act\": \"silu\", \"hidden_size\": 2048,"
    " \"initializer_range\": 0.02, \"intermediate_size\": 11008,"
    " \"max_position_embeddings\": 128000, \"max_window_layers\": 70,"
    " \"model_type\": \"qwen2_5_vl\", \"num_attention_heads\": 16,"
    " \"num_hidden_layers\": 36, \"num_key_value_heads\": 2,"
    " \"rms_norm_eps\": 1e-06, \"rope_theta\": 1000000.0,"
    " \"sliding_window\": 32768, \"tie_word_embeddings\": true,"
    " \"torch_dtype\": \"bfloat16\", \"use_sliding_window\": false,"
    " \"vision_config\": {\"depth\": 32, \"hidden_act\": \"silu\","
    "  \"hidden_size\": 1280, \"intermediate_size\": 3420,"
    "  \"num_heads\": 16, \"in_chans\": 3, \"out_hidden_size\": 2048,"
    "  \"patch_size\": 14, \"spatial_merge_size\": 2,"
    "  \"spatial_patch_size\": 14, \"window_size\": 112,"
    "  \"fullatt_block_indexes\": [7, 15, 23, 31],"
    "  \"tokens_per_second\": 2, \"temporal_patch_size\": 2},"
    " \"rope_scaling\": {\"type\": \"mrope\","
    "  \"mrope_section\": [16, 24, 24]}, \"vocab_size\": 151936}";

static const char gemma_file[] =
    "{\"architectures\": [\"Gemma3ForConditionalGeneration\"],"
    " \"boi_token_index\": 255999, \"eoi_token_index\": 256000,"
    " \"eos_token_id\": [1, 106], \"image_token_index\": 262144,"
    " \"initializer_range\": 0.02, \"mm_tokens_per_image\": 256,"
    " \"model_type\": \"gemma3\", \"text_config\": {"
    "  \"hidden_size\": 2560, \"intermediate_size\": 10240,"
    "  \"model_type\": \"gemma3_text\", \"num_hidden_layers\": 34,"
    "  \"rope_scaling\": {\"factor\": 8.0, \"rope_type\": \"linear\"},"
    "  \"sliding_window\": 1024}, \"torch_dtype\": \"bfloat16\","
    " \"vision_config\": {\"hidden_size\": 1152, \"image_size\": 896,"
    "  \"intermediate_size\": 4304, \"model_type\": \"siglip_vision_model\","
    "  \"num_attention_heads\": 16, \"num_hidden_layers\": 27,"
    "  \"patch_size\": 14, \"vision_use_head\": false}}";

static const char qwen3_file[] =
    "{\"architectures\": [\"Qwen3VLForConditionalGeneration\"],"
    " \"image_token_id\": 151655, \"model_type\": \"qwen3_vl\","
    " \"text_config\": {\"attention_bias\": false, \"attention_dropout\": 0.0,"
    "  \"bos_token_id\": 151643, \"dtype\": \"bfloat16\","
    "  \"eos_token_id\": 151645, \"head_dim\": 128, \"hidden_act\": \"silu\","
    "  \"hidden_size\": 2560, \"initializer_range\": 0.02,"
    "  \"intermediate_size\": 9728, \"max_position_embeddings\": 262144,"
    "  \"model_type\": \"qwen3_vl_text\", \"num_attention_heads\": 32,"
    "  \"num_hidden_layers\": 36, \"num_key_value_heads\": 8,"
    "  \"rms_norm_eps\": 1e-06, \"rope_scaling\": {"
    "   \"mrope_interleaved\": true, \"mrope_section\": [24, 20, 20],"
    "   \"rope_type\": \"default\"}, \"rope_theta\": 5000000,"
    "  \"tie_word_embeddings\": true, \"use_cache\": true,"
    "  \"vocab_size\": 151936}, \"tie_word_embeddings\": true,"
    " \"transformers_version\": \"4.57.0.dev0\", \"video_token_id\": 151656,"
    " \"vision_config\": {\"deepstack_visual_indexes\": [5, 11, 17],"
    "  \"depth\": 24, \"hidden_act\": \"gelu_pytorch_tanh\","
    "  \"hidden_size\": 1024, \"in_channels\": 3,"
    "  \"initializer_range\": 0.02, \"intermediate_size\": 4096,"
    "  \"model_type\": \"qwen3_vl\", \"num_heads\": 16,"
    "  \"num_position_embeddings\": 2304, \"out_hidden_size\": 2560,"
    "  \"patch_size\": 16, \"spatial_merge_size\": 2,"
    "  \"temporal_patch_size\": 2}, \"vision_end_token_id\": 151653,"
    " \"vision_start_token_id\": 151652}";

static void read_file(struct dt_model_config *c, const char *json)
{
    struct dt_error err = {0};
    if (dt_model_config_parse(c, json, "c", &err) < 0)
        fail_msg("%s", err.text);
}

static void published_files_are_read(void **state)
{
    struct dt_model_config c;
    const struct dt_vision_config *v;
    (void)state;
    read_file(&c, llava_file);
    v = c.vision;
    assert_int_equal(c.n_embd, 4096); /* of the class, as those below */
    assert_int_equal(c.n_layer, 32);
    assert_int_equal(c.n_kv_head, 32);
    assert_int_equal(c.n_inner, 11008);
    assert_int_equal(c.vocab_size, 32064);
    assert_int_equal(c.pad, 32001);
    assert_int_equal(c.padding_row, -1);
    assert_false(c.tie_word_embeddings);
    assert_int_equal(v->grid, 24);
    assert_int_equal(v->tower.n_positions, 577);
    assert_int_equal(v->layers, 24);
    assert_int_equal(v->tower.n_layer, 23);
    assert_int_equal(v->taps[0], 23);
    assert_int_equal(v->tower.gate, DT_QUICK_GELU);
    assert_int_equal(dt_vision_features(v, 24, 24), 576);
    assert_int_equal(v->token, 32000);
    dt_model_config_fini(&c);

    read_file(&c, smolvlm_file);
    v = c.vision;
    assert_string_equal(dt_model_type(&c), "idefics3");
    assert_int_equal(v->tower.n_inner, 3072);
    assert_int_equal(v->tower.n_layer, 12);
    assert_int_equal(v->grid, 32);
    assert_int_equal(dt_vision_features(v, 32, 32), 64);
    assert_int_equal(dt_vision_merged(v), 768 * 16);
    assert_false(c.tie_word_embeddings); /* the root alone says it */
    dt_model_config_fini(&c);

    read_file(&c, gemma_file);
    v = c.vision;
    assert_int_equal(c.vocab_size, 262208);
    assert_int_equal(c.n_kv_head, 4);
    assert_int_equal(c.head_size, 256);
    assert_int_equal(c.window, 1024);
    assert_true(dt_layers_have(&c.full, 5));
    assert_true(c.rope_factor == 8 && c.rope_local_theta == 1e4);
    assert_true(c.tie_word_embeddings);
    assert_int_equal(c.eos_count, 2);
    assert_int_equal(v->layers, 27);
    assert_int_equal(v->tower.n_layer, 27);
    assert_int_equal(v->grid, 64);
    assert_int_equal(v->merge, 4);
    assert_int_equal(dt_vision_features(v, 64, 64), 256);
    assert_int_equal(dt_vision_merged(v), 1152);
    assert_int_equal(v->token, 262144);
    dt_model_config_fini(&c);

    read_file(&c, qwen_file);
    v = c.vision;
    assert_int_equal(c.n_embd, 2048);
    assert_true(c.tie_word_embeddings);
    assert_true(c.rope_theta == 1e6);
    assert_int_equal(c.rope_section[0], 16);
    assert_int_equal(c.rope_section[2], 24);
    assert_int_equal(c.window, 0);
    assert_int_equal(c.eos[0], 151645);
    assert_int_equal(v->grid, 0);
    assert_int_equal(v->window, 4);
    assert_int_equal(v->tower.window, 64);
    assert_true(dt_layers_have(&v->tower.full, 7));
    assert_false(dt_layers_have(&v->tower.full, 8));
    assert_int_equal(v->inner, 5120);
    assert_int_equal(dt_vision_row(v), 3 * 2 * 14 * 14);
    assert_int_equal(dt_vision_features(v, 20, 12), 60);
    dt_model_config_fini(&c);

    read_file(&c, qwen3_file);
    v = c.vision;
    assert_int_equal(c.head_size, 128);
    assert_true(c.tie_word_embeddings);
    assert_true(c.rope_theta == 5e6);
    assert_int_equal(dt_rope_axis(&c, 0), 0);
    assert_int_equal(dt_rope_axis(&c, 58), 1);
    assert_int_equal(dt_rope_axis(&c, 59), 2);
    assert_int_equal(dt_rope_axis(&c, 61), 0);
    assert_int_equal(v->places, 48);
    assert_int_equal(v->layers, 24);
    assert_int_equal(v->tower.n_layer, 24);
    assert_int_equal(v->deep_count, 3);
    assert_int_equal(v->deep[0], 6);
    assert_int_equal(v->deep[2], 18);
    assert_int_equal(dt_model_first_unit(&c), 24 + 3 + 3);
    assert_int_equal(v->inner, 4096);
    dt_model_config_fini(&c);
}

/* --- what differs --- */

/* A stored configuration with one key changed: "tower.key" or "key". */
static void parse_changed(struct dt_model_config *c, const json_t *json,
                          const char *part, const char *key, const char *value,
                          struct dt_error *err)
{
    json_t *root = json_deep_copy(json);
    json_t *object = part ? json_object_get(root, part) : root;
    assert_non_null(root);
    json_object_set_new(object, key, json_loads(value, JSON_DECODE_ANY, NULL));
    char *text = json_dumps(root, 0);
    json_decref(root);
    dt_model_config_parse(c, text, "c", err);
    free(text);
}

static void what_computes_differently_is_told_by_its_key(void **state)
{
    static const struct {
        const char *variant, *part, *key, *value, *told, *was, *is;
    } cases[] = {
        {"llava", NULL, "vision_feature_layer", "-1", "vision_feature_layer",
         "a list", "another one"},
        {"llava", NULL, "vision_feature_select_strategy", "\"full\"",
         "vision_feature_select_strategy", "default", "full"},
        {"llava", NULL, "projector_hidden_act", "\"gelu_new\"",
         "projector_hidden_act", "gelu", "gelu_pytorch_tanh"},
        {"llava", NULL, "multimodal_projector_bias", "false",
         "multimodal_projector_bias", "true", "false"},
        {"llava", "vision_config", "hidden_act", "\"gelu\"",
         "vision_config.hidden_act", "quick_gelu", "gelu"},
        {"llava", "vision_config", "image_size", "12",
         "vision_config.image_size", "8", "12"},
        {"llava", "vision_config", "intermediate_size", "20",
         "vision_config.intermediate_size", "28", "20"},
        {"llava", "text_config", "rms_norm_eps", "1e-05", "rms_norm_eps",
         "1e-06", "1e-05"},
        {"smolvlm", NULL, "scale_factor", "3", "scale_factor", "2", "3"},
        {"smolvlm", NULL, "model_type", "\"idefics3\"", "model_type", "smolvlm",
         "idefics3"},
        {"gemma3", NULL, "mm_tokens_per_image", "4", "mm_tokens_per_image",
         "16", "4"},
        {"gemma3", "text_config", "sliding_window", "7", "sliding_window", "5",
         "7"},
        {"qwen2_vl", "vision_config", "mlp_ratio", "3",
         "vision_config.intermediate_size", "80", "120"},
        {"qwen2_5_vl", "vision_config", "fullatt_block_indexes", "[0]",
         "vision_config.fullatt_block_indexes", "a list", "another one"},
        {"qwen2_5_vl", "vision_config", "window_size", "8",
         "vision_config.window_size", "16", "8"},
        {"qwen3_vl", "vision_config", "num_position_embeddings", "36",
         "vision_config.num_position_embeddings", "25", "36"},
        {"qwen3_vl", "vision_config", "deepstack_visual_indexes", "[1]",
         "vision_config.deepstack_visual_indexes", "a list", "another one"},
    };
    json_t *file = stored_load("vision.json");
    const json_t *variants = json_object_get(file, "variants");
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        const json_t *json = json_object_get(
            json_object_get(variants, cases[i].variant), "config");
        struct dt_model_config was, same, is;
        struct dt_model_change change;
        parse_stored(&was, json, "c");
        parse_stored(&same, json, "c");
        if (!strcmp(cases[i].key, "model_type"))
            json_object_del((json_t *)json, "architectures");
        struct dt_error err = {0};
        parse_changed(&is, json, cases[i].part, cases[i].key, cases[i].value,
                      &err);
        assert_string_equal(err.text, "");
        assert_null(dt_model_config_differ(&was, &same));
        assert_int_equal(dt_model_config_hash(&was),
                         dt_model_config_hash(&same));
        assert_true(dt_model_config_change(&was, &is, &change));
        assert_string_equal(change.key, cases[i].told);
        assert_string_equal(change.was, cases[i].was);
        assert_string_equal(change.is, cases[i].is);
        assert_true(dt_model_config_hash(&was) != dt_model_config_hash(&is));
        dt_model_config_fini(&was);
        dt_model_config_fini(&same);
        dt_model_config_fini(&is);
    }
    json_decref(file);
}

/* --- what is refused --- */

#define TEXT "text_config"
#define TOWER "vision_config"
static const struct {
    const char *variant, *part, *key, *value, *text;
} refused[] = {
    {"llava", NULL, "architectures", "[\"LlamaForCausalLM\"]",
     "architectures: expected LlavaForConditionalGeneration, got "
     "\"LlamaForCausalLM\""},
    {"llava", NULL, "quantization_config", "{\"bits\": 4}",
     "quantization_config: expected null, got {\"bits\":4}"},
    {"llava", NULL, "projector_hidden_act", "\"relu\"",
     "projector_hidden_act: expected silu, gelu, gelu_pytorch_tanh or "
     "quick_gelu, got \"relu\""},
    {"llava", NULL, "multimodal_projector_bias", "1",
     "multimodal_projector_bias: expected true or false, got 1"},
    {"llava", NULL, "vision_feature_select_strategy", "\"cls_patch\"",
     "vision_feature_select_strategy: expected default or full, got "
     "\"cls_patch\""},
    {"llava", NULL, "vision_feature_layer", "4",
     "vision_feature_layer: expected an integer from -4 to 3, or a list of at "
     "most 8, got 4"},
    {"llava", NULL, "vision_feature_layer", "[-5]",
     "vision_feature_layer: expected an integer from -4 to 3, or a list of at "
     "most 8, got -5"},
    {"llava", NULL, "vision_feature_layer", "[]",
     "vision_feature_layer: expected an integer from -4 to 3, or a list of at "
     "most 8, got []"},
    {"llava", NULL, "vision_feature_layer", "[1, 1, 1, 1, 1, 1, 1, 1, 2]",
     "vision_feature_layer: expected an integer from -4 to 3, or a list of at "
     "most 8, got 2"},
    {"llava", NULL, "image_token_index", "-1",
     "image_token_index: expected a token id, got -1"},
    {"llava", NULL, "image_token_index", "\"x\"",
     "image_token_index: expected a token id, got \"x\""},
    {"llava", NULL, "vision_config", "null",
     "vision_config: expected an object, got null"},
    {"llava", NULL, "text_config", "null",
     "text_config: expected an object, got null"},
    {"llava", NULL, "text_config", "[]",
     "text_config: expected an object, got []"},
    {"llava", NULL, "tie_word_embeddings", "\"no\"",
     "tie_word_embeddings: expected true or false, got \"no\""},
    {"llava", TEXT, "model_type", "\"gpt2\"",
     "text_config: model_type: expected one of gemma2, gemma3_text, granite, "
     "llama, mistral, olmo2, phi3, qwen2, qwen3, smollm3, got \"gpt2\""},
    {"llava", TEXT, "hidden_size", "0",
     "text_config: hidden_size: expected an integer from 1 to 65536, got 0"},
    {"llava", TOWER, "model_type", "\"dinov2\"",
     "vision_config: model_type: expected one of clip_vision_model, "
     "siglip_vision_model, got \"dinov2\""},
    {"llava", TOWER, "attention_dropout", "0.1",
     "vision_config: attention_dropout: expected a number from 0 to 0, got "
     "0.1"},
    {"llava", TOWER, "num_channels", "4",
     "vision_config: num_channels: expected 3, got 4"},
    {"llava", TOWER, "num_channels", "1",
     "vision_config: num_channels: expected 3, got 1"},
    {"llava", TOWER, "image_size", "[8, 8]",
     "vision_config: image_size: expected an integer from 1 to 16384, got "
     "[8,8]"},
    {"llava", TOWER, "image_size", "1",
     "vision_config: image_size: expected at least patch_size 2, got 1"},
    {"llava", TOWER, "patch_size", "257",
     "vision_config: patch_size: expected an integer from 1 to 256, got 257"},
    {"llava", TOWER, "hidden_act", "\"relu\"",
     "vision_config: hidden_act: expected silu, gelu, gelu_pytorch_tanh or "
     "quick_gelu, got \"relu\""},
    {"llava", TOWER, "num_attention_heads", "3",
     "vision_config: hidden_size: 20 is not a multiple of num_attention_heads "
     "3"},
    {"llava", TOWER, "num_attention_heads", "4",
     "vision_config: num_attention_heads: expected heads of an even size up "
     "to 1024, got 5"},
    {"smolvlm", NULL, "scale_factor", "4",
     "scale_factor: 4 does not divide the 6 patches of a side "
     "(vision_config.image_size / patch_size)"},
    {"smolvlm", NULL, "scale_factor", "65",
     "scale_factor: expected an integer from 1 to 64, got 65"},
    {"gemma3", NULL, "mm_tokens_per_image", "8",
     "mm_tokens_per_image: expected a square whose side divides the 8 patches "
     "of a side (vision_config.image_size / patch_size), got 8"},
    {"gemma3", NULL, "mm_tokens_per_image", "9",
     "mm_tokens_per_image: expected a square whose side divides the 8 patches "
     "of a side (vision_config.image_size / patch_size), got 9"},
    {"gemma3", NULL, "mm_tokens_per_image", "0",
     "mm_tokens_per_image: expected an integer from 1 to 65536, got 0"},
    {"gemma3", TEXT, "use_bidirectional_attention", "true",
     "text_config: use_bidirectional_attention: expected false, got true"},
    {"qwen2_vl", TOWER, "hidden_size", "40",
     "vision_config.hidden_size: expected 32, the hidden_size of the language "
     "model, got 40"},
    {"qwen2_vl", TOWER, "mlp_ratio", "65",
     "vision_config.mlp_ratio: expected an integer from 1 to 64, got 65"},
    {"qwen2_vl", TOWER, "temporal_patch_size", "3",
     "vision_config: temporal_patch_size: expected 2, got 3"},
    {"qwen2_vl", TOWER, "temporal_patch_size", "1",
     "vision_config: temporal_patch_size: expected 2, got 1"},
    {"qwen2_vl", TOWER, "num_heads", "20",
     "vision_config.num_heads: expected heads of a size that divides by 4, "
     "got 2"},
    {"qwen2_vl", TOWER, "rope_parameters", "{\"rope_type\": \"default\"}",
     "vision_config: rope_parameters.rope_type: expected axial, got "
     "\"default\""},
    {"qwen2_vl", TOWER, "spatial_merge_size", "0",
     "vision_config.spatial_merge_size: expected an integer from 1 to 64, got "
     "0"},
    {"qwen2_vl", TEXT, "rope_parameters", "{\"mrope_section\": [1, 1, 1]}",
     "text_config: rope_parameters.mrope_section: expected three integers "
     "whose sum is 4, half a head, got [1,1,1]"},
    {"qwen2_vl", TEXT, "rope_parameters", "{\"rope_type\": \"default\"}",
     "text_config: rope_parameters.mrope_section: expected three integers "
     "whose sum is 4, half a head, got nothing"},
    {"qwen2_vl", TEXT, "rope_parameters", "{\"rope_type\": \"mrope2\"}",
     "rope_parameters.rope_type: expected one of default, linear, llama3, "
     "dynamic, yarn, got \"mrope2\""},
    {"qwen2_vl", TEXT, "rope_parameters",
     "{\"mrope_section\": [1, 1, 2], \"mrope_interleaved\": true}",
     "rope_parameters.mrope_interleaved: expected false, got true"},
    {"qwen3_vl", TEXT, "rope_parameters",
     "{\"mrope_section\": [3, 2, 1], \"mrope_interleaved\": false}",
     "rope_parameters.mrope_interleaved: expected true, got false"},
    {"qwen2_5_vl", TOWER, "out_hidden_size", "null",
     "vision_config.out_hidden_size: expected 32, the hidden_size of the "
     "language model, got 3584"},
    {"qwen2_5_vl", TOWER, "window_size", "3",
     "vision_config.window_size: expected at least 4, the side of a feature, "
     "got 3"},
    {"qwen2_5_vl", TOWER, "fullatt_block_indexes", "1",
     "vision_config.fullatt_block_indexes: expected a list of numbers of "
     "blocks, got 1"},
    {"qwen2_5_vl", TOWER, "fullatt_block_indexes", "[\"all\"]",
     "vision_config.fullatt_block_indexes: expected a list of numbers of "
     "blocks, got \"all\""},
    {"qwen3_vl", TOWER, "num_position_embeddings", "24",
     "vision_config.num_position_embeddings: expected a square, got 24"},
    {"qwen3_vl", TOWER, "deepstack_visual_indexes", "[1, 0]",
     "vision_config.deepstack_visual_indexes: expected at most 2 numbers of "
     "blocks that rise, below depth 3, got [1,0]"},
    {"qwen3_vl", TOWER, "deepstack_visual_indexes", "[3]",
     "vision_config.deepstack_visual_indexes: expected at most 2 numbers of "
     "blocks that rise, below depth 3, got [3]"},
    {"qwen3_vl", TOWER, "deepstack_visual_indexes", "[0, 1, 2]",
     "vision_config.deepstack_visual_indexes: expected at most 2 numbers of "
     "blocks that rise, below depth 3, got [0,1,2]"},
    {"qwen3_vl", TOWER, "deepstack_visual_indexes", "[-1]",
     "vision_config.deepstack_visual_indexes: expected at most 2 numbers of "
     "blocks that rise, below depth 3, got [-1]"},
    {"qwen3_vl", TOWER, "deepstack_visual_indexes", "0",
     "vision_config.deepstack_visual_indexes: expected at most 2 numbers of "
     "blocks that rise, below depth 3, got 0"},
    {"qwen3_vl", TOWER, "deepstack_visual_indexes", "null",
     "vision_config.deepstack_visual_indexes: expected at most 2 numbers of "
     "blocks that rise, below depth 3, got nothing"},
};

static void what_no_switch_has_is_refused_by_its_key(void **state)
{
    json_t *file = stored_load("vision.json");
    const json_t *variants = json_object_get(file, "variants");
    (void)state;
    for (size_t i = 0; i < sizeof(refused) / sizeof(*refused); i++) {
        struct dt_model_config c;
        struct dt_error err = {0};
        parse_changed(
            &c,
            json_object_get(json_object_get(variants, refused[i].variant),
                            "config"),
            refused[i].part, refused[i].key, refused[i].value, &err);
        if (!strstr(err.text, refused[i].text))
            fail_msg("expected %s in %s", refused[i].text, err.text);
        assert_int_equal(err.status, EX_DATAERR);
        dt_model_config_fini(&c);
    }
    json_decref(file);
}

/* Sides of tiles on which transformers rounds some patch to another's place. */
static void tiles_have_the_places_of_transformers(void **state)
{
    json_t *file = stored_load("vision.json");
    const json_t *off = json_object_get(file, "off");
    const struct dt_vision_family *family = dt_vision_family_find("smolvlm");
    size_t count = 0;
    (void)state;
    for (size_t n = 2; n <= 128; n++) {
        bool moved = false;
        for (size_t i = 0; i < n; i++)
            moved |= family->place(n, i) != i;
        count += moved;
        if (moved)
            assert_int_equal(json_integer_value(json_array_get(off, count - 1)),
                             n);
    }
    assert_int_equal(count, json_array_size(off));
    json_decref(file);
}

/* A tower more or less is a difference, too. */
static void a_model_of_text_is_another_one(void **state)
{
    json_t *file = stored_load("vision.json");
    const json_t *json = json_object_get(
        json_object_get(json_object_get(file, "variants"), "llava"), "config");
    struct dt_model_config seeing, text;
    struct dt_model_change change;
    (void)state;
    parse_stored(&seeing, json, "c");
    text = seeing;
    text.vision = NULL;
    assert_true(dt_model_config_change(&seeing, &text, &change));
    assert_string_equal(change.key, "vision_config");
    assert_string_equal(dt_model_type(&seeing), "llava");
    assert_string_equal(dt_model_type(&text), "llama");
    dt_model_config_fini(&seeing);
    json_decref(file);
}

/* --- what is written --- */

static const json_t *part_of(const json_t *root, const char *part)
{
    return part ? json_object_get(root, part) : root;
}

static void assert_word(const json_t *root, const char *part, const char *key,
                        const char *word)
{
    const json_t *value = json_object_get(part_of(root, part), key);
    if (!word)
        assert_null(value);
    else
        assert_string_equal(json_string_value(value), word);
}

static void assert_vocab_size(const json_t *root, const char *part, int size)
{
    assert_int_equal(
        json_integer_value(json_object_get(part_of(root, part), "vocab_size")),
        size);
}

/* The type and a grown vocabulary are written wherever the file has them. */
static void files_are_written_as_they_were_read(void **state)
{
    static const struct {
        const char *release, *family, *dtype, *inside;
        bool root, part; /* where vocab_size is */
    } cases[] = {
        {"4.51.3", "llava", "torch_dtype", NULL, false, true},
        {"4.51.3", "qwen2_vl", "torch_dtype", NULL, true, false},
        {"4.57.6", "qwen2_vl", "dtype", NULL, true, true},
        {"5.24.0", "qwen2_vl", "dtype", NULL, false, true},
    };
    json_t *file = stored_load("vision_names.json");
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        json_t *was = json_object_get(
            json_object_get(json_object_get(file, cases[i].release),
                            cases[i].family),
            "config");
        struct dt_model_config c;
        parse_stored(&c, was, "c");
        dt_model_config_grow(&c, 80);
        assert_int_equal(c.stored_vocab, 79);
        char *text = dt_model_config_format(&c, DT_BF16, NULL);
        json_t *is = json_loads(text, 0, NULL);
        assert_word(is, NULL, cases[i].dtype, "bfloat16");
        assert_word(is, "vision_config", cases[i].dtype, NULL);
        assert_vocab_size(is, NULL, cases[i].root ? 80 : 0);
        assert_vocab_size(is, "text_config", cases[i].part ? 80 : 0);
        /* nothing else has changed */
        json_object_set(was, cases[i].dtype,
                        json_object_get(is, cases[i].dtype));
        if (cases[i].root)
            json_object_set_new(was, "vocab_size", json_integer(80));
        if (cases[i].part)
            json_object_set_new(json_object_get(was, "text_config"),
                                "vocab_size", json_integer(80));
        json_object_del(was, "architectures");
        json_object_del(is, "architectures");
        assert_true(json_equal(was, is));
        json_decref(is);
        free(text);
        dt_model_config_fini(&c);
    }

    json_decref(file);
}

/* Ids of placeholders: the key, or what the class has without it. */
static void ids_of_placeholders_have_defaults(void **state)
{
    json_t *file = stored_load("vision.json");
    json_t *config = json_object_get(
        json_object_get(json_object_get(file, "variants"), "qwen2_vl"),
        "config");
    struct dt_model_config c;
    struct dt_error err = {0};
    (void)state;
    json_object_del(config, "image_token_id");
    json_object_del(config, "video_token_id");
    parse_stored(&c, config, "qwen2_vl");
    assert_int_equal(c.vision->token, 151655);
    assert_int_equal(c.vision->video, 151656);
    dt_model_config_fini(&c);
    json_object_set_new(config, "video_token_id", json_string("78"));
    char *text = json_dumps(config, 0);
    assert_int_equal(dt_model_config_parse(&c, text, "it", &err), -1);
    assert_non_null(strstr(err.text, "video_token_id: expected a token id, got "
                                     "\"78\""));
    dt_model_config_fini(&c);
    free(text);
    json_decref(file);
}

/* The config of a family, as a reward model of it is written. */
static void check_scores(const json_t *file, const char *family,
                         const char *class)
{
    json_t *was = json_object_get(
        json_object_get(json_object_get(file, "5.24.0"), family), "config");
    struct dt_model_config c;
    struct dt_error err;
    parse_stored(&c, was, family);
    assert_false(c.scores);
    assert_int_equal(dt_model_check_scores(&c, &err), 0);
    c.scores = true;
    c.pad = 5;
    assert_true(dt_model_head_apart(&c));
    char *text = dt_model_config_format(&c, DT_F32, NULL);
    dt_model_config_fini(&c);
    json_t *is = json_loads(text, 0, NULL);
    assert_string_equal(json_string_value(json_array_get(
                            json_object_get(is, "architectures"), 0)),
                        class);
    parse_stored(&c, is, family);
    assert_true(c.scores);
    assert_int_equal(c.pad, 5);
    struct dt_layout *layout = dt_model_layout(&c, 1, NULL);
    assert_non_null(layout);
    assert_string_equal(layout->params[layout->param_count - 1].name,
                        "score.weight");
    for (size_t i = 0; i < layout->param_count; i++)
        assert_null(strstr(layout->params[i].name, "lm_head"));
    dt_layout_destroy(layout);
    dt_model_config_fini(&c);
    /* the base class alone has no such head */
    json_object_del(is, "id2label");
    parse_stored(&c, is, family);
    assert_false(c.scores);
    dt_model_config_fini(&c);
    json_decref(is);
    free(text);
}

static void a_base_class_with_one_label_scores(void **state)
{
    json_t *file = stored_load("vision_names.json");
    (void)state;
    check_scores(file, "llava", "LlavaModel");
    check_scores(file, "qwen2_vl", "Qwen2VLModel");
    json_decref(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layouts_are_what_transformers_trains),
        cmocka_unit_test(files_of_all_releases_are_read),
        cmocka_unit_test(published_files_are_read),
        cmocka_unit_test(what_computes_differently_is_told_by_its_key),
        cmocka_unit_test(what_no_switch_has_is_refused_by_its_key),
        cmocka_unit_test(tiles_have_the_places_of_transformers),
        cmocka_unit_test(a_model_of_text_is_another_one),
        cmocka_unit_test(files_are_written_as_they_were_read),
        cmocka_unit_test(ids_of_placeholders_have_defaults),
        cmocka_unit_test(a_base_class_with_one_label_scores),
    };
    return cmocka_run_group_tests_name("vision_config", tests, NULL, NULL);
}
