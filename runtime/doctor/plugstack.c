/* SPDX-License-Identifier: Apache-2.0 */
/* plugstack.c - reads plugstack.conf and the files that it includes */
#include "config.h"

#include <glob.h>
#include <libgen.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/file.h"
#include "doctor/plugstack.h"

enum {
    FILE_BYTES = 1024 * 1024,
    DEPTH = 8, /* of nested includes */
};

static const char blanks[] = " \t\r";

/* Returns the next word of *rest and moves *rest past it; "" at the end of the
 * line.
 */
static char *next_word(char **rest)
{
    *rest += strspn(*rest, blanks);
    char *word = *rest;
    *rest += strcspn(*rest, blanks);
    if (**rest)
        *(*rest)++ = '\0';
    return word;
}

static int add_entry(struct dt_doctor_plugstack *stack, const char *file,
                     int line, const char *path, const char *arguments,
                     struct dt_error *err)
{
    struct dt_doctor_entry entry = {
        .file = strdup(file),
        .line = line,
        .path = path ? strdup(path) : NULL,
        .arguments = strdup(arguments),
    };
    struct dt_doctor_entry *entries =
        realloc(stack->entries, (stack->count + 1) * sizeof(*entries));
    if (entries)
        stack->entries = entries;
    if (!entries || !entry.file || !entry.arguments || (path && !entry.path)) {
        free(entry.file);
        free(entry.path);
        free(entry.arguments);
        return dt_error_set(err, EX_OSERR, "out of memory");
    }
    entries[stack->count++] = entry;
    return 0;
}

static int read_file(struct dt_doctor_plugstack *stack, const char *path,
                     int depth, struct dt_error *err);

/* Reads the files of an include. A relative pattern starts at the directory of
 * the including file.
 */
static int include_files(struct dt_doctor_plugstack *stack, const char *file,
                         int line, const char *pattern, int depth,
                         struct dt_error *err)
{
    char full[PATH_MAX];
    char folder[PATH_MAX];
    glob_t found;
    int rc = 0;
    snprintf(folder, sizeof(folder), "%s", file);
    int n = pattern[0] == '/' ? snprintf(full, sizeof(full), "%s", pattern)
                              : snprintf(full, sizeof(full), "%s/%s",
                                         dirname(folder), pattern);
    if (n < 0 || (size_t)n >= sizeof(full) || depth == DEPTH)
        return dt_error_set(err, EX_DATAERR,
                            "%s:%d: include %s is nested "
                            "too deeply or too long",
                            file, line, pattern);
    if (glob(full, 0, NULL, &found) != 0)
        return add_entry(stack, file, line, NULL, full, err);
    for (size_t i = 0; i < found.gl_pathc && rc == 0; i++)
        rc = read_file(stack, found.gl_pathv[i], depth + 1, err);
    globfree(&found);
    return rc;
}

static int read_line(struct dt_doctor_plugstack *stack, const char *file,
                     int number, char *line, int depth, struct dt_error *err)
{
    line[strcspn(line, "#")] = '\0';
    char *kind = next_word(&line);
    char *what = next_word(&line);
    if (kind[0] == '\0')
        return 0;
    bool plugin =
        strcasecmp(kind, "required") == 0 || strcasecmp(kind, "optional") == 0;
    if (what[0] == '\0' || (!plugin && strcasecmp(kind, "include") != 0))
        return dt_error_set(err, EX_DATAERR,
                            "%s:%d: expected \"required FILE\", \"optional "
                            "FILE\" or \"include FILES\"",
                            file, number);
    if (!plugin)
        return include_files(stack, file, number, what, depth, err);
    return add_entry(stack, file, number, what, line, err);
}

static int read_file(struct dt_doctor_plugstack *stack, const char *path,
                     int depth, struct dt_error *err)
{
    char *text = dt_file_read(path, FILE_BYTES, err);
    char *rest = text;
    int number = 0;
    int rc = text ? 0 : -1;
    for (char *line; rc == 0 && (line = strsep(&rest, "\n")) != NULL;)
        rc = read_line(stack, path, ++number, line, depth, err);
    free(text);
    return rc;
}

int dt_doctor_plugstack_init(struct dt_doctor_plugstack *stack,
                             const char *path, struct dt_error *err)
{
    *stack = (struct dt_doctor_plugstack){0};
    return read_file(stack, path, 0, err);
}

void dt_doctor_plugstack_fini(struct dt_doctor_plugstack *stack)
{
    for (size_t i = 0; i < stack->count; i++) {
        free(stack->entries[i].file);
        free(stack->entries[i].path);
        free(stack->entries[i].arguments);
    }
    free(stack->entries);
}

char *dt_doctor_slurm_conf_get(const char *path, const char *key)
{
    char *text = dt_file_read(path, FILE_BYTES, NULL);
    char *rest = text;
    char *value = NULL;
    size_t len = strlen(key);
    for (char *line; !value && (line = strsep(&rest, "\n")) != NULL;) {
        line += strspn(line, blanks);
        if (strncasecmp(line, key, len) != 0)
            continue;
        line += len + strspn(line + len, blanks);
        if (*line++ != '=')
            continue;
        line += strspn(line, blanks);
        line[strcspn(line, " \t\r#")] = '\0';
        value = strdup(line);
    }
    free(text);
    return value;
}
