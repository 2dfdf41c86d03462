/* SPDX-License-Identifier: Apache-2.0 */
/* test_examples.c - lines as tokens, the targets in them, and bad lines */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/data/examples_file.h"

/* The error of opening a file with these contents. */
static const char *refusal(const char *name, const char *text,
                           const struct dt_example_options *options, int status)
{
    static struct dt_error err;
    err = (struct dt_error){0};
    assert_null(
        open_file(scratch_write(name, text, strlen(text)), options, &err));
    assert_int_equal(err.status, status);
    return err.text;
}

/* --- tokens --- */

/* The only example of a file with that line. */
static const char *shown_line(const char *line,
                              const struct dt_example_options *options)
{
    struct dt_examples *examples =
        open_good(scratch_write("line.jsonl", line, strlen(line)), options);
    assert_int_equal(dt_examples_count(examples), 1);
    const char *text = shown(examples, 0);
    dt_examples_close(examples);
    return text;
}

static void a_text_ends_with_one_end_token(void **state)
{
    struct dt_example_options options = usual();
    (void)state;
    assert_string_equal(shown_line("{\"text\": \"ab\"}", &options), "[ab$]");
    assert_string_equal(shown_line("{\"text\": \"ab</s>\"}", &options),
                        "[ab$]");
    assert_string_equal(shown_line("{\"text\": \"\"}", &options), "[$]");
    assert_string_equal(shown_line("{\"text\": \"<|im_end|>\"}", &options),
                        "[#$]");
    options.parse_special = false;
    assert_string_equal(shown_line("{\"text\": \"a</s>\"}", &options),
                        "[a</s>$]");
}

static void targets_of_a_pair_follow_the_loss_option(void **state)
{
    static const char line[] = "{\"prompt\": \"ab\", \"completion\": \"cd\"}";
    struct dt_example_options options = usual();
    (void)state;
    assert_string_equal(shown_line(line, &options), "ab[cd$]");
    options.loss_on = DT_LOSS_COMPLETION;
    assert_string_equal(shown_line(line, &options), "ab[cd$]");
    options.loss_on = DT_LOSS_FULL;
    assert_string_equal(shown_line(line, &options), "[abcd$]");
    assert_string_equal(
        shown_line("{\"prompt\": \"\", \"completion\": \"\"}", &options),
        "[$]");
}

#define MESSAGE(role, content)                                                 \
    "{\"role\": \"" role "\", \"content\": \"" content "\"}"

static void targets_of_message_pairs_follow_the_loss_option(void **state)
{
    static const char line
        [] = "{\"prompt\": [" MESSAGE("user", "u") ", " MESSAGE("assistant", "x") ", " MESSAGE(
            "user",
            "v") "], \"completion\": [" MESSAGE("assistant",
                                                "a") ", " MESSAGE("user",
                                                                  "w") ","
                                                                       " " MESSAGE(
                                                                           "ass"
                                                                           "ist"
                                                                           "an"
                                                                           "t",
                                                                           "b") "]}";
    struct dt_example_options options = usual();
    (void)state;
    assert_string_equal(
        shown_line(line, &options),
        "#user\nu#\n#assistant\nx#\n#user\nv#\n#assistant\n[a#\n#user\nw#\n"
        "#assistant\nb#\n]");
    options.loss_on = DT_LOSS_ASSISTANT;
    assert_string_equal(
        shown_line(line, &options),
        "#user\nu#\n#assistant\nx#\n#user\nv#\n#assistant\n[a#\n]#user\nw#\n"
        "#assistant\n[b#\n]");
}

/* A template that opens a thought for the model, and drops those of answers:
 * the prompt alone has more tokens than what an answer follows.
 */
static void a_completion_begins_where_its_template_parts(void **state)
{
    static const char line[] = "{\"prompt\": [" MESSAGE(
        "user", "u") "], \"completion\": [" MESSAGE("assistant", "answer") "]}";
    static const char text[] = "{\"prompt\": \"x<|im_\", \"completion\": "
                               "\"end|>\"}";
    struct dt_example_options options = usual();
    struct dt_tokenizer *before = tokenizer;
    (void)state;
    assert_string_equal(shown_line(text, &options), "x[#$]");
    tokenizer = bytes_tokenizer(
        "thinks", NULL, "</s>",
        CHATML "{% if add_generation_prompt %}{{ '<think>\n' }}{% endif %}");
    assert_string_equal(shown_line(line, &options),
                        "#user\nu#\n#assistant\n[answer#\n]");
    dt_tokenizer_destroy(tokenizer);
    tokenizer = before;
}

static void messages_are_written_by_the_chat_template(void **state)
{
    static const char line[] =
        "{\"messages\": [" MESSAGE("user", "u") ", " MESSAGE(
            "assistant", "\\u00e9\\n") ", " MESSAGE("user", "") "]}";
    struct dt_example_options options = usual();
    (void)state;
    assert_string_equal(shown_line(line, &options),
                        "[#user\nu#\n#assistant\n\xc3\xa9\n#\n#user\n#\n]");
    options.loss_on = DT_LOSS_ASSISTANT;
    assert_string_equal(shown_line(line, &options),
                        "#user\nu#\n#assistant\n[\xc3\xa9\n#\n]#user\n#\n");
    options.chat_template = "qwen2.5";
    assert_string_equal(
        shown_line(line, &options),
        "#system\nYou are Qwen, created by Alibaba Cloud. You are a helpful "
        "assistant.#\n#user\nu#\n#assistant[\n\xc3\xa9\n#\n]#user\n#\n");
    options.chat_template = "qwen3";
    assert_string_equal(
        shown_line(line, &options),
        "#user\nu#\n#assistant\n[#\n\n#\n\n\xc3\xa9\n#\n]#user\n#\n");
}

/* Text that spells control tokens is text, the template's are not. */
static void control_tokens_in_content_are_parsed_if_asked(void **state)
{
    static const char line[] = "{\"messages\": [" MESSAGE(
        "user", "<|im_end|>") ", " MESSAGE("assistant", "</s>a") "]}";
    struct dt_example_options options = usual();
    (void)state;
    options.loss_on = DT_LOSS_ASSISTANT;
    assert_string_equal(shown_line(line, &options),
                        "#user\n##\n#assistant\n[$a#\n]");
    options.parse_special = false;
    assert_string_equal(shown_line(line, &options),
                        "#user\n<|im_end|>#\n#assistant\n[</s>a#\n]");
}

/* --- messages that are not to be trained on --- */

#define MARKING                                                                \
    "{% for m in messages %}{{ m.role[0] }}{% if m.role == 'assistant' %}"     \
    "{% generation %}{{ m.content }}.{% endgeneration %}{% endif %}"           \
    "{% endfor %}"

static void answers_that_the_file_leaves_out_are_no_targets(void **state)
{
    static const char *const nos[] = {"\"weight\": 0", "\"weight\": 0.0",
                                      "\"train\": false", "\"loss\": false",
                                      "\"training\": false"};
    struct dt_example_options options = usual();
    char line[500];
    (void)state;
    for (size_t i = 0; i < sizeof(nos) / sizeof(nos[0]); i++) {
        snprintf(line, sizeof(line),
                 "{\"messages\": [{\"role\": \"user\", \"content\": \"u\"}, "
                 "{\"role\": \"assistant\", \"content\": \"a\", %s}, "
                 "{\"role\": \"user\", \"content\": \"v\"}, {\"role\": "
                 "\"assistant\", \"content\": \"b\", \"weight\": 1}]}",
                 nos[i]);
        options.loss_on = DT_LOSS_ASSISTANT;
        assert_string_equal(shown_line(line, &options),
                            "#user\nu#\n#assistant\na#\n#user\nv#\n"
                            "#assistant\n[b#\n]");
        options.loss_on = DT_LOSS_FULL;
        assert_string_equal(shown_line(line, &options),
                            "[#user\nu#\n#assistant\n]a#\n[#user\nv#\n"
                            "#assistant\nb#\n]");
    }
}

static void answers_of_a_completion_are_left_out(void **state)
{
    static const char line[] =
        "{\"prompt\": [{\"role\": \"user\", \"content\": \"u\", \"train\": "
        "false}], \"completion\": [{\"role\": \"assistant\", \"content\": "
        "\"a\"}, {\"role\": \"user\", \"content\": \"v\"}, {\"role\": "
        "\"assistant\", \"content\": \"b\", \"train\": false}]}";
    struct dt_example_options options = usual();
    (void)state;
    assert_string_equal(shown_line(line, &options),
                        "#user\nu#\n#assistant\n[a#\n#user\nv#\n#assistant\n]"
                        "b#\n");
    options.loss_on = DT_LOSS_ASSISTANT;
    assert_string_equal(shown_line(line, &options),
                        "#user\nu#\n#assistant\n[a#\n]#user\nv#\n#assistant\n"
                        "b#\n");
}

static void answers_are_left_out_of_what_a_template_marks(void **state)
{
    static const char line[] =
        "{\"messages\": [{\"role\": \"user\", \"content\": \"u\"}, {\"role\": "
        "\"assistant\", \"content\": \"a\", \"weight\": 0}, {\"role\": "
        "\"assistant\", \"content\": \"b\"}]}";
    struct dt_example_options options = usual();
    struct dt_tokenizer *usual_one = tokenizer;
    (void)state;
    tokenizer = bytes_tokenizer("marking", NULL, "</s>", MARKING);
    assert_string_equal(shown_line(line, &options), "[ua]a.[ab.]");
    options.loss_on = DT_LOSS_ASSISTANT;
    assert_string_equal(shown_line(line, &options), "uaa.a[b.]");
    dt_tokenizer_destroy(tokenizer);
    tokenizer =
        bytes_tokenizer("twice", NULL, "</s>",
                        MARKING "{% generation %}end{% endgeneration %}");
    assert_non_null(strstr(
        refusal("line.jsonl", line, &options, EX_DATAERR),
        "message 3: it is ambiguous what {% generation %} in the chat template "
        "marks of it, but some messages are not to be trained on: use a "
        "template that marks each answer once (data.chat_template)"));
    dt_tokenizer_destroy(tokenizer);
    tokenizer = usual_one;
}

static void what_a_file_says_of_other_messages_is_not_ignored(void **state)
{
    static const struct {
        enum dt_loss_on loss_on;
        const char *said, *why;
    } cases[] = {
        {DT_LOSS_FULL, "\"train\": false",
         "message 1: train says that this message of the role user is not "
         "trained on, but all messages are: data.loss_on: assistant trains on "
         "answers alone"},
        {DT_LOSS_ASSISTANT, "\"weight\": 1",
         "message 1: weight says that this message of the role user is "
         "trained on, but only answers are: data.loss_on: full trains on all "
         "messages"},
        {DT_LOSS_FULL, "\"weight\": 0.5",
         "messages: message 1: weight: expected 0 or 1, whether it is trained "
         "on"},
        {DT_LOSS_FULL, "\"train\": 0",
         "messages: message 1: train: expected true or false, whether it is "
         "trained on"},
    };
    struct dt_example_options options = usual();
    char line[500];
    (void)state;
    for (size_t i = 0; i < 2 * sizeof(cases) / sizeof(cases[0]); i++) {
        snprintf(line, sizeof(line),
                 "{\"messages\": [{\"role\": \"user\", \"content\": \"u\", "
                 "%s}, {\"role\": \"assistant\", \"content\": \"a\"}]}",
                 i % 2 ? "\"train\": null" : cases[i / 2].said);
        options.loss_on = cases[i / 2].loss_on;
        if (i % 2) {
            shown_line(line, &options);
            continue;
        }
        const char *why = refusal("line.jsonl", line, &options, EX_DATAERR);
        if (!strstr(why, cases[i / 2].why))
            fail_msg("'%s', not '%s'", why, cases[i / 2].why);
    }
}

/* --- ids, and files --- */

static void given_ids_and_labels_are_used_unchanged(void **state)
{
    struct dt_example_options options = usual();
    (void)state;
    assert_string_equal(
        shown_line("{\"input_ids\": [97, 98, 257, 99], \"labels\": [-100, 98, "
                   "257, -100]}",
                   &options),
        "a[b$]c");
}

static void a_text_file_without_objects_is_one_example(void **state)
{
    struct dt_example_options options = usual();
    (void)state;
    struct dt_examples *examples =
        open_good(scratch_write("a.txt", "[1]\n</s>{", 9), &options);
    assert_int_equal(dt_examples_count(examples), 1);
    assert_int_equal(dt_examples_targets(examples), 7);
    assert_string_equal(shown(examples, 0), "[[1]\n${$]");
    dt_examples_close(examples);
    examples = open_good(scratch_write("b.txt", "\n{\"text\": \"a\"}\n", 15),
                         &options);
    assert_string_equal(shown(examples, 0), "[a$]");
    dt_examples_close(examples);
}

/* --- files that are refused --- */

static void bad_files_are_refused_with_a_reason(void **state)
{
    static const struct {
        const char *name, *text, *why;
    } cases[] = {
        {"r.jsonl", "", "r.jsonl: empty"},
        {"r.jsonl", "\n \n", "r.jsonl: empty"},
        {"r.csv", "text\n", "r.csv: it has no rows"},
        {"r.txt", "", "r.txt: empty"},
        {"r.txt", "a\xff",
         "r.txt: byte 1 (0xff): not UTF-8 text: `iconv -f LATIN1 -t UTF-8` "
         "makes UTF-8 of Latin-1"},
        {"r.json", " [{\"text\": \"a\"},\n{\"txt\": 1}]",
         "r.json: row 2: text: expected a string, got nothing"},
        {"r.csv", "txt\na\n",
         "r.csv:2: expected the key text, prompt and completion, messages"},
        {"r.jsonl", "\n{\"txt\": \"a\"}",
         "r.jsonl:2: expected the key text, prompt and completion, messages"},
        {"r.jsonl", "{\"text\": \"a\"}\n\n{\"text\": 1}\nx", "1 bad line of "},
        {"r.jsonl", "{\"text\": \"a\"}\n\n{\"text\": 1}\nx",
         "is already more than the 0 % allowed (data.bad_lines); "},
        {"r.jsonl", "{\"text\": \"a\"}\n\n{\"text\": 1}\nx",
         "r.jsonl:3: text: expected a string, got a number"},
        {"r.jsonl", "{\"text\": \"a\"}\n\nx",
         "r.jsonl:3: byte 1: '[' or '{' expected near 'x'"},
    };
    struct dt_example_options options = usual();
    struct dt_error err;
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const char *why =
            refusal(cases[i].name, cases[i].text, &options, EX_DATAERR);
        if (!strstr(why, cases[i].why))
            fail_msg("'%s', not '%s'", why, cases[i].why);
    }
    assert_null(open_file(scratch_path("nothing"), &options, NULL));
    assert_null(open_file(scratch_path("nothing"), &options, &err));
    assert_int_equal(err.status, EX_NOINPUT);
    options.bad_limit = 1;
    assert_non_null(
        strstr(refusal("r.jsonl", "{\"text\": 1}", &options, EX_DATAERR),
               "r.jsonl: no example in it"));
}

#define GOOD "{\"prompt\": \"a\", \"completion\": \"b\"}\n"
#define BAD "{\"prompt\": 1, \"completion\": \"b\"}\n"
#define MINE                                                                   \
    "{\"prompt\": [{\"role\": \"user\", \"content\": \"a\"}], "                \
    "\"completion\": [{\"role\": \"assistant\", \"content\": \"b\"}]}\n"

/* A template may fail on each line, and be slow. What comes behind the last
 * line that is looked at here would be another error.
 */
static void lines_behind_one_bad_line_too_many_are_left_alone(void **state)
{
    static const struct {
        double limit;
        const char *text, *why;
        int status;
    } cases[] = {
        {0, GOOD BAD MINE, "1 bad line of ", EX_DATAERR},
        {0.4, GOOD BAD BAD MINE, "2 bad lines of ", EX_DATAERR},
        {0.5, GOOD BAD BAD MINE, "4: messages need a chat temp", EX_CONFIG},
        {0.5, BAD BAD BAD MINE, "3 bad lines of ", EX_DATAERR},
        {0.5, "\n" BAD BAD GOOD, "2 of 3 lines of ", EX_DATAERR},
    };
    struct dt_example_options options = usual();
    (void)state;
    options.format = DT_FORMAT_PROMPT_COMPLETION;
    options.chat_template = "none";
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        options.bad_limit = cases[i].limit;
        const char *why =
            refusal("b.jsonl", cases[i].text, &options, cases[i].status);
        if (!strstr(why, cases[i].why))
            fail_msg("'%s', not '%s'", why, cases[i].why);
    }
}

static bool always(void)
{
    return true;
}

/* Also while rows become lines. */
static void reading_ends_when_it_is_told_to(void **state)
{
    static const char *const names[] = {"s.jsonl", "s.csv"};
    struct dt_example_options options = usual();
    (void)state;
    options.stop = always;
    for (size_t i = 0; i < 2; i++)
        assert_non_null(strstr(
            refusal(names[i], i ? "text\na\n" : GOOD, &options, EX_TEMPFAIL),
            ": stopped by a signal"));
    options.stop = NULL;
    dt_examples_close(open_good(scratch_path("s.jsonl"), &options));
    options.stop = always; /* there is nothing left to do */
    dt_examples_close(open_good(scratch_path("s.jsonl"), &options));
}

static void a_loss_that_does_not_fit_is_refused(void **state)
{
    static const struct {
        enum dt_loss_on loss_on;
        const char *text, *why;
    } cases[] = {
        {DT_LOSS_COMPLETION, "{\"text\": \"a\"}",
         "data.loss_on: completion needs prompt and completion, the file "
         "holds text"},
        {DT_LOSS_COMPLETION, "{\"messages\": []}", "the file holds messages"},
        {DT_LOSS_ASSISTANT, "{\"input_ids\": []}",
         "data.loss_on: assistant needs messages, the file holds tokens"},
        {DT_LOSS_ASSISTANT, "text", "the file holds text"},
    };
    struct dt_example_options options = usual();
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        options.loss_on = cases[i].loss_on;
        const char *why =
            refusal("loss.txt", cases[i].text, &options, EX_DATAERR);
        if (!strstr(why, cases[i].why))
            fail_msg("'%s', not '%s'", why, cases[i].why);
    }
}

static void messages_without_a_chat_template_are_refused(void **state)
{
    static const char turns[] = "{\"messages\": [" MESSAGE("user", "u") "]}";
    static const char pair[] = "{\"prompt\": [" MESSAGE(
        "user", "u") "], \"completion\": [" MESSAGE("assistant", "a") "]}";
    struct dt_example_options options = usual();
    (void)state;
    options.chat_template = "none";
    assert_non_null(strstr(refusal("n.jsonl", turns, &options, EX_CONFIG),
                           "n.jsonl: messages need a chat template, and "
                           "data.chat_template is none; it may be auto, a "
                           "file, or one of chatml"));
    assert_non_null(strstr(refusal("n.jsonl", pair, &options, EX_CONFIG),
                           "n.jsonl:1: messages need a chat template"));
    options.chat_template = "vicuna";
    assert_non_null(strstr(refusal("n.jsonl", turns, &options, EX_CONFIG),
                           "n.jsonl: no chat template 'vicuna'"));
}

static void another_chat_template_makes_another_cache(void **state)
{
    static const char turns[] = "{\"messages\": [" MESSAGE("user", "u") "]}";
    struct dt_example_options options = usual();
    struct dt_tokenizer *before = tokenizer;
    (void)state;
    const char *path = scratch_write("c.jsonl", turns, sizeof(turns) - 1);
    struct dt_examples *examples = open_good(path, &options);
    uint64_t hash = dt_examples_hash(examples);
    dt_examples_close(examples);
    tokenizer = bytes_tokenizer("other", NULL, "</s>", CHATML "{{ '' }}");
    examples = open_good(scratch_path("c.jsonl"), &options);
    assert_true(made);
    assert_true(dt_examples_hash(examples) != hash);
    dt_examples_close(examples);
    dt_tokenizer_destroy(tokenizer);
    tokenizer = before;
}

/* A control token that the prompt begins and the completion ends. */
static void pairs_with_bad_seams_are_counted(void **state)
{
    static const char text[] =
        "{\"prompt\": \"<|im_\", \"completion\": \"end|>\"}\n"
        "{\"prompt\": \"a\", \"completion\": \"b\"}\n";
    struct dt_example_options options = usual();
    (void)state;
    dt_examples_close(
        open_good(scratch_write("s.jsonl", text, strlen(text)), &options));
    assert_non_null(strstr(
        notes, "s.jsonl: in 1 of 2 lines the end of the prompt has other "
               "tokens when a completion follows, and the loss begins there: "
               "a prompt alone is continued from tokens that were not "
               "trained; let prompts end, or completions start, with a blank "
               "or a new line, as the tokenizer expects it, and chat "
               "templates write a prompt in one way\n"));
}

static void bad_lines_within_the_limit_are_noted(void **state)
{
    struct dt_example_options options = usual();
    char text[4096] = "{\"messages\": [" MESSAGE("human", "u") "]}\n";
    (void)state;
    options.bad_limit = 0.95;
    for (int i = 0; i < 10; i++)
        strcat(text, "{}\n");
    scratch_write("n.jsonl", text, strlen(text));
    for (int i = 0; i < 2; i++) { /* made, then found */
        struct dt_examples *examples =
            open_good(scratch_path("n.jsonl"), &options);
        assert_int_equal(made, i == 0);
        assert_int_equal(dt_examples_bad_lines(examples), 10);
        assert_int_equal(dt_examples_count(examples), 1);
        dt_examples_close(examples);
        assert_non_null(strstr(notes, "n.jsonl:9: messages: expected an array "
                                      "of messages, got nothing\n"));
        assert_null(strstr(notes, "n.jsonl:10:"));
        assert_non_null(strstr(notes, "n.jsonl: 2 more bad lines\n"));
        assert_non_null(strstr(notes, "n.jsonl: 1 messages from human and gpt "
                                      "are treated as from user and "
                                      "assistant\n"));
    }
    options.bad_limit = 0.9;
    assert_non_null(strstr(refusal("n.jsonl", text, &options, EX_DATAERR),
                           "10 of 11 lines of"));
}

/* Messages have the end that their template writes. */
static void a_tokenizer_without_an_end_is_noted(void **state)
{
    struct dt_example_options options = usual();
    struct dt_tokenizer *usual_one = tokenizer;
    (void)state;
    tokenizer = bytes_tokenizer("endless", NULL, NULL, CHATML);
    assert_string_equal(shown_line("{\"text\": \"e\"}", &options), "[e]");
    assert_non_null(
        strstr(notes, "line.jsonl: the tokenizer names no eos_token, so that "
                      "nothing ends texts without a chat template, and a model "
                      "does not learn to stop: name one in "
                      "tokenizer_config.json\n"));
    shown_line("{\"messages\": [" MESSAGE("user", "u") "]}", &options);
    assert_string_equal(notes, "");
    dt_tokenizer_destroy(tokenizer);
    tokenizer = usual_one;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_text_ends_with_one_end_token),
        cmocka_unit_test(targets_of_a_pair_follow_the_loss_option),
        cmocka_unit_test(targets_of_message_pairs_follow_the_loss_option),
        cmocka_unit_test(a_completion_begins_where_its_template_parts),
        cmocka_unit_test(messages_are_written_by_the_chat_template),
        cmocka_unit_test(control_tokens_in_content_are_parsed_if_asked),
        cmocka_unit_test(answers_that_the_file_leaves_out_are_no_targets),
        cmocka_unit_test(answers_of_a_completion_are_left_out),
        cmocka_unit_test(answers_are_left_out_of_what_a_template_marks),
        cmocka_unit_test(what_a_file_says_of_other_messages_is_not_ignored),
        cmocka_unit_test(given_ids_and_labels_are_used_unchanged),
        cmocka_unit_test(a_text_file_without_objects_is_one_example),
        cmocka_unit_test(bad_files_are_refused_with_a_reason),
        cmocka_unit_test(lines_behind_one_bad_line_too_many_are_left_alone),
        cmocka_unit_test(reading_ends_when_it_is_told_to),
        cmocka_unit_test(a_loss_that_does_not_fit_is_refused),
        cmocka_unit_test(messages_without_a_chat_template_are_refused),
        cmocka_unit_test(another_chat_template_makes_another_cache),
        cmocka_unit_test(pairs_with_bad_seams_are_counted),
        cmocka_unit_test(bad_lines_within_the_limit_are_noted),
        cmocka_unit_test(a_tokenizer_without_an_end_is_noted),
    };
    tokenizer = bytes_tokenizer("tokenizer", NULL, "</s>", CHATML);
    int rc = cmocka_run_group_tests_name("examples", tests, NULL, NULL);
    dt_tokenizer_destroy(tokenizer);
    return rc;
}
