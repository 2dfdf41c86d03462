/* SPDX-License-Identifier: Apache-2.0 */
/* rank_times.h - how long each rank computes, over time, in bounded memory */
#ifndef DT_PAGE_RANK_TIMES_H
#define DT_PAGE_RANK_TIMES_H

#include <stddef.h>

#include "report/record.h"

enum { DT_RANK_BANDS = 64, DT_RANK_COLUMNS = 48 };

struct dt_rank_cell {
    double sum; /* of the time of the slowest rank over the median of all */
    unsigned count;
};

struct dt_rank_sums {
    double compute, comm, data; /* seconds a step, added up */
    double mem;                 /* bytes, the most */
    unsigned compute_n, comm_n, data_n;
};

struct dt_rank_times {
    size_t world;           /* 0: no lines */
    size_t bands, per_band; /* ranks of a band; the last one may have fewer */
    size_t columns, lines_a_column, lines;
    long first_step, last_step;
    struct dt_rank_cell cell[DT_RANK_BANDS][DT_RANK_COLUMNS];
    struct dt_rank_sums *sums; /* one a rank */
    double *sorted;            /* room for one line */
};

/* Adds a line of ranks.jsonl. A line of another world begins anew. Without
 * memory it is left out. Begin with zeros; release with dt_rank_times_fini.
 */
void dt_rank_times_add(struct dt_rank_times *times,
                       const struct dt_report_ranks *ranks);
void dt_rank_times_fini(struct dt_rank_times *times);

#endif /* DT_PAGE_RANK_TIMES_H */
