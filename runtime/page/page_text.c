/* SPDX-License-Identifier: Apache-2.0 */
/* page_text.c - text and numbers for people, safe in HTML and SVG */
#include "config.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>
#include <utf8proc.h>

#include "page/page_impl.h"

#define REPLACEMENT "\xef\xbf\xbd"

/* Whether it is a control character, changes the direction of text, or is no
 * character.
 */
static bool is_unfit(utf8proc_int32_t code)
{
    return (code < ' ' && code != '\n' && code != '\t') ||
           (code >= 0x7f && code < 0xa0) || code == 0x200e || code == 0x200f ||
           code == 0x061c || (code >= 0x202a && code <= 0x202e) ||
           (code >= 0x2066 && code <= 0x2069) ||
           (code >= 0xfdd0 && code <= 0xfdef) || (code & 0xfffe) == 0xfffe;
}

void dt_page_text(FILE *out, const char *text, size_t most)
{
    const utf8proc_uint8_t *s = (const utf8proc_uint8_t *)text;
    for (size_t written = 0; *s; written++) {
        utf8proc_int32_t code;
        const utf8proc_ssize_t n = utf8proc_iterate(s, -1, &code);
        if (most > 0 && written == most) {
            fputs("\u2026", out);
            return;
        }
        if (n <= 0 || is_unfit(code))
            fputs(REPLACEMENT, out);
        else if (code == '&')
            fputs("&amp;", out);
        else if (code == '<')
            fputs("&lt;", out);
        else if (code == '>')
            fputs("&gt;", out);
        else if (code == '"')
            fputs("&quot;", out);
        else if (code == '\'')
            fputs("&#39;", out);
        else
            fwrite(s, 1, (size_t)n, out);
        s += n > 0 ? n : 1;
    }
}

void dt_page_put(FILE *out, const char *before, const char *text, size_t most,
                 const char *after)
{
    fputs(before, out);
    dt_page_text(out, text, most);
    fputs(after, out);
}

void dt_page_table(FILE *out, const char *heads)
{
    fputs("<div " DT_PAGE_SCROLL "><table><thead><tr>", out);
    while (*heads) {
        const bool number = *heads == '#';
        heads += number;
        const int n = (int)strcspn(heads, "|");
        fprintf(out, "<th scope=\"col\"%s>%.*s</th>",
                number ? " class=\"n\"" : "", n, heads);
        heads += heads[n] ? n + 1 : n;
    }
    fputs("</tr></thead>\n<tbody>", out);
}

/* Writes digits with a comma between thousands. */
const char *dt_page_count(char *text, double value)
{
    char digits[DT_PAGE_NUMBER_BYTES];
    size_t n = 0;
    if (!isfinite(value))
        return strcpy(text, "\u2013");
    if (fabs(value) >= 1e18)
        return dt_page_number(text, value);
    snprintf(digits, sizeof(digits), "%.0f", fabs(value));
    const size_t length = strlen(digits);
    if (value < 0 && strcmp(digits, "0") != 0)
        text[n++] = '-';
    for (size_t i = 0; i < length; i++) {
        if (i > 0 && (length - i) % 3 == 0)
            text[n++] = ',';
        text[n++] = digits[i];
    }
    text[n] = '\0';
    return text;
}

const char *dt_page_number(char *text, double value)
{
    static const char *const units[] = {"M", "G", "T", "P", "E"};
    const double size = fabs(value);
    if (!isfinite(value))
        return strcpy(text, "\u2013");
    if (size >= 999.95 && size < 999999.5)
        return dt_page_count(text, value);
    if (size >= 999999.5 && size < 1e20) {
        double scaled = value / 1e6;
        size_t unit = 0;
        for (; fabs(scaled) >= 999.95 && unit < 4; unit++)
            scaled /= 1000;
        snprintf(text, DT_PAGE_NUMBER_BYTES, "%.4g %s", scaled, units[unit]);
        return text;
    }
    snprintf(text, DT_PAGE_NUMBER_BYTES, "%.4g", value);
    return text;
}

const char *dt_page_bytes(char *text, double bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    size_t unit = 0;
    if (!isfinite(bytes))
        return strcpy(text, "\u2013");
    for (; fabs(bytes) >= 1024 && unit < 5; unit++)
        bytes /= 1024;
    snprintf(text, DT_PAGE_NUMBER_BYTES, "%.*f %s",
             unit == 0             ? 0
             : fabs(bytes) < 9.995 ? 2
             : fabs(bytes) < 99.95 ? 1
                                   : 0,
             bytes, units[unit]);
    return text;
}

const char *dt_page_duration(char *text, double seconds)
{
    if (!isfinite(seconds) || seconds < 0 || seconds > 1e12)
        return strcpy(text, "\u2013");
    const long s = (long)(seconds + 0.5);
    if (seconds == 0)
        strcpy(text, "0 s");
    else if (seconds < 0.9995e-3)
        snprintf(text, DT_PAGE_NUMBER_BYTES, "%.3g \u00b5s", 1e6 * seconds);
    else if (seconds < 0.9995)
        snprintf(text, DT_PAGE_NUMBER_BYTES, "%.3g ms", 1000 * seconds);
    else if (seconds < 59.95)
        snprintf(text, DT_PAGE_NUMBER_BYTES, "%.3g s", seconds);
    else if (s < 3600)
        snprintf(text, DT_PAGE_NUMBER_BYTES, "%ld min %02ld s", s / 60, s % 60);
    else if (s < 86400)
        snprintf(text, DT_PAGE_NUMBER_BYTES, "%ld h %02ld min", s / 3600,
                 s / 60 % 60);
    else
        snprintf(text, DT_PAGE_NUMBER_BYTES, "%ld d %02ld h", s / 86400,
                 s / 3600 % 24);
    return text;
}

const char *dt_page_time(char *text, double wall)
{
    struct tm tm;
    const time_t seconds =
        isfinite(wall) && wall >= 0 && wall < 1e11 ? (time_t)wall : 0;
    if (seconds == 0 || !gmtime_r(&seconds, &tm) ||
        strftime(text, DT_PAGE_NUMBER_BYTES, "%Y-%m-%d %H:%M:%S UTC", &tm) == 0)
        return strcpy(text, "\u2013");
    return text;
}
