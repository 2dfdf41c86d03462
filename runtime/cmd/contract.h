/* SPDX-License-Identifier: Apache-2.0 */
/* contract.h - what the Slurm plugin needs to know of a configuration */
#ifndef DT_CMD_CONTRACT_H
#define DT_CMD_CONTRACT_H

#include "conf/conf.h"

/* Words that somebody has given to srun before its command. */
struct dt_srun_words {
    char *const *word;
    int count;
};

/* Whether srun has been given --option or, if letter is not 0, -letter. */
bool dt_srun_has(const struct dt_srun_words *words, const char *option,
                 char letter);

/* Prints the contract of launch/contract.h on stdout. What the command line or
 * the environment of srun already says is left out; what contradicts the
 * allocation that srun runs in is a problem, printed on stderr as
 * file:line:col: key: text. `file` is the name for messages. With `script` it
 * is sbatch or salloc that asks, and what they ask for is the allocation
 * (request.h). Returns an exit status.
 */
int dt_contract_print(struct dt_conf *conf, const char *file,
                      const struct dt_srun_words *words, const char *script);

/* "HASH:PATH" of the file behind a configuration, malloc'ed: DT_ENV_SUM. NULL:
 * it cannot be read.
 */
char *dt_contract_sum(const struct dt_conf *conf);

#endif /* DT_CMD_CONTRACT_H */
