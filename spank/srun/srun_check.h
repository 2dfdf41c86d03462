/* SPDX-License-Identifier: Apache-2.0 */
/*
 * srun_check.h - asks the runtime, as a child process, what a config says
 *
 * The plugin does not read the config itself: `RUNTIME check --contract FILE`
 * does, as the user, on the submit host. contract/contract.h has the grammar.
 */
#ifndef DTSPANK_SRUN_CHECK_H
#define DTSPANK_SRUN_CHECK_H

#include <stddef.h>

#include "base/error.h"
#include "spank/srun/srun_overrides.h"

struct dtspank_contract {
    char *text;         /* owned; the other strings point into it */
    const char *config; /* absolute path */
    const char *runs;   /* train, command or nothing: see contract.h */
    size_t srun_count;
    char **srun; /* NAME=value, unescaped */
    size_t env_count;
    char **env; /* NAME=value, unescaped */
};

/* Runs the check and fills contract on success; the caller calls
 * dtspank_contract_fini. overrides apply to the file; NULL means none. words
 * are the options of srun, sbatch or salloc, ending with NULL; NULL means none.
 * script is sbatch's script, "" if there is none, and NULL for srun. The child
 * writes its own messages to our stderr; err says only that nothing is
 * submitted, or why there was no answer. Waits at most deadline_ms.
 */
int dtspank_check_run(const char *runtime, const char *file,
                      const struct dtspank_overrides *overrides, char **words,
                      const char *script, int deadline_ms,
                      struct dtspank_contract *contract, struct dt_error *err);

/* Parses the answer. text (from malloc) belongs to contract afterwards, also on
 * failure, which means that the runtime is of another release.
 */
int dtspank_contract_parse(char *text, struct dtspank_contract *contract,
                           struct dt_error *err);

/* Frees what contract owns; an all-zero contract is fine. */
void dtspank_contract_fini(struct dtspank_contract *contract);

#endif /* DTSPANK_SRUN_CHECK_H */
