/* SPDX-License-Identifier: Apache-2.0 */
/* pack.h - packs documents into few rows */
#ifndef DT_DATA_PACK_H
#define DT_DATA_PACK_H

#include <stddef.h>
#include <stdint.h>

/* Packs best-fit decreasing (Johnson 1973): documents by decreasing length,
 * equal ones in their order, each into the fullest bin that has room for it; of
 * equally full bins, into the one that became so first. lengths(count) are
 * 1 .. capacity in any order. Fills order(count) with the documents bin by bin,
 * bins in the order in which they were opened; those of bin b are
 * order[begin[b]] .. order[begin[b + 1] - 1]. `begin` has room for count + 1.
 * Returns the number of bins, or SIZE_MAX if out of memory.
 */
size_t dt_pack_best_fit(const uint32_t *lengths, size_t count,
                        uint32_t capacity, size_t *order, size_t *begin);

#endif /* DT_DATA_PACK_H */
