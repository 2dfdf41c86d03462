/* SPDX-License-Identifier: Apache-2.0 */
/* event_line.c - reads lines of events.jsonl and ranks.jsonl */
#include "config.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>

#include "base/json.h"
#include "history/history_impl.h"

/* Returns a count; -1: it is none. */
static long count_of(const json_t *value)
{
    const json_int_t n =
        json_is_integer(value) ? json_integer_value(value) : -1;
    return n >= 0 && n <= LONG_MAX ? (long)n : -1;
}

bool dt_history_read_event(const json_t *object, struct dt_report_event *event)
{
    const long rank = count_of(json_object_get(object, "rank"));
    const long redone = count_of(json_object_get(object, "redone"));
    const json_t *spent = json_object_get(object, "spent");
    *event = (struct dt_report_event){
        .kind = json_string_value(json_object_get(object, "event")),
        .step = count_of(json_object_get(object, "step")),
        .wall = dt_json_number(json_object_get(object, "wall")),
        .seconds = dt_json_number(json_object_get(object, "seconds")),
        .bytes = dt_json_number(json_object_get(object, "bytes")),
        .rank = rank <= INT_MAX ? (int)rank : -1,
        .host = json_string_value(json_object_get(object, "host")),
        .text = json_string_value(json_object_get(object, "text")),
        .redone = redone > 0 ? redone : 0,
        .allocation = json_string_value(json_object_get(object, "allocation"))};
    for (int i = 0; i < DT_ACCOUNT_COUNTED; i++)
        event->spent[i] = fmax(
            0, dt_json_number(json_object_get(spent, dt_account_names[i])));
    return event->kind && *event->kind;
}

void dt_rank_numbers_fini(struct dt_rank_numbers *numbers)
{
    free(numbers->values);
    *numbers = (struct dt_rank_numbers){0};
}

static const double *take_array(const json_t *array, size_t world, double *to)
{
    if (!array || json_array_size(array) != world)
        return NULL;
    for (size_t i = 0; i < world; i++)
        to[i] = dt_json_number(json_array_get(array, i));
    return to;
}

int dt_history_read_ranks(const json_t *object, struct dt_rank_numbers *numbers,
                          struct dt_report_ranks *ranks)
{
    static const char *const names[] = {"compute_s", "comm_s", "data_wait_s",
                                        "mem", "power_w"};
    enum { NAMES = sizeof(names) / sizeof(names[0]) };
    const double *found[NAMES] = {NULL};
    size_t world = 0;
    for (size_t i = 0; i < NAMES && world == 0; i++)
        world = json_array_size(json_object_get(object, names[i]));
    if (world == 0)
        return 0;
    if (numbers->size < NAMES * world) {
        double *values = realloc(numbers->values, NAMES * world * 8);
        if (!values)
            return -1;
        numbers->values = values;
        numbers->size = NAMES * world;
    }
    for (size_t i = 0; i < NAMES; i++)
        found[i] = take_array(json_object_get(object, names[i]), world,
                              numbers->values + i * world);
    *ranks = (struct dt_report_ranks){
        .step = count_of(json_object_get(object, "step")),
        .wall = dt_json_number(json_object_get(object, "wall")),
        .count = world,
        .compute_s = found[0],
        .comm_s = found[1],
        .data_wait_s = found[2],
        .mem = found[3],
        .power_w = found[4]};
    return 1;
}
