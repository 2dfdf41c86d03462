/* SPDX-License-Identifier: Apache-2.0 */
/* chat_apply.c - gives a template the messages and variables of a conversation
 */
#include "config.h"

#include <string.h>

#include "tokenizer/chat/chat_impl.h"

enum { VARIABLES = 64 };

/* A list of the first messages; release it. NULL: out of memory. */
static json_t *first_messages(const json_t *messages, size_t count)
{
    json_t *part = json_array();
    for (size_t i = 0; part && i < count; i++)
        if (json_array_append(part, json_array_get(messages, i)) < 0) {
            json_decref(part);
            return NULL;
        }
    return part;
}

/* Appends the pairs of an object, or nothing. */
static size_t add_variables(const json_t *object,
                            struct dt_template_variable *to, size_t count)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)object, key, value)
    {
        if (count < VARIABLES)
            to[count++] = (struct dt_template_variable){key, value};
    }
    return count;
}

int dt_chat_apply(const struct dt_chat *chat,
                  const struct dt_template *template,
                  const struct dt_chat_input *input, const json_t *messages,
                  size_t count, unsigned flags, struct dt_template_text *out,
                  struct dt_error *err)
{
    struct dt_template_variable variables[VARIABLES + 8];
    const bool training =
        flags & DT_CHAT_TRAINING && (chat->ours || template == chat->training);
    json_t *part = count < json_array_size(messages)
                       ? first_messages(messages, count)
                       : json_incref((json_t *)messages);
    size_t n = add_variables(chat->specials, variables, 0);
    n = add_variables(chat->variables, variables, n);
    n = add_variables(input->variables, variables, n);
    const struct dt_template_variable own[] = {
        {"training", training ? json_true() : NULL},
        {"documents", json_null()},
        {"tools", input->tools ? input->tools : json_null()},
        {"add_generation_prompt",
         flags & DT_CHAT_PROMPT ? json_true() : json_false()},
        {"messages", part},
    };
    memcpy(variables + n, own, sizeof(own));
    n += sizeof(own) / sizeof(own[0]);
    int rc = part ? dt_template_render(template, variables, n, out, err)
                  : dt_error_set(err, EX_OSERR, "chat: out of memory");
    json_decref(part);
    return rc;
}
