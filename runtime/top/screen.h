/* SPDX-License-Identifier: Apache-2.0 */
/*
 * screen.h - a full-screen view that leaves the terminal as it was
 *
 * However it ends: a key, a signal, or a crash of this process.
 */
#ifndef DT_TOP_SCREEN_H
#define DT_TOP_SCREEN_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

/* What dt_top_screen_wait returns, besides characters. */
enum {
    DT_TOP_KEY_NONE = 0, /* the time is over */
    DT_TOP_KEY_UP = 256,
    DT_TOP_KEY_DOWN,
    DT_TOP_KEY_PAGE_UP,
    DT_TOP_KEY_PAGE_DOWN,
    DT_TOP_KEY_RESIZE, /* or the screen is shown again */
    DT_TOP_KEY_END,    /* a signal asks to end, or the terminal is gone */
};

/* Takes over the terminal of stdin and stdout: alternate screen, no echo, no
 * cursor. Signals that end a program come from dt_top_screen_wait. -1:
 * EX_OSERR, there is no such terminal.
 */
int dt_top_screen_enter(struct dt_error *err);

/* Gives it back. If a signal has asked for the end, this process then dies of
 * it, as if it had not been caught. Nothing without dt_top_screen_enter.
 */
void dt_top_screen_leave(void);

/* Shows lines, of which each ends with dt_top_screen_end. Those beyond the
 * screen are not shown.
 */
void dt_top_screen_show(const char *text);
extern const char dt_top_screen_end[];

/* Waits for a key. */
int dt_top_screen_wait(int timeout_ms);

#endif /* DT_TOP_SCREEN_H */
