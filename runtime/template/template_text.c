/* SPDX-License-Identifier: Apache-2.0 */
/*
 * template_text.c - strings as Python sees them: characters, white space, case
 */
#include "config.h"

#include <string.h>

#include <utf8proc.h>

#include "template/template_impl.h"

bool dt_tpl_same_text(struct dt_tpl_text a, struct dt_tpl_text b)
{
    return a.n == b.n && (a.n == 0 || memcmp(a.s, b.s, a.n) == 0);
}

bool dt_tpl_text_is(struct dt_tpl_text a, const char *b)
{
    return strlen(b) == a.n && memcmp(a.s, b, a.n) == 0;
}

/* --- characters --- */

size_t dt_tpl_sequence(struct dt_tpl_text text, size_t at)
{
    unsigned char c = (unsigned char)text.s[at];
    size_t n = c < 0x80 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
    return n < text.n - at ? n : text.n - at;
}

uint32_t dt_tpl_code_point(struct dt_tpl_text text, size_t at)
{
    const size_t n = dt_tpl_sequence(text, at);
    unsigned char c = (unsigned char)text.s[at];
    uint32_t code = n == 1 ? c : c & (0xffu >> (n + 1));
    for (size_t i = 1; i < n; i++)
        code = code << 6 | ((unsigned char)text.s[at + i] & 0x3f);
    return code;
}

size_t dt_tpl_write(uint32_t code, char out[4])
{
    return (size_t)utf8proc_encode_char((utf8proc_int32_t)code,
                                        (utf8proc_uint8_t *)out);
}

size_t dt_tpl_characters(struct dt_tpl_text text)
{
    size_t count = 0;
    for (size_t i = 0; i < text.n; i++)
        count += ((unsigned char)text.s[i] & 0xc0) != 0x80;
    return count;
}

size_t dt_tpl_offset(struct dt_tpl_text text, size_t character)
{
    size_t at = 0;
    while (character > 0 && at < text.n) {
        at += dt_tpl_sequence(text, at);
        character--;
    }
    return at;
}

bool dt_tpl_is_space(uint32_t c)
{
    if (c < 0x80)
        return c == ' ' || (c >= 0x09 && c <= 0x0d) || (c >= 0x1c && c <= 0x1f);
    return c == 0x85 || c == 0xa0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 ||
           c == 0x202f || c == 0x205f || c == 0x3000;
}

static utf8proc_category_t category_of(uint32_t c)
{
    return utf8proc_category((utf8proc_int32_t)c);
}

bool dt_tpl_is_printable(uint32_t c)
{
    if (c < 0x7f)
        return c >= ' ';
    switch (category_of(c)) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
        return false;
    default:
        return true;
    }
}

/* --- parts --- */

static bool is_stripped(uint32_t c, const struct dt_tpl_text *set)
{
    if (!set)
        return dt_tpl_is_space(c);
    for (size_t at = 0; at < set->n; at += dt_tpl_sequence(*set, at))
        if (dt_tpl_code_point(*set, at) == c)
            return true;
    return false;
}

struct dt_tpl_text dt_tpl_strip(struct dt_tpl_text text,
                                const struct dt_tpl_text *set, bool left,
                                bool right)
{
    while (left && text.n > 0 && is_stripped(dt_tpl_code_point(text, 0), set)) {
        size_t n = dt_tpl_sequence(text, 0);
        text = (struct dt_tpl_text){text.s + n, text.n - n};
    }
    while (right && text.n > 0) {
        size_t at = text.n - 1;
        while (at > 0 && ((unsigned char)text.s[at] & 0xc0) == 0x80)
            at--;
        if (!is_stripped(dt_tpl_code_point(text, at), set))
            break;
        text.n = at;
    }
    return text;
}

size_t dt_tpl_find(struct dt_tpl_text text, struct dt_tpl_text what,
                   size_t from)
{
    if (from > text.n)
        return SIZE_MAX;
    if (what.n == 0)
        return from;
    const char *at = memmem(text.s + from, text.n - from, what.s, what.n);
    return at ? (size_t)(at - text.s) : SIZE_MAX;
}

size_t dt_tpl_find_last(struct dt_tpl_text text, struct dt_tpl_text what)
{
    for (size_t at = text.n + 1; at-- > what.n;)
        if (what.n == 0 || memcmp(text.s + at - what.n, what.s, what.n) == 0)
            return at - what.n;
    return SIZE_MAX;
}

bool dt_tpl_replace(struct dt_tpl_run *r, struct dt_tpl_text text,
                    struct dt_tpl_text old, struct dt_tpl_text new,
                    int64_t most, struct dt_tpl_text *out)
{
    struct dt_tpl_builder b = {.run = r};
    size_t from = 0, at = 0;
    if (!dt_tpl_scan(r, old, 1))
        return false;
    if (most != 0 && dt_tpl_find(text, old, 0) == SIZE_MAX) {
        *out = text;
        return dt_tpl_step(r, text.n);
    }
    for (; most != 0 && (at = dt_tpl_find(text, old, at)) != SIZE_MAX; most--) {
        if (!dt_tpl_step(r, 0))
            return false;
        dt_tpl_add(&b, text.s + from, at - from);
        dt_tpl_add_text(&b, new);
        from = at + old.n;
        if (old.n > 0) {
            at = from;
            continue;
        }
        if (at == text.n) /* between all characters, and at both ends */
            break;
        at += dt_tpl_sequence(text, at);
    }
    dt_tpl_add(&b, text.s + from, text.n - from);
    return dt_tpl_built(&b, out);
}

size_t dt_tpl_line_end(struct dt_tpl_text text, size_t at)
{
    uint32_t c = dt_tpl_code_point(text, at);
    if (c == '\r' && at + 1 < text.n && text.s[at + 1] == '\n')
        return 2;
    bool ends = (c >= '\n' && c <= '\r') || (c >= 0x1c && c <= 0x1e) ||
                c == 0x85 || c == 0x2028 || c == 0x2029;
    return ends ? dt_tpl_sequence(text, at) : 0;
}

/* --- case --- */

static bool is_upper(uint32_t c)
{
    return category_of(c) == UTF8PROC_CATEGORY_LU;
}

static bool is_lower(uint32_t c)
{
    return category_of(c) == UTF8PROC_CATEGORY_LL;
}

static bool is_cased(uint32_t c)
{
    return is_upper(c) || is_lower(c) || category_of(c) == UTF8PROC_CATEGORY_LT;
}

/* Characters whose other case depends on their neighbors or is several. */
static bool has_special_case(uint32_t c, enum dt_tpl_case to)
{
    if (to == CASE_LOWER)
        return c == 0x130 || c == 0x3a3;
    return c == 0x149 || c == 0x1f0 || c == 0x390 || c == 0x3b0 || c == 0x587 ||
           (c >= 0x1e96 && c <= 0x1e9a) || (c >= 0x1f50 && c <= 0x1fff) ||
           (c >= 0xfb00 && c <= 0xfb17);
}

static bool add_case(struct dt_tpl_builder *b, uint32_t c, enum dt_tpl_case to)
{
    char bytes[4];
    if (to == CASE_SWAP)
        to = is_upper(c) ? CASE_LOWER : CASE_UPPER;
    if ((to == CASE_UPPER || to == CASE_TITLE) && c == 0xdf) {
        dt_tpl_add_string(b, to == CASE_UPPER ? "SS" : "Ss");
        return true;
    }
    if (c >= 0x80 && has_special_case(c, to))
        return dt_tpl_fail(b->run, "the other case of U+%04X is not supported",
                           c);
    utf8proc_int32_t other = (utf8proc_int32_t)c;
    other = to == CASE_UPPER   ? utf8proc_toupper(other)
            : to == CASE_TITLE ? utf8proc_totitle(other)
                               : utf8proc_tolower(other);
    dt_tpl_add(b, bytes, dt_tpl_write((uint32_t)other, bytes));
    return true;
}

bool dt_tpl_change_case(struct dt_tpl_run *r, struct dt_tpl_text text,
                        enum dt_tpl_case to, struct dt_tpl_text *out)
{
    struct dt_tpl_builder b = {.run = r};
    if (!dt_tpl_scan(r, text, 4))
        return false;
    for (size_t at = 0; at < text.n; at += dt_tpl_sequence(text, at)) {
        uint32_t c = dt_tpl_code_point(text, at);
        if (to == CASE_FOLD && c >= 0x80)
            return dt_tpl_fail(r, "casefold of U+%04X is not supported", c);
        if (!add_case(&b, c, to == CASE_FOLD ? CASE_LOWER : to))
            return false;
    }
    return dt_tpl_built(&b, out);
}

bool dt_tpl_title(struct dt_tpl_run *r, struct dt_tpl_text text, bool method,
                  struct dt_tpl_text *out)
{
    const enum dt_tpl_case first = method ? CASE_TITLE : CASE_UPPER;
    struct dt_tpl_builder b = {.run = r};
    bool begins = true;
    if (!dt_tpl_scan(r, text, 4))
        return false;
    for (size_t at = 0; at < text.n; at += dt_tpl_sequence(text, at)) {
        uint32_t c = dt_tpl_code_point(text, at);
        bool between = method ? !is_cased(c)
                              : dt_tpl_is_space(c) ||
                                    (c < 0x80 && c && strchr("-({[<", (int)c));
        if (!add_case(&b, c, begins ? first : CASE_LOWER))
            return false;
        begins = between;
    }
    return dt_tpl_built(&b, out);
}

bool dt_tpl_capitalize(struct dt_tpl_run *r, struct dt_tpl_text text,
                       struct dt_tpl_text *out)
{
    struct dt_tpl_builder b = {.run = r};
    if (!dt_tpl_scan(r, text, 4))
        return false;
    for (size_t at = 0; at < text.n; at += dt_tpl_sequence(text, at))
        if (!add_case(&b, dt_tpl_code_point(text, at),
                      at == 0 ? CASE_TITLE : CASE_LOWER))
            return false;
    return dt_tpl_built(&b, out);
}

/* --- what a text consists of --- */

static bool is_letter(uint32_t c)
{
    utf8proc_category_t category = category_of(c);
    return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
}

static bool is_decimal(uint32_t c)
{
    return category_of(c) == UTF8PROC_CATEGORY_ND;
}

static bool is_digit(uint32_t c)
{
    return is_decimal(c) || c == 0xb2 || c == 0xb3 || c == 0xb9 ||
           c == 0x2070 || (c >= 0x2074 && c <= 0x2079) ||
           (c >= 0x2080 && c <= 0x2089);
}

static bool is_numeric(uint32_t c)
{
    utf8proc_category_t category = category_of(c);
    return category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO;
}

static bool is_alphanumeric(uint32_t c)
{
    return is_letter(c) || is_numeric(c);
}

/* isupper, islower: there are cased characters, and all are of this case. */
static bool all_cased(struct dt_tpl_text text, bool upper)
{
    bool any = false;
    for (size_t at = 0; at < text.n; at += dt_tpl_sequence(text, at)) {
        uint32_t c = dt_tpl_code_point(text, at);
        if (is_cased(c) && (upper ? !is_upper(c) : !is_lower(c)))
            return false;
        any |= is_cased(c);
    }
    return any;
}

bool dt_tpl_text_test(struct dt_tpl_text text, struct dt_tpl_text name,
                      bool *out)
{
    static const struct {
        const char *name;
        bool (*holds)(uint32_t c);
    } all[] = {
        {"isspace", dt_tpl_is_space}, {"isalpha", is_letter},
        {"isdigit", is_digit},        {"isdecimal", is_decimal},
        {"isnumeric", is_numeric},    {"isalnum", is_alphanumeric},
    };
    if (dt_tpl_text_is(name, "isupper") || dt_tpl_text_is(name, "islower")) {
        *out = all_cased(text, name.s[2] == 'u');
        return true;
    }
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        if (!dt_tpl_text_is(name, all[i].name))
            continue;
        *out = text.n > 0;
        for (size_t at = 0; *out && at < text.n;
             at += dt_tpl_sequence(text, at))
            *out = all[i].holds(dt_tpl_code_point(text, at));
        return true;
    }
    return false;
}
