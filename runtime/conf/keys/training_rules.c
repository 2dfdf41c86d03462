/* SPDX-License-Identifier: Apache-2.0 */
/*
 * training_rules.c - rules of section training: batch sizes, length, best step
 *
 * The rows of a step are those of a rank and pass * accumulation * ranks. Any
 * of the sizes may be given; the others are computed from them, and every
 * division must be exact.
 */
#include "config.h"

#include <stdio.h>

#include "conf/keys/draft.h"

#define PER_DEVICE "training.per_device_batch_size"
#define GLOBAL_MICRO "training.global_micro_batch_size"
#define TRAIN "training.train_batch_size"
#define ACCUMULATION "training.gradient_accumulation_steps"
#define PER_DEVICE_EVAL "training.per_device_eval_batch_size"

/* The number of accumulation steps, or 0 if it is not given. */
static long accumulation_given(const struct dt_conf *conf)
{
    return conf->place[dt_conf_key_find(ACCUMULATION)].line != 0
               ? conf->training.gradient_accumulation_steps
               : 0;
}

/* Stores batch_size as the size that batch_size_is names. */
static void settle_batch_size(struct dt_conf_draft *draft)
{
    static const char *const names[] = {PER_DEVICE, GLOBAL_MICRO, TRAIN};
    struct dt_conf *conf = draft->conf;
    struct dt_conf_place *from = dt_conf_place_for(conf, "training.batch_size");
    struct dt_conf_place *is =
        dt_conf_place_for(conf, "training.batch_size_is");
    long size = conf->training.batch_size;
    long a = conf->training.gradient_accumulation_steps;
    long *fields[] = {&conf->training.per_device_batch_size,
                      &conf->training.global_micro_batch_size,
                      &conf->training.train_batch_size};
    if (is->line > 0 && from->line <= 0)
        dt_conf_note(&draft->problems, *is, "training.batch_size_is",
                     "batch_size is missing: give both or neither");
    if (size == 0)
        return;
    if (is->line <= 0) {
        dt_conf_note(&draft->problems, *from, "training.batch_size",
                     "E101 %ld is ambiguous: with accumulation %ld on W ranks "
                     "set batch_size_is to per_device (%ld*W rows a step), "
                     "global_micro (%ld) or train (%ld)",
                     size, a, size * a, size * a, size);
        return;
    }
    int which = conf->training.batch_size_is - 1;
    if (which < 0)
        return;
    if (*fields[which] > 0 && *fields[which] != size)
        dt_conf_note(&draft->problems, *from, "training.batch_size",
                     "%ld here, but %s is %ld", size, names[which],
                     *fields[which]);
    *fields[which] = size;
    *dt_conf_place_for(conf, names[which]) = *from;
    conf->training.batch_size = 0;
    conf->training.batch_size_is = 0;
    from->line = is->line = 0;
}

static void check_batch(struct dt_conf_draft *draft)
{
    struct dt_conf *conf = draft->conf;
    settle_batch_size(draft);
    long b = conf->training.per_device_batch_size;
    long g = conf->training.global_micro_batch_size;
    long B = conf->training.train_batch_size;
    long a = accumulation_given(conf);
    long rows = g ? g : b;
    if (!dt_conf_given(conf, PER_DEVICE) &&
        !dt_conf_given(conf, GLOBAL_MICRO) && !dt_conf_given(conf, TRAIN) &&
        !dt_conf_given(conf, "training.batch_size"))
        PROBLEM(draft, PER_DEVICE, "required, or train_batch_size");
    if (b && g && g % b != 0)
        PROBLEM(draft, GLOBAL_MICRO,
                "E102 %ld is not a multiple of per_device_batch_size %ld", g,
                b);
    if (rows && B % (rows * (a ? a : 1)) != 0)
        PROBLEM(draft, TRAIN,
                "E102 %ld is not a multiple of %ld (%s) * %ld (accumulation)",
                B, rows, g ? "global_micro" : "per device", a ? a : 1);
    else if (a && B % a != 0)
        PROBLEM(draft, TRAIN,
                "E102 %ld is not a multiple of gradient_accumulation_steps %ld",
                B, a);
    else if (B && g && a && B != g * a)
        PROBLEM(draft, TRAIN,
                "E103 %ld != %ld (global_micro) * %ld (accumulation) = %ld", B,
                g, a, g * a);
}

/* The exact quotient, or -1 and E102 with the nearest values that would work.
 */
static long divide_exactly(const struct dt_conf *conf, const char *key,
                           long whole, long part, const char *parts,
                           struct dt_error *err)
{
    if (whole % part == 0 && whole > 0)
        return whole / part;
    long below = whole / part * part;
    if (below > 0)
        return dt_conf_error_set(conf, key, err,
                                 "E102 %ld cannot be divided by %ld (%s); "
                                 "nearest are %ld and %ld",
                                 whole, part, parts, below, below + part);
    return dt_conf_error_set(conf, key, err,
                             "E102 %ld cannot be divided by %ld (%s); the "
                             "smallest is %ld",
                             whole, part, parts, part);
}

static int report_mismatch(const struct dt_conf *conf, long B, long b, long a,
                           long W, struct dt_error *err)
{
    char other[64] = "";
    if (B % (b * W) == 0)
        snprintf(other, sizeof(other), " or accumulation %ld", B / (b * W));
    return dt_conf_error_set(conf, TRAIN, err,
                             "E103 train_batch_size does not match: %ld != "
                             "%ld (per device) * %ld (accumulation) * %ld "
                             "(ranks) = %ld; use train_batch_size %ld%s",
                             B, b, a, W, b * a * W, b * a * W, other);
}

/* The rows of one rank, from global_micro if given, which must agree with b. */
static long rows_per_device(const struct dt_conf *conf, long W,
                            struct dt_error *err)
{
    long b = conf->training.per_device_batch_size;
    long g = conf->training.global_micro_batch_size;
    if (g == 0)
        return b;
    long each = divide_exactly(conf, GLOBAL_MICRO, g, W, "ranks", err);
    if (each > 0 && b > 0 && each != b)
        return dt_conf_error_set(conf, GLOBAL_MICRO, err,
                                 "E103 %ld != %ld (per device) * %ld (ranks) "
                                 "= %ld",
                                 g, b, W, b * W);
    return each;
}

int dt_conf_resolve_batch(struct dt_conf *conf, int world, struct dt_error *err)
{
    long W = world, b = rows_per_device(conf, W, err);
    long B = conf->training.train_batch_size, a = accumulation_given(conf);
    if (b < 0 || dt_conf_check_world(conf, W, err) < 0)
        return -1;
    if (b > 0 && B > 0 && a > 0) {
        if (B != b * a * W)
            return report_mismatch(conf, B, b, a, W, err);
    } else if (b > 0 && B > 0) {
        a = divide_exactly(conf, TRAIN, B, b * W, "per device * ranks", err);
    } else if (b > 0) {
        a = a ? a : 1;
        B = b * a * W;
    } else {
        a = a ? a : 1;
        b = divide_exactly(conf, TRAIN, B, a * W, "accumulation * ranks", err);
    }
    if (a < 0 || b < 0)
        return -1;
    conf->training.per_device_batch_size = b;
    conf->training.global_micro_batch_size = b * W;
    conf->training.train_batch_size = B;
    conf->training.gradient_accumulation_steps = a;
    dt_conf_is_left(conf, PER_DEVICE);
    dt_conf_is_left(conf, GLOBAL_MICRO);
    dt_conf_is_left(conf, TRAIN);
    dt_conf_is_left(conf, ACCUMULATION);
    if (dt_conf_is_left(conf, PER_DEVICE_EVAL))
        conf->training.per_device_eval_batch_size = b;
    if (dt_conf_resolve_sampled(conf, err) < 0)
        return -1;
    if (dt_conf_fingerprint(conf) < 0)
        return dt_error_set(err, EX_OSERR, "%s: out of memory", conf->file);
    return 0;
}

/* --- the length of a run, and its best step --- */

/* What is best is known of evaluations alone, and can be kept if its step is
 * saved.
 */
static void check_best(struct dt_conf_draft *draft)
{
    const struct dt_conf *conf = draft->conf;
    const bool loads = conf->training.load_best_model_at_end;
    const char *key = loads ? "training.load_best_model_at_end"
                            : "training.early_stopping_patience";
    if (!loads && conf->training.early_stopping_patience == 0)
        return;
    if (conf->training.eval_strategy == DT_CONF_NO)
        PROBLEM(draft, key,
                "needs evaluations: set training.eval_strategy: steps");
    else if (loads && (conf->training.eval_strategy != DT_CONF_STEPS ||
                       conf->checkpoint.strategy != DT_CONF_STEPS))
        PROBLEM(draft, key,
                "needs training.eval_strategy: steps and checkpoint.strategy: "
                "steps");
    else if (loads && conf->training.eval_steps_ratio <= 0 &&
             conf->checkpoint.steps_ratio <= 0 &&
             conf->checkpoint.steps % conf->training.eval_steps != 0)
        PROBLEM(draft, key,
                "checkpoint.steps %ld must be a multiple of "
                "training.eval_steps, %ld: only an evaluated step that is "
                "saved can be the best",
                conf->checkpoint.steps, conf->training.eval_steps);
    if (!conf->training.metric_for_best_model &&
        (conf->algorithm == DT_CONF_PPO || conf->algorithm == DT_CONF_GRPO))
        PROBLEM(draft, key,
                "evaluations of this algorithm have no loss: set "
                "training.metric_for_best_model: reward");
}

static void check_length(struct dt_conf_draft *draft)
{
    const struct dt_conf *conf = draft->conf;
    if (conf->training.max_steps == 0)
        PROBLEM(draft, "training.max_steps",
                "expected an integer >= 1, or -1 to go by epochs, got 0");
    if (conf->checkpoint.only_model &&
        conf->training.resume != DT_CONF_RESUME_NONE)
        PROBLEM(draft, "checkpoint.only_model",
                "E126 cannot be used with training.resume: a checkpoint "
                "without the optimizer state cannot be resumed");
    if (conf->training.max_grad_norm <= 0 &&
        !dt_conf_has_failed(draft, "training.max_grad_norm"))
        WARNING(draft, "training.max_grad_norm",
                "0: gradients are not clipped");
    if (!dt_conf_starts_random(conf) && conf->optimizer.lr > 1e-4 &&
        conf->scheduler.warmup_steps <= 0 && conf->scheduler.warmup_ratio <= 0)
        WARNING(draft, "optimizer.lr",
                "%g without warm-up is high for pretrained weights",
                conf->optimizer.lr);
}

void dt_conf_check_training(struct dt_conf_draft *draft)
{
    check_length(draft);
    check_best(draft);
    check_batch(draft);
}
