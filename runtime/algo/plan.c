/* SPDX-License-Identifier: Apache-2.0 */
/* plan.c - the memory of a rank, and settings that need less */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include "algo/plan.h"
#include "base/log.h"

static size_t add(size_t a, size_t b)
{
    size_t sum;
    return __builtin_add_overflow(a, b, &sum) ? SIZE_MAX : sum;
}

size_t dt_plan_total(const struct dt_plan *plan)
{
    const size_t parts[] = {plan->weights,   plan->master,      plan->gradients,
                            plan->optimizer, plan->activations, plan->batches};
    size_t sum = 0;
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        sum = add(sum, parts[i]);
    return sum;
}

struct dt_plan dt_plan_make(const struct dt_run *run,
                            const struct dt_model_options *options)
{
    size_t count = run->layout->count; /* at most 2^48 */
    bool mixed = options->compute != DT_F32;
    size_t batch = options->B * options->T * 3 * sizeof(int32_t);
    return (struct dt_plan){
        .weights = mixed ? count * dt_dtype_bytes(options->compute) : 0,
        .master = count * sizeof(float),
        .gradients = count * sizeof(float),
        .optimizer = 2 * count * sizeof(float),
        .activations = dt_model_activation_bytes(&run->model_config,
                                                 dt_ops_cpu(), options),
        .batches = batch * (dt_run_prefetch(run) + 1),
    };
}

/* "1.23 GB" in one of a few static places. */
static const char *shown(size_t bytes)
{
    static char text[8][32];
    static unsigned turn;
    char *to = text[turn++ % 8];
    snprintf(to, sizeof(text[0]), bytes < 1000000000 ? "%.1f MB" : "%.2f GB",
             (double)bytes / (bytes < 1000000000 ? 1e6 : 1e9));
    return to;
}

/* Appends "; or <what>: <bytes>" if the options need no more than `most`. */
static void offer(const struct dt_run *run,
                  const struct dt_model_options *options, const char *what,
                  size_t most, char *text, size_t size)
{
    struct dt_plan plan = dt_plan_make(run, options);
    size_t total = dt_plan_total(&plan), used = strlen(text);
    if (total <= most)
        snprintf(text + used, size - used, "%s%s (%s)", used ? "; or " : "",
                 what, shown(total));
}

/* What would fit, smallest change first. */
static void offer_all(const struct dt_run *run,
                      const struct dt_model_options *options, size_t most,
                      char *text, size_t size)
{
    struct dt_model_options less = *options;
    char what[96];
    less.checkpointing = true;
    if (!options->checkpointing)
        offer(run, &less, "model.gradient_checkpointing: true", most, text,
              size);
    for (size_t B = options->B / 2; B > 0 && !*text; B /= 2) {
        less = *options;
        less.B = B;
        snprintf(what, sizeof(what),
                 "training.per_device_batch_size: %zu with %zu times the "
                 "accumulation steps",
                 B, (options->B + B - 1) / B);
        offer(run, &less, what, most, text, size);
    }
    for (size_t B = options->B; B > 0 && !*text; B /= 2) {
        less = *options;
        less.B = B;
        less.checkpointing = true;
        snprintf(what, sizeof(what),
                 "training.per_device_batch_size: %zu and "
                 "model.gradient_checkpointing: true",
                 B);
        offer(run, &less, what, most, text, size);
    }
    if (!*text)
        snprintf(text, size,
                 "no batch size would: take a smaller model or nodes with "
                 "more memory");
}

int dt_plan_check(const struct dt_run *run,
                  const struct dt_model_options *options, int local_size,
                  struct dt_error *err)
{
    struct dt_plan plan = dt_plan_make(run, options);
    size_t total = dt_plan_total(&plan);
    size_t node = dt_memory_available("");
    size_t mine = node / (size_t)local_size;
    char text[512] = "";
    dt_log(run->rank == 0 ? DT_LOG_INFO : DT_LOG_DEBUG, "plan",
           "memory of a rank: weights %s, gradients %s, optimizer %s, "
           "activations %s, batches %s: %s of %s",
           shown(add(plan.weights, plan.master)), shown(plan.gradients),
           shown(plan.optimizer), shown(plan.activations), shown(plan.batches),
           shown(total), shown(mine));
    if (total <= mine)
        return 0;
    offer_all(run, options, mine, text, sizeof(text));
    return dt_error_set(
        err, EX_CONFIG,
        "%s: this run needs %s of memory a rank (weights %s, "
        "gradients %s, optimizer %s, activations %s), but the "
        "node has %s left for %d rank%s; what would fit: %s",
        run->conf.file, shown(total), shown(add(plan.weights, plan.master)),
        shown(plan.gradients), shown(plan.optimizer), shown(plan.activations),
        shown(node), local_size, local_size == 1 ? "" : "s", text);
}
