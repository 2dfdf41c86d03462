/* SPDX-License-Identifier: Apache-2.0 */
/* chat_render.c - chooses the form of the template that a conversation needs */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "tokenizer/chat/chat_impl.h"

void dt_chat_text_fini(struct dt_chat_text *out)
{
    dt_template_text_fini(&out->whole);
    dt_template_text_fini(&out->other);
    free(out->trained);
    *out = (struct dt_chat_text){0};
}

/* Whether a message asks for calls of tools. */
static bool has_calls(const struct dt_chat_input *input)
{
    for (size_t i = 0; i < input->count; i++)
        if (json_array_size(json_object_get(json_array_get(input->messages, i),
                                            "tool_calls")) > 0)
            return true;
    return false;
}

/* Leaving out tools would render another conversation than the data hold. */
static int check_tools(const struct dt_chat_input *input,
                       const struct dt_template *template, bool calls,
                       struct dt_error *err)
{
    const char *source = dt_template_source(template);
    const char *missing =
        json_array_size(input->tools) > 0 && !strstr(source, "tools") ? "tools"
        : calls && !strstr(source, "tool_calls") ? "tool_calls"
                                                 : NULL;
    if (!missing)
        return 0;
    return dt_error_set(err, EX_DATAERR,
                        "%s: the chat template does not render them: choose "
                        "one that does, or leave them out",
                        missing);
}

int dt_chat_render(const struct dt_chat *chat,
                   const struct dt_chat_input *input, unsigned flags,
                   struct dt_chat_text *out, struct dt_error *err)
{
    const bool calls = has_calls(input);
    const bool tools = json_array_size(input->tools) > 0;
    const struct dt_template *template = chat->template;
    if (tools && chat->with_tools)
        template = chat->with_tools;
    /* our forms for training render no tools */
    if (flags & DT_CHAT_TRAINING && chat->training && !tools && !calls)
        template = chat->training;
    out->trained_count = 0;
    if (check_tools(input, template, calls, err) < 0 ||
        dt_chat_apply(chat, template, input, input->messages, input->count,
                      flags, &out->whole, err) < 0)
        return -1;
    return flags & DT_CHAT_TRAINED
               ? dt_chat_find_trained(chat, template, input, flags, out, err)
               : 0;
}
