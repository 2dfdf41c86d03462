/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loader_most.c - the most pictures and patches that a micro-batch can have
 *
 * In no order of rows has a batch more than the rows with the most for their
 * room: the room of a row is 1 of B or, with a limit of tokens, its length, of
 * which the last row that does not fit takes a share.
 */
#include "config.h"

#include <stdlib.h>

#include "batch/loader.h"

/* The one with more for its room comes first. */
static int by_density(const void *a, const void *b)
{
    const struct dt_most_item *x = a, *y = b;
    const uint64_t left = (uint64_t)x->value * y->room;
    const uint64_t right = (uint64_t)y->value * x->room;
    return (left < right) - (left > right);
}

size_t dt_most_value(struct dt_most_item *items, size_t count, uint64_t uses,
                     size_t room)
{
    size_t value = 0;
    qsort(items, count, sizeof(*items), by_density);
    for (size_t i = 0; i < count && room > 0; i++) {
        const size_t fit = room / items[i].room;
        const size_t used = fit < uses ? fit : (size_t)uses;
        value += used * items[i].value;
        room -= used * items[i].room;
        if (used < uses) {
            value +=
                (room * items[i].value + items[i].room - 1) / items[i].room;
            room = 0;
        }
    }
    return value;
}

/* How often a row can be among the samples that a batch is taken from, which
 * have consecutive numbers: once in an epoch.
 */
static uint64_t count_uses(const struct dt_loader_options *options,
                           uint64_t rows)
{
    const uint64_t samples =
        options->tokens > 0
            ? (uint64_t)options->world * options->B * options->accumulation
            : options->B;
    return options->repeat ? (samples - 1 + rows - 1) / rows + 1 : 1;
}

int dt_loader_most(const struct dt_rows *rows,
                   const struct dt_loader_options *options,
                   struct dt_loader_most *most, struct dt_error *err)
{
    const size_t count = dt_rows_count(rows);
    const uint64_t uses = count_uses(options, count);
    const size_t room = options->tokens > 0 ? options->tokens : options->B;
    size_t n = 0;
    *most = (struct dt_loader_most){0};
    if (!dt_rows_images(rows))
        return 0;
    struct dt_most_item *pictures = calloc(count, sizeof(*pictures));
    struct dt_most_item *patches = calloc(count, sizeof(*patches));
    for (size_t i = 0; pictures && patches && i < count; i++) {
        const size_t need = options->tokens > 0 ? dt_rows_length(rows, i) : 1;
        const size_t of_row = dt_rows_pictures(rows, i);
        if (of_row == 0)
            continue;
        pictures[n] = (struct dt_most_item){of_row, need};
        patches[n++] = (struct dt_most_item){dt_rows_patches(rows, i), need};
    }
    if (pictures && patches) {
        most->pictures = dt_most_value(pictures, n, uses, room);
        most->patches = dt_most_value(patches, n, uses, room);
    }
    int rc = pictures && patches
                 ? 0
                 : dt_error_set(err, EX_OSERR, "data: out of memory");
    free(pictures);
    free(patches);
    return rc;
}
