/* SPDX-License-Identifier: Apache-2.0 */
/* memory_images.h - examples with images in memory, instead of a cache */
#ifndef DT_TESTS_UNIT_MEMORY_IMAGES_H
#define DT_TESTS_UNIT_MEMORY_IMAGES_H

#include "batch/rows.h"
#include "tests/unit/batch/memory_examples.h"

/* Token t of example i is 1000 i + t + 1 and a target; tokens of pictures are
 * PLACEHOLDER and none.
 */
enum {
    MAX_IMAGES = 8,
    MAX_TILES = 32,
    PLACEHOLDER = 99999,
    VOCAB = PLACEHOLDER,
};

/* An image of 4 h x 4 w pixels has 4 h w patches and h w tokens. */
static inline struct dt_image_processor small_processor(void)
{
    return (struct dt_image_processor){.kind = DT_IMAGE_PIXELS,
                                       .limits = dt_image_limits_usual,
                                       .min_pixels = 16,
                                       .max_pixels = 16000,
                                       .patch = 2,
                                       .merge = 2,
                                       .temporal = 1};
}

/* Some tokens of text, then an image, if it has a size; of several tiles each
 * but the first has a token of text before it.
 */
struct segment {
    size_t text;
    uint32_t height, width;
    const uint8_t *sha256; /* NULL: zeros */
};

/* Writes the tokens of a segment from number n on. Returns the next number. */
static size_t put_segment(uint32_t *tokens, size_t n, size_t example,
                          const struct segment *segment,
                          const struct dt_image_plan *plan, uint32_t *first)
{
    for (size_t end = n + segment->text; n < end; n++)
        tokens[n] = DT_TARGET_BIT | (uint32_t)(1000 * example + n + 1);
    for (uint32_t p = 0; segment->height > 0 && p < plan->tiles; p++) {
        if (p > 0) {
            tokens[n] = DT_TARGET_BIT | (uint32_t)(1000 * example + n + 1);
            n++;
        }
        first[p] = (uint32_t)n;
        for (size_t end = n + plan->tokens / plan->tiles; n < end; n++)
            tokens[n] = PLACEHOLDER;
    }
    return n;
}

/* Adds an example of these segments. */
static void add_example(struct dt_examples *examples,
                        const struct dt_image_processor *processor,
                        const struct segment *segments, size_t count)
{
    static uint32_t first[MAX_IMAGES][MAX_TILES];
    struct dt_example_image images[MAX_IMAGES];
    uint32_t tokens[MAX_WORDS];
    size_t n = 0, image_count = 0;
    const size_t i = examples->count++;
    assert_true(i < MAX_EXAMPLES);
    for (size_t s = 0; s < count; s++) {
        const struct segment *segment = &segments[s];
        struct dt_image_plan plan = {0};
        struct dt_error err;
        if (segment->height > 0 &&
            dt_image_plan(&plan, processor, segment->height, segment->width,
                          &err) < 0)
            fail_msg("%s", err.text);
        assert_true(plan.tiles <= MAX_TILES && image_count < MAX_IMAGES);
        n = put_segment(tokens, n, i, segment, &plan, first[image_count]);
        if (segment->height == 0)
            continue;
        struct dt_example_image *image = &images[image_count];
        *image = (struct dt_example_image){
            .height = segment->height,
            .width = segment->width,
            .pictures = plan.tiles,
            .first = first[image_count],
        };
        if (segment->sha256)
            memcpy(image->sha256, segment->sha256, sizeof(image->sha256));
        image_count++;
    }
    const size_t words = dt_example_images_words(images, image_count);
    assert_true(words + n <= MAX_WORDS);
    dt_example_images_write(examples->words[i], images, image_count);
    dt_example_set_line(examples->words[i], 10 * (i + 1));
    memcpy(examples->words[i] + words, tokens, n * sizeof(*tokens));
    examples->lengths[i] = words + n;
}

static struct dt_rows *make_rows(const struct dt_examples *examples,
                                 const struct dt_rows_options *options)
{
    const struct dt_rows_source source = {examples, 1.0};
    struct dt_error err;
    struct dt_rows *rows = dt_rows_of_examples(&source, 1, options, &err);
    if (!rows)
        fail_msg("%s", err.text);
    return rows;
}

#endif /* DT_TESTS_UNIT_MEMORY_IMAGES_H */
