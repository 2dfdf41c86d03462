/* SPDX-License-Identifier: Apache-2.0 */
/* env_rules.c - finds settings that do nothing, or not what they seem to do */
#include "config.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/launcher.h"
#include "conf/keys/draft.h"

enum kind {
    REFUSED,   /* only we may set it */
    INERT,     /* nothing reads it, or its name has changed */
    DEBUGGING, /* costs speed, so warn unless it is 0 */
    FOREIGN,   /* for another framework, not for our trainer */
    LOCAL,     /* an address of this host, wrong with several nodes */
};

static const struct rule {
    const char *name; /* a trailing _ makes it a prefix */
    enum kind kind;
    const char *text;
} rules[] = {
    {"RANK", REFUSED, "is different on each rank: the plugin sets it"},
    {"LOCAL_RANK", REFUSED, "is different on each rank: the plugin sets it"},
    {"NODE_RANK", REFUSED, "is different on each rank: the plugin sets it"},
    {"GROUP_RANK", REFUSED, "is different on each rank: the plugin sets it"},
    {"WORLD_SIZE", REFUSED, "follows from the job: the plugin sets it"},
    {"LOCAL_WORLD_SIZE", REFUSED, "follows from the job: the plugin sets it"},
    {"SLURM_", REFUSED, "belongs to Slurm"},
    {"PMIX_", REFUSED, "belongs to PMIx"},
    {"NCCL_TIMEOUT", INERT,
     "nothing reads it: the limit is timeout= of init_process_group in "
     "PyTorch, --ddp_timeout in Hugging Face, DEEPSPEED_TIMEOUT (minutes) in "
     "DeepSpeed, distributed.timeout_s in disttrain"},
    {"DEEPSPEED_LOG_LEVEL", INERT,
     "nothing reads it: give DeepSpeed programs --log_level, or set "
     "logging.level"},
    {"NCCL_ASYNC_ERROR_HANDLING", INERT,
     "an old name: PyTorch reads TORCH_NCCL_ASYNC_ERROR_HANDLING"},
    {"NCCL_BLOCKING_WAIT", INERT,
     "an old name: PyTorch reads TORCH_NCCL_BLOCKING_WAIT"},
    {"NCCL_DESYNC_DEBUG", INERT,
     "an old name: PyTorch reads TORCH_NCCL_DESYNC_DEBUG"},
    {"XLA_PYTHON_CLIENT_MEM_FRACTION", INERT,
     "an old name: JAX reads XLA_CLIENT_MEM_FRACTION, which needs "
     "preallocation"},
    {"JAX_PLATFORM_NAME", INERT, "an old name: JAX reads JAX_PLATFORMS"},
    {"CUDA_VISIBLE_DEVICES", INERT,
     "overrides what Slurm has given to the job: leave it out, or use "
     "launch.gpu_visibility"},
    {"MASTER_PORT", INERT,
     "is the same for every step: leave it out, and each step gets a port of "
     "its own"},
    {"NCCL_IB_DISABLE", DEBUGGING, "switches InfiniBand off"},
    {"NCCL_P2P_DISABLE", DEBUGGING, "switches copies between GPUs off"},
    {"NCCL_SHM_DISABLE", DEBUGGING, "switches shared memory off"},
    {"CUDA_LAUNCH_BLOCKING", DEBUGGING,
     "makes every kernel launch synchronous"},
    {"MASTER_ADDR", LOCAL,
     "is a different host on each node: leave it out to use rank 0's host"},
    {"XLA_", FOREIGN, "read by JAX only"},
    {"JAX_", FOREIGN, "read by JAX only"},
};

static bool is_local(const char *address)
{
    return strcmp(address, "localhost") == 0 ||
           strncmp(address, "127.", 4) == 0 || strcmp(address, "::1") == 0;
}

static bool applies(const struct rule *rule, const char *value, bool trains,
                    long nodes)
{
    switch (rule->kind) {
    case DEBUGGING:
        return value[0] != '\0' && strcmp(value, "0") != 0;
    case FOREIGN:
        return trains;
    case LOCAL:
        return nodes > 1 && is_local(value);
    default:
        return true;
    }
}

const char *dt_conf_lint_variable(const char *name, const char *value,
                                  bool trains, long nodes, bool *refused)
{
    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
        size_t n = strlen(rules[i].name);
        bool prefix = rules[i].name[n - 1] == '_';
        if (strncmp(name, rules[i].name, n + !prefix) == 0 &&
            applies(&rules[i], value, trains, nodes)) {
            *refused = rules[i].kind == REFUSED;
            return rules[i].text;
        }
    }
    return NULL;
}

/* Whether a shell would expand what is written, and we do not. */
static bool wants_expansion(const char *value)
{
    if (strncmp(value, "~/", 2) == 0)
        return true;
    while ((value = strchr(value, '$')) != NULL) {
        value++;
        if (isalpha((unsigned char)*value) || *value == '_')
            return true;
    }
    return false;
}

void dt_conf_check_env(struct dt_conf_draft *draft)
{
    const struct dt_conf *conf = draft->conf;
    bool trains = conf->trains && conf->launch.command.count == 0;
    for (size_t i = 0; i < conf->env_count; i++) {
        const struct dt_conf_env *env = &conf->env[i];
        bool refused = false;
        char key[64];
        const char *text = dt_conf_lint_variable(env->name, env->value, trains,
                                                 conf->launch.nodes, &refused);
        snprintf(key, sizeof(key), "env.%.50s", env->name);
        if (wants_expansion(env->written ? env->written : env->value))
            dt_conf_note(&draft->warnings, env->place, key,
                         "exported as it is written: only ${NAME} is expanded "
                         "here");
        if (text)
            dt_conf_note(refused ? &draft->problems : &draft->warnings,
                         env->place, key, "%s", text);
    }
}

/* Warns of a launcher in launch.command: it would start its own ranks in every
 * task. One on each node is left alone.
 */
void dt_conf_check_command(struct dt_conf_draft *draft)
{
    const struct dt_conf_list *words = &draft->conf->launch.command;
    struct dt_launcher launcher;
    if (draft->conf->launch.ntasks_per_node != 1 &&
        dt_launcher_find((const char *const *)words->text, words->count,
                         &launcher))
        WARNING(draft, "launch.command",
                "%s %s%s; srun has started them already: write the program "
                "alone, such as [python3, train.py]",
                launcher.name, launcher.does, launcher.also);
}
