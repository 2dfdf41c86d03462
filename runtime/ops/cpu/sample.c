/* SPDX-License-Identifier: Apache-2.0 */
/* sample.c - draws tokens from their logits, a row on one thread */
#include "config.h"

#include <math.h>
#include <string.h>

#include "ops/cpu/cpu.h"
#include "ops/cpu/cpu_rows.h"
#include "ops/cpu/vec.h"

/* Weights that are added in fp32; sums of these are added in double. */
enum { PIECE = 256 };

/* e^(logit / temperature), divided by the largest one. */
struct weights {
    const float *w;
    size_t V;
};

static double sum_piece(const struct weights *p, size_t first, float least)
{
    const size_t end = first + PIECE < p->V ? first + PIECE : p->V;
    float sum = 0.0f;

#pragma omp simd reduction(+ : sum)
    for (size_t v = first; v < end; v++)
        sum += p->w[v] >= least ? p->w[v] : 0.0f;
    return (double)sum;
}

/* The sum of the weights from `least` on. */
static double sum_from(const struct weights *p, float least)
{
    double sum = 0.0;

    for (size_t first = 0; first < p->V; first += PIECE)
        sum += sum_piece(p, first, least);
    return sum;
}

/* How many these are. */
static double count_from(const struct weights *p, float least)
{
    size_t count = 0;

#pragma omp simd reduction(+ : count)
    for (size_t v = 0; v < p->V; v++)
        count += p->w[v] >= least;
    return (double)count;
}

/* The largest weight from which on `measure` is `want` or more, which it is
 * from `least` on. Positive floats are in the order of their bits.
 */
static float bisect(const struct weights *p,
                    double (*measure)(const struct weights *, float),
                    double want, float least)
{
    const float most = 1.0f;
    uint32_t low, high, middle;
    float weight;

    memcpy(&low, &least, sizeof(low));
    memcpy(&high, &most, sizeof(high));
    while (low < high) {
        middle = low + (high - low + 1) / 2;
        memcpy(&weight, &middle, sizeof(weight));
        if (measure(p, weight) >= want)
            low = middle;
        else
            high = middle - 1;
    }
    memcpy(&weight, &low, sizeof(weight));
    return weight;
}

/* The smallest weight that the limits keep; `most` is the largest one. */
static float least_kept(const struct weights *p, float most,
                        const struct dt_sampling *sampling)
{
    float least = 0.0f;

    if (sampling->top_k > 0 && sampling->top_k < p->V)
        least = bisect(p, count_from, (double)sampling->top_k, least);
    if (sampling->top_p < 1.0)
        least =
            bisect(p, sum_from, sampling->top_p * sum_from(p, least), least);
    return fmaxf(least, (float)sampling->min_p * most);
}

/* The first token at which the sum of kept weights exceeds this share of all of
 * them; `likeliest` if all of them are NaN.
 */
static size_t draw_token(const struct weights *p, float least, double share,
                         size_t likeliest)
{
    double left = share * sum_from(p, least), rest = 0.0;
    size_t piece = 0, token = likeliest;

    for (size_t first = 0; first < p->V; first += PIECE) {
        double sum = sum_piece(p, first, least);
        if (sum > 0.0) { /* if rounding lets none exceed, it is the last */
            piece = first;
            rest = left;
        }
        if (left < sum)
            break;
        left -= sum;
    }
    for (size_t v = piece; v < p->V && v < piece + PIECE; v++) {
        if (!(p->w[v] >= least && p->w[v] > 0.0f))
            continue;
        token = v;
        rest -= (double)p->w[v];
        if (rest < 0.0)
            break;
    }
    return token;
}

static void penalize(float *z, const int32_t *seen, size_t V, float penalty)
{
    for (size_t v = 0; v < V; v++) {
        if (seen[v / 32] & (int32_t)(1u << v % 32))
            z[v] = z[v] > 0.0f ? z[v] / penalty : z[v] * penalty;
    }
}

/* The first token with the largest logit of those that may be drawn. Sets *max
 * to the largest of all.
 */
static size_t find_likeliest(float *z, size_t V,
                             const struct dt_sampling *sampling, float *max)
{
    float held[DT_SAMPLING_NEVER];
    size_t token = 0;

    for (size_t i = 0; i < sampling->never_count; i++) {
        held[i] = z[sampling->never[i]];
        z[sampling->never[i]] = NAN; /* which is no maximum */
    }
    *max = dt_max(z, V, -INFINITY);
    while (token < V && !(z[token] == *max))
        token++;
    for (size_t i = 0; i < sampling->never_count; i++) {
        z[sampling->never[i]] = held[i];
        *max = held[i] > *max ? held[i] : *max;
    }
    return token < V ? token : 0; /* all are NaN */
}

/* z(V) becomes weights; the token and its log-probability */
static size_t sample_row(float *z, size_t V, double share,
                         const struct dt_sampling *sampling, float *logp)
{
    const struct weights p = {z, V};
    const bool greedy = sampling->temperature == 0.0;
    const float inverse = greedy ? 1.0f : (float)(1.0 / sampling->temperature);
    float max;
    size_t token = find_likeliest(z, V, sampling, &max);

#pragma omp simd
    for (size_t v = 0; v < V; v++)
        z[v] = dt_expf((z[v] - max) * inverse);
    const double lse = log(sum_from(&p, 0.0f));
    for (size_t i = 0; i < sampling->never_count; i++)
        z[sampling->never[i]] = 0.0f;
    if (!greedy)
        token =
            draw_token(&p, least_kept(&p, z[token], sampling), share, token);
    *logp = (float)(log((double)z[token]) - lse);
    if (*logp > 0.0f)
        *logp = 0.0f;
    return token;
}

void DT_CPU(sample)(struct dt_stream *stream, struct dt_view ids,
                    struct dt_view logp, struct dt_view logits,
                    struct dt_view draws, struct dt_view seen,
                    const struct dt_sampling *sampling, size_t B, size_t V)
{
    const size_t words = (V + 31) / 32;
    const double *draw = dt_view_f64(draws);
    float *all = dt_view_f32(logits), *logps = dt_view_f32(logp);
    (void)stream;
    assert(ids.count == B && logp.count == B && draws.count == B);
    assert(logits.count == B * V);
    assert(seen.count == (sampling->repetition_penalty == 1 ? 0 : B * words));

#pragma omp parallel for schedule(static)
    for (size_t b = 0; b < B; b++) {
        float *z = all + b * V;
        dt_view_i32(ids)[b] = -1;
        logps[b] = 0.0f;
        if (!(draw[b] >= 0.0))
            continue;
        if (seen.count > 0)
            penalize(z, dt_view_i32(seen) + b * words, V,
                     (float)sampling->repetition_penalty);
        dt_view_i32(ids)[b] =
            (int32_t)sample_row(z, V, draw[b], sampling, &logps[b]);
    }
}
