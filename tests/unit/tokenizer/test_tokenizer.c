/* SPDX-License-Identifier: Apache-2.0 */
/* test_tokenizer.c - tokenizer.json: what is read, refused, and made of text */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "tests/unit/scratch.h"
#include "tokenizer/tokenizer_impl.h"

/* The parts of a small file, in its order. */
#define TOKEN(id, text, more)                                                  \
    "{\"id\": " #id ", \"content\": \"" text "\", \"normalized\": false" more  \
    "}"
#define MODEL "\"type\": \"BPE\", \"vocab\": {"
#define LETTERS                                                                \
    "\"a\": 0, \"b\": 1, \"c\": 2, \"ab\": 3, \"abc\": 4, \"\u0120\": 5"
#define MERGES "}, \"merges\": [\"a b\", [\"ab\", \"c\"]]"
#define FILE_OF(parts)                                                         \
    "{\"model\": {" MODEL LETTERS MERGES "}, \"pre_tokenizer\": "              \
    "{\"type\": \"ByteLevel\", \"add_prefix_space\": false}, "                 \
    "\"decoder\": {\"type\": \"ByteLevel\"}" parts "}"

static struct dt_tokenizer *try_load(const char *json, struct dt_error *err)
{
    return dt_tokenizer_load(scratch_write("t.json", json, strlen(json)), err);
}

static struct dt_tokenizer *load(const char *json)
{
    struct dt_error err = {0};
    struct dt_tokenizer *tokenizer = try_load(json, &err);
    if (!tokenizer)
        fail_msg("%s", err.text);
    return tokenizer;
}

/* Ids as "1 2 3", with "@begin-end" behind each if asked for. */
static const char *show(const struct dt_tokens *tokens, bool offsets)
{
    static char out[1024];
    size_t n = 0;
    out[0] = '\0';
    for (size_t i = 0; i < tokens->count; i++) {
        n += (size_t)snprintf(out + n, sizeof(out) - n, "%s%d", i ? " " : "",
                              (int)tokens->ids[i]);
        if (offsets)
            n += (size_t)snprintf(out + n, sizeof(out) - n, "@%u-%u",
                                  tokens->begin[i], tokens->end[i]);
    }
    return out;
}

static const char *encode_with(const struct dt_tokenizer *tokenizer,
                               const char *text, size_t bytes, unsigned flags)
{
    struct dt_error err = {0};
    struct dt_tokens tokens = {0};
    struct dt_encoder *encoder = dt_encoder_create(tokenizer, &err);
    if (dt_encode(encoder, text, bytes, flags, &tokens, &err) < 0)
        fail_msg("%s", err.text);
    const char *out = show(&tokens, flags & DT_ENCODE_OFFSETS);
    dt_tokens_fini(&tokens);
    dt_encoder_destroy(encoder);
    return out;
}

/* The same with special tokens in `count` of these spans alone, and of the
 * whole text afterwards, which the encoder must not remember spans for.
 */
static const char *encode_within(const struct dt_tokenizer *tokenizer,
                                 const char *text,
                                 const struct dt_text_span *spans, size_t count)
{
    static char out[1024];
    struct dt_error err = {0};
    struct dt_tokens tokens = {0};
    struct dt_encoder *encoder = dt_encoder_create(tokenizer, &err);
    const size_t bytes = strlen(text);
    assert_int_equal(
        dt_encode_within(encoder, text, bytes, spans, count, 0, &tokens, &err),
        0);
    snprintf(out, sizeof(out), "%s", show(&tokens, false));
    assert_int_equal(
        dt_encode(encoder, text, bytes, DT_ENCODE_SPECIAL, &tokens, &err), 0);
    assert_string_equal(show(&tokens, false),
                        encode_with(tokenizer, text, bytes, DT_ENCODE_SPECIAL));
    dt_tokens_fini(&tokens);
    dt_encoder_destroy(encoder);
    return out;
}

static const char *encode(const struct dt_tokenizer *tokenizer,
                          const char *text)
{
    return encode_with(tokenizer, text, strlen(text), DT_ENCODE_SPECIAL);
}

static void the_byte_tokenizer_has_an_id_per_byte(void **state)
{
    struct dt_error err = {0};
    struct dt_tokenizer *t = dt_tokenizer_load("byte", &err);
    struct dt_detokenizer d = {.tokenizer = t};
    char out[8];
    (void)state;
    assert_non_null(t);
    assert_int_equal(dt_tokenizer_vocab_size(t), 257);
    assert_int_equal(dt_tokenizer_special(t, DT_TOKEN_EOS), 256);
    assert_int_equal(dt_tokenizer_special(t, DT_TOKEN_BOS), -1);
    assert_int_equal(dt_tokenizer_id(t, ""), -1);
    assert_int_equal(dt_tokenizer_id(t, "a"), 'a');
    assert_null(dt_tokenizer_chat_template(t));
    assert_string_equal(encode_with(t, "a\0\u00e9", 4, DT_ENCODE_POST),
                        "97 0 195 169");
    assert_int_equal(dt_detokenize(&d, 195, out, sizeof(out)), 0);
    assert_int_equal(dt_detokenize(&d, 169, out, sizeof(out)), 2);
    assert_string_equal(out, "\u00e9");
    assert_int_equal(dt_detokenize(&d, 256, out, sizeof(out)), 0);
    assert_int_equal(dt_detokenize(&d, -1, out, sizeof(out)), 0);
    assert_int_equal(dt_detokenize(&d, 257, out, sizeof(out)), 0);
    dt_tokenizer_destroy(t);
}

/* One token for each malformed part, with the bytes that it stands for. */
static void malformed_text_becomes_replacement_characters(void **state)
{
    static const struct {
        const char *text, *ids;
    } rows[] = {
        {"a\xff"
         "b",
         "97@0-1 239@1-2 191@1-2 189@1-2 98@2-3"},
        {"\xe2\x82", "239@0-2 191@0-2 189@0-2"},
        {"\xed\xa0", "239@0-1 191@0-1 189@0-1 239@1-2 191@1-2 189@1-2"},
        {"\xf0\x9f\x98!", "239@0-3 191@0-3 189@0-3 33@3-4"},
    };
    struct dt_tokenizer *t = dt_tokenizer_load("byte", NULL);
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        assert_string_equal(encode_with(t, rows[i].text, strlen(rows[i].text),
                                        DT_ENCODE_OFFSETS),
                            rows[i].ids);
    dt_tokenizer_destroy(t);
}

static void pairs_are_merged_in_short_and_long_pieces(void **state)
{
    struct dt_tokenizer *t = load(FILE_OF(""));
    (void)state;
    assert_int_equal(dt_tokenizer_vocab_size(t), 6);
    assert_string_equal(encode(t, "abc cab"), "4 5 2 3");
    assert_string_equal(encode_with(t, "abc cab", 7, DT_ENCODE_OFFSETS),
                        "4@0-3 5@3-4 2@4-5 3@5-7");
    /* a long piece gives what short ones give */
    assert_string_equal(encode(t, "abcabcabcabcabcabcabcabcabcabcabcabcabab"),
                        "4 4 4 4 4 4 4 4 4 4 4 4 3 3");
    dt_tokenizer_destroy(t);
}

/* "b c" comes first, so that "a b" is none any more when its turn comes. */
static void long_pieces_merge_in_the_order_of_ranks(void **state)
{
    struct dt_tokenizer *t = load(
        "{\"model\": {" MODEL LETTERS ", \"d\": 6, \"bc\": 7, \"bcd\": 8}, "
        "\"merges\": [\"b c\", \"a b\", \"bc d\", \"a bc\"]}}");
    (void)state;
    assert_string_equal(encode(t, "abcdabcdabcdabcdabcdabcdabcdabcdabcd"),
                        "0 8 0 8 0 8 0 8 0 8 0 8 0 8 0 8 0 8");
    dt_tokenizer_destroy(t);
}

static void encode_word(struct dt_encoder *encoder, const char *word, size_t n)
{
    static const char *const texts[] = {"a",    "x",        "aa",
                                        "aaaa", "aaaaaaaa", "aaaaaaaaaaaaaaaa"};
    struct dt_tokens tokens = {0};
    struct dt_error err;
    char text[64] = "";
    if (dt_encode(encoder, word, n, 0, &tokens, &err) < 0)
        fail_msg("%s", err.text);
    for (size_t i = 0; i < tokens.count; i++)
        strcat(text, texts[tokens.ids[i]]);
    if (strlen(text) != n || memcmp(text, word, n) != 0)
        fail_msg("%.*s became %s", (int)n, word, text);
    dt_tokens_fini(&tokens);
}

static void pieces_that_differ_in_a_byte_are_remembered_apart(void **state)
{
    struct dt_tokenizer *t = load(
        "{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"x\": 1, "
        "\"aa\": 2, \"aaaa\": 3, \"aaaaaaaa\": 4, \"aaaaaaaaaaaaaaaa\": 5}, "
        "\"merges\": [\"a a\", \"aa aa\", \"aaaa aaaa\", \"aaaaaaaa "
        "aaaaaaaa\"]}}");
    struct dt_error err;
    struct dt_encoder *encoder = dt_encoder_create(t, &err);
    (void)state;
    for (int pass = 0; pass < 2; pass++)
        for (size_t n = 1; n < 30; n++)
            for (size_t at = 0; at <= n; at++) {
                char word[] = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
                word[at] = 'x';
                encode_word(encoder, word, n);
            }
    dt_encoder_destroy(encoder);
    dt_tokenizer_destroy(t);
}

static void added_tokens_are_matched_by_their_rules(void **state)
{
    struct dt_tokenizer *t = load(
        FILE_OF(", \"added_tokens\": [" TOKEN(6, "<s>", ", \"special\": true") ", " TOKEN(
            7, "<s>a",
            "") ", " TOKEN(8, "-w-",
                           ", \"single_word\": true") ", " TOKEN(9, "[x]",
                                                                 ", "
                                                                 "\"lstrip\": "
                                                                 "true, "
                                                                 "\"rstrip\": "
                                                                 "true") "]"));
    (void)state;
    assert_string_equal(encode(t, "a<s>b"), "0 6 1");
    assert_string_equal(encode(t, "a<s>ab"), "0 7 1");
    assert_string_equal(encode_with(t, "a<s>b<s>ab", 10, 0), "0 1 7 1");
    assert_string_equal(encode(t, "-w- a-w-\u00e9"), "8 5 0");
    assert_string_equal(encode_with(t, "a [x]  [x]b", 11, DT_ENCODE_OFFSETS),
                        "0@0-1 9@1-7 9@7-10 1@10-11");
    assert_int_equal(dt_tokenizer_id(t, "<s>"), 6);
    assert_int_equal(dt_tokenizer_id(t, "abc"), 4);
    assert_int_equal(dt_tokenizer_id(t, "<t>"), -1);
    dt_tokenizer_destroy(t);
}

/* A byte that is no character is three where tokens are looked for. */
static void special_tokens_are_parsed_within_spans(void **state)
{
    struct dt_tokenizer *t = load(FILE_OF(
        ", \"added_tokens\": [" TOKEN(6, "<s>", ", \"special\": true") "]"));
    static const char text[] = "a<s>b<s>c<s>";
    const struct dt_text_span ends[] = {{1, 4}, {9, 12}};
    (void)state;
    assert_string_equal(encode(t, text), "0 6 1 6 2 6");
    assert_string_equal(encode_within(t, text, NULL, 0), "0 1 2");
    assert_string_equal(encode_within(t, text, ends, 2), "0 6 1 2 6");
    assert_string_equal(
        encode_within(t, text, &(struct dt_text_span){2, 11}, 1), "0 1 6 2");
    assert_string_equal(
        encode_within(t, text, &(struct dt_text_span){0, 12}, 1),
        "0 6 1 6 2 6");
    assert_string_equal(
        encode_within(t, "\xff<s><s>", &(struct dt_text_span){1, 4}, 1), "6");
    dt_tokenizer_destroy(t);
}

#define TEMPLATE                                                               \
    ", \"added_tokens\": [" TOKEN(                                             \
        6, "<s>",                                                              \
        ", \"special\": true") "], \"post_processor\": {\"type\": "            \
                               "\"TemplateProcessing\", \"single\": "          \
                               "[{\"SpecialToken\": {\"id\": \"<s>\"}}, "      \
                               "{\"Sequence\": {\"id\": \"A\"}}, "             \
                               "{\"SpecialToken\": {\"id\": \"<s>\"}}], "      \
                               "\"special_tokens\": "                          \
                               "{\"<s>\": {\"ids\": [6]}}}"

static void the_template_adds_special_tokens_if_asked(void **state)
{
    struct dt_tokenizer *t = load(FILE_OF(TEMPLATE));
    (void)state;
    assert_string_equal(
        encode_with(t, "ab", 2, DT_ENCODE_POST | DT_ENCODE_OFFSETS),
        "6@0-0 3@0-2 6@2-2");
    assert_string_equal(encode_with(t, "ab", 2, 0), "3");
    dt_tokenizer_destroy(t);
}

/* What detokenizing ids gives, one after the other in a buffer of `size`. */
static const char *decode(const struct dt_tokenizer *tokenizer,
                          const int32_t *ids, size_t count, size_t size)
{
    static char out[256];
    char one[64];
    struct dt_detokenizer state = {.tokenizer = tokenizer};
    out[0] = '\0';
    for (size_t i = 0; i < count; i++) {
        dt_detokenize(&state, ids[i], one, size);
        strcat(out, one);
        strcat(out, "|");
    }
    dt_detokenize_end(&state, one, size);
    return strcat(out, one);
}

static void bytes_are_decoded_to_whole_characters(void **state)
{
    struct dt_tokenizer *t = dt_tokenizer_load("byte", NULL);
    const int32_t ids[] = {0xe2, 0x82, 0xac, 0xe2, 0x82, 'x', 0xff, 0xf0, 0x9f};
    (void)state;
    assert_string_equal(decode(t, ids, 9, 64),
                        "||\u20ac|||\ufffdx|\ufffd|||\ufffd");
    assert_string_equal(decode(t, ids, 3, 3), "|||"); /* no room for it */
    dt_tokenizer_destroy(t);
}

#define MARK "\u2581"
static const char pieces[] = "{\"added_tokens\": [" TOKEN(
    0, "<u>",
    ", \"special\": true") "], \"normalizer\": {\"type\": \"Sequence\", "
                           "\"normalizers\": "
                           "[{\"type\": \"Prepend\", \"prepend\": \"" MARK
                           "\"}, {\"type\": "
                           "\"Replace\", \"pattern\": {\"String\": \" \"}, "
                           "\"content\": \"" MARK
                           "\"}]}, \"model\": {\"unk_token\": \"<u>\", "
                           "\"fuse_unk\": true, "
                           "\"byte_fallback\": true, \"vocab\": {\"<u>\": 0, "
                           "\"a\": 1, \"" MARK "\": 2, \"" MARK
                           "a\": 3, \"<0xC3>\": 4, \"<0xA9>\": 5}, \"merges\": "
                           "[\"" MARK " a\"]}, \"decoder\": {\"type\": "
                           "\"Sequence\", \"decoders\": "
                           "[{\"type\": \"Replace\", \"pattern\": {\"String\": "
                           "\"" MARK "\"}, "
                           "\"content\": \" \"}, {\"type\": \"ByteFallback\"}, "
                           "{\"type\": \"Fuse\"}, "
                           "{\"type\": \"Strip\", \"content\": \" \", "
                           "\"start\": 1, \"stop\": 0}]}}";

static void sentencepiece_files_encode_and_decode_text(void **state)
{
    struct dt_tokenizer *t = load(pieces);
    const int32_t ids[] = {3, 3, 4, 5, 4, 4, 1};
    (void)state;
    assert_string_equal(encode(t, "a a\u00e9xyz a"), "3 3 4 5 0 3");
    assert_string_equal(encode_with(t, "a \u00e9xy", 6, DT_ENCODE_OFFSETS),
                        "3@0-1 2@1-2 4@2-3 5@3-4 0@4-6");
    assert_string_equal(encode(t, "<u>a"), "0 3");
    assert_int_equal(dt_tokenizer_special(t, DT_TOKEN_UNK), 0);
    assert_string_equal(decode(t, ids, 7, 64), "a| a||\u00e9||\ufffd|\ufffda|");
    dt_tokenizer_destroy(t);
}

/* Roles and the template of a directory: the later file counts more. */
/* U+0000 is a character like others, in the vocabulary and in merges. */
static void the_null_character_is_like_any_other(void **state)
{
    struct dt_tokenizer *t = load("{\"added_tokens\": [" TOKEN(
        4, "x\\u0000",
        "") "], \"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, "
            "\"\\u0000\": 1, \"a\\u0000\": 2, \"a\\u0000a\": 3}, "
            "\"merges\": [\"a \\u0000\", [\"a\\u0000\", \"a\"]]}}");
    struct dt_detokenizer d = {.tokenizer = t};
    char out[8];
    (void)state;
    assert_string_equal(encode_with(t, "\0a\0ax\0", 6, 0), "1 3 4");
    assert_string_equal(encode_with(t, "a\0\0", 3, 0), "2 1");
    assert_int_equal(dt_detokenize(&d, 3, out, sizeof(out)), 3);
    assert_memory_equal(out, "a\0a", 4);
    dt_tokenizer_destroy(t);
}

static void later_files_of_a_directory_count_more(void **state)
{
    static const char *const files[][2] = {
        {"tokenizer.json", FILE_OF(TEMPLATE)},
        {"special_tokens_map.json",
         "{\"eos_token\": {\"content\": \"c\"}, \"pad_token\": \"b\"}"},
        {"tokenizer_config.json",
         "{\"bos_token\": {\"content\": \"<s>\"}, \"eos_token\": \"<s>\", "
         "\"model_max_length\": 1000000000000000019884624838656, "
         "\"unk_token\": null, \"chat_template\": [{\"name\": \"tool_use\", "
         "\"template\": \"tools\"}, {\"name\": \"default\", \"template\": "
         "\"yes\"}]}"},
    };
    char directory[512];
    struct dt_error err = {0};
    (void)state;
    snprintf(directory, sizeof(directory), "%s", scratch_path("model"));
    assert_int_equal(mkdir(directory, 0777), 0);
    for (size_t i = 0; i < 3; i++) {
        char name[64];
        snprintf(name, sizeof(name), "model/%s", files[i][0]);
        scratch_write(name, files[i][1], strlen(files[i][1]));
    }
    struct dt_tokenizer *t = dt_tokenizer_load(directory, &err);
    assert_non_null(t);
    assert_int_equal(dt_tokenizer_special(t, DT_TOKEN_BOS), 6);
    assert_int_equal(dt_tokenizer_special(t, DT_TOKEN_EOS), 6);
    assert_int_equal(dt_tokenizer_special(t, DT_TOKEN_PAD), 1);
    assert_int_equal(dt_tokenizer_special(t, DT_TOKEN_UNK), -1);
    assert_string_equal(dt_tokenizer_chat_template(t), "yes");
    assert_string_equal(dt_tokenizer_tool_template(t), "tools");
    dt_tokenizer_destroy(t);
    scratch_write("model/chat_template.jinja", "own", 3);
    t = dt_tokenizer_load(directory, &err);
    assert_string_equal(dt_tokenizer_chat_template(t), "own");
    dt_tokenizer_destroy(t);
    scratch_write("model/tokenizer_config.json",
                  "{\"add_prefix_space\": false}", 27);
    t = dt_tokenizer_load(directory, &err);
    assert_non_null(t);
    dt_tokenizer_destroy(t);
    scratch_write("model/tokenizer_config.json", "{\"add_prefix_space\": true}",
                  26);
    assert_null(dt_tokenizer_load(directory, &err));
    assert_non_null(strstr(err.text,
                           "/model/tokenizer_config.json: add_prefix_space is "
                           "true, but false in the pre_tokenizer of "
                           "tokenizer.json: make both say what the model was "
                           "trained with"));
    scratch_write("model/tokenizer_config.json", "{\"bos_token\": 1}", 16);
    assert_null(dt_tokenizer_load(directory, &err));
    assert_non_null(strstr(err.text, "/model/tokenizer_config.json: bos_token: "
                                     "expected a string"));
}

static void only_equal_files_have_equal_hashes(void **state)
{
    struct dt_tokenizer *a = load(FILE_OF("")), *b = load(FILE_OF("")),
                        *c = load(FILE_OF(TEMPLATE));
    (void)state;
    assert_true(dt_tokenizer_hash(a) == dt_tokenizer_hash(b));
    assert_true(dt_tokenizer_hash(a) != dt_tokenizer_hash(c));
    assert_non_null(strstr(dt_tokenizer_library(), "PCRE2 10."));
    assert_non_null(strstr(dt_tokenizer_library(), "utf8proc "));
    dt_tokenizer_destroy(a);
    dt_tokenizer_destroy(b);
    dt_tokenizer_destroy(c);
}

#define WITH_MODEL(parts) "{\"model\": {" MODEL LETTERS parts "}}"
#define WITH(parts) "{\"model\": {" MODEL LETTERS MERGES "}, " parts "}"

/* Files that are refused, and with which text behind the path. */
static const struct {
    const char *json, *text;
} refused[] = {
    {"[]", ": expected an object"},
    {"{\n\"model\": x}", ":2:10: invalid token near 'x'"},
    {"{\"model\": \x1b[2J}", ":1:11: invalid token near '?'"},
    {"{\"a\": 1, \"a\": 2}", ": duplicate object key"},
    {"{\"a\": \"\\ud800\"}", ": invalid Unicode '\\uD800'"},
    {"{}", ": model: missing, expected an object"},
    {"{\"model\": {}}", ": model: vocab: missing, expected an object"},
    {"{\"model\": {\"vocab\": {\"a\": -1}}}",
     ": model: vocab: \"a\": expected an id from 0 to 4194303"},
    {"{\"model\": {\"vocab\": {\"a\": 4194304}}}", ": model: vocab: \"a\": "},
    {"{\"model\": {\"vocab\": {\"a\": 1.5}}}", ": model: vocab: \"a\": "},
    {"{\"model\": {\"vocab\": {\"a\": 1, \"b\": 1}}}",
     ": model: vocab: id 1 is \"a\" and \"b\""},
    {WITH_MODEL("}"), ": model: merges: missing, expected an array"},
    {WITH_MODEL("}, \"merges\": [\"ab\"]"),
     ": model: merges[0]: expected \"A B\" or [\"A\", \"B\"]"},
    {WITH_MODEL("}, \"merges\": [\"a b\", [\"a\", \"x\"]]"),
     ": model: merges[1]: the result of \"ax\" is not in the vocabulary"},
    {WITH_MODEL("}, \"merges\": [[\"\", \"ab\"]]"),
     ": model: merges[0]: a half of \"ab\" is not in the vocabulary"},
    {WITH_MODEL(MERGES ", \"dropout\": 0.1"),
     ": model: dropout: expected null"},
    {WITH_MODEL(MERGES ", \"fuse_unk\": 1"),
     ": model: fuse_unk: expected true or false"},
    {WITH_MODEL(MERGES ", \"unk_token\": \"<unk>\""),
     ": model: unk_token: expected a text of the vocabulary"},
    {WITH_MODEL(MERGES ", \"end_of_word_suffix\": \"</w>\""),
     ": model: end_of_word_suffix: not supported"},
    {"{\"model\": {\"type\": \"Word\\nFoo\"}}",
     ": model: type: \"Word?Foo\" is not supported; BPE and Unigram are"},
    {"{\"model\": {\"type\": \"WordPiece\", \"vocab\": {\"a\": 0}}}",
     ": model: type: \"WordPiece\" is not supported; BPE and Unigram are"},
    {"{\"model\": {\"type\": \"WordLevel\", \"vocab\": {\"a\": 0}}}",
     ": model: type: \"WordLevel\" is not supported; BPE and Unigram are"},
    {WITH("\"added_tokens\": {}"), ": added_tokens: expected a list"},
    {WITH("\"added_tokens\": [" TOKEN(-1, "x", "") "]"),
     ": added_tokens[0]: id: expected 0 to 4194303, got -1"},
    {WITH("\"added_tokens\": [" TOKEN(6, "x", "") ", " TOKEN(6, "y", "") "]"),
     ": added_tokens[1]: id 6 is \"x\" and \"y\""},
    {WITH("\"added_tokens\": [" TOKEN(6, "ab", "") "]"),
     ": added_tokens[0]: \"ab\" has the ids 3 and 6"},
    {WITH("\"normalizer\": {\"type\": \"Ba\\nd\"}"),
     ": normalizer: type: \"Ba?d\" is not supported; NFC, NFD, NFKC, NFKD, "},
    {WITH("\"normalizer\": {\"type\": \"BertNormalizer\"}"),
     ": normalizer: type: \"BertNormalizer\" is not supported; NFC, NFD, NFKC, "
     "NFKD, Precompiled, Replace, Prepend, Strip, Lowercase, StripAccents, Nmt "
     "and Sequence are"},
    {WITH("\"normalizer\": {\"type\": \"Sequence\", \"normalizers\": [{}]}"),
     ": normalizer: normalizers[0]: type: missing, expected a string"},
    {WITH("\"pre_tokenizer\": {\"type\": \"UnicodeScripts\"}"),
     ": pre_tokenizer: type: \"UnicodeScripts\" is not supported; ByteLevel, "
     "Split, Digits, Metaspace, "},
    {WITH(
         "\"pre_tokenizer\": {\"type\": \"Split\", \"behavior\": \"Isolated\", "
         "\"pattern\": {\"Regex\": \"\\\\w+\"}}"),
     ": pre_tokenizer: pattern: the regular expression at byte 0, \"\\w+\": "
     "not supported"},
    {WITH("\"pre_tokenizer\": {\"type\": \"Sequence\", \"pretokenizers\": "
          "[{\"type\": \"ByteLevel\"}, {\"type\": \"Digits\"}]}"),
     ": pre_tokenizer: pretokenizers[1]: nothing may follow ByteLevel"},
    {WITH("\"post_processor\": {\"type\": \"BertProcessing\", \"cls\": "
          "[\"a\", 0], \"sep\": [\"x\", 6]}"),
     ": post_processor: sep: expected [TEXT, ID], an id below 6"},
    {WITH("\"post_processor\": {\"type\": \"TemplateProcessing\", \"single\": "
          "[{\"SpecialToken\": {\"id\": \"x\"}}], \"special_tokens\": {}}"),
     ": post_processor: single[0]: \"x\" is not in special_tokens"},
    {WITH("\"post_processor\": {\"type\": \"TemplateProcessing\", \"single\": "
          "[{\"SpecialToken\": {\"id\": \"x\"}}], \"special_tokens\": "
          "{\"x\": {\"ids\": [6]}}}"),
     ": post_processor: single[0]: special_tokens: x: ids[0]: expected an id "
     "below 6"},
    {WITH("\"decoder\": {\"type\": \"CTC\"}"),
     ": decoder: type: \"CTC\" is not supported; ByteLevel, Replace, "},
    {WITH("\"decoder\": {\"type\": \"WordPiece\", \"prefix\": \"##\"}"),
     ": decoder: type: \"WordPiece\" is not supported; ByteLevel, Replace, "
     "Metaspace, ByteFallback, Fuse, Strip and Sequence are"},
    {WITH("\"decoder\": {\"type\": \"Sequence\", \"decoders\": "
          "[{\"type\": \"Fuse\"}, {\"type\": \"ByteFallback\"}]}"),
     ": decoder: decoders[1]: ByteFallback: not in this place"},
};

static void a_malformed_or_unsupported_file_is_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        struct dt_error err = {0};
        const char *path = scratch_path("t.json");
        struct dt_tokenizer *t = try_load(refused[i].json, &err);
        dt_tokenizer_destroy(t);
        if (t || err.status != EX_DATAERR ||
            strncmp(err.text, path, strlen(path)) != 0 ||
            !strstr(err.text, refused[i].text))
            fail_msg("%s: %s", refused[i].json, err.text);
    }
}

static void a_missing_tokenizer_file_is_refused(void **state)
{
    struct dt_error err = {0};
    (void)state;
    assert_null(dt_tokenizer_load(scratch_path("none"), &err));
    assert_int_equal(err.status, EX_NOINPUT);
    assert_non_null(strstr(err.text, "/none: cannot open: No such file"));
}

/* A text bomb stops before memory is out. */
static void a_text_that_grows_too_much_is_refused(void **state)
{
    struct dt_error err = {0};
    struct dt_tokens tokens = {0};
    struct dt_tokenizer *t = load(WITH(
        "\"normalizer\": {\"type\": \"Replace\", \"pattern\": {\"String\": "
        "\"a\"}, \"content\": \"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"}"));
    struct dt_encoder *encoder = dt_encoder_create(t, &err);
    char text[1000];
    (void)state;
    memset(text, 'a', sizeof(text));
    assert_int_equal(dt_encode(encoder, text, sizeof(text), 0, &tokens, &err),
                     -1);
    assert_string_equal(err.text, "the normalizer makes 32000 bytes of 1000");
    assert_int_equal(
        dt_encode(encoder, text, (size_t)INT32_MAX + 1, 0, &tokens, &err), -1);
    assert_string_equal(err.text, "a text of 2147483648 bytes: at most "
                                  "2147483647 can be encoded");
    dt_tokens_fini(&tokens);
    dt_encoder_destroy(encoder);
    dt_tokenizer_destroy(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_byte_tokenizer_has_an_id_per_byte),
        cmocka_unit_test(malformed_text_becomes_replacement_characters),
        cmocka_unit_test(pairs_are_merged_in_short_and_long_pieces),
        cmocka_unit_test(long_pieces_merge_in_the_order_of_ranks),
        cmocka_unit_test(pieces_that_differ_in_a_byte_are_remembered_apart),
        cmocka_unit_test(added_tokens_are_matched_by_their_rules),
        cmocka_unit_test(special_tokens_are_parsed_within_spans),
        cmocka_unit_test(the_template_adds_special_tokens_if_asked),
        cmocka_unit_test(bytes_are_decoded_to_whole_characters),
        cmocka_unit_test(sentencepiece_files_encode_and_decode_text),
        cmocka_unit_test(the_null_character_is_like_any_other),
        cmocka_unit_test(later_files_of_a_directory_count_more),
        cmocka_unit_test(only_equal_files_have_equal_hashes),
        cmocka_unit_test(a_malformed_or_unsupported_file_is_refused),
        cmocka_unit_test(a_missing_tokenizer_file_is_refused),
        cmocka_unit_test(a_text_that_grows_too_much_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
