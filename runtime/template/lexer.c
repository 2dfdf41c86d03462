/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lexer.c - splits a template into text and the tokens of its tags
 *
 * White space around tags, as jinja2 with trim_blocks and lstrip_blocks: a
 * newline after a block or comment is dropped, and so are blanks before one
 * that begins its line. "-" at either end of a tag drops all white space there,
 * "+" keeps it.
 */
#include "config.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "template/template_impl.h"

struct lexer {
    struct dt_template *template;
    struct dt_tpl_tokens *tokens;
    struct dt_tpl_text source;
    size_t at;
    bool line_starts; /* no tag yet, or the last one ended with a newline */
    char open[256];   /* brackets that are not closed yet */
    size_t open_count;
    struct dt_error *err;
};

static int lexer_fail(const struct lexer *lx, size_t at, const char *why)
{
    return dt_tpl_error(lx->template, (uint32_t)at, EX_CONFIG, lx->err, "%s",
                        why);
}

static struct dt_tpl_token *lexer_add(struct lexer *lx,
                                      enum dt_tpl_token_kind kind, size_t at)
{
    struct dt_tpl_tokens *tokens = lx->tokens;
    if (tokens->count == tokens->room) {
        size_t room = 2 * tokens->room + 256;
        void *grown = reallocarray(tokens->items, room, sizeof(*tokens->items));
        if (!grown) {
            dt_error_set(lx->err, EX_OSERR, "out of memory");
            return NULL;
        }
        tokens->items = grown;
        tokens->room = room;
    }
    struct dt_tpl_token *token = &tokens->items[tokens->count++];
    *token = (struct dt_tpl_token){.kind = kind, .at = (uint32_t)at};
    return token;
}

static bool lexer_has(const struct lexer *lx, size_t at, const char *text)
{
    size_t n = strlen(text);
    return lx->source.n - at >= n && memcmp(lx->source.s + at, text, n) == 0;
}

/* The byte at an offset, or NUL at the end. */
static char lexer_peek(const struct lexer *lx, size_t at)
{
    return at < lx->source.n ? lx->source.s[at] : '\0';
}

static size_t lexer_skip_space(const struct lexer *lx, size_t at)
{
    while (at < lx->source.n &&
           dt_tpl_is_space(dt_tpl_code_point(lx->source, at)))
        at += dt_tpl_sequence(lx->source, at);
    return at;
}

/* --- text --- */

/* The text from `begin` to a tag at `end`, which has this sign. */
static struct dt_tpl_text text_before(const struct lexer *lx, size_t begin,
                                      size_t end, char sign, bool block)
{
    struct dt_tpl_text text = {lx->source.s + begin, end - begin};
    size_t line = text.n;
    if (sign == '-')
        return dt_tpl_strip(text, NULL, false, true);
    if (sign == '+' || !block)
        return text;
    while (line > 0 && text.s[line - 1] != '\n')
        line--;
    if (line == 0 && !lx->line_starts)
        return text;
    struct dt_tpl_text blanks = {text.s + line, text.n - line};
    if (dt_tpl_strip(blanks, NULL, true, false).n == 0)
        text.n = line;
    return text;
}

static int lexer_add_text(struct lexer *lx, size_t at, struct dt_tpl_text text)
{
    if (text.n == 0)
        return 0;
    struct dt_tpl_token *token = lexer_add(lx, TOKEN_TEXT, at);
    if (!token)
        return -1;
    token->text = text;
    return 0;
}

/* Moves past the end of a block or comment, which is `n` bytes without a sign,
 * and the white space that it drops.
 */
static void lexer_end_block(struct lexer *lx, size_t n)
{
    char sign = lexer_peek(lx, lx->at);
    if (sign == '-') {
        lx->at = lexer_skip_space(lx, lx->at + 1 + n);
    } else if (sign == '+') {
        lx->at += 1 + n;
    } else {
        lx->at += n;
        lx->at += lexer_peek(lx, lx->at) == '\n';
    }
    lx->line_starts = lexer_peek(lx, lx->at - 1) == '\n';
}

/* Skips a comment, at the "#" of "{#". */
static int lexer_comment(struct lexer *lx, size_t begin)
{
    size_t at = lx->at;
    while (at < lx->source.n && !lexer_has(lx, at, "#}"))
        at++;
    if (at >= lx->source.n)
        return lexer_fail(lx, begin, "a comment without its end, #}");
    char sign = at > lx->at ? lx->source.s[at - 1] : '\0';
    lx->at = sign == '-' || sign == '+' ? at - 1 : at;
    lexer_end_block(lx, 2);
    return 0;
}

/* The length of "{% <name> %}" with signs at `at`, or 0. */
static size_t tag_length(const struct lexer *lx, size_t at, const char *name)
{
    size_t begin = at;
    if (!lexer_has(lx, at, "{%"))
        return 0;
    at += 2;
    at += lexer_peek(lx, at) == '-' || lexer_peek(lx, at) == '+';
    at = lexer_skip_space(lx, at);
    if (!lexer_has(lx, at, name))
        return 0;
    at = lexer_skip_space(lx, at + strlen(name));
    at += lexer_peek(lx, at) == '-' || lexer_peek(lx, at) == '+';
    return lexer_has(lx, at, "%}") ? at + 2 - begin : 0;
}

/* {% raw %}, which has `n` bytes, and the text in it. */
static int lexer_raw(struct lexer *lx, size_t begin, size_t n)
{
    size_t text = begin + n, at = text, end = 0;
    if (lx->source.s[text - 3] == '-')
        text = at = lexer_skip_space(lx, text);
    else if (lx->source.s[text - 3] == '+')
        return lexer_fail(lx, begin, "+%} is not known here");
    for (; at < lx->source.n; at++)
        if ((end = tag_length(lx, at, "endraw")) > 0)
            break;
    if (at >= lx->source.n)
        return lexer_fail(lx, begin, "raw without endraw");
    lx->line_starts = false;
    if (lexer_add_text(
            lx, text, text_before(lx, text, at, lexer_peek(lx, at + 2), true)) <
        0)
        return -1;
    lx->at = at + end - 2;
    if (strchr("-+", lx->source.s[lx->at - 1]))
        lx->at--;
    lexer_end_block(lx, 2);
    return 0;
}

/* --- tokens of a tag --- */

static bool is_name_byte(char c)
{
    return isalnum((unsigned char)c) || c == '_' || (unsigned char)c >= 0x80;
}

/* Appends the character that an escape stands for. The length of the escape, or
 * 0 if it is invalid.
 */
static size_t unescape(const char *s, size_t n, char *out, size_t *out_n)
{
    static const char from[] = "\\'\"abfnrtv", to[] = "\\'\"\a\b\f\n\r\t\v";
    const char *simple = n > 0 && s[0] ? strchr(from, s[0]) : NULL;
    size_t digits = n == 0 ? 0 : s[0] == 'x' ? 2 : s[0] == 'u' ? 4 : 8;
    uint32_t code = 0;
    if (simple) {
        out[(*out_n)++] = to[simple - from];
        return 1;
    }
    if (n > 0 && s[0] == '\n')
        return 1;
    if (n > 0 && s[0] >= '0' && s[0] <= '7') {
        size_t i = 0;
        for (; i < 3 && i < n && s[i] >= '0' && s[i] <= '7'; i++)
            code = code * 8 + (uint32_t)(s[i] - '0');
        *out_n += dt_tpl_write(code, out + *out_n);
        return i;
    }
    if (n == 0 || !strchr("xuU", s[0])) { /* no escape: Python keeps both */
        out[(*out_n)++] = '\\';
        return n == 0 ? 0 : SIZE_MAX;
    }
    if (n <= digits)
        return 0;
    for (size_t i = 1; i <= digits; i++) {
        const char *hex = "0123456789abcdef",
                   *at = strchr(hex, tolower((unsigned char)s[i]));
        if (!at || !s[i])
            return 0;
        code = code * 16 + (uint32_t)(at - hex);
    }
    if (code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
        return 0;
    *out_n += dt_tpl_write(code, out + *out_n);
    return 1 + digits;
}

static int lexer_string(struct lexer *lx)
{
    const char *s = lx->source.s;
    size_t begin = lx->at, end = begin + 1, n = 0;
    while (end < lx->source.n && s[end] != s[begin])
        end += s[end] == '\\' ? 2 : 1;
    if (end >= lx->source.n)
        return lexer_fail(lx, begin, "a string without its end");
    struct dt_tpl_token *token = lexer_add(lx, TOKEN_STRING, begin);
    char *text = dt_tpl_arena_alloc(&lx->template->arena, end - begin);
    if (!token || !text)
        return dt_error_set(lx->err, EX_OSERR, "out of memory");
    for (size_t i = begin + 1; i < end;) {
        if (s[i] != '\\') {
            text[n++] = s[i++];
            continue;
        }
        size_t length = unescape(s + i + 1, end - i - 1, text, &n);
        if (length == 0)
            return lexer_fail(lx, i, "this escape names no character");
        i += length == SIZE_MAX ? 1 : 1 + length;
    }
    token->text = (struct dt_tpl_text){text, n};
    lx->at = end + 1;
    return 0;
}

/* Decimal numbers; no template uses other bases. */
static int lexer_number(struct lexer *lx)
{
    char digits[64];
    size_t begin = lx->at, n = 0, at = begin;
    bool real = false, after_dot = begin > 0 && lx->source.s[begin - 1] == '.';
    for (; at < lx->source.n && n + 1 < sizeof(digits); at++) {
        char c = lexer_peek(lx, at), next = lexer_peek(lx, at + 1);
        bool digit = isdigit((unsigned char)c);
        if (c == '_' && isdigit((unsigned char)next))
            continue;
        if (c == '.' && !real && !after_dot && isdigit((unsigned char)next))
            digit = real = true;
        else if ((c == 'e' || c == 'E') && !after_dot &&
                 (isdigit((unsigned char)next) ||
                  ((next == '-' || next == '+') &&
                   isdigit((unsigned char)lexer_peek(lx, at + 2))))) {
            real = true;
            digits[n++] = c;
            c = next;
            digit = true;
            at++;
        }
        if (!digit)
            break;
        digits[n++] = c;
    }
    digits[n] = '\0';
    struct dt_tpl_token *token =
        lexer_add(lx, real ? TOKEN_FLOAT : TOKEN_INT, begin);
    if (!token)
        return -1;
    if ((!real && n > 18) || n + 1 >= sizeof(digits) ||
        (at < lx->source.n && is_name_byte(lx->source.s[at])))
        return lexer_fail(lx, begin, "this number is not supported");
    token->i = real ? 0 : strtoll(digits, NULL, 10);
    token->d = real ? strtod(digits, NULL) : 0;
    lx->at = at;
    return 0;
}

/* Checks that brackets match. */
static int lexer_bracket(struct lexer *lx, char c)
{
    static const char opens[] = "([{", closes[] = ")]}";
    const char *close = strchr(closes, c);
    if (strchr(opens, c)) {
        if (lx->open_count == sizeof(lx->open))
            return lexer_fail(lx, lx->at, "too many brackets");
        lx->open[lx->open_count++] = closes[strchr(opens, c) - opens];
    } else if (close &&
               (lx->open_count == 0 || lx->open[--lx->open_count] != c)) {
        return lexer_fail(lx, lx->at, "this bracket closes none");
    }
    return 0;
}

static int lexer_operator(struct lexer *lx)
{
    static const char *const all[] = {
        "//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[",
        "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ",", ";"};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        if (!lexer_has(lx, lx->at, all[i]))
            continue;
        struct dt_tpl_token *token = lexer_add(lx, TOKEN_OPERATOR, lx->at);
        if (!token || lexer_bracket(lx, all[i][0]) < 0)
            return -1;
        token->text = (struct dt_tpl_text){all[i], strlen(all[i])};
        lx->at += token->text.n;
        return 0;
    }
    return lexer_fail(lx, lx->at, "this character is not known in a tag");
}

/* Whether the tag ends here; moves past its end. */
static bool lexer_tag_ends(struct lexer *lx, bool block)
{
    const char *end = block ? "%}" : "}}";
    size_t sign = lexer_peek(lx, lx->at) == '-' ||
                  (block && lexer_peek(lx, lx->at) == '+');
    if (lx->open_count > 0 || !lexer_has(lx, lx->at + (sign ? 1 : 0), end))
        return false;
    if (block) {
        lexer_end_block(lx, 2);
        return true;
    }
    lx->at += sign + 2;
    if (sign)
        lx->at = lexer_skip_space(lx, lx->at);
    lx->line_starts = lx->source.s[lx->at - 1] == '\n';
    return true;
}

static int lexer_token(struct lexer *lx)
{
    char c = lx->source.s[lx->at];
    if (c == '"' || c == '\'')
        return lexer_string(lx);
    if (isdigit((unsigned char)c))
        return lexer_number(lx);
    if (!is_name_byte(c))
        return lexer_operator(lx);
    struct dt_tpl_token *token = lexer_add(lx, TOKEN_NAME, lx->at);
    size_t begin = lx->at;
    if (!token)
        return -1;
    while (lx->at < lx->source.n && is_name_byte(lx->source.s[lx->at]))
        lx->at++;
    token->text = (struct dt_tpl_text){lx->source.s + begin, lx->at - begin};
    return 0;
}

static int lexer_tag(struct lexer *lx, size_t begin, bool block)
{
    if (!lexer_add(lx, block ? TOKEN_BLOCK_BEGIN : TOKEN_VARIABLE_BEGIN, begin))
        return -1;
    for (;;) {
        lx->at = lexer_skip_space(lx, lx->at);
        if (lx->at >= lx->source.n)
            return lexer_fail(lx, begin, "a tag without its end");
        size_t end = lx->at;
        if (lexer_tag_ends(lx, block))
            return lexer_add(lx, block ? TOKEN_BLOCK_END : TOKEN_VARIABLE_END,
                             end)
                       ? 0
                       : -1;
        if (lexer_token(lx) < 0)
            return -1;
    }
}

/* The text up to the next tag, and the tag. */
static int lexer_next(struct lexer *lx)
{
    size_t begin = lx->at, tag = begin, raw;
    while (tag < lx->source.n &&
           !(lx->source.s[tag] == '{' &&
             (lexer_has(lx, tag, "{{") || lexer_has(lx, tag, "{%") ||
              lexer_has(lx, tag, "{#"))))
        tag++;
    if (tag >= lx->source.n) {
        lx->at = tag;
        return lexer_add_text(
            lx, begin, (struct dt_tpl_text){lx->source.s + begin, tag - begin});
    }
    char kind = lx->source.s[tag + 1], sign = lexer_peek(lx, tag + 2);
    if (sign != '-' && sign != '+')
        sign = '\0';
    if (lexer_add_text(lx, begin,
                       text_before(lx, begin, tag, sign, kind != '{')) < 0)
        return -1;
    if (kind == '%' && (raw = tag_length(lx, tag, "raw")) > 0)
        return lexer_raw(lx, tag, raw);
    lx->at = tag + 2 + (sign ? 1 : 0);
    return kind == '#' ? lexer_comment(lx, tag)
                       : lexer_tag(lx, tag, kind == '%');
}

int dt_tpl_lex(struct dt_template *template, struct dt_tpl_tokens *tokens,
               struct dt_error *err)
{
    struct lexer lx = {.template = template,
                       .tokens = tokens,
                       .source = {template->source, template->bytes},
                       .line_starts = true,
                       .err = err};
    while (lx.at < lx.source.n)
        if (lexer_next(&lx) < 0)
            return -1;
    return lexer_add(&lx, TOKEN_END, lx.at) ? 0 : -1;
}
