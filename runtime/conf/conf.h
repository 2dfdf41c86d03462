/* SPDX-License-Identifier: Apache-2.0 */
/*
 * conf.h - reads a YAML file into a checked, read-only struct
 *
 * Each key is defined once, in keys/SECTION.def, with its type, default, range,
 * unit, users and help. That makes a member of struct dt_conf and a row of the
 * schema, which drives parsing, `disttrain check` and the key list of
 * disttrain.yaml(5). All problems of a file are reported in
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

#include "conf/keys/members.h"

/* Members are named like the keys and come from their definitions. Strings are
 * NUL-terminated and owned by the configuration; NULL means not given. Paths
 * are absolute. If the ratio beside a number of steps is above 0, the number is
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

#include "conf/keys/end.h"

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
