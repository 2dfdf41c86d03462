/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_copies.c - runs on GPUs whose workers are killed and go on with the
 * copies that they have left in host memory
 */
#include "config.h"

#include <pthread.h>
#include <sys/stat.h>

#include "tests/unit/train/lost_scene.h"

#include "device/locker.h"
#include "plan/plan.h"
#include "sampling/sampling.h"
#include "tests/unit/stderr_text.h"
#include "tests/unit/turned_clock.h"
#include "train/resume/copies.h"
#include "train/resume/run_state.h"

#ifdef ENABLE_FAULT_INJECTION

/* A copy is due after every step. The host is a step ahead, so that the first
 * ones are of steps 0 and 2.
 */
double __wrap_dt_copies_tell(const struct dt_run *run);

double __real_dt_copies_tell(const struct dt_run *run);

static long last_due = LONG_MAX;

double __wrap_dt_copies_tell(const struct dt_run *run)
{
    return run->copies && run->queued < last_due
               ? dt_copies_vote(run->spec.world)
               : 0;
}

/* So many bytes are missing of twice what copies take; -1: memory is as it is.
 */
static long missing = -1;

size_t __wrap_dt_plan_spare(const struct dt_spec *spec,
                            const struct dt_model_options *options, size_t left,
                            int local_size);
size_t __real_dt_plan_spare(const struct dt_spec *spec,
                            const struct dt_model_options *options, size_t left,
                            int local_size);

size_t __wrap_dt_plan_spare(const struct dt_spec *spec,
                            const struct dt_model_options *options, size_t left,
                            int local_size)
{
    const size_t most = 2 * dt_plan_copies_bytes(spec, options->compute);
    if (missing < 0)
        return __real_dt_plan_spare(spec, options, left, local_size);
    return most > (size_t)missing ? most - (size_t)missing : 0;
}

/* What is said of memory that is not ready at the start. */
enum { AT_ONCE, LATE, NEVER };

static int memory = AT_ONCE;

int __wrap_dt_locker_done(struct dt_locker *locker, bool wait,
                          struct dt_error *err);
int __real_dt_locker_done(struct dt_locker *locker, bool wait,
                          struct dt_error *err);

int __wrap_dt_locker_done(struct dt_locker *locker, bool wait,
                          struct dt_error *err)
{
    if (memory == NEVER && !wait)
        return dt_error_set(err, EX_OSERR, "no page is left");
    return memory == AT_ONCE ? __real_dt_locker_done(locker, wait, err) : 0;
}

/* Huge pages wait at a gate, but not for this thread: those are counted. */
static pthread_mutex_t pages = PTHREAD_MUTEX_INITIALIZER;
static pthread_t starter;
static int combined;

int __wrap_madvise(void *data, size_t bytes, int advice);
int __real_madvise(void *data, size_t bytes, int advice);

int __wrap_madvise(void *data, size_t bytes, int advice)
{
    enum { COLLAPSE = 25 }; /* not in all headers */
    const bool here = pthread_equal(starter, pthread_self());
    combined += here && advice == COLLAPSE;
    if (!here && advice == COLLAPSE) {
        pthread_mutex_lock(&pages);
        pthread_mutex_unlock(&pages);
    }
    return __real_madvise(data, bytes, advice);
}

static const struct lost steps_again[] = {
    {{"train.step:step=1:kill"}, "0 0"},
    {{"train.step:step=3:kill"}, "0 0"}, /* the copy of step 2 is on its way */
    {{"learner.update:step=3:nth=2:kill"}, "0 2"},
    {{"train.step:step=6:kill"}, "0 4"},
};

static void a_run_goes_on_with_its_last_copy(void **state)
{
    (void)state;
    CHECK(1, TEXT, steps_again);
}

/* The checkpoint is that of step 4. */
static void a_newer_checkpoint_is_read(void **state)
{
    static const struct lost lost[] = {
        {{"ckpt.rename:step=4:nth=1:rank=0:kill"}, "0 2"},
        {{"train.step:step=6:rank=1:kill",
          "learner.update:step=6:nth=2:rank=0:kill"},
         "0 4 4"},
    };
    (void)state;
    last_due = 2;
    CHECK(2, TEXT, lost);
    last_due = LONG_MAX;
}

/* Nothing resumes from the weights alone. */
static void a_newer_checkpoint_without_state_is_not(void **state)
{
    (void)state;
    last_due = 2;
    small_clean(NULL);
    begin(1,
          "algorithm: sft\n" MODEL ROWS_HELD
          "training: {train_batch_size: 8, max_steps: " END "}\n"
          "checkpoint: {strategy: steps, steps: 4, only_model: true}\n",
          true);
    assert_false(start("train.step:step=6:kill"));
    keeper.conf->training.restarted = true;
    assert_true(start(NULL));
    end();
    last_due = LONG_MAX;
    char *begun = starts();
    assert_string_equal(begun, "0 2");
    free(begun);
}

static const struct lost thrice[] = {
    {{"learner.update:step=3:nth=2:rank=1:kill", "copy.take:rank=0:kill",
      "copy.part:step=3:rank=0:kill"},
     "0 2 2"},
};
static const struct lost once[] = {
    {{"learner.update:step=3:nth=2:rank=1:kill"}, "0 2"}};

static void so_it_does_with_all_that_is_trained(void **state)
{
    static const char *const lines[] = {
        TEXT STRATEGY("zero1"),
        TEXT BF16 STRATEGY("zero2"),
        TEXT BF16 "optimizer.state_dtype: bf16\n" STRATEGY("zero1"),
        TEXT BF16 STRATEGY("zero3"),
        TEXT "optimizer.state_dtype: bf16\n" STRATEGY("ddp"),
        TEXT "optimizer.state_dtype: bf16\n" STRATEGY("zero3"),
        "algorithm: sft\nmodel.path: base\n" LORA ROWS_HELD TAKE STRATEGY(
            "zero3"),
        PAIRS STRATEGY("zero2"),
        "algorithm: dpo\n" MODEL
        "data: {train: pairs.jsonl, eval: pairs.jsonl, max_length: 16}\n"
        "training.micro_batch_tokens: 32\n"
        "optimizer.state_dtype: bf16\n" TAKE STRATEGY("zero2"),
        PAIRS
        "dpo.sync_ref: {enabled: true, alpha: 0.5, steps: 2}\n" STRATEGY("ddp"),
        TEXT BF16 "distributed: {strategy: zero2, offload_optimizer: "
                  "{device: cpu, compute: host}}\n",
    };
    (void)state;
    CHECK(1, TEXT "precision: {compute: fp16, loss_scale_window: 2}\n",
          steps_again);
    CHECK(2, TEXT BF16 STRATEGY("ddp"), thrice);
    CHECK(2, TEXT STRATEGY("zero3"), thrice);
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
        CHECK(2, lines[i], once);
    keeper.two_nodes = true;
    CHECK(4, TEXT BF16 STRATEGY("zero3"), once);
    keeper.two_nodes = false;
}

/* Rewards of generations after the copy are asked for again. */
static void so_it_does_within_a_generation(void **state)
{
    static const char *const lines[] = {
        GRPO STRATEGY("ddp"),
        GRPO FOLLOWS("grpo") "grpo.beta: 0.1\n" STRATEGY("zero3"),
        PPO BF16 STRATEGY("zero2"),
        GRPO "training.micro_batch_tokens: 12\n"
             "optimizer.state_dtype: bf16\n" STRATEGY("zero2"),
        SAMPLED("grpo") SIXTEEN STRATEGY("zero1") "rollout.overlap: 1\n",
    };
    static const struct lost lost[] = {
        {{"learner.update:step=3:nth=2:rank=1:kill", "copy.take:rank=0:kill",
          "train.step:step=6:rank=0:kill"},
         "0 2 4"},
    };
    (void)state;
    keeper.asks_again = true;
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
        CHECK(2, lines[i], lost);
    keeper.asks_again = false;
}

/* --- without the memory of a rank --- */

/* The first copy is that of step 0; after it one is made of each odd step.
 */
static void a_rank_without_memory_gets_the_copy_of_another(void **state)
{
    static const char *const lines[] = {
        TEXT BF16 STRATEGY("ddp"),
        TEXT "optimizer.state_dtype: bf16\n" STRATEGY("ddp"),
        PAIRS STRATEGY("ddp"),
    };
    static const struct lost lost[] = {
        {{"train.step:step=3:rank=1:kill", "copy.take:rank=0:kill",
          "learner.update:step=6:nth=2:rank=0:kill"},
         "0 0 5"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        keeper.lost = 1 << i % 2;
        CHECK(2, lines[i], lost);
    }
    keeper.lost = 0;
}

/* Ranks 1 and 3 are on the second node. */
static void so_do_all_ranks_of_a_node(void **state)
{
    static const struct lost lost[] = {
        {{"train.step:step=3:rank=1:kill",
          "learner.update:step=6:nth=2:rank=0:kill"},
         "0 0 5"},
    };
    (void)state;
    keeper.two_nodes = true;
    keeper.lost = 1 << 1 | 1 << 3;
    CHECK(4, TEXT BF16 STRATEGY("ddp"), lost);
    CHECK(4, TEXT "distributed.reduction: flat\n" STRATEGY("ddp"), lost);
    keeper.lost = 1 << 0 | 1 << 2;
    CHECK(4, TEXT STRATEGY("ddp"), lost);
    keeper.two_nodes = false;
    keeper.lost = 0;
}

static void it_gets_the_completions_of_another(void **state)
{
    static const struct lost lost[] = {
        {{"learner.update:step=3:nth=2:rank=1:kill",
          "train.step:step=6:rank=0:kill"},
         "0 2 4"},
    };
    (void)state;
    keeper.asks_again = true;
    keeper.lost = 1 << 0;
    CHECK(2, GRPO STRATEGY("ddp"), lost);
    keeper.lost = 1 << 1;
    CHECK(2, PPO BF16 STRATEGY("ddp"), lost);
    keeper.lost = 0;
    keeper.asks_again = false;
}

/* Parts that one rank alone has; and all ranks at once. The checkpoint is that
 * of step 4, the copy that of step 2.
 */
static void without_a_copy_all_read_a_checkpoint(void **state)
{
    static const struct lost lost[] = {
        {{"train.step:step=6:rank=1:kill"}, "0 4"},
    };
    (void)state;
    last_due = 2;
    keeper.lost = 1 << 1;
    CHECK(2, TEXT STRATEGY("zero1"), lost);
    CHECK(2, PAIRS FOLLOWS("dpo") STRATEGY("ddp"), lost);
    keeper.lost = 3;
    CHECK(2, TEXT STRATEGY("ddp"), lost);
    keeper.lost = 0;
    last_due = LONG_MAX;
}

/* --- at any time --- */

static bool said(const char *text, const char *words)
{
    if (strstr(text, words))
        return true;
    fprintf(stderr, "# said: %s\n", text);
    return false;
}

/* Starts all ranks; whether they have done their work, and with these words. */
static bool start_says(const char *words)
{
    char text[4096];
    struct stderr_text log = stderr_text_begin();
    dt_log_init(0, DT_LOG_INFO);
    const bool done = start(NULL);
    dt_log_init(0, DT_LOG_ERROR);
    stderr_text_end(&log, text, sizeof(text));
    return done && said(text, words);
}

/* Kills a rank at passage `nth` of a point, and then lets all go on. Returns
 * false if nothing comes there so often.
 */
static bool killed_at(const char *point, int rank, int nth, const char *want)
{
    char fault[64];
    small_clean(NULL);
    begin(2, SMALLEST BF16 STRATEGY("zero2"), true);
    snprintf(fault, sizeof(fault), "%s:rank=%d:nth=%d:kill", point, rank, nth);
    const bool killed = !start(fault);
    if (killed && !start_says("continuing after step "))
        fail_msg("%s", fault);
    end();
    char *got = left();
    assert_string_equal(got, want);
    free(got);
    return killed;
}

/* The first copy is passage 1, of 9 parts. */
static void at_any_time_one_copy_is_whole_on_all_ranks(void **state)
{
    static const struct {
        const char *point;
        int first, step;
    } points[] = {
        {"copy.begin", 2, 1}, {"copy.part", 10, 7}, {"copy.made", 2, 1},
        {"copy.whole", 2, 1}, {"copy.end", 2, 1},
    };
    char *want = undisturbed(2, SMALLEST BF16 STRATEGY("zero2"));
    (void)state;
    for (size_t i = 0; i < sizeof(points) / sizeof(points[0]); i++) {
        int nth = points[i].first;
        while (killed_at(points[i].point, nth % 2, nth, want))
            nth += points[i].step;
        assert_true(nth > points[i].first + 2);
    }
    free(want);
}

/* --- their time and their memory --- */

static size_t copied;       /* bytes */
static time_t seconds_each; /* that a copy of a part takes */

static int slow_copy(struct dt_stream *stream, void *to, const void *from,
                     size_t bytes, struct dt_error *err)
{
    copied += bytes;
    turned_s += seconds_each;
    return dt_cpu.copy(stream, to, from, bytes, err);
}

/* Rank 1 may have no memory that its device can lock. */
static bool refuses;
static int this_rank;

static int lock(void *data, size_t bytes, struct dt_error *err)
{
    (void)data;
    return refuses && this_rank == 1
               ? dt_error_set(err, EX_OSERR, "lock(%zu bytes): refused", bytes)
               : 0;
}

static void unlock(void *data)
{
    (void)data;
}

typedef void (*look_f)(struct dt_run *run);

/* Lets `look` see a run that has begun, on each rank. */
static int see(const struct dt_comm_world *world, void *look)
{
    const struct dt_exec exec = exec_apart();
    const struct dt_inherited inherited = {-1, keeper.board[world->rank],
                                           keeper.state[world->rank]};
    struct dt_run run = {0};
    struct dt_error err;
    omp_set_num_threads(1);
    dt_inherited_set(&inherited);
    struct dt_device *device = (struct dt_device *)(uintptr_t)exec.device;
    device->copy = slow_copy;
    device->lock = lock;
    device->unlock = unlock;
    this_rank = world->rank;
    struct dt_comm *comm = small_comm(world, &err);
    if (!comm ||
        dt_run_init(&run, keeper.conf, &exec, comm, world->size, &err) < 0)
        return 1;
    ((look_f)look)(&run);
    dt_run_fini(&run);
    dt_comm_destroy(comm);
    return 0;
}

static void see_all(look_f look)
{
    int statuses[RANKS];
    world_processes(keeper.size, see, (void *)(uintptr_t)look, statuses);
    for (int r = 0; r < keeper.size; r++)
        assert_int_equal(statuses[r], 0);
}

static void seen(int size, const char *lines, look_f look)
{
    small_clean(NULL);
    begin(size, lines, true);
    see_all(look);
    end();
}

/* In a process of its own: cmocka's assertions end another one. */
static void must(bool claim, const char *what)
{
    if (claim)
        return;
    fprintf(stderr, "# not so: %s\n", what);
    _exit(1);
}

#define MUST(claim) must(claim, #claim)

static void look_at_time(struct dt_run *run)
{
    const double due = dt_copies_vote(run->spec.world);
    struct dt_error err;
    run->total_steps = 3;
    MUST(__real_dt_copies_tell(run) == 0);
    turned_s += 2;
    MUST(__real_dt_copies_tell(run) == due);
    MUST(dt_copies_hear(run, 2.5) == 2.5 && !dt_copies_due(run));
    MUST(dt_copies_hear(run, due + 2.5) == 2.5 && dt_copies_due(run));
    MUST(dt_copies_make(run, &err) == 0 && !dt_copies_due(run));
    MUST(dt_copies_end(run, &err) == 0);
    MUST(__real_dt_copies_tell(run) == 0);
    seconds_each = 1;
    copied = 0;
    MUST(dt_copies_measure(run, &err) == 0 && copied > 0);
    const time_t took = 12; /* kinds and units */
    turned_s += 99 * took - 1;
    MUST(__real_dt_copies_tell(run) == 0);
    turned_s += 2;
    MUST(__real_dt_copies_tell(run) == due);
    run->queued = run->total_steps;
    MUST(dt_copies_hear(run, due) == 0 && !dt_copies_due(run));
    run->queued = 0;
    run->health = DT_NO_LOSS;
    copied = 0;
    MUST(dt_copies_make(run, &err) == 0 && copied == 0);
}

static void a_copy_is_due_after_a_hundred_times_its_time(void **state)
{
    (void)state;
    seen(1, TEXT, look_at_time);
}

static void look_at_bytes(struct dt_run *run)
{
    struct dt_error err;
    const size_t planned =
        dt_plan_copies_bytes(&run->spec, run->learner.compute);
    copied = 0;
    MUST(dt_copies_measure(run, &err) == 0);
    MUST(2 * (copied + dt_samples_bytes(&run->spec)) == planned);
    MUST(dt_copies_agree(run, &err) == 0);
}

static void copies_take_the_bytes_of_the_plan(void **state)
{
    (void)state;
    seen(1, TEXT, look_at_bytes);
    seen(2, TEXT BF16 STRATEGY("ddp"), look_at_bytes);
    seen(2, TEXT BF16 "optimizer.state_dtype: bf16\n" STRATEGY("zero2"),
         look_at_bytes);
    seen(2, PAIRS FOLLOWS("dpo") STRATEGY("zero3"), look_at_bytes);
    seen(2, PPO STRATEGY("zero1"), look_at_bytes);
    seen(2,
         "algorithm: sft\nmodel.path: base\n" LORA ROWS_HELD TAKE STRATEGY(
             "zero2"),
         look_at_bytes);
}

static void look_at_some(struct dt_run *run)
{
    MUST(run->copies);
}

static void says(int size, const char *lines, look_f look, const char *words,
                 const char *more)
{
    char text[4096];
    struct stderr_text log = stderr_text_begin();
    dt_log_init(0, DT_LOG_INFO);
    seen(size, lines, look);
    dt_log_init(0, DT_LOG_ERROR);
    stderr_text_end(&log, text, sizeof(text));
    assert_true(said(text, words) && said(text, more));
}

/* Each rank is on a node of its own. */
static void a_run_says_what_a_lost_rank_costs(void **state)
{
    static const char rank[] = "a lost rank costs the steps of the last ";
    (void)state;
    says(1, SMALLEST, look_at_some, rank,
         " s: copies of the run take 0.2 MB of host memory a rank\n");
    says(2, TEXT STRATEGY("ddp"), look_at_some,
         "a lost rank or node costs the steps of the last ",
         " s: copies of the run take ");
    says(2, PAIRS FOLLOWS("dpo") STRATEGY("ddp"), look_at_some, rank,
         " its part of the reference: copies of the run take ");
    says(2, PPO STRATEGY("zero1"), look_at_some, rank,
         " s, and a lost node those since the last checkpoint, as no other "
         "node has its part of the model, critic: copies of the run take ");
}

static void look_at_none(struct dt_run *run)
{
    MUST(!run->copies);
}

static void none_are_made(const char *words)
{
    says(2, TEXT, look_at_none, words, "\n");
}

static void without_memory_there_are_none(void **state)
{
    (void)state;
    missing = 0;
    seen(2, TEXT, look_at_some);
    missing = 1;
    none_are_made("a lost rank costs the steps since the last checkpoint: for "
                  "copies of the run, a rank needs 0.0 MB more of host "
                  "memory\n");
    missing = -1;
    refuses = true;
    none_are_made("no copy of the run is kept in host memory, and a lost rank "
                  "costs the steps since the last checkpoint: another rank "
                  "cannot, as it says\n");
    none_are_made("checkpoint: cannot lock memory: lock(");
    refuses = false;
}

static size_t held_by(int rank)
{
    struct stat st;
    assert_int_equal(fstat(keeper.state[rank], &st), 0);
    return (size_t)st.st_size;
}

/* The memory that one rank has lost is not to be had again, so no rank keeps
 * what it has for a process that could go on with it later.
 */
static void memory_that_is_there_needs_no_other(void **state)
{
    (void)state;
    small_clean(NULL);
    begin(2, GRPO BF16 STRATEGY("zero2"), true);
    see_all(look_at_some);
    missing = LONG_MAX;
    see_all(look_at_some);
    keeper.lost = 1 << 1;
    lose_memory();
    keeper.lost = 0;
    assert_true(held_by(0) > 0);
    see_all(look_at_none);
    assert_int_equal(held_by(0), 0);
    missing = -1;
    end();
}

static void look_until_ready(struct dt_run *run)
{
    const double due = dt_copies_vote(run->spec.world);
    struct dt_error err;
    run->total_steps = 3;
    MUST(__real_dt_copies_tell(run) == 0);
    memory = AT_ONCE;
    copied = 0;
    MUST(__real_dt_copies_tell(run) == due);
    MUST(dt_copies_hear(run, due + 2) == 2 && !dt_copies_due(run));
    MUST(dt_copies_hear(run, 2 * due + 2) == 2 && dt_copies_due(run));
    MUST(dt_copies_make(run, &err) == 0 && copied > 0);
    MUST(dt_copies_end(run, &err) == 0);
    MUST(__real_dt_copies_tell(run) == (run->spec.rank > 0 ? due : 0));
}

/* All votes, what all ranks say of a save and a stop, and a request's fraction.
 */
static void look_at_votes(struct dt_run *run)
{
    const double rest = 2047.0 * ((1 << 20) + 1) + 1999.0 / 2048;
    run->total_steps = 3;
    run->spec.world = 2047;
    MUST(dt_copies_hear(run, 2047 * dt_copies_vote(2047) + rest) == rest);
    MUST(dt_copies_due(run));
    run->spec.world = 1;
}

static void thousands_of_ranks_may_vote(void **state)
{
    (void)state;
    seen(1, SMALLEST, look_at_votes);
}

/* All ranks need it: the vote of one alone asks for no copy. */
static void late_memory_has_copies_once_all_have_it(void **state)
{
    (void)state;
    memory = LATE;
    seen(2, TEXT, look_until_ready);
    memory = AT_ONCE;
}

/* Of 3.6 MB each only the first pages, with which huge ones begin. */
static void look_before_pages(struct dt_run *run)
{
    const size_t bytes = dt_plan_copies_bytes(&run->spec, run->learner.compute);
    MUST(combined == 0 && bytes > 4 << 20);
    MUST(dt_state_held() < bytes / 8);
    memory = AT_ONCE;
    pthread_mutex_unlock(&pages);
    for (int i = 0; i < 30000 && __real_dt_copies_tell(run) == 0; i++)
        usleep(1000);
    MUST(__real_dt_copies_tell(run) > 0);
#ifdef MADV_POPULATE_WRITE
    MUST(dt_state_held() >= bytes);
#endif
}

static void a_start_does_not_wait_for_pages(void **state)
{
    (void)state;
    starter = pthread_self();
    memory = LATE;
    pthread_mutex_lock(&pages);
    seen(1,
         "algorithm: sft\n"
         "model: {n_positions: 32, n_embd: 128, n_layer: 1, n_head: "
         "2}\n" ROWS_HELD TAKE,
         look_before_pages);
    pthread_mutex_unlock(&pages);
    memory = AT_ONCE;
}

static void look_at_failure(struct dt_run *run)
{
    char text[4096];
    struct stderr_text log = stderr_text_begin();
    dt_log_init(0, DT_LOG_INFO);
    memory = NEVER;
    MUST(__real_dt_copies_tell(run) == 0);
    MUST(__real_dt_copies_tell(run) == 0);
    stderr_text_end(&log, text, sizeof(text));
    const char *said = strstr(text, "cannot lock memory: no page is left\n");
    MUST(said && !strstr(said + 1, "cannot lock"));
}

static void late_memory_that_cannot_be_had_is_said_once(void **state)
{
    (void)state;
    memory = LATE;
    seen(1, TEXT, look_at_failure);
    memory = AT_ONCE;
}

static void forget(struct dt_run *run)
{
    if (run->spec.rank == 1)
        dt_copies_forget(run);
}

static void look_at_once(struct dt_run *run)
{
    const double due = dt_copies_vote(run->spec.world);
    MUST(__real_dt_copies_tell(run) == due);
}

/* Until then nobody has a copy of the other rank's, should that be lost. */
static void a_rank_without_a_copy_has_the_next_one_soon(void **state)
{
    (void)state;
    small_clean(NULL);
    begin(2, TEXT STRATEGY("ddp"), true);
    see_all(look_at_some);
    keeper.lost = 1 << 1;
    lose_memory();
    keeper.lost = 0;
    see_all(look_at_once);
    end();
}

static void copies_of_a_rank_with_wrong_bits_are_dropped(void **state)
{
    (void)state;
    small_clean(NULL);
    begin(2, TEXT, true);
    see_all(forget);
    assert_true(start_says("the run cannot continue where it was: the state of "
                           "rank 1 is wrong\n"));
    see_all(look_at_some);
    end();
}

/* --- without a copy --- */

/* What ranks say that are started again after rank 0 was lost in step 6. */
static void restart_says(const char *lines, unsigned lost, const char *fault,
                         const char *words)
{
    small_clean(NULL);
    begin(2, lines, true);
    assert_false(start(fault));
    keeper.lost = lost;
    lose_memory();
    keeper.lost = 0;
    keeper.conf->training.restarted = true;
    assert_true(start_says(words));
    end();
}

static void ranks_say_what_they_go_on_with(void **state)
{
    const char *last = "train.step:step=6:rank=0:kill";
    (void)state;
    restart_says(TEXT STRATEGY("ddp"), 0, last,
                 "continuing after step 4 with the copy that the processes "
                 "before have left in host memory\n");
    restart_says(TEXT STRATEGY("ddp"), 1 << 1, last,
                 "continuing after step 4 with the copy that the processes "
                 "before have left in host memory, of which rank 1 gets that "
                 "of rank 0\n");
    restart_says(TEXT STRATEGY("zero1"), 1 << 1, last,
                 "the run cannot continue where it was: 1 rank has lost memory "
                 "of which no other rank has a copy\n");
    restart_says(TEXT "distributed: {strategy: zero2, offload_optimizer: "
                      "{device: nvme, path: .}}\n",
                 0, last,
                 "the run cannot continue where it was: offloaded state is "
                 "lost with a process\n");
}

#define TEST(f) cmocka_unit_test(f)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_run_goes_on_with_its_last_copy),
        TEST(a_newer_checkpoint_is_read),
        TEST(a_newer_checkpoint_without_state_is_not),
        TEST(so_it_does_with_all_that_is_trained),
        TEST(so_it_does_within_a_generation),
        TEST(a_rank_without_memory_gets_the_copy_of_another),
        TEST(so_do_all_ranks_of_a_node),
        TEST(it_gets_the_completions_of_another),
        TEST(without_a_copy_all_read_a_checkpoint),
        TEST(at_any_time_one_copy_is_whole_on_all_ranks),
        TEST(a_rank_without_a_copy_has_the_next_one_soon),
        TEST(a_copy_is_due_after_a_hundred_times_its_time),
        TEST(copies_take_the_bytes_of_the_plan),
        TEST(a_run_says_what_a_lost_rank_costs),
        TEST(without_memory_there_are_none),
        TEST(memory_that_is_there_needs_no_other),
        TEST(thousands_of_ranks_may_vote),
        TEST(late_memory_has_copies_once_all_have_it),
        TEST(a_start_does_not_wait_for_pages),
        TEST(late_memory_that_cannot_be_had_is_said_once),
        TEST(copies_of_a_rank_with_wrong_bits_are_dropped),
        TEST(ranks_say_what_they_go_on_with),
    };
    /* with DT_TEST_DEVICE=cuda all on those GPUs, which takes minutes */
    keeper.hardware = getenv("DT_TEST_DEVICE") ? ON_GPUS : APART;
    cmocka_set_test_filter(getenv("DT_TEST_ONLY"));
    return cmocka_run_group_tests_name("copies", tests, enter, small_leave);
}

#else

int main(void)
{
    puts("1..0 # SKIP built without --enable-fault-injection");
    return 0;
}

#endif
