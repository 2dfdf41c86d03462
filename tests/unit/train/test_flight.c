/* SPDX-License-Identifier: Apache-2.0 */
/* test_flight.c - saves that the run does not wait for */
#include "config.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/clock.h"
#include "run/dir/dir.h"
#include "tests/unit/disk.h"
#include "tests/unit/small_run.h"
#include "tests/unit/train/flight_scene.h"
#include "train/resume/resume_impl.h"

#include "tests/unit/said.h"

#define SAVED "out/checkpoints/checkpoint-2"
#define LINES                                                                  \
    "training: {train_batch_size: 12, max_steps: 30}\n"                        \
    "checkpoint: {steps: 2, async: on}\n"
#define MANY                                                                   \
    "training: {train_batch_size: 12, max_steps: 3000}\n"                      \
    "checkpoint: {steps: 2, async: on, total_limit: 2}\n"

static bool exists(const char *path)
{
    return access(path, F_OK) == 0;
}

/* Entries of the directory of checkpoints that begin with ".tmp-". */
static int temp_count(void)
{
    struct dirent *entry;
    DIR *dir = opendir("out/checkpoints");
    int count = 0;
    while (dir && (entry = readdir(dir)))
        count += strncmp(entry->d_name, ".tmp-", 5) == 0;
    if (dir)
        closedir(dir);
    return count;
}

/* --- a disk in trouble --- */

enum { HEALTHY = -1, FROZEN = 0 };

static struct {
    pthread_mutex_t mutex;
    pthread_cond_t thawed;
    pthread_t trains; /* which must not wait for the disk */
    int calls;        /* of saves, since it was told */
    int at, error;    /* the call that fails, or FROZEN: does not return */
    char call[400];   /* that one */
} disk = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, .at = HEALTHY};

static int meet_trouble(const char *call, const char *a, const char *b)
{
    int error = 0;
    if (!strstr(b ? b : a, "out/checkpoints/"))
        return 0;
    pthread_mutex_lock(&disk.mutex);
    if (pthread_equal(pthread_self(), disk.trains)) {
        fprintf(stderr, "# %s %s by the thread that trains\n", call, a);
        exit(1);
    }
    if (disk.calls++ == disk.at) {
        error = disk.error;
        snprintf(disk.call, sizeof(disk.call), "%s %s", call, b ? b : a);
        while (error == FROZEN && disk.at != HEALTHY)
            pthread_cond_wait(&disk.thawed, &disk.mutex);
    }
    pthread_mutex_unlock(&disk.mutex);
    return error;
}

/* From now on the call `at` of saves of this thread's run fails. */
static void trouble(int at, int error)
{
    pthread_mutex_lock(&disk.mutex);
    disk.trains = pthread_self();
    disk.at = at;
    disk.error = error;
    disk.calls = 0;
    pthread_mutex_unlock(&disk.mutex);
    disk_watch(meet_trouble);
}

/* Ends it. Returns whether there was a call that has met it. */
static bool recover(void)
{
    disk_watch(NULL);
    pthread_mutex_lock(&disk.mutex);
    const int at = disk.at;
    disk.at = HEALTHY;
    pthread_cond_broadcast(&disk.thawed);
    const bool met = at < disk.calls;
    pthread_mutex_unlock(&disk.mutex);
    return met;
}

/* --- the same bits --- */

/* Saves step 2, and waits for that only after further steps. */
static int save_step_2(struct dt_run *run, void *arg)
{
    struct dt_error err = {0};
    TRY(take_steps(run, 2) == 0);
    TRY(dt_run_save_or_retry(run, false, &err) == 0);
    TRY(run->saves.flight == (arg ? 2 : 0));
    if (arg)
        TRY(take_steps_until_saved(run) == 0);
    TRY(run->saves.newest == 2 && run->saves.failures == 0);
    TRY(dt_comm_barrier(run->comm, &err) == 0);
    TRY(temp_count() == 0);
    return 0;
}

static int resume_step_2(struct dt_run *run, void *arg)
{
    struct dt_error err = {0};
    (void)arg;
    TRY(run->progress.step == 2);
    return 0;
}

static void a_save_has_the_bits_that_it_has_if_the_run_waits(void **state)
{
    static const struct {
        int ranks;
        const char *lines;
    } cases[] = {
        {1, ""},
        {1, "precision.compute: bf16\n"},
        {1, "model.init: random\ncheckpoint.max_shard_size: 4KB\n"},
#ifdef HAVE_GLOO
        {2, "distributed.strategy: ddp\n"},
        {3, "distributed.strategy: zero3\nprecision.compute: bf16\n"},
#endif
    };
    struct dt_error err = {0};
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        char *sums[2];
        for (int async = 0; async < 2; async++) {
            char lines[512];
            snprintf(lines, sizeof(lines),
                     "training: {train_batch_size: 12, max_steps: 30, resume: "
                     "auto}\n"
                     "checkpoint.async: %s\n%s",
                     async ? "on" : "off", cases[i].lines);
            small_runs(cases[i].ranks, lines, save_step_2,
                       async ? "async" : NULL);
            sums[async] = dt_ckpt_read_sums(SAVED, &err);
            assert_non_null(sums[async]);
            assert_int_equal(dt_ckpt_verify(SAVED, NULL, &err), 0);
            small_resume(cases[i].ranks, lines, resume_step_2, NULL);
        }
        assert_string_equal(sums[0], sums[1]);
        free(sums[0]);
        free(sums[1]);
    }
}

/* --- a device that copies by itself --- */

enum { COPIES = 512 };

static _Thread_local struct {
    void *to;
    const void *from;
    size_t bytes;
} on_their_way[COPIES];

static _Thread_local size_t copy_count;

static void make_copies(void)
{
    for (size_t i = 0; i < copy_count; i++)
        memcpy(on_their_way[i].to, on_their_way[i].from, on_their_way[i].bytes);
    copy_count = 0;
}

static int late_stream_create(struct dt_stream **stream, struct dt_error *err)
{
    static char copies;
    (void)err;
    *stream = (struct dt_stream *)&copies;
    return 0;
}

static int late_stream_wait(struct dt_stream *stream, struct dt_error *err)
{
    (void)err;
    if (stream)
        make_copies();
    return 0;
}

/* In the stream of copies no sooner than somebody waits for it. */
static int late_copy(struct dt_stream *stream, void *to, const void *from,
                     size_t bytes, struct dt_error *err)
{
    if (!stream)
        return dt_cpu.copy(stream, to, from, bytes, err);
    assert(copy_count < COPIES);
    on_their_way[copy_count].to = to;
    on_their_way[copy_count].from = from;
    on_their_way[copy_count++].bytes = bytes;
    return 0;
}

static int late_event_create(struct dt_event **event, struct dt_error *err)
{
    *event = calloc(1, 1);
    return *event ? 0 : dt_error_set(err, EX_OSERR, "out of memory");
}

static void late_event_destroy(struct dt_event *event)
{
    free(event);
}

static int late_event_record(struct dt_event *event, struct dt_stream *stream,
                             struct dt_error *err)
{
    (void)err;
    *(char *)event = stream != NULL;
    return 0;
}

static double copying; /* seconds that copies take */

static int late_event_done(struct dt_event *event, struct dt_error *err)
{
    (void)err;
    if (*(char *)event && copy_count > 0) {
        dt_clock_sleep(copying);
        make_copies();
    }
    return 1;
}

static atomic_bool asked_to_lock;

static int cannot_lock(void *data, size_t bytes, struct dt_error *err)
{
    (void)data;
    (void)bytes;
    asked_to_lock = true;
    return dt_error_set(err, EX_OSERR, "too much is locked");
}

static struct dt_device late_device(void)
{
    struct dt_device late = dt_cpu;
    late.is_host = false;
    late.copy_stream_create = late_stream_create;
    late.stream_wait = late_stream_wait;
    late.copy = late_copy;
    late.event_create = late_event_create;
    late.event_destroy = late_event_destroy;
    late.event_record = late_event_record;
    late.event_done = late_event_done;
    return late;
}

static int save_while_copies_are_made(struct dt_run *run, void *arg)
{
    struct dt_error err = {0};
    (void)arg;
    TRY(take_steps(run, 2) == 0);
    TRY(dt_run_save_or_retry(run, false, &err) == 0);
    TRY(run->saves.flight == 2 && copy_count > 0);
    TRY(take_steps(run, 1) == 0 && copy_count == 0);
    TRY(take_steps_until_saved(run) == 0);
    TRY(run->saves.newest == 2);
    TRY(take_steps(run, 1) == 0);
    TRY(dt_run_save_or_retry(run, false, &err) == 0 && copy_count > 0);
    return dt_run_save_finish(run, &err);
}

static void what_a_device_copies_is_there_before_the_next_update(void **state)
{
    static const struct {
        int ranks;
        const char *lines;
    } cases[] = {
        {1, "precision.compute: fp32\n"},
        {1, "precision.compute: bf16\n"},
#ifdef HAVE_GLOO
        {2, "precision.compute: bf16\ndistributed.strategy: zero2\n"},
#endif
    };
    const struct dt_device late = late_device();
    struct dt_error err = {0};
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        char *sums[2];
        for (int async = 0; async < 2; async++) {
            char lines[512];
            snprintf(lines, sizeof(lines),
                     "training: {train_batch_size: 12, max_steps: 30}\n"
                     "checkpoint.async: %s\n%s",
                     async ? "on" : "off", cases[i].lines);
            small_clean(NULL);
            struct dt_conf *conf = small_conf(lines);
            struct small_world world = {.conf = conf,
                                        .f = async ? save_while_copies_are_made
                                                   : save_step_2,
                                        .device = &late};
            world_threads(cases[i].ranks, small_rank, &world);
            dt_conf_destroy(conf);
            sums[async] = dt_ckpt_read_sums(SAVED, &err);
            assert_int_equal(dt_ckpt_verify(SAVED, NULL, &err), 0);
        }
        assert_string_equal(sums[0], sums[1]);
        free(sums[0]);
        free(sums[1]);
    }
}

/* The seconds of the first save in events.jsonl. */
static double seconds_of_save(void)
{
    char line[4096];
    double seconds = -1;
    FILE *file = fopen("out/logs/events.jsonl", "r");
    while (file && seconds < 0 && fgets(line, sizeof(line), file)) {
        const char *at = strstr(line, "\"seconds\": ");
        if (at && strstr(line, "\"event\": \"save\""))
            seconds = strtod(at + strlen("\"seconds\": "), NULL);
    }
    if (file)
        fclose(file);
    return seconds;
}

static int save_two(struct dt_run *run, void *arg)
{
    struct dt_error err = {0};
    (void)arg;
    while (!asked_to_lock)
        dt_clock_sleep(0.001);
    dt_clock_sleep(0.1);
    for (int i = 0; i < 2; i++) {
        TRY(take_steps(run, 2) == 0);
        TRY(dt_run_save_or_retry(run, false, &err) == 0);
        TRY(take_steps_until_saved(run) == 0);
    }
    return 0;
}

static void memory_that_cannot_be_locked_and_the_wait_for_it_are_told(
    void **state)
{
    static char text[8192];
    struct dt_device late = late_device();
    (void)state;
    late.lock = cannot_lock;
    copying = 0.3;
    small_clean(NULL);
    struct dt_conf *conf = small_conf(LINES);
    struct small_world world = {.conf = conf, .f = save_two, .device = &late};
    struct stderr_text log = stderr_text_begin();
    dt_log_init(0, DT_LOG_WARN);
    world_threads(1, small_rank, &world);
    dt_log_init(0, DT_LOG_ERROR);
    stderr_text_end(&log, text, sizeof(text));
    dt_conf_destroy(conf);
    const double seconds = seconds_of_save();
    copying = 0;
    const char *said = strstr(text, "the run waits while a save is copied to "
                                    "host memory: cannot lock memory: too "
                                    "much is locked\n");
    assert_true(said && !strstr(said + 1, "the run waits"));
    assert_true(seconds >= 0.3);
}

/* --- when it is published --- */

static int publish_later(struct dt_run *run, void *arg)
{
    struct dt_error err = {0};
    (void)arg;
    TRY(take_steps(run, 2) == 0);
    TRY(dt_run_save_or_retry(run, false, &err) == 0);
    while (dt_flight_tell(run) == 0)
        dt_clock_sleep(0.001);
    /* nobody has said so in a step, and no later loss was finite */
    TRY(!dt_flight_ready(run) && !exists(SAVED));
    TRY(take_steps(run, 1) == 0);
    TRY(dt_flight_ready(run));
    run->saves.maybe = 2; /* as if the loss had been NaN */
    TRY(!dt_flight_ready(run));
    TRY(take_steps_until_saved(run) == 0);
    TRY(exists(SAVED) && run->saves.unproven == 0);
    return 0;
}

static void it_is_published_after_a_later_step_with_a_finite_loss(void **state)
{
    (void)state;
    small_runs(1, LINES, publish_later, NULL);
}

/* The run is told to stop when it has just begun. */
static int finish_at_once(struct dt_run *run, void *arg)
{
    struct dt_error err = {0};
    (void)arg;
    TRY(take_steps(run, 2) == 0);
    TRY(dt_run_save_or_retry(run, false, &err) == 0);
    TRY(dt_run_save_finish(run, &err) == 0);
    TRY(exists(SAVED) && run->saves.unproven == 2 && run->saves.newest == 2);
    return 0;
}

static void one_that_is_waited_for_is_published_and_unproven(void **state)
{
    (void)state;
    small_runs(1, LINES, finish_at_once, NULL);
}

/* The run fails. */
static int leave_it(struct dt_run *run, void *arg)
{
    struct dt_error err = {0};
    (void)arg;
    TRY(take_steps(run, 2) == 0);
    TRY(dt_run_save_or_retry(run, false, &err) == 0);
    return 0;
}

static void one_that_is_not_waited_for_leaves_nothing(void **state)
{
    (void)state;
    small_runs(1, LINES, leave_it, NULL);
    assert_false(exists(SAVED));
    assert_int_equal(temp_count(), 0);
}

/* --- saves that are due meanwhile --- */

static int save_often(struct dt_run *run, void *arg)
{
    struct dt_error err = {0};
    (void)arg;
    TRY(take_steps(run, 2) == 0);
    trouble(3, FROZEN);
    TRY(dt_run_save_or_retry(run, false, &err) == 0);
    for (int i = 0; i < 2; i++) { /* steps 4 and 5 */
        TRY(take_steps(run, 2 - i) == 0);
        TRY(dt_run_save_or_retry(run, false, &err) == 0);
        TRY(run->saves.flight == 2 && !dt_flight_ready(run));
    }
    TRY(take_steps(run, 1) == 0);
    recover();
    TRY(dt_run_save_or_retry(run, false, &err) == 0); /* step 6 */
    TRY(run->saves.flight == 6 && exists(SAVED));
    TRY(take_steps(run, 1) == 0);
    TRY(dt_run_save_or_retry(run, true, &err) == 0); /* the last one */
    TRY(run->saves.flight == 0);
    TRY(exists("out/checkpoints/checkpoint-6"));
    TRY(exists("out/checkpoints/checkpoint-7"));
    TRY(!exists("out/checkpoints/checkpoint-4"));
    TRY(!exists("out/checkpoints/checkpoint-5"));
    return 0;
}

static void one_that_is_due_meanwhile_is_left_out_unless_it_is_kept(
    void **state)
{
    (void)state;
    small_runs(1, LINES "checkpoint.keep_every: 3\n", save_often, NULL);
}

/* --- failures --- */

static int count_events(const char *kind)
{
    char line[4096], text[64];
    FILE *file = fopen("out/logs/events.jsonl", "r");
    int count = 0;
    snprintf(text, sizeof(text), "\"event\": \"%s\"", kind);
    while (file && fgets(line, sizeof(line), file))
        count += strstr(line, text) != NULL;
    if (file)
        fclose(file);
    return count;
}

/* The step of the newest checkpoint, which is whole; -1: there is none. */
static long newest_step(void)
{
    struct dt_error err;
    char *path;
    if (dt_ckpt_find("out/checkpoints", NULL, &path, &err) < 0 || !path)
        return -1;
    const long step = atol(strrchr(path, '-') + 1);
    free(path);
    return step;
}

static int save_when_due(struct dt_run *run)
{
    struct dt_error err = {0};
    do {
        TRY(take_steps(run, 1) == 0);
    } while (!dt_run_save_due(run, run->progress.step));
    TRY(dt_run_save_or_retry(run, false, &err) == 0);
    return 0;
}

/* Lets each call of a save fail in turn, until there is none left. */
static int fail_each_call(struct dt_run *run, void *arg)
{
    static const int errors[] = {ENOSPC, EIO, EDQUOT};
    struct dt_error err = {0};
    (void)arg;
    TRY(save_when_due(run) == 0 && take_steps_until_saved(run) == 0);
    bool met = true;
    for (int at = 0; met; at++) {
        const long before = newest_step();
        const int failed = count_events("save_failed");
        trouble(at, errors[at % 3]);
        TRY(save_when_due(run) == 0);
        const long step = run->progress.step;
        TRY(take_steps_until_saved(run) == 0);
        met = recover();
        snprintf(err.text, sizeof(err.text), "%s", disk.call); /* for TRY */
        const int more = count_events("save_failed") - failed;
        TRY(run->saves.failures == more && more <= met);
        TRY(newest_step() == step || (more == 1 && newest_step() == before));
        TRY(run->saves.maybe == 0);
        TRY(save_when_due(run) == 0 && take_steps_until_saved(run) == 0);
        TRY(run->saves.failures == 0 && newest_step() > step);
        TRY(temp_count() == 0);
    }
    return 0;
}

static void a_call_that_fails_costs_one_save_and_one_warning(void **state)
{
    (void)state;
    small_runs(1, MANY, fail_each_call, NULL);
}

/* Nobody waits for it. */
static int freeze_each_call(struct dt_run *run, void *arg)
{
    struct dt_error err = {0};
    (void)arg;
    TRY(save_when_due(run) == 0 && take_steps_until_saved(run) == 0);
    bool met = true;
    for (int at = 0; met; at++) {
        trouble(at, FROZEN);
        TRY(save_when_due(run) == 0);
        const long step = run->progress.step;
        TRY(take_steps(run, 3) == 0);
        met = recover();
        snprintf(err.text, sizeof(err.text), "%s", disk.call);
        TRY(take_steps_until_saved(run) == 0);
        TRY(run->saves.failures == 0 && newest_step() == step);
    }
    TRY(count_events("save_failed") == 0);
    return 0;
}

static void no_call_that_does_not_return_stops_the_steps(void **state)
{
    (void)state;
    small_runs(1, MANY, freeze_each_call, NULL);
}

/* The last save is waited for, but not for ever. */
static int freeze(struct dt_run *run, void *arg)
{
    struct dt_error err = {0};
    (void)arg;
    TRY(take_steps(run, 2) == 0);
    trouble(3, FROZEN);
    TRY(dt_run_save_or_retry(run, false, &err) == 0);
    TRY(take_steps(run, 9) == 0);
    TRY(!dt_flight_ready(run) && run->saves.failures == 0);
    TRY(dt_run_save_finish(run, &err) == -1);
    TRY(err.status == EX_IOERR);
    TRY(strstr(err.text, "out/checkpoints: writing the checkpoint of step 2 "
                         "has not ended within 2 s (distributed.timeout_s)"));
    recover();
    return 0;
}

static void a_disk_that_does_not_answer_is_named_at_the_end(void **state)
{
    (void)state;
    small_runs(1, LINES "distributed.timeout_s: 1\n", freeze, NULL);
}

#ifdef HAVE_GLOO
/* The files of rank 1 are not where rank 0 looks for them. */
static int write_elsewhere(struct dt_run *run, void *arg)
{
    struct dt_error err = {0};
    (void)arg;
    TRY(take_steps(run, 2) == 0);
    if (run->spec.rank == 1)
        snprintf(run->spec.ckpt_root, sizeof(run->spec.ckpt_root), "elsewhere");
    TRY(dt_run_save_or_retry(run, false, &err) == 0);
    TRY(take_steps_until_saved(run) == 0);
    TRY(run->saves.failures == 1);
    TRY(dt_comm_barrier(run->comm, &err) == 0);
    TRY(!exists(SAVED) && temp_count() == 0);
    return 0;
}

static void files_that_rank_0_does_not_see_fail_the_save(void **state)
{
    (void)state;
    small_runs(2, LINES, write_elsewhere, NULL);
}
#endif

/* --- the sum --- */

static int tell_and_hear(struct dt_run *run, void *arg)
{
    struct dt_error err = {0};
    (void)arg;
    TRY(dt_flight_tell(run) == 0);
    TRY(dt_flight_hear(run, 2.25) == 2.25);
    TRY(take_steps(run, 2) == 0);
    TRY(dt_run_save_or_retry(run, false, &err) == 0);
    while (dt_flight_tell(run) == 0)
        dt_clock_sleep(0.001);
    /* of a step that was queued before */
    TRY(dt_flight_hear(run, dt_flight_tell(run) + 1.25) == 1.25);
    run->saves.maybe = 0;
    TRY(!dt_flight_ready(run));
    run->progress.step++;
    TRY(dt_flight_hear(run, 0) == 0 && !dt_flight_ready(run));
    TRY(dt_flight_hear(run, dt_flight_tell(run)) == 0 && dt_flight_ready(run));
    run->progress.step--;
    return 0;
}

static void it_rides_on_the_sum_of_a_step_and_leaves_stops_alone(void **state)
{
    (void)state;
    small_runs(1, LINES, tell_and_hear, NULL);
}

static int nothing(struct dt_run *run, void *arg)
{
    (void)arg;
    return run->flight ? -1 : 0;
}

static void optimizer_state_on_a_drive_is_waited_for_and_that_is_said(
    void **state)
{
    (void)state;
    const char *text = said(2,
                            LINES "distributed: {strategy: zero2, "
                                  "offload_optimizer: {device: nvme, "
                                  "path: .}}\n",
                            nothing);
    assert_non_null(strstr(text, "the run waits for its saves: no copy is "
                                 "taken of optimizer state on a drive "
                                 "(distributed.offload_optimizer)\n"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_save_has_the_bits_that_it_has_if_the_run_waits),
        cmocka_unit_test(what_a_device_copies_is_there_before_the_next_update),
        cmocka_unit_test(
            memory_that_cannot_be_locked_and_the_wait_for_it_are_told),
        cmocka_unit_test(it_is_published_after_a_later_step_with_a_finite_loss),
        cmocka_unit_test(one_that_is_waited_for_is_published_and_unproven),
        cmocka_unit_test(one_that_is_not_waited_for_leaves_nothing),
        cmocka_unit_test(
            one_that_is_due_meanwhile_is_left_out_unless_it_is_kept),
        cmocka_unit_test(a_call_that_fails_costs_one_save_and_one_warning),
        cmocka_unit_test(no_call_that_does_not_return_stops_the_steps),
        cmocka_unit_test(a_disk_that_does_not_answer_is_named_at_the_end),
#ifdef HAVE_GLOO
        cmocka_unit_test(files_that_rank_0_does_not_see_fail_the_save),
#endif
        cmocka_unit_test(
            optimizer_state_on_a_drive_is_waited_for_and_that_is_said),
        cmocka_unit_test(it_rides_on_the_sum_of_a_step_and_leaves_stops_alone),
    };
    return cmocka_run_group_tests_name("flight", tests, small_enter,
                                       small_leave);
}
