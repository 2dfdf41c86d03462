/* SPDX-License-Identifier: Apache-2.0 */
/* run_end.c - completes the files of a run whose rank 0 was killed */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/child.h"
#include "base/secret.h"
#include "console/run_end.h"
#include "contract/contract.h"
#include "live/live.h"

enum {
    END_MS = 4000,
    NUMBERS = 6, /* words of the command */
};

char *dt_run_end_tell(const struct dt_outcome *outcome, const char *step)
{
    struct dt_outcome_ending ending;
    struct dt_error err = {.text = "it failed"};
    char said[4096], rank[16] = "-1", *text = NULL;
    const char *dir = getenv(DT_ENV_RUN);
    if (!dir || !step[0] || !dt_outcome_ending(outcome, &ending))
        return NULL;
    dt_secret_clean(ending.text, sizeof(ending.text)); /* all see arguments */
    if (ending.rank != DT_NO_RANK)
        snprintf(rank, sizeof(rank), "%" PRIu32, ending.rank);
    char *const argv[] = {"/proc/self/exe",
                          "console",
                          "--end",
                          (char *)dir,
                          (char *)step,
                          (char *)ending.status,
                          rank,
                          ending.host,
                          ending.text,
                          NULL};
    int rc = dt_child_ask(argv, END_MS, said, sizeof(said), &err);
    if (rc == 0 && !said[0])
        return NULL;
    if (rc == 0)
        rc = asprintf(&text, "disttrain: report of the run: %s", said);
    else
        rc = asprintf(&text,
                      "disttrain: no report of the run: %s; write it with "
                      "`disttrain report %s`, which says why\n",
                      err.text, dir);
    return rc < 0 ? NULL : text;
}

int dt_run_end_record(int argc, char **argv, struct dt_error *err)
{
    bool page = false;
    if (argc != NUMBERS)
        return dt_error_set(err, EX_USAGE,
                            "expected DIR STEP STATUS RANK HOST TEXT");
    const struct dt_live_ending ending = {.step = argv[1],
                                          .status = argv[2],
                                          .rank = atoi(argv[3]),
                                          .host = argv[4],
                                          .text = argv[5]};
    int rc = dt_live_record_ending(argv[0], &ending, &page, err);
    return rc <= 0 ? rc : page;
}
