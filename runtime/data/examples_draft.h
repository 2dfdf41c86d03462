/* SPDX-License-Identifier: Apache-2.0 */
/* examples_draft.h - the examples of a part of a file, while they are made */
#ifndef DT_DATA_EXAMPLES_DRAFT_H
#define DT_DATA_EXAMPLES_DRAFT_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "data/examples_impl.h"
#include "data/mask.h"

enum { DT_PART_NOTES = 8 }; /* bad lines noted in each part */

/* The tokens of a part in memory. Starts zeroed, except `offsets`. */
struct dt_draft {
    char *source; /* a copy of the part, which no other process can change */
    struct dt_marked marked;
    uint64_t *offsets; /* allocated by the caller, with one element, 0 */
    size_t count;      /* examples: offsets, except the first */
    size_t capacity;   /* room in offsets */
    struct dt_cache_counts counts;
    char *notes;
    size_t notes_bytes, note_count;
};
void dt_draft_fini(struct dt_draft *draft); /* a zeroed one is fine */

/* Adds the example of line `number`. A bad line is counted, and noted if it is
 * one of the first, and returns 0. -1: any other failure, EX_OSERR, EX_CONFIG.
 */
int dt_draft_line(struct dt_draft *draft, const struct dt_make *make,
                  struct dt_masker *masker, const char *line, size_t length,
                  uint64_t number, struct dt_error *err);

/* Adds a piece of a text, all of whose tokens are targets. -1: EX_OSERR. */
int dt_draft_text(struct dt_draft *draft, const struct dt_make *make,
                  struct dt_masker *masker, const struct dt_part *part,
                  const char *text, struct dt_error *err);

#endif /* DT_DATA_EXAMPLES_DRAFT_H */
