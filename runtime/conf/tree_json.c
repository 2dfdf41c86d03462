/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tree_json.c - builds a tree with file positions from JSON as DeepSpeed users
 * have it: comments (//, # and slash-star) and commas before } and ] are
 * allowed
 */
#include "config.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "conf/conf.h"
#include "conf/tree.h"

struct json {
    const char *next, *end;     /* the rest of the text */
    struct dt_conf_place place; /* of next */
    struct dt_conf_notes *notes;
    size_t nodes;
    bool failed; /* stop: nothing more can be read */
};

/* --- bytes --- */

static int peek(const struct json *j)
{
    return j->next < j->end ? (unsigned char)*j->next : EOF;
}

/* Steps over `count` bytes; columns count characters. */
static void skip_bytes(struct json *j, size_t count)
{
    for (; count > 0 && j->next < j->end; count--, j->next++) {
        if (*j->next == '\n') {
            j->place.line++;
            j->place.column = 1;
        } else if (((unsigned char)*j->next & 0xc0) != 0x80) {
            j->place.column++;
        }
    }
}

static bool starts_with(const struct json *j, const char *text)
{
    size_t n = strlen(text);
    return (size_t)(j->end - j->next) >= n && memcmp(j->next, text, n) == 0;
}

static void *fail_memory(struct json *j)
{
    j->notes->out_of_memory = true;
    j->failed = true;
    return NULL;
}

/* Notes that something else was expected here. */
static void fail_expected(struct json *j, const char *wanted)
{
    size_t shown = 0;
    if (!j->failed && peek(j) == EOF) {
        dt_conf_note(j->notes, j->place, NULL,
                     "JSON: expected %s, got the end of the file", wanted);
    } else if (!j->failed) {
        while (shown < 20 && j->next + shown < j->end &&
               !strchr(" \t\r\n,:{}[]\"", j->next[shown]))
            shown++;
        dt_conf_note(j->notes, j->place, NULL, "JSON: expected %s, got %.*s",
                     wanted, (int)(shown ? shown : 1), j->next);
    }
    j->failed = true;
}

/* Steps over blanks and comments. */
static void skip_space(struct json *j)
{
    while (!j->failed) {
        size_t line = 0;
        if (peek(j) == '#' || starts_with(j, "//")) {
            while (j->next + line < j->end && j->next[line] != '\n')
                line++;
            skip_bytes(j, line);
        } else if (starts_with(j, "/*")) {
            struct dt_conf_place place = j->place;
            skip_bytes(j, 2);
            while (!starts_with(j, "*/") && peek(j) != EOF)
                skip_bytes(j, 1);
            if (peek(j) == EOF) {
                dt_conf_note(j->notes, place, NULL,
                             "JSON: a comment begins here and does not end");
                j->failed = true;
            }
            skip_bytes(j, 2);
        } else if (peek(j) == ' ' || peek(j) == '\t' || peek(j) == '\r' ||
                   peek(j) == '\n') {
            skip_bytes(j, 1);
        } else {
            break;
        }
    }
}

/* --- strings --- */

/* The length of the UTF-8 sequence that comes next, or 0 if it is not one. */
static size_t sequence_length(const struct json *j)
{
    const unsigned char *p = (const unsigned char *)j->next;
    size_t n = p[0] < 0x80   ? 1
               : p[0] < 0xc2 ? 0
               : p[0] < 0xe0 ? 2
               : p[0] < 0xf0 ? 3
               : p[0] < 0xf5 ? 4
                             : 0;
    if (n > (size_t)(j->end - j->next))
        return 0;
    for (size_t i = 1; i < n; i++)
        if ((p[i] & 0xc0) != 0x80)
            return 0;
    bool overlong = (p[0] == 0xe0 && n == 3 && p[1] < 0xa0) ||
                    (p[0] == 0xf0 && n == 4 && p[1] < 0x90);
    bool beyond = (p[0] == 0xed && n == 3 && p[1] > 0x9f) ||
                  (p[0] == 0xf4 && n == 4 && p[1] > 0x8f);
    return overlong || beyond ? 0 : n;
}

/* Writes a code point as UTF-8; returns the number of bytes. */
static size_t put_code(unsigned code, char *to)
{
    if (code < 0x80) {
        to[0] = (char)code;
        return 1;
    }
    size_t n = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    static const unsigned char lead[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (size_t i = n - 1; i > 0; i--, code >>= 6)
        to[i] = (char)(0x80 | (code & 0x3f));
    to[0] = (char)(lead[n] | code);
    return n;
}

/* Reads \uXXXX. False if it is not that. */
static bool take_hex(struct json *j, unsigned *code)
{
    *code = 0;
    if (!starts_with(j, "\\u") || j->end - j->next < 6)
        return false;
    for (int i = 2; i < 6; i++) {
        unsigned char c = (unsigned char)j->next[i];
        if (!isxdigit(c))
            return false;
        *code = *code * 16 +
                (unsigned)(isdigit(c) ? c - '0' : tolower(c) - 'a' + 10);
    }
    skip_bytes(j, 6);
    return true;
}

/* Reads an escape, which begins with a backslash, into `to`, of 4 bytes.
 * Returns the number of bytes, 0 if it is not one.
 */
static size_t take_escape(struct json *j, char *to)
{
    static const char from[] = "\"\\/bfnrt", into[] = "\"\\/\b\f\n\r\t";
    unsigned code, low;
    const char *found = j->end - j->next > 1
                            ? memchr(from, j->next[1], sizeof(from) - 1)
                            : NULL;
    if (found) {
        *to = into[found - from];
        skip_bytes(j, 2);
        return 1;
    }
    if (!take_hex(j, &code) || code == 0)
        return 0;
    if (code >= 0xd800 && code < 0xdc00) {
        if (!take_hex(j, &low) || low < 0xdc00 || low > 0xdfff)
            return 0;
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    } else if (code >= 0xdc00 && code < 0xe000) {
        return 0;
    }
    return put_code(code, to);
}

/* Reads a character of the string that begins at `start` into `to`, of 4 bytes.
 * Returns the number of bytes, or 0: j->failed.
 */
static size_t take_character(struct json *j, struct dt_conf_place start,
                             char *to)
{
    if (peek(j) == '\\') {
        size_t n = take_escape(j, to);
        if (n == 0)
            fail_expected(j, "an escape such as \\n, \\\" or \\u00e4");
        return n;
    }
    size_t n = peek(j) == EOF ? 0 : sequence_length(j);
    if (peek(j) == EOF || peek(j) == '\n')
        dt_conf_note(j->notes, start, NULL,
                     "JSON: a string begins here and does not end");
    else if (n == 0)
        dt_conf_note(j->notes, j->place, NULL, "not UTF-8");
    else if (peek(j) < 0x20)
        dt_conf_note(j->notes, j->place, NULL,
                     "control character 0x%02x in a string", (unsigned)peek(j));
    else {
        memcpy(to, j->next, n);
        skip_bytes(j, n);
        return n;
    }
    j->failed = true;
    return 0;
}

/* The bytes from the quote that comes next up to the one that ends the string,
 * which is at least as long as the string's value.
 */
static size_t string_length(const struct json *j)
{
    const char *p = j->next + 1;
    while (p < j->end && *p != '"' && *p != '\n')
        p += *p == '\\' ? 2 : 1;
    return (size_t)(p - j->next);
}

/* Reads a string, malloc'ed. NULL: j->failed. */
static char *take_string(struct json *j)
{
    struct dt_conf_place start = j->place;
    char *text = malloc(string_length(j) + 4), *to = text;
    if (!text)
        return fail_memory(j);
    skip_bytes(j, 1);
    while (peek(j) != '"') {
        size_t n = take_character(j, start, to);
        if (n == 0) {
            free(text);
            return NULL;
        }
        to += n;
    }
    skip_bytes(j, 1);
    *to = '\0';
    return text;
}

/* --- values --- */

static bool is_number(const char *text, size_t bytes)
{
    const char *p = text, *end = text + bytes;
#define DIGITS() (p < end && isdigit((unsigned char)*p))
    p += p < end && *p == '-';
    if (!DIGITS())
        return false;
    while (DIGITS())
        p++;
    if (p < end && *p == '.') {
        for (p++; DIGITS();)
            p++;
    }
    if (p < end && (*p == 'e' || *p == 'E')) {
        p++;
        p += p < end && (*p == '-' || *p == '+');
        if (!DIGITS())
            return false;
        while (DIGITS())
            p++;
    }
#undef DIGITS
    return p == end;
}

/* Reads true, false, null, Infinity or a number, malloc'ed. NULL: j->failed. */
static char *take_word(struct json *j)
{
    static const char *const words[] = {"true", "false", "null", "Infinity"};
    size_t n = 0;
    while (j->next + n < j->end &&
           (isalnum((unsigned char)j->next[n]) || strchr("+-._", j->next[n])))
        n++;
    bool good = is_number(j->next, n);
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        good |= n == strlen(words[i]) && memcmp(j->next, words[i], n) == 0;
    if (!good) {
        fail_expected(j, starts_with(j, "True")    ? "true"
                         : starts_with(j, "False") ? "false"
                         : starts_with(j, "None")  ? "null"
                         : starts_with(j, "'")
                             ? "a string in double quotes"
                             : "a value: a string in double quotes, a number, "
                               "true, false, null, [ or {");
        return NULL;
    }
    char *text = strndup(j->next, n);
    skip_bytes(j, n);
    return text ? text : fail_memory(j);
}

static struct dt_tree *take_value(struct json *j, int depth);

/* Reads a key and its colon, malloc'ed. NULL: j->failed. */
static char *take_key(struct json *j)
{
    if (peek(j) != '"') {
        fail_expected(j, "a key in double quotes or }");
        return NULL;
    }
    char *key = take_string(j);
    skip_space(j);
    if (key && !j->failed && peek(j) == ':') {
        skip_bytes(j, 1);
        return key;
    }
    if (key)
        fail_expected(j, ": after a key");
    free(key);
    return NULL;
}

/* Reads the items of a list or map, up to `close`. */
static void take_items(struct json *j, struct dt_tree *tree, char close,
                       int depth)
{
    struct dt_tree **tail = &tree->child;
    const char *wanted = close == '}' ? ", or }" : ", or ]";
    skip_bytes(j, 1);
    skip_space(j);
    while (!j->failed && peek(j) != close) {
        struct dt_conf_place place = j->place;
        char *key = close == '}' ? take_key(j) : NULL;
        struct dt_tree *value = j->failed ? NULL : take_value(j, depth);
        if (value && (!key || dt_tree_key_is_new(j->notes, tree, key, place))) {
            value->key = key;
            value->key_place = place;
            *tail = value;
            tail = &value->next;
        } else {
            dt_tree_destroy(value);
            free(key);
        }
        skip_space(j);
        if (!j->failed && peek(j) != close && peek(j) != ',')
            fail_expected(j, wanted);
        if (!j->failed && peek(j) == ',') {
            skip_bytes(j, 1);
            skip_space(j);
        }
    }
    skip_bytes(j, 1);
}

/* Reads the next value, after blanks. NULL: j->failed. */
static struct dt_tree *take_value(struct json *j, int depth)
{
    skip_space(j);
    if (j->failed)
        return NULL;
    if (!dt_tree_may_grow(j->notes, j->place, depth, ++j->nodes)) {
        j->failed = true;
        return NULL;
    }
    struct dt_tree *tree = calloc(1, sizeof(*tree));
    if (!tree)
        return fail_memory(j);
    tree->place = j->place;
    if (peek(j) == '{' || peek(j) == '[') {
        bool map = peek(j) == '{';
        tree->kind = map ? DT_TREE_MAP : DT_TREE_LIST;
        take_items(j, tree, map ? '}' : ']', depth + 1);
    } else {
        tree->quoted = peek(j) == '"';
        tree->text = tree->quoted ? take_string(j) : take_word(j);
    }
    if (!j->failed)
        return tree;
    dt_tree_destroy(tree);
    return NULL;
}

struct dt_tree *dt_tree_parse_json(const char *text, size_t bytes,
                                   struct dt_conf_notes *notes)
{
    struct json j = {
        .next = text,
        .end = text + bytes,
        .place = {.line = 1, .column = 1, .source = DT_CONF_OF_DEEPSPEED},
        .notes = notes,
    };
    if (starts_with(&j, "\xef\xbb\xbf"))
        j.next += 3;
    skip_space(&j);
    if (!j.failed && peek(&j) == EOF) {
        dt_conf_note(notes, j.place, NULL, "the file is empty");
        return NULL;
    }
    struct dt_tree *tree = take_value(&j, 0);
    skip_space(&j);
    if (tree && peek(&j) != EOF)
        fail_expected(&j, "the end of the file");
    if (!j.failed)
        return tree;
    dt_tree_destroy(tree);
    return NULL;
}
