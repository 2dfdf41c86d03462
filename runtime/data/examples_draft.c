/* SPDX-License-Identifier: Apache-2.0 */
/* examples_draft.c - makes the examples of a part of a file */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/examples_draft.h"
#include "data/pair.h"

void dt_draft_fini(struct dt_draft *draft)
{
    free(draft->source);
    free(draft->marked.tokens);
    free(draft->offsets);
    free(draft->notes);
}

static int end_example(struct dt_draft *draft, struct dt_error *err)
{
    if (draft->count + 2 > draft->capacity) {
        size_t capacity = 2 * draft->capacity + 64;
        uint64_t *offsets =
            realloc(draft->offsets, capacity * sizeof(*offsets));
        if (!offsets)
            return dt_error_set(err, EX_OSERR, "out of memory");
        draft->offsets = offsets;
        draft->capacity = capacity;
    }
    draft->offsets[0] = 0;
    draft->offsets[++draft->count] = draft->marked.count;
    return 0;
}

/* Counts a bad line. The first DT_PART_NOTES of them are noted with the cause.
 */
static int note_bad(struct dt_draft *draft, uint64_t line,
                    const struct dt_error *what, struct dt_error *err)
{
    char text[DT_ERROR_TEXT_BYTES + 32];
    draft->counts.bad++;
    if (draft->note_count == DT_PART_NOTES)
        return 0;
    size_t n = (size_t)snprintf(text, sizeof(text), "%" PRIu64 ": %s", line,
                                what->text) +
               1;
    char *notes = realloc(draft->notes, draft->notes_bytes + n);
    if (!notes)
        return dt_error_set(err, EX_OSERR, "out of memory");
    memcpy(notes + draft->notes_bytes, text, n);
    draft->notes = notes;
    draft->notes_bytes += n;
    draft->note_count++;
    return 0;
}

/* What ids in lines are smaller than. */
static size_t id_limit(const struct dt_make *make)
{
    return make->options->vocab_size > 0
               ? make->options->vocab_size
               : dt_tokenizer_vocab_size(make->tokenizer);
}

/* Appends the tokens of a line; its record decides how they are counted. */
static int add_record(struct dt_draft *draft, const struct dt_make *make,
                      struct dt_masker *masker, const char *line, size_t length,
                      struct dt_error *err)
{
    struct dt_record record;
    bool seam = false;
    int rc = dt_jsonl_read(line, length, make->format, make->options,
                           id_limit(make), &record, err);
    if (rc == 0)
        rc = dt_masker_add(masker, &record, &draft->marked, &seam, err);
    if (rc == 0) {
        draft->counts.pairs += record.format == DT_FORMAT_PROMPT_COMPLETION;
        draft->counts.seams += seam;
        draft->counts.renamed += record.turns.renamed;
    }
    dt_record_fini(&record);
    return rc;
}

static int add_preference(struct dt_draft *draft, const struct dt_make *make,
                          struct dt_masker *masker, const char *line,
                          size_t length, struct dt_error *err)
{
    struct dt_preference p;
    bool seam = false;
    int rc = dt_preference_read(line, length, make->options, id_limit(make), &p,
                                err);
    if (rc == 0)
        rc = dt_masker_add_preference(masker, &p, &draft->marked, &seam, err);
    if (rc == 0) {
        draft->counts.pairs++;
        draft->counts.seams += seam;
        for (int i = 0; i < DT_SIDES; i++)
            draft->counts.renamed += p.turns[i].renamed;
    }
    dt_preference_fini(&p);
    return rc;
}

static void count_targets(struct dt_draft *draft, size_t first)
{
    for (size_t i = first; i < draft->marked.count; i++)
        draft->counts.targets += (draft->marked.tokens[i] & DT_TARGET_BIT) != 0;
}

int dt_draft_line(struct dt_draft *draft, const struct dt_make *make,
                  struct dt_masker *masker, const char *line, size_t length,
                  uint64_t number, struct dt_error *err)
{
    const bool pairs = make->format == DT_FORMAT_PREFERENCE;
    const size_t before = draft->marked.count;
    struct dt_error what;
    int rc = (pairs ? add_preference : add_record)(draft, make, masker, line,
                                                   length, &what);
    draft->counts.lines++;
    if (rc == 0) {
        count_targets(draft, before + (pairs ? DT_PAIR_WORDS : 0));
        return end_example(draft, err);
    }
    draft->marked.count = before;
    if (what.status == EX_DATAERR)
        return note_bad(draft, number, &what, err);
    *err = what;
    return dt_error_prefix(err, "%s%s%" PRIu64, make->path,
                           dt_kind_mark(&make->found), number);
}

int dt_draft_text(struct dt_draft *draft, const struct dt_make *make,
                  struct dt_masker *masker, const struct dt_part *part,
                  const char *text, struct dt_error *err)
{
    if (dt_masker_add_text(masker, text, part->end - part->begin,
                           part->begin == 0, part->end == make->lines.bytes,
                           &draft->marked, err) < 0)
        return dt_error_prefix(err, "%s", make->path);
    draft->counts.lines = 1;
    draft->counts.targets = draft->marked.count;
    return end_example(draft, err);
}
