/* SPDX-License-Identifier: Apache-2.0 */
/* limits.h - what the system lets this process have */
#ifndef DT_BASE_LIMITS_H
#define DT_BASE_LIMITS_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#include "base/error.h"

/* Makes sure that `more` files can be opened besides those that are, by raising
 * the soft limit as far as it takes. -1: EX_OSERR with the hard limit and who
 * can raise it.
 */
int dt_limits_open_files(size_t more, struct dt_error *err);

#ifdef __cplusplus
}
#endif

#endif /* DT_BASE_LIMITS_H */
