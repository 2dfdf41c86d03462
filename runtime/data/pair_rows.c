/* SPDX-License-Identifier: Apache-2.0 */
/* pair_rows.c - rows of preference pairs: both sides are documents of one row
 */
#include "config.h"

#include <stdlib.h>

#include "data/pair.h"
#include "data/rows_impl.h"

/* Cuts a side to at most T tokens. Whether it was longer. */
static bool cut_side(struct dt_pair *pair, int side,
                     const struct dt_rows_options *options)
{
    const size_t T = options->T, count = pair->count[side];
    if (count <= T)
        return false;
    if (options->keep_end)
        pair->tokens[side] += count - T;
    pair->count[side] = T;
    return true;
}

/* As dt_rows_has_target, without the first token, which nothing predicts. */
static size_t count_targets(const struct dt_pair *pair, int side)
{
    size_t count = 0;
    for (size_t t = 1; t < pair->count[side]; t++)
        count += (pair->tokens[side][t] & DT_TARGET_BIT) != 0;
    return count;
}

static int keep_pair(struct dt_rows *rows, const struct dt_pair *pair,
                     uint64_t number, struct dt_error *err)
{
    if (rows->count == rows->pair_room) {
        size_t room = rows->pair_room ? rows->pair_room * 2 : 1024;
        struct dt_row_pair *pairs =
            reallocarray(rows->pairs, room, sizeof(*pairs));
        if (!pairs)
            return dt_error_set(err, EX_OSERR, "data: out of memory");
        rows->pairs = pairs;
        rows->pair_room = room;
    }
    rows->pairs[rows->count++] = (struct dt_row_pair){
        .number = number,
        .margin = pair->margin,
        .chosen = pair->count[DT_CHOSEN],
        .targets = count_targets(pair, DT_CHOSEN),
    };
    for (int i = 0; i < DT_SIDES; i++)
        if (dt_rows_add_piece(rows, pair->tokens[i], pair->count[i], err) < 0)
            return -1;
    return 0;
}

static int add_pair(struct dt_rows *rows, const uint32_t *tokens, size_t count,
                    uint64_t number, const struct dt_rows_options *options,
                    struct dt_error *err)
{
    struct dt_pair pair;
    bool is_long = false, has_targets = true;
    if (dt_rows_check(rows, tokens, count, err) < 0) /* the margin is in it */
        return -1;
    if (!dt_pair_find(tokens, count, &pair))
        return dt_error_set(err, EX_DATAERR,
                            "data: example %zu of the cache is no preference "
                            "pair: remove the cache",
                            (size_t)number + 1);
    rows->stats.examples++;
    for (int i = 0; i < DT_SIDES; i++) {
        is_long |= cut_side(&pair, i, options);
        has_targets &= dt_rows_has_target(pair.tokens[i], pair.count[i]);
    }
    if (!has_targets || (is_long && options->drop_long)) {
        rows->stats.dropped++;
        return 0;
    }
    rows->stats.truncated += is_long;
    return keep_pair(rows, &pair, number, err);
}

/* Rows are in the order of pairs; T becomes the length of the longest. */
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
