/* SPDX-License-Identifier: Apache-2.0 */
/* killed_run.c - completes the files of a run whose rank 0 was killed */
#include "config.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "history/history.h"
#include "live/live.h"
#include "live/state.h"
#include "report/line_file.h"

enum { FILE_BYTES = 16 << 20 }; /* of run.json and status.json */

static bool has_text(const json_t *object, const char *key, const char *text)
{
    const char *found = json_string_value(json_object_get(object, key));
    return found && strcmp(found, text) == 0;
}

/* Reads run.json. NULL and err: the run does not run as that step (EX_OK), or
 * EX_DATAERR, EX_IOERR.
 */
static json_t *read_facts(const char *path, const char *step,
                          struct dt_error *err)
{
    char *text = dt_file_read(path, FILE_BYTES, err);
    json_t *facts = text ? dt_json_parse(path, text, err) : NULL;
    free(text);
    if (!facts) {
        err->status = err->status == EX_NOINPUT ? EX_OK : err->status;
        return NULL;
    }
    if (has_text(facts, "job", step) && has_text(facts, "status", "running"))
        return facts;
    json_decref(facts);
    err->status = EX_OK;
    return NULL;
}

/* Sets the account, which takes the events of all starts. */
static void set_account(json_t *facts, const char *dir)
{
    struct dt_account account = {0};
    struct dt_error err;
    if (dt_history_account(dir, &account, &err) < 0)
        account.sums.known = false;
    json_object_set_new(facts, "account", dt_account_json(&account.sums));
}

static int write_facts(json_t *facts, const char *path,
                       const struct dt_live_ending *ending, const char *verdict,
                       struct dt_error *err)
{
    json_object_set_new(facts, "status", json_string(ending->status));
    json_object_set_new(facts, "verdict", json_string(verdict));
    json_object_set_new(facts, "ended", json_real(dt_clock_wall()));
    char *text = json_dumps(facts, JSON_INDENT(2) | JSON_REAL_PRECISION(15));
    int rc = text ? dt_file_replace(path, text, strlen(text), err)
                  : dt_error_set(err, EX_OSERR, "%s: out of memory", path);
    free(text);
    return rc;
}

/* Adds the last event to events.jsonl of `dir`, after the state `last`. */
static int add_event(const char *dir, const struct dt_live_ending *ending,
                     const struct dt_live_state *last, struct dt_error *err)
{
    const bool stopped = strcmp(ending->status, "stopped") == 0;
    struct dt_report_event event = {
        .kind = stopped ? "stop" : "failed",
        .step = last->counts ? last->step : 0,
        .wall = dt_clock_wall(),
        .seconds = NAN,
        .bytes = NAN,
        .rank = ending->rank,
        .host = ending->host[0] ? ending->host : NULL,
        .text = ending->text,
    };
    struct dt_account account = {0};
    struct dt_error why;
    char path[PATH_MAX];
    if (dt_history_account(dir, &account, &why) == 0)
        dt_account_guess(&account, &last->account, event.wall, event.spent);
    snprintf(path, sizeof(path), "%.*s/events.jsonl", PATH_MAX - 32, dir);
    struct dt_line_file *file = dt_line_file_open(path, LONG_MAX, err);
    FILE *out = file ? dt_line_file_begin(file) : NULL;
    if (out) {
        dt_event_print(&event, out);
        dt_line_file_end(file);
    }
    dt_line_file_close(file);
    return file ? 0 : -1;
}

/* Reads the last state that rank 0 wrote as that step. False: there is none. */
static bool read_state(const char *path, const char *step,
                       struct dt_live_state *state)
{
    struct dt_error err;
    char *text = dt_file_read(path, FILE_BYTES, &err);
    bool good = text && dt_live_parse_status(state, path, text, &err) == 0;
    free(text);
    return good && strcmp(state->job, step) == 0;
}

static int write_state(struct dt_live_state *state, const char *dir,
                       const struct dt_live_ending *ending, const char *verdict,
                       struct dt_error *err)
{
    state->wall = dt_clock_wall();
    state->left_s = NAN;
    snprintf(state->status, sizeof(state->status), "%.15s", ending->status);
    snprintf(state->phase, sizeof(state->phase), DT_LIVE_ENDED);
    snprintf(state->verdict, sizeof(state->verdict), "%.511s", verdict);
    return dt_live_write_status(state, dir, err);
}

/* Writes the end into all files; `facts` are those of run.json. */
static int write_all(const char *dir, json_t *facts,
                     const struct dt_live_ending *ending, struct dt_error *err)
{
    char path[PATH_MAX], verdict[1024], after[64] = "";
    struct dt_live_state *state = calloc(1, sizeof(*state));
    if (!state)
        return dt_error_set(err, EX_OSERR, "out of memory");
    snprintf(path, sizeof(path), "%.*s/status.json", PATH_MAX - 32, dir);
    const bool known = read_state(path, ending->step, state);
    if (!known)
        *state = (struct dt_live_state){0};
    if (state->counts)
        snprintf(after, sizeof(after), " after step %ld", state->step);
    snprintf(verdict, sizeof(verdict), "%s%s: %s", ending->status, after,
             ending->text);
    int rc = add_event(dir, ending, state, err);
    snprintf(path, sizeof(path), "%.*s/run.json", PATH_MAX - 32, dir);
    set_account(facts, dir);
    if (write_facts(facts, path, ending, verdict, err) < 0)
        rc = -1;
    if (rc == 0 && known)
        rc = write_state(state, dir, ending, verdict, err);
    free(state);
    return rc;
}

static bool wants_page(const json_t *facts)
{
    const json_t *forms =
        json_object_get(json_object_get(facts, "config"), "logging.report_to");
    for (size_t i = 0; i < json_array_size(forms); i++) {
        const char *form = json_string_value(json_array_get(forms, i));
        if (form && strcmp(form, "html") == 0)
            return true;
    }
    return false;
}

/* A rank may have printed anything: invalid and control characters become '?'.
 */
static void clean_text(char *text)
{
    json_t *good = json_string(text);
    for (char *c = text; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f ||
            (!good && (unsigned char)*c >= 0x80))
            *c = '?';
    json_decref(good);
}

int dt_live_record_ending(const char *dir, const struct dt_live_ending *ending,
                          bool *page, struct dt_error *err)
{
    char path[PATH_MAX], text[512];
    struct dt_live_ending clean = *ending;
    snprintf(path, sizeof(path), "%.*s/run.json", PATH_MAX - 32, dir);
    json_t *facts = read_facts(path, ending->step, err);
    if (!facts)
        return err->status == EX_OK ? 0 : -1;
    snprintf(text, sizeof(text), "%.511s", ending->text);
    clean_text(text);
    clean.text = text;
    *page = wants_page(facts);
    int rc = write_all(dir, facts, &clean, err);
    json_decref(facts);
    return rc < 0 ? -1 : 1;
}
