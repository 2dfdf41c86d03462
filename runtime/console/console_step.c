/* SPDX-License-Identifier: Apache-2.0 */
/* console_step.c - reads what the plugin tells the console about its step */
#include "config.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "console/console_step.h"
#include "contract/contract.h"

static int parse_labels(struct dt_console_step *s, const char *word,
                        struct dt_error *err)
{
    static const char *const words[] = {[DT_LABELS_NONE] = "none",
                                        [DT_LABELS_STRIP] = "strip",
                                        [DT_LABELS_KEEP] = "keep",
                                        [DT_LABELS_APART] = "apart"};
    for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
        if (strcmp(word, words[i]) == 0) {
            s->labels = (enum dt_console_labels)i;
            return 0;
        }
    return dt_error_set(err, EX_PROTOCOL, "unexpected labels \"%.64s\"", word);
}

static int parse_task_count(struct dt_console_step *s, const char *number,
                            int64_t now_ms, struct dt_error *err)
{
    if (s->outcome || sscanf(number, "%" SCNu32, &s->tasks) != 1 ||
        s->tasks == 0 || s->tasks > INT32_MAX)
        return dt_error_set(err, EX_PROTOCOL, "unexpected tasks \"%.64s\"",
                            number);
    s->outcome = dt_outcome_create(s->tasks, now_ms, err);
    return s->outcome ? 0 : -1;
}

/* Parses one line of the step's description, see contract/contract.h. */
static int parse_fact(struct dt_console_step *s, char *line, int64_t now_ms,
                      struct dt_error *err)
{
    static const size_t labels = sizeof(DT_CONSOLE_LABELS) - 1;
    static const size_t tasks = sizeof(DT_CONSOLE_TASKS) - 1;
    static const size_t step = sizeof(DT_CONSOLE_STEP) - 1;
    static const size_t token = sizeof(DT_CONSOLE_TOKEN) - 1;
    static const size_t progress = sizeof(DT_CONSOLE_PROGRESS) - 1;
    static const size_t status = sizeof(DT_CONSOLE_STATUS) - 1;
    static const size_t node = sizeof(DT_CONSOLE_NODE) - 1;
    line[strcspn(line, "\n")] = '\0';
    if (strncmp(line, DT_CONSOLE_LABELS, labels) == 0)
        return parse_labels(s, line + labels, err);
    if (strncmp(line, DT_CONSOLE_TASKS, tasks) == 0)
        return parse_task_count(s, line + tasks, now_ms, err);
    if (strncmp(line, DT_CONSOLE_STEP, step) == 0) {
        snprintf(s->identity.id, sizeof(s->identity.id), "%s", line + step);
        return 0;
    }
    if (strncmp(line, DT_CONSOLE_TOKEN, token) == 0) {
        snprintf(s->identity.token, sizeof(s->identity.token), "%s",
                 line + token);
        return 0;
    }
    if (strncmp(line, DT_CONSOLE_PROGRESS, progress) == 0) {
        snprintf(s->identity.progress, sizeof(s->identity.progress), "%s",
                 line + progress);
        return 0;
    }
    if (strncmp(line, DT_CONSOLE_STATUS, status) == 0 && s->outcome) {
        dt_outcome_srun_ended(s->outcome, atoi(line + status));
        return 0;
    }
    char *blank = strrchr(line, ' ');
    if (!s->outcome || strncmp(line, DT_CONSOLE_NODE, node) != 0 ||
        blank < line + node)
        return dt_error_set(err, EX_PROTOCOL, "unexpected line \"%.64s\"",
                            line);
    *blank = '\0';
    return dt_outcome_add_node(s->outcome, line + node, blank + 1, err);
}

int dt_console_step_read(struct dt_console_step *s, FILE *in, int64_t now_ms,
                         struct dt_error *err)
{
    char *line = NULL;
    size_t size = 0;
    int rc = 0;
    if (getline(&line, &size, in) < 0 ||
        strcmp(line, DT_CONSOLE_VERSION_LINE "\n") != 0)
        rc = dt_error_set(err, EX_PROTOCOL,
                          "expected \"%s\" on stdin: only srun's plugin "
                          "starts this command",
                          DT_CONSOLE_VERSION_LINE);
    while (rc == 0 && getline(&line, &size, in) >= 0)
        rc = parse_fact(s, line, now_ms, err);
    free(line);
    if (rc == 0 && (!s->outcome || !s->identity.token[0]))
        rc = dt_error_set(err, EX_PROTOCOL, "no line \"%s...\"",
                          s->outcome ? DT_CONSOLE_TOKEN : DT_CONSOLE_TASKS);
    return rc;
}

void dt_console_step_read_end(struct dt_console_step *s, FILE *in)
{
    char *line = NULL;
    size_t size = 0;
    clearerr(in);
    while (getline(&line, &size, in) >= 0)
        parse_fact(s, line, 0, NULL);
    free(line);
}
