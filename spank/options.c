/* SPDX-License-Identifier: Apache-2.0 */
/* options.c - the option table; its help texts are what `srun --help` says */
#include "config.h"

#include <stdlib.h>

#include "spank/options.h"
#include "spank/srun/submit.h"

/* On a node the value is of no use: srun has shipped all that the tasks need in
 * the environment, and slurmstepd, which is root here, looks at none of it.
 *
 * exit() instead of -1, which would make srun print a second message and return
 * 255. This is the user's own srun, sbatch or salloc, before any submission.
 */
static int on_disttrain(int val, const char *value, int remote)
{
    (void)val;
    if (!remote && dtspank_submit_option(value) != 0)
        exit(EXIT_FAILURE);
    return 0;
}

static struct spank_option options[] = {
    {
        .name = "disttrain",
        .arginfo = "FILE",
        .usage = "check the training config FILE, take srun's defaults from "
                 "it, export the launch variables (RANK, MASTER_ADDR, ...) to "
                 "each task and, with no command given, run what FILE says; "
                 "\"env\": no file, the variables only; \"none\": switch off",
        .has_arg = 1,
        .cb = on_disttrain,
    },
};

int dtspank_options_register(spank_t spank)
{
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
