/* SPDX-License-Identifier: Apache-2.0 */
/* proc.c - processes as /proc shows them */
#include "config.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/proc.h"

/* Parses "PID (name) S PARENT ...", where the name may contain blanks and
 * brackets.
 */
static bool parse_stat(struct dt_proc_stat *stat, char *text)
{
    unsigned long long user, kernel;
    char *begin = strchr(text, '(');
    char *end = strrchr(text, ')');
    if (!begin || !end || end < begin)
        return false;
    *end++ = '\0';
    snprintf(stat->name, sizeof(stat->name), "%s", begin + 1);
    if (sscanf(end,
               " %c %d %*d %*d %d %*d %*u %*u %*u %*u %*u %llu %llu %*d %*d "
               "%*d %*d %*d %*d %llu",
               &stat->state, &stat->parent, &stat->terminal, &user, &kernel,
               &stat->start_ticks) != 6)
        return false;
    stat->cpu_ticks = user + kernel;
    return true;
}

bool dt_proc_stat(struct dt_proc_stat *stat, const char *root, int pid)
{
    char path[PATH_MAX], text[1024];
    snprintf(path, sizeof(path), "%s/proc/%d/stat", root, pid);
    FILE *file = fopen(path, "re");
    size_t n = file ? fread(text, 1, sizeof(text) - 1, file) : 0;
    if (file)
        fclose(file);
    text[n] = '\0';
    *stat = (struct dt_proc_stat){0};
    bool whole = parse_stat(stat, text);
    if (!whole)
        *stat = (struct dt_proc_stat){0};
    return whole;
}

int dt_proc_next(DIR *proc, uid_t uid)
{
    struct dirent *entry;
    struct stat st;
    while ((entry = readdir(proc)) != NULL) {
        const char *name = entry->d_name;
        if (name[strspn(name, "0123456789")] == '\0' &&
            fstatat(dirfd(proc), name, &st, 0) == 0 && st.st_uid == uid)
            return atoi(name);
    }
    return 0;
}
