/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_image_resize.c - every filter has the bytes of torchvision and of Pillow
 *
 * resizes.txt is what make_resizes.py wrote.
 */
#include "config.h"

#include "base/sha256.h"
#include "tests/unit/image/image_files.h"

enum { WORDS = 11, CASES = 121 };

struct resize_case {
    uint32_t height, width;
    struct dt_image_resize how;
    const char *wanted[2]; /* of each backend */
};

static struct dt_image noise(uint32_t height, uint32_t width)
{
    struct dt_image image;
    struct dt_error err;
    if (dt_image_init(&image, height, width, &err) < 0)
        fail_msg("%s", err.text);
    for (uint32_t i = 0; i < height * width * 3; i++) {
        uint32_t v = (i + 1) * UINT32_C(2654435761);
        v ^= v >> 15;
        image.rgb[i] = (uint8_t)(v * UINT32_C(2246822519) >> 24);
    }
    return image;
}

static bool next_case(FILE *list, char line[512], struct resize_case *one)
{
    char *word[WORDS];
    uint32_t n[WORDS];
    if (!image_list_next(list, line, word, WORDS))
        return false;
    for (int i = 0; i < WORDS; i++)
        n[i] = (uint32_t)strtoul(word[i], NULL, 10);
    *one = (struct resize_case){
        .height = n[0],
        .width = n[1],
        .how = {.height = n[2],
                .width = n[3],
                .filter = n[4],
                .keep = {n[5], n[6], n[7], n[8]}},
        .wanted = {word[9], word[10]},
    };
    return true;
}

static void check(const struct dt_image *from, struct resize_case *one)
{
    struct dt_image to;
    struct dt_error err;
    char hex[DT_SHA256_HEX];
    if (dt_image_resize(&to, from, &one->how, &err) < 0)
        fail_msg("%s", err.text);
    dt_sha256_hex(to.rgb, (size_t)to.height * to.width * 3, hex);
    hex[16] = '\0';
    if (strcmp(hex, one->wanted[one->how.backend]) != 0)
        fail_msg("%u x %u to %u x %u, filter %d, backend %d: other bytes",
                 one->width, one->height, one->how.width, one->how.height,
                 (int)one->how.filter, (int)one->how.backend);
    assert_int_equal(to.height, one->how.keep.height);
    assert_int_equal(to.width, one->how.keep.width);
    dt_image_fini(&to);
}

static void check_all(bool portable)
{
    FILE *list = fopen(image_path("resizes.txt"), "r");
    char line[512];
    struct resize_case one;
    unsigned count = 0;
    assert_non_null(list);
    for (; next_case(list, line, &one); count++) {
        struct dt_image from = noise(one.height, one.width);
        one.how.portable = portable;
        for (int backend = 0; backend < 2; backend++) {
            one.how.backend = backend;
            check(&from, &one);
        }
        dt_image_fini(&from);
    }
    fclose(list);
    assert_int_equal(count, CASES);
}

static void bytes_are_those_of_torchvision_and_pillow(void **state)
{
    (void)state;
    check_all(false);
}

static void bytes_do_not_depend_on_the_processor(void **state)
{
    (void)state;
    check_all(true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_are_those_of_torchvision_and_pillow),
        cmocka_unit_test(bytes_do_not_depend_on_the_processor),
    };
    return cmocka_run_group_tests_name("image_resize", tests, NULL, NULL);
}
