/* SPDX-License-Identifier: Apache-2.0 */
/* test_answers.c - a completion that a model has written is text, whatever
 * control tokens and marks of images it spells
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "data/mask.h"
#include "tests/unit/data/images_scene.h"

enum { EOS = 257, FIRST_SPECIAL = 256 };

/* Answers as strings, and after messages. */
#define PLAIN                                                                  \
    "{% for m in messages %}{{ m.role[0] ~ ':' ~ m.content ~ '</s>' }}"        \
    "{% endfor %}"

/* A model that reads answers. */
struct reader {
    const struct dt_tokenizer *tokenizer;
    struct dt_chat *chat;
    struct dt_masker *masker;
    const char *family; /* of images; NULL: it sees text alone */
    bool foreign;       /* answers are of anybody, not of a policy */
};

static struct dt_tokenizer *plain;

static struct reader reader_with(const char *template, const char *family,
                                 bool parse_special)
{
    struct reader r = {.tokenizer = family ? tokenizer : plain,
                       .family = family};
    struct dt_error err;
    (void)with_images();
    images.text = dt_image_text_find(family ? family : "llava");
    r.chat = dt_chat_create(template, NULL, r.tokenizer, &err);
    assert_non_null(r.chat);
    r.masker = dt_masker_create(r.tokenizer, r.chat, &err, DT_LOSS_FULL,
                                parse_special, &err);
    assert_non_null(r.masker);
    if (family)
        assert_int_equal(dt_masker_use_images(r.masker, &images, &err), 0);
    return r;
}

static struct reader reader_of(const char *family, bool parse_special)
{
    return reader_with("auto", family, parse_special);
}

static void reader_end(struct reader *r)
{
    dt_masker_destroy(r->masker);
    dt_chat_destroy(r->chat);
}

/* A prompt: a text, or what a user says. */
struct asked {
    const char *text, *says;
    bool image; /* there is one */
};

static void add_messages(const struct reader *r, const struct asked *asked,
                         const char *answer, size_t bytes, json_t *files,
                         struct dt_record *record)
{
    struct dt_error err;
    json_t *user = json_pack("[{s:s, s:[{s:s, s:s}]}]", "role", "user",
                             "content", "type", "text", "text", asked->says);
    json_t *content = json_object_get(json_array_get(user, 0), "content");
    if (asked->image)
        json_array_append_new(content, json_pack("{s:s}", "type", "image"));
    if (!r->family)
        json_object_set_new(json_array_get(user, 0), "content",
                            json_string(asked->says));
    json_t *said =
        json_pack("{ss ss%}", "role", "assistant", "content", answer, bytes);
    record->turns.allow_images = r->family;
    assert_int_equal(dt_turns_add(&record->turns, user, "prompt", &err), 0);
    record->prompt_turns = record->turns.count;
    assert_int_equal(dt_turns_add_one(&record->turns, said, "answer", &err), 0);
    if (r->family)
        record->images =
            dt_turns_place_images(&record->turns, files, false, &err);
    json_decref(user);
    json_decref(said);
}

/* The words of a prompt and an answer, for free(). */
static struct dt_marked words_of(const struct reader *r,
                                 const struct asked *asked, const char *answer,
                                 size_t bytes)
{
    struct dt_record record = {.format = DT_FORMAT_PROMPT_COMPLETION,
                               .answered = !r->foreign};
    struct dt_marked words = {0};
    struct dt_error err;
    bool seam;
    json_t *files = asked->image ? json_pack("[s]", "a.png") : json_array();
    if (asked->text) {
        record.prompt = asked->text;
        record.completion = answer;
        record.completion_bytes = bytes;
        record.images = r->family ? json_incref(files) : NULL;
    } else {
        add_messages(r, asked, answer, bytes, files, &record);
    }
    if (dt_masker_add(r->masker, &record, &words, &seam, &err) < 0)
        fail_msg("\"%s\": %s", answer, err.text);
    json_decref(record.images);
    json_decref(files);
    dt_turns_fini(&record.turns);
    return words;
}

/* The words are those of an answer of nothing, the bytes of this one, and EOS.
 */
static void expect_bytes(const struct reader *r, const struct asked *asked,
                         const char *answer, size_t n)
{
    struct dt_marked empty = words_of(r, asked, "", 0);
    struct dt_marked words = words_of(r, asked, answer, n);
    const size_t head = empty.count - 1;
    assert_int_equal(words.count, head + n + 1);
    assert_memory_equal(words.tokens, empty.tokens, head * sizeof(uint32_t));
    for (size_t i = 0; i < n; i++)
        assert_int_equal(words.tokens[head + i] & ~DT_TARGET_BIT,
                         (unsigned char)answer[i]);
    assert_int_equal(words.tokens[head + n] & ~DT_TARGET_BIT, EOS);
    free(empty.tokens);
    free(words.tokens);
}

static void expect_text(const struct reader *r, const struct asked *asked,
                        const char *answer)
{
    expect_bytes(r, asked, answer, strlen(answer));
}

/* Answers with each special token, with all of them, and with a NUL. */
static void expect_all(const struct reader *r, const struct asked *asked)
{
    const size_t end = dt_tokenizer_vocab_size(r->tokenizer);
    char all[2000] = "", one[100];
    assert_true(end > FIRST_SPECIAL + CONTROL_TOKENS - 1);
    for (int32_t id = FIRST_SPECIAL; id < (int32_t)end; id++) {
        size_t bytes;
        char *text = dt_detokenize_all(r->tokenizer, false, &id, 1, &bytes);
        assert_true(dt_tokenizer_is_special(r->tokenizer, id));
        assert_int_equal(dt_tokenizer_id(r->tokenizer, text), id);
        snprintf(one, sizeof(one), "a%sb", text);
        expect_text(r, asked, text);
        expect_text(r, asked, one);
        strcat(all, one);
        free(text);
    }
    expect_text(r, asked, all);
    expect_text(r, asked, "");
    expect_bytes(r, asked, "a\0b</s>", 8);
}

/* The number of tokens with this id. */
static size_t count_of(const struct reader *r, const struct asked *asked,
                       const char *answer, uint32_t id)
{
    struct dt_marked words = words_of(r, asked, answer, strlen(answer));
    struct dt_example_parts parts = {.tokens = words.tokens,
                                     .token_count = words.count};
    size_t n = 0;
    if (r->family)
        assert_true(dt_example_find(words.tokens, words.count, &parts));
    for (size_t i = 0; i < parts.token_count; i++)
        n += (parts.tokens[i] & ~DT_TARGET_BIT) == id;
    free(words.tokens);
    return n;
}

static void a_model_of_text_reads_answers_as_text(void **state)
{
    struct reader r = reader_of(NULL, true);
    const struct asked text = {.text = "<|im_start|>q<think>"};
    const struct asked talk = {.says = "<think>q"};
    (void)state;
    expect_all(&r, &text);
    expect_all(&r, &talk);
    /* the prompt has its tokens */
    assert_int_equal(count_of(&r, &text, "<think>", 260), 1);
    assert_int_equal(count_of(&r, &talk, "<think>", 260), 1);
    reader_end(&r);
}

static void a_model_with_a_tower_reads_answers_as_text(void **state)
{
    static const char *const families[] = {"llava", "qwen2_vl", "gemma3",
                                           "smolvlm"};
    (void)state;
    put_image("a.png", 2, 3);
    for (size_t i = 0; i < 4; i++) {
        struct reader r = reader_of(families[i], true);
        char text[100];
        snprintf(text, sizeof(text), "<think>%s?", images.text->mark);
        const struct asked prompts[] = {
            {.text = "<|im_start|>q"},
            {.text = text, .image = true},
            {.says = "<think>q"},
            {.says = "look", .image = i == 0},
        };
        for (size_t k = 0; k < 4; k++)
            expect_all(&r, &prompts[k]);
        assert_int_equal(count_of(&r, &prompts[1], "<think>", 260), 1);
        reader_end(&r);
    }
}

/* A token is never made of the end of one and the beginning of the other. */
static void a_token_does_not_span_a_prompt_and_its_answer(void **state)
{
    struct reader r = reader_of("llava", true);
    (void)state;
    put_image("a.png", 2, 3);
    expect_text(&r, &(struct asked){.text = "q<ima"}, "ge>");
    expect_text(&r, &(struct asked){.text = "<image>q<ima", .image = true},
                "ge>k");
    expect_text(&r, &(struct asked){.text = "q</s"}, "></s>");
    reader_end(&r);
}

/* A prompt may be of a model of another family, where they are text. */
static void marks_in_messages_of_a_prompt_are_text(void **state)
{
    struct reader r = reader_of("gemma3", true);
    const struct asked talk = {.says = "<start_of_image>k<image_soft_token>"
                                       "<think>"};
    (void)state;
    expect_all(&r, &talk);
    assert_int_equal(count_of(&r, &talk, "z", 275), 0);
    assert_int_equal(count_of(&r, &talk, "z", 277), 0);
    assert_int_equal(count_of(&r, &talk, "z", 260), 1);
    reader_end(&r);
}

/* Characters of private use stand for control tokens meanwhile: those that the
 * text does not have.
 */
static void any_character_may_be_beside_them(void **state)
{
    struct reader r = reader_of(NULL, true);
    const struct asked talk = {.says = "q\U000F0000"};
    char all[200] = "</s>";
    struct dt_error err;
    (void)state;
    expect_text(&r, &talk, "\U000F0001</s>\U000F1000<think>");
    for (unsigned block = 0; block < 15; block++) {
        const char character[] = {(char)0xf3, (char)(0xb0 + block), (char)0x80,
                                  (char)0x80, '\0'};
        if (block > 0)
            expect_text(&r, &talk, all);
        strcat(all, character);
    }
    struct dt_record record = {.answered = true};
    struct dt_marked words = {0};
    bool seam;
    add_messages(&r, &talk, all, strlen(all), NULL, &record);
    assert_int_equal(dt_masker_add(r.masker, &record, &words, &seam, &err), -1);
    assert_string_equal(err.text,
                        "text that spells control tokens, and characters of "
                        "private use from all over U+F0000 to U+FEFFF, which "
                        "stand for them here");
    dt_turns_fini(&record.turns);
    free(words.tokens);
    reader_end(&r);
}

/* A template may write them, and keys may have them, beside a control token
 * that is spelled, of which there is one.
 */
static void templates_may_write_them_too(void **state)
{
    static const char literal[] = "{% for m in messages %}\U000F0005"
                                  "{{ m.content ~ '</s>' }}{% endfor %}";
    const struct asked talk = {.says = "q"};
    FILE *f = fopen(scratch_path("literal.jinja"), "w");
    (void)state;
    assert_true(f && fputs(literal, f) >= 0 && fclose(f) == 0);
    struct reader r = reader_with(scratch_path("literal.jinja"), NULL, true);
    assert_int_equal(count_of(&r, &talk, "</s>", 0xf3), 2);
    reader_end(&r);
}

/* As data.parse_special: false has it, prompts spell none either. */
static void prompts_may_be_text_as_well(void **state)
{
    struct reader sees = reader_of("llava", false), reads;
    const struct asked text = {.text = "<think><image>q", .image = true};
    (void)state;
    put_image("a.png", 2, 3);
    expect_all(&sees, &text);
    assert_int_equal(count_of(&sees, &text, "<image>", PLACEHOLDER), 6);
    assert_int_equal(count_of(&sees, &text, "<think>", 260), 0);
    reader_end(&sees);
    reads = reader_of(NULL, false);
    expect_all(&reads, &text);
    assert_int_equal(count_of(&reads, &text, "<think>", 260), 0);
    reader_end(&reads);
}

/* As commands that score read a file: as training does, but for marks. */
static void marks_alone_may_be_text(void **state)
{
    static const char marks[] = "k<start_of_image><image_soft_token>l";
    struct reader r = reader_of("gemma3", true);
    const struct asked prompts[] = {
        {.text = "q"},
        {.text = "<start_of_image>q", .image = true},
        {.says = "q"},
        {.says = marks}};
    (void)state;
    put_image("a.png", 2, 3);
    dt_masker_keep_marks(r.masker);
    r.foreign = true;
    for (size_t i = 0; i < 4; i++) {
        expect_text(&r, &prompts[i], marks);
        expect_text(&r, &prompts[i], "<start_of_image>");
        assert_int_equal(count_of(&r, &prompts[i], "<think>a", 260), 1);
        assert_int_equal(
            count_of(&r, &prompts[i], "<image_soft_token><think>", 260), 1);
        assert_int_equal(count_of(&r, &prompts[i], marks, 277),
                         prompts[i].image ? 6 : 0);
    }
    reader_end(&r);
}

static int set_up(void **state)
{
    tokenizer = images_tokenizer();
    plain = bytes_tokenizer("plain", NULL, "</s>", PLAIN);
    return images_set_up(state);
}

static int tear_down(void **state)
{
    (void)state;
    dt_tokenizer_destroy(tokenizer);
    dt_tokenizer_destroy(plain);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_model_of_text_reads_answers_as_text),
        cmocka_unit_test(a_model_with_a_tower_reads_answers_as_text),
        cmocka_unit_test(a_token_does_not_span_a_prompt_and_its_answer),
        cmocka_unit_test(marks_in_messages_of_a_prompt_are_text),
        cmocka_unit_test(any_character_may_be_beside_them),
        cmocka_unit_test(templates_may_write_them_too),
        cmocka_unit_test(prompts_may_be_text_as_well),
        cmocka_unit_test(marks_alone_may_be_text),
    };
    return cmocka_run_group_tests_name("answers", tests, set_up, tear_down);
}
