/* SPDX-License-Identifier: Apache-2.0 */
/* test_tensor_names.c - many names of tensors in few words */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "weights/weights.h"

static const struct {
    const char *names[12], *text;
} rows[] = {
    {{NULL}, ""},
    {{"lm_head.weight"}, "lm_head.weight"},
    {{"b", "a"}, "a, b"},
    {{"h.10.w", "h.2.w", "h.1.w", "h.0.w", "h.9.w", "h.5.w"}, "h.0-2,5,9-10.w"},
    {{"m.layers.0.b", "m.layers.1.a", "m.layers.0.a"},
     "m.layers.0-1.a, m.layers.0.b"},
    {{"h.0.e.1.w", "h.0.e.2.w", "h.1.e.1.w"}, "h.0-1.e.1.w, h.0.e.2.w"},
    {{"3", "4", "h.5"}, "3-4, h.5"},
    {{"a.", ".a", "..", "a..1"}, ".., .a, a., a..1"},
    {{"h.0x.w", "h.1x.w"}, "h.0x.w, h.1x.w"},
    {{"h.1234567890.w", "h.1.w"}, "h.1.w, h.1234567890.w"},
    {{"line\nbreak\x7f\x1b"}, "line?break??"},
    {{"a", "b", "c", "d", "e", "f", "g", "h"}, "a, b, c, d, e, f, g, h"},
    {{"a", "b", "c", "d", "e", "f", "g", "h.0", "h.1", "i.0", "i.1"},
     "a, b, c, d, e, f, g, h.0-1 and 2 more"},
};

static void numbered_parameters_are_printed_as_ranges(void **state)
{
    char text[200];
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const char *names[12];
        size_t count = 0;
        for (; count < 12 && rows[i].names[count]; count++)
            names[count] = rows[i].names[count];
        dt_tensor_names_print(text, sizeof(text), names, count);
        assert_string_equal(text, rows[i].text);
    }
}

static void nothing_is_written_beyond_the_buffer(void **state)
{
    char text[64];
    (void)state;
    for (size_t room = 1; room < 30; room++) {
        const char *names[] = {"model.layers.0.w", "model.layers.1.w", "other"};
        memset(text, '#', sizeof(text));
        dt_tensor_names_print(text, room, names, 3);
        assert_memory_equal(text, "model.layers.0-1.w, other",
                            strlen(text) < 25 ? strlen(text) : 25);
        assert_int_equal(strlen(text), room < 26 ? room - 1 : 25);
        assert_int_equal(text[room < 26 ? room : 26], '#');
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbered_parameters_are_printed_as_ranges),
        cmocka_unit_test(nothing_is_written_beyond_the_buffer),
    };
    return cmocka_run_group_tests_name("names", tests, NULL, NULL);
}
