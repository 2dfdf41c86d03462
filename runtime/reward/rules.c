/* SPDX-License-Identifier: Apache-2.0 */
/* rules.c - reward functions that are rules */
#include "config.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <utf8proc.h>

#include "base/json.h"
#include "base/log.h"
#include "base/pattern.h"
#include "reward/reward_impl.h"

enum { NUMBERS_MAX = 64 };

struct rule {
    struct dt_pattern *pattern, *extract;
    bool warned; /* of a search that was given up */
};

/* Scores a sample by the part of it that is to be compared. -1: an error of the
 * data.
 */
typedef int rule_f(const struct dt_conf_reward *conf,
                   const struct dt_reward_sample *sample, struct dt_piece text,
                   double *value, struct dt_error *err);

/* The keys of a sample, for a message. */
static void list_columns(const json_t *columns, char *text, size_t bytes)
{
    const char *key;
    json_t *value;
    text[0] = '\0';
    json_object_foreach((json_t *)columns, key, value)
    {
        size_t used = strlen(text);
        snprintf(text + used, bytes - used, "%s%.40s", used ? ", " : "", key);
    }
}

/* The value of a column of a sample: NULL if it is null, which means that there
 * is no reward. -1: there is no such column.
 */
static int find_column(const struct dt_reward_sample *sample, const char *name,
                       const json_t **value, struct dt_error *err)
{
    char keys[240];
    *value = sample->columns ? json_object_get(sample->columns, name) : NULL;
    if (!*value) {
        list_columns(sample->columns, keys, sizeof(keys));
        return dt_error_set(err, EX_DATAERR,
                            "the line of prompt %llu has no key \"%s\", only: "
                            "%s (null there would mean no reward)",
                            (unsigned long long)sample->prompt, name,
                            *keys ? keys : "none");
    }
    if (json_is_null(*value))
        *value = NULL;
    return 0;
}

static int wrong_type(const struct dt_reward_sample *sample, const char *name,
                      const json_t *value, const char *expected,
                      struct dt_error *err)
{
    return dt_error_set(err, EX_DATAERR,
                        "the line of prompt %llu: \"%s\": expected %s, got %s",
                        (unsigned long long)sample->prompt, name, expected,
                        dt_json_type_name(json_typeof(value)));
}

/* The text of a string, a number or a boolean, malloc'ed. NULL: it is another
 * value, or out of memory.
 */
static char *text_of(const json_t *value)
{
    if (json_is_string(value))
        return strdup(json_string_value(value));
    if (json_is_number(value) || json_is_boolean(value))
        return json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));
    return NULL;
}

/* A copy without differences of case; malloc'ed. NULL: out of memory. */
static char *fold(struct dt_piece piece, size_t *bytes)
{
    utf8proc_uint8_t *folded = NULL;
    utf8proc_ssize_t n = utf8proc_map((const utf8proc_uint8_t *)piece.s,
                                      (utf8proc_ssize_t)piece.n, &folded,
                                      UTF8PROC_CASEFOLD | UTF8PROC_STABLE);
    *bytes = n > 0 ? (size_t)n : 0;
    return n >= 0 ? (char *)folded : NULL;
}

/* Whether b is a, or a part of a if `part`. -1: out of memory. */
static int compare(struct dt_piece a, struct dt_piece b, bool ignore_case,
                   bool part, struct dt_error *err)
{
    char *folded_a = NULL, *folded_b = NULL;
    if (ignore_case) {
        folded_a = fold(a, &a.n);
        folded_b = fold(b, &b.n);
        a.s = folded_a;
        b.s = folded_b;
    }
    int rc = !a.s || !b.s ? dt_error_set(err, EX_OSERR, "out of memory")
             : part       ? (b.n == 0 || memmem(a.s, a.n, b.s, b.n) != NULL)
                          : (a.n == b.n && memcmp(a.s, b.s, a.n) == 0);
    free(folded_a);
    free(folded_b);
    return rc;
}

static struct dt_piece piece_of(const char *text)
{
    return (struct dt_piece){.s = text, .n = strlen(text)};
}

static int exact(const struct dt_conf_reward *conf,
                 const struct dt_reward_sample *sample, struct dt_piece text,
                 double *value, struct dt_error *err)
{
    const json_t *answer;
    if (find_column(sample, conf->answer_column, &answer, err) < 0)
        return -1;
    *value = (double)NAN;
    if (!answer)
        return 0;
    char *wanted = text_of(answer);
    if (!wanted)
        return wrong_type(sample, conf->answer_column, answer,
                          "a string, a number or a boolean", err);
    struct dt_piece other = piece_of(wanted);
    if (conf->trim) {
        text = dt_piece_trim(text);
        other = dt_piece_trim(other);
    }
    int rc = compare(text, other, conf->ignore_case, false, err);
    free(wanted);
    *value = rc;
    return rc < 0 ? -1 : 0;
}

/* Whether the text has all texts of a list. */
static int has_all(const struct dt_conf_reward *conf,
                   const struct dt_reward_sample *sample, struct dt_piece text,
                   const json_t *list, struct dt_error *err)
{
    int rc = 1;
    for (size_t i = 0; i < json_array_size(list) && rc > 0; i++) {
        const json_t *item = json_array_get(list, i);
        char *wanted = text_of(item);
        if (!wanted)
            return wrong_type(sample, conf->answer_column, item,
                              "a list of strings", err);
        rc = compare(text, piece_of(wanted), conf->ignore_case, true, err);
        free(wanted);
    }
    return rc;
}

static int contains(const struct dt_conf_reward *conf,
                    const struct dt_reward_sample *sample, struct dt_piece text,
                    double *value, struct dt_error *err)
{
    const json_t *answer = NULL;
    int rc = 1;
    *value = (double)NAN;
    for (size_t i = 0; i < conf->texts.count && rc > 0; i++)
        rc = compare(text, piece_of(conf->texts.text[i]), conf->ignore_case,
                     true, err);
    if (conf->texts.count == 0) {
        if (find_column(sample, conf->answer_column, &answer, err) < 0)
            return -1;
        if (!answer)
            return 0;
        json_t *list = json_is_array(answer)
                           ? json_incref((json_t *)answer)
                           : json_pack("[O]", (json_t *)answer);
        rc = has_all(conf, sample, text, list, err);
        json_decref(list);
    }
    *value = rc;
    return rc < 0 ? -1 : 0;
}

/* The number that `after` precedes, or the last one. */
static bool number_in(const struct dt_conf_reward *conf, struct dt_piece text,
                      bool needs_after, double *number)
{
    size_t n = conf->after ? strlen(conf->after) : 0;
    const char *last = NULL;
    for (const char *s = text.s, *end = text.s + text.n, *found;
         n > 0 && s < end &&
         (found = memmem(s, (size_t)(end - s), conf->after, n));
         s = found + 1)
        last = found + n;
    if (n > 0 && !last && needs_after)
        return false;
    if (last) {
        text.n -= (size_t)(last - text.s);
        text.s = last;
    }
    return dt_piece_last_number(text, number);
}

/* The number of a column: one of JSON, or the last in a string. -1: none. */
static int read_answer(const struct dt_conf_reward *conf,
                       const struct dt_reward_sample *sample, double *number,
                       struct dt_error *err)
{
    const json_t *answer;
    if (find_column(sample, conf->answer_column, &answer, err) < 0)
        return -1;
    *number = (double)NAN;
    if (!answer)
        return 0;
    if (json_is_number(answer))
        *number = json_number_value(answer);
    else if (!json_is_string(answer) ||
             !number_in(conf, piece_of(json_string_value(answer)), false,
                        number))
        return wrong_type(sample, conf->answer_column, answer,
                          "a number, or a string that has one", err);
    return 0;
}

static int number_equal(const struct dt_conf_reward *conf,
                        const struct dt_reward_sample *sample,
                        struct dt_piece text, double *value,
                        struct dt_error *err)
{
    double wanted, got;
    if (read_answer(conf, sample, &wanted, err) < 0)
        return -1;
    *value = (double)NAN;
    if (!isnan(wanted))
        *value = number_in(conf, text, true, &got) &&
                 fabs(got - wanted) <= conf->tolerance;
    return 0;
}

static int expression(const struct dt_conf_reward *conf,
                      const struct dt_reward_sample *sample,
                      struct dt_piece text, double *value, struct dt_error *err)
{
    double wanted, got = 0, numbers[NUMBERS_MAX];
    const json_t *list;
    if (read_answer(conf, sample, &wanted, err) < 0 ||
        find_column(sample, conf->numbers_column, &list, err) < 0)
        return -1;
    *value = (double)NAN;
    if (isnan(wanted) || !list)
        return 0;
    size_t n = json_array_size(list);
    bool good = json_is_array(list) && n > 0 && n <= NUMBERS_MAX;
    for (size_t i = 0; good && i < n; i++) {
        good = json_is_number(json_array_get(list, i));
        numbers[i] = json_number_value(json_array_get(list, i));
    }
    if (!good)
        return wrong_type(sample, conf->numbers_column, list,
                          "a list of 1 to 64 numbers", err);
    double slack = fmax(conf->tolerance, 1e-9 * fmax(1, fabs(wanted)));
    *value = dt_piece_arithmetic(dt_piece_trim(text), numbers, n, &got) &&
             fabs(got - wanted) <= slack;
    return 0;
}

static int json_valid(const struct dt_conf_reward *conf,
                      const struct dt_reward_sample *sample,
                      struct dt_piece text, double *value, struct dt_error *err)
{
    json_t *root = json_loadb(
        text.s, text.n,
        JSON_DECODE_ANY | JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
    bool good = root && (conf->keys.count == 0 || json_is_object(root));
    (void)sample;
    (void)err;
    for (size_t i = 0; i < conf->keys.count && good; i++)
        good = json_object_get(root, conf->keys.text[i]) != NULL;
    json_decref(root);
    *value = good;
    return 0;
}

static int format(const struct dt_conf_reward *conf,
                  const struct dt_reward_sample *sample, struct dt_piece text,
                  double *value, struct dt_error *err)
{
    (void)sample;
    (void)err;
    *value = dt_piece_has_elements(text, conf->tags.text, conf->tags.count);
    return 0;
}

/* DAPO, equation 13 (overlong), and the cosine of alignment with length of
 * "Demystifying long chain-of-thought reasoning".
 */
static int length(const struct dt_conf_reward *conf,
                  const struct dt_reward_sample *sample, struct dt_piece text,
                  double *value, struct dt_error *err)
{
    double n = (double)sample->count, most = (double)conf->tokens;
    double cache = (double)conf->cache_tokens;
    (void)text;
    (void)err;
    if (conf->shape == DT_CONF_LENGTH_TARGET)
        *value = fmax(-1, 1 - fabs(n - most) / most);
    else if (conf->shape == DT_CONF_LENGTH_COSINE)
        *value = (1 + cos(acos(-1) * fmin(n / most, 1))) / 2;
    else if (n <= most - cache)
        *value = 0;
    else
        *value = cache > 0 ? fmax(-1, (most - cache - n) / cache) : -1;
    return 0;
}

static rule_f *const rules[] = {
    [DT_CONF_REWARD_EXACT] = exact,
    [DT_CONF_REWARD_CONTAINS] = contains,
    [DT_CONF_REWARD_NUMBER_EQUAL] = number_equal,
    [DT_CONF_REWARD_EXPRESSION] = expression,
    [DT_CONF_REWARD_JSON_VALID] = json_valid,
    [DT_CONF_REWARD_FORMAT] = format,
    [DT_CONF_REWARD_LENGTH] = length,
};

static int open_rule(struct dt_reward_lane *lane, struct dt_error *err)
{
    const struct dt_conf_reward *conf = lane->conf;
    struct rule *rule = calloc(1, sizeof(*rule));
    lane->state = rule;
    if (!rule)
        return dt_error_set(err, EX_OSERR, "out of memory");
    if (conf->pattern &&
        !(rule->pattern = dt_pattern_create(conf->pattern, err)))
        return -1;
    if (conf->extract &&
        !(rule->extract = dt_pattern_create(conf->extract, err)))
        return -1;
    return 0;
}

static void close_rule(struct dt_reward_lane *lane)
{
    struct rule *rule = lane->state;
    if (!rule)
        return;
    dt_pattern_destroy(rule->pattern);
    dt_pattern_destroy(rule->extract);
    free(rule);
}

/* A search that takes too long is no error of the file: the completion gets no
 * reward.
 */
static void take_given_up(struct dt_reward_lane *lane, double *value,
                          const struct dt_error *err)
{
    struct rule *rule = lane->state;
    if (!rule->warned)
        dt_log(DT_LOG_WARN, "reward",
               "%s: %s: the completion has no reward; further ones of this "
               "kind are not reported",
               lane->conf->name, err->text);
    rule->warned = true;
    *value = (double)NAN;
}

static int score_sample(struct dt_reward_lane *lane,
                        const struct dt_reward_sample *sample, double *value,
                        struct dt_error *err)
{
    const struct rule *rule = lane->state;
    struct dt_piece text = {.s = sample->completion_text,
                            .n = sample->completion_bytes};
    size_t begin = 0, end = text.n;
    int found = 1;
    if (rule->pattern)
        found = dt_pattern_matches(rule->pattern, text.s, text.n, err);
    else if (rule->extract)
        found =
            dt_pattern_last(rule->extract, text.s, text.n, &begin, &end, err);
    *value = found;
    if (found < 0)
        take_given_up(lane, value, err);
    if (found <= 0 || rule->pattern)
        return 0;
    text.s += begin;
    text.n = end - begin;
    return rules[lane->conf->type](lane->conf, sample, text, value, err);
}

static int score_rule(struct dt_reward_lane *lane,
                      const struct dt_reward_part *part, double *values,
                      struct dt_error *err)
{
    for (size_t i = 0; i < part->count; i++)
        if (score_sample(lane, dt_reward_at(part, i), &values[i], err) < 0)
            return -1;
    return 0;
}

const struct dt_reward_kind dt_reward_rule = {
    .open = open_rule,
    .score = score_rule,
    .close = close_rule,
};
