/* SPDX-License-Identifier: Apache-2.0 */
/* text.c - numbers, arithmetic and elements in the text of a model */
#include "config.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reward/reward_impl.h"

enum { NUMBER_BYTES = 64, NUMBERS_MAX = 64, DEPTH_MAX = 64, TAG_BYTES = 64 };

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

struct dt_piece dt_piece_trim(struct dt_piece piece)
{
    while (piece.n > 0 && is_space(piece.s[0])) {
        piece.s++;
        piece.n--;
    }
    while (piece.n > 0 && is_space(piece.s[piece.n - 1]))
        piece.n--;
    return piece;
}

static size_t count_digits(struct dt_piece piece, size_t at)
{
    size_t n = 0;
    while (at + n < piece.n && is_digit(piece.s[at + n]))
        n++;
    return n;
}

/* The text of a number without commas, which strtod reads. */
struct number {
    char text[NUMBER_BYTES];
    size_t used;
    bool too_long;
};

static void put_bytes(struct number *number, const char *s, size_t n)
{
    if (n >= sizeof(number->text) - number->used) {
        number->too_long = true;
        return;
    }
    memcpy(number->text + number->used, s, n);
    number->used += n;
    number->text[number->used] = '\0';
}

/* Copies the digits at `at` and returns where they end: 12345 or 12,345,678. */
static size_t copy_whole(struct dt_piece piece, size_t at,
                         struct number *number)
{
    size_t n = count_digits(piece, at);
    put_bytes(number, piece.s + at, n);
    at += n;
    while (n >= 1 && n <= 3 && at < piece.n && piece.s[at] == ',' &&
           count_digits(piece, at + 1) == 3) {
        put_bytes(number, piece.s + at + 1, 3);
        at += 4;
    }
    return at;
}

/* Copies a fraction and an exponent, if they are there. */
static size_t copy_rest(struct dt_piece piece, size_t at, struct number *number)
{
    size_t n =
        at < piece.n && piece.s[at] == '.' ? count_digits(piece, at + 1) : 0;
    if (n > 0) {
        put_bytes(number, piece.s + at, n + 1);
        at += n + 1;
    }
    if (at < piece.n && (piece.s[at] == 'e' || piece.s[at] == 'E')) {
        size_t sign = at + 1 < piece.n &&
                      (piece.s[at + 1] == '-' || piece.s[at + 1] == '+');
        n = count_digits(piece, at + 1 + sign);
        if (n > 0) {
            put_bytes(number, piece.s + at, 1 + sign + n);
            at += 1 + sign + n;
        }
    }
    return at;
}

/* Reads the number whose first digit, or period before one, is at `at`; returns
 * where it ends.
 */
static size_t read_number(struct dt_piece piece, size_t at, double *value)
{
    struct number number = {.used = 0};
    put_bytes(&number, "0", 1); /* .5 */
    size_t end = copy_rest(piece, copy_whole(piece, at, &number), &number);
    *value = number.too_long ? (double)NAN : strtod(number.text, NULL);
    return end;
}

static bool begins_number(struct dt_piece piece, size_t at)
{
    return is_digit(piece.s[at]) ||
           (piece.s[at] == '.' && count_digits(piece, at + 1) > 0);
}

/* Whether the minus before `at` is a sign and not a subtraction or a hyphen. */
static bool is_negative(struct dt_piece piece, size_t at)
{
    if (at == 0 || piece.s[at - 1] != '-')
        return false;
    char before = at > 1 ? piece.s[at - 2] : ' ';
    return !is_digit(before) && !is_letter(before) && before != ')' &&
           before != ']';
}

bool dt_piece_last_number(struct dt_piece piece, double *number)
{
    bool found = false;
    for (size_t at = 0; at < piece.n;) {
        if (!begins_number(piece, at)) {
            at++;
            continue;
        }
        bool negative = is_negative(piece, at);
        at = read_number(piece, at, number);
        if (negative)
            *number = -*number;
        found = true;
    }
    return found && isfinite(*number);
}

/* A parser by recursive descent. */
struct parser {
    struct dt_piece piece;
    size_t at;
    int depth;
    bool failed;
    const double *numbers;
    size_t count;
    uint64_t used; /* a bit for each of numbers */
};

static char peek(struct parser *p)
{
    while (p->at < p->piece.n && is_space(p->piece.s[p->at]))
        p->at++;
    return p->at < p->piece.n ? p->piece.s[p->at] : '\0';
}

/* Marks one of the numbers as used. */
static void use_number(struct parser *p, double value)
{
    for (size_t i = 0; i < p->count; i++) {
        if (!(p->used >> i & 1) && fabs(p->numbers[i] - value) <= 0) {
            p->used |= (uint64_t)1 << i;
            return;
        }
    }
    p->failed = true;
}

static double parse_sum(struct parser *p);

static double parse_factor(struct parser *p)
{
    double value = 0;
    char c = peek(p);
    if (p->failed || ++p->depth > DEPTH_MAX) {
        p->failed = true;
    } else if (c == '(') {
        p->at++;
        value = parse_sum(p);
        if (peek(p) != ')')
            p->failed = true;
        p->at++;
    } else if (c == '-' || c == '+') {
        p->at++;
        value = parse_factor(p);
        value = c == '-' ? -value : value;
    } else if (c && begins_number(p->piece, p->at)) {
        p->at = read_number(p->piece, p->at, &value);
        use_number(p, value);
    } else {
        p->failed = true;
    }
    p->depth--;
    return value;
}

static double parse_term(struct parser *p)
{
    double value = parse_factor(p);
    for (char c; !p->failed && ((c = peek(p)) == '*' || c == '/');) {
        p->at++;
        double right = parse_factor(p);
        value = c == '*' ? value * right : value / right;
    }
    return value;
}

static double parse_sum(struct parser *p)
{
    double value = parse_term(p);
    for (char c; !p->failed && ((c = peek(p)) == '+' || c == '-');) {
        p->at++;
        double right = parse_term(p);
        value = c == '+' ? value + right : value - right;
    }
    return value;
}

bool dt_piece_arithmetic(struct dt_piece piece, const double *numbers,
                         size_t count, double *value)
{
    struct parser p = {.piece = piece, .numbers = numbers, .count = count};
    if (count > NUMBERS_MAX)
        return false;
    *value = parse_sum(&p);
    return !p.failed && peek(&p) == '\0' && p.at == piece.n &&
           (count == 0 || p.used == UINT64_MAX >> (NUMBERS_MAX - count));
}

/* How often `what` is in the piece. */
static size_t count_of(struct dt_piece piece, const char *what)
{
    size_t n = strlen(what), count = 0;
    const char *s = piece.s, *end = piece.s + piece.n, *found;
    while (n > 0 && s < end &&
           (found = memmem(s, (size_t)(end - s), what, n))) {
        count++;
        s = found + n;
    }
    return count;
}

/* Takes the element at the beginning of the piece off it. */
static bool take_element(struct dt_piece *piece, const char *open,
                         const char *close)
{
    size_t n = strlen(open);
    if (piece->n < n || memcmp(piece->s, open, n) != 0)
        return false;
    const char *end = memmem(piece->s + n, piece->n - n, close, strlen(close));
    if (!end)
        return false;
    end += strlen(close);
    piece->n -= (size_t)(end - piece->s);
    piece->s = end;
    return true;
}

bool dt_piece_has_elements(struct dt_piece piece, char *const *tags,
                           size_t count)
{
    const struct dt_piece whole = piece;
    for (size_t i = 0; i < count; i++) {
        char open[TAG_BYTES], close[TAG_BYTES];
        snprintf(open, sizeof(open), "<%s>", tags[i]);
        snprintf(close, sizeof(close), "</%s>", tags[i]);
        if (count_of(whole, open) != 1 || count_of(whole, close) != 1)
            return false;
        if (i > 0)
            piece = dt_piece_trim(piece);
        if (!take_element(&piece, open, close))
            return false;
    }
    return true;
}
