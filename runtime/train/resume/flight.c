/* SPDX-License-Identifier: Apache-2.0 */
/*
 * flight.c - saves that the run does not wait for
 *
 * At the end of a step each rank copies the files that it writes into memory,
 * and a thread of it writes them while steps go on. What is on a device is
 * copied meanwhile, too, and the next update waits for it. Whether that is done
 * rides on a sum that each step makes anyway, so the ranks learn of it
 * together, at the same step. Then the sums go to rank 0, whose thread commits
 * the checkpoint, but not before a later step had a finite loss: each
 * checkpoint that is published is known to be good. The ranks learn of its end
 * in the same way.
 *
 * Fault points: save.staged, save.commit.
 */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/file.h"
#include "base/log.h"
#include "base/thread.h"
#include "device/locker.h"
#include "run/dir/dir.h"
#include "train/resume/resume_impl.h"

struct dt_flight {
    struct dt_run *run;
    struct dt_buffer *memory; /* locked by the locker */
    struct dt_locker *locker;
    struct dt_stream *stream;         /* of copies */
    struct dt_event *copied, *staged; /* in it; in the run's: all are there */
    bool open;                        /* they are on their way */
    struct dt_ckpt_stage *stage;
    struct dt_ckpt_writer *writer; /* NULL: nothing is in flight */
    bool commits;                  /* all files are written */
    long since;       /* steps later than this one say whether it is done */
    bool heard;       /* it is, on all ranks */
    double wait, end; /* seconds that the run waited, and the time of an end */
    bool unlocked;    /* memory could not be locked, and that was said */
    double begun, longest;
    long skipped;      /* saves */
    atomic_bool ended; /* so has the run: nothing more is published */

    pthread_mutex_t uses; /* the thread has it while it uses the run */

    /* The thread owns the following until `done`. */
    pthread_t thread;
    bool runs; /* the thread is to be joined */
    atomic_bool done;
    char *sums;   /* of ranks > 0, on rank 0 */
    bool good;    /* a later loss was finite */
    size_t bytes; /* of the whole checkpoint */
    long may_go;  /* the newest checkpoint if older ones may be removed, or 0 */
    int result;
    bool full;    /* so was the disk, as `space` says */
    bool missing; /* so was the run's directory, as `removed` says */
    struct dt_error why, space, removed;
};

/* Ranks that are done, in the sum of DT_STEP_STOP: beyond the ranks that were
 * told to stop.
 */
static const double done_unit = 1 << 20;

/* --- the thread --- */

/* Lets those go first who compute. It takes a tenth of a CPU that is busy: with
 * less, a write would last longer than most intervals between saves.
 */
static void give_way(void)
{
    enum { NICE = 10 };
    const struct sched_param none = {0};
    sched_setscheduler(0, SCHED_BATCH, &none);
    setpriority(PRIO_PROCESS, (id_t)gettid(), NICE);
}

/* Syncs metrics.jsonl, whose lines end where the checkpoint does, by its name:
 * the report may be closed meanwhile.
 */
static void sync_metrics(const struct dt_conf *conf)
{
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/metrics.jsonl", conf->logging.dir);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    fsync(fd);
    close(fd);
}

/* Whether the run lasts, which then waits for release_run before it ends. */
static bool hold_run(struct dt_flight *flight)
{
    pthread_mutex_lock(&flight->uses);
    if (!atomic_load(&flight->ended))
        return true;
    pthread_mutex_unlock(&flight->uses);
    dt_error_set(&flight->why, EX_CANTCREAT, "the run has ended");
    return false;
}

static void release_run(struct dt_flight *flight)
{
    pthread_mutex_unlock(&flight->uses);
}

/* On rank 0, before anything is written. -1: the directory belongs to another
 * run.
 */
static int look_ahead(struct dt_flight *flight)
{
    struct dt_run *run = flight->run;
    const int found =
        dt_run_look_at_output(run, &flight->removed, &flight->why);
    if (found < 0)
        return -1;
    flight->missing = found > 0;
    sync_metrics(&run->spec.conf);
    flight->full =
        dt_save_look_ahead(run, flight->bytes, flight->may_go, &flight->space);
    return 0;
}

static int write_files(struct dt_flight *flight)
{
    if (!hold_run(flight))
        return -1;
    const int rc = flight->run->spec.rank == 0 ? look_ahead(flight) : 0;
    release_run(flight);
    return rc < 0 ? -1 : dt_ckpt_write(flight->writer, &flight->why);
}

static int publish(struct dt_flight *flight, struct dt_ckpt_writer *writer)
{
    struct dt_run *run = flight->run;
    if (!dt_run_holds_output(run)) {
        dt_ckpt_abandon(writer);
        return dt_error_set(&flight->why, EX_CANTCREAT,
                            "%s: may belong to another run meanwhile",
                            run->spec.conf.run.output_dir);
    }
    const int rc = dt_save_commit(run, writer, &flight->why);
    if (rc == 0 && flight->good)
        dt_run_prune(run, run->saves.flight, 0);
    return rc;
}

/* On rank 0, which lets go of the writer. */
static int commit(struct dt_flight *flight)
{
    struct dt_ckpt_writer *writer = flight->writer;
    struct dt_error *why = &flight->why;
    flight->writer = NULL;
    if (dt_fault("save.commit"))
        dt_error_set(why, EX_IOERR, "failed on purpose");
    else if (dt_ckpt_merge(writer, flight->sums, why) == 0 &&
             hold_run(flight)) {
        const int rc = publish(flight, writer);
        release_run(flight);
        return rc;
    }
    dt_ckpt_abandon(writer);
    return -1;
}

static void *work(void *arg)
{
    struct dt_flight *flight = arg;
    give_way();
    flight->result = flight->commits ? commit(flight) : write_files(flight);
    flight->end = dt_clock_now();
    atomic_store(&flight->done, true);
    return NULL;
}

/* Nothing that ranks have told so far says that it is done. */
static void expect(struct dt_flight *flight)
{
    flight->heard = false;
    flight->since = flight->run->queued;
    flight->result = 0;
    atomic_store(&flight->done, false);
}

/* Starts the thread, or says why not as if it had failed. */
static void start(struct dt_flight *flight)
{
    int bad = dt_thread_start(&flight->thread, "save", work, flight);
    flight->runs = bad == 0;
    if (bad == 0)
        return;
    flight->result = dt_error_set(&flight->why, EX_OSERR,
                                  "no thread to write it: %s", strerror(bad));
    atomic_store(&flight->done, true);
}

/* Waits until the thread has ended. -1: EX_IOERR, it does not within the
 * deadline of the run.
 */
static int join(struct dt_flight *flight, struct dt_error *err)
{
    const struct dt_run *run = flight->run;
    const int timeout = dt_run_timeout_ms(run) / 1000 + 1;
    struct timespec end;
    if (!flight->runs)
        return 0;
    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_sec += timeout;
    if (pthread_clockjoin_np(flight->thread, NULL, CLOCK_MONOTONIC, &end) != 0)
        return dt_error_set(err, EX_IOERR,
                            "%s: writing the checkpoint of step %ld has not "
                            "ended within %d s (distributed.timeout_s): does "
                            "its disk answer?",
                            run->spec.ckpt_root, run->saves.flight, timeout);
    flight->runs = false;
    return 0;
}

/* --- its steps, on all ranks --- */

/* Marks where the copies that are queued end. -1: the device failed. */
static int mark_copies(struct dt_flight *flight, struct dt_error *err)
{
    const struct dt_exec *exec = &flight->run->spec.exec;
    return exec->device->event_record(flight->copied, flight->stream, err) <
                       0 ||
                   exec->device->event_record(flight->staged, exec->stream,
                                              err) < 0
               ? -1
               : 0;
}

/* Takes the copy. 0; 1: it cannot be written, as flight->why says. -1: the
 * device or a peer failed.
 */
static int take_copy(struct dt_flight *flight, struct dt_error *err)
{
    struct dt_run *run = flight->run;
    const struct dt_spec *spec = &run->spec;
    bool lost = false;
    double nonce = -1;
    if (spec->rank == 0)
        flight->writer = dt_ckpt_stage_begin(flight->stage, spec->ckpt_root,
                                             run->saves.flight, &flight->why);
    if (flight->writer)
        nonce = dt_ckpt_nonce(flight->writer);
    if (spec->world > 1 &&
        dt_comm_reduce_scalars(run->comm, &nonce, 1, DT_MAX, err) < 0)
        return -1;
    if (nonce >= 0 && spec->rank > 0)
        flight->writer = dt_ckpt_stage_join(flight->stage, spec->ckpt_root,
                                            run->saves.flight, spec->rank,
                                            (uint32_t)nonce, &flight->why);
    int failed = dt_save_any_failed(run, !flight->writer, &flight->why, err);
    if (failed != 0)
        return failed;
    failed = dt_run_add_files(run, flight->writer, flight->stream, &lost,
                              &flight->why) < 0;
    if (!failed && dt_fault("save.staged"))
        failed = dt_error_set(&flight->why, EX_IOERR, "failed on purpose") < 0;
    if (lost) {
        *err = flight->why;
        return -1;
    }
    if (mark_copies(flight, err) < 0)
        return -1;
    return dt_save_any_failed(run, failed, &flight->why, err);
}

/* Waits for the copies. -1: the device or a peer failed. */
static int wait_copies(struct dt_flight *flight, struct dt_error *err)
{
    struct dt_run *run = flight->run;
    const struct dt_device *device = run->spec.exec.device;
    return dt_comm_wait_event(run->comm, device, flight->copied, err) < 0 ||
                   dt_comm_wait_event(run->comm, device, flight->staged, err) <
                       0
               ? -1
               : 0;
}

/* Ends the flight: the save has failed on this rank or another one, or all has
 * been done. -1: as dt_save_conclude.
 */
static int land(struct dt_flight *flight, bool failed, struct dt_error *err)
{
    struct dt_run *run = flight->run;
    const struct dt_save_end end = {
        .step = run->saves.flight,
        .failed = failed,
        .good = flight->good || !flight->commits, /* nobody can see it */
        .seconds = flight->wait,
        .took = flight->end - flight->begun,
    };
    dt_ckpt_abandon(flight->writer);
    flight->writer = NULL;
    flight->commits = false;
    run->saves.flight = 0;
    free(flight->sums);
    flight->sums = NULL;
    if (end.failed)
        dt_save_tell_failure(run, &flight->why);
    return dt_save_conclude(run, &end, &flight->why, err);
}

/* Says once that the run waits for copies, which it has no locked memory for.
 */
static void check_memory(struct dt_flight *flight)
{
    struct dt_error why;
    if (!flight->locker || flight->unlocked ||
        dt_locker_done(flight->locker, false, &why) >= 0)
        return;
    flight->unlocked = true;
    dt_log(DT_LOG_WARN, "algo",
           "the run waits while a save is copied to host memory: cannot lock "
           "memory: %s",
           why.text);
}

static int take_off(struct dt_flight *flight, struct dt_error *err)
{
    const double begin = dt_clock_now();
    struct dt_run *run = flight->run;
    check_memory(flight);
    run->saves.flight = run->progress.step;
    flight->begun = begin;
    flight->why = (struct dt_error){0};
    flight->bytes = dt_run_checkpoint_bytes(run);
    flight->may_go = dt_save_may_go(run);
    flight->good = false;
    int failed = take_copy(flight, err);
    if (failed == 0) {
        /* a later finite loss clears it */
        run->saves.maybe = run->saves.flight;
        flight->open = true;
        expect(flight);
    } else if (failed > 0 && wait_copies(flight, err) < 0) {
        failed = -1;
    }
    flight->wait = dt_clock_now() - begin;
    if (failed > 0)
        return land(flight, true, err);
    return failed == 0 && run->spec.exec.device->is_host
               ? dt_flight_settle(run, err)
               : failed;
}

/* All files are written, or one could not be. */
static int begin_commit(struct dt_flight *flight, struct dt_error *err)
{
    struct dt_run *run = flight->run;
    int failed = dt_save_any_failed(run, flight->result < 0, &flight->why, err);
    if (failed != 0)
        return failed < 0 ? -1 : land(flight, true, err);
    if (!(flight->sums = dt_save_gather_sums(run, flight->writer, err)))
        return -1;
    flight->commits = true;
    flight->good = run->saves.maybe == 0;
    expect(flight);
    if (run->spec.rank == 0)
        start(flight);
    else
        atomic_store(&flight->done, true);
    return 0;
}

/* Takes the next step of a flight whose threads are done. */
static int advance(struct dt_flight *flight, struct dt_error *err)
{
    struct dt_run *run = flight->run;
    if (dt_flight_settle(run, err) < 0)
        return -1;
    const double begin = dt_clock_now();
    if (join(flight, err) < 0)
        return -1;
    dt_save_tell_full(run, flight->full, &flight->space);
    if (flight->missing)
        dt_run_warn(run, "%s", flight->removed.text);
    flight->missing = false;
    flight->longest = fmax(flight->longest, flight->end - flight->begun);
    if (flight->commits)
        return land(flight, flight->result < 0, err);
    int rc = begin_commit(flight, err);
    flight->wait += dt_clock_now() - begin;
    return rc;
}

/* --- after a start that goes on from memory --- */

/* Says that the save of this step is lost, and whether a checkpoint will be
 * missing that the user has asked for.
 */
static void tell_lost(const struct dt_run *run, long step)
{
    const long again = run->saves.retry;
    char missing[128] = "";
    if (again != step && dt_save_is_kept(run, step))
        snprintf(missing, sizeof(missing),
                 "; checkpoint-%ld, which checkpoint.keep_every asks for, will "
                 "be missing",
                 step);
    dt_run_warn(run,
                "the save of step %ld was lost with the processes that wrote "
                "it; the run is saved again after step %ld%s",
                step, again, missing);
}

/* On rank 0: whether the checkpoint of this step is what the processes before
 * saved last. One that this run goes back behind, or another run's, may have
 * the same step.
 */
static bool was_published(const struct dt_run *run, long step)
{
    const struct dt_spec *spec = &run->spec;
    char path[PATH_MAX + 32], latest[PATH_MAX + 32];
    enum dt_hold hold;
    snprintf(path, sizeof(path), "%s/checkpoint-%ld", spec->ckpt_root, step);
    snprintf(latest, sizeof(latest), "%s/latest", spec->ckpt_root);
    return dt_hold_find(spec->conf.run.output_dir, &hold, NULL) == 0 &&
           hold == DT_HOLD_ALL && dt_file_is_same(latest, path);
}

int dt_flight_recover(struct dt_run *run, struct dt_error *err)
{
    const long step = run->saves.flight;
    double published = 0;
    if (step == 0)
        return 0;
    if (run->spec.rank == 0)
        published = was_published(run, step);
    if (run->spec.world > 1 &&
        dt_comm_reduce_scalars(run->comm, &published, 1, DT_MAX, err) < 0)
        return -1;
    run->saves.flight = 0;
    if (published > 0) {
        const struct dt_save_end end = {
            .step = step, .seconds = NAN, .took = run->saves.seconds};
        return dt_save_conclude(run, &end, NULL, err);
    }
    run->saves.retry = run->queued;
    tell_lost(run, step);
    return 0;
}

/* --- from outside --- */

int dt_flight_init(struct dt_run *run, size_t bytes, struct dt_error *err)
{
    const struct dt_device *device = run->spec.exec.device;
    struct dt_flight *flight = calloc(1, sizeof(*flight));
    if (!flight)
        return dt_error_set(err, EX_OSERR, "out of memory");
    run->flight = flight;
    flight->run = run;
    pthread_mutex_init(&flight->uses, NULL);
    flight->memory = dt_buffer_create(&dt_cpu, bytes > 0 ? bytes : 1,
                                      "checkpoints to be written", err);
    if (!flight->memory ||
        !(flight->stage =
              dt_ckpt_stage_create(flight->memory->data, bytes, err)) ||
        (!device->is_host &&
         !(flight->locker = dt_locker_open(device, &flight->memory, 1, err))))
        return -1;
    return device->copy_stream_create(&flight->stream, err) < 0 ||
                   device->event_create(&flight->copied, err) < 0 ||
                   device->event_create(&flight->staged, err) < 0
               ? -1
               : 0;
}

void dt_flight_fini(struct dt_run *run)
{
    struct dt_flight *flight = run->flight;
    const struct dt_device *device = run->spec.exec.device;
    struct dt_error late;
    if (!flight)
        return;
    const bool quiet = dt_flight_stop(run);
    run->flight = NULL;
    if (!quiet || join(flight, &late) < 0)
        return; /* the thread has it */
    if (flight->stream)
        device->stream_wait(flight->stream, &late);
    dt_locker_close(flight->locker);
    device->event_destroy(flight->copied);
    device->event_destroy(flight->staged);
    device->stream_destroy(flight->stream);
    dt_ckpt_abandon(flight->writer);
    dt_ckpt_stage_destroy(flight->stage);
    dt_buffer_destroy(flight->memory);
    pthread_mutex_destroy(&flight->uses);
    free(flight->sums);
    free(flight);
}

bool dt_flight_stop(struct dt_run *run)
{
    enum { PUBLISHED_MS = 10000 };
    struct dt_flight *flight = run->flight;
    const int timeout = dt_run_timeout_ms(run);
    if (!flight)
        return true;
    atomic_store(&flight->ended, true);
    const struct timespec end = dt_clock_in(
        CLOCK_MONOTONIC, timeout < PUBLISHED_MS ? timeout : PUBLISHED_MS);
    if (pthread_mutex_clocklock(&flight->uses, CLOCK_MONOTONIC, &end) != 0)
        return false;
    pthread_mutex_unlock(&flight->uses);
    return true;
}

int dt_flight_settle(struct dt_run *run, struct dt_error *err)
{
    struct dt_flight *flight = run->flight;
    if (!flight || !flight->open)
        return 0;
    const double begin = dt_clock_now();
    if (wait_copies(flight, err) < 0)
        return -1;
    flight->wait += dt_clock_now() - begin;
    flight->open = false;
    start(flight);
    return 0;
}

int dt_flight_begin(struct dt_run *run, struct dt_error *err)
{
    return take_off(run->flight, err);
}

void dt_flight_skip(struct dt_run *run)
{
    run->flight->skipped++;
}

double dt_flight_tell(const struct dt_run *run)
{
    struct dt_flight *flight = run->flight;
    const bool flies = flight && run->saves.flight > 0;
    return flies && atomic_load(&flight->done) ? done_unit : 0;
}

double dt_flight_hear(struct dt_run *run, double sum)
{
    struct dt_flight *flight = run->flight;
    const double done = floor(sum / done_unit);
    if (flight && run->progress.step > flight->since && done >= run->spec.world)
        flight->heard = true;
    return sum - done * done_unit;
}

bool dt_flight_ready(const struct dt_run *run)
{
    const struct dt_flight *flight = run->flight;
    return flight && run->saves.flight > 0 && flight->heard &&
           (flight->commits || run->saves.maybe == 0);
}

int dt_flight_advance(struct dt_run *run, struct dt_error *err)
{
    return advance(run->flight, err);
}

int dt_run_save_finish(struct dt_run *run, struct dt_error *err)
{
    while (run->saves.flight > 0)
        if (advance(run->flight, err) < 0)
            return -1;
    return 0;
}

void dt_flight_report(const struct dt_run *run)
{
    const struct dt_flight *flight = run->flight;
    if (flight && flight->skipped > 0 && run->report)
        dt_report_note(run->report,
                       "%ld save%s left out, each while the one before was "
                       "written, which took up to %.1f s; checkpoint.steps: "
                       "%ld is less than that",
                       flight->skipped, flight->skipped > 1 ? "s were" : " was",
                       flight->longest, run->spec.conf.checkpoint.steps);
}
