/* SPDX-License-Identifier: Apache-2.0 */
/* prompt_line.c - finds the prompt of a line, and its images */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "data/forms/forms.h"
#include "data/image_text.h"
#include "data/prompts_impl.h"
#include "data/row_images.h"

/* The value that is the prompt: a string or messages. NULL and err. */
static json_t *find_prompt(const struct dt_prompts *prompts, json_t *root,
                           const char **key, struct dt_error *err)
{
    char keys[200];
    json_t *value = json_object_get(root, *key = prompts->prompt_key);
    if (!value)
        value = json_object_get(root, *key = prompts->messages_key);
    if (!value)
        value = json_object_get(root, *key = "conversations");
    if (!value && dt_alpaca_is(root)) {
        value = dt_alpaca_prompt(root, err);
        *key = "instruction";
        if (!value || json_object_set_new(root, *key, value) < 0)
            return NULL;
    }
    if (json_is_array(value) ||
        (json_is_string(value) && *key == prompts->prompt_key))
        return value;
    dt_line_keys(root, keys, sizeof(keys));
    dt_error_set(err, EX_DATAERR,
                 "expected a prompt, \"%s\" with a string or messages or "
                 "\"%s\" with messages, but the keys are: %s",
                 prompts->prompt_key, prompts->messages_key, keys);
    return NULL;
}

/* Checks that there is a message. */
static int check_turns(const struct dt_turns *turns, struct dt_error *err)
{
    if (strcmp(dt_turns_role(turns, turns->count - 1), "assistant") != 0)
        return 0;
    return dt_error_set(err, EX_DATAERR,
                        "message %zu: the last one is the assistant's, so "
                        "nothing is left to answer",
                        turns->count);
}

/* Replaces the images that a line lists by those of its messages, in order. */
static int place_images(struct dt_turns *turns,
                        const struct dt_example_images *images, json_t **listed,
                        struct dt_error *err)
{
    json_t *values =
        dt_turns_place_images(turns, *listed, images->text->line, err);
    json_decref(*listed);
    *listed = values;
    return values ? 0 : -1;
}

int dt_prompt_parse(const struct dt_prompts *prompts, const char *text,
                    size_t bytes, struct dt_prompt_parsed *line,
                    struct dt_error *err)
{
    const struct dt_example_images *images = prompts->images;
    *line = (struct dt_prompt_parsed){.turns.allow_images = images};
    if (!(line->root = dt_line_parse(text, bytes, err)) ||
        dt_row_images_refuse(line->root, images, err) < 0 ||
        !(line->prompt = find_prompt(prompts, line->root, &line->key, err)))
        return -1;
    if (images && !(line->images = dt_row_images_listed(line->root, err)))
        return -1;
    if (json_is_string(line->prompt))
        return dt_turns_refuse_options(line->root, err) < 0
                   ? -1
                   : dt_turns_refuse_system(line->root, err);
    if (dt_turns_add_options(&line->turns, line->root, err) < 0 ||
        dt_turns_add_system(&line->turns, line->root, line->prompt, err) < 0 ||
        dt_turns_add(&line->turns, line->prompt, line->key, err) < 0 ||
        check_turns(&line->turns, err) < 0)
        return -1;
    return images ? place_images(&line->turns, images, &line->images, err) : 0;
}

void dt_prompt_parsed_fini(struct dt_prompt_parsed *line)
{
    dt_turns_fini(&line->turns);
    json_decref(line->images);
    json_decref(line->root);
}
