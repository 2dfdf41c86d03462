/* SPDX-License-Identifier: Apache-2.0 */
/* secret.h - what must not be written to files that people pass on */
#ifndef DT_BASE_SECRET_H
#define DT_BASE_SECRET_H

#include <stdbool.h>
#include <stddef.h>

#define DT_SECRET_REMOVED "(removed)"

/* Whether a key, a variable or an option of this name holds a secret: a word of
 * it is token, secret, password, credential, auth, or it ends in a key, such as
 * WANDB_API_KEY. Words are between characters that are no letters.
 */
bool dt_secret_name(const char *name);

/* Copies a value, with DT_SECRET_REMOVED in place of what looks like a secret
 * in any value: the user and password of a URL, an authorization, keys of known
 * services. free() it. NULL: out of memory.
 */
char *dt_secret_remove(const char *value);

#endif /* DT_BASE_SECRET_H */
