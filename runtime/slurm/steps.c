/* SPDX-License-Identifier: Apache-2.0 */
/*
 * steps.c - runs the steps of a batch job, one after another, until one ends
 * well, on the nodes that are not lost
 *
 * After a node is lost Slurm helps for minutes neither the old step nor a new
 * one: srun waits for the tasks there, and a new step for the old one. So srun
 * is ended, the user's own `scontrol update` takes the node out of the job
 * before Slurm finds it down and ends the job, and the next step may overlap
 * with what Slurm still believes to run.
 */
#include "config.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <time.h>
#include <unistd.h>

#include "base/child.h"
#include "base/clock.h"
#include "base/job_id.h"
#include "contract/contract.h"
#include "slurm/job_nodes.h"
#include "slurm/slurm_impl.h"

#define BATCH "training.train_batch_size="

#define ASK_S 1.0    /* between two questions to each node */
#define LATER_S 1.0  /* more than the ranks wait, so that they end first */
#define MERCY_S 2.0  /* for srun, which ends its tasks at once */
#define REST_S 5.0   /* for the console, which says how the step ended */
#define WRITE_S 30.0 /* in which a run that goes on writes its status */

struct steps {
    const struct dt_conf *conf;
    const struct dt_srun_words *words;
    struct dt_job_nodes nodes;
    char job[DT_JOB_ID_BYTES];
    long wanted; /* nodes of a step, as long as there are enough */
    long size;  /* nodes with ranks in the next step: the first that are left */
    long each;  /* ranks on a node */
    long batch; /* train_batch_size; 0: the step does not train */
    char loop[17]; /* tells this process from others */
    long restarts;
    double asked; /* when the nodes were asked last */
    double lost;  /* when a step lost a node whose keepers may go on; or 0 */
    struct timespec written; /* the status of the run, as far as is known, */
    double seen;             /* and when that was; 0: before we looked */
    pid_t srun;              /* 0: it has ended */
    int status;              /* of srun, as a shell has it */
    bool stopping;           /* somebody ends the job */
};

__attribute__((format(printf, 1, 2))) static void say(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fputs("disttrain: ", stderr);
    vfprintf(stderr, fmt, ap);
    putc('\n', stderr);
    va_end(ap);
}

/* --- sizes --- */

/* Chooses the size of the next step. False: too few nodes are left. */
static bool choose_size(struct steps *s)
{
    const long left = dt_job_nodes_left(&s->nodes);
    const long least = s->conf->launch.min_ranks;
    s->size = left < s->wanted ? left : s->wanted;
    if (s->size == s->wanted)
        return true;
    while (least > 0 && s->size * s->each >= least) {
        if (s->batch == 0 ||
            dt_world_batch(s->conf, s->size * s->each, s->batch) > 0)
            return true;
        s->size--;
    }
    return false;
}

/* Says why there is no next step, and returns the exit status. */
static int tell_too_few(const struct steps *s)
{
    const long left = dt_job_nodes_left(&s->nodes);
    const long least = s->conf->launch.min_ranks;
    char why[192];
    if (least == 0)
        snprintf(why, sizeof(why),
                 "set launch.spares, or launch.min_ranks to restart with fewer "
                 "ranks");
    else if (left * s->each < least)
        snprintf(why, sizeof(why), "launch.min_ranks is %ld", least);
    else
        snprintf(why, sizeof(why),
                 "train_batch_size %ld fits no number of ranks that is at "
                 "least launch.min_ranks, %ld",
                 s->batch, least);
    say("a step needs %ld nodes of %ld ranks, and %ld are left: %s", s->wanted,
        s->each, left, why);
    return EX_UNAVAILABLE;
}

/* --- srun --- */

struct words {
    char **word; /* ends with NULL */
    size_t count;
    bool failed; /* out of memory */
};

__attribute__((format(printf, 2, 3))) static void add_word(struct words *words,
                                                           const char *fmt, ...)
{
    char *word = NULL, **more;
    va_list ap;
    va_start(ap, fmt);
    int bytes = vasprintf(&word, fmt, ap);
    va_end(ap);
    more = reallocarray(words->word, words->count + 2, sizeof(*more));
    if (more)
        words->word = more;
    if (!more || bytes < 0) {
        words->failed = true;
        return;
    }
    more[words->count++] = word;
    more[words->count] = NULL;
}

static void words_fini(struct words *words)
{
    for (size_t i = 0; i < words->count; i++)
        free(words->word[i]);
    free(words->word);
}

/* Nodes that take part in a step: keepers have its spares with them. */
static long count_taken(const struct steps *s)
{
    return dt_job_outlives(s->conf) ? dt_job_nodes_left(&s->nodes) : s->size;
}

/* The environment has the sizes of the whole job, so options replace them if
 * the step has fewer nodes.
 */
static void add_sizes(const struct steps *s, struct words *words)
{
    const long taken = count_taken(s);
    if (taken == s->nodes.count)
        return;
    char *nodes = dt_job_nodes_list(&s->nodes, (int)taken);
    words->failed |= !nodes;
    add_word(words, "--nodes=%ld", taken);
    add_word(words, "--ntasks=%ld", taken * s->each);
    add_word(words, "--nodelist=%s", nodes ? nodes : "");
    free(nodes);
}

static struct words make_words(const struct steps *s)
{
    const struct dt_conf *conf = s->conf;
    struct words words = {0};
    add_word(&words, "srun");
    for (int i = 0; i < s->words->count; i++)
        add_word(&words, "%s", s->words->word[i]);
    add_sizes(s, &words);
    if (s->restarts > 0) /* Slurm's own end of a step may take a minute */
        add_word(&words, "--overlap");
    add_word(&words, "--disttrain=%s", conf->file);
    for (size_t i = 0; i < conf->overrides.count; i++)
        add_word(&words, "--disttrain-set=%s", conf->overrides.text[i]);
    const long spares = count_taken(s) - s->size;
    if (dt_job_outlives(conf) && spares != conf->launch.spares)
        add_word(&words, "--disttrain-set=launch.spares=%ld", spares);
    if (s->size < s->wanted && s->batch > 0)
        add_word(&words, "--disttrain-set=" BATCH "%ld", s->batch);
    return words;
}

/* Starts srun, which shall have no signal blocked. */
static int start_srun(struct steps *s, struct dt_error *err)
{
    struct words words = make_words(s);
    posix_spawnattr_t attr;
    sigset_t none;
    char launch[64];
    int rc = ENOMEM;
    sigemptyset(&none);
    posix_spawnattr_init(&attr);
    posix_spawnattr_setsigmask(&attr, &none);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK);
    snprintf(launch, sizeof(launch), "%s.%ld", s->loop, s->restarts);
    if (!words.failed && setenv(DT_ENV_LAUNCH, launch, 1) == 0)
        rc = posix_spawnp(&s->srun, "srun", NULL, &attr, words.word, environ);
    posix_spawnattr_destroy(&attr);
    words_fini(&words);
    if (rc == 0)
        return 0;
    s->srun = 0;
    return dt_error_set(err, EX_UNAVAILABLE, "cannot run srun: %s",
                        strerror(rc));
}

/* Notes the end of srun, if it has ended. */
static void look_at_srun(struct steps *s)
{
    int status;
    if (s->srun == 0 || waitpid(s->srun, &status, WNOHANG) != s->srun)
        return;
    s->srun = 0;
    s->status =
        WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* --- signals --- */

static sigset_t waited_signals(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, SIGUSR2);
    return set;
}

/* Waits for a signal, but not longer than that. All but SIGCHLD are passed on
 * to srun; those that end programs end the loop as well.
 */
static void wait_for_signal(struct steps *s, double seconds)
{
    const sigset_t set = waited_signals();
    const struct timespec most = {.tv_nsec = (long)(seconds * 1e9)};
    int number = sigtimedwait(&set, NULL, &most);
    look_at_srun(s);
    if (number <= 0 || number == SIGCHLD)
        return;
    s->stopping |= number != SIGUSR1 && number != SIGUSR2;
    if (s->srun > 0)
        kill(s->srun, number);
}

static void wait_for_srun(struct steps *s, double seconds)
{
    const double until = dt_clock_now() + seconds;
    while (s->srun > 0 && dt_clock_now() < until)
        wait_for_signal(s, 0.05);
}

/* Ends the step: srun kills the tasks when it is told to end, but then waits
 * for those of the lost node. The console, its child, writes on for a moment.
 */
static void end_step(struct steps *s)
{
    kill(s->srun, SIGTERM);
    wait_for_srun(s, MERCY_S);
    if (s->srun > 0) {
        kill(s->srun, SIGKILL);
        wait_for_srun(s, MERCY_S);
        s->status = 128 + SIGKILL;
        s->srun = 0; /* even if it hangs in the kernel */
    }
    const double until = dt_clock_now() + REST_S;
    while (waitpid(-1, NULL, WNOHANG) >= 0 && dt_clock_now() < until)
        dt_clock_sleep(0.01);
}

/* --- lost nodes --- */

static void shrink_job(const struct steps *s)
{
    struct dt_error err;
    if (dt_job_nodes_shrink(&s->nodes, s->job, &err) < 0)
        say("warning: %s", err.text);
}

/* Notes when workers have written the status of the run. Its time is that of
 * the file server.
 */
static void look_at_run(struct steps *s, double now)
{
    char path[PATH_MAX];
    struct stat st;
    snprintf(path, sizeof(path), "%s/status.json", s->conf->logging.dir);
    if (stat(path, &st) < 0 || (st.st_mtim.tv_sec == s->written.tv_sec &&
                                st.st_mtim.tv_nsec == s->written.tv_nsec))
        return;
    s->seen = s->written.tv_sec == 0 ? 0 : now;
    s->written = st.st_mtim;
}

/* Keepers have time to go on without a node. When they do, they take it out of
 * the job, which nobody else may do before, and nobody can while Slurm does not
 * answer, or where the cluster lets no job shrink. 1: they may still do it; 0:
 * they have; -1: they do not.
 */
static int watch_keepers(struct steps *s)
{
    if (!dt_job_outlives(s->conf) || s->srun <= 0)
        return -1;
    const int out = dt_job_nodes_are_out(&s->nodes, s->job);
    const double mend = DT_KEEPER_MENDS * dt_job_outage(s->conf, true);
    const double now = dt_clock_now();
    look_at_run(s, now);
    if (s->lost == 0 || out < 0)
        s->lost = now;
    if (out <= 0 && now < s->lost + mend)
        return 1;
    return out > 0 || (s->seen > 0 && now < s->seen + WRITE_S) ? 0 : -1;
}

/* Says what was not said of a node yet. */
static void tell(struct dt_job_node *node)
{
    if (node->lost && !node->told)
        say("node %s%s is lost", node->name, node->in_step ? "" : ", a spare,");
    if (!node->lost && node->told)
        say("node %s answers again", node->name);
    node->told = node->lost;
}

/* Ends the step if it has lost a node, and takes lost nodes out of the job. */
static void leave_out_lost(struct steps *s)
{
    bool any = false, of_step = false;
    for (int i = 0; i < s->nodes.count; i++) {
        struct dt_job_node *node = &s->nodes.node[i];
        if (node->left_out)
            continue;
        tell(node);
        any |= node->lost;
        of_step |= node->lost && node->in_step;
    }
    const int mends = of_step ? watch_keepers(s) : -1;
    if (mends > 0)
        return;
    if (mends < 0 && of_step && s->srun > 0)
        end_step(s);
    if (mends < 0 && any)
        shrink_job(s);
    for (int i = 0; i < s->nodes.count; i++)
        s->nodes.node[i].left_out = s->nodes.node[i].lost;
    s->lost = 0;
}

static void ask_nodes(struct steps *s)
{
    double now = dt_clock_now();
    dt_job_nodes_take(&s->nodes, now);
    if (now < s->asked + ASK_S)
        return;
    dt_job_nodes_ask(&s->nodes, now);
    dt_job_nodes_judge(&s->nodes, now);
    s->asked = now;
}

/* Finds out which nodes are lost after a step has failed. A rank may have
 * noticed it before we could.
 */
static void find_lost(struct steps *s)
{
    const double ended = dt_clock_now();
    s->asked = 0; /* at once */
    do {
        ask_nodes(s);
        wait_for_signal(s, 0.02);
    } while (!s->stopping && !dt_job_nodes_known(&s->nodes, ended));
    dt_job_nodes_ask_slurm(&s->nodes, s->job);
    leave_out_lost(s);
}

/* --- the loop --- */

static int run_step(struct steps *s, struct dt_error *err)
{
    for (int i = 0, used = 0; i < s->nodes.count; i++) {
        struct dt_job_node *node = &s->nodes.node[i];
        node->in_step = !node->lost && used < count_taken(s);
        used += node->in_step;
    }
    if (start_srun(s, err) < 0)
        return -1;
    while (s->srun > 0) {
        wait_for_signal(s, 0.5);
        ask_nodes(s);
        leave_out_lost(s);
    }
    return 0;
}

/* srun 22.05 has status 0 if the ranks of a node that Slurm has found down are
 * the only ones to fail, unless keepers have told it the status.
 */
static void doubt_success(struct steps *s)
{
    dt_job_nodes_ask_slurm(&s->nodes, s->job);
    for (int i = 0; i < s->nodes.count; i++)
        if (s->nodes.node[i].in_step && s->nodes.node[i].lost)
            s->status = EX_UNAVAILABLE;
}

/* Returns the exit status of the last step; -1: EX_UNAVAILABLE. */
static int run_steps(struct steps *s, struct dt_error *err)
{
    const long most = s->conf->launch.max_restarts;
    char count[24];
    for (s->size = s->wanted;;) {
        if (run_step(s, err) < 0)
            return -1;
        if (s->status == 0 && !dt_job_is_kept(s->conf))
            doubt_success(s);
        if (s->status == 0 || s->status == EX_TEMPFAIL || s->stopping ||
            s->restarts == most)
            return s->status;
        find_lost(s);
        if (s->stopping)
            return s->status;
        if (!choose_size(s))
            return tell_too_few(s);
        snprintf(count, sizeof(count), "%ld", ++s->restarts);
        setenv("TORCHELASTIC_RESTART_COUNT", count, 1);
        say("exit status %d: restart %ld of %ld", s->status, s->restarts, most);
    }
}

/* The sizes of the job, which options of sbatch may have set. */
static int find_sizes(struct steps *s, struct dt_error *err)
{
    const struct dt_conf *conf = s->conf;
    struct dt_slurm_size job;
    dt_slurm_size_read(&job);
    s->wanted = s->nodes.count - conf->launch.spares;
    s->each = job.ranks_per_node             ? job.ranks_per_node
              : job.ranks                    ? job.ranks / s->nodes.count
              : conf->launch.ntasks_per_node ? conf->launch.ntasks_per_node
                                             : 1;
    dt_slurm_size_fini(&job);
    if (s->wanted < 1)
        return dt_error_set(err, EX_CONFIG,
                            "launch.spares: %ld of the %d nodes of the job "
                            "leave none for a step",
                            conf->launch.spares, s->nodes.count);
    if (conf->trains && conf->launch.command.count == 0)
        s->batch = dt_world_batch(conf, s->wanted * s->each, 0);
    return 0;
}

static int steps_init(struct steps *s, struct dt_error *err)
{
    const char *list = getenv("SLURM_JOB_NODELIST");
    unsigned char random[8] = {0};
    if (!list || !dt_job_id(getenv("SLURM_JOB_ID"), s->job))
        return dt_error_set(err, EX_USAGE,
                            "only in a batch job: submit the script of "
                            "`disttrain sbatch`");
    if (getrandom(random, sizeof(random), 0) < 0)
        return dt_error_set(err, EX_OSERR, "getrandom: %s", strerror(errno));
    for (int i = 0; i < 8; i++)
        snprintf(s->loop + 2 * i, 3, "%02x", random[i]);
    const double silence = (double)s->conf->distributed.outage_s + LATER_S;
    if (dt_job_nodes_init(&s->nodes, list, silence, err) < 0)
        return -1;
    return find_sizes(s, err);
}

int dt_steps_run(const struct dt_conf *conf, const struct dt_srun_words *words,
                 struct dt_error *err)
{
    const sigset_t set = waited_signals();
    struct steps s = {.conf = conf, .words = words};
    sigprocmask(SIG_BLOCK, &set, NULL);
    prctl(PR_SET_CHILD_SUBREAPER, 1); /* end_step waits for the console */
    int status = steps_init(&s, err);
    if (status == 0)
        status = run_steps(&s, err);
    dt_job_nodes_fini(&s.nodes);
    return status;
}
