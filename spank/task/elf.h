/* SPDX-License-Identifier: Apache-2.0 */
/* elf.h - finds out which libraries a program is linked with */
#ifndef DTSPANK_ELF_H
#define DTSPANK_ELF_H

#include <stdbool.h>
#include <stddef.h>

enum {
    DTSPANK_LIBRARY_BYTES = 64, /* a longer name is truncated */
};

/* Whether the program at path needs a library whose name begins with one of
 * prefixes (NULL at the end); puts its name into `library`. Also false for
 * anything that is not an intact ELF program of this machine, such as a script.
 */
bool dtspank_elf_needs(const char *path, const char *const *prefixes,
                       char library[DTSPANK_LIBRARY_BYTES]);

#endif /* DTSPANK_ELF_H */
