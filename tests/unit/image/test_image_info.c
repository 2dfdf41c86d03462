/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_image_info.c - headers say sizes, colors and orientation, within limits
 */
#include "config.h"

#include "tests/unit/image/image_files.h"

static struct dt_image_limits limits;

static int set_up(void **state)
{
    (void)state;
    limits = dt_image_limits_usual;
    return 0;
}

static struct dt_image_info info_of(const char *name)
{
    size_t bytes;
    struct dt_image_info info;
    struct dt_error err;
    uint8_t *data = image_read(name, &bytes);
    if (dt_image_info(&info, data, bytes, &limits, &err) < 0)
        fail_msg("%s: %s", name, err.text);
    free(data);
    return info;
}

static void assert_refused(const void *data, size_t bytes, const char *text)
{
    struct dt_image_info info;
    struct dt_error err = {0};
    assert_int_equal(dt_image_info(&info, data, bytes, &limits, &err), -1);
    assert_int_equal(err.status, EX_DATAERR);
    assert_string_equal(err.text, text);
}

#define ASSERT_TEXT(data, text) assert_refused(data, sizeof(data) - 1, text)

static void sizes_and_orientations_are_those_of_the_reference(void **state)
{
    FILE *list = fopen(image_path("images.txt"), "r");
    char line[512], *word[5];
    (void)state;
    assert_non_null(list);
    while (image_list_next(list, line, word, 5)) {
        struct dt_image_info info = info_of(word[0]);
        if (info.height != strtoul(word[1], NULL, 10) ||
            info.width != strtoul(word[2], NULL, 10) ||
            info.orientation != strtoul(word[3], NULL, 10))
            fail_msg("%s: %lu x %lu, orientation %u", word[0],
                     (unsigned long)info.height, (unsigned long)info.width,
                     info.orientation);
    }
    fclose(list);
}

static void formats_and_colors_are_told(void **state)
{
    static const struct {
        const char *name;
        enum dt_image_format format;
        enum dt_image_mode mode;
        unsigned bits;
        bool transparent;
    } cases[] = {
        {"rgb.jpg", DT_IMAGE_JPEG, DT_IMAGE_RGB, 8, false},
        {"gray.jpg", DT_IMAGE_JPEG, DT_IMAGE_GRAY, 8, false},
        {"cmyk.jpg", DT_IMAGE_JPEG, DT_IMAGE_CMYK, 8, false},
        {"rgba16.png", DT_IMAGE_PNG, DT_IMAGE_RGBA, 16, true},
        {"la.png", DT_IMAGE_PNG, DT_IMAGE_GRAY_ALPHA, 8, true},
        {"gray2.png", DT_IMAGE_PNG, DT_IMAGE_GRAY, 2, false},
        {"gray16_one.png", DT_IMAGE_PNG, DT_IMAGE_GRAY, 16, true},
        {"p2.png", DT_IMAGE_PNG, DT_IMAGE_PALETTE, 2, false},
        {"p_alpha.png", DT_IMAGE_PNG, DT_IMAGE_PALETTE, 8, true},
        {"lossy.webp", DT_IMAGE_WEBP, DT_IMAGE_RGB, 8, false},
        {"lossless.webp", DT_IMAGE_WEBP, DT_IMAGE_RGB, 8, false},
        {"alpha.webp", DT_IMAGE_WEBP, DT_IMAGE_RGBA, 8, true},
        {"lossless_alpha.webp", DT_IMAGE_WEBP, DT_IMAGE_RGBA, 8, true},
        {"turned.webp", DT_IMAGE_WEBP, DT_IMAGE_RGB, 8, false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct dt_image_info info = info_of(cases[i].name);
        if (info.format != cases[i].format || info.mode != cases[i].mode ||
            info.bits != cases[i].bits ||
            info.transparent != cases[i].transparent)
            fail_msg("%s: format %d, mode %d, %u bits, transparent %d",
                     cases[i].name, (int)info.format, (int)info.mode, info.bits,
                     info.transparent);
    }
}

static void what_is_no_image_of_ours_is_named(void **state)
{
    (void)state;
    assert_refused(NULL, 0, "an image of 0 bytes");
    ASSERT_TEXT("GIF89a......", "a GIF file: convert it to PNG or JPEG");
    ASSERT_TEXT("BM..........", "a BMP file: convert it to PNG or JPEG");
    ASSERT_TEXT("II*\0........", "a TIFF file: convert it to PNG or JPEG");
    ASSERT_TEXT("MM\0*........", "a TIFF file: convert it to PNG or JPEG");
    ASSERT_TEXT("\0\0\0 ftypavif....",
                "an AVIF file: convert it to PNG or JPEG");
    ASSERT_TEXT("\0\0\0 ftypheic....",
                "a HEIC file: convert it to PNG or JPEG");
    ASSERT_TEXT("<!DOCTYPE html>",
                "a page of HTML in place of an image: was it downloaded with "
                "an error?");
    ASSERT_TEXT("version https://git-lfs.github.com/spec/v1\n",
                "image: a pointer of git-lfs, not the file itself: run 'git "
                "lfs pull' in its repository");
    ASSERT_TEXT("no", "not a JPEG, PNG or WebP file: it begins with 6e 6f 00 "
                      "00");
}

static void animations_are_refused(void **state)
{
    static const char webp[] = "RIFF\x1e\0\0\0WEBPVP8X\x0a\0\0\0\x02\0\0\0\x09"
                               "\0\0\x09\0\0";
    size_t bytes;
    (void)state;
    assert_refused(webp, sizeof(webp) - 1,
                   "an animated WebP file: save the frame that is meant");
    uint8_t *data = image_read("xmp.png", &bytes);
    memcpy(data + 37, "acTL", 4);
    assert_refused(data, bytes,
                   "an animated PNG file: save the frame that is meant");
    free(data);
}

/* Byte 0xC0 of a frame's marker says how it is coded. */
static void other_codings_of_jpeg_are_refused(void **state)
{
    static const struct {
        uint8_t marker, bits, colors;
        const char *text;
    } cases[] = {
        {0xC3, 8, 3,
         "a JPEG file that is lossless: convert it to a baseline or "
         "progressive one"},
        {0xC5, 8, 3,
         "a JPEG file that is hierarchical: convert it to a baseline or "
         "progressive one"},
        {0xC9, 8, 3,
         "a JPEG file that is arithmetic-coded: convert it to a baseline or "
         "progressive one"},
        {0xC1, 12, 3,
         "a JPEG file of 3 colors with 12 bits: 8 bits of gray, RGB or CMYK "
         "are read"},
        {0xC0, 8, 2,
         "a JPEG file of 2 colors with 8 bits: 8 bits of gray, RGB or CMYK "
         "are read"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const uint8_t file[] = {0xFF,
                                0xD8,
                                0xFF,
                                cases[i].marker,
                                0,
                                17,
                                cases[i].bits,
                                0,
                                10,
                                0,
                                10,
                                cases[i].colors,
                                1,
                                0x11,
                                0,
                                2,
                                0x11,
                                1,
                                3,
                                0x11,
                                1,
                                0xFF,
                                0xDA,
                                0,
                                2};
        assert_refused(file, sizeof(file), cases[i].text);
    }
}

static void damaged_headers_are_refused(void **state)
{
    (void)state;
    ASSERT_TEXT("\xff\xd8\xff\xe1\xff\xff",
                "a damaged image: it ends in its header");
    ASSERT_TEXT("\xff\xd8\xff\xda\0\2", "a damaged image: it has no frame");
    ASSERT_TEXT("\xff\xd8\xff\xd9", "a damaged image: it has no frame");
    ASSERT_TEXT("\xff\xd8\xff\xc0\0\6....",
                "a damaged image: a frame header that is too short");
    ASSERT_TEXT("\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR",
                "a damaged image: it has no whole IHDR");
    ASSERT_TEXT("\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\0\1\0\0\0\1\x08\5\0\0\0"
                "....",
                "a damaged image: a color type that PNG does not have");
    ASSERT_TEXT("\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\0\0\0\0\0\1\x08\2\0\0\0"
                "....",
                "a damaged image: it has no pixels");
    ASSERT_TEXT("RIFF....WEBP", "a damaged image: it ends in its header");
    ASSERT_TEXT("RIFF....WEBPVP8 \x0a\0\0\0..........",
                "a damaged image: it does not begin with a frame of WebP");
}

/* A PNG file of 33 bytes can say any size. */
static void assert_size(uint32_t width, uint32_t height, const char *text)
{
    uint8_t file[33] = "\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR";
    for (int i = 0; i < 4; i++) {
        file[16 + i] = (uint8_t)(width >> 8 * (3 - i));
        file[20 + i] = (uint8_t)(height >> 8 * (3 - i));
    }
    file[24] = 8;
    file[25] = 2;
    struct dt_image_info info;
    struct dt_error err = {0};
    int rc = dt_image_info(&info, file, sizeof(file), &limits, &err);
    assert_string_equal(err.text, text);
    assert_int_equal(rc, text[0] ? -1 : 0);
}

static void sizes_are_limited(void **state)
{
    (void)state;
    assert_size(16384, 5461, "");
    assert_size(16385, 100,
                "an image of 16385 x 100 pixels: a side has at most 16384");
    assert_size(5, UINT32_MAX,
                "an image of 5 x 4294967295 pixels: a side has at most 16384");
    assert_size(16384, 5462,
                "an image of 16384 x 5462 pixels: at most 89478485 pixels are "
                "decoded");
    assert_size(200, 1, "");
    assert_size(1, 201,
                "an image of 1 x 201 pixels: the longer side is at most 200 "
                "times the shorter one");
    limits.bytes = 32;
    assert_size(10, 10, "an image of 33 bytes: at most 32 are read");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(
            sizes_and_orientations_are_those_of_the_reference, set_up),
        cmocka_unit_test_setup(formats_and_colors_are_told, set_up),
        cmocka_unit_test_setup(what_is_no_image_of_ours_is_named, set_up),
        cmocka_unit_test_setup(animations_are_refused, set_up),
        cmocka_unit_test_setup(other_codings_of_jpeg_are_refused, set_up),
        cmocka_unit_test_setup(damaged_headers_are_refused, set_up),
        cmocka_unit_test_setup(sizes_are_limited, set_up),
    };
    return cmocka_run_group_tests_name("image_info", tests, NULL, NULL);
}
