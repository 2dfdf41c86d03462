/* SPDX-License-Identifier: Apache-2.0 */
/* tensor_names.h - prints many tensor names in a short text */
#ifndef DT_WEIGHTS_TENSOR_NAMES_H
#define DT_WEIGHTS_TENSOR_NAMES_H

#include <stddef.h>

/* Sorts names(count) and writes them to text(room), separated by commas. Names
 * that differ only in a layer number are merged: "h.0-3,5.ln_1.bias". After the
 * first few it says "and 7 more". Control characters become '?'.
 */
void dt_tensor_names_print(char *text, size_t room, const char **names,
                           size_t count);

#endif /* DT_WEIGHTS_TENSOR_NAMES_H */
