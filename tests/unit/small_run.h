/* SPDX-License-Identifier: Apache-2.0 */
/* small_run.h - runs a tiny model as a whole, with one or several ranks */
#ifndef TESTS_UNIT_SMALL_RUN_H
#define TESTS_UNIT_SMALL_RUN_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "run/run.h"
#include "base/log.h"
#include "conf/conf.h"
#include "train/train.h"
#include "tests/unit/scratch.h"
#include "tests/unit/world.h"

enum { ROWS = 12, TARGETS = 90 }; /* examples, and their targets in total */

/* The lines before those of a test, unless it has its own. Output goes to out/
 * in its directory.
 */
#ifndef SMALL
#define SMALL                                                                  \
    "algorithm: sft\n"                                                         \
    "run.output_dir: out\n"                                                    \
    "model: {n_positions: 32, n_embd: 16, n_layer: 1, n_head: 2}\n"            \
    "data.train: train.jsonl\n"                                                \
    "data.max_length: 32\n"                                                    \
    "logging.report_to: jsonl\n"
#endif

#define EACH "logging.steps: 1\n" /* a line in metrics.jsonl for each step */

/* Checks a condition on a rank, whose thread must not assert. */
#define TRY(condition)                                                         \
    do {                                                                       \
        if (!(condition)) {                                                    \
            fprintf(stderr, "# %s:%d: rank %d of %d: %s: %s\n", __FILE__,      \
                    __LINE__, run->spec.rank, run->spec.world, #condition,     \
                    err.text);                                                 \
            return -1;                                                         \
        }                                                                      \
    } while (0)

/* Example i has i % 4 + 6 targets: "a", "ab" ... and the end. */
static inline int small_enter(void **state)
{
    (void)state;
    dt_log_init(0, DT_LOG_ERROR);
    if (chdir("/") < 0 || !scratch_path("") || chdir(scratch_path("")) < 0)
        return -1;
    FILE *file = fopen("train.jsonl", "w");
    for (int i = 0; i < ROWS; i++)
        fprintf(file, "{\"prompt\": \"%d:\", \"completion\": \"%.*s\"}\n",
                i % 7, i % 4 + 5, "abcdefgh");
    return fclose(file);
}

static inline int small_leave(void **state)
{
    (void)state;
    return chdir("/");
}

static inline int small_clean(void **state)
{
    struct dt_error err;
    (void)state;
    return dt_file_remove_tree("out", &err);
}

static inline struct dt_conf *small_conf(const char *lines)
{
    struct dt_conf_problems problems, warnings;
    char text[2048];
    int n = snprintf(text, sizeof(text), SMALL "%s", lines);
    struct dt_conf *conf =
        dt_conf_load_text("t.yaml", text, (size_t)n, &problems, &warnings);
    if (!conf)
        fail_msg("%s", problems.text[0]);
    dt_conf_problems_fini(&problems);
    dt_conf_problems_fini(&warnings);
    return conf;
}

/* The work of each rank with its run. Returns 0, or -1 after printing why. */
typedef int (*small_rank_f)(struct dt_run *run, void *arg);

struct small_world {
    const struct dt_conf *conf;
    small_rank_f f;
    void *arg;
    bool two_nodes; /* ranks are dealt to them in turn; else each has its own */
    void (*prepare)(struct dt_run *run); /* before it is resolved, or NULL */
    const struct dt_device *device;      /* NULL: the host */
};

static inline const char *small_host(void *ctx, int rank)
{
    (void)ctx;
    return rank % 2 ? "n1" : "n0";
}

static inline struct dt_comm *small_comm(const struct dt_comm_world *world,
                                         struct dt_error *err)
{
    const struct dt_comm_options options = {.interface = "lo",
                                            .timeout_ms = 30000};
    return dt_comm_create(world->size > 1 ? "gloo" : "self", world, &options,
                          err);
}

static inline int small_rank(const struct dt_comm_world *world, void *arg)
{
    const struct small_world *small = arg;
    struct dt_exec exec = dt_exec_cpu();
    struct dt_error err = {0};
    struct dt_run whole = {.spec = {.rank = world->rank, .world = world->size}};
    struct dt_run *run = &whole;
    struct dt_comm_world here = *world;
    if (small->two_nodes)
        here.host = small_host;
    if (small->device)
        exec.device = small->device;
    struct dt_comm *comm = small_comm(&here, &err);
    TRY(comm);
    if (small->prepare)
        small->prepare(run);
    TRY(dt_run_init(run, small->conf, &exec, comm, world->size, &err) == 0);
    int rc = small->f(run, small->arg);
    if (rc < 0)
        exit(1); /* the other ranks would wait forever */
    dt_run_fini(run);
    dt_comm_destroy(comm);
    return rc;
}

/* Runs f on `size` ranks of a run with these lines of configuration, in the
 * directory that an earlier run has left.
 */
static inline void small_resume(int size, const char *lines, small_rank_f f,
                                void *arg)
{
    struct small_world small = {.conf = small_conf(lines), .f = f, .arg = arg};
    world_threads(size, small_rank, &small);
    dt_conf_destroy((struct dt_conf *)small.conf);
}

/* The same, in a new directory. */
static inline void small_runs(int size, const char *lines, small_rank_f f,
                              void *arg)
{
    small_clean(NULL);
    small_resume(size, lines, f, arg);
}

/* Takes one step and returns its report in *line. */
static inline int small_step(struct dt_run *run, struct dt_report_step *line,
                             struct dt_error *err)
{
    bool stop = false;
    if (dt_run_queue_step(run, false, err) < 0)
        return -1;
    return dt_run_collect(run, line, &stop, err) == 1 ? 0 : -1;
}

static inline bool near(double a, double b, double tolerance)
{
    return fabs(a - b) <= tolerance * (fabs(a) + fabs(b)) / 2;
}

/* The flat buffer of a kind of a run under ddp. */
static inline struct dt_view small_flat(const struct dt_run *run,
                                        enum dt_owned kind)
{
    return dt_view_of(dt_parallel_part(run->learner.parallel, kind, 0).buf,
                      DT_F32);
}

struct small_refusal {
    const struct dt_conf *conf;
    struct dt_error err;
};

static inline int small_refuse(const struct dt_comm_world *world, void *arg)
{
    struct small_refusal *refusal = arg;
    const struct dt_exec exec = dt_exec_cpu();
    struct dt_run run = {.spec = {.rank = 0, .world = 1}};
    struct dt_comm *comm = small_comm(world, &refusal->err);
    int rc = dt_run_init(&run, refusal->conf, &exec, comm, 1, &refusal->err);
    dt_run_fini(&run);
    dt_comm_destroy(comm);
    return rc < 0 ? 0 : -1;
}

/* Asserts that a run cannot begin, with this in its message. Destroys conf. */
static inline void small_refused(struct dt_conf *conf, const char *why)
{
    struct small_refusal refusal = {.conf = conf};
    world_threads(1, small_refuse, &refusal);
    if (!strstr(refusal.err.text, why))
        fail_msg("%s", refusal.err.text);
    dt_conf_destroy(conf);
}

#endif /* TESTS_UNIT_SMALL_RUN_H */
