/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_charsmap.c - any bytes as a table of SentencePiece, and any text
 *                   through it
 *
 * The first byte is the length of the text, which comes next.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "tokenizer/tokenizer_impl.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void apply(const struct dt_tok_charsmap *map, const char *s, size_t n)
{
    struct dt_error err = {0};
    struct dt_tok_text text = {0};
    struct dt_tok_span span = {.s = s, .n = n, .first = true};
    const char *to;
    size_t bytes;
    for (int offsets = 0; offsets < 2; offsets++) {
        dt_tok_text_clear(&text, offsets);
        if (dt_tok_charsmap_apply(map, &span, &text, &err) < 0 && !err.text[0])
            abort();
        if (dt_utf8_check(text.bytes, text.count) < text.count)
            abort();
    }
    for (size_t i = 0; i < n; i++)
        if (dt_tok_charsmap_prefix(map, s + i, n - i, &to, &bytes, &err) >
            (int)(n - i))
            abort();
    dt_tok_text_fini(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct dt_error err = {0};
    if (size == 0 || data[0] >= size)
        return 0;
    const size_t n = data[0];
    struct dt_tok_charsmap *map =
        dt_tok_charsmap_create(data + 1 + n, size - 1 - n, &err);
    if (!map && !err.text[0])
        abort();
    if (map && dt_utf8_check(data + 1, n) == n)
        apply(map, (const char *)data + 1, n);
    dt_tok_charsmap_destroy(map);
    return 0;
}
