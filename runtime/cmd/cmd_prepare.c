/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_prepare.c - `disttrain prepare`: tokenizes data files before training */
#include "config.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "backend/backend.h"
#include "base/clock.h"
#include "base/proc.h"
#include "base/str.h"
#include "cmd/cmd_impl.h"
#include "data/examples.h"
#include "plan/plan.h"
#include "run/composed.h"
#include "run/data.h"
#include "run/run.h"
#include "tokenizer/chat/chat.h"
#include "train/train.h"

enum { JUDGES = 16 };

struct request {
    const char *config; /* the file, or */
    const char *tokenizer;
    bool reference;
    struct dt_judging judging; /* --score */
    struct dt_judge judges[JUDGES];
    struct dt_example_options options;
};

/* --- one file --- */

/* The progress line, which the next one replaces. */
struct display {
    const char *path;
    bool shown;
};

static void clear_progress(struct display *display)
{
    if (display->shown)
        fputs("\r\033[K", stderr);
    display->shown = false;
}

static void show_progress(void *ctx, uint64_t done, uint64_t total)
{
    struct display *display = ctx;
    display->shown = true;
    fprintf(stderr, "\r%s: %3.0f %% of %.1f MB", display->path,
            100.0 * (double)done / (double)total, (double)total / 1e6);
}

static void show_note(void *ctx, const char *text)
{
    clear_progress(ctx);
    fprintf(stderr, "warning: %s\n", text);
}

static int prepare_file(const char *path, const struct dt_tokenizer *tokenizer,
                        const struct request *request)
{
    struct display display = {.path = path};
    struct dt_example_options options = request->options;
    struct dt_error err;
    bool made;
    double begin = dt_clock_now();
    options.ctx = &display;
    options.note = show_note;
    if (isatty(STDERR_FILENO))
        options.progress = show_progress;
    struct dt_examples *examples =
        dt_examples_open(path, tokenizer, &options, &made, &err);
    clear_progress(&display);
    if (!examples)
        return dt_cmd_fail("prepare", &err);
    uint64_t tokens = dt_examples_tokens(examples);
    printf("%s: %zu example%s, %" PRIu64 " tokens, %" PRIu64
           " targets, %" PRIu64 " bad line%s; ",
           path, dt_examples_count(examples),
           dt_str_plural(dt_examples_count(examples)), tokens,
           dt_examples_targets(examples), dt_examples_bad_lines(examples),
           dt_str_plural(dt_examples_bad_lines(examples)));
    if (made)
        printf("%.3g million tokens/s\n",
               1e-6 * (double)tokens / (dt_clock_now() - begin));
    else
        puts("prepared already");
    dt_examples_close(examples);
    return EX_OK;
}

/* Prepares all files even if one fails; returns the status of the first
 * failure.
 */
static int prepare_all(const char *tokenizer_path,
                       const struct dt_conf_list lists[2],
                       const struct request *request)
{
    struct dt_error err;
    int status = EX_OK;
    struct dt_tokenizer *tokenizer = dt_tokenizer_load(tokenizer_path, &err);
    if (!tokenizer)
        return dt_cmd_fail("prepare", &err);
    for (size_t i = 0; i < lists[0].count + lists[1].count; i++) {
        size_t count = lists[0].count;
        int failed = prepare_file(i < count ? lists[0].text[i]
                                            : lists[1].text[i - count],
                                  tokenizer, request);
        status = status ? status : failed;
    }
    dt_tokenizer_destroy(tokenizer);
    return status;
}

/* Makes the file that a run of `conf` would make before its first step, unless
 * it is there. -1: EX_CONFIG, the configuration asks for none; as
 * dt_trainer_prepare.
 */
static int make_reference(const struct dt_conf *conf, struct dt_error *err)
{
    const struct dt_comm_world alone = {.rank = 0, .size = 1};
    struct dt_comm_options options = {
        .timeout_ms = (int)(conf->distributed.timeout_s * 1000)};
    struct dt_exec exec;
    if (conf->algorithm != DT_CONF_DPO ||
        conf->dpo.reference.mode != DT_CONF_REFERENCE_PRECOMPUTE)
        return dt_conf_error_set(conf, "dpo.reference.mode", err,
                                 "--reference is for algorithm dpo with "
                                 "precompute");
    const struct dt_backend *backend = dt_join_hardware(conf, NULL, &exec, err);
    if (!backend)
        return -1;
    options.stream = exec.stream;
    struct dt_comm *comm = dt_backend_connect(backend, &alone, &options, err);
    int result = comm ? dt_trainer_prepare(conf, &exec, comm, err) : -1;
    dt_comm_destroy(comm);
    exec.device->stream_destroy(exec.stream);
    return result;
}

static int compute_reference(const struct dt_conf *conf)
{
    struct dt_error err;
    if (make_reference(conf, &err) == 0)
        return EX_OK;
    return dt_cmd_fail("prepare", &err);
}

/* Makes the model, if it is made of two, and finds its vocabulary, which limits
 * ids in the run, too, and how it sees images.
 */
static int find_model(const struct dt_conf *conf, size_t *vocab_size,
                      struct dt_run_images *images)
{
    struct dt_model_config config = {0};
    struct dt_error err;
    int rc = dt_run_make_model(conf, &err);
    if (rc == 0)
        rc = dt_run_model_config(conf, &config, &err);
    if (rc == 0)
        rc = dt_run_images_init(images, conf, &config, &err);
    if (rc == 0)
        rc = dt_run_images_make_store(images, &err);
    if (rc < 0)
        fprintf(stderr, "disttrain prepare: %s\n", err.text);
    else
        *vocab_size = config.vocab_size;
    dt_model_config_fini(&config);
    return rc < 0 ? err.status : EX_OK;
}

/* Prepares the files of a configuration with its settings. */
static int prepare_config(struct request *request)
{
    struct dt_conf *conf = dt_cmd_load("prepare", request->config, true);
    int threads = request->options.threads, status = EX_OK;
    if (!conf)
        return EX_CONFIG;
    if (!conf->trains) {
        printf("%s: nothing to prepare: it trains nothing\n", request->config);
    } else if (dt_run_is_stream(conf)) {
        printf("%s: nothing to prepare: data.train is read as it is\n",
               request->config);
    } else {
        const struct dt_conf_list lists[] = {conf->data.train, conf->data.eval};
        struct dt_run_images images = {0};
        size_t vocab_size = 0;
        status = dt_cmd_check_training(request->config, conf);
        if (status == EX_OK)
            status = find_model(conf, &vocab_size, &images);
        request->options = dt_run_example_options(conf, &images);
        request->options.threads = threads;
        request->options.vocab_size = vocab_size;
        if (status == EX_OK)
            status = prepare_all(dt_run_tokenizer_path(conf), lists, request);
        if (status == EX_OK && request->reference)
            status = compute_reference(conf);
        dt_run_images_fini(&images);
    }
    dt_conf_destroy(conf);
    return status;
}

/* --- options --- */

/* The values in the order of enum dt_format, and of dt_loss_on. */
#define FORMATS "auto|text|prompt_completion|messages|tokenized|preference"
#define LOSSES "auto|full|completion|assistant"

static int take_format(const char *value, void *request)
{
    int format =
        dt_cmd_choose("prepare", "format", FORMATS,
                      strcmp(value, "tokenised") == 0 ? "tokenized" : value);
    ((struct request *)request)->options.format = format;
    return format < 0 ? EX_USAGE : 0;
}

/* A value DIR or DIR=WEIGHT. */
static int take_judge(const char *value, void *values)
{
    struct request *request = values;
    struct dt_judging *judging = &request->judging;
    struct dt_judge *judge = &request->judges[judging->judge_count];
    if (judging->judge_count == JUDGES)
        return dt_cmd_usage_error("prepare", "--score: more than %d of them",
                                  (int)JUDGES);
    *judge = (struct dt_judge){value, 1.0};
    char *mark = (char *)strrchr(value, '='), *end = ""; /* of argv */
    if (mark) {
        judge->weight = strtod(mark + 1, &end);
        if (end == mark + 1 || *end || !isfinite(judge->weight))
            return dt_cmd_usage_error("prepare",
                                      "--score: expected DIR=WEIGHT with a "
                                      "number, got '%s'",
                                      value);
        *mark = '\0';
    }
    judging->judges = request->judges;
    judging->judge_count++;
    return 0;
}

#define NOT_WITH_CONFIG                                                        \
    .excludes = "config", .because = "the configuration has this setting"
#define INTO(member) DT_INTO(struct request, member)

static const struct dt_option table[] = {
    {"config", "CONFIG", "take the files and settings of a configuration",
     INTO(config)},
    {DT_CMD_SET, .help = "take this value, whatever CONFIG says",
     .needs = "config"},
    {"reference", NULL,
     "also compute log-probabilities of the pairs under the reference of "
     "algorithm dpo, for dpo.reference.mode: precompute",
     INTO(reference), .needs = "config"},
    {"tokenizer", "DIR", "directory of tokenizer.json, or the word byte",
     INTO(tokenizer), NOT_WITH_CONFIG},
    {"format", FORMATS, "form of the lines [auto]", .take = take_format,
     NOT_WITH_CONFIG},
    {"chat-template", "NAME",
     "template of conversations: a file, none, or " DT_CHAT_NAMES
     " [auto: the one in the tokenizer's files]",
     INTO(options.chat_template), NOT_WITH_CONFIG},
    {"chat-template-kwargs", "JSON",
     "variables that it reads, as '{\"enable_thinking\":false}'",
     INTO(options.chat_variables), NOT_WITH_CONFIG},
    {"loss-on", LOSSES, "tokens to train on [auto]", INTO(options.loss_on),
     NOT_WITH_CONFIG},
    {"bad-lines", "SHARE", "share of lines that may be malformed [0]",
     INTO(options.bad_limit), .max = 1, NOT_WITH_CONFIG},
    {"score", "DIR[=WEIGHT]",
     "compare the pairs of FILE anew, by the scores of this reward model times "
     "WEIGHT [1]; can be repeated",
     .take = take_judge, NOT_WITH_CONFIG},
    {"out", "FILE", "where to write them, with their margins and scores",
     INTO(judging.out), .needs = "score"},
    {"image-root", "DIR", "directory of the images that these pairs name",
     INTO(judging.image_root), .needs = "score"},
    {"threads", "N", "number of threads [all CPUs]", INTO(options.threads),
     .min = 1, .max = 4096},
    {"cache-dir", "DIR",
     "directory for caches [.disttrain-cache next to each file]",
     INTO(options.cache_dir), NOT_WITH_CONFIG},
    {0},
};

static const struct dt_cmd_line line = {
    "prepare",
    "usage: disttrain prepare --config CONFIG [--set KEY=VALUE]...\n"
    "                         [--reference] [--threads N]\n"
    "       disttrain prepare --tokenizer DIR [OPTIONS] FILE...\n"
    "       disttrain prepare --score DIR[=WEIGHT]... --out FILE\n"
    "                         [--image-root DIR] FILE\n"
    "\n"
    "Tokenizes data files (lines of JSON, or text) into the cache that "
    "training\n"
    "with the same settings uses. A cache that matches is only checked.\n",
    table, NULL};

/* Checks what --score needs. */
static int check_scores(const struct request *request, int files)
{
    if (!request->judging.out)
        return dt_cmd_usage_error("prepare", "--score needs --out FILE");
    return files == 1 ? DT_CMD_RUN
                      : dt_cmd_usage_error("prepare",
                                           "--score takes one FILE of pairs");
}

/* Fills request. Returns DT_CMD_RUN, or the exit status. */
static int parse_options(struct request *request, int argc, char **argv)
{
    int status = dt_cmd_parse(&line, argc, argv, request);
    if (status != DT_CMD_RUN)
        return status;
    if (request->judging.judge_count > 0)
        return check_scores(request, argc - optind);
    if (request->config && optind < argc)
        return dt_cmd_usage_error("prepare",
                                  "--config names the files: unexpected '%s'",
                                  argv[optind]);
    if (!request->config && optind == argc)
        return dt_cmd_usage_error("prepare", "expected a FILE");
    if (!request->config && !request->tokenizer)
        return dt_cmd_usage_error("prepare", "--tokenizer DIR is missing");
    return DT_CMD_RUN;
}

/* Compares pairs anew. */
static int judge(struct dt_judging *judging, const char *path)
{
    struct dt_error err;
    judging->path = path;
    return dt_prepare_scores(judging, &err) < 0 ? dt_cmd_fail("prepare", &err)
                                                : EX_OK;
}

int dt_cmd_prepare(int argc, char **argv)
{
    struct request request = {.options = {.chat_template = "auto",
                                          .parse_special = true,
                                          .threads = dt_cpus_usable("")}};
    int status = parse_options(&request, argc, argv);
    if (status != DT_CMD_RUN)
        return status;
    if (request.judging.judge_count > 0)
        return dt_cmd_flush("prepare", judge(&request.judging, argv[optind]));
    const struct dt_conf_list files[] = {
        {.text = argv + optind, .count = (size_t)(argc - optind)}, {0}};
    status = request.config ? prepare_config(&request)
                            : prepare_all(request.tokenizer, files, &request);
    return dt_cmd_flush("prepare", status);
}
