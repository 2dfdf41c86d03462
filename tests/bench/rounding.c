/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rounding.c - what a run learns whose optimizer has its state in bf16
 *
 * Usage: rounding FILE fp32|random|nearest
 *
 * Trains as FILE says, with one rank on the CPU: state in fp32; in bf16 as a
 * run has it, rounded at random; and in bf16, weights, moments and sums of
 * gradients rounded to nearest. Prints the mean training loss of the last
 * tenth of the steps, and the loss on held-out rows before and after.
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "conf/conf.h"
#include "train/train.h"

static void check(bool good, const struct dt_error *err)
{
    if (good)
        return;
    fprintf(stderr, "rounding: %s\n", err->text);
    exit(err->status);
}

/* --- rounding to nearest --- */

static const struct dt_ops *ops;

/* A copy in fp32, to be freed with its view. */
static struct dt_view widen(struct dt_view from)
{
    struct dt_error err;
    struct dt_buffer *buf =
        dt_buffer_create(&dt_cpu, from.count * sizeof(float), "a copy", &err);
    check(buf, &err);
    const struct dt_view to = dt_view_of(buf, DT_F32);
    ops->convert(NULL, to, from);
    return to;
}

static void narrow(struct dt_view to, struct dt_view from)
{
    ops->convert(NULL, to, from);
    dt_buffer_destroy((struct dt_buffer *)from.buf);
}

static void adamw(struct dt_stream *stream, struct dt_view step,
                  struct dt_view p, struct dt_view w, struct dt_view g,
                  struct dt_view m, struct dt_view v,
                  const struct dt_adamw *args)
{
    const struct dt_view wide[] = {widen(p), widen(m), widen(v)};
    ops->adamw(stream, step, wide[0], w, g, wide[1], wide[2], args);
    narrow(p, wide[0]);
    narrow(m, wide[1]);
    narrow(v, wide[2]);
}

static void add(struct dt_stream *stream, struct dt_view out, struct dt_view x,
                bool accumulate, const struct dt_dither *dither)
{
    const struct dt_view sum = widen(out);
    (void)dither;
    if (accumulate)
        ops->add(stream, sum, x);
    else
        ops->convert(stream, sum, x);
    narrow(out, sum);
}

/* --- a run --- */

static double evaluate(struct dt_run *run)
{
    struct dt_metrics metrics = {0};
    struct dt_error err;
    double loss, count;
    check(dt_run_evaluate(run, &loss, &count, &metrics, &err) == 0, &err);
    return loss;
}

/* The mean loss of the last tenth of all steps. */
static double train(struct dt_run *run)
{
    const struct dt_progress *progress = &run->progress;
    const long tail = run->total_steps - (run->total_steps + 9) / 10;
    struct dt_report_step line;
    struct dt_error err;
    double sum = 0, tokens = 0;
    bool stop = false;
    while (progress->step < run->total_steps) {
        if (progress->step == tail) {
            sum = progress->loss_sum;
            tokens = progress->loss_tokens;
        }
        check(dt_run_queue_step(run, false, &err) == 0, &err);
        check(dt_run_collect(run, &line, &stop, &err) == 1, &err);
    }
    return (progress->loss_sum - sum) / (progress->loss_tokens - tokens);
}

static struct dt_conf *load(const char *path)
{
    struct dt_conf_problems problems, warnings;
    struct dt_conf *conf = dt_conf_load(path, NULL, &problems, &warnings);
    if (conf)
        return conf;
    fprintf(stderr, "%s\n", problems.text[0]);
    exit(EX_CONFIG);
}

static void run_as(const struct dt_conf *conf, const struct dt_exec *exec)
{
    const struct dt_comm_world world = {.rank = 0, .size = 1};
    const struct dt_comm_options none = {0};
    struct dt_run run = {.spec = {.rank = 0, .world = 1}};
    struct dt_error err = {0};
    struct dt_comm *comm = dt_comm_create("self", &world, &none, &err);
    check(comm, &err);
    check(dt_run_init(&run, conf, exec, comm, 1, &err) == 0, &err);
    const double before = evaluate(&run), trained = train(&run);
    printf("before %.4f, training %.4f, held out %.4f\n", before, trained,
           evaluate(&run));
    dt_run_fini(&run);
    dt_comm_destroy(comm);
}

int main(int argc, char **argv)
{
    static struct dt_ops nearest;
    struct dt_exec exec = dt_exec_cpu();
    if (argc != 3) {
        fprintf(stderr, "usage: rounding FILE fp32|random|nearest\n");
        return EX_USAGE;
    }
    dt_log_init(0, DT_LOG_ERROR);
    struct dt_conf *conf = load(argv[1]);
    ops = exec.ops;
    nearest = *ops;
    nearest.adamw = adamw;
    nearest.add_dithered = add;
    if (!strcmp(argv[2], "nearest"))
        exec.ops = &nearest;
    conf->optimizer.state_dtype =
        strcmp(argv[2], "fp32") ? DT_CONF_BF16 : DT_CONF_FP32;
    conf->precision.grad_accum_dtype = conf->optimizer.state_dtype;
    run_as(conf, &exec);
    dt_conf_destroy(conf);
    return 0;
}
