/* SPDX-License-Identifier: Apache-2.0 */
/* path.c - expands ~ and ${NAME} and makes paths absolute */
#include "config.h"

#include <ctype.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "conf/read.h"

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

/* Appends the value of ${...}; `body` is the text between the braces. */
static int append_variable(struct text *text, const char *body, size_t count,
                           struct dt_error *err)
{
    char name[256];
    size_t n = 0;
    while (n < count && n < sizeof(name) - 1 &&
           (isalnum((unsigned char)body[n]) || body[n] == '_'))
        n++;
    memcpy(name, body, n);
    name[n] = '\0';
    bool has_default = count >= n + 2 && memcmp(body + n, ":-", 2) == 0;
    if (n == 0 || (n < count && !has_default))
        return dt_error_set(err, EX_CONFIG,
                            "${%.*s}: expected ${NAME} or "
                            "${NAME:-default}",
                            (int)count, body);
    const char *value = getenv(name);
    if (has_default && (!value || !*value))
        return append_text(text, body + n + 2, count - n - 2, err);
    if (!value)
        return dt_error_set(err, EX_CONFIG,
                            "the environment variable %s is "
                            "not set: set it, or write ${%s:-default}",
                            name, name);
    return append_text(text, value, strlen(value), err);
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
                            "~: the environment variable HOME "
                            "is not set");
    return append_text(text, home, strlen(home), err) < 0
               ? -1
               : append_text(text, from + 1, strlen(from + 1), err);
}

/* Refuses $NAME without braces, which would silently stay as it is. */
static int bare_variable(const char *from, struct dt_error *err)
{
    int n = 1;
    while (isalnum((unsigned char)from[n]) || from[n] == '_')
        n++;
    return dt_error_set(err, EX_CONFIG, "%.*s is not expanded: write ${%.*s}",
                        n, from, n - 1, from + 1);
}

static int append_variables(struct text *text, const char *from,
                            struct dt_error *err)
{
    while (*from) {
        size_t plain = strcspn(from, "$");
        if (append_text(text, from, plain, err) < 0)
            return -1;
        from += plain;
        if (from[0] == '$' && from[1] == '{') {
            const char *end = strchr(from, '}');
            if (!end)
                return dt_error_set(err, EX_CONFIG, "${ without }");
            if (append_variable(text, from + 2, (size_t)(end - from) - 2, err) <
                0)
                return -1;
            from = end + 1;
        } else if (*from &&
                   (isalpha((unsigned char)from[1]) || from[1] == '_')) {
            return bare_variable(from, err);
        } else if (*from) {
            if (append_text(text, from++, 1, err) < 0)
                return -1;
        }
    }
    return 0;
}

bool dt_conf_is_later(const char *text)
{
    return strstr(text, "${SLURM_") != NULL;
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
    struct text plain = {.count = 0}, home = {.count = 0}, whole = {.count = 0};
    if (append_variables(&plain, text, err) < 0)
        return NULL;
    const char *rest = plain.bytes;
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
