/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_history.c - any bytes as the files of a run: facts, records or damage */
#include "config.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "history/history_impl.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool same_number(double a, double b)
{
    return a == b || (isnan(a) && isnan(b));
}

/* What the quick reader takes is what jansson says, if that can say it: it has
 * no integers beyond 64 bits.
 */
static void compare(const json_t *object, const struct dt_report_record *record)
{
    if (!object)
        return;
    if (json_integer_value(json_object_get(object, "step")) != record->step)
        abort();
    for (size_t i = 0; i < record->count; i++) {
        const json_t *value = json_object_get(object, record->value[i].name);
        double number = json_is_null(value) ? NAN : json_number_value(value);
        if (!value || !same_number(number, record->value[i].value))
            abort();
    }
}

static void read_metrics(struct dt_metric_names *names, const char *line)
{
    struct dt_report_record record;
    double seconds;
    const size_t bytes = strlen(line);
    json_t *object = json_loadb(line, bytes, JSON_REJECT_DUPLICATES, NULL);
    if (dt_metric_line_read(names, line, bytes, &record, &seconds)) {
        if (record.step < 0 || record.count > DT_RECORD_VALUES_MAX)
            abort();
        compare(object, &record);
    }
    if (dt_metric_line_quick(names, line, bytes, &record, &seconds))
        compare(object, &record);
    json_decref(object);
}

static void read_others(const char *line)
{
    struct dt_rank_numbers numbers = {0};
    struct dt_report_ranks ranks;
    struct dt_report_event event;
    json_t *object = json_loads(line, JSON_REJECT_DUPLICATES, NULL);
    if (dt_history_read_event(object, &event) &&
        (!*event.kind || event.rank < -1))
        abort();
    if (dt_history_read_ranks(object, &numbers, &ranks) == 1 &&
        ranks.count == 0)
        abort();
    dt_rank_numbers_fini(&numbers);
    json_decref(object);
}

static void read_run(const char *text)
{
    struct dt_run_facts facts;
    struct dt_error err = {0};
    if (dt_run_facts_read(&facts, "run.json", text, &err) < 0 ||
        dt_run_facts_name(&facts, "/a/logs", &err) < 0 || !facts.facts.name ||
        (facts.facts.json == NULL) != (facts.facts.problem != NULL))
        abort();
    dt_run_facts_fini(&facts);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct dt_metric_names *names = dt_metric_names_create();
    char *text = malloc(size + 1), *next = text, *line;
    if (!names || !text)
        abort();
    memcpy(text, data, size);
    text[size] = '\0';
    read_run(text);
    while ((line = strsep(&next, "\n")) != NULL) {
        read_metrics(names, line);
        read_others(line);
    }
    free(text);
    dt_metric_names_destroy(names);
    return 0;
}
