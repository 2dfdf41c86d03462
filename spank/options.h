/* SPDX-License-Identifier: Apache-2.0 */
/* options.h - adds the plugin's option to srun, sbatch and salloc */
#ifndef DTSPANK_OPTIONS_H
#define DTSPANK_OPTIONS_H

#include <slurm/spank.h>

#include "base/error.h"

/* Slurm keeps a job's option in its job control environment under this name,
 * made from the names of the plugin and the option.
 */
#define DTSPANK_JOB_OPTION "_SLURM_SPANK_OPTION_disttrain_disttrain"

/* sbatch and salloc pass that environment on to the job with a prefix, and
 * srun, sbatch and salloc read a variable of this name as the option.
 */
#define DTSPANK_PRESET "SLURM_SPANK_" DTSPANK_JOB_OPTION

/* As above for the overrides, as one list (DT_ENV_OVERRIDES). They belong to
 * the file of the job.
 */
#define DTSPANK_JOB_OVERRIDES "_SLURM_SPANK_OPTION_disttrain_disttrain_set"
#define DTSPANK_PRESET_OVERRIDES "SLURM_SPANK_" DTSPANK_JOB_OVERRIDES

/* The value of the option that sbatch or salloc has given to the job, next to
 * it: the sruns of that job have it, and jobs that the job submits do not. It
 * is absent if the value came from the user's environment.
 */
#define DTSPANK_JOB_OWN "DISTTRAIN_JOB_OPTION"
#define DTSPANK_PRESET_OWN "SLURM_SPANK_" DTSPANK_JOB_OWN

/* The value that switches the plugin off. */
#define DTSPANK_OFF "none"

/* The value for a command that needs the variables but no config. */
#define DTSPANK_NO_FILE "env"

/* Takes the value of an option; returns 0, or -1 after a message. */
typedef int dtspank_options_take_f(const char *value);

/* Registers the option table; call it from slurm_spank_init, in every context.
 * srun, sbatch and salloc pass the values of --disttrain to `take`, and those
 * of --disttrain-set to `take_set`; if that fails, they exit. In a task, and in
 * an srun that takes nothing, both are NULL. Returns 0, or -1 after a message.
 */
int dtspank_options_register(spank_t spank, dtspank_options_take_f *take,
                             dtspank_options_take_f *take_set);

/* Refuses a value that is no configuration: nothing, or another option. */
int dtspank_options_check(const char *value, struct dt_error *err);

#endif /* DTSPANK_OPTIONS_H */
