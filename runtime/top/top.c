/* SPDX-License-Identifier: Apache-2.0 */
/* top.c - reads the files of runs again and again, and shows them */
#include "config.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/terminal.h"
#include "top/screen.h"
#include "top/top.h"
#include "top/view.h"

enum {
    REFRESH_MS = 1000,
    STATUS_BYTES = 1024 * 1024,
};

struct watched {
    const struct dt_top_found *found;
    struct dt_live_state *states[DT_TOP_RUNS]; /* NULL: not read yet */
    char *problems[DT_TOP_RUNS];
    struct dt_top_view view;
    bool asked; /* Slurm was asked since the run fell silent */
};

static void end_watch(struct watched *w)
{
    for (size_t i = 0; i < DT_TOP_RUNS; i++) {
        free(w->states[i]);
        free(w->problems[i]);
    }
}

/* Reads all files. A file that cannot be read for once, as it is being replaced
 * on a network, leaves the state of before. Returns how many states there are.
 */
static size_t read_files(struct watched *w, struct dt_error *err)
{
    size_t good = 0;
    struct dt_live_state *fresh = calloc(1, sizeof(*fresh));
    for (size_t i = 0; fresh && i < w->found->count; i++) {
        if (dt_top_read(w->found->path[i], fresh, err) == 0) {
            struct dt_live_state *old = w->states[i];
            w->states[i] = fresh;
            fresh = old ? old : calloc(1, sizeof(*fresh));
        } else if (!w->states[i]) {
            free(w->problems[i]);
            w->problems[i] = strdup(err->text);
        }
        good += w->states[i] != NULL;
    }
    free(fresh);
    w->view.now = dt_clock_wall();
    return good;
}

/* Asks Slurm once when a run falls silent. */
static void ask_once(struct watched *w)
{
    const struct dt_live_state *state = w->states[0];
    if (w->found->count > 1 || !state)
        return;
    bool stale = dt_top_is_stale(state, w->view.now);
    if (stale && !w->asked)
        dt_top_ask(state->job, w->view.slurm, sizeof(w->view.slurm));
    if (!stale)
        w->view.slurm[0] = '\0';
    w->asked = stale;
}

static void draw(FILE *out, struct watched *w)
{
    if (w->found->count > 1)
        dt_top_draw_list(out, w->states, w->problems, w->found->path,
                         w->found->count, &w->view);
    else if (w->states[0])
        dt_top_draw(out, w->states[0], &w->view);
    else
        dt_top_line(out, &w->view, DT_TOP_RED, w->problems[0]);
}

static int print_json(const char *path, struct dt_error *err)
{
    struct dt_live_state *state = calloc(1, sizeof(*state));
    char *text = state ? dt_file_read(path, STATUS_BYTES, err) : NULL;
    int rc = text ? dt_live_parse_status(state, path, text, err) : -1;
    if (rc == 0)
        puts(text);
    free(text);
    free(state);
    return rc;
}

int dt_top_print(const struct dt_top_found *found, bool json,
                 struct dt_error *err)
{
    struct watched w = {.found = found};
    if (json) {
        for (size_t i = 0; i < found->count; i++)
            if (print_json(found->path[i], err) < 0)
                return -1;
        return 0;
    }
    w.view = (struct dt_top_view){
        .columns = 200, .utf8 = dt_terminal_utf8(), .end = "\n"};
    size_t good = read_files(&w, err);
    if (good > 0) {
        ask_once(&w);
        draw(stdout, &w);
    }
    end_watch(&w);
    return good > 0 ? 0 : -1;
}

/* A key while the user types a filter. */
static void type_filter(struct dt_top_view *view, int key)
{
    size_t n = strlen(view->filter);
    if (key == '\n' || key == '\r' || key == '\033') {
        view->filters = false;
        if (key == '\033')
            view->filter[0] = '\0';
    } else if ((key == 0x7f || key == '\b') && n > 0) {
        view->filter[n - 1] = '\0';
    } else if (key < 0x7f && isgraph(key) && n + 1 < sizeof(view->filter)) {
        view->filter[n] = (char)key;
        view->filter[n + 1] = '\0';
    }
}

/* Returns false for the end. */
static bool take_key(struct dt_top_view *view, int key)
{
    static const struct {
        int key;
        enum dt_top_sort sort;
    } sorts[] = {{'s', DT_TOP_SLOWEST},
                 {'m', DT_TOP_MEMORY},
                 {'p', DT_TOP_POWER},
                 {'r', DT_TOP_RANK}};
    const size_t page = view->rows > 14 ? (size_t)view->rows - 14 : 1;
    if (key == DT_TOP_KEY_END)
        return false;
    if (view->filters && key < DT_TOP_KEY_UP) {
        type_filter(view, key);
        return true;
    }
    for (size_t i = 0; i < sizeof(sorts) / sizeof(*sorts); i++)
        if (key == sorts[i].key)
            view->sort = sorts[i].sort;
    if (key == '/')
        view->filters = true;
    if (key == DT_TOP_KEY_UP && view->scroll > 0)
        view->scroll--;
    if (key == DT_TOP_KEY_PAGE_UP)
        view->scroll -= view->scroll < page ? view->scroll : page;
    if (key == DT_TOP_KEY_DOWN || key == DT_TOP_KEY_PAGE_DOWN)
        view->scroll += key == DT_TOP_KEY_DOWN ? 1 : page;
    if (view->scroll > DT_LIVE_RANKS)
        view->scroll = DT_LIVE_RANKS;
    return key != 'q';
}

static void show(struct watched *w)
{
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    if (!out)
        return;
    dt_terminal_size(STDOUT_FILENO, &w->view.columns, &w->view.rows);
    /* To clear the rest of a line that is full would clear its last column. */
    w->view.columns -= w->view.columns > 1;
    draw(out, w);
    fclose(out);
    dt_top_screen_show(text);
    free(text);
}

int dt_top_follow(const struct dt_top_found *found, struct dt_error *err)
{
    struct watched w = {.found = found};
    struct dt_error unread;
    w.view = (struct dt_top_view){.utf8 = dt_terminal_utf8(),
                                  .colors = dt_terminal_colors(),
                                  .end = dt_top_screen_end};
    if (read_files(&w, err) == 0) {
        end_watch(&w);
        return -1;
    }
    if (dt_top_screen_enter(err) < 0) {
        end_watch(&w);
        return -1;
    }
    double next = 0;
    for (int key = DT_TOP_KEY_NONE; take_key(&w.view, key);) {
        double now = dt_clock_now();
        if (now >= next) {
            read_files(&w, &unread);
            ask_once(&w);
            next = now + REFRESH_MS / 1e3;
        }
        show(&w);
        double left = next - dt_clock_now();
        key = dt_top_screen_wait(left > 0 ? (int)(left * 1e3) + 1 : 0);
    }
    dt_top_screen_leave();
    end_watch(&w);
    return 0;
}
