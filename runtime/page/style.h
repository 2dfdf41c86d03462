/* SPDX-License-Identifier: Apache-2.0 */
/*
 * style.h - colors, lines and layout of the page
 *
 * Colors are those of Okabe and Ito, which people with any color vision tell
 * apart; on white the light ones are darker, so that a line has a contrast of
 * at least 3 to 1 and text of 4.5 to 1 with what is behind it.
 */
#ifndef DT_PAGE_STYLE_H
#define DT_PAGE_STYLE_H

#include <stdio.h>

extern const char dt_style_colors[]; /* variables, light and dark */
extern const char dt_style_plot[];   /* of plots */
extern const char dt_style_page[];   /* of the rest */

/* Writes the style of a plot in a file of its own, without variables, which few
 * programs but browsers know.
 */
void dt_style_write_plain(FILE *out);

#endif /* DT_PAGE_STYLE_H */
