/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_jsonl.c - any bytes as lines of JSON: an error or tokens */
#include "config.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "data/example.h"
#include "data/image_text.h"
#include "data/jsonl.h"
#include "data/mask.h"
#include "image/store.h"
#include "tests/unit/bytes_tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const styles[] = {"chatml",  "qwen2.5", "qwen3",
                                     "llama2",  "llama3",  "llama3.1",
                                     "mistral", "llava",   "llava-plain"};

enum { STYLES = sizeof(styles) / sizeof(styles[0]) };

static struct dt_tokenizer *tokenizer;
static struct dt_masker *maskers[STYLES][2]; /* all; the assistant's as text */

/* Lines with images, which are small and come from the line alone. */
static const struct dt_image_text writing = {.mark = "[INST]",
                                             .placeholder = "[INST]",
                                             .before = "\n<think>",
                                             .after = "</think>\n",
                                             .line = true};
static struct dt_image_processor processor = {.kind = DT_IMAGE_PIXELS,
                                              .min_pixels = 1,
                                              .max_pixels = 40,
                                              .patch = 1,
                                              .merge = 1,
                                              .temporal = 1};
static struct dt_example_images images = {.processor = &processor,
                                          .text = &writing};
static struct dt_masker *of_images[2];

static void prepare_images(void)
{
    static const char jinja[] =
        "{% for m in messages %}{{ m.role }}{% for p in m.content %}{{ '[INST]'"
        " if p.type == 'image' else p.text }}{% endfor %}</s>{% endfor %}";
    static struct dt_image_store store;
    struct dt_error err = {0};
    struct dt_chat *chat =
        dt_chat_create(scratch_write("parts.jinja", jinja, sizeof(jinja) - 1),
                       NULL, tokenizer, &err);
    processor.limits = dt_image_limits_usual;
    images.store = &store;
    for (int i = 0; i < 2; i++) {
        of_images[i] = dt_masker_create(
            tokenizer, chat, &err, i ? DT_LOSS_ASSISTANT : DT_LOSS_COMPLETION,
            i == 0, &err);
        if (!of_images[i] ||
            dt_masker_use_images(of_images[i], &images, &err) < 0)
            abort();
    }
}

static void prepare(void)
{
    struct dt_error err = {0};
    tokenizer = bytes_tokenizer("tokenizer", "<s>", "</s>", NULL);
    for (int i = 0; i < STYLES; i++) {
        struct dt_chat *chat = dt_chat_create(styles[i], NULL, tokenizer, &err);
        maskers[i][0] = dt_masker_create(tokenizer, chat, &err,
                                         DT_LOSS_COMPLETION, true, &err);
        maskers[i][1] = dt_masker_create(tokenizer, chat, &err,
                                         DT_LOSS_ASSISTANT, false, &err);
    }
    prepare_images();
}

/* An error is one line of text. */
static void check_error(const struct dt_error *err)
{
    if (!err->text[0] || strpbrk(err->text, "\n\r\x1b"))
        abort();
}

static void check_ids(const uint32_t *tokens, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if ((tokens[i] & ~DT_TARGET_BIT) >= dt_tokenizer_vocab_size(tokenizer))
            abort();
}

static void mask(struct dt_masker *masker, const struct dt_record *record)
{
    struct dt_marked marked = {0};
    struct dt_error err = {0};
    bool seam;
    if (dt_masker_add(masker, record, &marked, &seam, &err) < 0)
        check_error(&err);
    else
        check_ids(marked.tokens, marked.count);
    free(marked.tokens);
}

/* A pair has tokens on both sides, and its prompt is the same on both. */
static void mask_pair(struct dt_masker *masker, const struct dt_preference *p)
{
    struct dt_marked marked = {0};
    struct dt_error err = {0};
    struct dt_pair pair;
    bool seam;
    if (dt_masker_add_preference(masker, p, &marked, &seam, &err) < 0) {
        check_error(&err);
    } else if (!dt_pair_find(marked.tokens, marked.count, &pair)) {
        abort();
    } else {
        size_t n = 0;
        check_ids(marked.tokens + DT_PAIR_WORDS, marked.count - DT_PAIR_WORDS);
        while (n < pair.count[0] && !(pair.tokens[0][n] & DT_TARGET_BIT))
            n++;
        if (n > pair.count[1] ||
            memcmp(pair.tokens[0], pair.tokens[1], n * sizeof(uint32_t)) != 0)
            abort();
    }
    free(marked.tokens);
}

static void read_pair(const char *line, size_t length)
{
    static const struct dt_example_options options;
    struct dt_preference p;
    struct dt_error err = {0};
    if (dt_preference_read(line, length, &options,
                           dt_tokenizer_vocab_size(tokenizer), &p, &err) < 0)
        check_error(&err);
    else
        for (int s = 0; s < STYLES; s++)
            for (int i = 0; i < 2; i++)
                mask_pair(maskers[s][i], &p);
    dt_preference_fini(&p);
}

static void read_line(const char *line, size_t length)
{
    static const struct dt_example_options options;
    enum dt_format format;
    struct dt_error err = {0};
    if (dt_jsonl_format(line, length, &options, &format, &err) < 0)
        check_error(&err);
    for (int i = DT_FORMAT_TEXT; i <= DT_FORMAT_TOKENIZED; i++) {
        struct dt_record record;
        err.text[0] = '\0';
        if (dt_jsonl_read(line, length, (enum dt_format)i, &options,
                          dt_tokenizer_vocab_size(tokenizer), &record,
                          &err) < 0)
            check_error(&err);
        else
            for (int s = 0; s < STYLES; s++) {
                mask(maskers[s][0], &record);
                mask(maskers[s][1], &record);
            }
        dt_record_fini(&record);
    }
}

/* Placeholders are tokens of pictures, all of them, and no targets. */
static void check_images(const struct dt_marked *marked)
{
    const uint32_t placeholder =
        (uint32_t)dt_tokenizer_id(tokenizer, writing.placeholder);
    struct dt_example_parts parts;
    struct dt_example_image image;
    size_t found = 0, wanted = 0;
    if (!dt_example_find(marked->tokens, marked->count, &parts))
        abort();
    check_ids(parts.tokens, parts.token_count);
    for (size_t i = 0; i < parts.token_count; i++)
        found += (parts.tokens[i] & ~DT_TARGET_BIT) == placeholder;
    while (dt_example_next_image(&parts, &image)) {
        struct dt_image_plan plan;
        if (image.pictures != 1 ||
            dt_image_plan(&plan, &processor, image.height, image.width, NULL) <
                0 ||
            plan.tokens > parts.token_count - image.first[0])
            abort();
        for (uint32_t i = 0; i < plan.tokens; i++)
            if (parts.tokens[image.first[0] + i] != placeholder)
                abort();
        wanted += plan.tokens;
    }
    if (found != wanted)
        abort();
}

static void read_images(const char *line, size_t length)
{
    const struct dt_example_options options = {.images = &images};
    for (int i = DT_FORMAT_TEXT; i <= DT_FORMAT_TOKENIZED; i++) {
        struct dt_record record;
        struct dt_error err = {0};
        int rc =
            dt_jsonl_read(line, length, (enum dt_format)i, &options,
                          dt_tokenizer_vocab_size(tokenizer), &record, &err);
        if (rc < 0)
            check_error(&err);
        for (int k = 0; k < 2 && rc == 0; k++) {
            struct dt_marked marked = {0};
            bool seam;
            if (dt_masker_add(of_images[k], &record, &marked, &seam, &err) < 0)
                check_error(&err);
            else
                check_images(&marked);
            free(marked.tokens);
        }
        dt_record_fini(&record);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *line, *text = (const char *)data;
    size_t at = 0, length;
    uint64_t number = 0;
    if (!tokenizer)
        prepare();
    while ((line = dt_jsonl_next(text, size, &at, &number, &length)) != NULL) {
        read_line(line, length);
        read_pair(line, length);
        read_images(line, length);
    }
    struct dt_part *parts = calloc(size / 3 + 1, sizeof(*parts));
    size_t count = parts ? dt_jsonl_parts(text, size, 3, parts) : 0;
    if (!parts || (count > 0 && parts[count - 1].end != size))
        abort();
    free(parts);
    return 0;
}
