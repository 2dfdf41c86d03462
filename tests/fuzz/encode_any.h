/* SPDX-License-Identifier: Apache-2.0 */
/* encode_any.h - encodes any text, and checks what must hold of the tokens */
#ifndef DT_TESTS_FUZZ_ENCODE_ANY_H
#define DT_TESTS_FUZZ_ENCODE_ANY_H

#include <stdlib.h>
#include <string.h>

#include "tokenizer/tokenizer.h"

static inline void check_tokens(const struct dt_tokenizer *tokenizer,
                                const struct dt_tokens *tokens, size_t bytes)
{
    struct dt_detokenizer state = {.tokenizer = tokenizer};
    char out[64];
    for (size_t i = 0; i < tokens->count; i++) {
        if (tokens->ids[i] < 0 ||
            (size_t)tokens->ids[i] >= dt_tokenizer_vocab_size(tokenizer))
            abort();
        if (tokens->begin &&
            (tokens->begin[i] > tokens->end[i] || tokens->end[i] > bytes))
            abort();
        if (dt_detokenize(&state, tokens->ids[i], out, sizeof(out)) >=
            sizeof(out))
            abort();
    }
    dt_detokenize_end(&state, out, sizeof(out));
}

static inline void encode_any(const struct dt_tokenizer *tokenizer,
                              const char *text, size_t bytes)
{
    struct dt_error err = {0};
    struct dt_tokens tokens = {0};
    struct dt_encoder *encoder = dt_encoder_create(tokenizer, &err);
    for (unsigned flags = 0; encoder && flags < 8; flags++) {
        err.text[0] = '\0';
        if (dt_encode(encoder, text, bytes, flags, &tokens, &err) == 0)
            check_tokens(tokenizer, &tokens, bytes);
        else if (!err.text[0] || strchr(err.text, '\n'))
            abort();
    }
    dt_tokens_fini(&tokens);
    dt_encoder_destroy(encoder);
}

#endif /* DT_TESTS_FUZZ_ENCODE_ANY_H */
