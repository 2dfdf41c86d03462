/* SPDX-License-Identifier: Apache-2.0 */
/* event.c - parses what Slurm and the plugin say about a step, line by line */
#include "config.h"

#include <ctype.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "console/event.h"
#include "contract/contract.h"

#define STEPD "slurmstepd"
#define SECONDS_MAX (INT64_C(1) << 40) /* 30000 years */

enum {
    LINE_BYTES = 1024, /* longer lines are not parsed */
};

static bool starts_with(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* Parses what comes after "VERB RANK HOST SECONDS.mmm", up to the end. */
static bool parse_rest(const char *verb, const char *text,
                       struct dt_console_event *event)
{
    int used = 0;
    if (strcmp(verb, "start") == 0) {
        event->kind = DT_EVENT_START;
        return text[0] == '\0';
    }
    if (strcmp(verb, "exit") == 0) {
        event->kind = DT_EVENT_EXIT;
        return sscanf(text, " %d%n", &event->status, &used) == 1 &&
               text[used] == '\0';
    }
    event->kind = DT_EVENT_ABSENT;
    return strcmp(verb, "absent") == 0 &&
           sscanf(text, " %u %d %639s%n", &event->port, &event->waited_s,
                  event->list, &used) == 3 &&
           text[used] == '\0';
}

/* The same for records of progress. */
static bool parse_progress(const char *verb, const char *text,
                           struct dt_console_event *event)
{
    event->kind = DT_EVENT_ENDED;
    if (strcmp(verb, "ended") == 0)
        return text[0] == '\0';
    event->kind = DT_EVENT_PROGRESS;
    return strcmp(verb, "progress") == 0 && dt_bar_parse(text, &event->bar);
}

static bool has_token(const char *text, const char *token)
{
    size_t len = strlen(token);
    return len > 0 && starts_with(text, token) && text[len] == ' ';
}

/* Parses a record; false unless `text` begins with one of the tokens, and has
 * what that token is for.
 */
static bool parse_record(const char *text, const struct dt_step_identity *step,
                         struct dt_console_event *event)
{
    char verb[16];
    int64_t seconds;
    int ms;
    int used = 0;
    bool ours = has_token(text, step->token);
    if (!ours && !has_token(text, step->progress))
        return false;
    text += strcspn(text, " ") + 1;
    if (sscanf(text, "%15s %" SCNu32 " %255s %" SCNd64 ".%3d%n", verb,
               &event->rank, event->host, &seconds, &ms, &used) != 5 ||
        seconds < 0 || seconds > SECONDS_MAX || ms < 0)
        return false;
    event->ms = seconds * 1000 + ms;
    return ours ? parse_rest(verb, text + used, event)
                : parse_progress(verb, text + used, event);
}

/* Whether a record of ours has lost its end, behind the token or within it. */
static bool is_broken(const char *text, const struct dt_step_identity *step)
{
    return has_token(text, step->token) || has_token(text, step->progress) ||
           (text[0] && (starts_with(step->token, text) ||
                        starts_with(step->progress, text)));
}

/* Returns where in the line a record begins. It follows slurmstepd's own
 * "slurmstepd: ", which may come after the beginning of a program's line.
 */
static size_t find_begin(const char *line, size_t record)
{
    static const char *const ends[] = {STEPD ": ", STEPD "-"};
    for (size_t i = record; i-- > 0;)
        for (size_t k = 0; k < sizeof(ends) / sizeof(*ends); k++)
            if (starts_with(line + i, ends[k]) &&
                strcspn(line + i, ":") + i + 2 == record)
                return i;
    return record;
}

/* Parses srun's text for a wait status; -1: it is something else. */
static int parse_status(const char *text)
{
    int code;
    int used = 0;
    if (sscanf(text, "Exited with exit code %3d%n", &code, &used) == 1 &&
        text[used] == '\0' && code >= 0 && code < 256)
        return W_EXITCODE(code, 0);
    for (int signal = 1; signal < SIGRTMIN; signal++) {
        const char *name = strsignal(signal);
        size_t len = strlen(name);
        if (starts_with(text, name) &&
            (text[len] == '\0' || strcmp(text + len, " (core dumped)") == 0))
            return signal;
    }
    return -1;
}

/* Parses "n3: task 5: Killed" or "n[1-2]: tasks 0-3: Exited with exit code 1".
 * srun also prints this for tasks whose record was lost, which happens with
 * SIGKILL.
 */
static void parse_tasks(const char *text, struct dt_console_event *event)
{
    int used = 0;
    if (sscanf(text, "%255[^: ]: task%*[s ]%639[-,0-9]: %n", event->host,
               event->list, &used) != 2 ||
        used == 0)
        return;
    event->oom = strcmp(text + used, "Out Of Memory") == 0;
    event->status = event->oom ? SIGKILL : parse_status(text + used);
    if (event->status >= 0)
        event->kind = DT_EVENT_TASKS;
}

/* Parses "task 5 launch failed: Plugin initialization failed" or "Task launch
 * for StepId=5.0 failed on node n3: Invalid job credential".
 */
static void parse_launch(const char *text, struct dt_console_event *event)
{
    int used = 0;
    event->host[0] = '\0';
    if (sscanf(text, "task %639[0-9] launch failed: %n", event->list, &used) !=
            1 ||
        used == 0) {
        event->list[0] = '\0';
        if (sscanf(text, "Task launch for %*s failed on node %255[^: ]: %n",
                   event->host, &used) != 1 ||
            used == 0)
            return;
    }
    event->kind = DT_EVENT_UNLAUNCHED;
    snprintf(event->reason, sizeof(event->reason), "%s", text + used);
}

/* Parses a message of srun, without "srun: ". */
static void parse_srun(const char *text, struct dt_console_event *event)
{
    static const char *const stops[] = {
        "Job step aborted", "sending Ctrl-C to ", "forcing job termination"};
    for (size_t i = 0; i < sizeof(stops) / sizeof(*stops); i++)
        if (starts_with(text, stops[i]))
            event->kind = DT_EVENT_ASKED;
    if (sscanf(text, "error: Node failure on %255s", event->host) == 1 ||
        sscanf(text,
               "error: Aborting, io error and missing step on node "
               "%" SCNu32,
               &event->node) == 1)
        event->kind = DT_EVENT_NODE_LOST;
    else if (starts_with(text, "error: "))
        parse_tasks(text + strlen("error: "), event);
    if (event->kind == DT_EVENT_NONE && starts_with(text, "error: "))
        parse_launch(text + strlen("error: "), event);
}

enum owner {
    NO_OWNER, /* the line names no step */
    OWN_STEP,
    FOREIGN_STEP, /* one that a task has started */
};

/* Whose the line is, by the step or the job that it names. */
static enum owner find_owner(const char *text, const char *id)
{
    const struct {
        const char *word;
        size_t id_bytes;
    } names[] = {{"*** STEP ", strlen(id)},
                 {"*** JOB ", strcspn(id, ".")},
                 {"StepId=", strlen(id)}};
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        const char *number = strstr(text, names[i].word);
        size_t bytes = names[i].id_bytes;
        if (!number || id[0] == '\0')
            continue;
        number += strlen(names[i].word);
        if (!isdigit((unsigned char)number[0]))
            return NO_OWNER;
        return strncmp(number, id, bytes) == 0 &&
                       !isdigit((unsigned char)number[bytes])
                   ? OWN_STEP
                   : FOREIGN_STEP;
    }
    return id[0] == '\0' ? OWN_STEP : NO_OWNER;
}

/* Parses a message of slurmstepd about this step, with or without
 * "slurmstepd: ".
 */
static void parse_stepd(const char *text, struct dt_console_event *event)
{
    if (strstr(text, "*** ") && strstr(text, " CANCELLED AT ")) {
        event->kind = DT_EVENT_STOP;
        event->status = strstr(text, " DUE to SIGNAL Killed ") ? SIGKILL : 0;
    } else if (strstr(text, " oom-kill event") ||
               strstr(text, " oom_kill event"))
        event->kind = DT_EVENT_OOM;
}

/* Skips the time that Slurm writes before a line, depending on the release and
 * on LogTimeFormat: "[2026-04-29T23:36:37.809] ", "[Apr 29 23:36:37] ".
 */
static const char *skip_time(const char *text)
{
    size_t len = text[0] == '[' ? strcspn(text, "]") : 0;
    bool digits = strcspn(text, "0123456789") < len;
    return digits && starts_with(text + len, "] ") ? text + len + 2 : text;
}

/* slurmstepd of 26.05 begins lines with a time and no name, as do many
 * programs: such a line counts as slurmstepd's only if it is one of its known
 * messages.
 */
static void parse_slurm(const char *text, const struct dt_step_identity *step,
                        enum dt_console_origin origin,
                        struct dt_console_event *event)
{
    const char *said = skip_time(text);
    enum owner owner = find_owner(said, step->id);
    bool timed = said != text;
    if (origin != DT_ORIGIN_TASK && starts_with(said, "srun: ")) {
        event->from_slurm = true;
        parse_srun(said + strlen("srun: "), event);
    } else if (origin == DT_ORIGIN_SRUN && timed) {
        parse_srun(said, event);
    }
    event->hearsay = origin == DT_ORIGIN_UNKNOWN && owner != OWN_STEP;
    if (event->kind != DT_EVENT_NONE || owner == FOREIGN_STEP)
        return;
    bool stepd = starts_with(said, STEPD);
    if (owner == OWN_STEP && (stepd || (timed && starts_with(said, "error: "))))
        parse_stepd(said, event);
    if (stepd || event->kind != DT_EVENT_NONE)
        event->from_slurm = true;
}

void dt_console_event_parse(const char *line, size_t len,
                            const struct dt_step_identity *step,
                            enum dt_console_origin origin,
                            struct dt_console_event *event)
{
    char text[LINE_BYTES];
    *event = (struct dt_console_event){.kind = DT_EVENT_NONE,
                                       .from_slurm = origin == DT_ORIGIN_SRUN};
    while (len > 0 && (line[len - 1] == '\n' || line[len - 1] == '\r'))
        len--;
    if (len == 0 || len >= sizeof(text))
        return;
    const char *record = memmem(line, len, DT_RECORD, strlen(DT_RECORD));
    bool named = len > 6 && (memcmp(line, "srun: ", 6) == 0 ||
                             memcmp(line, STEPD, 6) == 0);
    if (!record && !named && line[0] != '[')
        return; /* by far the most common case: a program's output */
    memcpy(text, line, len);
    text[len] = '\0';
    if (record) {
        size_t at = (size_t)(record - line);
        const char *rest = text + at + strlen(DT_RECORD);
        /* lines with labels are whole */
        bool piece = origin == DT_ORIGIN_UNKNOWN && is_broken(rest, step);
        if (!parse_record(rest, step, event))
            *event = (struct dt_console_event){
                .kind = piece ? DT_EVENT_BROKEN : DT_EVENT_NONE,
                .from_slurm = origin == DT_ORIGIN_SRUN};
        if (event->kind != DT_EVENT_NONE) {
            event->begin = find_begin(text, at);
            event->from_slurm = event->begin == 0;
            return;
        }
    }
    parse_slurm(text, step, origin, event);
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

bool dt_console_event_is_piece(const char *line, size_t len)
{
    static const char *const begins[] = {"srun: ", STEPD, DT_RECORD};
    if (len == 0 || len >= LINE_BYTES)
        return false;
    for (size_t i = 0; i < sizeof(begins) / sizeof(*begins); i++)
        if (memcmp(line, begins[i], smaller(len, strlen(begins[i]))) == 0)
            return true;
    if (line[0] == '[' && (len == 1 || isalnum((unsigned char)line[1])))
        return true; /* a time */
    /* a record may come after the beginning of a program's line */
    for (size_t i = 1; i < len; i++)
        if (memcmp(line + i, DT_RECORD, smaller(len - i, strlen(DT_RECORD))) ==
            0)
            return true;
    return false;
}

/* Whether a whole line of Slurm, or a whole record, begins here. */
static bool is_whole(const char *line, size_t len,
                     const struct dt_step_identity *step)
{
    struct dt_console_event event;
    dt_console_event_parse(line, len, step, DT_ORIGIN_UNKNOWN, &event);
    return event.begin == 0 && event.kind != DT_EVENT_BROKEN &&
           (event.kind != DT_EVENT_NONE || event.from_slurm);
}

size_t dt_console_event_find_inner(const char *line, size_t len,
                                   const struct dt_step_identity *step)
{
    static const char *const begins[] = {"srun: ", STEPD, DT_RECORD};
    struct dt_console_event event;
    dt_console_event_parse(line, len, step, DT_ORIGIN_UNKNOWN, &event);
    bool record = event.begin == 0 && event.kind >= DT_EVENT_START &&
                  event.kind <= DT_EVENT_ENDED;
    if (record || len == 0 || line[len - 1] != '\n')
        return 0;
    for (size_t i = 1; i < len && i < LINE_BYTES; i++)
        for (size_t k = 0; k < sizeof(begins) / sizeof(*begins); k++)
            if (len - i > strlen(begins[k]) &&
                memcmp(line + i, begins[k], strlen(begins[k])) == 0 &&
                dt_console_event_is_piece(line, i) &&
                is_whole(line + i, len - i, step))
                return i;
    return 0;
}
