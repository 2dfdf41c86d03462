/* SPDX-License-Identifier: Apache-2.0 */
/* prompts_impl.h - prompts and the lines they are read from (private to data/)
 */
#ifndef DT_DATA_PROMPTS_IMPL_H
#define DT_DATA_PROMPTS_IMPL_H

#include "base/file.h"
#include "data/prompts.h"
#include "data/turns.h"

/* A prompt: its line, and its tokens. */
struct dt_prompt_place {
    const char *line; /* in a file's text */
    size_t bytes;
    const char *path, *mark; /* of the file, as dt_kind_mark */
    uint64_t number;         /* of the line */
    size_t first, words;     /* in `words` */
    size_t count;            /* of its tokens, which are the last words */
};

struct dt_prompts {
    const struct dt_tokenizer *tokenizer;
    const struct dt_example_images *images; /* NULL: text alone */
    int32_t placeholder;                    /* of pictures */
    const char *prompt_key, *messages_key;
    bool shuffle;
    uint64_t seed, hash;
    struct dt_map *files; /* their rows as lines */
    size_t file_count;
    struct dt_prompt_place *prompts;
    size_t room, from; /* from: number of the first in the stream */
    uint32_t *words;   /* of all prompts, as examples */
    size_t word_count, word_room;
    struct dt_prompts_stats stats;
};

/* Prompt p of the stream. */
const struct dt_prompt_place *dt_prompts_at(const struct dt_prompts *prompts,
                                            uint64_t p);

/* ---- prompt_line.c ---- */

/* The parts of a line that is read. */
struct dt_prompt_parsed {
    json_t *root;
    json_t *prompt; /* of root: a string or messages */
    const char *key;
    struct dt_turns turns; /* the messages */
    json_t *images;        /* values; NULL: the model sees only text */
};

/* Reads a line: its prompt, and images in the order of their tokens.
 * dt_prompt_parsed_fini in any case. -1: EX_DATAERR, EX_OSERR.
 */
int dt_prompt_parse(const struct dt_prompts *prompts, const char *text,
                    size_t bytes, struct dt_prompt_parsed *line,
                    struct dt_error *err);

/* Releases them; a zeroed one is fine. */
void dt_prompt_parsed_fini(struct dt_prompt_parsed *line);

#endif /* DT_DATA_PROMPTS_IMPL_H */
