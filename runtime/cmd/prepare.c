/* SPDX-License-Identifier: Apache-2.0 */
/* prepare.c - `disttrain prepare`: tokenizes data files before training */
#include "config.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/cpus.h"
#include "base/str.h"
#include "cmd/cmd.h"
#include "cmd/prepare_reference.h"
#include "data/examples.h"
#include "plan/plan.h"
#include "run/data.h"
#include "run/run.h"
#include "tokenizer/chat/chat.h"

static const char help[] =
    "usage: disttrain prepare --config CONFIG [--set KEY=VALUE]...\n"
    "                         [--reference] [--threads N]\n"
    "       disttrain prepare --tokenizer DIR [OPTIONS] FILE...\n"
    "\n"
    "Tokenizes data files (lines of JSON, or text) into the cache that "
    "training\n"
    "with the same settings uses. A cache that matches is only checked.\n"
    "\n"
    "  --config CONFIG       take the files and settings of a configuration\n"
    "  --set KEY=VALUE       take this value, whatever CONFIG says\n"
    "  --reference           also compute what the reference of algorithm dpo\n"
    "                        gives to the pairs, for dpo.reference.mode:\n"
    "                        precompute\n"
    "  --tokenizer DIR       directory of tokenizer.json, or the word byte\n"
    "  --format FORMAT       auto, text, prompt_completion, messages,\n"
    "                        tokenized or preference [auto]\n"
    "  --chat-template NAME  template of conversations: a file, none, or\n"
    "                        " DT_CHAT_FIRST ",\n"
    "                        " DT_CHAT_OTHERS "\n"
    "                        [auto: the one in the tokenizer's files]\n"
    "  --chat-template-kwargs JSON\n"
    "                        variables that it reads, as\n"
    "                        '{\"enable_thinking\": false}'\n"
    "  --loss-on WHAT        tokens to train on: auto, full, completion or\n"
    "                        assistant [auto]\n"
    "  --bad-lines SHARE     share of lines that may be malformed [0]\n"
    "  --threads N           number of threads [all CPUs]\n"
    "  --cache-dir DIR       directory for caches [.disttrain-cache next to\n"
    "                        each file]\n"
    "  --help                this text\n";

struct request {
    const char *config; /* the file, or */
    const char *tokenizer;
    const char *setting; /* the last option given that --config also sets */
    bool reference;
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
    if (!examples) {
        fprintf(stderr, "disttrain prepare: %s\n", err.text);
        return err.status;
    }
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
    if (!tokenizer) {
        fprintf(stderr, "disttrain prepare: %s\n", err.text);
        return err.status;
    }
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

static int compute_reference(const struct dt_conf *conf)
{
    struct dt_error err;
    if (dt_prepare_reference(conf, &err) == 0)
        return EX_OK;
    fprintf(stderr, "disttrain prepare: %s\n", err.text);
    return err.status;
}

/* The model's vocabulary is the limit of ids in the run, too. */
static int find_vocabulary(const struct dt_conf *conf, size_t *vocab_size)
{
    struct dt_model_config config = {0};
    struct dt_error err;
    int rc = dt_run_model_config(conf, &config, &err);
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
        request->options = dt_run_example_options(conf);
        request->options.threads = threads;
        status = dt_cmd_check_training(request->config, conf);
        if (status == EX_OK)
            status = find_vocabulary(conf, &request->options.vocab_size);
        if (status == EX_OK)
            status = prepare_all(dt_run_tokenizer_path(conf), lists, request);
        if (status == EX_OK && request->reference)
            status = compute_reference(conf);
    }
    dt_conf_destroy(conf);
    return status;
}

/* --- options --- */

/* Returns the index of the option's value in a list, or -1 after a message. */
static int parse_word(const char *option, const char *const *words,
                      size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(optarg, words[i]) == 0)
            return (int)i;
    fprintf(stderr, "disttrain prepare: --%s %s: expected %s", option, optarg,
            words[0]);
    for (size_t i = 1; i < count; i++)
        fprintf(stderr, "%s%s", i + 1 < count ? ", " : " or ", words[i]);
    fputs(" (see disttrain prepare --help)\n", stderr);
    return -1;
}

static bool parse_format(struct request *request)
{
    static const char *const words[] = {
        [DT_FORMAT_AUTO] = "auto",
        [DT_FORMAT_TEXT] = "text",
        [DT_FORMAT_PROMPT_COMPLETION] = "prompt_completion",
        [DT_FORMAT_MESSAGES] = "messages",
        [DT_FORMAT_TOKENIZED] = "tokenized",
        [DT_FORMAT_PREFERENCE] = "preference",
    };
    if (strcmp(optarg, "tokenised") == 0)
        optarg = "tokenized";
    int word = parse_word("format", words, sizeof(words) / sizeof(words[0]));
    request->options.format = word;
    return word >= 0;
}

static bool parse_loss(struct request *request)
{
    static const char *const words[] = {
        [DT_LOSS_AUTO] = "auto",
        [DT_LOSS_FULL] = "full",
        [DT_LOSS_COMPLETION] = "completion",
        [DT_LOSS_ASSISTANT] = "assistant",
    };
    int word = parse_word("loss-on", words, sizeof(words) / sizeof(words[0]));
    request->options.loss_on = word;
    return word >= 0;
}

static bool parse_number(const char *option, double min, double max,
                         double *value)
{
    char *end;
    *value = strtod(optarg, &end);
    bool ok = end != optarg && !*end && *value >= min && *value <= max;
    if (!ok)
        dt_cmd_usage_error("prepare",
                           "--%s %s: expected a number from %g to %g", option,
                           optarg, min, max);
    return ok;
}

static bool parse_option(struct request *request, int c)
{
    double number;
    switch (c) {
    case 'F':
        request->config = optarg;
        return true;
    case 'r':
        return request->reference = true;
    case 'k':
        request->tokenizer = optarg;
        return true;
    case 'f':
        return parse_format(request);
    case 'c':
        request->options.chat_template = optarg;
        return true;
    case 'K':
        request->options.chat_variables = optarg;
        return true;
    case 'l':
        return parse_loss(request);
    case 'b':
        return parse_number("bad-lines", 0, 1, &request->options.bad_limit);
    case 't':
        if (!parse_number("threads", 1, 4096, &number))
            return false;
        request->options.threads = (int)number;
        return true;
    default:
        request->options.cache_dir = optarg;
        return true;
    }
}

/* Fills request. Returns DT_CMD_RUN, or the exit status. */
static int parse_options(struct request *request, int argc, char **argv)
{
    static const struct option table[] = {
        {"help", no_argument, NULL, 'h'},
        {"config", required_argument, NULL, 'F'},
        {"reference", no_argument, NULL, 'r'},
        {"tokenizer", required_argument, NULL, 'k'},
        {"format", required_argument, NULL, 'f'},
        {"chat-template", required_argument, NULL, 'c'},
        {"chat-template-kwargs", required_argument, NULL, 'K'},
        {"loss-on", required_argument, NULL, 'l'},
        {"bad-lines", required_argument, NULL, 'b'},
        {"threads", required_argument, NULL, 't'},
        {"cache-dir", required_argument, NULL, 'd'},
        DT_CMD_SET_OPTION,
        {0},
    };
    struct dt_cmd_line line = {"prepare", help, table, .status = DT_CMD_RUN};
    for (int c; (c = dt_cmd_next_option(&line, argc, argv)) != -1;) {
        if (!parse_option(request, c))
            return EX_USAGE;
        if (c != 'F' && c != 't' && c != 'r')
            request->setting = table[line.index].name;
    }
    if (line.status != DT_CMD_RUN)
        return line.status;
    if (request->config && request->setting)
        return dt_cmd_usage_error("prepare",
                                  "--%s cannot be used with --config, which "
                                  "has this setting",
                                  request->setting);
    if (request->config && optind < argc)
        return dt_cmd_usage_error("prepare",
                                  "--config names the files: unexpected '%s'",
                                  argv[optind]);
    if (!request->config && request->reference)
        return dt_cmd_usage_error("prepare", "--reference needs --config");
    if (!request->config && dt_cmd_overrides()->count > 0)
        return dt_cmd_usage_error("prepare", "--set needs --config");
    if (!request->config && optind == argc)
        return dt_cmd_usage_error("prepare", "expected a FILE");
    if (!request->config && !request->tokenizer)
        return dt_cmd_usage_error("prepare", "--tokenizer DIR is missing");
    return DT_CMD_RUN;
}

int dt_cmd_prepare(int argc, char **argv)
{
    struct request request = {.options = {.chat_template = "auto",
                                          .parse_special = true,
                                          .threads = dt_cpus_usable("")}};
    int status = parse_options(&request, argc, argv);
    if (status != DT_CMD_RUN)
        return status;
    const struct dt_conf_list files[] = {
        {.text = argv + optind, .count = (size_t)(argc - optind)}, {0}};
    status = request.config ? prepare_config(&request)
                            : prepare_all(request.tokenizer, files, &request);
    return dt_cmd_flush("prepare", status);
}
