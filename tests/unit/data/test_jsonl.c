/* SPDX-License-Identifier: Apache-2.0 */
/* test_jsonl.c - lines of JSONL, and what each format makes of them */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "data/jsonl.h"
#include "data/forms/forms.h"

static const struct dt_example_options usual;

/* --- lines --- */

static void blank_lines_are_skipped_and_still_counted(void **state)
{
    static const char data[] = "\xef\xbb\xbf{1}\r\n\r\n \t\n{2}\n\n\xef\xbb\xbf"
                               "{3}\n{4}\r";
    static const struct {
        const char *text;
        uint64_t line;
    } expected[] = {{"{1}", 1}, {"{2}", 4}, {"\xef\xbb\xbf{3}", 6}, {"{4}", 7}};
    size_t at = 0, length;
    uint64_t line = 0;
    (void)state;
    for (size_t i = 0; i < 4; i++) {
        const char *text =
            dt_jsonl_next(data, sizeof(data) - 1, &at, &line, &length);
        assert_non_null(text);
        assert_int_equal(length, strlen(expected[i].text));
        assert_memory_equal(text, expected[i].text, length);
        assert_int_equal(line, expected[i].line);
    }
    assert_null(dt_jsonl_next(data, sizeof(data) - 1, &at, &line, &length));
    at = 0;
    assert_null(dt_jsonl_next("\xef\xbb\xbf", 3, &at, &line, &length));
    at = 0;
    assert_non_null(dt_jsonl_next("\0", 1, &at, &line, &length));
}

/* However long the parts, they are the file, whole lines each. */
static void parts_of_any_length_hold_whole_lines(void **state)
{
    static const char data[] = "a\n\nbbbbbbbb\ncc\nd\n\n\neeeeeee";
    size_t bytes = sizeof(data) - 1;
    (void)state;
    for (size_t size = 1; size <= bytes + 1; size++) {
        struct dt_part parts[sizeof(data)];
        size_t count = dt_jsonl_parts(data, bytes, size, parts);
        uint64_t lines = 1;
        assert_in_range(count, 1, bytes / size + 1);
        assert_int_equal(parts[0].begin, 0);
        assert_int_equal(parts[count - 1].end, bytes);
        for (size_t i = 0; i < count; i++) {
            assert_int_equal(parts[i].line, lines);
            assert_true(i == 0 || (parts[i].begin == parts[i - 1].end &&
                                   data[parts[i].begin - 1] == '\n'));
            assert_true(parts[i].end - parts[i].begin >= size ||
                        i == count - 1);
            for (size_t b = parts[i].begin; b < parts[i].end; b++)
                lines += data[b] == '\n';
        }
    }
}

/* --- records --- */

static struct dt_record read_good(const char *line, enum dt_format format,
                                  const struct dt_example_options *options)
{
    struct dt_record record;
    struct dt_error err;
    if (dt_jsonl_read(line, strlen(line), format, options, 300, &record, &err) <
        0)
        fail_msg("%s: %s", line, err.text);
    return record;
}

/* A string of a message, NULL if there is none. */
static const char *message_key(const struct dt_record *record, size_t i,
                               const char *key)
{
    return json_string_value(
        json_object_get(json_array_get(record->turns.messages, i), key));
}

static void check_message(const struct dt_record *record, size_t i,
                          const char *role, const char *content)
{
    assert_true(i < record->turns.count);
    assert_string_equal(dt_turns_role(&record->turns, i), role);
    assert_string_equal(message_key(record, i, "content"), content);
}

static void text_is_read_from_the_configured_key(void **state)
{
    struct dt_example_options other = {.text_key = "body"};
    (void)state;
    struct dt_record record =
        read_good("{\"text\": \"a\\u00e9\\n\", \"id\": 99999999999999999999}",
                  DT_FORMAT_TEXT, &usual);
    assert_string_equal(record.text, "a\xc3\xa9\n");
    dt_record_fini(&record);
    record =
        read_good("{\"body\": \"b\", \"text\": 1}", DT_FORMAT_TEXT, &other);
    assert_string_equal(record.text, "b");
    dt_record_fini(&record);
}

static void prompts_and_completions_are_strings_or_messages(void **state)
{
    struct dt_example_options other = {.prompt_key = "q",
                                       .completion_key = "a"};
    (void)state;
    struct dt_record record =
        read_good("{\"prompt\": \"p\", \"completion\": \"c\"}",
                  DT_FORMAT_PROMPT_COMPLETION, &usual);
    assert_string_equal(record.prompt, "p");
    assert_string_equal(record.completion, "c");
    assert_int_equal(record.prompt_turns, 0);
    dt_record_fini(&record);
    record = read_good(
        "{\"q\": [{\"role\": \"system\", \"content\": \"s\"}, {\"role\": "
        "\"user\", \"content\": \"u\"}], \"a\": [{\"role\": \"assistant\", "
        "\"content\": \"r\"}]}",
        DT_FORMAT_PROMPT_COMPLETION, &other);
    assert_null(record.prompt);
    assert_int_equal(record.prompt_turns, 2);
    assert_int_equal(record.turns.count, 3);
    check_message(&record, 1, "user", "u");
    check_message(&record, 2, "assistant", "r");
    dt_record_fini(&record);
}

static void tools_parts_and_variables_are_kept(void **state)
{
    (void)state;
    struct dt_record record = read_good(
        "{\"messages\": [{\"role\": \"developer\", \"content\": [{\"type\": "
        "\"text\", \"text\": \"d\"}]}, {\"role\": \"assistant\", "
        "\"content\": null, \"tool_calls\": [{\"id\": 7}]}], \"tools\": "
        "\"[{}, {}]\", \"chat_template_kwargs\": {\"enable_thinking\": "
        "false}}",
        DT_FORMAT_MESSAGES, &usual);
    const json_t *call = json_array_get(record.turns.messages, 1);
    assert_string_equal(dt_turns_role(&record.turns, 0), "developer");
    assert_int_equal(json_array_size(record.turns.tools), 2);
    assert_int_equal(json_object_size(record.turns.variables), 1);
    /* a key that is null is none, as in transformers */
    assert_null(json_object_get(call, "content"));
    assert_int_equal(json_array_size(json_object_get(call, "tool_calls")), 1);
    dt_record_fini(&record);
}

static void messages_are_read_in_both_spellings(void **state)
{
    struct dt_example_options other = {.messages_key = "chat"};
    (void)state;
    struct dt_record record = read_good(
        "{\"messages\": [{\"role\": \"tool\", \"content\": \"t\"}, {\"role\": "
        "\"assistant\", \"content\": \"a\", \"reasoning_content\": \"r\", "
        "\"tool_calls\": []}], \"tools\": null}",
        DT_FORMAT_MESSAGES, &usual);
    check_message(&record, 0, "tool", "t");
    check_message(&record, 1, "assistant", "a");
    /* under the names that templates read */
    assert_string_equal(message_key(&record, 1, "reasoning_content"), "r");
    assert_string_equal(message_key(&record, 1, "thinking"), "r");
    assert_null(record.turns.tools);
    assert_int_equal(record.turns.renamed, 0);
    dt_record_fini(&record);
    record = read_good(
        "{\"conversations\": [{\"from\": \"human\", \"value\": \"h\"}, "
        "{\"from\": \"gpt\", \"value\": \"g\"}, {\"from\": \"user\", "
        "\"value\": \"u\"}], \"system\": \"s\"}",
        DT_FORMAT_MESSAGES, &usual);
    check_message(&record, 0, "system", "s");
    check_message(&record, 1, "user", "h");
    check_message(&record, 2, "assistant", "g");
    check_message(&record, 3, "user", "u");
    assert_int_equal(record.turns.renamed, 2);
    dt_record_fini(&record);
    record = read_good("{\"chat\": [{\"role\": \"user\", \"content\": \"\"}]}",
                       DT_FORMAT_MESSAGES, &other);
    check_message(&record, 0, "user", "");
    dt_record_fini(&record);
}

static void labels_choose_which_tokens_are_targets(void **state)
{
    (void)state;
    struct dt_record record =
        read_good("{\"input_ids\": [0, 7, 299]}", DT_FORMAT_TOKENIZED, &usual);
    assert_int_equal(record.id_count, 3);
    assert_int_equal(record.ids[2], 299);
    assert_true(record.targets[0] && record.targets[1] && record.targets[2]);
    dt_record_fini(&record);
    record =
        read_good("{\"input_ids\": [1, 2, 3], \"labels\": [-100, 2, -100]}",
                  DT_FORMAT_TOKENIZED, &usual);
    assert_true(!record.targets[0] && record.targets[1] && !record.targets[2]);
    dt_record_fini(&record);
}

static const struct {
    enum dt_format format;
    const char *line, *text;
} bad[] = {
    {DT_FORMAT_TEXT, "{\"text\": \"a\"",
     "byte 12: '}' expected near end of file: each line must be a whole "
     "object: "
     "`jq -c . FILE` makes such lines"},
    {DT_FORMAT_TEXT, "{\"text\": \"a\", \"n\": NaN}",
     "invalid token near 'NaN': JSON has no such number: write null"},
    {DT_FORMAT_TEXT, "{\"n\": Infinity}",
     "invalid token near 'Infinity': JSON has no such number: write null"},
    {DT_FORMAT_TEXT, "{\"text\": \"a\"} x", "end of file expected near 'x'"},
    {DT_FORMAT_TEXT, "{\"text\": \"\\ud800\"}", "invalid Unicode '\\uD800'"},
    {DT_FORMAT_TEXT, "{\"text\": \"\xff\"}",
     "unable to decode byte 0xff near '\"': not UTF-8: `iconv -f LATIN1 -t "
     "UTF-8` "
     "makes UTF-8 of Latin-1"},
    {DT_FORMAT_TEXT, "{\"text\": \"\\u0000\"}",
     "U+0000 in a string (\\u0000) is not read here: remove it"},
    {DT_FORMAT_TEXT, "{\"text\": \"a\x1b\"}",
     "control character 0x1b near '\"a'"},
    {DT_FORMAT_TEXT, "{\"text\": 1, \"text\": 2}", "duplicate object key"},
    {DT_FORMAT_TEXT, "{\"text\": \"a\", \"n\": 1e999}", "real number overflow"},
    {DT_FORMAT_TEXT, "[1]", "expected an object, got an array"},
    {DT_FORMAT_TEXT, "{}", "text: expected a string, got nothing"},
    {DT_FORMAT_TEXT, "{\"text\": null}", "text: expected a string, got null"},
    {DT_FORMAT_TEXT, "{\"text\": {\"not read\": \"a column of dates\"}}",
     "text: expected a string, got a column of dates"},
    {DT_FORMAT_MESSAGES, "{\"messages\": \"[{\\\"role\\\": \\\"user\\\"}]\"}",
     "messages: expected an array of messages, got a string with JSON in it: "
     "json.loads makes the array of it"},
    {DT_FORMAT_MESSAGES, "{\"messages\": \"hi\"}",
     "messages: expected an array of messages, got a string"},
    {DT_FORMAT_TEXT, "{\"text\": []}", "text: expected a string, got an array"},
    {DT_FORMAT_TEXT, "{\"text\": true}", "expected a string, got a boolean"},
    {DT_FORMAT_PROMPT_COMPLETION, "{\"prompt\": \"a\"}",
     "prompt and completion: expected two strings or two arrays of messages, "
     "got a string and nothing"},
    {DT_FORMAT_PROMPT_COMPLETION, "{\"prompt\": \"a\", \"completion\": []}",
     "got a string and an array"},
    {DT_FORMAT_PROMPT_COMPLETION, "{\"prompt\": [], \"completion\": []}",
     "prompt: no messages"},
    {DT_FORMAT_PROMPT_COMPLETION,
     "{\"prompt\": [{\"role\": \"assistant\", \"content\": \"\"}], "
     "\"completion\": []}",
     "prompt: the last message is the assistant's"},
    {DT_FORMAT_MESSAGES, "{}",
     "messages: expected an array of messages, got "
     "nothing"},
    {DT_FORMAT_MESSAGES, "{\"conversations\": 1}",
     "conversations: expected an array of messages, got a number"},
    {DT_FORMAT_MESSAGES, "{\"messages\": [\"a\"]}",
     "messages: message 1: expected an object, got a string"},
    {DT_FORMAT_MESSAGES, "{\"messages\": [{\"content\": \"a\"}]}",
     "messages: message 1: role: expected a string, got nothing"},
    {DT_FORMAT_MESSAGES, "{\"messages\": [{\"role\": \"x\\ny\"}]}",
     "messages: message 1: role 'x?y': expected system, developer, user, "
     "assistant, tool, human or gpt"},
    {DT_FORMAT_MESSAGES, "{\"messages\": [{\"role\": \"user\"}]}",
     "message 1: content: expected a string, got nothing"},
    {DT_FORMAT_MESSAGES, "{\"messages\": [{\"from\": \"gpt\", \"value\": {}}]}",
     "message 1: value: expected a string, got an object"},
    {DT_FORMAT_MESSAGES,
     "{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": "
     "\"text\", \"text\": \"a\"}, {\"type\": \"image_url\"}]}]}",
     "messages: message 1: content: a part of type image_url: only text "
     "is trained on"},
    {DT_FORMAT_MESSAGES,
     "{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": "
     "\"text\"}]}]}",
     "message 1: content: part 1: expected an object with type and text"},
    {DT_FORMAT_MESSAGES, "{\"messages\": [], \"tools\": {}}",
     "tools: expected an array, got an object"},
    {DT_FORMAT_MESSAGES, "{\"messages\": [], \"tools\": \"[\"}",
     "tools: expected an array, got a string that holds none"},
    {DT_FORMAT_MESSAGES, "{\"messages\": [], \"chat_template_kwargs\": 1}",
     "chat_template_kwargs: expected an object, got a number"},
    {DT_FORMAT_MESSAGES,
     "{\"id\": 99999999999999999999, \"messages\": [], \"tools\": [{\"n\": "
     "3}]}",
     "1e+20 is beyond the integers of 64 bits, and numbers in messages or "
     "tools would be written as 3.0 beside it: write it as a string"},
    {DT_FORMAT_MESSAGES,
     "{\"messages\": [{\"role\": \"user\", \"content\": \"a\", \"weight\": "
     "1e308}]}",
     "1e+308 is beyond the integers of 64 bits"},
    {DT_FORMAT_MESSAGES,
     "{\"messages\": [{\"role\": \"system\", \"content\": \"s\"}], "
     "\"system\": \"t\"}",
     "system: the messages begin with a system message already"},
    {DT_FORMAT_MESSAGES,
     "{\"conversations\": [{\"from\": \"system\", \"value\": \"s\"}], "
     "\"system\": \"t\"}",
     "system: the messages begin with a system message already"},
    {DT_FORMAT_PROMPT_COMPLETION,
     "{\"prompt\": \"p\", \"completion\": \"c\", \"system\": \"s\"}",
     "system: a text has no place for it: give such lines as messages"},
    {DT_FORMAT_TEXT, "{\"text\": \"a\", \"tools\": [{}]}",
     "tools: only messages are rendered with it, and this line has none"},
    {DT_FORMAT_MESSAGES,
     "{\"messages\": [{\"role\": \"assistant\", \"tool_calls\": []}]}",
     "message 1: content: expected a string, got nothing"},
    {DT_FORMAT_TOKENIZED, "{}",
     "input_ids: expected an array of ids, got nothing"},
    {DT_FORMAT_TOKENIZED, "{\"input_ids\": []}", "got an empty one"},
    {DT_FORMAT_TOKENIZED, "{\"input_ids\": [1, 300]}",
     "input_ids[1]: expected an integer from 0 to 299"},
    {DT_FORMAT_TOKENIZED, "{\"input_ids\": [-1]}", "input_ids[0]"},
    {DT_FORMAT_TOKENIZED, "{\"input_ids\": [1.0]}", "input_ids[0]"},
    {DT_FORMAT_TOKENIZED, "{\"input_ids\": [1], \"labels\": []}",
     "labels: expected an array as long as input_ids, 1"},
    {DT_FORMAT_TOKENIZED, "{\"input_ids\": [1], \"labels\": [2]}",
     "labels[0]: expected -100 or the id at the same place"},
    {DT_FORMAT_TOKENIZED, "{\"input_ids\": [1], \"labels\": [\"a\"]}",
     "labels[0]"},
};

static void a_malformed_record_is_refused_with_its_reason(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct dt_record record;
        struct dt_error err = {0};
        int rc = dt_jsonl_read(bad[i].line, strlen(bad[i].line), bad[i].format,
                               &usual, 300, &record, &err);
        if (rc != -1 || !strstr(err.text, bad[i].text) ||
            strpbrk(err.text, "\n\x1b"))
            fail_msg("%s: '%s', not '%s'", bad[i].line, err.text, bad[i].text);
        assert_int_equal(err.status, EX_DATAERR);
        dt_record_fini(&record);
    }
}

/* --- formats --- */

static void the_keys_of_a_line_tell_its_format(void **state)
{
    static const struct {
        const char *line;
        enum dt_format format;
    } good[] = {
        {"{\"text\": 0, \"meta\": {}}", DT_FORMAT_TEXT},
        {"{\"text\": 0, \"messages\": []}", DT_FORMAT_MESSAGES},
        {"{\"conversations\": []}", DT_FORMAT_MESSAGES},
        {"{\"completion\": 0, \"prompt\": 0, \"text\": 0}",
         DT_FORMAT_PROMPT_COMPLETION},
        {"{\"input_ids\": []}", DT_FORMAT_TOKENIZED},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        enum dt_format format;
        struct dt_error err;
        assert_int_equal(dt_jsonl_format(good[i].line, strlen(good[i].line),
                                         &usual, &format, &err),
                         0);
        assert_int_equal(format, good[i].format);
    }
}

static void a_line_of_no_known_format_is_refused(void **state)
{
    static const struct {
        const char *line, *text;
    } cases[] = {
        {"{\"prompt\": \"a\", \"b\\nc\": 1}",
         "expected the key text, prompt and completion, messages, "
         "conversations, instruction and output, or input_ids; got prompt, "
         "b?c (data.columns renames keys)"},
        {"{}", "got none"},
        {"{\"chosen\": 1, \"rejected\": 1}",
         "chosen and rejected are for preference training"},
        {"{\"prompt\": \"\", \"completion\": \"\", \"label\": true}",
         "prompt and completion with a label are unpaired preferences"},
        {"3", "byte 1: '[' or '{' expected near '3'"},
        {"{x", "byte 2: string or '}' expected near 'x'"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        enum dt_format format;
        struct dt_error err;
        assert_int_equal(dt_jsonl_format(cases[i].line, strlen(cases[i].line),
                                         &usual, &format, &err),
                         -1);
        if (!strstr(err.text, cases[i].text))
            fail_msg("%s: '%s'", cases[i].line, err.text);
    }
}

/* --- lines of any length --- */

static void a_line_is_read_up_to_what_it_may_have(void **state)
{
    static char data[] = "{1}\n\n0123456\n01234567\n";
    FILE *file = fmemopen(data, sizeof(data) - 1, "r");
    struct dt_error err = {0};
    char *line = NULL;
    size_t room = 0;
    (void)state;
    assert_int_equal(dt_line_read(file, &line, &room, 8, &err), 4);
    assert_string_equal(line, "{1}\n");
    assert_int_equal(dt_line_read(file, &line, &room, 8, &err), 1);
    assert_int_equal(dt_line_read(file, &line, &room, 8, &err), 8);
    assert_string_equal(line, "0123456\n");
    assert_int_equal(dt_line_read(file, &line, &room, 8, &err), -1);
    assert_int_equal(err.status, EX_DATAERR);
    assert_string_equal(err.text, "a line of more than 256 MiB: is a line "
                                  "break missing?");
    free(line);
    fclose(file);
}

static void the_last_line_needs_no_end(void **state)
{
    static char data[] = "a";
    FILE *file = fmemopen(data, 1, "r");
    char *line = NULL;
    size_t room = 0;
    (void)state;
    assert_int_equal(dt_line_read(file, &line, &room, 8, NULL), 1);
    assert_string_equal(line, "a");
    assert_int_equal(dt_line_read(file, &line, &room, 8, NULL), 0);
    free(line);
    fclose(file);
}

/* It is not looked at: there is no such text. */
static void a_line_that_is_too_long_is_not_parsed(void **state)
{
    struct dt_error err = {0};
    (void)state;
    assert_null(dt_line_parse("{", (size_t)DT_LINE_BYTES + 1, &err));
    assert_int_equal(err.status, EX_DATAERR);
    assert_string_equal(err.text, "a line of more than 256 MiB: is a line "
                                  "break missing?");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blank_lines_are_skipped_and_still_counted),
        cmocka_unit_test(parts_of_any_length_hold_whole_lines),
        cmocka_unit_test(text_is_read_from_the_configured_key),
        cmocka_unit_test(prompts_and_completions_are_strings_or_messages),
        cmocka_unit_test(tools_parts_and_variables_are_kept),
        cmocka_unit_test(messages_are_read_in_both_spellings),
        cmocka_unit_test(labels_choose_which_tokens_are_targets),
        cmocka_unit_test(a_malformed_record_is_refused_with_its_reason),
        cmocka_unit_test(the_keys_of_a_line_tell_its_format),
        cmocka_unit_test(a_line_of_no_known_format_is_refused),
        cmocka_unit_test(a_line_is_read_up_to_what_it_may_have),
        cmocka_unit_test(the_last_line_needs_no_end),
        cmocka_unit_test(a_line_that_is_too_long_is_not_parsed),
    };
    return cmocka_run_group_tests_name("jsonl", tests, NULL, NULL);
}
