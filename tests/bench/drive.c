/* SPDX-License-Identifier: Apache-2.0 */
/* drive.c - arguments and errors of the programs that measure a drive */
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/bench/drive.h"

void drive_must(bool done, const struct dt_error *err)
{
    if (done)
        return;
    fprintf(stderr, "%s\n", err->text);
    exit(err->status);
}

size_t drive_number(int argc, char **argv, int i, size_t fallback)
{
    size_t value = i < argc ? strtoul(argv[i], NULL, 10) : fallback;

    if (value > 0)
        return value;
    fprintf(stderr, "%s: %s: expected a number above 0\n",
            program_invocation_short_name, argv[i]);
    exit(EX_USAGE);
}
