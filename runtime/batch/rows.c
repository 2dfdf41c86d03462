/* SPDX-License-Identifier: Apache-2.0 */
/* rows.c - cuts token streams and examples into rows */
#include "config.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "base/file.h"
#include "base/rng.h"
#include "batch/rows_impl.h"
#include "data/example.h"

/* Seeds of permutations, other than the numbers of epochs. Source i uses CHOICE
 * - 2 i, which never equals WRAP_ORDER.
 */
static const uint64_t CHOICE = UINT64_MAX, WRAP_ORDER = UINT64_MAX - 1;

void dt_rows_destroy(struct dt_rows *rows)
{
    if (!rows)
        return;
    free(rows->caches);
    free(rows->pieces);
    free(rows->parts);
    dt_image_spans_fini(&rows->spans);
    free(rows->order);
    free(rows->begin);
    free(rows->pairs);
    free(rows);
}

struct dt_rows *dt_rows_create(size_t T, struct dt_error *err)
{
    struct dt_rows *rows = calloc(1, sizeof(*rows));
    if (rows)
        rows->T = T;
    else
        dt_error_set(err, EX_OSERR, "data: out of memory");
    return rows;
}

struct dt_rows *dt_rows_of_stream(const struct dt_dataset *dataset,
                                  size_t first, size_t count, size_t T,
                                  struct dt_error *err)
{
    if (count < T + 1) {
        dt_error_set(err, EX_DATAERR,
                     "data: %zu tokens are too few for a sample of %zu + 1: "
                     "give more data or a smaller max_length",
                     count, T);
        return NULL;
    }
    struct dt_rows *rows = dt_rows_create(T, err);
    if (!rows)
        return NULL;
    rows->dataset = dataset;
    rows->first = first;
    rows->count = (count - 1) / T;
    rows->stats.tokens = (uint64_t)rows->count * T;
    rows->stats.tail = (count - 1) % T;
    return rows;
}

/* --- cut examples into pieces --- */

/* Searches from the end, since the last token mostly is one. */
bool dt_rows_has_target(const uint32_t *tokens, size_t count)
{
    while (count > 1)
        if (tokens[--count] & DT_TARGET_BIT)
            return true;
    return false;
}

/* Makes room for one more piece. */
static int grow_pieces(struct dt_rows *rows, struct dt_error *err)
{
    if (rows->piece_count < rows->piece_room)
        return 0;
    const size_t room = rows->piece_room ? rows->piece_room * 2 : 1024;
    struct piece *pieces = reallocarray(rows->pieces, room, sizeof(*pieces));
    if (!pieces)
        return dt_error_set(err, EX_OSERR, "data: out of memory");
    rows->pieces = pieces;
    if (rows->images) {
        struct dt_picture_part *parts =
            reallocarray(rows->parts, room, sizeof(*parts));
        if (!parts)
            return dt_error_set(err, EX_OSERR, "data: out of memory");
        rows->parts = parts;
    }
    rows->piece_room = room;
    return 0;
}

static int add_piece(struct dt_rows *rows, const uint32_t *tokens, size_t count,
                     struct dt_error *err)
{
    if (grow_pieces(rows, err) < 0)
        return -1;
    rows->pieces[rows->piece_count++] = (struct piece){tokens, count};
    rows->stats.tokens += count;
    return 0;
}

/* Paths may name other files once a cache is made again. */
static void hash_images(struct dt_rows *rows,
                        const struct dt_example_parts *parts)
{
    struct dt_example_parts rest = *parts;
    struct dt_example_image image;
    uint64_t *hash = &rows->stats.image_hash;
    while (dt_example_next_image(&rest, &image))
        *hash = XXH3_64bits_withSeed(image.sha256, sizeof(image.sha256), *hash);
}

int dt_cutting_find(struct dt_rows *rows, struct dt_cutting *example,
                    const struct dt_rows_options *opt, struct dt_error *err)
{
    if (!rows->images) {
        example->parts.tokens = example->words;
        example->parts.token_count = example->count;
        return 0;
    }
    if (dt_rows_check(rows, example->words, example->count, err) < 0)
        return -1;
    if (dt_image_spans_find(&rows->spans, example->words, example->count,
                            rows->images, &example->parts, err) < 0)
        return dt_error_prefix(err, "data: example %" PRIu64 " of the cache",
                               example->number + 1);
    hash_images(rows, &example->parts);
    if (opt->packing != DT_PACK_WRAPPED || rows->spans.count == 0)
        return 0;
    return dt_error_set(err, EX_CONFIG,
                        "data: example %" PRIu64 " has images, which "
                        "data.packing: wrapped would cut at the ends of rows: "
                        "use bfd, bfd_split or none",
                        example->number + 1);
}

int dt_cutting_add(struct dt_rows *rows, const struct dt_cutting *example,
                   size_t begin, size_t end, struct dt_error *err)
{
    if (add_piece(rows, example->parts.tokens + begin, end - begin, err) < 0)
        return -1;
    if (!rows->images)
        return 0;
    const struct dt_image_sums sums =
        dt_image_spans_sum(&rows->spans, begin, end);
    rows->parts[rows->piece_count - 1] = (struct dt_picture_part){
        .example = example->words,
        .words = example->count,
        .number = example->number,
        .from = begin,
        .count = end - begin,
        .sums = sums,
    };
    rows->stats.images += sums.images;
    rows->stats.pictures += sums.pictures;
    rows->stats.patches += sums.patches;
    return 0;
}

/* Adds an example in pieces of at most T tokens. An image that is longer is
 * left out.
 */
static int add_split(struct dt_rows *rows, const struct dt_cutting *example,
                     struct dt_error *err)
{
    const size_t count = example->parts.token_count;
    for (size_t begin = 0, end; begin < count; begin = end) {
        const size_t left = count - begin;
        end = dt_image_spans_end(&rows->spans, begin,
                                 left < rows->T ? count : begin + rows->T);
        if (end == begin) {
            end = dt_image_spans_begin(&rows->spans, begin + 1);
            rows->stats.images_cut++;
        } else if (dt_cutting_add(rows, example, begin, end, err) < 0) {
            return -1;
        }
    }
    return 0;
}

/* Cuts tokens [*begin, *end) to at most T. */
static void cut_example(struct dt_rows *rows, bool keep_end, size_t *begin,
                        size_t *end)
{
    if (keep_end)
        *begin = dt_image_spans_begin(&rows->spans, *end - rows->T);
    else
        *end = dt_image_spans_end(&rows->spans, 0, rows->T);
    rows->stats.truncated++;
    rows->stats.images_cut +=
        rows->spans.count -
        dt_image_spans_sum(&rows->spans, *begin, *end).images;
}

/* Adds what is left of the tokens [begin, end) of an example, if they have a
 * target.
 */
static int add_range(struct dt_rows *rows, const struct dt_cutting *example,
                     size_t begin, size_t end,
                     const struct dt_rows_options *opt, struct dt_error *err)
{
    rows->stats.examples++;
    if (end > rows->T &&
        (opt->packing == DT_PACK_NONE || opt->packing == DT_PACK_BFD))
        cut_example(rows, opt->keep_end, &begin, &end);
    if (!dt_rows_has_target(example->parts.tokens + begin, end - begin)) {
        rows->stats.dropped++;
        return 0;
    }
    if (opt->packing == DT_PACK_BFD_SPLIT)
        return add_split(rows, example, err);
    return dt_cutting_add(rows, example, begin, end, err);
}

static int add_example(struct dt_rows *rows, const uint32_t *words,
                       size_t count, uint64_t number,
                       const struct dt_rows_options *opt, struct dt_error *err)
{
    struct dt_cutting example = {words, count, number, {0}};
    return dt_cutting_find(rows, &example, opt, err) < 0
               ? -1
               : add_range(rows, &example, 0, example.parts.token_count, opt,
                           err);
}

/* A call of dt_rows_add_sources in dt_guard_run. If a fault ends it early,
 * nothing leaks, since `rows` owns everything that it allocates.
 */
struct adding {
    struct dt_rows *rows;
    const struct dt_rows_source *sources;
    size_t count;
    const struct dt_rows_options *options;
    dt_rows_add_f *add;
    struct dt_error *err;
    int result;
};

/* Adds the only example of a text file. Its chosen range, and the fraction of
 * its weight, are counted in tokens rather than in examples.
 */
static int add_text(const struct adding *a, const struct dt_rows_source *source,
                    uint64_t number)
{
    const struct dt_rows_options *opt = a->options;
    struct dt_cutting text = {.number = number};
    text.words = dt_example(source->examples, 0, &text.count);
    if (dt_cutting_find(a->rows, &text, opt, a->err) < 0)
        return -1;
    const double all = (double)text.parts.token_count;
    size_t first = (size_t)llround(opt->begin * all);
    size_t n = (size_t)llround(opt->end * all) - first;
    double whole = floor(source->weight);
    size_t part = (size_t)llround((source->weight - whole) * (double)n);
    for (size_t i = 0; i < (size_t)whole; i++)
        if (add_range(a->rows, &text, first, first + n, opt, a->err) < 0)
            return -1;
    return part > 0
               ? add_range(a->rows, &text, first, first + part, opt, a->err)
               : 0;
}

/* Adds the chosen range of a source, whose examples are numbered from `number`
 * on, as many times as its weight says.
 */
static int add_source(const struct adding *a,
                      const struct dt_rows_source *source, uint64_t choice,
                      uint64_t number)
{
    const struct dt_rows_options *opt = a->options;
    size_t all = dt_examples_count(source->examples);
    if (all == 1 && opt->packing == DT_PACK_WRAPPED)
        return add_text(a, source, number);
    size_t first = (size_t)llround(opt->begin * (double)all);
    size_t n = (size_t)llround(opt->end * (double)all) - first;
    double whole = floor(source->weight);
    size_t part = (size_t)llround((source->weight - whole) * (double)n);
    for (size_t i = 0; i < (size_t)whole * n + part; i++) {
        size_t at = i % n, count;
        if (i >= (size_t)whole * n)
            at = dt_rng_permute(opt->seed, choice, at, n);
        const uint32_t *tokens =
            dt_example(source->examples, first + at, &count);
        if (a->add(a->rows, tokens, count, number + first + at, opt, a->err) <
            0)
            return -1;
    }
    return 0;
}

static int by_address(const void *a, const void *b)
{
    const struct row_cache *x = a, *y = b;
    return (x->first > y->first) - (x->first < y->first);
}

static void list_caches(const struct adding *a)
{
    size_t tokens;
    for (size_t i = 0; i < a->count; i++)
        a->rows->caches[i] =
            (struct row_cache){dt_example(a->sources[i].examples, 0, &tokens),
                               a->sources[i].examples};
    qsort(a->rows->caches, a->count, sizeof(*a->rows->caches), by_address);
    a->rows->cache_count = a->count;
}

static void add_guarded(void *ctx)
{
    struct adding *a = ctx;
    uint64_t number = 0;
    list_caches(a);
    for (size_t i = 0; i < a->count && a->result == 0; i++) {
        a->result = add_source(a, &a->sources[i], CHOICE - 2 * i, number);
        number += dt_examples_count(a->sources[i].examples);
    }
}

int dt_rows_add_sources(struct dt_rows *rows,
                        const struct dt_rows_source *sources, size_t count,
                        const struct dt_rows_options *options,
                        dt_rows_add_f *add, struct dt_error *err)
{
    struct adding adding = {rows, sources, count, options, add, err, 0};
    if (!(rows->caches = calloc(count + 1, sizeof(*rows->caches))))
        return dt_error_set(err, EX_OSERR, "data: out of memory");
    return dt_guard_run(add_guarded, &adding) < 0 ? dt_rows_lost(err)
                                                  : adding.result;
}

/* --- pieces into rows --- */

static int pack_pieces(struct dt_rows *rows, struct dt_error *err)
{
    size_t n = rows->piece_count;
    uint32_t *lengths = malloc((n + 1) * sizeof(*lengths));
    rows->order = malloc((n + 1) * sizeof(*rows->order));
    rows->begin = malloc((n + 1) * sizeof(*rows->begin));
    rows->count = SIZE_MAX;
    if (lengths && rows->order && rows->begin) {
        for (size_t i = 0; i < n; i++)
            lengths[i] = (uint32_t)rows->pieces[i].count; /* <= T */
        rows->count = dt_pack_best_fit(lengths, n, (uint32_t)rows->T,
                                       rows->order, rows->begin);
    }
    free(lengths);
    return rows->count == SIZE_MAX
               ? dt_error_set(err, EX_OSERR, "data: out of memory")
               : 0;
}

static int wrap_pieces(struct dt_rows *rows, const struct dt_rows_options *opt,
                       struct dt_error *err)
{
    size_t n = rows->piece_count, total = 0;
    rows->wrapped = true;
    rows->order = malloc((n + 1) * sizeof(*rows->order));
    rows->begin = malloc((n + 1) * sizeof(*rows->begin));
    if (!rows->order || !rows->begin)
        return dt_error_set(err, EX_OSERR, "data: out of memory");
    for (size_t i = 0; i < n; i++) {
        rows->order[i] =
            opt->in_order ? i : dt_rng_permute(opt->seed, WRAP_ORDER, i, n);
        rows->begin[i] = total;
        total += rows->pieces[rows->order[i]].count;
    }
    rows->begin[n] = total;
    rows->count = total > 0 ? (total - 1) / rows->T : 0;
    rows->stats.tail = total > 0 ? (total - 1) % rows->T : 0;
    return 0;
}

/* Reports why there is no row. */
static int refuse_none(const struct dt_rows *rows, struct dt_error *err)
{
    const struct dt_rows_stats *s = &rows->stats;
    if (s->examples == 0)
        return dt_error_set(err, EX_DATAERR,
                            "data: no example in this share of the files");
    if (rows->piece_count > 0)
        return dt_error_set(err, EX_DATAERR,
                            "data: %" PRIu64 " tokens are too few for a row of "
                            "%zu + 1: give more data or a smaller max_length",
                            s->tokens, rows->T);
    return dt_error_set(err, EX_DATAERR,
                        "data: none of %zu examples is left to train on (%zu "
                        "have no target within max_length %zu)%s",
                        s->examples, s->dropped, rows->T,
                        s->images_cut > 0
                            ? ": their images have more tokens: raise "
                              "data.max_length or lower data.image_max_pixels"
                            : "");
}

struct dt_rows *dt_rows_of_examples(const struct dt_rows_source *sources,
                                    size_t count,
                                    const struct dt_rows_options *options,
                                    struct dt_error *err)
{
    struct dt_rows *rows = dt_rows_create(options->T, err);
    if (!rows)
        return NULL;
    rows->images = options->images;
    int result =
        dt_rows_add_sources(rows, sources, count, options, add_example, err);
    if (result == 0) {
        rows->vocab_size = options->vocab_size;
        rows->count = rows->piece_count;
        if (options->packing == DT_PACK_WRAPPED)
            result = wrap_pieces(rows, options, err);
        else if (options->packing != DT_PACK_NONE)
            result = pack_pieces(rows, err);
    }
    if (result == 0 && rows->count == 0)
        result = refuse_none(rows, err);
    if (result < 0) {
        dt_rows_destroy(rows);
        return NULL;
    }
    return rows;
}

size_t dt_rows_count(const struct dt_rows *rows)
{
    return rows->count;
}

size_t dt_rows_max_length(const struct dt_rows *rows)
{
    return rows->T;
}

struct dt_rows_stats dt_rows_stats(const struct dt_rows *rows)
{
    return rows->stats;
}
