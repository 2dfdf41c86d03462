/* SPDX-License-Identifier: Apache-2.0 */
/* read.c - reads status.json back and trusts none of it */
#include "config.h"

#include <ctype.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "live/state.h"

static double read_number(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : (double)NAN;
}

/* An integer between 0 and the largest long, or `otherwise`. */
static long read_count(const json_t *object, const char *key, long otherwise)
{
    const json_t *value = json_object_get(object, key);
    bool good = json_is_integer(value) && json_integer_value(value) >= 0;
    return good ? (long)json_integer_value(value) : otherwise;
}

/* The same for an int. */
static int read_int(const json_t *object, const char *key, int otherwise)
{
    long count = read_count(object, key, otherwise);
    return count <= INT_MAX ? (int)count : otherwise;
}

/* Copies a text without the control characters, which a terminal would obey:
 * of ASCII, and of U+0080 to U+009F. A character that does not fit is left out.
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

static double read_element(const json_t *list, size_t i)
{
    const json_t *value = json_array_get(list, i);
    return json_is_number(value) ? json_number_value(value) : (double)NAN;
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
            read_element(pair, 1), read_element(pair, 2)};
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
    state->goodput = read_number(object, "goodput");
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
