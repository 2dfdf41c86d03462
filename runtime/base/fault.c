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

#include "base/fault.h"

enum fault_action { FAULT_KILL, FAULT_STOP, FAULT_ERROR };

static struct {
    char point[64];
    enum fault_action action;
    int rank; /* -1: any */
    long step; /* -1: any */
    long nth;
} plan;

static pthread_once_t plan_once = PTHREAD_ONCE_INIT;
static atomic_long passages;
static atomic_int here_rank;
static atomic_long here_step;

static void bad_plan(const char *text)
{
    fprintf(stderr, "disttrain: DISTTRAIN_FAULT=%s: expected POINT"
            "[:rank=R][:step=S][:nth=N]:kill|stop|error\n", text);
    abort(); /* a test that asks for nothing must not pass */
}

static void plan_load(void)
{
    char *text = getenv("DISTTRAIN_FAULT"), *save = NULL;
    plan.rank = -1;
    plan.step = -1;
    plan.nth = 1;
    if (!text)
        return;
    char *copy = strdup(text);
    char *word = copy ? strtok_r(copy, ":", &save) : NULL;
    int have_action = 0;
    if (!word)
        bad_plan(text);
    snprintf(plan.point, sizeof(plan.point), "%s", word);
    while ((word = strtok_r(NULL, ":", &save))) {
        if (!strcmp(word, "kill"))
            plan.action = FAULT_KILL, have_action = 1;
        else if (!strcmp(word, "stop"))
            plan.action = FAULT_STOP, have_action = 1;
        else if (!strcmp(word, "error"))
            plan.action = FAULT_ERROR, have_action = 1;
        else if (sscanf(word, "rank=%d", &plan.rank) != 1 &&
                 sscanf(word, "step=%ld", &plan.step) != 1 &&
                 sscanf(word, "nth=%ld", &plan.nth) != 1)
            bad_plan(text);
    }
    if (!have_action)
        bad_plan(text);
    free(copy);
}

void dt_fault_rank(int rank)
{
    here_rank = rank;
}

void dt_fault_step(long step)
{
    here_step = step;
}

bool dt_fault(const char *point)
{
    pthread_once(&plan_once, plan_load);
    if (strcmp(plan.point, point) != 0 ||
        (plan.rank >= 0 && plan.rank != here_rank) ||
        (plan.step >= 0 && plan.step != here_step))
        return false;
    if (atomic_fetch_add(&passages, 1) + 1 != plan.nth)
        return false;
    if (plan.action == FAULT_KILL)
        kill(getpid(), SIGKILL);
    if (plan.action == FAULT_STOP)
        kill(getpid(), SIGSTOP);
    return plan.action == FAULT_ERROR;
}

#endif
