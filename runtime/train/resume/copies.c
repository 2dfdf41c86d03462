/* SPDX-License-Identifier: Apache-2.0 */
/*
 * copies.c - makes copies of a run in host memory
 *
 * Fault points: copy.begin, where the older one is dropped; copy.part
 * (host_copy.h); copy.made, where all of it is on its way; copy.whole, before
 * it is marked so; copy.end; copy.forget, where copies are marked as wrong.
 */
#include "config.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/inherited.h"
#include "base/log.h"
#include "device/locker.h"
#include "parallel/host_copy.h"
#include "run/reference/reference.h"
#include "train/resume/copies_impl.h"

enum { AT_ONCE = 1 << 30 }; /* bytes that are ready within a second */

/* A copy costs at most one hundredth of the time until the next one begins. It
 * also makes the host wait for the device once, for some milliseconds.
 */
static const double SHARE = 100, LEAST_S = 1;

#define NO_COPIES                                                              \
    "no copy of the run is kept in host memory, and a lost rank costs the "    \
    "steps since the last checkpoint: "

/* --- memory --- */

bool dt_copies_wanted(const struct dt_run *run,
                      const struct dt_parallel_options *options)
{
    const struct dt_spec *spec = &run->spec;
    struct dt_inherited inherited;
    if (run->state || spec->conf.training.eval_only ||
        !dt_inherited_find(&inherited) || inherited.state < 0)
        return false;
    if (options->offload.state != DT_TIER_FILE)
        return true;
    if (spec->conf.training.restarted)
        dt_log(spec->rank == 0 ? DT_LOG_NEWS : DT_LOG_DEBUG, "algo",
               "the run cannot continue where it was: offloaded state is lost "
               "with a process");
    return false;
}

/* Adds a model of the run, if it has this one. -1: EX_OSERR. */
static int add_model(struct dt_copies *copies, const char *name,
                     struct dt_parallel *parallel, struct dt_error *err)
{
    if (!parallel)
        return 0;
    struct dt_copied *model = &copies->models[copies->model_count++];
    *model = (struct dt_copied){.name = name, .parallel = parallel};
    model->sources =
        calloc(dt_host_copy_parts(parallel), sizeof(*model->sources));
    return model->sources ? 0 : dt_error_set(err, EX_OSERR, "out of memory");
}

static int add_models(struct dt_run *run, struct dt_error *err)
{
    struct dt_copies *copies = run->copies;
    struct dt_parallel *follows =
        dt_run_reference_follows(run) ? run->reference.parallel : NULL;
    return add_model(copies, "model", run->learner.parallel, err) < 0 ||
                   add_model(copies, "critic", run->critic.parallel, err) < 0
               ? -1
               : add_model(copies, "reference", follows, err);
}

/* Allocates copy i of a model, whose pages the locker gets. */
static int allocate_model(struct dt_run *run, struct dt_copied *model, size_t i,
                          struct dt_error *err)
{
    char name[48];
    snprintf(name, sizeof(name), "copy %zu of the %s", i, model->name);
    model->at[i] = dt_segment_room(run->copies->segment, name,
                                   dt_host_copy_bytes(model->parallel), err);
    return model->at[i] ? 0 : -1;
}

static int allocate_copy(struct dt_run *run, size_t i, struct dt_error *err)
{
    static const char *const names[DT_COPIES] = {"copy 0 of a generation",
                                                 "copy 1 of a generation"};
    struct dt_copies *copies = run->copies;
    const size_t bytes = dt_samples_bytes(&run->spec);
    for (size_t m = 0; m < copies->model_count; m++)
        if (allocate_model(run, &copies->models[m], i, err) < 0)
            return -1;
    if (bytes > 0 && !(copies->samples[i] = dt_segment_room(
                           copies->segment, names[i], bytes, err)))
        return -1;
    return 0;
}

/* Gets the memory of all copies ready, at once where that takes no second. */
static int lock(struct dt_run *run, struct dt_error *err)
{
    struct dt_copies *copies = run->copies;
    struct dt_buffer *all[DT_COPIES * DT_COPIED_MODELS];
    size_t count = 0, bytes = 0;
    for (size_t m = 0; m < copies->model_count; m++)
        for (size_t i = 0; i < DT_COPIES; i++) {
            all[count] = copies->models[m].at[i];
            bytes += all[count++]->bytes;
        }
    copies->locker = dt_locker_open(run->spec.exec.device, all, count, err);
    if (!copies->locker)
        return -1;
    return dt_locker_done(copies->locker, bytes <= AT_ONCE, err) < 0
               ? dt_error_prefix(err, "cannot lock memory")
               : 0;
}

static int allocate(struct dt_run *run, int fd,
                    const struct dt_parallel_options *options,
                    struct dt_error *err)
{
    const struct dt_device *device = run->spec.exec.device;
    struct dt_copies *copies = run->copies;
    uint64_t hash = 0;
    if (add_models(run, err) < 0 ||
        dt_settled_hash(run, options, sizeof(struct dt_copies_record), &hash,
                        err) < 0 ||
        !(copies->segment = dt_segment_open(fd, hash, err)) ||
        !(copies->buf =
              dt_segment_buffer(copies->segment, "record of copies",
                                sizeof(struct dt_copies_record), err)))
        return -1;
    copies->record = copies->buf->data;
    for (size_t i = 0; i < DT_COPIES; i++)
        if (allocate_copy(run, i, err) < 0)
            return -1;
    if (lock(run, err) < 0)
        return -1;
    return device->copy_stream_create(&copies->stream, err) < 0 ||
                   device->event_create(&copies->copied, err) < 0 ||
                   device->event_create(&copies->staged, err) < 0
               ? -1
               : 0;
}

/* Whether memory is ready. Says it once if it will never be. */
static bool is_ready(struct dt_copies *copies)
{
    struct dt_error err;
    const int done = dt_locker_done(copies->locker, false, &err);
    if (done < 0 && !copies->failed)
        dt_log(DT_LOG_WARN, "algo", NO_COPIES "cannot lock memory: %s",
               err.text);
    copies->failed = done < 0;
    return done > 0;
}

int dt_copies_drop(struct dt_error *err)
{
    struct dt_inherited inherited;
    return !dt_inherited_find(&inherited) || inherited.state < 0 ||
                   ftruncate(inherited.state, 0) == 0
               ? 0
               : dt_error_set(err, EX_OSERR, "segment: ftruncate: %s",
                              strerror(errno));
}

/* Lets go of all of them, on all ranks, as one of them has no memory. */
static int do_without(struct dt_run *run, const struct dt_error *why,
                      struct dt_error *err)
{
    dt_copies_close(run);
    if (dt_copies_drop(err) < 0)
        return -1;
    if (run->spec.rank == 0 || why->text[0])
        dt_log(DT_LOG_WARN, "algo", NO_COPIES "%s",
               why->text[0] ? why->text : "another rank cannot, as it says");
    return 0;
}

int dt_copies_open(struct dt_run *run,
                   const struct dt_parallel_options *options,
                   struct dt_error *err)
{
    struct dt_inherited inherited;
    struct dt_error why = {0};
    dt_inherited_find(&inherited);
    if (!(run->copies = calloc(1, sizeof(*run->copies))))
        return dt_error_set(err, EX_OSERR, "out of memory");
    const bool failed = allocate(run, inherited.state, options, &why) < 0;
    double lacks[] = {failed, failed || !is_ready(run->copies)};
    if (run->spec.world > 1 &&
        dt_comm_reduce_scalars(run->comm, lacks, 2, DT_MAX, err) < 0)
        return -1;
    run->copies->at_once = lacks[1] == 0;
    return lacks[0] > 0 ? do_without(run, &why, err) : 0;
}

void dt_copies_close(struct dt_run *run)
{
    struct dt_copies *copies = run->copies;
    const struct dt_device *device = run->spec.exec.device;
    struct dt_error late;
    if (!copies)
        return;
    if (copies->stream)
        device->stream_wait(copies->stream, &late);
    dt_locker_close(copies->locker);
    for (size_t i = 0; i < DT_COPIES; i++) {
        for (size_t m = 0; m < copies->model_count; m++)
            dt_buffer_destroy(copies->models[m].at[i]);
        dt_buffer_destroy(copies->samples[i]);
    }
    for (size_t m = 0; m < copies->model_count; m++)
        free(copies->models[m].sources);
    device->event_destroy(copies->copied);
    device->event_destroy(copies->staged);
    device->stream_destroy(copies->stream);
    dt_buffer_destroy(copies->buf);
    dt_segment_close(copies->segment);
    free(copies);
    run->copies = NULL;
}

/* --- making them --- */

static int take_models(struct dt_run *run, size_t i, struct dt_error *err)
{
    struct dt_copies *copies = run->copies;
    for (size_t m = 0; m < copies->model_count; m++) {
        const struct dt_copied *model = &copies->models[m];
        if (dt_host_copy_take(model->parallel, copies->stream,
                              model->at[i]->data, err) < 0)
            return -1;
    }
    return 0;
}

/* Begins a copy, in the place of the older one. */
static int begin(struct dt_run *run, struct dt_error *err)
{
    const struct dt_exec *exec = &run->spec.exec;
    struct dt_copies *copies = run->copies;
    const size_t i = (copies->last + 1) % DT_COPIES;
    if (dt_run_wait(run, err) < 0)
        return -1;
    copies->begun = dt_clock_now();
    dt_settled_begin(&copies->record->copies[i].mark);
    dt_fault("copy.begin");
    dt_settled_note(run, &copies->record->copies[i].run);
    if (copies->samples[i])
        dt_samples_copy(run, copies->samples[i]);
    if (take_models(run, i, err) < 0 ||
        exec->device->event_record(copies->copied, copies->stream, err) < 0 ||
        exec->device->event_record(copies->staged, exec->stream, err) < 0)
        return -1;
    copies->last = i;
    copies->open = true;
    dt_fault("copy.made");
    return 0;
}

int dt_copies_end(struct dt_run *run, struct dt_error *err)
{
    struct dt_copies *copies = run->copies;
    const struct dt_device *device = run->spec.exec.device;
    if (!copies || !copies->open)
        return 0;
    if (dt_comm_wait_event(run->comm, device, copies->copied, err) < 0 ||
        dt_comm_wait_event(run->comm, device, copies->staged, err) < 0)
        return -1;
    copies->open = false;
    dt_fault("copy.whole");
    const long step = copies->record->copies[copies->last].run.progress.step;
    dt_settled_end(&copies->record->copies[copies->last].mark,
                   (uint64_t)step + 1);
    dt_fault("copy.end");
    return 0;
}

/* Seconds from the beginning of a copy to that of the next one. */
static double pause_of(const struct dt_copies *copies)
{
    return fmax(SHARE * copies->record->seconds, LEAST_S);
}

/* The models of which no other node has what is lost with one; "": none. */
static void list_lone(const struct dt_run *run, char *names, size_t bytes)
{
    const struct dt_copies *copies = run->copies;
    const struct dt_nodes *nodes = &run->spec.nodes;
    size_t used = 0;
    names[0] = '\0';
    for (size_t m = 0; m < copies->model_count && nodes->count > 1; m++) {
        const struct dt_copied *model = &copies->models[m];
        if (dt_host_copy_parts(model->parallel) > (size_t)nodes->least)
            used += (size_t)snprintf(names + used, bytes - used, "%s%s",
                                     used ? ", " : "", model->name);
    }
}

static void tell_user(const struct dt_run *run)
{
    char lone[64], of_node[192] = "";
    const struct dt_copies *copies = run->copies;
    size_t bytes = 0;
    for (size_t i = 0; i < DT_COPIES; i++) {
        for (size_t m = 0; m < copies->model_count; m++)
            bytes += copies->models[m].at[i]->bytes;
        bytes += copies->samples[i] ? copies->samples[i]->bytes : 0;
    }
    list_lone(run, lone, sizeof(lone));
    if (lone[0])
        snprintf(of_node, sizeof(of_node),
                 ", and a lost node those since the last checkpoint, as no "
                 "other node has its part of the %s",
                 lone);
    dt_log(run->spec.rank == 0 ? DT_LOG_INFO : DT_LOG_DEBUG, "algo",
           "a lost rank%s costs the steps of the last %.0f s%s: copies of the "
           "run take %.1f MB of host memory a rank",
           run->spec.nodes.count > 1 && !lone[0] ? " or node" : "",
           ceil(pause_of(copies)), of_node, (double)bytes / 1e6);
}

/* Makes the first copy, and measures how long that takes. -1: the device or a
 * peer failed.
 */
static int measure(struct dt_run *run, struct dt_error *err)
{
    struct dt_copies *copies = run->copies;
    if (begin(run, err) < 0 || dt_copies_end(run, err) < 0)
        return -1;
    double seconds = dt_clock_now() - copies->begun;
    if (run->spec.world > 1 &&
        dt_comm_reduce_scalars(run->comm, &seconds, 1, DT_MAX, err) < 0)
        return -1;
    copies->record->seconds = seconds;
    tell_user(run);
    return 0;
}

int dt_copies_measure(struct dt_run *run, struct dt_error *err)
{
    return run->copies && run->copies->at_once ? measure(run, err) : 0;
}

/* --- when --- */

/* More than all ranks add for a save, and little more: the sum has a fraction
 * of 11 bits, too, for which a double has room up to 2,047 ranks.
 */
double dt_copies_vote(int world)
{
    return (double)(1 << 20) * (world + 1);
}

double dt_copies_tell(const struct dt_run *run)
{
    struct dt_copies *copies = run->copies;
    if (!copies || !is_ready(copies))
        return 0;
    const bool due = run->spec.rank > 0 || copies->record->seconds == 0 ||
                     dt_clock_now() >= copies->begun + pause_of(copies);
    return due ? dt_copies_vote(run->spec.world) : 0;
}

double dt_copies_hear(struct dt_run *run, double sum)
{
    struct dt_copies *copies = run->copies;
    if (!copies)
        return sum;
    const double vote = dt_copies_vote(run->spec.world);
    const double votes = floor(sum / vote);
    if (votes == run->spec.world)
        copies->asked = true;
    return sum - votes * vote;
}

bool dt_copies_due(const struct dt_run *run)
{
    return run->copies && run->copies->asked && run->queued < run->total_steps;
}

/* After a step without a finite loss or gradient nobody would go on. */
int dt_copies_make(struct dt_run *run, struct dt_error *err)
{
    if (!dt_copies_due(run))
        return 0;
    run->copies->asked = false;
    if (run->health != DT_WELL)
        return 0;
    return run->copies->record->seconds > 0 ? begin(run, err)
                                            : measure(run, err);
}

void dt_copies_forget(struct dt_run *run)
{
    if (!run->copies)
        return;
    run->copies->record->wrong = 1;
    dt_fault("copy.forget");
}

void dt_copies_saved(struct dt_run *run, long step)
{
    if (run->copies)
        run->copies->record->saved = (uint64_t)step;
}
