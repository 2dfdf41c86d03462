/* SPDX-License-Identifier: Apache-2.0 */
/* inherited.h - what an srun finds in its environment that is not the user's */
#ifndef DTSPANK_INHERITED_H
#define DTSPANK_INHERITED_H

/* A step started inside a task of ours inherits the task's variables. Takes out
 * those that the plugin had set there and nobody has changed.
 */
void dtspank_inherited_forget_exported(void);

/* Takes out everything under our private names (DT_ENV_PREFIX). */
void dtspank_inherited_forget_private(void);

#endif /* DTSPANK_INHERITED_H */
