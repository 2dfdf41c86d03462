/* SPDX-License-Identifier: Apache-2.0 */
/* checksum.c - computes a CRC a byte at a time */
#include "config.h"

#include "report/checksum.h"

void dt_checksum_init(struct dt_checksum *checksum)
{
    enum { POLYNOMIAL = 0x82f63b78 }; /* the lowest power in the highest bit */
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t crc = byte;
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? POLYNOMIAL : 0);
        checksum->of_byte[byte] = crc;
    }
}

uint32_t dt_checksum_add(const struct dt_checksum *checksum, uint32_t before,
                         const void *data, size_t bytes)
{
    const uint8_t *at = data;
    uint32_t crc = ~before;
    for (size_t i = 0; i < bytes; i++)
        crc = crc >> 8 ^ checksum->of_byte[(crc ^ at[i]) & 0xff];
    return ~crc;
}
