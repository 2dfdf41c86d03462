/* SPDX-License-Identifier: Apache-2.0 */
/* output.c - the tokens that an encoder has found so far */
#include "config.h"

#include <stdlib.h>

#include "tokenizer/impl.h"

int dt_tok_reserve(struct dt_encoder *e, size_t more)
{
    struct dt_tokens *t = e->tokens;
    bool offsets = e->flags & DT_ENCODE_OFFSETS;
    size_t capacity = t->count + more;
    if (capacity <= t->capacity)
        return 0;
    capacity += capacity / 2 + 64;
    if (!dt_tok_grow(&t->ids, capacity, sizeof(t->ids[0])) ||
        (offsets && (!dt_tok_grow(&t->begin, capacity, sizeof(t->begin[0])) ||
                     !dt_tok_grow(&t->end, capacity, sizeof(t->end[0])))))
        return dt_error_set(e->err, EX_OSERR, "out of memory for %zu tokens",
                            capacity);
    t->capacity = capacity;
    return 0;
}

void dt_tok_emit(struct dt_encoder *e, int32_t id,
                 const struct dt_tok_span *span, size_t from, size_t to)
{
    struct dt_tokens *t = e->tokens;
    if (t->begin) {
        t->begin[t->count] = dt_tok_span_begin(span, from);
        t->end[t->count] = dt_tok_span_end(span, to - 1);
    }
    t->ids[t->count++] = id;
}

void dt_tokens_fini(struct dt_tokens *tokens)
{
    free(tokens->ids);
    free(tokens->begin);
    free(tokens->end);
    *tokens = (struct dt_tokens){0};
}
