/* SPDX-License-Identifier: Apache-2.0 */
/* test_said.c - what a rank that is started again says once more */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/log.h"
#include "base/said.h"
#include "tests/unit/stderr_text.h"

static int count(const char *text, const char *word)
{
    int times = 0;
    for (; (text = strstr(text, word)); text++)
        times++;
    return times;
}

static void only_earlier_processes_count(void **state)
{
    struct dt_said said = {0};
    (void)state;
    dt_said_begin(&said);
    assert_false(dt_said_before("two rows"));
    assert_false(dt_said_before("two rows"));
    dt_said_begin(&said); /* the next process */
    assert_true(dt_said_before("two rows"));
    assert_false(dt_said_before("four rows"));
    dt_said_begin(&said);
    assert_true(dt_said_before("four rows"));
    dt_said_end();
    assert_false(dt_said_before("two rows"));
    dt_said_begin(NULL);
    assert_false(dt_said_before("two rows"));
}

static void lines_without_room_are_said_by_each(void **state)
{
    struct dt_said said = {0};
    char line[16];
    (void)state;
    for (int life = 0; life < 2; life++) {
        dt_said_begin(&said);
        for (int i = 0; i < DT_SAID_LINES + 2; i++) {
            snprintf(line, sizeof(line), "line %d", i);
            assert_int_equal(dt_said_before(line),
                             life == 1 && i < DT_SAID_LINES);
        }
    }
    dt_said_end();
}

/* Time and rank in front of a line may differ. */
static void a_restart_says_its_news_and_warnings_alone(void **state)
{
    struct dt_said said = {0};
    char text[4096];
    (void)state;
    struct stderr_text log = stderr_text_begin();
    for (int life = 0; life < 3; life++) {
        dt_said_begin(&said);
        dt_log(DT_LOG_INFO, "plan", "the same");
        dt_log(DT_LOG_INFO, "plan", "of start %d", life);
        dt_log(DT_LOG_NEWS, "algo", "going on");
        dt_log(DT_LOG_WARN, "algo", "odd");
        dt_said_end();
        dt_log(DT_LOG_INFO, "algo", "in a step");
    }
    stderr_text_end(&log, text, sizeof(text));
    assert_int_equal(count(text, " 0 plan: the same\n"), 1);
    assert_int_equal(count(text, " 0 plan: of start "), 3);
    assert_int_equal(count(text, " 0 algo: going on\n"), 3);
    assert_int_equal(count(text, " 0 algo: warning: odd\n"), 3);
    assert_int_equal(count(text, " 0 algo: in a step\n"), 3);
}

/* What level info leaves out, news are left out, too. */
static void news_have_level_info(void **state)
{
    char text[256];
    (void)state;
    struct stderr_text log = stderr_text_begin();
    dt_log_init(0, DT_LOG_WARN);
    dt_log(DT_LOG_NEWS, "algo", "going on");
    dt_log_init(1, DT_LOG_INFO);
    dt_log(DT_LOG_NEWS, "algo", "going on");
    dt_log_init(0, DT_LOG_INFO);
    stderr_text_end(&log, text, sizeof(text));
    assert_string_equal(text, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_earlier_processes_count),
        cmocka_unit_test(lines_without_room_are_said_by_each),
        cmocka_unit_test(a_restart_says_its_news_and_warnings_alone),
        cmocka_unit_test(news_have_level_info),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
