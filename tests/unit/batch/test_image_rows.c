/* SPDX-License-Identifier: Apache-2.0 */
/* test_image_rows.c - examples with images into rows: no image is cut */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/batch/memory_images.h"

enum { NO = DT_IGNORE, LONGEST = 40 };

static struct dt_image_processor pixels;
/* Tiles of 4 x 4 pixels have 4 patches and 2 tokens; an image of 8 x 8 pixels
 * has 5 of them.
 */
static struct dt_image_processor tiles;
static struct dt_example_images of_pixels = {.processor = &pixels};
static struct dt_example_images of_tiles = {.processor = &tiles};

static int setup(void **state)
{
    (void)state;
    pixels = small_processor();
    tiles = (struct dt_image_processor){.kind = DT_IMAGE_TILES,
                                        .limits = dt_image_limits_usual,
                                        .longest = 8,
                                        .tile = 4,
                                        .split = true,
                                        .patch = 2,
                                        .merge = 1,
                                        .temporal = 1,
                                        .tokens = 2};
    return 0;
}

static struct dt_rows_options options_of(size_t T, enum dt_packing packing)
{
    return (struct dt_rows_options){.T = T,
                                    .packing = packing,
                                    .end = 1.0,
                                    .vocab_size = VOCAB,
                                    .images = &of_pixels};
}

/* A row that is read: its values and its images. */
struct seen {
    int32_t inputs[LONGEST], targets[LONGEST], doc_start[LONGEST];
    struct dt_picture_image images[LONGEST];
    struct dt_batch_picture pictures[LONGEST];
    struct dt_pictures found;
};

static void read_row(struct seen *seen, const struct dt_rows *rows, size_t i)
{
    struct dt_row row = {seen->inputs, seen->targets, seen->doc_start, 0,
                         &seen->found};
    struct dt_error err;
    seen->found = (struct dt_pictures){.images = seen->images,
                                       .pictures = seen->pictures};
    if (dt_rows_read(rows, i, LONGEST, &row, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(seen->found.picture_count, dt_rows_pictures(rows, i));
    size_t targets = 0, patches = 0;
    for (size_t t = 0; t < LONGEST; t++)
        targets += seen->targets[t] != DT_IGNORE;
    assert_int_equal(row.target_count, targets);
    for (size_t p = 0; p < seen->found.picture_count; p++)
        patches += (size_t)seen->pictures[p].height * seen->pictures[p].width;
    assert_int_equal(patches, dt_rows_patches(rows, i));
}

static void tokens_of_an_image_have_no_input_and_no_target(void **state)
{
    static struct dt_examples examples;
    const struct dt_rows_options options = options_of(10, DT_PACK_NONE);
    struct seen seen;
    (void)state;
    examples.count = 0;
    add_example(&examples, &pixels,
                (struct segment[]){{2, 4, 8, NULL}, {2, 0, 0, NULL}}, 2);
    struct dt_rows *rows = make_rows(&examples, &options);
    assert_ptr_equal(dt_rows_images(rows), &of_pixels);
    read_row(&seen, rows, 0);
    static const int32_t inputs[] = {1, 2, -1, -1, 5, 6, 0};
    static const int32_t targets[] = {2, NO, NO, 5, 6, NO, NO};
    assert_memory_equal(seen.inputs, inputs, sizeof(inputs));
    assert_memory_equal(seen.targets, targets, sizeof(targets));
    assert_int_equal(seen.found.image_count, 1);
    assert_int_equal(seen.images[0].height, 4);
    assert_int_equal(seen.images[0].width, 8);
    assert_int_equal(seen.pictures[0].height, 2);
    assert_int_equal(seen.pictures[0].width, 4);
    assert_int_equal(seen.pictures[0].first, 2);
    assert_int_equal(seen.pictures[0].tokens, 2);
    dt_rows_destroy(rows);
}

/* The id of the placeholder may be none of the model's, until it is learned. */
static void a_placeholder_is_a_target_if_it_has_the_bit(void **state)
{
    static struct dt_examples examples;
    struct dt_rows_options options = options_of(10, DT_PACK_NONE);
    struct seen seen;
    struct dt_error err;
    (void)state;
    examples.count = 0;
    add_example(&examples, &pixels,
                (struct segment[]){{1, 4, 8, NULL}, {1, 0, 0, NULL}}, 2);
    uint32_t *tokens = examples.words[0] + examples.lengths[0] - 4;
    tokens[1] |= DT_TARGET_BIT;
    options.vocab_size = PLACEHOLDER + 1;
    struct dt_rows *rows = make_rows(&examples, &options);
    read_row(&seen, rows, 0);
    static const int32_t inputs[] = {1, -1, -1, 4};
    static const int32_t targets[] = {PLACEHOLDER, NO, 4, NO};
    assert_memory_equal(seen.inputs, inputs, sizeof(inputs));
    assert_memory_equal(seen.targets, targets, sizeof(targets));
    dt_rows_destroy(rows);
    options.vocab_size = PLACEHOLDER;
    rows = make_rows(&examples, &options);
    struct dt_row row = {seen.inputs, seen.targets, seen.doc_start, 0,
                         &seen.found};
    seen.found.image_count = seen.found.picture_count = 0;
    assert_int_equal(dt_rows_read(rows, 0, 10, &row, &err), -1);
    assert_string_equal(err.text,
                        "data: token id 99999, but the model's vocab_size is "
                        "99999: is this the tokenizer of the model?");
    dt_rows_destroy(rows);
}

/* Whether token t, from the begin of the example, is within an image: not the
 * first of one. The example has 3 of text, 4 of an image, 4 of another, 2 of
 * text, 3 of an image.
 */
static bool is_inside(size_t t)
{
    return (t > 3 && t < 7) || (t > 7 && t < 11) || (t > 13 && t < 16);
}

static void add_borders(struct dt_examples *examples)
{
    examples->count = 0;
    add_example(
        examples, &pixels,
        (struct segment[]){{3, 8, 8, NULL}, {0, 16, 4, NULL}, {2, 4, 12, NULL}},
        3);
}

/* The images whose tokens are all in [begin, end). */
static size_t images_in(size_t begin, size_t end)
{
    return (begin <= 3 && end >= 7) + (begin <= 7 && end >= 11) +
           (begin <= 13 && end >= 16);
}

/* Every length of a row, so that it ends before, at and after each border. */
static void truncation_cuts_no_image(void **state)
{
    static struct dt_examples examples;
    struct seen seen;
    (void)state;
    add_borders(&examples);
    for (size_t T = 2; T <= 17; T++)
        for (int keep_end = 0; keep_end < 2; keep_end++) {
            struct dt_rows_options options = options_of(T, DT_PACK_BFD);
            size_t begin = 0, end = 16;
            options.keep_end = keep_end;
            if (T < 16 && keep_end)
                for (begin = 16 - T; is_inside(begin);)
                    begin++;
            else if (T < 16)
                for (end = T; is_inside(end);)
                    end--;
            /* with keep_end and T 4, an image's targets follow nothing */
            const struct dt_rows_source source = {&examples, 1.0};
            struct dt_error err;
            struct dt_rows *rows =
                dt_rows_of_examples(&source, 1, &options, &err);
            if (keep_end && T < 5) { /* text, but nothing that predicts it */
                assert_null(rows);
                continue;
            }
            assert_non_null(rows);
            assert_int_equal(dt_rows_count(rows), 1);
            assert_int_equal(dt_rows_length(rows, 0), end - begin);
            struct dt_rows_stats stats = dt_rows_stats(rows);
            assert_int_equal(stats.truncated, T < 16);
            assert_int_equal(stats.images, images_in(begin, end));
            assert_int_equal(stats.images_cut, 3 - images_in(begin, end));
            assert_int_equal(stats.pictures, stats.images);
            assert_int_equal(stats.patches, dt_rows_patches(rows, 0));
            read_row(&seen, rows, 0);
            assert_int_equal(seen.found.image_count, stats.images);
            static const size_t first[] = {3, 7, 13}, tokens[] = {4, 4, 3};
            for (size_t i = 0, of = 0; i < 3; i++) {
                if (first[i] < begin || first[i] + tokens[i] > end)
                    continue;
                assert_int_equal(seen.pictures[of].first, first[i] - begin);
                assert_int_equal(seen.pictures[of++].tokens, tokens[i]);
            }
            for (size_t t = begin; t < end; t++) {
                const bool text = t < 3 || t == 11 || t == 12;
                assert_int_equal(seen.inputs[t - begin],
                                 text ? (int32_t)t + 1 : -1);
            }
            dt_rows_destroy(rows);
        }
}

/* Of an image in tiles, neither tiles nor the text between them are cut off. */
static void tiles_of_an_image_stay_together(void **state)
{
    static struct dt_examples examples;
    struct dt_rows_options options = options_of(17, DT_PACK_NONE);
    struct seen seen;
    (void)state;
    options.images = &of_tiles;
    examples.count = 0;
    add_example(&examples, &tiles,
                (struct segment[]){{2, 8, 8, NULL}, {1, 0, 0, NULL}}, 2);
    struct dt_rows *rows = make_rows(&examples, &options);
    read_row(&seen, rows, 0);
    assert_int_equal(seen.found.image_count, 1);
    assert_int_equal(seen.found.picture_count, 5);
    for (size_t p = 0; p < 5; p++) {
        assert_int_equal(seen.pictures[p].first, 2 + 3 * p);
        assert_int_equal(seen.pictures[p].tokens, 2);
        assert_int_equal(seen.pictures[p].height, 2);
        if (p > 0) /* text between tiles is text */
            assert_int_equal(seen.inputs[1 + 3 * p], 2 + 3 * p);
    }
    assert_int_equal(seen.inputs[16], 17);
    dt_rows_destroy(rows);
    options.T = 16; /* the image ends with the row */
    rows = make_rows(&examples, &options);
    assert_int_equal(dt_rows_length(rows, 0), 16);
    assert_int_equal(dt_rows_stats(rows).pictures, 5);
    dt_rows_destroy(rows);
    options.T = 15; /* the last tile does not fit, so the first goes, too */
    rows = make_rows(&examples, &options);
    assert_int_equal(dt_rows_length(rows, 0), 2);
    assert_int_equal(dt_rows_stats(rows).pictures, 0);
    assert_int_equal(dt_rows_stats(rows).images_cut, 1);
    read_row(&seen, rows, 0);
    dt_rows_destroy(rows);
}

/* The pieces of a split example have all tokens, but those of an image that is
 * longer than a row.
 */
static void a_split_example_continues_with_the_image(void **state)
{
    static struct dt_examples examples;
    struct seen seen;
    (void)state;
    add_borders(&examples);
    for (size_t T = 3; T <= 17; T++) {
        const struct dt_rows_options options = options_of(T, DT_PACK_BFD_SPLIT);
        struct dt_rows *rows = make_rows(&examples, &options);
        struct dt_rows_stats stats = dt_rows_stats(rows);
        int32_t text = 0;
        size_t images = 0;
        assert_int_equal(stats.images, T < 4 ? 1 : 3);
        assert_int_equal(stats.images_cut, T < 4 ? 2 : 0);
        assert_int_equal(stats.truncated, 0);
        assert_int_equal(stats.tokens, T < 4 ? 8 : 16);
        for (size_t i = 0; i < dt_rows_count(rows); i++) {
            assert_true(dt_rows_length(rows, i) <= T);
            read_row(&seen, rows, i);
            images += seen.found.image_count;
            for (size_t t = 0; t < dt_rows_length(rows, i); t++)
                text += seen.inputs[t] > 0;
        }
        assert_int_equal(images, stats.images);
        assert_int_equal(text, 5);
        dt_rows_destroy(rows);
    }
}

/* Rows of several examples, of which some have no image and one has two. */
static void pictures_follow_their_tokens_through_packing(void **state)
{
    static struct dt_examples examples;
    const struct dt_rows_options options = options_of(12, DT_PACK_BFD);
    struct seen seen;
    size_t pictures = 0;
    (void)state;
    examples.count = 0;
    add_example(&examples, &pixels,
                (struct segment[]){{2, 4, 4, NULL}, {2, 0, 0, NULL}}, 2);
    add_example(&examples, &pixels, (struct segment[]){{7, 0, 0, NULL}}, 1);
    add_example(
        &examples, &pixels,
        (struct segment[]){{0, 4, 8, NULL}, {1, 8, 4, NULL}, {2, 0, 0, NULL}},
        3);
    add_example(&examples, &pixels, (struct segment[]){{4, 8, 8, NULL}}, 1);
    struct dt_rows *rows = make_rows(&examples, &options);
    assert_int_equal(dt_rows_count(rows), 3);
    for (size_t i = 0; i < dt_rows_count(rows); i++) {
        int32_t masked[LONGEST] = {0};
        read_row(&seen, rows, i);
        pictures += seen.found.picture_count;
        for (size_t p = 0; p < seen.found.picture_count; p++) {
            const struct dt_batch_picture *picture = &seen.pictures[p];
            for (size_t t = 0; t < picture->tokens; t++) {
                masked[picture->first + t] = -1;
                assert_int_equal(seen.doc_start[picture->first + t],
                                 seen.doc_start[picture->first]);
            }
            const size_t next = picture->first + picture->tokens;
            if (seen.inputs[next] > 0) /* the token that follows knows */
                assert_int_equal(seen.inputs[next] % 1000 - 1,
                                 (int32_t)next - seen.doc_start[next]);
        }
        for (size_t t = 0; t < LONGEST; t++)
            assert_int_equal(seen.inputs[t] == -1, masked[t] == -1);
    }
    assert_int_equal(pictures, 4);
    dt_rows_destroy(rows);
}

/* A text has the same row, whether its data set may have images or not. */
static void text_among_images_is_as_text_alone(void **state)
{
    static struct dt_examples with, without;
    struct dt_rows_options options = options_of(6, DT_PACK_BFD);
    struct seen a, b;
    (void)state;
    with.count = without.count = 0;
    for (size_t i = 0; i < 5; i++) {
        const struct segment text = {3 + i, 0, 0, NULL};
        add_example(&with, &pixels, &text, 1);
        const size_t words = dt_example_images_words(NULL, 0);
        without.lengths[i] = with.lengths[i] - words;
        memcpy(without.words[i], with.words[i] + words,
               without.lengths[i] * sizeof(uint32_t));
        without.count++;
    }
    struct dt_rows *of_images = make_rows(&with, &options);
    options.images = NULL;
    struct dt_rows *of_text = make_rows(&without, &options);
    assert_null(dt_rows_images(of_text));
    assert_int_equal(dt_rows_count(of_images), dt_rows_count(of_text));
    for (size_t i = 0; i < dt_rows_count(of_text); i++) {
        read_row(&a, of_images, i);
        read_row(&b, of_text, i);
        assert_memory_equal(a.inputs, b.inputs, sizeof(a.inputs));
        assert_memory_equal(a.targets, b.targets, sizeof(a.targets));
        assert_memory_equal(a.doc_start, b.doc_start, sizeof(a.doc_start));
    }
    dt_rows_destroy(of_images);
    dt_rows_destroy(of_text);
}

/* An image without text after it is predicted by nobody, and predicts nothing.
 */
static void an_example_without_a_target_is_dropped(void **state)
{
    static struct dt_examples examples;
    const struct dt_rows_options options = options_of(4, DT_PACK_BFD);
    (void)state;
    examples.count = 0;
    add_example(&examples, &pixels, (struct segment[]){{0, 8, 8, NULL}}, 1);
    add_example(&examples, &pixels,
                (struct segment[]){{0, 8, 12, NULL}, {9, 0, 0, NULL}}, 2);
    add_example(&examples, &pixels,
                (struct segment[]){{0, 4, 8, NULL}, {2, 0, 0, NULL}}, 2);
    struct dt_rows *rows = make_rows(&examples, &options);
    struct dt_rows_stats stats = dt_rows_stats(rows);
    assert_int_equal(dt_rows_count(rows), 1);
    assert_int_equal(stats.dropped, 2);
    assert_int_equal(stats.truncated, 1);
    assert_int_equal(stats.images_cut, 1);
    assert_int_equal(stats.images, 1);
    assert_int_equal(dt_rows_pictures(rows, 0), 1);
    dt_rows_destroy(rows);
}

static void check_refused(const struct dt_examples *examples,
                          const struct dt_rows_options *options, int status,
                          const char *text)
{
    const struct dt_rows_source source = {examples, 1.0};
    struct dt_error err;
    assert_null(dt_rows_of_examples(&source, 1, options, &err));
    assert_string_equal(err.text, text);
    assert_int_equal(err.status, status);
}

/* The usual mistake: an image of a photo's size, and rows as for text. */
static void images_longer_than_rows_are_named_as_the_cause(void **state)
{
    static struct dt_examples examples;
    const struct dt_rows_options options = options_of(4, DT_PACK_BFD);
    (void)state;
    examples.count = 0;
    add_example(&examples, &pixels,
                (struct segment[]){{1, 8, 12, NULL}, {9, 0, 0, NULL}}, 2);
    check_refused(&examples, &options, EX_DATAERR,
                  "data: none of 1 examples is left to train on (1 have no "
                  "target within max_length 4): their images have more tokens: "
                  "raise data.max_length or lower data.image_max_pixels");
}

/* Texts alone may be wrapped, where other examples could have images. */
static void wrapping_images_is_refused(void **state)
{
    static struct dt_examples examples;
    struct dt_rows_options options = options_of(4, DT_PACK_WRAPPED);
    struct seen seen;
    (void)state;
    options.in_order = true;
    examples.count = 0;
    add_example(&examples, &pixels, (struct segment[]){{9, 0, 0, NULL}}, 1);
    struct dt_rows *rows = make_rows(&examples, &options); /* of one text */
    assert_int_equal(dt_rows_count(rows), 2);
    read_row(&seen, rows, 1);
    static const int32_t inputs[] = {5, 6, 7, 8}, targets[] = {6, 7, 8, 9};
    assert_memory_equal(seen.inputs, inputs, sizeof(inputs));
    assert_memory_equal(seen.targets, targets, sizeof(targets));
    dt_rows_destroy(rows);
    add_example(&examples, &pixels, (struct segment[]){{4, 0, 0, NULL}}, 1);
    rows = make_rows(&examples, &options);
    assert_int_equal(dt_rows_count(rows), 3);
    assert_int_equal(dt_rows_pictures(rows, 2), 0);
    dt_rows_destroy(rows);
    add_example(&examples, &pixels,
                (struct segment[]){{2, 4, 4, NULL}, {3, 0, 0, NULL}}, 2);
    check_refused(&examples, &options, EX_CONFIG,
                  "data: example 3 has images, which data.packing: wrapped "
                  "would cut at the ends of rows: use bfd, bfd_split or none");
}

static void examples_of_other_images_are_refused(void **state)
{
    static struct dt_examples examples;
    struct dt_rows_options options = options_of(20, DT_PACK_NONE);
    (void)state;
    add_borders(&examples);
    add_example(&examples, &pixels,
                (struct segment[]){{1, 8, 8, NULL}, {0, 8, 8, NULL}}, 2);
    /* word 0: images; 10, 11: size; 12: pictures; 13: the first token */
    uint32_t *words = examples.words[1];
    words[0] = 3;
    check_refused(&examples, &options, EX_DATAERR,
                  "data: example 2 of the cache: damaged: its images are not "
                  "among its tokens: remove the cache");
    words[0] = 2;
    words[10] = 12; /* 6 tokens, of which the next image has two */
    check_refused(&examples, &options, EX_DATAERR,
                  "data: example 2 of the cache: damaged: its images are not "
                  "among its tokens: remove the cache");
    words[10] = 40000;
    check_refused(&examples, &options, EX_DATAERR,
                  "data: example 2 of the cache: an image of 8 x 40000 pixels: "
                  "a side has at most 16384");
    words[10] = 8;
    options.images = &of_tiles;
    check_refused(&examples, &options, EX_DATAERR,
                  "data: example 1 of the cache: an image of 8 x 8 pixels has "
                  "other tokens than this image processor gives it: remove the "
                  "cache");
    options.images = &of_pixels;
    words[25] = 6; /* the last token of the last image is missing */
    check_refused(&examples, &options, EX_DATAERR,
                  "data: example 2 of the cache: damaged: its images are not "
                  "among its tokens: remove the cache");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens_of_an_image_have_no_input_and_no_target),
        cmocka_unit_test(a_placeholder_is_a_target_if_it_has_the_bit),
        cmocka_unit_test(truncation_cuts_no_image),
        cmocka_unit_test(tiles_of_an_image_stay_together),
        cmocka_unit_test(a_split_example_continues_with_the_image),
        cmocka_unit_test(pictures_follow_their_tokens_through_packing),
        cmocka_unit_test(text_among_images_is_as_text_alone),
        cmocka_unit_test(an_example_without_a_target_is_dropped),
        cmocka_unit_test(images_longer_than_rows_are_named_as_the_cause),
        cmocka_unit_test(wrapping_images_is_refused),
        cmocka_unit_test(examples_of_other_images_are_refused),
    };
    return cmocka_run_group_tests_name("image rows", tests, setup, NULL);
}
