/* SPDX-License-Identifier: Apache-2.0 */
/* options.c - the option table; `srun --help` prints its help texts */
#include "config.h"

#include <stdlib.h>

#include "spank/options.h"

static dtspank_options_take_f *take_value, *take_override;

/* On a node nobody takes the value: srun has passed everything for the tasks in
 * the environment, and slurmstepd, which is root here, does not look at the
 * value.
 *
 * exit() instead of -1, which would make srun print a second message and return
 * 255. This is the user's own srun, sbatch or salloc, before it submits
 * anything.
 */
static int on_disttrain(int val, const char *value, int remote)
{
    (void)val;
    (void)remote;
    if (take_value && take_value(value) != 0)
        exit(EXIT_FAILURE);
    return 0;
}

static int on_set(int val, const char *value, int remote)
{
    (void)val;
    (void)remote;
    if (take_override && take_override(value) != 0)
        exit(EXIT_FAILURE);
    return 0;
}

static struct spank_option options[] = {
    {
        .name = "disttrain",
        .arginfo = "FILE",
        .usage = "check the configuration FILE, take srun's defaults from it, "
                 "set RANK, MASTER_ADDR and other variables in each task and, "
                 "without a command, run what FILE says; \"env\": no file, "
                 "set the variables only; \"none\": turn this off",
        .has_arg = 1,
        .cb = on_disttrain,
    },
    {
        .name = "disttrain-set",
        .arginfo = "KEY=VALUE",
        .usage = "with --disttrain=FILE: take this value of a key, whatever "
                 "FILE says; may be given several times",
        .has_arg = 1,
        .cb = on_set,
    },
};

int dtspank_options_register(spank_t spank, dtspank_options_take_f *take,
                             dtspank_options_take_f *take_set)
{
    take_value = take;
    take_override = take_set;
    for (size_t i = 0; i < sizeof(options) / sizeof(*options); i++) {
        spank_err_t rc = spank_option_register(spank, &options[i]);
        if (rc != ESPANK_SUCCESS) {
            slurm_error("disttrain: cannot register --%s: %s", options[i].name,
                        spank_strerror(rc));
            return -1;
        }
    }
    return 0;
}

/* getopt takes the next word as the value, whatever it is. */
int dtspank_options_check(const char *value, struct dt_error *err)
{
    if (value[0] == '\0')
        return dt_error_set(err, EX_USAGE,
                            "--disttrain: expected a file, \"" DTSPANK_NO_FILE
                            "\" or \"" DTSPANK_OFF "\", got nothing");
    if (value[0] == '-')
        return dt_error_set(
            err, EX_USAGE,
            "--disttrain needs a value: FILE.yaml or " DTSPANK_NO_FILE
            "; here it is followed by %s",
            value);
    return 0;
}
