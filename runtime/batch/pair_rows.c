/* SPDX-License-Identifier: Apache-2.0 */
/* pair_rows.c - preference pairs: both sides are documents of one row */
#include "config.h"

#include <stdlib.h>

#include "batch/rows_impl.h"

/* A pair, and how much of each side is left. */
struct cut_pair {
    struct dt_pair pair;
    size_t begin[DT_SIDES], end[DT_SIDES];
};

/* Cuts a side to at most T tokens. Returns whether it was longer. */
static bool cut_side(const struct dt_rows *rows, struct cut_pair *cut, int side,
                     const struct dt_rows_options *options)
{
    const size_t T = options->T, count = cut->pair.count[side];
    cut->begin[side] = 0;
    cut->end[side] = count;
    if (count <= T)
        return false;
    if (options->keep_end)
        cut->begin[side] = dt_image_spans_begin(&rows->spans, count - T);
    else
        cut->end[side] = dt_image_spans_end(&rows->spans, 0, T);
    return true;
}

/* What is left of a side. */
static struct piece side_of(const struct cut_pair *cut, int side)
{
    return (struct piece){cut->pair.tokens[side] + cut->begin[side],
                          cut->end[side] - cut->begin[side]};
}

/* The targets, as dt_rows_has_target counts them: without the first token,
 * which nothing predicts.
 */
static size_t count_targets(struct piece side)
{
    size_t count = 0;
    for (size_t t = 1; t < side.count; t++)
        count += (side.tokens[t] & DT_TARGET_BIT) != 0;
    return count;
}

static int grow_pairs(struct dt_rows *rows, struct dt_error *err)
{
    if (rows->count < rows->pair_room)
        return 0;
    size_t room = rows->pair_room ? rows->pair_room * 2 : 1024;
    struct dt_row_pair *pairs = reallocarray(rows->pairs, room, sizeof(*pairs));
    if (!pairs)
        return dt_error_set(err, EX_OSERR, "data: out of memory");
    rows->pairs = pairs;
    rows->pair_room = room;
    return 0;
}

/* Notes which images of the rejected side, the last piece, the chosen one has,
 * too, so that they are read once.
 */
static void share_images(struct dt_rows *rows, const struct cut_pair *cut)
{
    const size_t *begin = cut->begin, *end = cut->end;
    const size_t later = begin[0] > begin[1] ? begin[0] : begin[1];
    const size_t sooner = end[0] < end[1] ? end[0] : end[1];
    const struct dt_image_sums shared =
        dt_image_spans_sum(&rows->spans, later, sooner);
    const struct dt_picture_part *parts = &rows->parts[rows->piece_count - 2];
    struct dt_rows_stats *stats = &rows->stats;
    rows->parts[rows->piece_count - 1].shared = shared;
    stats->images -= shared.images;
    stats->pictures -= shared.pictures;
    stats->patches -= shared.patches;
    stats->images_cut += rows->spans.count - parts[0].sums.images -
                         parts[1].sums.images + shared.images;
}

static int keep_pair(struct dt_rows *rows, const struct dt_cutting *example,
                     const struct cut_pair *cut, struct dt_error *err)
{
    if (grow_pairs(rows, err) < 0)
        return -1;
    rows->pairs[rows->count++] = (struct dt_row_pair){
        .number = example->number,
        .margin = cut->pair.margin,
        .chosen = side_of(cut, DT_CHOSEN).count,
        .targets = count_targets(side_of(cut, DT_CHOSEN)),
    };
    for (int i = 0; i < DT_SIDES; i++) {
        struct dt_cutting side = *example;
        side.parts.tokens = cut->pair.tokens[i];
        if (dt_cutting_add(rows, &side, cut->begin[i], cut->end[i], err) < 0)
            return -1;
    }
    if (rows->images)
        share_images(rows, cut);
    return 0;
}

/* Whether both sides have all images of a pair. */
static bool have_images(const struct dt_rows *rows, const struct dt_pair *pair)
{
    const struct dt_image_spans *spans = &rows->spans;
    const size_t end = spans->count > 0 ? spans->at[spans->count - 1].end : 0;
    return end <= pair->count[DT_CHOSEN] && end <= pair->count[DT_REJECTED];
}

/* Finds the sides of a pair and, in rows->spans, its images. */
static int find_pair(struct dt_rows *rows, struct dt_cutting *example,
                     struct dt_pair *pair,
                     const struct dt_rows_options *options,
                     struct dt_error *err)
{
    const struct dt_example_parts *parts = &example->parts;
    if (!rows->images && /* whose words dt_cutting_find checks */
        dt_rows_check(rows, example->words, example->count, err) < 0)
        return -1;
    if (dt_cutting_find(rows, example, options, err) < 0)
        return -1;
    if (dt_pair_find(parts->tokens, parts->token_count, pair) &&
        have_images(rows, pair))
        return 0;
    return dt_error_set(err, EX_DATAERR,
                        "data: example %zu of the cache is no preference pair: "
                        "remove the cache",
                        (size_t)example->number + 1);
}

static int add_pair(struct dt_rows *rows, const uint32_t *tokens, size_t count,
                    uint64_t number, const struct dt_rows_options *options,
                    struct dt_error *err)
{
    struct dt_cutting example = {tokens, count, number, {0}};
    struct cut_pair cut = {0};
    bool is_long = false, has_targets = true;
    if (find_pair(rows, &example, &cut.pair, options, err) < 0)
        return -1;
    rows->stats.examples++;
    for (int i = 0; i < DT_SIDES; i++) {
        is_long |= cut_side(rows, &cut, i, options);
        const struct piece side = side_of(&cut, i);
        has_targets &= dt_rows_has_target(side.tokens, side.count);
    }
    if (!has_targets || (is_long && options->drop_long)) {
        rows->stats.dropped++;
        return 0;
    }
    rows->stats.truncated += is_long;
    return keep_pair(rows, &example, &cut, err);
}

/* Puts each pair into a row, in order; T becomes the length of the longest. */
static int place_pairs(struct dt_rows *rows, struct dt_error *err)
{
    rows->begin = malloc((rows->count + 1) * sizeof(*rows->begin));
    if (!rows->begin)
        return dt_error_set(err, EX_OSERR, "data: out of memory");
    for (size_t i = 0; i <= rows->count; i++)
        rows->begin[i] = 2 * i;
    rows->T = 0;
    for (size_t i = 0; i < rows->count; i++) {
        size_t length = dt_rows_length(rows, i);
        rows->T = length > rows->T ? length : rows->T;
    }
    return 0;
}

struct dt_rows *dt_rows_of_pairs(const struct dt_rows_source *sources,
                                 size_t count,
                                 const struct dt_rows_options *options,
                                 struct dt_error *err)
{
    struct dt_rows_options of_pairs = *options;
    struct dt_rows *rows = dt_rows_create(options->T, err);
    if (!rows)
        return NULL;
    of_pairs.packing = DT_PACK_NONE;
    rows->images = options->images;
    rows->vocab_size = options->vocab_size;
    int rc =
        dt_rows_add_sources(rows, sources, count, &of_pairs, add_pair, err);
    if (rc == 0 && rows->stats.examples == 0)
        rc = dt_error_set(err, EX_DATAERR,
                          "data: no pair in this share of the files");
    else if (rc == 0 && rows->count == 0)
        rc = dt_error_set(err, EX_DATAERR,
                          "data: none of %zu pairs is left to train on: %s "
                          "max_length %zu",
                          rows->stats.examples,
                          options->drop_long
                              ? "they are longer than"
                              : "their prompts leave no token of a completion "
                                "within",
                          options->T);
    if (rc < 0 || place_pairs(rows, err) < 0) {
        dt_rows_destroy(rows);
        return NULL;
    }
    return rows;
}

const struct dt_row_pair *dt_rows_pair(const struct dt_rows *rows, size_t i)
{
    return rows->pairs ? &rows->pairs[i] : NULL;
}
