/* SPDX-License-Identifier: Apache-2.0 */
/* keep.c - a task of srun becomes the keeper of the program of its rank */
#include "config.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/inherited.h"
#include "base/job_id.h"
#include "base/proc.h"
#include "cmd/cmd_impl.h"
#include "contract/comment.h"
#include "contract/contract.h"
#include "contract/requeue_rule.h"
#include "keeper/keeper.h"
#include "slurm/job.h"

/* Whether ranks of training are kept: 1, 0, or -1 after a message. */
static int is_wanted(const struct dt_conf *conf)
{
    const char *why, *tasks = getenv("SLURM_STEP_NUM_TASKS");
    if (conf->launch.keeper == DT_CONF_KEEPER_OFF || getenv(DT_INHERITED))
        return 0;
    if (dt_keeper_possible(getenv(DT_ENV_STEP_SECRET), &why))
        return conf->launch.keeper == DT_CONF_KEEPER_ON || atol(tasks) > 1;
    if (conf->launch.keeper == DT_CONF_KEEPER_AUTO && !getenv(DT_ENV_KEEPER))
        return 0;
    fprintf(stderr,
            "disttrain: launch.keeper needs %s: use srun --disttrain=FILE, or "
            "set launch.keeper: off\n",
            why);
    return -1;
}

static int leave_out(const char *nodes, int n)
{
    struct dt_error err;
    if (dt_job_leave_out(nodes, &err) == 0)
        return 0;
    if (n == 1)
        fprintf(stderr, "disttrain: warning: %s\n", err.text);
    return 1;
}

static const double COMMENT_S = 10; /* for Slurm */

/* The comment of the job is all that is left to tell the user. */
static void tell_lost(const char *node)
{
    char job[DT_JOB_ID_BYTES], text[240];
    snprintf(text, sizeof(text),
             DT_COMMENT_OURS "%s, the node of srun, is lost: the run goes on "
                             "without output, see disttrain top",
             node);
    if (!getenv(DT_ENV_JOB_COMMENT) && dt_job_id(getenv("SLURM_JOB_ID"), job))
        dt_comment_set(job, text, COMMENT_S);
}

/* In all, longer than Slurm takes to find a node down. */
static const double SHRINK_S = 20;

/* Links that fail for a while come back before, unless the user says that they
 * take longer.
 */
static const double SILENCE_S = 20;

/* From the first answer of a kernel to that of slurmd. */
static const double BOOT_S = 300;

/* In which Slurm finds nodes down (SlurmdTimeout), at many a site. */
static const double DOWN_S = 3600;

/* In which the console hears the end of a step that has lost nodes, also if a
 * link fails for a while.
 */
static const double HEAR_S = 120;

/* Between two tries to end the job, while Slurm does not answer. */
static const double AGAIN_S = 20;

/* A job that was cancelled ends already. With launch.requeue one that is short
 * of nodes goes back into the queue, as Slurm itself would put it there, were
 * it not for --no-kill.
 */
static void end_job(const struct dt_keeper_end *end)
{
    struct dt_requeue facts;
    struct dt_error err;
    char why[160];
    dt_requeue_read(&facts);
    facts.status = end->status;
    facts.late = end->late || end->short_of_nodes;
    facts.seconds = end->seconds;
    snprintf(why, sizeof(why),
             "the node of srun is lost, and the step has ended with status %d",
             end->status);
    fprintf(stderr, "disttrain: %s\n", why);
    const bool requeue = dt_requeue_judge(&facts) == DT_REQUEUE_DUE;
    const double until = dt_clock_now() + DOWN_S;
    int rc;
    while ((rc = dt_job_end(requeue, why, &err)) < 0 &&
           err.status == EX_TEMPFAIL && dt_clock_now() < until)
        dt_clock_sleep(AGAIN_S);
    if (rc < 0)
        fprintf(stderr, "disttrain: warning: %s\n", err.text);
}

/* Keeps with these options, and those that srun's plugin has set; for a
 * configuration, or NULL.
 */
static int keep(struct dt_keeper_options *options, const struct dt_conf *conf)
{
    const char *spares = getenv(DT_ENV_SPARES);
    const char *last = getenv(DT_ENV_SIGNAL);
    const char *port = getenv("SLURM_SRUN_COMM_PORT");
    struct dt_error err;
    char *token = getenv(DT_ENV_KEPT) ? strdup(getenv(DT_ENV_KEPT)) : NULL;
    options->secret = getenv(DT_ENV_STEP_SECRET);
    options->token = token;
    options->replaces = token && getenv(DT_ENV_OUTLIVES);
    unsetenv(DT_ENV_KEPT); /* keepers below this one do not end its step */
    unsetenv(DT_ENV_OUTLIVES);
    options->leave_out = leave_out;
    options->tell_lost = tell_lost;
    options->shrink_s = SHRINK_S;
    options->is_left_out = dt_job_has_left;
    options->end_job = end_job;
    options->last_signal = last ? atoi(last) : 0;
    options->outage_s = dt_job_outage(conf, options->replaces);
    options->silence_s = fmax(SILENCE_S, options->outage_s);
    options->boot_s = BOOT_S;
    options->down_s = DOWN_S;
    options->hear_s = HEAR_S;
    options->srun_node = getenv(DT_ENV_SRUN_NODE);
    options->srun_address = getenv("SLURM_LAUNCH_NODE_IPADDR");
    options->srun_port = port ? atoi(port) : 0;
    options->beat_ms = DT_KEEPER_BEAT_MS;
    if (spares)
        sscanf(spares, "%d %ld", &options->spares, &options->least);
    int status = dt_keeper_run(options, &err);
    free(token);
    if (status >= 0)
        return status;
    fprintf(stderr, "disttrain: %s\n", err.text);
    return err.status;
}

/* --- training with fewer ranks --- */

struct program {
    const struct dt_conf *conf;
    char **words;   /* of the first number of ranks, */
    char **resized; /* and of another, with the batch of the first */
    char batch[64];
};

static char *const *program_of(void *context, int first, int size)
{
    struct program *p = context;
    if (size == first)
        return p->words;
    const long batch = dt_world_batch(p->conf, first, 0);
    if (batch == 0 || dt_world_batch(p->conf, size, batch) == 0)
        return NULL;
    snprintf(p->batch, sizeof(p->batch), "training.train_batch_size=%ld",
             batch);
    return p->resized;
}

/* Fills in the words: this program, `train` and its arguments. */
static int make_program(struct program *p, char *const *argv)
{
    int argc = 0;
    while (argv[argc])
        argc++;
    p->words = calloc((size_t)argc + 2, sizeof(*p->words));
    p->resized = calloc((size_t)argc + 4, sizeof(*p->resized));
    if (!p->words || !p->resized || argc == 0)
        return -1;
    p->words[0] = p->resized[0] = program_invocation_name;
    p->words[1] = p->resized[1] = argv[0];
    p->resized[2] = "--set";
    p->resized[3] = p->batch;
    for (int i = 1; i < argc; i++)
        p->words[1 + i] = p->resized[3 + i] = argv[i];
    return 0;
}

bool dt_keep_training(const struct dt_conf *conf, char *const *argv,
                      int *status)
{
    struct program program = {.conf = conf};
    int wanted = is_wanted(conf);
    if (wanted == 0)
        return false;
    *status = EX_CONFIG;
    if (wanted < 0)
        return true;
    *status = EX_OSERR;
    if (make_program(&program, argv) == 0) {
        struct dt_keeper_options options = {
            .program = DT_PROC_SELF,
            .argv = program.words,
            .argv_of = program_of,
            .context = &program,
            .dir = conf->run.output_dir,
            .trains = true,
            .max_restarts = conf->launch.max_worker_restarts,
            .spent = DT_KEEP_SPENT,
            .timeout_ms = (int)(conf->distributed.timeout_s * 1000),
        };
        *status = keep(&options, conf);
    }
    free(program.words);
    free(program.resized);
    return true;
}

int dt_keep_command(char *const *words, long max_restarts, const char *spent)
{
    struct dt_keeper_options options = {
        .argv = words,
        .max_restarts = max_restarts,
        .spent = spent,
        .timeout_ms = DT_JOIN_TIMEOUT_MS,
    };
    return keep(&options, NULL);
}
