/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_image_pixels.c - every kind of image has the pixel values and the counts
 * of transformers, with each processor
 *
 * pixels.txt and counts.txt are what make_processors.py wrote.
 */
#include "config.h"

#include "base/sha256.h"
#include "tests/unit/image/processor_scene.h"

enum { COUNT = 10000 };

/* Every third line takes a sanitizer to each processor and image. */
#ifdef SANITIZER
enum { EACH = 3 };
#else
enum { EACH = 1 };
#endif

static json_t *processors;

static struct dt_image decode_good(const char *name)
{
    size_t bytes;
    struct dt_image image;
    struct dt_error err;
    uint8_t *data = image_read(name, &bytes);
    if (dt_image_decode(&image, data, bytes, &dt_image_limits_usual, &err) < 0)
        fail_msg("%s: %s", name, err.text);
    free(data);
    return image;
}

/* The hash of the pixel values, of which 16 digits are left. */
static size_t hash_pixels(const struct dt_image *image,
                          const struct dt_image_processor *processor,
                          char hex[DT_SHA256_HEX])
{
    struct dt_image_plan plan;
    struct dt_error err;
    if (dt_image_plan(&plan, processor, image->height, image->width, &err) < 0)
        fail_msg("%s", err.text);
    const size_t bytes = dt_image_row_bytes(processor);
    const size_t count = plan.patches * dt_image_row_values(processor);
    uint8_t *rows = malloc(plan.patches * bytes);
    float *values = malloc(count * sizeof(*values));
    assert_true(rows && values);
    if (dt_image_rows(rows, &plan, processor, image, &err) < 0)
        fail_msg("%s", err.text);
    dt_image_values(values, rows, plan.patches, processor);
    dt_sha256_hex(values, count * sizeof(*values), hex);
    hex[16] = '\0';
    free(rows);
    free(values);
    return plan.patches;
}

static void pixels_are_those_of_the_reference(void **state)
{
    FILE *list = fopen(image_path("pixels.txt"), "r");
    char line[512], hex[DT_SHA256_HEX], *word[5];
    unsigned count = 0;
    (void)state;
    assert_non_null(list);
    for (; image_list_next(list, line, word, 5); count++) {
        if (!image_is_built(word[0]) || count % EACH)
            continue;
        struct dt_image image = decode_good(word[0]);
        for (int backend = 0; backend < 2; backend++) {
            struct dt_image_processor processor =
                scene_load(processors, word[1], backend);
            size_t patches = hash_pixels(&image, &processor, hex);
            if (patches != strtoul(word[2], NULL, 10) ||
                strcmp(hex, word[3 + backend]) != 0)
                fail_msg("%s, %s, backend %d: other pixels", word[0], word[1],
                         backend);
        }
        dt_image_fini(&image);
    }
    fclose(list);
    assert_int_equal(count, 550);
}

static uint32_t draw(uint64_t *random)
{
    *random =
        *random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*random >> 33);
}

/* The next size of all magnitudes that is within the limits. */
static void draw_size(uint64_t *random, uint32_t *height, uint32_t *width)
{
    do {
        const uint32_t a = draw(random), b = draw(random);
        const uint32_t most = UINT32_C(1) << (4 + draw(random) % 11);
        *height = 1 + a % most;
        *width = 1 + b % most;
    } while (
        dt_image_check_size(*height, *width, &dt_image_limits_usual, NULL) < 0);
}

static void check_counts(const char *name, const char *wanted)
{
    char *text, hex[DT_SHA256_HEX];
    size_t bytes;
    uint64_t random = 1;
    FILE *out = open_memstream(&text, &bytes);
    const struct dt_image_processor processor =
        scene_load(processors, name, DT_IMAGE_TORCHVISION);
    assert_non_null(out);
    for (int i = 0; i < COUNT; i++) {
        struct dt_image_plan plan;
        struct dt_error err;
        uint32_t height, width;
        draw_size(&random, &height, &width);
        if (dt_image_plan(&plan, &processor, height, width, &err) < 0)
            fail_msg("%s: %s", name, err.text);
        fprintf(out, "%u %u %u %u %u %u %u\n", height, width, plan.height,
                plan.width, plan.rows, plan.columns, plan.tokens);
    }
    fclose(out);
    dt_sha256_hex(text, bytes, hex);
    free(text);
    if (strcmp(hex, wanted) != 0)
        fail_msg("%s: other counts", name);
}

static void counts_of_10000_sizes_are_those_of_the_reference(void **state)
{
    FILE *list = fopen(image_path("counts.txt"), "r");
    char line[512], *word[2];
    unsigned count = 0;
    (void)state;
    assert_non_null(list);
    for (; image_list_next(list, line, word, 2); count++)
        check_counts(word[0], word[1]);
    fclose(list);
    assert_int_equal(count, 9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pixels_are_those_of_the_reference),
        cmocka_unit_test(counts_of_10000_sizes_are_those_of_the_reference),
    };
    processors = scene_processors();
    int rc = cmocka_run_group_tests_name("image_pixels", tests, NULL, NULL);
    json_decref(processors);
    return rc;
}
