/* SPDX-License-Identifier: Apache-2.0 */
/* doctor_ranks.c - `disttrain doctor --ranks`: what each rank is doing */
#include "config.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "base/child.h"
#include "report/doing.h"

enum {
    ASK_MS = 20000,
    TEXT_BYTES = 16 * 1024 * 1024,
};

/* Starts a probe on each node; a node that does not answer is a finding. */
static int ask(const struct dt_doctor_world *world, const char *step,
               char *text, struct dt_error *err)
{
    struct dt_doctor_probes probes;
    if (dt_doctor_probes_init(&probes, world->job, world->list, world->count,
                              step, err) < 0)
        return -1;
    int status = dt_doctor_ask(probes.argv, ASK_MS, text, TEXT_BYTES, err);
    if (strstr(text, "end "))
        return 0;
    if (status >= 0)
        dt_error_set(err, EX_UNAVAILABLE, "srun: exit status %d", status);
    dt_error_prefix(err, "no node answers");
    return -1;
}

int dt_cmd_doctor_ranks(const struct dt_doctor_world *world, const char *step,
                        struct dt_error *err)
{
    char *text = calloc(1, TEXT_BYTES);
    if (!text)
        return dt_error_set(err, EX_OSERR, "out of memory");
    int rc = ask(world, step, text, err);
    if (rc == 0)
        rc = dt_doing_print(text, world->names, world->count, stdout, err);
    free(text);
    return rc;
}
