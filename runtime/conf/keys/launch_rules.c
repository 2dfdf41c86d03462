/* SPDX-License-Identifier: Apache-2.0 */
/* launch_rules.c - rules of sections launch and env: tasks, times, variables */
#include "config.h"

#include <ctype.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/launcher.h"
#include "base/str.h"
#include "conf/keys/draft.h"

/* Seconds before the limit, if none are given: to a program that tells us
 * nothing, as a run that has not saved yet.
 */
enum { SIGNAL_S = 120 };

/* Reads digits; false if there are none or too many. */
static bool take_number(const char **text, long *number)
{
    int digits = 0;
    *number = 0;
    for (; isdigit((unsigned char)**text) && digits < 9; digits++)
        *number = *number * 10 + *(*text)++ - '0';
    return digits > 0 && !isdigit((unsigned char)**text);
}

bool dt_conf_parse_time(const char *text, long *seconds)
{
    long part[4] = {0}; /* the numbers between "-" and ":" */
    bool days = strchr(text, '-') != NULL;
    int count = 0;
    do {
        if (!take_number(&text, &part[count++]))
            return false;
    } while (count < 3 + days &&
             (*text == ':' || (*text == '-' && days && count == 1)) && *text++);
    if (*text != '\0' || (days && count == 1))
        return false;
    if (days)
        *seconds = part[0] * 86400 + part[1] * 3600 + part[2] * 60 + part[3];
    else if (count == 1)
        *seconds = part[0] * 60;
    else if (count == 2)
        *seconds = part[0] * 60 + part[1];
    else
        *seconds = part[0] * 3600 + part[1] * 60 + part[2];
    return true;
}

/* The number of a signal, or 0. srun forwards only these four to every task. */
static int signal_number(const char *name, size_t len)
{
    static const struct {
        const char *name;
        int number;
    } signals[] = {{"USR1", SIGUSR1},
                   {"USR2", SIGUSR2},
                   {"TERM", SIGTERM},
                   {"HUP", SIGHUP}};
    if (len > 3 && strncasecmp(name, "SIG", 3) == 0) {
        name += 3;
        len -= 3;
    }
    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
        if (len == strlen(signals[i].name) &&
            strncasecmp(name, signals[i].name, len) == 0)
            return signals[i].number;
    return 0;
}

static void check_signal(struct dt_conf_draft *draft)
{
    struct dt_conf *conf = draft->conf;
    const char *text = conf->launch.signal;
    const bool trains = conf->trains && conf->launch.command.count == 0;
    long limit = 0;
    if (!text && conf->launch.requeue)
        text = "USR1";
    if (!text)
        return;
    const char *at = strchrnul(text, '@');
    conf->launch.signal_number = signal_number(text, (size_t)(at - text));
    const bool given = *at == '@';
    conf->launch.signal_measured = !given && trains;
    conf->launch.signal_s = SIGNAL_S;
    const bool bad =
        *at++ && (!take_number(&at, &conf->launch.signal_s) || *at);
    const bool fits = !conf->launch.time ||
                      !dt_conf_parse_time(conf->launch.time, &limit) ||
                      limit > conf->launch.signal_s;
    if (bad || conf->launch.signal_number == 0)
        PROBLEM(draft, "launch.signal",
                "expected USR1, USR2, TERM or HUP, and seconds after @, such "
                "as USR1@300, got \"%.60s\"",
                text);
    else if (!fits && !given)
        conf->launch.signal_s = limit / 2;
    else if (!fits)
        PROBLEM(draft, "launch.signal",
                "%ld s before the limit is before the start: launch.time is "
                "%ld s",
                conf->launch.signal_s, limit);
}

/* Whether text is a number and one of K, M, G, T. */
static bool is_memory(const char *text)
{
    long number;
    return take_number(&text, &number) &&
           (*text == '\0' || (strchr("KMGTkmgt", *text) && text[1] == '\0'));
}

/* Whether text is a list of ranks such as 0,4-7; NULL: it is not given. */
static bool is_ranks(const char *text)
{
    uint32_t first, last;
    while (text && *text)
        if (!dt_str_next_range(&text, &first, &last))
            return false;
    return true;
}

static void check_texts(struct dt_conf_draft *draft)
{
    const struct dt_conf *conf = draft->conf;
    const char *traced = conf->logging.trace.ranks;
    long number;
    if (conf->launch.time && !dt_conf_parse_time(conf->launch.time, &number))
        PROBLEM(draft, "launch.time",
                "expected minutes, HH:MM:SS, D-HH or D-HH:MM:SS, got \"%.60s\"",
                conf->launch.time);
    if (conf->launch.mem && !is_memory(conf->launch.mem))
        PROBLEM(draft, "launch.mem",
                "expected a number and K, M, G or T, such as 64G, got "
                "\"%.60s\"",
                conf->launch.mem);
    if (!is_ranks(conf->logging.console_ranks))
        PROBLEM(draft, "logging.console_ranks",
                "expected ranks such as 0,4-7, got \"%.60s\"",
                conf->logging.console_ranks);
    if (traced && strcmp(traced, "all") != 0 && !is_ranks(traced))
        PROBLEM(draft, "logging.trace.ranks",
                "expected all, or ranks such as 0,4-7, got \"%.60s\"", traced);
}

/* Computes ntasks_per_node. num_processes is the total of all nodes; users
 * often take it for the number on one node, so that case is refused.
 */
static void settle_tasks(struct dt_conf_draft *draft)
{
    struct dt_conf *conf = draft->conf;
    long nodes = conf->launch.nodes > 0 ? conf->launch.nodes : 1;
    long all = conf->launch.num_processes;
    long tasks = conf->launch.ntasks_per_node;
    long gpus = conf->launch.gpus_per_node;
    if (all > 0 && all % nodes != 0)
        PROBLEM(draft, "launch.num_processes",
                "%ld ranks cannot be spread evenly over %ld nodes", all, nodes);
    else if (all > 0 && tasks > 0 && all != nodes * tasks)
        PROBLEM(draft, "launch.num_processes",
                "the total of all nodes: %ld x %ld is %ld, not %ld", nodes,
                tasks, nodes * tasks, all);
    else if (all > 0 && nodes > 1 && gpus > 0 && all == gpus)
        PROBLEM(draft, "launch.num_processes",
                "the total of all nodes: %ld would be %ld on each of %ld "
                "nodes with %ld GPUs; write %ld",
                all, all / nodes, nodes, gpus, nodes * gpus);
    else if (all > 0)
        tasks = all / nodes;
    if (tasks == 0)
        tasks = gpus;
    if (tasks > 0 && conf->launch.ntasks_per_node == 0) {
        conf->launch.ntasks_per_node = tasks;
        dt_conf_is_left(conf, "launch.ntasks_per_node");
    }
}

/* Warns if a restarted run would start again from the beginning. */
static void check_resume(struct dt_conf_draft *draft)
{
    const struct dt_conf *conf = draft->conf;
    const char *path =
        conf->launch.requeue ? "launch.requeue" : "launch.max_restarts";
    if (conf->trains && conf->launch.command.count == 0 &&
        (conf->launch.requeue || conf->launch.max_restarts > 0) &&
        conf->training.resume == DT_CONF_RESUME_NONE)
        WARNING(draft, path,
                "the run would start from the beginning each time: set "
                "training.resume: auto");
}

/* Requeueing the job and restarting the step exclude each other. */
static void check_requeue(struct dt_conf_draft *draft)
{
    const struct dt_conf *conf = draft->conf;
    if (conf->launch.max_requeues > 0 && !conf->launch.requeue)
        PROBLEM(draft, "launch.max_requeues", "needs launch.requeue: true");
    if (conf->launch.max_requeues > 0 && conf->launch.max_restarts > 0)
        PROBLEM(draft, "launch.max_requeues",
                "launch.max_restarts is set as well: choose whether a crash "
                "puts the job back into the queue or restarts the step in "
                "the same job");
}

/* Only keepers, and the batch script that restarts steps, choose their nodes.
 */
static void check_lost_nodes(struct dt_conf_draft *draft)
{
    static const char needs[] = "needs launch.max_restarts, or launch.keeper";
    const struct dt_conf *conf = draft->conf;
    const int keeper = conf->launch.keeper;
    long ranks = conf->launch.nodes * conf->launch.ntasks_per_node;
    const bool kept = keeper == DT_CONF_KEEPER_ON ||
                      (keeper == DT_CONF_KEEPER_AUTO && conf->trains &&
                       conf->launch.command.count == 0);
    const bool chosen = kept || conf->launch.max_restarts > 0;
    if (conf->launch.spares > 0 && !chosen)
        PROBLEM(draft, "launch.spares", "%s", needs);
    if (conf->launch.spares > 0 && conf->launch.nodes == 0)
        PROBLEM(draft, "launch.spares",
                "needs launch.nodes: how many does a step use?");
    if (conf->launch.min_ranks > 0 && !chosen)
        PROBLEM(draft, "launch.min_ranks", "%s", needs);
    if (ranks > 0 && conf->launch.min_ranks > ranks)
        PROBLEM(draft, "launch.min_ranks",
                "%ld ranks are more than a step has: %ld nodes with %ld each",
                conf->launch.min_ranks, conf->launch.nodes,
                conf->launch.ntasks_per_node);
}

static void check_hang(struct dt_conf_draft *draft)
{
    const struct dt_conf *conf = draft->conf;
    if (conf->launch.hang_ends &&
        (!dt_conf_given(conf, "launch.hang_timeout") ||
         conf->launch.hang_timeout_s == 0))
        PROBLEM(draft, "launch.hang_action",
                "end needs launch.hang_timeout: after how many seconds?");
}

/* --- variables and launchers --- */

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

/* Whether a shell would expand the text, and we do not. */
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

static void check_env(struct dt_conf_draft *draft)
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
static void check_command(struct dt_conf_draft *draft)
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

void dt_conf_check_launch(struct dt_conf_draft *draft)
{
    settle_tasks(draft);
    check_signal(draft);
    check_texts(draft);
    check_command(draft);
    check_env(draft);
    check_requeue(draft);
    check_lost_nodes(draft);
    check_resume(draft);
    check_hang(draft);
}
