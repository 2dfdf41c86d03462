/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_verify.c - `disttrain verify`: compares checkpoints with their sums */
#include "config.h"

#include <stdio.h>
#include <string.h>
#include <sysexits.h>

#include "ckpt/ckpt.h"
#include "cmd/cmd_impl.h"

static const struct dt_option table[] = {{0}};

static const struct dt_cmd_line line = {
    "verify",
    "usage: disttrain verify RUN\n\n"
    "Reads every file of a checkpoint and compares it with its checksum.\n"
    "RUN is a checkpoint, or the run.output_dir of a run, whose checkpoints\n"
    "are all read, the newest first. Prints a line for each: whole, damaged\n"
    "or incomplete and why, or unknown if it cannot be read.\n",
    table, NULL};

/* The word for a checkpoint against which this is said. */
static const char *verdict(const struct dt_error *why)
{
    return why->status == EX_DATAERR   ? "damaged"
           : why->status == EX_NOINPUT ? "incomplete"
                                       : "unknown";
}

/* The exit status so far: what cannot be read comes before what is damaged. */
static int worse(int status, const struct dt_error *why)
{
    const int is = why->status == EX_NOINPUT ? EX_DATAERR : why->status;
    return status == EX_OK || status == EX_DATAERR ? is : status;
}

static void tell(void *ctx, const char *path, const struct dt_error *why)
{
    int *status = ctx;
    if (!why) {
        printf("%s: whole\n", path);
        return;
    }
    /* the message names a file of the checkpoint, or the checkpoint */
    const size_t n = strlen(path);
    bool here = strncmp(why->text, path, n) == 0;
    const char *text = here ? why->text + n : why->text;
    text += here ? strspn(text, "/: ") : 0;
    printf("%s: %s: %s\n", path, verdict(why), text);
    *status = worse(*status, why);
}

int dt_cmd_verify(int argc, char **argv)
{
    struct dt_error err;
    int found = EX_OK, status = dt_cmd_parse(&line, argc, argv, NULL);
    if (status != DT_CMD_RUN)
        return status;
    if (argc - optind != 1)
        return dt_cmd_usage_error("verify", argc == optind ? "expected RUN"
                                                           : "expected one RUN");
    if (dt_ckpt_survey(argv[optind], tell, &found, &err) < 0)
        return dt_cmd_fail("verify", &err);
    return dt_cmd_flush("verify", found);
}
