/* SPDX-License-Identifier: Apache-2.0 */
/* pack.h - documents into as few rows as possible */
#ifndef DT_DATA_PACK_H
#define DT_DATA_PACK_H

#include <stddef.h>
#include <stdint.h>

/* Best-fit decreasing (Johnson 1973): the longest first, equal ones in their
 * order, each into the fullest bin that it fits into, the oldest of equally
 * full ones. lengths(count) are 1 .. capacity, in any order. order(count)
 * becomes their numbers bin by bin, bins in the order in which they were
 * opened; those of bin b are order[begin[b]] .. order[begin[b + 1] - 1], begin
 * has room for count + 1. Returns the number of bins, or SIZE_MAX if memory is
 * out.
 */
size_t dt_pack_best_fit(const uint32_t *lengths, size_t count,
                        uint32_t capacity, size_t *order, size_t *begin);

#endif /* DT_DATA_PACK_H */
