/* SPDX-License-Identifier: Apache-2.0 */
/* said.h - what tiny runs write to the log; after small_run.h */
#ifndef TESTS_UNIT_SAID_H
#define TESTS_UNIT_SAID_H

#include "tests/unit/stderr_text.h"

/* What a run says that `runs` begins, small_runs or small_resume; rank 0 alone
 * speaks.
 */
static inline const char *said_by(void (*runs)(int, const char *, small_rank_f,
                                               void *),
                                  int size, const char *lines, small_rank_f f)
{
    static char text[8192];
    struct stderr_text log = stderr_text_begin();
    dt_log_init(0, DT_LOG_WARN);
    runs(size, lines, f, NULL);
    dt_log_init(0, DT_LOG_ERROR);
    stderr_text_end(&log, text, sizeof(text));
    return text;
}

/* What a new run says. */
static inline const char *said(int size, const char *lines, small_rank_f f)
{
    return said_by(small_runs, size, lines, f);
}

#endif /* TESTS_UNIT_SAID_H */
