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

/* Writes host n of the valid name at p, which stands for count hosts. Returns
 * false if it does not fit.
 */
static bool name_nth(const char *p, uint64_t count, uint64_t n, char *host,
                     size_t size)
{
    size_t used = 0;
    while (*p != '\0' && *p != ',') {
        if (*p == '[') {
            const char *end;
            uint64_t numbers = bracket_count(p, &end);
            count /= numbers;
            used += (size_t)bracket_nth(p, n / count % numbers, host + used,
                                        size - used);
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
            if (!name_nth(p, count, left, host, size))
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

struct expansion {
    char **hosts;
    uint32_t count; /* how many are wanted */
    uint32_t done;
    char host[DTSPANK_HOST_BYTES];
};

/* Appends the hosts of the valid name that continues at p, after the first
 * `used` characters of to->host, until `count` hosts are done.
 */
static int expand_name(struct expansion *to, const char *p, size_t used)
{
    const char *end;
    struct range r;
    for (; *p != '\0' && *p != ',' && *p != '['; p++) {
        if (used >= sizeof(to->host) - 1)
            return -1;
        to->host[used++] = *p;
    }
    to->host[used] = '\0';
    if (*p != '[') {
        to->hosts[to->done] = strdup(to->host);
        return to->hosts[to->done++] ? 0 : -1;
    }
    bracket_count(p, &end);
    do {
        p++;
        parse_range(&p, &r);
        for (uint32_t n = r.first; n <= r.last && to->done < to->count; n++) {
            size_t left = sizeof(to->host) - used;
            size_t digits = (size_t)snprintf(to->host + used, left, "%0*u",
                                             r.width, (unsigned)n);
            if (digits >= left || expand_name(to, end, used + digits) != 0)
                return -1;
        }
    } while (*p == ',');
    return 0;
}

int dtspank_hostlist_expand(const char *list, uint32_t count, char **hosts)
{
    struct expansion to = {.hosts = hosts, .count = count};
    while (to.done < count) {
        const char *end = list;
        if (name_count(list, &end) == 0 || expand_name(&to, list, 0) != 0)
            return -1;
        if (*end == '\0')
            return to.done == count ? 0 : -1;
        list = end + 1;
    }
    return 0;
}
