/* SPDX-License-Identifier: Apache-2.0 */
/*
 * conf.h - one YAML file into one checked, read-only struct
 *
 * The schema is a table (schema.c): one row a key with path, type, default,
 * range, unit and help; it drives parsing, `disttrain check`, and the key list
 * of disttrain.yaml(5). Every problem of a file is reported, as
 * file:line:col: key: text, in file order.
 */
#ifndef DT_CONF_CONF_H
#define DT_CONF_CONF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/error.h"
#include "base/kind.h"

/* Where something stands: line and column (in characters) from 1. */
struct dt_conf_place {
    int line, column;
};

struct dt_conf_env {
    char *name, *value;
    struct dt_conf_place place; /* of the name */
};

struct dt_conf_list {
    char **text;    /* of files: absolute paths */
    double *weight; /* of files: how many times an epoch has each */
    size_t count;
};

enum dt_conf_algorithm { DT_CONF_SFT };
enum dt_conf_device { DT_CONF_AUTO_DEVICE, DT_CONF_CPU, DT_CONF_CUDA };
enum dt_conf_attention {
    DT_CONF_AUTO_ATTENTION,
    DT_CONF_FLASH,
    DT_CONF_MATH,
};
enum dt_conf_format {
    DT_CONF_FORMAT_AUTO,
    DT_CONF_FORMAT_TEXT,
    DT_CONF_FORMAT_TOKENS_BIN,
    DT_CONF_FORMAT_PROMPT, /* the others: lines of JSON */
    DT_CONF_FORMAT_MESSAGES,
    DT_CONF_FORMAT_TOKENISED,
};
enum dt_conf_tokenizer {
    DT_CONF_TOKENIZER_AUTO,
    DT_CONF_TOKENIZER_BYTE,
    DT_CONF_TOKENIZER_PATH,
};
enum dt_conf_chat {
    DT_CONF_CHAT_AUTO,
    DT_CONF_CHAT_NONE,
    DT_CONF_CHATML,
    DT_CONF_CHAT_QWEN25,
    DT_CONF_CHAT_QWEN3,
    DT_CONF_CHAT_LLAMA2,
    DT_CONF_CHAT_LLAMA3,
    DT_CONF_CHAT_LLAMA31,
    DT_CONF_CHAT_MISTRAL,
};
enum dt_conf_loss {
    DT_CONF_LOSS_AUTO,
    DT_CONF_LOSS_FULL,
    DT_CONF_LOSS_COMPLETION,
    DT_CONF_LOSS_ASSISTANT,
};
enum dt_conf_packing {
    DT_CONF_PACK_NONE,
    DT_CONF_PACK_BFD,
    DT_CONF_PACK_BFD_SPLIT,
    DT_CONF_PACK_WRAPPED,
};
enum dt_conf_when { DT_CONF_NO, DT_CONF_STEPS, DT_CONF_EPOCH };
enum dt_conf_resume {
    DT_CONF_RESUME_NONE,
    DT_CONF_RESUME_AUTO,
    DT_CONF_RESUME_PATH,
};
enum dt_conf_strategy { DT_CONF_AUTO_STRATEGY, DT_CONF_DDP };
enum dt_conf_backend { DT_CONF_AUTO_BACKEND, DT_CONF_GLOO, DT_CONF_NCCL };
enum dt_conf_optimizer { DT_CONF_ADAMW, DT_CONF_ADAM };
enum dt_conf_decay {
    DT_CONF_DECAY_HF,    /* no bias and no norm */
    DT_CONF_DECAY_NDIM2, /* only tensors with two or more dimensions */
    DT_CONF_DECAY_ALL,
    DT_CONF_DECAY_NONE,
};
enum dt_conf_dtype {
    DT_CONF_FP32,
    DT_CONF_BF16,
    DT_CONF_FP16,
    DT_CONF_AUTO_DTYPE,
};
enum { DT_CONF_REDUCE_COMPUTE = 2 }; /* only while a file is read */
enum dt_conf_scaler {
    DT_CONF_SCALER_STATIC,
    DT_CONF_SCALER_DEEPSPEED,
    DT_CONF_SCALER_TORCH,
    DT_CONF_AUTO_SCALER, /* only while a file is read */
};
enum dt_conf_lr_scaling {
    DT_CONF_LR_AS_GIVEN,
    DT_CONF_LR_LINEAR,
    DT_CONF_LR_SQRT,
};
enum dt_conf_schedule {
    DT_CONF_CONSTANT,
    DT_CONF_CONSTANT_WITH_WARMUP,
    DT_CONF_LINEAR,
    DT_CONF_COSINE,
    DT_CONF_COSINE_WITH_RESTARTS,
    DT_CONF_COSINE_WITH_MIN_LR,
    DT_CONF_COSINE_WARMUP_WITH_MIN_LR,
    DT_CONF_POLYNOMIAL,
    DT_CONF_INVERSE_SQRT,
    DT_CONF_WARMUP_STABLE_DECAY,
    DT_CONF_NANOGPT,
    DT_CONF_WARMUP_LR, /* DeepSpeed's are the last ones */
    DT_CONF_WARMUP_DECAY_LR,
    DT_CONF_WARMUP_COSINE_LR,
};
enum dt_conf_curve {
    DT_CONF_CURVE_LINEAR,
    DT_CONF_CURVE_LOG,
    DT_CONF_CURVE_COSINE,
    DT_CONF_CURVE_SQRT,
};

/* Field names are the keys. Strings are NUL-terminated and owned by the
 * configuration; NULL means not given. Paths are absolute. A number of steps
 * with a ratio above 0 beside it is ceil(ratio * all steps): see
 * dt_conf_resolve_steps.
 */
struct dt_conf {
    char *file; /* absolute path of the file itself */
    long version;
    int algorithm; /* enum dt_conf_algorithm */
    struct {
        char *name, *output_dir;
        bool overwrite;
        int device; /* enum dt_conf_device */
        bool deterministic;
        uint64_t seed, data_seed;
    } run;
    struct {
        char *path;        /* directory with config.json, or NULL: inline */
        char *config_path; /* the same, with random weights */
        int random_init;   /* model.init: random (1) | pretrained (0) */
        char *type;        /* inline keys, as config.json spells them */
        long vocab_size, n_positions, n_embd, n_layer, n_head, n_inner;
        double layer_norm_epsilon, initializer_range;
        int tokenizer; /* enum dt_conf_tokenizer */
        char *tokenizer_path;
        int attention; /* enum dt_conf_attention */
        bool gradient_checkpointing, disable_dropout;
    } model;
    struct {
        struct dt_conf_list train, eval;
        enum dt_kind kind;       /* of both; LINES of text and lines mixed */
        int format;              /* enum dt_conf_format */
        long max_length;         /* T */
        double validation_split; /* last part of train, when eval is empty */
        bool shuffle;
        long num_workers, prefetch_factor;
        char *text_column, *prompt_column, *completion_column;
        char *messages_column;
        int chat_template; /* enum dt_conf_chat */
        bool parse_special;
        int loss_on;    /* enum dt_conf_loss */
        int packing;    /* enum dt_conf_packing */
        int truncation; /* keep_start (0) | keep_end (1) */
        long pad_to_multiple_of;
        double bad_lines; /* share that may be malformed */
        char *cache_dir;  /* NULL: beside the files */
    } data;
    struct {
        long per_device_batch_size, global_micro_batch_size, train_batch_size;
        long batch_size;   /* 0, or one of the three, by batch_size_is */
        int batch_size_is; /* 0, or 1, 2, 3 in the order above */
        long per_device_eval_batch_size;
        long gradient_accumulation_steps;
        double epochs;
        long max_steps; /* -1: by epochs */
        double max_grad_norm, label_smoothing;
        bool eval_only;
        int eval_strategy; /* enum dt_conf_when */
        long eval_steps;
        double eval_steps_ratio;
        int resume; /* enum dt_conf_resume */
        char *resume_path;
    } training;
    struct {
        int strategy;    /* enum dt_conf_strategy */
        int backend;     /* enum dt_conf_backend */
        char *interface; /* NULL: the one that reaches rank 0 */
        long timeout_s;
        long bucket_cap_mb;
        int lr_scaling; /* enum dt_conf_lr_scaling */
        long lr_scaling_ref_world;
    } distributed;
    struct {
        int name; /* enum dt_conf_optimizer */
        double lr, beta1, beta2, eps, weight_decay;
        int decay_filter; /* enum dt_conf_decay */
    } optimizer;
    struct {
        int name;            /* enum dt_conf_schedule */
        double warmup_steps; /* < 1: a ratio of all steps */
        double warmup_ratio; /* used when warmup_steps is 0 */
        double min_lr;       /* absolute, also when min_lr_rate is given */
        double min_lr_rate;
        double num_cycles, power;
        long timescale;                 /* 0: warmup_steps, or 10000 without */
        long decay_steps, stable_steps; /* 0: what is left of the run */
        double decay_steps_ratio, stable_steps_ratio;
        int warmup_type, decay_type; /* enum dt_conf_curve */
        double warmup_lr_rate;       /* -1: 1 / warmup_steps */
        double warmup_min_lr, warmup_max_lr;
        long total_num_steps; /* 0: not given */
    } scheduler;
    struct {
        int compute;          /* enum dt_conf_dtype; auto until
                                 dt_conf_resolve_device */
        int opt_level;        /* the same, and settled in compute */
        int grad_accum_dtype; /* fp32 */
        bool tf32; /* products of fp32 may round their factors */
        int reduce_bf16;      /* precision.reduce_dtype: bf16 (1) | fp32 */
        int loss_scaler;      /* enum dt_conf_scaler; none but with fp16 */
        double loss_scale;    /* of static */
        long initial_scale_power, loss_scale_window, hysteresis;
        bool consecutive_hysteresis;
        double min_loss_scale;
        long growth_interval;
    } precision;
    struct {
        int strategy; /* DT_CONF_NO | DT_CONF_STEPS */
        long steps;
        double steps_ratio;
        long total_limit; /* 0: keep all */
        long max_failures;
        bool only_model;
        int save_dtype;      /* enum dt_conf_dtype */
        long max_shard_size; /* bytes */
    } checkpoint;
    struct {
        long steps;
        double steps_ratio;
        bool first_step, to_stdout, to_jsonl;
        int level; /* enum dt_log_level */
        char *dir;
        bool rank_logs;      /* a file for each rank in dir */
        char *console_ranks; /* "0,4-7", NULL: all */
    } logging;
    struct {
        /* numbers: 0, strings: NULL where the file leaves it to Slurm */
        long nodes, ntasks_per_node, gpus_per_node, cpus_per_task;
        long num_processes; /* of all nodes */
        char *partition, *account, *qos, *time, *mem, *constraint, *exclude;
        char *container, *master_addr;
        long master_port;
        char *signal;      /* NAME or NAME@SECONDS */
        int signal_number; /* 0: none */
        long signal_s;     /* before the time limit */
        bool requeue, preflight, job_comment;
        long max_requeues, max_restarts;
        long hang_timeout_s;         /* 0: never */
        int hang_ends;               /* launch.hang_action: end (1) | report */
        struct dt_conf_list command; /* run instead of training */
        struct dt_conf_list frameworks; /* none: all */
        int one_gpu;                    /* gpu_visibility: one (1) | all */
        int no_cpu_bind;                /* cpu_bind: none (1) | auto */
    } launch;
    struct dt_conf_env *env;
    size_t env_count;
    bool trains; /* false: no key but of launch, env, run and logging */
    uint64_t fingerprint;        /* of everything that changes the result, and
                                    of no path; complete after
                                    dt_conf_resolve_device and _batch */
    struct dt_conf_place *place; /* of each key, in the order of the schema;
                                    line 0: default, -1: worked out */
};

/* A list of problems, in file order. */
struct dt_conf_problems {
    char **text; /* "file:line:col: key: what" */
    size_t count;
};

/* Frees the texts; the list is empty then. */
void dt_conf_problems_fini(struct dt_conf_problems *problems);

/* Reads and checks `path`; /dev/null is the file without a key. NULL if there
 * is any problem: all are in *problems then (no entry: out of memory). Free
 * with dt_conf_destroy. Warnings go to *warnings. Both lists are filled in any
 * case: dt_conf_problems_fini.
 */
struct dt_conf *dt_conf_load(const char *path,
                             struct dt_conf_problems *problems,
                             struct dt_conf_problems *warnings);
void dt_conf_destroy(struct dt_conf *conf); /* NULL is fine */

/* True if the file gives the key `path`, which the schema must have. */
bool dt_conf_given(const struct dt_conf *conf, const char *path);

/* Where the key stands, or 1:1 if the file does not give it. */
struct dt_conf_place dt_conf_place_of(const struct dt_conf *conf,
                                      const char *path);

/* What is wrong with a variable that somebody has set for a run, or NULL: it is
 * read by nothing, has a new name, or costs speed. `trains`: it is for our own
 * trainer; `nodes`: of the run, 0 if that is not known. *refused: it may not be
 * set at all.
 */
const char *dt_conf_lint_variable(const char *name, const char *value,
                                  bool trains, long nodes, bool *refused);

/* Reads "5", "1:30:00", "2-12" ... as Slurm does. False if it is no time. */
bool dt_conf_parse_time(const char *text, long *seconds);

/* A number of bytes: a whole number, or a number and KB, MB, GB, TB (of 1000)
 * or KiB, MiB, GiB, TiB (of 1024). False if text is none, or below one byte.
 */
bool dt_conf_parse_size(const char *text, long *bytes);

/* What depends on the device that was chosen: run.device, distributed.backend
 * and precision.compute are not auto any more. -1: EX_CONFIG, a key that asks
 * for what this device does not do, or EX_OSERR.
 */
int dt_conf_resolve_device(struct dt_conf *conf, enum dt_conf_device device,
                           struct dt_error *err);

/* What depends on the world: fills per_device_batch_size,
 * global_micro_batch_size, train_batch_size, gradient_accumulation_steps and
 * per_device_eval_batch_size from those that are given. -1: EX_CONFIG with all
 * numbers if no exact division exists, or EX_OSERR.
 */
int dt_conf_resolve_batch(struct dt_conf *conf, int world,
                          struct dt_error *err);

/* What depends on the number of optimizer steps of the run, `total` >= 1:
 * turns the ratios of eval, checkpoint, logging, warm-up and decay steps into
 * steps. Without the call those steps are LONG_MAX. -1: EX_CONFIG, a schedule
 * of another length.
 */
int dt_conf_resolve_steps(struct dt_conf *conf, long total,
                          struct dt_error *err);

/* Writes the final configuration as YAML, every key with its value and, as a
 * comment, where it comes from. Reading it back gives the same configuration.
 */
void dt_conf_dump(const struct dt_conf *conf, FILE *out);

/* Writes the keys that change what a run computes, as a line `key: value` each:
 * what the fingerprint is of.
 */
void dt_conf_print_results(const struct dt_conf *conf, FILE *out);

/* Writes the schema, one line a key, tab-separated: path, what it expects,
 * default ("-" for none), aliases (space-separated, "-" for none), help. For a
 * key that is only known, the second word is "later" and the help says what it
 * waits for. The key list of disttrain.yaml(5) is made of it.
 */
void dt_conf_schema(FILE *out);

/* The YAML reader: "libyaml 0.2.5". */
const char *dt_conf_library(void);

#endif /* DT_CONF_CONF_H */
