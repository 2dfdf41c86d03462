/* SPDX-License-Identifier: Apache-2.0 */
/* utf8.h - checks whether text is well-formed UTF-8 */
#ifndef DT_BASE_UTF8_H
#define DT_BASE_UTF8_H

#include <stddef.h>

/* The offset of the first byte that does not begin a well-formed sequence
 * (Unicode 15, table 3-7: no overlong forms, surrogates, or code points above
 * 10FFFF), or `bytes` if there is none.
 */
size_t dt_utf8_check(const void *text, size_t bytes);

#endif /* DT_BASE_UTF8_H */
