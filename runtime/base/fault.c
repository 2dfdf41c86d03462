/* SPDX-License-Identifier: Apache-2.0 */
/* fault.c - DISTTRAIN_FAULT, see fault.h */
#include "config.h"

#ifdef ENABLE_FAULT_INJECTION

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault.h"

enum fault_action { FAULT_KILL, FAULT_STOP, FAULT_ERROR, FAULT_SLEEP };

enum { PLANS = 4 };

static struct plan {
    char point[64];
    enum fault_action action;
    int rank;  /* -1: any */
    int life;  /* of the ranks, from 1; 0: any */
    long step; /* -1: any */
    long nth;
    double sleep_ms; /* at the nth passage and all that follow */
    atomic_long passages;
} plans[PLANS];

static pthread_once_t plan_once = PTHREAD_ONCE_INIT;
static atomic_int here_rank;
static atomic_long here_step;

static void bad_plan(const char *text)
{
    fprintf(
        stderr,
        "disttrain: DISTTRAIN_FAULT=%s: expected up to %d of "
        "POINT[:rank=R][:step=S][:nth=N][:life=L]:kill|stop|error|sleep=MS, "
        "with commas between them\n",
        text, PLANS);
    abort(); /* a test that asks for nothing must not pass */
}

/* `text` is cut into words. -1: it is no plan. */
static int plan_parse(struct plan *plan, char *text)
{
    char *save = NULL, *word = strtok_r(text, ":", &save);
    bool have_action = false;
    plan->rank = -1;
    plan->step = -1;
    plan->nth = 1;
    if (!word)
        return -1;
    snprintf(plan->point, sizeof(plan->point), "%s", word);
    while ((word = strtok_r(NULL, ":", &save))) {
        if (!strcmp(word, "kill"))
            plan->action = FAULT_KILL, have_action = true;
        else if (!strcmp(word, "stop"))
            plan->action = FAULT_STOP, have_action = true;
        else if (!strcmp(word, "error"))
            plan->action = FAULT_ERROR, have_action = true;
        else if (sscanf(word, "sleep=%lf", &plan->sleep_ms) == 1)
            plan->action = FAULT_SLEEP, have_action = true;
        else if (sscanf(word, "rank=%d", &plan->rank) != 1 &&
                 sscanf(word, "life=%d", &plan->life) != 1 &&
                 sscanf(word, "step=%ld", &plan->step) != 1 &&
                 sscanf(word, "nth=%ld", &plan->nth) != 1)
            return -1;
    }
    return have_action ? 0 : -1;
}

static void plans_load(void)
{
    const char *text = getenv("DISTTRAIN_FAULT");
    if (!text)
        return;
    char *copy = strdup(text), *save = NULL;
    char *one = copy ? strtok_r(copy, ",", &save) : NULL;
    if (!one)
        bad_plan(text);
    for (int i = 0; one; one = strtok_r(NULL, ",", &save))
        if (i == PLANS || plan_parse(&plans[i++], one) < 0)
            bad_plan(text);
    free(copy);
}

/* The start of the ranks, as their batch script and keepers count it. */
static int here_life(void)
{
    const char *restarts = getenv("TORCHELASTIC_RESTART_COUNT");
    return restarts ? atoi(restarts) + 1 : 1;
}

void dt_fault_rank(int rank)
{
    here_rank = rank;
}

void dt_fault_step(long step)
{
    here_step = step;
}

static bool is_due(struct plan *plan, const char *point)
{
    if (strcmp(plan->point, point) != 0 ||
        (plan->rank >= 0 && plan->rank != here_rank) ||
        (plan->step >= 0 && plan->step != here_step) ||
        (plan->life > 0 && plan->life != here_life()))
        return false;
    const long passage = atomic_fetch_add(&plan->passages, 1) + 1;
    return plan->action == FAULT_SLEEP ? passage >= plan->nth
                                       : passage == plan->nth;
}

static bool plan_fires(struct plan *plan, const char *point)
{
    if (!is_due(plan, point))
        return false;
    if (plan->action == FAULT_SLEEP)
        dt_clock_sleep(plan->sleep_ms / 1e3);
    else if (plan->action != FAULT_ERROR)
        dprintf(STDERR_FILENO, "DISTTRAIN_FAULT: rank %d, step %ld: %s\n",
                here_rank, here_step, point);
    if (plan->action == FAULT_KILL)
        kill(getpid(), SIGKILL);
    if (plan->action == FAULT_STOP)
        kill(getpid(), SIGSTOP);
    return plan->action == FAULT_ERROR;
}

bool dt_fault(const char *point)
{
    bool fires = false;
    pthread_once(&plan_once, plans_load);
    for (int i = 0; i < PLANS; i++)
        fires |= plan_fires(&plans[i], point);
    return fires;
}

#endif
