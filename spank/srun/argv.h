/* SPDX-License-Identifier: Apache-2.0 */
/*
 * argv.h - srun's own command line: where --disttrain is, where the command is
 *
 * srun wants a command before it asks any plugin, and no plugin interface can
 * give it one. But srun reads its options twice, and after the first reading
 * `optind` says where the command begins. A callback that srun makes between
 * the two can therefore complete the very array that srun is about to read
 * again. Its length cannot change: for every word put in, one has to go.
 */
#ifndef DTSPANK_ARGV_H
#define DTSPANK_ARGV_H

#include <stdbool.h>

#include "base/error.h"

struct dtspank_argv {
    int option;        /* index of the first --disttrain; 0: there is none */
    const char *value; /* of the last one, inside argv; NULL: none */
    bool has_command;
    bool sure; /* no word was taken for the value of an option not known here */
};

/* Finds --disttrain (VALUE as "=VALUE" or as the next word, the option
 * abbreviated as far as srun allows) among srun's own words, see
 * dtspank_argv_command. words has room for argc + 1 pointers and gets srun's
 * own words without --disttrain, and NULL at the end.
 */
void dtspank_argv_scan(int argc, char **argv, struct dtspank_argv *found,
                       char **words);

/* Whether a word of argv is the program at path, by its last component. */
bool dtspank_argv_names(int argc, char **argv, const char *path);

/* Index of the first word that is not srun's own, by srun's options as known
 * here: the command, "--" before it, or argc. For use before srun itself has
 * read them (optind is exact, later). An option that is not known is taken to
 * have a value, unless another option follows it. A ":" without a command
 * before it leads on to the next component of a heterogeneous job.
 */
int dtspank_argv_command(int argc, char **argv);

/* The script that sbatch has been given, "" for none; "" as well in any other
 * program.
 */
const char *dtspank_argv_script(int argc, char **argv);

/* Whether srun's own words argv[1..end) have the option: `letter` in a word of
 * short ones ('\0': it has none), or `name` as far as srun lets it be
 * shortened.
 */
bool dtspank_argv_has(int end, char **argv, char letter, const char *name);

/* Drops the option found at index `option` and makes `command` the last word.
 * first_option (NULL: none) becomes argv[1], before the user's own options, if
 * there is room: if `option` was two words, or another option and its value
 * can be written as one word. argv must have no command. Merged words are
 * allocated and belong to argv, which is never freed. Fails on --multi-prog, or
 * without memory.
 */
int dtspank_argv_place(int argc, char **argv, int option, char *command,
                       char *first_option, struct dt_error *err);

#endif /* DTSPANK_ARGV_H */
