/* SPDX-License-Identifier: Apache-2.0 */
/* image_text.c - puts the texts of images in the places of their marks */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/image_text.h"

/* --- families --- */

static const struct dt_image_text plain = {.mark = DT_IMAGE_MARKER,
                                           .placeholder = DT_IMAGE_MARKER,
                                           .before = "",
                                           .after = "",
                                           .line = true};
/* templates write <|vision_start|> and <|vision_end|> */
static const struct dt_image_text qwen = {.mark = "<|image_pad|>",
                                          .placeholder = "<|image_pad|>",
                                          .before = "",
                                          .after = ""};
static const struct dt_image_text gemma = {.mark = "<start_of_image>",
                                           .placeholder = "<image_soft_token>",
                                           .before = "\n\n<start_of_image>",
                                           .after = "<end_of_image>\n\n"};
static const struct dt_image_text tiles = {.mark = DT_IMAGE_MARKER,
                                           .placeholder = DT_IMAGE_MARKER,
                                           .before =
                                               "<fake_token_around_image>",
                                           .after = "<fake_token_around_image>",
                                           .whole = "<global-img>"};

const struct dt_image_text *dt_image_text_find(const char *family)
{
    static const struct {
        const char *name;
        const struct dt_image_text *text;
    } all[] = {
        {"llava", &plain},    {"qwen2_vl", &qwen}, {"qwen2_5_vl", &qwen},
        {"qwen3_vl", &qwen},  {"gemma3", &gemma},  {"smolvlm", &tiles},
        {"idefics3", &tiles},
    };
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (strcmp(family, all[i].name) == 0)
            return all[i].text;
    return NULL;
}

/* --- marks --- */

/* The next mark in [at, end), or NULL. */
static const char *next_mark(const struct dt_image_text *text, const char *at,
                             const char *end)
{
    return memmem(at, (size_t)(end - at), text->mark, strlen(text->mark));
}

size_t dt_image_text_marks(const struct dt_image_text *text, const char *from,
                           size_t bytes)
{
    const char *at = from, *end = from + bytes;
    size_t count = 0;
    for (; (at = next_mark(text, at, end)); at += strlen(text->mark))
        count++;
    return count;
}

/* --- the text of an image --- */

static void put_picture(FILE *out, const struct dt_image_text *text,
                        const char *name)
{
    fprintf(out, "%s%s%s", text->before, name, text->placeholder);
}

/* Row after row of tiles, each row on a line, then all of it as one tile. */
static void put_tiles(FILE *out, const struct dt_image_text *text,
                      const struct dt_image_plan *plan)
{
    for (uint32_t row = 1; row <= plan->rows; row++) {
        for (uint32_t column = 1; column <= plan->columns; column++) {
            char name[48];
            snprintf(name, sizeof(name), "<row_%" PRIu32 "_col_%" PRIu32 ">",
                     row, column);
            put_picture(out, text, name);
        }
        fputc('\n', out);
    }
    if (plan->rows > 0)
        fputc('\n', out);
}

static void put_image(FILE *out, const struct dt_image_text *text,
                      const struct dt_image_plan *plan)
{
    if (text->whole)
        put_tiles(out, text, plan);
    put_picture(out, text, text->whole ? text->whole : "");
    fputs(text->after, out);
}

char *dt_image_text_expand(const struct dt_image_text *text,
                           const struct dt_image_plan *plans, size_t count,
                           const char *from, size_t bytes,
                           struct dt_image_place *places, size_t *new_bytes,
                           struct dt_error *err)
{
    const char *at = from, *end = from + bytes;
    char *expanded = NULL;
    FILE *out = open_memstream(&expanded, new_bytes);
    for (size_t i = 0; out && i < count; i++) {
        const char *mark = next_mark(text, at, end);
        struct dt_image_place *place = &places[i];
        fwrite(at, 1, (size_t)(mark - at), out);
        at = mark + strlen(text->mark);
        place->begin = (size_t)(mark - from);
        place->end = (size_t)(at - from);
        place->new_begin = (size_t)ftell(out);
        put_image(out, text, &plans[i]);
        place->new_end = (size_t)ftell(out);
    }
    if (out)
        fwrite(at, 1, (size_t)(end - at), out);
    const bool failed = !out || ferror(out);
    if ((out && fclose(out) != 0) || failed) {
        free(expanded);
        dt_error_set(err, EX_OSERR, "out of memory");
        return NULL;
    }
    return expanded;
}
