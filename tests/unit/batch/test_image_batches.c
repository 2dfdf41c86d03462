/* SPDX-License-Identifier: Apache-2.0 */
/* test_image_batches.c - the pixels of batches, whoever makes them */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "batch/loader.h"
#include "image/store.h"
#include "tests/unit/batch/memory_images.h"
#include "tests/unit/image/image_files.h"
#include "tests/unit/scratch.h"

/* Files that every build decodes: two are turned, one is gray. */
static const char *const names[] = {"rgb.jpg",  "turned6.jpg", "p.png",
                                    "gray.jpg", "turned.png",  "rgb.png"};

enum { FILES = sizeof(names) / sizeof(names[0]), EXAMPLES = 11 };

static struct dt_image_processor pixels, tiles;
static char store_dir[600];
static struct dt_image_store store = {.dir = store_dir};
static struct dt_example_images options;

/* A file in the store. */
static struct stored {
    char name[DT_SHA256_HEX];
    uint8_t sha256[DT_SHA256_BYTES];
    uint32_t height, width;
} stored[FILES];

static struct dt_examples examples;

static int setup(void **state)
{
    (void)state;
    pixels = (struct dt_image_processor){.kind = DT_IMAGE_PIXELS,
                                         .filter = DT_IMAGE_BICUBIC,
                                         .limits = dt_image_limits_usual,
                                         .min_pixels = 56 * 56,
                                         .max_pixels = 20 * 28 * 28,
                                         .patch = 14,
                                         .merge = 2,
                                         .temporal = 2};
    tiles = (struct dt_image_processor){.kind = DT_IMAGE_TILES,
                                        .filter = DT_IMAGE_LANCZOS,
                                        .limits = dt_image_limits_usual,
                                        .longest = 84,
                                        .tile = 28,
                                        .split = true,
                                        .patch = 14,
                                        .merge = 1,
                                        .temporal = 1,
                                        .tokens = 3};
    snprintf(store_dir, sizeof(store_dir), "%s", scratch_path("store"));
    if (mkdir(store_dir, 0777) < 0)
        return -1;
    options.store = &store;
    for (size_t i = 0; i < FILES; i++) {
        struct dt_image_info info;
        struct dt_error err;
        size_t bytes;
        uint8_t *data = image_read(names[i], &bytes);
        dt_sha256(data, bytes, stored[i].sha256);
        if (dt_image_store_put(&store, data, bytes, stored[i].name, &err) < 0 ||
            dt_image_info(&info, data, bytes, &dt_image_limits_usual, &err) < 0)
            fail_msg("%s: %s", names[i], err.text);
        free(data);
        stored[i].height = info.height;
        stored[i].width = info.width;
    }
    return 0;
}

static struct segment segment_of(size_t text, size_t file)
{
    return (struct segment){text, stored[file].height, stored[file].width,
                            stored[file].sha256};
}

/* The files of example i: none, one or two. Two examples have the same. */
static size_t files_of(size_t i, size_t files[2])
{
    files[0] = i % FILES;
    files[1] = (i + 1) % FILES;
    return i % 4 == 3 ? 0 : i % 4 == 2 ? 2 : 1;
}

static void add_examples(const struct dt_image_processor *processor)
{
    options.processor = processor;
    examples.count = 0;
    for (size_t i = 0; i < EXAMPLES; i++) {
        struct segment segments[3];
        size_t files[2], n = 0;
        const size_t count = files_of(i, files);
        for (; n < count; n++)
            segments[n] = segment_of(i % 3, files[n]);
        segments[n++] = (struct segment){2, 0, 0, NULL};
        add_example(&examples, processor, segments, n);
    }
}

static struct dt_rows *rows_of(enum dt_packing packing)
{
    const struct dt_rows_options opt = {.T = 200,
                                        .packing = packing,
                                        .end = 1.0,
                                        .vocab_size = VOCAB,
                                        .images = &options};
    return make_rows(&examples, &opt);
}

static const struct dt_loader_options usual = {.B = 2,
                                               .multiple_of = 4,
                                               .world = 1,
                                               .seed = 5,
                                               .shuffle = true,
                                               .repeat = true,
                                               .workers = 1,
                                               .prefetch = 3,
                                               .timeout_ms = 60000};

static struct dt_loader *must_create(const struct dt_rows *rows,
                                     const struct dt_loader_options *opt,
                                     uint64_t position)
{
    struct dt_error err;
    struct dt_loader *loader = dt_loader_create(rows, opt, position, &err);
    if (!loader)
        fail_msg("%s", err.text);
    return loader;
}

static bool next(struct dt_loader *loader, struct dt_batch *batch)
{
    struct dt_error err;
    int rc = dt_loader_next(loader, batch, &err);
    if (rc < 0)
        fail_msg("%s", err.text);
    return rc == 1;
}

/* The pixels of a file, from the decoder and the processor alone. */
static uint8_t *pixels_of(size_t file, struct dt_image_plan *plan)
{
    struct dt_image image;
    struct dt_error err;
    size_t bytes;
    uint8_t *data = image_read(names[file], &bytes);
    if (dt_image_decode(&image, data, bytes, &dt_image_limits_usual, &err) < 0)
        fail_msg("%s", err.text);
    free(data);
    assert_int_equal(
        dt_image_plan(plan, options.processor, image.height, image.width, &err),
        0);
    uint8_t *rows =
        malloc(plan->patches * dt_image_row_bytes(options.processor));
    assert_non_null(rows);
    assert_int_equal(dt_image_rows(rows, plan, options.processor, &image, &err),
                     0);
    dt_image_fini(&image);
    return rows;
}

/* The example of the document at position n: that of its last text. */
static size_t example_at(const struct dt_batch *batch, size_t n)
{
    while (batch->inputs[n] <= 0)
        n++;
    return (size_t)batch->inputs[n] / 1000;
}

/* Compares the pictures of a file with those of the batch from number *p on,
 * whose pixels begin at `from`. Returns where the next file's begin.
 */
static const uint8_t *check_file(const struct dt_batch *batch, size_t file,
                                 size_t *p, const uint8_t *from)
{
    struct dt_image_plan plan;
    uint8_t *expected = pixels_of(file, &plan);
    const size_t bytes = plan.patches * dt_image_row_bytes(options.processor);
    assert_memory_equal(from, expected, bytes);
    free(expected);
    for (uint32_t i = 0; i < plan.tiles; i++, ++*p) {
        const struct dt_batch_picture *picture = &batch->pictures[*p];
        assert_int_equal(picture->height, plan.grid_height);
        assert_int_equal(picture->width, plan.grid_width);
        assert_int_equal(picture->tokens, plan.tokens / plan.tiles);
    }
    return from + bytes;
}

/* All that a batch says of images follows from its examples, which its text
 * names. Returns its pictures.
 */
static size_t check_batch(const struct dt_batch *batch)
{
    const uint8_t *from = batch->pixels;
    size_t files[2], masked = 0, tokens = 0;
    for (size_t p = 0; p < batch->picture_count;) {
        const size_t first = batch->pictures[p].first;
        const size_t count = files_of(example_at(batch, first), files);
        assert_true(count > 0);
        for (size_t i = 0; i < count; i++)
            from = check_file(batch, files[i], &p, from);
    }
    for (size_t p = 0; p < batch->picture_count; p++) {
        const struct dt_batch_picture *picture = &batch->pictures[p];
        tokens += picture->tokens;
        for (size_t t = 0; t < picture->tokens; t++)
            assert_int_equal(batch->inputs[picture->first + t], -1);
        if (p > 0)
            assert_true(picture->first >=
                        picture[-1].first + picture[-1].tokens);
    }
    for (size_t n = 0; n < batch->B * batch->T; n++)
        masked += batch->inputs[n] == -1;
    assert_int_equal(masked, tokens);
    return batch->picture_count;
}

static void check_loader(const struct dt_rows *rows,
                         const struct dt_loader_options *opt, size_t batches)
{
    struct dt_loader_most most;
    struct dt_loader *loader = must_create(rows, opt, 0);
    assert_int_equal(dt_loader_most(rows, opt, &most, NULL), 0);
    for (size_t k = 0; k < batches; k++) {
        struct dt_batch batch;
        assert_true(next(loader, &batch));
        assert_true(check_batch(&batch) <= most.pictures);
    }
    dt_loader_destroy(loader);
}

/* Three epochs, with one row, several, and rows of few tokens. */
static void check_processor(const struct dt_image_processor *processor,
                            enum dt_packing packing)
{
    struct dt_loader_options opt = usual;
    add_examples(processor);
    struct dt_rows *rows = rows_of(packing);
    opt.B = 1;
    check_loader(rows, &opt, 33);
    opt.B = 3;
    check_loader(rows, &opt, 11);
    opt.tokens = dt_rows_max_length(rows);
    opt.accumulation = 2;
    check_loader(rows, &opt, 11);
    dt_rows_destroy(rows);
}

static void batches_have_the_pixels_of_their_images(void **state)
{
    (void)state;
    check_processor(&pixels, DT_PACK_NONE);
    check_processor(&pixels, DT_PACK_BFD);
    check_processor(&tiles, DT_PACK_NONE);
    check_processor(&tiles, DT_PACK_BFD);
}

static void assert_same(const struct dt_batch *a, const struct dt_batch *b)
{
    size_t patches = 0;
    assert_int_equal(a->T, b->T);
    assert_int_equal(a->picture_count, b->picture_count);
    assert_memory_equal(a->inputs, b->inputs, a->B * a->T * sizeof(*a->inputs));
    for (size_t p = 0; p < a->picture_count; p++) {
        assert_int_equal(a->pictures[p].first, b->pictures[p].first);
        assert_int_equal(a->pictures[p].tokens, b->pictures[p].tokens);
        patches += (size_t)a->pictures[p].height * a->pictures[p].width;
    }
    assert_memory_equal(a->pixels, b->pixels,
                        patches * dt_image_row_bytes(options.processor));
}

static void pixels_do_not_depend_on_the_thread_count(void **state)
{
    struct dt_loader_options opt = usual;
    struct dt_loader *loaders[3];
    (void)state;
    add_examples(&pixels);
    struct dt_rows *rows = rows_of(DT_PACK_NONE);
    for (size_t i = 0; i < 3; i++) {
        opt.workers = i + 1;
        loaders[i] = must_create(rows, &opt, 3);
    }
    for (size_t k = 0; k < 30; k++) {
        struct dt_batch batch[3];
        for (size_t i = 0; i < 3; i++)
            assert_true(next(loaders[i], &batch[i]));
        assert_same(&batch[0], &batch[1]);
        assert_same(&batch[0], &batch[2]);
    }
    for (size_t i = 0; i < 3; i++)
        dt_loader_destroy(loaders[i]);
    dt_rows_destroy(rows);
}

static void a_resumed_loader_has_the_same_pixels(void **state)
{
    struct dt_loader_options opt = usual;
    struct dt_batch a, b;
    (void)state;
    add_examples(&tiles);
    struct dt_rows *rows = rows_of(DT_PACK_NONE);
    struct dt_loader *whole = must_create(rows, &opt, 0);
    for (size_t k = 0; k < 7; k++)
        assert_true(next(whole, &a));
    opt.workers = 2;
    struct dt_loader *resumed =
        must_create(rows, &opt, dt_loader_position(whole));
    for (size_t k = 0; k < 7; k++) {
        assert_true(next(whole, &a) && next(resumed, &b));
        assert_same(&a, &b);
    }
    dt_loader_destroy(whole);
    dt_loader_destroy(resumed);
    dt_rows_destroy(rows);
}

/* Two ranks have, together, the rows of one. */
static void ranks_share_the_rows_of_one(void **state)
{
    struct dt_loader_options opt = usual;
    struct dt_batch batch;
    size_t pictures[2] = {0};
    (void)state;
    add_examples(&pixels);
    struct dt_rows *rows = rows_of(DT_PACK_NONE);
    for (opt.world = 1; opt.world < 3; opt.world++)
        for (opt.rank = 0; opt.rank < opt.world; opt.rank++) {
            opt.B = opt.world == 1 ? 4 : 2;
            struct dt_loader *loader = must_create(rows, &opt, 0);
            for (size_t k = 0; k < 11; k++) { /* four epochs */
                assert_true(next(loader, &batch));
                pictures[opt.world - 1] += check_batch(&batch);
            }
            dt_loader_destroy(loader);
        }
    assert_int_equal(pictures[0], 4 * dt_rows_stats(rows).pictures);
    assert_int_equal(pictures[1], pictures[0]);
    dt_rows_destroy(rows);
}

/* The pictures of a pass of all ranks, each of which has equally many batches.
 */
static size_t count_pass(const struct dt_rows *rows,
                         struct dt_loader_options opt)
{
    size_t pictures = 0, batches = 0;
    for (opt.rank = 0; opt.rank < opt.world; opt.rank++) {
        struct dt_batch batch;
        struct dt_loader *loader = must_create(rows, &opt, 0);
        size_t count = 0;
        for (; next(loader, &batch); count++)
            pictures += check_batch(&batch);
        dt_loader_destroy(loader);
        assert_true(opt.rank == 0 || count == batches);
        batches = count;
    }
    return pictures;
}

/* Rows of padding and batches that only make up the number have no picture. */
static void an_evaluation_has_every_picture_once(void **state)
{
    struct dt_loader_options opt = usual;
    struct dt_batch batch;
    (void)state;
    opt.repeat = opt.shuffle = false;
    opt.world = 3;
    opt.B = 6; /* 11 rows: the last rank has none */
    add_examples(&pixels);
    struct dt_rows *rows = rows_of(DT_PACK_NONE);
    assert_int_equal(count_pass(rows, opt), dt_rows_stats(rows).pictures);
    opt.tokens = dt_rows_max_length(rows);
    opt.accumulation = 1;
    assert_int_equal(count_pass(rows, opt), dt_rows_stats(rows).pictures);
    opt.rank = 2;
    opt.tokens = 0;
    struct dt_loader *loader = must_create(rows, &opt, 0);
    assert_true(next(loader, &batch));
    assert_int_equal(batch.picture_count, 0);
    dt_loader_destroy(loader);
    dt_rows_destroy(rows);
}

/* No example has an image, though each could. */
static void batches_without_an_image_have_no_picture(void **state)
{
    struct dt_loader_options opt = usual;
    struct dt_batch batch;
    (void)state;
    options.processor = &pixels;
    examples.count = 0;
    for (size_t i = 0; i < 3; i++)
        add_example(&examples, &pixels, (struct segment[]){{3 + i, 0, 0, NULL}},
                    1);
    struct dt_rows *rows = rows_of(DT_PACK_BFD);
    struct dt_loader *loader = must_create(rows, &opt, 0);
    assert_true(next(loader, &batch));
    assert_int_equal(batch.picture_count, 0);
    dt_loader_destroy(loader);
    dt_rows_destroy(rows);
}

/* The error of the first batch, whose example is the third. */
static void check_error(int status, const char *text)
{
    struct dt_loader_options opt = usual;
    struct dt_batch batch;
    struct dt_error err;
    char expected[2000];
    opt.shuffle = false;
    opt.B = 3;
    snprintf(expected, sizeof(expected), text, store_dir, stored[0].name,
             stored[0].name + 2);
    struct dt_rows *rows = rows_of(DT_PACK_NONE);
    struct dt_loader *loader = must_create(rows, &opt, 0);
    for (int i = 0; i < 2; i++) { /* it stays */
        assert_int_equal(dt_loader_next(loader, &batch, &err), -1);
        assert_string_equal(err.text, expected);
        assert_int_equal(err.status, status);
    }
    dt_loader_destroy(loader);
    dt_rows_destroy(rows);
}

/* Puts other bytes into the file of an image of the store. */
static void overwrite(const char *path, const uint8_t *data, size_t bytes)
{
    unlink(path);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, bytes, f), bytes);
    fclose(f);
}

static void add_third(struct segment segment)
{
    options.processor = &pixels;
    examples.count = 0;
    for (size_t i = 0; i < 2; i++)
        add_example(&examples, &pixels, (struct segment[]){{3, 0, 0, NULL}}, 1);
    add_example(&examples, &pixels,
                (struct segment[]){segment, {2, 0, 0, NULL}}, 2);
}

static void a_file_that_is_gone_or_damaged_is_named(void **state)
{
    char path[2000];
    size_t bytes;
    uint8_t *data = image_read(names[0], &bytes);
    (void)state;
    snprintf(path, sizeof(path), "%s/%.2s/%s", store_dir, stored[0].name,
             stored[0].name + 2);
    add_third(segment_of(1, 0));
    data[bytes / 2] ^= 1;
    overwrite(path, data, bytes);
    check_error(EX_DATAERR,
                "data: examples.jsonl:30: image 1: %s/%.2s/%s: damaged: its "
                "bytes are not those "
                "of its name; remove it and prepare the data again");
    unlink(path);
    check_error(EX_NOINPUT, "data: examples.jsonl:30: image 1: %s/%.2s/%s: "
                            "cannot open: No such file or "
                            "directory");
    data[bytes / 2] ^= 1;
    overwrite(path, data, bytes);
    free(data);
}

/* The example's words and the file disagree: the plan is that of the words. */
static void an_image_of_another_size_is_refused(void **state)
{
    struct segment segment = segment_of(1, 0);
    char text[300];
    (void)state;
    segment.width++;
    add_third(segment);
    snprintf(
        text, sizeof(text),
        "data: examples.jsonl:30: image 1: %u x %u pixels, but its example "
        "says %u x %u: remove the cache",
        stored[0].width, stored[0].height, stored[0].width + 1,
        stored[0].height);
    check_error(EX_DATAERR, text);
}

/* Bytes of the name, but no image; it is the second one of its example. */
static void a_file_that_is_no_image_is_named(void **state)
{
    struct segment segment = segment_of(1, 0);
    uint8_t sha256[DT_SHA256_BYTES];
    char name[DT_SHA256_HEX];
    (void)state;
    dt_sha256("text", 4, sha256);
    assert_int_equal(dt_image_store_put(&store, "text", 4, name, NULL), 0);
    segment.sha256 = sha256;
    add_third(segment_of(1, 0));
    examples.count--;
    add_example(&examples, &pixels,
                (struct segment[]){segment_of(1, 0), segment, {2, 0, 0, NULL}},
                3);
    check_error(EX_DATAERR,
                "data: examples.jsonl:30: image 2: not a JPEG, PNG or WebP "
                "file: it begins with 74 65 78 74");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batches_have_the_pixels_of_their_images),
        cmocka_unit_test(pixels_do_not_depend_on_the_thread_count),
        cmocka_unit_test(a_resumed_loader_has_the_same_pixels),
        cmocka_unit_test(ranks_share_the_rows_of_one),
        cmocka_unit_test(an_evaluation_has_every_picture_once),
        cmocka_unit_test(batches_without_an_image_have_no_picture),
        cmocka_unit_test(a_file_that_is_gone_or_damaged_is_named),
        cmocka_unit_test(an_image_of_another_size_is_refused),
        cmocka_unit_test(a_file_that_is_no_image_is_named),
    };
    return cmocka_run_group_tests_name("image batches", tests, setup, NULL);
}
