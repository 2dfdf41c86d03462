/* SPDX-License-Identifier: Apache-2.0 */
/* top.c - reads the files of runs repeatedly, and shows them on a screen */
#include "config.h"

#include <ctype.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/terminal.h"
#include "top/top.h"
#include "top/top_impl.h"

/* --- the screen --- */

#define ENTER "\033[?1049h\033[?25l"
#define LEAVE "\033[?25h\033[?1049l"

/* There is one terminal, and the handler of crashes has to find it. */
static struct {
    struct termios before;
    sigset_t mask;
    volatile sig_atomic_t entered;
    int signals; /* signalfd */
    int asked;   /* signal that asked for the end; 0: none */
} screen;

/* Results of screen_wait, besides characters. */
enum {
    KEY_NONE = 0, /* the time is over */
    KEY_UP = 256,
    KEY_DOWN,
    KEY_PAGE_UP,
    KEY_PAGE_DOWN,
    KEY_RESIZE, /* or the screen is shown again */
    KEY_END,    /* a signal asks to end, or the terminal is gone */
};

static const int crashes[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};
static const int caught[] = {SIGINT,  SIGTERM, SIGHUP,
                             SIGQUIT, SIGTSTP, SIGWINCH};

/* The end of each line of the screen. */
static const char screen_end[] = "\033[K\n";

static void write_all(const char *text, size_t bytes)
{
    while (bytes > 0) {
        ssize_t n = write(STDOUT_FILENO, text, bytes);
        if (n < 0 && errno != EINTR && errno != EAGAIN)
            return;
        if (n > 0) {
            text += n;
            bytes -= (size_t)n;
        }
    }
}

/* Calls only functions that are safe in signal handlers. */
static void restore_terminal(void)
{
    if (!screen.entered)
        return;
    screen.entered = 0;
    write_all(LEAVE, sizeof(LEAVE) - 1);
    tcsetattr(STDIN_FILENO, TCSANOW, &screen.before);
}

static void die_of_crash(int signal)
{
    restore_terminal();
    raise(signal); /* SA_RESETHAND: now it ends us */
}

static void take_terminal(void)
{
    struct termios raw = screen.before;
    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    raw.c_cc[VMIN] = 0;
    raw.c_cc[VTIME] = 0;
    screen.entered = 1;
    tcsetattr(STDIN_FILENO, TCSANOW, &raw);
    write_all(ENTER, sizeof(ENTER) - 1);
}

/* Takes over the terminal of stdin and stdout: alternate screen, no echo, no
 * cursor. screen_wait returns signals that end a program. However the view
 * ends, by a key, a signal or a crash of this process, the terminal is
 * restored. -1: EX_OSERR, there is no such terminal.
 */
static int screen_enter(struct dt_error *err)
{
    struct sigaction crash = {.sa_handler = die_of_crash,
                              .sa_flags = (int)SA_RESETHAND};
    sigset_t set;
    if (tcgetattr(STDIN_FILENO, &screen.before) < 0)
        return dt_error_set(err, EX_OSERR, "no terminal: %s", strerror(errno));
    sigemptyset(&set);
    for (size_t i = 0; i < sizeof(caught) / sizeof(*caught); i++)
        sigaddset(&set, caught[i]);
    screen.signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (screen.signals < 0)
        return dt_error_set(err, EX_OSERR, "no signals: %s", strerror(errno));
    sigprocmask(SIG_BLOCK, &set, &screen.mask);
    for (size_t i = 0; i < sizeof(crashes) / sizeof(*crashes); i++)
        sigaction(crashes[i], &crash, NULL);
    atexit(restore_terminal);
    take_terminal();
    return 0;
}

/* Gives the terminal back. If a signal has asked for the end, this process then
 * dies of it, as if it had not been caught.
 */
static void screen_leave(void)
{
    restore_terminal();
    if (screen.signals <= 0)
        return;
    close(screen.signals);
    screen.signals = 0;
    sigprocmask(SIG_SETMASK, &screen.mask, NULL);
    if (screen.asked)
        raise(screen.asked);
}

/* Shows lines that end with screen_end each, as many as the screen has room
 * for.
 */
static void screen_show(const char *text)
{
    static const char home[] = "\033[H", rest[] = "\033[J";
    int columns, rows;
    const char *end = text;
    dt_terminal_size(STDOUT_FILENO, &columns, &rows);
    write_all(home, sizeof(home) - 1);
    while (*end && rows > 0) {
        const char *newline = strchr(end, '\n');
        if (!newline || --rows == 0) { /* a newline there would scroll */
            end = newline ? newline : end + strlen(end);
            break;
        }
        end = newline + 1;
    }
    write_all(text, (size_t)(end - text));
    if (rows > 0)
        write_all(rest, sizeof(rest) - 1);
}

/* Ctrl-Z: the shell gets its terminal back, and we take it again after fg. */
static void suspend(void)
{
    restore_terminal();
    raise(SIGSTOP);
    take_terminal();
}

static int take_signal(void)
{
    struct signalfd_siginfo info;
    if (read(screen.signals, &info, sizeof(info)) != sizeof(info))
        return KEY_NONE;
    if (info.ssi_signo == SIGTSTP)
        suspend();
    if (info.ssi_signo == SIGTSTP || info.ssi_signo == SIGWINCH)
        return KEY_RESIZE;
    screen.asked = (int)info.ssi_signo;
    return KEY_END;
}

/* A key, or the end of a sequence that a key sends. */
static int read_key(void)
{
    static const struct {
        const char *text;
        int key;
    } keys[] = {
        {"\033[A", KEY_UP},       {"\033[B", KEY_DOWN},
        {"\033OA", KEY_UP},       {"\033OB", KEY_DOWN},
        {"\033[5~", KEY_PAGE_UP}, {"\033[6~", KEY_PAGE_DOWN},
    };
    char text[16] = "";
    ssize_t n = read(STDIN_FILENO, text, 1);
    if (n <= 0)
        return n == 0 || errno == EINTR || errno == EAGAIN ? KEY_NONE : KEY_END;
    if (text[0] != '\033')
        return (unsigned char)text[0];
    if (read(STDIN_FILENO, text + 1, sizeof(text) - 2) < 0)
        return '\033';
    for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++)
        if (strcmp(text, keys[i].text) == 0)
            return keys[i].key;
    return text[1] ? KEY_NONE : '\033';
}

/* Waits for a key. */
static int screen_wait(int timeout_ms)
{
    struct pollfd p[] = {{.fd = screen.signals, .events = POLLIN},
                         {.fd = STDIN_FILENO, .events = POLLIN}};
    if (poll(p, 2, timeout_ms) <= 0)
        return KEY_NONE;
    if (p[0].revents)
        return take_signal();
    if (p[1].revents & POLLIN)
        return read_key();
    return KEY_END;
}

/* --- runs --- */

enum {
    REFRESH_MS = 1000,
    STATUS_BYTES = 1024 * 1024,
};

struct watched {
    const struct dt_top_found *found;
    struct dt_live_state *states[DT_TOP_RUNS]; /* NULL: not read yet */
    char *problems[DT_TOP_RUNS];
    struct dt_top_view view;
    bool asked; /* Slurm has been asked since the run fell silent */
};

static void end_watch(struct watched *w)
{
    for (size_t i = 0; i < DT_TOP_RUNS; i++) {
        free(w->states[i]);
        free(w->problems[i]);
    }
}

/* Reads all files. If a file cannot be read for once, because it is being
 * replaced on a network, the previous state stays. Returns the number of
 * states.
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
    if (key == KEY_END)
        return false;
    if (view->filters && key < KEY_UP) {
        type_filter(view, key);
        return true;
    }
    for (size_t i = 0; i < sizeof(sorts) / sizeof(*sorts); i++)
        if (key == sorts[i].key)
            view->sort = sorts[i].sort;
    if (key == '/')
        view->filters = true;
    if (key == KEY_UP && view->scroll > 0)
        view->scroll--;
    if (key == KEY_PAGE_UP)
        view->scroll -= view->scroll < page ? view->scroll : page;
    if (key == KEY_DOWN || key == KEY_PAGE_DOWN)
        view->scroll += key == KEY_DOWN ? 1 : page;
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
    /* Clearing the rest of a full line would clear its last column. */
    w->view.columns -= w->view.columns > 1;
    draw(out, w);
    fclose(out);
    screen_show(text);
    free(text);
}

int dt_top_follow(const struct dt_top_found *found, struct dt_error *err)
{
    struct watched w = {.found = found};
    struct dt_error unread;
    w.view = (struct dt_top_view){.utf8 = dt_terminal_utf8(),
                                  .colors = dt_terminal_colors(),
                                  .end = screen_end};
    if (read_files(&w, err) == 0) {
        end_watch(&w);
        return -1;
    }
    if (screen_enter(err) < 0) {
        end_watch(&w);
        return -1;
    }
    double next = 0;
    for (int key = KEY_NONE; take_key(&w.view, key);) {
        double now = dt_clock_now();
        if (now >= next) {
            read_files(&w, &unread);
            ask_once(&w);
            next = now + REFRESH_MS / 1e3;
        }
        show(&w);
        double left = next - dt_clock_now();
        key = screen_wait(left > 0 ? (int)(left * 1e3) + 1 : 0);
    }
    screen_leave();
    end_watch(&w);
    return 0;
}
