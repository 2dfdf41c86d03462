/* SPDX-License-Identifier: Apache-2.0 */
/* inherited.h - removes inherited variables that the user has not set */
#ifndef DTSPANK_INHERITED_H
#define DTSPANK_INHERITED_H

/* A step that is started inside one of our tasks inherits the task's variables.
 * Removes those that the plugin set and that still have the same value.
 */
void dtspank_inherited_forget_exported(void);

/* Removes all of our private variables (DT_ENV_PREFIX). */
void dtspank_inherited_forget_private(void);

#endif /* DTSPANK_INHERITED_H */
