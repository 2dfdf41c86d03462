/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tokenize.c - encodes texts and says how fast
 *
 * usage: tokenize TOKENIZER TEXTS IDS [plain]
 * With `plain`, text that spells control tokens stays text.
 * TEXTS holds records of a u32 length and that many bytes, IDS is made of
 * records of a u32 count and that many ids. Prints seconds of the CPU to load
 * and encode.
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/file.h"
#include "tokenizer/tokenizer.h"

static void die(const char *what)
{
    fprintf(stderr, "tokenize: %s\n", what);
    exit(1);
}

static double seconds(void)
{
    return (double)clock() / CLOCKS_PER_SEC;
}

/* Encodes all texts; their ids go to `file` unless it is NULL. */
static void encode(struct dt_encoder *encoder, const struct dt_map *texts,
                   unsigned flags, FILE *file)
{
    struct dt_tokens tokens = {0};
    struct dt_error err;
    uint32_t length;
    for (size_t at = 0; at + 4 <= texts->bytes; at += 4 + length) {
        const char *text = (const char *)texts->data + at;
        memcpy(&length, text, 4);
        if (dt_encode(encoder, text + 4, length, flags, &tokens, &err) < 0)
            die(err.text);
        uint32_t count = (uint32_t)tokens.count;
        if (file && (fwrite(&count, 4, 1, file) != 1 ||
                     fwrite(tokens.ids, 4, count, file) != count))
            die("cannot write");
    }
    dt_tokens_fini(&tokens);
}

int main(int argc, char **argv)
{
    struct dt_error err;
    struct dt_map texts;
    if (argc != 4 && (argc != 5 || strcmp(argv[4], "plain") != 0))
        die("usage: tokenize TOKENIZER TEXTS IDS [plain]");
    const unsigned flags = argc == 4 ? DT_ENCODE_SPECIAL : 0;
    double start = seconds();
    struct dt_tokenizer *tokenizer = dt_tokenizer_load(argv[1], &err);
    if (!tokenizer || dt_map_init(&texts, argv[2], &err) < 0)
        die(err.text);
    double loaded = seconds();
    struct dt_encoder *encoder = dt_encoder_create(tokenizer, &err);
    if (!encoder)
        die(err.text);
    double created = seconds();
    encode(encoder, &texts, flags, NULL);
    printf("load %.3f s, encode %.3f s\n", loaded - start, seconds() - created);
    FILE *file = fopen(argv[3], "wb");
    if (!file)
        die("cannot create IDS");
    encode(encoder, &texts, flags, file);
    if (fclose(file) != 0)
        die("cannot write");
    dt_encoder_destroy(encoder);
    dt_tokenizer_destroy(tokenizer);
    dt_map_fini(&texts);
    return 0;
}
