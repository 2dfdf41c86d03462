/* SPDX-License-Identifier: Apache-2.0 */
/* canvas.c - puts plots into the page and into files of their own */
#include "config.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "page/page_impl.h"

static void fail(struct dt_page_canvas *canvas, int status, const char *path,
                 const char *what)
{
    if (canvas->err.status == 0)
        dt_error_set(&canvas->err, status, "%s: cannot %s: %s", path, what,
                     strerror(errno));
}

FILE *dt_page_picture_begin(struct dt_page_canvas *canvas)
{
    if (!canvas->svg_dir && !canvas->png_dir)
        return NULL;
    FILE *out = open_memstream(&canvas->text, &canvas->bytes);
    if (!out)
        fail(canvas, EX_OSERR, "a plot", "draw");
    return out;
}

static void write_svg(struct dt_page_canvas *canvas, const char *path)
{
    FILE *out = fopen(path, "we");
    if (!out) {
        fail(canvas, EX_CANTCREAT, path, "create");
        return;
    }
    bool good = fwrite(canvas->text, 1, canvas->bytes, out) == canvas->bytes;
    good = fclose(out) == 0 && good;
    if (!good)
        fail(canvas, EX_IOERR, path, "write");
}

void dt_page_picture_end(struct dt_page_canvas *canvas, FILE *out,
                         const char *id)
{
    char path[PATH_MAX];
    struct dt_error err;
    const bool good = !ferror(out) && fclose(out) == 0;
    if (!good)
        fail(canvas, EX_OSERR, id, "draw");
    if (good && canvas->svg_dir) {
        snprintf(path, sizeof(path), "%s/%s.svg", canvas->svg_dir, id);
        write_svg(canvas, path);
    }
    if (good && canvas->png_dir) {
        snprintf(path, sizeof(path), "%s/%s.png", canvas->png_dir, id);
        if (dt_png_write(canvas->png, canvas->text, path, &err) < 0 &&
            canvas->err.status == 0)
            canvas->err = err;
    }
    free(canvas->text);
    canvas->text = NULL;
}

void dt_page_draw(struct dt_page_canvas *canvas, const struct dt_plot *plot)
{
    struct dt_plot alone = *plot;
    if (!dt_plot_has_points(plot))
        return;
    if (canvas->html)
        dt_plot_write(canvas->html, plot);
    FILE *out = dt_page_picture_begin(canvas);
    if (!out)
        return;
    alone.alone = true;
    dt_plot_write(out, &alone);
    dt_page_picture_end(canvas, out, plot->id);
}
