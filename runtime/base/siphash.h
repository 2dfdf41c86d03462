/* SPDX-License-Identifier: Apache-2.0 */
/* siphash.h - a short proof that one knows a key: SipHash-2-4, 128 bits */
#ifndef DT_BASE_SIPHASH_H
#define DT_BASE_SIPHASH_H

#include <stddef.h>
#include <stdint.h>

enum { DT_SIPHASH_BYTES = 16 }; /* of a key, and of a result */

/* Writes the keyed hash of the data: who does not know the key can neither
 * compute nor guess it, however many others he has seen.
 */
void dt_siphash(const uint8_t key[DT_SIPHASH_BYTES], const void *data,
                size_t bytes, uint8_t hash[DT_SIPHASH_BYTES]);

#endif /* DT_BASE_SIPHASH_H */
