/* SPDX-License-Identifier: Apache-2.0 */
/* parse.c - parses what Slurm and the plugin say about a step, line by line */
#include "config.h"

#include <ctype.h>
#include <string.h>

#include "console/messages.h"
#include "console/parse.h"
#include "contract/contract.h"

#define STEPD "slurmstepd"

enum {
    LINE_BYTES = 1024, /* longer lines are not parsed */
};

static bool starts_with(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

static bool has_token(const char *text, const char *token)
{
    size_t len = strlen(token);
    return len > 0 && starts_with(text, token) && text[len] == ' ';
}

/* Parses a record; false unless `text` begins with one of the tokens, followed
 * by a message which that token allows.
 */
static bool parse_record(const char *text, const struct dt_step_identity *step,
                         struct dt_console_event *event)
{
    bool ours = has_token(text, step->token);
    if (!ours && !has_token(text, step->progress))
        return false;
    return dt_message_parse(strchr(text, ' ') + 1,
                            ours ? DT_FROM_TOKEN : DT_FROM_RUNTIME, event);
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
        dt_message_parse(said + strlen("srun: "), DT_FROM_SRUN, event);
    } else if (origin == DT_ORIGIN_SRUN && timed) {
        dt_message_parse(said, DT_FROM_SRUN, event);
    }
    event->hearsay = origin == DT_ORIGIN_UNKNOWN && owner != OWN_STEP;
    if (event->kind != DT_EVENT_NONE || owner == FOREIGN_STEP)
        return;
    bool stepd = starts_with(said, STEPD);
    if (owner == OWN_STEP && (stepd || (timed && starts_with(said, "error: "))))
        dt_message_parse(said, DT_FROM_SLURMSTEPD, event);
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
    if ((event.begin == 0 && dt_message_is_record(&event)) || len == 0 ||
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
