/* SPDX-License-Identifier: Apache-2.0 */
/* layout.h - which task of a step is on which node, as the controller says */
#ifndef DTSPANK_LAYOUT_H
#define DTSPANK_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

#include <slurm/slurm.h>

/* Asks the controller, because only it knows where tasks are under
 * --distribution=arbitrary. Looked up at run time, because it is not one of the
 * functions that Slurm promises to plugins. NULL: no answer.
 */
slurm_step_layout_t *dtspank_layout_get(uint32_t job, uint32_t step);

/* NULL is fine. */
void dtspank_layout_release(slurm_step_layout_t *layout);

/* Name of the node that has task 0. -1: none has, or size is too small. */
int dtspank_layout_rank0(const slurm_step_layout_t *layout, char *host,
                         size_t size);

#endif /* DTSPANK_LAYOUT_H */
