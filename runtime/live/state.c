/* SPDX-License-Identifier: Apache-2.0 */
/* state.c - status.json: the state of a run in one small file, written and read
 * back without trusting the file
 */
#include "config.h"

#include <ctype.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "live/state.h"

/* --- writing --- */

enum { DIGITS = 14 }; /* enough for milliseconds since 1970 */

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
        "s:o, s:o, s:o, s:o, s:o, s:o}",
        "step", state->counts ? json_integer(state->step) : json_null(),
        "total_steps", state->counts ? json_integer(state->total) : json_null(),
        "elapsed_s", status_number(state->elapsed_s), "step_s",
        status_number(state->step_s), "eta_s", status_number(state->left_s),
        "stop_s", status_number(state->stop_s),
        "goodput", status_number(state->goodput), "account",
        dt_account_json(&state->account), "epoch", status_number(n->epoch),
        "loss", status_number(n->loss), "tokens_per_s",
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

/* --- reading --- */

static double read_number(const json_t *object, const char *key)
{
    return dt_json_number(json_object_get(object, key));
}

/* An integer between 0 and the largest long, or `otherwise`. */
static long read_count(const json_t *object, const char *key, long otherwise)
{
    const json_t *value = json_object_get(object, key);
    bool good = json_is_integer(value) && json_integer_value(value) >= 0;
    return good ? (long)json_integer_value(value) : otherwise;
}

/* As read_count, for an int. */
static int read_int(const json_t *object, const char *key, int otherwise)
{
    long count = read_count(object, key, otherwise);
    return count <= INT_MAX ? (int)count : otherwise;
}

/* Copies a text without the control characters that a terminal would obey:
 * those of ASCII, and U+0080 to U+009F. A character that does not fit is left
 * out.
 */
static void read_text(const json_t *object, const char *key, char *copy,
                      size_t size)
{
    const char *text = json_string_value(json_object_get(object, key));
    size_t n = 0;
    for (; text && text[n] && n + 1 < size; n++) {
        unsigned char c = (unsigned char)text[n];
        bool control = c < 0x20 || c == 0x7f;
        if (n > 0 && (unsigned char)text[n - 1] == 0xc2 && c < 0xa0) {
            copy[n - 1] = '?';
            control = true;
        }
        copy[n] = control ? '?' : (char)c;
    }
    while (text && text[n] && n > 0 && ((unsigned char)text[n] & 0xc0) == 0x80)
        n--;
    copy[n] = '\0';
}

static void read_event(const json_t *object, struct dt_live_said *event)
{
    read_text(object, "event", event->kind, sizeof(event->kind));
    read_text(object, "host", event->host, sizeof(event->host));
    read_text(object, "text", event->text, sizeof(event->text));
    event->step = read_count(object, "step", 0);
    event->wall = read_number(object, "wall");
    event->seconds = read_number(object, "seconds");
    event->rank = read_int(object, "rank", -1);
}

static void read_lists(struct dt_live_state *state, const json_t *object)
{
    const json_t *losses = json_object_get(object, "losses");
    const json_t *events = json_object_get(object, "events");
    size_t count = json_array_size(losses);
    size_t first = count > DT_LIVE_LOSSES ? count - DT_LIVE_LOSSES : 0;
    for (size_t i = first; i < count; i++) {
        const json_t *pair = json_array_get(losses, i);
        state->losses[state->loss_count++] = (struct dt_live_point){
            (long)json_integer_value(json_array_get(pair, 0)),
            dt_json_number(json_array_get(pair, 1)),
            dt_json_number(json_array_get(pair, 2))};
    }
    count = json_array_size(events);
    first = count > DT_LIVE_EVENTS ? count - DT_LIVE_EVENTS : 0;
    for (size_t i = first; i < count; i++)
        read_event(json_array_get(events, i),
                   &state->events[state->event_count++]);
    state->saved = json_is_object(json_object_get(object, "save"));
    if (state->saved)
        read_event(json_object_get(object, "save"), &state->save);
}

static void read_rows(struct dt_live_state *state, const json_t *object)
{
    const json_t *rows = json_object_get(object, "ranks");
    size_t count = json_array_size(rows);
    state->row_count = count < DT_LIVE_RANKS ? count : DT_LIVE_RANKS;
    state->rows_left_out = count - state->row_count +
                           (size_t)read_count(object, "ranks_left_out", 0);
    state->rank_step = read_count(object, "rank_step", 0);
    for (size_t i = 0; i < state->row_count; i++) {
        const json_t *from = json_array_get(rows, i);
        struct dt_live_row *row = &state->rows[i];
        row->rank = read_int(from, "rank", 0);
        row->count = read_int(from, "ranks", 1);
        read_text(from, "host", row->host, sizeof(row->host));
        row->compute_s = read_number(from, "compute_s");
        row->comm_s = read_number(from, "comm_s");
        row->data_wait_s = read_number(from, "data_wait_s");
        row->mem = read_number(from, "mem");
        row->power_w = read_number(from, "power_w");
        row->straggler = json_is_true(json_object_get(from, "straggler"));
    }
}

static void read_numbers(struct dt_live_state *state, const json_t *object)
{
    state->world = read_int(object, "world", 0);
    state->wall = read_number(object, "time");
    state->interval_s = read_number(object, "interval_s");
    state->started = read_number(object, "started");
    state->phase_s = read_number(object, "phase_s");
    state->step = read_count(object, "step", -1);
    state->counts = state->step >= 0;
    state->total = read_count(object, "total_steps", 0);
    state->elapsed_s = read_number(object, "elapsed_s");
    state->step_s = read_number(object, "step_s");
    state->left_s = read_number(object, "eta_s");
    state->stop_s = read_number(object, "stop_s");
    state->goodput = read_number(object, "goodput");
    dt_account_read(json_object_get(object, "account"), &state->account);
    state->numbers = (struct dt_live_numbers){
        .step = state->step,
        .epoch = read_number(object, "epoch"),
        .loss = read_number(object, "loss"),
        .tokens_per_s = read_number(object, "tokens_per_s"),
        .total_tokens = read_number(object, "total_tokens"),
        .mfu = read_number(object, "mfu"),
        .energy_j = read_number(object, "energy_j"),
        .tokens_per_j = read_number(object, "tokens_per_j"),
        .reward = read_number(object, "reward"),
        .kl = read_number(object, "kl"),
        .length = read_number(object, "completion_length"),
    };
}

int dt_live_parse_status(struct dt_live_state *state, const char *path,
                         const char *text, struct dt_error *err)
{
    *state = (struct dt_live_state){0};
    json_t *object = dt_json_parse(path, text, err);
    if (!object)
        return -1;
    if (read_count(object, "version", 0) != 1) {
        json_decref(object);
        return dt_error_set(err, EX_DATAERR,
                            "%s: expected the state of a run: an object with "
                            "\"version\": 1",
                            path);
    }
    read_text(object, "name", state->name, sizeof(state->name));
    read_text(object, "algorithm", state->algorithm, sizeof(state->algorithm));
    read_text(object, "job", state->job, sizeof(state->job));
    read_text(object, "user", state->user, sizeof(state->user));
    read_text(object, "status", state->status, sizeof(state->status));
    read_text(object, "verdict", state->verdict, sizeof(state->verdict));
    read_text(object, "energy_problem", state->energy_problem,
              sizeof(state->energy_problem));
    read_text(object, "phase", state->phase, sizeof(state->phase));
    if (strcmp(state->phase, "training") == 0)
        state->phase[0] = '\0';
    read_numbers(state, object);
    read_lists(state, object);
    read_rows(state, object);
    json_decref(object);
    return 0;
}
