/* SPDX-License-Identifier: Apache-2.0 */
/* expand.c - puts environment variables into values, makes paths absolute */
#include "config.h"

#include <ctype.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "conf/conf_impl.h"

enum { NAME_BYTES = 256, DEPTH_MAX = 8 };

static int print_expanded(const char *text, const char *stop, int depth,
                          FILE *out, struct dt_error *err);

/* Prints the value of ${...}; `body` is the text between the braces. */
static int print_variable(const char *body, size_t count, int depth, FILE *out,
                          struct dt_error *err)
{
    char name[NAME_BYTES];
    size_t n = 0;
    while (n < count && n < sizeof(name) - 1 &&
           (isalnum((unsigned char)body[n]) || body[n] == '_'))
        n++;
    memcpy(name, body, n);
    name[n] = '\0';
    bool has_default = count >= n + 2 && memcmp(body + n, ":-", 2) == 0;
    if (n == 0 || (n < count && !has_default))
        return dt_error_set(err, EX_CONFIG,
                            "${%.*s}: expected ${NAME} or ${NAME:-default}, or "
                            "$${ for ${ itself",
                            (int)count, body);
    const char *value = getenv(name);
    if (has_default && (!value || !*value))
        return print_expanded(body + n + 2, body + count, depth + 1, out, err);
    if (value)
        fputs(value, out);
    else
        return dt_error_set(err, EX_CONFIG,
                            "the environment variable %s is not set: set it, "
                            "or write ${%s:-default}",
                            name, name);
    return 0;
}

/* The brace that closes the one before `text`, or NULL. */
static const char *find_end(const char *text, const char *stop)
{
    int open = 1;
    for (; text < stop; text++) {
        open += strncmp(text, "${", 2) == 0;
        open -= *text == '}';
        if (open == 0)
            return text;
    }
    return NULL;
}

static int print_expanded(const char *text, const char *stop, int depth,
                          FILE *out, struct dt_error *err)
{
    if (depth > DEPTH_MAX)
        return dt_error_set(err, EX_CONFIG, "${ in %d others", DEPTH_MAX);
    while (text < stop) {
        const char *dollar = memchr(text, '$', (size_t)(stop - text));
        size_t plain = (size_t)((dollar ? dollar : stop) - text);
        fwrite(text, 1, plain, out);
        text += plain;
        if (strncmp(text, "$${", 3) == 0) {
            fputs("${", out);
            text += 3;
        } else if (strncmp(text, "${", 2) == 0) {
            const char *end = find_end(text + 2, stop);
            if (!end)
                return dt_error_set(err, EX_CONFIG,
                                    "${ without }: write $${ for ${ itself");
            if (print_variable(text + 2, (size_t)(end - text) - 2, depth, out,
                               err) < 0)
                return -1;
            text = end + 1;
        } else if (text < stop) {
            putc(*text++, out);
        }
    }
    return 0;
}

/* Returns the text with variables expanded, malloc'ed. NULL and err: EX_CONFIG,
 * EX_OSERR.
 */
static char *expand(const char *text, struct dt_error *err)
{
    char *expanded = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&expanded, &bytes);
    int rc = out ? print_expanded(text, text + strlen(text), 0, out, err) : -1;
    bool bad = !out || ferror(out);
    bad |= out && fclose(out) != 0;
    if (bad || !expanded)
        rc = dt_error_set(err, EX_OSERR, "out of memory");
    if (rc == 0)
        return expanded;
    free(expanded);
    return NULL;
}

/* Whether the text is nothing but one variable. */
static bool is_one_variable(const char *text)
{
    size_t n = strlen(text);
    return strncmp(text, "${", 2) == 0 &&
           find_end(text + 2, text + n) == text + n - 1;
}

static void expand_scalar(struct dt_conf_reader *reader, struct dt_tree *node,
                          const char *path)
{
    struct dt_error err;
    if (!strstr(node->text, "${"))
        return;
    char *text = expand(node->text, &err);
    node->unknown = !text;
    if (!text) {
        dt_conf_note_error(&reader->draft.problems, node->place, path, &err);
        return;
    }
    if (is_one_variable(node->text) && *text)
        node->quoted = false;
    free(node->written);
    node->written = node->text;
    node->text = text;
}

void dt_conf_expand(struct dt_conf_reader *reader, struct dt_tree *tree,
                    const char *path)
{
    char below[NAME_BYTES];
    int row = dt_conf_key_match(path, 0);
    const char *key = row < 0 ? path : dt_conf_keys[row].path;
    if (strcmp(key, "launch.command") == 0)
        return;
    if (tree->kind == DT_TREE_SCALAR)
        expand_scalar(reader, tree, key);
    for (struct dt_tree *c = tree->child; c; c = c->next) {
        snprintf(below, sizeof(below), "%s%s%s", path,
                 *path && c->key ? "." : "", c->key ? c->key : "");
        dt_conf_expand(reader, c, below);
    }
}

int dt_conf_check_braces(const char *text, struct dt_error *err)
{
    for (const char *p = text; (p = strchr(p, '$')); p++) {
        int n = 1;
        if (!isalpha((unsigned char)p[1]) && p[1] != '_')
            continue;
        while (isalnum((unsigned char)p[n]) || p[n] == '_')
            n++;
        return dt_error_set(err, EX_CONFIG,
                            "%.*s is not expanded: write ${%.*s}", n, p, n - 1,
                            p + 1);
    }
    return 0;
}

/* --- paths --- */

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
