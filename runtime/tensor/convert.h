/* SPDX-License-Identifier: Apache-2.0 */
/* convert.h - converts elements between types */
#ifndef DT_TENSOR_CONVERT_H
#define DT_TENSOR_CONVERT_H

#include <stdbool.h>
#include <stddef.h>

#include "tensor/view.h"

/* F32, BF16 or F16. */
static inline bool dt_dtype_is_float(enum dt_dtype dtype)
{
    return dtype == DT_F32 || dtype == DT_BF16 || dtype == DT_F16;
}

/* to(count) = from(count), rounded as half.h says. The types are equal, or both
 * floats, or F64 becomes a float, of two bytes by way of F32, as in PyTorch.
 * The memory does not overlap and needs no alignment.
 */
void dt_convert(void *to, enum dt_dtype to_dtype, const void *from,
                enum dt_dtype from_dtype, size_t count);

/* Whether none of data(count), floats, is NaN or infinite. No alignment is
 * needed.
 */
bool dt_is_finite(const void *data, enum dt_dtype dtype, size_t count);

#endif /* DT_TENSOR_CONVERT_H */
