/* SPDX-License-Identifier: Apache-2.0 */
/*
 * options.h - the command line of a subcommand, as a table
 *
 * A row is an option: its name, its argument, its help, and the member of the
 * command's own struct that takes the value, whose type says how the value is
 * read. Parsing, errors and --help come from these rows, the completion of bash
 * comes from --help, and tests/lint/man.sh compares the manual pages with it.
 */
#ifndef DT_CMD_OPTIONS_H
#define DT_CMD_OPTIONS_H

#include <getopt.h>
#include <stdbool.h>
#include <stddef.h>

/* How the value of an option is read and stored. */
enum dt_option_kind {
    DT_OPTION_CALL,   /* by take, which stores it */
    DT_OPTION_FLAG,   /* bool, which becomes true */
    DT_OPTION_TEXT,   /* const char *, borrowed from argv */
    DT_OPTION_INT,    /* int, or an enum */
    DT_OPTION_LONG,   /* long, and size_t or uint64_t below LONG_MAX */
    DT_OPTION_NUMBER, /* double */
    DT_OPTION_SET,    /* KEY=VALUE, for dt_cmd_overrides; see DT_CMD_SET */
    DT_OPTION_GONE,   /* refused, with the help as the reason */
};

/* Reads the value of an option into the command's struct. Returns 0, or
 * EX_USAGE after a message.
 */
typedef int (*dt_option_f)(const char *value, void *values);

/* A row. --help and hints leave out options that are gone. */
struct dt_option {
    const char *name;
    const char *argument; /* as --help has it; "=LIST": after a "="; "a|b": one
                             of these words, in any case, whose index an int
                             takes; NULL: none */
    const char *help;     /* wrapped by --help; begins with a small letter */
    enum dt_option_kind kind;
    size_t offset; /* of the member */
    dt_option_f take;
    double min, max;   /* of a number */
    char letter;       /* "-o" for "--output"; '\0': none */
    const char *needs; /* the option without which it is refused; or NULL */
    const char *excludes, *because; /* the option with which it is refused, and
                                       the reason if it needs one; or NULL */
};

/* Stores the value in a member of the type of the command's struct. */
#define DT_INTO(type, member)                                                  \
    .kind = _Generic(((type *)NULL)->member, bool                              \
                     : DT_OPTION_FLAG, const char *                            \
                     : DT_OPTION_TEXT, int                                     \
                     : DT_OPTION_INT, unsigned                                 \
                     : DT_OPTION_INT, long                                     \
                     : DT_OPTION_LONG, unsigned long                           \
                     : DT_OPTION_LONG, double                                  \
                     : DT_OPTION_NUMBER),                                      \
    .offset = offsetof(type, member)

/* --set KEY=VALUE, for a command that reads a configuration; it may be given
 * several times. The help follows.
 */
#define DT_CMD_SET .kind = DT_OPTION_SET, .name = "set", .argument = "KEY=VALUE"

/* The types of weights, for the argument of --dtype: the order of dt_dtype. */
#define DT_CMD_DTYPES "fp32|bf16|fp16"

/* The command line of a subcommand. Every one has --help and -h, too. */
struct dt_cmd_line {
    const char *name;                /* of the subcommand */
    const char *usage;               /* the lines of --help before options */
    const struct dt_option *options; /* up to a row without name, at most 30 */
    const char *notes;               /* the lines after options; or NULL */
};

enum { DT_CMD_RUN = -1 };

/* Stores the options of argv in the command's struct, and permutes argv so that
 * argv[optind] is the first of the other words. Returns DT_CMD_RUN, or the
 * status to exit with: 0 after --help, else EX_USAGE after a message.
 */
int dt_cmd_parse(const struct dt_cmd_line *line, int argc, char **argv,
                 void *values);

/* Returns the index of a value among "a|b|c", in any case, or -1 after a
 * message of the subcommand.
 */
int dt_cmd_choose(const char *command, const char *option, const char *words,
                  const char *value);

#endif /* DT_CMD_OPTIONS_H */
