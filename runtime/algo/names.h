/* SPDX-License-Identifier: Apache-2.0 */
/* names.h - many names of tensors in few words */
#ifndef DT_ALGO_NAMES_H
#define DT_ALGO_NAMES_H

#include <stddef.h>

/* Writes names(count) to text(room), sorted here, with commas between them;
 * those that differ in the number of a layer are one: "h.0-3,5.ln_1.bias". The
 * first few are told, then "and 7 more"; control characters are '?'.
 */
void dt_names_print(char *text, size_t room, const char **names, size_t count);

#endif /* DT_ALGO_NAMES_H */
