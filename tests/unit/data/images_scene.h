/* SPDX-License-Identifier: Apache-2.0 */
/* images_scene.h - files of lines with images, and examples of them as text */
#ifndef DT_TESTS_UNIT_IMAGES_SCENE_H
#define DT_TESTS_UNIT_IMAGES_SCENE_H

#include "data/image_text.h"
#include "image/processor.h"
#include "image/store.h"
#include "tests/unit/data/examples_file.h"
#include "tests/unit/data/small_png.h"

enum { PLACEHOLDER = 270 }; /* <image> */

/* r: and contents for each role; the assistant's with EOS are marked. */
#define PARTS                                                                  \
    "{% for p in m.content %}{{ '<image>' if p.type == 'image' else p.text }}" \
    "{% endfor %}"
#define TEMPLATE                                                               \
    "{% for m in messages %}{{ m.role[0] ~ ':' }}"                             \
    "{% if m.role == 'assistant' %}{% generation %}" PARTS                     \
    "{{ '</s>' }}{% endgeneration %}{% else %}" PARTS                          \
    "{% endif %}{% endfor %}"

static struct dt_image_processor processor;
static struct dt_example_images images;
static char image_root[300], image_store_dir[300];
static struct dt_image_store image_store = {.dir = image_store_dir};

/* Byte tokens, control tokens, and from 270 on those of images. */
static inline struct dt_tokenizer *images_tokenizer(void)
{
    static const char *const more[] = {
        "<image>",        "<fake_token_around_image>",
        "<global-img>",   "<row_1_col_1>",
        "<row_1_col_2>",  "<start_of_image>",
        "<end_of_image>", "<image_soft_token>",
        "<|image_pad|>",
    };
    struct dt_error err;
    json_t *decoder = json_object();
    for (size_t i = 0; i < sizeof(more) / sizeof(more[0]); i++) {
        char id[16];
        snprintf(id, sizeof(id), "%zu", PLACEHOLDER + i);
        json_object_set_new(
            decoder, id,
            json_pack("{ss, sb}", "content", more[i], "special", 1));
    }
    dt_tokenizer_destroy(bytes_tokenizer("images_tokenizer", NULL, "</s>", ""));
    json_t *config =
        json_pack("{ss, so, ss}", "eos_token", "</s>", "added_tokens_decoder",
                  decoder, "chat_template", TEMPLATE);
    assert_int_equal(
        json_dump_file(
            config, scratch_path("images_tokenizer/tokenizer_config.json"), 0),
        0);
    json_decref(config);
    struct dt_tokenizer *loaded =
        dt_tokenizer_load(scratch_path("images_tokenizer"), &err);
    if (!loaded)
        fail_msg("%s", err.text);
    return loaded;
}

/* A pixel is a token, up to 40 of them. */
static inline struct dt_example_options with_images(void)
{
    struct dt_example_options options = usual();
    processor = (struct dt_image_processor){.kind = DT_IMAGE_PIXELS,
                                            .limits = dt_image_limits_usual,
                                            .min_pixels = 1,
                                            .max_pixels = 40,
                                            .patch = 1,
                                            .merge = 1,
                                            .temporal = 1};
    images = (struct dt_example_images){.processor = &processor,
                                        .text = dt_image_text_find("llava"),
                                        .root = image_root,
                                        .store = &image_store};
    options.images = &images;
    return options;
}

/* An empty root and an empty store. */
static inline int images_set_up(void **state)
{
    (void)state;
    snprintf(image_root, sizeof(image_root), "%s", scratch_path("root"));
    snprintf(image_store_dir, sizeof(image_store_dir), "%s",
             scratch_path("store"));
    dt_file_remove_tree(image_root, NULL);
    dt_file_remove_tree(image_store_dir, NULL);
    return dt_file_mkdirs(image_root, NULL) < 0 ||
                   dt_file_mkdirs(image_store_dir, NULL) < 0
               ? -1
               : 0;
}

/* An image of this size in the root. */
static inline void put_image(const char *name, uint32_t height, uint32_t width)
{
    char path[100];
    snprintf(path, sizeof(path), "root/%s", name);
    small_png_write(path, height, width, (uint8_t)(height + width));
}

/* The parts of example i. */
static inline struct dt_example_parts parts_of(
    const struct dt_examples *examples, size_t i)
{
    struct dt_example_parts parts;
    size_t count;
    const uint32_t *words = dt_example(examples, i, &count);
    assert_true(dt_example_find(words, count, &parts));
    return parts;
}

/* An example as `shown` writes it, in which a token of the placeholder is i,
 * and I if it is the first of a picture.
 */
static inline const char *shown_images(const struct dt_examples *examples,
                                       size_t i)
{
    static char text[4096];
    struct dt_example_parts parts = parts_of(examples, i);
    struct dt_example_image image = {0};
    uint32_t picture = 0;
    bool learned = false;
    size_t n = 0;
    for (size_t t = 0; t < parts.token_count; t++) {
        const uint32_t id = parts.tokens[t] & ~DT_TARGET_BIT;
        const bool target = parts.tokens[t] & DT_TARGET_BIT;
        bool first = false;
        if (picture == image.pictures && parts.images > 0) {
            dt_example_next_image(&parts, &image);
            picture = 0;
        }
        if (picture < image.pictures && image.first[picture] == t) {
            first = true;
            picture++;
        }
        if (target != learned)
            text[n++] = target ? '[' : ']';
        learned = target;
        text[n++] = id < 256            ? (char)id
                    : id == 257         ? '$'
                    : first             ? 'I'
                    : id == PLACEHOLDER ? 'i'
                                        : '#';
    }
    assert_int_equal(parts.images, 0);
    assert_int_equal(picture, image.pictures);
    if (learned)
        text[n++] = ']';
    text[n] = '\0';
    return text;
}

#endif /* DT_TESTS_UNIT_IMAGES_SCENE_H */
