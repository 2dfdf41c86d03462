/* SPDX-License-Identifier: Apache-2.0 */
/* advice.h - a warning about a launcher inside the launcher */
#ifndef DTSPANK_ADVICE_H
#define DTSPANK_ADVICE_H

#include <stdint.h>

/* The command of srun, argv[command] and on, is about to run as `tasks` tasks
 * on `nodes` nodes: if it is torchrun or the like, and a node has several
 * tasks, says what to write instead.
 */
void dtspank_advice_launcher(int argc, char **argv, int command, uint32_t tasks,
                             uint32_t nodes);

#endif /* DTSPANK_ADVICE_H */
