/* SPDX-License-Identifier: Apache-2.0 */
/*
 * qwen3_vl.c - Qwen3-VL: qwen2_vl with learned positions besides rotations, and
 * features of several blocks of the tower; the axes of M-RoPE take turns in
 * qwen3
 */
#include "config.h"

#include "model/family/vision/vision_rows.h"

static const struct dt_param_row qwen3_vl_params[] = {
    DT_QWEN_PATCHES,
    DT_VECTOR(DT_PATCH_B, "patch_embed.proj.bias", DT_C),
    DT_ROW(DT_WPE, "pos_embed.weight", DT_P, DT_C),
    {0},
    DT_QWEN_BLOCK("mlp.linear_fc1", "mlp.linear_fc2"),
    {0},
    {0},
};

static const struct dt_tower_traits qwen3_vl_tower = {
    .family =
        {
            .type = "qwen3_vl_vision",
            .fields = DT_FIELDS(
                DT_TOWER_FIELDS("hidden_size", "depth", "num_heads"),
                DT_COUNT("intermediate_size", true, n_inner, 1 << 20),
                DT_COUNT("num_position_embeddings", true, n_positions, 1 << 20),
                DT_REAL("rope_theta", rope_theta, 1, 1e12)),
            .params = qwen3_vl_params,
            .centered = true,
            .gate = DT_GELU_TANH,
            DT_QWEN_TOWER,
            DT_SIZES(0, 2304, 1152, 27, 16, 4304),
        },
    .channels = "in_channels",
    .patch = 16,
    .frames = 2,
};

static const struct dt_family qwen3_vl_text = {
    .type = "qwen3_vl_text",
    .base = "Qwen3VLTextModel",
    .pre_norm = true,
    DT_GATED_BY_SILU,
    .pad = -1,
    .norm_epsilon = 1e-6,
    .fields = DT_FIELDS(DT_ROTARY_FIELDS, DT_ATTENTION_BIAS),
    DT_SIZES(151936, 128000, 4096, 32, 32, 22016),
    .theta = 5e5,
    .sections = {24, 20, 20},
    .interleaved = true,
    .windows = DT_WINDOWS_NONE,
    .head_norm = DT_HEAD_NORM_EACH,
    .n_kv_head = 32,
    .head_size = 128,
};

#define DT_QWEN3_MERGER(normed)                                                \
    DT_VECTOR(DT_MERGE_NORM_W, "norm.weight", normed),                         \
        DT_VECTOR(DT_MERGE_NORM_B, "norm.bias", normed),                       \
        DT_ROW(DT_MERGE_1_W, "linear_fc1.weight", DT_INNER, DT_MERGED),        \
        DT_VECTOR(DT_MERGE_1_B, "linear_fc1.bias", DT_INNER),                  \
        DT_ROW(DT_MERGE_2_W, "linear_fc2.weight", DT_TEXT, DT_INNER),          \
        DT_VECTOR(DT_MERGE_2_B, "linear_fc2.bias", DT_TEXT)

static const struct dt_param_row qwen3_vl_projector[] = {
    DT_QWEN3_MERGER(DT_C),
    {0},
};

static const struct dt_param_row qwen3_vl_deep[] = {
    DT_QWEN3_MERGER(DT_MERGED),
    {0},
};

/* deepstack_visual_indexes: numbers of blocks that rise, each with a block of
 * the text.
 */
static void qwen3_vl_parse_deep(struct dt_vision_config *vision, size_t layers,
                                const json_t *tower, struct dt_error *problems)
{
    static const size_t usual[] = {8, 16, 24};
    const char *key = "deepstack_visual_indexes";
    const json_t *list = dt_config_value(tower, key);
    const size_t count = list ? json_array_size(list) : 3;
    bool fits = (!list || json_is_array(list)) && count <= layers &&
                count <= DT_VISION_MAX_TAPS;
    size_t next = 0;
    char what[96];
    for (size_t k = 0; fits && k < count; k++) {
        const json_t *item = json_array_get(list, k);
        const json_int_t l =
            list ? json_integer_value(item) : (json_int_t)usual[k];
        fits = (!list || json_is_integer(item)) && l >= (json_int_t)next &&
               l < (json_int_t)vision->layers;
        next = (size_t)l + 1;
        vision->deep[vision->deep_count++] = next;
    }
    snprintf(what, sizeof(what),
             "at most %zu numbers of blocks that rise, below depth %zu",
             layers < DT_VISION_MAX_TAPS ? layers : (size_t)DT_VISION_MAX_TAPS,
             vision->layers);
    if (!fits)
        dt_config_unexpected(problems, "vision_config.", key, what, list);
}

static void qwen3_vl_parse(struct dt_vision_config *vision,
                           const struct dt_model_config *text,
                           const json_t *root, const json_t *tower,
                           struct dt_error *problems)
{
    const size_t places = vision->tower.n_positions;
    (void)root;
    qwen_parse(vision, text, tower, "out_hidden_size", problems);
    while (vision->places * vision->places < places)
        vision->places++;
    if (vision->places * vision->places != places)
        dt_error_add(
            problems, EX_DATAERR,
            "vision_config.num_position_embeddings: expected a square, "
            "got %zu",
            places);
    qwen3_vl_parse_deep(vision, text->n_layer, tower, problems);
}

const struct dt_vision_family dt_vision_qwen3_vl = {
    .type = "qwen3_vl",
    .causal = "Qwen3VLForConditionalGeneration",
    .base = "Qwen3VLModel",
    .text = &qwen3_vl_text,
    .towers = (const struct dt_tower_traits *const[]){&qwen3_vl_tower, NULL},
    .merge_key = "vision_config.spatial_merge_size",
    .names = {{"model.visual."},
              {"model.visual.merger."},
              {"model.language_model."},
              {""}},
    .projector = qwen3_vl_projector,
    .deep = qwen3_vl_deep,
    .deep_names = "deepstack_merger_list.",
    .token = 151655,
    .video = 151656,
    .parse = qwen3_vl_parse,
};
