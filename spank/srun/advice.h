/* SPDX-License-Identifier: Apache-2.0 */
/* advice.h - warns about a launcher inside the launcher */
#ifndef DTSPANK_ADVICE_H
#define DTSPANK_ADVICE_H

#include <stdint.h>

/* srun is about to run its command, argv[command] and what follows, as `tasks`
 * tasks on `nodes` nodes. If the command is torchrun or a similar launcher and
 * there are more tasks than nodes, says what to write instead.
 */
void dtspank_advice_launcher(int argc, char **argv, int command, uint32_t tasks,
                             uint32_t nodes);

#endif /* DTSPANK_ADVICE_H */
