/* SPDX-License-Identifier: Apache-2.0 */
/* terminal.c - abilities of the terminal of a descriptor, and its last line */
#include "config.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/terminal.h"

static bool is_set(const char *name)
{
    const char *value = getenv(name);
    return value && value[0];
}

bool dt_terminal_rewrites(int fd)
{
    const char *term = getenv("TERM");
    const char *ci = getenv("CI");
    return isatty(fd) && term && term[0] && strcmp(term, "dumb") != 0 &&
           (!is_set("CI") || strcasecmp(ci, "false") == 0);
}

bool dt_terminal_utf8(void)
{
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        if (is_set(names[i]))
            return strcasestr(getenv(names[i]), "utf-8") ||
                   strcasestr(getenv(names[i]), "utf8");
    return false;
}

bool dt_terminal_colors(void)
{
    return !is_set("NO_COLOR");
}

void dt_terminal_size(int fd, int *columns, int *rows)
{
    struct winsize size = {0};
    ioctl(fd, TIOCGWINSZ, &size);
    *columns = size.ws_col > 0 ? size.ws_col : 80;
    *rows = size.ws_row > 0 ? size.ws_row : 24;
}

/* --- the last line --- */

/* Clearing comes last: a line that was longer, or broken by a terminal that has
 * become narrower, leaves no more than its beginning.
 */
#define START "\r"
#define CLEAR "\033[K"

static struct {
    pthread_mutex_t lock;
    int fd;
    char text[1024];
    bool shown; /* it is on the terminal */
    bool held;  /* other output is within a line */
} footer = {.lock = PTHREAD_MUTEX_INITIALIZER};

bool dt_footer_possible(void)
{
    struct stat st;
    return dt_terminal_rewrites(STDERR_FILENO) &&
           (fstat(STDOUT_FILENO, &st) < 0 ||
            (!S_ISFIFO(st.st_mode) && !S_ISSOCK(st.st_mode)));
}

/* One write, so that nothing comes between. */
static void write_text(const char *before, const char *text, const char *after)
{
    char line[sizeof(footer.text) + 16];
    int n = snprintf(line, sizeof(line), "%s%s%s", before, text, after);
    if (write(footer.fd, line, (size_t)n) < 0)
        return; /* the terminal is gone, and nobody looks */
}

static void draw_footer(void)
{
    if (footer.held || !footer.text[0])
        return;
    write_text(START, footer.text, CLEAR);
    footer.shown = true;
}

static void clear_footer(void)
{
    if (footer.shown)
        write_text(START, "", CLEAR);
    footer.shown = false;
}

void dt_footer_show(int fd, const char *text)
{
    pthread_mutex_lock(&footer.lock);
    footer.fd = fd;
    snprintf(footer.text, sizeof(footer.text), "%s", text);
    draw_footer();
    pthread_mutex_unlock(&footer.lock);
}

void dt_footer_lift(void)
{
    pthread_mutex_lock(&footer.lock);
    clear_footer();
}

void dt_footer_drop(bool mid_line)
{
    footer.held = mid_line;
    draw_footer();
    pthread_mutex_unlock(&footer.lock);
}

void dt_footer_end(void)
{
    pthread_mutex_lock(&footer.lock);
    if (footer.shown)
        write_text("\n", "", "");
    footer.shown = false;
    footer.text[0] = '\0';
    pthread_mutex_unlock(&footer.lock);
}
