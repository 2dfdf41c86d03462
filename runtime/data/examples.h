/* SPDX-License-Identifier: Apache-2.0 */
/*
 * examples.h - the tokenized examples of a file, from a memory-mapped cache
 *
 * Each file has one cache: a header with a hash of everything that the tokens
 * depend on (the file's bytes, the tokenizer, the options), an array of
 * offsets, and the examples as example.h has them. A file is not read again if
 * its size, inode and times are those at which its cache was made. Images are
 * those of that time, too: their files are in the store, under names that the
 * examples have.
 *
 * dt_kind_find tells JSON lines from text; a text file is a single example.
 */
#ifndef DT_DATA_EXAMPLES_H
#define DT_DATA_EXAMPLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "data/example.h"
#include "tokenizer/tokenizer.h"

/* The format of the first lines of JSON of `path`. -1: EX_NOINPUT, EX_DATAERR.
 */
int dt_examples_format(const char *path,
                       const struct dt_example_options *options,
                       enum dt_format *format, struct dt_error *err);

struct dt_examples; /* an open cache */

/* Opens the cache of `path`, making it if needed. Several processes may do so
 * at once, on a shared file system too: one makes it, whole or not at all
 * (temporary file, rename); if one was killed, the next resumes after its last
 * finished part. *made: false if a valid cache was there. NULL and err:
 * EX_NOINPUT, EX_DATAERR (file:line: cause, of the first bad lines, when more
 * than bad_limit are bad; the requested loss does not fit the format),
 * EX_CONFIG (the chat template is unknown), EX_CANTCREAT, EX_IOERR.
 */
struct dt_examples *dt_examples_open(const char *path,
                                     const struct dt_tokenizer *tokenizer,
                                     const struct dt_example_options *options,
                                     bool *made, struct dt_error *err);
void dt_examples_close(struct dt_examples *examples); /* NULL is fine */

/* The number of examples, of bad lines, which were skipped, and of lines that
 * were left out since an image of theirs is bad.
 */
size_t dt_examples_count(const struct dt_examples *examples);
uint64_t dt_examples_bad_lines(const struct dt_examples *examples);
uint64_t dt_examples_dropped(const struct dt_examples *examples);

/* The number of tokens in all examples, how many of them are targets, and the
 * key of the cache.
 */
uint64_t dt_examples_tokens(const struct dt_examples *examples);
uint64_t dt_examples_targets(const struct dt_examples *examples);
uint64_t dt_examples_hash(const struct dt_examples *examples);

/* All words of example i < count, as example.h has them, valid until close.
 * They are in the mapped cache, so read them in dt_guard_run after
 * dt_examples_check, and check that ids are in range.
 */
const uint32_t *dt_example(const struct dt_examples *examples, size_t i,
                           size_t *count);

/* Checks the blocks of the cache that contain these of its tokens, unless they
 * have been checked. Any thread may call it, in dt_guard_run. -1: EX_DATAERR,
 * the file is damaged.
 */
int dt_examples_check(const struct dt_examples *examples,
                      const uint32_t *tokens, size_t count,
                      struct dt_error *err);

/* Puts the file and this line of it in front of an error. -1, always. */
int dt_examples_name_line(const struct dt_examples *examples, uint64_t line,
                          struct dt_error *err);

#endif /* DT_DATA_EXAMPLES_H */
