/* SPDX-License-Identifier: Apache-2.0 */
/* reward_keys.c - the table of the keys of a reward function */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include "conf/keys/schema.h"

#define AT(field) .offset = offsetof(struct dt_conf_reward, field)
#define WORDS(...) ((const struct dt_conf_word[]){__VA_ARGS__, {0}})
#define BIT(type) (1u << DT_CONF_REWARD_##type)

enum {
    EVERY = (1 << DT_CONF_REWARD_TYPES) - 1,
    ANSWER = BIT(EXACT) | BIT(CONTAINS) | BIT(NUMBER_EQUAL) | BIT(EXPRESSION),
    LABEL = ANSWER | BIT(HTTP),
    PROGRAM = BIT(COMMAND) | BIT(HTTP),
};

/* clang-format off */
const struct dt_conf_reward_key dt_conf_reward_keys[] = {
    {{"reward.functions.type", DT_CONF_ENUM, AT(type), .result = true,
      .words = WORDS({"exact", DT_CONF_REWARD_EXACT, NULL},
                     {"contains", DT_CONF_REWARD_CONTAINS, NULL},
                     {"regex", DT_CONF_REWARD_REGEX, NULL},
                     {"number_equal", DT_CONF_REWARD_NUMBER_EQUAL, NULL},
                     {"expression", DT_CONF_REWARD_EXPRESSION, NULL},
                     {"json_valid", DT_CONF_REWARD_JSON_VALID, NULL},
                     {"format", DT_CONF_REWARD_FORMAT, NULL},
                     {"length", DT_CONF_REWARD_LENGTH, NULL},
                     {"command", DT_CONF_REWARD_COMMAND, NULL},
                     {"model", DT_CONF_REWARD_MODEL, NULL},
                     {"http", DT_CONF_REWARD_HTTP, NULL}),
      .help = "kind of function; required. Rules give 1 to a completion "
              "that equals the answer (exact), has it as a part (contains), "
              "matches a pattern as a whole (regex), ends with its number "
              "(number_equal), is arithmetic with the given numbers that "
              "gives it (expression), is JSON (json_valid) or has tags in "
              "their order (format), and 0 to others, or score its number of "
              "tokens (length); command asks a program, model a "
              "reward model, http a server"},
     EVERY, true},
    {{"reward.functions.name", DT_CONF_STRING, AT(name), .result = true,
      .help = "name in metrics and messages; the default is the type"},
     EVERY, false},
    {{"reward.functions.weight", DT_CONF_FLOAT, AT(weight), .fallback = "1",
      .result = true,
      .help = "factor of the function in the reward of a completion"},
     EVERY, false},
    {{"reward.functions.where", DT_CONF_ENUM, AT(where), .fallback = "rank0",
      .words = WORDS({"rank0", DT_CONF_RANK0, NULL},
                     {"all", DT_CONF_ALL, NULL}),
      .help = "ranks that run the function: rank0 scores the completions of "
              "all ranks, or each rank its own, as a model always does"},
     EVERY & ~BIT(MODEL), false},

    /* Rules. */
    {{"reward.functions.answer_column", DT_CONF_STRING, AT(answer_column),
      .fallback = "answer", .result = true,
      .help = "key of the right answer in a line of data; null there means "
              "that the function has no reward for the prompt"},
     LABEL, false},
    {{"reward.functions.numbers_column", DT_CONF_STRING, AT(numbers_column),
      .fallback = "numbers", .result = true,
      .help = "key of the list of numbers, each of which must be used once"},
     BIT(EXPRESSION), false},
    {{"reward.functions.extract", DT_CONF_STRING, AT(extract), .result = true,
      .help = "regular expression whose last match in the completion, or the "
              "first group of it, is compared instead of all of it; no match "
              "is a reward of 0"},
     ANSWER | BIT(JSON_VALID), false},
    {{"reward.functions.pattern", DT_CONF_STRING, AT(pattern), .result = true,
      .help = "regular expression, as PCRE2 has them, that all of the "
              "completion must match; with (?s) a dot matches line ends too"},
     BIT(REGEX), true},
    {{"reward.functions.after", DT_CONF_STRING, AT(after), .result = true,
      .help = "text whose last occurrence is before the number, such as ####; "
              "a completion without it has a reward of 0"},
     BIT(NUMBER_EQUAL), false},
    {{"reward.functions.tolerance", DT_CONF_FLOAT, AT(tolerance),
      .fallback = "0", .min = 0, .max = 1e300, .result = true,
      .help = "largest difference that still counts as equal"},
     BIT(NUMBER_EQUAL) | BIT(EXPRESSION), false},
    {{"reward.functions.texts", DT_CONF_STRINGS, AT(texts), .result = true,
      .help = "texts that the completion must have, all of them, instead of "
              "those in answer_column"},
     BIT(CONTAINS), false},
    {{"reward.functions.trim", DT_CONF_BOOL, AT(trim), .fallback = "true",
      .result = true,
      .help = "leave out white space at both ends before comparing"},
     BIT(EXACT), false},
    {{"reward.functions.ignore_case", DT_CONF_BOOL, AT(ignore_case),
      .fallback = "false", .result = true,
      .help = "upper and lower case are equal"},
     BIT(EXACT) | BIT(CONTAINS), false},
    {{"reward.functions.tags", DT_CONF_STRINGS, AT(tags),
      .fallback = "[think]", .result = true,
      .help = "elements such as <think>...</think> that the completion begins "
              "with, in this order, each once, with nothing but white space "
              "between them; any text may follow the last one"},
     BIT(FORMAT), false},
    {{"reward.functions.keys", DT_CONF_STRINGS, AT(keys), .result = true,
      .help = "keys that the JSON must have, which then is an object"},
     BIT(JSON_VALID), false},
    {{"reward.functions.shape", DT_CONF_ENUM, AT(shape), .result = true,
      .words = WORDS({"overlong", DT_CONF_LENGTH_OVERLONG, NULL},
                     {"target", DT_CONF_LENGTH_TARGET, NULL},
                     {"cosine", DT_CONF_LENGTH_COSINE, NULL}),
      .help = "how n tokens are scored: overlong is 0 up to tokens - "
              "cache_tokens, from there a line down to -1 at tokens; target "
              "is 1 at tokens, less by |n - tokens| / tokens, at least -1; "
              "cosine falls from 1 at 0 to 0 at tokens"},
     BIT(LENGTH), true},
    {{"reward.functions.tokens", DT_CONF_INT, AT(tokens), .min = 1,
      .max = 1 << 24, .result = true, .unit = "tokens",
      .help = "length that shape refers to; the token that ends a completion "
              "counts"},
     BIT(LENGTH), true},
    {{"reward.functions.cache_tokens", DT_CONF_INT, AT(cache_tokens),
      .fallback = "0", .min = 0, .max = 1 << 24, .result = true,
      .unit = "tokens", .help = "length of the line of shape overlong"},
     BIT(LENGTH), false},

    /* Programs. */
    {{"reward.functions.command", DT_CONF_STRINGS, AT(command), .result = true,
      .help = "program and its arguments, without a shell; it is started "
              "once, in the directory of the file, and answers lines of JSON"},
     BIT(COMMAND), true},
    {{"reward.functions.path", DT_CONF_DIR, AT(path),
      .help = "directory of a reward model: a Hugging Face sequence "
              "classifier with one label, or what algorithm rm has saved"},
     BIT(MODEL), true},
    {{"reward.functions.url", DT_CONF_STRINGS, AT(url),
      .help = "addresses to which requests are posted; several share them"},
     BIT(HTTP), true},
    {{"reward.functions.style", DT_CONF_ENUM, AT(openrlhf),
      .fallback = "disttrain",
      .words = WORDS({"disttrain", 0, NULL}, {"openrlhf", 1, NULL}),
      .help = "what is posted: the same lines that programs get, or query, "
              "prompts and labels as OpenRLHF does, with the answer column as "
              "label"},
     BIT(HTTP), false},
    {{"reward.functions.timeout_s", DT_CONF_FLOAT, AT(timeout_s),
      .fallback = "180", .min = 0, .max = 86400, .above_min = true,
      .unit = "seconds",
      .help = "time for the start and for each request; whoever takes longer "
              "is killed"},
     PROGRAM, false},
    {{"reward.functions.retries", DT_CONF_INT, AT(retries), .fallback = "1",
      .min = 0, .max = 10,
      .help = "how often a failed request is repeated: with a new program, or "
              "after 1, 2, 4 seconds with a server"},
     PROGRAM, false},
    {{"reward.functions.processes", DT_CONF_INT, AT(processes),
      .fallback = "1", .min = 1, .max = 256,
      .help = "programs, or requests to a server, that work at the same time"},
     PROGRAM, false},
    {{"reward.functions.batch_size", DT_CONF_INT, AT(batch_size),
      .min = 1, .max = 1 << 20, .unit = "completions",
      .help = "most completions of a request; by default processes share those of a call"},
     PROGRAM, false},
    {{"reward.functions.on_error", DT_CONF_ENUM, AT(nan_on_error),
      .fallback = "abort", .result = true,
      .words = WORDS({"abort", 0, NULL}, {"nan", 1, NULL}),
      .help = "what a request that fails after all retries does: abort ends "
              "the run; nan leaves its completions without this reward"},
     PROGRAM, false},
    {{"reward.functions.max_failed", DT_CONF_FLOAT, AT(max_failed),
      .fallback = "0.05", .min = 0, .max = 1,
      .help = "share of the completions that may fail with on_error nan, of "
              "a step and of the steps before it, of 256 at least; more end "
              "the run, and so does a step in which all fail, unless this is "
              "1"},
     PROGRAM, false},
    {{"reward.functions.memory_mb", DT_CONF_INT, AT(memory_mb), .min = 1,
      .max = 1 << 30, .unit = "MiB",
      .help = "address space that each of the program's processes may have"},
     BIT(COMMAND), false},
    {{"reward.functions.cpu_s", DT_CONF_INT, AT(cpu_s), .min = 1,
      .max = 1 << 30, .unit = "seconds",
      .help = "CPU time after which the program is killed"},
     BIT(COMMAND), false},
    {{"reward.functions.gpu", DT_CONF_BOOL, AT(gpu), .fallback = "false",
      .help = "let the program see the GPUs of its rank; otherwise "
              "CUDA_VISIBLE_DEVICES is empty"},
     BIT(COMMAND), false},
    {{"reward.functions.channels", DT_CONF_WEIGHTS, AT(channels),
      .result = true,
      .help = "names and weights of several rewards that the program gives "
              "each completion; the default is one"},
     BIT(COMMAND) | BIT(HTTP), false},
    {{"reward.functions.config", DT_CONF_FREE, AT(config), .result = true,
      .help = "anything that the program should know; it is sent when the "
              "program starts"},
     PROGRAM, false},
    {{"reward.functions.secrets_from", DT_CONF_STRING, AT(secrets_from),
      .help = "where secrets are that this file should not have: a file with "
              "lines NAME=value, which its owner alone may use, or env: and "
              "names of variables of the ranks, such as env:JUDGE_TOKEN,OTHER; "
              "a program finds them as variables of its environment, a server "
              "as headers of requests, with - for _, such as AUTHORIZATION and "
              "X_API_KEY"},
     PROGRAM, false},
};
/* clang-format on */

const size_t dt_conf_reward_key_count =
    sizeof(dt_conf_reward_keys) / sizeof(dt_conf_reward_keys[0]);

static const char prefix[] = "reward.functions.";

const char *dt_conf_reward_type_name(int type)
{
    return dt_conf_reward_keys[0].key.words[type].name;
}

const struct dt_conf_reward_key *dt_conf_reward_key_find(const char *path)
{
    for (size_t i = 0; i < dt_conf_reward_key_count; i++)
        if (strcmp(dt_conf_reward_keys[i].key.path, path) == 0 ||
            strcmp(dt_conf_reward_keys[i].key.path + strlen(prefix), path) == 0)
            return &dt_conf_reward_keys[i];
    return NULL;
}

void dt_conf_reward_help(const struct dt_conf_reward_key *row, char *buffer,
                         size_t bytes)
{
    const char *comma = "; for type ";
    snprintf(buffer, bytes, "%s", row->key.help);
    for (int t = 0; t < DT_CONF_REWARD_TYPES && row->types != EVERY; t++) {
        size_t used = strlen(buffer);
        if (!(row->types & 1u << t))
            continue;
        snprintf(buffer + used, bytes - used, "%s%s", comma,
                 dt_conf_reward_type_name(t));
        comma = ", ";
    }
}
