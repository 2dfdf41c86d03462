/* SPDX-License-Identifier: Apache-2.0 */
/* test_conf_batch.c - batch sizes follow from each other, exactly or not */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "conf.h"

struct sizes {
    const char *given; /* in training */
    int world;
    long per_device, global_micro, train, accumulation;
};

static struct dt_conf *load(const char *given)
{
    char text[512], *problems, *warnings;
    snprintf(text, sizeof(text),
             "algorithm: sft\ndata.train: train.txt\n"
             "model.n_embd: 96\ntraining: {%s}\n",
             given);
    struct dt_conf *conf = load_bytes(text, strlen(text), &problems, &warnings);
    assert_string_equal(problems, "");
    free(problems);
    free(warnings);
    return conf;
}

static void batch_sizes_follow_from_those_given(void **state)
{
    static const struct sizes cases[] = {
        {"per_device_batch_size: 4", 3, 4, 12, 12, 1},
        {"per_device_batch_size: 4, grad_accum: 2", 3, 4, 12, 24, 2},
        {"global_micro_batch_size: 12, grad_accum: 2", 3, 4, 12, 24, 2},
        {"train_batch_size: 24", 3, 8, 24, 24, 1},
        {"train_batch_size: 24, grad_accum: 2", 3, 4, 12, 24, 2},
        {"train_batch_size: 24, per_device_batch_size: 2", 3, 2, 6, 24, 4},
        {"train_batch_size: 24, global_micro_batch_size: 6", 3, 2, 6, 24, 4},
        {"train_batch_size: 24, per_device_batch_size: 2, grad_accum: 4, "
         "global_micro_batch_size: 6",
         3, 2, 6, 24, 4},
        {"batch_size: 24, batch_size_is: train", 3, 8, 24, 24, 1},
        {"batch_size: 24, batch_size_is: global_micro", 3, 8, 24, 24, 1},
        {"batch_size: 24, batch_size_is: per_device", 3, 24, 72, 72, 1},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct dt_conf *conf = load(cases[i].given);
        struct dt_error err = {0};
        for (int twice = 0; twice < 2; twice++) {
            assert_int_equal(dt_conf_resolve_batch(conf, cases[i].world, &err),
                             0);
            assert_int_equal(conf->training.per_device_batch_size,
                             cases[i].per_device);
            assert_int_equal(conf->training.global_micro_batch_size,
                             cases[i].global_micro);
            assert_int_equal(conf->training.train_batch_size, cases[i].train);
            assert_int_equal(conf->training.gradient_accumulation_steps,
                             cases[i].accumulation);
        }
        dt_conf_destroy(conf);
    }
}

static void batch_sizes_that_do_not_fit_are_refused(void **state)
{
    static const struct {
        const char *given, *error; /* without the file's directory */
    } cases[] = {
        {"train_batch_size: 32, per_device_batch_size: 4, grad_accum: 8",
         "4:30: training.train_batch_size: E103 train_batch_size does not "
         "match: 32 != 4 (per device) * 8 (accumulation) * 4 (world) = 128; "
         "use train_batch_size 128 or accumulation 2"},
        {"train_batch_size: 30, per_device_batch_size: 5, grad_accum: 6",
         "4:30: training.train_batch_size: E103 train_batch_size does not "
         "match: 30 != 5 (per device) * 6 (accumulation) * 4 (world) = 120; "
         "use train_batch_size 120"},
        {"train_batch_size: 30",
         "4:30: training.train_batch_size: E102 30 cannot be divided by 4 "
         "(accumulation * world); nearest are 28 and 32"},
        {"train_batch_size: 3",
         "4:30: training.train_batch_size: E102 3 cannot be divided by 4 "
         "(accumulation * world); the smallest is 4"},
        {"train_batch_size: 20, per_device_batch_size: 2",
         "4:30: training.train_batch_size: E102 20 cannot be divided by 8 "
         "(per device * world); nearest are 16 and 24"},
        {"global_micro_batch_size: 10",
         "4:37: training.global_micro_batch_size: E102 10 cannot be divided "
         "by 4 (world); nearest are 8 and 12"},
        {"global_micro_batch_size: 8, per_device_batch_size: 4",
         "4:37: training.global_micro_batch_size: E103 8 != 4 (per device) * "
         "4 (world) = 16"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct dt_conf *conf = load(cases[i].given);
        struct dt_error err = {0};
        char wanted[1024];
        snprintf(wanted, sizeof(wanted), "%s:%s", conf->file, cases[i].error);
        assert_int_equal(dt_conf_resolve_batch(conf, 4, &err), -1);
        assert_string_equal(err.text, wanted);
        assert_int_equal(err.status, EX_CONFIG);
        dt_conf_destroy(conf);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batch_sizes_follow_from_those_given),
        cmocka_unit_test(batch_sizes_that_do_not_fit_are_refused),
    };
    return cmocka_run_group_tests_name("conf batch", tests, enter_directory,
                                       leave_directory);
}
