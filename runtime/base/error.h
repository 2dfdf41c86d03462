/* SPDX-License-Identifier: Apache-2.0 */
/*
 * error.h - a failure in words for people, with its exit code
 *
 * Every fallible function returns 0/-1 or pointer/NULL and takes a
 * `struct dt_error *err` last. It fills err once, on failure only; callers on
 * the way up add context in front. Libraries never print and never exit. Texts
 * are without secrets (base/secret.h).
 */
#ifndef DT_BASE_ERROR_H
#define DT_BASE_ERROR_H

#include <sysexits.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    DT_ERROR_TEXT_BYTES = 1024,
};

struct dt_error {
    int status;                     /* sysexits.h code for the process */
    int lost_rank;                  /* the peer whose end this is about, or
                                       -1: this process itself has failed */
    char text[DT_ERROR_TEXT_BYTES]; /* one line, no newline at the end */
};

/* Fills err (NULL is allowed) with a sysexits status and a formatted text that
 * is cut, never overrun; lost_rank becomes -1. Always returns -1: `return
 * dt_error_set(...)`.
 */
int dt_error_set(struct dt_error *err, int status, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Puts "<formatted>: " in front of the text of err (NULL is allowed); the end
 * of the text is cut if it no longer fits. Always returns -1.
 */
int dt_error_prefix(struct dt_error *err, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* Adds one more problem to err, joined by "; " to those that it holds (none:
 * an empty text), cut where it no longer fits; lost_rank becomes -1. Always
 * returns -1.
 */
int dt_error_add(struct dt_error *err, int status, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#ifdef __cplusplus
}
#endif

#endif /* DT_BASE_ERROR_H */
