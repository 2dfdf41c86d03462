/* SPDX-License-Identifier: Apache-2.0 */
/* number.c - parses numbers of the YAML 1.2 core schema */
#include "config.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "conf/conf_impl.h"

static const char decimal[] = "0123456789";

bool dt_conf_parse_float(const char *text, double *value)
{
    const char *p = text + (*text == '-' || *text == '+');
    size_t whole = strspn(p, decimal);
    p += whole;
    size_t fraction = *p == '.' ? strspn(p + 1, decimal) + 1 : 0;
    p += fraction;
    if (whole == 0 && fraction < 2)
        return false;
    if (*p == 'e' || *p == 'E') {
        p += 1 + (p[1] == '-' || p[1] == '+');
        size_t digits = strspn(p, decimal);
        if (digits == 0)
            return false;
        p += digits;
    }
    *value = strtod(text, NULL);
    return *p == '\0' && isfinite(*value);
}

static bool parse_digits(const char *text, int base, uint64_t *value)
{
    static const char digits[] = "0123456789abcdefABCDEF";
    char set[sizeof(digits)];
    memcpy(set, digits, sizeof(digits));
    if (base < 16)
        set[base] = '\0';
    if (*text == '\0' || text[strspn(text, set)] != '\0')
        return false;
    errno = 0;
    *value = strtoull(text, NULL, base);
    return errno == 0;
}

bool dt_conf_parse_u64(const char *text, uint64_t *value)
{
    const char *p = text + (*text == '+');
    double number;
    if (strncmp(text, "0x", 2) == 0)
        return parse_digits(text + 2, 16, value);
    if (strncmp(text, "0o", 2) == 0)
        return parse_digits(text + 2, 8, value);
    if (parse_digits(p, 10, value))
        return true;
    if (!strpbrk(text, ".eE") || !dt_conf_parse_float(text, &number) ||
        number < 0 || number > 0x1p53 || number != floor(number))
        return false;
    *value = (uint64_t)number;
    return true;
}

bool dt_conf_parse_int(const char *text, long *value)
{
    bool minus = *text == '-';
    uint64_t magnitude;
    if ((minus && (text[1] == '+' || strncmp(text + 1, "0x", 2) == 0 ||
                   strncmp(text + 1, "0o", 2) == 0)) ||
        !dt_conf_parse_u64(text + minus, &magnitude) || magnitude > LONG_MAX)
        return false;
    *value = minus ? -(long)magnitude : (long)magnitude;
    return true;
}

bool dt_conf_parse_number(const char *text, double *value)
{
    long whole;
    if (dt_conf_parse_float(text, value))
        return true;
    if (!dt_conf_parse_int(text, &whole))
        return false;
    *value = (double)whole;
    return true;
}

bool dt_conf_parse_size(const char *text, long *bytes)
{
    static const struct {
        const char *name;
        double bytes;
    } units[] = {{"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30},
                 {"TiB", 0x1p40}, {"KB", 1e3},     {"MB", 1e6},
                 {"GB", 1e9},     {"TB", 1e12}};
    char number[32];
    double value = 0;
    size_t n = strlen(text);
    if (dt_conf_parse_int(text, bytes))
        return *bytes > 0;
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        size_t unit = strlen(units[i].name);
        if (n <= unit || n - unit >= sizeof(number) ||
            strcasecmp(text + n - unit, units[i].name) != 0)
            continue;
        unit += text[n - unit - 1] == ' ';
        snprintf(number, sizeof(number), "%.*s", (int)(n - unit), text);
        if (!dt_conf_parse_float(number, &value))
            return false;
        value *= units[i].bytes;
        break;
    }
    *bytes = value >= 1 && value < 0x1p62 ? (long)value : 0;
    return *bytes > 0;
}
