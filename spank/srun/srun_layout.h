/* SPDX-License-Identifier: Apache-2.0 */
/*
 * srun_layout.h - asks the controller which tasks of a step run on which node
 */
#ifndef DTSPANK_SRUN_LAYOUT_H
#define DTSPANK_SRUN_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

#include <slurm/slurm.h>

/* Asks the controller, because only it knows where tasks are under
 * --distribution=arbitrary. The function is looked up at run time, because
 * Slurm does not promise it to plugins. Returns NULL if there is no answer;
 * release the layout with dtspank_layout_release.
 */
slurm_step_layout_t *dtspank_layout_get(uint32_t job, uint32_t step);

/* Frees a layout; NULL is fine. */
void dtspank_layout_release(slurm_step_layout_t *layout);

/* Writes the name of the node that has task 0. -1: no node has it, or the name
 * does not fit.
 */
int dtspank_layout_rank0(const slurm_step_layout_t *layout, char *host,
                         size_t size);

#endif /* DTSPANK_SRUN_LAYOUT_H */
