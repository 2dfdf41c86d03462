/* SPDX-License-Identifier: Apache-2.0 */
/* batch.h - the rows of one forward pass of one rank */
#ifndef DT_TENSOR_BATCH_H
#define DT_TENSOR_BATCH_H

#include <stddef.h>
#include <stdint.h>

enum {
    DT_IGNORE =
        -100, /* marks a position without target: no loss, no gradient */
};

/* A document of a batch, by positions n of (B, T). Those of [first, end - 1)
 * have targets: the tokens of the completion, which are as many.
 */
struct dt_batch_side {
    size_t start; /* of its first token */
    size_t first; /* of its first target */
    size_t end;   /* behind its last token */
};

/* A preference pair, two documents of one row. */
struct dt_batch_pair {
    uint64_t number; /* of the pair in the data */
    float margin;
    struct dt_batch_side chosen, rejected;
};

/* A completion in a document of its own behind its prompt. The position before
 * a token predicts it, so the last token is not there.
 */
struct dt_batch_sample {
    size_t number; /* of the completion, among those of its generation */
    size_t first;  /* position before its first token */
    size_t count;  /* of its tokens, targets of [first, first + count) */
    size_t
        picked; /* positions from `first` whose values are computed: count,
                   or one more, which is then there: that of the last token */
};

struct dt_batch {
    size_t B, T;              /* rows, positions in a row */
    const int32_t *inputs;    /* (B, T) token ids */
    const int32_t *targets;   /* (B, T) next token ids, or DT_IGNORE */
    const int32_t *doc_start; /* (B, T) where in the row each position's
                                 document begins: attention sees nothing before
                                 it, and positions count from it; NULL: every
                                 row is one document */
    const int64_t *rows;      /* (B) global sample numbers, which seed random
                                 numbers; NULL: none are needed */
    size_t target_count;      /* targets that are not DT_IGNORE */
    const struct dt_batch_pair *pairs; /* NULL: the data are no pairs */
    size_t pair_count;
    const struct dt_batch_sample *samples; /* NULL: the data are no completions
                                            */
    size_t sample_count;
    const int32_t *picked; /* (picked_count) positions n of (B, T), all
                              different, of which a model computes values; NULL:
                              none */
    size_t picked_count;
};

#endif /* DT_TENSOR_BATCH_H */
