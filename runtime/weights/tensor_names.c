/* SPDX-License-Identifier: Apache-2.0 */
/* names.c - many names of tensors in few words */
#include "config.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "algo/names.h"

enum {
    SHOWN = 8,      /* patterns */
    MAX_DIGITS = 9, /* of a number */
};

/* A name as <head><number><tail>, where the number is its first part between
 * dots that is one; without one, all of it is the head.
 */
struct pattern {
    const char *head, *tail;
    size_t head_bytes;
    long number;
};

static struct pattern split(const char *name)
{
    for (const char *part = name; *part;) {
        size_t n = strcspn(part, ".");
        if (n > 0 && n <= MAX_DIGITS && strspn(part, "0123456789") == n)
            return (struct pattern){name, part + n, (size_t)(part - name),
                                    strtol(part, NULL, 10)};
        part += n + (part[n] == '.');
    }
    return (struct pattern){name, "", strlen(name), -1};
}

/* Order of heads, then tails: 0 if both names have the same pattern. */
static int compare_patterns(struct pattern a, struct pattern b)
{
    size_t n = a.head_bytes < b.head_bytes ? a.head_bytes : b.head_bytes;
    int order = memcmp(a.head, b.head, n);
    if (order == 0)
        order = (a.head_bytes > b.head_bytes) - (a.head_bytes < b.head_bytes);
    return order ? order : strcmp(a.tail, b.tail);
}

static int compare(const void *pa, const void *pb)
{
    struct pattern a = split(*(const char *const *)pa);
    struct pattern b = split(*(const char *const *)pb);
    int order = compare_patterns(a, b);
    return order ? order : (a.number > b.number) - (a.number < b.number);
}

/* A text with an end. */
struct out {
    char *text;
    size_t room;
};

static void print(struct out *out, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

static void print(struct out *out, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(out->text, out->room, fmt, ap);
    va_end(ap);
    size_t used = (size_t)n < out->room ? (size_t)n : out->room - 1;
    out->text += used;
    out->room -= used;
}

/* Prints names first .. end - 1, of one pattern. */
static void print_pattern(struct out *out, const char **names, size_t first,
                          size_t end)
{
    struct pattern p = split(names[first]);
    print(out, "%.*s", p.head_bytes < 100 ? (int)p.head_bytes : 100, p.head);
    for (size_t i = first; i < end && p.number >= 0;) {
        long from = split(names[i]).number, to = from;
        while (++i < end && split(names[i]).number <= to + 1)
            to = split(names[i]).number;
        print(out, to > from ? "%ld-%ld" : "%ld", from, to);
        print(out, "%s", i < end ? "," : "");
    }
    print(out, "%.100s", p.tail);
}

void dt_names_print(char *text, size_t room, const char **names, size_t count)
{
    struct out out = {text, room};
    size_t end, shown = 0;
    *text = '\0';
    if (count > 0)
        qsort(names, count, sizeof(*names), compare);
    for (size_t i = 0; i < count && shown < SHOWN; i = end) {
        end = i + 1;
        while (end < count &&
               compare_patterns(split(names[i]), split(names[end])) == 0)
            end++;
        print(&out, "%s", shown++ ? ", " : "");
        print_pattern(&out, names, i, end);
        if (shown == SHOWN && end < count)
            print(&out, " and %zu more", count - end);
    }
    for (char *p = text; *p; p++)
        if ((unsigned char)*p < ' ' || *p == 0x7f)
            *p = '?';
}
