/* SPDX-License-Identifier: Apache-2.0 */
/*
 * job.h - a configuration as a job: options of srun, a batch script, ranks
 *
 * Nothing here starts a job. The plugin asks for the options and variables of
 * `launch:` through the contract (contract/contract.h), `disttrain sbatch`
 * prints a script, and both check the sizes of the job before it is queued.
 *
 * Not slurm.h: <slurm/slurm.h> is Slurm's own.
 */
#ifndef DT_SLURM_JOB_H
#define DT_SLURM_JOB_H

#include <stdbool.h>
#include <stdio.h>

#include "conf/conf.h"

/* --- command lines --- */

/* Words that srun was given before its command. */
struct dt_srun_words {
    char *const *word;
    int count;
};

/* Whether the words include --option or, if letter is not 0, -letter. */
bool dt_srun_has(const struct dt_srun_words *words, const char *option,
                 char letter);

/* --- variables of a job to come --- */

/* Until dt_promise_end each variable that Slurm sets in every batch job, and
 * with `array` in every job of an array, stands for itself: SLURM_JOB_ID has
 * the value "${SLURM_JOB_ID}". So a configuration that is read for such a job
 * keeps it where it is written, and the job reads it again.
 */
void dt_promise_begin(bool array);

/* Gives all of them the values from before. */
void dt_promise_end(void);

/* --- sizes --- */

/* 0 is unknown, and so is NULL. */
struct dt_slurm_size {
    long nodes;
    long ranks; /* on all nodes */
    long ranks_per_node;
    long cpus_per_rank;
    long cpus_per_node; /* the least of any node */
    long gpus;          /* on all nodes */
    long gpus_per_node;
    char *partition;
    bool array;          /* a request is one of a job for each index */
    bool array_together; /* and several of them may run at once */
    bool unclear_ranks;  /* a request for ranks is not a number */
    /* defaults of requests that are not there */
    bool one_node;  /* so it gets one node */
    bool any_nodes; /* so it gets as many as its ranks or GPUs need */
    bool no_ranks;  /* so it gets one CPU on each node, or whole nodes */
    bool no_cpus;   /* so it gets one CPU for each rank, or whole nodes */
    bool no_gpus;   /* so it gets none, or whole nodes */
};

/* Fills in the size of the job that this process is in, from its environment.
 * The caller frees it with dt_slurm_size_fini.
 */
void dt_slurm_size_read(struct dt_slurm_size *size);

/* Frees the members that the size owns. */
void dt_slurm_size_fini(struct dt_slurm_size *size);

/* Fills in the size that sbatch or salloc asks for. The words are its options;
 * they override its environment, which overrides the #SBATCH lines of `script`
 * ("": there is none, as for salloc). The caller frees the size with
 * dt_slurm_size_fini. Returns false, with an unknown size, for a heterogeneous
 * job.
 */
bool dt_request_read(const char *script, const struct dt_srun_words *words,
                     struct dt_slurm_size *size);

/* --- keepers --- */

/* Whether the tasks of the configuration are keepers, if there are several. */
bool dt_job_is_kept(const struct dt_conf *conf);

/* Whether its step has its spares, too, and outlives its nodes. */
bool dt_job_outlives(const struct dt_conf *conf);

/* The seconds without a word after which a keeper is lost, where the step
 * `outlives` its nodes or not; those of the defaults for NULL.
 */
double dt_job_outage(const struct dt_conf *conf, bool outlives);

/* --- ranks --- */

/* Each returns a number of ranks, or 0 where it cannot be told. */

/* The ranks of `launch:`, which has one node and one rank a node where it names
 * only the other number; 0: it names neither.
 */
long dt_world_launch(const struct dt_conf *conf);

/* The ranks that srun is going to start with these words, this environment and
 * the defaults that `launch:` gives it; without those of spares.
 */
long dt_world_srun(const struct dt_conf *conf,
                   const struct dt_srun_words *words);

/* The ranks that srun is going to start in a job that is requested with this
 * size. The srun of a script is unknown: the number of ranks that the job
 * or `launch:` names counts.
 */
long dt_world_job(const struct dt_conf *conf, const struct dt_slurm_size *size);

/* The ranks of the batch script that is written for `launch:` and more options
 * of sbatch, which override it.
 */
long dt_world_script(const struct dt_conf *conf,
                     const struct dt_srun_words *extra);

/* The train_batch_size of that many ranks, which is to be `pinned` (0: whatever
 * it is); 0: they cannot have it.
 */
long dt_world_batch(const struct dt_conf *conf, long ranks, long pinned);

/* Works out the batch sizes for the ranks; 0 ranks, and a configuration that
 * does not train, have none. Returns an exit status, after a message on stderr
 * if the sizes do not fit.
 */
int dt_world_check(struct dt_conf *conf, long ranks);

/* --- scripts --- */

struct dt_script {
    const char *array;          /* the indexes of a job array, or NULL */
    struct dt_srun_words extra; /* --OPTION[=VALUE], which override the
                                 * configuration
                                 */
    bool with_sum;              /* lets srun report that the configuration has
                                 * changed
                                 */
};

/* Prints the script of the job that the configuration describes. With
 * launch.max_restarts it runs this program, by its absolute path.
 */
void dt_script_print(const struct dt_script *script, const struct dt_conf *conf,
                     FILE *out);

/* Prints on stdout the srun line that launch: stands for, the variables that
 * all ranks have in common, and those of each rank. Hosts and ports are
 * examples. Returns an exit status.
 */
int dt_preview(const struct dt_conf *conf);

/* --- the steps of a batch job --- */

/* Runs srun with these words and the configuration, again if it fails, up to
 * launch.max_restarts times, and without the nodes that are lost: spares take
 * their place, or, from launch.min_ranks, a step has fewer ranks, with the same
 * train_batch_size. A step with a lost node is ended, unless its keepers go on
 * without it. Says on stderr what it does. Blocks and takes the signals of this
 * process, which has no other children, and passes them on to srun.
 *
 * Returns an exit status: that of the last srun, or EX_UNAVAILABLE if too few
 * nodes are left. -1: EX_USAGE, this is no job; EX_CONFIG, it has only spares;
 * EX_UNAVAILABLE, there is no Slurm; EX_OSERR.
 */
int dt_steps_run(const struct dt_conf *conf, const struct dt_srun_words *words,
                 struct dt_error *err);

/* Takes nodes, "n2,n3", out of the job that this process is in: Slurm does not
 * end its steps then when it finds them down, or back. Waits for Slurm up to a
 * minute. -1: EX_UNAVAILABLE, EX_OSERR.
 */
int dt_job_leave_out(const char *nodes, struct dt_error *err);

/* Whether Slurm says that the job that this process is in has other nodes than
 * this one. Waits for it some seconds.
 */
bool dt_job_has_left(const char *node);

/* Puts the job that this process is in back into the queue, or, also where
 * Slurm refuses that, cancels it, and says why in its comment, unless that is
 * somebody else's: "disttrain: WHY: cancelled". Not if the job ends already.
 * Waits for Slurm up to two minutes. -1: EX_TEMPFAIL, Slurm does not answer;
 * EX_UNAVAILABLE, also if another step of the job goes on, to which it is left:
 * Slurm then kills what is left of this one.
 */
int dt_job_end(bool requeue, const char *why, struct dt_error *err);

/* --- the contract --- */

/* The problem that the jobs of an array, which each train, have with
 * run.output_dir: nothing in it differs between them. NULL: none.
 */
const char *dt_submission_shared(const struct dt_conf *conf);

/* Prints the contract of contract/contract.h on stdout. Leaves out options
 * that srun's command line or environment already sets. A contradiction to the
 * allocation that srun runs in is a problem, printed on stderr as
 * file:line:col: key: text, and so are batch sizes that do not fit the ranks.
 * `file` is the name for messages; `command` are the first words of srun's
 * command, or none. With `script`, sbatch or salloc asks, and the allocation
 * is the one that they request (dt_request_read). Returns an exit status.
 */
int dt_submission_print(struct dt_conf *conf, const char *file,
                        const struct dt_srun_words *words,
                        const struct dt_srun_words *command,
                        const char *script);

#endif /* DT_SLURM_JOB_H */
