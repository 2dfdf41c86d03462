/* SPDX-License-Identifier: Apache-2.0 */
/*
 * contract.h - names on which the Slurm plugin and the runtime agree
 *
 * The plugin links nothing but libc, so this header holds names and no code.
 *
 * 1. The contract. srun runs `RUNTIME check --contract FILE -- WORD...` as the
 * user, before anything is queued; the WORDs are srun's own up to the command.
 * sbatch and salloc run `RUNTIME check --contract --allocation SCRIPT FILE --
 * WORD...`; an empty SCRIPT is none.
 * A config without a mistake gives exit status 0 and, on stdout, lines of the
 * form
 *
 *     DISTTRAIN_CONTRACT=2          first line: the version of this grammar
 *     CONFIG=/absolute/path         once
 *     RUNS=train                    once: what `disttrain` without arguments
 *                                   does: train, command (launch.command) or
 *                                   nothing (the file has neither)
 *     SRUN NAME=value               a variable for srun to find before it reads
 *                                   its SLURM_* input; any number
 *     ENV NAME=value                one for each entry of `env:`, any number
 *
 * A value ends at the newline; in it a backslash is written as \\ and a newline
 * as \n, nothing else is escaped. NAME is [A-Za-z_][A-Za-z0-9_]*. The whole
 * contract is at most DT_CONTRACT_BYTES. Anything else is refused: both sides
 * come from the same release. With a mistake in the config the exit status is
 * not 0, stdout is ignored, and stderr has one line `file:line:col: key: text`
 * for each mistake, which srun repeats as it is.
 *
 * 2. The environment. All names begin with SLURM, because `--export=NONE` drops
 * every other one on the way to the tasks. The plugin removes those that it
 * finds in srun's own environment, so that steps started inside a task begin
 * afresh.
 *
 * 3. The console. srun starts `RUNTIME console` as its child, with its own
 * stdout and stderr, and from then on writes into two pipes, which the child
 * reads. On the child's stdin are
 *
 *     DISTTRAIN_CONSOLE=2      first line: the version of this grammar
 *     LABELS=none|strip|keep|apart
 *                              whether srun begins lines with the rank, and
 *                              whether the user wants to see it; apart: what
 *                              tasks write goes elsewhere, and they write no
 *                              records
 *     TASKS=N
 *     STEP=JOB.STEP            their numbers
 *     TOKEN=HEX                a secret of the step, which its records carry
 *     NODE HOST A-B,C          for each node of the step, in their order: the
 *                              ranks there; none if srun could not ask
 *
 * Its exit status is 75 (EX_TEMPFAIL) if a rank has ended with that, and none
 * has failed, or if one has crashed and DT_ENV_REQUEUE counts that; else 0.
 *
 * 4. Records: lines on stderr for the console, which does not show them. A task
 * that starts writes the first. slurmstepd writes the second for a task that
 * has not ended with exit status 0, on the stderr of the node's first task;
 * STATUS is what waitpid says. The third is of `RUNTIME console --watch`, which
 * runs beside rank 0: hosts that have not connected to PORT, on which rank 0
 * listens for WAITED s; "-": all have.
 *
 *     disttrain: record: TOKEN start RANK HOST SECONDS.mmm
 *     disttrain: record: TOKEN exit RANK HOST SECONDS.mmm STATUS
 *     disttrain: record: TOKEN absent RANK HOST SECONDS.mmm PORT WAITED HOSTS
 *
 * TOKEN is random, and made by srun for each step. A line without it is one
 * that a program has printed. The plugin takes it out of the environment before
 * the user's program runs. It is no secret from someone who reads the memory of
 * his own srun: it guards against mistakes, and not against its owner.
 */
#ifndef DT_LAUNCH_CONTRACT_H
#define DT_LAUNCH_CONTRACT_H

#define DT_CONTRACT_VERSION_LINE "DISTTRAIN_CONTRACT=2"
#define DT_CONTRACT_CONFIG "CONFIG="
#define DT_CONTRACT_RUNS "RUNS="
#define DT_CONTRACT_SRUN "SRUN "
#define DT_CONTRACT_ENV "ENV "
#define DT_CONTRACT_BYTES (1024 * 1024)

/* Everything below begins with this. */
#define DT_ENV_PREFIX "SLURM_DISTTRAIN_"

/* Absolute path of the config: in every task of an active step. It is what
 * `disttrain` without arguments trains.
 */
#define DT_ENV_CONFIG "SLURM_DISTTRAIN_CONFIG"

/* NodeName of the host of rank 0, as srun knows it; absent if srun could not
 * ask.
 */
#define DT_ENV_MASTER "SLURM_DISTTRAIN_MASTER"

/* DT_ENV_CARRY "NAME" carries an `env:` entry from srun to the tasks, where the
 * plugin takes it away and sets NAME, unless the user has set NAME.
 */
#define DT_ENV_CARRY "SLURM_DISTTRAIN_ENV_"

/* Space-separated NAME=value: the variables that the plugin, and not the user,
 * has set in this task (RANK and so on).
 */
#define DT_ENV_EXPORTED "SLURM_DISTTRAIN_EXPORTED"

/* "HASH:PATH" of the config: in a batch job as it was when sbatch checked it,
 * and in an srun of that job as it is now.
 */
#define DT_ENV_SUM "SLURM_DISTTRAIN_SUM"

/* The rest comes from `launch:` and `logging:`, as SRUN lines, and is absent
 * where the config says nothing.
 */

/* Whose variables the tasks get: "torch,jax"; absent: all (launch/variables.h).
 */
#define DT_ENV_FRAMEWORKS "SLURM_DISTTRAIN_FRAMEWORKS"

/* "one": each task sees the GPU of its local rank only; absent: all. */
#define DT_ENV_GPU_VISIBILITY "SLURM_DISTTRAIN_GPU_VISIBILITY"

/* "none": tasks stay where Slurm has bound them; absent: each is bound to the
 * CPUs near its GPU.
 */
#define DT_ENV_CPU_BIND "SLURM_DISTTRAIN_CPU_BIND"

/* "10@300": this signal to every rank that many seconds before the limit. */
#define DT_ENV_SIGNAL "SLURM_DISTTRAIN_SIGNAL"

/* "3": put the batch job back into the queue when the run asks for it, and when
 * it crashes, unless it has been restarted so often; "0": not when it crashes.
 */
#define DT_ENV_REQUEUE "SLURM_DISTTRAIN_REQUEUE"

/* "1": `disttrain doctor` on all nodes before the tasks start; srun makes it
 * DT_PREFLIGHT_FAILED if they are not to.
 */
#define DT_ENV_PREFLIGHT "SLURM_DISTTRAIN_PREFLIGHT"
#define DT_PREFLIGHT_FAILED "failed"

/* "600" or "600 end": seconds without output after which the console says what
 * each rank is doing, and whether it ends the step then; "0": never.
 */
#define DT_ENV_HANG "SLURM_DISTTRAIN_HANG"
#define DT_HANG_DEFAULT "300"

/* "no": the first failure does not become the comment of the job; absent: it
 * does.
 */
#define DT_ENV_JOB_COMMENT "SLURM_DISTTRAIN_JOB_COMMENT"

/* The words of launch.command, one a line, escaped like the contract: what
 * `disttrain` without arguments runs instead of training.
 */
#define DT_ENV_COMMAND "SLURM_DISTTRAIN_COMMAND"

/* Ranks whose lines are shown: "0,4-7"; absent: all. */
#define DT_ENV_CONSOLE_RANKS "SLURM_DISTTRAIN_CONSOLE_RANKS"

/* Absolute directory for a log file of each rank; absent: none. */
#define DT_ENV_RANK_LOGS "SLURM_DISTTRAIN_RANK_LOGS"

/* "TOKEN" or "TOKEN label": srun has a console, so tasks write records; with
 * "label" the user has not asked for SLURM_LABELIO. Not in the environment of
 * the user's program.
 */
#define DT_ENV_CONSOLE "SLURM_DISTTRAIN_CONSOLE"

#define DT_CONSOLE_VERSION_LINE "DISTTRAIN_CONSOLE=2"
#define DT_CONSOLE_LABELS "LABELS="
#define DT_CONSOLE_TASKS "TASKS="
#define DT_CONSOLE_STEP "STEP="
#define DT_CONSOLE_TOKEN "TOKEN="
#define DT_CONSOLE_NODE "NODE "
#define DT_RECORD "disttrain: record: "

enum {
    DT_TOKEN_BYTES = 33,   /* with the NUL */
    DT_CONSOLE_OUT_FD = 3, /* the pipes, in the child */
    DT_CONSOLE_ERR_FD = 4,
};

#endif /* DT_LAUNCH_CONTRACT_H */
