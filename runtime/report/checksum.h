/* SPDX-License-Identifier: Apache-2.0 */
/*
 * checksum.h - CRC-32C, as TensorBoard's files have
 *
 * Castagnoli's polynomial, reflected, from ones, inverted at the end: of
 * "123456789" it is e3069283.
 */
#ifndef DT_REPORT_CHECKSUM_H
#define DT_REPORT_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

struct dt_checksum {
    uint32_t of_byte[256];
};

/* Fills the table. */
void dt_checksum_init(struct dt_checksum *checksum);

/* The checksum of what `before` is the checksum of (0: of nothing) and of
 * `bytes` more.
 */
uint32_t dt_checksum_add(const struct dt_checksum *checksum, uint32_t before,
                         const void *data, size_t bytes);

#endif /* DT_REPORT_CHECKSUM_H */
