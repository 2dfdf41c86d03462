/* SPDX-License-Identifier: Apache-2.0 */
/*
 * secret.h - keeps secrets out of files and messages that people pass on
 *
 * Secrets are known by their names, by their looks, and by heart: learned
 * values are removed wherever they occur. Texts of errors, of the log, of the
 * console and of everything that a run records go through here.
 */
#ifndef DT_BASE_SECRET_H
#define DT_BASE_SECRET_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DT_SECRET_REMOVED "(removed)"

enum { DT_SECRET_LEAST = 8 }; /* bytes of a value that is learned */

/* Whether a key, a variable or an option of this name holds a secret: one of
 * its words is token, secret, password, credential, auth ..., or it ends in
 * key, pass, pwd or pat, as WANDB_API_KEY and github.pat do. Names of tokens of
 * text (pad_token, last_token), and those that end in a word for something
 * about a secret (token_file, SSH_AUTH_SOCK), do not.
 */
bool dt_secret_name(const char *name);

/* Whether a value is a reference to a variable, ${NAME} or ${NAME:?}, and so no
 * secret itself.
 */
bool dt_secret_refers(const char *value);

/* Copies a text, with DT_SECRET_REMOVED in place of each secret: learned
 * values, the user and password of a URL, an authorization, keys of known
 * services, and the value in `name=value`, `name: value`, "name": "value" and
 * `--name value` where dt_secret_name knows the name. JSON stays JSON. free()
 * it. NULL: out of memory.
 */
char *dt_secret_remove(const char *text);

/* The same without learned values: equal on all ranks, whatever is in their
 * environments.
 */
char *dt_secret_remove_seen(const char *text);

/* The same as dt_secret_remove in place, in a buffer of `size` bytes; the end
 * of the text is cut if it no longer fits. Allocates nothing.
 */
void dt_secret_clean(char *text, size_t size);

/* Learns a value of at least DT_SECRET_LEAST bytes; a shorter one is only known
 * by its name and place. Call it before threads start. Without memory nothing
 * is learned.
 */
void dt_secret_learn(const char *value);

/* Learns each value that dt_secret_remove would remove from a text. */
void dt_secret_learn_text(const char *text);

/* Learns the value of a variable or key, if its name is that of a secret, or
 * else the secrets in it.
 */
void dt_secret_learn_named(const char *name, const char *value);

/* Learns the variables of the environment. */
void dt_secret_learn_environment(void);

#ifdef __cplusplus
}
#endif

#endif /* DT_BASE_SECRET_H */
