/* SPDX-License-Identifier: Apache-2.0 */
/*
 * keys.h - a configuration: all keys, and the rules between them
 *
 * Each key is defined once, in SECTION.def, with its type, default, range,
 * unit, users and help. That makes a member of struct dt_conf and a row of the
 * schema (schema.h), which drives parsing, `disttrain check` and the key list
 * of disttrain.yaml(5). Rules between keys are in sources of their sections:
 * they derive defaults from other keys and note problems in a draft (draft.h).
 */
#ifndef DT_CONF_KEYS_KEYS_H
#define DT_CONF_KEYS_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/choices.h"
#include "base/error.h"
#include "base/kind.h"

/* --- values that are more than a number or a text --- */

enum dt_conf_source {
    DT_CONF_OF_FILE,
    DT_CONF_OF_DEEPSPEED, /* the file of distributed.deepspeed_config */
    DT_CONF_OF_OVERRIDE,  /* --set */
};

/* A position: line and column (in characters), counted from 1. The line of an
 * override is its number among all of them.
 */
struct dt_conf_place {
    int line, column;
    enum dt_conf_source source;
};

struct dt_conf_list {
    char **text;    /* absolute paths if it is a list of files */
    double *weight; /* files: how many times an epoch uses each; of a section
                       of numbers: the number that each name has */
    size_t count;
};

struct dt_conf_env {
    char *name, *value;
    char *written;              /* the value before variables were expanded, or
                                   NULL */
    struct dt_conf_place place; /* where the name is */
};

/* --- words --- */

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
    DT_CONF_CHAT_LLAVA,
    DT_CONF_CHAT_LLAVA_PLAIN,
    DT_CONF_CHAT_FILE, /* the path is in chat_template_path */
};
enum dt_conf_truncation {
    DT_CONF_KEEP_START,
    DT_CONF_KEEP_END,
    DT_CONF_DROP, /* of pairs: those that are too long are left out */
};
enum dt_conf_image_errors { DT_CONF_IMAGE_FAIL, DT_CONF_IMAGE_DROP };
enum dt_conf_image_backend { DT_CONF_IMAGE_TORCHVISION, DT_CONF_IMAGE_PILLOW };
enum dt_conf_stage { DT_CONF_STAGE_SFT, DT_CONF_STAGE_PRETRAIN };
enum dt_conf_features {
    DT_CONF_FEATURES_AUTO,
    DT_CONF_FEATURES_DEFAULT,
    DT_CONF_FEATURES_FULL,
};
enum dt_conf_reference {
    DT_CONF_REFERENCE_LIVE,
    DT_CONF_REFERENCE_PRECOMPUTE,
    DT_CONF_REFERENCE_NONE,
};
enum dt_conf_last_token { DT_CONF_LAST_TOKEN_AUTO, DT_CONF_LAST_TOKEN_END };
enum dt_conf_adapter { DT_CONF_ADAPTER_NONE, DT_CONF_ADAPTER_LORA };
enum dt_conf_async { DT_CONF_ASYNC_AUTO, DT_CONF_ASYNC_ON, DT_CONF_ASYNC_OFF };
enum dt_conf_when { DT_CONF_NO, DT_CONF_STEPS, DT_CONF_EPOCH };
enum dt_conf_resume {
    DT_CONF_RESUME_NONE,
    DT_CONF_RESUME_AUTO,
    DT_CONF_RESUME_PATH,
};
enum dt_conf_keeper {
    DT_CONF_KEEPER_AUTO,
    DT_CONF_KEEPER_ON,
    DT_CONF_KEEPER_OFF
};
enum dt_conf_strategy {
    DT_CONF_AUTO_STRATEGY,
    DT_CONF_DDP,
    DT_CONF_ZERO1,
    DT_CONF_ZERO2,
    DT_CONF_ZERO3,
    DT_CONF_BY_DEEPSPEED, /* only while a file is read */
};
enum { /* distributed.shard_group, if it is no number of ranks */
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
       DT_CONF_PACK_BY_STRATEGY = DT_PACK_WRAPPED + 1,
};
enum dt_conf_lr_scaling {
    DT_CONF_LR_AS_GIVEN,
    DT_CONF_LR_LINEAR,
    DT_CONF_LR_SQRT,
};

/* --- reward functions --- */

enum dt_conf_reward_type {
    DT_CONF_REWARD_EXACT,
    DT_CONF_REWARD_CONTAINS,
    DT_CONF_REWARD_REGEX,
    DT_CONF_REWARD_NUMBER_EQUAL,
    DT_CONF_REWARD_EXPRESSION,
    DT_CONF_REWARD_JSON_VALID,
    DT_CONF_REWARD_FORMAT,
    DT_CONF_REWARD_LENGTH,
    DT_CONF_REWARD_COMMAND,
    DT_CONF_REWARD_MODEL,
    DT_CONF_REWARD_HTTP,
    DT_CONF_REWARD_TYPES, /* their number */
};
enum dt_conf_where {
    DT_CONF_RANK0, /* rank 0 scores the samples of all ranks */
    DT_CONF_ALL,   /* each rank scores its own */
};
enum dt_conf_length {
    DT_CONF_LENGTH_OVERLONG,
    DT_CONF_LENGTH_TARGET,
    DT_CONF_LENGTH_COSINE,
};

/* --- the configuration --- */

/* Settings from outside the file: "KEY=VALUE" each, as given. Owned. */
struct dt_conf_overrides {
    char **text;
    size_t count;
};

/* A reference that follows the model, of algorithms dpo and grpo. */
struct dt_conf_sync_ref {
    bool enabled;
    double alpha; /* share of the model, in (0, 1] */
    long steps;   /* from one move to the next, >= 1 */
};

/* Members of struct dt_conf from the definitions of keys. A definition is
 * KIND(section, key, attributes); schema.c has the other half, a row for each.
 */
/* clang-format off */
#define BOOL(section, key, ...) bool key;
#define INT(section, key, ...) long key;
#define U64(section, key, ...) uint64_t key;
#define REAL(section, key, ...) double key;
#define SIZE(section, key, ...) long key;
#define COUNT(section, key, ...) long key; double key##_ratio;
#define TEXT(section, key, ...) char *key;
#define DIR(section, key, ...) char *key;
#define OLD_DIR(section, key, ...) char *key;
#define FREE(section, key, ...) char *key;
#define FILES(section, key, ...) struct dt_conf_list key;
#define LIST(section, key, ...) struct dt_conf_list key;
#define NUMBERS(section, key, ...) struct dt_conf_list key;
#define ENUM(section, key, ...) int key;
#define BOOL_OR_WORD(section, key, ...) int key;
#define INT_OR_WORD(section, key, ...) long key;
#define OLD_OR_WORD(section, key, ...) int key; char *key##_path;
#define FILE_OR_WORD(section, key, ...) int key; char *key##_path;

/* A key whose value has another name, or no member at all. */
#define ROW(section, key, KIND, ...)
#define MEMBER(type, name) type name;

/* Keys between these are members of a structure in the section. */
#define GROUP(name) struct {
#define END(name) } name;
/* clang-format on */

/* A function of reward.functions. Those that its type does not use have their
 * defaults.
 */
struct dt_conf_reward {
    struct dt_conf_place place; /* where the section begins */
#include "conf/keys/function.def"
    char **secrets; /* of secrets_from: "NAME=value", or "NAME" without such a
                       variable; ends with NULL; NULL: none */
};

/* How many rewards it gives a completion. */
static inline size_t dt_conf_reward_channels(
    const struct dt_conf_reward *reward)
{
    return reward->channels.count > 0 ? reward->channels.count : 1;
}

enum { DT_CONF_REWARDS_MAX = 32 }; /* rewards of all functions together */

struct dt_conf_rewards {
    struct dt_conf_reward *functions;
    size_t count;
};

/* Members are named like the keys and come from their definitions. Strings are
 * NUL-terminated and owned by the configuration; NULL means not given. Paths
 * are absolute. A ratio above 0 decides the number of steps of its key:
 * ceil(ratio * all steps), set by dt_conf_resolve_steps.
 */
struct dt_conf {
    char *file; /* absolute path of the file itself */
    long version;
    int algorithm; /* enum dt_conf_algorithm */
    struct {
#include "conf/keys/run.def"
    } run;
    struct {
#include "conf/keys/model.def"
    } model;
    struct {
#include "conf/keys/data.def"
    } data;
    struct {
#include "conf/keys/adapter.def"
    } adapter;
    struct {
#include "conf/keys/training.def"
    } training;
    struct {
#include "conf/keys/rm.def"
    } rm;
    struct {
#include "conf/keys/dpo.def"
    } dpo;
    struct {
#include "conf/keys/distributed.def"
    } distributed;
    struct {
#include "conf/keys/optimizer.def"
    } optimizer;
    struct {
#include "conf/keys/scheduler.def"
    } scheduler;
    struct {
#include "conf/keys/precision.def"
    } precision;
    struct dt_conf_rollout {
#include "conf/keys/rollout.def"
    } rollout;
    struct dt_conf_grpo {
#include "conf/keys/grpo.def"
    } grpo;
    struct dt_conf_ppo {
#include "conf/keys/ppo.def"
    } ppo;
    struct {
#include "conf/keys/checkpoint.def"
    } checkpoint;
    struct {
#include "conf/keys/logging.def"
    } logging;
    struct {
#include "conf/keys/launch.def"
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

#undef BOOL
#undef INT
#undef U64
#undef REAL
#undef SIZE
#undef COUNT
#undef TEXT
#undef DIR
#undef OLD_DIR
#undef FREE
#undef FILES
#undef LIST
#undef NUMBERS
#undef ENUM
#undef BOOL_OR_WORD
#undef INT_OR_WORD
#undef OLD_OR_WORD
#undef FILE_OR_WORD
#undef ROW
#undef MEMBER
#undef GROUP
#undef END

/* A list of problems, in file order. */
struct dt_conf_problems {
    char **text; /* "file:line:col: key: what" */
    size_t count;
};

/* Frees the texts and empties the list. */
void dt_conf_problems_fini(struct dt_conf_problems *problems);

/* --- keys and places --- */

/* True if the file gives the key `path`, which the schema must have. */
bool dt_conf_given(const struct dt_conf *conf, const char *path);

/* Whether a path, or a message that names one, has a variable that only the job
 * will have, as ${SLURM_JOB_ID}: it cannot be looked at before.
 */
bool dt_conf_is_later(const char *text);

/* Whether the model is made of model.vision and model.language. model.path is
 * then the directory where it will be.
 */
static inline bool dt_conf_composes(const struct dt_conf *conf)
{
    return conf->model.vision && conf->model.language;
}

/* Whether a run begins with random weights: none are read from model.path. */
static inline bool dt_conf_starts_random(const struct dt_conf *conf)
{
    return conf->model.random_init && !dt_conf_composes(conf);
}

/* The place of the key in the file, or 1:1 if the file does not give it. */
struct dt_conf_place dt_conf_place_of(const struct dt_conf *conf,
                                      const char *path);

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

/* --- keys that depend on where a run is --- */

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

/* Prints the keys that change what a run computes, one line `key: value` each,
 * without secrets.
 * The fingerprint is a hash of this text.
 */
void dt_conf_print_results(const struct dt_conf *conf, FILE *out);

#endif /* DT_CONF_KEYS_KEYS_H */
