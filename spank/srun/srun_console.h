/* SPDX-License-Identifier: Apache-2.0 */
/*
 * srun_console.h - puts `RUNTIME console` between srun and its stdout and
 * stderr
 *
 * No failure here keeps srun from running the step. contract/contract.h has the
 * grammar of what we tell the console.
 */
#ifndef DTSPANK_SRUN_CONSOLE_H
#define DTSPANK_SRUN_CONSOLE_H

#include <stdbool.h>
#include <stdint.h>

#include <slurm/slurm.h>

/* In slurm_spank_init, while srun's SLURM_* input can still be set: makes srun
 * label its output, unless argv or the environment makes srun write it
 * unbuffered or elsewhere. The console then does not know ranks, or reads only
 * srun's own messages. There is no console in heterogeneous jobs and with
 * --async.
 */
void dtspank_console_prepare(int argc, char **argv);

/* A step before its launch. */
struct dtspank_console_step {
    uint32_t job, step, tasks;
    const slurm_step_layout_t *layout; /* NULL: not known */
};

/* Starts the console and connects it to descriptors 1 and 2. On failure it
 * prints a message and leaves the output as it is.
 */
void dtspank_console_start(const char *runtime,
                           const struct dtspank_console_step *step);

/* When srun exits with `srun_status`: tells the console, restores srun's stdout
 * and stderr and waits until the console has written the rest. A console that
 * does not end is killed, after a message. Returns whether the console says
 * that a rank has requested a requeue and none has failed; false as well
 * without a console and on a second call. If srun exits with status 0 and
 * output may be lost, the status becomes EX_IOERR.
 */
bool dtspank_console_finish(int srun_status);

#endif /* DTSPANK_SRUN_CONSOLE_H */
