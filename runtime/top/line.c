/* SPDX-License-Identifier: Apache-2.0 */
/* line.c - lines that fit a screen, and points as a small plot */
#include "config.h"

#include <math.h>
#include <string.h>

#include <utf8proc.h>

#include "top/view.h"

enum { DOTS = 4 }; /* of a column of braille, and steps in ASCII */

/* Writes as much of the text as fits the columns; without UTF-8 a character
 * beyond ASCII is '?'.
 */
static void put_fitting(FILE *out, const struct dt_top_view *view,
                        const char *text)
{
    int used = 0;
    while (*text) {
        utf8proc_int32_t c;
        utf8proc_ssize_t bytes =
            utf8proc_iterate((const utf8proc_uint8_t *)text, -1, &c);
        bool good = bytes > 0 && (view->utf8 || c < 0x80);
        int width = good ? utf8proc_charwidth(c) : 1;
        used += width;
        if (used > view->columns)
            return;
        fwrite(good ? text : "?", 1, good ? (size_t)bytes : 1, out);
        text += bytes > 0 ? bytes : 1;
    }
}

void dt_top_line(FILE *out, const struct dt_top_view *view,
                 enum dt_top_style style, const char *text)
{
    static const char *const codes[] = {"", "\033[1m", "\033[2m", "\033[1;31m"};
    bool styled = view->colors && style != DT_TOP_PLAIN;
    if (styled)
        fputs(codes[style], out);
    put_fitting(out, view, text);
    if (styled)
        fputs("\033[0m", out);
    fputs(view->end, out);
}

/* The bits of a column of braille that is filled up to the height, 1 to 4. */
static unsigned column_bits(int height, bool right)
{
    static const unsigned bits[2][DOTS] = {{0x40, 0x04, 0x02, 0x01},
                                           {0x80, 0x20, 0x10, 0x08}};
    unsigned all = 0;
    for (int i = 0; i < height; i++)
        all |= bits[right][i];
    return all;
}

static void put_braille(FILE *out, unsigned bits)
{
    const unsigned c = 0x2800 + bits;
    fprintf(out, "%c%c%c", (int)(0xe0 | c >> 12), (int)(0x80 | (c >> 6 & 0x3f)),
            (int)(0x80 | (c & 0x3f)));
}

/* The height of a point, 1 to DOTS; 0: it is not finite. */
static int point_height(double value, double least, double most)
{
    if (!isfinite(value))
        return 0;
    double share = most > least ? (value - least) / (most - least) : 0;
    return 1 + (int)fmin(share * DOTS, DOTS - 1);
}

int dt_top_sparkline(FILE *out, const double *points, size_t count, int columns,
                     bool utf8)
{
    static const char steps[] = "x_.-^";
    double least = INFINITY, most = -INFINITY;
    const size_t each = utf8 ? 2 : 1;
    size_t room = columns > 0 ? (size_t)columns * each : 0;
    size_t first = count > room ? count - room : 0;
    int drawn = 0;
    for (size_t i = first; i < count; i++)
        if (isfinite(points[i])) {
            least = fmin(least, points[i]);
            most = fmax(most, points[i]);
        }
    for (size_t i = first; i < count; i += each, drawn++) {
        int left = point_height(points[i], least, most);
        int right =
            i + 1 < count ? point_height(points[i + 1], least, most) : -1;
        if (!utf8)
            fputc(steps[left], out);
        else if (left == 0 || right == 0)
            fputc('x', out);
        else
            put_braille(out,
                        column_bits(left, false) | column_bits(right, true));
    }
    return drawn;
}
