/* SPDX-License-Identifier: Apache-2.0 */
/*
 * task_impl.h - the parts of the plugin in slurmstepd and in the tasks
 *
 * task_step.c calls them, in the order of its table.
 */
#ifndef DTSPANK_TASK_IMPL_H
#define DTSPANK_TASK_IMPL_H

#include <ifaddrs.h>
#include <limits.h>
#include <net/if.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <slurm/spank.h>

#include "base/error.h"
#include "base/net.h"
#include "contract/contract.h"
#include "contract/variables.h"
#include "spank/hostlist.h"
#include "spank/siteconf.h"

/*
 * task_env.c: the environment of a task, as Slurm keeps it
 *
 * For slurm_spank_task_init and slurm_spank_task_exit only. It is not environ:
 * Slurm makes the environment of the task from it after the last hook.
 */

/* Returns a variable of the task, NULL if unset. It points into Slurm's copy
 * and is valid until the environment changes.
 */
const char *dtspank_task_getenv(spank_t spank, const char *name);

/* Sets a variable of the task, even if it is already set. */
int dtspank_task_setenv(spank_t spank, const char *name, const char *value,
                        struct dt_error *err);

/* Reads a decimal number that Slurm has put into the environment. If there is
 * none, returns false and *number is unchanged or undefined.
 */
bool dtspank_task_number(spank_t spank, const char *name, uint32_t *number);

/* Returns the task's index and the number of the step's tasks on this node.
 * False if Slurm does not say.
 */
bool dtspank_task_local(spank_t spank, uint32_t *rank, uint32_t *tasks);

/* Returns the NodeName of this node for messages; "?" if Slurm does not say. */
const char *dtspank_task_node(spank_t spank);

/* Replaces control characters with "?" in text that also goes to the log of
 * slurmd. Returns text.
 */
char *dtspank_printable(char *text);

/* In task_init, after the config's `env:`: sets the variables of force=
 * whatever the task has (rank 0 tells the user if that changes a value), and
 * those of env= that the task does not have.
 */
int dtspank_siteenv_export(spank_t spank, const struct dtspank_siteconf *conf,
                           struct dt_error *err);

/*
 * program.c: the program that a task is about to execute
 */

enum {
    DTSPANK_LIBRARY_BYTES = 64, /* a longer name is truncated */
};

/* Whether the program at path needs a library whose name begins with one of
 * prefixes (NULL at the end); puts its name into `library`. Also false for
 * anything that is not an intact ELF program of this machine, such as a script.
 */
bool dtspank_elf_needs(const char *path, const char *const *prefixes,
                       char library[DTSPANK_LIBRARY_BYTES]);

/* In a task, as the user. Fails if the program is the runtime, which srun
 * inserted by its path, and this node does not have it. `runtime` is that of
 * plugstack.conf.
 */
int dtspank_program_check(spank_t spank, const char *runtime,
                          struct dt_error *err);

/* Rank 0 of several ranks warns of a program that is linked with an MPI library
 * in a step without MPI: each rank would be a world of its own.
 */
void dtspank_program_warn_mpi(spank_t spank, const char *runtime);

/*
 * gpu.c: which GPUs a task sees
 *
 * PyTorch and most others use the device whose index is LOCAL_RANK, so every
 * task has to see all GPUs that the step has on the node.
 */

/* With DT_ENV_GPU_VISIBILITY "one", leaves each task only one GPU: local ranks
 * are assigned to the GPUs round-robin. Otherwise the lists of Slurm stay. The
 * node's first task warns in one line of settings that break programs. Fails if
 * the environment cannot be changed.
 */
int dtspank_gpu_apply(spank_t spank, struct dt_error *err);

/* Returns how many GPUs a program sees according to the task's environment,
 * possibly 0; -1 if the environment does not say.
 */
int dtspank_gpu_visible(spank_t spank);

/*
 * task_cpu.c: which CPUs a task runs on
 *
 * Slurm's own binding stays. Where Slurm lets the tasks of a node share a set
 * of CPUs that no other job uses, each task gets its own part, near its GPU;
 * memory follows by first touch. All paths of sysfs are below `root`, which is
 * "" except in tests.
 */

enum {
    DTSPANK_CPU_SETS = 8,
    DTSPANK_CPUS_MAX = DTSPANK_CPU_SETS * CPU_SETSIZE,
};

/* A set of CPUs, for the macros that end in _S. */
struct dtspank_cpus {
    cpu_set_t set[DTSPANK_CPU_SETS];
};

/* The CPUs of a task and those around it, according to Slurm. */
struct dtspank_cpu_place {
    uint32_t local_rank;
    uint32_t tasks;     /* of the step on this node */
    uint32_t step_cpus; /* of the step on this node */
    uint32_t job_cpus;  /* of the job on this node, at least */
    uint32_t per_task;  /* SLURM_CPUS_PER_TASK, which may be the batch script's;
                           0: unset */
    const char *bind;   /* SLURM_CPU_BIND_TYPE and _LIST; NULL: no affinity */
    const char *masks;  /* plugin, or no binding was asked for */
    const char *gpus;   /* SLURM_STEP_GPUS; NULL: no GPUs */
    uint32_t gpu_count; /* of the step on this node */
    bool one_gpu;       /* local ranks are assigned to GPUs round-robin */
};

/* Reduces cpus, the mask of the task, to the task's own part. False, with cpus
 * unchanged, if they belong to this task alone or perhaps also to other jobs,
 * or if it is not certain which part is best. Reads below root.
 */
bool dtspank_cpu_choose(const struct dtspank_cpu_place *place, const char *root,
                        struct dtspank_cpus *cpus);

/* For the node's first task, whose mask is cpus: says in one line if it has
 * only a small part of the CPUs of the job, and which option of srun helps.
 */
void dtspank_cpu_warn(spank_t spank, const struct dtspank_cpu_place *place,
                      const char *root, const struct dtspank_cpus *cpus);

/* Warns, and binds this process to its part unless DT_ENV_CPU_BIND is "none".
 * Returns 0.
 */
int dtspank_cpu_apply(spank_t spank, struct dt_error *err);

/* Returns how many CPUs the threads of this task may use, at least 1: those of
 * its mask, but at most its share, because without binding the mask is that of
 * all tasks.
 */
uint32_t dtspank_cpu_usable(spank_t spank);

/*
 * task_limits.c: warnings of resource limits that break a step obscurely
 *
 * A limit is too small if memlock is below 1 GiB (registering RDMA buffers
 * fails with ENOMEM) or core files are wanted but limited to less than 1 GiB,
 * both only where there is RDMA, or if there are fewer than 4096 open files for
 * more than 64 ranks, which all connect to each other.
 */

/* The node's first task says in one line which limits of the tasks are too
 * small, and for each the simplest way to get a larger one. The kernel lists
 * RDMA devices in the directory `rdma`.
 */
void dtspank_limits_report(spank_t spank, const char *rdma);

/* The same for this node, with the signature of a task_init step; never fails.
 */
int dtspank_limits_apply(spank_t spank, struct dt_error *err);

/*
 * task_net.c: the network interface that leads to rank 0, and the ports of a
 * step, the same on all of its nodes
 */

/* Writes the name of the interface of the list that has the address `source`;
 * "" if nobody else reaches that, or no interface has it. A library that gets a
 * name takes the first address of that interface: -1 if that does not lead as
 * far, as on lo, where 127.0.0.1 comes before the address of the node.
 */
int dtspank_net_owner(const struct ifaddrs *list,
                      const union dt_net_address *source,
                      char name[IF_NAMESIZE], struct dt_error *err);

/* Writes the name of the interface on the route to the host `master`. If that
 * is this node under a loopback address, uses the route to `other`, another
 * node of the step; NULL if master should be elsewhere. Sends nothing. Fails if
 * a name does not resolve, the only route is loopback, or the name of the
 * interface is of no use (see above).
 */
int dtspank_net_interface(const char *master, const char *other,
                          char name[IF_NAMESIZE], struct dt_error *err);

/* Whether the node has RDMA devices, which are entries of the directory
 * (/sys/class/infiniband).
 */
bool dtspank_net_has_rdma(const char *dir);

/* A port is 0 where there is none. */
struct dtspank_ports {
    unsigned master; /* MASTER_PORT */
    unsigned jax;    /* JAX's coordinator */
    unsigned tf;     /* the first TensorFlow worker of each node */
    unsigned ras;    /* NCCL's health service */
};

/* Chooses from first..last by the numbers of the job and the step, so that
 * steps of one job with nearby numbers share no port. A node has at most
 * `tasks` tasks and as many TensorFlow workers. A range of fewer than 64 ports
 * provides only MASTER_PORT.
 */
void dtspank_port_choose(unsigned first, unsigned last, uint32_t job,
                         uint32_t step, uint32_t tasks,
                         struct dtspank_ports *ports);

/* Replaces the chosen ports with those that Slurm has reserved for the step
 * ("12000-12004,12009"), as far as there are enough.
 */
void dtspank_port_reserve(const char *reserved, uint32_t tasks,
                          struct dtspank_ports *ports);

/* Whether a program on this node could listen on port, on all addresses, as
 * torch's store does. 0 means no port and counts as free.
 */
bool dtspank_port_is_free(unsigned port);

/* Fails if a program could not listen on port; the message says who holds it
 * and that the user can set `variable`, to another port or with one in it.
 */
int dtspank_port_test(const char *variable, unsigned port,
                      struct dt_error *err);

/*
 * task_facts.c: facts about a task from Slurm and the node
 */

struct dtspank_facts {
    struct dt_task_facts task; /* its pointers point into the fields below */
    char rank0[DTSPANK_HOST_BYTES];
    char master_addr[DTSPANK_HOST_BYTES];
    char host[DTSPANK_HOST_BYTES];
    char interface[IF_NAMESIZE];
    char logs[PATH_MAX];
    char **hosts;
    uint32_t *tasks;
};

/* In slurmstepd, as the user, before there are tasks: if the step's ports are
 * taken, the step uses the next free ones. For a step of one node only: the
 * nodes could not agree on others.
 */
void dtspank_facts_skip_taken_ports(spank_t spank,
                                    const struct dtspank_siteconf *conf);

/* Fills facts; call dtspank_facts_fini on success. MASTER_ADDR and MASTER_PORT
 * are the user's, if set. The node's first task warns if no interface can be
 * found. Fails if Slurm has not said which task this is, or if rank 0 is not
 * where the others look for it; then there is nothing to free.
 */
int dtspank_facts_collect(spank_t spank, const struct dtspank_siteconf *conf,
                          struct dtspank_facts *facts, struct dt_error *err);

/* Frees the lists of facts. */
void dtspank_facts_fini(struct dtspank_facts *facts);

/*
 * task_record.c: records for the console of srun
 *
 * contract/contract.h has their form, and console/parse.c a row for each.
 */

/* In slurmstepd, with the rights of the user: keeps the token of the step, if
 * srun has a console, for dtspank_record_log.
 */
void dtspank_record_keep(spank_t spank);

/* Whether there is one. */
bool dtspank_record_is_kept(void);

/* In a task: writes the start record to its stderr. If only the console wanted
 * labels, also removes SLURM_LABELIO so that the sruns that the task may start
 * do not label. Returns 0.
 */
int dtspank_record_start(spank_t spank, struct dt_error *err);

/* In a task: removes the token from its environment, so that its program cannot
 * write records. Returns 0.
 */
int dtspank_record_hide(spank_t spank, struct dt_error *err);

/* In slurmstepd, as root: writes "VERB RANK HOST SECONDS.mmm NUMBER", which has
 * no text of a user.
 */
void dtspank_record_log(uint32_t rank, const char *verb, int number);

/* In the task of rank 0, if the step has several nodes and srun has a console:
 * starts `RUNTIME console --watch`, as the user. It ends with the task and does
 * not hold the task's output open. If the program or anything that it needs is
 * missing, nothing is started.
 */
void dtspank_watch_start(spank_t spank, const char *runtime);

#endif /* DTSPANK_TASK_IMPL_H */
