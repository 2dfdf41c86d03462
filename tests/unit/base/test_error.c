/* SPDX-License-Identifier: Apache-2.0 */
/* test_error.c - struct dt_error is filled, prefixed and cut, never overrun */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"

static void setting_an_error_fills_text_and_status(void **state)
{
    struct dt_error err = {0};
    (void)state;
    assert_int_equal(dt_error_set(&err, EX_CONFIG, "lr %d", 3), -1);
    assert_string_equal(err.text, "lr 3");
    assert_int_equal(err.status, EX_CONFIG);
    assert_int_equal(err.lost_rank, -1);
    assert_int_equal(dt_error_set(NULL, EX_CONFIG, "x"), -1);
}

static void a_prefix_keeps_the_text_and_status(void **state)
{
    struct dt_error err;
    (void)state;
    dt_error_set(&err, EX_IOERR, "disk full");
    assert_int_equal(dt_error_prefix(&err, "saving %s", "a"), -1);
    assert_string_equal(err.text, "saving a: disk full");
    assert_int_equal(err.status, EX_IOERR);
    assert_int_equal(dt_error_prefix(NULL, "x"), -1);
}

static void added_errors_are_joined_in_one_text(void **state)
{
    struct dt_error err = {0};
    size_t length = 0;
    (void)state;
    assert_int_equal(dt_error_add(&err, EX_DATAERR, "a: %d", 1), -1);
    assert_string_equal(err.text, "a: 1");
    assert_int_equal(err.status, EX_DATAERR);
    assert_int_equal(err.lost_rank, -1); /* our own: it must be told */
    dt_error_add(&err, EX_DATAERR, "b");
    assert_string_equal(err.text, "a: 1; b");
    while (strlen(err.text) > length) { /* ends only if the text is cut */
        length = strlen(err.text);
        dt_error_add(&err, EX_DATAERR, "%0*d", (int)length % 37, 0);
    }
    assert_int_equal(length, DT_ERROR_TEXT_BYTES - 1);
}

static void a_long_error_text_is_cut(void **state)
{
    char longer[3 * DT_ERROR_TEXT_BYTES];
    struct dt_error err;
    (void)state;
    memset(longer, 'x', sizeof(longer) - 1);
    longer[sizeof(longer) - 1] = '\0';
    dt_error_set(&err, EX_IOERR, "%s", longer);
    assert_int_equal(strlen(err.text), DT_ERROR_TEXT_BYTES - 1);
    dt_error_prefix(&err, "a");
    assert_memory_equal(err.text, "a: xx", 5);
    assert_int_equal(strlen(err.text), DT_ERROR_TEXT_BYTES - 1);
    dt_error_prefix(&err, "%s", longer);
    assert_true(strlen(err.text) < DT_ERROR_TEXT_BYTES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(setting_an_error_fills_text_and_status),
        cmocka_unit_test(a_prefix_keeps_the_text_and_status),
        cmocka_unit_test(added_errors_are_joined_in_one_text),
        cmocka_unit_test(a_long_error_text_is_cut),
    };
    return cmocka_run_group_tests_name("error", tests, NULL, NULL);
}
