/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_run_state.c - runs whose workers are killed and go on with the memory
 * that they have left
 *
 * The test is the keeper: it has the memory of each rank, and starts all ranks
 * again when one is lost.
 */
#include "config.h"

#include <omp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "base/fault.h"
#include "base/inherited.h"
#include "segment/board.h"
#include "tests/unit/train/adapter_scene.h"

#include "tests/unit/stderr_text.h"

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
#define STRATEGY(name) "distributed.strategy: " name "\n"

/* --- the keeper --- */

static struct keeper {
    struct dt_conf *conf;
    int size;
    bool two_nodes, splits;
    bool asks_again; /* rewards may be asked for twice */
    unsigned lost;   /* bits of ranks whose memory is lost with a fault */
    int board[RANKS], state[RANKS];
} keeper;

/* The first block is a tower, and frozen, if keeper.splits. */
struct dt_layout *__real_dt_model_layout(const struct dt_model_config *config,
                                         int world, struct dt_error *err);
struct dt_layout *__wrap_dt_model_layout(const struct dt_model_config *config,
                                         int world, struct dt_error *err);
int __real_dt_learner_divide(struct dt_learner_spec *spec, int world,
                             struct dt_error *err);
int __wrap_dt_learner_divide(struct dt_learner_spec *spec, int world,
                             struct dt_error *err);

struct dt_layout *__wrap_dt_model_layout(const struct dt_model_config *config,
                                         int world, struct dt_error *err)
{
    struct dt_layout *layout = __real_dt_model_layout(config, world, err);
    if (layout && keeper.splits)
        layout->units[1].part = DT_PART_VISION;
    return layout;
}

int __wrap_dt_learner_divide(struct dt_learner_spec *spec, int world,
                             struct dt_error *err)
{
    spec->freezes[DT_PART_VISION] = keeper.splits;
    return __real_dt_learner_divide(spec, world, err);
}

/* Rank 0 writes down when it asks for rewards. */
int __real_dt_scoring_begin(struct dt_run *run, struct dt_experience *of,
                            long step, struct dt_error *err);
int __wrap_dt_scoring_begin(struct dt_run *run, struct dt_experience *of,
                            long step, struct dt_error *err);

int __wrap_dt_scoring_begin(struct dt_run *run, struct dt_experience *of,
                            long step, struct dt_error *err)
{
    if (run->spec.rank == 0) {
        FILE *file = fopen("asked", "a");
        fprintf(file, "rewards of step %ld\n", step);
        fclose(file);
    }
    return __real_dt_scoring_begin(run, of, step, err);
}

static bool never(void)
{
    return false;
}

static int work(const struct dt_comm_world *world, void *fault)
{
    const struct dt_exec exec = dt_exec_cpu();
    const struct dt_inherited inherited = {-1, keeper.board[world->rank],
                                           keeper.state[world->rank]};
    struct dt_error err = {0};
    omp_set_num_threads(world->size > 1 ? 1 : 2);
    if (inherited.state >= 0)
        dt_inherited_set(&inherited);
    if (fault)
        setenv("DISTTRAIN_FAULT", fault, 1);
    dt_fault_rank(world->rank);
    struct dt_comm_world here = *world;
    if (keeper.two_nodes)
        here.host = small_host;
    struct dt_comm *comm = small_comm(&here, &err);
    int rc = comm ? dt_trainer_run(keeper.conf, &exec, comm, world->size, NULL,
                                   never, NULL, &err)
                  : -1;
    if (rc < 0 && !fault)
        fprintf(stderr, "# rank %d: %s\n", world->rank, err.text);
    return rc < 0;
}

static void begin(int size, const char *lines, bool keeps)
{
    struct dt_error err;
    fclose(fopen("asked", "w"));
    keeper.conf = small_conf(lines);
    keeper.size = size;
    for (int r = 0; r < size; r++) {
        keeper.state[r] = keeps ? memfd_create("state", 0) : -1;
        struct dt_board *board = dt_board_create(&err);
        assert_non_null(board);
        keeper.board[r] = dup(dt_board_fd(board));
        dt_board_close(board);
    }
}

static void end(void)
{
    for (int r = 0; r < keeper.size; r++) {
        close(keeper.state[r]);
        close(keeper.board[r]);
    }
    dt_conf_destroy(keeper.conf);
}

/* Starts all ranks; returns whether all have done their work. */
static bool start(const char *fault)
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

static char *read_text(const char *path)
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
static char *left(void)
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
static char *starts(void)
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
    const char *begun;          /* the steps at which these have begun */
};

/* What a run leaves that nothing disturbs. */
static char *undisturbed(int size, const char *lines)
{
    small_clean(NULL);
    begin(size, lines, false);
    assert_true(start(NULL));
    end();
    return left();
}

static void lose_memory(void)
{
    for (int r = 0; r < keeper.size; r++) {
        if ((keeper.lost >> r & 1) == 0)
            continue;
        close(keeper.state[r]);
        keeper.state[r] = memfd_create("state", 0);
    }
}

/* Whether a run that is disturbed leaves the same. */
static void disturbed(int size, const char *lines, const char *want,
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
    assert_string_equal(begun, lost->begun);
    free(begun);
    free(got);
}

static void check(int size, const char *lines, const struct lost *lost,
                  size_t count)
{
    char *want = undisturbed(size, lines);
    for (size_t i = 0; i < count; i++)
        disturbed(size, lines, want, &lost[i]);
    free(want);
}

#define CHECK(size, lines, lost)                                               \
    check(size, lines, lost, sizeof(lost) / sizeof((lost)[0]))

/* --- the claims --- */

static void a_step_is_ended_wherever_it_was(void **state)
{
    static const struct lost lost[] = {
        {{"train.step:step=3:kill"}, "0 2"},
        {{"state.prepare:step=3:kill"}, "0 2"},
        {{"state.commit:step=3:kill"}, "0 2"},
        {{"learner.update:step=3:nth=1:kill"}, "0 2"},
        {{"learner.update:step=3:nth=3:kill"}, "0 2"},
        {{"state.settle:step=3:kill"}, "0 3"},
    };
    (void)state;
    CHECK(1, TEXT, lost);
}

static void a_save_is_made_again(void **state)
{
    static const struct lost lost[] = {
        {{"ckpt.write:step=4:nth=3:kill"}, "0 3"},
        {{"ckpt.rename:step=4:nth=2:kill"}, "0 3"},
    };
    (void)state;
    CHECK(1, TEXT, lost);
}

static void a_worker_that_ends_a_step_may_be_killed(void **state)
{
    static const struct lost lost[] = {
        {{"learner.update:step=3:nth=2:kill", "learner.update:nth=3:kill",
          "state.settle:nth=2:kill"},
         "0 2 4"},
        {{"state.commit:step=2:kill", "state.commit:kill", "state.commit:kill"},
         "0 1"},
    };
    (void)state;
    CHECK(1, TEXT, lost);
}

static const struct lost updates[] = {
    {{"learner.update:step=3:nth=2:kill"}, "0 2"},
};

static void so_it_is_for_all_that_is_trained(void **state)
{
    static const char *const lines[] = {
        TEXT BF16,
        TEXT "precision: {compute: fp16, loss_scale_window: 2}\n",
        "algorithm: sft\nmodel.path: base\n" LORA ROWS_HELD TAKE,
        PAIRS,
    };
    (void)state;
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
        CHECK(1, lines[i], updates);
}

static void so_it_is_beside_frozen_parts(void **state)
{
    (void)state;
    keeper.splits = true;
    CHECK(1, TEXT BF16, updates);
    keeper.splits = false;
}

/* One rank has begun to update, and the other has not. */
static const struct lost apart[] = {
    {{"learner.update:step=3:nth=2:rank=1:kill"}, "0 2"},
    {{"state.commit:step=3:rank=0:kill"}, "0 2"},
};

static void ranks_end_a_step_together(void **state)
{
    static const struct lost all[] = {
        {{"train.step:step=3:rank=1:kill"}, "0 2"},
        {{"state.prepare:step=3:rank=0:kill"}, "0 2"},
        {{"state.commit:step=3:rank=1:kill"}, "0 2"},
    };
    (void)state;
    CHECK(2, TEXT STRATEGY("ddp"), all);
    CHECK(2, TEXT STRATEGY("ddp") BF16, apart);
    CHECK(2, TEXT STRATEGY("zero1"), apart);
    CHECK(2, TEXT STRATEGY("zero2") BF16, apart);
    CHECK(2, PAIRS STRATEGY("zero3"), apart);
    CHECK(2, TEXT STRATEGY("zero3") BF16, apart);
}

static void groups_of_ranks_do_so(void **state)
{
    (void)state;
    keeper.two_nodes = true;
    CHECK(4, TEXT STRATEGY("zero3") BF16, apart);
    CHECK(4, TEXT STRATEGY("zero2"), apart);
    keeper.two_nodes = false;
}

static void so_it_is_within_a_generation(void **state)
{
    static const struct lost grpo[] = {
        {{"train.step:step=3:kill", "samples.keep:step=5:kill",
          "state.commit:step=5:kill"},
         "0 2 4 4"},
        {{"state.settle:step=4:kill"}, "0 4"},
    };
    static const struct lost ppo[] = {
        {{"learner.update:step=3:nth=2:kill"}, "0 2"},
        {{"learner.update:step=3:nth=7:kill", "learner.update:nth=8:kill"},
         "0 2"},
    };
    (void)state;
    CHECK(1, GRPO "grpo.dynamic_sampling.enabled: true\n", grpo);
    CHECK(1, PPO BF16, ppo);
}

static const struct lost within[] = {
    {{"learner.update:step=3:nth=2:rank=0:kill",
      "samples.keep:step=5:rank=0:kill"},
     "0 2 4"},
};

static void ranks_go_on_within_a_generation(void **state)
{
    (void)state;
    CHECK(2, GRPO STRATEGY("zero2"), within);
    CHECK(2, PPO STRATEGY("zero3") BF16, within);
}

/* Rank 1 gets the generation from rank 0. */
static void one_without_memory_does_so(void **state)
{
    (void)state;
    keeper.lost = 1 << 1;
    CHECK(2, GRPO STRATEGY("ddp"), within);
    CHECK(2, PPO STRATEGY("ddp"), within);
    keeper.lost = 0;
}

/* Their completions are of older weights, so nobody can sample them again. */
static void completions_that_were_sampled_ahead_are_kept(void **state)
{
    static const struct lost lost[] = {
        {{"samples.keep:step=3:rank=0:kill", "state.commit:step=3:rank=0:kill"},
         "0 2 2"},
    };
    (void)state;
    keeper.asks_again = true;
    CHECK(1, SAMPLED("grpo") SIXTEEN "rollout.overlap: 1\n", lost);
    keeper.lost = 1 << 1;
    CHECK(2, SAMPLED("grpo") SIXTEEN STRATEGY("ddp") "rollout.overlap: 1\n",
          lost);
    keeper.asks_again = false;
    keeper.lost = 0;
}

/* It is moved after steps 2, 4 and 6, unit by unit. */
static void a_reference_that_follows_is_moved_once(void **state)
{
    static const struct lost lost[] = {
        {{"reference.move:step=2:nth=2:rank=0:kill",
          "reference.move:step=0:nth=1:rank=0:kill",
          "state.settle:step=4:rank=0:kill"},
         "0 1 4"},
    };
    (void)state;
    CHECK(1, PAIRS FOLLOWS("dpo") BF16, lost);
    CHECK(2, PAIRS FOLLOWS("dpo") STRATEGY("ddp"), lost);
    CHECK(2, GRPO FOLLOWS("grpo") "grpo.beta: 0.1\n" STRATEGY("zero3"), lost);
}

/* The checkpoint is that of step 4. */
static void a_rank_without_memory_gets_a_copy(void **state)
{
    static const struct lost lost[] = {
        {{"train.step:step=6:rank=0:kill"}, "0 5"},
        {{"state.commit:step=6:rank=0:kill"}, "0 5"},
        {{"learner.update:step=6:nth=2:rank=1:kill"}, "0 5"},
    };
    static const struct lost first[] = {
        {{"learner.update:step=6:nth=2:rank=0:kill", "state.copy:kill",
          "learner.update:nth=2:rank=0:kill"},
         "0 5"},
    };
    (void)state;
    keeper.lost = 1 << 1;
    CHECK(2, TEXT STRATEGY("ddp") BF16, lost);
    keeper.lost = 1 << 0;
    CHECK(2, PAIRS STRATEGY("ddp"), first);
    keeper.lost = 0;
}

static void without_a_copy_all_read_a_checkpoint(void **state)
{
    static const struct lost lost[] = {
        {{"state.commit:step=6:rank=0:kill"}, "0 4"},
    };
    (void)state;
    keeper.lost = 3;
    CHECK(2, TEXT STRATEGY("ddp"), lost);
    keeper.lost = 1 << 1;
    CHECK(2, TEXT STRATEGY("zero1"), lost);
    keeper.two_nodes = true;
    CHECK(4, TEXT STRATEGY("zero3"), lost);
    keeper.two_nodes = false;
    keeper.lost = 0;
}

/* What ranks say that are started again after rank 0 was lost in step 6. */
static void restart_says(const char *lines, unsigned lost, const char *words)
{
    char text[4096];
    small_clean(NULL);
    begin(2, lines, true);
    assert_false(start("train.step:step=6:rank=0:kill"));
    keeper.lost = lost;
    lose_memory();
    keeper.lost = 0;
    keeper.conf->training.restarted = true;
    struct stderr_text log = stderr_text_begin();
    dt_log_init(0, DT_LOG_INFO);
    const bool done = start(NULL);
    dt_log_init(0, DT_LOG_ERROR);
    stderr_text_end(&log, text, sizeof(text));
    end();
    assert_true(done);
    if (!strstr(text, words))
        fail_msg("%s", text);
}

static void ranks_say_what_they_continue_with(void **state)
{
    (void)state;
    restart_says(TEXT STRATEGY("ddp"), 0,
                 "continuing after step 5 with the memory of the processes "
                 "before\n");
    restart_says(TEXT STRATEGY("ddp"), 1 << 1,
                 "continuing after step 5 with the memory of the processes "
                 "before, of which 1 rank gets a copy\n");
    restart_says(TEXT STRATEGY("zero1"), 1 << 1,
                 "the run cannot continue where it was: 1 rank has lost memory "
                 "of which no other rank has a copy\n");
    restart_says(TEXT "distributed: {strategy: zero2, offload_optimizer: "
                      "{device: nvme, path: .}}\n",
                 0,
                 "the run cannot continue where it was: offloaded state is "
                 "lost with a process\n");
}

/* Models are made by a process that knows of no fault. */
static int enter(void **state)
{
    int status;
    if (small_enter(state) < 0)
        return -1;
    const pid_t pid = fork();
    if (pid == 0)
        _exit(adapter_enter(state) < 0);
    return waitpid(pid, &status, 0) == pid ? status : -1;
}

#define TEST(f) cmocka_unit_test(f)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_step_is_ended_wherever_it_was),
        TEST(a_save_is_made_again),
        TEST(a_worker_that_ends_a_step_may_be_killed),
        TEST(so_it_is_for_all_that_is_trained),
        TEST(so_it_is_beside_frozen_parts),
        TEST(ranks_end_a_step_together),
        TEST(groups_of_ranks_do_so),
        TEST(so_it_is_within_a_generation),
        TEST(ranks_go_on_within_a_generation),
        TEST(one_without_memory_does_so),
        TEST(completions_that_were_sampled_ahead_are_kept),
        TEST(a_reference_that_follows_is_moved_once),
        TEST(a_rank_without_memory_gets_a_copy),
        TEST(without_a_copy_all_read_a_checkpoint),
        TEST(ranks_say_what_they_continue_with),
    };
    return cmocka_run_group_tests_name("run_state", tests, enter, small_leave);
}

#else

int main(void)
{
    puts("1..0 # SKIP built without --enable-fault-injection");
    return 0;
}

#endif
