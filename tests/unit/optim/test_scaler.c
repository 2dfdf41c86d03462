/* SPDX-License-Identifier: Apache-2.0 */
/* test_scaler.c - loss scales after overflows, as DeepSpeed and torch have them
 */
#include "config.h"

#include "run/numerics.h"
#include "tests/unit/conf.h"

static struct dt_scaler deepspeed(long hysteresis, bool consecutive)
{
    return dt_scaler_init(&(struct dt_scaler_options){
        .kind = DT_SCALER_DEEPSPEED,
        .scale = 65536.0,
        .window = 1000,
        .hysteresis = hysteresis,
        .consecutive_hysteresis = consecutive,
        .min_scale = 1.0,
    });
}

/* One step for each letter, x with an overflow; checks the scale of each, and
 * the one after the last.
 */
static void check_steps(struct dt_scaler *s, const char *steps,
                        const double *scales)
{
    struct dt_error err;
    for (; *steps; steps++) {
        assert_true(s->scale == *scales++);
        assert_int_equal(dt_scaler_update(s, *steps == 'x', &err), 0);
    }
    assert_true(s->scale == *scales);
}

/* Hysteresis 2, overflows at 0, 1, 2: kept, halved, halved again; the first
 * doubling is after step 1003.
 */
static void overflows_past_the_hysteresis_halve_the_scale(void **state)
{
    struct dt_scaler s = deepspeed(2, false);
    (void)state;
    check_steps(&s, "xxx", (double[]){65536, 65536, 32768, 16384});
    while (s.steps < 1003)
        check_steps(&s, ".", (double[]){16384, 16384});
    assert_int_equal(s.hysteresis, 1);
    check_steps(&s, ".", (double[]){16384, 32768});
    assert_int_equal(s.hysteresis, 2); /* refilled by the window */
    check_steps(&s, "xx", (double[]){32768, 32768, 16384});
}

static void a_window_without_overflow_doubles_the_scale(void **state)
{
    struct dt_scaler s = deepspeed(1, false);
    (void)state;
    while (s.steps < 1000)
        check_steps(&s, ".", (double[]){65536, 65536});
    check_steps(&s, ".", (double[]){65536, 131072});
    while (s.steps < 2000)
        check_steps(&s, ".", (double[]){131072, 131072});
    check_steps(&s, ".x", (double[]){131072, 262144, 131072});
}

static void any_step_without_overflow_refills_hysteresis(void **state)
{
    struct dt_scaler s = deepspeed(2, true);
    (void)state;
    check_steps(&s, "x.x.xx",
                (double[]){65536, 65536, 65536, 65536, 65536, 65536, 32768});
}

static void an_overflow_at_the_minimum_is_an_error(void **state)
{
    struct dt_scaler s = deepspeed(1, false);
    struct dt_error err;
    (void)state;
    s.scale = 3.0;
    s.options.min_scale = 2.0;
    check_steps(&s, "x", (double[]){3, 2});
    assert_int_equal(dt_scaler_update(&s, true, &err), -1);
    assert_int_equal(err.status, EX_DATAERR);
    assert_string_equal(err.text,
                        "loss scale already at its minimum 2: lower "
                        "optimizer.lr, use precision.compute bf16, or look at "
                        "the data of this step");
}

/* What torch.amp.GradScaler of PyTorch 2.6 does, by running it. */
static void the_torch_scaler_does_what_torch_does(void **state)
{
    static const double scales[] = {
        65536, 65536, 65536, 131072, 65536, 65536, 65536, 32768, 16384, 16384,
        16384, 32768, 32768, 16384,  16384, 16384, 32768, 32768, 32768, 65536};
    struct dt_scaler_options options = {
        .kind = DT_SCALER_TORCH, .scale = 65536.0, .window = 3};
    struct dt_scaler s = dt_scaler_init(&options);
    (void)state;
    check_steps(&s, "...x..xx....x......", scales);
    options.scale = 0x1p126;
    options.window = 1;
    s = dt_scaler_init(&options);
    check_steps(&s, "...x..",
                (double[]){0x1p126, 0x1p127, 0x1p127, 0x1p127, 0x1p126, 0x1p127,
                           0x1p127});
}

static void a_resumed_scaler_goes_on_as_if_uninterrupted(void **state)
{
    static const char steps[] = "..x...xx.....x....x...........";
    (void)state;
    for (int kind = DT_SCALER_DEEPSPEED; kind <= DT_SCALER_TORCH; kind++) {
        const struct dt_scaler_options options = {.kind =
                                                      (enum dt_scaler_kind)kind,
                                                  .scale = 64,
                                                  .window = 4,
                                                  .hysteresis = 2,
                                                  .min_scale = 1};
        for (size_t cut = 0; cut < sizeof(steps) - 1; cut++) {
            struct dt_scaler whole = dt_scaler_init(&options), later = whole;
            for (size_t i = 0; i < sizeof(steps) - 1; i++) {
                if (i == cut) {
                    later = dt_scaler_init(&options);
                    later.scale = whole.scale;
                    later.steps = whole.steps;
                    later.last_overflow = whole.last_overflow;
                    later.hysteresis = whole.hysteresis;
                }
                assert_int_equal(
                    dt_scaler_update(&whole, steps[i] == 'x', NULL), 0);
                assert_int_equal(
                    dt_scaler_update(&later, steps[i] == 'x', NULL), 0);
                assert_true(i < cut || whole.scale == later.scale);
            }
        }
    }
}

static void the_keys_of_a_file_reach_the_scaler(void **state)
{
    struct dt_conf *conf = load_good(LEAST, "");
    struct dt_scaler s = dt_run_scaler(conf);
    (void)state;
    check_steps(&s, "x.", (double[]){1, 1, 1});
    dt_conf_destroy(conf);

    conf = load_good(LEAST "fp16: true\nloss_scale: 128\n", "");
    s = dt_run_scaler(conf);
    check_steps(&s, "x.", (double[]){128, 128, 128});
    dt_conf_destroy(conf);

    conf = load_good(LEAST "fp16: true\ngrowth_interval: 2\n", "");
    s = dt_run_scaler(conf);
    check_steps(&s, "..x", (double[]){65536, 65536, 131072, 65536});
    dt_conf_destroy(conf);

    conf = load_good(LEAST "fp16: true\ninitial_scale_power: 4\n"
                           "loss_scale_window: 1\nhysteresis: 3\n"
                           "min_loss_scale: 8\nconsecutive_hysteresis: true\n",
                     "");
    s = dt_run_scaler(conf);
    assert_int_equal(s.options.kind, DT_SCALER_DEEPSPEED);
    assert_true(s.options.consecutive_hysteresis);
    check_steps(&s, "xxx", (double[]){16, 16, 16, 8});
    dt_conf_destroy(conf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(overflows_past_the_hysteresis_halve_the_scale),
        cmocka_unit_test(a_window_without_overflow_doubles_the_scale),
        cmocka_unit_test(any_step_without_overflow_refills_hysteresis),
        cmocka_unit_test(an_overflow_at_the_minimum_is_an_error),
        cmocka_unit_test(the_torch_scaler_does_what_torch_does),
        cmocka_unit_test(a_resumed_scaler_goes_on_as_if_uninterrupted),
        cmocka_unit_test(the_keys_of_a_file_reach_the_scaler),
    };
    return cmocka_run_group_tests_name("scaler", tests, enter_directory,
                                       leave_directory);
}
