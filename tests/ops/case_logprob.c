/* SPDX-License-Identifier: Apache-2.0 */
/* case_logprob.c - log-probabilities of given tokens, from the head */
#include "config.h"

#include <math.h>
#include <string.h>

#include "harness.h"
#include "tensor/tensor.h"

/* A head in double precision, and the sum whose gradients are tested. */
struct head {
    size_t N, C, V;
    double *x, *w, *z; /* z: scratch, (V) */
    double *dlogp, *dentropy;
    const int32_t *target;
    double scale;
    struct dt_logit_rule rule;
};

static double logit_of(const struct dt_logit_rule *rule, double product)
{
    const double cap = (double)rule->softcap;
    const double z = product * (double)rule->scale;

    return (cap > 0.0 ? cap * tanh(z / cap) : z) / (double)rule->temperature;
}

/* What the operation says of a row. */
struct row {
    double logp, entropy, collision, lse, mean, top;
};

static struct row row_of(const struct head *h, size_t n)
{
    double most = -INFINITY, sum = 0.0;
    struct row r = {0};

    for (size_t v = 0; v < h->V; v++) {
        h->z[v] =
            logit_of(&h->rule, dot(h->x + n * h->C, h->w + v * h->C, h->C));
        most = fmax(most, h->z[v]);
        r.mean += h->z[v] / (double)h->V;
    }
    r.top = h->z[h->target[n]] >= most;
    for (size_t v = 0; v < h->V; v++)
        sum += exp(h->z[v] - most);
    r.lse = most + log(sum);
    r.logp = h->z[h->target[n]] - r.lse;
    for (size_t v = 0; v < h->V; v++) {
        double p = exp(h->z[v] - r.lse);
        r.entropy -= p * (h->z[v] - r.lse);
        r.collision += p * p;
    }
    r.collision = log(r.collision);
    return r;
}

static double head_sum(void *context)
{
    const struct head *h = context;
    double total = 0.0;

    for (size_t n = 0; n < h->N; n++) {
        if (h->target[n] < 0)
            continue;
        struct row r = row_of(h, n);
        total += h->dlogp[n] * r.logp + h->dentropy[n] * r.entropy;
    }
    return h->scale * total;
}

static const struct dt_logit_rule PLAIN = {1.0f, 0.0f, 1.0f};
static const struct dt_logit_rule WARM = {1.0f, 0.0f, 0.7f};
static const struct dt_logit_rule SCALED = {0.25f, 0.0f, 1.7f};
static const struct dt_logit_rule CAPPED = {1.0f, 1.5f, 1.0f};
static const struct dt_logit_rule BOTH = {2.0f, 5.0f, 0.7f};

/* Operands and results of a call; all logits are `sharp` times as large. */
struct call {
    size_t N, C, V, rows; /* rows: what the workspace is for */
    struct dt_logit_rule rule;
    struct dt_view x, w, targets, dx, dw;
    struct dt_logprobs out;
    struct dt_view dlogp, dentropy;
};

static struct call call_of(enum dt_dtype type, size_t N, size_t C, size_t V,
                           size_t rows, double sharp)
{
    struct call c = {.N = N,
                     .C = C,
                     .V = V,
                     .rows = rows,
                     .rule = {1.0f, 0.0f, 1.0f},
                     .x = tensor_of(type, N * C),
                     .w = tensor_of(type, V * C),
                     .targets = tensor_ids(N, V),
                     .dx = tensor_of(type, N * C),
                     .dw = tensor(V * C),
                     .out = {tensor(N), tensor(N), tensor(N), tensor(N),
                             tensor(N), tensor(N)},
                     .dlogp = tensor(N),
                     .dentropy = tensor(N)};

    for (size_t i = 0; i < c.w.count; i++)
        set_element(c.w, i, element(c.w, i) * sharp);
    for (size_t n = 2; n < N; n += 3) /* any negative number */
        dt_view_i32(c.targets)[n] = n % 2 ? DT_IGNORE : -1;
    return c;
}

static struct head head_of(const struct call *c, double scale)
{
    return (struct head){
        .N = c->N,
        .C = c->C,
        .V = c->V,
        .x = doubles(c->x),
        .w = doubles(c->w),
        .z = zeros(c->V),
        .dlogp = doubles(c->dlogp),
        .dentropy = c->dentropy.count > 0 ? doubles(c->dentropy) : zeros(c->N),
        .target = dt_view_i32(c->targets),
        .scale = scale,
        .rule = c->rule};
}

static struct dt_view space_of(const struct call *c)
{
    return workspace(
        ops->loss_workspace(c->x.dtype, c->rows, c->C, c->V, false));
}

static void forward(const struct call *c)
{
    ops->linear_logprob_forward(NULL, &c->out, c->x, c->w, c->targets,
                                space_of(c), &c->rule, c->N, c->C, c->V);
}

static void backward(const struct call *c, double scale, bool accumulate)
{
    ops->linear_logprob_backward(
        NULL, tensor_step(scale), c->dx, c->dw, c->dlogp, c->dentropy,
        c->out.lse, c->out.entropy, c->x, c->w, c->targets, space_of(c),
        &c->rule, c->N, c->C, c->V, accumulate);
}

static void check_forward(const struct call *c)
{
    const struct head h = head_of(c, 1.0);
    double *logp = zeros(c->N), *entropy = zeros(c->N);
    double *collision = zeros(c->N), *lse = zeros(c->N);
    double *mean = zeros(c->N), *top = zeros(c->N);

    for (size_t n = 0; n < c->N; n++) {
        struct row r = {0};
        if (h.target[n] >= 0)
            r = row_of(&h, n);
        logp[n] = r.logp;
        entropy[n] = r.entropy;
        collision[n] = r.collision;
        lse[n] = r.lse;
        mean[n] = r.mean;
        top[n] = r.top;
    }
    check_close("logp", c->out.logp, logp, 1e-6);
    check_close("entropy", c->out.entropy, entropy, 1e-6);
    check_close("collision", c->out.collision, collision, 1e-6);
    check_close("lse", c->out.lse, lse, 1e-6);
    check_close("mean", c->out.mean, mean, 1e-6);
    check_close("top", c->out.top, top, 0.0);
    for (size_t n = 0; n < c->N; n++)
        assert_true(dt_view_f32(c->out.logp)[n] <= 0.0f);
}

static void fp32_case(size_t N, size_t C, size_t V, size_t rows,
                      struct dt_logit_rule rule, bool accumulate)
{
    struct call c = call_of(DT_F32, N, C, V, rows, 1.0);
    double *before = doubles(c.dw);
    struct head h;

    c.rule = rule;
    forward(&c);
    check_forward(&c);
    backward(&c, 0.25, accumulate);
    h = head_of(&c, 0.25);
    check_gradient("dx", c.dx, h.x, head_sum, &h, NULL);
    check_gradient("dw", c.dw, h.w, head_sum, &h, accumulate ? before : NULL);
}

/* Results come from fp32 logits, so they are as exact as with fp32 operands.
 * The gradients of logits are rounded before they are multiplied.
 */
static void half_case(enum dt_dtype type, size_t rows,
                      struct dt_logit_rule rule)
{
    struct call c = call_of(type, 10, 16, 257, rows, 1.0), wide = c;
    const double allowed = rounding(type) + inner(type);

    c.rule = wide.rule = rule;
    forward(&c);
    check_forward(&c);
    backward(&c, 2.0, false);
    wide.x = tensor(c.x.count);
    wide.w = tensor(c.w.count);
    wide.dx = tensor(c.dx.count);
    wide.dw = tensor(c.dw.count);
    ops->convert(NULL, wide.x, c.x);
    ops->convert(NULL, wide.w, c.w);
    backward(&wide, 2.0, false);
    check_close("dx", c.dx, doubles(wide.dx), allowed);
    check_close("dw", c.dw, doubles(wide.dw), allowed);
}

void test_logprob(void **state)
{
    (void)state;
    fp32_case(1, 3, 257, 1, PLAIN, false);
    fp32_case(5, 3, 3, 1, WARM, false);
    fp32_case(7, 33, 257, 2, PLAIN, true);
    fp32_case(10, 16, 257, 4, WARM, false);
    fp32_case(70, 8, 1000, 70, PLAIN, false);
    fp32_case(1100, 4, 5, 900, PLAIN, true);
    fp32_case(10, 16, 257, 4, SCALED, true);
    fp32_case(7, 33, 257, 2, CAPPED, false);
    fp32_case(10, 16, 257, 4, BOTH, true);
    half_case(DT_BF16, 5, WARM);
    half_case(DT_F16, 10, WARM);
    half_case(DT_BF16, 10, BOTH);
}

/* The multiplications of fp16 are the built-in loops on every CPU, whose bits
 * depend neither on threads nor on the size of chunks.
 */
void test_logprob_bits(void **state)
{
    struct call one = call_of(DT_F16, 13, 37, 4099, 13, 3.0), other = one;
    (void)state;

    other.rows = 4;
    other.dx = tensor_of(DT_F16, one.dx.count);
    other.out.logp = tensor(one.N);
    other.out.entropy = tensor(one.N);
    other.out.mean = tensor(one.N);
    forward(&one);
    backward(&one, 1.0, false);
    forward(&other);
    backward(&other, 1.0, false);
    const struct dt_view is[] = {one.out.logp, one.out.entropy, one.out.mean};
    const struct dt_view was[] = {other.out.logp, other.out.entropy,
                                  other.out.mean};
    for (size_t i = 0; i < 3; i++)
        assert_memory_equal(dt_view_data(is[i]), dt_view_data(was[i]),
                            one.N * sizeof(float));
    assert_memory_equal(dt_view_data(one.dx), dt_view_data(other.dx),
                        one.dx.count * dt_dtype_bytes(DT_F16));
}

/* A run plans its workspace for its largest batch, which must not change the
 * order of sums of smaller ones: of all N up to it.
 */
void test_logprob_planned_rows(void **state)
{
    enum { MOST = 24, C = 8, V = 300 };
    (void)state;

    for (size_t N = 1; N <= MOST; N++) {
        struct call own = call_of(DT_BF16, N, C, V, N, 1.0), planned = own;
        planned.dx = tensor_of(DT_BF16, N * C);
        planned.dw = tensor(V * C);
        forward(&own);
        backward(&own, 1.0, false);
        for (planned.rows = N + 1; planned.rows <= MOST; planned.rows++) {
            backward(&planned, 1.0, false);
            assert_memory_equal(dt_view_data(own.dx), dt_view_data(planned.dx),
                                N * C * dt_dtype_bytes(DT_BF16));
            assert_memory_equal(dt_view_f32(own.dw), dt_view_f32(planned.dw),
                                V * C * sizeof(float));
        }
    }
}

/* Without the others the log-probabilities and gradients are the same, and
 * a weight of -1 for each token makes those of the cross entropy.
 */
static void cross_entropy_case(size_t N, size_t V, size_t rows)
{
    struct call c = call_of(DT_F32, N, 8, V, rows, 2.0);
    struct dt_view dx = tensor(c.dx.count), dw = tensor(c.dw.count);
    struct dt_view step = tensor_step(0.5);
    double *logp, sum = 0.0, loss;

    forward(&c);
    logp = doubles(c.out.logp);
    c.out = (struct dt_logprobs){.logp = c.out.logp, .lse = c.out.lse};
    c.dentropy = tensor(0);
    for (size_t n = 0; n < c.N; n++)
        dt_view_f32(c.dlogp)[n] = -1.0f;
    forward(&c);
    check_close("logp", c.out.logp, logp, 0.0);
    backward(&c, 0.5, false);
    ops->linear_cross_entropy(NULL, step, dx, dw, c.x, c.w, c.targets,
                              space_of(&c), &PLAIN, 0.0f, c.N, c.C, c.V, false);
    loss = dt_view_f64(step)[DT_STEP_LOSS];
    for (size_t n = 0; n < c.N; n++)
        sum += logp[n];
    assert_true(fabs(loss + sum) <= 1e-5 * loss);
    check_close("dx", c.dx, doubles(dx), 1e-5);
    check_close("dw", c.dw, doubles(dw), 1e-5);
}

/* A row of 13001 takes several rounds of a block of threads, and more shared
 * memory than a GPU gives without being asked.
 */
void test_logprob_of_cross_entropy(void **state)
{
    (void)state;
    cross_entropy_case(11, 300, 5);
    cross_entropy_case(3, 13001, 2);
}

/* A distribution with one certain token, one with equal ones, and NaN. */
void test_logprob_extremes(void **state)
{
    enum { N = 3, C = 2, V = 70 };
    struct call c = call_of(DT_F32, N, C, V, N, 0.0);
    (void)state;

    set_element(c.w, 9 * C, 1000.0);
    for (size_t i = 0; i < (size_t)N * C; i++)
        set_element(c.x, i, i < C ? 1.0 : 0.0);
    set_element(c.x, 2 * C + 1, NAN);
    for (size_t n = 0; n < N; n++)
        dt_view_i32(c.targets)[n] = 9;
    forward(&c);
    const struct dt_logprobs *out = &c.out;
    assert_true(element(out->logp, 0) == 0.0);
    assert_true(element(out->entropy, 0) == 0.0);
    assert_true(element(out->collision, 0) == 0.0);
    assert_true(element(out->lse, 0) == 1000.0);
    assert_true(fabs(element(out->mean, 0) - 1000.0 / V) < 1e-5);
    assert_true(fabs(element(out->logp, 1) + log(V)) < 1e-5);
    assert_true(fabs(element(out->entropy, 1) - log(V)) < 1e-5);
    assert_true(fabs(element(out->collision, 1) + log(V)) < 1e-5);
    assert_true(element(out->mean, 1) == 0.0);
    /* one of several equal ones is the most likely, too */
    assert_true(element(out->top, 0) == 1.0 && element(out->top, 1) == 1.0);
    assert_true(isnan(element(out->logp, 2)) && isnan(element(out->mean, 2)));
    assert_true(isnan(element(out->entropy, 2)) && element(out->top, 2) == 0.0);
}

void test_logprob_without_targets(void **state)
{
    struct call c = call_of(DT_F32, 3, 4, 5, 1, 1.0);
    double *before = doubles(c.dw);
    (void)state;

    for (size_t n = 0; n < c.N; n++)
        dt_view_i32(c.targets)[n] = DT_IGNORE;
    forward(&c);
    check_close("logp", c.out.logp, zeros(c.N), 0.0);
    check_close("entropy", c.out.entropy, zeros(c.N), 0.0);
    check_close("mean", c.out.mean, zeros(c.N), 0.0);
    check_close("top", c.out.top, zeros(c.N), 0.0);
    backward(&c, 1.0, true);
    check_close("dx", c.dx, zeros(c.dx.count), 0.0);
    check_close("dw", c.dw, before, 0.0);
    backward(&c, 1.0, false);
    check_close("dw from nothing", c.dw, zeros(c.dw.count), 0.0);
}
