/* SPDX-License-Identifier: Apache-2.0 */
/* show.c - values as text, as Python's str and repr and tojson write them */
#include "config.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "template/template_impl.h"

/* --- numbers --- */

/* A number as Python writes it. */
static void print_float(double d, char out[48])
{
    char digits[32], *e;
    int precision = 0;
    if (!isfinite(d)) {
        snprintf(out, 48, "%s", isnan(d) ? "nan" : d > 0 ? "inf" : "-inf");
        return;
    }
    do /* the shortest that reads as this number */
        snprintf(digits, sizeof(digits), "%.*e", precision, d);
    while (strtod(digits, NULL) != d && ++precision < 17);
    e = strchr(digits, 'e');
    int exponent = atoi(e + 1);
    *e = '\0';
    if (exponent < -4 || exponent >= 16)
        snprintf(out, 48, "%se%c%02d", digits, exponent < 0 ? '-' : '+',
                 abs(exponent));
    else if (exponent >= precision)
        snprintf(out, 48, "%.1f", d);
    else
        snprintf(out, 48, "%.*f", precision - exponent, d);
}

/* Writes a scalar that both repr and JSON have; false: it is not one. */
static bool add_number(struct dt_tpl_builder *b,
                       const struct dt_tpl_value *value)
{
    char text[48];
    if (value->kind == V_INT)
        snprintf(text, sizeof(text), "%" PRId64, value->i);
    else if (value->kind == V_FLOAT)
        print_float(value->d, text);
    else
        return false;
    dt_tpl_add_string(b, text);
    return true;
}

/* --- repr --- */

/* The second character of a short escape such as "\n"; 0: there is none. */
static char short_escape(uint32_t c, char quote)
{
    return c == '\n'                                ? 'n'
           : c == '\r'                              ? 'r'
           : c == '\t'                              ? 't'
           : c == '\\' || c == (unsigned char)quote ? (char)c
                                                    : '\0';
}

static void add_quoted(struct dt_tpl_builder *b, struct dt_tpl_text text)
{
    bool single = dt_tpl_find(text, TEXT("'"), 0) != SIZE_MAX;
    bool both = single && dt_tpl_find(text, TEXT("\""), 0) != SIZE_MAX;
    char quote = single && !both ? '"' : '\'', escape[16];
    b->failed = b->failed || !dt_tpl_scan(b->run, text, 4);
    if (b->failed)
        return;
    dt_tpl_add(b, &quote, 1);
    for (size_t at = 0, n; at < text.n; at += n) {
        uint32_t c = dt_tpl_code_point(text, at);
        n = dt_tpl_sequence(text, at);
        char brief = short_escape(c, quote);
        if (brief)
            snprintf(escape, sizeof(escape), "\\%c", brief);
        else
            snprintf(escape, sizeof(escape),
                     c < 0x100     ? "\\x%02x"
                     : c < 0x10000 ? "\\u%04x"
                                   : "\\U%08x",
                     c);
        if (brief || !dt_tpl_is_printable(c))
            dt_tpl_add_string(b, escape);
        else
            dt_tpl_add(b, text.s + at, n);
    }
    dt_tpl_add(b, &quote, 1);
}

/* Writes a value as Python's repr does. */
static void add_repr(struct dt_tpl_builder *b,
                     const struct dt_tpl_value *value);

static void add_items(struct dt_tpl_builder *b, const struct dt_tpl_list *list)
{
    for (size_t i = 0; i < list->count && !b->failed; i++) {
        if (i > 0)
            dt_tpl_add_string(b, ", ");
        add_repr(b, &list->items[i]);
    }
}

static void add_container(struct dt_tpl_builder *b,
                          const struct dt_tpl_value *value)
{
    if (value->kind == V_LIST) {
        dt_tpl_add_string(b, "[");
        add_items(b, value->list);
        dt_tpl_add_string(b, "]");
    } else if (value->kind == V_TUPLE) {
        dt_tpl_add_string(b, "(");
        add_items(b, value->list);
        dt_tpl_add_string(b, value->list->count == 1 ? ",)" : ")");
    } else {
        dt_tpl_add_string(b, "{");
        for (size_t i = 0; i < value->dict->count && !b->failed; i++) {
            if (i > 0)
                dt_tpl_add_string(b, ", ");
            add_repr(b, &value->dict->pairs[i].key);
            dt_tpl_add_string(b, ": ");
            add_repr(b, &value->dict->pairs[i].value);
        }
        dt_tpl_add_string(b, "}");
    }
}

static void add_repr(struct dt_tpl_builder *b, const struct dt_tpl_value *value)
{
    b->failed = b->failed || !dt_tpl_deeper(b->run) || !dt_tpl_step(b->run, 0);
    if (b->failed)
        return;
    switch (value->kind) {
    case V_UNDEFINED:
        dt_tpl_add_string(b, "Undefined");
        break;
    case V_NONE:
        dt_tpl_add_string(b, "None");
        break;
    case V_BOOL:
        dt_tpl_add_string(b, value->b ? "True" : "False");
        break;
    case V_STRING:
        add_quoted(b, value->text);
        break;
    case V_LIST:
    case V_TUPLE:
    case V_DICT:
        add_container(b, value);
        break;
    default:
        if (!add_number(b, value)) {
            dt_tpl_fail(b->run, "%s has no text", dt_tpl_kind_name(value));
            b->failed = true;
        }
    }
    b->run->depth--;
}

bool dt_tpl_show(struct dt_tpl_run *r, const struct dt_tpl_value *value,
                 struct dt_tpl_text *out)
{
    struct dt_tpl_builder b = {.run = r};
    if (value->kind == V_STRING || value->kind == V_UNDEFINED) {
        *out =
            value->kind == V_STRING ? value->text : (struct dt_tpl_text){"", 0};
        return true;
    }
    add_repr(&b, value);
    return dt_tpl_built(&b, out);
}

/* --- JSON --- */

struct json {
    struct dt_tpl_builder b;
    bool ascii, sorted, lines;
    struct dt_tpl_text indent, comma, colon;
    size_t level;
};

static void json_string_value_of(struct json *json, struct dt_tpl_text text)
{
    static const char plain[] = "\b\f\n\r\t\"\\", escapes[] = "bfnrt\"\\";
    char escape[16];
    size_t from = 0;
    json->b.failed = json->b.failed || !dt_tpl_scan(json->b.run, text, 1);
    if (json->b.failed)
        return;
    dt_tpl_add_string(&json->b, "\"");
    for (size_t at = 0, n; at < text.n; at += n) {
        uint32_t c = dt_tpl_code_point(text, at);
        const char *brief = c > 0 && c < 0x80 ? strchr(plain, (int)c) : NULL;
        n = dt_tpl_sequence(text, at);
        if (!brief && c >= ' ' && !(json->ascii && c >= 0x7f))
            continue;
        dt_tpl_add(&json->b, text.s + from, at - from);
        from = at + n;
        if (brief)
            snprintf(escape, sizeof(escape), "\\%c", escapes[brief - plain]);
        else if (c < 0x10000)
            snprintf(escape, sizeof(escape), "\\u%04x", c);
        else
            snprintf(escape, sizeof(escape), "\\u%04x\\u%04x",
                     0xd7c0 + (c >> 10), 0xdc00 + (c & 0x3ff));
        dt_tpl_add_string(&json->b, escape);
    }
    dt_tpl_add(&json->b, text.s + from, text.n - from);
    dt_tpl_add_string(&json->b, "\"");
}

static void json_line(struct json *json)
{
    if (!json->lines)
        return;
    dt_tpl_add_string(&json->b, "\n");
    for (size_t i = 0; i < json->level; i++)
        dt_tpl_add_text(&json->b, json->indent);
}

static void json_add(struct json *json, const struct dt_tpl_value *value);

/* Begins an item; the `first` one opens the bracket. */
static void json_item(struct json *json, bool first)
{
    if (!first)
        dt_tpl_add_text(&json->b, json->comma);
    json_line(json);
}

static void json_list(struct json *json, const struct dt_tpl_list *list)
{
    dt_tpl_add_string(&json->b, "[");
    json->level++;
    for (size_t i = 0; i < list->count && !json->b.failed; i++) {
        json_item(json, i == 0);
        json_add(json, &list->items[i]);
    }
    json->level--;
    if (list->count > 0)
        json_line(json);
    dt_tpl_add_string(&json->b, "]");
}

/* The pairs in the order of their keys: a stable sort by insertion. */
static struct dt_tpl_pair *sorted_pairs(struct json *json,
                                        const struct dt_tpl_dict *dict)
{
    struct dt_tpl_run *r = json->b.run;
    struct dt_tpl_pair *pairs =
        dt_tpl_alloc(r, (dict->count + 1) * sizeof(*pairs));
    for (size_t i = 0; pairs && i < dict->count; i++) {
        size_t at = i;
        int order = 1;
        for (; at > 0; at--) {
            if (!dt_tpl_order(r, &pairs[at - 1].key, &dict->pairs[i].key,
                              &order))
                return NULL;
            if (order <= 0)
                break;
            pairs[at] = pairs[at - 1];
        }
        pairs[at] = dict->pairs[i];
    }
    return pairs;
}

/* Keys are strings; numbers, booleans and none are converted. */
static void json_key(struct json *json, const struct dt_tpl_value *key)
{
    if (key->kind == V_STRING) {
        json_string_value_of(json, key->text);
        return;
    }
    dt_tpl_add_string(&json->b, "\"");
    if (dt_tpl_is_number(key) || key->kind == V_NONE)
        json_add(json, key);
    else
        json->b.failed = !dt_tpl_fail(json->b.run, "%s cannot be a key of JSON",
                                      dt_tpl_kind_name(key));
    dt_tpl_add_string(&json->b, "\"");
}

static void json_dict(struct json *json, const struct dt_tpl_dict *dict)
{
    struct dt_tpl_pair *pairs =
        json->sorted ? sorted_pairs(json, dict) : dict->pairs;
    json->b.failed |= json->sorted && !pairs;
    dt_tpl_add_string(&json->b, "{");
    json->level++;
    for (size_t i = 0; i < dict->count && !json->b.failed; i++) {
        json_item(json, i == 0);
        json_key(json, &pairs[i].key);
        dt_tpl_add_text(&json->b, json->colon);
        json_add(json, &pairs[i].value);
    }
    json->level--;
    if (dict->count > 0)
        json_line(json);
    dt_tpl_add_string(&json->b, "}");
}

static void json_add_other(struct json *json, const struct dt_tpl_value *value)
{
    if (value->kind == V_FLOAT && !isfinite(value->d))
        dt_tpl_add_string(&json->b, isnan(value->d) ? "NaN"
                                    : value->d > 0  ? "Infinity"
                                                    : "-Infinity");
    else if (!add_number(&json->b, value))
        json->b.failed = !dt_tpl_fail(json->b.run, "%s is not of JSON",
                                      dt_tpl_kind_name(value));
}

static void json_add(struct json *json, const struct dt_tpl_value *value)
{
    struct dt_tpl_builder *b = &json->b;
    b->failed = b->failed || !dt_tpl_deeper(b->run) || !dt_tpl_step(b->run, 0);
    if (b->failed)
        return;
    switch (value->kind) {
    case V_NONE:
        dt_tpl_add_string(b, "null");
        break;
    case V_BOOL:
        dt_tpl_add_string(b, value->b ? "true" : "false");
        break;
    case V_STRING:
        json_string_value_of(json, value->text);
        break;
    case V_LIST:
    case V_TUPLE:
        json_list(json, value->list);
        break;
    case V_DICT:
        json_dict(json, value->dict);
        break;
    default:
        json_add_other(json, value);
    }
    b->run->depth--;
}

/* Reads `indent`: none, a number of blanks, or a text. */
static bool json_indent(struct json *json, const struct dt_tpl_value *indent)
{
    struct dt_tpl_run *r = json->b.run;
    struct dt_tpl_value blank = dt_tpl_string(TEXT(" ")), blanks;
    json->lines = indent->kind != V_NONE;
    json->comma = json->lines ? TEXT(",") : TEXT(", ");
    if (indent->kind == V_STRING)
        json->indent = indent->text;
    else if (json->lines) {
        if (!dt_tpl_binary(r, OP_MUL, &blank, indent, &blanks))
            return false;
        json->indent = blanks.text;
    }
    return true;
}

bool dt_tpl_to_json(struct dt_tpl_run *r, const struct dt_tpl_value *value,
                    const struct dt_tpl_args *args, struct dt_tpl_text *out)
{
    struct json json = {.b.run = r, .colon = TEXT(": ")};
    struct dt_tpl_value indent = dt_tpl_arg(args, 1, "indent", dt_tpl_none());
    struct dt_tpl_value separators =
        dt_tpl_arg(args, 2, "separators", dt_tpl_none());
    if (!dt_tpl_check_args(r, args, "tojson",
                           "ensure_ascii, indent, separators, sort_keys"))
        return false;
    json.ascii = dt_tpl_true_arg(args, 0, "ensure_ascii");
    json.sorted = dt_tpl_true_arg(args, 3, "sort_keys");
    if (!json_indent(&json, &indent))
        return false;
    if (separators.kind != V_NONE) {
        if ((separators.kind != V_TUPLE && separators.kind != V_LIST) ||
            separators.list->count != 2 ||
            separators.list->items[0].kind != V_STRING ||
            separators.list->items[1].kind != V_STRING)
            return dt_tpl_fail(r, "tojson expects two strings as separators");
        json.comma = separators.list->items[0].text;
        json.colon = separators.list->items[1].text;
    }
    json_add(&json, value);
    return dt_tpl_built(&json.b, out);
}
