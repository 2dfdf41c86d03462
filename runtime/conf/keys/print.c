/* SPDX-License-Identifier: Apache-2.0 */
/* print.c - prints values as YAML, and hashes those that change results */
#include "config.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "base/secret.h"
#include "base/str.h"
#include "conf/keys/draft.h"

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

static void print_bool_or_word(const struct dt_conf_key *key, int value,
                               FILE *out)
{
    if (value == 0 || value == 1)
        fputs(value ? "true" : "false", out);
    else
        fputs(dt_conf_word_of(key, value), out);
}

static void print_int_or_word(const struct dt_conf_key *key, long value,
                              FILE *out)
{
    if (value >= (long)key->min)
        fprintf(out, "%ld", value);
    else
        fputs(dt_conf_word_of(key, value), out);
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
        fputs(dt_conf_word_of(key, value), out);
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
        fputs(dt_conf_word_of(key, *(const int *)at), out);
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

void dt_conf_rewards_print(const struct dt_conf_rewards *rewards, bool results,
                           FILE *out)
{
    putc('[', out);
    for (size_t i = 0; i < rewards->count; i++) {
        const struct dt_conf_reward *reward = &rewards->functions[i];
        const char *comma = "";
        fputs(i ? ", {" : "{", out);
        for (size_t k = 0; k < dt_conf_reward_key_count; k++) {
            const struct dt_conf_key *key = &dt_conf_reward_keys[k];
            if (!dt_conf_reward_uses(reward->type, key) ||
                (results && !key->result) || !dt_conf_value_known(reward, key))
                continue;
            fprintf(out, "%s%s: ", comma, strrchr(key->path, '.') + 1);
            dt_conf_value_print(reward, key, out);
            comma = ", ";
        }
        putc('}', out);
    }
    putc(']', out);
}

char *dt_conf_text_of(const void *values, const struct dt_conf_key *key)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *stream = open_memstream(&text, &bytes);
    if (!stream)
        return NULL;
    dt_conf_value_print(values, key, stream);
    if (fclose(stream) == 0)
        return text;
    free(text);
    return NULL;
}

/* Whether a key is of models that a run makes of two directories, or of others.
 */
static bool is_of_other_model(const struct dt_conf *conf,
                              const struct dt_conf_key *key)
{
    return dt_conf_composes(conf)
               ? !strcmp(key->path, "model.path")
               : dt_str_after(key->path, "model.vision_feature_") != NULL;
}

/* Whether the dump shows a key. Training keys are left out of a file that does
 * not train: with them, reading the dump back would train. So are those that
 * only another algorithm looks at, and the directory of a model that the run
 * makes of others.
 */
bool dt_conf_has_value(const struct dt_conf *conf, size_t row)
{
    const struct dt_conf_key *key = &dt_conf_keys[row];
    return key->type != DT_CONF_IGNORED && key->type != DT_CONF_UNUSED &&
           (conf->trains || !dt_conf_key_trains(key)) &&
           (conf->place[row].line > 0 || dt_conf_is_used(conf, key)) &&
           !(key->shape && (conf->model.path || conf->model.config_path)) &&
           !is_of_other_model(conf, key) &&
           (conf->place[row].line != 0 || key->fallback);
}

/* --- results --- */

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
        if (!dt_conf_keys[i].result || !dt_conf_has_value(conf, i))
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
