/* SPDX-License-Identifier: Apache-2.0 */
/* page_text.h - text and numbers for people, safe in HTML and SVG */
#ifndef DT_PAGE_PAGE_TEXT_H
#define DT_PAGE_PAGE_TEXT_H

#include <stddef.h>
#include <stdio.h>

/* Writes any text as the content of an element or of an attribute in quotes.
 * The characters of markup are escaped; bytes that are not UTF-8, control
 * characters and those that turn the direction of text become U+FFFD. At most
 * `most` characters (0: all), and then an ellipsis.
 */
void dt_page_text(FILE *out, const char *text, size_t most);

/* Attributes of an element that may be wider than the page: keys scroll it,
 * too.
 */
#define DT_PAGE_SCROLL                                                         \
    "class=\"scroll\" tabindex=\"0\" role=\"group\" "                          \
    "aria-label=\"scrolls sideways\""

enum { DT_PAGE_NUMBER_BYTES = 32 };

/* Each formats into text, of DT_PAGE_NUMBER_BYTES, and returns it. */

/* Four digits: "1.485", "17,193", "84.26 M", "2e-05". */
const char *dt_page_number(char *text, double value);

/* A count with commas: "842,624". */
const char *dt_page_count(char *text, double value);

/* "512 B", "1.25 GiB". */
const char *dt_page_bytes(char *text, double bytes);

/* "850 ms", "12.5 s", "3 min 20 s", "5 h 02 min", "2 d 03 h". */
const char *dt_page_duration(char *text, double seconds);

/* "2026-11-23 13:05:10 UTC". */
const char *dt_page_time(char *text, double wall);

#endif /* DT_PAGE_PAGE_TEXT_H */
