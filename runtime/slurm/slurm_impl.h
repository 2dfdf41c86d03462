/* SPDX-License-Identifier: Apache-2.0 */
/* slurm_impl.h - `launch:` as options and variables of Slurm */
#ifndef DT_SLURM_SLURM_IMPL_H
#define DT_SLURM_SLURM_IMPL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "slurm/job.h"

/* A key that corresponds to an option of srun and sbatch. */
struct dt_setting {
    const char *key;    /* key of the configuration */
    const char *option; /* "nodes", for --nodes=... */
    char letter;        /* 'N', for -N...; 0: none */
    bool of_step;       /* srun also accepts it within a job */
    size_t offset;      /* in struct dt_conf */
    bool is_text;       /* char *, else long */
    /* srun's input variables for it; which of them are read depends on the
     * release
     */
    const char *variables[3];
    /* other options ("w:nodelist") and variables that set the same */
    const char *others[9];
};

/* All settings, ending with a NULL key. */
extern const struct dt_setting dt_settings[];

enum { DT_SETTING_BYTES = 24 }; /* room for any number, terminated */

/* Returns the value as text, or NULL if the configuration leaves it to Slurm. A
 * number is written to buffer[DT_SETTING_BYTES].
 */
const char *dt_setting_text(const struct dt_conf *conf,
                            const struct dt_setting *setting, char *buffer);

enum { DT_NAME_BYTES = 256 };

/* Writes the name of a job: run.name, as far as it does not depend on what only
 * the job will know; "disttrain" if nothing is left.
 */
void dt_job_name(const struct dt_conf *conf, char name[DT_NAME_BYTES]);

/* Writes a word, quoted if necessary, so that a shell reads it back as one
 * word.
 */
void dt_shell_print(const char *word, FILE *out);

/* Writes each override of the configuration as a word after `option`, such as
 * " --set ".
 */
void dt_shell_print_overrides(const struct dt_conf *conf, const char *option,
                              FILE *out);

/* Fills in the size of a step from these words of srun, and from variables that
 * no option of the job has set (SLURM_NTASKS_PER_GPU). Returns
 * false if a number of ranks cannot be told from them, as for -N2-4, a
 * heterogeneous job, or the step of another job.
 */
bool dt_request_read_step(const struct dt_srun_words *words,
                          struct dt_slurm_size *size);

/* Returns "HASH:PATH" of the configuration's file, and of its DeepSpeed file,
 * for DT_ENV_SUM, to be freed. NULL: they cannot be read.
 */
char *dt_submission_sum(const struct dt_conf *conf);

#endif /* DT_SLURM_SLURM_IMPL_H */
