/* SPDX-License-Identifier: Apache-2.0 */
/*
 * checksum.h - cyclic redundancy checks of 32 bits, as files of others have
 *
 * Reflected, from ones, inverted at the end: of "123456789" that of IEEE is
 * cbf43926, that of Castagnoli e3069283.
 */
#ifndef DT_REPORT_CHECKSUM_H
#define DT_REPORT_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

/* Polynomials, the lowest power in the highest bit. */
#define DT_CHECKSUM_IEEE 0xedb88320u
#define DT_CHECKSUM_CASTAGNOLI 0x82f63b78u

struct dt_checksum {
    uint32_t of_byte[256];
};

/* Fills the table of a polynomial. */
void dt_checksum_init(struct dt_checksum *checksum, uint32_t polynomial);

/* The checksum of what `before` is the checksum of (0: of nothing) and of
 * `bytes` more.
 */
uint32_t dt_checksum_add(const struct dt_checksum *checksum, uint32_t before,
                         const void *data, size_t bytes);

#endif /* DT_REPORT_CHECKSUM_H */
