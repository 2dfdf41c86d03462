/* SPDX-License-Identifier: Apache-2.0 */
/* rows_read.c - reads rows, whose tokens are in mapped files, with checks */
#include "config.h"

#include <assert.h>
#include <inttypes.h>

#include "base/file.h"
#include "batch/rows_impl.h"
#include "tensor/tensor.h"

int dt_rows_lost(struct dt_error *err)
{
    return dt_error_set(err, EX_IOERR,
                        "data: a cache of tokens was cut short while it is "
                        "read, or its disk fails");
}

/* The examples whose cache has these words. */
static const struct dt_examples *find_examples(const struct dt_rows *rows,
                                               const uint32_t *words)
{
    size_t low = 0, high = rows->cache_count;
    while (high - low > 1) {
        const size_t middle = low + (high - low) / 2;
        if (rows->caches[middle].first <= words)
            low = middle;
        else
            high = middle;
    }
    return rows->caches[low].examples;
}

int dt_rows_check(const struct dt_rows *rows, const uint32_t *tokens,
                  size_t count, struct dt_error *err)
{
    return dt_examples_check(find_examples(rows, tokens), tokens, count, err);
}

int dt_rows_name_image(const struct dt_rows *rows,
                       const struct dt_picture_image *image,
                       struct dt_error *err)
{
    dt_error_prefix(err, "image %" PRIu32, image->number);
    return dt_examples_name_line(find_examples(rows, image->example),
                                 image->line, err);
}

/* Row i has the pieces *begin .. *end - 1 of order. */
static void row_pieces(const struct dt_rows *rows, size_t i, size_t *begin,
                       size_t *end)
{
    *begin = rows->begin ? rows->begin[i] : i;
    *end = rows->begin ? rows->begin[i + 1] : i + 1;
}

/* The piece at place k of order. */
static size_t piece_number(const struct dt_rows *rows, size_t k)
{
    return rows->order ? rows->order[k] : k;
}

static const struct piece *piece_at(const struct dt_rows *rows, size_t k)
{
    return &rows->pieces[piece_number(rows, k)];
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

const struct dt_example_images *dt_rows_images(const struct dt_rows *rows)
{
    return rows->images;
}

/* Sums of the images of a row, each counted once. */
static struct dt_image_sums row_sums(const struct dt_rows *rows, size_t i)
{
    struct dt_image_sums sums = {0};
    size_t begin, end;
    if (!rows->images || rows->wrapped)
        return sums;
    row_pieces(rows, i, &begin, &end);
    for (size_t k = begin; k < end; k++) {
        const size_t piece = piece_number(rows, k);
        const struct dt_picture_part *part = &rows->parts[piece];
        sums.pictures += part->sums.pictures - part->shared.pictures;
        sums.patches += part->sums.patches - part->shared.patches;
    }
    return sums;
}

size_t dt_rows_pictures(const struct dt_rows *rows, size_t i)
{
    return row_sums(rows, i).pictures;
}

size_t dt_rows_patches(const struct dt_rows *rows, size_t i)
{
    return row_sums(rows, i).patches;
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
    return dt_rows_check(rows, piece->tokens + inside,
                         left < most ? left : most, err);
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

/* Reads tokens [n, end) of a piece into the row, whose position `start` is that
 * of the piece. The first token of a piece is nobody's target.
 */
static int read_text(const struct dt_rows *rows, const struct piece *piece,
                     size_t n, size_t end, const struct dt_row *row,
                     size_t start, struct dt_error *err)
{
    for (size_t t = start + n; n < end; n++, t++) {
        uint32_t token = piece->tokens[n];
        if (check_id(rows, token, &row->inputs[t], err) < 0)
            return -1;
        row->doc_start[t] = (int32_t)start;
        row->targets[t] = DT_IGNORE;
        if (n > 0 && token & DT_TARGET_BIT)
            row->targets[t - 1] = row->inputs[t];
    }
    return 0;
}

/* The same for tokens of a picture: the model need not know their id unless it
 * learns to predict it.
 */
static int read_picture(const struct dt_rows *rows, const struct piece *piece,
                        size_t n, size_t end, const struct dt_row *row,
                        size_t start, struct dt_error *err)
{
    for (size_t t = start + n; n < end; n++, t++) {
        uint32_t token = piece->tokens[n];
        row->inputs[t] = -1;
        row->doc_start[t] = (int32_t)start;
        row->targets[t] = DT_IGNORE;
        if (n > 0 && token & DT_TARGET_BIT &&
            check_id(rows, token, &row->targets[t - 1], err) < 0)
            return -1;
    }
    return 0;
}

/* Appends the pictures of piece k; the second one of a pair may share those of
 * the first.
 */
static int read_pictures(const struct dt_rows *rows, size_t k,
                         struct dt_pictures *found, struct dt_error *err)
{
    const struct dt_picture_part *part = &rows->parts[k];
    const bool second = rows->pairs && k % 2 == 1;
    if (dt_pictures_add(found, part, second ? part - 1 : NULL, rows->images,
                        err) == 0)
        return 0;
    return dt_error_prefix(err, "data: example %" PRIu64 " of the cache",
                           part->number + 1);
}

/* Reads piece k of all into the row, from position `start` on. */
static int read_piece(const struct dt_rows *rows, size_t k,
                      const struct dt_row *row, size_t start,
                      struct dt_error *err)
{
    const struct piece *piece = &rows->pieces[k];
    struct dt_pictures none = {0},
                       *found = rows->images ? row->pictures : &none;
    size_t i = found->picture_count, n = 0;
    if (dt_rows_check(rows, piece->tokens, piece->count, err) < 0)
        return -1;
    if (rows->images && read_pictures(rows, k, found, err) < 0)
        return -1;
    for (; i < found->picture_count; i++) {
        struct dt_batch_picture *picture = &found->pictures[i];
        const size_t first = picture->first, end = first + picture->tokens;
        if (read_text(rows, piece, n, first, row, start, err) < 0 ||
            read_picture(rows, piece, first, end, row, start, err) < 0)
            return -1;
        picture->first += start;
        n = end;
    }
    return read_text(rows, piece, n, piece->count, row, start, err);
}

static int read_pieces(const struct dt_rows *rows, size_t i,
                       const struct dt_row *row, struct dt_error *err)
{
    size_t begin, end, start = 0;
    row_pieces(rows, i, &begin, &end);
    for (size_t k = begin; k < end; k++) {
        const size_t piece = piece_number(rows, k);
        if (read_piece(rows, piece, row, start, err) < 0)
            return -1;
        start += rows->pieces[piece].count;
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
    assert(row->pictures || !rows->images);
    struct reading reading = {rows, i, row, err, 0};
    if (rows->dataset)
        reading.result = read_stream(rows, i, row, err);
    else if (dt_guard_run(read_examples, &reading) < 0)
        return dt_rows_lost(err);
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
