/* SPDX-License-Identifier: Apache-2.0 */
/*
 * huge.h - huge pages of host memory
 *
 * Most kernels give files in memory small pages, of which each costs a fault at
 * first, and misses in the TLB later, a few percent of a step. But they combine
 * pages into huge ones where a process asks for it.
 */
#ifndef DT_DEVICE_HUGE_H
#define DT_DEVICE_HUGE_H

#include <stddef.h>

enum { DT_HUGE_PAGE = 2 << 20 }; /* bytes; begins at a multiple of it */

/* Gets the huge pages that are whole within `bytes` from `data` on, whose
 * content is kept. If the kernel refuses, that costs only speed.
 */
void dt_huge_combine(void *data, size_t bytes);

#endif /* DT_DEVICE_HUGE_H */
