/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_preference_runs.c - twenty steps on preference pairs are those that
 * make_preference_runs.py had from TRL's trainers, for any number of ranks and
 * any strategy
 */
#include "config.h"

#include <limits.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "run/run.h"
#include "base/log.h"
#include "conf/conf.h"
#include "reward/scorer.h"
#include "train/train.h"
#include "tests/unit/scratch.h"
#include "tests/unit/world.h"

/* fp32 on both sides, and Adam, which divides small gradients by themselves */
static const double TOLERANCE = 1e-4;

#define LOGITS "logging.logits: true"

static json_t *reference;
static char models[PATH_MAX];

/* A tokenizer for a model with 79 tokens, which has nothing to do. */
static int write_tokenizer(void)
{
    FILE *file = fopen(scratch_path("tokenizer.json"), "w");
    fprintf(file, "{\"model\": {\"type\": \"BPE\", \"merges\": [], \"vocab\": "
                  "{");
    for (int i = 0; i < 79; i++)
        fprintf(file, "%s\"t%d\": %d", i ? ", " : "", i, i);
    fprintf(file, "}}, \"added_tokens\": []}\n");
    return fclose(file);
}

static int load(void **state)
{
    char path[PATH_MAX + 64];
    const char *srcdir = getenv("srcdir"); /* set by automake's harness */
    (void)state;
    dt_log_init(0, DT_LOG_ERROR);
    snprintf(path, sizeof(path), "%s/tests/parity", srcdir ? srcdir : ".");
    if (!realpath(path, models))
        return -1;
    snprintf(path, sizeof(path), "%s/preference_runs.json", models);
    reference = json_load_file(path, 0, NULL);
    FILE *file = fopen(scratch_path("pairs.jsonl"), "w");
    size_t i;
    json_t *pair;
    json_array_foreach(json_object_get(reference, "pairs"), i, pair)
    {
        json_dumpf(pair, file, JSON_COMPACT);
        fputc('\n', file);
    }
    return reference && fclose(file) == 0 ? write_tokenizer() : -1;
}

static int unload(void **state)
{
    (void)state;
    json_decref(reference);
    return 0;
}

static double number(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    assert_true(json_is_number(value));
    return json_number_value(value);
}

static bool is_rm(const json_t *ref)
{
    return strstr(json_string_value(json_object_get(ref, "model")), "_rm");
}

/* A run of the reference on `size` ranks, with more lines of configuration. */
static struct dt_conf *make_conf(const json_t *ref, int size, const char *more)
{
    struct dt_conf_problems problems, warnings;
    char text[4 * PATH_MAX];
    int n = snprintf(text, sizeof(text),
                     "algorithm: %s\n"
                     "run: {output_dir: %s, overwrite: true}\n"
                     "model.path: %s/models/%s\n"
                     "model.tokenizer: %s\n"
                     "data: {train: %s, max_length: 24, shuffle: false}\n"
                     "optimizer.lr: %g\n"
                     "scheduler.name: constant\n"
                     "logging.report_to: jsonl\n"
                     "training.max_steps: 20\n"
                     "training.train_batch_size: %g\n"
                     "training.gradient_accumulation_steps: %g\n"
                     "%s\n%s\n",
                     is_rm(ref) ? "rm" : "dpo", scratch_path("out"), models,
                     json_string_value(json_object_get(ref, "model")),
                     scratch_path(""), scratch_path("pairs.jsonl"),
                     number(ref, "lr"), number(ref, "B") * number(ref, "A"),
                     size > 1 ? 1 : number(ref, "A"),
                     json_string_value(json_object_get(ref, "conf")), more);
    struct dt_conf *conf =
        dt_conf_load_text("t.yaml", text, (size_t)n, &problems, &warnings);
    if (!conf)
        fail_msg("%s", problems.text[0]);
    dt_conf_problems_fini(&problems);
    dt_conf_problems_fini(&warnings);
    return conf;
}

struct trial {
    const json_t *ref;
    const struct dt_conf *conf;
    const char *what; /* for messages */
};

static int differs(const struct trial *trial, long step, const char *what,
                   double is, const json_t *list)
{
    double wanted = json_number_value(json_array_get(list, (size_t)step - 1));
    if (fabs(is - wanted) <= TOLERANCE * fmax(1.0, fabs(wanted)))
        return 0;
    fprintf(stderr, "# %s of %s (%s), step %ld: %s %.9g, not %.9g\n",
            json_string_value(json_object_get(trial->ref, "name")),
            json_string_value(json_object_get(trial->ref, "model")),
            trial->what, step, what, is, wanted);
    return -1;
}

static bool reports(const struct dt_run *run, size_t metric)
{
    return !run->spec.algo->reports ||
           run->spec.algo->reports(&run->spec.conf, metric);
}

/* The loss, the norm and the metrics of the step that was collected. */
static int compare(struct dt_run *run, const struct trial *trial,
                   const struct dt_report_step *line)
{
    struct dt_progress *p = &run->progress;
    const json_t *ref = trial->ref;
    double results[DT_METRICS_MAX];
    int rc = differs(trial, p->step, "loss", p->loss_sum / p->loss_tokens,
                     json_object_get(ref, "loss")) |
             differs(trial, p->step, "norm", line->grad_norm,
                     json_object_get(ref, "grad_norm"));
    dt_metrics_results(run->spec.algo, &p->metrics, results);
    for (size_t i = 0; i < run->spec.algo->metric_count; i++) {
        const char *name = run->spec.algo->metrics[i].name;
        const json_t *list =
            json_object_get(json_object_get(ref, "metrics"), name);
        if (list && reports(run, i))
            rc |= differs(trial, p->step, name, results[i], list);
    }
    rc |=
        differs(trial, p->step, "num_tokens", p->tokens,
                json_object_get(json_object_get(ref, "metrics"), "num_tokens"));
    p->loss_sum = p->loss_tokens = 0;
    dt_metrics_clear(run->spec.algo, &p->metrics);
    return rc;
}

static int steps(struct dt_run *run, const struct trial *trial,
                 struct dt_error *err)
{
    struct dt_report_step line;
    bool stop = false;
    for (int k = 0; k < 20; k++)
        if (dt_run_queue_step(run, false, err) < 0 ||
            dt_run_collect(run, &line, &stop, err) != 1 ||
            compare(run, trial, &line) < 0)
            return -1;
    return 0;
}

static int rank(const struct dt_comm_world *world, void *arg)
{
    const struct trial *trial = arg;
    const struct dt_exec exec = dt_exec_cpu();
    const struct dt_comm_options options = {.interface = "lo",
                                            .timeout_ms = 30000};
    struct dt_error err = {0};
    struct dt_run run = {.spec = {.rank = world->rank, .world = world->size}};
    struct dt_comm *comm = dt_comm_create(world->size > 1 ? "gloo" : "self",
                                          world, &options, &err);
    if (!comm ||
        dt_run_init(&run, trial->conf, &exec, comm, world->size, &err) < 0 ||
        steps(&run, trial, &err) < 0) {
        fprintf(stderr, "# rank %d: %s\n", world->rank, err.text);
        exit(1); /* other ranks would wait for this one */
    }
    dt_run_fini(&run);
    dt_comm_destroy(comm);
    return 0;
}

/* All runs of reward models, or those of language models. */
static void run_all(bool rm, int size, const char *more)
{
    size_t i;
    json_t *ref;
    json_array_foreach(json_object_get(reference, "runs"), i, ref)
    {
        const json_t *alone = json_object_get(ref, "alone");
        if (is_rm(ref) != rm || (size > 1 && json_is_true(alone)))
            continue;
        struct trial trial = {ref, make_conf(ref, size, more), more};
        world_threads(size, rank, &trial);
        dt_conf_destroy((struct dt_conf *)trial.conf);
    }
}

static void reward_models_learn_as_in_trl(void **state)
{
    (void)state;
    run_all(true, 1, "");
    run_all(true, 1, "training.micro_batch_tokens: 48");
}

static void ranks_share_reward_models_as_in_trl(void **state)
{
    (void)state;
    run_all(true, 2, "distributed.strategy: ddp");
    run_all(true, 2, "distributed.strategy: zero1");
    run_all(true, 2,
            "distributed.strategy: zero2\n"
            "training.micro_batch_tokens: 50");
    run_all(true, 4,
            "distributed.strategy: zero3\n"
            "training.micro_batch_tokens: 50");
}

static void policies_learn_as_in_trl(void **state)
{
    (void)state;
    run_all(false, 1, "");
    run_all(false, 1, "training.micro_batch_tokens: 48\n" LOGITS);
}

static void ranks_share_policies_as_in_trl(void **state)
{
    (void)state;
    run_all(false, 2, "distributed.strategy: ddp\n" LOGITS);
    run_all(false, 2, "distributed.strategy: zero1");
    run_all(false, 2,
            "distributed.strategy: zero2\n"
            "training.micro_batch_tokens: 50");
    run_all(false, 4,
            "distributed.strategy: zero3\n"
            "training.micro_batch_tokens: 50\n" LOGITS);
}

/* --- scores --- */

static void keep_score(void *ctx, float score)
{
    json_array_append_new(ctx, json_real((double)score));
}

/* The ids of a prompt and one of its sides, as one text. */
static void add_text(struct dt_scorer *scorer, const json_t *pair,
                     const char *side)
{
    const char *const keys[] = {"prompt_ids", side};
    struct dt_error err = {0};
    uint32_t tokens[64];
    size_t count = 0, i;
    json_t *id;
    for (int k = 0; k < 2; k++)
        json_array_foreach(json_object_get(pair, keys[k]), i, id)
        {
            assert_true(count < sizeof(tokens) / sizeof(tokens[0]));
            tokens[count++] = (uint32_t)json_integer_value(id);
        }
    if (dt_scorer_add(
            scorer, &(struct dt_scored_text){.tokens = tokens, .count = count},
            &err) < 0)
        fail_msg("%s", err.text);
}

static json_t *score_sides(const char *name)
{
    struct dt_engine engine = {.exec = dt_exec_cpu()};
    struct dt_error err = {0};
    char dir[2 * PATH_MAX];
    json_t *scores = json_array(), *pair;
    size_t i;
    snprintf(dir, sizeof(dir), "%s/models/%s", models, name);
    if (dt_engine_open(&engine, dir, DT_F32, &err) < 0)
        fail_msg("%s", err.text);
    struct dt_scorer *scorer =
        dt_scorer_create(&engine, &(struct dt_scorer_room){.longest = 48},
                         keep_score, scores, &err);
    assert_non_null(scorer);
    json_array_foreach(json_object_get(reference, "pairs"), i, pair)
    {
        add_text(scorer, pair, "chosen_ids");
        add_text(scorer, pair, "rejected_ids");
    }
    assert_int_equal(dt_scorer_flush(scorer, &err), 0);
    dt_scorer_destroy(scorer);
    dt_engine_close(&engine);
    return scores;
}

/* Also where the id of padding ends each text, before which it is scored. */
static void saved_models_score_as_in_transformers(void **state)
{
    const char *name;
    json_t *wanted;
    (void)state;
    json_object_foreach(json_object_get(reference, "scores"), name, wanted)
    {
        json_t *scores = score_sides(name);
        assert_int_equal(json_array_size(scores), json_array_size(wanted));
        for (size_t i = 0; i < json_array_size(wanted); i++) {
            double is = json_real_value(json_array_get(scores, i));
            double want = json_real_value(json_array_get(wanted, i));
            if (fabs(is - want) > 1e-6)
                fail_msg("%s, text %zu: %.9g, not %.9g", name, i, is, want);
        }
        json_decref(scores);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(saved_models_score_as_in_transformers),
        cmocka_unit_test(reward_models_learn_as_in_trl),
        cmocka_unit_test(ranks_share_reward_models_as_in_trl),
        cmocka_unit_test(policies_learn_as_in_trl),
        cmocka_unit_test(ranks_share_policies_as_in_trl),
    };
    return cmocka_run_group_tests_name("preference runs", tests, load, unload);
}
