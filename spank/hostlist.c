/* SPDX-License-Identifier: Apache-2.0 */
/* hostlist.c - finds the n-th host of a host list, or expands all of them */
#include "config.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "spank/hostlist.h"

enum {
    NUMBER_DIGITS = 9,        /* longest number in a range */
    NAME_HOSTS_MAX = 1 << 20, /* hosts that one bracketed name may stand for */
};

struct range {
    uint32_t first;
    uint32_t last;
    int width; /* digits, counting leading zeros */
};

/* Reads the digits at *p and moves *p past them. Returns how many there are; 0
 * if there are none or too many.
 */
static int parse_number(const char **p, uint32_t *value)
{
    int digits = 0;
    *value = 0;
    while (isdigit((unsigned char)**p) && digits <= NUMBER_DIGITS) {
        *value = *value * 10 + (uint32_t)(**p - '0');
        (*p)++;
        digits++;
    }
    return digits <= NUMBER_DIGITS ? digits : 0;
}

/* Reads one "8" or "08-10" at *p, which must be followed by "," or "]". */
static bool parse_range(const char **p, struct range *r)
{
    r->width = parse_number(p, &r->first);
    if (r->width == 0)
        return false;
    r->last = r->first;
    if (**p == '-') {
        (*p)++;
        if (parse_number(p, &r->last) == 0)
            return false;
    }
    return r->last >= r->first && (**p == ',' || **p == ']');
}

/* Counts the numbers that the bracket at p stands for; sets *end to just after
 * its "]". 0: malformed or too many.
 */
static uint64_t bracket_count(const char *p, const char **end)
{
    uint64_t count = 0;
    do {
        struct range r;
        p++;
        if (!parse_range(&p, &r))
            return 0;
        count += r.last - r.first + 1;
    } while (*p == ',' && count <= NAME_HOSTS_MAX);
    *end = p + 1;
    return count <= NAME_HOSTS_MAX ? count : 0;
}

/* Counts the hosts that the name at p stands for; sets *end to the "," or the
 * terminator after it. 0: malformed or too many.
 */
static uint64_t name_count(const char *p, const char **end)
{
    const char *start = p;
    uint64_t count = 1;
    while (*p != '\0' && *p != ',') {
        if (*p == ']')
            return 0;
        if (*p == '[') {
            count *= bracket_count(p, &p);
            if (count == 0 || count > NAME_HOSTS_MAX)
                return 0;
        } else {
            p++;
        }
    }
    *end = p;
    return p > start ? count : 0;
}

/* Writes the n-th number of the valid bracket at p, with its leading zeros. */
static int bracket_nth(const char *p, uint64_t n, char *text, size_t size)
{
    struct range r;
    for (;;) {
        p++;
        parse_range(&p, &r);
        uint64_t count = r.last - r.first + 1;
        if (n < count)
            break;
        n -= count;
    }
    return snprintf(text, size, "%0*u", r.width, (unsigned)(r.first + n));
}

/* Counts the numbers of the last bracket of the valid name at p; 1: it has
 * none.
 */
static uint64_t last_count(const char *p)
{
    uint64_t count = 1;
    while (*p != '\0' && *p != ',') {
        if (*p == '[')
            count = bracket_count(p, &p);
        else
            p++;
    }
    return count;
}

/* Writes host n of the valid name at p. As in Slurm, the last bracket varies
 * fastest, and after it the first one, the second one and so on. Returns false
 * if the host does not fit.
 */
static bool name_nth(const char *p, uint64_t n, char *host, size_t size)
{
    const uint64_t inner = last_count(p);
    uint64_t outer = n / inner;
    size_t used = 0;
    while (*p != '\0' && *p != ',') {
        if (*p == '[') {
            const char *end;
            uint64_t numbers = bracket_count(p, &end);
            bool last = !memchr(end, '[', strcspn(end, ","));
            used += (size_t)bracket_nth(p, last ? n % inner : outer % numbers,
                                        host + used, size - used);
            outer /= last ? 1 : numbers;
            p = end;
        } else {
            host[used++] = *p++;
        }
        if (used >= size)
            return false;
    }
    host[used] = '\0';
    return true;
}

int dtspank_hostlist_nth(const char *list, uint32_t n, char *host, size_t size,
                         struct dt_error *err)
{
    uint64_t left = n;
    const char *p = list;
    for (;;) {
        const char *end = p;
        uint64_t count = name_count(p, &end);
        if (count == 0)
            return dt_error_set(err, EX_DATAERR,
                                "malformed host list at \"%.32s\"", p);
        if (left < count) {
            if (!name_nth(p, left, host, size))
                return dt_error_set(err, EX_DATAERR,
                                    "host name longer than %zu at \"%.32s\"",
                                    size - 1, p);
            return 0;
        }
        left -= count;
        if (*end == '\0')
            return dt_error_set(err, EX_DATAERR,
                                "host list \"%.64s\" has no host %u", list,
                                (unsigned)n);
        p = end + 1;
    }
}

/* A bracket, at one of its numbers. */
struct wheel {
    const char *bracket; /* where it begins */
    const char *rest;    /* text after the range */
    struct range range;
    uint32_t number;
};

static void wheel_begin(struct wheel *w)
{
    w->rest = w->bracket + 1;
    parse_range(&w->rest, &w->range);
    w->number = w->range.first;
}

/* Turns it to the next number. False: it is back at the first one. */
static bool wheel_turn(struct wheel *w)
{
    if (w->number < w->range.last) {
        w->number++;
        return true;
    }
    if (*w->rest == ',') {
        w->rest++;
        parse_range(&w->rest, &w->range);
        w->number = w->range.first;
        return true;
    }
    wheel_begin(w);
    return false;
}

/* The brackets of a name; each stands for at least a digit of a host. */
struct wheels {
    struct wheel wheel[DTSPANK_HOST_BYTES];
    size_t count;
};

/* False: there are too many for a host. */
static bool wheels_begin(struct wheels *all, const char *p)
{
    for (all->count = 0; *p != '\0' && *p != ',';) {
        if (*p++ != '[')
            continue;
        if (all->count == DTSPANK_HOST_BYTES)
            return false;
        all->wheel[all->count].bracket = p - 1;
        wheel_begin(&all->wheel[all->count++]);
        bracket_count(p - 1, &p);
    }
    return true;
}

/* In the order of name_nth. */
static void wheels_turn(struct wheels *all)
{
    if (all->count == 0 || wheel_turn(&all->wheel[all->count - 1]))
        return;
    for (size_t i = 0; i + 1 < all->count; i++)
        if (wheel_turn(&all->wheel[i]))
            return;
}

/* The host at which the wheels of the name at p stand; NULL: it is too long, or
 * memory is short.
 */
static char *wheels_host(const struct wheels *all, const char *p)
{
    char host[DTSPANK_HOST_BYTES];
    size_t used = 0;
    const struct wheel *w = all->wheel;
    while (*p != '\0' && *p != ',') {
        if (*p == '[') {
            used += (size_t)snprintf(host + used, sizeof(host) - used, "%0*u",
                                     w->range.width, (unsigned)w->number);
            bracket_count(p, &p);
            w++;
        } else {
            host[used++] = *p++;
        }
        if (used >= sizeof(host))
            return NULL;
    }
    host[used] = '\0';
    return strdup(host);
}

int dtspank_hostlist_expand(const char *list, uint32_t count, char **hosts)
{
    struct wheels all;
    uint32_t done = 0;
    while (done < count) {
        const char *end = list;
        uint64_t left = name_count(list, &end);
        if (left == 0 || !wheels_begin(&all, list))
            return -1;
        for (; left > 0 && done < count; left--) {
            hosts[done] = wheels_host(&all, list);
            if (!hosts[done++])
                return -1;
            wheels_turn(&all);
        }
        if (*end == '\0')
            return done == count ? 0 : -1;
        list = end + 1;
    }
    return 0;
}
