/* SPDX-License-Identifier: Apache-2.0 */
/* outcome.c - collects the starts and ends of the ranks of a step */
#include "config.h"

#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/rankset.h"
#include "console/console_impl.h"

enum {
    KEEP_MAX = 16 * 1024, /* bytes kept of each stream of a rank */
    KEEP_MIN = 1024,
    KEEP_ALL = 64 * 1024 * 1024, /* of all ranks */
    HOSTS_SHOWN = 8,
};

void dt_outcome_destroy(struct dt_outcome *outcome)
{
    if (!outcome)
        return;
    for (uint32_t i = 0; outcome->ranks && i <= outcome->count; i++) {
        free(outcome->ranks[i].out.text);
        free(outcome->ranks[i].err.text);
    }
    for (int i = 0; i < outcome->host_count; i++)
        free(outcome->hosts[i].name);
    free(outcome->hosts);
    free(outcome->ranks);
    free(outcome->hang);
    free(outcome);
}

struct dt_outcome *dt_outcome_create(uint32_t ranks, int64_t launch_ms,
                                     struct dt_error *err)
{
    struct dt_outcome *outcome = calloc(1, sizeof(*outcome));
    if (outcome)
        outcome->ranks = calloc((size_t)ranks + 1, sizeof(*outcome->ranks));
    if (!outcome || !outcome->ranks) {
        dt_outcome_destroy(outcome);
        dt_error_set(err, EX_OSERR, "out of memory");
        return NULL;
    }
    size_t keep = KEEP_ALL / ((size_t)ranks + 1);
    keep = keep > KEEP_MAX ? KEEP_MAX : keep < KEEP_MIN ? KEEP_MIN : keep;
    outcome->count = ranks;
    outcome->launch_ms = launch_ms;
    for (uint32_t i = 0; i <= ranks; i++) {
        outcome->ranks[i].host = NO_HOST;
        outcome->ranks[i].out.keep = keep;
        outcome->ranks[i].err.keep = keep;
    }
    return outcome;
}

/* Adds a host and returns its index; NO_HOST if memory is short. */
static int add_host(struct dt_outcome *outcome, const char *name)
{
    if (outcome->host_count == outcome->host_size) {
        int size = outcome->host_size ? 2 * outcome->host_size : 16;
        struct host *hosts =
            realloc(outcome->hosts, sizeof(*hosts) * (size_t)size);
        if (!hosts)
            return NO_HOST;
        outcome->hosts = hosts;
        outcome->host_size = size;
    }
    char *copy = strdup(name);
    if (!copy)
        return NO_HOST;
    outcome->hosts[outcome->host_count] =
        (struct host){.name = copy, .first = DT_NO_RANK};
    return outcome->host_count++;
}

int dt_outcome_find_host(const struct dt_outcome *outcome, const char *name)
{
    for (int i = 0; i < outcome->host_count; i++)
        if (strcmp(outcome->hosts[i].name, name) == 0)
            return i;
    return NO_HOST;
}

int dt_outcome_add_node(struct dt_outcome *outcome, const char *host,
                        const char *ranks, struct dt_error *err)
{
    struct dt_rankset set;
    if (dt_rankset_init(&set, outcome->count, err) != 0)
        return -1;
    int rc = dt_rankset_parse(&set, ranks, err);
    int index = rc == 0 ? add_host(outcome, host) : NO_HOST;
    if (rc == 0 && index == NO_HOST)
        rc = dt_error_set(err, EX_OSERR, "out of memory");
    for (uint32_t i = set.size; rc == 0 && i-- > 0;)
        if (set.has[i]) {
            outcome->ranks[i].host = index;
            outcome->hosts[index].first = i;
        }
    dt_rankset_fini(&set);
    return rc;
}

void dt_outcome_text(struct dt_outcome *outcome, uint32_t rank, bool is_stderr,
                     const char *text, size_t len, int64_t now_ms)
{
    struct rank *r =
        &outcome->ranks[rank < outcome->count ? rank : outcome->count];
    r->seen = true;
    *(is_stderr ? &r->err_ms : &r->out_ms) = now_ms;
    dt_last_lines_append(is_stderr ? &r->err : &r->out, text, len);
}

void dt_outcome_update_clock(struct dt_outcome *outcome,
                             const struct dt_console_event *event)
{
    struct rank *r = &outcome->ranks[event->rank];
    int64_t ahead = event->came_ms - event->ms;
    if (r->host == NO_HOST)
        r->host = dt_outcome_find_host(outcome, event->host);
    if (r->host == NO_HOST)
        r->host = add_host(outcome, event->host);
    if (r->host == NO_HOST)
        return;
    struct host *host = &outcome->hosts[r->host];
    if (!host->has_clock || ahead < host->ahead_ms)
        host->ahead_ms = ahead;
    host->has_clock = true;
}

/* A user's Ctrl-C right after a rank has ended is not a reaction to that end.
 * The message about who stopped the step may come after the message that the
 * step is stopped. Hearsay does not stop the step.
 */
void dt_outcome_stop(struct dt_outcome *outcome,
                     const struct dt_console_event *event)
{
    if (event->kind == DT_EVENT_ASKED)
        outcome->asked_ms = event->came_ms;
    if (outcome->stop_ms == 0 && !event->hearsay) {
        outcome->stop_ms = event->came_ms;
        outcome->killed = event->status == SIGKILL;
    }
    if (outcome->asked_ms != 0 && outcome->stop_ms != 0 &&
        llabs(outcome->asked_ms - outcome->stop_ms) < ASKED_MS &&
        (outcome->first_end_ms == 0 ||
         outcome->stop_ms - outcome->first_end_ms < ASKED_MS))
        outcome->asked = true;
}

void dt_outcome_srun_ended(struct dt_outcome *outcome, int status)
{
    outcome->fails = status != 0;
    outcome->succeeds = status == 0;
    if (status == 0 || outcome->stop_ms != 0 || outcome->asked_ms == 0)
        return;
    outcome->stop_ms = outcome->asked_ms;
    outcome->asked = outcome->first_end_ms == 0 ||
                     outcome->stop_ms - outcome->first_end_ms < ASKED_MS;
}

void dt_outcome_hang(struct dt_outcome *outcome, const char *text,
                     int64_t now_ms)
{
    free(outcome->hang);
    outcome->hang = strdup(text);
    const struct dt_console_event stop = {.kind = DT_EVENT_STOP,
                                          .came_ms = now_ms};
    dt_outcome_stop(outcome, &stop);
}

uint32_t dt_outcome_missing(const struct dt_outcome *outcome)
{
    uint32_t missing = 0;
    for (uint32_t i = 0; i < outcome->count; i++)
        missing += !outcome->ranks[i].seen;
    return missing;
}

static bool is_missing(const struct dt_outcome *outcome, uint32_t rank)
{
    return !outcome->ranks[rank].seen;
}

void dt_outcome_print_by_host(const struct dt_outcome *outcome,
                              dt_outcome_holds_f *holds, FILE *out)
{
    struct dt_rankset set;
    int shown = 0;
    uint32_t more = 0;
    for (int host = NO_HOST; host < outcome->host_count; host++) {
        if (dt_rankset_init(&set, outcome->count, NULL) != 0)
            return;
        for (uint32_t i = 0; i < outcome->count; i++)
            if (outcome->ranks[i].host == host && holds(outcome, i))
                dt_rankset_add(&set, i);
        if (set.count > 0 && shown < HOSTS_SHOWN) {
            fputs(shown++ > 0 ? "; " : "", out);
            dt_rankset_print(&set, out);
            if (host != NO_HOST)
                fprintf(out, " on %s", outcome->hosts[host].name);
        } else {
            more += set.count;
        }
        dt_rankset_fini(&set);
    }
    if (more > 0)
        fprintf(out, "; and %" PRIu32 " more", more);
}

void dt_outcome_print_missing(const struct dt_outcome *outcome, FILE *out)
{
    dt_outcome_print_by_host(outcome, is_missing, out);
}

/* Writes "n3 (ranks 4-5)". */
static void print_host(const struct dt_outcome *outcome, const char *name,
                       FILE *out)
{
    struct dt_rankset set;
    int host = dt_outcome_find_host(outcome, name);
    fputs(name, out);
    if (host == NO_HOST || dt_rankset_init(&set, outcome->count, NULL) != 0)
        return;
    for (uint32_t i = 0; i < outcome->count; i++)
        if (outcome->ranks[i].host == host)
            dt_rankset_add(&set, i);
    fputs(" (", out);
    dt_rankset_print(&set, out);
    fputc(')', out);
    dt_rankset_fini(&set);
}

void dt_outcome_print_hosts(const struct dt_outcome *outcome, const char *list,
                            FILE *out)
{
    char names[sizeof(((struct dt_console_event *)0)->list)];
    char *rest = names;
    const char *before = "";
    snprintf(names, sizeof(names), "%s", list);
    for (const char *name; (name = strsep(&rest, ",")) != NULL;) {
        fputs(before, out);
        print_host(outcome, name, out);
        before = ", ";
    }
}
