/* SPDX-License-Identifier: Apache-2.0 */
/* test_template.c - places of errors, limits and marks of chat templates */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sys/resource.h>

#include <cmocka.h>

#include "template/template.h"

/* What a template renders with n = 3 and u = "\u00e9", or the error's text;
 * marked bytes stand in [ ].
 */
static const char *rendered(const char *source)
{
    static char text[4096];
    struct dt_template_text out = {0};
    struct dt_error err = {0};
    json_t *n = json_integer(3), *u = json_string("\u00e9");
    const struct dt_template_variable variables[] = {
        {"n", n}, {"u", u}, {"gone", NULL}};
    struct dt_template *template =
        dt_template_create("t.jinja", source, strlen(source), &err);
    int rc =
        template ? dt_template_render(template, variables, 3, &out, &err) : -1;
    size_t at = 0, from = 0;
    for (size_t i = 0; rc == 0 && i < out.span_count; i++) {
        const struct dt_template_span *span = &out.spans[i];
        at += (size_t)snprintf(text + at, sizeof(text) - at, "%.*s[%.*s]",
                               (int)(span->begin - from), out.text + from,
                               (int)(span->end - span->begin),
                               out.text + span->begin);
        from = span->end;
    }
    snprintf(text + at, sizeof(text) - at, "%s",
             rc == 0 ? out.text + from : err.text);
    dt_template_text_fini(&out);
    dt_template_destroy(template);
    json_decref(n);
    json_decref(u);
    return text;
}

static void errors_name_line_and_column(void **state)
{
    static const char *const cases[][2] = {
        {"{{ n +", "t.jinja:1:1: a tag without its end"},
        {"a\r\nb{# x", "t.jinja:2:2: a comment without its end, #}"},
        {"\n\n  {{ 'x }}", "t.jinja:3:6: a string without its end"},
        {"{{ '\\ud800' }}", "t.jinja:1:5: this escape names no character"},
        {"{{ (1] }}", "t.jinja:1:6: this bracket closes none"},
        {"{{ n $ 1 }}", "t.jinja:1:6: this character is not known in a tag"},
        {"{{ 12345678901234567890 }}",
         "t.jinja:1:4: this number is not supported"},
        {"{% raw %}x", "t.jinja:1:1: raw without endraw"},
        {"{% if n %}x", "t.jinja:1:12: expected else, got the end of the "
                        "template"},
        {"{% else %}", "t.jinja:1:4: expected a statement, got 'else'"},
        {"{% include 'x' %}", "t.jinja:1:4: include is not supported"},
        {"{{ n n }}", "t.jinja:1:6: expected }}, got 'n'"},
        {"{% for x in n recursive %}{% endfor %}",
         "t.jinja:1:4: recursive loops are not supported"},
        {"{% break %}", "t.jinja:1:4: break outside of a loop"},
        {"{% set true = 1 %}",
         "t.jinja:1:8: expected a name to assign to, got 'true'"},
        {"{{ f(*n) }}", "t.jinja:1:6: arguments of a list or an object are "
                        "not supported"},
        {"{{ f(a=1, 2) }}", "t.jinja:1:11: an argument without a name after "
                            "one with a name"},
        {"{{ x.y }}", "t.jinja:1:6: 'x' is not defined"},
        {"{{ gone.y }}", "t.jinja:1:9: 'gone' is not defined"},
        {"x\n{{ n.a.b }}", "t.jinja:2:8: there is no 'a' in this value"},
        {"{{ u + n }}", "t.jinja:1:6: there is no + for a string and an "
                        "integer (~ joins anything)"},
        {"{{ x + 'a' }}", "t.jinja:1:6: 'x' is not defined, and has no +"},
        {"{{ n < u }}", "t.jinja:1:6: an integer and a string have no order"},
        {"{{ n // 0 }}", "t.jinja:1:6: a division by zero"},
        {"{{ 9 ** 99 }}", "t.jinja:1:6: an integer of more than 64 bits"},
        {"{{ n | nothing }}",
         "t.jinja:1:8: the filter 'nothing' is not supported"},
        {"{{ n is nothing }}",
         "t.jinja:1:9: the test 'nothing' is not supported"},
        {"{{ u.encode() }}",
         "t.jinja:1:6: the method 'encode' of strings is not supported"},
        {"{{ [1].append(2) }}",
         "t.jinja:1:8: the method 'append' of a list is not allowed"},
        {"{{ n.real }}", "t.jinja:1:6: the attribute 'real' of an integer is "
                         "not supported"},
        {"{{ range(3).stop }}",
         "t.jinja:1:13: the attribute 'stop' of a range is not supported"},
        {"{% macro m(a) %}{% endmacro %}{{ m.arguments }}",
         "t.jinja:1:36: the attribute 'arguments' of a macro is not "
         "supported"},
        {"{{ n() }}", "t.jinja:1:4: an integer cannot be called"},
        {"{% for x in n %}{% endfor %}",
         "t.jinja:1:13: an integer has no items to go over"},
        {"{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}",
         "t.jinja:1:34: 'm' takes 1 arguments, got 2"},
        {"{% set x.y = 1 %}", "t.jinja:1:8: cannot assign to an attribute of "
                              "what is no namespace"},
        {"{{ raise_exception('not ' ~ u) }}",
         "t.jinja:1:4: the chat template refuses this conversation: not "
         "\u00e9"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        if (strcmp(rendered(cases[i][0]), cases[i][1]) != 0)
            fail_msg("%s: %s, not %s", cases[i][0], rendered(cases[i][0]),
                     cases[i][1]);
}

static void loops_calls_and_texts_without_end_are_stopped(void **state)
{
    static const char *const cases[][2] = {
        {"{% set l = range(9999) %}{% for a in l %}{% for b in l %}"
         "{{ 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 }}{% endfor %}{% endfor %}",
         "more than 20000000 steps: is there a loop without end?"},
        {"{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
         "more than 1000 expressions and calls in each other"},
        {"{% set ns = namespace(s='0123456789' * 999) %}"
         "{% for a in range(99999) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
         "more than 1024 MiB are needed"},
        {"{{ 'abc' * 999999999 }}", "more than 1024 MiB are needed"},
        {"{{ [0] * 9999999999 }}", "more than"},
        {"{{ range(999999) | length }}", "a range of more than 100000 numbers"},
        {"{% set ns = namespace(l=[]) %}{% for a in range(2000) %}"
         "{% set ns.l = [ns.l] %}{% endfor %}{{ ns.l }}",
         "more than 1000 expressions and calls in each other"},
    };
    char deep[5000] = "{{ ";
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        if (!strstr(rendered(cases[i][0]), cases[i][1]))
            fail_msg("%s: %s", cases[i][0], rendered(cases[i][0]));
    memset(deep + 3, '[', 200);
    assert_non_null(strstr(rendered(deep), "t.jinja:1:"));
    memset(deep + 3, '-', 2000);
    strcpy(deep + 2003, "1 }}");
    assert_non_null(strstr(rendered(deep), "more than 100 expressions"));
    deep[0] = '\0';
    for (size_t i = 0; i < 120; i++)
        strcat(deep, "{% if n %}");
    assert_non_null(strstr(rendered(deep), "in each other"));
}

/* What would be too much is refused before it is made: in far less memory than
 * there may be, of which nothing is written.
 */
static void much_is_refused_before_it_is_made(void **state)
{
    static const char *const cases[] = {
        "{{ 'a' * 10000000000 }}",
        "{{ [0, 1] * 10000000000 }}",
        "{{ 'ab' * 900000000000000000 }}",
        "{{ (n,) * 900000000000000000 }}",
        "{{ 'a'.ljust(10000000000) }}",
        "{{ 'a'.rjust(10000000000, '-') }}",
        "{{ 'a'.center(10000000000) }}",
        "{{ '1'.zfill(10000000000) }}",
        "{{ 'a'|indent(10000000000) }}",
        "{{ [n]|tojson(indent=9999999999) }}",
    };
    struct rusage before, after;
    (void)state;
    getrusage(RUSAGE_SELF, &before);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        if (!strstr(rendered(cases[i]), "more than 1024 MiB are needed"))
            fail_msg("%s: %s", cases[i], rendered(cases[i]));
    getrusage(RUSAGE_SELF, &after);
    assert_in_range(after.ru_maxrss - before.ru_maxrss, 0, 100 << 10);
    assert_string_equal(rendered("{{ 'ab' * 3 }}{{ 'a' * 0 }}{{ 'a' * -1 }}"
                                 "{{ '' * 900000000000000000 }}"
                                 "{{ [] * 900000000000000000 }}"
                                 "{{ '-'.center(6, 'xy') }}"),
                        "ababab[]xyxy-xyxyxy");
}

/* The steps of a template; -1 if it fails. */
static long steps_of(const char *source)
{
    struct dt_template_text out = {0};
    struct dt_template *template =
        dt_template_create("t", source, strlen(source), NULL);
    int rc = dt_template_render(template, NULL, 0, &out, NULL);
    long steps = rc == 0 ? (long)out.steps : -1;
    dt_template_text_fini(&out);
    dt_template_destroy(template);
    return steps;
}

/* Whatever looks at all of a text counts at least a step for 64 bytes. */
static void work_on_long_texts_is_counted(void **state)
{
    static const char *const work[] = {
        "x.title()",
        "x|title",
        "x|upper",
        "x.lower()",
        "x|capitalize",
        "x.swapcase()",
        "x.isupper()",
        "x.isalnum()",
        "x is lower",
        "x.strip('ab ')",
        "x.strip()",
        "x.strip(x)",
        "x|trim",
        "x.splitlines()",
        "x.split()",
        "x.rsplit('q')",
        "x.split('q')",
        "x|wordcount",
        "x.startswith(x)",
        "x.endswith((x,))",
        "x.removeprefix(x)",
        "x.rfind('q')",
        "x.find('q')",
        "x.count('a')",
        "x.partition('q')",
        "x.replace('q','')",
        "x|length",
        "x|truncate(3)",
        "x|indent",
        "x.center(9)",
        "x[-5:]",
        "x[:5]",
        "x[5]",
        "x == y",
        "x <= y",
        "x in y",
        "{x: 1}[y]",
        "x|tojson",
        "[x]|string",
        "x.format()",
        "x|list",
        "x|int",
    };
    char source[200];
    (void)state;
    for (size_t i = 0; i < sizeof(work) / sizeof(work[0]); i++) {
        long steps[2];
        for (int many = 0; many < 2; many++) {
            snprintf(source, sizeof(source),
                     "{%% set x = 'A b ' * %d %%}{%% set y = 'A b ' * %d %%}"
                     "{%% if %s %%}{%% endif %%}",
                     many ? 2000 : 1, many ? 2000 : 1, work[i]);
            steps[many] = steps_of(source);
        }
        /* 2 x 125 are those of x and y */
        if (steps[0] < 0 || steps[1] - steps[0] < 3 * 4 * 1999 / 64)
            fail_msg("%s: %ld and %ld steps", work[i], steps[0], steps[1]);
    }
}

/* Marks count bytes, and have a scope of their own, as in transformers. */
static void marks_are_bytes_of_the_text(void **state)
{
    (void)state;
    assert_string_equal(rendered("{{ u }}{% generation %}{{ u }}a"
                                 "{% endgeneration %}{{ u }}"),
                        "\u00e9[\u00e9a]\u00e9");
    assert_string_equal(rendered("{% for i in range(2) %}<{% generation %}"
                                 "{{ i }}{% set x = 1 %}{% endgeneration %}"
                                 "{{ x }}{% endfor %}"),
                        "<[0]<[1]");
    assert_string_equal(rendered("{%- generation -%} a {%- endgeneration -%} "),
                        "[a]");
    assert_string_equal(rendered("{% generation %}a{% generation %}{{ u }}"
                                 "{% endgeneration %}b{% generation %}"
                                 "{% endgeneration %}{% endgeneration %}c"
                                 "{% generation %}d{% endgeneration %}"),
                        "[a\u00e9b]c[d]");
    assert_string_equal(
        rendered("{% macro m() %}{% generation %}{% endgeneration %}"
                 "{% endmacro %}{{ m() }}"),
        "t.jinja:1:19: generation inside of a macro or of a block that is put "
        "into a variable is not supported");
}

/* The outer mark is added when those in it have moved the list of marks. */
static void marks_in_a_mark_are_one(void **state)
{
    static const char source[] =
        "{% generation %}{% for i in range(3000) %}<{% generation %}"
        "{% generation %}.{% endgeneration %}{% endgeneration %}{% endfor %}"
        "{% endgeneration %}{% generation %}!{% endgeneration %}";
    struct dt_template_text out = {0};
    struct dt_error err;
    struct dt_template *template =
        dt_template_create("t", source, sizeof(source) - 1, &err);
    (void)state;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(dt_template_render(template, NULL, 0, &out, &err), 0);
        assert_int_equal(out.span_count, 2);
        assert_int_equal(out.spans[0].begin, 0);
        assert_int_equal(out.spans[0].end, 6000);
        assert_int_equal(out.spans[1].begin, 6000);
        assert_int_equal(out.spans[1].end, 6001);
    }
    dt_template_text_fini(&out);
    dt_template_destroy(template);
}

static void memory_is_used_again(void **state)
{
    static const char source[] = "{% for i in range(3) %}{% generation %}"
                                 "{{ i }}{% endgeneration %}{% endfor %}";
    struct dt_template_text out = {0};
    struct dt_error err;
    struct dt_template *template =
        dt_template_create("t", source, sizeof(source) - 1, &err);
    (void)state;
    assert_true(dt_template_has_marks(template));
    for (int i = 0; i < 3; i++) {
        assert_int_equal(dt_template_render(template, NULL, 0, &out, &err), 0);
        assert_string_equal(out.text, "012");
        assert_int_equal(out.span_count, 3);
    }
    dt_template_text_fini(&out);
    dt_template_destroy(template);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors_name_line_and_column),
        cmocka_unit_test(loops_calls_and_texts_without_end_are_stopped),
        cmocka_unit_test(much_is_refused_before_it_is_made),
        cmocka_unit_test(work_on_long_texts_is_counted),
        cmocka_unit_test(marks_are_bytes_of_the_text),
        cmocka_unit_test(marks_in_a_mark_are_one),
        cmocka_unit_test(memory_is_used_again),
    };
    return cmocka_run_group_tests_name("template", tests, NULL, NULL);
}
