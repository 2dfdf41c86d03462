/* SPDX-License-Identifier: Apache-2.0 */
/* test_sentencepiece.c - .model files, and the configuration beside them */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/scratch.h"
#include "tokenizer/tokenizer_impl.h"

/* A message that is written field by field. */
struct message {
    unsigned char data[8192];
    size_t bytes;
};

static void put_byte(struct message *m, unsigned value)
{
    assert_true(m->bytes < sizeof(m->data));
    m->data[m->bytes++] = (unsigned char)value;
}

static void put_varint(struct message *m, size_t value)
{
    for (; value >= 0x80; value >>= 7)
        put_byte(m, 0x80 | (value & 0x7f));
    put_byte(m, (unsigned)value);
}

static void put_number(struct message *m, size_t field, size_t value)
{
    put_varint(m, field << 3);
    put_varint(m, value);
}

static void put_bytes(struct message *m, size_t field, const void *data,
                      size_t bytes)
{
    put_varint(m, field << 3 | 2);
    put_varint(m, bytes);
    for (size_t i = 0; i < bytes; i++)
        put_byte(m, ((const unsigned char *)data)[i]);
}

static void put_piece(struct message *m, const char *text, float score,
                      enum dt_spm_type type)
{
    struct message piece = {.bytes = 0};
    unsigned char bits[4];
    memcpy(bits, &score, 4);
    put_bytes(&piece, 1, text, strlen(text));
    put_varint(&piece, 2 << 3 | 5);
    for (size_t i = 0; i < 4; i++)
        put_byte(&piece, bits[i]);
    put_number(&piece, 3, type);
    put_bytes(m, 1, piece.data, piece.bytes);
}

/* Pieces 0 to 8; the model is of type 1 (Unigram) or 2 (BPE). */
static struct message make_model(size_t type)
{
    struct message m = {.bytes = 0}, trainer = {.bytes = 0};
    put_number(&trainer, 3, type);
    put_bytes(&m, 2, trainer.data, trainer.bytes);
    put_piece(&m, "<unk>", 0, DT_SPM_UNKNOWN);
    put_piece(&m, "<s>", 0, DT_SPM_CONTROL);
    put_piece(&m, "</s>", 0, DT_SPM_CONTROL);
    put_piece(&m, "ab", 0, DT_SPM_USER);
    put_piece(&m, DT_TOK_MARK "a", -1, DT_SPM_NORMAL);
    put_piece(&m, DT_TOK_MARK, -2, DT_SPM_NORMAL);
    put_piece(&m, "a", -3, DT_SPM_NORMAL);
    put_piece(&m, "b", -4, DT_SPM_NORMAL);
    put_piece(&m, "ba", -1.5, DT_SPM_NORMAL);
    return m;
}

/* Ids of a text as "1@0-3 2@3-4", or the error. */
static const char *encode(const struct dt_tokenizer *tokenizer,
                          const char *text, unsigned flags)
{
    static char out[1024];
    struct dt_error err = {0};
    struct dt_tokens tokens = {0};
    struct dt_encoder *encoder = dt_encoder_create(tokenizer, &err);
    size_t n = 0;
    out[0] = '\0';
    if (dt_encode(encoder, text, strlen(text), flags | DT_ENCODE_OFFSETS,
                  &tokens, &err) < 0)
        snprintf(out, sizeof(out), "%s", err.text);
    for (size_t i = 0; i < tokens.count; i++)
        n += (size_t)snprintf(out + n, sizeof(out) - n, "%s%d@%u-%u",
                              i ? " " : "", (int)tokens.ids[i], tokens.begin[i],
                              tokens.end[i]);
    dt_tokens_fini(&tokens);
    dt_encoder_destroy(encoder);
    return out;
}

static struct dt_tokenizer *try_load(const struct message *m,
                                     struct dt_error *err)
{
    return dt_tokenizer_load(scratch_write("t.model", m->data, m->bytes), err);
}

static void both_kinds_encode_and_decode(void **state)
{
    static const char *const ids[] = {
        NULL, "4@0-1 8@1-3 3@3-5 0@5-7 5@7-8 7@10-11",
        "5@0-0 3@0-2 6@2-3 3@3-5 0@5-7 5@7-8 7@10-11"};
    (void)state;
    for (size_t type = 1; type <= 2; type++) {
        struct dt_error err = {0};
        struct message m = make_model(type);
        struct dt_tokenizer *t = try_load(&m, &err);
        size_t bytes;
        if (!t)
            fail_msg("%s", err.text);
        assert_string_equal(encode(t, "abaabxy   b ", 0), ids[type]);
        assert_int_equal(dt_tokenizer_special(t, DT_TOKEN_BOS), 1);
        assert_int_equal(dt_tokenizer_special(t, DT_TOKEN_EOS), 2);
        assert_int_equal(dt_tokenizer_special(t, DT_TOKEN_PAD), -1);
        /* control symbols are found if asked for, and what follows them is not
           the start of the text */
        assert_string_equal(encode(t, "<s>a", 0), "5@0-0 0@0-3 6@3-4");
        assert_string_equal(encode(t, "<s>a", DT_ENCODE_SPECIAL),
                            "1@0-3 6@3-4");
        char *text =
            dt_detokenize_all(t, true, (int32_t[]){1, 4, 5, 8, 2}, 5, &bytes);
        assert_string_equal(text, "a ba");
        free(text);
        dt_tokenizer_destroy(t);
    }
}

/* --- what is refused --- */

static void expect_refusal(const struct message *m, const char *text)
{
    struct dt_error err = {0};
    const char *path = scratch_path("t.model");
    assert_null(try_load(m, &err));
    assert_int_equal(err.status, EX_DATAERR);
    assert_memory_equal(err.text, path, strlen(path));
    assert_string_equal(err.text + strlen(path), text);
}

static void malformed_files_are_refused_by_name(void **state)
{
    struct message m = {.bytes = 0};
    (void)state;
    expect_refusal(&m, ": expected a model of SentencePiece, and there are no "
                       "pieces");
    put_byte(&m, 0x0b);
    expect_refusal(&m, ": byte 1: expected a field of protobuf");
    m.bytes = 0;
    put_byte(&m, 0x0a);
    put_byte(&m, 5);
    expect_refusal(&m, ": byte 2: a field is longer than its message");
    m.bytes = 0;
    put_byte(&m, 0xff);
    expect_refusal(&m, ": byte 1: a number is too long or cut short");
    m.bytes = 0;
    put_piece(&m, "a", 0, DT_SPM_NORMAL);
    expect_refusal(&m, ": no piece is of type UNKNOWN");
    put_piece(&m, "a", 0, DT_SPM_NORMAL);
    expect_refusal(&m, ": pieces[1]: \"a\" has the ids 0 and 1");
    m.bytes = 0;
    put_piece(&m, "\xff", 0, DT_SPM_NORMAL);
    expect_refusal(&m, ": pieces[0]: expected UTF-8 text, without U+0000");
    m.bytes = 0;
    put_piece(&m, "a", 0, (enum dt_spm_type)9);
    expect_refusal(&m, ": pieces[0]: type: 9 is not known");
}

static void models_that_are_not_known_are_refused(void **state)
{
    struct message m = make_model(3), trainer = {.bytes = 0};
    (void)state;
    expect_refusal(&m, ": trainer_spec: model_type 3 is not supported; UNIGRAM "
                       "(1) and BPE (2) are");
    m = make_model(2);
    put_piece(&m, "aa", -9, DT_SPM_UNUSED);
    expect_refusal(&m, ": pieces[9]: type UNUSED is not supported with BPE");
    m = make_model(2);
    put_piece(&m, "bz", -9, DT_SPM_NORMAL);
    expect_refusal(&m, ": pieces[9]: it has a character that is no piece, "
                       "which is not supported with BPE");
    m = make_model(1);
    put_number(&trainer, 35, 1);
    put_bytes(&m, 2, trainer.data, trainer.bytes);
    expect_refusal(&m, ": byte_fallback: no piece for the byte 0");
    m = make_model(1);
    put_bytes(&m, 5, "\x12\x01x", 3);
    expect_refusal(&m, ": denormalizer_spec: precompiled_charsmap: not "
                       "supported");
}

/* --- in a directory --- */

/* Loads a directory with the model of BPE and this tokenizer_config.json. */
static struct dt_tokenizer *load_beside(const char *config,
                                        struct dt_error *err)
{
    struct message m = make_model(2);
    char directory[512];
    snprintf(directory, sizeof(directory), "%s", scratch_path("dir"));
    assert_int_equal(dt_file_mkdirs(directory, NULL), 0);
    scratch_write("dir/tokenizer.model", m.data, m.bytes);
    scratch_write("dir/tokenizer_config.json", config, strlen(config));
    assert_true(dt_tokenizer_in(directory));
    return dt_tokenizer_load(directory, err);
}

/* What "a</s>" becomes with the tokens at its ends. */
static const char *ends(const char *config)
{
    struct dt_error err = {0};
    struct dt_tokenizer *t = load_beside(config, &err);
    if (!t)
        fail_msg("%s", err.text);
    const char *out = encode(t, "a[X]", DT_ENCODE_POST | DT_ENCODE_SPECIAL);
    dt_tokenizer_destroy(t);
    return out;
}

static void the_class_or_its_keys_say_what_ends_a_text(void **state)
{
    struct dt_error err = {0};
    (void)state;
    assert_string_equal(ends("{\"tokenizer_class\": \"LlamaTokenizer\"}"),
                        "1@0-0 4@0-1 0@1-4");
    assert_string_equal(ends("{\"tokenizer_class\": \"T5TokenizerFast\"}"),
                        "4@0-1 0@1-4 2@4-4");
    assert_string_equal(ends("{\"tokenizer_class\": \"GemmaTokenizer\", "
                             "\"add_bos_token\": false, \"add_eos_token\": "
                             "true}"),
                        "4@0-1 0@1-4 2@4-4");
    assert_string_equal(
        ends("{\"add_bos_token\": false, \"add_eos_token\": false}"),
        "4@0-1 0@1-4");
    assert_null(load_beside("{\"tokenizer_class\": \"XTokenizer\"}", &err));
    assert_non_null(strstr(err.text,
                           "/tokenizer_config.json: tokenizer_class "
                           "\"XTokenizer\": not known with a "
                           "model of SentencePiece; say with add_bos_token and "
                           "add_eos_token whether"));
}

static void tokens_of_the_configuration_are_added(void **state)
{
    struct dt_error err = {0};
    (void)state;
#define ADDED(id, text)                                                        \
    "{\"tokenizer_class\": \"LlamaTokenizer\", \"added_tokens_decoder\": "     \
    "{\"" id "\": {\"content\": \"" text                                       \
    "\", \"special\": true, \"normalized\": "                                  \
    "false, \"lstrip\": true}}}"
    assert_string_equal(ends(ADDED("9", "[X]")), "1@0-0 4@0-1 9@1-4");
    assert_null(load_beside(ADDED("2", "[X]"), &err));
    assert_non_null(strstr(err.text, "id 2 is \"</s>\" and \"[X]\""));
    assert_null(load_beside(ADDED("10", "[X]"), &err));
    assert_non_null(strstr(err.text, "added_tokens_decoder: id 10: expected "
                                     "ids from 9 on without a gap"));
    assert_null(load_beside(ADDED("x", "[X]"), &err));
    assert_non_null(strstr(err.text, "added_tokens_decoder: x: expected an id "
                                     "from 0 to 4194303, and a token"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_kinds_encode_and_decode),
        cmocka_unit_test(malformed_files_are_refused_by_name),
        cmocka_unit_test(models_that_are_not_known_are_refused),
        cmocka_unit_test(the_class_or_its_keys_say_what_ends_a_text),
        cmocka_unit_test(tokens_of_the_configuration_are_added),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
