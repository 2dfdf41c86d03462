/* SPDX-License-Identifier: Apache-2.0 */
/* pattern.c - regular expressions that users write, by PCRE2 */
#include "config.h"

#include <stdlib.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/pattern.h"

/* A match that takes more steps is given up: some milliseconds. */
enum { MATCH_LIMIT = 1000000, HEAP_KIB = 20000 };

struct dt_pattern {
    pcre2_code *code;
    pcre2_match_context *limits;
};

struct dt_pattern *dt_pattern_create(const char *text, struct dt_error *err)
{
    int code;
    PCRE2_SIZE offset;
    PCRE2_UCHAR why[160];
    struct dt_pattern *p = calloc(1, sizeof(*p));
    if (!p || !(p->limits = pcre2_match_context_create(NULL))) {
        free(p);
        dt_error_set(err, EX_OSERR, "out of memory");
        return NULL;
    }
    pcre2_set_match_limit(p->limits, MATCH_LIMIT);
    pcre2_set_heap_limit(p->limits, HEAP_KIB);
    p->code = pcre2_compile((PCRE2_SPTR)text, PCRE2_ZERO_TERMINATED,
                            PCRE2_UTF | PCRE2_UCP | PCRE2_MATCH_INVALID_UTF |
                                PCRE2_NEVER_BACKSLASH_C,
                            &code, &offset, NULL);
    if (p->code)
        return p;
    pcre2_get_error_message(code, why, sizeof(why));
    if (code == PCRE2_ERROR_HEAP_FAILED)
        dt_error_set(err, EX_OSERR, "out of memory");
    else
        dt_error_set(err, EX_CONFIG,
                     "at byte %zu of the regular expression: %s",
                     (size_t)offset + 1, (const char *)why);
    dt_pattern_destroy(p);
    return NULL;
}

void dt_pattern_destroy(struct dt_pattern *pattern)
{
    if (!pattern)
        return;
    pcre2_code_free(pattern->code);
    pcre2_match_context_free(pattern->limits);
    free(pattern);
}

/* As pcre2_match, with 1, 0 or -1 and an error. */
static int match(const struct dt_pattern *pattern, const char *s, size_t n,
                 size_t from, unsigned options, pcre2_match_data *data,
                 struct dt_error *err)
{
    PCRE2_UCHAR why[160];
    if (!data)
        return dt_error_set(err, EX_OSERR, "out of memory");
    int rc = pcre2_match(pattern->code, (PCRE2_SPTR)s, n, from, options, data,
                         pattern->limits);
    if (rc >= 0)
        return 1;
    if (rc == PCRE2_ERROR_NOMATCH)
        return 0;
    pcre2_get_error_message(rc, why, sizeof(why));
    return dt_error_set(err, EX_DATAERR,
                        "the regular expression was given up: %s",
                        (const char *)why);
}

int dt_pattern_matches(const struct dt_pattern *pattern, const char *s,
                       size_t n, struct dt_error *err)
{
    pcre2_match_data *data =
        pcre2_match_data_create_from_pattern(pattern->code, NULL);
    int rc =
        match(pattern, s, n, 0, PCRE2_ANCHORED | PCRE2_ENDANCHORED, data, err);
    pcre2_match_data_free(data);
    return rc;
}

int dt_pattern_last(const struct dt_pattern *pattern, const char *s, size_t n,
                    size_t *begin, size_t *end, struct dt_error *err)
{
    pcre2_match_data *data =
        pcre2_match_data_create_from_pattern(pattern->code, NULL);
    int found = 0, rc;
    size_t from = 0;
    while ((rc = match(pattern, s, n, from, 0, data, err)) > 0) {
        const PCRE2_SIZE *at = pcre2_get_ovector_pointer(data);
        size_t group =
            pcre2_get_ovector_count(data) > 1 && at[2] != PCRE2_UNSET ? 2 : 0;
        *begin = at[group];
        *end = at[group + 1];
        found = 1;
        from = at[1] > at[0] ? at[1] : at[1] + 1;
        while (from < n && ((unsigned char)s[from] & 0xc0) == 0x80)
            from++; /* not in the middle of a character */
        if (from > n)
            break;
    }
    pcre2_match_data_free(data);
    return rc < 0 ? -1 : found;
}
