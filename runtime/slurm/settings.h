/* SPDX-License-Identifier: Apache-2.0 */
/* settings.h - `launch:` in the words of srun and sbatch */
#ifndef DT_CMD_SETTINGS_H
#define DT_CMD_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "conf/conf.h"

/* One key that stands for an option of srun and sbatch. */
struct dt_setting {
    const char *key;    /* of the configuration */
    const char *option; /* "nodes", for --nodes=... */
    char letter;        /* 'N', for -N...; 0: none */
    bool of_step;       /* srun takes it in an existing job, too */
    size_t offset;      /* in struct dt_conf */
    bool is_text;       /* char *, else long */
    /* srun's input of the same meaning; releases differ in which they read */
    const char *variables[3];
    /* options "w:nodelist" and variables that say the same otherwise */
    const char *others[9];
};

/* Ends with a NULL key. */
extern const struct dt_setting dt_settings[];

enum { DT_SETTING_BYTES = 24 }; /* room for any number, terminated */

/* The value, as text, or NULL if the configuration leaves it to Slurm. A number
 * is written to buffer[DT_SETTING_BYTES].
 */
const char *dt_setting_text(const struct dt_conf *conf,
                            const struct dt_setting *setting, char *buffer);

/* Writes a word so that a shell reads it back as one, in quotes if need be. */
void dt_shell_print(const char *word, FILE *out);

#endif /* DT_CMD_SETTINGS_H */
