/* SPDX-License-Identifier: Apache-2.0 */
/* ckpt_list.c - the entries of a directory of checkpoints */
#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "ckpt/ckpt_impl.h"

bool dt_ckpt_is_old(const char *name)
{
    return strncmp(name, OLD_PREFIX, strlen(OLD_PREFIX)) == 0;
}

long dt_ckpt_step_of(const char *name)
{
    if (dt_ckpt_is_old(name))
        name += strlen(OLD_PREFIX);
    const char *digits = name + strlen(STEP_PREFIX);
    if (strncmp(name, STEP_PREFIX, strlen(STEP_PREFIX)) != 0 ||
        strspn(digits, "0123456789") != strlen(digits) || !*digits ||
        (digits[0] == '0' && digits[1]))
        return -1;
    errno = 0;
    long step = strtol(digits, NULL, 10);
    return errno ? -1 : step;
}

long dt_ckpt_step(const char *path)
{
    const char *slash = strrchr(path, '/');
    return dt_ckpt_step_of(slash ? slash + 1 : path);
}

int dt_ckpt_is_step(const struct dirent *entry)
{
    return dt_ckpt_step_of(entry->d_name) >= 0 &&
           !dt_ckpt_is_old(entry->d_name);
}

int dt_ckpt_is_old_step(const struct dirent *entry)
{
    return dt_ckpt_step_of(entry->d_name) >= 0 && dt_ckpt_is_old(entry->d_name);
}

int dt_ckpt_is_candidate(const struct dirent *entry)
{
    return dt_ckpt_step_of(entry->d_name) >= 0;
}

int dt_ckpt_is_temp(const struct dirent *entry)
{
    const char *name = entry->d_name;
    if (dt_ckpt_is_old(name)) /* a probe was stopped while it was replaced */
        name += strlen(OLD_PREFIX);
    return strncmp(name, TEMP_PREFIX, strlen(TEMP_PREFIX)) == 0;
}

bool dt_ckpt_is_rest(const char *entry, const char *name)
{
    static const char *const prefixes[] = {TEMP_PREFIX, OLD_PREFIX};
    for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++) {
        const char *rest = dt_str_after(entry, prefixes[i]);
        if (rest && strcmp(rest, name) == 0)
            return true;
    }
    return false;
}

static int newest_first(const struct dirent **a, const struct dirent **b)
{
    long x = dt_ckpt_step_of((*a)->d_name), y = dt_ckpt_step_of((*b)->d_name);
    return x == y ? dt_ckpt_is_old((*a)->d_name) - dt_ckpt_is_old((*b)->d_name)
                  : (x < y) - (x > y);
}

int dt_ckpt_list(const char *root, struct dirent ***entries,
                 int (*keep)(const struct dirent *), struct dt_error *err)
{
    *entries = NULL;
    int n = scandir(root, entries, keep, newest_first);
    if (n >= 0)
        return n;
    if (errno == ENOENT)
        return 0;
    return dt_error_set(err, errno == ENOTDIR ? EX_NOINPUT : EX_IOERR,
                        "%s: cannot list: %s", root, strerror(errno));
}

void dt_ckpt_free_list(struct dirent **entries, int n)
{
    for (int i = 0; i < n; i++)
        free(entries[i]);
    free(entries);
}
