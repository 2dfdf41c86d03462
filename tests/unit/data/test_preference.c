/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_preference.c - lines of preference pairs in every spelling, and what is
 * said of bad ones
 *
 * Lines are written with ' in place of ".
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "data/preferences.h"

enum { VOCAB = 300 };

static const struct dt_example_options usual;

static int read_line(const char *line, const struct dt_example_options *options,
                     struct dt_preference *p, struct dt_error *err)
{
    char text[2000];
    size_t n = strlen(line);
    assert_true(n < sizeof(text));
    for (size_t i = 0; i <= n; i++)
        text[i] = line[i] == '\'' ? '"' : line[i];
    return dt_preference_read(text, n, options, VOCAB, p, err);
}

/* The sides as text: a prompt and both completions between bars, messages as
 * role=content, ids as numbers; then the margin if there is one.
 */
static char shown[1000];

static void show(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void show(const char *format, ...)
{
    size_t n = strlen(shown);
    va_list ap;
    va_start(ap, format);
    vsnprintf(shown + n, sizeof(shown) - n, format, ap);
    va_end(ap);
}

static void show_turns(const struct dt_turns *turns, size_t first, size_t end)
{
    for (size_t i = first; i < end; i++) {
        const json_t *message = json_array_get(turns->messages, i);
        show("%s%s=%s", i > first ? " " : "", dt_turns_role(turns, i),
             json_string_value(json_object_get(message, "content")));
    }
}

static void show_ids(const int32_t *ids, size_t first, size_t end)
{
    for (size_t i = first; i < end; i++)
        show("%s%d", i > first ? " " : "", ids[i]);
}

static void show_pair(const struct dt_preference *p)
{
    shown[0] = '\0';
    if (p->prompt)
        show("%.*s|%s|%s", (int)p->prompt_bytes, p->prompt, p->completion[0],
             p->completion[1]);
    if (p->turns[0].count) {
        show_turns(&p->turns[0], 0, p->prompt_turns);
        for (int i = 0; i < DT_SIDES; i++) {
            show("|");
            show_turns(&p->turns[i], p->prompt_turns, p->turns[i].count);
        }
    }
    if (p->ids[0]) {
        show_ids(p->ids[0], 0, p->prompt_ids);
        for (int i = 0; i < DT_SIDES; i++) {
            show("|");
            show_ids(p->ids[i], p->prompt_ids, p->id_count[i]);
        }
    }
    if (p->margin != 0.0f)
        show(" %g", (double)p->margin);
}

static void check_line(const char *line,
                       const struct dt_example_options *options, bool implicit,
                       const char *want)
{
    struct dt_preference p;
    struct dt_error err;
    if (read_line(line, options, &p, &err) < 0)
        fail_msg("%s: %s", line, err.text);
    show_pair(&p);
    if (strcmp(shown, want) != 0 || p.implicit != implicit)
        fail_msg("%s: '%s', not '%s'", line, shown, want);
    dt_preference_fini(&p);
}

static void explicit_prompts_stand_before_both_sides(void **state)
{
    (void)state;
    check_line("{'prompt': 'p', 'chosen': 'a', 'rejected': 'b'}", &usual, false,
               "p|a|b");
    check_line("{'prompt': '', 'chosen': 'pa', 'rejected': 'pb'}", &usual,
               false, "|pa|pb");
    check_line("{'prompt': 'p', 'chosen': 'a', 'rejected': 'b', 'images': [], "
               "'tools': null, 'chat_template_kwargs': {}, 'margin': -0.5}",
               &usual, false, "p|a|b -0.5");
    check_line("{'prompt': [{'role': 'user', 'content': 'q'}], 'chosen': "
               "[{'role': 'assistant', 'content': 'a'}], 'rejected': "
               "[{'role': 'assistant', 'content': ''}, {'role': 'user', "
               "'content': 'r'}, {'role': 'assistant', 'content': 's'}]}",
               &usual, false,
               "user=q|assistant=a|assistant= user=r assistant=s");
}

/* As TRL's extract_prompt, except where that is one character off. */
static void implicit_prompts_are_what_sides_begin_with(void **state)
{
    (void)state;
    check_line("{'chosen': 'The sky is blue', 'rejected': 'The sky is green'}",
               &usual, true, "The sky is| blue| green");
    check_line("{'chosen': 'ab', 'rejected': 'cd', 'prompt': null}", &usual,
               true, "|ab|cd");
    check_line("{'chosen': ' a', 'rejected': ' b'}", &usual, true, "| a| b");
    check_line("{'chosen': 'x\xc3\xa9y', 'rejected': 'x\xc3\xaa'}", &usual,
               true, "x|\xc3\xa9y|\xc3\xaa");
    check_line("{'chosen': [{'role': 'system', 'content': 's'}, {'role': "
               "'user', 'content': 'q'}, {'role': 'assistant', 'content': "
               "'a'}], 'rejected': [{'role': 'system', 'content': 's'}, "
               "{'role': 'user', 'content': 'q'}, {'role': 'assistant', "
               "'content': 'b'}]}",
               &usual, true, "system=s user=q|assistant=a|assistant=b");
    /* a string beside conversations, as in UltraFeedback */
    check_line("{'prompt': 'q', 'chosen': [{'role': 'user', 'content': 'q'}, "
               "{'role': 'assistant', 'content': 'a'}], 'rejected': "
               "[{'role': 'user', 'content': 'q'}, {'role': 'assistant', "
               "'content': 'b'}], 'score_chosen': 8.5}",
               &usual, true, "user=q|assistant=a|assistant=b");
}

#define SIDE(answer)                                                           \
    "[{'role': 'user', 'content': 'q'}, {'role': 'assistant', 'content': "     \
    "'" answer "'}]"
#define SHARED                                                                 \
    "'conversations': [{'from': 'human', 'value': 'q'}, {'from': 'gpt', "      \
    "'value': "

/* As all columns of UltraFeedback. */
static void a_copy_of_a_side_is_not_the_prompt(void **state)
{
    const struct dt_example_options chat = {.messages_key = "chat"};
    static const char *const copies[] = {
        "'messages': " SIDE("a"), "'messages': " SIDE("b"), SHARED "'a'}]",
        "'chat': " SIDE("a"), "'messages': " SIDE("a") ", " SHARED "'b'}]"};
    char line[600];
    (void)state;
    for (size_t i = 0; i < sizeof(copies) / sizeof(copies[0]); i++) {
        snprintf(line, sizeof(line),
                 "{'prompt': 'q', 'chosen': " SIDE("a") ", 'rejected': " SIDE(
                     "b") ", %s}",
                 copies[i]);
        check_line(line, i == 3 ? &chat : &usual, true,
                   "user=q|assistant=a|assistant=b");
    }
}

static void thoughts_tell_messages_apart(void **state)
{
    (void)state;
    check_line("{'prompt': [{'role': 'user', 'content': 'q'}], 'chosen': "
               "[{'role': 'assistant', 'content': 'a', 'reasoning_content': "
               "'r'}], 'rejected': [{'role': 'assistant', 'content': 'a'}]}",
               &usual, false, "user=q|assistant=a|assistant=a");
}

static void other_projects_spellings_are_read(void **state)
{
    const struct dt_example_options columns = {.prompt_key = "question",
                                               .chosen_key = "good",
                                               .rejected_key = "bad",
                                               .margin_key = "gap"};
    const struct dt_example_options chat = {.messages_key = "chat"};
    (void)state;
    check_line("{'question': 'p', 'good': 'a', 'bad': 'b', 'gap': 2}", &columns,
               false, "p|a|b 2");
    check_line("{'conversations': [{'from': 'human', 'value': 'q'}], 'chosen': "
               "{'from': 'gpt', 'value': 'a'}, 'rejected': {'from': 'gpt', "
               "'value': 'b'}}",
               &usual, false, "user=q|assistant=a|assistant=b");
    check_line("{'conversations': [{'from': 'human', 'value': 'q'}], 'system': "
               "'s', 'chosen': {'from': 'gpt', 'value': 'a'}, 'rejected': "
               "{'from': 'gpt', 'value': 'b'}}",
               &usual, false, "system=s user=q|assistant=a|assistant=b");
    check_line("{'system': 's', 'chosen': [{'role': 'user', 'content': 'q'}, "
               "{'role': 'assistant', 'content': 'a'}], 'rejected': [{'role': "
               "'user', 'content': 'q'}, {'role': 'assistant', 'content': "
               "'b'}]}",
               &usual, true, "system=s user=q|assistant=a|assistant=b");
    check_line("{'chat': [{'role': 'user', 'content': 'q'}], 'chosen': "
               "{'role': 'assistant', 'content': 'a'}, 'rejected': {'role': "
               "'assistant', 'content': 'b'}}",
               &chat, false, "user=q|assistant=a|assistant=b");
    check_line("{'instruction': 'do', 'input': 'it', 'system': 's', 'chosen': "
               "'a', 'rejected': 'b', 'history': []}",
               &usual, false, "system=s user=do\nit|assistant=a|assistant=b");
    check_line("{'instruction': 'do', 'input': '', 'good': 'a', 'bad': 'b'}",
               &columns, false, "user=do|assistant=a|assistant=b");
}

static void ids_are_taken_as_they_are(void **state)
{
    (void)state;
    check_line("{'prompt_ids': [1, 2], 'chosen_ids': [3], 'rejected_ids': [4, "
               "5], 'margin': 1}",
               &usual, false, "1 2|3|4 5 1");
    check_line("{'chosen_input_ids': [1, 2, 3], 'rejected_input_ids': [1, 2, "
               "299, 0]}",
               &usual, true, "1 2|3|299 0");
    check_line("{'chosen_ids': [1], 'rejected_ids': [2]}", &usual, true,
               "|1|2");
}

#define Q "[{'role': 'user', 'content': 'q'}]"
#define A "[{'role': 'assistant', 'content': 'a'}]"
#define B "[{'role': 'assistant', 'content': 'b'}]"

static const struct {
    const char *line, *text;
} bad[] = {
    {"{'prompt': 'p', 'chosen': 'a', 'rejected': 'b'",
     "byte 46: '}' expected near end of file: each line must be a whole "
     "object: "
     "`jq -c . FILE` makes such lines"},
    {"['a', 'b']", "expected an object, got an array"},
    {"{'prompt': 'p', 'chosen': 'a'}",
     "rejected is missing: a pair needs chosen and rejected"},
    {"{'prompt': 'p', 'chosen': null, 'rejected': 'b'}",
     "chosen is missing: a pair needs chosen and rejected"},
    {"{'prompt_ids': [1], 'rejected_ids': [2]}",
     "chosen_ids is missing: a pair needs chosen_ids and rejected_ids"},
    {"{'prompt': 'p', 'completion': 'a', 'label': true}",
     "completions with a label are unpaired preferences, which are not "
     "supported: a pair needs chosen and rejected"},
    {"{'text': 'p', 'x\\n': 1}",
     "expected the keys chosen and rejected, got text, x? (data.columns "
     "renames keys)"},
    {"{}", "expected the keys chosen and rejected, got none (data.columns "
           "renames keys)"},
    {"{'prompt': 'p', 'chosen': 'a', 'rejected': 'a'}",
     "chosen and rejected are the same"},
    {"{'prompt': " Q ", 'chosen': " A ", 'rejected': " A "}",
     "chosen and rejected are the same"},
    {"{'chosen_ids': [1, 2], 'rejected_ids': [1, 2]}",
     "chosen_ids and rejected_ids are the same"},
    {"{'prompt': 'p', 'chosen': '', 'rejected': 'b'}",
     "chosen: an empty string"},
    {"{'chosen': 'a', 'rejected': ''}", "rejected: an empty string"},
    {"{'chosen': 'ab', 'rejected': 'abc'}",
     "chosen: an empty completion: rejected begins with all of it"},
    {"{'chosen_ids': [1, 2, 3], 'rejected_ids': [1, 2]}",
     "rejected_ids: an empty completion: chosen_ids begins with all of it"},
    {"{'prompt': " Q ", 'chosen': [{'role': 'assistant', 'content': ''}], "
     "'rejected': " B "}",
     "chosen: an empty completion"},
    {"{'prompt': " Q ", 'chosen': " A ", 'rejected': [{'role': 'assistant', "
     "'content': 'b', 'weight': 0}]}",
     "rejected: weight says that a message is not trained on, but pairs "
     "compare whole completions"},
    {"{'prompt': " Q ", 'chosen': [], 'rejected': " B "}",
     "chosen: no messages"},
    {"{'prompt': [], 'chosen': " A ", 'rejected': " B "}",
     "prompt: no messages"},
    {"{'chosen': " A ", 'rejected': " B "}",
     "chosen and rejected have no message in common that could be the prompt"},
    {"{'chosen': " Q ", 'rejected': [{'role': 'user', 'content': 'q'}, "
     "{'role': 'assistant', 'content': 'b'}]}",
     "chosen: an empty completion: rejected begins with all of it"},
    {"{'prompt': " Q ", 'chosen': [{'role': 'user', 'content': 'a'}], "
     "'rejected': " B "}",
     "chosen: message 1 is of the role user: a completion begins and ends "
     "with the assistant's"},
    {"{'prompt': " Q ", 'chosen': " A ", 'rejected': [{'role': 'assistant', "
     "'content': 'b'}, {'role': 'user', 'content': 'r'}]}",
     "rejected: message 2 is of the role user: a completion begins and ends "
     "with the assistant's"},
    {"{'chosen': [{'role': 'user', 'content': 'q'}, {'role': 'tool', "
     "'content': 't'}], 'rejected': [{'role': 'user', 'content': 'q'}, "
     "{'role': 'assistant', 'content': 'b'}]}",
     "chosen: message 2 is of the role tool: a completion begins and ends with "
     "the assistant's"},
    {"{'prompt': [{'role': 'assistant', 'content': 'x'}], 'chosen': " A
     ", 'rejected': " B "}",
     "the last message of the prompt is the assistant's, so there is nothing "
     "left to answer"},
    {"{'messages': " SIDE("c") ", 'chosen': " SIDE("a") ", 'rejected': " SIDE(
         "b") "}",
     "the last message of the prompt is the assistant's, so there is nothing "
     "left to answer"},
    {"{'prompt': [{'role': 'boss', 'content': 'x'}], 'chosen': " A
     ", 'rejected': " B "}",
     "prompt: message 1: role 'boss': expected system, developer, user, "
     "assistant, tool, human or gpt"},
    {"{'prompt': " Q ", 'chosen': " A ", 'rejected': [{'role': 'assistant', "
     "'content': [{'type': 'image'}]}]}",
     "rejected: message 1: content: a part of type image: only text is "
     "trained on"},
    {"{'prompt': " Q ", 'chosen': " A ", 'rejected': [{'role': 'assistant', "
     "'content': null}]}",
     "rejected: message 1: content: expected a string, got null"},
    {"{'prompt': 'p', 'chosen': 'a', 'rejected': 'b', 'images': ['x.png']}",
     "images: the model sees only text: leave it out, or train a model with "
     "a vision tower"},
    {"{'prompt': 'p', 'chosen': 'a', 'rejected': 'b', 'video': 'x.mp4'}",
     "video: only text and images are trained on: leave it out"},
    {"{'prompt': 'p', 'chosen': 'a', 'rejected': " B "}",
     "chosen and rejected: expected two strings or two arrays of messages, got "
     "a string and an array"},
    {"{'prompt': 'p', 'chosen': 1, 'rejected': 2}",
     "chosen and rejected: expected two strings or two arrays of messages, got "
     "a number and a number"},
    {"{'prompt': " Q ", 'chosen': 'a', 'rejected': 'b'}",
     "prompt: expected a string as chosen and rejected are, got an array"},
    {"{'conversations': " Q ", 'chosen': 'a', 'rejected': 'b'}",
     "conversations holds messages, so chosen and rejected must be messages, "
     "got strings"},
    {"{'prompt': [{'role': 'system', 'content': 's'}, {'role': 'user', "
     "'content': 'q'}], 'system': 't', 'chosen': " A ", 'rejected': " B "}",
     "system: the messages begin with a system message already"},
    {"{'prompt': " Q ", 'system': 1, 'chosen': " A ", 'rejected': " B "}",
     "system: expected a string, got a number"},
    {"{'prompt': 'p', 'system': 's', 'chosen': 'a', 'rejected': 'b'}",
     "system: a text has no place for it: give such lines as messages"},
    {"{'prompt': 1, 'chosen': 'a', 'rejected': 'b'}",
     "prompt: expected a string as chosen and rejected are, got a number"},
    {"{'prompt': 'p', 'chosen': 'a', 'rejected': 'b', 'margin': 'x'}",
     "margin: expected a number, got a string"},
    {"{'prompt': 'p', 'chosen': 'a', 'rejected': 'b', 'margin': 1e308}",
     "margin: 1e+308 is too large for fp32"},
    {"{'prompt': 'p', 'chosen': 'a', 'rejected': 'b', 'tools': [{}]}",
     "tools: only messages are rendered with it, and this line has none"},
    {"{'prompt': 'p', 'chosen': 'a', 'rejected': 'b', 'chat_template_kwargs': "
     "{'enable_thinking': false}}",
     "chat_template_kwargs: only messages are rendered with it, and this line "
     "has none"},
    {"{'instruction': 'i', 'chosen': 'a', 'rejected': 'b', 'history': [['q', "
     "'r']]}",
     "history: earlier turns are read from messages only: give such "
     "conversations as messages"},
    {"{'instruction': ['i'], 'input': 'x', 'chosen': 'a', 'rejected': 'b'}",
     "instruction: expected a string, got an array"},
    {"{'instruction': 'i', 'input': 1, 'chosen': 'a', 'rejected': 'b'}",
     "input: expected a string, got a number"},
    {"{'instruction': 'i', 'chosen': '', 'rejected': 'b'}",
     "chosen: an empty completion"},
    {"{'prompt_ids': [], 'chosen_ids': [1], 'rejected_ids': [2]}",
     "prompt_ids: expected an array of ids, got an empty one"},
    {"{'prompt_ids': [1], 'chosen_ids': [], 'rejected_ids': [2]}",
     "chosen_ids: expected an array of ids, got an empty one"},
    {"{'chosen_ids': [1], 'rejected_ids': [300]}",
     "rejected_ids[0]: expected an integer from 0 to 299"},
    {"{'chosen_ids': 'a', 'rejected_ids': [2]}",
     "chosen_ids: expected an array of ids, got a string"},
};

static void a_malformed_pair_is_refused_with_its_reason(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct dt_preference p;
        struct dt_error err = {0};
        int rc = read_line(bad[i].line, &usual, &p, &err);
        if (rc != -1 || strcmp(err.text, bad[i].text) != 0)
            fail_msg("%s: '%s', not '%s'", bad[i].line, err.text, bad[i].text);
        assert_int_equal(err.status, EX_DATAERR);
        dt_preference_fini(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(explicit_prompts_stand_before_both_sides),
        cmocka_unit_test(implicit_prompts_are_what_sides_begin_with),
        cmocka_unit_test(a_copy_of_a_side_is_not_the_prompt),
        cmocka_unit_test(thoughts_tell_messages_apart),
        cmocka_unit_test(other_projects_spellings_are_read),
        cmocka_unit_test(ids_are_taken_as_they_are),
        cmocka_unit_test(a_malformed_pair_is_refused_with_its_reason),
    };
    return cmocka_run_group_tests_name("preference", tests, NULL, NULL);
}
