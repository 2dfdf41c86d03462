/* SPDX-License-Identifier: Apache-2.0 */
/* text.h - numbers, arithmetic and elements in the text of a model */
#ifndef DT_REWARD_TEXT_H
#define DT_REWARD_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/* A piece of a text, not NUL-terminated. */
struct dt_piece {
    const char *s;
    size_t n;
};

/* The piece without ASCII white space at both ends. */
struct dt_piece dt_piece_trim(struct dt_piece piece);

/* Finds the last number of a text: digits, also in groups of three with commas,
 * with a sign, a fraction and an exponent. A minus after a letter, a digit or a
 * bracket is no sign, a period at the end no fraction. False: there is none.
 */
bool dt_piece_last_number(struct dt_piece piece, double *number);

/* True if the piece is arithmetic with + - * / ( ) and decimal numbers, and
 * nothing else, that uses each of `numbers` exactly once. *value is its result;
 * a division by zero gives an infinity or NaN.
 */
bool dt_piece_arithmetic(struct dt_piece piece, const double *numbers,
                         size_t count, double *value);

/* True if the piece begins with the elements <tag>...</tag> of all `tags`, each
 * of which opens and closes once, in this order, with only white space between.
 */
bool dt_piece_has_elements(struct dt_piece piece, char *const *tags,
                           size_t count);

#endif /* DT_REWARD_TEXT_H */
