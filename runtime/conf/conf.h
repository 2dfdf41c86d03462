/* SPDX-License-Identifier: Apache-2.0 */
/*
 * conf.h - reads a YAML file into a checked, read-only struct
 *
 * The schema is a table (schema.c). Each key has a row with its path, type,
 * default, range, unit and help, which drives parsing, `disttrain check` and
 * the key list of disttrain.yaml(5). All problems of a file are reported in
 * file order, as file:line:col: key: text.
 */
#ifndef DT_CONF_CONF_H
#define DT_CONF_CONF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/choices.h"
#include "base/error.h"
#include "base/kind.h"
#include "conf/reward_types.h"
#include "conf/sections.h"
#include "conf/values.h"

struct dt_conf_env {
    char *name, *value;
    char *written;              /* the value before variables were expanded, or
                                   NULL */
    struct dt_conf_place place; /* where the name is */
};

enum dt_conf_algorithm {
    DT_CONF_SFT,
    DT_CONF_RM,
    DT_CONF_DPO,
    DT_CONF_PPO,
    DT_CONF_GRPO,
};
enum dt_conf_device { DT_CONF_AUTO_DEVICE, DT_CONF_CPU, DT_CONF_CUDA };
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
    DT_CONF_CHAT_FILE, /* the path is in chat_template_path */
};
enum dt_conf_truncation {
    DT_CONF_KEEP_START,
    DT_CONF_KEEP_END,
    DT_CONF_DROP, /* of pairs: those that are too long are left out */
};
enum dt_conf_reference {
    DT_CONF_REFERENCE_LIVE,
    DT_CONF_REFERENCE_PRECOMPUTE,
    DT_CONF_REFERENCE_NONE,
};
enum dt_conf_last_token { DT_CONF_LAST_TOKEN_AUTO, DT_CONF_LAST_TOKEN_END };
enum dt_conf_adapter { DT_CONF_ADAPTER_NONE, DT_CONF_ADAPTER_LORA };
enum dt_conf_when { DT_CONF_NO, DT_CONF_STEPS, DT_CONF_EPOCH };
enum dt_conf_resume {
    DT_CONF_RESUME_NONE,
    DT_CONF_RESUME_AUTO,
    DT_CONF_RESUME_PATH,
};
enum dt_conf_strategy {
    DT_CONF_AUTO_STRATEGY,
    DT_CONF_DDP,
    DT_CONF_ZERO1,
    DT_CONF_ZERO2,
    DT_CONF_ZERO3,
    DT_CONF_BY_DEEPSPEED, /* only while a file is read */
};
enum { /* distributed.shard_group, beside numbers of ranks */
       DT_CONF_GROUP_AUTO = 0,
       DT_CONF_GROUP_NODE = -1,
       DT_CONF_GROUP_WORLD = -2,
};
enum dt_conf_choice { DT_CONF_FALSE, DT_CONF_TRUE, DT_CONF_AUTO_CHOICE };
enum dt_conf_reduction {
    DT_CONF_AUTO_REDUCTION,
    DT_CONF_FLAT,
    DT_CONF_TWO_LEVEL,
};
enum dt_conf_offload {
    DT_CONF_OFFLOAD_NONE,
    DT_CONF_OFFLOAD_CPU,
    DT_CONF_OFFLOAD_NVME,
};
enum dt_conf_offload_compute {
    DT_CONF_COMPUTE_AUTO,
    DT_CONF_COMPUTE_DEVICE,
    DT_CONF_COMPUTE_HOST,
};
enum dt_conf_checkpointing {
    DT_CONF_CHECKPOINT_NONE,
    DT_CONF_CHECKPOINT_RECOMPUTE,
    DT_CONF_CHECKPOINT_OFFLOAD, /* recompute, from inputs in host memory */
};
enum dt_conf_backend { DT_CONF_AUTO_BACKEND, DT_CONF_GLOO, DT_CONF_NCCL };
enum dt_conf_optimizer { DT_CONF_ADAMW, DT_CONF_ADAM };
enum dt_conf_dtype {
    DT_CONF_FP32,
    DT_CONF_BF16,
    DT_CONF_FP16,
    DT_CONF_AUTO_DTYPE,
};
enum { /* only while a file is read */
       DT_CONF_REDUCE_COMPUTE = 2,
       DT_CONF_AUTO_SCALER = DT_SCALER_TORCH + 1,
};
enum dt_conf_lr_scaling {
    DT_CONF_LR_AS_GIVEN,
    DT_CONF_LR_LINEAR,
    DT_CONF_LR_SQRT,
};

/* What is set beside the file: "KEY=VALUE" each, as given. Owned. */
struct dt_conf_overrides {
    char **text;
    size_t count;
};

/* Fields are named like the keys. Strings are NUL-terminated and owned by the
 * configuration; NULL means not given. Paths are absolute. If the ratio beside
 * a number of steps is above 0, the number is ceil(ratio * all steps), set by
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
        char *path;           /* directory of the model, or NULL */
        char *config_path;    /* the same, with random weights */
        char *reference_path; /* the frozen one, NULL: the first weights */
        char *reward_path;    /* a reward model that scores completions */
        char *value_path;     /* first weights of ppo's critic, NULL: those of
                                 the policy */
        int random_init;      /* model.init: random (1) | pretrained (0) */
        char *type;           /* without a directory: keys as in config.json */
        long vocab_size, n_positions, n_embd, n_layer, n_head, n_inner;
        double layer_norm_epsilon, initializer_range;
        int tokenizer; /* enum dt_conf_tokenizer */
        char *tokenizer_path;
        bool resize_embeddings;
        bool train_padding_row;
        int attention;              /* enum dt_attention_kind */
        int gradient_checkpointing; /* enum dt_conf_checkpointing */
        bool disable_dropout;
    } model;
    struct {
        int type;   /* enum dt_conf_adapter */
        char *path; /* NULL: a new one */
        long r;
        double alpha, dropout;
        struct dt_conf_list target_modules, modules_to_save;
        bool use_rslora;
        int bias; /* none */
    } adapter;
    struct {
        struct dt_conf_list train, eval;
        enum dt_kind kind;       /* of both; LINES of text and lines mixed */
        int format;              /* enum dt_format */
        long max_length;         /* T; prompts and completions: of both */
        long max_prompt_length;  /* ppo, grpo: at least 1 */
        int prompt_cut_left;     /* prompt_overflow: left (1) | drop */
        double validation_split; /* last share of train, if eval is empty */
        bool shuffle;
        long num_workers, prefetch_factor;
        char *text_column, *prompt_column, *completion_column;
        char *messages_column;
        char *chosen_column, *rejected_column, *margin_column;
        int chat_template;                               /* enum dt_conf_chat */
        char *chat_template_path, *chat_template_kwargs; /* or NULL; JSON */
        bool parse_special;
        int loss_on;    /* enum dt_loss_on */
        int packing;    /* enum dt_packing */
        int truncation; /* enum dt_conf_truncation */
        long pad_to_multiple_of;
        double bad_lines; /* share of lines that may be malformed */
        char *cache_dir;  /* NULL: beside the files */
    } data;
    struct {
        long per_device_batch_size, global_micro_batch_size, train_batch_size;
        long batch_size;   /* 0, or the size that batch_size_is names */
        int batch_size_is; /* 0, or 1, 2, 3: the sizes in the order above */
        long per_device_eval_batch_size;
        long gradient_accumulation_steps;
        long micro_batch_tokens; /* 0: what a micro-batch can have at most */
        double epochs;
        long max_steps; /* -1: run for num_epochs */
        double max_grad_norm, label_smoothing;
        bool eval_only;
        int eval_strategy; /* enum dt_conf_when */
        long eval_steps;
        double eval_steps_ratio;
        bool load_best_model_at_end;
        char *metric_for_best_model;  /* NULL: loss */
        int greater_is_better;        /* enum dt_conf_choice */
        long early_stopping_patience; /* evaluations, 0: none */
        double early_stopping_threshold;
        int resume; /* enum dt_conf_resume */
        char *resume_path;
    } training;
    struct {
        double center_rewards_coefficient;
        int last_token; /* enum dt_conf_last_token */
    } rm;
    struct {
        struct dt_conf_list loss;         /* names of enum dt_dpo_loss */
        struct dt_conf_list loss_weights; /* numbers; none: 1 each */
        double beta, label_smoothing;
        int f_divergence; /* enum dt_f_divergence */
        double f_alpha, ld_alpha;
        bool use_weighting;
        struct {
            int mode; /* enum dt_conf_reference */
        } reference;
        struct dt_conf_sync_ref sync_ref;
    } dpo;
    struct dt_conf_rollout rollout;
    struct dt_conf_grpo grpo;
    struct dt_conf_ppo ppo;
    struct {
        int strategy;    /* enum dt_conf_strategy; auto is for the engine */
        long zero_stage; /* another name, stored in strategy */
        bool strategy_auto_memory;
        bool enabled;           /* false: refuses a world of several ranks */
        long shard_group;       /* ranks, or DT_CONF_GROUP_* */
        char *deepspeed_config; /* a file, all of whose keys are read */
        char *rates;            /* a file, or NULL: plan/strategy.h */
        long prefetch_units;    /* run/sharing.c */
        long prefetch_elements, live_elements;
        int reduce_each_micro_step; /* enum dt_conf_choice */
        int reduction;              /* enum dt_conf_reduction */
        int int8_between_nodes; /* reduce_between_nodes: int8 (1) | native */
        struct {
            int device;  /* enum dt_conf_offload */
            int compute; /* enum dt_conf_offload_compute */
            char *path;
            double ratio; /* share of the state that is offloaded */
            long buffer_count, tile_size; /* tiles; elements of one */
        } offload_optimizer;
        struct {
            int device; /* enum dt_conf_offload */
            char *path;
        } offload_param;
        struct {
            long block_size, queue_depth, threads; /* bytes, requests */
        } aio;
        int backend;     /* enum dt_conf_backend */
        char *interface; /* NULL: the interface that reaches rank 0 */
        long timeout_s, outage_s;
        long bucket_cap_mb;
        int lr_scaling; /* enum dt_conf_lr_scaling */
        long lr_scaling_ref_world;
    } distributed;
    struct {
        int name; /* enum dt_conf_optimizer */
        double lr, beta1, beta2, eps, weight_decay;
        int decay_filter; /* enum dt_decay_filter */
    } optimizer;
    struct {
        int name;            /* enum dt_schedule_name */
        double warmup_steps; /* < 1: a ratio of all steps */
        double warmup_ratio; /* used when warmup_steps is 0 */
        double min_lr;       /* absolute, even if min_lr_rate is given */
        double min_lr_rate;
        double num_cycles, power;
        long timescale;                 /* 0: warmup_steps, or else 10000 */
        long decay_steps, stable_steps; /* 0: the rest of the run */
        double decay_steps_ratio, stable_steps_ratio;
        int warmup_type, decay_type; /* enum dt_curve */
        double warmup_lr_rate;       /* -1: 1 / warmup_steps */
        double warmup_min_lr, warmup_max_lr;
        long total_num_steps; /* 0: not given */
    } scheduler;
    struct {
        int compute;          /* enum dt_conf_dtype; auto until
                                 dt_conf_resolve_device */
        int opt_level;        /* another name, stored in compute */
        int grad_accum_dtype; /* fp32 */
        bool tf32;            /* products of fp32 may round their factors */
        int reduce_bf16;      /* precision.reduce_dtype: bf16 (1) | fp32 */
        int loss_scaler;      /* enum dt_scaler_kind; none unless in fp16 */
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
        bool first_step, to_stdout, to_jsonl, logits;
        bool to_html, to_tensorboard, to_wandb;
        bool to_all; /* while the file is read: all of them */
        int names;   /* of values there: hf (0) | deepspeed (1) */
        struct {
            char *project, *entity, *group, *name, *notes;
            struct dt_conf_list tags;
        } wandb;
        int level;        /* enum dt_log_level */
        char *prometheus; /* a directory, NULL: none */
        int progress;     /* auto (1) | off */
        char *dir;
        bool rank_logs;      /* a file for each rank in dir */
        char *console_ranks; /* "0,4-7", NULL: all */
        struct {
            long first, last; /* steps; 0: none */
            char *ranks;      /* "0,4-7" or "all" */
        } trace;
    } logging;
    struct {
        /* Numbers are 0 and strings NULL if the file leaves them to Slurm. */
        long nodes, ntasks_per_node, gpus_per_node, cpus_per_task;
        long num_processes; /* the total of all nodes */
        char *partition, *account, *qos, *time, *mem, *constraint, *exclude;
        char *container, *master_addr;
        long master_port;
        char *signal;      /* NAME or NAME@SECONDS */
        int signal_number; /* 0: none */
        long signal_s;     /* seconds before the time limit */
        bool requeue, preflight, job_comment;
        long max_requeues, max_restarts;
        long hang_timeout_s;         /* 0: never */
        int hang_ends;               /* launch.hang_action: end (1) | report */
        struct dt_conf_list command; /* to run instead of training */
        struct dt_conf_list frameworks; /* none: all */
        int one_gpu;                    /* gpu_visibility: one (1) | all */
        int no_cpu_bind;                /* cpu_bind: none (1) | auto */
    } launch;
    struct dt_conf_rewards reward;
    struct dt_conf_env *env;
    size_t env_count;
    struct dt_conf_overrides overrides;
    bool trains; /* false: has only keys of launch, env, run and logging */
    uint64_t fingerprint;        /* hash of everything that changes the result,
                                    without paths; complete after
                                    dt_conf_resolve_device and _batch */
    struct dt_conf_place *place; /* of each key, in the order of the schema;
                                    line 0: default, -1: derived */
};

/* A list of problems, in file order. */
struct dt_conf_problems {
    char **text; /* "file:line:col: key: what" */
    size_t count;
};

/* Frees the texts and empties the list. */
void dt_conf_problems_fini(struct dt_conf_problems *problems);

/* Appends a copy of KEY=VALUE. -1: EX_USAGE, it is something else; EX_OSERR. */
int dt_conf_overrides_add(struct dt_conf_overrides *overrides, const char *text,
                          struct dt_error *err);

/* Appends those of DT_ENV_OVERRIDES, see contract/contract.h. -1: the same. */
int dt_conf_overrides_decode(struct dt_conf_overrides *overrides,
                             const char *list, struct dt_error *err);
void dt_conf_overrides_fini(struct dt_conf_overrides *overrides);

/* The first override of a key that only training looks at, or NULL. */
const char *dt_conf_trained_override(const struct dt_conf *conf);

/* Reads and checks `path`; /dev/null counts as a file without keys. A key of
 * `overrides` (NULL: none) has the value that it has there, whatever the file
 * says: the last one, if there are several; null is its default. NULL: the file
 * has problems, all of which are in *problems (no entry: out of memory).
 * Secrets in the file are learned (base/secret.h), so no thread runs yet.
 * Warnings go to *warnings. The caller frees the result with dt_conf_destroy
 * and, in any case, both lists with dt_conf_problems_fini.
 */
struct dt_conf *dt_conf_load(const char *path,
                             const struct dt_conf_overrides *overrides,
                             struct dt_conf_problems *problems,
                             struct dt_conf_problems *warnings);

void dt_conf_destroy(struct dt_conf *conf); /* NULL is fine */

/* True if the file gives the key `path`, which the schema must have. */
bool dt_conf_given(const struct dt_conf *conf, const char *path);

/* Whether a path, or a message that names one, has a variable that only the job
 * will have (slurm/promise.h): it cannot be looked at before.
 */
bool dt_conf_is_later(const char *text);

/* The place of the key in the file, or 1:1 if the file does not give it. */
struct dt_conf_place dt_conf_place_of(const struct dt_conf *conf,
                                      const char *path);

/* Whether this process knows all secrets of a function. -1: EX_CONFIG, a
 * variable of secrets_from is not set.
 */
int dt_conf_check_secrets(const struct dt_conf_reward *reward,
                          struct dt_error *err);

/* The name of an enum dt_conf_strategy. */
const char *dt_conf_strategy_name(int strategy);

/* Sets `err` to EX_CONFIG with "file:line:column: path: <formatted>", the file
 * being absolute. Returns -1.
 */
int dt_conf_error_set(const struct dt_conf *conf, const char *path,
                      struct dt_error *err, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* Prints another problem of a key, as "file:line:column: path: text". Returns
 * EX_CONFIG.
 */
int dt_conf_print_problem(const struct dt_conf *conf, const char *file,
                          const char *path, const char *text, FILE *out);

/* What is wrong with an environment variable that is set for a run: nothing
 * reads it, its name has changed, or it costs speed. NULL if nothing is.
 * `trains`: the run is our own trainer; `nodes`: their number, 0 if unknown.
 * *refused: it must not be set at all.
 */
const char *dt_conf_lint_variable(const char *name, const char *value,
                                  bool trains, long nodes, bool *refused);

/* Parses "5", "1:30:00", "2-12" ... as Slurm does. False if it is not a time.
 */
bool dt_conf_parse_time(const char *text, long *seconds);

/* Parses a number of bytes: a whole number, or a number with KB, MB, GB, TB
 * (powers of 1000) or KiB, MiB, GiB, TiB (of 1024). False if text is not a size
 * or is below one byte.
 */
bool dt_conf_parse_size(const char *text, long *bytes);

/* Resolves the keys that depend on the chosen device: afterwards run.device,
 * distributed.backend and precision.compute are no longer auto. -1: EX_CONFIG,
 * a key that this device does not support; EX_OSERR.
 */
int dt_conf_resolve_device(struct dt_conf *conf, enum dt_conf_device device,
                           struct dt_error *err);

/* Resolves the keys that depend on the world: computes per_device_batch_size,
 * global_micro_batch_size, train_batch_size, gradient_accumulation_steps and
 * per_device_eval_batch_size from those that are given. -1: EX_CONFIG with all
 * numbers if a division is not exact, or if distributed.enabled or shard_group
 * does not allow this world; EX_OSERR.
 */
int dt_conf_resolve_batch(struct dt_conf *conf, int world,
                          struct dt_error *err);

/* Resolves the keys that depend on the number of optimizer steps of the run,
 * `total` >= 1: turns the ratios of eval, checkpoint, logging, warm-up and
 * decay steps into steps. Before the call those steps are LONG_MAX. -1:
 * EX_CONFIG, the schedule has another length.
 */
int dt_conf_resolve_steps(struct dt_conf *conf, long total,
                          struct dt_error *err);

/* Prints the final configuration as YAML: every key with its value and, in a
 * comment, its source. Reading it back gives the same configuration.
 */
void dt_conf_dump(const struct dt_conf *conf, FILE *out);

/* Calls f for each key that the run looks at, with its value as in
 * dt_conf_dump; `given`: the file has it. Then for each variable of env, as
 * "env.NAME", with its value as it is. -1: out of memory.
 */
typedef void (*dt_conf_each_f)(void *ctx, const char *key, const char *value,
                               bool given);
int dt_conf_each(const struct dt_conf *conf, dt_conf_each_f f, void *ctx);

/* Prints the keys that change what a run computes, one line `key: value` each,
 * without secrets.
 * The fingerprint is a hash of this text.
 */
void dt_conf_print_results(const struct dt_conf *conf, FILE *out);

/* Prints what the file gives of every key of the schema, one line `key: value`
 * each, or `key: (not given)`; then the variables of env, as they are. Where
 * files are is left out, as `(a path)`: ${NAME} may be another directory on
 * each node. Ranks that have read the same file print the same text.
 */
void dt_conf_print_given(const struct dt_conf *conf, FILE *out);

/* Prints the schema, one line for each key with tabs between: path, what it
 * expects, default ("-" for none), aliases (space-separated, "-" for none),
 * help. For a key that is not supported yet, the second field is "later" and
 * the help says what it needs. The key list of disttrain.yaml(5) is made from
 * this.
 */
void dt_conf_schema(FILE *out);

/* Explains a key to the user in the sentences of disttrain.yaml(5): its
 * meaning, what it expects, its default and its aliases. `name` is anything
 * that may be in a file: a key, an alias, or a section, whose keys are listed.
 * -1: EX_USAGE, the name is unknown; the error has the nearest one.
 */
int dt_conf_explain(const char *name, FILE *out, struct dt_error *err);

/* Prints for each key of a DeepSpeed file what becomes of it, as
 * "file:line:col: key: becomes distributed.strategy: zero2". -1: EX_CONFIG,
 * something cannot be used, and is printed as well; otherwise it cannot be
 * read.
 */
int dt_conf_explain_deepspeed(const char *path, FILE *out,
                              struct dt_error *err);

/* The YAML library in use: "libyaml 0.2.5". */
const char *dt_conf_library(void);

#endif /* DT_CONF_CONF_H */
