/* SPDX-License-Identifier: Apache-2.0 */
/* path.c - expands ~ and makes paths absolute */
#include "config.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "conf/conf_impl.h"

struct text {
    char bytes[PATH_MAX];
    size_t count;
};

static int append_text(struct text *text, const char *from, size_t count,
                       struct dt_error *err)
{
    if (count >= sizeof(text->bytes) - text->count)
        return dt_error_set(err, EX_CONFIG, "the path is longer than %zu bytes",
                            sizeof(text->bytes) - 1);
    memcpy(text->bytes + text->count, from, count);
    text->count += count;
    text->bytes[text->count] = '\0';
    return 0;
}

/* Appends `from`, which begins with ~. */
static int append_home(struct text *text, const char *from,
                       struct dt_error *err)
{
    const char *home = getenv("HOME");
    if (from[1] != '/' && from[1] != '\0')
        return dt_error_set(err, EX_CONFIG,
                            "%.*s: only ~/ is expanded, not the home "
                            "directories of others",
                            (int)strcspn(from, "/"), from);
    if (!home || home[0] != '/')
        return dt_error_set(err, EX_CONFIG,
                            "~: the environment variable HOME is not set");
    return append_text(text, home, strlen(home), err) < 0
               ? -1
               : append_text(text, from + 1, strlen(from + 1), err);
}

static bool is_directory(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* Removes "." and ".." from an absolute path. A ".." stays if the part before
 * it is not a directory, since a link may lead elsewhere.
 */
static void shorten_path(char *path)
{
    char *to = path, *last;
    for (const char *from = path + 1; *from;) {
        size_t n = strcspn(from, "/");
        bool same = n == 0 || (n == 1 && from[0] == '.');
        bool up = n == 2 && memcmp(from, "..", 2) == 0;
        const char *next = from + n + (from[n] == '/');
        if (up && to > path) {
            *to = '\0';
            last = strrchr(path, '/');
            up = strcmp(last, "/..") != 0 && is_directory(path);
            to = up ? last : to;
        }
        if (!same && !up) {
            *to++ = '/';
            memmove(to, from, n);
            to += n;
        }
        from = next;
    }
    to += to == path; /* keep the slash of the root */
    *to = '\0';
}

char *dt_conf_path(const char *directory, const char *text,
                   struct dt_error *err)
{
    struct text home = {.count = 0}, whole = {.count = 0};
    const char *rest = text;
    if (*rest == '~') { /* as written, or from the value of a variable */
        if (append_home(&home, rest, err) < 0)
            return NULL;
        rest = home.bytes;
    }
    if (*rest == '\0') {
        dt_error_set(err, EX_CONFIG, "expected a path, got an empty string");
        return NULL;
    }
    while (rest[0] == '.' && rest[1] == '/')
        rest += 2 + strspn(rest + 2, "/");
    if (rest[0] != '/' &&
        (append_text(&whole, directory, strlen(directory), err) < 0 ||
         append_text(&whole, "/", directory[1] != '\0', err) < 0))
        return NULL;
    if (append_text(&whole, rest, strlen(rest), err) < 0)
        return NULL;
    shorten_path(whole.bytes);
    char *path = strdup(whole.bytes);
    if (!path)
        dt_error_set(err, EX_OSERR, "out of memory");
    return path;
}
