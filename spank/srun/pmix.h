/* SPDX-License-Identifier: Apache-2.0 */
/* pmix.h - finds out whether Slurm can start a step with PMIx */
#ifndef DTSPANK_PMIX_H
#define DTSPANK_PMIX_H

#include <stdbool.h>

/* Whether Slurm's plugin mpi_pmix.so is installed on the submit host. */
bool dtspank_pmix_is_there(void);

#endif /* DTSPANK_PMIX_H */
