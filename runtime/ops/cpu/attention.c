/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attention.c - softmax attention, forward
 *
 * Dao et al., FlashAttention, alg. 1: each panel of queries loops over the
 * tiles of keys that it attends to, with a running maximum m and sum l of each
 * query; `out` is rescaled when m grows. Tiles begin at multiples of KEYS: the
 * sums of a document or an image that begins at one, or lies within one tile,
 * do not depend on what is before it.
 */
#include "config.h"

#include "ops/cpu/attention.h"
#include "ops/cpu/cpu.h"

enum { PANEL_FLOATS = DT_MAX_HEAD_SIZE * WIDTH };

/* A panel of queries and its online softmax. */
struct query_panel {
    struct panel panel;
    float m[WIDTH], l[WIDTH];
    float *q, *out; /* (HS, WIDTH), q scaled */
};

struct operands {
    struct dt_view out, lse, qkv;
    const struct dt_attention *a;
};

/* Scores s(keys, WIDTH) become 2^(s - m). Returns whether m grew; then
 * `rescale` has the factors of earlier sums.
 */
static bool online_softmax(struct query_panel *p, float *restrict s,
                           float *restrict rescale, size_t keys)
{
    float max[WIDTH], sum[WIDTH] = {0.0f};
    bool grew = false;

    memcpy(max, p->m, sizeof(max));
    for (size_t i = 0; i < keys; i++) {
#pragma omp simd
        for (size_t j = 0; j < WIDTH; j++)
            max[j] = s[i * WIDTH + j] > max[j] ? s[i * WIDTH + j] : max[j];
    }
    for (size_t i = 0; i < keys; i++) {
#pragma omp simd
        for (size_t j = 0; j < WIDTH; j++) {
            s[i * WIDTH + j] = exp2_of(s[i * WIDTH + j] - max[j]);
            sum[j] += s[i * WIDTH + j];
        }
    }
#pragma omp simd
    for (size_t j = 0; j < WIDTH; j++) {
        rescale[j] = exp2_of(p->m[j] - max[j]);
        p->l[j] = p->l[j] * rescale[j] + sum[j];
        p->m[j] = max[j];
    }
    for (size_t j = 0; j < WIDTH; j++)
        grew |= rescale[j] != 1.0f;
    return grew;
}

/* k, v: (KEYS, HS) of the tile `all` */
static void attend_tile(struct query_panel *p, const float *k, const float *v,
                        const struct keys *all, const struct dt_attention *a)
{
    const struct keys keys = panel_keys(&p->panel, all);
    const size_t first = (keys.k - all->k) * a->HS;
    float s[KEYS * WIDTH], factors[KEYS * WIDTH], rescale[WIDTH];

    if (keys.count == 0)
        return;
    DT_CPU(tile_matmul)
    (s, WIDTH, k + first, a->HS, 1, p->q, WIDTH, keys.count, WIDTH, a->HS,
     false);
    if (a->softcap > 0.0f)
        cap_scores(s, NULL, keys.count, a);
    mask_scores(s, &p->panel, &keys);
    if (online_softmax(p, s, rescale, keys.count)) {
        for (size_t d = 0; d < a->HS; d++) {
#pragma omp simd
            for (size_t j = 0; j < WIDTH; j++)
                p->out[d * WIDTH + j] *= rescale[j];
        }
    }
    if (a->dropout.rate > 0.0) {
        tile_dropout(factors, &p->panel, &keys, a);
#pragma omp simd
        for (size_t i = 0; i < keys.count * WIDTH; i++)
            s[i] *= factors[i];
    }
    DT_CPU(tile_matmul)
    (p->out, WIDTH, v + first, 1, a->HS, s, WIDTH, a->HS, WIDTH, keys.count,
     true);
}

/* rows(WIDTH, HS) is a buffer here and below. */
static void begin_panel(struct query_panel *p, float *rows,
                        const struct operands *o)
{
    const struct dt_attention *a = o->a;
    const struct panel *panel = &p->panel;
    const float scale = query_scale(a);

    load_rows(rows, o->qkv, head_at(a, panel->b, panel->t, panel->head),
              head_at(a, 0, 1, 0), a->HS, panel->count, WIDTH);
#pragma omp simd
    for (size_t i = 0; i < WIDTH * a->HS; i++)
        rows[i] *= scale;
    transpose_rows(p->q, WIDTH, rows, a->HS, WIDTH, a->HS);
    memset(p->out, 0, a->HS * WIDTH * sizeof(*p->out));
    for (size_t j = 0; j < WIDTH; j++) {
        p->m[j] = -1e30f; /* finite, so that no score gives no NaN */
        p->l[j] = 0.0f;
    }
}

static void finish_panel(struct query_panel *p, float *rows,
                         const struct operands *o)
{
    const struct dt_attention *a = o->a;
    const struct panel *panel = &p->panel;
    float *lse = dt_view_f32(o->lse) + (panel->b * a->NH + panel->head) * a->T +
                 panel->t;
    char *out = dt_view_data(o->out);

    for (size_t d = 0; d < a->HS; d++) {
#pragma omp simd
        for (size_t j = 0; j < WIDTH; j++)
            p->out[d * WIDTH + j] /= p->l[j];
    }
    transpose_rows(rows, a->HS, p->out, WIDTH, a->HS, WIDTH);
    for (size_t j = 0; j < panel->count; j++) {
        size_t at = out_at(a, panel->b, panel->t + j, panel->head);
        dt_cpu_narrow(out + at * dt_dtype_bytes(o->out.dtype), rows + j * a->HS,
                      o->out.dtype, a->HS);
        lse[j] = (p->m[j] + log2f(p->l[j])) * (float)M_LN2;
    }
}

/* How the queries that share a head of keys and values are divided: `span`
 * positions of `heads` heads at a time.
 */
struct blocking {
    size_t heads, span;
};

static struct blocking blocking_of(const struct dt_attention *a)
{
    size_t panels = min_size(PANELS, PANEL_FLOATS / (a->HS * WIDTH));
    size_t heads = min_size(panels, heads_shared(a));

    return (struct blocking){heads, panels / heads * WIDTH};
}

/* Queries t ... of heads head ... of row b */
static void forward_queries(const struct operands *o,
                            const struct blocking *blocking, size_t b,
                            size_t head, size_t t)
{
    const struct dt_attention *a = o->a;
    const size_t kv_head = head / heads_shared(a);
    const size_t end = min_size(t + blocking->span, a->T);
    const size_t last_head =
        min_size(head + blocking->heads, (kv_head + 1) * heads_shared(a));
    float q[PANEL_FLOATS], out[PANEL_FLOATS], rows[PANEL_FLOATS];
    float k[KEYS * DT_MAX_HEAD_SIZE], v[KEYS * DT_MAX_HEAD_SIZE];
    struct query_panel queries[PANELS];
    struct keys keys = {.k = t};
    size_t count = 0, keys_end = 0;

    for (size_t h = head; h < last_head; h++) {
        for (size_t i = t; i < end; i += WIDTH, count++) {
            struct query_panel *p = &queries[count];
            panel_init(&p->panel, a, b, h, i);
            p->q = q + count * a->HS * WIDTH;
            p->out = out + count * a->HS * WIDTH;
            begin_panel(p, rows, o);
            keys.k = min_size(keys.k, p->panel.first);
            keys_end = max_size(keys_end, p->panel.end);
        }
    }
    keys.k -= keys.k % KEYS;
    for (; keys.k < keys_end; keys.k += KEYS) {
        keys.count = min_size(KEYS, keys_end - keys.k);
        load_keys(k, v, o->qkv, &keys, b, kv_head, a);
        for (size_t i = 0; i < count; i++)
            attend_tile(&queries[i], k, v, &keys, a);
    }
    for (size_t i = 0; i < count; i++)
        finish_panel(&queries[i], rows, o);
}

void DT_CPU(attention_forward)(struct dt_stream *stream, struct dt_view out,
                               struct dt_view lse, struct dt_view qkv,
                               const struct dt_attention *attention)
{
    const struct dt_attention *a = attention;
    const struct operands o = {out, lse, qkv, a};
    const struct blocking blocking = blocking_of(a);
    const size_t spans = (a->T + blocking.span - 1) / blocking.span;
    const size_t parts =
        (heads_shared(a) + blocking.heads - 1) / blocking.heads;
    (void)stream;
    assert(a->HS % 2 == 0 && a->HS <= DT_MAX_HEAD_SIZE && a->scale > 0.0f);
    assert(out.count == a->B * a->T * a->NH * a->HS);
    assert(lse.count == a->B * a->NH * a->T);
    assert(qkv.count == head_at(a, a->B, 0, 0));

#pragma omp parallel for schedule(dynamic)
    for (size_t i = 0; i < a->B * a->NKV * parts * spans; i++) {
        size_t part = i / spans % parts, group = i / spans / parts;
        size_t head = group % a->NKV * heads_shared(a) + part * blocking.heads;
        forward_queries(&o, &blocking, group / a->NKV, head,
                        (spans - 1 - i % spans) * blocking.span);
    }
}
