/* SPDX-License-Identifier: Apache-2.0 */
/* gather.c - gathers numbers as a sum to which each rank adds its own */
#include "config.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "run/gather.h"

enum { PACKED = 6 }; /* bytes in a double, whose whole numbers have 53 bits */

int dt_gather(struct dt_comm *comm, const double *mine, size_t count,
              double *all, struct dt_error *err)
{
    const size_t world = (size_t)dt_comm_size(comm);
    memset(all, 0, world * count * sizeof(*all));
    memcpy(all + (size_t)dt_comm_rank(comm) * count, mine,
           count * sizeof(*all));
    return world > 1
               ? dt_comm_reduce_scalars(comm, all, world * count, DT_SUM, err)
               : 0;
}

static void pack(const void *data, size_t bytes, double *to)
{
    const unsigned char *from = data;
    for (size_t i = 0; i < bytes; i += PACKED) {
        uint64_t bits = 0;
        for (size_t b = 0; b < PACKED && i + b < bytes; b++)
            bits |= (uint64_t)from[i + b] << 8 * b;
        to[i / PACKED] = (double)bits;
    }
}

static void unpack(const double *from, size_t numbers, char *text)
{
    for (size_t i = 0; i < numbers * PACKED; i++)
        text[i] = (char)((uint64_t)from[i / PACKED] >> 8 * (i % PACKED));
    text[numbers * PACKED] = '\0';
}

int dt_gather_texts(struct dt_comm *comm, const char *mine, size_t bytes,
                    char *texts, struct dt_error *err)
{
    const size_t world = (size_t)dt_comm_size(comm), n = bytes / PACKED;
    double *all = calloc((world + 1) * n, sizeof(*all));
    if (!all)
        return dt_error_set(err, EX_OSERR, "out of memory");
    pack(mine, strnlen(mine, bytes), all + world * n);
    int rc = dt_gather(comm, all + world * n, n, all, err);
    for (size_t r = 0; rc == 0 && r < world; r++)
        unpack(all + r * n, n, texts + r * (bytes + 1));
    free(all);
    return rc;
}

int dt_gather_bytes_of(struct dt_comm *comm, int root, void *data, size_t bytes,
                       struct dt_error *err)
{
    const size_t n = (bytes + PACKED - 1) / PACKED;
    double *numbers = calloc(n, sizeof(*numbers));
    char *whole = malloc(n * PACKED + 1);
    int rc = 0;
    if (!numbers || !whole)
        rc = dt_error_set(err, EX_OSERR, "out of memory");
    if (rc == 0 && dt_comm_rank(comm) == root)
        pack(data, bytes, numbers);
    if (rc == 0 && dt_comm_size(comm) > 1)
        rc = dt_comm_reduce_scalars(comm, numbers, n, DT_MAX, err);
    if (rc == 0) {
        unpack(numbers, n, whole);
        memcpy(data, whole, bytes);
    }
    free(whole);
    free(numbers);
    return rc;
}

int dt_gather_text_of(struct dt_comm *comm, int root, char *text, size_t bytes,
                      struct dt_error *err)
{
    const size_t length = strnlen(text, bytes);
    memset(text + length, 0, bytes - length);
    int rc = dt_gather_bytes_of(comm, root, text, bytes, err);
    text[bytes - 1] = '\0';
    return rc;
}
