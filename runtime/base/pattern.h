/* SPDX-License-Identifier: Apache-2.0 */
/* pattern.h - regular expressions that users write */
#ifndef DT_BASE_PATTERN_H
#define DT_BASE_PATTERN_H

#include <stddef.h>

#include "base/error.h"

/* Compiles a regular expression as PCRE2 has them, for UTF-8. Several threads
 * may use it at a time. NULL and err: EX_CONFIG with the mistake and its place,
 * EX_OSERR. Release with dt_pattern_destroy.
 */
struct dt_pattern *dt_pattern_create(const char *text, struct dt_error *err);
void dt_pattern_destroy(struct dt_pattern *pattern); /* NULL is fine */

/* 1 if all n bytes of s match, 0 if not. Bytes that are not UTF-8 match
 * nothing. -1: EX_DATAERR, the search was given up because it took too long;
 * EX_OSERR.
 */
int dt_pattern_matches(const struct dt_pattern *pattern, const char *s,
                       size_t n, struct dt_error *err);

/* 1 if there is a match in the n bytes of s: *begin and *end are those of the
 * first group in the last match, or of the match if it has no group or the
 * group took no part. 0: none. -1: as dt_pattern_matches.
 */
int dt_pattern_last(const struct dt_pattern *pattern, const char *s, size_t n,
                    size_t *begin, size_t *end, struct dt_error *err);

#endif /* DT_BASE_PATTERN_H */
