/* SPDX-License-Identifier: Apache-2.0 */
/*
 * argv.h - srun's own command line: where --disttrain is, where the command is
 *
 * srun wants a command before it asks any plugin, and no plugin interface can
 * give it one. But srun reads its options twice, and after the first time
 * `optind` says where the command begins. A callback that srun makes between
 * the two can therefore complete the very array that srun is about to read
 * again. Its length cannot change: each word that we add must replace another.
 */
#ifndef DTSPANK_ARGV_H
#define DTSPANK_ARGV_H

#include <stdbool.h>

#include "base/error.h"

struct dtspank_argv {
    int option;        /* index of the first --disttrain; 0: there is none */
    const char *value; /* of the last --disttrain, inside argv; NULL: none */
    bool next_word;    /* that value is a word of its own */
    bool has_command;
    bool sure; /* false: a word may be the value of an unknown option */
};

enum {
    DTSPANK_COMMAND_WORDS = 4, /* enough to see whether disttrain trains */
};

/* Finds --disttrain among srun's own words (see dtspank_argv_command), with
 * VALUE as "=VALUE" or as the next word. words has room for argc + 1 pointers;
 * it receives srun's own words without --disttrain and --disttrain-set, then
 * "--" and the first DTSPANK_COMMAND_WORDS of the command, if there is one,
 * then NULL.
 */
void dtspank_argv_scan(int argc, char **argv, struct dtspank_argv *found,
                       char **words);

/* Fills words in the same way, with --disttrain, once it is known that srun's
 * own words end before argv[end].
 */
void dtspank_argv_exact(int argc, char **argv, int end, char **words);

/* The next value of --disttrain-set among srun's own words, as above. NULL:
 * there is none. *at is where to look, 1 at first.
 */
const char *dtspank_argv_next_set(int argc, char **argv, int *at);

/* Whether the value, which is no good configuration, may be a word that getopt
 * has taken because the value was forgotten, such as the command.
 */
bool dtspank_argv_took_word(const struct dtspank_argv *found,
                            const char *value);

/* Whether a word of argv has the same last path component as path. */
bool dtspank_argv_names(int argc, char **argv, const char *path);

/* Returns the index of the first word that is not srun's own, according to the
 * options known here: the command, the "--" before it, or argc. Use it before
 * srun itself has read its options; afterwards optind is exact. An unknown long
 * option is assumed to have a value, unless another option follows it. A ":"
 * before the command leads on to the next component of a heterogeneous job.
 */
int dtspank_argv_command(int argc, char **argv);

/* Returns the file that sbatch reads its script from, its standard input among
 * them; "" with --wrap, or if this is another program. `command` is the index
 * of the first word that is not sbatch's own. The text stays valid.
 */
const char *dtspank_argv_script(int argc, char **argv, int command);

/* Whether srun's own words argv[1..end) contain the option: `letter` in a word
 * of short options ('\0': it has none), or `name`, abbreviated as far as srun
 * allows.
 */
bool dtspank_argv_has(int end, char **argv, char letter, const char *name);

/* Removes the option at index `option` and makes `command` the last word.
 * first_option (NULL: none) becomes argv[1], before the user's own options, if
 * there is room: if `option` was two words, or if another option and its value
 * can be written as one word. argv must have no command. Merged words are
 * allocated and belong to argv, which is never freed. Fails on --multi-prog or
 * without memory.
 */
int dtspank_argv_place(int argc, char **argv, int option, char *command,
                       char *first_option, struct dt_error *err);

#endif /* DTSPANK_ARGV_H */
