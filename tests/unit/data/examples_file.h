/* SPDX-License-Identifier: Apache-2.0 */
/* examples_file.h - opens files as examples and prints examples as text */
#ifndef DT_TESTS_UNIT_EXAMPLES_FILE_H
#define DT_TESTS_UNIT_EXAMPLES_FILE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "data/examples.h"
#include "tests/unit/bytes_tokenizer.h"

static struct dt_tokenizer *tokenizer; /* EOS </s>, no BOS, CHATML */
static char notes[4096];               /* of the last open, one on each line */
static bool made;

static void keep_note(void *ctx, const char *text)
{
    size_t n = strlen(notes);
    (void)ctx;
    snprintf(notes + n, sizeof(notes) - n, "%s\n", text);
}

static struct dt_example_options usual(void)
{
    return (struct dt_example_options){.chat_template = "auto",
                                       .parse_special = true,
                                       .threads = 2,
                                       .note = keep_note};
}

static inline struct dt_examples *open_file(const char *path,
                                     const struct dt_example_options *options,
                                     struct dt_error *err)
{
    notes[0] = '\0';
    return dt_examples_open(path, tokenizer, options, &made, err);
}

static inline struct dt_examples *open_good(const char *path,
                                     const struct dt_example_options *options)
{
    struct dt_error err;
    struct dt_examples *examples = open_file(path, options, &err);
    if (!examples)
        fail_msg("%s", err.text);
    return examples;
}

/* An example as text: bytes as they are, EOS as $, other control tokens as #,
 * and targets between brackets.
 */
static inline const char *shown(const struct dt_examples *examples, size_t i)
{
    static char text[4096];
    size_t count, n = 0;
    const uint32_t *tokens = dt_example(examples, i, &count);
    bool learned = false;
    for (size_t t = 0; t < count; t++) {
        uint32_t id = tokens[t] & ~DT_TARGET_BIT;
        bool target = tokens[t] & DT_TARGET_BIT;
        if (target != learned)
            text[n++] = target ? '[' : ']';
        text[n++] = id < 256 ? (char)id : id == 257 ? '$' : '#';
        learned = target;
    }
    if (learned)
        text[n++] = ']';
    text[n] = '\0';
    return text;
}

#endif /* DT_TESTS_UNIT_EXAMPLES_FILE_H */
