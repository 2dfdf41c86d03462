/* SPDX-License-Identifier: Apache-2.0 */
/*
 * contract.h - names on which the Slurm plugin and the runtime agree
 *
 * The plugin links nothing but libc, so this header holds names and no code.
 *
 * 1. The contract. srun runs `RUNTIME check --contract FILE -- WORD...` as the
 * user, before anything is queued; the WORDs are srun's options, then "--" and
 * the first words of the command, if there is one.
 * Each --disttrain-set KEY=VALUE becomes --set KEY=VALUE before FILE.
 * sbatch and salloc run `RUNTIME check --contract --allocation SCRIPT FILE --
 * WORD...`; an empty SCRIPT is none (salloc, sbatch --wrap). Before they know
 * their options they run `RUNTIME check --outlives FILE --`, whose exit status
 * is 0 if the run goes on without nodes that it loses.
 * If the config has no mistake, the exit status is 0 and stdout has lines of
 * the form
 *
 *     DISTTRAIN_CONTRACT=3          first line: the version of all of these
 *                                   grammars, so that srun refuses a runtime of
 *                                   another release before there is a step
 *     CONFIG=/absolute/path         once
 *     RUNS=train                    once: what `disttrain` without arguments
 *                                   does: train, command (launch.command) or
 *                                   nothing (the file has neither)
 *     SRUN NAME=value               a variable to set before srun reads its
 *                                   SLURM_* input; any number
 *     ENV NAME=value                one for each entry of `env:`, any number
 *
 * A value ends at the newline. Within it, a backslash is written as \\ and a
 * newline as \n; nothing else is escaped. NAME is [A-Za-z_][A-Za-z0-9_]*. The
 * whole contract is at most DT_CONTRACT_BYTES. Anything else is refused: both
 * sides come from the same release. If the config has a mistake, the exit
 * status is not 0, stdout is ignored, and stderr, which is srun's own, has one
 * line `file:line:col: key: text` for each mistake.
 *
 * 2. The environment. All names begin with SLURM, because `--export=NONE` drops
 * all others on the way to the tasks. The plugin removes those that it finds in
 * srun's own environment, so that a step started inside a task does not inherit
 * them.
 *
 * 3. The console. srun starts `RUNTIME console` as its child, with its own
 * stdout and stderr, and from then on writes into two pipes, which the child
 * reads. The child's stdin has
 *
 *     DISTTRAIN_CONSOLE=6      first line: the version of this grammar
 *     LABELS=none|strip|keep|apart
 *                              whether srun begins lines with the rank, and
 *                              whether the user wants to see it; apart: the
 *                              tasks' output goes elsewhere, and they write
 *                              no records
 *     TASKS=N
 *     STEP=JOB.STEP            the numbers of the job and the step
 *     TOKEN=HEX                a secret of the step, part of its records
 *     PROGRESS=HEX             another one, of records of progress; none if
 *                              srun's terminal cannot show a bar
 *     KEEPERS=HEX              another one, of the records of keepers
 *                              (DT_ENV_KEPT)
 *     NODE HOST A-B,C          for each node of the step, in their order: the
 *                              ranks there; none if srun could not ask
 *     STATUS=N                 at the end, before srun closes the pipes: its
 *                              exit status; none if the plugin cannot know it
 *
 * Both sides append to this file. The console writes there, too, when keepers
 * have ended their step:
 *
 *     VERDICT=N                its exit status, whatever srun takes for it
 *
 * and, once it knows how the ranks have ended, with DT_ENV_REQUEUE:
 *
 *     RUN=N                    the exit status of the run, if it is not 0, for
 *                              contract/requeue_rule.h
 *
 * Its exit status is 74 (EX_IOERR) if srun's output cannot be written, which it
 * says; otherwise 0.
 *
 * 4. Records: lines on stderr for the console, which does not show them.
 *
 *     disttrain: record: TOKEN VERB RANK HOST SECONDS.mmm [WORD]...
 *
 * console/parse.c has a row for each VERB. A task writes one when it starts.
 * slurmstepd writes one for a task that has not ended with exit status 0, on
 * the stderr of the node's first task. `RUNTIME console --watch`, which runs on
 * the node of rank 0, says which hosts have not connected.
 *
 * The runtime writes two on the stderr of rank 0, at most four a second, with
 * PROGRESS for TOKEN, from DT_ENV_PROGRESS: how far the run is, and that the
 * console shall draw no bar any more. Numbers may be nan; PHASE is words of
 * small letters; times are in seconds, PHASE_S since the phase began, ELAPSED
 * since the first step. The words of the first are
 *
 *     STEP TOTAL PHASE_S ELAPSED LEFT SECONDS_A_STEP LOSS TOKENS_A_SECOND PHASE
 *
 * PROGRESS stays in the environment of the tasks, because the runtime is a
 * program like any other. Who misuses it draws a bar, and no more.
 *
 * Keepers write records with KEEPERS for TOKEN, and without rank, host and
 * time: an epoch has begun (base/epoch.h); a keeper leaves the step, which
 * others may go on with, in the next one, within so many seconds; and all have
 * ended, with the exit status of the step, and how many nodes it has lost. If
 * there are any, the keeper that writes so waits for a connection of the console
 * to a port, as srun drops what it has not read when the last task has ended, if
 * any was killed; and for what srun does not know to have ended the console ends
 * it.
 *
 *     disttrain: record: KEEPERS epoch NUMBER
 *     disttrain: record: KEEPERS leaves NUMBER SECONDS
 *     disttrain: record: KEEPERS waits ADDRESS PORT
 *     disttrain: record: KEEPERS verdict STATUS LOST
 *
 * srun makes a random TOKEN for each step. A line without it comes from a
 * program. The plugin removes it from the environment before the user's program
 * runs; the program of srun's --task-epilog has it. Users can also read it from
 * the memory of their own srun: it protects against mistakes, not against its
 * owner.
 */
#ifndef DT_CONTRACT_CONTRACT_H
#define DT_CONTRACT_CONTRACT_H

#define DT_CONTRACT_VERSION_LINE "DISTTRAIN_CONTRACT=3"
#define DT_CONTRACT_CONFIG "CONFIG="
#define DT_CONTRACT_RUNS "RUNS="
#define DT_CONTRACT_SRUN "SRUN "
#define DT_CONTRACT_ENV "ENV "
#define DT_CONTRACT_BYTES (1024 * 1024)

/* All names below begin with this. */
#define DT_ENV_PREFIX "SLURM_DISTTRAIN_"

/* Absolute path of the config, in every task of an active step; `disttrain`
 * without arguments trains as it says.
 */
#define DT_ENV_CONFIG "SLURM_DISTTRAIN_CONFIG"

/* NodeName of the host of rank 0, as the controller told srun; absent if it did
 * not answer.
 */
#define DT_ENV_MASTER "SLURM_DISTTRAIN_MASTER"

/* "61000-65535": port_range= of srun's plugstack.conf, from which all tasks
 * choose their ports, whatever their nodes have there.
 */
#define DT_ENV_PORTS "SLURM_DISTTRAIN_PORTS"

/* DT_ENV_CARRY "NAME" carries an `env:` entry from srun to the tasks, where the
 * plugin removes it and sets NAME, unless the user has set NAME.
 */
#define DT_ENV_CARRY "SLURM_DISTTRAIN_ENV_"

/* Space-separated NAME=value: the variables in this task (RANK and so on) that
 * were set by the plugin and not by the user. Within a value a blank is
 * written as \s, a newline as \n and a backslash as \\.
 */
#define DT_ENV_EXPORTED "SLURM_DISTTRAIN_EXPORTED"

/* "HASH:PATH" of the config: in a batch job, as it was when sbatch checked it;
 * in an srun of that job, as it is now.
 */
#define DT_ENV_SUM "SLURM_DISTTRAIN_SUM"

/* The hash of the config's warnings that the check has printed, which rank 0
 * does not print again; absent: it has printed none.
 */
#define DT_ENV_WARNED "SLURM_DISTTRAIN_WARNED"

/* Space-separated KEY=VALUE: what --disttrain-set says of the config, in the
 * order in which it applies, absent if it says nothing; escaped like
 * DT_ENV_EXPORTED.
 */
#define DT_ENV_OVERRIDES "SLURM_DISTTRAIN_OVERRIDES"

/* "LOOP.COUNT" in the job of a `disttrain steps`, which draws LOOP and counts
 * the steps that it has started before: a step with the same LOOP and a larger
 * COUNT begins when the other one has ended. srun does not forget it.
 */
#define DT_ENV_LAUNCH "SLURM_DISTTRAIN_LAUNCH"

/* The rest comes from `launch:` and `logging:`, as SRUN lines, and is absent if
 * the config does not set it.
 */

/* The frameworks whose variables the tasks get, such as "torch,jax"; absent:
 * all (see variables.h).
 */
#define DT_ENV_FRAMEWORKS "SLURM_DISTTRAIN_FRAMEWORKS"

/* "one": each task sees only the GPU of its local rank; absent: all GPUs. */
#define DT_ENV_GPU_VISIBILITY "SLURM_DISTTRAIN_GPU_VISIBILITY"

/* "none": tasks keep Slurm's CPU binding; absent: each is bound to CPUs near
 * its GPU.
 */
#define DT_ENV_CPU_BIND "SLURM_DISTTRAIN_CPU_BIND"

/* "10@300": send signal 10 to every rank 300 seconds before the time limit, or
 * earlier, if our own trainer says in status.json of DT_ENV_RUN that it takes
 * longer to stop; "10@120 measured": also later, if it takes less long.
 */
#define DT_ENV_SIGNAL "SLURM_DISTTRAIN_SIGNAL"

/* "3": requeue the batch job when the run requests it, and when it crashes,
 * unless it has been restarted that often; "0": not when it crashes.
 */
#define DT_ENV_REQUEUE "SLURM_DISTTRAIN_REQUEUE"

/* "1": run `disttrain doctor` on all nodes before the tasks start; srun changes
 * it to DT_PREFLIGHT_FAILED if they must not start.
 */
#define DT_ENV_PREFLIGHT "SLURM_DISTTRAIN_PREFLIGHT"
#define DT_PREFLIGHT_FAILED "failed"

/* "600" or "600 end": after that many seconds without output the console says
 * what each rank is doing and, with "end", ends the step; "0": never.
 */
#define DT_ENV_HANG "SLURM_DISTTRAIN_HANG"
#define DT_HANG_DEFAULT "300"

/* "no": do not set the job's comment to the first failure; absent: set it. */
#define DT_ENV_JOB_COMMENT "SLURM_DISTTRAIN_JOB_COMMENT"

/* The words of launch.command, one per line, escaped like the contract: what
 * `disttrain` without arguments runs instead of training.
 */
#define DT_ENV_COMMAND "SLURM_DISTTRAIN_COMMAND"

/* "3": the tasks are keepers (launch.keeper), which start training or
 * launch.command, and all ranks again up to that often when one is lost;
 * absent: the tasks are the ranks.
 */
#define DT_ENV_KEEPER "SLURM_DISTTRAIN_KEEPER"

/* "1 4": of a step with keepers, its last 1 nodes have no ranks, and it goes on
 * with 4 ranks at least when others are lost; 0: only with as many as before.
 * Absent: "0 0".
 */
#define DT_ENV_SPARES "SLURM_DISTTRAIN_SPARES"

/* "1": the tasks of this step become keepers; srun changes it to the token of
 * their records, or removes it where it cannot follow them.
 */
#define DT_ENV_KEPT "SLURM_DISTTRAIN_KEPT"

/* "1": let the step of keepers outlive its nodes; srun removes it where it
 * cannot follow them.
 */
#define DT_ENV_OUTLIVES "SLURM_DISTTRAIN_OUTLIVES"

/* NodeName of the host of srun, where that is a node of a job, with
 * DT_ENV_OUTLIVES: when it is lost, nobody but the keepers ends the job.
 */
#define DT_ENV_SRUN_NODE "SLURM_DISTTRAIN_SRUN_NODE"

/* The ranks whose output is shown, such as "0,4-7"; absent: all. */
#define DT_ENV_CONSOLE_RANKS "SLURM_DISTTRAIN_CONSOLE_RANKS"

/* Absolute path of the directory for one log file per rank; absent: no logs. */
#define DT_ENV_RANK_LOGS "SLURM_DISTTRAIN_RANK_LOGS"

/* Absolute path of the directory where our own trainer records its run. If rank
 * 0 is killed, the console says there how the run has ended. Absent: the run
 * has no such files.
 */
#define DT_ENV_RUN "SLURM_DISTTRAIN_RUN"

/* "TOKEN" or "TOKEN label": srun has a console, so tasks write records;
 * "label": the plugin, not the user, has set SLURM_LABELIO. Removed before the
 * user's program starts.
 */
#define DT_ENV_CONSOLE "SLURM_DISTTRAIN_CONSOLE"

/* The token of records of progress; absent: nobody draws a bar. */
#define DT_ENV_PROGRESS "SLURM_DISTTRAIN_PROGRESS"

/* 32 digits that srun draws for the step: what other users cannot know,
 * whatever a PMIx server tells them.
 */
#define DT_ENV_STEP_SECRET "SLURM_DISTTRAIN_STEP_SECRET"

#define DT_CONSOLE_VERSION_LINE "DISTTRAIN_CONSOLE=6"
#define DT_CONSOLE_LABELS "LABELS="
#define DT_CONSOLE_TASKS "TASKS="
#define DT_CONSOLE_STEP "STEP="
#define DT_CONSOLE_TOKEN "TOKEN="
#define DT_CONSOLE_PROGRESS "PROGRESS="
#define DT_CONSOLE_KEEPERS "KEEPERS="
#define DT_CONSOLE_VERDICT "VERDICT="
#define DT_CONSOLE_RUN "RUN="
#define DT_CONSOLE_NODE "NODE "
#define DT_CONSOLE_STATUS "STATUS="
#define DT_RECORD "disttrain: record: "

enum {
    DT_TOKEN_BYTES = 33,   /* with the NUL */
    DT_CONSOLE_OUT_FD = 3, /* the pipes, in the child */
    DT_CONSOLE_ERR_FD = 4,
    DT_KEEPER_MENDS = 12, /* outages of the network in which keepers go on
                             without others, if they do */
};

#endif /* DT_CONTRACT_CONTRACT_H */
