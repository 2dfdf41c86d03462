/* SPDX-License-Identifier: Apache-2.0 */
/* failure.c - reports the first failure and the ends of the other ranks */
#include "config.h"

#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <sysexits.h>

#include "base/rankset.h"
#include "console/console_impl.h"

#define OURS "disttrain: "

enum {
    IN_STEP_MS = 1000, /* smaller differences are delays of records, not clock
                        * skew
                        */
};

/* Converts a time of the rank's host to our clock. */
static int64_t common_ms(const struct dt_outcome *outcome, const struct rank *r,
                         int64_t ms)
{
    int64_t ahead = r->host == NO_HOST ? 0 : outcome->hosts[r->host].ahead_ms;
    return ahead >= 0 && ahead < IN_STEP_MS ? ms : ms + ahead;
}

static int64_t start_ms(const struct dt_outcome *outcome)
{
    int64_t first = INT64_MAX;
    for (uint32_t i = 0; i < outcome->count; i++) {
        const struct rank *r = &outcome->ranks[i];
        int64_t ms = common_ms(outcome, r, r->start_ms);
        if (r->started && ms < first)
            first = ms;
    }
    return first == INT64_MAX ? outcome->launch_ms : first;
}

static bool is_requeue(int status)
{
    return WIFEXITED(status) && WEXITSTATUS(status) == EX_TEMPFAIL;
}

/* Whether a rank that ended like this was told to end: by a signal from Slurm
 * or from the user's terminal, or to request a requeue.
 */
static bool was_told_to_end(int status)
{
    int signal =
        WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status) - 128;
    return signal == SIGTERM || signal == SIGINT || is_requeue(status);
}

static int64_t end_ms(const struct dt_outcome *outcome, const struct rank *r)
{
    return r->no_record ? r->end_ms : common_ms(outcome, r, r->end_ms);
}

/* When a rank first asked for a requeue; INT64_MAX: none has. */
static int64_t requeue_ms(const struct dt_outcome *outcome)
{
    int64_t first = INT64_MAX;
    for (uint32_t i = 0; i < outcome->count; i++) {
        const struct rank *r = &outcome->ranks[i];
        if (r->ended && is_requeue(r->status) && end_ms(outcome, r) < first)
            first = end_ms(outcome, r);
    }
    return first;
}

/* Whether a rank ended by itself, before anybody stopped the step. Slurm stops
 * a step with SIGTERM, which a rank may turn into an exit status, or with
 * SIGKILL, after two Ctrl-C and, since 26.05, if nobody reads the output of
 * srun. Since then it also sends SIGTERM before it says that it stops a step
 * for a rank that has asked for a requeue.
 */
static bool ended_by_itself(const struct dt_outcome *outcome,
                            const struct rank *r)
{
    bool killed = WIFSIGNALED(r->status) && WTERMSIG(r->status) == SIGKILL;
    bool asked = outcome->asked && (killed || WIFEXITED(r->status));
    int64_t early = outcome->killed && killed ? KILLED_MS
                    : asked                   ? ASKED_MS
                                              : 0;
    return !was_told_to_end(r->status) &&
           (outcome->stop_ms == 0 ||
            (end_ms(outcome, r) <= outcome->stop_ms - early &&
             end_ms(outcome, r) <= requeue_ms(outcome)));
}

static bool has_failed(const struct dt_outcome *outcome, const struct rank *r)
{
    return r->ended && ended_by_itself(outcome, r);
}

static const char *status_name(int status)
{
    static const char *const names[] = {
        [EX_USAGE] = "wrong usage",
        [EX_DATAERR] = "bad data",
        [EX_NOINPUT] = "missing input",
        [EX_UNAVAILABLE] = "another rank or a service was lost",
        [EX_SOFTWARE] = "internal error",
        [EX_OSERR] = "system error",
        [EX_CANTCREAT] = "cannot create a file",
        [EX_IOERR] = "input/output error",
        [EX_PROTOCOL] = "protocol error",
        [EX_NOPERM] = "no permission",
        [EX_CONFIG] = "configuration error",
    };
    if (status >= (int)(sizeof(names) / sizeof(*names)))
        return NULL;
    return names[status];
}

static void print_cause(const struct dt_outcome *outcome, const struct rank *r,
                        FILE *out)
{
    int exit = WEXITSTATUS(r->status);
    int signal = WTERMSIG(r->status);
    bool oom = r->host != NO_HOST && outcome->hosts[r->host].oom;
    if (WIFSIGNALED(r->status) && signal == SIGKILL && oom) {
        fputs("out of memory (killed by the kernel)", out);
    } else if (WIFSIGNALED(r->status)) {
        fprintf(out, "killed by signal %d (%s)", signal, strsignal(signal));
    } else {
        fprintf(out, "exit status %d", exit);
        if (exit > 128 && exit < 128 + SIGRTMIN)
            fprintf(out, " (128 + signal %d, %s)", exit - 128,
                    strsignal(exit - 128));
        else if (status_name(exit))
            fprintf(out, " (%s)", status_name(exit));
    }
}

static double to_seconds(int64_t ms)
{
    return (double)ms / 1000.0;
}

/* Whether a rank has failed according to messages of srun. Without labels they
 * may come from an srun that a task has started, and mean its tasks. So they
 * count only in a step that is known to fail, and for ranks without a record.
 */
static bool is_heard_to_fail(const struct dt_outcome *outcome,
                             const struct rank *r)
{
    return r->heard && !r->ended && outcome->fails &&
           ended_by_itself(outcome, r);
}

static const struct rank *find_earliest(const struct dt_outcome *outcome,
                                        bool (*fails)(const struct dt_outcome *,
                                                      const struct rank *))
{
    const struct rank *first = NULL;
    for (uint32_t i = 0; i < outcome->count; i++) {
        const struct rank *r = &outcome->ranks[i];
        if (fails(outcome, r) &&
            (!first || end_ms(outcome, r) < end_ms(outcome, first)))
            first = r;
    }
    return first;
}

/* Returns the rank that was first to fail by itself; NULL: none. */
static const struct rank *find_first_failure(const struct dt_outcome *outcome)
{
    const struct rank *first = find_earliest(outcome, has_failed);
    return first ? first : find_earliest(outcome, is_heard_to_fail);
}

/* Prints the last lines of a rank, and their age if they are much older than
 * its end: a killed rank has no last words. False: there are none.
 */
static bool print_words(const struct dt_outcome *outcome, const struct rank *r,
                        bool is_stderr, FILE *out)
{
    const struct dt_last_lines *lines = is_stderr ? &r->err : &r->out;
    int64_t age = end_ms(outcome, r) - (is_stderr ? r->err_ms : r->out_ms);
    if (age > OLD_MS && lines->used > 0)
        fprintf(out, OURS "its last lines are %.0f s older than its end:\n",
                to_seconds(age));
    return dt_last_lines_print(lines, "    ", out);
}

static void print_text(const struct dt_outcome *outcome, const struct rank *r,
                       FILE *out)
{
    const struct rank *any = &outcome->ranks[outcome->count];
    bool old = end_ms(outcome, r) - r->err_ms > OLD_MS;
    bool newer = old && r->out.used > 0 && r->out_ms > r->err_ms;
    if (print_words(outcome, r, !newer, out) ||
        print_words(outcome, r, newer, out))
        return;
    if (any->err.used > 0)
        fputs("disttrain: the last lines on stderr, of all ranks:\n", out);
    dt_last_lines_print(&any->err, "    ", out);
}

/* Prints one line for the ranks that ended like the rank `like` and have not
 * been reported yet.
 */
static void print_alike(const struct dt_outcome *outcome,
                        const struct rank *first, const struct rank *like,
                        struct dt_rankset *told, FILE *out)
{
    struct dt_rankset alike;
    int64_t base = first ? end_ms(outcome, first) : start_ms(outcome);
    int64_t low = INT64_MAX;
    int64_t high = 0;
    if (dt_rankset_init(&alike, outcome->count, NULL) != 0)
        return;
    for (uint32_t i = 0; i < outcome->count; i++) {
        const struct rank *r = &outcome->ranks[i];
        if (r == first || told->has[i] || !has_failed(outcome, r) ||
            r->status != like->status)
            continue;
        int64_t later = end_ms(outcome, r) - base;
        low = later < low ? later : low;
        high = later > high ? later : high;
        dt_rankset_add(&alike, i);
        dt_rankset_add(told, i);
    }
    fputs("disttrain: ", out);
    dt_rankset_print(&alike, out);
    if (alike.count == 1 && like->host != NO_HOST)
        fprintf(out, " on %s", outcome->hosts[like->host].name);
    fputs(": ", out);
    print_cause(outcome, like, out);
    if (alike.count == 1)
        fprintf(out, ", %.1f s", to_seconds(low));
    else
        fprintf(out, ", %.1f to %.1f s", to_seconds(low), to_seconds(high));
    fputs(first ? " later\n" : " after the start\n", out);
    dt_rankset_fini(&alike);
}

static void print_others(const struct dt_outcome *outcome,
                         const struct rank *first, FILE *out)
{
    struct dt_rankset told;
    uint32_t by_slurm = 0;
    if (dt_rankset_init(&told, outcome->count, NULL) != 0)
        return;
    for (uint32_t i = 0; i < outcome->count; i++) {
        const struct rank *r = &outcome->ranks[i];
        if (!r->ended || r == first || told.has[i])
            continue;
        if (!has_failed(outcome, r))
            by_slurm++;
        else
            print_alike(outcome, first, r, &told, out);
    }
    if (by_slurm > 0)
        fprintf(out, "disttrain: %" PRIu32 " rank%s ended by Slurm\n", by_slurm,
                by_slurm == 1 ? " was" : "s were");
    dt_rankset_fini(&told);
}

/* Whether the step has failed because a node was lost. Hearsay counts only if
 * the step is known to fail and the node is silent.
 */
static bool has_lost_node(const struct dt_outcome *outcome)
{
    bool silent = true;
    for (int i = 0; i < outcome->host_count; i++)
        silent = silent && !(outcome->hosts[i].lost && outcome->hosts[i].ended);
    return outcome->lost[0] && !outcome->succeeds &&
           (!outcome->lost_heard || (outcome->fails && silent));
}

static bool is_lost(const struct dt_outcome *outcome, uint32_t rank)
{
    int host = outcome->ranks[rank].host;
    return host != NO_HOST && outcome->hosts[host].lost;
}

/* A rank that has started was launched: the message was about another srun. */
static bool is_unlaunched(const struct dt_outcome *outcome, uint32_t rank)
{
    return outcome->ranks[rank].unlaunched && !outcome->ranks[rank].started;
}

/* The first rank that was not launched; NULL: none. */
static const struct rank *find_unlaunched(const struct dt_outcome *outcome)
{
    for (uint32_t i = 0; i < outcome->count; i++)
        if (is_unlaunched(outcome, i))
            return &outcome->ranks[i];
    return NULL;
}

/* Whether Slurm itself has failed. Ranks then fail because of that. */
static bool has_slurm_failed(const struct dt_outcome *outcome)
{
    return find_unlaunched(outcome) || has_lost_node(outcome);
}

static void print_unlaunched(const struct dt_outcome *outcome, FILE *out)
{
    dt_outcome_print_by_host(outcome, is_unlaunched, out);
    fprintf(out, " could not be launched, according to Slurm: %s",
            outcome->reason);
}

/* The state of the ranks of a lost node is unknown. Other ranks fail because of
 * them and are often noticed first.
 */
static void print_lost(const struct dt_outcome *outcome, FILE *out)
{
    bool any = false;
    for (uint32_t i = 0; i < outcome->count; i++)
        any = any || is_lost(outcome, i);
    fprintf(out, "node %s was lost, according to Slurm, %.1f s after the start",
            outcome->lost, to_seconds(outcome->lost_ms - start_ms(outcome)));
    if (any) {
        fputs(": ", out);
        dt_outcome_print_by_host(outcome, is_lost, out);
    }
}

/* Whether the runtime may end a rank with this status: one of sysexits.h, or
 * that of a shell if launch.command cannot be run.
 */
static bool is_runtimes(int status)
{
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
    return (code >= EX__BASE && code <= EX__MAX) || code == 126 || code == 127;
}

/* Whether the last line of the rank is a message of the runtime about a
 * failure. Only the runtime writes the form "disttrain: rank 3 of 8 on n2".
 * Others may write a line that begins with our name, as the plugin does when it
 * warns: it counts if the rank then ended as the runtime does.
 */
static bool tells_failure(const struct dt_outcome *outcome,
                          const struct rank *r, bool ends_alike)
{
    char form[64];
    snprintf(form, sizeof(form), OURS "rank %" PRIu32 " of %" PRIu32 " on ",
             (uint32_t)(r - outcome->ranks), outcome->count);
    return dt_last_lines_ends_with(&r->err, form) ||
           (ends_alike && is_runtimes(r->status) &&
            dt_last_lines_ends_with(&r->err, OURS));
}

/* Returns the rank that has printed the cause; NULL: none. The runtime prints
 * it once, and then all of its ranks exit with the same status. The rank that
 * prints it need not be the first to exit: Slurm may even stop it, because of
 * the status of another rank, right after it has printed the cause.
 */
static const struct rank *find_cause(const struct dt_outcome *outcome,
                                     const struct rank *first)
{
    for (uint32_t i = 0; is_runtimes(first->status) && i < outcome->count;
         i++) {
        const struct rank *r = &outcome->ranks[i];
        bool ends_alike = r->ended && r->status == first->status;
        bool stopped = r->ended && !has_failed(outcome, r);
        if ((ends_alike || stopped) && tells_failure(outcome, r, ends_alike))
            return r;
    }
    return NULL;
}

static void print_first(const struct dt_outcome *outcome,
                        const struct rank *first, FILE *out)
{
    fprintf(out, "rank %" PRIu32, (uint32_t)(first - outcome->ranks));
    if (first->host != NO_HOST)
        fprintf(out, " on %s", outcome->hosts[first->host].name);
    fputs(", ", out);
    print_cause(outcome, first, out);
    fprintf(out, ", %.1f s after the start",
            to_seconds(end_ms(outcome, first) - start_ms(outcome)));
}

/* Whether the step has failed by the verdict of its keepers, of whose tasks
 * srun may have heard nothing.
 */
static bool has_ended_badly(const struct dt_outcome *outcome)
{
    return outcome->judged && outcome->verdict != 0 &&
           !was_told_to_end(W_EXITCODE(outcome->verdict, 0));
}

/* Writes the first failure in one line; nothing if there is none. */
static void print_failure(const struct dt_outcome *outcome,
                          const struct rank *first, FILE *out)
{
    if (find_unlaunched(outcome))
        print_unlaunched(outcome, out);
    else if (has_lost_node(outcome))
        print_lost(outcome, out);
    else if (first)
        print_first(outcome, first, out);
    else if (outcome->hang)
        fputs(outcome->hang, out);
    else if (has_ended_badly(outcome))
        fprintf(out, "the step has ended with status %d, as its keepers say",
                outcome->verdict);
}

/* Whether keepers have brought the step to a good end, whatever Slurm says of
 * its tasks: they fail, for slurmstepd, where the kernel has killed a worker
 * for its memory. A step that saves itself while nodes are lost ends well, too.
 */
static bool has_survived(const struct dt_outcome *outcome)
{
    return outcome->judged && !outcome->hang &&
           (outcome->verdict == 0 ||
            (outcome->verdict == EX_TEMPFAIL && outcome->nodes_lost > 0));
}

void dt_outcome_report(const struct dt_outcome *outcome, FILE *out)
{
    bool slurm = has_slurm_failed(outcome);
    const struct rank *first = slurm ? NULL : find_first_failure(outcome);
    if (has_survived(outcome) ||
        (!slurm && (first ? find_cause(outcome, first) != NULL
                          : !outcome->hang && !has_ended_badly(outcome))))
        return;
    fputs(OURS "first failure: ", out);
    print_failure(outcome, first, out);
    fputc('\n', out);
    if (find_unlaunched(outcome))
        fputs(OURS "slurmd's log on that node says why; if a plugin has "
                   "failed, run `disttrain doctor --plugin` there\n",
              out);
    if (first)
        print_text(outcome, first, out);
    print_others(outcome, first, out);
}

static bool is_clean(const struct dt_outcome *outcome)
{
    if (has_survived(outcome))
        return outcome->verdict == 0;
    bool ended = has_slurm_failed(outcome) || outcome->hang ||
                 outcome->stop_ms != 0 || has_ended_badly(outcome);
    for (uint32_t i = 0; !ended && i < outcome->count; i++)
        ended = outcome->ranks[i].ended && outcome->ranks[i].status != 0;
    return !ended;
}

static void find_text(const struct dt_outcome *outcome,
                      const struct rank *first, char *text, size_t size)
{
    const struct rank *cause =
        first && !has_slurm_failed(outcome) ? find_cause(outcome, first) : NULL;
    text[0] = '\0';
    if (cause) {
        dt_last_lines_last(&cause->err, text, size);
        memmove(text, text + strlen(OURS), strlen(text + strlen(OURS)) + 1);
        return;
    }
    FILE *out = fmemopen(text, size, "w");
    if (!out)
        return;
    print_failure(outcome, first, out);
    fclose(out);
    text[size - 1] = '\0';
}

static const char *host_name(const struct dt_outcome *outcome,
                             const struct rank *r)
{
    return r->host == NO_HOST ? "" : outcome->hosts[r->host].name;
}

bool dt_outcome_ending(const struct dt_outcome *outcome,
                       struct dt_outcome_ending *ending)
{
    const struct rank *first = find_first_failure(outcome);
    const struct rank *unlaunched = find_unlaunched(outcome);
    const char *host = has_lost_node(outcome) ? outcome->lost : "";
    *ending =
        (struct dt_outcome_ending){.status = "failed", .rank = DT_NO_RANK};
    if (is_clean(outcome))
        return false;
    find_text(outcome, first, ending->text, sizeof(ending->text));
    if (!ending->text[0]) {
        ending->status = "stopped";
        snprintf(ending->text, sizeof(ending->text),
                 "from outside, by scancel, a time limit or a signal, before "
                 "it could save");
    } else if (unlaunched) {
        host = host_name(outcome, unlaunched);
    } else if (!host[0] && first) {
        ending->rank = (uint32_t)(first - outcome->ranks);
        host = host_name(outcome, first);
    }
    snprintf(ending->host, sizeof(ending->host), "%s", host);
    return true;
}

int dt_outcome_status(const struct dt_outcome *outcome)
{
    const struct rank *first = find_first_failure(outcome);
    if (has_survived(outcome))
        return outcome->verdict;
    if (first)
        return WIFEXITED(first->status) ? WEXITSTATUS(first->status)
                                        : 128 + WTERMSIG(first->status);
    if (has_slurm_failed(outcome))
        return EX_OK;
    for (uint32_t i = 0; i < outcome->count; i++)
        if (outcome->ranks[i].ended && is_requeue(outcome->ranks[i].status))
            return EX_TEMPFAIL;
    if (has_ended_badly(outcome))
        return outcome->verdict;
    return outcome->hang ? 128 + SIGKILL : EX_OK;
}
