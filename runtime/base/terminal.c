/* SPDX-License-Identifier: Apache-2.0 */
/* terminal.c - what the terminal of a descriptor can show */
#include "config.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
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
