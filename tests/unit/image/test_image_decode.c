/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_image_decode.c - every kind of image has the sizes and the pixels that
 * Pillow 13 gives it, and damaged ones are refused
 */
#include "config.h"

#include "base/sha256.h"
#include "tests/unit/image/image_files.h"

static struct dt_image_limits limits;

static int set_up(void **state)
{
    (void)state;
    limits = dt_image_limits_usual;
    return 0;
}

static void decode_good(struct dt_image *image, const char *name)
{
    size_t bytes;
    struct dt_error err;
    uint8_t *data = image_read(name, &bytes);
    if (dt_image_decode(image, data, bytes, &limits, &err) < 0)
        fail_msg("%s: %s", name, err.text);
    free(data);
}

static void assert_refused(const void *data, size_t bytes, const char *text)
{
    struct dt_image image;
    struct dt_error err = {0};
    assert_int_equal(dt_image_decode(&image, data, bytes, &limits, &err), -1);
    assert_null(image.rgb);
    assert_string_equal(err.text, text);
}

static void every_kind_has_the_pixels_of_the_reference(void **state)
{
    FILE *list = fopen(image_path("images.txt"), "r");
    char line[512], *word[5], hex[DT_SHA256_HEX];
    unsigned count = 0;
    (void)state;
    assert_non_null(list);
    while (image_list_next(list, line, word, 5)) {
        struct dt_image image;
        count++;
        if (!image_is_built(word[0]))
            continue;
        decode_good(&image, word[0]);
        dt_sha256_hex(image.rgb, (size_t)image.height * image.width * 3, hex);
        if (image.height != strtoul(word[1], NULL, 10) ||
            image.width != strtoul(word[2], NULL, 10) ||
            strcmp(hex, word[4]) != 0)
            fail_msg("%s: other pixels", word[0]);
        dt_image_fini(&image);
    }
    fclose(list);
    assert_int_equal(count, 55);
}

/* What is cut off anywhere is an error or, of bytes after the last pixel, no
 * loss; no end is read beyond.
 */
static void a_file_that_is_cut_short_is_refused(void **state)
{
    static const char *const names[] = {
        "rgb.jpg",  "progressive.jpg", "rgb.png",       "interlaced_rgba.png",
        "cmyk.jpg", "lossy.webp",      "lossless.webp", "alpha.webp"};
    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        size_t bytes;
        uint8_t *data = image_read(names[i], &bytes);
        for (size_t left = 0; image_is_built(names[i]) && left < bytes - 20;
             left += left < 700 ? 1 : 13) {
            struct dt_image image;
            struct dt_error err = {0};
            uint8_t *part = malloc(left + 1);
            assert_non_null(part);
            memcpy(part + 1, data, left);
            if (dt_image_decode(&image, part + 1, left, &limits, &err) == 0)
                fail_msg("%s: %zu bytes of %zu are enough", names[i], left,
                         bytes);
            assert_int_equal(err.status, EX_DATAERR);
            free(part);
        }
        free(data);
    }
}

static void the_end_of_a_file_is_missed(void **state)
{
    size_t bytes;
    (void)state;
    uint8_t *data = image_read("rgb.jpg", &bytes);
    assert_refused(data, bytes - 40, "a damaged JPEG file: it is cut short");
    free(data);
    data = image_read("rgb.png", &bytes);
    assert_refused(data, bytes - 40, "a damaged PNG file: it is cut short");
    free(data);
}

static void a_checksum_that_is_wrong_is_refused(void **state)
{
    size_t bytes;
    (void)state;
    uint8_t *data = image_read("rgb.png", &bytes);
    data[30] ^= 1;
    assert_refused(data, bytes, "a damaged PNG file: IHDR: CRC error");
    free(data);
}

/* A progressive file of a few bytes can ask for thousands of scans. */
static void scans_are_limited(void **state)
{
    struct dt_image image;
    size_t bytes;
    (void)state;
    uint8_t *data = image_read("progressive.jpg", &bytes);
    limits.scans = 9;
    assert_refused(data, bytes, "a JPEG file of more than 9 scans");
    limits.scans = 10;
    decode_good(&image, "progressive.jpg");
    dt_image_fini(&image);
    free(data);
}

static void warnings_are_limited(void **state)
{
    size_t bytes;
    (void)state;
    uint8_t *data = image_read("restarts.jpg", &bytes);
    memset(data + bytes - 100, 0xff, 40);
    memset(data + bytes - 60, 0x55, 40);
    limits.warnings = 0;
    assert_refused(data, bytes,
                   "a damaged JPEG file: Corrupt JPEG data: premature end of "
                   "data segment");
    free(data);
}

/* The size that memory was allocated for is that of the frame that is decoded.
 */
static void a_size_that_changes_is_refused(void **state)
{
    struct dt_image image;
    size_t bytes;
    struct dt_error err;
    (void)state;
    uint8_t *data = image_read("alpha.webp", &bytes);
    data[24] += 1; /* of the canvas */
    if (image_is_built("alpha.webp"))
        assert_refused(data, bytes, "a WebP file that is damaged or cut short");
    else
        assert_int_equal(dt_image_decode(&image, data, bytes, &limits, &err),
                         -1);
    free(data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(every_kind_has_the_pixels_of_the_reference,
                               set_up),
        cmocka_unit_test_setup(a_file_that_is_cut_short_is_refused, set_up),
        cmocka_unit_test_setup(the_end_of_a_file_is_missed, set_up),
        cmocka_unit_test_setup(a_checksum_that_is_wrong_is_refused, set_up),
        cmocka_unit_test_setup(scans_are_limited, set_up),
        cmocka_unit_test_setup(warnings_are_limited, set_up),
        cmocka_unit_test_setup(a_size_that_changes_is_refused, set_up),
    };
    return cmocka_run_group_tests_name("image_decode", tests, NULL, NULL);
}
