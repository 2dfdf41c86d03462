/* SPDX-License-Identifier: Apache-2.0 */
/* bytes_tokenizer.h - a tokenizer.json of bytes and of some control tokens */
#ifndef DT_TESTS_UNIT_BYTES_TOKENIZER_H
#define DT_TESTS_UNIT_BYTES_TOKENIZER_H

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "tests/unit/scratch.h"
#include "tokenizer/tokenizer.h"

/* The first has id 256, and so on. */
static const char *const control_tokens[] = {
    "<s>",
    "</s>",
    "<|im_start|>",
    "<|im_end|>",
    "<think>",
    "</think>",
    "[INST]",
    "[/INST]",
    "<|eot_id|>",
    "<|start_header_id|>",
    "<|end_header_id|>",
    "<|begin_of_text|>",
    "<tool_response>",
    "</tool_response>",
};

enum { CONTROL_TOKENS = sizeof(control_tokens) / sizeof(control_tokens[0]) };

/* The chat template of several models. */
#define CHATML                                                                 \
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + "       \
    "'\\n' + message['content'] + '<|im_end|>' + '\\n'}}{% endfor %}"          \
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"

/* Maps a byte to its key in a byte-level BPE vocabulary. */
static inline void byte_key(unsigned byte, unsigned *next, char key[3])
{
    unsigned c = byte;
    if (!((c >= 0x21 && c <= 0x7e) || (c >= 0xa1 && c <= 0xac) || c >= 0xae))
        c = (*next)++;
    key[0] = c < 0x80 ? (char)c : (char)(0xc0 | c >> 6);
    key[1] = c < 0x80 ? '\0' : (char)(0x80 | (c & 0x3f));
    key[2] = '\0';
}

static inline json_t *bytes_model(void)
{
    json_t *vocab = json_object();
    unsigned next = 0x100;
    for (unsigned byte = 0; byte < 256; byte++) {
        char key[3];
        byte_key(byte, &next, key);
        json_object_set_new(vocab, key, json_integer(byte));
    }
    return json_pack("{s:s, s:o, s:[]}", "type", "BPE", "vocab", vocab,
                     "merges");
}

static inline json_t *bytes_added(void)
{
    json_t *added = json_array();
    for (int i = 0; i < CONTROL_TOKENS; i++)
        json_array_append_new(
            added,
            json_pack("{s:i, s:s, s:b, s:b, s:b, s:b, s:b}", "id", 256 + i,
                      "content", control_tokens[i], "single_word", 0, "lstrip",
                      0, "rstrip", 0, "normalized", 0, "special", 1));
    return added;
}

/* Writes a directory `name` with a tokenizer that has these special tokens and
 * this chat template (NULL: none), and loads it.
 */
static inline struct dt_tokenizer *bytes_tokenizer(const char *name,
                                                   const char *bos,
                                                   const char *eos,
                                                   const char *jinja)
{
    struct dt_error err;
    char path[600];
    json_t *level =
        json_pack("{s:s, s:b, s:b, s:b}", "type", "ByteLevel",
                  "add_prefix_space", 0, "trim_offsets", 0, "use_regex", 1);
    json_t *file =
        json_pack("{s:s, s:n, s:n, s:o, s:n, s:O, s:n, s:O, s:o}", "version",
                  "1.0", "truncation", "padding", "added_tokens", bytes_added(),
                  "normalizer", "pre_tokenizer", level, "post_processor",
                  "decoder", level, "model", bytes_model());
    json_t *config = json_pack("{s:s*, s:s*, s:s*}", "bos_token", bos,
                               "eos_token", eos, "chat_template", jinja);
    dt_file_mkdirs(scratch_path(name), NULL);
    snprintf(path, sizeof(path), "%s/tokenizer.json", scratch_path(name));
    if (!file || !config || json_dump_file(file, path, 0) < 0)
        abort();
    snprintf(path, sizeof(path), "%s/tokenizer_config.json",
             scratch_path(name));
    if (json_dump_file(config, path, 0) < 0)
        abort();
    json_decref(file);
    json_decref(config);
    json_decref(level);
    struct dt_tokenizer *tokenizer =
        dt_tokenizer_load(scratch_path(name), &err);
    if (!tokenizer) {
        fprintf(stderr, "%s\n", err.text);
        abort();
    }
    return tokenizer;
}

#endif /* DT_TESTS_UNIT_BYTES_TOKENIZER_H */
