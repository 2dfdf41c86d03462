/* SPDX-License-Identifier: Apache-2.0 */
/* command_line.c - command lines of subcommands, their --help, their messages
 * and the configurations that they name
 */
#include "config.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sysexits.h>

#include <xxhash.h>

#include "base/str.h"
#include "cmd/cmd_impl.h"
#include "contract/contract.h"
#include "plan/plan.h"

enum {
    OPTIONS = 30,
    HEAD = 24,   /* a longer name and argument have a line of their own */
    WIDTH = 79,  /* of --help */
    HELP = 'h',  /* as getopt_long returns it */
    FIRST = 256, /* plus the index of a row: the same, for that row */
};

/* --- messages and output --- */

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

int dt_cmd_fail(const char *name, const struct dt_error *err)
{
    fprintf(stderr, "disttrain %s: %s\n", name, err->text);
    return err->status;
}

const char *dt_cmd_dtype_name(enum dt_dtype dtype)
{
    static const char *const names[] = {
        [DT_F32] = "fp32", [DT_BF16] = "bf16", [DT_F16] = "fp16"};
    return names[dtype];
}

int dt_cmd_flush(const char *name, int status)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return status;
    fprintf(stderr, "disttrain %s: stdout: %s\n", name, strerror(errno));
    return EX_IOERR;
}

/* --- --set --- */

/* A command has one configuration, and a process one command. */
static struct dt_conf_overrides kept;

const struct dt_conf_overrides *dt_cmd_overrides(void)
{
    return &kept;
}

void dt_cmd_overrides_clear(void)
{
    dt_conf_overrides_fini(&kept);
}

int dt_cmd_overrides_add(const char *word, struct dt_error *err)
{
    return dt_conf_overrides_add(&kept, word, err);
}

int dt_cmd_overrides_inherit(const char *list, struct dt_error *err)
{
    struct dt_conf_overrides all = {0};
    int rc = dt_conf_overrides_decode(&all, list, err);
    for (size_t i = 0; rc == 0 && i < kept.count; i++)
        rc = dt_conf_overrides_add(&all, kept.text[i], err);
    dt_conf_overrides_fini(rc == 0 ? &kept : &all);
    if (rc == 0)
        kept = all;
    return rc;
}

/* --- the text of --help --- */

static const struct dt_option help_option = {"help", NULL, "this text",
                                             .kind = DT_OPTION_CALL};

/* Writes "  -o, --output PATH"; returns its length. */
static int format_head(const struct dt_option *option, char *text, size_t bytes)
{
    const char *argument = option->argument ? option->argument : "";
    char letter[] = {'-', option->letter, ',', ' ', '\0'};
    return snprintf(text, bytes, "  %s--%s%s%s", option->letter ? letter : "",
                    option->name, *argument && *argument != '=' ? " " : "",
                    argument);
}

static void print_option(const struct dt_option *option, int column)
{
    char head[128];
    int at = format_head(option, head, sizeof(head));
    const char *word = option->help;
    bool fits = at + 2 <= column;
    printf("%-*s", fits ? column : 0, head);
    at = fits ? column : WIDTH; /* else on the next line */
    for (bool first = true; *word; first = false) {
        int length = (int)strcspn(word, " ");
        if (at + !first + length > WIDTH) {
            printf("\n%*s", column, "");
            at = column;
            first = true;
        }
        at += printf("%s%.*s", first ? "" : " ", length, word);
        word += length + (word[length] == ' ');
    }
    putchar('\n');
}

static int print_help(const struct dt_cmd_line *line)
{
    char head[128];
    int column = 0;
    for (const struct dt_option *o = line->options; o->name; o++) {
        int length = format_head(o, head, sizeof(head));
        if (o->kind != DT_OPTION_GONE && length <= HEAD && length > column)
            column = length;
    }
    if (column < 8)
        column = 8;
    fputs(line->usage, stdout);
    putchar('\n');
    for (const struct dt_option *o = line->options; o->name; o++)
        if (o->kind != DT_OPTION_GONE)
            print_option(o, column + 2);
    print_option(&help_option, column + 2);
    if (line->notes)
        printf("\n%s", line->notes);
    return dt_cmd_flush(line->name, EX_OK);
}

/* --- values --- */

int dt_cmd_choose(const char *command, const char *option, const char *words,
                  const char *value)
{
    char text[256];
    size_t used = 0;
    int index = 0;
    for (const char *word = words; *word; index++) {
        size_t length = strcspn(word, "|"), rest = strlen(word + length);
        if (strlen(value) == length && strncasecmp(value, word, length) == 0)
            return index;
        used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%.*s",
                                 index == 0 ? ""
                                 : rest     ? ", "
                                            : " or ",
                                 (int)length, word);
        word += length + (rest > 0);
    }
    dt_cmd_usage_error(command, "--%s: expected %s, got '%s'", option, text,
                       value);
    return -1;
}

static int wrong_number(const struct dt_cmd_line *line,
                        const struct dt_option *option, const char *value)
{
    return dt_cmd_usage_error(
        line->name, "--%s: expected %s from %.10g to %.10g, got '%s'",
        option->name,
        option->kind == DT_OPTION_NUMBER ? "a number" : "an integer",
        option->min, option->max, value);
}

static int take_number(const struct dt_cmd_line *line,
                       const struct dt_option *option, const char *value,
                       void *member)
{
    char *end;
    errno = 0;
    double number = strtod(value, &end);
    bool whole = option->kind != DT_OPTION_NUMBER;
    if (end == value || *end || !(number >= option->min) ||
        number > option->max || (whole && number != (double)(long)number))
        return wrong_number(line, option, value);
    if (option->kind == DT_OPTION_NUMBER)
        *(double *)member = number;
    else if (option->kind == DT_OPTION_LONG)
        *(long *)member = (long)number;
    else
        *(int *)member = (int)number;
    return 0;
}

/* Stores one value. Returns 0, or EX_USAGE after a message. */
static int take(const struct dt_cmd_line *line, const struct dt_option *option,
                const char *value, void *values)
{
    struct dt_error err;
    void *member = values ? (char *)values + option->offset : NULL;
    const char *words = option->argument && strchr(option->argument, '|')
                            ? option->argument
                            : NULL;
    int choice = 0;
    switch (option->kind) {
    case DT_OPTION_CALL:
        return option->take(value, values);
    case DT_OPTION_GONE:
        return dt_cmd_usage_error(line->name, "%s", option->help);
    case DT_OPTION_SET:
        return dt_cmd_overrides_add(value, &err) == 0
                   ? 0
                   : dt_cmd_usage_error(line->name, "--set: %s", err.text);
    case DT_OPTION_FLAG:
        *(bool *)member = true;
        return 0;
    default:
        break;
    }
    if (words)
        choice = dt_cmd_choose(line->name, option->name, words, value);
    if (choice < 0)
        return EX_USAGE;
    if (words)
        *(int *)member = choice;
    else if (option->kind == DT_OPTION_TEXT)
        *(const char **)member = value;
    else
        return take_number(line, option, value, member);
    return 0;
}

/* --- the line --- */

/* The options as getopt_long wants them. */
struct forms {
    struct option options[OPTIONS + 2];
    char letters[2 * OPTIONS + 4];
};

static void make_forms(const struct dt_option *options, const char *order,
                       struct forms *forms)
{
    char *letter = stpcpy(forms->letters, order);
    int i = 0;
    *letter++ = ':';
    *letter++ = HELP;
    for (; options[i].name; i++) {
        const struct dt_option *o = &options[i];
        forms->options[i] = (struct option){
            o->name, o->argument ? required_argument : no_argument, NULL,
            FIRST + i};
        if (o->letter)
            *letter++ = o->letter;
        if (o->letter && o->argument)
            *letter++ = ':';
    }
    *letter = '\0';
    forms->options[i++] = (struct option){"help", no_argument, NULL, HELP};
    forms->options[i] = (struct option){0};
}

/* Names the option that was probably meant, such as that with - for _. */
static int unknown_option(const struct dt_cmd_line *line, const char *word)
{
    const char *names[OPTIONS + 1] = {"help"}, *nearest = NULL;
    char text[64];
    size_t n = 1;
    for (const struct dt_option *o = line->options; o->name; o++)
        if (o->kind != DT_OPTION_GONE)
            names[n++] = o->name;
    if (strncmp(word, "--", 2) == 0) {
        snprintf(text, sizeof(text), "%.*s", (int)strcspn(word + 2, "="),
                 word + 2);
        nearest = dt_str_nearest(text, names, n);
    }
    if (nearest && strcmp(nearest, text) == 0)
        return dt_cmd_usage_error(line->name, "'%s': --%s takes no value", word,
                                  nearest);
    return dt_cmd_usage_error(line->name, "unknown option '%s'%s%s%s", word,
                              nearest ? "; did you mean --" : "",
                              nearest ? nearest : "", nearest ? "?" : "");
}

static bool is_given(const struct dt_cmd_line *line, const bool *given,
                     const char *name)
{
    for (int i = 0; line->options[i].name; i++)
        if (given[i] && strcmp(line->options[i].name, name) == 0)
            return true;
    return false;
}

/* The options that were given need others, or exclude them. */
static int check_together(const struct dt_cmd_line *line, const bool *given)
{
    for (int i = 0; line->options[i].name; i++) {
        const struct dt_option *o = &line->options[i];
        if (!given[i])
            continue;
        if (o->needs && !is_given(line, given, o->needs))
            return dt_cmd_usage_error(line->name, "--%s needs --%s", o->name,
                                      o->needs);
        if (o->excludes && is_given(line, given, o->excludes))
            return dt_cmd_usage_error(
                line->name, "--%s or --%s, not both%s%s", o->name, o->excludes,
                o->because ? ": " : "", o->because ? o->because : "");
    }
    return DT_CMD_RUN;
}

/* The word of an option of one letter that is unknown: "-x" of "-xy". */
static const char *letter_word(char text[3])
{
    text[0] = '-';
    text[1] = (char)optopt;
    text[2] = '\0';
    return text;
}

/* `order`: "+" ends the options at the first other word, as getopt_long does.
 */
static int parse(const struct dt_cmd_line *line, const char *order, int argc,
                 char **argv, void *values)
{
    bool given[OPTIONS] = {false};
    struct forms forms;
    char text[3];
    make_forms(line->options, order, &forms);
    dt_cmd_overrides_clear();
    opterr = 0;
    optind = 0; /* starts getopt afresh */
    for (int c; (c = getopt_long(argc, argv, forms.letters, forms.options,
                                 NULL)) != -1;) {
        if (c == HELP)
            return print_help(line);
        if (c == ':')
            return dt_cmd_usage_error(line->name, "'%s' needs a value",
                                      argv[optind - 1]);
        if (c == '?') /* optopt: a letter, or the code of a row or of help */
            return unknown_option(line,
                                  optopt > 0 && optopt < FIRST && optopt != HELP
                                      ? letter_word(text)
                                      : argv[optind - 1]);
        for (int i = 0; c < FIRST; i++)
            if (line->options[i].letter == c)
                c = FIRST + i;
        given[c - FIRST] = true;
        if (take(line, &line->options[c - FIRST], optarg, values) != 0)
            return EX_USAGE;
    }
    return check_together(line, given);
}

int dt_cmd_parse(const struct dt_cmd_line *line, int argc, char **argv,
                 void *values)
{
    return parse(line, "", argc, argv, values);
}

int dt_cmd_parse_first(const struct dt_cmd_line *line, int argc, char **argv,
                       void *values)
{
    return parse(line, "+", argc, argv, values);
}

/* --- configurations --- */

/* Writes the hash of a file's warnings, without its name: it may have another
 * one where it is read again.
 */
static void sum_warnings(const char *file,
                         const struct dt_conf_problems *warnings, char sum[17])
{
    uint64_t hash = 0;
    size_t n = strlen(file);
    for (size_t i = 0; i < warnings->count; i++) {
        const char *text = warnings->text[i];
        text += strncmp(text, file, n) == 0 ? n : 0;
        hash = XXH3_64bits_withSeed(text, strlen(text), hash);
    }
    snprintf(sum, 17, "%016" PRIx64, hash);
}

static void print_warnings(const char *file,
                           const struct dt_conf_problems *warnings)
{
    char sum[17];
    for (size_t i = 0; i < warnings->count; i++)
        fprintf(stderr, "warning: %s\n", warnings->text[i]);
    sum_warnings(file, warnings, sum);
    if (warnings->count > 0)
        setenv(DT_ENV_WARNED, sum, 1);
}

void dt_cmd_warn_once(const char *file, const struct dt_conf_problems *warnings)
{
    char sum[17];
    const char *warned = getenv(DT_ENV_WARNED);
    sum_warnings(file, warnings, sum);
    if (!warned || strcmp(warned, sum) != 0)
        print_warnings(file, warnings);
}

struct dt_conf *dt_cmd_load(const char *name, const char *file, bool warn)
{
    struct dt_conf_problems problems, warnings;
    struct dt_conf *conf =
        dt_conf_load(file, dt_cmd_overrides(), &problems, &warnings);
    if (warn)
        print_warnings(file, &warnings);
    for (size_t i = 0; i < problems.count; i++)
        fprintf(stderr, "%s\n", problems.text[i]);
    if (!conf && problems.count == 0)
        fprintf(stderr, "disttrain %s: out of memory\n", name);
    dt_conf_problems_fini(&problems);
    dt_conf_problems_fini(&warnings);
    if (conf)
        dt_models_find(conf, false);
    return conf;
}
