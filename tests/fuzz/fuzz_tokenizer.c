/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_tokenizer.c - any bytes as tokenizer.json, and any text through it
 *
 * The text begins behind the first zero byte.
 */
#include "config.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tokenizer/tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct dt_tokenizer *tokenizer,
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

static void encode(const struct dt_tokenizer *tokenizer, const char *text,
                   size_t bytes)
{
    struct dt_error err = {0};
    struct dt_tokens tokens = {0};
    struct dt_encoder *encoder = dt_encoder_create(tokenizer, &err);
    for (unsigned flags = 0; encoder && flags < 8; flags++) {
        err.text[0] = '\0';
        if (dt_encode(encoder, text, bytes, flags, &tokens, &err) == 0)
            check(tokenizer, &tokens, bytes);
        else if (!err.text[0] || strchr(err.text, '\n'))
            abort();
    }
    dt_tokens_fini(&tokens);
    dt_encoder_destroy(encoder);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int fd = -1;
    char path[64];
    struct dt_error err = {0};
    const uint8_t *zero = size > 0 ? memchr(data, 0, size) : NULL;
    size_t json = zero ? (size_t)(zero - data) : size;
    if (fd < 0)
        fd = memfd_create("fuzz", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, 0) < 0 ||
        pwrite(fd, data, json, 0) != (ssize_t)json)
        abort();
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    struct dt_tokenizer *tokenizer = dt_tokenizer_load(path, &err);
    if (!tokenizer) {
        if (strncmp(err.text, path, strlen(path)) != 0 ||
            strchr(err.text, '\n'))
            abort();
        return 0;
    }
    if (zero)
        encode(tokenizer, (const char *)zero + 1, size - json - 1);
    dt_tokenizer_destroy(tokenizer);
    return 0;
}
