/* SPDX-License-Identifier: Apache-2.0 */
/* sha256.h - a name that nobody can make for other bytes: SHA-256 */
#ifndef DT_BASE_SHA256_H
#define DT_BASE_SHA256_H

#include <stddef.h>
#include <stdint.h>

enum {
    DT_SHA256_BYTES = 32,
    DT_SHA256_HEX = 2 * DT_SHA256_BYTES + 1, /* as text, with its end */
};

/* Writes the SHA-256 of the data. */
void dt_sha256(const void *data, size_t bytes, uint8_t hash[DT_SHA256_BYTES]);

/* A hash in lower-case hexadecimal digits. */
void dt_sha256_text(const uint8_t hash[DT_SHA256_BYTES],
                    char hex[DT_SHA256_HEX]);

/* That of the data. */
void dt_sha256_hex(const void *data, size_t bytes, char hex[DT_SHA256_HEX]);

#endif /* DT_BASE_SHA256_H */
