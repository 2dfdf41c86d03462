/* SPDX-License-Identifier: Apache-2.0 */
/* test_conf_values.c - good configurations arrive in the struct as meant */
#include "config.h"

#include <limits.h>

#include "base/log.h"
#include "tests/unit/conf.h"

static char *in_directory(const char *name)
{
    static char path[2][PATH_MAX];
    static int turn;
    turn = !turn;
    snprintf(path[turn], sizeof(path[turn]), "%s/%s", test_directory, name);
    return path[turn];
}

static void the_least_configuration_is_filled_with_defaults(void **state)
{
    struct dt_conf *conf = load_good(LEAST, "");
    (void)state;
    assert_string_equal(conf->file, in_directory("t.yaml"));
    assert_string_equal(conf->run.output_dir, in_directory("outputs/run"));
    assert_string_equal(conf->logging.dir, in_directory("outputs/run/logs"));
    assert_int_equal(conf->run.data_seed, 42);
    assert_null(conf->model.path);
    assert_true(conf->model.random_init);
    assert_int_equal(conf->model.n_inner, 4 * 96);
    assert_int_equal(conf->model.vocab_size, 257);
    assert_int_equal(conf->data.train.count, 1);
    assert_string_equal(conf->data.train.text[0], in_directory("train.txt"));
    assert_int_equal(conf->data.eval.count, 0);
    assert_int_equal(conf->training.max_steps, -1);
    assert_true(conf->training.epochs == 3);
    assert_int_equal(conf->training.eval_steps, 10);
    assert_int_equal(conf->training.resume, DT_CONF_RESUME_NONE);
    assert_null(conf->distributed.interface);
    assert_true(conf->optimizer.lr == 2e-5);
    assert_true(conf->optimizer.beta2 == 0.999);
    assert_int_equal(conf->scheduler.name, DT_SCHEDULE_LINEAR);
    assert_true(conf->logging.to_stdout && conf->logging.to_jsonl);
    assert_true(conf->logging.to_html);
    assert_int_equal(conf->logging.level, DT_LOG_INFO);
    assert_int_equal(conf->env_count, 0);
    dt_conf_destroy(conf);
    dt_conf_destroy(NULL);
}

static void a_byte_order_mark_before_the_file_is_no_part_of_it(void **state)
{
    (void)state;
    dt_conf_destroy(load_good("\xef\xbb\xbf" LEAST, ""));
}

static void numbers_are_read_in_every_notation(void **state)
{
    struct dt_conf *conf =
        load_good(LEAST "run: {seed: 0xff, data_seed: 18446744073709551615}\n"
                        "training: {max_steps: 2e3, epochs: .5}\n"
                        "checkpoint: {steps: 0.25, total_limit: 0o17}\n"
                        "logging: {steps: +20}\n"
                        "optimizer: {lr: 3.E-4, eps: 1e-07, weight_decay: 0x1, "
                        "adam_beta1: 0.8}\n"
                        "scheduler: {warmup_steps: 0.1}\n",
                  "");
    (void)state;
    assert_int_equal(conf->run.seed, 255);
    assert_true(conf->run.data_seed == UINT64_MAX);
    assert_int_equal(conf->training.max_steps, 2000);
    assert_true(conf->training.epochs == 0.5);
    assert_int_equal(conf->checkpoint.total_limit, 15);
    assert_true(conf->optimizer.lr == 3e-4);
    assert_true(conf->optimizer.weight_decay == 1);
    assert_true(conf->optimizer.beta1 == 0.8);
    assert_true(conf->optimizer.beta2 == 0.999);
    assert_int_equal(conf->checkpoint.steps, LONG_MAX);
    assert_int_equal(dt_conf_resolve_steps(conf, 1001, NULL), 0);
    assert_true(conf->scheduler.warmup_steps == 101);
    assert_int_equal(conf->checkpoint.steps, 251);
    assert_int_equal(conf->logging.steps, 20);
    assert_int_equal(conf->training.eval_steps, 20);
    dt_conf_destroy(conf);
}

static void keys_of_other_frameworks_are_understood(void **state)
{
    struct dt_conf *conf = load_good(
        LEAST "experiment_name: x\n"
              "training:\n"
              "  learning_rate: 1e-3\n"
              "  num_train_epochs: 2\n"
              "  grad_accum: 4\n"
              "  max_seq_length: 64\n"
              "  distributed_strategy: DDP\n"
              "  lr_scheduler_type: COSINE\n"
              "  evaluation_strategy: Epoch\n"
              "  dataloader: {batch_size: 2, batch_size_is: per_device}\n"
              "optimizer: {learning_rate: 0.001}\n"
              "lr: 1.0e-3\n"
              "use_ddp: true\n"
              "bf16: false\n"
              "save_steps: 7\n"
              "save_total_limit: null\n"
              "mixed_precision: no\n"
              "validation_file: train.txt\n"
              "resume_from_checkpoint: true\n"
              "report_to: none\n",
        "");
    (void)state;
    assert_string_equal(conf->run.name, "x");
    assert_true(conf->optimizer.lr == 1e-3);
    assert_true(conf->training.epochs == 2);
    assert_int_equal(conf->training.gradient_accumulation_steps, 4);
    assert_int_equal(conf->training.per_device_batch_size, 2);
    assert_int_equal(conf->data.max_length, 64);
    assert_int_equal(conf->data.eval.count, 1);
    assert_int_equal(conf->distributed.strategy, DT_CONF_DDP);
    assert_int_equal(conf->scheduler.name, DT_SCHEDULE_COSINE);
    assert_int_equal(conf->training.eval_strategy, DT_CONF_EPOCH);
    assert_int_equal(conf->checkpoint.steps, 7);
    assert_int_equal(conf->checkpoint.total_limit, 0);
    assert_int_equal(conf->training.resume, DT_CONF_RESUME_AUTO);
    assert_true(conf->logging.to_stdout && conf->logging.to_jsonl);
    assert_false(conf->logging.to_tensorboard || conf->logging.to_wandb);
    dt_conf_destroy(conf);
}

static void paths_expand_variables_and_the_home_directory(void **state)
{
    setenv("DT_DATA", test_directory, 1);
    setenv("DT_EMPTY", "", 1);
    setenv("HOME", test_directory, 1);
    struct dt_conf *conf =
        load_good(LEAST "data: {eval: [\"${DT_DATA}/train.txt\", ~/train.txt, "
                        "./train.txt, {path: \"${DT_EMPTY:-train}.txt\"}]}\n"
                        "training: {resume: .}\n"
                        "run: {output_dir: ../out/./a//}\n",
                  "");
    (void)state;
    for (size_t i = 0; i < 4; i++)
        assert_string_equal(conf->data.eval.text[i], in_directory("train.txt"));
    assert_int_equal(conf->data.eval.count, 4);
    assert_int_equal(conf->training.resume, DT_CONF_RESUME_PATH);
    assert_string_equal(conf->training.resume_path, test_directory);
    assert_string_equal(conf->run.output_dir, "/tmp/out/a");
    dt_conf_destroy(conf);
    setenv("DT_DATA", "~/train.txt", 1); /* as `export DT_DATA="~/..."` does */
    conf = load_good("algorithm: sft\nmodel.n_embd: 96\n"
                     "training.per_device_batch_size: 2\n"
                     "data: {train: \"${DT_DATA}\", "
                     "eval: \"${DT_NONE:-~}/train.txt\", cache_dir: 'a$ $1'}\n",
                     "");
    assert_string_equal(conf->data.train.text[0], in_directory("train.txt"));
    assert_string_equal(conf->data.eval.text[0], in_directory("train.txt"));
    assert_string_equal(conf->data.cache_dir, in_directory("a$ $1"));
    dt_conf_destroy(conf);
}

/* Numbers, words, lists, sections and variables of ranks, with the type of what
 * the variable holds.
 */
static void variables_are_expanded_in_every_value(void **state)
{
    (void)state;
    setenv("DT_LR", "2e-3", 1);
    setenv("DT_NAME", "a b", 1);
    unsetenv("DT_NONE");
    struct dt_conf *conf = load_good(
        "algorithm: sft\nmodel.n_embd: 96\n"
        "training.per_device_batch_size: 2\ndata.train: train.jsonl\n"
        "optimizer: {lr: \"${DT_LR}\", betas: [\"${DT_B:-0.8}\", 0.9]}\n"
        "run: {name: \"x-${DT_NAME}\", seed: '${DT_NONE:-${DT_NO:-7}}'}\n"
        "precision: {compute: \"${DT_NONE:-fp32}\"}\n"
        "report_to: [\"${DT_NONE:-tensorboard}\"]\n"
        "chat_template_kwargs: {a: \"${DT_LR}\", b: \"${DT_NAME}\"}\n"
        "logging.wandb.notes: costs $5 $${DT_LR}\n"
        "env: {A: \"<${DT_NAME}>\", B: \"${DT_NONE:-}\"}\n"
        "launch.command: [sh, -c, 'echo ${RANK} $${x}']\n",
        "");
    assert_true(conf->optimizer.lr == 2e-3 && conf->optimizer.beta1 == 0.8);
    assert_string_equal(conf->run.name, "x-a b");
    assert_int_equal(conf->run.seed, 7);
    assert_int_equal(conf->precision.compute, DT_CONF_FP32);
    assert_true(conf->logging.to_tensorboard);
    assert_string_equal(conf->data.chat_template_kwargs,
                        "{\"a\": 0.002, \"b\": \"a b\"}");
    assert_string_equal(conf->logging.wandb.notes, "costs $5 ${DT_LR}");
    assert_string_equal(conf->env[0].value, "<a b>");
    assert_string_equal(conf->env[1].value, "");
    assert_string_equal(conf->launch.command.text[2], "echo ${RANK} $${x}");
    dt_conf_destroy(conf);
    static const struct broken cases[] = {
        {LEAST "lr: ${DT_NONE}\nenv: {A: \"${DT_NONE}\"}\nbf16: ${DT_NONE}\n",
         "t.yaml:5:5: optimizer.lr: the environment variable DT_NONE is not "
         "set: set it, or write ${DT_NONE:-default}\n"
         "t.yaml:6:10: env.A: the environment variable DT_NONE is not set: set "
         "it, or write ${DT_NONE:-default}\n"
         "t.yaml:7:7: bf16: the environment variable DT_NONE is not set: set "
         "it, or write ${DT_NONE:-default}\n"},
        {LEAST "lr: ${DT_NAME}\n",
         "t.yaml:5:5: optimizer.lr: expected a number > 0, got \"a b\"\n"},
    };
    CHECK_ALL(cases);
    unsetenv("DT_LR");
    unsetenv("DT_NAME");
}

/* A number of the job is not known before it: see dt_promise_begin. */
static void values_that_only_the_job_has_are_left_for_it(void **state)
{
    (void)state;
    setenv("SLURM_ARRAY_TASK_ID", "${SLURM_ARRAY_TASK_ID}", 1);
    struct dt_conf *conf = load_more("seed: ${SLURM_ARRAY_TASK_ID}\n"
                                     "run.name: r${SLURM_ARRAY_TASK_ID}\n");
    assert_int_equal(conf->run.seed, 42);
    assert_string_equal(conf->run.name, "r${SLURM_ARRAY_TASK_ID}");
    dt_conf_destroy(conf);
    setenv("SLURM_ARRAY_TASK_ID", "5", 1);
    conf = load_more("seed: ${SLURM_ARRAY_TASK_ID}\n");
    assert_int_equal(conf->run.seed, 5);
    dt_conf_destroy(conf);
    unsetenv("SLURM_ARRAY_TASK_ID");
}

/* $NAME is refused in every key that is a path, and noticed in values that are
 * given to the ranks.
 */
static void unbraced_variables_are_refused_in_paths(void **state)
{
    static const struct broken cases[] = {
        {LEAST "data.eval: $HOME/a.txt\n",
         "t.yaml:5:12: data.eval: $HOME is not expanded: write ${HOME}\n"},
        {LEAST "run.output_dir: a/$_X.out\n",
         "t.yaml:5:17: run.output_dir: $_X is not expanded: write ${_X}\n"},
        {LEAST "logging.dir: $A_1\n",
         "t.yaml:5:14: logging.dir: $A_1 is not expanded: write ${A_1}\n"},
        {LEAST "training.resume: $RUN/checkpoint-1\n",
         "t.yaml:5:18: training.resume: $RUN is not expanded: write ${RUN}\n"},
        {LEAST "model.tokenizer: $TOK\n",
         "t.yaml:5:18: model.tokenizer: $TOK is not expanded: write "
         "${TOK}\n"},
        {LEAST "data.cache_dir: $CACHE\n",
         "t.yaml:5:17: data.cache_dir: $CACHE is not expanded: write "
         "${CACHE}\n"},
    };
    (void)state;
    CHECK_ALL(cases);
    dt_conf_destroy(load_good(
        LEAST "env: {A: ~/x, B: \"x:${DT_X:-$y}\", C: $HOME, D: a~b, E: 5$}\n",
        "t.yaml:5:7: env.A: exported as it is written: only ${NAME} is "
        "expanded here\n"
        "t.yaml:5:15: env.B: exported as it is written: only ${NAME} is "
        "expanded here\n"
        "t.yaml:5:35: env.C: exported as it is written: only ${NAME} is "
        "expanded here\n"));
}

/* Messages name paths as people write them, and the path is still the same:
 * behind a link, ".." leads elsewhere.
 */
static void shortened_paths_lead_to_the_same_place(void **state)
{
    static const char *const paths[][2] = {
        {"/usr/../usr/./bin/", "/usr/bin"},
        {"/..", "/"},
        {"/usr/..", "/"},
        {"/", "/"},
        {"/no/such/../x", "/no/such/../x"},
        {"/usr/...", "/usr/..."},
    };
    struct dt_error err;
    char text[512];
    (void)state;
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        char *path = dt_conf_path("/a", paths[i][0], &err);
        assert_string_equal(path, paths[i][1]);
        free(path);
    }
    assert_int_equal(symlink("/usr/bin", "link"), 0);
    char *path = dt_conf_path(test_directory, "link/../x", &err);
    snprintf(text, sizeof(text), "%s/link/../x", test_directory);
    assert_string_equal(path, text);
    free(path);
    assert_int_equal(unlink("link"), 0);
}

static void environment_variables_keep_their_exact_text(void **state)
{
    struct dt_conf *conf = load_good(LEAST "env:\n"
                                           "  NCCL_DEBUG: INFO\n"
                                           "  A: ''\n"
                                           "  B: 010\n"
                                           "  C: |\n"
                                           "    two\n"
                                           "    lines\n",
                                     "");
    (void)state;
    assert_int_equal(conf->env_count, 4);
    assert_string_equal(conf->env[0].name, "NCCL_DEBUG");
    assert_string_equal(conf->env[0].value, "INFO");
    assert_string_equal(conf->env[1].value, "");
    assert_string_equal(conf->env[2].value, "010");
    assert_string_equal(conf->env[3].value, "two\nlines\n");
    dt_conf_destroy(conf);
}

/* Of at most 200 bytes, on one line. */
static void a_name_of_a_run_fits_a_directory_and_a_job(void **state)
{
    char *problems, *warnings, text[600], name[202];
    (void)state;
    for (size_t n = 200; n <= 201; n++) {
        memset(name, 'a', n);
        name[n] = '\0';
        snprintf(text, sizeof(text), LEAST "run.name: %s\n", name);
        struct dt_conf *conf = load_text(text, &problems, &warnings);
        assert_string_equal(problems,
                            n == 200 ? ""
                                     : "t.yaml:5:11: run.name: expected a name "
                                       "of at most 200 bytes, got 201\n");
        dt_conf_destroy(conf);
        free(problems);
        free(warnings);
    }
    static const struct broken cases[] = {
        {LEAST "run.name: \"a\\nb\"\n",
         "t.yaml:5:11: run.name: expected a name without control characters, "
         "such as ends of lines\n"},
        {"run.name: \"a\\x7f\"\nlaunch: {command: [a]}\n",
         "t.yaml:1:11: run.name: expected a name without control characters, "
         "such as ends of lines\n"}};
    CHECK_ALL(cases);
}

static void doubtful_settings_load_with_a_warning(void **state)
{
    struct dt_conf *conf = load_good(
        LEAST "run: {overwrite: Yes}\n"
              "distributed: {find_unused_parameters: true}\n"
              "data: {eval: train.txt, validation_split: 0.1}\n"
              "scheduler: {name: constant, warmup_ratio: 0.1, min_lr: 1e-6}\n"
              "training: {max_grad_norm: 0, train_batch_size: 12}\n"
              "env: {NCCL_TIMEOUT: 3, XLA_FLAGS: x}\n"
              "mode: train\n",
        "t.yaml:5:18: run.overwrite: Yes is a boolean only in old YAML: "
        "write true\n"
        "t.yaml:6:39: distributed.find_unused_parameters: not "
        "needed here: every parameter is used in every step\n"
        "t.yaml:7:43: data.validation_split: no effect: data.eval is given\n"
        "t.yaml:8:43: scheduler.warmup_ratio: no effect with scheduler "
        "constant: use constant_with_warmup\n"
        "t.yaml:8:56: scheduler.min_lr: no effect with scheduler constant\n"
        "t.yaml:9:27: training.max_grad_norm: 0: gradients are not clipped\n"
        "t.yaml:10:7: env.NCCL_TIMEOUT: nothing reads it: the limit is "
        "timeout= of init_process_group in PyTorch, --ddp_timeout in Hugging "
        "Face, DEEPSPEED_TIMEOUT (minutes) in DeepSpeed, "
        "distributed.timeout_s in disttrain\n"
        "t.yaml:10:24: env.XLA_FLAGS: read by JAX only\n"
        "t.yaml:11:7: mode: the command decides: `disttrain train` "
        "trains, `disttrain sbatch` writes a batch script; only eval, which "
        "sets training.eval_only, has an effect\n");
    (void)state;
    dt_conf_destroy(conf);
    conf = load_good("algorithm: sft\nmodel: {path: .}\ndata: {train: "
                     "train.txt}\nbatch_size: 1\nbatch_size_is: train\n"
                     "lr: 1e-3\ntraining: {max_steps: 5}\n"
                     "warmup_steps: 6\n",
                     "t.yaml:8:15: scheduler.warmup_steps: E110 longer than "
                     "the run of 5 steps\n");
    dt_conf_destroy(conf);
    conf = load_good("algorithm: sft\nmodel: {path: .}\ndata: {train: "
                     "train.txt}\ntraining: {per_device_batch_size: 1}\n"
                     "lr: 1e-3\n",
                     "t.yaml:5:5: optimizer.lr: 0.001 without warm-up is high "
                     "for pretrained weights\n");
    dt_conf_destroy(conf);
}

/* The lines of a dump without the comments that say where from. */
static char *dump(const struct dt_conf *conf)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    dt_conf_dump(conf, out);
    fclose(out);
    for (char *p; (p = strstr(text, "  # ")) != NULL;) {
        char *end = strchr(p, '\n');
        memmove(p, end, strlen(end) + 1);
    }
    return text;
}

/* Everything that is dumped reads back as the same configuration. */
static void check_round_trip(const char *text)
{
    struct dt_conf *first = load_good(text, "");
    char *dumped = dump(first);
    struct dt_conf *second = load_good(dumped, "");
    char *again = dump(second);
    assert_string_equal(dumped, again);
    assert_true(first->fingerprint == second->fingerprint);
    free(dumped);
    free(again);
    dt_conf_destroy(first);
    dt_conf_destroy(second);
}

static void a_dumped_configuration_reads_back_the_same(void **state)
{
    (void)state;
    check_round_trip(LEAST);
    check_round_trip(LEAST "scheduler: {name: WarmupCosineLR, warmup_type: "
                           "linear}\nfp16_opt_level: O1\n"
                           "initial_scale_power: 8\nreduce_dtype: compute\n");
    check_round_trip(LEAST "lr_scheduler_type: warmup_stable_decay\n"
                           "num_decay_steps: 0.2\nmin_lr_ratio: 0.1\n"
                           "loss_scale: 8\nfp16: true\n");
    check_round_trip(
        "algorithm: sft\n"
        "run: {name: 'a \"b\" \\\\ \xc3\xa4', seed: 7}\n"
        "data: {train: [train.txt, train.txt], validation_split: 0.125}\n"
        "model: {n_embd: 96, n_layer: 2, init: random}\n"
        "training: {train_batch_size: 16, gradient_accumulation_steps: 2, "
        "eval_strategy: steps, eval_steps: 0.1, resume: .}\n"
        "optimizer: {lr: 0.1, adam_beta2: 0.95, decay_filter: ndim2}\n"
        "scheduler: {name: cosine_with_min_lr, min_lr_rate: 0.1}\n"
        "precision: {reduce_dtype: bf16}\n"
        "logging: {report_to: [jsonl, wandb], level: debug, names: deepspeed, "
        "wandb: {project: p, tags: [a, b c], notes: 'x: \"y\"\n\n  z'}}\n"
        "distributed: {interface: lo}\n"
        "env: {A: \"x\\ny\", B: '~'}\n");
}

/* A model that is described elsewhere is not described in the dump. */
static void a_dumped_model_path_reads_back_the_same(void **state)
{
    (void)state;
    check_round_trip("algorithm: sft\nmodel: {path: .}\n"
                     "data: {train: tokens.bin}\n"
                     "training: {per_device_batch_size: 1}\n");
    check_round_trip("algorithm: sft\nmodel: {config_path: .}\n"
                     "data: {train: [{path: tokens.bin, weight: 2}]}\n"
                     "training: {per_device_batch_size: 1}\n");
}

static void the_dump_says_where_each_value_comes_from(void **state)
{
    struct dt_conf *conf = load_good(LEAST "learning_rate: 1e-3\n", "");
    struct dt_error err;
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    (void)state;
    assert_int_equal(dt_conf_resolve_batch(conf, 4, &err), 0);
    dt_conf_dump(conf, out);
    fclose(out);
    assert_non_null(strstr(text, "\noptimizer:\n  name: adamw  # default\n"
                                 "  lr: 0.001  # line 5\n"));
    assert_non_null(strstr(text, "  train_batch_size: 8  # worked out\n"));
    free(text);
    dt_conf_destroy(conf);
}

static uint64_t fingerprint(const char *more, int world)
{
    struct dt_conf *conf = load_more(more);
    struct dt_error err;
    assert_int_equal(dt_conf_resolve_batch(conf, world, &err), 0);
    uint64_t value = conf->fingerprint;
    dt_conf_destroy(conf);
    return value;
}

static void only_what_changes_results_changes_the_fingerprint(void **state)
{
    uint64_t base = fingerprint("", 4);
    (void)state;
    assert_true(base == fingerprint("seed: 42\n", 4));
    assert_true(base == fingerprint("logging: {steps: 3}\nrun: {name: y}\n"
                                    "checkpoint: {steps: 9}\n",
                                    4));
    assert_true(base == fingerprint("grad_accum: 2\n", 2));
    assert_true(base != fingerprint("seed: 43\n", 4));
    assert_true(base != fingerprint("lr: 1e-3\n", 4));
    assert_true(base != fingerprint("max_length: 8\n", 4));
    assert_true(base != fingerprint("", 8));
}

static void only_regular_files_are_loaded(void **state)
{
    struct dt_conf_problems problems, warnings;
    (void)state;
    write_file("t.yaml", LEAST);
    struct dt_conf *conf = dt_conf_load("t.yaml", NULL, &problems, &warnings);
    assert_non_null(conf);
    assert_int_equal(problems.count, 0);
    dt_conf_destroy(conf);
    dt_conf_problems_fini(&problems);
    dt_conf_problems_fini(&warnings);
    assert_null(dt_conf_load("none.yaml", NULL, &problems, &warnings));
    assert_int_equal(problems.count, 1);
    assert_string_equal(problems.text[0], "none.yaml: cannot open: No such "
                                          "file or directory");
    dt_conf_problems_fini(&problems);
    assert_null(dt_conf_load(".", NULL, &problems, &warnings));
    assert_string_equal(problems.text[0], ".: not a regular file");
    dt_conf_problems_fini(&problems);
}

/* Loads `start` and `unit` repeated `times`; expects the last problem. */
static void check_large(const char *start, const char *unit, size_t times,
                        const char *last)
{
    size_t n = strlen(unit), first = strlen(start);
    char *text = malloc(first + n * times + 1), *problems, *warnings;
    memcpy(text, start, first + 1);
    for (size_t i = 0; i < times; i++)
        memcpy(text + first + n * i, unit, n + 1);
    assert_null(load_text(text, &problems, &warnings));
    size_t all = strlen(problems), wanted = strlen(last);
    assert_true(all >= wanted);
    assert_string_equal(problems + all - wanted, last);
    free(text);
    free(problems);
    free(warnings);
}

static void oversized_or_deeply_nested_files_are_refused(void **state)
{
    (void)state;
    check_large("a: {x: 1}\n", "x: 1\n", 8000, "t.yaml: and 7901 more\n");
    check_large("a: ", "[", 500000,
                "t.yaml:1:19: nested deeper than 16 "
                "levels\n");
    check_large("a: [", "1,", 20000,
                "t.yaml:1:32767: more than 16384 "
                "values\n");
    check_large("a", "a", 900000, "t.yaml:1:1: expected `key: value` lines\n");
    struct dt_conf_problems problems, warnings;
    FILE *file = fopen("t.yaml", "w");
    assert_non_null(file);
    for (int i = 0; i < 70000; i++)
        fputs("# a comment of a file\n", file);
    fclose(file);
    assert_null(dt_conf_load("t.yaml", NULL, &problems, &warnings));
    assert_string_equal(problems.text[0],
                        "t.yaml: 1540000 bytes; at most 1048576 are read");
    dt_conf_problems_fini(&problems);
    dt_conf_problems_fini(&warnings);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_least_configuration_is_filled_with_defaults),
        cmocka_unit_test(a_byte_order_mark_before_the_file_is_no_part_of_it),
        cmocka_unit_test(numbers_are_read_in_every_notation),
        cmocka_unit_test(keys_of_other_frameworks_are_understood),
        cmocka_unit_test(paths_expand_variables_and_the_home_directory),
        cmocka_unit_test(variables_are_expanded_in_every_value),
        cmocka_unit_test(values_that_only_the_job_has_are_left_for_it),
        cmocka_unit_test(unbraced_variables_are_refused_in_paths),
        cmocka_unit_test(shortened_paths_lead_to_the_same_place),
        cmocka_unit_test(environment_variables_keep_their_exact_text),
        cmocka_unit_test(a_name_of_a_run_fits_a_directory_and_a_job),
        cmocka_unit_test(doubtful_settings_load_with_a_warning),
        cmocka_unit_test(a_dumped_configuration_reads_back_the_same),
        cmocka_unit_test(a_dumped_model_path_reads_back_the_same),
        cmocka_unit_test(the_dump_says_where_each_value_comes_from),
        cmocka_unit_test(only_what_changes_results_changes_the_fingerprint),
        cmocka_unit_test(only_regular_files_are_loaded),
        cmocka_unit_test(oversized_or_deeply_nested_files_are_refused),
    };
    return cmocka_run_group_tests_name("conf values", tests, enter_directory,
                                       leave_directory);
}
