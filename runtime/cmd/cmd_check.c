/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_check.c - `disttrain check`: reports all mistakes of a config */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "algo/algo.h"
#include "base/str.h"
#include "cmd/cmd.h"
#include "cmd/cmd_impl.h"
#include "conf/conf.h"
#include "forecast/rates.h"
#include "model/model.h"
#include "plan/plan.h"
#include "run/composed.h"
#include "run/data.h"
#include "run/images.h"
#include "run/spec.h"
#include "slurm/job.h"
#include "train/resume/resume.h"
#include "weights/weights.h"

struct options {
    bool contract, outlives, resolved, keys;
    int world; /* 0: not given */
    const char *file;
    const char *script;                  /* NULL: no allocation */
    const char *explain;                 /* a key; NULL: none */
    struct dt_srun_words words, command; /* with contract */
};

static const struct dt_option table[] = {
    {"resolved", NULL,
     "print the final configuration with the source of each value",
     DT_INTO(struct options, resolved)},
    {"world", "N",
     "work out the batch sizes for N ranks; the default is the ranks of "
     "launch:",
     DT_INTO(struct options, world), .min = 1, .max = 1000000},
    {DT_CMD_SET, .help = "take this value, whatever FILE says"},
    {"contract", NULL, "print what the Slurm plugin needs",
     DT_INTO(struct options, contract), .excludes = "resolved"},
    {"allocation", "SCRIPT",
     "with --contract: the options are those of sbatch with this batch script, "
     "or of salloc",
     DT_INTO(struct options, script), .needs = "contract"},
    {"outlives", NULL,
     "say with the exit status whether the run goes on without nodes that it "
     "loses",
     DT_INTO(struct options, outlives), .excludes = "contract"},
    {"explain", "KEY",
     "print what a key means, or the keys of a section, or what becomes of "
     "each key of a DeepSpeed configuration; with a FILE also its value there",
     DT_INTO(struct options, explain)},
    {"keys", NULL, "print all keys: name, type, default, other names, meaning",
     DT_INTO(struct options, keys)},
    {0},
};

static const struct dt_cmd_line line = {
    "check",
    "usage: disttrain check [--resolved] [--world N] [--set KEY=VALUE]... "
    "FILE\n"
    "       disttrain check --contract [--allocation SCRIPT]\n"
    "                       [--set KEY=VALUE]... FILE\n"
    "                       [-- SLURM-OPTION... [-- COMMAND...]]\n"
    "       disttrain check --outlives [--set KEY=VALUE]... FILE\n"
    "       disttrain check --explain KEY|FILE.json\n"
    "       disttrain check --explain KEY FILE\n"
    "       disttrain check --keys\n"
    "\n"
    "Reads a configuration and prints every mistake in it as\n"
    "file:line:col: key: text. Exit status: 0 no mistake, 78 mistakes,\n"
    "64 wrong usage.\n",
    table, "All keys are described in disttrain.yaml(5).\n"};

/* Returns DT_CMD_RUN, or the exit status. */
static int parse_options(int argc, char **argv, struct options *options)
{
    int status = dt_cmd_parse(&line, argc, argv, options);
    bool tells = options->keys || options->explain;
    if (status != DT_CMD_RUN || (tells && optind == argc))
        return status;
    if (options->keys)
        return dt_cmd_usage_error("check", "--keys takes no FILE");
    if (options->explain && argc - optind > 1)
        return dt_cmd_usage_error("check", "--explain takes one FILE");
    if (argc - optind != 1 && !(options->contract && argc > optind))
        return dt_cmd_usage_error("check", "expected one FILE");
    options->file = argv[optind];
    int from = optind + 1, to = from;
    while (to < argc && strcmp(argv[to], "--") != 0)
        to++;
    options->words = (struct dt_srun_words){argv + from, to - from};
    from = to < argc ? to + 1 : to;
    options->command = (struct dt_srun_words){argv + from, argc - from};
    return DT_CMD_RUN;
}

/* Prints a problem, unless it is one of a file that only the job can name. */
static int report(const struct dt_conf *conf, const char *file, const char *key,
                  const char *text)
{
    return dt_conf_is_later(text)
               ? EX_OK
               : dt_conf_print_problem(conf, file, key, text, stderr);
}

static int check_weights(const struct dt_model_config *model, const char *dir,
                         struct dt_error *err)
{
    struct dt_layout *layout = dt_model_layout(model, 1, err);
    struct dt_weights *weights = NULL;
    bool has_head; /* a run can begin without it */
    if (layout && model->scores)
        weights = dt_weights_open_trunk(dir, layout, &has_head, err);
    else if (layout)
        weights = dt_weights_open(dir, layout, err);
    int result = weights ? 0 : -1;
    dt_weights_close(weights);
    dt_layout_destroy(layout);
    return result;
}

/* The key that names the adapter: model.path may be one itself. */
static const char *adapter_key(const struct dt_conf *conf)
{
    if (!conf->adapter.path)
        return "adapter.type";
    return dt_conf_given(conf, "adapter.path") ? "adapter.path" : "model.path";
}

/* The key that names the directory of the model. */
static const char *model_key(const struct dt_conf *conf)
{
    return dt_conf_composes(conf) ? "model.vision"
           : conf->model.path     ? "model.path"
                                  : "model.config_path";
}

/* Prints a problem of the model, which may begin with the key of a half. */
static int report_half(const struct dt_conf *conf, const char *file,
                       const char *key, const char *text)
{
    static const char *const halves[] = {"model.vision", "model.language"};
    for (size_t i = 0; i < 2; i++) {
        const char *rest = dt_str_after(text, halves[i]);
        if (rest && !strncmp(rest, ": ", 2))
            return report(conf, file, halves[i], rest + 2);
    }
    return report(conf, file, key, text);
}

/* Checks that the weights are there, if the run begins with any. */
static int check_start(const struct dt_conf *conf,
                       const struct dt_model_config *model, const char *dir,
                       struct dt_error *err)
{
    const int needed = dt_run_needs_model(conf, err);
    if (needed != 0)
        return needed < 0 ? -1 : dt_run_check_halves(conf, err);
    return dt_conf_starts_random(conf) ? 0 : check_weights(model, dir, err);
}

/* Checks the keys that only the model's own config.json can decide; sets
 * *vocab_size.
 */
static int check_model(const char *file, const struct dt_conf *conf,
                       size_t *vocab_size)
{
    struct dt_model_config model = {0};
    struct dt_error err;
    char text[128];
    const char *key = model_key(conf), *other = NULL;
    const char *dir =
        conf->model.path ? conf->model.path : conf->model.config_path;
    int status = EX_OK;
    *vocab_size = (size_t)conf->model.vocab_size;
    if (!dir)
        return EX_OK;
    if (dt_run_model_config(conf, &model, &err) < 0) {
        status = report_half(conf, file, key, err.text);
    } else if (dt_run_images_fit(conf, &model, &other, &err) < 0) {
        status = other ? report(conf, file, other, err.text)
                       : report_half(conf, file, key, err.text);
    } else if (dt_algo_adapt(dt_algo_of(conf), &model, dir, &err) < 0) {
        status = report_half(conf, file, key, err.text);
    } else if ((size_t)conf->data.max_length >
               dt_algo_positions(dt_algo_of(conf), &model)) {
        snprintf(text, sizeof(text),
                 "E119 %ld tokens do not fit into the %zu positions of the "
                 "model",
                 conf->data.max_length,
                 dt_algo_positions(dt_algo_of(conf), &model));
        status =
            dt_conf_print_problem(conf, file, "data.max_length", text, stderr);
    } else if (check_start(conf, &model, dir, &err) < 0) {
        status = report_half(conf, file, key, err.text);
    } else if (dt_adapter_check(conf, &model, &err) < 0) {
        status = report(conf, file, adapter_key(conf), err.text);
    }
    *vocab_size = model.vocab_size;
    dt_model_config_fini(&model);
    return status;
}

/* Checks that the reference is a model of the same shape. */
static int check_reference(const char *file, const struct dt_conf *conf)
{
    struct dt_model_config config = {0}, reference = {0};
    const char *from = conf->model.reference_path, *differs = NULL;
    struct dt_error err;
    int result = 0;
    if (!from)
        return EX_OK;
    result = dt_model_config_load(&reference, from, &err);
    if (result == 0)
        result = dt_run_model_config(conf, &config, &err);
    if (result == 0 && (differs = dt_model_config_differ(&reference, &config)))
        result = dt_error_set(&err, EX_CONFIG,
                              "%s: its %s is not that of the model: the "
                              "reference has to be of the same shape",
                              from, differs);
    if (result == 0)
        result = check_weights(&reference, from, &err);
    dt_model_config_fini(&config);
    dt_model_config_fini(&reference);
    return result == 0 ? EX_OK
                       : report(conf, file, "model.reference_path", err.text);
}

/* Checks that the critic has the tokens of the model, and that it has weights.
 */
static int check_critic(const char *file, const struct dt_conf *conf)
{
    struct dt_model_config config = {0}, critic = {0};
    struct dt_error err;
    int result = 0;
    if (!conf->model.value_path)
        return EX_OK;
    result = dt_run_model_config(conf, &config, &err);
    if (result == 0)
        result = dt_critic_config(conf, &config, &critic, &err);
    if (result == 0)
        result = check_weights(&critic, conf->model.value_path, &err);
    dt_model_config_fini(&config);
    dt_model_config_fini(&critic);
    return result == 0 ? EX_OK
                       : report(conf, file, "model.value_path", err.text);
}

/* Rates are for the job's kind of device, which may not be that of this host:
 * only the file is checked.
 */
static int check_rates(const char *file, const struct dt_conf *conf)
{
    struct dt_rates rates;
    struct dt_error err;
    const char *path = conf->distributed.rates;
    return path && dt_rates_load(path, &rates, &err) < 0
               ? report(conf, file, "distributed.rates", err.text)
               : EX_OK;
}

int dt_cmd_check_training(const char *file, const struct dt_conf *conf)
{
    struct dt_error err;
    size_t vocab_size;
    const char *key;
    if (!conf->trains)
        return EX_OK;
    if (dt_algo_check(conf, &err) < 0) {
        fprintf(stderr, "%s\n", err.text);
        return EX_CONFIG;
    }
    if (check_model(file, conf, &vocab_size) != EX_OK ||
        check_reference(file, conf) != EX_OK ||
        check_critic(file, conf) != EX_OK || check_rates(file, conf) != EX_OK)
        return EX_CONFIG;
    if (dt_run_check_resume(conf, &err) < 0 &&
        report(conf, file, "training.resume", err.text) != EX_OK)
        return EX_CONFIG;
    return dt_run_data_check(conf, vocab_size, &key, &err) < 0
               ? report(conf, file, key, err.text)
               : EX_OK;
}

static int check_loaded(const struct options *options, struct dt_conf *conf)
{
    if (dt_cmd_check_training(options->file, conf) != EX_OK)
        return EX_CONFIG;
    if (options->contract)
        return dt_submission_print(conf, options->file, &options->words,
                                   &options->command, options->script);
    long world = options->world > 0 ? options->world : dt_world_launch(conf);
    int status = dt_world_check(conf, world);
    if (status != EX_OK)
        return status;
    if (options->resolved)
        dt_conf_dump(conf, stdout);
    else
        printf("%s: no mistakes%s\n", options->file,
               conf->trains ? "" : "; it launches programs and trains nothing");
    return EX_OK;
}

/* Loads the file; with --allocation, for a job of sbatch or salloc, whose
 * variables stand for themselves.
 */
static struct dt_conf *load(const struct options *options)
{
    struct dt_slurm_size size;
    if (!options->script)
        return dt_cmd_load("check", options->file, true);
    dt_request_read(options->script, &options->words, &size);
    dt_promise_begin(size.array);
    struct dt_conf *conf = dt_cmd_load("check", options->file, true);
    dt_promise_end();
    dt_slurm_size_fini(&size);
    return conf;
}

static int check_file(const struct options *options)
{
    struct dt_conf *conf = load(options);
    int status = conf ? check_loaded(options, conf) : EX_CONFIG;
    dt_conf_destroy(conf);
    return status;
}

/* Asked before sbatch and salloc know their options, so that sizes cannot be
 * compared yet.
 */
static int check_outlives(const char *file)
{
    dt_promise_begin(true);
    struct dt_conf *conf = dt_cmd_load("check", file, true);
    dt_promise_end();
    const bool outlives = conf && dt_job_outlives(conf);
    dt_conf_destroy(conf);
    return outlives ? EX_OK : EXIT_FAILURE;
}

/* Explains a key or, if it looks like one, a DeepSpeed file. */
static int explain_key(const char *key)
{
    struct dt_error err;
    const char *dot = strrchr(key, '.');
    if (dot && strcmp(dot, ".json") == 0) {
        if (dt_conf_explain_deepspeed(key, stdout, &err) == 0)
            return EX_OK;
        return dt_cmd_fail("check", &err);
    }
    if (dt_conf_explain(key, stdout, &err) < 0)
        return dt_cmd_usage_error("check", "--explain %s", err.text);
    return EX_OK;
}

/* The value of a key in a file. */
struct value {
    const char *key, *file;
    bool found;
};

static void print_value(void *ctx, const char *key, const char *text,
                        bool given)
{
    struct value *value = ctx;
    if (strcmp(key, value->key) != 0)
        return;
    printf("\n%s: %s: %s%s\n", value->file, key, text,
           given ? "" : "  # default");
    value->found = true;
}

/* Prints the value of a key in a file; for distributed.strategy also the
 * strategy that auto takes.
 */
static int explain_value(const char *key, const char *file)
{
    struct value value = {.key = key, .file = file};
    struct dt_error err;
    char strategy[256] = "";
    struct dt_conf *conf = dt_cmd_load("check", file, true);
    int status = EX_OK;
    if (!conf)
        return EX_CONFIG;
    if (dt_conf_each(conf, print_value, &value) < 0)
        status = EX_OSERR;
    else if (!value.found)
        status = dt_cmd_usage_error("check",
                                    "--explain %s %s: expected the full name "
                                    "of a key that this file's run looks at",
                                    key, file);
    else if (strcmp(key, "distributed.strategy") == 0 && conf->trains &&
             dt_cmd_strategy_text(conf, strategy, &err) < 0)
        status = dt_cmd_fail("check", &err);
    if (strategy[0])
        printf("%s: strategy: %s\n", file, strategy);
    dt_conf_destroy(conf);
    return status;
}

int dt_cmd_check(int argc, char **argv)
{
    struct options options = {0};
    int status = parse_options(argc, argv, &options);
    if (status != DT_CMD_RUN)
        return status;
    status = EX_OK;
    if (options.keys)
        dt_conf_schema(stdout);
    if (options.explain)
        status = explain_key(options.explain);
    if (options.explain && options.file && status == EX_OK)
        status = explain_value(options.explain, options.file);
    else if (options.outlives && options.file)
        status = check_outlives(options.file);
    else if (options.file && !options.explain)
        status = check_file(&options);
    return dt_cmd_flush("check", status);
}
