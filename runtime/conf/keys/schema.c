/* SPDX-License-Identifier: Apache-2.0 */
/* schema.c - the table of all keys, one row for each */
#include "config.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "conf/keys/schema.h"

/* clang-format off */
/* Rows from the definitions of keys; keys.h has the other half. */
#define ROW(section, key, KIND, ...) \
    {#section "." #key, DT_CONF_##KIND, __VA_ARGS__},
#define OWN(section, key, KIND, ...) \
    {#section "." #key, DT_CONF_##KIND, AT(section.key), __VA_ARGS__},
#define BOOL(section, key, ...) OWN(section, key, BOOL, __VA_ARGS__)
#define INT(section, key, ...) OWN(section, key, INT, __VA_ARGS__)
#define U64(section, key, ...) OWN(section, key, U64, __VA_ARGS__)
#define REAL(section, key, ...) OWN(section, key, FLOAT, __VA_ARGS__)
#define SIZE(section, key, ...) OWN(section, key, SIZE, __VA_ARGS__)
#define COUNT(section, key, ...) \
    OWN(section, key, COUNT, AND(section.key##_ratio), __VA_ARGS__)
#define TEXT(section, key, ...) OWN(section, key, STRING, __VA_ARGS__)
#define DIR(section, key, ...) OWN(section, key, DIR, __VA_ARGS__)
#define OLD_DIR(section, key, ...) OWN(section, key, OLD_DIR, __VA_ARGS__)
#define FREE(section, key, ...) OWN(section, key, FREE, __VA_ARGS__)
#define FILES(section, key, ...) OWN(section, key, FILES, __VA_ARGS__)
#define LIST(section, key, ...) OWN(section, key, STRINGS, __VA_ARGS__)
#define NUMBERS(section, key, ...) OWN(section, key, WEIGHTS, __VA_ARGS__)
#define ENUM(section, key, ...) OWN(section, key, ENUM, __VA_ARGS__)
#define BOOL_OR_WORD(section, key, ...) \
    OWN(section, key, BOOL_OR_WORD, __VA_ARGS__)
#define INT_OR_WORD(section, key, ...) \
    OWN(section, key, INT_OR_WORD, __VA_ARGS__)
#define OLD_OR_WORD(section, key, ...) \
    OWN(section, key, OLD_OR_WORD, AND(section.key##_path), __VA_ARGS__)
#define FILE_OR_WORD(section, key, ...) \
    OWN(section, key, FILE_OR_WORD, AND(section.key##_path), __VA_ARGS__)
#define MEMBER(type, name)
#define GROUP(name)
#define END(name)

/* Attributes, as struct dt_conf_key has them */
#define AT(field) .offset = offsetof(struct dt_conf, field)
#define AND(field) .second = offsetof(struct dt_conf, field)
#define DEFAULT(text) .fallback = text
#define FROM_TO(least, most) .min = least, .max = most
#define FROM_BELOW(least, most) FROM_TO(least, most), .below_max = true
#define ABOVE_TO(least, most) FROM_TO(least, most), .above_min = true
#define AT_LEAST(least) FROM_TO(least, INFINITY)
#define ABOVE(least) ABOVE_TO(least, INFINITY)
#define RESULT .result = true
#define SHAPE .shape = true
#define ENDLESS .endless = true
#define SINGLE .single = true
#define REQUIRED .required = true
#define UNIT(text) .unit = text
#define CLASH(text) .clash = text
#define OTHER(value) .other = value
#define USERS(algorithms) .users = algorithms
#define WORD_LIST(list) .words = list
#define WORDS(...) WORD_LIST(((const struct dt_conf_word[]){__VA_ARGS__, {0}}))
#define ALSO(...) .aliases = ((const char *const[]){__VA_ARGS__, NULL})
#define HELP(...) .help = __VA_ARGS__

/* The words of a list in base/choices.h, alone or with others, and their help
 */
#define WORD(VALUE, word, ...) {#word, VALUE, NULL},
#define CHOICES(list) WORD_LIST(((const struct dt_conf_word[]){list(WORD){0}}))
#define CHOICES_AND(list, ...) \
    WORD_LIST(((const struct dt_conf_word[]){list(WORD) __VA_ARGS__, {0}}))
#define EACH(VALUE, word, help) "; " #word ": " help
#define EACH_LOSS(VALUE, word, traits, help) EACH(VALUE, word, help)

/* Users, by bits of enum dt_conf_algorithm */
enum {
    SFT = 1 << DT_CONF_SFT,
    RM = 1 << DT_CONF_RM,
    DPO = 1 << DT_CONF_DPO,
    PPO = 1 << DT_CONF_PPO,
    GRPO = 1 << DT_CONF_GRPO,
    LORA = DT_CONF_USER_LORA,
};

static const struct dt_conf_word whens[] = {
    {"no", DT_CONF_NO, NULL},
    {"steps", DT_CONF_STEPS, NULL},
    {"epoch", DT_CONF_EPOCH, NULL},
    {0},
};

static const struct dt_conf_word curves[] = {
    {"log", DT_CURVE_LOG, NULL}, /* not for decay_type */
    {"linear", DT_CURVE_LINEAR, NULL},
    {"cosine", DT_CURVE_COSINE, NULL},
    {"1-sqrt", DT_CURVE_SQRT, NULL},
    {0},
};

static const struct dt_conf_word offloads[] = {
    {"none", DT_CONF_OFFLOAD_NONE, NULL},
    {"cpu", DT_CONF_OFFLOAD_CPU, NULL},
    {"nvme", DT_CONF_OFFLOAD_NVME, NULL},
    {0},
};

const struct dt_conf_key dt_conf_keys[] = {
    /* Top level */
    {"version", DT_CONF_INT, AT(version), .fallback = "1", .min = 1, .max = 1,
     .help = "version of the file format"},
    {"algorithm", DT_CONF_ENUM, AT(algorithm), .result = true,
     WORDS({"sft", DT_CONF_SFT, NULL},
                    {"rm", DT_CONF_RM, NULL},
                    {"dpo", DT_CONF_DPO, NULL},
                    {"ppo", DT_CONF_PPO, NULL},
                    {"grpo", DT_CONF_GRPO, NULL}),
     .help = "training algorithm: sft is supervised fine-tuning; rm trains a "
             "reward model and dpo is direct preference optimization, both "
             "from preference pairs; ppo and grpo learn from rewards of "
             "completions that the model samples; required"},
    {"mode", DT_CONF_IGNORED,
     WORDS({"train", 0, NULL}, {"eval", 0, NULL},
                    {"generate", 0, "generation from a file (see `disttrain generate`)"},
                    {"precompute_ref", 0, "algorithm dpo"},
                    {"create_slurm", 0, NULL}),
     ALSO("training.mode"),
     .help = "the command decides: `disttrain train` trains, `disttrain "
             "sbatch` writes a batch script; only eval, which sets "
             "training.eval_only, has an effect"},

#include "conf/keys/run.def"
#include "conf/keys/model.def"
#include "conf/keys/data.def"
#include "conf/keys/adapter.def"
#include "conf/keys/training.def"
#include "conf/keys/rm.def"
#include "conf/keys/dpo.def"
#include "conf/keys/reward.def"
#include "conf/keys/distributed.def"
#include "conf/keys/optimizer.def"
#include "conf/keys/scheduler.def"
#include "conf/keys/precision.def"
#include "conf/keys/rollout.def"
#include "conf/keys/grpo.def"
#include "conf/keys/ppo.def"
#include "conf/keys/checkpoint.def"
#include "conf/keys/logging.def"
#include "conf/keys/launch.def"
};

/* The keys of a function, whose users are bits of enum dt_conf_reward_type. */
#undef OWN
#undef AT
#define OWN(section, key, KIND, ...) \
    {#section "." #key, DT_CONF_##KIND, AT(key), __VA_ARGS__},
#define AT(field) .offset = offsetof(struct dt_conf_reward, field)

enum {
    EXACT = 1 << DT_CONF_REWARD_EXACT,
    CONTAINS = 1 << DT_CONF_REWARD_CONTAINS,
    REGEX = 1 << DT_CONF_REWARD_REGEX,
    NUMBER_EQUAL = 1 << DT_CONF_REWARD_NUMBER_EQUAL,
    EXPRESSION = 1 << DT_CONF_REWARD_EXPRESSION,
    JSON_VALID = 1 << DT_CONF_REWARD_JSON_VALID,
    FORMAT = 1 << DT_CONF_REWARD_FORMAT,
    LENGTH = 1 << DT_CONF_REWARD_LENGTH,
    COMMAND = 1 << DT_CONF_REWARD_COMMAND,
    MODEL = 1 << DT_CONF_REWARD_MODEL,
    HTTP = 1 << DT_CONF_REWARD_HTTP,
    EVERY = (1 << DT_CONF_REWARD_TYPES) - 1,
    ANSWER = EXACT | CONTAINS | NUMBER_EQUAL | EXPRESSION,
    PROGRAM = COMMAND | HTTP,
};

const struct dt_conf_key dt_conf_reward_keys[] = {
#include "conf/keys/function.def"
};
/* clang-format on */

const size_t dt_conf_key_count = sizeof(dt_conf_keys) / sizeof(dt_conf_keys[0]);
const size_t dt_conf_reward_key_count =
    sizeof(dt_conf_reward_keys) / sizeof(dt_conf_reward_keys[0]);

const char *dt_conf_word_of(const struct dt_conf_key *key, long value)
{
    for (const struct dt_conf_word *w = key->words; w->name; w++)
        if (w->value == value && !w->waits)
            return w->name;
    return "";
}

/* --- the keys of the configuration --- */

int dt_conf_key_find(const char *path)
{
    for (size_t i = 0; i < dt_conf_key_count; i++)
        if (strcmp(dt_conf_keys[i].path, path) == 0)
            return (int)i;
    return -1;
}

bool dt_conf_key_trains(const struct dt_conf_key *key)
{
    static const char *const others[] = {"version",  "mode",    "launch.",
                                         "logging.", "reward.", "run."};
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        if (strncmp(key->path, others[i], strlen(others[i])) == 0)
            return false;
    return true;
}

bool dt_conf_is_used(const struct dt_conf *conf, const struct dt_conf_key *key)
{
    if (key->users == DT_CONF_USER_LORA)
        return conf->adapter.type != DT_CONF_ADAPTER_NONE;
    return key->users == 0 || (key->users & (1u << conf->algorithm));
}

void dt_conf_users(const struct dt_conf_key *key, char *buffer, size_t bytes)
{
    const struct dt_conf_word *w =
        dt_conf_keys[dt_conf_key_find("algorithm")].words;
    unsigned left = key->users;
    const bool several = (left & (left - 1)) != 0;
    const char *comma = "";
    int length = snprintf(buffer, bytes, "algorithm%s ", several ? "s" : "");
    if (left == DT_CONF_USER_LORA) {
        snprintf(buffer, bytes, "adapter.type: lora uses");
        return;
    }
    for (; w->name; w++) {
        if (!(left & (1u << w->value)))
            continue;
        left &= ~(1u << w->value);
        length += snprintf(buffer + length, bytes - (size_t)length, "%s%s",
                           comma, w->name);
        comma = (left & (left - 1)) != 0 ? ", " : " and ";
    }
    snprintf(buffer + length, bytes - (size_t)length,
             several ? " use" : " uses");
}

/* --- the keys of a reward function --- */

const char *dt_conf_reward_type_name(int type)
{
    return dt_conf_word_of(&dt_conf_reward_keys[0], type);
}

const struct dt_conf_key *dt_conf_reward_key_find(const char *path)
{
    for (size_t i = 0; i < dt_conf_reward_key_count; i++)
        if (strcmp(dt_conf_reward_keys[i].path, path) == 0 ||
            strcmp(strrchr(dt_conf_reward_keys[i].path, '.') + 1, path) == 0)
            return &dt_conf_reward_keys[i];
    return NULL;
}

bool dt_conf_reward_uses(int type, const struct dt_conf_key *key)
{
    return key->users == 0 || (key->users & 1u << type);
}

void dt_conf_reward_help(const struct dt_conf_key *key, char *buffer,
                         size_t bytes)
{
    const char *comma = "; for type ";
    snprintf(buffer, bytes, "%s", key->help);
    for (int t = 0; t < DT_CONF_REWARD_TYPES && key->users != 0; t++) {
        size_t used = strlen(buffer);
        if (!dt_conf_reward_uses(t, key))
            continue;
        snprintf(buffer + used, bytes - used, "%s%s", comma,
                 dt_conf_reward_type_name(t));
        comma = ", ";
    }
}

/* --- the values that a key takes --- */

/* Appends to the text in buffer; cuts the rest. */
#define APPEND(buffer, bytes, ...)                                             \
    snprintf((buffer) + strlen(buffer), (bytes)-strlen(buffer), __VA_ARGS__)

static void append_words(const struct dt_conf_key *key, char *buffer,
                         size_t bytes)
{
    const char *comma = "";
    for (const struct dt_conf_word *w = key->words; w->name; w++) {
        if (!w->waits) {
            APPEND(buffer, bytes, "%s%s", comma, w->name);
            comma = ", ";
        }
    }
}

/* Appends " from 1 to 64", " > 0" or " in [0, 1)", or nothing without limits.
 */
static void append_range(const struct dt_conf_key *key, char *buffer,
                         size_t bytes)
{
    bool whole = key->type == DT_CONF_INT || key->type == DT_CONF_COUNT ||
                 key->type == DT_CONF_INT_OR_WORD;
    if (key->min == 0 && key->max == 0)
        return;
    if (key->max >= 1e12 || key->endless)
        APPEND(buffer, bytes, " %s %.17g",
               key->above_min ? ">" : ">=", key->min);
    else if (whole)
        APPEND(buffer, bytes, " from %.17g to %.17g", key->min, key->max);
    else
        APPEND(buffer, bytes, " in %c%.17g, %.17g%c",
               key->above_min ? '(' : '[', key->min, key->max,
               key->below_max ? ')' : ']');
}

void dt_conf_key_expects(const struct dt_conf_key *key, char *buffer,
                         size_t bytes)
{
    static const char *const nouns[] = {
        [DT_CONF_BOOL] = "true or false",
        [DT_CONF_INT] = "an integer",
        [DT_CONF_U64] = "an integer from 0 to 2^64 - 1",
        [DT_CONF_FLOAT] = "a number",
        [DT_CONF_SIZE] = "a size such as 500MB or 2GiB",
        [DT_CONF_COUNT] = "an integer",
        [DT_CONF_STRING] = "a string",
        [DT_CONF_DIR] = "a path",
        [DT_CONF_OLD_DIR] = "a directory",
        [DT_CONF_FILES] = "a file or a list of files",
        [DT_CONF_STRINGS] = "a list of ",
        [DT_CONF_ENUM] = "one of ",
        [DT_CONF_SET] = "a list of ",
        [DT_CONF_OLD_OR_WORD] = "a directory or one of ",
        [DT_CONF_FILE_OR_WORD] = "a file or one of ",
        [DT_CONF_BOOL_OR_WORD] = "one of true, false, ",
        [DT_CONF_INT_OR_WORD] = "an integer",
        [DT_CONF_BETAS] = "a list of two numbers",
        [DT_CONF_RANGE] = "a list of two integers, first and last,",
        [DT_CONF_WEIGHTS] = "a section of names with a number each",
        [DT_CONF_FREE] = "a section",
        [DT_CONF_REWARDS] = "a list of sections, each with a type",
        [DT_CONF_IGNORED] = "true or false",
        [DT_CONF_UNUSED] = "any value",
    };
    buffer[0] = '\0';
    if (key->type == DT_CONF_IGNORED && key->words)
        APPEND(buffer, bytes, "one of ");
    else
        APPEND(buffer, bytes, "%s", nouns[key->type]);
    append_range(key, buffer, bytes);
    if (key->type == DT_CONF_STRINGS && !key->words)
        APPEND(buffer, bytes, "words");
    if (key->type == DT_CONF_COUNT)
        APPEND(buffer, bytes, " or a ratio in (0, 1)");
    if (key->type == DT_CONF_INT_OR_WORD)
        APPEND(buffer, bytes, " or one of ");
    if (key->words)
        append_words(key, buffer, bytes);
    if (key->unit)
        APPEND(buffer, bytes, " (%s)", key->unit);
}
