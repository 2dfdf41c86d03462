/* SPDX-License-Identifier: Apache-2.0 */
/* secrets.c - reads what secrets_from of a reward function names */
#include "config.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/secret.h"
#include "conf/conf_impl.h"

enum { BYTES_MAX = 64 << 10 }; /* of a file */

static const char key[] = "reward.functions.secrets_from";
static const char of_variables[] = "env:";

/* The length of a name of a variable at the start of `text`. */
static size_t name_length(const char *text)
{
    size_t n = 0;
    while (isalpha((unsigned char)text[n]) || text[n] == '_' ||
           (n > 0 && isdigit((unsigned char)text[n])))
        n++;
    return n;
}

/* Adds "NAME=value", or "NAME" of a variable that is not set. -1: noted. */
static int add_secret(struct dt_conf_reader *reader,
                      struct dt_conf_reward *reward, const char *text,
                      const char *value)
{
    size_t count = 0;
    while (reward->secrets && reward->secrets[count])
        count++;
    char **more = reallocarray(reward->secrets, count + 2, sizeof(more[0]));
    if (more) {
        reward->secrets = more;
        more[count] = strdup(text);
        more[count + 1] = NULL;
    }
    if (!more || !more[count]) {
        reader->draft.problems.out_of_memory = true;
        return -1;
    }
    if (value)
        dt_secret_learn(value);
    return 0;
}

static bool has_controls(const char *text)
{
    for (; *text; text++)
        if (iscntrl((unsigned char)*text))
            return true;
    return false;
}

/* Takes the variable whose name has n bytes. -1: noted. */
static int take_variable(struct dt_conf_reader *reader,
                         struct dt_conf_reward *reward,
                         const struct dt_tree *node, const char *name, size_t n)
{
    char *text = strndup(name, n), *whole = NULL;
    const char *value = text ? getenv(text) : NULL;
    int rc = -1;
    if (!text || (value && asprintf(&whole, "%s=%s", text, value) < 0)) {
        reader->draft.problems.out_of_memory = true;
        whole = NULL;
    } else if (value && has_controls(value)) {
        dt_conf_note(&reader->draft.problems, node->place, key,
                     "%s: has a line break or another control character", text);
    } else {
        rc = add_secret(reader, reward, value ? whole : text, value);
    }
    free(whole);
    free(text);
    return rc;
}

/* Takes those of "NAME,NAME". -1: noted. */
static int take_variables(struct dt_conf_reader *reader,
                          struct dt_conf_reward *reward,
                          const struct dt_tree *node, const char *names)
{
    do {
        size_t n = name_length(names);
        if (n == 0 || (names[n] && names[n] != ',')) {
            dt_conf_note(&reader->draft.problems, node->place, key,
                         "expected env: and names of variables, such as "
                         "env:JUDGE_TOKEN,OTHER");
            return -1;
        }
        if (take_variable(reader, reward, node, names, n) < 0)
            return -1;
        names += n;
    } while (*names++ == ',');
    return 0;
}

/* Takes the lines of a file; messages do not show them. -1: noted. */
static int take_lines(struct dt_conf_reader *reader,
                      struct dt_conf_reward *reward, const struct dt_tree *node,
                      char *text)
{
    char *rest = text, *line;
    for (int number = 1; (line = strsep(&rest, "\n")); number++) {
        size_t n = name_length(line), end = strlen(line);
        if (end > 0 && line[end - 1] == '\r')
            line[--end] = '\0';
        if (end == 0 || line[0] == '#')
            continue;
        if (n == 0 || line[n] != '=' || has_controls(line)) {
            dt_conf_note(&reader->draft.problems, node->place, key,
                         "%s:%d: expected NAME=value", reward->secrets_from,
                         number);
            return -1;
        }
        if (add_secret(reader, reward, line, line + n + 1) < 0)
            return -1;
    }
    return 0;
}

/* Others must not read it. -1: noted. */
static int check_mode(struct dt_conf_reader *reader, const char *path,
                      const struct dt_tree *node)
{
    struct stat st;
    if (stat(path, &st) < 0)
        dt_conf_note(&reader->draft.problems, node->place, key, "%s: %s", path,
                     strerror(errno));
    else if (!S_ISREG(st.st_mode))
        dt_conf_note(&reader->draft.problems, node->place, key,
                     "%s: not a file", path);
    else if (st.st_mode & (S_IRWXG | S_IRWXO))
        dt_conf_note(&reader->draft.problems, node->place, key,
                     "%s: others than its owner may use it: chmod 600 %s", path,
                     path);
    else
        return 0;
    return -1;
}

static int take_file(struct dt_conf_reader *reader,
                     struct dt_conf_reward *reward, const struct dt_tree *node)
{
    struct dt_error err;
    char *path =
        dt_conf_path(reader->draft.directory, reward->secrets_from, &err);
    if (path) {
        free(reward->secrets_from);
        reward->secrets_from = path;
        if (check_mode(reader, path, node) < 0)
            return -1;
    }
    char *text = path ? dt_file_read(path, BYTES_MAX, &err) : NULL;
    if (!text && err.status == EX_OSERR)
        reader->draft.problems.out_of_memory = true;
    else if (!text)
        dt_conf_note(&reader->draft.problems, node->place, key, "%s", err.text);
    int rc = text ? take_lines(reader, reward, node, text) : -1;
    free(text);
    return rc;
}

int dt_conf_take_secrets(struct dt_conf_reader *reader,
                         struct dt_conf_reward *reward,
                         const struct dt_tree *node)
{
    const size_t n = strlen(of_variables);
    if (!reward->secrets_from)
        return 0;
    return strncmp(reward->secrets_from, of_variables, n) == 0
               ? take_variables(reader, reward, node, reward->secrets_from + n)
               : take_file(reader, reward, node);
}

int dt_conf_check_secrets(const struct dt_conf_reward *reward,
                          struct dt_error *err)
{
    for (char **s = reward->secrets; s && *s; s++)
        if (!strchr(*s, '='))
            return dt_error_set(err, EX_CONFIG,
                                "secrets_from: the variable %s is not set on "
                                "this rank",
                                *s);
    return 0;
}
