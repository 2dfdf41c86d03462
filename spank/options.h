/* SPDX-License-Identifier: Apache-2.0 */
/* options.h - the options that the plugin adds to srun, sbatch and salloc */
#ifndef DTSPANK_OPTIONS_H
#define DTSPANK_OPTIONS_H

#include <slurm/spank.h>

/* Slurm keeps the option of a job in its job control environment under this
 * name, made from those of the plugin and of the option, ...
 */
#define DTSPANK_JOB_OPTION "_SLURM_SPANK_OPTION_disttrain_disttrain"

/* ... sbatch and salloc hand that environment on to the job with a prefix, and
 * srun, sbatch and salloc take a variable of that name for the option.
 */
#define DTSPANK_PRESET "SLURM_SPANK_" DTSPANK_JOB_OPTION

/* The value that switches the plugin off, ... */
#define DTSPANK_OFF "none"

/* ... and the one for a command that needs the variables and no config. */
#define DTSPANK_NO_FILE "env"

/* Registers the option table; to be called from slurm_spank_init, in every
 * context. Returns 0 or -1, after a message.
 */
int dtspank_options_register(spank_t spank);

#endif /* DTSPANK_OPTIONS_H */
