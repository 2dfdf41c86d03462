/* SPDX-License-Identifier: Apache-2.0 */
/* setup.c - creates everything a run needs, in an order that fails early */
#include "config.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "algo/algo.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"
#include "plan/plan.h"
#include "plan/reward_models.h"
#include "plan/predict.h"
#include "plan/strategy.h"
#include "run/composed.h"
#include "run/dir/dir.h"
#include "run/dir/owner.h"
#include "run/numerics.h"
#include "run/exchange.h"
#include "run/reference/reference.h"
#include "run/sharing.h"
#include "sampling/sampling.h"
#include "segment/board.h"
#include "train/resume/copies.h"
#include "train/resume/resume.h"
#include "train/resume/run_state.h"
#include "train/train.h"
#include "train/watch/watch.h"

/* Sets the ids that end a document, for the config.json of a model that was
 * described by keys.
 */
static void choose_eos(struct dt_run *run)
{
    struct dt_model_config *config = &run->spec.learner.config;
    int32_t eos = config->vocab_size == DT_BYTE_VOCAB ? DT_BYTE_EOT : -1;
    if (run->data.tokenizer)
        eos = dt_tokenizer_special(run->data.tokenizer, DT_TOKEN_EOS);
    if (config->text || eos < 0)
        return;
    config->eos[0] = config->bos = eos;
    config->eos_count = 1;
}

/* --- memory --- */

static int allocate_run(struct dt_run *run,
                        const struct dt_model_options *options,
                        struct dt_error *err)
{
    const struct dt_spec *spec = &run->spec;
    const struct dt_conf *conf = &spec->conf;
    const struct dt_optim_options optim = {
        .beta1 = conf->optimizer.beta1,
        .beta2 = conf->optimizer.beta2,
        .eps = conf->optimizer.eps,
        .weight_decay = conf->optimizer.weight_decay,
        .seed = conf->run.seed,
        .coupled = conf->optimizer.name == DT_CONF_ADAM,
        .decay_filter = conf->optimizer.decay_filter,
    };
    struct dt_parallel_options parallel =
        dt_spec_parallel_options(spec, options->compute);
    const char *emulated = spec->exec.ops->emulation(options->compute);
    if (emulated)
        dt_log(spec->rank == 0 ? DT_LOG_WARN : DT_LOG_DEBUG, "algo", "%s",
               emulated);
    dt_spec_offload_note(spec, &parallel);
    struct dt_model_options model = *options;
    dt_live_phase(run->live, DT_ACCOUNT_STARTUP, "allocating memory");
    if (dt_state_open(run, &parallel, err) < 0 ||
        dt_run_samples_memory(run, &model, err) < 0 ||
        dt_learner_init(&run->learner, &spec->learner, &spec->exec, run->comm,
                        &model, &parallel, &optim, err) < 0 ||
        dt_run_critic_init(run, &model, &parallel, &optim, err) < 0)
        return -1;
    if (spec->conf.dpo.reference.mode != DT_CONF_REFERENCE_LIVE)
        return 0;
    return dt_run_reference_init(run, parallel.segment, err) < 0
               ? -1
               : dt_run_reference_room(run, parallel.segment, err);
}

/* Says why saves are waited for, if the configuration would have it otherwise.
 */
static void note_drive(const struct dt_spec *spec, enum dt_dtype compute)
{
    const bool asked = spec->conf.checkpoint.async == DT_CONF_ASYNC_ON;
    if (spec->rank == 0 && dt_plan_drive_holds_up(spec, compute))
        dt_log(asked ? DT_LOG_WARN : DT_LOG_INFO, "algo",
               "the run waits for its saves: no copy is taken of optimizer "
               "state on a drive (distributed.offload_optimizer)");
}

/* The most bytes that a rank lacks of `bytes` more of host memory than the run
 * takes. -1: a peer failed.
 */
static double most_lacking(struct dt_run *run,
                           const struct dt_model_options *options,
                           const struct dt_ballot *ballot, size_t bytes,
                           struct dt_error *err)
{
    const size_t spare =
        dt_plan_spare(&run->spec, options, ballot->left, ballot->local_size);
    double lacks = bytes > spare ? (double)(bytes - spare) : 0;
    if (run->spec.world > 1 &&
        dt_comm_reduce_scalars(run->comm, &lacks, 1, DT_MAX, err) < 0)
        return -1;
    return lacks;
}

/* Bytes that copies of the run need beside it, with as much again, which pages
 * of files and programs of rewards may need, and with those of saves. Nothing
 * more is asked for where an earlier process has left the memory of whole
 * copies: less would drop a copy that the run can go on with.
 */
static size_t copies_need(const struct dt_spec *spec, enum dt_dtype compute,
                          size_t held)
{
    const size_t copies = dt_plan_copies_bytes(spec, compute);
    const size_t models = copies - 2 * dt_samples_bytes(spec);
    return held > 0 && held >= models
               ? held
               : 2 * copies + dt_plan_stage_bytes(spec, compute, spec->rank);
}

/* Takes memory for copies of the run, if all ranks have what they need. The
 * memory of an earlier process is used again, or given back: later ones must
 * not go on with what is older than this one's checkpoints.
 */
static int prepare_copies(struct dt_run *run,
                          const struct dt_model_options *options,
                          const struct dt_ballot *ballot, struct dt_error *err)
{
    const struct dt_spec *spec = &run->spec;
    const struct dt_parallel_options parallel =
        dt_spec_parallel_options(spec, options->compute);
    if (!dt_copies_wanted(run, &parallel))
        return 0;
    const size_t held = dt_state_held();
    const size_t bytes = copies_need(spec, options->compute, held);
    /* of a host it is in ballot->left */
    const size_t apart = spec->exec.device->is_host ? 0 : held;
    const double lacks = most_lacking(run, options, ballot,
                                      bytes > apart ? bytes - apart : 0, err);
    if (lacks == 0)
        return dt_copies_open(run, &parallel, err);
    if (lacks > 0)
        dt_log(spec->rank == 0 ? DT_LOG_INFO : DT_LOG_DEBUG, "algo",
               "a lost rank costs the steps since the last checkpoint: for "
               "copies of the run, a rank needs %.1f MB more of host memory",
               lacks / 1e6);
    return lacks < 0 ? -1 : dt_copies_drop(err);
}

/* Takes memory for saves that the run does not wait for, if all ranks have it
 * beside the run.
 */
static int prepare_saves(struct dt_run *run,
                         const struct dt_model_options *options,
                         const struct dt_ballot *ballot, struct dt_error *err)
{
    const struct dt_spec *spec = &run->spec;
    const size_t bytes =
        dt_plan_stage_bytes(spec, options->compute, spec->rank);
    note_drive(spec, options->compute);
    if (dt_plan_stage_bytes(spec, options->compute, 0) == 0)
        return 0;
    const double lacks = most_lacking(run, options, ballot, bytes, err);
    if (lacks < 0)
        return -1;
    if (lacks == 0)
        return dt_flight_init(run, bytes, err);
    dt_log(spec->rank == 0 ? DT_LOG_INFO : DT_LOG_DEBUG, "algo",
           "the run waits for its saves: to write checkpoints while it goes "
           "on, a rank needs %.1f MB more of host memory",
           lacks / 1e6);
    return 0;
}

/* Shortens a run whose length is given in prompts by the steps that were
 * skipped as generations ended early.
 */
static void shorten(struct dt_run *run)
{
    const long total = run->total_steps - run->ppo.left_out;
    if (run->ppo.left_out == 0 || run->spec.conf.training.max_steps > 0)
        return;
    run->total_steps = total > run->progress.step ? total : run->progress.step;
}

/* Warns of a step larger than the data, which nobody wants: its gradient is
 * that of fewer samples, and an epoch is shorter than a step.
 */
static void warn_large_step(const struct dt_run *run)
{
    const struct dt_spec *spec = &run->spec;
    const bool samples = spec->algo->advantages;
    const uint64_t taken = samples ? spec->sampling.groups
                                   : spec->B * spec->A * (uint64_t)spec->world;
    if (taken <= run->epoch_samples || spec->conf.training.eval_only)
        return;
    dt_log(spec->rank == 0 ? DT_LOG_WARN : DT_LOG_DEBUG, "algo",
           "a %s takes %" PRIu64 " %s, and the data has only %" PRIu64
           ", so some are in it several times: give more data, or lower "
           "training.train_batch_size",
           samples ? "generation" : "step", taken,
           samples ? "prompts" : "samples", run->epoch_samples);
}

/* Plans the steps of the whole run and the schedule over them. */
static int plan_steps(struct dt_run *run, struct dt_error *err)
{
    char note[256];
    struct dt_conf *conf = &run->spec.conf;
    run->total_steps = dt_spec_count_steps(&run->spec, run->epoch_samples);
    if (dt_conf_resolve_steps(conf, run->total_steps, err) < 0)
        return -1;
    if (dt_run_schedules(run, err) < 0)
        return -1;
    warn_large_step(run);
    shorten(run);
    if (dt_best_ended(run))
        run->total_steps = run->progress.step;
    dt_run_schedule_note(&run->learner.schedule, conf->training.max_steps, note,
                         sizeof(note));
    if (note[0] && !conf->training.eval_only)
        dt_log(run->spec.rank == 0 ? DT_LOG_WARN : DT_LOG_DEBUG, "algo", "%s",
               note);
    return 0;
}

/* --- where the results go (rank 0) --- */

static void tell_spent(void *live, double spent[DT_ACCOUNT_COUNTED])
{
    dt_live_spent(live, spent);
}

static int start_report(struct dt_run *run, struct dt_error *err)
{
    const struct dt_conf *conf = &run->spec.conf;
    const struct dt_report_options options = {
        .dir = conf->logging.to_jsonl ? conf->logging.dir : NULL,
        .first_step = conf->training.eval_only ? LONG_MAX : run->progress.step,
        .resumes = dt_run_continues(conf) || conf->training.eval_only,
        .console = conf->logging.to_stdout,
        .columns = dt_live_columns(run->live),
        .spent = tell_spent,
        .ctx = run->live,
    };
    const struct dt_sink_options watched = {.context = run->live};
    if (!(run->report = dt_report_create(&options, err)))
        return -1;
    dt_report_add_sink(run->report, &dt_live_sink, &watched);
    return 0;
}

/* Adds further sinks to the report. A failure is a warning. */
static void add_sinks(struct dt_run *run)
{
    const struct dt_conf *conf = &run->spec.conf;
    const struct dt_sink_options options = {.dir = conf->logging.dir,
                                            .run = run->facts,
                                            .first_step = run->progress.step};
    /* An evaluation of an old step does not belong in an existing curve. */
    if (conf->training.eval_only)
        return;
    if (conf->logging.to_tensorboard)
        dt_report_add_sink(run->report, &dt_sink_tensorboard, &options);
    if (conf->logging.to_wandb)
        dt_report_note(run->report,
                       "wandb: nothing is sent from here; on a host that "
                       "reaches the server run contrib/wandb-follow %s",
                       conf->logging.dir);
}

/* Says that a default turns off a dropout that the model asks for. */
static void note_dropout(struct dt_run *run)
{
    const struct dt_conf *conf = &run->spec.conf;
    const struct dt_model_config *config = &run->spec.learner.config;
    const double most = fmax(config->embd_dropout,
                             fmax(config->attn_dropout, config->resid_dropout));
    if (most > 0 && conf->model.disable_dropout &&
        !dt_conf_given(conf, "model.disable_dropout"))
        dt_report_note(run->report,
                       "dropout: none, though the model asks for %g "
                       "(model.disable_dropout)",
                       most);
}

static void print_banner(struct dt_run *run)
{
    const struct dt_spec *spec = &run->spec;
    char lr[160], parts[DT_PARTS_TEXT], images[DT_IMAGES_TEXT];
    const struct dt_model_config *config = &spec->learner.config;
    const bool samples = spec->algo->advantages;
    const char *what = samples            ? "completion"
                       : spec->algo->pick ? "pair"
                                          : "row";
    const size_t taken = spec->B * (size_t)spec->world * spec->A;
    dt_report_note(
        run->report, "%s: %s, %zu layers, %zu channels, %zu parameters, on %s",
        spec->conf.run.name, dt_model_type(config), config->n_layer,
        config->n_embd, dt_learner_model_layout(&spec->learner)->param_total,
        spec->exec.device->describe());
    if (spec->images.there) {
        if (!dt_learner_adapts(&spec->learner))
            dt_report_note(run->report, "%s",
                           dt_learner_parts_text(&spec->learner, parts));
        dt_report_note(run->report, "images: %s",
                       dt_run_images_text(&spec->images, images));
        if (spec->images.processor.unsaid)
            dt_log(
                spec->rank == 0 ? DT_LOG_WARN : DT_LOG_DEBUG, "algo",
                "data.image_pad: transformers pads no images of such a model "
                "(%s), so the files of checkpoints do not ask for it: what "
                "generates with them gives images their own shape",
                dt_model_type(config));
    }
    if (spec->exec.ops->attention_library)
        dt_report_note(run->report, "attention: %s",
                       spec->exec.ops->attention_library());
    dt_report_note(
        run->report,
        "%zu %s%s per rank x %d rank%s x %zu accumulation = %zu sample%s of "
        "%zu tokens a step; %" PRIu64 " %s%s an epoch, %ld step%s",
        spec->B, what, dt_str_plural(spec->B), spec->world,
        dt_str_plural((uint64_t)spec->world), spec->A, taken,
        dt_str_plural(taken),
        spec->algo->pick && !samples ? 2 * spec->T : spec->T,
        run->epoch_samples, samples ? "prompt" : "sample",
        dt_str_plural(run->epoch_samples), run->total_steps,
        dt_str_plural((uint64_t)run->total_steps));
    note_dropout(run);
    const struct dt_parallel_options parallel =
        dt_spec_parallel_options(spec, run->learner.compute);
    if (dt_learner_adapts(&spec->learner))
        dt_report_note(run->report,
                       "lora: %zu parameters are trained, those of %s are "
                       "frozen",
                       spec->learner.layout->param_total,
                       spec->conf.model.path);
    if (spec->strategy[0])
        dt_report_note(run->report, "strategy: %s", spec->strategy);
    dt_groups_report(&spec->conf, &spec->nodes, spec->world, &parallel,
                     run->report);
    dt_run_lr_note(&spec->conf, spec->world, lr, sizeof(lr));
    if (lr[0])
        dt_report_note(run->report, "%s", lr);
}

/* Rank 0 makes a model that is made of two, unless the directory of the run
 * will be refused.
 */
static int make_model(struct dt_run *run, struct dt_error *err)
{
    const struct dt_conf *conf = &run->spec.conf;
    if (run->spec.rank > 0 || !dt_conf_composes(conf))
        return 0;
    dt_live_phase(run->live, DT_ACCOUNT_STARTUP, "making the model");
    return dt_run_check_free(conf, err) < 0 ? -1 : dt_run_make_model(conf, err);
}

/* Opens the data, and finds the largest pictures of a micro-batch. */
static int probe_data(struct dt_run *run, struct dt_model_options *options,
                      struct dt_error *err)
{
    struct dt_spec *spec = &run->spec;
    dt_live_phase(run->live, DT_ACCOUNT_STARTUP, "preparing data");
    run->data.stop = run->stop;
    run->data.images = &spec->images;
    if (dt_run_data_open(&run->data, &spec->conf,
                         spec->learner.config.vocab_size, spec->rank == 0,
                         err) < 0)
        return -1;
    if (dt_spec_take_pictures(spec, &run->data, options, err) < 0 ||
        (spec->images.there && run->data.prompts &&
         dt_plan_rewards(spec, &run->data, options->compute, err) < 0))
        return -1;
    if (spec->images.there)
        dt_log(spec->rank == 0 ? DT_LOG_INFO : DT_LOG_DEBUG, "data",
               "a micro-batch has at most %zu picture%s and %zu patches",
               options->pictures, dt_str_plural(options->pictures),
               options->patches);
    return 0;
}

/* Checks model, memory and data on this rank: memory first, as reading data
 * takes long, unless it follows from the pictures that the data have.
 * ballot->left comes from dt_plan_least_memory.
 */
static int probe_run(struct dt_run *run, struct dt_model_options *options,
                     struct dt_ballot *ballot, struct dt_error *err)
{
    struct dt_spec *spec = &run->spec;
    if (make_model(run, err) < 0 || dt_plan_resolve(spec, options, err) < 0 ||
        dt_nodes_find(&spec->nodes, run->comm, err) < 0 ||
        dt_groups_check(&spec->conf, &spec->nodes, run->comm, err) < 0)
        return -1;
    const bool pictures = spec->images.there;
    ballot->left = dt_plan_plannable(spec, ballot->left);
    if ((pictures && probe_data(run, options, err) < 0) ||
        dt_strategy_settle(spec, options, ballot, err) < 0)
        return -1;
    return pictures ? 0 : probe_data(run, options, err);
}

/* Rank 0 goes first and makes the caches of the data. Any error it finds would
 * hit every rank, so the others only need to learn that it failed. They end
 * together if one of them is told to stop.
 */
static int probe_rank0_first(struct dt_run *run,
                             struct dt_model_options *options,
                             struct dt_ballot *ballot, struct dt_error *err)
{
    bool first = run->spec.rank == 0;
    if (dt_plan_least_memory(&run->spec, run->comm, &ballot->left, err) < 0)
        return -1;
    if (run->spec.exec.device->is_host && ballot->left < SIZE_MAX)
        ballot->left += (size_t)ballot->local_size * dt_state_held();
    if (!first && dt_run_share_stop(run, false, err) < 0)
        return -1;
    bool stopped = probe_run(run, options, ballot, err) < 0;
    if ((stopped && err->status != EX_TEMPFAIL) ||
        (first && dt_run_share_stop(run, stopped, err) < 0))
        return -1;
    return run->spec.world > 1 ? dt_run_share_stop(run, stopped, err) : 0;
}

/* Says how long a restart took; its source is known from dt_run_restore. */
static void tell_restart(const struct dt_run *run)
{
    const struct dt_run_start *start = &run->start;
    if (start->loss_count == 0)
        return;
    const struct dt_launch_loss *loss = &start->losses[start->loss_count - 1];
    char what[48] = "begins";
    if (run->queued > 0)
        snprintf(what, sizeof(what), "goes on after step %ld", run->queued);
    dt_log(DT_LOG_NEWS, "algo", "the run %s, %.1f s after a loss on %s", what,
           dt_clock_now() - loss->at, loss->host);
}

/* Rank 0 begins the records of the run, and with them all that is there is its
 * own. Where the configuration names a checkpoint, dt_run_restore says when.
 */
static int begin_records(struct dt_run *run, struct dt_error *err)
{
    const struct dt_conf *conf = &run->spec.conf;
    if (start_report(run, err) < 0)
        return -1;
    add_sinks(run);
    dt_events_begin(run);
    print_banner(run);
    tell_restart(run);
    return conf->training.eval_only ||
                   conf->training.resume == DT_CONF_RESUME_PATH
               ? 0
               : dt_hold_set(conf->run.output_dir, DT_HOLD_ALL, err);
}

int dt_run_init(struct dt_run *run, const struct dt_conf *conf,
                const struct dt_exec *exec, struct dt_comm *comm,
                int local_size, struct dt_error *err)
{
    struct dt_model_options options;
    struct dt_ballot ballot = {.local_size = local_size};
    run->spec.conf = *conf;
    run->spec.given = conf;
    run->spec.exec = *exec;
    run->comm = comm;
    dt_comm_count(comm, dt_board_started(run->start.board));
    run->spec.rank = dt_comm_rank(comm);
    run->spec.world = dt_comm_size(comm);
    if (run->spec.rank == 0 &&
        (dt_run_live_begin(run, dt_algo_of(conf)->name, err) < 0 ||
         dt_hold_begin(run, err) < 0))
        return -1;
    if (dt_agree_conf(comm, conf, err) < 0 ||
        probe_rank0_first(run, &options, &ballot, err) < 0 ||
        dt_agree_data(comm, &run->spec.conf, &run->data, err) < 0 ||
        dt_strategy_agree(&run->spec, comm, &options, &ballot, err) < 0 ||
        allocate_run(run, &options, err) < 0)
        return -1;
    choose_eos(run);
    if (run->spec.rank == 0)
        dt_run_warn_answers(run);
    if ((run->spec.algo->begin && run->spec.algo->begin(run, err) < 0) ||
        dt_run_samples_init(run, &options, err) < 0)
        return -1;
    dt_metrics_clear(run->spec.algo, &run->progress.metrics);
    run->progress.best = (struct dt_best){.value = NAN, .saved = NAN};
    run->epoch_samples = run->data.prompts
                             ? dt_prompts_stats(run->data.prompts).count
                             : dt_rows_count(run->data.train);
    run->learner.scaler = dt_run_scaler(conf);
    if (run->spec.rank == 0 &&
        !(run->settings = dt_same_settings(&run->spec, err)))
        return -1;
    dt_live_phase(run->live, DT_ACCOUNT_STARTUP, "loading weights");
    if (prepare_copies(run, &options, &ballot, err) < 0 ||
        dt_run_restore(run, err) < 0 ||
        prepare_saves(run, &options, &ballot, err) < 0)
        return -1;
    dt_run_account_begin(run);
    if (conf->logging.to_jsonl) /* a run that is refused changes no file */
        dt_live_publish(run->live, conf->logging.dir, dt_run_holds_output, run);
    if ((run->spec.algo->prepare && run->spec.algo->prepare(run, err) < 0) ||
        (!run->spec.algo->advantages &&
         !(run->loader = dt_run_loader(run, err))) ||
        plan_steps(run, err) < 0 || dt_run_keep_output(run, err) < 0 ||
        dt_facts_begin(run, err) < 0)
        return -1;
    if (run->spec.rank == 0 && begin_records(run, err) < 0)
        return -1;
    return dt_replicas_begin(run, err) < 0 ? -1 : dt_run_trace_init(run, err);
}

void dt_run_fini(struct dt_run *run)
{
    struct dt_error late; /* queued work ends before its memory is freed */
    if (run->spec.exec.device)
        run->spec.exec.device->stream_wait(run->spec.exec.stream, &late);
    dt_flight_fini(run);
    dt_comm_forget_memory(run->comm);
    dt_trace_destroy(run->trace);
    dt_report_destroy(run->report);
    dt_watch_destroy(run->watch);
    dt_replicas_end(run);
    dt_live_destroy(run->live);
    dt_owner_release(run->owner);
    json_decref(run->settings);
    json_decref(run->facts);
    dt_loader_destroy(run->loader);
    dt_run_samples_fini(run);
    if (run->spec.algo && run->spec.algo->fini)
        run->spec.algo->fini(run);
    dt_run_precompute_fini(run);
    dt_copies_close(run);
    dt_run_reference_fini(run);
    dt_learner_fini(&run->critic);
    dt_learner_fini(&run->learner);
    dt_state_close(run);
    dt_run_data_fini(&run->data);
    dt_spec_fini(&run->spec);
    dt_comm_count(run->comm, NULL);
    dt_board_close(run->start.board);
}
