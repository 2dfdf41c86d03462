/* SPDX-License-Identifier: Apache-2.0 */
/* parse.c - the messages of Slurm and of the plugin about a step: their effects
 * on the outcome, their table, and the parser of lines
 */
#include "config.h"

#include <ctype.h>
#include <inttypes.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/rankset.h"
#include "base/str.h"
#include "console/console_impl.h"
#include "contract/contract.h"

/* --- effects on the outcome --- */

static void note_first_end(struct dt_outcome *outcome,
                           const struct dt_console_event *event)
{
    if (outcome->first_end_ms == 0)
        outcome->first_end_ms = event->came_ms;
}

static void note_start(struct dt_outcome *outcome,
                       const struct dt_console_event *event)
{
    struct rank *r = &outcome->ranks[event->rank];
    r->started = true;
    r->start_ms = event->ms;
}

static void note_exit(struct dt_outcome *outcome,
                      const struct dt_console_event *event)
{
    struct rank *r = &outcome->ranks[event->rank];
    note_first_end(outcome, event);
    r->ended = true;
    r->no_record = false;
    r->end_ms = event->ms;
    r->status = event->status;
    outcome->fails = true;
    if (r->host != NO_HOST)
        outcome->hosts[r->host].ended = true;
}

static void set_oom(struct dt_outcome *outcome, uint32_t rank)
{
    int host = rank < outcome->count ? outcome->ranks[rank].host : NO_HOST;
    if (host != NO_HOST)
        outcome->hosts[host].oom = true;
}

static void note_oom(struct dt_outcome *outcome,
                     const struct dt_console_event *event)
{
    set_oom(outcome, event->label);
}

/* Notes ends of ranks that srun reports. The time of a record is better.
 * Hearsay may be about ranks of another step, and ends nothing.
 */
static void note_tasks(struct dt_outcome *outcome,
                       const struct dt_console_event *event)
{
    struct dt_rankset set;
    if (!event->hearsay)
        note_first_end(outcome, event);
    if (dt_rankset_init(&set, outcome->count, NULL) != 0)
        return;
    dt_rankset_parse(&set, event->list, NULL);
    for (uint32_t i = 0; i < set.size; i++) {
        struct rank *r = &outcome->ranks[i];
        if (!set.has[i])
            continue;
        if (!r->ended) {
            r->ended = !event->hearsay;
            r->heard = event->hearsay;
            r->no_record = true;
            r->end_ms = event->came_ms;
            r->status = event->status;
        }
        if (event->oom)
            set_oom(outcome, i);
    }
    dt_rankset_fini(&set);
}

static void note_lost_node(struct dt_outcome *outcome,
                           const struct dt_console_event *event)
{
    int host = dt_outcome_find_host(outcome, event->host);
    if (!event->host[0] && event->node < (uint32_t)outcome->host_count)
        host = (int)event->node;
    if (host != NO_HOST)
        outcome->hosts[host].lost = true;
    if (outcome->lost[0] && (!outcome->lost_heard || event->hearsay))
        return;
    outcome->lost_heard = event->hearsay;
    snprintf(outcome->lost, sizeof(outcome->lost), "%s",
             host != NO_HOST ? outcome->hosts[host].name : event->host);
    outcome->lost_ms = event->came_ms;
}

/* srun names the ranks, or the node if it has refused all of them. */
static void note_unlaunched(struct dt_outcome *outcome,
                            const struct dt_console_event *event)
{
    struct dt_rankset set;
    int host = dt_outcome_find_host(outcome, event->host);
    if (dt_rankset_init(&set, outcome->count, NULL) != 0)
        return;
    dt_rankset_parse(&set, event->list, NULL);
    for (uint32_t i = 0; i < outcome->count; i++) {
        struct rank *r = &outcome->ranks[i];
        if (set.has[i] || (host != NO_HOST && r->host == host))
            r->unlaunched = true;
    }
    if (!outcome->reason[0])
        snprintf(outcome->reason, sizeof(outcome->reason), "%s", event->reason);
    dt_rankset_fini(&set);
}

/* The first one stays, as srun knows it. */
static void note_verdict(struct dt_outcome *outcome,
                         const struct dt_console_event *event)
{
    if (outcome->judged)
        return;
    outcome->judged = true;
    outcome->verdict = (int)(event->number[0] & 0xff);
    outcome->nodes_lost = (int)(event->number[1] & 0xffff);
}

static void note_waiting(struct dt_outcome *outcome,
                         const struct dt_console_event *event)
{
    snprintf(outcome->waits, sizeof(outcome->waits), "%.*s",
             (int)sizeof(outcome->waits) - 1, event->list);
    outcome->port = (unsigned)(event->number[0] & 0xffff);
}

static void note_epoch(struct dt_outcome *outcome,
                       const struct dt_console_event *event)
{
    if (event->number[0] > outcome->epoch)
        outcome->epoch = event->number[0];
}

static void note_leaving(struct dt_outcome *outcome,
                         const struct dt_console_event *event)
{
    outcome->left_ms = event->came_ms;
    outcome->await_s = (double)event->number[1];
    if (event->number[0] > outcome->left)
        outcome->left = event->number[0];
}

/* --- the table --- */

/* clang-format off */
const struct dt_message dt_messages[] = {
    {DT_FROM_TASK, "start {rank} {host} {time}",
     DT_EVENT_START, note_start, NULL},
    {DT_FROM_NODE, "exit {rank} {host} {time} {wait}", /* a wait status */
     DT_EVENT_EXIT, note_exit, NULL},
    {DT_FROM_ANY, "absent {rank} {host} {time} {port} {waited} -",
     DT_EVENT_NOTICE, NULL,
     "all nodes have connected to rank 0, after {waited} s"},
    {DT_FROM_ANY, "absent {rank} {host} {time} {port} {waited} {hosts}",
     DT_EVENT_NOTICE, NULL,
     "rank 0 on {host} has listened on port {port} for {waited} s, but nobody "
     "on {hosts} has connected"},
    {DT_FROM_RUNTIME, "progress {rank} {host} {time} {bar}",
     DT_EVENT_PROGRESS, NULL, NULL},
    {DT_FROM_RUNTIME, "ended {rank} {host} {time}", /* the bar ends */
     DT_EVENT_ENDED, NULL, NULL},
    {DT_FROM_KEEPER, "verdict {code} {lost}",
     DT_EVENT_VERDICT, note_verdict, NULL},
    {DT_FROM_KEEPER, "waits {hosts} {port}", DT_EVENT_EPOCH, note_waiting, NULL},
    {DT_FROM_KEEPER, "epoch {code}", DT_EVENT_EPOCH, note_epoch, NULL},
    {DT_FROM_KEEPER, "leaves {code} {waited}", DT_EVENT_EPOCH, note_leaving, NULL},

    {DT_FROM_SRUN, "Job step aborted{}", DT_EVENT_ASKED, dt_outcome_stop, NULL},
    {DT_FROM_SRUN, "sending Ctrl-C to {}", DT_EVENT_ASKED, dt_outcome_stop,
     NULL},
    {DT_FROM_SRUN, "forcing job termination{}", DT_EVENT_ASKED, dt_outcome_stop,
     NULL},
    {DT_FROM_SRUN, "error: Node failure on {host}{}",
     DT_EVENT_NODE_LOST, note_lost_node, NULL},
    {DT_FROM_SRUN, "error: Aborting, io error and missing step on node {node}{}",
     DT_EVENT_NODE_LOST, note_lost_node, NULL},
    /* also for tasks whose record was lost, as happens with SIGKILL */
    {DT_FROM_SRUN, "error: {host}: task {ranks}: {status}",
     DT_EVENT_TASKS, note_tasks, NULL},
    {DT_FROM_SRUN, "error: {host}: tasks {ranks}: {status}",
     DT_EVENT_TASKS, note_tasks, NULL},
    {DT_FROM_SRUN, "error: task {ranks} launch failed: {reason}",
     DT_EVENT_UNLAUNCHED, note_unlaunched, NULL},
    {DT_FROM_SRUN, "error: Task launch for {} failed on node {host}: {reason}",
     DT_EVENT_UNLAUNCHED, note_unlaunched, NULL},

    {DT_FROM_SLURMSTEPD, "{}*** {} CANCELLED AT {} DUE to SIGNAL {signal} {}",
     DT_EVENT_STOP, dt_outcome_stop, NULL},
    {DT_FROM_SLURMSTEPD, "{}*** {} CANCELLED AT {}",
     DT_EVENT_STOP, dt_outcome_stop, NULL},
    {DT_FROM_SLURMSTEPD, "{} oom-kill event{}", DT_EVENT_OOM, note_oom, NULL},
    {DT_FROM_SLURMSTEPD, "{} oom_kill event{}", DT_EVENT_OOM, note_oom, NULL},
    {0, NULL, DT_EVENT_NONE, NULL, NULL},
};
/* clang-format on */

/* Whether an event came on a stream on which it can appear: a start on that of
 * the task, messages of slurmstepd on that of the first task of the node. If
 * srun does not label its output, or the nodes of the step are unknown, whoever
 * knows the token, or the number of the step, is believed.
 */
static bool is_plausible(const struct dt_outcome *outcome,
                         const struct dt_console_event *event)
{
    uint32_t label = event->label;
    unsigned origin = event->message->origin;
    bool of_rank = origin & (DT_FROM_TASK | DT_FROM_NODE);
    if (of_rank && event->rank >= outcome->count)
        return false;
    if (label >= outcome->count)
        return true;
    if (origin == DT_FROM_TASK)
        return label == event->rank;
    if (!(origin & (DT_FROM_NODE | DT_FROM_SLURMSTEPD)))
        return true;
    int host = outcome->ranks[of_rank ? event->rank : label].host;
    uint32_t first = host == NO_HOST ? DT_NO_RANK : outcome->hosts[host].first;
    return first == DT_NO_RANK || label == first;
}

void dt_message_note(struct dt_outcome *outcome, struct dt_console_event *event,
                     uint32_t label, int64_t now_ms)
{
    event->label = label;
    event->came_ms = now_ms;
    if (!event->message || !event->message->note ||
        !is_plausible(outcome, event))
        return;
    if (event->message->origin & (DT_FROM_TASK | DT_FROM_NODE)) {
        outcome->ranks[event->rank].seen = true;
        dt_outcome_update_clock(outcome, event);
    }
    event->message->note(outcome, event);
}

/* --- fields --- */

#define SECONDS_MAX (UINT64_C(1) << 40) /* 30000 years */
#define STEPD "slurmstepd"

enum {
    LINE_BYTES = 1024, /* longer lines are not parsed */
};

/* Reads a field. Returns its end; NULL: the text is something else. */
typedef const char *(read_f)(const char *text, struct dt_console_event *event);

static const char *read_number(const char *text, uint64_t max, uint64_t *number)
{
    char *end;
    if (!isdigit((unsigned char)text[0]))
        return NULL;
    *number = strtoull(text, &end, 10); /* beyond 64 bits: UINT64_MAX */
    return *number <= max ? end : NULL;
}

static const char *read_time(const char *text, struct dt_console_event *event)
{
    uint64_t seconds, ms;
    const char *point = read_number(text, SECONDS_MAX, &seconds);
    const char *end =
        point && *point == '.' ? read_number(point + 1, 999, &ms) : NULL;
    if (end)
        event->ms = (int64_t)(seconds * 1000 + ms);
    return end;
}

static const char *read_reason(const char *text, struct dt_console_event *event)
{
    snprintf(event->reason, sizeof(event->reason), "%s", text);
    return text + strlen(text);
}

static const char *read_bar(const char *text, struct dt_console_event *event)
{
    return dt_bar_parse(text, &event->bar) ? text + strlen(text) : NULL;
}

static const char *read_signal(const char *text, struct dt_console_event *event)
{
    size_t best = 0; /* "Stopped (signal)" begins with "Stopped" */
    for (int signal = 1; signal < SIGRTMIN; signal++) {
        const char *name = strsignal(signal);
        size_t len = strlen(name);
        if (len > best && strncmp(text, name, len) == 0) {
            best = len;
            event->status = signal;
        }
    }
    return best > 0 ? text + best : NULL;
}

static const char *read_status(const char *text, struct dt_console_event *event)
{
    static const char exited[] = "Exited with exit code ";
    static const char dumped[] = " (core dumped)";
    uint64_t code;
    event->oom = strcmp(text, "Out Of Memory") == 0;
    if (event->oom) {
        event->status = SIGKILL;
        return text + strlen(text);
    }
    const char *number = dt_str_after(text, exited);
    if (number) {
        const char *end = read_number(number, 255, &code);
        event->status = end ? W_EXITCODE((int)code, 0) : 0;
        return end;
    }
    const char *end = read_signal(text, event);
    return end && strcmp(end, dumped) == 0 ? end + strlen(dumped) : end;
}

static const struct field {
    const char *name;
    const char
        *set; /* of a word: its characters or, after ^, those not in it */
    size_t offset, size; /* of a word, or of a number of 32 bits */
    read_f *read;        /* of anything else */
} fields[] = {
#define IN_EVENT(member)                                                       \
    offsetof(struct dt_console_event, member),                                 \
        sizeof(((struct dt_console_event *)0)->member)
    {"rank", NULL, IN_EVENT(rank), NULL},
    {"node", NULL, IN_EVENT(node), NULL},
    {"wait", NULL, IN_EVENT(status), NULL},
    {"host", "^: ", IN_EVENT(host), NULL},
    {"hosts", "^ ", IN_EVENT(list), NULL},
    {"ranks", "-,0123456789", IN_EVENT(list), NULL},
    {"time", NULL, 0, 0, read_time},
    {"status", NULL, 0, 0, read_status},
    {"signal", NULL, 0, 0, read_signal},
    {"bar", NULL, 0, 0, read_bar},
    {"reason", NULL, 0, 0, read_reason},
#undef IN_EVENT
};

/* Finds a field by its name; NULL: it is the name of a number. */
static const struct field *find_field(const char *name, size_t len)
{
    for (size_t i = 0; i < sizeof(fields) / sizeof(*fields); i++)
        if (strlen(fields[i].name) == len &&
            memcmp(fields[i].name, name, len) == 0)
            return &fields[i];
    return NULL;
}

static const char *read_field(const struct field *field, const char *text,
                              struct dt_console_event *event)
{
    char *to = (char *)event + field->offset;
    const char *set = field->set;
    if (field->read)
        return field->read(text, event);
    if (!set) {
        uint64_t number;
        const char *end = read_number(text, UINT32_MAX, &number);
        const uint32_t value = end ? (uint32_t)number : 0;
        memcpy(to, &value, sizeof(value));
        return end;
    }
    size_t len = *set == '^' ? strcspn(text, set + 1) : strspn(text, set);
    if (len == 0 || len >= field->size)
        return NULL;
    memcpy(to, text, len);
    to[len] = '\0';
    return text + len;
}

/* Skips to the text that follows {} in the pattern. */
static const char *skip(const char *text, const char *pattern)
{
    size_t len = strcspn(pattern, "{");
    size_t left = strlen(text);
    return len > 0 ? memmem(text, left, pattern, len) : text + left;
}

/* Whether the whole text matches the pattern. Fills the event, also partly if
 * it does not match.
 */
static bool match(const char *pattern, const char *text,
                  struct dt_console_event *event)
{
    int numbers = 0;
    while (*pattern && text) {
        if (*pattern != '{') {
            text = *pattern++ == *text ? text + 1 : NULL;
            continue;
        }
        const char *name = pattern + 1;
        size_t len = strcspn(name, "}");
        const struct field *field = find_field(name, len);
        pattern = name + len + 1;
        if (len == 0)
            text = skip(text, pattern);
        else if (field)
            text = read_field(field, text, event);
        else if (numbers < DT_EVENT_NUMBERS)
            text = read_number(text, INT64_MAX, &event->number[numbers++]);
        else
            text = NULL;
    }
    return text && *text == '\0';
}

/* --- lines --- */

/* Fills the event from the first row of these origins that matches the text.
 * False, with the event unchanged: no row matches.
 */
static bool find_message(const char *text, unsigned origins,
                         struct dt_console_event *event)
{
    const struct dt_console_event before = *event;
    for (const struct dt_message *m = dt_messages; m->pattern; m++) {
        if (!(m->origin & origins))
            continue;
        if (match(m->pattern, text, event)) {
            event->message = m;
            event->kind = m->kind;
            return true;
        }
        *event = before;
    }
    return false;
}

static bool has_token(const char *text, const char *token)
{
    const char *end = dt_str_after(text, token);
    return token[0] && end && *end == ' ';
}

/* The tokens of a step, and whose records each is part of. */
struct known {
    const char *token;
    unsigned origins;
};

enum { TOKENS = 3 };

static void list_tokens(const struct dt_step_identity *step,
                        struct known known[TOKENS])
{
    known[0] = (struct known){step->token, DT_FROM_TOKEN};
    known[1] = (struct known){step->progress, DT_FROM_RUNTIME};
    known[2] = (struct known){step->keepers, DT_FROM_KEEPER};
}

/* Parses a record. False unless `text` begins with one of the tokens, followed
 * by a message that the token allows.
 */
static bool parse_record(const char *text, const struct dt_step_identity *step,
                         struct dt_console_event *event)
{
    struct known known[TOKENS];
    list_tokens(step, known);
    for (int i = 0; i < TOKENS; i++)
        if (has_token(text, known[i].token))
            return find_message(strchr(text, ' ') + 1, known[i].origins, event);
    return false;
}

/* Whether a record of ours has lost its end, after the token or within it. */
static bool is_broken(const char *text, const struct dt_step_identity *step)
{
    struct known known[TOKENS];
    bool broken = false;
    list_tokens(step, known);
    for (int i = 0; i < TOKENS; i++)
        broken |= has_token(text, known[i].token) ||
                  (text[0] && dt_str_after(known[i].token, text));
    return broken;
}

/* Returns the offset in the line of a record with the "slurmstepd: " before it,
 * which may come after the beginning of a line of a program.
 */
static size_t find_begin(const char *line, size_t record)
{
    static const char *const ends[] = {STEPD ": ", STEPD "-"};
    for (size_t i = record; i-- > 0;)
        for (size_t k = 0; k < sizeof(ends) / sizeof(*ends); k++)
            if (dt_str_after(line + i, ends[k]) &&
                strcspn(line + i, ":") + i + 2 == record)
                return i;
    return record;
}

enum owner {
    NO_OWNER, /* the line names no step */
    OWN_STEP,
    FOREIGN_STEP, /* a step that a task has started */
};

/* Finds the owner of the line by the step or the job that it names. */
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

/* Skips the time that Slurm writes before a line, depending on the release and
 * on LogTimeFormat: "[2026-04-29T23:36:37.809] ", "[Apr 29 23:36:37] ".
 */
static const char *skip_time(const char *text)
{
    size_t len = text[0] == '[' ? strcspn(text, "]") : 0;
    bool digits = strcspn(text, "0123456789") < len;
    return digits && dt_str_after(text + len, "] ") ? text + len + 2 : text;
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
    const char *of_srun = dt_str_after(said, "srun: ");
    if (origin != DT_ORIGIN_TASK && of_srun) {
        event->from_slurm = true;
        find_message(of_srun, DT_FROM_SRUN, event);
    } else if (origin == DT_ORIGIN_SRUN && timed) {
        find_message(said, DT_FROM_SRUN, event);
    }
    event->hearsay = origin == DT_ORIGIN_UNKNOWN && owner != OWN_STEP;
    if (event->kind != DT_EVENT_NONE || owner == FOREIGN_STEP)
        return;
    bool stepd = dt_str_after(said, STEPD);
    if (owner == OWN_STEP &&
        (stepd || (timed && dt_str_after(said, "error: "))))
        find_message(said, DT_FROM_SLURMSTEPD, event);
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
        return; /* by far the most common case: output of a program */
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

/* Beginnings of lines that do not come from a program. */
static const char *const begins[] = {"srun: ", STEPD, DT_RECORD};

bool dt_console_event_is_piece(const char *line, size_t len)
{
    if (len == 0 || len >= LINE_BYTES)
        return false;
    for (size_t i = 0; i < sizeof(begins) / sizeof(*begins); i++)
        if (memcmp(line, begins[i], smaller(len, strlen(begins[i]))) == 0)
            return true;
    if (line[0] == '[' && (len == 1 || isalnum((unsigned char)line[1])))
        return true; /* a time */
    /* a record may come after the beginning of a line of a program */
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
    struct dt_console_event event;
    dt_console_event_parse(line, len, step, DT_ORIGIN_UNKNOWN, &event);
    if ((event.begin == 0 && dt_console_event_is_record(&event)) || len == 0 ||
        line[len - 1] != '\n')
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

bool dt_console_event_is_record(const struct dt_console_event *event)
{
    return event->message && event->message->origin & DT_FROM_RECORD;
}

/* --- sentences --- */

/* Returns the number with this name in the event's pattern. */
static uint64_t find_number(const struct dt_console_event *event,
                            const char *name, size_t len)
{
    int numbers = 0;
    for (const char *p = event->message->pattern; (p = strchr(p, '{'));) {
        size_t bytes = strcspn(++p, "}");
        if (bytes == len && memcmp(p, name, len) == 0)
            return event->number[numbers];
        numbers += bytes > 0 && !find_field(p, bytes);
    }
    return 0;
}

void dt_console_event_tell(const struct dt_console_event *event,
                           const struct dt_outcome *outcome, FILE *out)
{
    const char *sentence = event->message ? event->message->sentence : NULL;
    if (!sentence)
        return;
    fputs("disttrain: ", out);
    while (*sentence) {
        size_t len = strcspn(sentence, "{");
        fwrite(sentence, 1, len, out);
        sentence += len;
        if (!*sentence)
            break;
        const char *name = sentence + 1;
        len = strcspn(name, "}");
        const struct field *field = find_field(name, len);
        if (!field)
            fprintf(out, "%" PRIu64, find_number(event, name, len));
        else if (strcmp(field->name, "hosts") == 0)
            dt_outcome_print_hosts(outcome, event->list, out);
        else if (strcmp(field->name, "rank") == 0)
            fprintf(out, "%" PRIu32, event->rank);
        else
            fputs(field->read ? event->reason : event->host, out);
        sentence = name + len + 1;
    }
    fputc('\n', out);
}
