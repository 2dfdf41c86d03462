/* SPDX-License-Identifier: Apache-2.0 */
/* tensor_names.c - prints many tensor names in a short text */
#include "config.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "weights/weights.h"

enum {
    SHOWN = 8,      /* patterns printed at most */
    MAX_DIGITS = 9, /* digits of a layer number at most */
};

/* A name split into <head><number><tail>. The number is the first part between
 * dots that is a number. If there is none, the whole name is the head.
 */
struct pattern {
    const char *head, *tail;
    size_t head_bytes;
    long number;
};

static struct pattern split_name(const char *name)
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

/* Orders by head, then by tail. 0: both names have the same pattern. */
static int compare_patterns(struct pattern a, struct pattern b)
{
    size_t n = a.head_bytes < b.head_bytes ? a.head_bytes : b.head_bytes;
    int order = memcmp(a.head, b.head, n);
    if (order == 0)
        order = (a.head_bytes > b.head_bytes) - (a.head_bytes < b.head_bytes);
    return order ? order : strcmp(a.tail, b.tail);
}

static int compare_names(const void *pa, const void *pb)
{
    struct pattern a = split_name(*(const char *const *)pa);
    struct pattern b = split_name(*(const char *const *)pb);
    int order = compare_patterns(a, b);
    return order ? order : (a.number > b.number) - (a.number < b.number);
}

/* The room left in a buffer for text. */
struct out {
    char *text;
    size_t room;
};

static void append_text(struct out *out, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

static void append_text(struct out *out, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(out->text, out->room, fmt, ap);
    va_end(ap);
    size_t used = (size_t)n < out->room ? (size_t)n : out->room - 1;
    out->text += used;
    out->room -= used;
}

/* Prints the names first .. end - 1, which have the same pattern. */
static void print_pattern(struct out *out, const char **names, size_t first,
                          size_t end)
{
    struct pattern p = split_name(names[first]);
    append_text(out, "%.*s", p.head_bytes < 100 ? (int)p.head_bytes : 100,
                p.head);
    for (size_t i = first; i < end && p.number >= 0;) {
        long from = split_name(names[i]).number, to = from;
        while (++i < end && split_name(names[i]).number <= to + 1)
            to = split_name(names[i]).number;
        append_text(out, to > from ? "%ld-%ld" : "%ld", from, to);
        append_text(out, "%s", i < end ? "," : "");
    }
    append_text(out, "%.100s", p.tail);
}

void dt_tensor_names_print(char *text, size_t room, const char **names,
                           size_t count)
{
    struct out out = {text, room};
    size_t end, shown = 0;
    *text = '\0';
    if (count > 0)
        qsort(names, count, sizeof(*names), compare_names);
    for (size_t i = 0; i < count && shown < SHOWN; i = end) {
        end = i + 1;
        while (end < count && compare_patterns(split_name(names[i]),
                                               split_name(names[end])) == 0)
            end++;
        append_text(&out, "%s", shown++ ? ", " : "");
        print_pattern(&out, names, i, end);
        if (shown == SHOWN && end < count)
            append_text(&out, " and %zu more", count - end);
    }
    for (char *p = text; *p; p++)
        if ((unsigned char)*p < ' ' || *p == 0x7f)
            *p = '?';
}
