/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_console.c - any bytes as what srun prints: a report, and never a crash
 *
 * The first byte is the number of ranks. The same bytes also go for a table of
 * connections.
 */
#include "config.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "console/console_impl.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void take_line(struct dt_outcome *outcome, uint32_t tasks,
                      const char *line, size_t len, int64_t now, FILE *out)
{
    static const struct dt_step_identity step = {.token = "t0", .id = "7.0"};
    struct dt_console_event event;
    uint32_t rank = DT_NO_RANK;
    size_t label = dt_label_parse(line, len, tasks, &rank);
    if (label > len || (label > 0 && rank >= tasks))
        abort();
    dt_console_event_parse(
        line + label, len - label, &step,
        label > 0 ? DT_ORIGIN_TASK : (enum dt_console_origin)(now % 2), &event);
    if (event.begin > len - label)
        abort();
    dt_message_note(outcome, &event, rank, now);
    dt_console_event_tell(&event, outcome, out);
    if (event.kind == DT_EVENT_NONE)
        dt_outcome_text(outcome, rank, now % 2, line + label, len - label, now);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct dt_error err;
    struct dt_connected peers = {.count = 0};
    const char *text = (const char *)data + 1;
    const char *end = (const char *)data + size;
    int64_t now = 1000000;
    char *shown = NULL;
    size_t bytes;
    if (size < 2)
        return 0;
    uint32_t tasks = 1 + data[0];
    struct dt_outcome *outcome = dt_outcome_create(tasks, now, &err);
    FILE *out = open_memstream(&shown, &bytes);
    FILE *table = fmemopen((void *)text, size - 1, "r");
    if (!outcome || !out || !table)
        abort();
    if (dt_outcome_add_node(outcome, "n1", "0-9", &err) != 0)
        abort();
    dt_connected_read(&peers, table, (const unsigned[]){61234}, 1);
    while (text < end) {
        const char *newline = memchr(text, '\n', (size_t)(end - text));
        size_t len = (size_t)((newline ? newline + 1 : end) - text);
        take_line(outcome, tasks, text, len, now++, out);
        text += len;
    }
    dt_outcome_print_missing(outcome, out);
    dt_outcome_report(outcome, out);
    fclose(table);
    fclose(out);
    free(shown);
    free(peers.addresses);
    dt_outcome_destroy(outcome);
    return 0;
}
