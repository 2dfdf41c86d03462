/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_vision_chat.c - conversations with images are the tokens of transformers
 *
 * make_vision_chat_reference.py has written vision_chat.json.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "data/data_impl.h"
#include "data/image_text.h"
#include "data/mask.h"
#include "image/store.h"
#include "tests/unit/data/small_png.h"

/* The processors of the script. */
static struct dt_image_processor processor_of(const char *family)
{
    struct dt_image_processor p = {
        .limits = dt_image_limits_usual, .patch = 2, .merge = 1, .temporal = 1};
    if (strncmp(family, "llava", 5) == 0) {
        p.kind = DT_IMAGE_SHORTEST;
        p.height = p.width = p.crop_height = p.crop_width = 8;
    } else if (strcmp(family, "gemma3") == 0) {
        p.kind = DT_IMAGE_FIXED;
        p.height = p.width = 8;
        p.tokens = 16;
    } else if (strncmp(family, "qwen", 4) == 0) {
        p.kind = DT_IMAGE_PIXELS;
        p.merge = p.temporal = 2;
        p.min_pixels = 64;
        p.max_pixels = 600;
    } else {
        p.kind = DT_IMAGE_TILES;
        p.tile = 12;
        p.longest = strcmp(family, "smolvlm") == 0 ? 36 : 12;
        p.split = true;
        p.tokens = 9;
    }
    return p;
}

static const char *file_here(const char *name)
{
    static char paths[2][4096];
    static unsigned next;
    const char *root = getenv("DT_SRCDIR");
    char *path = paths[next++ % 2];
    snprintf(path, sizeof(paths[0]), "%s/tests/parity/%s", root ? root : ".",
             name);
    return path;
}

struct scene {
    json_t *reference;
    struct dt_tokenizer *tokenizer;
    char root[300];
};

static struct dt_image_store store;

/* An image of this size; the name says which. */
static json_t *image_of(const json_t *size)
{
    const uint32_t height =
        (uint32_t)json_integer_value(json_array_get(size, 0));
    const uint32_t width =
        (uint32_t)json_integer_value(json_array_get(size, 1));
    char name[40], path[60];
    snprintf(name, sizeof(name), "%ux%u.png", (unsigned)height,
             (unsigned)width);
    snprintf(path, sizeof(path), "root/%s", name);
    small_png_write(path, height, width, 7);
    return json_string(name);
}

static int set_up(void **state)
{
    static struct scene scene;
    struct dt_error err;
    *state = &scene;
    scene.reference = json_load_file(file_here("vision_chat.json"), 0, NULL);
    scene.tokenizer = dt_tokenizer_load(file_here("vision_tokenizer"), &err);
    snprintf(scene.root, sizeof(scene.root), "%s", scratch_path("root"));
    dt_file_mkdirs(scene.root, NULL);
    return scene.reference && scene.tokenizer ? 0 : -1;
}

static int tear_down(void **state)
{
    struct scene *scene = *state;
    json_decref(scene->reference);
    dt_tokenizer_destroy(scene->tokenizer);
    dt_image_store_fini(&store);
    return 0;
}

static void images_become_as_many_tokens(void **state)
{
    const struct scene *scene = *state;
    const char *family;
    json_t *sizes, *pair;
    size_t i, checked = 0;
    json_object_foreach(json_object_get(scene->reference, "processors"), family,
                        sizes)
    {
        const struct dt_image_processor p = processor_of(family);
        json_array_foreach(sizes, i, pair)
        {
            const json_t *size = json_array_get(pair, 0);
            const json_t *wanted = json_array_get(pair, 1);
            struct dt_image_plan plan;
            struct dt_error err;
            assert_int_equal(
                dt_image_plan(
                    &plan, &p,
                    (uint32_t)json_integer_value(json_array_get(size, 0)),
                    (uint32_t)json_integer_value(json_array_get(size, 1)),
                    &err),
                0);
            if (json_is_integer(wanted)) {
                assert_int_equal(plan.tokens, json_integer_value(wanted));
            } else {
                assert_int_equal(plan.rows,
                                 json_integer_value(json_array_get(wanted, 0)));
                assert_int_equal(plan.columns,
                                 json_integer_value(json_array_get(wanted, 1)));
            }
            checked++;
        }
    }
    assert_int_equal(checked, 42);
}

/* The line of data that a conversation is; free() it. */
static char *line_of(const json_t *conversation)
{
    json_t *line = json_object(), *images = json_array(), *size;
    size_t i;
    json_array_foreach(json_object_get(conversation, "images"), i, size)
        json_array_append_new(images, image_of(size));
    json_object_set(line, "messages",
                    json_object_get(conversation, "messages"));
    json_object_set_new(line, "images", images);
    if (json_object_get(conversation, "tools"))
        json_object_set(line, "tools", json_object_get(conversation, "tools"));
    if (json_object_get(conversation, "variables"))
        json_object_set(line, "chat_template_kwargs",
                        json_object_get(conversation, "variables"));
    char *text = json_dumps(line, JSON_COMPACT);
    json_decref(line);
    return text;
}

/* [id, n] is n times the id. */
static void check_ids(const struct dt_tokens *tokens, const json_t *wanted)
{
    const json_t *item;
    size_t i, at = 0;
    json_array_foreach(wanted, i, item)
    {
        const bool run = json_is_array(item);
        const json_t *id = run ? json_array_get(item, 0) : item;
        json_int_t n = run ? json_integer_value(json_array_get(item, 1)) : 1;
        for (; n > 0; n--, at++) {
            assert_true(at < tokens->count);
            assert_int_equal(tokens->ids[at], json_integer_value(id));
        }
    }
    assert_int_equal(at, tokens->count);
}

static bool in_mask(const json_t *mask, size_t at)
{
    const json_t *span;
    size_t i;
    bool in = false;
    json_array_foreach(mask, i, span) in |=
        (json_int_t)at >= json_integer_value(json_array_get(span, 0)) &&
        (json_int_t)at < json_integer_value(json_array_get(span, 1));
    return in;
}

/* Everything that encodes conversations of a family. */
struct family {
    struct dt_image_processor processor;
    struct dt_example_images images;
    struct dt_example_options options;
    struct dt_chat *chat;
    struct dt_masker *masker;
    struct dt_chat_coder coder;
    struct dt_row_images row;
};

static void family_init(struct family *f, const struct scene *scene,
                        const char *name)
{
    char template[80];
    struct dt_error err;
    const char *of = strcmp(name, "llava_next") == 0 ? "llava" : name;
    *f = (struct family){.processor = processor_of(name)};
    f->images = (struct dt_example_images){.processor = &f->processor,
                                           .text = dt_image_text_find(of),
                                           .root = scene->root,
                                           .store = &store,
                                           .train_on_image_tokens = true};
    f->options.images = &f->images;
    snprintf(template, sizeof(template), "vision_templates/%s.jinja", name);
    f->chat = dt_chat_create(file_here(template), NULL, scene->tokenizer, &err);
    if (!f->chat)
        fail_msg("%s", err.text);
    f->masker = dt_masker_create(scene->tokenizer, f->chat, &err,
                                 DT_LOSS_ASSISTANT, true, &err);
    assert_int_equal(dt_masker_use_images(f->masker, &f->images, &err), 0);
    f->coder = (struct dt_chat_coder){
        .tokenizer = scene->tokenizer,
        .chat = f->chat,
        .encoder = dt_encoder_create(scene->tokenizer, &err),
        .parse_special = true,
        .images = &f->images,
        .row = &f->row,
        .placeholder =
            dt_tokenizer_id(scene->tokenizer, f->images.text->placeholder)};
}

static void family_fini(struct family *f)
{
    dt_encoder_destroy(f->coder.encoder);
    dt_tokens_fini(&f->coder.part);
    dt_row_images_fini(&f->row);
    dt_masker_destroy(f->masker);
    dt_chat_destroy(f->chat);
}

/* The targets of an example are what the template marks, images included. */
static void check_mask(struct family *f, const struct dt_record *record,
                       const json_t *result)
{
    struct dt_marked marked = {0};
    struct dt_example_parts parts;
    struct dt_error err;
    const json_t *mask = json_object_get(result, "mask");
    bool seam;
    if (dt_masker_add(f->masker, record, &marked, &seam, &err) < 0)
        fail_msg("%s", err.text);
    assert_true(dt_example_find(marked.tokens, marked.count, &parts));
    assert_int_equal(parts.images, json_array_size(record->images));
    for (size_t i = 0; i < parts.token_count; i++)
        assert_int_equal(parts.tokens[i] >> 31, in_mask(mask, i));
    free(marked.tokens);
}

/* Takes out what a template would leave out there, and is refused here. */
static void drop_tools(json_t *conversation)
{
    json_t *message;
    size_t i;
    json_object_del(conversation, "tools");
    json_array_foreach(json_object_get(conversation, "messages"), i, message)
    {
        json_object_del(message, "tool_calls");
        if (json_is_null(json_object_get(message, "content")))
            json_object_set_new(message, "content", json_array());
    }
}

/* Whether the conversation is accepted; checks the tokens if it is.
 * *with_tools counts those that are only without their tools.
 */
static bool check_conversation(struct family *f, json_t *conversation,
                               const json_t *result, size_t *with_tools)
{
    struct dt_record record;
    struct dt_chat_text text = {0};
    struct dt_tokens tokens = {0};
    struct dt_error err;
    char *line = line_of(conversation);
    const bool prompt = json_is_true(json_object_get(conversation, "prompt"));
    int rc = dt_jsonl_read(line, strlen(line), DT_FORMAT_MESSAGES, &f->options,
                           0, &record, &err);
    if (rc == 0)
        rc = dt_row_images_read(&f->row, record.images, &f->images, &err);
    if (rc == 0) {
        const struct dt_chat_input input =
            dt_turns_input(&record.turns, record.turns.count);
        rc = dt_chat_encode(&f->coder, &input, prompt ? DT_CHAT_PROMPT : 0,
                            &text, &tokens, &err);
    }
    const bool tools = rc < 0 && strstr(err.text, "does not render them");
    if (rc < 0 && !tools && json_is_object(result))
        fail_msg("%s: %s", line, err.text);
    if (rc == 0 && json_is_object(result)) {
        check_ids(&tokens, json_object_get(result, "ids"));
        if (!prompt)
            check_mask(f, &record, result);
    }
    dt_chat_text_fini(&text);
    dt_tokens_fini(&tokens);
    dt_record_fini(&record);
    free(line);
    if (!tools)
        return rc == 0;
    drop_tools(conversation);
    const bool good = check_conversation(f, conversation, result, with_tools);
    *with_tools += good;
    return good;
}

static void tokens_and_masks_are_those_of_transformers(void **state)
{
    const struct scene *scene = *state;
    const json_t *conversations =
        json_object_get(scene->reference, "conversations");
    const char *name;
    json_t *results, *result;
    size_t i, accepted = 0, refused = 0, with_tools = 0;
    json_object_foreach(json_object_get(scene->reference, "results"), name,
                        results)
    {
        struct family f;
        family_init(&f, scene, name);
        json_array_foreach(results, i, result)
        {
            json_t *conversation =
                json_deep_copy(json_array_get(conversations, i));
            const bool good =
                check_conversation(&f, conversation, result, &with_tools);
            if (good != json_is_object(result))
                fail_msg("%s: conversation %zu: accepted: %d", name, i, good);
            json_decref(conversation);
            accepted += good;
            refused += !good;
        }
        family_fini(&f);
    }
    assert_int_equal(accepted, 333);
    assert_int_equal(with_tools, 22);
    assert_int_equal(refused, 17);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(images_become_as_many_tokens),
        cmocka_unit_test(tokens_and_masks_are_those_of_transformers),
    };
    return cmocka_run_group_tests_name("vision chat", tests, set_up, tear_down);
}
