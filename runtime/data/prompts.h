/* SPDX-License-Identifier: Apache-2.0 */
/*
 * prompts.h - the prompts that a model answers to learn from its rewards
 *
 * A line of JSON is one prompt: {"prompt": string or messages, ...} or
 * {"messages": [..], ...}. All its other keys are `columns`, passed to rewards,
 * but for images, which have a place of their own there.
 *
 * The order is one endless stream of numbers p: that of epoch p / n is a
 * permutation of the n prompts, which depends only on (seed, epoch). So a run
 * can resume at any p, and prompt p is the same in a world of any size.
 */
#ifndef DT_DATA_PROMPTS_H
#define DT_DATA_PROMPTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "base/error.h"
#include "data/example.h"
#include "tokenizer/tokenizer.h"

struct dt_prompts;

struct dt_prompts_options {
    struct dt_example_options lines; /* keys, template, bad_limit, note */
    size_t max_length;               /* tokens of a prompt, >= 1 */
    bool keep_end; /* a longer one keeps its end, unless it has images, which
                      another text would ask about; false: it is skipped */
    double begin, end; /* which of all prompts, as shares in the order of the
                          files; end 0: 1 */
    bool shuffle;      /* false: prompts in the order of the files */
    uint64_t seed;
    size_t vocab_size; /* of the model; larger ids are an error */
};

/* Reads and tokenizes all lines of the files, whose paths and options->lines
 * .images have to stay. Release with dt_prompts_close. NULL and err:
 * EX_NOINPUT, EX_IOERR, a file cannot be read; EX_CONFIG, there is no chat
 * template; EX_DATAERR, more lines than lines.bad_limit are not prompts, with
 * the first of them, or no prompt is left; EX_OSERR.
 */
struct dt_prompts *dt_prompts_open(const char *const *paths, size_t count,
                                   const struct dt_tokenizer *tokenizer,
                                   const struct dt_prompts_options *options,
                                   struct dt_error *err);
void dt_prompts_close(struct dt_prompts *prompts); /* NULL is fine */

struct dt_prompts_stats {
    size_t count;   /* prompts from begin to end: an epoch */
    size_t longest; /* tokens of the longest one */
    size_t cut;     /* prompts that lost their beginning */
    size_t dropped; /* prompts skipped, as they are too long */
    size_t bad;     /* lines that are not prompts */
    size_t lost;    /* lines left out as an image is missing or bad */
};

/* Counts of the prompts. */
struct dt_prompts_stats dt_prompts_stats(const struct dt_prompts *prompts);

/* A hash of all prompts of the files, their images as the model sees them, and
 * columns, in order.
 */
uint64_t dt_prompts_hash(const struct dt_prompts *prompts);

/* The tokens of prompt p of the stream, and how many there are; -1 at those of
 * pictures. Numbers of the same line have the same array.
 */
const int32_t *dt_prompts_ids(const struct dt_prompts *prompts, uint64_t p,
                              size_t *count);

/* Options of the images of prompts; NULL: they have none. */
const struct dt_example_images *dt_prompts_images(
    const struct dt_prompts *prompts);

/* Prompt p as an example of so many words (example.h), whose tokens are those
 * of dt_prompts_ids; only if prompts have images.
 */
const uint32_t *dt_prompts_example(const struct dt_prompts *prompts, uint64_t p,
                                   size_t *words);

/* Puts the file and the line of prompt p before the text of err. Returns -1. */
int dt_prompts_name(const struct dt_prompts *prompts, uint64_t p,
                    struct dt_error *err);

/* A prompt as a reward sees it. */
struct dt_prompt_line {
    char *text; /* of the line or, for messages, of the tokens, one placeholder
                   for each picture; NUL-terminated */
    size_t bytes;
    json_t *messages; /* NULL: the prompt was a string; with images, contents
                         are parts, of which one {"type": "image"} is each */
    json_t *images;   /* dt_row_images_names; NULL: it has none */
    json_t *columns;  /* an object */
};

/* Reads prompt p of the stream; dt_prompt_line_fini in any case. -1: EX_OSERR.
 */
int dt_prompts_read(const struct dt_prompts *prompts, uint64_t p,
                    struct dt_prompt_line *line, struct dt_error *err);
void dt_prompt_line_fini(struct dt_prompt_line *line); /* frees and zeroes */

#endif /* DT_DATA_PROMPTS_H */
