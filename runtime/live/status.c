/* SPDX-License-Identifier: Apache-2.0 */
/* status.c - writes status.json: the state of a run in one small file */
#include "config.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "live/state.h"

enum { DIGITS = 14 }; /* of a number: milliseconds since 1970 */

/* A number of four digits, or null. */
static json_t *status_number(double value)
{
    char text[32];
    if (!isfinite(value))
        return json_null();
    snprintf(text, sizeof(text), "%.4g", value);
    return json_real(strtod(text, NULL));
}

/* A time since 1970 in milliseconds, a count or bytes, or null. */
static json_t *status_exact(double value)
{
    return isfinite(value) ? json_real(round(value * 1e3) / 1e3) : json_null();
}

/* A text as UTF-8, with '?' for other bytes. "" is null. */
static json_t *status_text(const char *text)
{
    char copy[512];
    json_t *string = json_string(text);
    if (text[0] == '\0') {
        json_decref(string);
        return json_null();
    }
    if (string)
        return string;
    snprintf(copy, sizeof(copy), "%s", text);
    for (char *c = copy; *c; c++)
        if ((unsigned char)*c >= 0x80)
            *c = '?';
    return json_string(copy);
}

static json_t *status_losses(const struct dt_live_state *state)
{
    json_t *list = json_array();
    for (size_t i = 0; i < state->loss_count; i++) {
        const struct dt_live_point *point = &state->losses[i];
        json_t *values = json_pack("[I, o]", (json_int_t)point->step,
                                   status_number(point->loss));
        if (isfinite(point->reward))
            json_array_append_new(values, status_number(point->reward));
        json_array_append_new(list, values);
    }
    return list;
}

static json_t *status_event(const struct dt_live_said *event)
{
    return json_pack("{s:o, s:I, s:o, s:o, s:i, s:o, s:o}", "event",
                     status_text(event->kind), "step", (json_int_t)event->step,
                     "wall", status_exact(event->wall), "seconds",
                     status_number(event->seconds), "rank", event->rank, "host",
                     status_text(event->host), "text",
                     status_text(event->text));
}

static json_t *status_events(const struct dt_live_state *state)
{
    json_t *list = json_array();
    for (size_t i = 0; i < state->event_count; i++)
        json_array_append_new(list, status_event(&state->events[i]));
    return list;
}

static json_t *status_rows(const struct dt_live_state *state)
{
    json_t *list = json_array();
    for (size_t i = 0; i < state->row_count; i++) {
        const struct dt_live_row *row = &state->rows[i];
        json_t *object = json_pack(
            "{s:i, s:o, s:o, s:o, s:o, s:o, s:o, s:b}", "rank", row->rank,
            "host", status_text(row->host), "compute_s",
            status_number(row->compute_s), "comm_s", status_number(row->comm_s),
            "data_wait_s", status_number(row->data_wait_s), "mem",
            status_exact(row->mem), "power_w", status_number(row->power_w),
            "straggler", row->straggler);
        if (row->count > 1)
            json_object_set_new(object, "ranks", json_integer(row->count));
        json_array_append_new(list, object);
    }
    return list;
}

static json_t *status_object(const struct dt_live_state *state)
{
    const struct dt_live_numbers *n = &state->numbers;
    json_t *object = json_pack(
        "{s:i, s:o, s:i, s:o, s:o, s:o, s:o, s:i, s:o, s:o, s:o, s:o, s:o}",
        "version", 1, "time", status_exact(state->wall), "interval_s",
        DT_LIVE_INTERVAL, "name", status_text(state->name), "algorithm",
        status_text(state->algorithm), "job", status_text(state->job), "user",
        status_text(state->user), "world", state->world, "started",
        status_exact(state->started), "status", status_text(state->status),
        "verdict", status_text(state->verdict), "phase",
        status_text(state->phase[0] ? state->phase : "training"), "phase_s",
        status_number(state->phase_s));
    json_t *numbers = json_pack(
        "{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, "
        "s:o, s:o, s:o, s:o}",
        "step", state->counts ? json_integer(state->step) : json_null(),
        "total_steps", state->counts ? json_integer(state->total) : json_null(),
        "elapsed_s", status_number(state->elapsed_s), "step_s",
        status_number(state->step_s), "eta_s", status_number(state->left_s),
        "goodput", status_number(state->goodput), "epoch",
        status_number(n->epoch), "loss", status_number(n->loss), "tokens_per_s",
        status_number(n->tokens_per_s), "total_tokens",
        status_exact(n->total_tokens), "mfu", status_number(n->mfu), "energy_j",
        status_exact(n->energy_j), "energy_problem",
        status_text(state->energy_problem), "tokens_per_j",
        status_number(n->tokens_per_j), "reward", status_number(n->reward),
        "kl", status_number(n->kl), "completion_length",
        status_number(n->length));
    json_t *lists = json_pack(
        "{s:o, s:o, s:o, s:I, s:o, s:i}", "losses", status_losses(state),
        "save", state->saved ? status_event(&state->save) : json_null(),
        "events", status_events(state), "rank_step",
        (json_int_t)state->rank_step, "ranks", status_rows(state),
        "ranks_left_out", (int)state->rows_left_out);
    if (!object || json_object_update(object, numbers) < 0 ||
        json_object_update(object, lists) < 0) {
        json_decref(object);
        object = NULL;
    }
    json_decref(numbers);
    json_decref(lists);
    return object;
}

int dt_live_write_status(const struct dt_live_state *state, const char *dir,
                         struct dt_error *err)
{
    char path[PATH_MAX];
    json_t *object = status_object(state);
    char *text =
        object ? json_dumps(object, JSON_COMPACT | JSON_REAL_PRECISION(DIGITS))
               : NULL;
    json_decref(object);
    if (!text)
        return dt_error_set(err, EX_OSERR, "out of memory");
    int n = snprintf(path, sizeof(path), "%s/status.json", dir);
    int rc =
        n < 0 || (size_t)n >= sizeof(path)
            ? dt_error_set(err, EX_CANTCREAT, "%s: the name is too long", dir)
            : dt_file_replace(path, text, strlen(text), err);
    free(text);
    return rc;
}
