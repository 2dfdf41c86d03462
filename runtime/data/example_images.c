/* SPDX-License-Identifier: Apache-2.0 */
/* example_images.c - the words about images that an example begins with */
#include "config.h"

#include "data/example.h"

enum {
    HEAD_WORDS = 2,
    HASH_WORDS = DT_SHA256_BYTES / sizeof(uint32_t),
    IMAGE_WORDS = HASH_WORDS + 3, /* and a word for each picture */
};

size_t dt_example_images_words(const struct dt_example_image *images,
                               size_t count)
{
    size_t words = HEAD_WORDS + count * IMAGE_WORDS;
    for (size_t i = 0; i < count; i++)
        words += images[i].pictures;
    return words;
}

void dt_example_images_write(uint32_t *example,
                             const struct dt_example_image *images,
                             size_t count)
{
    uint32_t *to = example;
    *to++ = (uint32_t)count;
    *to++ = 0;
    for (size_t i = 0; i < count; i++) {
        const struct dt_example_image *image = &images[i];
        memcpy(to, image->sha256, sizeof(image->sha256));
        to += HASH_WORDS;
        *to++ = image->height;
        *to++ = image->width;
        *to++ = image->pictures;
        memcpy(to, image->first, image->pictures * sizeof(*to));
        to += image->pictures;
    }
}

void dt_example_set_line(uint32_t *example, uint64_t line)
{
    example[1] = line < UINT32_MAX ? (uint32_t)line : UINT32_MAX;
}

/* Whether the words of so many images are all there, and their pictures' first
 * tokens are in order; sets the end of the words and of the last first token.
 */
static bool check_images(const uint32_t *at, const uint32_t *end, size_t images,
                         const uint32_t **tokens, uint64_t *after)
{
    *after = 0;
    for (size_t i = 0; i < images; i++) {
        if ((size_t)(end - at) < IMAGE_WORDS)
            return false;
        const uint32_t pictures = at[IMAGE_WORDS - 1];
        at += IMAGE_WORDS;
        if (pictures == 0 || pictures > (size_t)(end - at))
            return false;
        for (uint32_t p = 0; p < pictures; p++) {
            if (at[p] < *after)
                return false;
            *after = (uint64_t)at[p] + 1;
        }
        at += pictures;
    }
    *tokens = at;
    return true;
}

bool dt_example_find(const uint32_t *example, size_t count,
                     struct dt_example_parts *parts)
{
    uint64_t after;
    *parts = (struct dt_example_parts){0};
    if (count < HEAD_WORDS ||
        !check_images(example + HEAD_WORDS, example + count, example[0],
                      &parts->tokens, &after))
        return false;
    parts->token_count = (size_t)(example + count - parts->tokens);
    parts->images = example[0];
    parts->line = example[1];
    parts->next = example + HEAD_WORDS;
    return after <= parts->token_count;
}

bool dt_example_next_image(struct dt_example_parts *parts,
                           struct dt_example_image *image)
{
    const uint32_t *at = parts->next;
    if (parts->images == 0)
        return false;
    memcpy(image->sha256, at, sizeof(image->sha256));
    at += HASH_WORDS;
    image->height = at[0];
    image->width = at[1];
    image->pictures = at[2];
    image->first = at + 3;
    parts->next = image->first + image->pictures;
    parts->images--;
    return true;
}
