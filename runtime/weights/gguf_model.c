/* SPDX-License-Identifier: Apache-2.0 */
/* gguf_model.c - the names, orders and numbers of a model in llama.cpp */
#include "config.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "weights/gguf_model.h"

enum { QUANTIZATION_VERSION = 2 };

/* What becomes of a tensor besides its name. */
enum change {
    SAME,
    TRANSPOSED, /* Conv1D of GPT-2 has inputs first */
    PERMUTED_Q, /* rotary pairs are neighbors, not halves of a head */
    PERMUTED_K,
    POSITIONS, /* stay F32 */
};

/* Tensors without .weight and .bias; those of blocks without what comes before
 * the number of the block.
 */
static const struct name {
    const char *own, *theirs;
    enum change change;
} names[] = {
    {"model.embed_tokens", "token_embd", SAME},
    {"model.norm", "output_norm", SAME},
    {"lm_head", "output", SAME},
    {"input_layernorm", "attn_norm", SAME},
    {"self_attn.q_proj", "attn_q", PERMUTED_Q},
    {"self_attn.k_proj", "attn_k", PERMUTED_K},
    {"self_attn.v_proj", "attn_v", SAME},
    {"self_attn.o_proj", "attn_output", SAME},
    {"self_attn.q_norm", "attn_q_norm", SAME},
    {"self_attn.k_norm", "attn_k_norm", SAME},
    {"post_attention_layernorm", "ffn_norm", SAME},
    {"mlp.gate_proj", "ffn_gate", SAME},
    {"mlp.up_proj", "ffn_up", SAME},
    {"mlp.down_proj", "ffn_down", SAME},
    {"transformer.wte", "token_embd", SAME},
    {"transformer.wpe", "position_embd", POSITIONS},
    {"transformer.ln_f", "output_norm", SAME},
    {"ln_1", "attn_norm", SAME},
    {"attn.c_attn", "attn_qkv", TRANSPOSED},
    {"attn.c_proj", "attn_output", TRANSPOSED},
    {"ln_2", "ffn_norm", SAME},
    {"mlp.c_fc", "ffn_up", TRANSPOSED},
    {"mlp.c_proj", "ffn_down", TRANSPOSED},
};

/* The families that are one in llama.cpp. NULL: it does not know them. */
static const char *architecture(enum dt_model_family family)
{
    switch (family) {
    case DT_GPT2:
        return "gpt2";
    case DT_LLAMA:
    case DT_MISTRAL:
        return "llama";
    case DT_QWEN2:
        return "qwen2";
    case DT_QWEN3:
        return "qwen3";
    default:
        return NULL;
    }
}

/* A model that is written. */
struct model {
    const struct dt_model_config *config;
    const struct dt_layout *layout;
    const char *architecture;
    enum dt_gguf_type type;
    struct dt_gguf gguf;
};

/* A tensor of it. */
struct tensor {
    char name[96];
    enum change change;
    enum dt_gguf_type type;
    int ndim;
    size_t shape[DT_PARAM_MAX_DIMS];
};

static const struct name *find_name(const char *stem, size_t bytes)
{
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strlen(names[i].own) == bytes &&
            memcmp(names[i].own, stem, bytes) == 0)
            return &names[i];
    return NULL;
}

/* What is behind the number of a block, which *block is set to; NULL: the
 * tensor is in no block.
 */
static const char *behind_block(const char *name, unsigned long *block)
{
    static const char *const begins[] = {"model.layers.", "transformer.h."};
    for (size_t i = 0; i < 2; i++) {
        char *end;
        size_t n = strlen(begins[i]);
        if (strncmp(name, begins[i], n) != 0)
            continue;
        *block = strtoul(name + n, &end, 10);
        return *end == '.' ? end + 1 : NULL;
    }
    return NULL;
}

/* The type of a tensor. */
static enum dt_gguf_type type_of(const struct model *m, const struct tensor *t)
{
    const size_t row = t->ndim > 0 ? t->shape[t->ndim - 1] : 0;
    if (t->ndim < 2 || t->change == POSITIONS)
        return DT_GGUF_F32;
    return m->type == DT_GGUF_Q8_0 && row % 32 ? DT_GGUF_F16 : m->type;
}

static int describe(const struct model *m, const struct dt_param *param,
                    struct tensor *t, struct dt_error *err)
{
    unsigned long block = 0;
    const char *stem = behind_block(param->name, &block);
    const char *suffix = strrchr(param->name, '.');
    const char *begin = stem ? stem : param->name;
    const struct name *name =
        suffix > begin ? find_name(begin, (size_t)(suffix - begin)) : NULL;
    if (!name)
        return dt_error_set(err, EX_DATAERR, "%s: llama.cpp has no such tensor",
                            param->name);
    *t = (struct tensor){.change = name->change, .ndim = param->ndim};
    if (stem)
        snprintf(t->name, sizeof(t->name), "blk.%lu.%s%s", block, name->theirs,
                 suffix);
    else
        snprintf(t->name, sizeof(t->name), "%s%s", name->theirs, suffix);
    bool permuted = t->change == PERMUTED_Q || t->change == PERMUTED_K;
    if (permuted && strcmp(m->architecture, "llama") != 0)
        t->change = SAME;
    if (t->change == TRANSPOSED && t->ndim < 2)
        t->change = SAME;
    for (int d = 0; d < t->ndim; d++)
        t->shape[d] = param->shape[d];
    if (t->change == TRANSPOSED) {
        t->shape[0] = param->shape[1];
        t->shape[1] = param->shape[0];
    }
    t->type = type_of(m, t);
    return 0;
}

/* --- data --- */

static void transpose(float *to, const float *from, size_t rows, size_t columns)
{
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < columns; c++)
            to[c * rows + r] = from[r * columns + c];
}

/* Row (h, j, p) of the file is row (h, p, j): j of the half p of head h. */
static void permute(float *to, const float *from, size_t heads, size_t rows,
                    size_t columns)
{
    const size_t half = rows / heads / 2;
    for (size_t h = 0; h < heads; h++)
        for (size_t j = 0; j < half; j++)
            for (size_t p = 0; p < 2; p++)
                memcpy(to + ((h * half + j) * 2 + p) * columns,
                       from + ((h * 2 + p) * half + j) * columns,
                       columns * sizeof(*to));
}

/* Writes a tensor; `scratch` has room for two copies of it. */
static void put_tensor(struct model *m, const struct dt_param *param,
                       const struct tensor *t, const float *from,
                       float *scratch)
{
    const size_t rows = param->shape[0], columns = param->count / rows;
    const struct dt_model_config *c = m->config;
    if (t->change == TRANSPOSED)
        transpose(scratch, from, rows, columns);
    else if (t->change == PERMUTED_Q || t->change == PERMUTED_K)
        permute(scratch, from,
                t->change == PERMUTED_Q ? c->n_head : c->n_kv_head, rows,
                columns);
    else
        memcpy(scratch, from, param->count * sizeof(*from));
    float *converted = scratch + param->count;
    dt_gguf_convert(converted, t->type, scratch, param->count);
    dt_gguf_put_data(&m->gguf, converted, dt_gguf_bytes(t->type, param->count));
}

/* The factors of Llama 3.1's rope, by which frequencies are divided. */
static void rope_factors(const struct dt_model_config *c, float *factors)
{
    const double pi = acos(-1.0);
    for (size_t i = 0; i < c->head_size / 2; i++) {
        double wave =
            2 * pi * pow(c->rope_theta, 2 * (double)i / (double)c->head_size);
        double periods = (double)c->rope_original / wave;
        double smooth = (periods - c->rope_low) / (c->rope_high - c->rope_low);
        factors[i] =
            periods > c->rope_high ? 1.0F
            : periods < c->rope_low
                ? (float)c->rope_factor
                : (float)(1.0 / ((1.0 - smooth) / c->rope_factor + smooth));
    }
}

static int put_data(struct model *m, struct dt_view weights,
                    struct dt_error *err)
{
    const struct dt_layout *layout = m->layout;
    size_t most = m->config->head_size;
    for (size_t i = 0; i < layout->param_count; i++)
        if (layout->params[i].count > most)
            most = layout->params[i].count;
    float *scratch = calloc(2 * most, sizeof(*scratch));
    if (!scratch)
        return dt_error_set(err, EX_OSERR, "out of memory");
    dt_gguf_begin_data(&m->gguf);
    for (size_t i = 0; i < layout->param_count; i++) {
        const struct dt_param *param = &layout->params[i];
        struct tensor t;
        describe(m, param, &t, NULL);
        put_tensor(m, param, &t,
                   (const float *)dt_view_data(weights) + param->offset,
                   scratch);
    }
    if (m->config->rope_scaling == DT_ROPE_LLAMA3) {
        rope_factors(m->config, scratch);
        dt_gguf_put_data(&m->gguf, scratch,
                         m->config->head_size / 2 * sizeof(*scratch));
    }
    free(scratch);
    return 0;
}

/* --- values --- */

static void put_number(struct model *m, const char *key, size_t value)
{
    char full[96];
    snprintf(full, sizeof(full), "%s.%s", m->architecture, key);
    dt_gguf_put_u32(&m->gguf, full, (uint32_t)value);
}

static void put_real(struct model *m, const char *key, double value)
{
    char full[96];
    snprintf(full, sizeof(full), "%s.%s", m->architecture, key);
    dt_gguf_put_f32(&m->gguf, full, (float)value);
}

static uint32_t file_type(enum dt_gguf_type type)
{
    return type == DT_GGUF_F32    ? 0
           : type == DT_GGUF_F16  ? 1
           : type == DT_GGUF_Q8_0 ? 7
                                  : 32;
}

static void put_rope(struct model *m)
{
    const struct dt_model_config *c = m->config;
    char key[96];
    put_real(m, "rope.freq_base", c->rope_theta);
    put_number(m, "rope.dimension_count", c->head_size);
    if (c->rope_scaling != DT_ROPE_LINEAR)
        return;
    snprintf(key, sizeof(key), "%s.rope.scaling.type", m->architecture);
    dt_gguf_put_string(&m->gguf, key, "linear");
    put_real(m, "rope.scaling.factor", c->rope_factor);
}

static void put_values(struct model *m)
{
    const struct dt_model_config *c = m->config;
    dt_gguf_put_string(&m->gguf, "general.architecture", m->architecture);
    dt_gguf_put_string(&m->gguf, "general.type", "model");
    dt_gguf_put_u32(&m->gguf, "general.file_type", file_type(m->type));
    dt_gguf_put_u32(&m->gguf, "general.quantization_version",
                    QUANTIZATION_VERSION);
    put_number(m, "vocab_size", c->vocab_size);
    put_number(m, "context_length", c->n_positions);
    put_number(m, "embedding_length", c->n_embd);
    put_number(m, "block_count", c->n_layer);
    put_number(m, "feed_forward_length", c->n_inner);
    put_number(m, "attention.head_count", c->n_head);
    put_number(m, "attention.head_count_kv", c->n_kv_head);
    if (c->family == DT_GPT2) {
        put_real(m, "attention.layer_norm_epsilon", c->norm_epsilon);
        return;
    }
    put_real(m, "attention.layer_norm_rms_epsilon", c->norm_epsilon);
    put_number(m, "attention.key_length", c->head_size);
    put_number(m, "attention.value_length", c->head_size);
    put_rope(m);
}

static int add_tensors(struct model *m, struct dt_error *err)
{
    const size_t half = m->config->head_size / 2;
    for (size_t i = 0; i < m->layout->param_count; i++) {
        struct tensor t;
        if (describe(m, &m->layout->params[i], &t, err) < 0)
            return -1;
        dt_gguf_add_tensor(&m->gguf, t.name, t.type, t.ndim, t.shape);
    }
    if (m->config->rope_scaling == DT_ROPE_LLAMA3)
        dt_gguf_add_tensor(&m->gguf, "rope_freqs.weight", DT_GGUF_F32, 1,
                           &half);
    return 0;
}

/* What llama.cpp would compute differently is refused. */
static int check_model(const struct model *m, struct dt_error *err)
{
    const struct dt_model_config *c = m->config;
    if (!m->architecture)
        return dt_error_set(err, EX_DATAERR,
                            "GGUF: models of the family %s are not written",
                            dt_model_family_name(c->family));
    if (c->rope_scaling > DT_ROPE_LLAMA3)
        return dt_error_set(err, EX_DATAERR,
                            "GGUF: rope_scaling of this type is not written: "
                            "expected default, linear or llama3");
    if (c->family != DT_GPT2 && c->gate != DT_GATE_SILU)
        return dt_error_set(err, EX_DATAERR,
                            "GGUF: llama.cpp has only silu for %s models",
                            m->architecture);
    if (c->scores || c->value_head)
        return dt_error_set(err, EX_DATAERR,
                            "GGUF: a reward model has no head over tokens");
    if (c->window > 0 && c->window < c->n_positions)
        return dt_error_set(err, EX_DATAERR,
                            "GGUF: llama.cpp has no sliding window for %s "
                            "models",
                            m->architecture);
    return 0;
}

int dt_gguf_write_model(const char *path, const char *dir,
                        const struct dt_model_config *config,
                        const struct dt_layout *layout, struct dt_view weights,
                        enum dt_gguf_type type, struct dt_error *err)
{
    struct model m = {.config = config,
                      .layout = layout,
                      .architecture = architecture(config->family),
                      .type = type};
    if (check_model(&m, err) < 0 || dt_gguf_open(&m.gguf, path, err) < 0)
        return -1;
    put_values(&m);
    int rc = dt_gguf_put_tokenizer(&m.gguf, dir, config, err);
    if (rc == 0)
        rc = add_tensors(&m, err);
    if (rc == 0)
        rc = put_data(&m, weights, err);
    return dt_gguf_close(&m.gguf, rc, err);
}
