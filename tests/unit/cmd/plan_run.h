/* SPDX-License-Identifier: Apache-2.0 */
/* plan_run.h - runs `disttrain plan` and reads its JSON */
#ifndef TESTS_UNIT_PLAN_RUN_H
#define TESTS_UNIT_PLAN_RUN_H

#include <math.h>

#include <jansson.h>

#include "cmd/cmd.h"
#include "tests/unit/command.h"
#include "tests/unit/conf.h"

/* A tiny model; lines of a test follow. */
#define SMALL                                                                  \
    "algorithm: sft\n"                                                         \
    "data: {train: train.txt, max_length: 128}\n"                              \
    "model: {n_positions: 128, n_embd: 128, n_layer: 4, n_head: 4}\n"          \
    "training.per_device_batch_size: 4\n"

static inline int plan(const char *args)
{
    return run_words(dt_cmd_plan, args);
}

static inline json_t *plan_json(const char *args)
{
    json_error_t why;
    int status = plan(args);
    json_t *all = json_loads(out, 0, &why);
    if (!all)
        fail_msg("exit status %d: %s%s", status, errors, why.text);
    return all;
}

static inline double number(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    if (!json_is_number(value))
        fail_msg("no number %s", key);
    return json_number_value(value);
}

static inline const char *string(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

/* Parts of the memory and of the time of a candidate are what it takes. */
static inline void assert_sums_up(const json_t *one)
{
    static const char *const parts[] = {
        "weights",     "master",  "gradients", "optimizer", "tiles",
        "activations", "batches", "reference", "critic",    "rewards"};
    const json_t *bytes = json_object_get(one, "bytes");
    const json_t *seconds = json_object_get(one, "seconds");
    const json_t *busy = json_object_get(seconds, "busy");
    double sum = 0;
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        sum += number(bytes, parts[i]);
    assert_true(sum == number(bytes, "total"));
    assert_true(fabs(number(seconds, "waits") + number(busy, "device") -
                     number(seconds, "step")) < 1e-9);
    assert_true(number(one, "tokens_per_second") > 0);
}

#endif /* TESTS_UNIT_PLAN_RUN_H */
