/* SPDX-License-Identifier: Apache-2.0 */
/* rollout_impl.h - what a rollout holds (private to rollout/) */
#ifndef DT_ROLLOUT_ROLLOUT_IMPL_H
#define DT_ROLLOUT_ROLLOUT_IMPL_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "model/decode.h"
#include "rollout/rollout.h"

/* --- who uses which block of keys and values --- */

struct dt_blocks {
    size_t count, unused;
    int32_t *stack;  /* (count) those that are not used come first */
    uint32_t *users; /* (count) of each */
};

/* `count` blocks that nobody uses. -1: EX_OSERR; dt_blocks_fini in any case. */
int dt_blocks_init(struct dt_blocks *blocks, size_t count,
                   struct dt_error *err);
void dt_blocks_fini(struct dt_blocks *blocks);

/* A block with one user; -1 if all are used. */
int32_t dt_blocks_take(struct dt_blocks *blocks);

/* One user more, one less. */
void dt_blocks_share(struct dt_blocks *blocks, int32_t block);
void dt_blocks_drop(struct dt_blocks *blocks, int32_t block);

/* --- prompts and sequences --- */

enum dt_copy_state { DT_COPY_WAITS, DT_COPY_RUNS, DT_COPY_ENDED };

/* A prompt with copies that have not ended. */
struct dt_entry {
    uint64_t number, order; /* order: among all prompts of the run */
    int32_t *ids;
    size_t count;
    struct dt_batch_picture *pictures; /* (picture_count) */
    size_t picture_count;
    uint8_t *pixels; /* (patches, row bytes) */
    size_t patches;
    int32_t shift;         /* of positions behind the prompt */
    unsigned char *copies; /* (options.copies) enum dt_copy_state */
    size_t waiting, ended; /* of these */
    bool computed;         /* it has blocks, for the copies that wait */
    int32_t *blocks;       /* those of all positions but the last one */
    struct dt_entry *next; /* in order */
};

/* Batches of prompts have a multiple of so many tokens: few sizes, and enough
 * for products that go over a token as they do with more tokens.
 */
enum { DT_PROMPT_MULTIPLE = 128 };

enum { DT_TOKEN_BYTES = 1024 }; /* of the text of a token, enough for all */

/* A slot in use. */
struct dt_sequence {
    struct dt_entry *prompt;
    uint32_t copy;
    int32_t *table; /* (blocks of the longest sequence) */
    size_t blocks;  /* of these in use */
    int32_t *ids;   /* (max_tokens) drawn so far */
    float *logps;   /* (max_tokens) */
    size_t count;
    int32_t *seen; /* (V / 32) ops.h; only with a penalty */
    struct dt_detokenizer text;
    char *tail; /* (longest_string + DT_TOKEN_BYTES) the end of the text; only
                   with stop strings */
    size_t tail_bytes;
    bool has_ended;
};

/* The arrays of a batch of prompts: (tokens), (pictures), (patches, row bytes).
 */
struct dt_pack {
    int32_t *ids, *starts, *places;
    size_t used;
    struct dt_batch_picture *pictures;
    size_t picture_count;
    uint8_t *pixels;
    size_t patches;
};

/* The arrays of a step; the model's are struct dt_step_rows. */
struct dt_step_arrays {
    int32_t *ids, *indices, *positions, *places; /* (rows) */
    int32_t *table;                              /* (rows, most_blocks) */
    double *draws;                               /* (rows) */
    int32_t *seen;                               /* (rows, words), or NULL */
    int32_t *drawn;                              /* (rows) */
    float *logps;                                /* (rows) */
};

struct dt_rollout {
    struct dt_rollout_options options;
    const struct dt_model_config *config;
    const struct dt_ops *ops;
    struct dt_decoder_options limits;
    struct dt_decoder *decoder;
    struct dt_blocks blocks;
    size_t most_blocks;    /* of a sequence */
    size_t row_multiple;   /* of the rows of a step */
    size_t words;          /* of `seen` */
    size_t patch_bytes;    /* of pixels */
    size_t longest_string; /* bytes */
    struct dt_rollout_counts counts;

    struct dt_entry *entries, **last; /* a list */
    uint64_t taken;                   /* prompts of the run */
    bool no_more;                     /* prompts */
    struct dt_sequence *slots;        /* (slots), those in use first */
    size_t running;
    struct dt_pack pack;
    struct dt_step_arrays step;
};

static inline size_t dt_round_up(size_t x, size_t to)
{
    return (x + to - 1) / to * to;
}

/* Blocks of a prompt without its last token. */
static inline size_t dt_prompt_blocks(const struct dt_entry *entry)
{
    return (entry->count - 1 + DT_KV_BLOCK - 1) / DT_KV_BLOCK;
}

/* Takes prompts, computes them, and starts sequences, as far as there
 * are slots and blocks. -1 and err.
 */
int dt_rollout_admit(struct dt_rollout *r, const struct dt_rollout_io *io,
                     struct dt_error *err);

/* Gives every sequence the block of its next position; drops the youngest where
 * there is none.
 */
void dt_rollout_grow(struct dt_rollout *r);

/* Removes sequences that have ended, and prompts without others. */
void dt_rollout_remove_ended(struct dt_rollout *r);

/* Forgets prompts and sequences. */
void dt_rollout_clear(struct dt_rollout *r);

/* Makes s the next copy of `prompt`, without tokens. */
void dt_sequence_begin(const struct dt_rollout *r, struct dt_sequence *s,
                       struct dt_entry *prompt, uint32_t copy);

/* Appends a token. Returns whether the sequence has ended, and *end. */
bool dt_sequence_append(const struct dt_rollout *r, struct dt_sequence *s,
                        int32_t id, float logp, enum dt_end *end);

#endif /* DT_ROLLOUT_ROLLOUT_IMPL_H */
