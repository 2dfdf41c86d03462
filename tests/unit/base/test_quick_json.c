/* SPDX-License-Identifier: Apache-2.0 */
/* test_quick_json.c - what is parsed quickly is what jansson makes of it */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/json.h"

static json_t *jansson(const char *text, size_t bytes)
{
    return json_loadb(text, bytes, JSON_REJECT_DUPLICATES, NULL);
}

static void common_lines_are_parsed(void **state)
{
    static const char *const lines[] = {
        "{}",
        " { } \n",
        "{\"a\": [], \"b\": {}, \"\": \"\"}",
        "{\"a\": [1, -0, 0, -12, 999999999999999999, true, false, null]}",
        "{\"messages\": [{\"content\": \"caf\u00e9 \U0001f600 and more\"}]}",
        "{\"a\":\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"}",
        "{\"a\": \"x\\u00e9\\u20AC\\ud83d\\ude00\\u007fy\", \"b\": \"\\n\"}",
        "{\"a\\tb\": \"a long text, an escape \\\" and a long text again\"}",
    };
    (void)state;
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        json_t *quick = dt_quick_json(lines[i], strlen(lines[i]));
        json_t *slow = jansson(lines[i], strlen(lines[i]));
        assert_non_null(quick);
        assert_true(json_equal(quick, slow));
        json_decref(quick);
        json_decref(slow);
    }
}

static void all_else_is_left_to_jansson(void **state)
{
    static const char *const lines[] = {
        "",
        "[]",
        "{",
        "{\"a\"}",
        "{\"a\": 1,}",
        "{\"a\": [1,]}",
        "{\"a\": 1} x",
        "{\"a\": 1, \"a\": 2}",
        "{\"a\": 1.5}",
        "{\"a\": 1e3}",
        "{\"a\": 01}",
        "{\"a\": -}",
        "{\"a\": 1000000000000000000}",
        "{\"a\": nul}",
        "{\"a\": \"tab\tin text of many bytes\"}",
        "{\"a\": \"\\x\"}",
        "{\"a\": \"\\u12\"}",
        "{\"a\": \"\\u0000\"}",
        "{\"a\\u0000\": 1}",
        "{\"a\": \"\\ud800\"}",
        "{\"a\": \"\\ude00\\ud83d\"}",
        "{\"a\": \"\\ud83dx\"}",
        "{\"a\": \"\xff\"}",
        "{\"a\": \"open",
    };
    char deep[256];
    (void)state;
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
        if (dt_quick_json(lines[i], strlen(lines[i])))
            fail_msg("%s", lines[i]);
    assert_null(dt_quick_json("{\"a\0\": 1}", 9));
    memset(deep, '[', sizeof(deep));
    memcpy(deep, "{\"a\":", 5);
    assert_null(dt_quick_json(deep, sizeof(deep)));
}

static void keys_of_up_to_1023_bytes_are_parsed(void **state)
{
    char line[1100] = "{\"";
    (void)state;
    memset(line + 2, ' ', 1024);
    memcpy(line + 2 + 1023, "\": 1}", sizeof("\": 1}"));
    json_t *quick = dt_quick_json(line, strlen(line));
    json_t *slow = jansson(line, strlen(line));
    assert_non_null(quick);
    assert_true(json_equal(quick, slow));
    json_decref(quick);
    json_decref(slow);
    memcpy(line + 2 + 1023, " \": 1}", sizeof(" \": 1}"));
    assert_null(dt_quick_json(line, strlen(line)));
}

/* Changes bytes of a line: whatever is parsed is what jansson makes of it. */
static void changed_lines_are_parsed_alike(void **state)
{
    static const char line[] =
        "{\"messages\": [{\"role\": \"user\", \"content\": \"a\\n\\u00e9 "
        "text\"}, "
        "{\"n\": -12, \"ok\": true}], \"k\": \"\\ud83d\\ude00 caf\u00e9\"}";
    static const char bytes[] = "\"\\{}[]:,u0d8e1- tn\n\xc3";
    unsigned random = 1;
    size_t parsed = 0;
    (void)state;
    for (int round = 0; round < 20000; round++) {
        char text[sizeof(line)];
        memcpy(text, line, sizeof(line));
        for (int k = 0; k < 1 + round % 3; k++) {
            random = random * 1103515245u + 12345u;
            text[(random >> 8) % (sizeof(line) - 1)] =
                bytes[(random >> 20) % (sizeof(bytes) - 1)];
        }
        json_t *quick = dt_quick_json(text, sizeof(line) - 1);
        json_t *slow = quick ? jansson(text, sizeof(line) - 1) : NULL;
        if (quick && !json_equal(quick, slow))
            fail_msg("%s", text);
        parsed += quick != NULL;
        json_decref(quick);
        json_decref(slow);
    }
    assert_true(parsed > 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(common_lines_are_parsed),
        cmocka_unit_test(all_else_is_left_to_jansson),
        cmocka_unit_test(keys_of_up_to_1023_bytes_are_parsed),
        cmocka_unit_test(changed_lines_are_parsed_alike),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
