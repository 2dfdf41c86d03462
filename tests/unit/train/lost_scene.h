/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lost_scene.h - runs whose workers are killed, and start again
 *
 * The test is the keeper: it has the memory of each rank, and starts all ranks
 * again when one is lost.
 */
#ifndef TESTS_UNIT_LOST_SCENE_H
#define TESTS_UNIT_LOST_SCENE_H

#include <omp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "backend/backend.h"
#include "base/epoch.h"
#include "base/fault.h"
#include "base/inherited.h"
#include "segment/board.h"
#include "tests/unit/train/adapter_scene.h"

#ifdef ENABLE_FAULT_INJECTION

enum { RANKS = 4, STARTS = 4 };

#define END "6"

/* An epoch is a step and a half, a report two steps. */
#define TAKE                                                                   \
    "training: {train_batch_size: 8, max_steps: " END                          \
    ", resume: auto, eval_strategy: steps, eval_steps: 3}\n"                   \
    "checkpoint: {strategy: steps, steps: 4}\n"                                \
    "logging.steps: 2\n"                                                       \
    "distributed.timeout_s: 20\n"
#define ROWS_HELD                                                              \
    "data: {train: train.jsonl, eval: train.jsonl, max_length: 32}\n"
#define TEXT "algorithm: sft\n" MODEL ROWS_HELD TAKE
#define PAIRS                                                                  \
    "algorithm: dpo\n" MODEL                                                   \
    "data: {train: pairs.jsonl, eval: pairs.jsonl, max_length: 32}\n" TAKE
#define SAMPLED(name)                                                          \
    "algorithm: " name "\n" MODEL                                              \
    "data: {train: prompts.jsonl, max_length: 12, max_prompt_length: 4}\n"     \
    "rollout.max_completion_length: 8\n"                                       \
    "reward: {functions: [{type: regex, pattern: \"(?s)[ -~].*\"}]}\n"         \
    "checkpoint: {strategy: steps, steps: 4}\n"                                \
    "logging.steps: 2\n"                                                       \
    "distributed.timeout_s: 20\n"
#define SIXTEEN                                                                \
    "training: {train_batch_size: 16, max_steps: " END ", resume: auto}\n"
/* Four steps use a generation. */
#define PPO                                                                    \
    SAMPLED("ppo")                                                             \
    SIXTEEN "ppo: {epochs: 2, num_mini_batches: 2}\n"

#define GRPO                                                                   \
    SAMPLED("grpo")                                                            \
    "training: {train_batch_size: 8, gradient_accumulation_steps: 2, "         \
    "max_steps: " END ", resume: auto}\n"                                      \
    "grpo: {num_generations: 4, steps_per_generation: 4, num_iterations: 2}\n"
#define FOLLOWS(name) name ".sync_ref: {enabled: true, alpha: 0.5, steps: 2}\n"

/* No checkpoint but the last one. */
#define SMALLEST                                                               \
    "algorithm: sft\n"                                                         \
    "model: {n_positions: 16, n_embd: 16, n_layer: 1, n_head: 1}\n"            \
    "data: {train: train.jsonl, max_length: 16}\n"                             \
    "training: {train_batch_size: 2, max_steps: " END ", resume: auto}\n"      \
    "checkpoint: {strategy: steps, steps: 100}\n"                              \
    "distributed.timeout_s: 20\n"

#define STRATEGY(name) "distributed.strategy: " name "\n"

/* --- the keeper --- */

static struct keeper {
    struct dt_conf *conf;
    int size;
    bool two_nodes, splits;
    bool asks_again; /* rewards may be asked for twice */
    enum {
        ON_CPUS,
        APART,   /* on CPUs, with memory that the host does not touch */
        ON_GPUS, /* each rank has one, that of tests/simt */
    } hardware;
    unsigned lost; /* bits of ranks whose memory is lost with a fault */
    int board[RANKS], state[RANKS];
} keeper;

static inline bool never(void)
{
    return false;
}

/* A device for which the run does all that it does for a GPU. */
static inline struct dt_exec exec_apart(void)
{
    static struct dt_device apart;
    struct dt_exec exec = dt_exec_cpu();
    apart = dt_cpu;
    apart.is_host = false;
    exec.device = &apart;
    return exec;
}

/* The GPU of this rank, and its ranks. NULL and err. */
static inline struct dt_comm *open_gpu(const struct dt_comm_world *world,
                                       struct dt_exec *exec,
                                       struct dt_error *err)
{
    const struct dt_backend_options options = {.local_rank = world->rank,
                                               .deterministic = true};
    const struct dt_backend *backend =
        dt_backend_open("cuda", &options, NULL, 0, err);
    if (!backend)
        return NULL;
    *exec = (struct dt_exec){.device = backend->device, .ops = backend->ops};
    if (exec->device->stream_create(&exec->stream, err) < 0)
        return NULL;
    const struct dt_comm_options how = {
        .interface = "lo", .timeout_ms = 30000, .stream = exec->stream};
    return dt_backend_connect(backend, world, &how, err);
}

static inline int work(const struct dt_comm_world *world, void *fault)
{
    struct dt_exec exec =
        keeper.hardware == APART ? exec_apart() : dt_exec_cpu();
    const struct dt_inherited inherited = {-1, keeper.board[world->rank],
                                           keeper.state[world->rank]};
    struct dt_error err = {0};
    omp_set_num_threads(world->size > 1 || keeper.hardware != ON_CPUS ? 1 : 2);
    struct dt_run_start start = {0};
    if (inherited.state >= 0)
        dt_inherited_set(&inherited);
    if (dt_trainer_begin(&start, &err) < 0)
        return 1;
    if (fault)
        setenv("DISTTRAIN_FAULT", fault, 1);
    dt_fault_rank(world->rank);
    struct dt_comm_world here = *world;
    if (keeper.two_nodes)
        here.host = small_host;
    struct dt_comm *comm = keeper.hardware == ON_GPUS
                               ? open_gpu(&here, &exec, &err)
                               : small_comm(&here, &err);
    int rc = comm ? dt_trainer_run(keeper.conf, &exec, comm, world->size,
                                   &start, never, NULL, &err)
                  : -1;
    if (rc < 0 && !fault)
        fprintf(stderr, "# rank %d: %s\n", world->rank, err.text);
    return rc < 0;
}

static inline void begin(int size, const char *lines, bool keeps)
{
    struct dt_error err;
    fclose(fopen("asked", "w"));
    keeper.conf = small_conf(lines);
    keeper.size = size;
    if (keeps)
        setenv(DT_EPOCH_ENV, "0123456789abcdef 1 0 1", 1);
    else
        unsetenv(DT_EPOCH_ENV);
    for (int r = 0; r < size; r++) {
        keeper.state[r] = keeps ? memfd_create("state", 0) : -1;
        struct dt_board *board = dt_board_create(&err);
        assert_non_null(board);
        keeper.board[r] = dup(dt_board_fd(board));
        dt_board_close(board);
    }
}

static inline void end(void)
{
    for (int r = 0; r < keeper.size; r++) {
        close(keeper.state[r]);
        close(keeper.board[r]);
    }
    dt_conf_destroy(keeper.conf);
}

/* Starts all ranks; returns whether all have done their work. */
static inline bool start(const char *fault)
{
    int statuses[RANKS], failed = 0, killed = 0;
    world_processes(keeper.size, work, (void *)fault, statuses);
    for (int r = 0; r < keeper.size; r++) {
        failed += statuses[r] != 0;
        killed += WIFSIGNALED(statuses[r]) && WTERMSIG(statuses[r]) == SIGKILL;
    }
    assert_true(failed == 0 || (fault && killed == 1));
    return failed == 0;
}

/* --- what a run leaves --- */

static inline char *read_text(const char *path)
{
    struct dt_error err;
    char *text = dt_file_read(path, 1 << 20, &err);
    if (!text)
        fail_msg("%s", err.text);
    return text;
}

/* The sums of all files of the last checkpoint, the lines of metrics without
 * times, and when rewards were asked for.
 */
static inline char *left(void)
{
    char *sums = read_text("out/checkpoints/checkpoint-" END "/checksums.txt");
    char *lines = read_text("out/logs/metrics.jsonl"), *rest = NULL,
         *all = NULL;
    char *asked = read_text("asked");
    size_t bytes;
    FILE *out = open_memstream(&all, &bytes);
    fputs(sums, out);
    if (!keeper.asks_again)
        fputs(asked, out);
    for (char *line = strtok_r(lines, "\n", &rest); line;
         line = strtok_r(NULL, "\n", &rest)) {
        static const char *const keys[] = {
            "step", "loss",   "eval_loss",    "grad_norm", "lr",
            "kl",   "reward", "objective/kl", "entropy",   "num_tokens"};
        json_t *json = json_loads(line, 0, NULL);
        for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
            fprintf(out, "%s %.17g ", keys[i],
                    json_number_value(json_object_get(json, keys[i])));
        fputs("\n", out);
        json_decref(json);
    }
    fclose(out);
    free(asked);
    free(sums);
    free(lines);
    return all;
}

/* The steps at which workers have begun: "0 2". */
static inline char *starts(void)
{
    char *lines = read_text("out/logs/events.jsonl"), *rest = NULL, *all = NULL;
    size_t bytes;
    FILE *out = open_memstream(&all, &bytes);
    for (char *line = strtok_r(lines, "\n", &rest); line;
         line = strtok_r(NULL, "\n", &rest)) {
        json_t *json = json_loads(line, 0, NULL);
        const char *kind = json_string_value(json_object_get(json, "event"));
        if (kind && (!strcmp(kind, "start") || !strcmp(kind, "resume")))
            fprintf(out, "%s%lld", ftell(out) > 0 ? " " : "",
                    json_integer_value(json_object_get(json, "step")));
        json_decref(json);
    }
    fclose(out);
    free(lines);
    return all;
}

/* --- a claim --- */

struct lost {
    const char *faults[STARTS]; /* of one start after another */
    const char *begun; /* the steps at which these have begun; not on GPUs,
                          whose ranks are not in step when one is killed */
};

/* What a run leaves that nothing disturbs. */
static inline char *undisturbed(int size, const char *lines)
{
    small_clean(NULL);
    begin(size, lines, false);
    assert_true(start(NULL));
    end();
    return left();
}

static inline void lose_memory(void)
{
    for (int r = 0; r < keeper.size; r++) {
        if ((keeper.lost >> r & 1) == 0)
            continue;
        close(keeper.state[r]);
        keeper.state[r] = memfd_create("state", 0);
    }
}

/* Whether a run that is disturbed leaves the same. */
static inline void disturbed(int size, const char *lines, const char *want,
                             const struct lost *lost)
{
    int i = 0;
    small_clean(NULL);
    begin(size, lines, true);
    for (; lost->faults[i]; i++) {
        assert_false(start(lost->faults[i]));
        lose_memory();
    }
    assert_true(start(NULL));
    end();
    char *got = left(), *begun = starts();
    assert_string_equal(got, want);
    if (keeper.hardware != ON_GPUS)
        assert_string_equal(begun, lost->begun);
    free(begun);
    free(got);
}

static inline void check(int size, const char *lines, const struct lost *lost,
                         size_t count)
{
    char *want = undisturbed(size, lines);
    for (size_t i = 0; i < count; i++)
        disturbed(size, lines, want, &lost[i]);
    free(want);
}

#define CHECK(size, lines, lost)                                               \
    check(size, lines, lost, sizeof(lost) / sizeof((lost)[0]))

/* --- the models --- */

/* Models are made by a process that knows of no fault. */
static inline int enter(void **state)
{
    int status;
    if (small_enter(state) < 0)
        return -1;
    const pid_t pid = fork();
    if (pid == 0)
        _exit(adapter_enter(state) < 0);
    return waitpid(pid, &status, 0) == pid ? status : -1;
}

#endif

#endif /* TESTS_UNIT_LOST_SCENE_H */
