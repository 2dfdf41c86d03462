/* SPDX-License-Identifier: Apache-2.0 */
/*
 * console.h - `RUNTIME console` between srun and its stdout and stderr
 *
 * Nothing that can go wrong here keeps srun from running the step. The grammar
 * of what the console is told is in launch/contract.h.
 */
#ifndef DTSPANK_CONSOLE_H
#define DTSPANK_CONSOLE_H

#include <stdbool.h>
#include <stdint.h>

#include <slurm/slurm.h>

/* In slurm_spank_init, where srun's SLURM_* input can still be set: makes srun
 * label its output, unless srun (by argv or environment) writes it unbuffered
 * or elsewhere: the console does not know ranks then, or reads srun's own words
 * only. There is none in heterogeneous jobs and with --async.
 */
void dtspank_console_prepare(int argc, char **argv);

/* A step before its launch. */
struct dtspank_console_step {
    uint32_t job, step, tasks;
    const slurm_step_layout_t *layout; /* NULL: not known */
};

/* Starts the console, and puts it behind descriptors 1 and 2. Without success
 * there is a message, and the output stays as it is.
 */
void dtspank_console_start(const char *runtime,
                           const struct dtspank_console_step *step);

/* At the end of srun: gives srun its stdout and stderr back, and waits until
 * the console has shown the rest. One that does not end is killed, after a
 * message. Whether it says that a rank has asked to be requeued, and none has
 * failed; false as well without a console, and when called again. When srun
 * exits with status 0 and output may be lost, the status becomes EX_IOERR.
 */
bool dtspank_console_finish(void);

#endif /* DTSPANK_CONSOLE_H */
