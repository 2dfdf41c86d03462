/* SPDX-License-Identifier: Apache-2.0 */
/* loader_options.h - how samples become batches; see loader.h */
#ifndef DT_DATA_LOADER_OPTIONS_H
#define DT_DATA_LOADER_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dt_loader_options {
    size_t B;
    size_t multiple_of;  /* T is the longest row, rounded up to a multiple */
    size_t tokens;       /* the limit, at least the longest row; 0: none, and
                            every sample is a row */
    size_t accumulation; /* with the limit: micro-batches of B in a step */
    int rank, world;
    uint64_t seed;
    bool shuffle;    /* false: rows in the order of the data */
    bool repeat;     /* true (training): endless epochs. false (evaluation): one
                        pass; the last batches are filled with rows without
                        targets, so that all ranks see equally many batches */
    size_t workers;  /* threads that make batches, >= 1 */
    size_t prefetch; /* batches made ahead by all threads together, >= 1 */
    int timeout_ms;  /* how long dt_loader_next waits for a batch */
};

#endif /* DT_DATA_LOADER_OPTIONS_H */
