/* SPDX-License-Identifier: Apache-2.0 */
/* tensor.h - fills one tensor of a rank, sends it, and reads it back */
#ifndef DT_TESTS_COMM_TENSOR_H
#define DT_TESTS_COMM_TENSOR_H

#include <stdio.h>

#include "rank.h"

/* Checks a condition in a test with `c`, since a rank must not assert. */
#define TRY(condition)                                                         \
    do {                                                                       \
        if (!(condition)) {                                                    \
            fprintf(stderr, "# %s:%d: rank %d of %d: %s: %s\n", __FILE__,      \
                    __LINE__, c->rank.rank, c->rank.size, #condition,          \
                    c->err.text);                                              \
            return -1;                                                         \
        }                                                                      \
    } while (0)

enum {
    GUARD = 8,      /* elements around a tensor; keeps it aligned */
    ODD_GUARD = 11, /* the same, for a tensor that is not aligned */
};

struct ctx {
    struct rank rank;
    struct dt_error err;
    /* of the current case */
    struct dt_buffer *buf;
    struct dt_view v;
    unsigned char *before, *after; /* content of buf, in staging memory */
    dt_ticket_t ticket;
};

/* The elements before and after the operation, on the host. */
void *before(const struct ctx *c);
void *after(const struct ctx *c);

/* Makes c->v a view in the middle of a buffer, with `guard` elements of a
 * pattern at each end. Like those below, returns -1 after printing the reason.
 */
int open_case(struct ctx *c, size_t count, enum dt_dtype dtype, size_t guard);

/* Queues a copy of the elements to the device. */
int upload(struct ctx *c);

/* Queues a copy back after the operation c->ticket, and waits for it. */
int download(struct ctx *c);

/* Checks that the guards are unchanged, and frees everything. */
int close_case(struct ctx *c);

#endif /* DT_TESTS_COMM_TENSOR_H */
