/* SPDX-License-Identifier: Apache-2.0 */
/* screen.c - takes over a terminal, and gives it back */
#include "config.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <unistd.h>

#include "base/terminal.h"
#include "top/screen.h"

#define ENTER "\033[?1049h\033[?25l"
#define LEAVE "\033[?25h\033[?1049l"

/* One terminal, which the handler of crashes has to find. */
static struct {
    struct termios before;
    sigset_t mask;
    volatile sig_atomic_t entered;
    int signals; /* signalfd */
    int asked;   /* the signal that asked for the end; 0: none */
} screen;

static const int crashes[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};
static const int caught[] = {SIGINT,  SIGTERM, SIGHUP,
                             SIGQUIT, SIGTSTP, SIGWINCH};

const char dt_top_screen_end[] = "\033[K\n";

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

/* Only what a handler of signals may call. */
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

int dt_top_screen_enter(struct dt_error *err)
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

void dt_top_screen_leave(void)
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

void dt_top_screen_show(const char *text)
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

/* Ctrl-Z: the shell gets its terminal, and we get it again after fg. */
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
        return DT_TOP_KEY_NONE;
    if (info.ssi_signo == SIGTSTP)
        suspend();
    if (info.ssi_signo == SIGTSTP || info.ssi_signo == SIGWINCH)
        return DT_TOP_KEY_RESIZE;
    screen.asked = (int)info.ssi_signo;
    return DT_TOP_KEY_END;
}

/* A key, or the end of a sequence that a key sends. */
static int take_key(void)
{
    static const struct {
        const char *text;
        int key;
    } keys[] = {
        {"\033[A", DT_TOP_KEY_UP},       {"\033[B", DT_TOP_KEY_DOWN},
        {"\033OA", DT_TOP_KEY_UP},       {"\033OB", DT_TOP_KEY_DOWN},
        {"\033[5~", DT_TOP_KEY_PAGE_UP}, {"\033[6~", DT_TOP_KEY_PAGE_DOWN},
    };
    char text[16] = "";
    ssize_t n = read(STDIN_FILENO, text, 1);
    if (n <= 0)
        return n == 0 || errno == EINTR || errno == EAGAIN ? DT_TOP_KEY_NONE
                                                           : DT_TOP_KEY_END;
    if (text[0] != '\033')
        return (unsigned char)text[0];
    if (read(STDIN_FILENO, text + 1, sizeof(text) - 2) < 0)
        return '\033';
    for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++)
        if (strcmp(text, keys[i].text) == 0)
            return keys[i].key;
    return text[1] ? DT_TOP_KEY_NONE : '\033';
}

int dt_top_screen_wait(int timeout_ms)
{
    struct pollfd p[] = {{.fd = screen.signals, .events = POLLIN},
                         {.fd = STDIN_FILENO, .events = POLLIN}};
    if (poll(p, 2, timeout_ms) <= 0)
        return DT_TOP_KEY_NONE;
    if (p[0].revents)
        return take_signal();
    if (p[1].revents & POLLIN)
        return take_key();
    return DT_TOP_KEY_END;
}
