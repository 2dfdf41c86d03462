/* SPDX-License-Identifier: Apache-2.0 */
/* json.c - JSON files that other programs have written */
#include "config.h"

#include <endian.h>
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/foreign.h"
#include "base/json.h"
#include "base/str.h"

/* --- a quick parser ---
 *
 * Lines of conversations are a few long strings, and tokenizers many short
 * ones. jansson looks at them byte by byte and copies them twice; here whether
 * they are UTF-8 is checked at once, and a string without an escape is copied
 * as it is.
 */

enum {
    DEPTH_MAX = 64,
    KEY_BYTES = 1024, /* tokens of 128 spaces have 256 */
    DIGITS_MAX = 18,  /* fit into 64 bits */
};

struct reader {
    const char *s, *end;
    char *buffer; /* for strings with escapes */
    int depth;
};

static json_t *read_value(struct reader *r);

static void skip_spaces(struct reader *r)
{
    while (r->s < r->end &&
           (*r->s == ' ' || *r->s == '\t' || *r->s == '\n' || *r->s == '\r'))
        r->s++;
}

/* Skips spaces and one character, if it is next. */
static bool take(struct reader *r, char c)
{
    skip_spaces(r);
    if (r->s == r->end || *r->s != c)
        return false;
    r->s++;
    return true;
}

/* --- strings --- */

/* The high bit of each byte that is '"', '\\' or below ' '; never of one that
 * only follows such a byte, so that the first one is right.
 */
static uint64_t marks_of(uint64_t word)
{
    const uint64_t ones = UINT64_C(0x0101010101010101), high = ones << 7;
    const uint64_t quote = word ^ ones * '"', slash = word ^ ones * '\\';
    return ((quote - ones) & ~quote & high) | ((slash - ones) & ~slash & high) |
           ((word - ones * ' ') & ~word & high);
}

static bool is_mark(char c)
{
    return c == '"' || c == '\\' || (unsigned char)c < ' ';
}

/* The first byte that is '"', '\\' or a control character, or the end. */
static const char *find_mark(const char *s, const char *end)
{
    for (; end - s >= 8; s += 8) {
        uint64_t word;
        memcpy(&word, s, 8);
        const uint64_t marks = marks_of(le64toh(word));
        if (marks)
            return s + __builtin_ctzll(marks) / 8;
    }
    while (s < end && !is_mark(*s))
        s++;
    return s;
}

/* The same, and copies the bytes before it to `to`, which has room for those up
 * to the end. Texts between two escapes are short.
 */
static const char *copy_to_mark(const char *s, const char *end, char *to)
{
    for (; end - s >= 8; s += 8, to += 8) {
        uint64_t word;
        memcpy(&word, s, 8);
        memcpy(to, &word, 8);
        const uint64_t marks = marks_of(le64toh(word));
        if (marks)
            return s + __builtin_ctzll(marks) / 8;
    }
    while (s < end && !is_mark(*s))
        *to++ = *s++;
    return s;
}

/* The code unit of four hexadecimal digits, or -1. */
static long read_unit(const char *s, const char *end)
{
    long unit = 0;
    if (end - s < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        char c = (char)(s[i] | 0x20);
        if (s[i] >= '0' && s[i] <= '9')
            unit = unit * 16 + s[i] - '0';
        else if (c >= 'a' && c <= 'f')
            unit = unit * 16 + c - 'a' + 10;
        else
            return -1;
    }
    return unit;
}

static size_t put_code(char *to, unsigned long code)
{
    if (code < 0x80) {
        to[0] = (char)code;
        return 1;
    }
    size_t n = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    static const unsigned char leads[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (size_t i = n - 1; i > 0; i--, code >>= 6)
        to[i] = (char)(0x80 | (code & 0x3f));
    to[0] = (char)(leads[n] | code);
    return n;
}

/* Reads the digits after "\u" as a character to `to`. Returns its length; 0:
 * U+0000 or half a pair.
 */
static size_t read_code(struct reader *r, char *to)
{
    long code = read_unit(r->s, r->end), low;
    if (code <= 0 || (code >= 0xdc00 && code < 0xe000))
        return 0;
    r->s += 4;
    if (code < 0xd800 || code >= 0xe000)
        return put_code(to, (unsigned long)code);
    if (r->end - r->s < 6 || r->s[0] != '\\' || r->s[1] != 'u')
        return 0;
    low = read_unit(r->s + 2, r->end);
    if (low < 0xdc00 || low >= 0xe000)
        return 0;
    r->s += 6;
    return put_code(to, 0x10000 + ((unsigned long)(code - 0xd800) << 10) +
                            (unsigned long)(low - 0xdc00));
}

/* Reads an escape after its backslash to `to`. Returns its length; 0:
 * malformed.
 */
static size_t read_escape(struct reader *r, char *to)
{
    if (r->s == r->end)
        return 0;
    *to = *r->s++;
    switch (*to) {
    case 'b':
        *to = '\b';
        return 1;
    case 'f':
        *to = '\f';
        return 1;
    case 'n':
        *to = '\n';
        return 1;
    case 'r':
        *to = '\r';
        return 1;
    case 't':
        *to = '\t';
        return 1;
    case 'u':
        return read_code(r, to);
    default:
        return *to == '"' || *to == '\\' || *to == '/';
    }
}

static bool reserve(struct reader *r)
{
    size_t left = (size_t)(r->end - r->s);
    if (r->buffer)
        return true;
    r->buffer = malloc(left + 1); /* each escape is longer than its text */
    return r->buffer;
}

/* Reads a string up to its closing quote; *text stays until the next one. */
static bool read_string(struct reader *r, const char **text, size_t *bytes)
{
    const char *mark = find_mark(r->s, r->end);
    *text = r->s;
    *bytes = (size_t)(mark - r->s);
    if (mark < r->end && *mark == '\\') {
        if (!reserve(r))
            return false;
        memcpy(r->buffer, *text, *bytes);
        *text = r->buffer;
    }
    while (mark < r->end && *mark == '\\') {
        r->s = mark + 1;
        const size_t escaped = read_escape(r, r->buffer + *bytes);
        if (escaped == 0)
            return false;
        *bytes += escaped;
        mark = copy_to_mark(r->s, r->end, r->buffer + *bytes);
        *bytes += (size_t)(mark - r->s);
    }
    if (mark == r->end || *mark != '"')
        return false;
    r->s = mark + 1;
    return true;
}

/* --- values --- */

static json_t *read_integer(struct reader *r)
{
    const bool negative = *r->s == '-';
    json_int_t value = 0;
    int digits = 0;
    r->s += negative;
    const bool zero = r->s < r->end && *r->s == '0';
    for (; r->s < r->end && *r->s >= '0' && *r->s <= '9'; r->s++, digits++)
        if (digits < DIGITS_MAX)
            value = value * 10 + *r->s - '0';
    if (digits == 0 || digits > DIGITS_MAX || (zero && digits > 1))
        return NULL;
    if (r->s < r->end && (*r->s == '.' || *r->s == 'e' || *r->s == 'E'))
        return NULL;
    return json_integer(negative ? -value : value);
}

static json_t *read_word(struct reader *r)
{
    static const char *const words[] = {"true", "false", "null"};
    json_t *(*const make[])(void) = {json_true, json_false, json_null};
    for (size_t i = 0; i < 3; i++) {
        size_t n = strlen(words[i]);
        if ((size_t)(r->end - r->s) >= n && !memcmp(r->s, words[i], n)) {
            r->s += n;
            return make[i]();
        }
    }
    return NULL;
}

static bool read_items(struct reader *r, json_t *array)
{
    if (take(r, ']'))
        return true;
    do
        if (json_array_append_new(array, read_value(r)) < 0)
            return false;
    while (take(r, ','));
    return take(r, ']');
}

static bool read_member(struct reader *r, json_t *object)
{
    char key[KEY_BYTES];
    const char *text;
    size_t bytes;
    if (!take(r, '"') || !read_string(r, &text, &bytes) || bytes >= KEY_BYTES ||
        memchr(text, '\0', bytes))
        return false;
    memcpy(key, text, bytes);
    key[bytes] = '\0';
    const size_t count = json_object_size(object);
    return take(r, ':') &&
           json_object_set_new_nocheck(object, key, read_value(r)) == 0 &&
           json_object_size(object) > count; /* else the key occurs twice */
}

static bool read_members(struct reader *r, json_t *object)
{
    if (take(r, '}'))
        return true;
    do
        if (!read_member(r, object))
            return false;
    while (take(r, ','));
    return take(r, '}');
}

static json_t *read_nested(struct reader *r, json_t *value,
                           bool (*read)(struct reader *r, json_t *value))
{
    bool good = value && ++r->depth < DEPTH_MAX && read(r, value);
    r->depth--;
    if (good)
        return value;
    json_decref(value);
    return NULL;
}

static json_t *read_value(struct reader *r)
{
    const char *text;
    size_t bytes;
    skip_spaces(r);
    if (r->s == r->end)
        return NULL;
    switch (*r->s) {
    case '"':
        r->s++;
        return read_string(r, &text, &bytes) ? json_stringn_nocheck(text, bytes)
                                             : NULL;
    case '{':
        r->s++;
        return read_nested(r, json_object(), read_members);
    case '[':
        r->s++;
        return read_nested(r, json_array(), read_items);
    case 't':
    case 'f':
    case 'n':
        return read_word(r);
    default:
        return *r->s == '-' || (*r->s >= '0' && *r->s <= '9') ? read_integer(r)
                                                              : NULL;
    }
}

json_t *dt_quick_json(const char *text, size_t bytes)
{
    struct reader r = {.s = text, .end = text + bytes};
    skip_spaces(&r);
    if (r.s == r.end || *r.s != '{' || dt_utf8_check(text, bytes) < bytes)
        return NULL;
    json_t *root = read_value(&r);
    skip_spaces(&r);
    free(r.buffer);
    if (root && r.s == r.end)
        return root;
    json_decref(root);
    return NULL;
}

/* --- files --- */

enum { FLAGS = JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL };

/* The end of the string that begins at s. */
static char *string_end(char *s)
{
    for (s++; *s && *s != '"'; s++)
        if (*s == '\\' && s[1])
            s++;
    return *s ? s + 1 : s;
}

/* Writes U+0000 in the string from s to end, if it is a key, as DT_JSON_NUL. */
static void mend_key(char *s, char *end)
{
    if (end[strspn(end, " \t\r\n")] != ':')
        return;
    for (; s < end; s += *s == '\\' ? 2 : 1)
        if (strncmp(s, "\\u0000", 6) == 0)
            memcpy(s, "\\uFDD0", 6);
}

/* Writes integers beyond 64 bits with an exponent, 123...789 as 123...e+3, and
 * keys without U+0000: all of the same length, so that positions of errors
 * stay.
 */
static void mend(char *text)
{
    for (char *s = text; *s;) {
        size_t n = strspn(s, "+-.0123456789Ee");
        if (*s == '"') {
            char *end = string_end(s);
            mend_key(s, end);
            s = end;
            continue;
        }
        errno = 0;
        if (n > 0 && strspn(s, "-0123456789") == n &&
            (strtoll(s, NULL, 10), errno == ERANGE))
            memcpy(s + n - 3, "e+3", 3);
        s += n > 0 ? n : 1;
    }
}

static json_t *parse_mended(const char *text, json_error_t *why)
{
    char *copy = strdup(text);
    if (!copy)
        return NULL;
    mend(copy);
    json_t *root = json_loads(copy, FLAGS, why);
    free(copy);
    return root;
}

json_t *dt_json_parse(const char *path, const char *text, struct dt_error *err)
{
    json_error_t why;
    const size_t bytes = strlen(text);
    if (dt_foreign_pointer(path, text, bytes, err) < 0)
        return NULL;
    if (strncmp(text, "\xef\xbb\xbf", 3) == 0) {
        dt_error_set(err, EX_DATAERR,
                     "%s: begins with a byte order mark, which JSON has not: "
                     "`sed -i '1s/^\\xef\\xbb\\xbf//' FILE` removes it",
                     path);
        return NULL;
    }
    json_t *root = dt_quick_json(text, bytes);
    if (!root)
        root = json_loads(text, FLAGS, &why);
    if (!root && (json_error_code(&why) == json_error_numeric_overflow ||
                  json_error_code(&why) == json_error_null_byte_in_key))
        root = parse_mended(text, &why);
    if (root)
        return root;
    dt_str_hide_controls(why.text);
    dt_error_set(err, EX_DATAERR, "%s:%d:%d: %s", path, why.line, why.column,
                 why.text);
    return NULL;
}

const char *dt_json_type_name(json_type type)
{
    static const char *const names[] = {
        [JSON_OBJECT] = "an object", [JSON_ARRAY] = "an array",
        [JSON_STRING] = "a string",  [JSON_INTEGER] = "an integer",
        [JSON_REAL] = "a number",    [JSON_TRUE] = "a boolean",
        [JSON_FALSE] = "a boolean",  [JSON_NULL] = "null"};
    return names[type];
}

double dt_json_number(const json_t *value)
{
    return json_is_number(value) ? json_number_value(value) : (double)NAN;
}
