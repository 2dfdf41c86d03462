/* SPDX-License-Identifier: Apache-2.0 */
/* sparse_map.c - sparse matrices of a batch, filled on the host, and uploaded
 * with their transposed, by which gradients go back
 */
#include "config.h"

#include "model/model_impl.h"

size_t dt_sparse_map_bytes(const struct dt_sparse_size *size)
{
    const size_t counts[] = {size->rows + 1, size->columns + 1, size->entries,
                             size->entries,  size->entries,     size->entries};
    size_t bytes = 0;
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
        bytes += dt_staged_bytes(counts[i] * sizeof(int32_t));
    return bytes;
}

void dt_sparse_map_begin(struct dt_sparse_map *map, struct dt_upload *upload,
                         const struct dt_sparse_size *size)
{
    *map = (struct dt_sparse_map){.size = *size};
    struct dt_sparse *plain = &map->plain, *back = &map->transposed;
    const size_t entries = size->entries;
    map->starts =
        dt_upload_reserve(upload, size->rows + 1, DT_I32, &plain->starts);
    map->columns = dt_upload_reserve(upload, entries, DT_I32, &plain->columns);
    map->values = dt_upload_reserve(upload, entries, DT_F32, &plain->values);
    map->back_starts =
        dt_upload_reserve(upload, size->columns + 1, DT_I32, &back->starts);
    map->back_columns =
        dt_upload_reserve(upload, entries, DT_I32, &back->columns);
    map->back_values =
        dt_upload_reserve(upload, entries, DT_F32, &back->values);
    map->starts[0] = 0;
}

void dt_sparse_map_add(struct dt_sparse_map *map, size_t column, float value)
{
    map->columns[map->entry] = (int32_t)column;
    map->values[map->entry++] = value;
}

void dt_sparse_map_end_row(struct dt_sparse_map *map)
{
    map->starts[++map->row] = (int32_t)map->entry;
}

/* Entries of a column are in the order of rows. */
static void transpose(struct dt_sparse_map *map)
{
    int32_t *next = map->back_starts + 1; /* of column c: next[c - 1], ... */
    const size_t columns = map->size.columns;
    for (size_t c = 0; c <= columns; c++)
        map->back_starts[c] = 0;
    for (size_t e = 0; e < map->entry; e++)
        if ((size_t)map->columns[e] + 1 < columns)
            next[map->columns[e] + 1]++;
    for (size_t c = 1; c < columns; c++)
        next[c] += next[c - 1];
    for (size_t n = 0; n < map->row; n++) {
        for (int32_t e = map->starts[n]; e < map->starts[n + 1]; e++) {
            const int32_t to = next[map->columns[e]]++;
            map->back_columns[to] = (int32_t)n;
            map->back_values[to] = map->values[e];
        }
    }
}

void dt_sparse_map_finish(struct dt_sparse_map *map)
{
    while (map->row < map->size.rows)
        dt_sparse_map_end_row(map);
    transpose(map);
}
