/* SPDX-License-Identifier: Apache-2.0 */
/* usage.c - parses options, and reports usage errors in one form */
#include "config.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sysexits.h>

#include "base/str.h"
#include "cmd/cmd.h"

static const char *const dtypes[] = {
    [DT_F32] = "fp32", [DT_BF16] = "bf16", [DT_F16] = "fp16"};

int dt_cmd_usage_error(const char *name, const char *fmt, ...)
{
    va_list ap;
    fprintf(stderr, "disttrain %s: ", name);
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fprintf(stderr, " (see disttrain %s --help)\n", name);
    return EX_USAGE;
}

int dt_cmd_flush(const char *name, int status)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return status;
    fprintf(stderr, "disttrain %s: stdout: %s\n", name, strerror(errno));
    return EX_IOERR;
}

static int print_help(const struct dt_cmd_line *line)
{
    fputs(line->help, stdout);
    return dt_cmd_flush(line->name, EX_OK);
}

static bool has_letter(const struct option *table, int letter)
{
    while (table->name && table->val != letter)
        table++;
    return table->name != NULL;
}

/* Names the option that was probably meant, such as that with - for _. */
static int unknown_option(const struct dt_cmd_line *line, const char *word)
{
    const char *names[64], *nearest = NULL;
    char text[64];
    size_t n = 0;
    for (const struct option *o = line->table; o->name && n < 64; o++)
        names[n++] = o->name;
    if (strncmp(word, "--", 2) == 0) {
        snprintf(text, sizeof(text), "%.*s", (int)strcspn(word + 2, "="),
                 word + 2);
        nearest = dt_str_nearest(text, names, n);
    }
    if (nearest && strcmp(nearest, text) == 0) /* it takes no value */
        nearest = NULL;
    return dt_cmd_usage_error(line->name, "unknown option '%s'%s%s%s", word,
                              nearest ? "; did you mean --" : "",
                              nearest ? nearest : "", nearest ? "?" : "");
}

int dt_cmd_next_option(struct dt_cmd_line *line, int argc, char **argv)
{
    opterr = 0;
    if (!line->begun) {
        optind = 0; /* getopt begins anew */
        dt_cmd_overrides_clear();
    }
    line->begun = true;
    struct dt_error err;
    char letters[32];
    snprintf(letters, sizeof(letters), ":h%s",
             line->letters ? line->letters : "");
    int c = getopt_long(argc, argv, letters, line->table, &line->index);
    for (; c == DT_CMD_SET;
         c = getopt_long(argc, argv, letters, line->table, &line->index))
        if (dt_cmd_overrides_add(optarg, &err) < 0) {
            line->status =
                dt_cmd_usage_error(line->name, "--set: %s", err.text);
            return -1;
        }
    /* optind is not yet behind the word if this is the x of -xy */
    char letter[] = {'-', (char)optopt, '\0'};
    bool is_letter = optopt != 0 && !has_letter(line->table, optopt);
    if (c == '?')
        line->status =
            unknown_option(line, is_letter ? letter : argv[optind - 1]);
    else if (c == ':')
        line->status = dt_cmd_usage_error(line->name, "'%s' needs a value",
                                          argv[optind - 1]);
    else if (c != 'h')
        return c;
    else
        line->status = print_help(line);
    return -1;
}

int dt_cmd_take_dtype(const char *name, const char *value, enum dt_dtype *dtype)
{
    for (int i = DT_F32; i <= DT_F16; i++)
        if (strcasecmp(value, dtypes[i]) == 0) {
            *dtype = (enum dt_dtype)i;
            return 0;
        }
    return dt_cmd_usage_error(
        name, "--dtype: expected fp32, bf16 or fp16, got '%s'", value);
}

const char *dt_cmd_dtype_name(enum dt_dtype dtype)
{
    return dtypes[dtype];
}
