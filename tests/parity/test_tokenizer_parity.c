/* SPDX-License-Identifier: Apache-2.0 */
/* test_tokenizer_parity.c - difficult texts become the reference's tokens */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "tokenizer/tokenizer.h"

static json_t *reference; /* what make_tokenizer_reference.py wrote */

static void fixture_path(char path[4096], const char *name, const char *end)
{
    const char *srcdir = getenv("srcdir"); /* set by automake's harness */
    snprintf(path, 4096, "%s/tests/parity/tokenizers/%s%s",
             srcdir ? srcdir : ".", name, end);
}

static int load_reference(void **state)
{
    char path[4096];
    (void)state;
    fixture_path(path, "reference", ".json");
    reference = json_load_file(path, JSON_ALLOW_NUL, NULL);
    return reference ? 0 : -1;
}

static int drop_reference(void **state)
{
    (void)state;
    json_decref(reference);
    return 0;
}

static void expect_ids(const struct dt_tokens *tokens, const json_t *ids,
                       size_t text)
{
    for (size_t i = 0; i < json_array_size(ids) || i < tokens->count; i++) {
        long expected = i < json_array_size(ids)
                            ? (long)json_integer_value(json_array_get(ids, i))
                            : -1;
        long got = i < tokens->count ? tokens->ids[i] : -1;
        if (got != expected)
            fail_msg("text %zu, token %zu: expected %ld, got %ld", text, i,
                     expected, got);
    }
}

/* The stream of ids gives the reference's text. */
static void expect_text(const struct dt_tokenizer *tokenizer,
                        const struct dt_tokens *tokens, bool skip_special,
                        const json_t *expected, size_t text)
{
    struct dt_detokenizer state = {.tokenizer = tokenizer,
                                   .skip_special = skip_special};
    char out[4096];
    size_t n = 0;
    if (json_is_null(expected))
        return;
    for (size_t i = 0; i < tokens->count; i++)
        n += dt_detokenize(&state, tokens->ids[i], out + n, sizeof(out) - n);
    n += dt_detokenize_end(&state, out + n, sizeof(out) - n);
    if (n != json_string_length(expected) ||
        memcmp(out, json_string_value(expected), n) != 0)
        fail_msg("text %zu: expected \"%s\", got \"%s\"", text,
                 json_string_value(expected), out);
}

static uint32_t draw(uint32_t end)
{
    static uint64_t random = 1;
    random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (uint32_t)(random >> 33) % end;
}

/* Words of all lengths, many of which begin and end alike. */
static size_t make_text(char *out, size_t room)
{
    static const char *const parts[] = {"a",      "th", "e", "\u00e9",
                                        "\u4e2d", "B",  "-", "in",
                                        "1",      "\n", "=", "  "};
    size_t n = 0;
    while (n + 128 < room) {
        const char *end = parts[draw(4)];
        out[n++] = ' ';
        for (uint32_t count = draw(2) ? 1 + draw(4) : draw(14); count > 0;
             count--) {
            const char *part = parts[draw(draw(3) ? 5 : 12)];
            memcpy(out + n, part, strlen(part));
            n += strlen(part);
        }
        memcpy(out + n, end, strlen(end));
        n += strlen(end);
    }
    return n;
}

/* What an encoder remembers of the pieces before changes no token. */
static void expect_the_same_anew(const struct dt_tokenizer *tokenizer,
                                 struct dt_encoder *used)
{
    struct dt_tokens a = {0}, b = {0};
    struct dt_error err;
    char text[4096];
    for (int i = 0; i < 12; i++) {
        const size_t n = make_text(text, sizeof(text));
        const unsigned flags = i % 2 ? DT_ENCODE_OFFSETS : 0;
        struct dt_encoder *fresh = dt_encoder_create(tokenizer, &err);
        assert_int_equal(dt_encode(used, text, n, flags, &a, &err), 0);
        assert_int_equal(dt_encode(fresh, text, n, flags, &b, &err), 0);
        assert_int_equal(a.count, b.count);
        assert_memory_equal(a.ids, b.ids, a.count * sizeof(*a.ids));
        if (flags) {
            assert_memory_equal(a.begin, b.begin, a.count * sizeof(*a.begin));
            assert_memory_equal(a.end, b.end, a.count * sizeof(*a.end));
        }
        dt_encoder_destroy(fresh);
    }
    dt_tokens_fini(&a);
    dt_tokens_fini(&b);
}

static void ids_match_the_reference(void **state)
{
    const json_t *expected = json_object_get(reference, *state);
    const json_t *texts = json_object_get(reference, "texts");
    struct dt_error err = {0};
    struct dt_tokens tokens = {0};
    char path[4096];
    const bool plain = json_is_true(json_object_get(expected, "plain"));
    const unsigned flags = plain ? 0 : DT_ENCODE_POST | DT_ENCODE_SPECIAL;
    fixture_path(path, *state, plain ? ".model" : ".json");
    struct dt_tokenizer *tokenizer = dt_tokenizer_load(path, &err);
    if (!tokenizer)
        fail_msg("%s", err.text);
    struct dt_encoder *encoder = dt_encoder_create(tokenizer, &err);
    assert_true(json_array_size(texts) > 20);
    /* twice: from the cache, and with offsets */
    for (unsigned offsets = 0; offsets <= DT_ENCODE_OFFSETS;
         offsets += DT_ENCODE_OFFSETS)
        for (size_t i = 0; i < json_array_size(texts); i++) {
            const json_t *text = json_array_get(texts, i);
            assert_int_equal(dt_encode(encoder, json_string_value(text),
                                       json_string_length(text),
                                       flags | offsets, &tokens, &err),
                             0);
            expect_ids(&tokens,
                       json_array_get(json_object_get(expected, "ids"), i), i);
            expect_text(tokenizer, &tokens, false,
                        json_array_get(json_object_get(expected, "kept"), i),
                        i);
            expect_text(tokenizer, &tokens, true,
                        json_array_get(json_object_get(expected, "skipped"), i),
                        i);
        }
    expect_the_same_anew(tokenizer, encoder);
    dt_tokens_fini(&tokens);
    dt_encoder_destroy(encoder);
    dt_tokenizer_destroy(tokenizer);
}

#define FAMILY(name)                                                           \
    {                                                                          \
#name, ids_match_the_reference, NULL, NULL, (void *)(uintptr_t) #name  \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        FAMILY(gpt2),          FAMILY(llama3),
        FAMILY(qwen),          FAMILY(cased),
        FAMILY(llama2),        FAMILY(mistral),
        FAMILY(gemma),         FAMILY(t5),
        FAMILY(xlmr),          FAMILY(albert),
        FAMILY(unigram_bytes), FAMILY(words),
        FAMILY(plain),         FAMILY(sp_unigram),
        FAMILY(sp_bytes),      FAMILY(sp_llama),
        FAMILY(sp_bpe),        FAMILY(sp_suffix),
        FAMILY(sp_bare),
    };
    return cmocka_run_group_tests(tests, load_reference, drop_reference);
}
