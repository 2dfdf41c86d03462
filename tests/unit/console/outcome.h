/* SPDX-License-Identifier: Apache-2.0 */
/* outcome.h - a step of 8 ranks on 4 nodes for tests, and its messages */
#ifndef DT_TESTS_OUTCOME_H
#define DT_TESTS_OUTCOME_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "console/console_impl.h"
#include "contract/contract.h"

#define RECORD DT_RECORD "a1b2 "

static inline struct dt_console_event parse(const char *line)
{
    static const struct dt_step_identity step = {.token = "a1b2",
                                                 .keepers = "c3d4"};
    struct dt_console_event event;
    dt_console_event_parse(line, strlen(line), &step, DT_ORIGIN_UNKNOWN,
                           &event);
    return event;
}

/* A step of 8 ranks on n1-n4, launched at 100 s. */
static inline struct dt_outcome *step(void)
{
    struct dt_error err;
    char name[16];
    char ranks[32];
    struct dt_outcome *o = dt_outcome_create(8, 100000, &err);
    assert_non_null(o);
    for (int i = 0; i < 4; i++) {
        snprintf(name, sizeof(name), "n%d", i + 1);
        snprintf(ranks, sizeof(ranks), "%d-%d", 2 * i, 2 * i + 1);
        assert_int_equal(dt_outcome_add_node(o, name, ranks, &err), 0);
    }
    return o;
}

/* Lets a rank print a line to stderr at time `ms`. */
static inline void say(struct dt_outcome *o, uint32_t rank, int64_t ms,
                       const char *line)
{
    struct dt_console_event event = parse(line);
    dt_message_note(o, &event, rank, ms);
    if (event.kind == DT_EVENT_NONE)
        dt_outcome_text(o, rank, true, line, strlen(line), ms);
}

static inline void record(struct dt_outcome *o, int64_t came, const char *verb,
                          uint32_t rank, int64_t ms, int status)
{
    char line[128];
    int n = snprintf(line, sizeof(line), RECORD "%s %u n%u %d.%03d", verb, rank,
                     rank / 2 + 1, (int)(ms / 1000), (int)(ms % 1000));
    if (verb[0] == 'e') /* slurmstepd says it on the node's first stderr */
        snprintf(line + n, sizeof(line) - (size_t)n, " %d", status);
    say(o, verb[0] == 'e' ? rank / 2 * 2 : rank, came, line);
}

static inline void start_all(struct dt_outcome *o)
{
    for (uint32_t rank = 0; rank < 8; rank++)
        record(o, 101000 + rank, "start", rank, 101000, 0);
}

static inline void expect_report(struct dt_outcome *o, const char *want)
{
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    assert_non_null(out);
    dt_outcome_report(o, out);
    fclose(out);
    assert_string_equal(text, want);
    free(text);
    dt_outcome_destroy(o);
}

#endif /* DT_TESTS_OUTCOME_H */
