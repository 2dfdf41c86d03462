/* SPDX-License-Identifier: Apache-2.0 */
/* chat_style.c - lists the chat templates that we render */
#include "config.h"

#include <stddef.h>
#include <string.h>

#include "tokenizer/chat_style.h"

#define CHATML_CONTROL "<|im_start|>", "<|im_end|>"
#define LLAMA3_CONTROL "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"

const struct dt_chat_style dt_chat_styles[] = {
    [DT_STYLE_CHATML] = {.name = "chatml",
                         .family = DT_CHATML,
                         .control = {CHATML_CONTROL}},
    [DT_STYLE_QWEN25] = {.name = "qwen2.5",
                         .family = DT_CHATML,
                         .control = {CHATML_CONTROL},
                         .wraps_tools = true,
                         .trains_newline = true,
                         .system = "You are Qwen, created by Alibaba Cloud. "
                                   "You are a helpful assistant."},
    [DT_STYLE_QWEN3] = {.name = "qwen3",
                        .family = DT_CHATML,
                        .control = {CHATML_CONTROL, "<think>", "</think>"},
                        .wraps_tools = true,
                        .reasons = true},
    [DT_STYLE_LLAMA2] = {.name = "llama2", .family = DT_LLAMA2},
    [DT_STYLE_LLAMA3] = {.name = "llama3",
                         .family = DT_LLAMA3,
                         .control = {LLAMA3_CONTROL}},
    [DT_STYLE_LLAMA31] = {.name = "llama3.1",
                          .family = DT_LLAMA3,
                          .control = {LLAMA3_CONTROL},
                          .dated = true},
    [DT_STYLE_MISTRAL] = {.name = "mistral",
                          .family = DT_MISTRAL,
                          .before = "[INST] ",
                          .after = "[/INST]",
                          .answer = " ",
                          .end = ""},
    [DT_STYLE_QWEN2] = {.name = "chatml",
                        .family = DT_CHATML,
                        .control = {CHATML_CONTROL},
                        .system = "You are a helpful assistant."},
    [DT_STYLE_QWEN3_2507] = {.name = "chatml",
                             .family = DT_CHATML,
                             .control = {CHATML_CONTROL},
                             .wraps_tools = true},
    [DT_STYLE_LLAMA32] = {.name = "llama3.1",
                          .family = DT_LLAMA3,
                          .control = {LLAMA3_CONTROL},
                          .dated = true,
                          .today = true},
    [DT_STYLE_MISTRAL_V01] = {.name = "mistral",
                              .family = DT_MISTRAL,
                              .before = "[INST] ",
                              .after = " [/INST]",
                              .answer = "",
                              .end = " "},
    [DT_STYLE_MISTRAL_V02] = {.name = "mistral",
                              .family = DT_MISTRAL,
                              .before = "[INST] ",
                              .after = " [/INST]",
                              .answer = "",
                              .end = ""},
    [DT_STYLE_MISTRAL_V1] = {.name = "mistral",
                             .family = DT_MISTRAL,
                             .before = " [INST] ",
                             .after = " [/INST]",
                             .answer = " ",
                             .end = "",
                             .system_at = DT_SYSTEM_FIRST},
    [DT_STYLE_MISTRAL_V3] = {.name = "mistral",
                             .family = DT_MISTRAL,
                             .control = {"[INST]", "[/INST]"},
                             .before = "[INST] ",
                             .after = "[/INST]",
                             .answer = " ",
                             .end = "",
                             .trims_answer = true},
    [DT_STYLE_MISTRAL_V3_END] = {.name = "mistral",
                                 .family = DT_MISTRAL,
                                 .control = {"[INST]", "[/INST]"},
                                 .before = "[INST] ",
                                 .after = "[/INST]",
                                 .answer = " ",
                                 .end = "",
                                 .trims_answer = true,
                                 .system_at = DT_SYSTEM_END},
    [DT_STYLE_MISTRAL_NEMO] = {.name = "mistral",
                               .family = DT_MISTRAL,
                               .control = {"[INST]", "[/INST]"},
                               .before = "[INST]",
                               .after = "[/INST]",
                               .answer = "",
                               .end = ""},
    [DT_STYLE_MISTRAL_NEMO_END] = {.name = "mistral",
                                   .family = DT_MISTRAL,
                                   .control = {"[INST]", "[/INST]"},
                                   .before = "[INST]",
                                   .after = "[/INST]",
                                   .answer = "",
                                   .end = "",
                                   .system_at = DT_SYSTEM_END},
};

const struct dt_chat_style *dt_chat_style_named(const char *name)
{
    for (int i = 0; i < DT_STYLE_QWEN2; i++)
        if (strcmp(dt_chat_styles[i].name, name) == 0)
            return &dt_chat_styles[i];
    return NULL;
}
