/* SPDX-License-Identifier: Apache-2.0 */
/* examples_quality.c - how many lines may be bad, and what is said of them */
#include "config.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "data/examples_impl.h"

enum { SHOWN = 3 }; /* bad lines in an error */

void dt_make_note(const struct dt_make *make, const char *fmt, ...)
{
    char text[DT_ERROR_TEXT_BYTES];
    va_list ap;
    if (!make->options->note)
        return;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    make->options->note(make->options->ctx, text);
}

uint64_t dt_make_bad_allowed(const struct dt_make *make, uint64_t lines)
{
    return (uint64_t)(make->options->bad_limit * (double)lines);
}

/* Adds the first of these notes to an error. -1 */
static int show_notes(const struct dt_make *make, const char *notes,
                      size_t bytes, struct dt_error *err)
{
    const char *note = notes, *end = notes + bytes;
    for (int i = 0; i < SHOWN && note < end; i++) {
        dt_error_add(err, EX_DATAERR, "%s%s%s", make->path,
                     dt_kind_mark(&make->found), note);
        note += strlen(note) + 1;
    }
    return -1;
}

int dt_make_refuse(const struct dt_make *make, uint64_t bad, const char *notes,
                   size_t bytes, struct dt_error *err)
{
    dt_error_set(err, EX_DATAERR,
                 "%" PRIu64 " bad line%s of %s %s already more than the %g %% "
                 "allowed (data.bad_lines)",
                 bad, dt_str_plural(bad), make->path, bad == 1 ? "is" : "are",
                 100 * make->options->bad_limit);
    return show_notes(make, notes, bytes, err);
}

int dt_make_check(const struct dt_make *make, const struct dt_cache *cache,
                  struct dt_error *err)
{
    const struct dt_cache_counts *counts = &cache->counts;
    if (counts->bad > dt_make_bad_allowed(make, counts->lines)) {
        dt_error_set(err, EX_DATAERR,
                     "%" PRIu64 " of %" PRIu64 " lines of %s are bad, more "
                     "than the %g %% allowed (data.bad_lines)",
                     counts->bad, counts->lines, make->path,
                     100 * make->options->bad_limit);
        return show_notes(make, cache->notes, cache->notes_bytes, err);
    }
    if (cache->count == 0)
        return dt_error_set(err, EX_DATAERR, "%s: no example in it",
                            make->path);
    return 0;
}

void dt_make_report(const struct dt_make *make, const struct dt_cache *cache)
{
    const char *note = cache->notes, *end = note + cache->notes_bytes;
    uint64_t told = 0;
    for (; note < end; note += strlen(note) + 1, told++)
        dt_make_note(make, "%s%s%s", make->path, dt_kind_mark(&make->found),
                     note);
    if (cache->counts.bad > told)
        dt_make_note(make, "%s: %" PRIu64 " more bad lines", make->path,
                     cache->counts.bad - told);
    if (cache->counts.renamed > 0)
        dt_make_note(make,
                     "%s: %" PRIu64 " messages from human and gpt are treated "
                     "as from user and assistant",
                     make->path, cache->counts.renamed);
    if (cache->counts.seams > 0)
        dt_make_note(make,
                     "%s: in %" PRIu64 " of %" PRIu64
                     " lines a token spans the "
                     "end of the prompt and the start of the completion, so "
                     "that the loss may begin a token early or late: let "
                     "prompts end, or completions start, with a blank or a new "
                     "line, as the tokenizer expects it",
                     make->path, cache->counts.seams, cache->counts.pairs);
}
