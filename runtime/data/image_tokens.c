/* SPDX-License-Identifier: Apache-2.0 */
/* image_tokens.c - images among the tokens of a row */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "data/data_impl.h"
#include "data/image_text.h"

/* --- text --- */

/* Of a row without images: the keys that could be theirs. */
static const char *where(const struct dt_chat_coder *coder, char text[300])
{
    char keys[200] = "";
    text[0] = '\0';
    if (coder->line && coder->row->count == 0)
        dt_line_keys(coder->line, keys, sizeof(keys));
    if (keys[0])
        snprintf(text, 300,
                 "images are those of the key images or image, and its keys "
                 "are %s; if it shall have none, ",
                 keys);
    return text;
}

static int check_text(const struct dt_chat_coder *coder, const json_t *text,
                      size_t message, struct dt_error *err)
{
    const struct dt_image_text *of = coder->images->text;
    const char *const names[] = {of->mark, of->placeholder};
    char keys[300];
    for (size_t i = 0; json_is_string(text) && i < 2; i++)
        if (memmem(json_string_value(text), json_string_length(text), names[i],
                   strlen(names[i])))
            return dt_error_set(err, EX_DATAERR,
                                "message %zu: its text spells %s, which stands "
                                "for an image, and the line has none for it: "
                                "%sleave it out, or keep it as text "
                                "(data.parse_special: false)",
                                message + 1, names[i], where(coder, keys));
    return 0;
}

int dt_images_check_texts(const struct dt_chat_coder *coder,
                          const json_t *messages, struct dt_error *err)
{
    const json_t *message, *part;
    size_t i, k;
    json_array_foreach(messages, i, message)
    {
        const json_t *content = json_object_get(message, "content");
        if (check_text(coder, content, i, err) < 0)
            return -1;
        json_array_foreach(content, k, part)
        {
            if (check_text(coder, json_object_get(part, "text"), i, err) < 0)
                return -1;
        }
    }
    return 0;
}

/* Expands the first `count` marks; places (count). */
static char *expand(const struct dt_chat_coder *coder, size_t count,
                    const char *text, size_t bytes,
                    struct dt_image_place **places, size_t *new_bytes,
                    struct dt_error *err)
{
    *places = calloc(count + 1, sizeof(**places));
    if (*places)
        return dt_image_text_expand(coder->images->text, coder->row->plans,
                                    count, text, bytes, *places, new_bytes,
                                    err);
    dt_error_set(err, EX_OSERR, "out of memory");
    return NULL;
}

/* Where a byte of a text is after the marks became longer; from place *i on. */
static size_t move(const struct dt_image_place *places, size_t count, size_t *i,
                   size_t at)
{
    while (*i < count && places[*i].end <= at)
        ++*i;
    if (*i < count && places[*i].begin < at)
        return places[*i].new_begin;
    return *i == 0 ? at : at - places[*i - 1].end + places[*i - 1].new_end;
}

int dt_images_expand(const struct dt_chat_coder *coder, size_t count,
                     struct dt_chat_text *text, struct dt_error *err)
{
    struct dt_template_text *whole = &text->whole;
    const struct dt_image_text *of = coder->images->text;
    struct dt_image_place *places;
    const size_t marks = dt_image_text_marks(of, whole->text, whole->bytes);
    size_t bytes, at = 0;
    if (marks != count)
        return dt_error_set(err, EX_DATAERR,
                            "the chat template writes %zu %s for %zu image%s: "
                            "expected one for each",
                            marks, of->mark, count, dt_str_plural(count));
    if (count == 0)
        return 0;
    char *longer =
        expand(coder, count, whole->text, whole->bytes, &places, &bytes, err);
    if (longer) {
        free(whole->text);
        whole->text = longer;
        whole->bytes = bytes;
        whole->capacity = bytes + 1;
    }
    for (size_t i = 0; longer && i < text->trained_count; i++) {
        struct dt_chat_span *span = &text->trained[i];
        span->begin = move(places, count, &at, span->begin);
        span->end = move(places, count, &at, span->end);
    }
    free(places);
    return longer ? 0 : -1;
}

void dt_expanded_fini(struct dt_expanded *expanded)
{
    free(expanded->text);
    free(expanded->spans);
    *expanded = (struct dt_expanded){0};
}

/* The first mark or placeholder in text [at, bytes); *n is its length. Returns
 * `bytes` if there is none.
 */
static size_t next_name(const struct dt_image_text *of, const char *text,
                        size_t at, size_t bytes, size_t *n)
{
    const char *const names[] = {of->mark, of->placeholder};
    size_t first = bytes;
    for (size_t i = 0; i < 2; i++) {
        const char *found =
            memmem(text + at, bytes - at, names[i], strlen(names[i]));
        if (!found || (size_t)(found - text) >= first)
            continue;
        first = (size_t)(found - text);
        *n = strlen(names[i]);
    }
    return first;
}

/* Appends the pieces of an answer, text [at, bytes), between such names. */
static void add_pieces(const struct dt_image_text *of, const char *text,
                       size_t at, size_t bytes, struct dt_expanded *expanded)
{
    size_t n = 0;
    for (size_t end; at < bytes; at = end + n) {
        n = 0;
        end = next_name(of, text, at, bytes, &n);
        expanded->spans[expanded->span_count++] =
            (struct dt_text_span){at, end};
    }
}

/* All of the row's own text, or only the texts of images; and of an answer that
 * is none of a policy what spells no image.
 */
static int find_spans(const struct dt_chat_coder *coder,
                      const struct dt_image_place *places, size_t own,
                      struct dt_expanded *expanded, struct dt_error *err)
{
    const size_t most = expanded->images + expanded->bytes - own + 1;
    struct dt_text_span *spans = calloc(most, sizeof(*spans));
    expanded->spans = spans;
    if (!spans)
        return dt_error_set(err, EX_OSERR, "out of memory");
    if (coder->parse_special) {
        spans[0].end = own;
        expanded->span_count = 1;
        if (!coder->answered)
            add_pieces(coder->images->text, expanded->text, own,
                       expanded->bytes, expanded);
        return 0;
    }
    for (size_t i = 0; i < expanded->images; i++)
        spans[i] =
            (struct dt_text_span){places[i].new_begin, places[i].new_end};
    expanded->span_count = expanded->images;
    return 0;
}

int dt_images_expand_text(const struct dt_chat_coder *coder, const char *text,
                          size_t bytes, size_t own,
                          struct dt_expanded *expanded, struct dt_error *err)
{
    const struct dt_image_text *of = coder->images->text;
    const size_t images = coder->row->count;
    struct dt_image_place *places;
    *expanded =
        (struct dt_expanded){.images = dt_image_text_marks(of, text, own)};
    if (expanded->images > images)
        return dt_error_set(err, EX_DATAERR,
                            "the text has %zu %s for %zu image%s: expected one "
                            "for each",
                            expanded->images, of->mark, images,
                            dt_str_plural(images));
    expanded->text = expand(coder, expanded->images, text, bytes, &places,
                            &expanded->bytes, err);
    own += expanded->bytes - bytes;
    int rc =
        expanded->text ? find_spans(coder, places, own, expanded, err) : -1;
    free(places);
    return rc;
}

/* --- tokens --- */

/* Tokens of each picture of image i. */
static size_t tokens_of(const struct dt_chat_coder *coder, size_t i)
{
    const struct dt_image_plan *plan = &coder->row->plans[i];
    return plan->tokens / plan->tiles;
}

/* Goes over the pictures of images, one after another. */
struct walk {
    size_t image;   /* of the next picture */
    size_t picture; /* in it */
};

static void next_picture(const struct dt_chat_coder *coder, struct walk *w)
{
    if (++w->picture == coder->row->images[w->image].pictures) {
        w->picture = 0;
        w->image++;
    }
}

static int differ(const struct dt_chat_coder *coder, size_t images,
                  struct dt_error *err)
{
    const char *placeholder = coder->images->text->placeholder;
    char keys[300];
    if (images == 0)
        return dt_error_set(err, EX_DATAERR,
                            "its text spells %s, which stands for an image, "
                            "and the line has none: %sleave it out, or keep it "
                            "as text (data.parse_special: false)",
                            placeholder, where(coder, keys));
    return dt_error_set(err, EX_DATAERR,
                        "its text has not as many %s as the pictures of its "
                        "%zu image%s: write it once for each image, and "
                        "nowhere else",
                        placeholder, images, dt_str_plural(images));
}

/* The number of tokens once placeholders are repeated; 0 and err. */
static size_t repeated_count(const struct dt_chat_coder *coder, size_t images,
                             const struct dt_tokens *tokens,
                             struct dt_error *err)
{
    struct walk w = {0};
    size_t all = tokens->count;
    for (size_t i = 0; i < tokens->count; i++) {
        if (tokens->ids[i] != coder->placeholder)
            continue;
        if (w.image == images) {
            differ(coder, images, err);
            return 0;
        }
        all += tokens_of(coder, w.image) - 1;
        next_picture(coder, &w);
    }
    if (w.image == images)
        return all;
    differ(coder, images, err);
    return 0;
}

static int tokens_init(struct dt_tokens *tokens, size_t count, bool offsets,
                       struct dt_error *err)
{
    *tokens = (struct dt_tokens){.count = count, .capacity = count};
    tokens->ids = calloc(count, sizeof(*tokens->ids));
    if (offsets) {
        tokens->begin = calloc(count, sizeof(*tokens->begin));
        tokens->end = calloc(count, sizeof(*tokens->end));
    }
    if (tokens->ids && (!offsets || (tokens->begin && tokens->end)))
        return 0;
    dt_tokens_fini(tokens);
    return dt_error_set(err, EX_OSERR, "out of memory");
}

int dt_images_repeat(const struct dt_chat_coder *coder, size_t count,
                     struct dt_tokens *tokens, struct dt_error *err)
{
    struct walk w = {0};
    struct dt_tokens longer;
    size_t to = 0;
    if (count == 0) /* dt_images_find refuses placeholders */
        return 0;
    const size_t all = repeated_count(coder, count, tokens, err);
    if (all == 0 || tokens_init(&longer, all, tokens->begin, err) < 0)
        return -1;
    for (size_t i = 0; i < tokens->count; i++) {
        size_t times = 1;
        if (tokens->ids[i] == coder->placeholder) {
            times = tokens_of(coder, w.image);
            next_picture(coder, &w);
        }
        for (; times > 0; times--, to++) {
            longer.ids[to] = tokens->ids[i];
            if (tokens->begin) {
                longer.begin[to] = tokens->begin[i];
                longer.end[to] = tokens->end[i];
            }
        }
    }
    dt_tokens_fini(tokens);
    *tokens = longer;
    return 0;
}

int dt_images_find(const struct dt_chat_coder *coder, uint32_t *tokens,
                   size_t count, uint32_t *first, struct dt_error *err)
{
    const size_t images = coder->row->count;
    struct walk w = {0};
    size_t left = 0; /* tokens of the picture */
    for (size_t i = 0; i < count; i++) {
        if ((tokens[i] & ~DT_TARGET_BIT) != (uint32_t)coder->placeholder) {
            if (left > 0)
                return differ(coder, images, err);
            continue;
        }
        if (left == 0) {
            if (w.image == images)
                return differ(coder, images, err);
            left = tokens_of(coder, w.image);
            *first++ = (uint32_t)i;
            next_picture(coder, &w);
        }
        left--;
        if (!coder->images->train_on_image_tokens)
            tokens[i] &= ~DT_TARGET_BIT;
    }
    return left == 0 && w.image == images ? 0 : differ(coder, images, err);
}
