/* SPDX-License-Identifier: Apache-2.0 */
/* canvas.c - puts plots into the page and into separate files */
#include "config.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "page/page_impl.h"

/* --- PNG, by librsvg where there is one ---
 *
 * The libraries are opened on demand: nothing else needs them, and most nodes
 * do not have them.
 */

enum { SCALE = 2, ARGB32 = 0 };

struct rectangle {
    double x, y, width, height;
};

/* The functions used of librsvg 2.46 or newer, cairo, and GObject. */
struct dt_png {
    void *rsvg, *cairo, *gobject;
    void *(*handle_new)(const uint8_t *data, size_t bytes, void **error);
    int (*render)(void *handle, void *context, const struct rectangle *view,
                  void **error);
    void (*unref)(void *object);
    void *(*surface_create)(int format, int width, int height);
    void *(*context_create)(void *surface);
    int (*write)(void *surface, const char *path);
    void (*context_destroy)(void *context);
    void (*surface_destroy)(void *surface);
};

/* POSIX lets an object pointer hold a function; C does not let it be cast. */
static bool find_symbol(void *library, const char *name, void *function)
{
    void *symbol = library ? dlsym(library, name) : NULL;
    memcpy(function, &symbol, sizeof(symbol));
    return symbol != NULL;
}

void dt_png_close(struct dt_png *png)
{
    if (!png)
        return;
    void *const libraries[] = {png->rsvg, png->cairo, png->gobject};
    for (size_t i = 0; i < sizeof(libraries) / sizeof(libraries[0]); i++)
        if (libraries[i])
            dlclose(libraries[i]);
    free(png);
}

static bool find_symbols(struct dt_png *png)
{
    return find_symbol(png->rsvg, "rsvg_handle_new_from_data",
                       &png->handle_new) &&
           find_symbol(png->rsvg, "rsvg_handle_render_document",
                       &png->render) &&
           find_symbol(png->gobject, "g_object_unref", &png->unref) &&
           find_symbol(png->cairo, "cairo_image_surface_create",
                       &png->surface_create) &&
           find_symbol(png->cairo, "cairo_create", &png->context_create) &&
           find_symbol(png->cairo, "cairo_surface_write_to_png", &png->write) &&
           find_symbol(png->cairo, "cairo_destroy", &png->context_destroy) &&
           find_symbol(png->cairo, "cairo_surface_destroy",
                       &png->surface_destroy);
}

struct dt_png *dt_png_open(struct dt_error *err)
{
    struct dt_png *png = calloc(1, sizeof(*png));
    if (!png) {
        dt_error_set(err, EX_OSERR, "out of memory");
        return NULL;
    }
    /* GObject must not be unloaded. */
    png->rsvg = dlopen("librsvg-2.so.2", RTLD_NOW | RTLD_NODELETE);
    png->cairo = dlopen("libcairo.so.2", RTLD_NOW | RTLD_NODELETE);
    png->gobject = dlopen("libgobject-2.0.so.0", RTLD_NOW | RTLD_NODELETE);
    if (find_symbols(png))
        return png;
    dt_png_close(png);
    dt_error_set(err, EX_UNAVAILABLE,
                 "--png needs librsvg 2.46 or newer and cairo (Debian: "
                 "librsvg2-2), which are not installed here; --svg needs "
                 "nothing");
    return NULL;
}

/* The size of the picture in pixels, from its viewBox; 0: unknown. */
static void size_of(const char *svg, int *width, int *height)
{
    const char *box = strstr(svg, "viewBox=\"0 0 ");
    double w = 0, h = 0;
    if (box && sscanf(box + 13, "%lf %lf", &w, &h) != 2)
        w = h = 0;
    *width = (int)(SCALE * w + 0.5);
    *height = (int)(SCALE * h + 0.5);
}

/* Draws a document of SVG with a viewBox into a file, twice as large. -1:
 * EX_IOERR.
 */
static int png_write(const struct dt_png *png, const char *svg,
                     const char *path, struct dt_error *err)
{
    int width, height;
    size_of(svg, &width, &height);
    void *handle = png->handle_new((const uint8_t *)svg, strlen(svg), NULL);
    void *surface = png->surface_create(ARGB32, width, height);
    void *context = png->context_create(surface);
    const struct rectangle view = {0, 0, width, height};
    bool good = handle && width > 0 &&
                png->render(handle, context, &view, NULL) &&
                png->write(surface, path) == 0;
    png->context_destroy(context);
    png->surface_destroy(surface);
    if (handle)
        png->unref(handle);
    return good ? 0 : dt_error_set(err, EX_IOERR, "%s: cannot write", path);
}

/* --- the canvas --- */

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
        if (png_write(canvas->png, canvas->text, path, &err) < 0 &&
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
