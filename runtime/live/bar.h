/* SPDX-License-Identifier: Apache-2.0 */
/* bar.h - the progress of a run in one line, as users of tqdm know it */
#ifndef DT_LIVE_BAR_H
#define DT_LIVE_BAR_H

#include <stdbool.h>
#include <stddef.h>

#include "live/state.h"

/* Unknown numbers are NAN. */
struct dt_bar {
    char phase[32];   /* "": training */
    long step, total; /* total 0: no steps are counted yet */
    double phase_s, elapsed_s, left_s;
    double step_s; /* of one step */
    double loss, tokens_per_s;
};

enum { DT_BAR_BYTES = 1024 };

/* The bar that shows a state. */
void dt_bar_of(const struct dt_live_state *state, struct dt_bar *bar);

/* Formats the bar for a line of `columns`, which it may fill, without control
 * characters. Parts that do not fit are left out, the bar itself first. `utf8`:
 * blocks of Unicode, else '#'.
 */
void dt_bar_format(const struct dt_bar *bar, int columns, bool utf8,
                   char text[DT_BAR_BYTES]);

/* Draws the bar as the last line of the terminal `fd`, below all other output.
 */
void dt_bar_draw(const struct dt_bar *bar, int fd);

/* Prints the bar as the end of a record for the console (contract/contract.h):
 * " STEP TOTAL ...", without a newline. Returns the number of bytes.
 */
int dt_bar_print(const struct dt_bar *bar, char *text, size_t size);

/* Reads the output of dt_bar_print back, to the end of the text. False: the
 * text is something else.
 */
bool dt_bar_parse(const char *text, struct dt_bar *bar);

/* "1:02:03" or "02:03"; "?" for an unknown time. */
void dt_bar_time(double seconds, char *text, size_t size);

/* A count in three digits: "999", "12.3k", "4.56M"; "-" for an unknown count.
 */
void dt_bar_count(double count, char *text, size_t size);

#endif /* DT_LIVE_BAR_H */
