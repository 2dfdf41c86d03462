/* SPDX-License-Identifier: Apache-2.0 */
/*
 * metric_line.c - a line of metrics.jsonl as a record
 *
 * Lines of a run have the same names in the same order. The quick reader
 * compares each name with the one that followed last time. An unusual line goes
 * to jansson, which decides whether it is JSON and adds new names.
 */
#include "config.h"

#include <limits.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "history/history_impl.h"

enum {
    NAMES_MAX = 1024, /* with those of STEP to NONE */
    NAME_BYTES = 127,
    SLOTS = 2 * NAMES_MAX,
    DIGITS_EXACT = 15, /* decimal digits of an exact double */
    POWER_EXACT = 22,  /* 10^22 is an exact double */
};

/* Indices of names. NONE: no name. */
enum { NONE, STEP, SPLIT, TIME, WALL, FIRST_VALUE };

struct metric_name {
    char *text;
    size_t bytes;
    unsigned seen;  /* number of the last line that had it */
    uint16_t after; /* the name that followed */
};

struct dt_metric_names {
    struct metric_name item[NAMES_MAX];
    size_t count;
    uint16_t slot[SLOTS]; /* of a hash table */
    unsigned line;
};

/* --- names --- */

static size_t name_slot(const struct dt_metric_names *names, const char *text,
                        size_t bytes)
{
    uint32_t hash = 2166136261u; /* FNV-1a */
    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ (unsigned char)text[i]) * 16777619u;
    size_t slot = hash % SLOTS;
    for (; names->slot[slot] != NONE; slot = (slot + 1) % SLOTS) {
        const struct metric_name *name = &names->item[names->slot[slot]];
        if (name->bytes == bytes && !memcmp(name->text, text, bytes))
            break;
    }
    return slot;
}

/* Adds a name, or finds it. NONE: too long, too many, or no memory. */
static uint16_t names_add(struct dt_metric_names *names, const char *text)
{
    const size_t bytes = strlen(text), slot = name_slot(names, text, bytes);
    if (names->slot[slot] != NONE)
        return names->slot[slot];
    if (bytes > NAME_BYTES || names->count == NAMES_MAX)
        return NONE;
    char *copy = strdup(text);
    if (!copy)
        return NONE;
    names->item[names->count] = (struct metric_name){copy, bytes, 0, NONE};
    names->slot[slot] = (uint16_t)names->count;
    return (uint16_t)names->count++;
}

struct dt_metric_names *dt_metric_names_create(void)
{
    static const char *const fixed[] = {
        [STEP] = "step", [SPLIT] = "split", [TIME] = "time", [WALL] = "wall"};
    struct dt_metric_names *names = calloc(1, sizeof(*names));
    if (!names)
        return NULL;
    names->count = STEP;
    for (uint16_t i = STEP; i < FIRST_VALUE; i++)
        if (names_add(names, fixed[i]) != i) {
            dt_metric_names_destroy(names);
            return NULL;
        }
    return names;
}

void dt_metric_names_destroy(struct dt_metric_names *names)
{
    if (!names)
        return;
    for (size_t i = STEP; i < names->count; i++)
        free(names->item[i].text);
    free(names);
}

/* --- records --- */

static void record_begin(struct dt_report_record *record, double *seconds)
{
    record->count = 0;
    record->step = -1;
    record->wall = *seconds = NAN;
}

/* Takes a number whose name is not STEP or SPLIT. */
static void record_put(struct dt_report_record *record, double *seconds,
                       const struct dt_metric_names *names, uint16_t name,
                       double value)
{
    if (name == TIME)
        *seconds = value;
    else if (name == WALL)
        record->wall = value;
    else if (name >= FIRST_VALUE && record->count < DT_RECORD_VALUES_MAX)
        record->value[record->count++] =
            (struct dt_report_value){names->item[name].text, value, false};
}

/* --- the quick reader --- */

static const char *skip_spaces(const char *s)
{
    while (*s == ' ' || *s == '\t')
        s++;
    return s;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static const char *read_exponent(const char *s, int *exponent)
{
    int value = 0;
    if (*s != 'e' && *s != 'E')
        return s;
    const bool negative = *++s == '-';
    s += *s == '-' || *s == '+';
    if (!is_digit(*s))
        return NULL;
    for (; is_digit(*s); s++)
        value = value < 1000 ? value * 10 + *s - '0' : value;
    *exponent += negative ? -value : value;
    return s;
}

/* A product or quotient of two exact doubles is rounded once, so it is the
 * nearest double.
 */
static bool scale_exactly(uint64_t digits, int exponent, double *value)
{
    static const double power[POWER_EXACT + 1] = {
        1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
        1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    if (exponent < -POWER_EXACT || exponent > POWER_EXACT)
        return false;
    *value = exponent < 0 ? (double)digits / power[-exponent]
                          : (double)digits * power[exponent];
    return true;
}

/* Reads a number of JSON. Returns the text after it; NULL: it is none. */
static const char *read_number(const char *s, double *value)
{
    const char *const begin = s;
    const bool negative = *s == '-';
    uint64_t digits = 0;
    int count = 0, exponent = 0;
    s += negative;
    if (!is_digit(*s) || (*s == '0' && is_digit(s[1])))
        return NULL;
    for (; is_digit(*s); s++, count += digits > 0)
        digits = digits * 10 + (uint64_t)(*s - '0');
    if (*s == '.') {
        if (!is_digit(*++s))
            return NULL;
        for (; is_digit(*s); s++, count += digits > 0, exponent--)
            digits = digits * 10 + (uint64_t)(*s - '0');
    }
    if (!(s = read_exponent(s, &exponent)))
        return NULL;
    if (count > DIGITS_EXACT || !scale_exactly(digits, exponent, value)) {
        *value = strtod(begin, NULL);
        return isfinite(*value) ? s : NULL;
    }
    *value = negative ? -*value : *value;
    return s;
}

/* Reads the name after a quote, and its colon. It is probably the one that
 * followed `before` last time. NULL: it is unknown, or a repetition.
 */
static const char *read_name(struct dt_metric_names *names, const char *s,
                             const char *end, uint16_t before, uint16_t *found)
{
    uint16_t *after = &names->item[before].after;
    const struct metric_name *guess = &names->item[*after];
    if (*after == NONE || (size_t)(end - s) <= guess->bytes ||
        s[guess->bytes] != '"' || memcmp(s, guess->text, guess->bytes) != 0) {
        const char *quote = memchr(s, '"', (size_t)(end - s));
        if (!quote)
            return NULL;
        *after = names->slot[name_slot(names, s, (size_t)(quote - s))];
        if (*after == NONE)
            return NULL;
    }
    *found = *after;
    struct metric_name *name = &names->item[*found];
    if (name->seen == names->line)
        return NULL;
    name->seen = names->line;
    s = skip_spaces(s + name->bytes + 1);
    return *s == ':' ? skip_spaces(s + 1) : NULL;
}

static const char *read_split(const char *s, enum dt_split *split)
{
    const bool train = !strncmp(s, "\"train\"", 7);
    if (!train && strncmp(s, "\"eval\"", 6) != 0)
        return NULL;
    *split = train ? DT_SPLIT_TRAIN : DT_SPLIT_EVAL;
    return s + (train ? 7 : 6);
}

static const char *read_step(const char *s, long *step)
{
    double value;
    const size_t digits = strspn(s, "0123456789");
    if (digits == 0 || digits > DIGITS_EXACT || s[digits] == '.' ||
        (s[digits] | 0x20) == 'e' || !(s = read_number(s, &value)))
        return NULL;
    *step = (long)value;
    return s;
}

static const char *read_value(const struct dt_metric_names *names,
                              uint16_t name, const char *s,
                              struct dt_report_record *record, double *seconds)
{
    double value = NAN;
    if (name == STEP)
        return read_step(s, &record->step);
    if (name == SPLIT)
        return read_split(s, &record->split);
    if (!strncmp(s, "null", 4))
        s += 4;
    else if (!(s = read_number(s, &value)))
        return NULL;
    record_put(record, seconds, names, name, value);
    return s;
}

bool dt_metric_line_quick(struct dt_metric_names *names, const char *line,
                          size_t bytes, struct dt_report_record *record,
                          double *seconds)
{
    const char *const end = line + bytes;
    const char *s = skip_spaces(line);
    uint16_t name = NONE;
    record_begin(record, seconds);
    names->line++;
    if (*s++ != '{')
        return false;
    do {
        s = skip_spaces(s);
        if (*s != '"' || !(s = read_name(names, s + 1, end, name, &name)) ||
            !(s = read_value(names, name, s, record, seconds)))
            return false;
        s = skip_spaces(s);
    } while (*s++ == ',');
    if (s[-1] != '}' || skip_spaces(s) != end)
        return false;
    return names->item[STEP].seen == names->line &&
           names->item[SPLIT].seen == names->line;
}

/* --- any line --- */

static bool take_split(const json_t *value, enum dt_split *split)
{
    const char *text = json_string_value(value);
    if (!text || (strcmp(text, "train") != 0 && strcmp(text, "eval") != 0))
        return false;
    *split = *text == 't' ? DT_SPLIT_TRAIN : DT_SPLIT_EVAL;
    return true;
}

bool dt_metric_line_read(struct dt_metric_names *names, const char *line,
                         size_t bytes, struct dt_report_record *record,
                         double *seconds)
{
    const char *key;
    json_t *value;
    if (dt_metric_line_quick(names, line, bytes, record, seconds))
        return true;
    json_t *object = json_loadb(line, bytes, JSON_REJECT_DUPLICATES, NULL);
    const json_t *step = json_object_get(object, "step");
    record_begin(record, seconds);
    bool good = json_is_integer(step) && json_integer_value(step) >= 0 &&
                json_integer_value(step) <= LONG_MAX &&
                take_split(json_object_get(object, "split"), &record->split);
    if (good)
        record->step = (long)json_integer_value(step);
    if (good)
        json_object_foreach(object, key, value) if (json_is_number(value) ||
                                                    json_is_null(value))
            record_put(record, seconds, names, names_add(names, key),
                       json_is_null(value) ? NAN : json_number_value(value));
    json_decref(object);
    return good;
}
