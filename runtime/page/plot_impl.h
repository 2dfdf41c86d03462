/* SPDX-License-Identifier: Apache-2.0 */
/* plot_impl.h - the parts of a plot: its box, lines, marks, axes */
#ifndef DT_PAGE_PLOT_IMPL_H
#define DT_PAGE_PLOT_IMPL_H

#include "page/plot.h"

/* Where a plot is drawn, in units of its SVG. y.begin is the bottom. */
struct dt_plot_box {
    double width, height, left, right, top, bottom;
    double cut; /* the greatest value, which is above y.to; NaN: none is */
    struct dt_axis x, y;
};

/* Lines, dots and areas of the curves, and crosses for points that are not
 * finite.
 */
void dt_plot_curves(FILE *out, const struct dt_plot *plot,
                    const struct dt_plot_box *box);

/* The height of the layers up to `line` in the bin of x of the first curve;
 * layers without a value there count as 0.
 */
double dt_plot_stack(const struct dt_plot *plot, size_t line, double x);

/* The last value of a line as it is drawn; NaN: none. */
double dt_plot_end(const struct dt_plot *plot, size_t line);

#endif /* DT_PAGE_PLOT_IMPL_H */
