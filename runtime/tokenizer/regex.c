/* SPDX-License-Identifier: Apache-2.0 */
/*
 * regex.c - matches regular expressions of Oniguruma with PCRE2
 *
 * tokenizer.json is written for Oniguruma. Syntax that both libraries read
 * alike is passed to PCRE2 unchanged, \s and \S become Unicode's White_Space
 * (PCRE2 adds U+180E), and all other syntax is refused.
 */
#include "config.h"

#include <ctype.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "tokenizer/tokenizer_impl.h"

enum {
    PATTERN_MAX_BYTES = 1 << 14,
    MATCH_LIMIT = 5000000, /* steps of a match, which take less than a second */
    JIT_STACK_BYTES = 8 << 20,
    GROW_BYTES = sizeof("\\p{White_Space}"), /* of a byte, except categories */
};

struct dt_tok_regex {
    pcre2_code *code;
};

struct dt_tok_matcher {
    pcre2_match_data *data;
    pcre2_match_context *context;
    pcre2_jit_stack *stack;
};

struct translation {
    const char *in, *end;
    char *out;
    size_t count;
    bool in_class;
};

static void put_text(struct translation *t, const char *text, size_t bytes)
{
    memcpy(t->out + t->count, text, bytes);
    t->count += bytes;
}

static bool begins_with(const struct translation *t, const char *text)
{
    size_t n = strlen(text);
    return (size_t)(t->end - t->in) >= n && !memcmp(t->in, text, n);
}

/* Writes a general category, adding the characters newer than PCRE2's Unicode.
 * Inside a class "all except the category" has no such form, so PCRE2's Unicode
 * decides.
 */
static void put_category(struct translation *t, const char *name, size_t length,
                         bool except)
{
    bool nested = t->in_class;
    if (!nested)
        put_text(t, except ? "[^" : "[", except ? 2 : 1);
    put_text(t, nested && except ? "\\P{" : "\\p{", 3);
    put_text(t, name, length);
    put_text(t, "}", 1);
    if (!nested || !except)
        t->count += dt_tok_late_ranges(name, length, t->out + t->count);
    if (!nested)
        put_text(t, "]", 1);
}

/* Translates \p{L}, or \p{Han}, which PCRE2 would interpret as
 * Script_Extensions without "sc:".
 */
static int translate_property(struct translation *t)
{
    const char *name = t->in + 3;
    const char *close = memchr(t->in, '}', (size_t)(t->end - t->in));
    bool except = t->in[1] == 'P';
    if (!close || t->in[2] != '{')
        return -1;
    if (*name == '^') {
        except = !except;
        name++;
    }
    if (close - name > 2) {
        put_text(t, except ? "\\P{sc:" : "\\p{sc:", 6);
        put_text(t, name, (size_t)(close - name) + 1);
    } else {
        put_category(t, name, (size_t)(close - name), except);
    }
    t->in = close + 1;
    return 0;
}

/* Translates an escape. -1: the libraries differ. */
static int translate_escape(struct translation *t)
{
    unsigned char c = t->in + 1 < t->end ? (unsigned char)t->in[1] : '\0';
    if (c == 'p' || c == 'P')
        return translate_property(t);
    if (c == 's' || c == 'S')
        put_text(t, c == 's' ? "\\p{White_Space}" : "\\P{White_Space}", 15);
    else if (c == 'd' || c == 'D')
        put_category(t, "Nd", 2, c == 'D');
    else if ((c && strchr("rntf", c)) || begins_with(t, "\\x{") ||
             (c > ' ' && c < 0x7f && !isalnum(c)))
        put_text(t, t->in, 2);
    else
        return -1;
    t->in += 2;
    return 0;
}

/* Whether Oniguruma (Ruby syntax) interprets the next characters differently.
 */
static bool reads_differently(const struct translation *t)
{
    static const char *const groups[] = {"(?:",  "(?i:", "(?=", "(?!",
                                         "(?<=", "(?<!", "(?>"};
    if (t->in_class)
        return *t->in == '[' || begins_with(t, "&&");
    if (*t->in == '^' || *t->in == '$' || begins_with(t, "}+") ||
        begins_with(t, "{,") || begins_with(t, "(*"))
        return true;
    if (!begins_with(t, "(?"))
        return false;
    for (size_t i = 0; i < sizeof(groups) / sizeof(groups[0]); i++)
        if (begins_with(t, groups[i]))
            return false;
    return true;
}

/* Translates one character, outside or inside classes. -1: not supported. */
static int translate_one(struct translation *t)
{
    if (*t->in == '\\')
        return translate_escape(t);
    if (reads_differently(t))
        return -1;
    if (*t->in == '.' && !t->in_class) {
        put_text(t, "[^\\n]", 5);
        t->in++;
        return 0;
    }
    if (*t->in == '[') {
        if (begins_with(t, "[]") || begins_with(t, "[^]"))
            return -1;
        t->in_class = true;
        if (begins_with(t, "[^"))
            put_text(t, t->in++, 1);
    } else if (*t->in == ']') {
        t->in_class = false;
    }
    put_text(t, t->in++, 1);
    return 0;
}

static int translate_pattern(struct translation *t, const char *pattern,
                             struct dt_error *err)
{
    char shown[DT_TOK_SHOWN_BYTES];
    while (t->in < t->end)
        if (translate_one(t) < 0)
            return dt_error_set(
                err, EX_DATAERR,
                "the regular expression at byte %zu, \"%s\": not supported",
                (size_t)(t->in - pattern), dt_tok_shown(t->in, 8, shown));
    return 0;
}

static size_t count_backslashes(const char *pattern, size_t bytes)
{
    size_t count = 0;
    for (size_t i = 0; i < bytes; i++)
        count += pattern[i] == '\\';
    return count;
}

static pcre2_code *compile_pattern(const char *pattern, size_t bytes,
                                   struct dt_error *err)
{
    int code;
    PCRE2_SIZE offset;
    PCRE2_UCHAR text[120];
    pcre2_code *made = pcre2_compile(
        (PCRE2_SPTR)pattern, bytes,
        PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &code, &offset, NULL);
    if (!made) {
        pcre2_get_error_message(code, text, sizeof(text));
        dt_error_set(err, EX_DATAERR, "the regular expression: %s",
                     (const char *)text);
        return NULL;
    }
    pcre2_jit_compile(made, PCRE2_JIT_COMPLETE); /* optional: only speed */
    return made;
}

struct dt_tok_regex *dt_tok_regex_create(const char *pattern, size_t bytes,
                                         struct dt_error *err)
{
    struct translation t = {.in = pattern, .end = pattern + bytes};
    struct dt_tok_regex *regex = NULL;
    if (bytes > PATTERN_MAX_BYTES) {
        dt_error_set(err, EX_DATAERR,
                     "the regular expression has %zu bytes, at most %d", bytes,
                     PATTERN_MAX_BYTES);
        return NULL;
    }
    t.out = malloc(bytes * GROW_BYTES +
                   (count_backslashes(pattern, bytes) + 1) * DT_TOK_LATE_BYTES);
    regex = calloc(1, sizeof(*regex));
    if (!t.out || !regex)
        dt_error_set(err, EX_OSERR, "out of memory");
    else if (translate_pattern(&t, pattern, err) == 0)
        regex->code = compile_pattern(t.out, t.count, err);
    free(t.out);
    if (regex && regex->code)
        return regex;
    free(regex);
    return NULL;
}

void dt_tok_regex_destroy(struct dt_tok_regex *regex)
{
    if (!regex)
        return;
    pcre2_code_free(regex->code);
    free(regex);
}

struct dt_tok_matcher *dt_tok_matcher_create(void)
{
    struct dt_tok_matcher *m = calloc(1, sizeof(*m));
    if (!m)
        return NULL;
    m->data = pcre2_match_data_create(1, NULL);
    m->context = pcre2_match_context_create(NULL);
    m->stack = pcre2_jit_stack_create(64 << 10, JIT_STACK_BYTES, NULL);
    if (!m->data || !m->context) {
        dt_tok_matcher_destroy(m);
        return NULL;
    }
    pcre2_set_match_limit(m->context, MATCH_LIMIT);
    if (m->stack) /* NULL if PCRE2 has no JIT */
        pcre2_jit_stack_assign(m->context, NULL, m->stack);
    return m;
}

void dt_tok_matcher_destroy(struct dt_tok_matcher *matcher)
{
    if (!matcher)
        return;
    pcre2_jit_stack_free(matcher->stack);
    pcre2_match_context_free(matcher->context);
    pcre2_match_data_free(matcher->data);
    free(matcher);
}

int dt_tok_regex_find(const struct dt_tok_regex *regex,
                      struct dt_tok_matcher *matcher, const char *s, size_t n,
                      size_t from, size_t *begin, size_t *end,
                      struct dt_error *err)
{
    PCRE2_UCHAR text[120];
    int rc = pcre2_match(regex->code, (PCRE2_SPTR)s, n, from,
                         PCRE2_NO_UTF_CHECK, matcher->data, matcher->context);
    if (rc >= 0) {
        const PCRE2_SIZE *at = pcre2_get_ovector_pointer(matcher->data);
        *begin = at[0];
        *end = at[1];
        return 1;
    }
    if (rc == PCRE2_ERROR_NOMATCH)
        return 0;
    pcre2_get_error_message(rc, text, sizeof(text));
    return dt_error_set(err, EX_DATAERR,
                        "the tokenizer's regular expression gives up on a "
                        "text of %zu bytes: %s",
                        n, (const char *)text);
}

static char version[32];

static void find_version(void)
{
    pcre2_config(PCRE2_CONFIG_VERSION, version);
    version[strcspn(version, " ")] = '\0'; /* cut off the date */
}

const char *dt_tok_regex_library(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, find_version);
    return version;
}
