/* SPDX-License-Identifier: Apache-2.0 */
/* head.c - the head of a language model: losses of some rows at a time */
#include "config.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "ops/cpu/cpu.h"
#include "ops/cpu/cpu_rows.h"
#include "ops/cpu/matmul.h"
#include "ops/cpu/vec.h"
#include "ops/ops.h"
#include "tensor/tensor.h"

/* logits(V) = x w(V,C)^T of the rows whose target is not negative. */
struct head {
    size_t N, C, V;
    struct dt_view x, w, targets; /* (N,C) X, (V,C) X, (N) I32 */
    struct dt_view dx, dw;        /* absent: no gradients */
    struct dt_view workspace;     /* F32, for at least one row */
    bool accumulate;              /* dw += */

    /* Called for each row by some thread. With dx, it replaces the logits by
     * their gradient. Its results are added up in the order of rows.
     */
    double (*row)(const void *ctx, float *logits, size_t n, int32_t target);
    const void *ctx;
};

enum { CHUNK_ROWS = 1024, PIECE = 256 };

/* Elements of the logits at a time: 128 MiB. Fewer would cost time: each chunk
 * of rows adds to the gradient of the head, which may be four times as large.
 */
enum { LOGITS_ELEMENTS = 1 << 25 };

/* Where the chunks are. */
struct chunks {
    const struct head *h;
    size_t most;   /* rows of a chunk */
    float *logits; /* (most, V) */
    char *packed;  /* rows of x, then of dx, if there are rows without a target
                      between them */
};

/* Moves the gradient of a row, of the compute type, to the beginning of the
 * row. The rest becomes 0, because oneDNN reads it (see matmul.h).
 */
static void narrow_row(const struct head *h, float *row)
{
    const size_t size = dt_dtype_bytes(h->x.dtype);
    float piece[PIECE];

    if (h->x.dtype == DT_F32)
        return;
    for (size_t first = 0; first < h->V; first += PIECE) {
        size_t n = h->V - first < PIECE ? h->V - first : PIECE;
        memcpy(piece, row + first, n * sizeof(*piece));
        dt_cpu_narrow((char *)row + first * size, piece, h->x.dtype, n);
    }
    memset((char *)row + h->V * size, 0, h->V * (sizeof(*row) - size));
}

static void chunk_forward(const struct chunks *c, const char *x, size_t rows)
{
    const struct head *h = c->h;

    DT_CPU(matmul)
    (&(struct dt_cpu_matmul){
        .M = rows,
        .N = h->V,
        .K = h->C,
        .a = {x, h->C, false},
        .b = {dt_view_data(h->w), h->C, true},
        .type = h->x.dtype,
        .c_type = DT_F32,
        .c = c->logits,
    });
}

/* dx and dw of `rows` rows, from the gradients of their logits */
static void chunk_backward(const struct chunks *c, const char *x, char *dx,
                           size_t rows, bool accumulate)
{
    const struct head *h = c->h;
    const enum dt_dtype type = h->x.dtype;
    /* rows of logits stay V floats apart, whatever the size of their elements
     */
    const size_t stride = h->V * sizeof(float) / dt_dtype_bytes(type);
    const struct dt_cpu_matmul back = {
        .M = rows,
        .N = h->C,
        .K = h->V,
        .a = {c->logits, stride, false},
        .b = {dt_view_data(h->w), h->C, false},
        .type = type,
        .c_type = type,
        .c = dx,
    };
    const struct dt_cpu_matmul weights = {
        .M = h->V,
        .N = h->C,
        .K = rows,
        .a = {c->logits, stride, true},
        .b = {x, h->C, false},
        .type = type,
        .c_type = DT_F32,
        .c = h->dw.count > 0 ? dt_view_f32(h->dw) : NULL,
        .accumulate = accumulate,
    };

    DT_CPU(matmul)(&back);
    if (weights.c)
        DT_CPU(matmul)(&weights);
}

/* The sum over the rows index[0..rows), with their gradients */
static double run_chunk(const struct chunks *c, const size_t *index,
                        size_t rows, bool accumulate)
{
    const struct head *h = c->h;
    const size_t bytes = h->C * dt_dtype_bytes(h->x.dtype);
    const bool gather = index[rows - 1] - index[0] != rows - 1;
    const bool backward = h->dx.count > 0;
    const int32_t *targets = dt_view_i32(h->targets);
    char *all_x = dt_view_data(h->x);
    char *all_dx = backward ? dt_view_data(h->dx) : NULL;
    char *x = gather ? c->packed : all_x + index[0] * bytes, *dx = NULL;
    double row[CHUNK_ROWS], total = 0.0;

    if (backward)
        dx = gather ? c->packed + rows * bytes : all_dx + index[0] * bytes;
    for (size_t n = 0; n < rows && gather; n++)
        memcpy(x + n * bytes, all_x + index[n] * bytes, bytes);
    chunk_forward(c, x, rows);
#pragma omp parallel for schedule(static)
    for (size_t n = 0; n < rows; n++) {
        float *logits = c->logits + n * h->V;
        row[n] = h->row(h->ctx, logits, index[n], targets[index[n]]);
        if (backward)
            narrow_row(h, logits);
    }
    for (size_t n = 0; n < rows; n++)
        total += row[n];
    if (backward)
        chunk_backward(c, x, dx, rows, accumulate);
    for (size_t n = 0; n < rows && backward && gather; n++)
        memcpy(all_dx + index[n] * bytes, dx + n * bytes, bytes);
    return total;
}

static size_t target_count(const struct head *h)
{
    size_t count = 0;

    for (size_t n = 0; n < h->N; n++)
        count += dt_view_i32(h->targets)[n] >= 0;
    return count;
}

/* All rows, in chunks of about equal size */
static double run_chunks(const struct chunks *c)
{
    const struct head *h = c->h;
    const size_t bytes = h->C * dt_dtype_bytes(h->x.dtype);
    const size_t count = target_count(h);
    const size_t parts = (count + c->most - 1) / c->most;
    const size_t chunk = parts > 0 ? (count + parts - 1) / parts : 1;
    size_t index[CHUNK_ROWS], rows = 0;
    bool accumulate = h->accumulate;
    double total = 0.0;

    for (size_t n = 0; n < h->N; n++) {
        if (dt_view_i32(h->targets)[n] >= 0)
            index[rows++] = n;
        else if (h->dx.count > 0)
            memset((char *)dt_view_data(h->dx) + n * bytes, 0, bytes);
        if (rows == 0 || (rows < chunk && n + 1 < h->N))
            continue;
        total += run_chunk(c, index, rows, accumulate);
        accumulate = true;
        rows = 0;
    }
    if (h->dw.count > 0 && !accumulate)
        memset(dt_view_f32(h->dw), 0, h->dw.count * sizeof(float));
    return total;
}

/* Floats of workspace for a row: its logits, and x and dx if they are packed.
 */
static size_t row_workspace(size_t C, size_t V)
{
    return V + 2 * C;
}

/* The most rows of a chunk. It depends on the vocabulary alone: the largest
 * batch of a run, which may be one of evaluations, does not change the order of
 * sums.
 */
static size_t chunk_rows(size_t V)
{
    const size_t most = LOGITS_ELEMENTS / V;

    return most < 1 ? 1 : most > CHUNK_ROWS ? CHUNK_ROWS : most;
}

/* Calls row() for all rows that have a target; then dx(N,C), which is 0 in the
 * other rows, and dw(V,C). Returns the sum.
 */
static double run_head(const struct head *h)
{
    const size_t room = h->workspace.count / row_workspace(h->C, h->V);
    const size_t most = chunk_rows(h->V);
    struct chunks c = {
        .h = h,
        .most = room < most ? room : most,
        .logits = dt_view_f32(h->workspace),
    };
    assert(h->x.count == h->N * h->C && h->targets.count == h->N && room > 0);
    assert(h->w.count == h->V * h->C && h->w.dtype == h->x.dtype);
    assert(h->dw.count == 0 || h->dw.count == h->w.count);
    assert(h->dw.count == 0 || h->dx.count > 0 || h->N == 0);
    assert(h->dx.count == 0 ||
           (h->dx.count == h->x.count && h->dx.dtype == h->x.dtype));

    c.packed = (char *)(c.logits + c.most * h->V);
    return run_chunks(&c);
}

/* For the largest chunk of up to N rows. */
size_t DT_CPU(loss_workspace)(enum dt_dtype type, size_t N, size_t C, size_t V,
                              bool whole)
{
    const size_t most = chunk_rows(V);
    (void)type;
    (void)whole; /* caches hold a chunk; all rows at once would be slower */

    return (N < most ? N : most) * row_workspace(C, V);
}

/* --- Logits by a rule other than l / temperature --- */

/* l(V) becomes z, in place. */
static void apply_rule(float *l, const struct dt_logit_rule *rule, size_t V)
{
    const float cap = rule->softcap, inverse = 1.0f / rule->temperature;
    const float in = cap > 0.0f ? rule->scale / cap : rule->scale * inverse;

    if (cap > 0.0f) {
#pragma omp simd
        for (size_t v = 0; v < V; v++)
            l[v] = cap * inverse * dt_tanhf(in * l[v]);
    } else {
#pragma omp simd
        for (size_t v = 0; v < V; v++)
            l[v] *= in;
    }
}

/* dz / dl, without the part of scale and temperature, is 1 - (z * this)^2. */
static float rule_slope(const struct dt_logit_rule *rule)
{
    return rule->softcap > 0.0f ? rule->temperature / rule->softcap : 0.0f;
}

void DT_CPU(apply_logit_rule)(struct dt_stream *stream, struct dt_view logits,
                              const struct dt_logit_rule *rule)
{
    float *l = dt_view_f32(logits);
    (void)stream;

#pragma omp parallel for schedule(static) if (logits.count > DT_CPU_SMALL)
    for (size_t i = 0; i < logits.count; i += DT_CPU_BLOCK)
        apply_rule(l + i, rule, dt_cpu_block(i, logits.count));
}

/* --- Cross entropy --- */

struct cross_entropy {
    size_t V;
    float scale, smoothing;
    const struct dt_logit_rule *rule;
    bool backward;
};

/* Turns x(V) into exp(x - max) and returns their sum. */
static double exp_row(float *x, float max, size_t V)
{
    double sum = 0.0;

#pragma omp simd reduction(+ : sum)
    for (size_t v = 0; v < V; v++) {
        x[v] = dt_expf(x[v] - max);
        sum += (double)x[v];
    }
    return sum;
}

/* The loss of a row; its logits become the gradient:
 *   scale * (softmax - smoothing / V - (1 - smoothing) * one-hot target)
 */
static double row_loss(const void *ctx, float *logits, size_t n, int32_t target)
{
    const struct cross_entropy *c = ctx;
    const float max = dt_max(logits, c->V, -INFINITY);
    const float spread = c->smoothing / (float)c->V;
    const double hit = (1.0 - (double)c->smoothing) * (double)logits[target];
    const double all = spread > 0.0f ? dt_sum(logits, c->V) : 0.0;
    const double sum = exp_row(logits, max, c->V);
    const float factor = (float)((double)c->scale / sum);
    const float less = c->scale * spread;
    (void)n;

    if (c->backward) {
#pragma omp simd
        for (size_t v = 0; v < c->V; v++)
            logits[v] = logits[v] * factor - less;
        logits[target] -= c->scale * (1.0f - c->smoothing);
    }
    return log(sum) + (double)max - hit - (double)spread * all;
}

/* The same by a rule, whose slope the gradient is multiplied by: the logits
 * stay until it is.
 */
static double ruled_row_loss(const void *ctx, float *logits, size_t n,
                             int32_t target)
{
    const struct cross_entropy *c = ctx;
    const float slope = rule_slope(c->rule);
    const float spread = c->smoothing / (float)c->V;
    double sum = 0.0;
    (void)n;

    apply_rule(logits, c->rule, c->V);
    const float max = dt_max(logits, c->V, -INFINITY);
    const double hit = (1.0 - (double)c->smoothing) * (double)logits[target];
    const double all = spread > 0.0f ? dt_sum(logits, c->V) : 0.0;
#pragma omp simd reduction(+ : sum)
    for (size_t v = 0; v < c->V; v++)
        sum += (double)dt_expf(logits[v] - max);
    if (c->backward) {
        const float scale = c->scale * c->rule->scale, less = scale * spread;
        const float factor = (float)((double)scale / sum);
        const float t = logits[target] * slope;
#pragma omp simd
        for (size_t v = 0; v < c->V; v++) {
            float by = 1.0f - logits[v] * slope * (logits[v] * slope);
            logits[v] = (dt_expf(logits[v] - max) * factor - less) * by;
        }
        logits[target] -= scale * (1.0f - c->smoothing) * (1.0f - t * t);
    }
    return log(sum) + (double)max - hit - (double)spread * all;
}

void DT_CPU(linear_cross_entropy)(struct dt_stream *stream, struct dt_view step,
                                  struct dt_view dx, struct dt_view dw,
                                  struct dt_view x, struct dt_view w,
                                  struct dt_view targets,
                                  struct dt_view workspace,
                                  const struct dt_logit_rule *rule,
                                  float smoothing, size_t N, size_t C, size_t V,
                                  bool accumulate)
{
    const bool plain = rule->scale == 1.0f && rule->softcap == 0.0f;
    double *scalars = dt_view_f64(step);
    const struct cross_entropy c = {
        .V = V,
        .scale = (float)scalars[DT_STEP_LOSS_SCALE],
        .smoothing = smoothing,
        .rule = rule,
        .backward = dx.count > 0,
    };
    const struct head h = {
        .N = N,
        .C = C,
        .V = V,
        .x = x,
        .w = w,
        .targets = targets,
        .dx = dx,
        .dw = dw,
        .workspace = workspace,
        .accumulate = accumulate,
        .row = plain ? row_loss : ruled_row_loss,
        .ctx = &c,
    };
    (void)stream;
    assert(step.count == DT_STEP_COUNT && rule->temperature == 1.0f);

    scalars[DT_STEP_LOSS] += run_head(&h);
}

/* --- Log-probabilities of given tokens --- */

struct forward {
    size_t V;
    float inverse; /* the factor of logits; 1 if a rule was applied */
    const struct dt_logit_rule *rule; /* NULL: that is all */
    float *logp, *lse;
    float *entropy, *collision, *mean, *top; /* or NULL */
};

struct backward {
    size_t V;
    float inverse, scale;             /* scale: of the loss and of the logits */
    const struct dt_logit_rule *rule; /* as in forward */
    const float *dlogp, *lse;
    const float *dentropy, *entropy; /* or NULL */
};

/* With y = z - max and sums over v: log p = y - log sum e^y, entropy = log sum
 * e^y - sum y e^y / sum e^y, collision = log sum e^2y - 2 log sum e^y.
 */
static double forward_row(const void *ctx, float *logits, size_t n,
                          int32_t target)
{
    const struct forward *f = ctx;
    if (f->rule)
        apply_rule(logits, f->rule, f->V);
    const float max = dt_max(logits, f->V, -INFINITY) * f->inverse;
    double sum = 0.0, moment = 0.0, squares = 0.0;

#pragma omp simd reduction(+ : sum, moment, squares)
    for (size_t v = 0; v < f->V; v++) {
        float y = logits[v] * f->inverse - max, power = dt_expf(y);
        sum += (double)power;
        moment += (double)(power * y);
        squares += (double)(power * power);
    }
    const double lse = log(sum);
    const double logp =
        (double)logits[target] * (double)f->inverse - (double)max - lse;
    f->lse[n] = (float)(lse + (double)max);
    f->logp[n] = logp > 0.0 ? 0.0f : (float)logp; /* NaN stays NaN */
    if (f->entropy)
        f->entropy[n] = (float)(lse - moment / sum);
    if (f->collision)
        f->collision[n] = (float)(log(squares) - 2.0 * lse);
    if (f->mean)
        f->mean[n] =
            (float)(dt_sum(logits, f->V) * (double)f->inverse / (double)f->V);
    if (f->top)
        f->top[n] = logits[target] * f->inverse >= max ? 1.0f : 0.0f;
    return 0.0;
}

/* d logp / dz(v) = [v = target] - p(v), d entropy / dz(v) = -p(v) (log p(v) +
 * entropy)
 */
static double backward_row(const void *ctx, float *logits, size_t n,
                           int32_t target)
{
    const struct backward *b = ctx;
    const float hit = b->dlogp[n] * b->scale;
    const float spread = b->dentropy ? b->dentropy[n] * b->scale : 0.0f;
    const float all = hit + (b->dentropy ? spread * b->entropy[n] : 0.0f);
    const float lse = b->lse[n];

#pragma omp simd
    for (size_t v = 0; v < b->V; v++) {
        float y = logits[v] * b->inverse - lse;
        logits[v] = -dt_expf(y) * (all + spread * y);
    }
    logits[target] += hit;
    return 0.0;
}

/* The same with a softcap, whose slope is 1 - (z slope)^2. */
static double ruled_backward_row(const void *ctx, float *logits, size_t n,
                                 int32_t target)
{
    const struct backward *b = ctx;
    const float hit = b->dlogp[n] * b->scale;
    const float spread = b->dentropy ? b->dentropy[n] * b->scale : 0.0f;
    const float all = hit + (b->dentropy ? spread * b->entropy[n] : 0.0f);
    const float lse = b->lse[n], slope = rule_slope(b->rule);

    apply_rule(logits, b->rule, b->V);
    const float t = logits[target] * slope;
#pragma omp simd
    for (size_t v = 0; v < b->V; v++) {
        float y = logits[v] - lse;
        float by = 1.0f - logits[v] * slope * (logits[v] * slope);
        logits[v] = -dt_expf(y) * (all + spread * y) * by;
    }
    logits[target] += hit * (1.0f - t * t);
    return 0.0;
}

/* Rows without a target get 0. */
static void clear(const struct forward *f, const int32_t *targets, size_t N)
{
    float *const all[] = {f->logp,      f->lse,  f->entropy,
                          f->collision, f->mean, f->top};

    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
        for (size_t n = 0; n < N && all[i]; n++)
            all[i][n] = targets[n] >= 0 ? all[i][n] : 0.0f;
}

static float *optional(struct dt_view v, size_t N)
{
    return v.count > 0 ? dt_cpu_f32(v, N) : NULL;
}

void DT_CPU(linear_logprob_forward)(
    struct dt_stream *stream, const struct dt_logprobs *out, struct dt_view x,
    struct dt_view w, struct dt_view targets, struct dt_view workspace,
    const struct dt_logit_rule *rule, size_t N, size_t C, size_t V)
{
    const bool capped = rule->softcap > 0.0f;
    const struct forward f = {
        .V = V,
        .inverse = capped ? 1.0f : rule->scale / rule->temperature,
        .rule = capped ? rule : NULL,
        .logp = dt_cpu_f32(out->logp, N),
        .lse = dt_cpu_f32(out->lse, N),
        .entropy = optional(out->entropy, N),
        .collision = optional(out->collision, N),
        .mean = optional(out->mean, N),
        .top = optional(out->top, N),
    };
    const struct head h = {
        .N = N,
        .C = C,
        .V = V,
        .x = x,
        .w = w,
        .targets = targets,
        .workspace = workspace,
        .row = forward_row,
        .ctx = &f,
    };
    (void)stream;
    assert(rule->temperature > 0.0f && rule->scale > 0.0f);

    clear(&f, dt_view_i32(targets), N);
    run_head(&h);
}

void DT_CPU(linear_logprob_backward)(
    struct dt_stream *stream, struct dt_view step, struct dt_view dx,
    struct dt_view dw, struct dt_view dlogp, struct dt_view dentropy,
    struct dt_view lse, struct dt_view entropy, struct dt_view x,
    struct dt_view w, struct dt_view targets, struct dt_view workspace,
    const struct dt_logit_rule *rule, size_t N, size_t C, size_t V,
    bool accumulate)
{
    const double loss_scale = dt_view_f64(step)[DT_STEP_LOSS_SCALE];
    const bool capped = rule->softcap > 0.0f;
    const double scale = (double)rule->scale / (double)rule->temperature;
    const struct backward b = {
        .V = V,
        .inverse = rule->scale / rule->temperature,
        .scale = (float)(loss_scale * scale),
        .rule = rule,
        .dlogp = dt_cpu_f32(dlogp, N),
        .lse = dt_cpu_f32(lse, N),
        .dentropy = optional(dentropy, N),
        .entropy = optional(entropy, N),
    };
    const struct head h = {
        .N = N,
        .C = C,
        .V = V,
        .x = x,
        .w = w,
        .targets = targets,
        .dx = dx,
        .dw = dw,
        .workspace = workspace,
        .accumulate = accumulate,
        .row = capped ? ruled_backward_row : backward_row,
        .ctx = &b,
    };
    (void)stream;
    assert(step.count == DT_STEP_COUNT && rule->temperature > 0.0f);
    assert(dx.count == N * C && (!b.dentropy || b.entropy));

    run_head(&h);
}
