/* SPDX-License-Identifier: Apache-2.0 */
/* test_optim.c - AdamW against known values, decay groups, clip, schedules */
#include "config.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "optim/optim.h"
#include "tensor/half.h"

static const struct dt_view none; /* the model computes with the master */

static void assert_near(double got, double want, double tolerance)
{
    if (!(fabs(got - want) <= tolerance))
        fail_msg("got %.15g, expected %.15g", got, want);
}

/* One matrix that decays, one bias that does not. */
static struct dt_layout *two_params(void)
{
    struct dt_layout *layout = dt_layout_create(NULL);
    assert_non_null(layout);
    assert_int_equal(
        dt_layout_add_unit(layout, DT_UNIT_BLOCK, DT_PART_LANGUAGE, NULL), 0);
    assert_int_equal(
        dt_layout_add_param(layout, "w", true, 2, (size_t[]){1, 1}, NULL), 0);
    assert_int_equal(
        dt_layout_add_param(layout, "b", false, 1, (size_t[]){1}, NULL), 1);
    dt_layout_finish(layout, 1);
    return layout;
}

struct setup {
    struct dt_exec exec;
    struct dt_layout *layout;
    struct dt_buffer *weights, *grads, *m, *v, *scalars;
    struct dt_optim *optim;
    float *w, *b, *gw, *gb;
};

static void setup_init(struct setup *s, enum dt_decay_filter filter,
                       bool coupled)
{
    const struct dt_optim_options options = {.beta1 = 0.9,
                                             .beta2 = 0.999,
                                             .eps = 1e-8,
                                             .weight_decay = 0.01,
                                             .coupled = coupled,
                                             .decay_filter = filter};
    s->exec = dt_exec_cpu();
    s->layout = two_params();
    size_t bytes = s->layout->count * sizeof(float);
    s->weights = dt_buffer_create(&dt_cpu, bytes, "weights", NULL);
    s->grads = dt_buffer_create(&dt_cpu, bytes, "grads", NULL);
    s->m = dt_buffer_create(&dt_cpu, bytes, "m", NULL);
    s->v = dt_buffer_create(&dt_cpu, bytes, "v", NULL);
    s->scalars = dt_buffer_create(&dt_cpu, DT_STEP_COUNT * sizeof(double),
                                  "scalars", NULL);
    s->optim = dt_optim_create(s->layout, &s->exec, &options, NULL);
    assert_true(s->weights && s->grads && s->m && s->v);
    assert_true(s->scalars && s->optim);
    s->w = s->weights->data;
    s->b = s->w + s->layout->params[1].offset;
    s->gw = s->grads->data;
    s->gb = s->gw + s->layout->params[1].offset;
    *s->w = *s->b = 1.0f;
}

static void setup_fini(struct setup *s)
{
    dt_optim_destroy(s->optim);
    dt_buffer_destroy(s->weights);
    dt_buffer_destroy(s->grads);
    dt_buffer_destroy(s->m);
    dt_buffer_destroy(s->v);
    dt_buffer_destroy(s->scalars);
    dt_layout_destroy(s->layout);
}

/* A step whose gradients are multiplied by `scale`, clipped to max_norm. */
static void clipped_step(struct setup *s, struct dt_view rounded, double scale,
                         double max_norm)
{
    struct dt_view step = dt_view_of(s->scalars, DT_F64);
    long n = dt_optim_steps(s->optim) + 1;
    struct dt_step_params params[DT_STEP_OUTCOMES];
    for (int i = 0; i < DT_STEP_OUTCOMES; i++) {
        params[i] = dt_optim_step_params(s->optim, n, 1e-3);
        params[i].loss_scale = 1.0 / scale;
    }
    s->exec.ops->step_begin(NULL, step, params);
    s->exec.ops->step_add(NULL, step, 1, 0);
    s->exec.ops->sum_of_squares(NULL, step, dt_view_of(s->grads, DT_F32));
    s->exec.ops->clip_and_check(NULL, step, max_norm);
    dt_optim_update(s->optim, false, step, 0, dt_view_of(s->weights, DT_F32),
                    rounded, dt_view_of(s->grads, DT_F32),
                    dt_view_of(s->m, DT_F32), dt_view_of(s->v, DT_F32), NULL);
    dt_optim_set_steps(s->optim, n);
}

static void setup_step(struct setup *s, struct dt_view rounded, double scale)
{
    clipped_step(s, rounded, scale, 0);
}

/* p=1, lr 1e-3, wd .01, g=.1,-.2,.3, computed in double from the formula. */
static void adamw_steps_match_the_formula(void **state)
{
    static const double g[] = {0.1, -0.2, 0.3};
    static const double want[] = {0.9989900001, 0.9993461137038839,
                                  0.9989928791783396};
    struct setup s;
    (void)state;
    setup_init(&s, DT_DECAY_HF, false);
    for (int i = 0; i < 3; i++) {
        *s.gw = *s.gb = (float)(g[i] * 2.0);
        setup_step(&s, none, 0.5);
        assert_near(*s.w, want[i], 2e-7);
    }
    assert_near(((float *)s.m->data)[0], 0.0201, 1e-8);
    assert_near(((float *)s.v->data)[0], 1.3994001e-4, 1e-10);
    assert_int_equal(dt_optim_steps(s.optim), 3);
    assert_true(*s.b > *s.w + 2e-5f);            /* the bias did not decay */
    for (size_t i = 2; i < s.layout->count; i++) /* padding stays zero */
        if (i != s.layout->params[1].offset)
            assert_true(s.w[i] == 0.0f);
    setup_fini(&s);
}

/* The same steps with torch.optim.Adam in double. */
static void adam_steps_match_those_of_torch(void **state)
{
    static const double g[] = {0.1, -0.2, 0.3};
    static const double want[] = {0.9990000000909091, 0.9993085005102668,
                                  0.9989248573749913};
    struct setup s;
    (void)state;
    setup_init(&s, DT_DECAY_HF, true);
    for (int i = 0; i < 3; i++) {
        *s.gw = *s.gb = (float)g[i];
        setup_step(&s, none, 1.0);
        assert_near(*s.w, want[i], 2e-7);
    }
    assert_near(((float *)s.m->data)[0], .022808408500592077, 1e-8);
    assert_near(((float *)s.v->data)[0], 1.4423922115053582e-4, 1e-10);
    assert_near(((float *)s.m->data)[s.b - s.w], 0.0201, 1e-8);
    setup_fini(&s);
}

/* The model's weights are the master's, rounded; the master does not feel it:
 * steps too small for 16 bits add up.
 */
static void rounding_leaves_the_master_weights_exact(void **state)
{
    static const enum dt_dtype types[] = {DT_BF16, DT_F16};
    (void)state;
    for (size_t t = 0; t < 2; t++) {
        struct setup one, two;
        setup_init(&one, DT_DECAY_HF, false);
        setup_init(&two, DT_DECAY_HF, false);
        struct dt_buffer *buf =
            dt_buffer_create(&dt_cpu, one.layout->count * 2, "rounded", NULL);
        const uint16_t *got = buf->data;
        for (int i = 0; i < 8; i++) {
            *one.gw = *two.gw = *one.gb = *two.gb = 0.1f;
            setup_step(&one, dt_view_of(buf, types[t]), 1.0);
            setup_step(&two, none, 1.0);
            assert_true(*one.w == *two.w && *one.b == *two.b);
            for (size_t j = 0; j < one.layout->count; j++)
                assert_int_equal(got[j], types[t] == DT_BF16
                                             ? dt_f32_to_bf16(one.w[j])
                                             : dt_f32_to_f16(one.w[j]));
        }
        assert_near(*one.b, 0.992, 1e-5);
        dt_buffer_destroy(buf);
        setup_fini(&one);
        setup_fini(&two);
    }
}

static void a_decay_filter_chooses_which_weights_decay(void **state)
{
    static const struct {
        enum dt_decay_filter filter;
        int w, b;
    } cases[] = {{DT_DECAY_HF, 1, 0},
                 {DT_DECAY_NDIM2, 1, 0},
                 {DT_DECAY_ALL, 1, 1},
                 {DT_DECAY_NONE, 0, 0}};
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct setup s;
        setup_init(&s, cases[i].filter, false);
        setup_step(&s, none, 1.0); /* no gradient: only decay moves a weight */
        assert_int_equal(*s.w < 1.0f, cases[i].w);
        assert_int_equal(*s.b < 1.0f, cases[i].b);
        setup_fini(&s);
    }
}

static void gradients_above_the_norm_are_clipped(void **state)
{
    struct setup s;
    (void)state;
    setup_init(&s, DT_DECAY_HF, false);
    *s.gw = 3.0f;
    *s.gb = 4.0f;
    const double *scalars = s.scalars->data;
    clipped_step(&s, none, 2.0, 1.0);
    assert_near(scalars[DT_STEP_NORM], 10.0, 1e-6);
    assert_near(scalars[DT_STEP_GRAD_SCALE], 2.0 / (10.0 + 1e-6), 1e-12);
    assert_near(((float *)s.m->data)[0], 0.06, 1e-7);
    clipped_step(&s, none, 0.1, 1.0);
    assert_near(scalars[DT_STEP_GRAD_SCALE], 0.1, 0.0);
    clipped_step(&s, none, 2.0, 0.0);
    assert_near(scalars[DT_STEP_GRAD_SCALE], 2.0, 0.0);
    setup_fini(&s);
}

/* A cosine over 100 steps; others differ in what they set. */
static struct dt_schedule base_schedule(enum dt_schedule_name name, long warmup)
{
    return (struct dt_schedule){.name = name,
                                .lr = 1.0,
                                .num_cycles = 0.5,
                                .power = 1.0,
                                .warmup = warmup,
                                .total = 100};
}

struct rate {
    long k;
    double lr;
};

static void check_rates(const struct dt_schedule *schedule,
                        const struct rate *rates, size_t count)
{
    for (size_t i = 0; i < count; i++)
        assert_near(dt_schedule_lr(schedule, rates[i].k), rates[i].lr, 1e-9);
}

#define CHECK_RATES(schedule, rates)                                           \
    check_rates(schedule, rates, sizeof(rates) / sizeof((rates)[0]))

static void the_cosine_schedule_falls_to_its_minimum(void **state)
{
    static const struct rate want[] = {
        {0, 0},   {1, .1},          {5, .5},  {10, 1},  {11, .999695414},
        {55, .5}, {99, .000304586}, {100, 0}, {1000, 0}};
    static const struct rate with_min[] = {{5, 1.0}, {55, 1.1}, {100, 0.2}};
    struct dt_schedule s = base_schedule(DT_SCHEDULE_COSINE, 10);
    (void)state;
    CHECK_RATES(&s, want);
    s.name = DT_SCHEDULE_COSINE_WITH_MIN_LR;
    s.lr = 2.0;
    s.min_lr = 0.2;
    CHECK_RATES(&s, with_min);
}

/* Beyond the stored runs of transformers: the ends, and runs of one step. */
static void every_schedule_is_defined_beyond_its_end(void **state)
{
    struct dt_schedule s = base_schedule(DT_SCHEDULE_LINEAR, 10);
    (void)state;
    assert_near(dt_schedule_lr(&s, 200), 0.0, 0.0);
    s.name = DT_SCHEDULE_COSINE_WITH_RESTARTS;
    s.num_cycles = 1.0;
    assert_near(dt_schedule_lr(&s, 100), 0.0, 0.0);
    s.name = DT_SCHEDULE_CONSTANT;
    assert_near(dt_schedule_lr(&s, 0), 1.0, 0.0);
    s.name = DT_SCHEDULE_CONSTANT_WITH_WARMUP;
    assert_near(dt_schedule_lr(&s, 500), 1.0, 0.0);
    s.name = DT_SCHEDULE_POLYNOMIAL;
    s.power = 2.5;
    s.min_lr = 0.1;
    assert_near(dt_schedule_lr(&s, 100), 0.1, 0.0);
    assert_near(dt_schedule_lr(&s, 300), 0.1, 0.0);
    s.name = DT_SCHEDULE_WARMUP_STABLE_DECAY;
    s.decay = 20;
    assert_near(dt_schedule_lr(&s, 100), 0.1, 0.0);
    s = base_schedule(DT_SCHEDULE_LINEAR, 0);
    s.total = 1;
    for (int name = DT_SCHEDULE_CONSTANT; name <= DT_SCHEDULE_NANOGPT; name++) {
        s.name = (enum dt_schedule_name)name;
        assert_true(isfinite(dt_schedule_lr(&s, 0)));
        assert_true(isfinite(dt_schedule_lr(&s, 1)));
    }
}

/* lr 1, minimum 0.1: (k+1)/(w+1), then half a cosine, then the minimum. */
static void the_nanogpt_schedule_follows_its_formula(void **state)
{
    static const struct rate want[] = {{0, 1.0 / 11}, {9, 10.0 / 11},
                                       {10, 1.0},     {55, 0.55},
                                       {100, 0.1},    {500, 0.1}};
    struct dt_schedule s = base_schedule(DT_SCHEDULE_NANOGPT, 10);
    (void)state;
    s.min_lr = 0.1;
    CHECK_RATES(&s, want);
}

static void the_deepspeed_schedules_follow_their_formulas(void **state)
{
    static const struct rate log_500[] = {{0, 0},
                                          {1, 0},
                                          {2, .111535139},
                                          {3, .176779013},
                                          {10, .370511713},
                                          {100, .741023426},
                                          {250, .888464861},
                                          {499, .999677855},
                                          {500, 1},
                                          {5000, 1}};
    static const struct rate decay[] = {{0, .2},   {1, .2},   {6, .6},
                                        {10, .92}, {11, 1.0}, {56, .6},
                                        {101, .2}, {500, .2}};
    static const struct rate cosine[] = {{0, 0},    {1, .2},   {6, .6},
                                         {55, .55}, {100, .1}, {200, .1}};
    struct dt_schedule s = base_schedule(DT_SCHEDULE_DS_WARMUP, 500);
    (void)state;
    s.warmup_curve = DT_CURVE_LOG;
    CHECK_RATES(&s, log_500);
    s.warmup = 1; /* raised to 2 */
    assert_near(dt_schedule_lr(&s, 2), 1.0, 1e-12);
    s = base_schedule(DT_SCHEDULE_DS_WARMUP_DECAY, 10);
    s.warmup_lr = 0.2;
    CHECK_RATES(&s, decay);
    s.name = DT_SCHEDULE_DS_WARMUP_COSINE;
    s.min_lr = 0.1;
    CHECK_RATES(&s, cosine);
}

/* --- rates of parts --- */

enum { UNITS = 6, EACH = 300 };

/* Units of EACH elements, of which one is empty. */
static struct dt_layout *six_units(void)
{
    static const enum dt_model_part parts[UNITS] = {
        DT_PART_VISION,   DT_PART_VISION,   DT_PART_PROJECTOR,
        DT_PART_LANGUAGE, DT_PART_LANGUAGE, DT_PART_LANGUAGE};
    struct dt_layout *layout = dt_layout_create(NULL);
    assert_non_null(layout);
    for (size_t u = 0; u < UNITS; u++) {
        assert_int_equal(
            dt_layout_add_unit(layout, DT_UNIT_BLOCK, parts[u], NULL), 0);
        if (u != 3)
            assert_true(dt_layout_add_param(layout, "w", u % 2, 1,
                                            (size_t[]){EACH}, NULL) >= 0);
    }
    dt_layout_finish(layout, 1);
    return layout;
}

/* Two steps with these rates, into weights(count); each update is of `most`
 * elements, 0: of all.
 */
static void steps_at(const struct dt_layout *layout,
                     const double rates[DT_PARTS], double lr, size_t most,
                     float *weights)
{
    struct dt_optim_options options = {
        .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .weight_decay = 0.1};
    const struct dt_exec exec = dt_exec_cpu();
    const size_t count = layout->count;
    struct dt_buffer *buf =
        dt_buffer_create(&dt_cpu, 4 * count * sizeof(float), "a test", NULL);
    double scalars[DT_STEP_COUNT] = {0};
    struct dt_buffer here = {scalars, sizeof(scalars), &dt_cpu};
    const struct dt_view step = dt_view_of(&here, DT_F64);
    assert_non_null(buf);
    memcpy(options.rates, rates, sizeof(options.rates));
    struct dt_optim *optim = dt_optim_create(layout, &exec, &options, NULL);
    assert_non_null(optim);
    const struct dt_view all = dt_view_of(buf, DT_F32);
    for (size_t i = 0; i < count; i++) {
        dt_view_f32(all)[i] = 1.0f + 0.001f * (float)i;
        dt_view_f32(all)[count + i] = 0.5f - 0.002f * (float)i;
    }
    for (long n = 1; n <= 2; n++) {
        struct dt_step_params params[DT_STEP_OUTCOMES];
        for (int i = 0; i < DT_STEP_OUTCOMES; i++) {
            params[i] = dt_optim_step_params(optim, n, lr);
            params[i].loss_scale = 1;
        }
        exec.ops->step_begin(NULL, step, params);
        exec.ops->step_add(NULL, step, 1, 0);
        exec.ops->clip_and_check(NULL, step, 0);
        for (size_t at = 0, now; at < count; at += now) {
            now = most > 0 && most < count - at ? most : count - at;
            dt_optim_update(optim, false, step, at, dt_view_slice(all, at, now),
                            none, dt_view_slice(all, count + at, now),
                            dt_view_slice(all, 2 * count + at, now),
                            dt_view_slice(all, 3 * count + at, now), NULL);
        }
    }
    memcpy(weights, buf->data, count * sizeof(float));
    dt_optim_destroy(optim);
    dt_buffer_destroy(buf);
}

/* A part has the bits of a model that learns at its rate alone, however updates
 * are cut. Rates of 0 are 1.
 */
static void parts_learn_at_their_own_rates(void **state)
{
    static const double mixed[DT_PARTS] = {
        [DT_PART_VISION] = 0.25, [DT_PART_PROJECTOR] = 4};
    static const double alone[DT_PARTS] = {1, 1, 1}, unset[DT_PARTS] = {0};
    static const size_t cuts[] = {0, 128, 384, 1024};
    struct dt_layout *layout = six_units();
    float *of[4], *own = malloc(layout->count * sizeof(*own));
    (void)state;
    assert_non_null(own);
    for (int i = 0; i < 4; i++) {
        of[i] = malloc(layout->count * sizeof(*own));
        assert_non_null(of[i]);
    }
    steps_at(layout, alone, 1e-2, 0, of[DT_PART_LANGUAGE]);
    steps_at(layout, alone, 4e-2, 0, of[DT_PART_PROJECTOR]);
    steps_at(layout, alone, 0.25e-2, 0, of[DT_PART_VISION]);
    steps_at(layout, unset, 1e-2, 0, of[3]);
    assert_memory_equal(of[3], of[DT_PART_LANGUAGE],
                        layout->count * sizeof(float));
    for (size_t c = 0; c < sizeof(cuts) / sizeof(cuts[0]); c++) {
        steps_at(layout, mixed, 1e-2, cuts[c], own);
        for (size_t u = 0; u < UNITS; u++) {
            const struct dt_unit *unit = &layout->units[u];
            assert_memory_equal(own + unit->offset,
                                of[unit->part] + unit->offset,
                                unit->count * sizeof(float));
        }
    }
    for (int i = 0; i < 4; i++)
        free(of[i]);
    free(own);
    dt_layout_destroy(layout);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_learn_at_their_own_rates),
        cmocka_unit_test(adamw_steps_match_the_formula),
        cmocka_unit_test(a_decay_filter_chooses_which_weights_decay),
        cmocka_unit_test(adam_steps_match_those_of_torch),
        cmocka_unit_test(rounding_leaves_the_master_weights_exact),
        cmocka_unit_test(gradients_above_the_norm_are_clipped),
        cmocka_unit_test(the_cosine_schedule_falls_to_its_minimum),
        cmocka_unit_test(every_schedule_is_defined_beyond_its_end),
        cmocka_unit_test(the_nanogpt_schedule_follows_its_formula),
        cmocka_unit_test(the_deepspeed_schedules_follow_their_formulas),
    };
    return cmocka_run_group_tests_name("optim", tests, NULL, NULL);
}
