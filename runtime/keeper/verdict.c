/* SPDX-License-Identifier: Apache-2.0 */
/* verdict.c - why the workers have ended, and whether they start again */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "keeper/verdict.h"

/* Exit statuses that another try would not change: those of `disttrain train`,
 * and those that shells and keepers give where there is no such program.
 */
static bool is_final(int code, bool trains)
{
    if (!trains)
        return code == 126 || code == 127;
    switch (code) {
    case EX_USAGE:
    case EX_DATAERR:
    case EX_NOINPUT:
    case EX_CANTCREAT:
    case EX_TEMPFAIL:
    case EX_NOPERM:
    case EX_CONFIG:
        return true;
    default:
        return false;
    }
}

const int dt_keeper_asking[DT_KEEPER_ASKING] = {SIGTERM, SIGINT, SIGHUP,
                                                SIGUSR1, SIGUSR2};

bool dt_ended_as_asked(int status)
{
    for (int i = 0; i < DT_KEEPER_ASKING; i++)
        if (WIFSIGNALED(status) && WTERMSIG(status) == dt_keeper_asking[i])
            return true;
    return false;
}

bool dt_ended_well(int status)
{
    return WIFEXITED(status) &&
           (WEXITSTATUS(status) == EX_OK || WEXITSTATUS(status) == EX_TEMPFAIL);
}

/* How much an end explains: most if a node is lost, nothing if the keeper
 * caused it, and little if the rank ended because it had lost a peer, of which
 * it leaves a note, or because of anything else outside of it.
 */
static int weight(const struct dt_ending *ending)
{
    const int status = ending->down.status;
    if (ending->lost)
        return 3;
    if (ending->down.stopped || dt_ended_well(status))
        return 0;
    return WIFEXITED(status) &&
                   (ending->note[0] || WEXITSTATUS(status) == EX_UNAVAILABLE)
               ? 1
               : 2;
}

const struct dt_ending *dt_ending_cause(const struct dt_ending *endings,
                                        int count)
{
    const struct dt_ending *cause = NULL;
    for (int i = 0; i < count; i++) {
        const struct dt_ending *e = &endings[i];
        const int own = weight(e), best = cause ? weight(cause) : 0;
        if (own > best || (cause && own == best && e->turn < cause->turn))
            cause = e;
    }
    return cause;
}

void dt_ending_describe(const struct dt_ending *ending, const char *host,
                        char *text, size_t bytes)
{
    const int status = ending->down.status;
    char step[48] = "";
    if (ending->down.step > 0)
        snprintf(step, sizeof(step), " after step %" PRId64, ending->down.step);
    if (ending->note[0])
        snprintf(text, bytes, "%s", ending->note);
    else if (ending->down.starved)
        snprintf(text, bytes,
                 "rank %d on %s was killed because memory ran out%s",
                 ending->down.rank, host, step);
    else if (WIFSIGNALED(status))
        snprintf(text, bytes, "rank %d on %s was killed by signal %d (%s)%s",
                 ending->down.rank, host, WTERMSIG(status),
                 strsignal(WTERMSIG(status)), step);
    else
        snprintf(text, bytes, "rank %d on %s has ended with status %d%s",
                 ending->down.rank, host, WEXITSTATUS(status), step);
}

/* Whether the same rank has failed before in the same way, at the same step. */
static bool is_repeated(const struct dt_wire_down *now,
                        const struct dt_wire_down *before)
{
    return WIFEXITED(now->status) && now->rank == before->rank &&
           now->status == before->status && now->step == before->step;
}

/* Whether memory has run out before at the same step, on any rank. */
static bool is_starved_again(const struct dt_wire_down *now,
                             const struct dt_wire_down *before)
{
    return now->starved && before->starved && now->step == before->step;
}

bool dt_verdict_restart(struct dt_verdict *verdict,
                        const struct dt_keeper_options *options,
                        const struct dt_ending *endings, int count, bool gone,
                        const char **why)
{
    const struct dt_ending *cause = dt_ending_cause(endings, count);
    const struct dt_wire_down before = verdict->cause;
    verdict->asked = false;
    for (int i = 0; i < count; i++) {
        verdict->asked |= endings[i].down.asked;
        if (endings[i].down.step > verdict->best) {
            verdict->best = endings[i].down.step;
            verdict->fruitless = 0;
        }
    }
    *why = NULL;
    verdict->cause = cause ? cause->down : endings[0].down;
    if (verdict->asked && cause && options->trains &&
        dt_ended_as_asked(cause->down.status))
        verdict->cause.status = EX_TEMPFAIL
                                << 8; /* it has not begun to train */
    if (verdict->asked && gone && options->trains && (!cause || cause->lost)) {
        verdict->cause.status = EX_TEMPFAIL << 8;
        *why = "the step was told to end";
        return false;
    }
    if ((!cause && !gone) || verdict->asked ||
        (cause && WIFEXITED(cause->down.status) &&
         is_final(WEXITSTATUS(cause->down.status), options->trains)))
        return false;
    if (options->trains && verdict->restarts > 0 && !gone &&
        is_repeated(&cause->down, &before))
        *why = "it has failed twice at the same step";
    else if (cause && options->trains && verdict->restarts > 0 &&
             is_starved_again(&cause->down, &before))
        *why = "memory has run out twice at the same step: ask Slurm for more "
               "(launch.mem), or see what `disttrain plan` says of smaller "
               "batches and other strategies";
    else if (verdict->fruitless >= options->max_restarts)
        *why = options->spent;
    if (*why)
        return false;
    verdict->restarts++;
    verdict->fruitless++;
    return true;
}

int64_t dt_endings_step(const struct dt_ending *endings, int count)
{
    int64_t step = -1;
    for (int i = 0; i < count; i++)
        if (endings[i].down.step > step)
            step = endings[i].down.step;
    return step;
}

void dt_verdict_note(struct dt_verdict *verdict,
                     const struct dt_ending *endings, int count, double at,
                     const char *host, const char *why)
{
    struct dt_launch_loss loss = {.at = at,
                                  .step = dt_endings_step(endings, count),
                                  .rank = verdict->cause.rank};
    snprintf(loss.host, sizeof(loss.host), "%s", host);
    snprintf(loss.why, sizeof(loss.why), "%s", why);
    if (loss.step >= 0)
        verdict->loss_count = 0;
    struct dt_launch_loss *more =
        realloc(verdict->losses, (verdict->loss_count + 1) * sizeof(*more));
    if (!more)
        return;
    verdict->losses = more;
    more[verdict->loss_count++] = loss;
}
