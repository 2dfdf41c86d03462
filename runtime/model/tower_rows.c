/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tower_rows.c - where the patches of a batch go, and its upload
 *
 * All that a tower needs to know of the order of its rows is decided here, on
 * the host, from the sizes of pictures: which row is which patch, where it
 * stands in its picture, whom it sees, and which rows become the feature of
 * which token. The tower itself only gathers rows.
 *
 * Rows of a picture: that of the class, if there is one; then its patches,
 * window by window where there are windows, in each the patches of a feature
 * one after another.
 */
#include "config.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model/family/family.h"
#include "model/model_impl.h"

/* At least the fewest. */
static void fill_up(struct dt_tower_size *size)
{
    size_t *const counts[] = {&size->patches, &size->rows, &size->features};
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
        if (*counts[i] < size->least)
            *counts[i] = size->least;
}

struct dt_tower_size dt_tower_rows_most(const struct dt_vision_config *vision,
                                        const struct dt_model_options *options,
                                        size_t tile, size_t least)
{
    const size_t patches = options->patches, pictures = options->pictures;
    const size_t others = (tile > 0 ? tile - 1 : 0) + vision->class_first;
    struct dt_tower_size most = {
        .patches = patches,
        .pictures = pictures,
        .rows = patches + pictures * others,
        .features = patches / (vision->merge * vision->merge) +
                    (vision->class_kept ? pictures : 0),
        .tile = tile,
        .least = least,
    };
    if (options->places > 1)
        most.copied = (options->places - 1) * most.features;
    if (patches > 0)
        fill_up(&most);
    return most;
}

/* The arrays of I32 of so many pictures. */
enum array {
    CELLS,      /* (N) the patch of a row; that of the class is after them */
    CELL_ROWS,  /* (patches) the row of a patch */
    CLASSES,    /* (N) 0 in rows of the class, else -1 */
    PLACES,     /* (2, N) down and across; of learned positions (N) */
    FIRST,      /* (N) bounds of attention: the picture, ... */
    LAST,       /* (N) */
    NEAR_FIRST, /* (N) ... and the window */
    NEAR_LAST,  /* (N) */
    SOURCES,    /* (Mg) rows that features are made of */
    SLOTS,      /* (taps, Mg) where they go */
    TOKENS,     /* (M) positions of features in (B, T) of the text */
    COPIES,     /* (copied) the same of copies */
    ARRAYS
};

/* Elements of each array; 0: the tower needs none. */
static void count_arrays(const struct dt_vision_config *v,
                         const struct dt_tower_size *size,
                         size_t counts[ARRAYS])
{
    const size_t N = size->rows;
    const size_t M = size->features;
    const size_t parts = M * v->merge * v->merge;
    const bool gathers = dt_tower_rows_gather(v, size);
    const size_t all[ARRAYS] = {
        [CELLS] = N,
        [CELL_ROWS] = size->patches,
        [CLASSES] = v->class_first ? N : 0,
        [PLACES] = v->tower.family->learns_positions ? N : 2 * N,
        [FIRST] = N,
        [LAST] = N,
        [NEAR_FIRST] = v->window > 0 ? N : 0,
        [NEAR_LAST] = v->window > 0 ? N : 0,
        [SOURCES] = gathers && !v->pooled ? parts : 0,
        [SLOTS] = v->tap_count > 1 ? v->tap_count * parts : 0,
        [TOKENS] = M,
        [COPIES] = size->copied,
    };
    memcpy(counts, all, sizeof(all));
}

enum { TAPS = 4 }; /* rows of a table that are interpolated */

/* Of the means of rows that are features; rows 0: there are none. */
static struct dt_sparse_size pool_size(const struct dt_vision_config *v,
                                       const struct dt_tower_size *size)
{
    const size_t M = v->pooled ? size->features : 0;
    return (struct dt_sparse_size){M, size->rows, M * v->merge * v->merge};
}

/* Of positions between those that are learned. */
static struct dt_sparse_size places_size(const struct dt_vision_config *v,
                                         const struct dt_tower_size *size)
{
    const size_t N = v->places > 0 ? size->rows : 0;
    return (struct dt_sparse_size){N, v->places * v->places,
                                   TAPS * size->patches};
}

size_t dt_tower_rows_bytes(const struct dt_vision_config *vision,
                           const struct dt_tower_size *size)
{
    const size_t row = dt_vision_row_bytes(vision);
    const struct dt_sparse_size pool = pool_size(vision, size);
    const struct dt_sparse_size places = places_size(vision, size);
    size_t counts[ARRAYS], bytes = dt_staged_bytes(size->patches * row);
    count_arrays(vision, size, counts);
    bytes += pool.rows > 0 ? dt_sparse_map_bytes(&pool) : 0;
    bytes += places.rows > 0 ? dt_sparse_map_bytes(&places) : 0;
    for (int i = 0; i < ARRAYS; i++)
        bytes += dt_staged_bytes(counts[i] * sizeof(int32_t));
    return bytes + dt_staged_bytes(sizeof(int64_t));
}

int dt_tower_rows_init(struct dt_tower_rows *pictures,
                       const struct dt_vision_config *vision,
                       const struct dt_exec *exec,
                       const struct dt_tower_size *most, struct dt_error *err)
{
    *pictures = (struct dt_tower_rows){.vision = vision, .most = *most};
    return dt_staged_init(&pictures->staged, exec,
                          dt_tower_rows_bytes(vision, most), "pictures", err);
}

void dt_tower_rows_fini(struct dt_tower_rows *pictures)
{
    dt_staged_fini(&pictures->staged);
    free(pictures->runs);
}

/* --- the maps --- */

/* Arrays being filled, and how far they are. */
struct maps {
    const struct dt_vision_config *v;
    int32_t *of[ARRAYS];                    /* NULL: not needed */
    struct dt_sparse_map *pool, *places;    /* likewise */
    const struct dt_batch_picture *picture; /* that is being added */
    size_t N, parts;    /* of all pictures: rows, and parts of features */
    size_t cells, tile; /* patches; of attention, 0: any */
    size_t cell, row, part, feature, copy; /* so far */
};

static void set(const struct maps *maps, enum array array, size_t i,
                size_t value)
{
    if (maps->of[array])
        maps->of[array][i] = (int32_t)value;
}

/* Where place i of `count` is in a row of `side` places whose ends are the
 * same: the first of two neighbors, and their parts in it, in fp32 as in
 * transformers.
 */
static size_t stretch(size_t i, size_t count, size_t side, float parts[2])
{
    const float last = count > 1 ? (float)(count - 1) : 1.0f;
    const float at = (float)i * (float)(side - 1) / last;
    const float first = floorf(at);
    parts[0] = 1.0f - (at - first);
    parts[1] = at - first;
    return (size_t)first;
}

/* The position of a row, interpolated between those of a table. */
static void add_place(const struct maps *maps, size_t y, size_t x)
{
    const size_t side = maps->v->places;
    float down[2], across[2];
    const size_t top = stretch(y, maps->picture->height, side, down);
    const size_t left = stretch(x, maps->picture->width, side, across);
    for (size_t i = 0; i < TAPS; i++) {
        const size_t v = top + i / 2, u = left + i % 2;
        dt_sparse_map_add(maps->places,
                          (v < side ? v : side - 1) * side +
                              (u < side ? u : side - 1),
                          down[i / 2] * across[i % 2]);
    }
}

/* The row of patch `cell`, `y` down and `x` across; cell == maps->cells: of the
 * class.
 */
static void add_row(struct maps *maps, size_t cell, size_t y, size_t x)
{
    const struct dt_vision_config *v = maps->v;
    const bool class = cell == maps->cells;
    const size_t n = maps->row++;
    size_t (*const id)(size_t, size_t) = v->family->place;
    set(maps, CELLS, n, cell);
    if (maps->of[CLASSES])
        maps->of[CLASSES][n] = class ? 0 : -1;
    if (!class)
        set(maps, CELL_ROWS, cell, n);
    if (maps->places && !class)
        add_place(maps, y, x);
    if (maps->places)
        dt_sparse_map_end_row(maps->places);
    if (!v->tower.family->learns_positions) {
        set(maps, PLACES, n, y);
        set(maps, PLACES, maps->N + n, x);
        return;
    }
    y = id ? id(v->grid, y) : y;
    x = id ? id(v->grid, x) : x;
    set(maps, PLACES, n, class ? 0 : v->class_first + y * v->grid + x);
}

/* Where part i of the features goes. */
static void set_slots(const struct maps *maps, size_t i)
{
    const size_t taps = maps->v->tap_count;
    for (size_t k = 0; k < taps; k++)
        set(maps, SLOTS, k * maps->parts + i, i * taps + k);
}

/* A part of a feature: the row that was added last. */
static void add_part(struct maps *maps)
{
    const size_t i = maps->part++;
    set(maps, SOURCES, i, maps->row - 1);
    set_slots(maps, i);
    if (maps->pool)
        dt_sparse_map_add(maps->pool, maps->row - 1,
                          1.0f / (float)(maps->v->merge * maps->v->merge));
}

/* The rows of a feature, `y` down and `x` across of `width` features. */
static void add_feature(struct maps *maps, size_t y, size_t x, size_t width,
                        size_t token)
{
    const size_t m = maps->v->merge, first = (y * width + x) * m * m;
    const bool dropped = maps->v->patch_dropped && y == 0 && x == 0;
    for (size_t i = 0; i < m * m; i++) {
        add_row(maps, maps->cell + first + i, y * m + i / m, x * m + i % m);
        if (!dropped)
            add_part(maps);
    }
    if (dropped)
        return;
    if (maps->pool)
        dt_sparse_map_end_row(maps->pool);
    set(maps, TOKENS, maps->feature++, token);
}

/* Lets the rows from `first` on see each other and no others. */
static void bound(const struct maps *maps, enum array from, enum array to,
                  size_t first)
{
    for (size_t n = first; n < maps->row; n++) {
        set(maps, from, n, first);
        set(maps, to, n, maps->row - 1);
    }
}

/* The features of a window of side `side` that begins at (top, left). */
static void add_window(struct maps *maps, size_t top, size_t left, size_t side,
                       const struct dt_batch_picture *picture, size_t token)
{
    const size_t height = picture->height / maps->v->merge;
    const size_t width = picture->width / maps->v->merge;
    const size_t first = maps->row;
    for (size_t y = top; y < top + side && y < height; y++)
        for (size_t x = left; x < left + side && x < width; x++)
            add_feature(maps, y, x, width, token + y * width + x);
    bound(maps, NEAR_FIRST, NEAR_LAST, first);
}

/* A row that is none of a picture. */
static void add_filler(struct maps *maps)
{
    const size_t n = maps->row++;
    maps->of[CELLS][n] = -1;
    if (maps->of[CLASSES])
        maps->of[CLASSES][n] = -1;
    if (maps->places)
        dt_sparse_map_end_row(maps->places);
    set(maps, PLACES, n, 0);
    if (!maps->v->tower.family->learns_positions)
        set(maps, PLACES, maps->N + n, 0);
    bound(maps, FIRST, LAST, n);
    bound(maps, NEAR_FIRST, NEAR_LAST, n);
}

/* The row at which a picture of `rows` rows begins behind `used` ones: where
 * its sums in attention are cut as if it were alone.
 */
static size_t start_of(size_t used, size_t rows, size_t tile)
{
    const size_t over = tile > 0 ? used % tile : 0;
    return over == 0 || over + rows <= tile ? used : used + tile - over;
}

static size_t rows_of(const struct dt_vision_config *v,
                      const struct dt_batch_picture *picture)
{
    return (size_t)picture->height * picture->width + v->class_first;
}

static void add_picture(struct maps *maps,
                        const struct dt_batch_picture *picture)
{
    const size_t start =
        start_of(maps->row, rows_of(maps->v, picture), maps->tile);
    while (maps->row < start)
        add_filler(maps);

    const struct dt_vision_config *v = maps->v;
    const size_t height = picture->height / v->merge;
    const size_t width = picture->width / v->merge;
    const size_t longer = height > width ? height : width;
    const size_t side = v->window > 0 ? v->window : longer;
    const size_t first = maps->row;
    size_t token = picture->first;
    maps->picture = picture;
    if (v->class_first)
        add_row(maps, maps->cells, 0, 0);
    if (v->class_kept) {
        add_part(maps);
        set(maps, TOKENS, maps->feature++, token++);
    }
    token -= v->patch_dropped; /* the patch before the first token */
    for (size_t y = 0; y < height; y += side)
        for (size_t x = 0; x < width; x += side)
            add_window(maps, y, x, side, picture, token);
    bound(maps, FIRST, LAST, first);
    maps->cell += (size_t)picture->height * picture->width;
}

/* The first feature of picture i, which is no copy. */
static size_t feature_of(const struct dt_batch *batch, size_t i)
{
    size_t feature = 0;
    while (i-- > 0)
        feature +=
            batch->pictures[i].repeats > 0 ? 0 : batch->pictures[i].tokens;
    return feature;
}

/* Whether picture i continues a run: it and the one before are copies of
 * neighbors.
 */
static bool continues(const struct dt_batch *batch, size_t i)
{
    return i > 0 &&
           batch->pictures[i - 1].repeats == batch->pictures[i].repeats;
}

/* Adds picture i of a batch, a copy, to a run. */
static void add_copy(struct maps *maps, struct dt_tower_rows *pictures,
                     const struct dt_batch *batch, size_t i)
{
    const struct dt_batch_picture *copy = &batch->pictures[i];
    const struct dt_batch_picture *of = copy - copy->repeats;
    if (!continues(batch, i))
        pictures->runs[pictures->run_count++] = (struct dt_tower_run){
            .feature = feature_of(batch, i - copy->repeats), .at = maps->copy};
    struct dt_tower_run *run = &pictures->runs[pictures->run_count - 1];
    const int32_t *tokens = maps->of[TOKENS] + run->feature + run->count;
    for (size_t k = 0; k < copy->tokens; k++)
        set(maps, COPIES, maps->copy++,
            (size_t)tokens[k] - of->first + copy->first);
    run->count += copy->tokens;
}

/* Adds rows and features up to the fewest. */
static void end_maps(struct maps *maps, const struct dt_tower_size *size)
{
    for (size_t p = maps->cell; p < size->patches; p++)
        maps->of[CELL_ROWS][p] = -1;
    while (maps->row < maps->N)
        add_filler(maps);
    for (size_t i = maps->part; maps->of[SOURCES] && i < maps->parts; i++) {
        maps->of[SOURCES][i] = -1;
        set_slots(maps, i);
    }
    while (maps->feature < size->features)
        maps->of[TOKENS][maps->feature++] = -1;
    if (maps->pool)
        dt_sparse_map_finish(maps->pool);
    if (maps->places)
        dt_sparse_map_finish(maps->places);
}

/* --- the upload --- */

/* Checks that the tower can read a picture. */
static int check_picture(const struct dt_vision_config *v,
                         const struct dt_batch_picture *p, struct dt_error *err)
{
    const size_t m = v->merge, h = p->height, w = p->width;
    const bool fits = v->grid > 0 ? h == v->grid && w == v->grid
                                  : h > 0 && w > 0 && h % m == 0 && w % m == 0;
    if (fits && p->tokens == dt_vision_features(v, h, w))
        return 0;
    return dt_error_set(err, EX_SOFTWARE,
                        "a picture has %zu x %zu patches and %zu tokens, which "
                        "the vision tower cannot read: please report this",
                        h, w, p->tokens);
}

/* Checks that a copy is one of an earlier picture of the same shape. */
static int check_copy(const struct dt_batch *batch, size_t i,
                      struct dt_error *err)
{
    const struct dt_batch_picture *copy = &batch->pictures[i];
    const struct dt_batch_picture *of =
        copy->repeats <= i ? copy - copy->repeats : copy;
    if (of->repeats == 0 && of->height == copy->height &&
        of->width == copy->width)
        return 0;
    return dt_error_set(err, EX_SOFTWARE,
                        "picture %zu of a batch is a copy of none: please "
                        "report this",
                        i);
}

/* Counts the features of the copies of a batch. */
static int count_copies(struct dt_tower_size *size,
                        const struct dt_batch *batch, struct dt_error *err)
{
    for (size_t i = 0; i < batch->picture_count; i++) {
        if (batch->pictures[i].repeats == 0)
            continue;
        if (check_copy(batch, i, err) < 0)
            return -1;
        size->copied += batch->pictures[i].tokens;
    }
    return 0;
}

/* Makes room for as many runs as pictures. */
static int make_runs(struct dt_tower_rows *pictures, size_t count,
                     struct dt_error *err)
{
    pictures->run_count = 0;
    if (count <= pictures->run_room)
        return 0;
    struct dt_tower_run *runs =
        reallocarray(pictures->runs, count, sizeof(*runs));
    if (!runs)
        return dt_error_set(err, EX_OSERR, "out of memory");
    pictures->runs = runs;
    pictures->run_room = count;
    return 0;
}

static int count_pictures(struct dt_tower_rows *pictures,
                          const struct dt_batch *batch, struct dt_error *err)
{
    const struct dt_tower_size *most = &pictures->most;
    struct dt_tower_size size = {.tile = most->tile, .least = most->least};
    for (size_t i = 0; i < batch->picture_count; i++) {
        const struct dt_batch_picture *picture = &batch->pictures[i];
        if (check_picture(pictures->vision, picture, err) < 0)
            return -1;
        if (picture->repeats > 0)
            continue;
        const size_t rows = rows_of(pictures->vision, picture);
        size.pictures++;
        size.patches += (size_t)picture->height * picture->width;
        size.features += picture->tokens;
        size.rows = start_of(size.rows, rows, size.tile) + rows;
    }
    if (count_copies(&size, batch, err) < 0)
        return -1;
    if (size.patches > most->patches || size.pictures > most->pictures ||
        size.copied > most->copied)
        return dt_error_set(
            err, EX_SOFTWARE,
            "a batch has %zu pictures of %zu patches and %zu tokens of copies, "
            "but there is memory for %zu of %zu and %zu: please report this",
            size.pictures, size.patches, size.copied, most->pictures,
            most->patches, most->copied);
    pictures->patches = size.patches;
    if (size.pictures > 0)
        fill_up(&size);
    pictures->size = size;
    return 0;
}

/* The view of each array, to whom it belongs. */
static void share_views(struct dt_tower_rows *pictures,
                        struct dt_inputs *inputs,
                        const struct dt_view views[ARRAYS])
{
    pictures->cells = views[CELLS];
    pictures->cell_rows = views[CELL_ROWS];
    pictures->classes = views[CLASSES];
    pictures->sources = views[SOURCES];
    pictures->slots = views[SLOTS];
    pictures->tokens = views[TOKENS];
    pictures->copies = views[COPIES];
    inputs->positions = views[PLACES];
    inputs->first = views[FIRST];
    inputs->last = views[LAST];
    inputs->near_first = views[NEAR_FIRST];
    inputs->near_last = views[NEAR_LAST];
}

/* NULL: there is none. */
static struct dt_sparse_map *begin_matrix(struct dt_sparse_map *map,
                                          struct dt_upload *upload,
                                          struct dt_sparse_size size)
{
    if (size.rows == 0)
        return NULL;
    dt_sparse_map_begin(map, upload, &size);
    return map;
}

int dt_tower_rows_upload(struct dt_tower_rows *pictures,
                         struct dt_inputs *inputs, const struct dt_batch *batch,
                         struct dt_error *err)
{
    const struct dt_vision_config *v = pictures->vision;
    const size_t row = dt_vision_row_bytes(v);
    const int64_t number = batch->rows ? batch->rows[0] : 0;
    struct dt_view views[ARRAYS];
    struct dt_upload upload;
    size_t counts[ARRAYS];
    if (count_pictures(pictures, batch, err) < 0 ||
        make_runs(pictures, batch->picture_count, err) < 0 ||
        dt_staged_begin(&pictures->staged, &upload, err) < 0)
        return -1;
    count_arrays(v, &pictures->size, counts);
    struct maps maps = {
        .v = v,
        .N = pictures->size.rows,
        .tile = pictures->size.tile,
        .cells = pictures->size.patches,
        .parts = pictures->size.features * v->merge * v->merge,
    };
    inputs->rows = dt_upload_copy(&upload, &number, 1, DT_I64);
    uint8_t *pixels = dt_upload_reserve(&upload, pictures->size.patches * row,
                                        DT_U8, &pictures->pixels);
    if (pixels) {
        const size_t bytes = pictures->patches * row;
        memcpy(pixels, batch->pixels, bytes);
        memset(pixels + bytes, 0, pictures->pixels.count - bytes);
    }
    for (int i = 0; i < ARRAYS; i++)
        maps.of[i] = dt_upload_reserve(&upload, counts[i], DT_I32, &views[i]);
    maps.pool =
        begin_matrix(&pictures->pool, &upload, pool_size(v, &pictures->size));
    maps.places = begin_matrix(&pictures->places, &upload,
                               places_size(v, &pictures->size));
    for (size_t i = 0; i < batch->picture_count; i++)
        if (batch->pictures[i].repeats == 0)
            add_picture(&maps, &batch->pictures[i]);
        else
            add_copy(&maps, pictures, batch, i);
    end_maps(&maps, &pictures->size);
    share_views(pictures, inputs, views);
    return dt_staged_finish(&pictures->staged, &upload, err);
}
