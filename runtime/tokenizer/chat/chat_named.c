/* SPDX-License-Identifier: Apache-2.0 */
/*
 * chat_named.c - chat templates of our own, for models without one
 *
 * They render what the published templates of these families render of
 * conversations without tools, and mark what the assistant writes. With
 * "training" qwen3 keeps the reasoning of every answer, as TRL trains it.
 */
#include "config.h"

#include <string.h>

#include <xxhash.h>

#include "tokenizer/chat/chat_impl.h"

/* Made of chat/NAME.jinja: text_NAME. */
#include "tokenizer/chat/chat_texts.inc"

#define IM_CONTROL "<|im_start|>", "<|im_end|>"
#define LLAMA3_CONTROL "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"

static const struct dt_chat_named all[] = {
    {"chatml", text_chatml, {IM_CONTROL}, false},
    {"qwen2.5", text_qwen2_5, {IM_CONTROL}, false},
    {"qwen3", text_qwen3, {IM_CONTROL, "<think>", "</think>"}, false},
    {"llama2", text_llama2, {NULL}, true},
    {"llama3", text_llama3, {LLAMA3_CONTROL}, false},
    {"llama3.1", text_llama3_1, {LLAMA3_CONTROL}, false},
    {"mistral", text_mistral, {NULL}, true},
};

const struct dt_chat_named *dt_chat_named(const char *name)
{
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (strcmp(name, all[i].name) == 0)
            return &all[i];
    return NULL;
}

/* XXH3 of published templates that TRL replaces for training by forms like
 * ours. A newline behind their last block is no part of them.
 */
static const struct {
    uint64_t hash;
    const char *name;
} published[] = {
    {UINT64_C(0x2469c9508f79506e), "qwen2.5"}, /* Qwen 2.5 */
    {UINT64_C(0xc9e0155c80737cf2), "qwen3"},   /* Qwen 3 */
};

const struct dt_chat_named *dt_chat_training_form(const char *source)
{
    size_t n = strlen(source);
    n -= n >= 3 && memcmp(source + n - 3, "%}\n", 3) == 0;
    for (size_t i = 0; i < sizeof(published) / sizeof(published[0]); i++)
        if (XXH3_64bits(source, n) == published[i].hash)
            return dt_chat_named(published[i].name);
    return NULL;
}
