/* SPDX-License-Identifier: Apache-2.0 */
/* regex.h - regular expressions as Oniguruma reads them; for tokenizer/ only */
#ifndef DT_TOKENIZER_REGEX_H
#define DT_TOKENIZER_REGEX_H

#include <stddef.h>

#include "base/error.h"

struct dt_tok_regex;

/* Compiles a pattern; refuses syntax that PCRE2 reads differently. NULL and
 * err: EX_DATAERR. */
struct dt_tok_regex *dt_tok_regex_create(const char *pattern, size_t bytes,
                                         struct dt_error *err);
void dt_tok_regex_destroy(struct dt_tok_regex *regex); /* NULL is fine */

enum { DT_TOK_LATE_BYTES = 3 << 10 };

/* Writes the code points of a general category, e.g. "L" or "Lu", that came
 * after Unicode 14, as ranges for a class of PCRE2. Returns their bytes.
 */
size_t dt_tok_late_ranges(const char *category, size_t length,
                          char out[DT_TOK_LATE_BYTES]);

struct dt_tok_matcher;

/* One thread's workspace for matching. NULL: out of memory. */
struct dt_tok_matcher *dt_tok_matcher_create(void);
void dt_tok_matcher_destroy(struct dt_tok_matcher *matcher);

/* Finds the first match at or after `from` in s[0..n), well-formed UTF-8. 1:
 * found, 0: none, -1: EX_DATAERR (a limit of PCRE2).
 */
int dt_tok_regex_find(const struct dt_tok_regex *regex,
                      struct dt_tok_matcher *matcher, const char *s, size_t n,
                      size_t from, size_t *begin, size_t *end,
                      struct dt_error *err);

const char *dt_tok_regex_library(void); /* the version of PCRE2 */

#endif /* DT_TOKENIZER_REGEX_H */
