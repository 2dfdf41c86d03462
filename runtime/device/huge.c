/* SPDX-License-Identifier: Apache-2.0 */
/* huge.c - huge pages of host memory */
#include "config.h"

#include <stdint.h>
#include <sys/mman.h>

#include "device/huge.h"

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25 /* since Linux 6.1 */
#endif

/* Each of them needs one page to begin with. */
void dt_huge_combine(void *data, size_t bytes)
{
    const size_t before = (size_t)(-(uintptr_t)data % DT_HUGE_PAGE);
    if (bytes < before + DT_HUGE_PAGE)
        return;
    char *first = (char *)data + before;
    const size_t whole = (bytes - before) / DT_HUGE_PAGE * DT_HUGE_PAGE;
    for (size_t at = 0; at < whole; at += DT_HUGE_PAGE)
        (void)*(volatile char *)(first + at);
    madvise(first, whole, MADV_COLLAPSE);
}
