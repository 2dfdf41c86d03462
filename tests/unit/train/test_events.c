/* SPDX-License-Identifier: Apache-2.0 */
/* test_events.c - what a run tells of itself: events.jsonl and run.json */
#include "config.h"

#include <math.h>

#include "train/train.h"
#include "base/clock.h"
#include "base/file.h"
#include "tests/unit/small_run.h"
#include "tests/unit/stderr_text.h"

static long stop_after;       /* questions, or 0: never */
static const char *stop_with; /* this file, or NULL */
static int status;            /* of rank 0, 0: it has finished */
static struct dt_run_start started;

static bool asks_to_stop(void)
{
    return (stop_with && access(stop_with, F_OK) == 0) ||
           (stop_after > 0 && --stop_after == 0);
}

static int train_rank(const struct dt_comm_world *world, void *arg)
{
    const struct dt_exec exec = dt_exec_cpu();
    struct dt_error err = {0};
    struct dt_comm *comm = small_comm(world, &err);
    int rc = comm ? dt_trainer_run(arg, &exec, comm, world->size, &started,
                                   asks_to_stop, NULL, &err)
                  : -1;
    dt_comm_destroy(comm);
    if (world->rank == 0)
        status = rc < 0 ? err.status : 0;
    return 0;
}

/* Trains in out/, which is not removed. */
static void train(int size, const char *lines)
{
    struct dt_conf *conf = small_conf(lines);
    world_threads(size, train_rank, conf);
    dt_conf_destroy(conf);
}

/* Runs are told to stop by how often they ask, so the cache is there before. */
static int enter(void **state)
{
    if (small_enter(state) < 0)
        return -1;
    train(1, "training: {train_batch_size: 6, max_steps: 1}\n");
    return small_clean(state);
}

static json_t *run_json(void)
{
    json_t *json = json_load_file("out/logs/run.json", 0, NULL);
    assert_non_null(json);
    return json;
}

static const char *text_of(const json_t *json, const char *key)
{
    return json_string_value(json_object_get(json, key));
}

/* The events of a file: "start 0, save 3". */
static const char *events(void)
{
    static char text[1024];
    char line[4096], kind[32], *at = text;
    long step;
    FILE *file = fopen("out/logs/events.jsonl", "r");
    assert_non_null(file);
    text[0] = '\0';
    while (fgets(line, sizeof(line), file))
        if (sscanf(line, "{\"event\": \"%31[a-z_]\", \"step\": %ld", kind,
                   &step) == 2)
            at += sprintf(at, "%s%s %ld", at > text ? ", " : "", kind, step);
    fclose(file);
    return text;
}

/* 12 rows of which a step has 6: an epoch is two steps. */
#define SIX                                                                    \
    "data.eval: train.jsonl\n"                                                 \
    "training: {train_batch_size: 6, resume: auto, max_steps: 6,"              \
    " eval_strategy: steps, eval_steps: 4}\n"                                  \
    "checkpoint.steps: 3\n"

static void events_tell_the_history_of_all_starts(void **state)
{
    (void)state;
    stop_after = 5; /* at the end of step 5 */
    train(1, SIX);
    stop_after = 0;
    assert_int_equal(status, EX_TEMPFAIL);
    assert_string_equal(events(), "start 0, epoch 2, save 3, epoch 4, eval 4, "
                                  "save 5, stop 5");
    train(1, SIX);
    assert_int_equal(status, 0);
    assert_string_equal(events(), "start 0, epoch 2, save 3, epoch 4, eval 4, "
                                  "save 5, stop 5, resume 5, epoch 6, eval 6, "
                                  "save 6, end 6");
}

static void a_save_tells_its_seconds_and_bytes(void **state)
{
    struct dt_error err;
    char *at, *text;
    double seconds = -1, bytes = -1;
    (void)state;
    train(1, "training: {train_batch_size: 6, max_steps: 1}\n");
    text = dt_file_read("out/logs/events.jsonl", 1 << 16, &err);
    assert_non_null(text);
    at = strstr(text, "\"save\"");
    assert_non_null(at);
    assert_int_equal(sscanf(strstr(at, "\"seconds\""),
                            "\"seconds\": %lf, \"bytes\": %lf", &seconds,
                            &bytes),
                     2);
    assert_true(seconds > 0 && bytes > 1000);
    assert_non_null(strstr(at, "out/checkpoints/checkpoint-1\"}"));
    free(text);
}

/* A number of the line of a step. */
static double metric(long step, const char *name)
{
    FILE *file = fopen("out/logs/metrics.jsonl", "r");
    char line[4096];
    double value = NAN;
    assert_non_null(file);
    while (fgets(line, sizeof(line), file)) {
        json_t *json = json_loads(line, 0, NULL);
        if (json_integer_value(json_object_get(json, "step")) == step)
            value = json_number_value(json_object_get(json, name));
        json_decref(json);
    }
    fclose(file);
    return value;
}

/* Of the five steps since the line before, two are of this process. */
static void a_rate_is_of_the_steps_that_were_timed(void **state)
{
    static const char lines[] =
        "training: {train_batch_size: 6, resume: auto, max_steps: 5}\n"
        "logging: {steps: 5, first_step: false}\n";
    (void)state;
    small_clean(NULL);
    stop_after = 3;
    train(1, lines);
    stop_after = 0;
    assert_int_equal(status, EX_TEMPFAIL);
    train(1, lines);
    const double timed = metric(5, "tokens_per_s") * 2 * metric(5, "step_s");
    assert_true(metric(5, "tokens") > 0);
    assert_true(fabs(timed / metric(5, "tokens") - 0.4) < 0.01);
}

/* The steps of checkpoints that are there: "2 4". */
static const char *saved(void)
{
    static char text[64];
    char path[64], *at = text;
    text[0] = '\0';
    for (int i = 0; i < 10; i++) {
        snprintf(path, sizeof(path), "out/checkpoints/checkpoint-%d", i);
        if (access(path, F_OK) == 0)
            at += sprintf(at, "%s%d", at > text ? " " : "", i);
    }
    return text;
}

#define LIMITED(more, checkpoint)                                              \
    "training: {train_batch_size: 6, resume: auto" more "}\n"                  \
    "checkpoint: {" checkpoint "}\n"

static void a_stopped_run_leaves_total_limit_checkpoints(void **state)
{
    static const struct {
        const char *lines, *left;
    } limits[] = {
        {LIMITED(", max_steps: 9", "steps: 2, total_limit: 1"), "5"},
        {LIMITED(", max_steps: 9", "steps: 2, total_limit: 2"), "4 5"},
        {LIMITED(", max_steps: 9", "steps: 2, total_limit: 1, keep_every: 2"),
         "2 4 5"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
        small_clean(NULL);
        stop_after = 5;
        train(1, limits[i].lines);
        stop_after = 0;
        assert_int_equal(status, EX_TEMPFAIL);
        assert_string_equal(saved(), limits[i].left);
    }
}

/* The newest may be the reason why the loss is not finite. */
static void a_run_that_is_stopped_without_a_loss_keeps_one_more(void **state)
{
    (void)state;
    train(1, LIMITED(", max_steps: 2", "total_limit: 1"));
    assert_string_equal(saved(), "2");
    stop_with = "out/checkpoints/checkpoint-3";
    train(1, LIMITED(", max_steps: 9, max_grad_norm: 0",
                     "steps: 3, total_limit: 1") "optimizer.lr: 1.0e+30\n"
                                                 "scheduler.name: constant\n");
    stop_with = NULL;
    assert_int_equal(status, EX_TEMPFAIL);
    assert_string_equal(saved(), "2 3");
}

/* The number of a name in the first or the last event of this kind. */
static double event_number(const char *kind, bool last, const char *name)
{
    char line[4096], want[64];
    double number = NAN;
    FILE *file = fopen("out/logs/events.jsonl", "r");
    assert_non_null(file);
    snprintf(want, sizeof(want), "{\"event\": \"%s\"", kind);
    while ((last || isnan(number)) && fgets(line, sizeof(line), file)) {
        json_t *json = json_loads(line, 0, NULL);
        const json_t *in = json_object_get(json, "spent");
        const json_t *value = json_object_get(json, name);
        if (strncmp(line, want, strlen(want)) == 0)
            number =
                json_number_value(value ? value : json_object_get(in, name));
        json_decref(json);
    }
    fclose(file);
    return number;
}

/* The sum of all parts in run.json. */
static double account_sum(void)
{
    json_t *json = run_json();
    const json_t *account = json_object_get(json, "account");
    double sum = 0;
    assert_true(json_is_object(account));
    for (int i = 0; i < DT_ACCOUNT_PARTS; i++)
        sum += json_number_value(json_object_get(account, dt_account_names[i]));
    json_decref(json);
    return sum;
}

static long account_count(const char *name)
{
    json_t *json = run_json();
    const long count = (long)json_integer_value(
        json_object_get(json_object_get(json, "account"), name));
    json_decref(json);
    return count;
}

/* Times of events are rounded to milliseconds. */
static void assert_adds_up(void)
{
    const double wall = event_number("end", true, "wall") -
                        event_number("start", false, "wall") +
                        event_number("start", false, "startup");
    const double sum = account_sum();
    if (!(fabs(sum - wall) <= 1e-3 * wall + 0.003))
        fail_msg("%g of %g s are accounted for", sum, wall);
}

static void the_account_of_all_starts_adds_up(void **state)
{
    (void)state;
    stop_after = 5;
    train(1, SIX);
    stop_after = 0;
    dt_clock_sleep(0.05);
    train(1, SIX);
    assert_adds_up();
    assert_int_equal(account_count("restarts"), 1);
    assert_int_equal(account_count("redone"), 0);
    /* an evaluation alone changes nothing of it */
    train(1, SIX "training.eval_only: true\n");
    assert_int_equal(status, 0);
    assert_adds_up();
    assert_non_null(strstr(events(), ", end 6, eval 6"));
}

/* Removes the last event, as if the process had been killed before it. */
static void forget_last_event(void)
{
    struct dt_error err;
    char *text = dt_file_read("out/logs/events.jsonl", 1 << 20, &err);
    assert_non_null(text);
    text[strlen(text) - 1] = '\0';
    strrchr(text, '\n')[1] = '\0';
    assert_int_equal(
        dt_file_replace("out/logs/events.jsonl", text, strlen(text), &err), 0);
    free(text);
}

/* Nobody could write down its end: status.json was the last of it. */
static void the_end_of_a_process_without_a_word_is_noted(void **state)
{
    struct dt_error err;
    char text[256];
    (void)state;
    stop_after = 5;
    train(1, SIX);
    stop_after = 0;
    forget_last_event();
    const double died = event_number("save", true, "wall") + 0.02;
    dt_clock_sleep(0.05);
    snprintf(text, sizeof(text),
             "{\"version\": 1, \"status\": \"running\", \"time\": %.3f, "
             "\"step\": 7, \"total_steps\": 9}",
             died);
    assert_int_equal(
        dt_file_replace("out/logs/status.json", text, strlen(text), &err), 0);
    train(1, SIX);
    assert_non_null(strstr(events(), "save 5, failed 7, resume 5, "));
    assert_true(fabs(event_number("failed", true, "wall") - died) < 0.002);
    assert_adds_up();
    assert_int_equal(account_count("redone"), 2);
}

/* Writes a status.json of a process that began then, as it was in that phase,
 * after so many seconds of evaluation in all.
 */
static void write_status(double began, double wall, const char *phase,
                         double evaluation)
{
    struct dt_error err;
    char text[512];
    snprintf(text, sizeof(text),
             "{\"version\": 1, \"status\": \"running\", \"phase\": \"%s\", "
             "\"started\": %.3f, \"time\": %.3f, \"step\": 7, "
             "\"total_steps\": 9, \"account\": {\"evaluation\": %.6f}}",
             phase, began, wall, evaluation);
    assert_int_equal(
        dt_file_replace("out/logs/status.json", text, strlen(text), &err), 0);
}

/* What is in status.json is of the process that was lost, or of a later one, or
 * written so long after the loss that nobody knows what was before.
 */
static void what_a_lost_process_did_is_in_its_last_status(void **state)
{
    static const struct {
        double began, wall; /* seconds after the last event */
        const char *phase;
        double evaluation;
    } cases[] = {{-1, 0.05, "training", 0.04},
                 {-1, 0.15, "training", 0.04},
                 {-1, 0.05, "evaluating", 0.04},
                 {-1, 0.15, "evaluating", 0},
                 {0.12, 0.15, "training", 0}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct dt_launch_loss loss = {.step = 7, .rank = 1, .why = "killed"};
        assert_int_equal(small_clean(state), 0);
        stop_after = 5;
        train(1, SIX);
        stop_after = 0;
        forget_last_event();
        const double last = event_number("save", true, "wall");
        const double before = event_number("save", true, "evaluation");
        loss.at = dt_clock_now() + last + 0.1 - dt_clock_wall();
        dt_clock_sleep(0.2);
        write_status(last + cases[i].began, last + cases[i].wall,
                     cases[i].phase, before + 0.04);
        started = (struct dt_run_start){
            .losses = &loss, .loss_count = 1, .began = dt_clock_now()};
        train(1, SIX);
        memset(&started, 0, sizeof(started));
        assert_non_null(strstr(events(), "save 5, restart 7, resume 5, "));
        const double spent = event_number("restart", true, "evaluation");
        const double wanted =
            cases[i].evaluation > 0 ? before + cases[i].evaluation : 0;
        if (!(fabs((isnan(spent) ? 0 : spent) - wanted) < 0.002))
            fail_msg("case %zu: %g, expected %g", i, spent, wanted);
        assert_adds_up();
    }
}

static double account_number(const char *name)
{
    json_t *json = run_json();
    const double number = json_number_value(
        json_object_get(json_object_get(json, "account"), name));
    json_decref(json);
    return number;
}

/* A rank of the next allocation is lost before its run begins. */
static void the_queue_is_idle_whatever_is_lost_after_it(void **state)
{
    struct dt_launch_loss loss = {.step = -1, .rank = 1, .why = "killed"};
    (void)state;
    setenv("SLURM_JOB_ID", "7", 1);
    stop_after = 5;
    train(1, SIX);
    stop_after = 0;
    forget_last_event();
    const double last = event_number("save", true, "wall");
    write_status(last - 1, last + 0.05, "training", 0);
    dt_clock_sleep(0.6);
    setenv("SLURM_RESTART_COUNT", "1", 1);
    loss.at = dt_clock_now();
    dt_clock_sleep(0.1);
    started = (struct dt_run_start){
        .losses = &loss, .loss_count = 1, .began = dt_clock_now()};
    train(1, SIX);
    memset(&started, 0, sizeof(started));
    unsetenv("SLURM_JOB_ID");
    unsetenv("SLURM_RESTART_COUNT");
    assert_non_null(strstr(events(), "save 5, failed 7, restart "));
    assert_adds_up();
    if (!(account_number("idle") > 0.4 && account_number("steps") < 0.4))
        fail_msg("idle %g, steps %g", account_number("idle"),
                 account_number("steps"));
}

/* As keepers tell it, of ranks that had come to step 7, and of the next ones,
 * which had not come to any.
 */
static void losses_of_ranks_are_events(void **state)
{
    struct dt_launch_loss losses[] = {
        {.step = 7, .rank = 1, .why = "rank 1 was killed"},
        {.step = -1, .rank = 0, .why = "rank 0 was killed"}};
    (void)state;
    stop_after = 5;
    train(1, SIX);
    stop_after = 0;
    forget_last_event();
    losses[0].at = dt_clock_now();
    losses[1].at = dt_clock_now() + 0.03;
    dt_clock_sleep(0.06);
    started.losses = losses;
    started.loss_count = 2;
    started.began = dt_clock_now();
    train(2, SIX);
    memset(&started, 0, sizeof(started));
    assert_non_null(
        strstr(events(), "save 5, restart 7, restart 5, resume 5, "));
    assert_true(event_number("restart", false, "redone") == 2);
    assert_true(event_number("restart", false, "rank") == 1);
    assert_true(event_number("restart", false, "seconds") > 0.06);
    assert_true(event_number("restart", true, "rank") == 0);
    assert_adds_up();
    assert_int_equal(account_count("restarts"), 1);
    assert_int_equal(account_count("redone"), 2);
}

static void run_json_keeps_its_id_and_all_starts(void **state)
{
    char id[9];
    (void)state;
    stop_after = 2;
    train(1, SIX);
    stop_after = 0;
    json_t *json = run_json();
    assert_string_equal(text_of(json, "status"), "stopped");
    assert_int_equal(strlen(text_of(json, "run_id")), 8);
    strcpy(id, text_of(json, "run_id"));
    json_decref(json);
    train(1, SIX);
    json = run_json();
    assert_string_equal(text_of(json, "run_id"), id);
    assert_string_equal(text_of(json, "status"), "finished");
    assert_string_equal(text_of(json, "verdict"), "finished after step 6");
    json_t *starts = json_object_get(json, "starts");
    assert_int_equal(json_array_size(starts), 2);
    assert_int_equal(
        json_integer_value(json_object_get(json_array_get(starts, 1), "step")),
        2);
    assert_true(
        json_real_value(json_object_get(json, "ended")) >=
        json_real_value(json_object_get(json_array_get(starts, 1), "wall")));
    json_decref(json);
}

static void run_json_says_what_the_run_is(void **state)
{
    json_t *json, *value;
    (void)state;
    train(2, "training: {train_batch_size: 6, max_steps: 2}\n");
    json = run_json();
    assert_int_equal(json_integer_value(json_object_get(json, "version")), 1);
    assert_int_equal(json_integer_value(json_object_get(json, "world")), 2);
    assert_int_equal(json_integer_value(json_object_get(json, "total_steps")),
                     2);
    assert_string_equal(text_of(json, "algorithm"), "sft");
    value = json_object_get(json, "nodes");
    assert_int_equal(json_array_size(value), 2);
    value = json_object_get(json, "devices");
    assert_int_equal(json_array_size(value), 2);
    assert_string_equal(json_string_value(json_array_get(value, 1)),
                        "the CPUs of this host");
    value = json_object_get(json, "config");
    assert_int_equal(
        json_integer_value(json_object_get(value, "training.max_steps")), 2);
    assert_string_equal(text_of(value, "algorithm"), "sft");
    json_t *sinks = json_object_get(value, "logging.report_to");
    assert_int_equal(json_array_size(sinks), 1);
    assert_string_equal(json_string_value(json_array_get(sinks, 0)), "jsonl");
    value = json_object_get(json, "given");
    assert_string_equal(json_string_value(json_array_get(value, 0)),
                        "algorithm");
    value = json_object_get(json, "model");
    assert_true(json_integer_value(json_object_get(value, "parameters")) >
                1000);
    const char *resume = text_of(json, "resume");
    assert_int_equal(strncmp(resume, "mpirun -n 2 disttrain train /", 29), 0);
    assert_non_null(strstr(resume, "/t.yaml --set training.resume=auto"));
    json_decref(json);
}

/* The file says overwrite, and its own command would begin anew. */
static void the_command_to_resume_resumes(void **state)
{
    char text[512];
    (void)state;
    train(1, "run.overwrite: true\n"
             "training: {train_batch_size: 6, max_steps: 2}\n");
    json_t *json = run_json();
    const char *set = strstr(text_of(json, "resume"), " --set ");
    assert_non_null(set);
    assert_string_equal(set, " --set training.resume=auto");
    json_decref(json);
    train(1, "run.overwrite: true\n"
             "training: {train_batch_size: 6, max_steps: 4, resume: auto}\n");
    assert_string_equal(events(), "start 0, epoch 2, save 2, end 2, resume 2, "
                                  "epoch 4, save 4, end 4");
    json = run_json(); /* resumes as it is */
    assert_null(strstr(text_of(json, "resume"), "--set"));
    json_decref(json);

    struct stderr_text log = stderr_text_begin();
    dt_log_init(0, DT_LOG_WARN);
    train(1, "run.overwrite: true\n"
             "training: {train_batch_size: 6, max_steps: 2}\n");
    dt_log_init(0, DT_LOG_ERROR);
    stderr_text_end(&log, text, sizeof(text));
    assert_non_null(strstr(text, "warning: run.overwrite: removes "));
    assert_non_null(strstr(text, "/out/checkpoints, with 2 checkpoints up to "
                                 "step 4; with training.resume: auto the run "
                                 "would have resumed\n"));
}

/* A shell that has the variable gives the secret, which is not in the file. */
static void the_command_to_resume_asks_for_secrets(void **state)
{
    struct dt_error err;
    (void)state;
    struct dt_conf *conf =
        small_conf("training: {train_batch_size: 6, max_steps: 2}\n");
    assert_int_equal(
        dt_conf_overrides_add(&conf->overrides, "env.A_TOKEN=abcd1234", &err),
        0);
    assert_int_equal(dt_conf_overrides_add(&conf->overrides,
                                           "reward.api-key=abcd1234", &err),
                     0);
    assert_int_equal(
        dt_conf_overrides_add(&conf->overrides, "env.B_TOKEN=${B}", &err), 0);
    assert_int_equal(
        dt_conf_overrides_add(&conf->overrides, "run.name=a b", &err), 0);
    world_threads(1, train_rank, conf);
    dt_conf_destroy(conf);
    json_t *json = run_json();
    assert_non_null(strstr(text_of(json, "resume"),
                           " --set \"env.A_TOKEN=${A_TOKEN:?}\""
                           " --set \"reward.api-key=${API_KEY:?}\""
                           " --set 'env.B_TOKEN=${B}'"
                           " --set 'run.name=a b'"));
    json_decref(json);
}

/* Whether a value of run.json says what the dump prints. */
static bool says(const json_t *value, const char *text)
{
    char words[256] = "";
    const char *comma = "[";
    json_t *wanted = json_loads(text, JSON_DECODE_ANY, NULL), *item;
    size_t i;
    bool same = wanted ? json_equal(wanted, value) : json_is_string(value);
    json_decref(wanted);
    if (wanted || same)
        return wanted ? same : strcmp(json_string_value(value), text) == 0;
    json_array_foreach((json_t *)value, i, item)
    {
        strcat(strcat(words, comma), json_string_value(item));
        comma = ", ";
    }
    return strcmp(strcat(words, "]"), text) == 0;
}

struct comparison {
    const json_t *config;
    int count;
};

static void compare_key(void *ctx, const char *key, const char *text,
                        bool given)
{
    struct comparison *c = ctx;
    const json_t *value = json_object_get(c->config, key);
    char *is = value ? json_dumps(value, JSON_ENCODE_ANY) : NULL;
    if (given && (!value || !says(value, text)))
        fail_msg("%s: %s, not %s", key, is ? is : "missing", text);
    free(is);
    c->count += given;
}

/* A file that gives every key that this algorithm has, as --resolved does. */
static void every_key_of_the_file_has_its_value_in_run_json(void **state)
{
    struct dt_conf_problems problems, warnings;
    char *text = NULL;
    size_t bytes;
    (void)state;
    struct dt_conf *conf = small_conf(
        "training: {train_batch_size: 6, max_steps: 2, eval_steps: 0.5}\n"
        "data.validation_split: 0.2\n"
        "scheduler.warmup_ratio: 0.03\n"
        "checkpoint.steps: 0.5\n");
    FILE *out = open_memstream(&text, &bytes);
    dt_conf_dump(conf, out);
    fclose(out);
    dt_conf_destroy(conf);
    conf = dt_conf_load_text("t.yaml", text, bytes, &problems, &warnings);
    assert_non_null(conf);
    world_threads(1, train_rank, conf);
    assert_int_equal(status, 0);
    json_t *json = run_json();
    struct comparison c = {.config = json_object_get(json, "config")};
    assert_int_equal(dt_conf_each(conf, compare_key, &c), 0);
    assert_true(c.count > 80);
    json_decref(json);
    dt_conf_destroy(conf);
    dt_conf_problems_fini(&problems);
    dt_conf_problems_fini(&warnings);
    free(text);
}

static void run_json_has_no_secrets(void **state)
{
    static const char lines[] =
        "training: {train_batch_size: 6, max_steps: 1}\n"
        "env: {WANDB_API_KEY: 0123abcd, PLAIN: x,"
        " PROXY: \"http://me:pass@host:1\"}\n";
    struct dt_error err;
    (void)state;
    train(1, lines);
    char *text = dt_file_read("out/logs/run.json", 1 << 20, &err);
    assert_non_null(text);
    assert_non_null(strstr(text, "\"env.WANDB_API_KEY\": \"(removed)\""));
    assert_non_null(strstr(text, "\"env.PROXY\": \"http://(removed)@host:1\""));
    assert_non_null(strstr(text, "\"env.PLAIN\": \"x\""));
    assert_null(strstr(text, "0123abcd"));
    assert_null(strstr(text, "me:pass"));
    free(text);
}

/* The directory is not there to write to when the run ends. */
static void a_run_that_cannot_write_run_json_goes_on(void **state)
{
    (void)state;
    assert_int_equal(dt_file_mkdirs("out/logs/run.json.new", NULL), 0);
    train(1, "training: {train_batch_size: 6, max_steps: 2, resume: auto}\n");
    assert_int_equal(status, 0);
    assert_string_equal(events(), "start 0, epoch 2, save 2, end 2");
}

static void a_failure_is_the_last_event_and_the_verdict(void **state)
{
    (void)state;
    train(1, "training: {train_batch_size: 6, max_steps: 200}\n"
             "optimizer.lr: 1e30\n"
             "checkpoint.strategy: no\n");
    assert_int_equal(status, EX_DATAERR);
    json_t *json = run_json();
    const char *verdict = text_of(json, "verdict");
    const char *last = strrchr(events(), ',');
    assert_string_equal(text_of(json, "status"), "failed");
    assert_int_equal(strncmp(verdict, "failed after step ", 18), 0);
    assert_non_null(strstr(verdict, "lower optimizer.lr"));
    assert_int_equal(strncmp(last, ", failed ", 9), 0);
    json_decref(json);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, NULL, small_clean)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(events_tell_the_history_of_all_starts),
        CASE(a_rate_is_of_the_steps_that_were_timed),
        CASE(a_stopped_run_leaves_total_limit_checkpoints),
        CASE(a_run_that_is_stopped_without_a_loss_keeps_one_more),
        CASE(a_save_tells_its_seconds_and_bytes),
        CASE(the_account_of_all_starts_adds_up),
        CASE(the_end_of_a_process_without_a_word_is_noted),
        CASE(what_a_lost_process_did_is_in_its_last_status),
        CASE(the_queue_is_idle_whatever_is_lost_after_it),
        CASE(losses_of_ranks_are_events),
        CASE(run_json_keeps_its_id_and_all_starts),
        CASE(run_json_says_what_the_run_is),
        CASE(the_command_to_resume_resumes),
        CASE(the_command_to_resume_asks_for_secrets),
        CASE(every_key_of_the_file_has_its_value_in_run_json),
        CASE(run_json_has_no_secrets),
        CASE(a_run_that_cannot_write_run_json_goes_on),
        CASE(a_failure_is_the_last_event_and_the_verdict),
    };
    return cmocka_run_group_tests_name("events", tests, enter, small_leave);
}
