/* SPDX-License-Identifier: Apache-2.0 */
/* rows.c - cuts token streams and examples into rows */
#include "config.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/rng.h"
#include "data/example.h"
#include "data/rows.h"
#include "tensor/tensor.h"

/* A document, or the part of a document that is in one row. */
struct piece {
    const uint32_t *tokens; /* with DT_TARGET_BIT */
    size_t count;
};

/* A cache, by the address of its first token. */
struct row_cache {
    const uint32_t *first;
    const struct dt_examples *examples;
};

struct dt_rows {
    size_t T, count;
    struct dt_rows_stats stats;
    size_t vocab_size;

    /* of a stream */
    const struct dt_dataset *dataset;
    size_t first;

    /* of examples: row i has the pieces order[begin[i]] .. order[begin[i + 1] -
     * 1], or piece i if begin is NULL; without order, pieces are in order. If
     * wrapped, all pieces form one stream, in which piece order[i] starts at
     * token begin[i].
     */
    struct row_cache *caches; /* in the order of addresses */
    size_t cache_count;
    struct piece *pieces;
    size_t piece_count, piece_room;
    size_t *order, *begin;
    bool wrapped;

    /* of pairs: row i is pairs[i], pieces 2 i and 2 i + 1; else NULL */
    struct dt_row_pair *pairs;
    size_t pair_room;
};

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
    free(rows->order);
    free(rows->begin);
    free(rows->pairs);
    free(rows);
}

/* Rows without any data. NULL and err: EX_OSERR. */
static struct dt_rows *create_rows(size_t T, struct dt_error *err)
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
    struct dt_rows *rows = create_rows(T, err);
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

/* Whether a token after the first is a target. Searches from the end, since the
 * last token mostly is one.
 */
static bool has_target(const uint32_t *tokens, size_t count)
{
    while (count > 1)
        if (tokens[--count] & DT_TARGET_BIT)
            return true;
    return false;
}

static int add_piece(struct dt_rows *rows, const uint32_t *tokens, size_t count,
                     struct dt_error *err)
{
    if (rows->piece_count == rows->piece_room) {
        size_t room = rows->piece_room ? rows->piece_room * 2 : 1024;
        struct piece *pieces =
            reallocarray(rows->pieces, room, sizeof(*pieces));
        if (!pieces)
            return dt_error_set(err, EX_OSERR, "data: out of memory");
        rows->pieces = pieces;
        rows->piece_room = room;
    }
    rows->pieces[rows->piece_count++] = (struct piece){tokens, count};
    rows->stats.tokens += count;
    return 0;
}

static int add_example(struct dt_rows *rows, const uint32_t *tokens,
                       size_t count, uint64_t number,
                       const struct dt_rows_options *opt, struct dt_error *err)
{
    (void)number;
    rows->stats.examples++;
    if (count > rows->T &&
        (opt->packing == DT_PACK_NONE || opt->packing == DT_PACK_BFD)) {
        if (opt->keep_end)
            tokens += count - rows->T;
        count = rows->T;
        rows->stats.truncated++;
    }
    if (!has_target(tokens, count)) {
        rows->stats.dropped++;
        return 0;
    }
    if (opt->packing != DT_PACK_BFD_SPLIT)
        return add_piece(rows, tokens, count, err);
    for (size_t i = 0; i < count; i += rows->T) {
        size_t n = count - i < rows->T ? count - i : rows->T;
        if (add_piece(rows, tokens + i, n, err) < 0)
            return -1;
    }
    return 0;
}

/* Adds the pieces of an example, if it has any. `number` counts the examples of
 * all sources. -1: EX_OSERR, EX_DATAERR.
 */
typedef int add_f(struct dt_rows *rows, const uint32_t *tokens, size_t count,
                  uint64_t number, const struct dt_rows_options *options,
                  struct dt_error *err);

/* A call of add_sources in dt_guard_run. If a fault ends it early,
 * nothing leaks, since `rows` owns everything that it allocates.
 */
struct adding {
    struct dt_rows *rows;
    const struct dt_rows_source *sources;
    size_t count;
    const struct dt_rows_options *options;
    add_f *add;
    struct dt_error *err;
    int result;
};

/* Adds the only example of a text file. Its chosen range, and the fraction of
 * its weight, are counted in tokens rather than in examples.
 */
static int add_text(const struct adding *a, const struct dt_rows_source *source)
{
    size_t all;
    const uint32_t *tokens = dt_example(source->examples, 0, &all);
    size_t first = (size_t)llround(a->options->begin * (double)all);
    size_t n = (size_t)llround(a->options->end * (double)all) - first;
    double whole = floor(source->weight);
    size_t part = (size_t)llround((source->weight - whole) * (double)n);
    for (size_t i = 0; i < (size_t)whole; i++)
        if (a->add(a->rows, tokens + first, n, 0, a->options, a->err) < 0)
            return -1;
    return part > 0
               ? a->add(a->rows, tokens + first, part, 0, a->options, a->err)
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
        return add_text(a, source);
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

static int lost_cache(struct dt_error *err)
{
    return dt_error_set(err, EX_IOERR,
                        "data: a cache of tokens was cut short while it is "
                        "read, or its disk fails");
}

/* Checks the blocks of their cache that contain these tokens, in dt_guard_run.
 * -1: EX_DATAERR, it is damaged.
 */
static int check_tokens(const struct dt_rows *rows, const uint32_t *tokens,
                        size_t count, struct dt_error *err)
{
    size_t low = 0, high = rows->cache_count;
    while (high - low > 1) {
        const size_t middle = low + (high - low) / 2;
        if (rows->caches[middle].first <= tokens)
            low = middle;
        else
            high = middle;
    }
    return dt_examples_check(rows->caches[low].examples, tokens, count, err);
}

/* Calls add() for the chosen examples of all sources, as many times as their
 * weights say. -1: that of add(); EX_IOERR, a cache was truncated.
 */
static int add_sources(struct dt_rows *rows,
                       const struct dt_rows_source *sources, size_t count,
                       const struct dt_rows_options *options, add_f *add,
                       struct dt_error *err)
{
    struct adding adding = {rows, sources, count, options, add, err, 0};
    if (!(rows->caches = calloc(count + 1, sizeof(*rows->caches))))
        return dt_error_set(err, EX_OSERR, "data: out of memory");
    return dt_guard_run(add_guarded, &adding) < 0 ? lost_cache(err)
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
                        "have no target within max_length %zu)",
                        s->examples, s->dropped, rows->T);
}

struct dt_rows *dt_rows_of_examples(const struct dt_rows_source *sources,
                                    size_t count,
                                    const struct dt_rows_options *options,
                                    struct dt_error *err)
{
    struct dt_rows *rows = create_rows(options->T, err);
    if (!rows)
        return NULL;
    int result = add_sources(rows, sources, count, options, add_example, err);
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

/* --- read a row --- */

/* Row i has the pieces *begin .. *end - 1 of order. */
static void row_pieces(const struct dt_rows *rows, size_t i, size_t *begin,
                       size_t *end)
{
    *begin = rows->begin ? rows->begin[i] : i;
    *end = rows->begin ? rows->begin[i + 1] : i + 1;
}

static const struct piece *piece_at(const struct dt_rows *rows, size_t k)
{
    return &rows->pieces[rows->order ? rows->order[k] : k];
}

size_t dt_rows_length(const struct dt_rows *rows, size_t i)
{
    size_t begin, end, length = 0;
    if (rows->dataset || rows->wrapped)
        return rows->T;
    row_pieces(rows, i, &begin, &end);
    for (size_t k = begin; k < end; k++)
        length += piece_at(rows, k)->count;
    return length;
}

static int read_stream(const struct dt_rows *rows, size_t i,
                       const struct dt_row *row, struct dt_error *err)
{
    size_t T = rows->T, at = rows->first + i * T;
    if (dt_dataset_read(rows->dataset, at, T, row->inputs, err) < 0)
        return -1;
    return dt_dataset_read(rows->dataset, at + 1, T, row->targets, err);
}

/* The piece that holds token `at` of the wrapped stream. */
static size_t find_piece(const struct dt_rows *rows, size_t at)
{
    size_t low = 0, high = rows->piece_count;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (rows->begin[middle] <= at)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static int check_id(const struct dt_rows *rows, uint32_t token, int32_t *id,
                    struct dt_error *err)
{
    *id = (int32_t)(token & ~DT_TARGET_BIT);
    if ((size_t)*id < rows->vocab_size)
        return 0;
    return dt_error_set(err, EX_DATAERR,
                        "data: token id %d, but the model's vocab_size is "
                        "%zu: is this the tokenizer of the model?",
                        *id, rows->vocab_size);
}

/* Checks at most `most` tokens of a piece, from token `inside` on. */
static int check_rest(const struct dt_rows *rows, const struct piece *piece,
                      size_t inside, size_t most, struct dt_error *err)
{
    const size_t left = piece->count - inside;
    return check_tokens(rows, piece->tokens + inside, left < most ? left : most,
                        err);
}

static int read_wrapped(const struct dt_rows *rows, size_t i,
                        const struct dt_row *row, struct dt_error *err)
{
    size_t at = i * rows->T, k = find_piece(rows, at);
    size_t inside = at - rows->begin[k];
    for (size_t t = 0; t <= rows->T; t++, inside++) {
        int32_t id;
        for (; inside == piece_at(rows, k)->count; inside = 0)
            k++;
        const struct piece *piece = piece_at(rows, k);
        if ((t == 0 || inside == 0) &&
            check_rest(rows, piece, inside, rows->T + 1 - t, err) < 0)
            return -1;
        uint32_t token = piece->tokens[inside];
        if (check_id(rows, token, &id, err) < 0)
            return -1;
        if (t < rows->T)
            row->inputs[t] = id;
        if (t > 0)
            row->targets[t - 1] = token & DT_TARGET_BIT ? id : DT_IGNORE;
    }
    return 0;
}

static int read_pieces(const struct dt_rows *rows, size_t i,
                       const struct dt_row *row, struct dt_error *err)
{
    size_t begin, end, t = 0;
    row_pieces(rows, i, &begin, &end);
    for (size_t k = begin; k < end; k++) {
        const struct piece *piece = piece_at(rows, k);
        size_t start = t;
        if (check_tokens(rows, piece->tokens, piece->count, err) < 0)
            return -1;
        for (size_t n = 0; n < piece->count; n++, t++) {
            uint32_t token = piece->tokens[n];
            if (check_id(rows, token, &row->inputs[t], err) < 0)
                return -1;
            row->doc_start[t] = (int32_t)start;
            row->targets[t] = DT_IGNORE;
            if (n > 0 && token & DT_TARGET_BIT)
                row->targets[t - 1] = row->inputs[t];
        }
    }
    return 0;
}

bool dt_rows_shared(const struct dt_rows *rows)
{
    return rows->begin && !rows->wrapped;
}

/* Arguments of read_examples in dt_guard_run. */
struct reading {
    const struct dt_rows *rows;
    size_t i;
    const struct dt_row *row;
    struct dt_error *err;
    int result;
};

static void read_examples(void *ctx)
{
    struct reading *r = ctx;
    r->result = (r->rows->wrapped ? read_wrapped : read_pieces)(r->rows, r->i,
                                                                r->row, r->err);
}

void dt_row_pad(const struct dt_row *row, size_t at, size_t end)
{
    for (size_t t = at; t < end; t++) {
        row->inputs[t] = 0;
        row->targets[t] = DT_IGNORE;
        row->doc_start[t] = (int32_t)t;
    }
}

int dt_rows_read(const struct dt_rows *rows, size_t i, size_t length,
                 struct dt_row *row, struct dt_error *err)
{
    size_t used = dt_rows_length(rows, i);
    bool one = rows->dataset || rows->wrapped; /* the row is one document */
    assert(i < rows->count && used <= length);
    struct reading reading = {rows, i, row, err, 0};
    if (rows->dataset)
        reading.result = read_stream(rows, i, row, err);
    else if (dt_guard_run(read_examples, &reading) < 0)
        return lost_cache(err);
    if (reading.result < 0)
        return -1;
    for (size_t t = 0; t < used && one; t++)
        row->doc_start[t] = 0;
    dt_row_pad(row, used, length);
    row->target_count = 0;
    for (size_t t = 0; t < used; t++)
        row->target_count += row->targets[t] != DT_IGNORE;
    return 0;
}

/* --- preference pairs: both sides are documents of one row --- */

/* Cuts a side to at most T tokens. Returns whether it was longer. */
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

/* The targets, as has_target counts them: without the first token, which
 * nothing predicts.
 */
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
        if (add_piece(rows, pair->tokens[i], pair->count[i], err) < 0)
            return -1;
    return 0;
}

static int add_pair(struct dt_rows *rows, const uint32_t *tokens, size_t count,
                    uint64_t number, const struct dt_rows_options *options,
                    struct dt_error *err)
{
    struct dt_pair pair;
    bool is_long = false, has_targets = true;
    if (check_tokens(rows, tokens, count, err) < 0) /* the margin is in it */
        return -1;
    if (!dt_pair_find(tokens, count, &pair))
        return dt_error_set(err, EX_DATAERR,
                            "data: example %zu of the cache is no preference "
                            "pair: remove the cache",
                            (size_t)number + 1);
    rows->stats.examples++;
    for (int i = 0; i < DT_SIDES; i++) {
        is_long |= cut_side(&pair, i, options);
        has_targets &= has_target(pair.tokens[i], pair.count[i]);
    }
    if (!has_targets || (is_long && options->drop_long)) {
        rows->stats.dropped++;
        return 0;
    }
    rows->stats.truncated += is_long;
    return keep_pair(rows, &pair, number, err);
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
    struct dt_rows *rows = create_rows(options->T, err);
    if (!rows)
        return NULL;
    of_pairs.packing = DT_PACK_NONE;
    rows->vocab_size = options->vocab_size;
    int rc = add_sources(rows, sources, count, &of_pairs, add_pair, err);
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
