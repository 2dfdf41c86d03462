/* SPDX-License-Identifier: Apache-2.0 */
/* last_lines.c - keeps the last output of a rank and prints the important part
 */
#include "config.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "console/console_impl.h"

#define TRACEBACK "Traceback (most recent call last):"

/* Lines of Python between two tracebacks that belong together. */
static const char *const links[] = {
    "During handling of the above exception, another exception occurred:",
    "The above exception was the direct cause of the following exception:",
};

/* Since Python 3.14 faulthandler prints, below the traceback, up to 33 indented
 * lines of addresses. They would displace the cause.
 */
#define C_STACK "Current thread's C stack trace (most recent call first):"
#define NO_C_STACK "[the C stack is left out]"

enum {
    LINES_MAX = 1024, /* lines at the end of a text that are examined */
    FIRST_SIZE = 512,
};

struct line {
    const char *text;
    size_t len;
};

/* Makes room for count more bytes: allocates more memory or drops the oldest
 * bytes.
 */
static bool make_room(struct dt_last_lines *tail, size_t count)
{
    if (tail->used + count <= tail->size)
        return true;
    if (tail->size < 2 * tail->keep) {
        size_t size = tail->size ? 2 * tail->size : FIRST_SIZE;
        while (size < tail->used + count && size < 2 * tail->keep)
            size *= 2;
        if (size > 2 * tail->keep)
            size = 2 * tail->keep;
        char *text = realloc(tail->text, size);
        if (!text)
            return false;
        tail->text = text;
        tail->size = size;
    }
    if (tail->used + count > tail->size) {
        size_t drop = tail->used - (tail->keep - count);
        memmove(tail->text, tail->text + drop, tail->used - drop);
        tail->used -= drop;
        tail->cut = true;
    }
    return true;
}

void dt_last_lines_append(struct dt_last_lines *tail, const char *bytes,
                          size_t count)
{
    if (count > tail->keep) {
        bytes += count - tail->keep;
        count = tail->keep;
        tail->used = 0;
        tail->cut = true;
    }
    if (count == 0 || !make_room(tail, count))
        return;
    memcpy(tail->text + tail->used, bytes, count);
    tail->used += count;
}

/* Returns a line as a terminal would show it: the part after the last \r. */
static struct line visible_part(const char *text, size_t len)
{
    while (len > 0 && (text[len - 1] == '\r' || text[len - 1] == '\n'))
        len--;
    const char *back = memrchr(text, '\r', len);
    size_t skip = back ? (size_t)(back + 1 - text) : 0;
    return (struct line){text + skip, len - skip};
}

static bool contains(struct line line, const char *what)
{
    return line.len > 0 && memmem(line.text, line.len, what, strlen(what));
}

/* Replaces each C stack by one line. Returns the new number of lines. */
static int drop_c_stacks(struct line *lines, int count)
{
    bool inside = false;
    int kept = 0;
    for (int i = 0; i < count; i++) {
        inside = inside && lines[i].len > 0 && lines[i].text[0] == ' ';
        if (inside)
            continue;
        inside = contains(lines[i], C_STACK);
        lines[kept++] =
            inside ? (struct line){NO_C_STACK, strlen(NO_C_STACK)} : lines[i];
    }
    return kept;
}

/* Stores the last lines of the text in lines[LINES_MAX]. Returns their number.
 */
static int split_lines(const struct dt_last_lines *tail, struct line *lines)
{
    int count = 0;
    size_t end = tail->used;
    while (end > 0 && count < LINES_MAX) {
        const char *before =
            end > 1 ? memrchr(tail->text, '\n', end - 1) : NULL;
        size_t begin = before ? (size_t)(before + 1 - tail->text) : 0;
        if (begin == 0 && tail->cut && count > 0)
            break;
        lines[LINES_MAX - ++count] =
            visible_part(tail->text + begin, end - begin);
        end = begin;
    }
    memmove(lines, lines + LINES_MAX - count, sizeof(*lines) * (size_t)count);
    count = drop_c_stacks(lines, count);
    while (count > 0 && lines[count - 1].len == 0)
        count--;
    return count;
}

static bool is_link(struct line line)
{
    for (size_t i = 0; i < sizeof(links) / sizeof(*links); i++)
        if (contains(line, links[i]))
            return true;
    return false;
}

/* Returns the index of the line where the last chain of tracebacks begins; -1:
 * none.
 */
static int find_traceback(const struct line *lines, int count)
{
    int found = -1;
    bool linked = false; /* `found` continues a traceback before it */
    for (int i = count - 1; i >= 0; i--) {
        if (contains(lines[i], TRACEBACK)) {
            if (found >= 0 && !linked)
                break;
            found = i;
            linked = false;
        } else if (found >= 0 && is_link(lines[i])) {
            linked = true;
        }
    }
    return found;
}

static void print_lines(const struct line *lines, int count, const char *indent,
                        FILE *out)
{
    for (int i = 0; i < count; i++) {
        fputs(lines[i].len > 0 ? indent : "", out);
        fwrite(lines[i].text, 1, lines[i].len, out);
        fputc('\n', out);
    }
}

bool dt_last_lines_print(const struct dt_last_lines *tail, const char *indent,
                         FILE *out)
{
    enum { HEAD = DT_TRACEBACK_LINES / 4 };
    struct line lines[LINES_MAX];
    int count = split_lines(tail, lines);
    int first = find_traceback(lines, count);
    int shown = count - first;
    if (first < 0) {
        first = count > DT_LAST_LINES_LINES ? count - DT_LAST_LINES_LINES : 0;
        while (first < count && lines[first].len == 0)
            first++;
        print_lines(lines + first, count - first, indent, out);
        return count > 0;
    }
    if (shown > DT_TRACEBACK_LINES) {
        int left_out = shown - (DT_TRACEBACK_LINES - 1);
        print_lines(lines + first, HEAD, indent, out);
        fprintf(out, "%s[%d lines left out]\n", indent, left_out);
        first += HEAD + left_out;
    }
    print_lines(lines + first, count - first, indent, out);
    return true;
}

void dt_last_lines_last(const struct dt_last_lines *tail, char *text,
                        size_t size)
{
    struct line lines[LINES_MAX];
    int count = split_lines(tail, lines);
    size_t len = count > 0 ? lines[count - 1].len : 0;
    len = len < size ? len : size - 1;
    if (len > 0)
        memcpy(text, lines[count - 1].text, len);
    text[len] = '\0';
}

bool dt_last_lines_ends_with(const struct dt_last_lines *tail,
                             const char *prefix)
{
    struct line lines[LINES_MAX];
    int count = split_lines(tail, lines);
    return count > 0 && lines[count - 1].len >= strlen(prefix) &&
           memcmp(lines[count - 1].text, prefix, strlen(prefix)) == 0;
}
