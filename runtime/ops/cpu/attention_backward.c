/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attention_backward.c - gradients of softmax attention
 *
 * With P = exp(S - lse), f the factors of dropout (1 without) and D = sum(dout
 * out) of each query:
 *   dV += (P f)^T dO;  dS = P (f dO V^T - D) scale;  dQ += dS K;  dK += dS^T Q
 * A thread owns a head of keys and values: it loops over the queries that share
 * the head in the order of their positions, and sums dK and dV in its part of
 * the workspace.
 */
#include "config.h"

#include "ops/cpu/attention.h"
#include "ops/cpu/cpu.h"

/* A panel of queries. The transposed tensors are (HS, WIDTH), others (WIDTH,
 * HS).
 */
struct query_panel {
    struct panel panel;
    float lse[WIDTH], delta[WIDTH]; /* delta is D */
    float *q, *q_transposed, *dout, *dout_transposed, *dq;
};

struct operands {
    struct dt_view dqkv, dout, out, lse, qkv;
    const struct dt_attention *a;
};

/* A thread's part of the workspace. */
struct thread_buffers {
    float *dk, *dv;       /* (T, HS) */
    float *k, *v;         /* (KEYS, HS) */
    float *panel[PANELS]; /* (5, WIDTH, HS) */
};

static size_t thread_floats(const struct dt_attention *a)
{
    return (2 * a->T + 2 * KEYS + PANELS * 5 * WIDTH) * a->HS;
}

static struct thread_buffers buffers_of(float *workspace,
                                        const struct dt_attention *a)
{
    struct thread_buffers s = {.dk = workspace, .dv = workspace + a->T * a->HS};
    s.k = s.dv + a->T * a->HS;
    s.v = s.k + KEYS * a->HS;
    s.panel[0] = s.v + KEYS * a->HS;
    for (size_t i = 1; i < PANELS; i++)
        s.panel[i] = s.panel[i - 1] + 5 * WIDTH * a->HS;
    return s;
}

/* p = scores and ds = dO V^T become P f and dS, without scale */
static void tile_gradient(const struct query_panel *p, float *restrict s,
                          float *restrict ds, const struct keys *keys,
                          const struct dt_attention *a)
{
    float factors[KEYS * WIDTH], slopes[KEYS * WIDTH];

    if (a->softcap > 0.0f)
        cap_scores(s, slopes, keys->count, a);
    mask_scores(s, &p->panel, keys);
    if (a->dropout.rate > 0.0)
        tile_dropout(factors, &p->panel, keys, a);
    for (size_t i = 0; i < keys->count; i++) {
        float *restrict si = s + i * WIDTH, *restrict dsi = ds + i * WIDTH;
        const float *restrict f = factors + i * WIDTH;
        if (a->dropout.rate > 0.0) {
#pragma omp simd
            for (size_t j = 0; j < WIDTH; j++) {
                float e = exp2_of(si[j] - p->lse[j]);
                si[j] = e * f[j];
                dsi[j] = e * (f[j] * dsi[j] - p->delta[j]);
            }
        } else {
#pragma omp simd
            for (size_t j = 0; j < WIDTH; j++) {
                si[j] = exp2_of(si[j] - p->lse[j]);
                dsi[j] = si[j] * (dsi[j] - p->delta[j]);
            }
        }
    }
    if (a->softcap > 0.0f) {
#pragma omp simd
        for (size_t i = 0; i < keys->count * WIDTH; i++)
            ds[i] *= slopes[i];
    }
}

static void gradient_tile(struct query_panel *p, const struct thread_buffers *s,
                          const struct keys *all, const struct dt_attention *a)
{
    const struct keys keys = panel_keys(&p->panel, all);
    const size_t HS = a->HS, first = (keys.k - all->k) * HS;
    float e[KEYS * WIDTH], ds[KEYS * WIDTH];

    if (keys.count == 0)
        return;
    DT_CPU(tile_matmul)
    (e, WIDTH, s->k + first, HS, 1, p->q_transposed, WIDTH, keys.count, WIDTH,
     HS, false);
    DT_CPU(tile_matmul)
    (ds, WIDTH, s->v + first, HS, 1, p->dout_transposed, WIDTH, keys.count,
     WIDTH, HS, false);
    tile_gradient(p, e, ds, &keys, a);
    DT_CPU(tile_matmul)
    (s->dv + keys.k * HS, HS, e, WIDTH, 1, p->dout, HS, keys.count, HS, WIDTH,
     true);
    DT_CPU(tile_matmul)
    (s->dk + keys.k * HS, HS, ds, WIDTH, 1, p->q, HS, keys.count, HS, WIDTH,
     true);
    DT_CPU(tile_matmul)
    (p->dq, HS, ds, 1, WIDTH, s->k + first, HS, WIDTH, HS, keys.count, true);
}

/* buffer(5, WIDTH, HS) */
static void begin_panel(struct query_panel *p, float *buffer,
                        const struct operands *o)
{
    const struct dt_attention *a = o->a;
    const struct panel *panel = &p->panel;
    const size_t HS = a->HS, size = WIDTH * HS;
    const size_t at = out_at(a, panel->b, panel->t, panel->head);
    const float scale = query_scale(a);
    const float *lse = dt_view_f32(o->lse) +
                       (panel->b * a->NH + panel->head) * a->T + panel->t;

    p->q = buffer;
    p->q_transposed = buffer + size;
    p->dout = buffer + 2 * size;
    p->dout_transposed = buffer + 3 * size;
    p->dq = buffer + 4 * size;
    load_rows(p->q, o->qkv, head_at(a, panel->b, panel->t, panel->head),
              head_at(a, 0, 1, 0), HS, panel->count, WIDTH);
    load_rows(p->dout, o->dout, at, out_at(a, 0, 1, 0), HS, panel->count,
              WIDTH);
    load_rows(p->dq, o->out, at, out_at(a, 0, 1, 0), HS, panel->count, WIDTH);
    for (size_t j = 0; j < WIDTH; j++) {
        const float *out = p->dq + j * HS, *dout = p->dout + j * HS;
        float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
        for (size_t d = 0; d < HS; d++)
            sum += out[d] * dout[d];
        p->delta[j] = sum;
        p->lse[j] = j < panel->count ? lse[j] * (float)M_LOG2E : INFINITY;
    }
    transpose_rows(p->q_transposed, WIDTH, p->q, HS, WIDTH, HS);
    transpose_rows(p->dout_transposed, WIDTH, p->dout, HS, WIDTH, HS);
#pragma omp simd
    for (size_t i = 0; i < size; i++)
        p->q_transposed[i] *= scale;
    memset(p->dq, 0, size * sizeof(*p->dq));
}

/* Rows of v, `stride` apart, = scale from(count, HS) */
static void store_rows(struct dt_view v, size_t first, size_t stride,
                       float *restrict from, float scale, size_t HS,
                       size_t count)
{
    char *data = dt_view_data(v);

    for (size_t i = 0; i < count; i++) {
        float *row = from + i * HS;
#pragma omp simd
        for (size_t d = 0; d < HS; d++)
            row[d] *= scale;
        dt_cpu_narrow(data + (first + i * stride) * dt_dtype_bytes(v.dtype),
                      row, v.dtype, HS);
    }
}

/* Panels of neighbors, in their order */
static void backward_queries(const struct operands *o,
                             const struct thread_buffers *s,
                             struct query_panel *queries, size_t count)
{
    const struct dt_attention *a = o->a;
    const struct panel *first = &queries[0].panel;
    const size_t stride = head_at(a, 0, 1, 0);
    struct keys keys = {.k = first->t};
    size_t end = 0;

    for (size_t i = 0; i < count; i++) {
        begin_panel(&queries[i], s->panel[i], o);
        keys.k = min_size(keys.k, queries[i].panel.first);
        end = max_size(end, queries[i].panel.end);
    }
    for (; keys.k < end; keys.k += KEYS) {
        keys.count = min_size(KEYS, end - keys.k);
        load_keys(s->k, s->v, o->qkv, &keys, first->b,
                  first->head / heads_shared(a), a);
        for (size_t i = 0; i < count; i++)
            gradient_tile(&queries[i], s, &keys, a);
    }
    for (size_t i = 0; i < count; i++) {
        const struct panel *p = &queries[i].panel;
        store_rows(o->dqkv, head_at(a, p->b, p->t, p->head), stride,
                   queries[i].dq, a->scale, a->HS, p->count);
    }
}

/* All queries that read head kv_head of keys and values of row b */
static void backward_head(const struct operands *o, float *workspace, size_t b,
                          size_t kv_head)
{
    const struct dt_attention *a = o->a;
    const struct thread_buffers s = buffers_of(workspace, a);
    const size_t heads = heads_shared(a), stride = head_at(a, 0, 1, 0);
    const size_t at = head_at(a, b, 0, a->NH + kv_head);
    struct query_panel queries[PANELS];
    size_t count = 0;

    memset(s.dk, 0, 2 * a->T * a->HS * sizeof(*s.dk));
    for (size_t t = 0; t < a->T; t += WIDTH) {
        for (size_t h = 0; h < heads; h++) {
            size_t end = min_size(t + WIDTH, a->T);
            panel_init(&queries[count++].panel, a, b, kv_head * heads + h, t);
            if (count < PANELS && (end < a->T || h + 1 < heads))
                continue;
            backward_queries(o, &s, queries, count);
            count = 0;
        }
    }
    store_rows(o->dqkv, at, stride, s.dk, a->scale, a->HS, a->T);
    store_rows(o->dqkv, at + a->NKV * a->HS, stride, s.dv, 1.0f, a->HS, a->T);
}

size_t DT_CPU(attention_workspace)(enum dt_dtype type,
                                   const struct dt_attention *attention)
{
    (void)type;
    return (size_t)omp_get_max_threads() * thread_floats(attention);
}

void DT_CPU(attention_backward)(struct dt_stream *stream, struct dt_view dqkv,
                                struct dt_view dout, struct dt_view out,
                                struct dt_view lse, struct dt_view qkv,
                                struct dt_view workspace,
                                const struct dt_attention *attention)
{
    const struct dt_attention *a = attention;
    const struct operands o = {dqkv, dout, out, lse, qkv, a};
    const size_t parts = workspace.count / thread_floats(a);
    const size_t threads = min_size(parts, (size_t)omp_get_max_threads());
    float *buffers = dt_view_f32(workspace);
    (void)stream;
    assert(a->HS % 2 == 0 && a->HS <= DT_MAX_HEAD_SIZE && parts > 0);
    assert(a->scale > 0.0f);
    assert(dqkv.count == head_at(a, a->B, 0, 0) && qkv.count == dqkv.count);
    assert(out.count == a->B * a->T * a->NH * a->HS);
    assert(dout.count == out.count && lse.count == a->B * a->NH * a->T);

#pragma omp parallel for num_threads((int)threads) schedule(dynamic)
    for (size_t i = 0; i < a->B * a->NKV; i++)
        backward_head(&o,
                      buffers + (size_t)omp_get_thread_num() * thread_floats(a),
                      i / a->NKV, i % a->NKV);
}
