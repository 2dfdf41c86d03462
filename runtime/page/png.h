/* SPDX-License-Identifier: Apache-2.0 */
/* png.h - plots as PNG, by librsvg where there is one */
#ifndef DT_PAGE_PNG_H
#define DT_PAGE_PNG_H

#include "base/error.h"

struct dt_png;

/* Opens librsvg and cairo. NULL: EX_UNAVAILABLE, they are not installed;
 * EX_OSERR.
 */
struct dt_png *dt_png_open(struct dt_error *err);
void dt_png_close(struct dt_png *png); /* NULL is fine */

/* Draws a document of SVG with a viewBox, twice as large, into a file. -1:
 * EX_IOERR.
 */
int dt_png_write(const struct dt_png *png, const char *svg, const char *path,
                 struct dt_error *err);

#endif /* DT_PAGE_PNG_H */
