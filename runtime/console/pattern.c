/* SPDX-License-Identifier: Apache-2.0 */
/* pattern.c - reads a message by its pattern, and fills in a sentence about it
 */
#include "config.h"

#include <ctype.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "console/outcome_impl.h"
#include "console/pattern.h"

#define SECONDS_MAX (UINT64_C(1) << 40) /* 30000 years */

/* Reads a field. Returns its end, or NULL: it is something else. */
typedef const char *(read_f)(const char *text, struct dt_console_event *event);

static const char *read_number(const char *text, uint64_t max, uint64_t *number)
{
    char *end;
    if (!isdigit((unsigned char)text[0]))
        return NULL;
    *number = strtoull(text, &end, 10); /* of more than 64 bits: UINT64_MAX */
    return *number <= max ? end : NULL;
}

static const char *read_word(const char *text, size_t len, char *word,
                             size_t size)
{
    if (len == 0 || len >= size)
        return NULL;
    memcpy(word, text, len);
    word[len] = '\0';
    return text + len;
}

static const char *read_rank(const char *text, struct dt_console_event *event)
{
    uint64_t rank = 0;
    const char *end = read_number(text, UINT32_MAX, &rank);
    event->rank = (uint32_t)rank;
    return end;
}

static const char *read_node(const char *text, struct dt_console_event *event)
{
    uint64_t node = 0;
    const char *end = read_number(text, UINT32_MAX, &node);
    event->node = (uint32_t)node;
    return end;
}

static const char *read_wait(const char *text, struct dt_console_event *event)
{
    uint64_t status = 0;
    const char *end = read_number(text, INT_MAX, &status);
    event->status = (int)status;
    return end;
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

static const char *read_host(const char *text, struct dt_console_event *event)
{
    return read_word(text, strcspn(text, ": "), event->host,
                     sizeof(event->host));
}

static const char *read_hosts(const char *text, struct dt_console_event *event)
{
    return read_word(text, strcspn(text, " "), event->list,
                     sizeof(event->list));
}

static const char *read_ranks(const char *text, struct dt_console_event *event)
{
    return read_word(text, strspn(text, "-,0123456789"), event->list,
                     sizeof(event->list));
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
    if (strncmp(text, exited, strlen(exited)) == 0) {
        const char *end = read_number(text + strlen(exited), 255, &code);
        event->status = end ? W_EXITCODE((int)code, 0) : 0;
        return end;
    }
    const char *end = read_signal(text, event);
    return end && strcmp(end, dumped) == 0 ? end + strlen(dumped) : end;
}

static read_f *find_field(const char *name, size_t len)
{
    static const struct {
        const char *name;
        read_f *read;
    } fields[] = {
        {"rank", read_rank},     {"node", read_node},     {"host", read_host},
        {"hosts", read_hosts},   {"ranks", read_ranks},   {"time", read_time},
        {"wait", read_wait},     {"status", read_status}, {"bar", read_bar},
        {"signal", read_signal}, {"reason", read_reason},
    };
    for (size_t i = 0; i < sizeof(fields) / sizeof(*fields); i++)
        if (strlen(fields[i].name) == len &&
            memcmp(fields[i].name, name, len) == 0)
            return fields[i].read;
    return NULL;
}

/* Skips to the text that follows {} in the pattern. */
static const char *skip(const char *text, const char *pattern)
{
    size_t len = strcspn(pattern, "{");
    size_t left = strlen(text);
    return len > 0 ? memmem(text, left, pattern, len) : text + left;
}

bool dt_pattern_match(const char *pattern, const char *text,
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
        read_f *read = find_field(name, len);
        pattern = name + len + 1;
        if (len == 0)
            text = skip(text, pattern);
        else if (read)
            text = read(text, event);
        else if (numbers < DT_EVENT_NUMBERS)
            text = read_number(text, UINT64_MAX - 1, &event->number[numbers++]);
        else
            text = NULL;
    }
    return text && *text == '\0';
}

/* Returns the number with this name in the pattern. */
static uint64_t find_number(const struct dt_console_event *event,
                            const char *pattern, const char *name, size_t len)
{
    int numbers = 0;
    for (const char *p = pattern; (p = strchr(p, '{'));) {
        size_t bytes = strcspn(++p, "}");
        if (bytes == len && memcmp(p, name, len) == 0)
            return event->number[numbers];
        numbers += bytes > 0 && !find_field(p, bytes);
    }
    return 0;
}

void dt_pattern_tell(const char *pattern, const char *sentence,
                     const struct dt_console_event *event,
                     const struct dt_outcome *outcome, FILE *out)
{
    fputs("disttrain: ", out);
    while (*sentence) {
        size_t len = strcspn(sentence, "{");
        fwrite(sentence, 1, len, out);
        sentence += len;
        if (!*sentence)
            break;
        const char *name = sentence + 1;
        len = strcspn(name, "}");
        read_f *field = find_field(name, len);
        if (field == read_rank)
            fprintf(out, "%" PRIu32, event->rank);
        else if (field == read_host)
            fputs(event->host, out);
        else if (field == read_reason)
            fputs(event->reason, out);
        else if (field == read_hosts)
            dt_outcome_print_hosts(outcome, event->list, out);
        else
            fprintf(out, "%" PRIu64, find_number(event, pattern, name, len));
        sentence = name + len + 1;
    }
    fputc('\n', out);
}
