/* SPDX-License-Identifier: Apache-2.0 */
/* memory_examples.h - examples in memory, instead of a cache; after cmocka.h */
#ifndef DT_TESTS_UNIT_MEMORY_EXAMPLES_H
#define DT_TESTS_UNIT_MEMORY_EXAMPLES_H

#include "data/example.h"

enum { MAX_EXAMPLES = 64, MAX_WORDS = 800 };

struct dt_examples {
    size_t count;
    size_t lengths[MAX_EXAMPLES];
    uint32_t words[MAX_EXAMPLES][MAX_WORDS];
};

size_t dt_examples_count(const struct dt_examples *examples)
{
    return examples->count;
}

const uint32_t *dt_example(const struct dt_examples *examples, size_t i,
                           size_t *count)
{
    *count = examples->lengths[i];
    return examples->words[i];
}

int dt_examples_check(const struct dt_examples *examples,
                      const uint32_t *tokens, size_t count,
                      struct dt_error *err)
{
    (void)err;
    assert_true(tokens >= examples->words[0] &&
                tokens + count <=
                    examples->words[0] + MAX_EXAMPLES * MAX_WORDS);
    return 0;
}

int dt_examples_name_line(const struct dt_examples *examples, uint64_t line,
                          struct dt_error *err)
{
    (void)examples;
    return dt_error_prefix(err, "examples.jsonl:%d", (int)line);
}

#endif /* DT_TESTS_UNIT_MEMORY_EXAMPLES_H */
