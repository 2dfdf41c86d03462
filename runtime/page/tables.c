/* SPDX-License-Identifier: Apache-2.0 */
/* tables.c - events, checkpoints, configuration and environment of a run */
#include "config.h"

#include <math.h>
#include <string.h>

#include "page/page_impl.h"

enum { CELL_CHARACTERS = 600, DEVICES_MAX = 16, NODES_MAX = 32 };

static void put_cell(FILE *out, const char *class, const char *text)
{
    fprintf(out, "<td%s>", class);
    dt_page_text(out, text ? text : "", CELL_CHARACTERS);
    fputs("</td>", out);
}

/* --- events --- */

static void put_event(FILE *out, const struct dt_page_event *event)
{
    char text[DT_PAGE_NUMBER_BYTES];
    fprintf(out, "<tr><td><span class=\"num %s\">%u</span></td>",
            dt_style_marks[dt_page_class_of(event->kind)], event->number);
    put_cell(out, "", event->kind);
    put_cell(out, " class=\"n\"",
             event->step < 0 ? "" : dt_page_count(text, (double)event->step));
    put_cell(out, " class=\"w\"",
             isfinite(event->wall) ? dt_page_time(text, event->wall) : "");
    put_cell(out, " class=\"n\"",
             isfinite(event->seconds) ? dt_page_duration(text, event->seconds)
                                      : "");
    fputs("<td>", out);
    if (event->rank >= 0)
        fprintf(out, "rank %d", event->rank);
    if (event->host)
        dt_page_put(out, event->rank >= 0 ? ", " : "", event->host, 64, "");
    fputs("</td>", out);
    put_cell(out, " class=\"x\"", event->text);
    fputs("</tr>\n", out);
}

static bool is_routine(const struct dt_page_event *event)
{
    return dt_page_class_of(event->kind) == DT_MARK_DONE;
}

/* Writes or only counts the routine events, or the others. Returns their
 * number.
 */
static size_t put_events(FILE *out, const struct dt_page_run *run, bool routine,
                         bool count_only)
{
    size_t count = 0;
    for (size_t i = 0; i < run->event_count; i++) {
        if (is_routine(run->event[i]) != routine)
            continue;
        count++;
        if (!count_only)
            put_event(out, run->event[i]);
    }
    return count;
}

static void put_event_table(FILE *out, const struct dt_page_run *run,
                            bool routine)
{
    dt_page_table(out,
                  "<span class=\"sr\">number</span>|event|#step|time|#took|"
                  "where|what");
    put_events(out, run, routine, false);
    fputs(DT_PAGE_TABLE_END, out);
}

static void put_all_events(FILE *out, const struct dt_page_run *run)
{
    const size_t routine = put_events(out, run, true, true);
    const size_t others = put_events(out, run, false, true);
    if (run->event_count == 0)
        return;
    fputs("<h2>Events</h2>\n", out);
    if (others > 0)
        put_event_table(out, run, false);
    if (routine > 0) {
        fprintf(out,
                "<details%s><summary>%zu saves, evaluations and epochs"
                "</summary>\n",
                routine <= 20 ? " open=\"open\"" : "", routine);
        put_event_table(out, run, true);
        fputs("</details>\n", out);
    }
    if (run->events_left_out > 0)
        fprintf(out,
                "<p>%ld events in the middle are left out; events.jsonl has "
                "them.</p>\n",
                run->events_left_out);
}

/* --- checkpoints --- */

static void put_checkpoints(FILE *out, const struct dt_page_run *run)
{
    char text[DT_PAGE_NUMBER_BYTES];
    size_t count = 0;
    double seconds = 0, most = 0, bytes = NAN;
    const struct dt_page_event *last = NULL;
    for (size_t i = 0; i < run->event_count; i++) {
        const struct dt_page_event *event = run->event[i];
        if (strcmp(event->kind, "save") != 0)
            continue;
        count++;
        last = event;
        bytes = isfinite(event->bytes) ? event->bytes : bytes;
        seconds += isfinite(event->seconds) ? event->seconds : 0;
        most = fmax(most, isfinite(event->seconds) ? event->seconds : 0);
    }
    if (count == 0)
        return;
    fprintf(out, "<h2>Checkpoints</h2>\n<p>%zu saved, the last one at step %s",
            count, dt_page_count(text, (double)last->step));
    if (isfinite(bytes))
        fprintf(out, ", of %s", dt_page_bytes(text, bytes));
    if (seconds > 0) {
        fprintf(out, ". Training waited %s for them",
                dt_page_duration(text, seconds));
        fprintf(out, ", at most %s for one", dt_page_duration(text, most));
    }
    fputs(".</p>\n", out);
}

/* --- configuration --- */

static void put_settings(FILE *out, const struct dt_page_run *run, bool given)
{
    const struct dt_history_facts *facts = run->facts;
    dt_page_table(out, "key|value");
    for (size_t i = 0; i < facts->setting_count; i++) {
        if (facts->settings[i].given != given)
            continue;
        dt_page_put(out, "<tr><th scope=\"row\"><code>", facts->settings[i].key,
                    80, "</code></th>");
        put_cell(out, " class=\"x\"", facts->settings[i].value);
        fputs("</tr>\n", out);
    }
    fputs(DT_PAGE_TABLE_END, out);
}

static void put_configuration(FILE *out, const struct dt_page_run *run)
{
    size_t given = 0;
    const size_t count = run->facts->setting_count;
    for (size_t i = 0; i < count; i++)
        given += run->facts->settings[i].given;
    if (count == 0)
        return;
    fputs("<h2>Configuration</h2>\n", out);
    if (given > 0)
        put_settings(out, run, true);
    if (given == count)
        return;
    fprintf(out, "<details><summary>%zu keys with their default</summary>\n",
            count - given);
    put_settings(out, run, false);
    fputs("</details>\n", out);
}

/* --- environment --- */

static void put_fact(FILE *out, const char *name, const char *value)
{
    if (!value || !*value)
        return;
    fprintf(out, "<tr><th scope=\"row\">%s</th>", name);
    put_cell(out, " class=\"x\"", value);
    fputs("</tr>\n", out);
}

static void put_argv(FILE *out, const struct dt_history_facts *facts)
{
    if (facts->argc == 0)
        return;
    fputs("<tr><th scope=\"row\">Command</th><td class=\"x\"><code>", out);
    for (size_t i = 0; i < facts->argc && i < 64; i++)
        dt_page_put(out, i > 0 ? " " : "", facts->argv[i], 200, "");
    fputs("</code></td></tr>\n", out);
}

/* Writes devices; equal neighbors are counted. */
static void put_devices(FILE *out, const struct dt_history_facts *facts)
{
    size_t shown = 0;
    if (facts->device_count == 0)
        return;
    fputs("<tr><th scope=\"row\">Devices</th><td class=\"x\">", out);
    for (size_t i = 0; i < facts->device_count && shown < DEVICES_MAX;) {
        size_t same = 1;
        while (i + same < facts->device_count &&
               !strcmp(facts->devices[i], facts->devices[i + same]))
            same++;
        fprintf(out, "%s%zu \u00d7 ", shown++ > 0 ? ", " : "", same);
        dt_page_text(out, facts->devices[i], 80);
        i += same;
    }
    fputs(shown == DEVICES_MAX ? " \u2026</td></tr>\n" : "</td></tr>\n", out);
}

static void put_nodes(FILE *out, const struct dt_history_facts *facts)
{
    if (facts->node_count == 0)
        return;
    fputs("<tr><th scope=\"row\">Nodes</th><td class=\"x\">", out);
    for (size_t i = 0; i < facts->node_count && i < NODES_MAX; i++) {
        dt_page_put(out, i > 0 ? ", " : "", facts->nodes[i].host, 64, "");
        fprintf(out, " (%zu)", facts->nodes[i].ranks);
    }
    if (facts->node_count > NODES_MAX)
        fprintf(out, " and %zu more", facts->node_count - NODES_MAX);
    fputs("</td></tr>\n", out);
}

static void put_starts(FILE *out, const struct dt_history_facts *facts)
{
    char wall[DT_PAGE_NUMBER_BYTES], step[DT_PAGE_NUMBER_BYTES];
    if (facts->start_count == 0)
        return;
    fputs("<tr><th scope=\"row\">Starts</th><td class=\"x\">", out);
    for (size_t i = 0; i < facts->start_count && i < 32; i++) {
        fprintf(out, "%s%s at step %s", i > 0 ? "; " : "",
                dt_page_time(wall, facts->starts[i].wall),
                dt_page_count(step, (double)facts->starts[i].step));
        if (facts->starts[i].job)
            dt_page_put(out, ", job ", facts->starts[i].job, 40, "");
    }
    fputs("</td></tr>\n", out);
}

static void put_environment(FILE *out, const struct dt_page_run *run)
{
    char text[DT_PAGE_NUMBER_BYTES];
    const struct dt_history_facts *facts = run->facts;
    fputs("<h2>Environment</h2>\n<div " DT_PAGE_SCROLL "><table><tbody>\n",
          out);
    put_fact(out, "Program", facts->program);
    put_fact(out, "Run", facts->run_id);
    put_fact(out, "Job", facts->job);
    put_argv(out, facts);
    put_fact(out, "Configuration", facts->config_path);
    put_fact(out, "Hash of it", facts->config_hash);
    put_fact(out, "Hash of the data", facts->data_hash);
    put_starts(out, facts);
    put_fact(out, "Ended",
             isfinite(facts->ended) ? dt_page_time(text, facts->ended) : NULL);
    put_nodes(out, facts);
    put_devices(out, facts);
    put_fact(out, "Output", facts->output_dir);
    put_fact(out, "Files", dt_history_dir(run->history));
    fputs(DT_PAGE_TABLE_END, out);
}

void dt_page_tables(FILE *out, const struct dt_page_run *run)
{
    put_all_events(out, run);
    put_checkpoints(out, run);
    dt_page_rank_table(out, run);
    put_configuration(out, run);
    put_environment(out, run);
}
