/* SPDX-License-Identifier: Apache-2.0 */
/* memory_pairs.h - preference pairs in memory, and rows of them */
#ifndef DT_TESTS_UNIT_MEMORY_PAIRS_H
#define DT_TESTS_UNIT_MEMORY_PAIRS_H

#include "batch/rows.h"
#include "tests/unit/batch/memory_examples.h"

/* Pair i has prompt tokens 1000 i + 1, ..., then chosen ones 1000 i + 101, ...,
 * or rejected ones 1000 i + 201, ...
 */
enum { VOCAB = 1000 * MAX_EXAMPLES };

/* Tokens of prompt, chosen and rejected completion. */
struct lengths {
    size_t prompt, chosen, rejected;
};

static size_t put(uint32_t *to, size_t pair, struct lengths n, bool rejected)
{
    const size_t completion = rejected ? n.rejected : n.chosen;
    for (size_t t = 0; t < n.prompt; t++)
        *to++ = (uint32_t)(1000 * pair + t + 1);
    for (size_t t = 0; t < completion; t++)
        *to++ = DT_TARGET_BIT |
                (uint32_t)(1000 * pair + (rejected ? 201 : 101) + t);
    return n.prompt + completion;
}

static struct dt_examples make(size_t count, const struct lengths *lengths)
{
    struct dt_examples examples = {.count = count};
    assert_true(count <= MAX_EXAMPLES);
    for (size_t i = 0; i < count; i++) {
        uint32_t *words = examples.words[i];
        size_t chosen = put(words + DT_PAIR_WORDS, i, lengths[i], false);
        dt_pair_write(words, (float)i - 0.5f, chosen);
        examples.lengths[i] =
            DT_PAIR_WORDS + chosen +
            put(words + DT_PAIR_WORDS + chosen, i, lengths[i], true);
    }
    return examples;
}

static const struct dt_rows_options usual = {
    .T = 8, .end = 1.0, .vocab_size = VOCAB};

static struct dt_rows *make_rows(const struct dt_examples *examples,
                                 const struct dt_rows_options *options)
{
    const struct dt_rows_source source = {examples, 1.0};
    struct dt_error err;
    struct dt_rows *rows = dt_rows_of_pairs(&source, 1, options, &err);
    if (!rows)
        fail_msg("%s", err.text);
    return rows;
}

#endif /* DT_TESTS_UNIT_MEMORY_PAIRS_H */
