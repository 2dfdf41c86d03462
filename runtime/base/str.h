/* SPDX-License-Identifier: Apache-2.0 */
/* str.h - parts of names, the nearest of some, ranges, UTF-8, base64 */
#ifndef DT_BASE_STR_H
#define DT_BASE_STR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The text after `prefix`; NULL: `text` begins otherwise. */
const char *dt_str_after(const char *text, const char *prefix);

/* True if `text` is `end` or something before it. */
bool dt_str_ends_with(const char *text, const char *end);

/* The last component of a path; "" if the path ends with '/'. */
const char *dt_str_base_name(const char *path);

/* Edits (insert, delete, replace, swap of neighbors) between a and b,
 * ignoring ASCII case. Strings longer than 127 bytes count as infinitely far.
 */
unsigned dt_str_distance(const char *a, const char *b);

/* The one of `names` nearest to `word` within 2 edits (1 for words of up to 3
 * bytes), or NULL.
 */
const char *dt_str_nearest(const char *word, const char *const *names,
                           size_t count);

/* Takes the next range of a list such as "0,4-7" off *text; "" is its end.
 * False if it is malformed or has a number beyond 32 bits.
 */
bool dt_str_next_range(const char **text, uint32_t *first, uint32_t *last);

/* The plural's ending of a word that is counted: "s", or "" for one. */
static inline const char *dt_str_plural(uint64_t count)
{
    return count == 1 ? "" : "s";
}

/* Writes '?' in place of control characters of ASCII, which a terminal obeys.
 */
void dt_str_hide_controls(char *text);

/* Undoes \s (a blank), \n and \\ in place. Another character stays without the
 * backslash before it, and a backslash at the end as it is.
 */
void dt_escape_undo(char *text);

/* The offset of the first byte that does not begin a well-formed sequence
 * (Unicode 15, table 3-7: no overlong forms, surrogates, or code points above
 * 10FFFF), or `bytes` if there is none.
 */
size_t dt_utf8_check(const void *text, size_t bytes);

/* Encodes data with padding as (bytes + 2) / 3 * 4 digits and a NUL. */
void dt_base64_encode(const void *data, size_t bytes, char *to);

/* Decodes base64 with its padding to at most count / 4 * 3 bytes. Returns how
 * many they are, or -1: the text is something else.
 */
ptrdiff_t dt_base64_decode(const char *text, size_t count, void *to);

#endif /* DT_BASE_STR_H */
