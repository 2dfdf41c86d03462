/* SPDX-License-Identifier: Apache-2.0 */
/* dump.c - prints values as YAML, prints the schema, and hashes results */
#include "config.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "base/secret.h"
#include "conf/read.h"

static const void *field_of(const void *values, size_t offset)
{
    return (const char *)values + offset;
}

void dt_conf_string_print(const char *text, FILE *out)
{
    putc('"', out);
    for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
        if (*p == '"' || *p == '\\')
            fprintf(out, "\\%c", *p);
        else if (*p < 0x20 || *p == 0x7f)
            fprintf(out, "\\u%04x", *p); /* JSON has no \\x */
        else
            putc(*p, out);
    }
    putc('"', out);
}

/* Prints 15 digits if they read back as the same number, else 17. */
static void print_float(double value, FILE *out)
{
    char text[32];
    snprintf(text, sizeof(text), "%.15g", value);
    if (strtod(text, NULL) != value)
        snprintf(text, sizeof(text), "%.17g", value);
    fputs(text, out);
}

/* Two doubles, or two longs. */
static void print_pair(enum dt_conf_type type, const void *first,
                       const void *second, FILE *out)
{
    if (type == DT_CONF_RANGE) {
        fprintf(out, "[%ld, %ld]", *(const long *)first, *(const long *)second);
        return;
    }
    putc('[', out);
    print_float(*(const double *)first, out);
    fputs(", ", out);
    print_float(*(const double *)second, out);
    putc(']', out);
}

static void print_word(const struct dt_conf_key *key, long value, FILE *out)
{
    for (const struct dt_conf_word *w = key->words; w->name; w++) {
        if (w->value == value && !w->waits) {
            fputs(w->name, out);
            return;
        }
    }
}

static void print_bool_or_word(const struct dt_conf_key *key, int value,
                               FILE *out)
{
    if (value == 0 || value == 1)
        fputs(value ? "true" : "false", out);
    else
        print_word(key, value, out);
}

static void print_int_or_word(const struct dt_conf_key *key, long value,
                              FILE *out)
{
    if (value >= (long)key->min)
        fprintf(out, "%ld", value);
    else
        print_word(key, value, out);
}

static void print_set(const void *values, const struct dt_conf_key *key,
                      FILE *out)
{
    const char *comma = "";
    putc('[', out);
    for (const struct dt_conf_word *w = key->words; w->name; w++) {
        if (!w->waits && *(const bool *)field_of(values, (size_t)w->value)) {
            fprintf(out, "%s%s", comma, w->name);
            comma = ", ";
        }
    }
    putc(']', out);
}

static void print_list(const struct dt_conf_list *list, FILE *out)
{
    putc('[', out);
    for (size_t i = 0; i < list->count; i++) {
        bool weighs = list->weight[i] > 0 && list->weight[i] != 1.0;
        fputs(i ? ", " : "", out);
        fputs(weighs ? "{path: " : "", out);
        dt_conf_string_print(list->text[i], out);
        if (weighs)
            fprintf(out, ", weight: %.17g}", list->weight[i]);
    }
    putc(']', out);
}

static void print_weights(const struct dt_conf_list *list, FILE *out)
{
    putc('{', out);
    for (size_t i = 0; i < list->count; i++) {
        fputs(i ? ", " : "", out);
        dt_conf_string_print(list->text[i], out);
        fputs(": ", out);
        print_float(list->weight[i], out);
    }
    putc('}', out);
}

static void print_path_or_word(const struct dt_conf_key *key, int value,
                               const void *path, FILE *out)
{
    if (value == key->other)
        dt_conf_string_print(*(char *const *)path, out);
    else
        print_word(key, value, out);
}

/* Prints a list or a section. */
static void print_several(enum dt_conf_type type, const void *at, FILE *out)
{
    const char *text = type == DT_CONF_FREE ? *(char *const *)at : NULL;
    if (type == DT_CONF_WEIGHTS)
        print_weights(at, out);
    else if (type == DT_CONF_FREE)
        fputs(text ? text : "null", out); /* null: it was refused */
    else if (type == DT_CONF_REWARDS)
        dt_conf_rewards_print(at, false, out);
    else
        print_list(at, out);
}

void dt_conf_value_print(const void *values, const struct dt_conf_key *key,
                         FILE *out)
{
    const void *at = field_of(values, key->offset);
    const void *second = field_of(values, key->second);
    switch (key->type) {
    case DT_CONF_BOOL:
        fputs(*(const bool *)at ? "true" : "false", out);
        break;
    case DT_CONF_COUNT:
        if (*(const double *)second > 0) {
            print_float(*(const double *)second, out);
            break;
        }
        /* fall through */
    case DT_CONF_INT:
    case DT_CONF_SIZE:
        fprintf(out, "%ld", *(const long *)at);
        break;
    case DT_CONF_U64:
        fprintf(out, "%" PRIu64, *(const uint64_t *)at);
        break;
    case DT_CONF_FLOAT:
        print_float(*(const double *)at, out);
        break;
    case DT_CONF_STRING:
    case DT_CONF_DIR:
    case DT_CONF_OLD_DIR:
        dt_conf_string_print(*(char *const *)at, out);
        break;
    case DT_CONF_FILES:
    case DT_CONF_STRINGS:
    case DT_CONF_WEIGHTS:
    case DT_CONF_FREE:
    case DT_CONF_REWARDS:
        print_several(key->type, at, out);
        break;
    case DT_CONF_ENUM:
        print_word(key, *(const int *)at, out);
        break;
    case DT_CONF_BOOL_OR_WORD:
        print_bool_or_word(key, *(const int *)at, out);
        break;
    case DT_CONF_INT_OR_WORD:
        print_int_or_word(key, *(const long *)at, out);
        break;
    case DT_CONF_SET:
        print_set(values, key, out);
        break;
    case DT_CONF_OLD_OR_WORD:
    case DT_CONF_FILE_OR_WORD:
        print_path_or_word(key, *(const int *)at, second, out);
        break;
    case DT_CONF_BETAS:
    case DT_CONF_RANGE:
        print_pair(key->type, at, second, out);
        break;
    default: /* IGNORED, UNUSED */
        break;
    }
}

bool dt_conf_value_known(const void *values, const struct dt_conf_key *key)
{
    const void *at = field_of(values, key->offset);
    switch (key->type) {
    case DT_CONF_STRING:
    case DT_CONF_DIR:
    case DT_CONF_OLD_DIR:
    case DT_CONF_FREE:
        return *(char *const *)at != NULL;
    case DT_CONF_FILES:
    case DT_CONF_STRINGS:
    case DT_CONF_WEIGHTS:
        return ((const struct dt_conf_list *)at)->count > 0;
    case DT_CONF_INT:
    case DT_CONF_RANGE:
        return *(const long *)at >= (long)key->min;
    default:
        return true;
    }
}

/* The value as the dump prints it; free it. NULL: out of memory. */
static char *value_text(const struct dt_conf *conf,
                        const struct dt_conf_key *key)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *stream = open_memstream(&text, &bytes);
    if (!stream)
        return NULL;
    dt_conf_value_print(conf, key, stream);
    if (fclose(stream) == 0)
        return text;
    free(text);
    return NULL;
}

char *dt_conf_value_text(struct dt_conf_reader *reader,
                         const struct dt_conf_key *key)
{
    char *text = value_text(reader->conf, key);
    if (!text)
        reader->problems.out_of_memory = true;
    return text;
}

/* Whether the dump shows a key. Training keys are left out of a file that does
 * not train: with them, reading the dump back would train. So are those that
 * only another algorithm looks at.
 */
static bool has_value(const struct dt_conf *conf, size_t row)
{
    const struct dt_conf_key *key = &dt_conf_keys[row];
    return key->type != DT_CONF_IGNORED && key->type != DT_CONF_UNUSED &&
           (conf->trains || !dt_conf_key_trains(key)) &&
           (conf->place[row].line > 0 || dt_conf_is_used(conf, key)) &&
           !(key->shape && (conf->model.path || conf->model.config_path)) &&
           (conf->place[row].line != 0 || key->fallback);
}

static void print_source(const struct dt_conf *conf, struct dt_conf_place place,
                         FILE *out)
{
    if (place.line > 0 && place.source == DT_CONF_OF_OVERRIDE) {
        fputs("  # --set\n", out);
    } else if (place.line > 0 && place.source == DT_CONF_OF_DEEPSPEED) {
        fprintf(out, "  # line %d of ", place.line);
        dt_conf_string_print(conf->distributed.deepspeed_config, out);
        putc('\n', out);
    } else if (place.line > 0) {
        fprintf(out, "  # line %d\n", place.line);
    } else {
        fprintf(out, "  # %s\n", place.line < 0 ? "worked out" : "default");
    }
}

void dt_conf_dump(const struct dt_conf *conf, FILE *out)
{
    char section[64] = "";
    fputs("# ", out);
    dt_conf_string_print(conf->file, out);
    putc('\n', out);
    for (size_t i = 0; i < dt_conf_key_count; i++) {
        const char *path = dt_conf_keys[i].path;
        const char *name = strchr(path, '.');
        if (!has_value(conf, i))
            continue;
        size_t n = name ? (size_t)(name - path) : 0;
        if (n != strlen(section) || strncmp(section, path, n) != 0) {
            snprintf(section, sizeof(section), "%.*s", (int)n, path);
            fprintf(out, "%s:\n", section);
        }
        fprintf(out, "%s%s: ", n ? "  " : "", n ? name + 1 : path);
        dt_conf_value_print(conf, &dt_conf_keys[i], out);
        print_source(conf, conf->place[i], out);
    }
    if (conf->env_count > 0)
        fputs("env:\n", out);
    for (size_t i = 0; i < conf->env_count; i++) {
        fprintf(out, "  %s: ", conf->env[i].name);
        dt_conf_string_print(conf->env[i].value, out);
        putc('\n', out);
    }
}

int dt_conf_each(const struct dt_conf *conf, dt_conf_each_f f, void *ctx)
{
    char name[256];
    for (size_t i = 0; i < dt_conf_key_count; i++) {
        if (!has_value(conf, i))
            continue;
        char *text = value_text(conf, &dt_conf_keys[i]);
        if (!text)
            return -1;
        f(ctx, dt_conf_keys[i].path, text, conf->place[i].line > 0);
        free(text);
    }
    for (size_t i = 0; i < conf->env_count; i++) {
        snprintf(name, sizeof(name), "env.%s", conf->env[i].name);
        f(ctx, name, conf->env[i].value, true);
    }
    return 0;
}

/* --- what a file gives --- */

static bool is_path(const struct dt_conf_key *key, const void *values)
{
    switch (key->type) {
    case DT_CONF_DIR:
    case DT_CONF_OLD_DIR:
        return true;
    case DT_CONF_OLD_OR_WORD:
    case DT_CONF_FILE_OR_WORD:
        return *(const int *)field_of(values, key->offset) == key->other;
    default:
        return false;
    }
}

/* How many files there are, and what those weigh that have weights. */
static void print_file_weights(const struct dt_conf_list *list, FILE *out)
{
    fprintf(out, "%zu files", list->count);
    for (size_t i = 0; i < list->count; i++)
        if (list->weight[i] > 0)
            fprintf(out, ", weight %.17g", list->weight[i]);
}

/* Each key of each function has a line, so that a difference names it. */
static void print_given_rewards(const struct dt_conf_rewards *rewards,
                                FILE *out)
{
    fprintf(out, "%zu functions\n", rewards->count);
    for (size_t i = 0; i < rewards->count; i++) {
        const struct dt_conf_reward *reward = &rewards->functions[i];
        for (size_t k = 0; k < dt_conf_reward_key_count; k++) {
            const struct dt_conf_key *key = &dt_conf_reward_keys[k].key;
            fprintf(out, "reward.functions[%zu].%s: ", i,
                    strrchr(key->path, '.') + 1);
            if (!dt_conf_value_known(reward, key))
                fputs("(not given)", out);
            else if (is_path(key, reward))
                fputs("(a path)", out);
            else
                dt_conf_value_print(reward, key, out);
            putc('\n', out);
        }
    }
}

void dt_conf_print_given(const struct dt_conf *conf, FILE *out)
{
    for (size_t i = 0; i < dt_conf_key_count; i++) {
        const struct dt_conf_key *key = &dt_conf_keys[i];
        fprintf(out, "%s: ", key->path);
        if (key->type == DT_CONF_REWARDS) {
            print_given_rewards(&conf->reward, out);
            continue;
        }
        if (conf->place[i].line <= 0)
            fputs("(not given)", out);
        else if (is_path(key, conf))
            fputs("(a path)", out);
        else if (key->type == DT_CONF_FILES)
            print_file_weights(field_of(conf, key->offset), out);
        else
            dt_conf_value_print(conf, key, out);
        putc('\n', out);
    }
    fprintf(out, "env: %zu variables\n", conf->env_count);
    for (size_t i = 0; i < conf->env_count; i++) {
        fprintf(out, "env.%s: ", conf->env[i].name);
        dt_conf_string_print(conf->env[i].value, out);
        putc('\n', out);
    }
}

/* --- the schema and the results --- */

static void print_names(const char *const *names, FILE *out)
{
    if (!names || !*names)
        putc('-', out);
    for (; names && *names; names++)
        fprintf(out, "%s%s", *names, names[1] ? " " : "");
}

static void print_key(const struct dt_conf_key *key, const char *help,
                      FILE *out)
{
    char expects[512];
    dt_conf_key_expects(key, expects, sizeof(expects));
    fprintf(out, "%s\t%s\t%s\t", key->path, expects,
            key->fallback ? key->fallback : "-");
    print_names(key->aliases, out);
    fprintf(out, "\t%s\n", help);
}

static void print_reward_keys(FILE *out)
{
    for (size_t i = 0; i < dt_conf_reward_key_count; i++) {
        char help[1024];
        dt_conf_reward_help(&dt_conf_reward_keys[i], help, sizeof(help));
        print_key(&dt_conf_reward_keys[i].key, help, out);
    }
}

void dt_conf_schema(FILE *out)
{
    for (size_t i = 0; i < dt_conf_key_count; i++) {
        print_key(&dt_conf_keys[i], dt_conf_keys[i].help, out);
        if (dt_conf_keys[i].type == DT_CONF_REWARDS)
            print_reward_keys(out);
    }
    for (const struct dt_conf_later *l = dt_conf_laters; l->section; l++)
        for (const char *const *k = l->keys; *k; k++)
            fprintf(out, "%s%s%s\tlater\t-\t-\t%s\n", l->section,
                    *l->section ? "." : "", *k, l->waits);
}

/* Without secrets: they end up in checkpoints, and another password does not
 * change the result.
 */
static void print_reward_results(const struct dt_conf_rewards *rewards,
                                 FILE *out)
{
    char *text = NULL, *clean;
    size_t bytes;
    FILE *stream = open_memstream(&text, &bytes);
    if (!stream)
        return;
    dt_conf_rewards_print(rewards, true, stream);
    if (fclose(stream) == 0 && text && (clean = dt_secret_remove_seen(text))) {
        fputs(clean, out);
        free(clean);
    }
    free(text);
}

void dt_conf_print_results(const struct dt_conf *conf, FILE *out)
{
    for (size_t i = 0; i < dt_conf_key_count; i++) {
        if (!dt_conf_keys[i].result || !has_value(conf, i))
            continue;
        fprintf(out, "%s: ", dt_conf_keys[i].path);
        if (dt_conf_keys[i].type == DT_CONF_REWARDS)
            print_reward_results(&conf->reward, out);
        else
            dt_conf_value_print(conf, &dt_conf_keys[i], out);
        putc('\n', out);
    }
}

int dt_conf_fingerprint(struct dt_conf *conf)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *stream = open_memstream(&text, &bytes);
    if (!stream)
        return -1;
    dt_conf_print_results(conf, stream);
    int rc = ferror(stream) ? -1 : 0;
    if (fclose(stream) != 0 || !text)
        rc = -1;
    if (rc == 0)
        conf->fingerprint = XXH3_64bits(text, bytes);
    free(text);
    return rc;
}
