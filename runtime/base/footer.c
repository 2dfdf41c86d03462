/* SPDX-License-Identifier: Apache-2.0 */
/* footer.c - the last line of a terminal, which changes below all other output
 */
#include "config.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/footer.h"
#include "base/terminal.h"

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
