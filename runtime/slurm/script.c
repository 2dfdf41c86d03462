/* SPDX-License-Identifier: Apache-2.0 */
/* script.c - writes a batch script from `launch:` */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "contract/contract.h"
#include "slurm/script.h"
#include "slurm/settings.h"
#include "slurm/submission.h"

/* Prints an #SBATCH line; sbatch parses it much as a shell would. */
static void print_option(const char *option, const char *value, FILE *out)
{
    fprintf(out, "#SBATCH --%s", option);
    if (value) {
        putc('=', out);
        dt_shell_print(value, out);
    }
    putc('\n', out);
}

/* The user's additional options for the job must reach the step as well:
 * otherwise srun would take the sizes from the file, which would contradict the
 * job's.
 */
static void print_srun(const struct dt_script *script,
                       const struct dt_conf *conf, FILE *out)
{
    fputs("srun", out);
    for (const struct dt_setting *s = dt_settings; s->key; s++) {
        size_t n = strlen(s->option);
        for (int i = 0; i < script->extra.count && s->of_step; i++) {
            const char *word = script->extra.word[i];
            if (strncmp(word + 2, s->option, n) != 0 || word[2 + n] != '=')
                continue;
            putc(' ', out);
            dt_shell_print(word, out);
        }
    }
    fputs(" --disttrain=", out);
    dt_shell_print(conf->file, out);
    dt_shell_print_overrides(conf, " --disttrain-set=", out);
}

/* Prints a loop that restarts the step. Exit status 75 requests a requeue;
 * anything that ends the job also ends the loop.
 */
static void print_loop(const struct dt_script *script,
                       const struct dt_conf *conf, FILE *out)
{
    long restarts = conf->launch.max_restarts;
    fputs("restarts=0\nuntil ", out);
    print_srun(script, conf, out);
    fprintf(out,
            "; do\n"
            "    status=$?\n"
            "    if ((status == 75 || restarts == %ld)); then\n"
            "        exit $status\n"
            "    fi\n"
            "    export TORCHELASTIC_RESTART_COUNT=$((++restarts))\n"
            "    echo \"exit status $status: restart $restarts of %ld\"\n"
            "done\n",
            restarts, restarts);
}

/* With this sum, srun can say that the file has changed when the job starts. */
static void print_sum(const struct dt_conf *conf, FILE *out)
{
    char *sum = dt_submission_sum(conf);
    if (!sum)
        return;
    fputs("export " DT_ENV_SUM "=", out);
    dt_shell_print(sum, out);
    putc('\n', out);
    free(sum);
}

void dt_script_print(const struct dt_script *script, const struct dt_conf *conf,
                     FILE *out)
{
    char text[DT_NAME_BYTES + 16], name[DT_NAME_BYTES];
    char number[DT_SETTING_BYTES];
    dt_job_name(conf, name);
    fprintf(out, "#!/bin/bash\n# %s: ", PACKAGE_STRING);
    fputs("disttrain sbatch ", out);
    dt_shell_print(conf->file, out);
    dt_shell_print_overrides(conf, " --set ", out);
    putc('\n', out);
    print_option("job-name", name, out);
    for (const struct dt_setting *s = dt_settings; s->key; s++) {
        const char *value = dt_setting_text(conf, s, number);
        if (value && !dt_srun_has(&script->extra, s->option, '\0'))
            print_option(s->option, value, out);
    }
    if (script->array)
        print_option("array", script->array, out);
    snprintf(text, sizeof(text), "%s-%s.out", name,
             script->array ? "%A_%a" : "%j");
    print_option("output", text, out);
    print_option("open-mode", "append", out);
    print_option(conf->launch.requeue ? "requeue" : "no-requeue", NULL, out);
    for (int i = 0; i < script->extra.count; i++) {
        fputs("#SBATCH ", out);
        dt_shell_print(script->extra.word[i], out);
        putc('\n', out);
    }
    putc('\n', out);
    if (script->with_sum)
        print_sum(conf, out);
    if (conf->launch.max_restarts > 0) {
        print_loop(script, conf, out);
    } else {
        print_srun(script, conf, out);
        putc('\n', out);
    }
}
