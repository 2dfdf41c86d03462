/* SPDX-License-Identifier: Apache-2.0 */
/* utf8.h - is this text UTF-8? */
#ifndef DT_DATA_UTF8_H
#define DT_DATA_UTF8_H

#include <stddef.h>

/* Offset of the first byte that does not begin a well-formed sequence (Unicode
 * 15, table 3-7: no overlong forms, surrogates, or code points above 10FFFF),
 * or `bytes` if all is well.
 */
size_t dt_utf8_check(const void *text, size_t bytes);

#endif /* DT_DATA_UTF8_H */
