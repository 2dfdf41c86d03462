/* SPDX-License-Identifier: Apache-2.0 */
/*
 * said.h - lines that processes before this one have printed in its place
 *
 * A rank that is started again would tell the user once more what the run is.
 * So between dt_said_begin and dt_said_end lines of level info (log.h) and
 * notes of the report are remembered in memory that outlives the process, and
 * left out if an earlier process has printed them.
 */
#ifndef DT_BASE_SAID_H
#define DT_BASE_SAID_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { DT_SAID_LINES = 128 };

/* All zero before the first process. Lines that it has no room for are printed
 * by each.
 */
struct dt_said {
    _Atomic uint32_t count;
    uint64_t hashes[DT_SAID_LINES];
};

/* Begins with what is in `said`, which outlasts dt_said_end; NULL: nothing is
 * remembered.
 */
void dt_said_begin(struct dt_said *said);
void dt_said_end(void);

/* Whether an earlier process has printed this; if not, it counts as printed by
 * this one. Thread-safe.
 */
bool dt_said_before(const char *line);

#endif /* DT_BASE_SAID_H */
