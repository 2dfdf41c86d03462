/* SPDX-License-Identifier: Apache-2.0 */
/*
 * chat_tokens.c - renders a conversation and encodes the text
 *
 * If control tokens in messages stay text, each is replaced by a character of
 * private use before the conversation is rendered. It becomes text again
 * between the template's own control tokens, which are encoded alone. A control
 * token always separates the text around it, so the parts have the same tokens
 * as the whole.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "data/data_impl.h"
#include "data/image_text.h"

enum {
    STAND_IN_BYTES = 4,
    STAND_INS = 4096,   /* of a block of code points for control tokens */
    FIRST_BLOCK = 0xb0, /* by their second byte: U+F0000 and on, ... */
    LAST_BLOCK = 0xbe   /* ... up to U+FEFFF */
};

/* Which control tokens in the text of a message stay text. */
enum kept { NONE, MARKS, ALL };

/* Control tokens in the text of messages. */
struct guard {
    struct dt_chat_coder *coder;
    enum kept kept;              /* of the message at hand */
    unsigned block;              /* that no string of the conversation has */
    const char *text[STAND_INS]; /* in the strings of messages */
    size_t bytes[STAND_INS];
    size_t count;
    struct dt_error *err;
};

/* --- messages with stand-ins --- */

static void write_stand_in(unsigned block, size_t number,
                           char out[STAND_IN_BYTES])
{
    out[0] = (char)0xf3;
    out[1] = (char)block;
    out[2] = (char)(0x80 | (number >> 6 & 0x3f));
    out[3] = (char)(0x80 | (number & 0x3f));
}

/* The number of the stand-in of a block at `at`, or -1. */
static long read_stand_in(unsigned block, const char *text, size_t bytes,
                          size_t at)
{
    if (bytes - at < STAND_IN_BYTES || (unsigned char)text[at] != 0xf3 ||
        (unsigned char)text[at + 1] != block)
        return -1;
    return ((unsigned char)text[at + 2] & 0x3f) << 6 |
           ((unsigned char)text[at + 3] & 0x3f);
}

/* The number of one that stands for a text; -1: others have these characters,
 * such as the template.
 */
static long stands_for(const struct guard *g, const char *text, size_t bytes,
                       size_t at)
{
    const long number = read_stand_in(g->block, text, bytes, at);
    return number < (long)g->count ? number : -1;
}

/* The number of a control token's text. -1 and err: too many. */
static int guard_number(struct guard *g, const char *text, size_t bytes)
{
    for (size_t i = 0; i < g->count; i++)
        if (g->bytes[i] == bytes && memcmp(g->text[i], text, bytes) == 0)
            return (int)i;
    if (g->count == STAND_INS)
        return dt_error_set(g->err, EX_DATAERR,
                            "more than %d texts that spell control tokens",
                            STAND_INS);
    g->text[g->count] = text;
    g->bytes[g->count] = bytes;
    return (int)g->count++;
}

/* Whether a token of the text of a message stays text. */
static bool is_kept(const struct guard *g, int32_t id)
{
    const struct dt_chat_coder *coder = g->coder;
    if (g->kept == ALL)
        return dt_tokenizer_is_special(coder->tokenizer, id);
    return id == coder->placeholder ||
           id == dt_tokenizer_id(coder->tokenizer, coder->images->text->mark);
}

/* The string, with stand-ins if needed; NULL and err. */
static json_t *guard_string(struct guard *g, json_t *string)
{
    const struct dt_tokens *part = &g->coder->part;
    const char *s = json_string_value(string);
    size_t n = json_string_length(string), from = 0, to = 0;
    if (dt_encode(g->coder->encoder, s, n,
                  DT_ENCODE_SPECIAL | DT_ENCODE_OFFSETS, &g->coder->part,
                  g->err) < 0)
        return NULL;
    /* no control token is empty, so that there is room for all stand-ins */
    char *guarded = malloc(STAND_IN_BYTES * n + 1);
    for (size_t i = 0; guarded && i < part->count; i++) {
        if (!is_kept(g, part->ids[i]))
            continue;
        size_t begin = part->begin[i], end = part->end[i];
        int number = guard_number(g, s + begin, end - begin);
        if (number < 0) {
            free(guarded);
            return NULL;
        }
        memcpy(guarded + to, s + from, begin - from);
        to += begin - from;
        write_stand_in(g->block, (size_t)number, guarded + to);
        to += STAND_IN_BYTES;
        from = end;
    }
    if (!guarded) {
        dt_error_set(g->err, EX_OSERR, "out of memory");
        return NULL;
    }
    memcpy(guarded + to, s + from, n - from);
    json_t *result =
        from > 0 ? json_stringn(guarded, to + n - from) : json_incref(string);
    free(guarded);
    return result;
}

/* The value with stand-ins in its strings, but not in keys; NULL and err. */
static json_t *guard_value(struct guard *g, json_t *value)
{
    json_t *copy, *item;
    const char *key;
    size_t i;
    if (json_is_string(value))
        return guard_string(g, value);
    if (!json_is_array(value) && !json_is_object(value))
        return json_incref(value);
    copy = json_is_array(value) ? json_array() : json_object();
    int rc = copy ? 0 : dt_error_set(g->err, EX_OSERR, "out of memory");
    json_array_foreach(value, i, item)
    {
        json_t *guarded = rc == 0 ? guard_value(g, item) : NULL;
        rc = guarded ? json_array_append_new(copy, guarded) : -1;
    }
    json_object_foreach(value, key, item)
    {
        bool is_role = strcmp(key, "role") == 0; /* one of a few words */
        json_t *guarded = rc < 0    ? NULL
                          : is_role ? json_incref(item)
                                    : guard_value(g, item);
        rc = guarded ? json_object_set_new(copy, key, guarded) : -1;
    }
    if (rc == 0)
        return copy;
    json_decref(copy);
    return NULL;
}

/* What stays text in message i. */
static enum kept kept_in(const struct dt_chat_coder *coder, size_t i)
{
    if (!coder->parse_special || (coder->answered && i >= coder->prompt_turns))
        return ALL;
    return coder->images && (coder->keep_marks || coder->answered) ? MARKS
                                                                   : NONE;
}

/* The messages with stand-ins; NULL and err. */
static json_t *guard_messages(struct guard *g, const json_t *messages)
{
    json_t *copy = json_array(), *message;
    size_t i;
    int rc = copy ? 0 : dt_error_set(g->err, EX_OSERR, "out of memory");
    json_array_foreach((json_t *)messages, i, message)
    {
        g->kept = kept_in(g->coder, i);
        json_t *guarded = rc < 0            ? NULL
                          : g->kept == NONE ? json_incref(message)
                                            : guard_value(g, message);
        rc = guarded ? json_array_append_new(copy, guarded) : -1;
    }
    if (rc == 0)
        return copy;
    json_decref(copy);
    return NULL;
}

/* --- parts --- */

/* Appends tokens, whose offsets become those of the whole text: their text
 * begins at `at` there, and its lengths differ where it has stand-ins.
 */
static int append_part(const struct guard *g, const char *whole, size_t bytes,
                       size_t at, struct dt_tokens *out)
{
    const struct dt_tokens *part = &g->coder->part;
    size_t needed = out->count + part->count, text = 0, here = at;
    if (needed > out->capacity) {
        size_t capacity = needed + needed / 2 + 64;
        int32_t *ids = realloc(out->ids, capacity * sizeof(*ids));
        uint32_t *begin = realloc(out->begin, capacity * sizeof(*begin));
        uint32_t *end = realloc(out->end, capacity * sizeof(*end));
        out->ids = ids ? ids : out->ids;
        out->begin = begin ? begin : out->begin;
        out->end = end ? end : out->end;
        if (!ids || !begin || !end)
            return dt_error_set(g->err, EX_OSERR, "out of memory");
        out->capacity = capacity;
    }
    for (size_t i = 0; i < part->count; i++) {
        uint32_t place[2]; /* of the token's begin and end */
        for (int k = 0; k < 2; k++) {
            size_t wanted = k == 0 ? part->begin[i] : part->end[i];
            long number;
            for (; text < wanted; text += number < 0 ? 1 : g->bytes[number],
                                  here += number < 0 ? 1 : STAND_IN_BYTES) {
                number = stands_for(g, whole, bytes, here);
                if (number >= 0 && text + g->bytes[number] > wanted)
                    break; /* within a control token: at its beginning */
            }
            place[k] = (uint32_t)here;
        }
        out->ids[out->count] = part->ids[i];
        out->begin[out->count] = place[0];
        out->end[out->count++] = place[1] > place[0] ? place[1] : place[0] + 1;
    }
    return 0;
}

/* The bytes from `begin` to `end` with the texts in place of their stand-ins;
 * NULL and err.
 */
static char *expand(const struct guard *g, const char *whole, size_t begin,
                    size_t end, size_t *bytes)
{
    size_t room = end - begin + 1;
    for (size_t at = begin; at < end; at++) {
        long number = stands_for(g, whole, end, at);
        room += number < 0 ? 0 : g->bytes[number];
    }
    char *text = malloc(room);
    *bytes = 0;
    for (size_t at = begin; text && at < end;) {
        long number = stands_for(g, whole, end, at);
        if (number < 0) {
            text[(*bytes)++] = whole[at++];
            continue;
        }
        memcpy(text + *bytes, g->text[number], g->bytes[number]);
        *bytes += g->bytes[number];
        at += STAND_IN_BYTES;
    }
    if (!text)
        dt_error_set(g->err, EX_OSERR, "out of memory");
    return text;
}

/* Encodes a part; `control`: it is a control token. */
static int encode_part(const struct guard *g, const char *whole, size_t begin,
                       size_t end, bool control, struct dt_tokens *out)
{
    size_t bytes;
    if (begin == end)
        return 0;
    char *text = expand(g, whole, begin, end, &bytes);
    if (!text)
        return -1;
    int rc = dt_encode(g->coder->encoder, text, bytes,
                       DT_ENCODE_OFFSETS | (control ? DT_ENCODE_SPECIAL : 0),
                       &g->coder->part, g->err);
    free(text);
    return rc < 0 ? -1 : append_part(g, whole, end, begin, out);
}

/* Encodes a rendered text with stand-ins. */
static int encode_guarded(const struct guard *g, const char *whole,
                          size_t bytes, struct dt_tokens *out)
{
    struct dt_tokens tokens = {0};
    size_t from = 0;
    int rc = dt_encode(g->coder->encoder, whole, bytes,
                       DT_ENCODE_SPECIAL | DT_ENCODE_OFFSETS, &tokens, g->err);
    if (!out->begin) /* its arrays are from a call without offsets */
        dt_tokens_fini(out);
    out->count = 0;
    for (size_t i = 0; rc == 0 && i < tokens.count; i++) {
        if (!dt_tokenizer_is_special(g->coder->tokenizer, tokens.ids[i]))
            continue;
        rc = encode_part(g, whole, from, tokens.begin[i], false, out);
        if (rc == 0)
            rc = encode_part(g, whole, tokens.begin[i], tokens.end[i], true,
                             out);
        from = tokens.end[i];
    }
    if (rc == 0)
        rc = encode_part(g, whole, from, bytes, false, out);
    dt_tokens_fini(&tokens);
    return rc;
}

static bool is_in(const char *text, size_t bytes, unsigned block)
{
    for (size_t i = 0; i < bytes; i++)
        if (read_stand_in(block, text, bytes, i) >= 0)
            return true;
    return false;
}

/* Whether a string or a key anywhere in the value has a character of a block.
 */
static bool has_block(const json_t *value, unsigned block)
{
    const json_t *item;
    const char *key;
    size_t i;
    bool has =
        is_in(json_string_value(value), json_string_length(value), block);
    json_array_foreach(value, i, item) has |= has_block(item, block);
    json_object_foreach((json_t *)value, key, item) has |=
        is_in(key, strlen(key), block) || has_block(item, block);
    return has;
}

/* Chooses stand-ins that the conversation does not have. */
static int choose_block(struct guard *g, const struct dt_chat_input *input)
{
    for (g->block = FIRST_BLOCK; g->block <= LAST_BLOCK; g->block++)
        if (!has_block(input->messages, g->block) &&
            !has_block(input->tools, g->block))
            return 0;
    return dt_error_set(g->err, EX_DATAERR,
                        "text that spells control tokens, and characters of "
                        "private use from all over U+F0000 to U+FEFFF, which "
                        "stand for them here");
}

/* --- conversations --- */

/* Whether no string in the value spells a control token. */
static bool is_plain(const struct dt_tokenizer *tokenizer, const json_t *value)
{
    const json_t *item;
    const char *key;
    size_t i;
    bool plain = true;
    if (json_is_string(value))
        return dt_tokenizer_plain(tokenizer, json_string_value(value),
                                  json_string_length(value));
    json_array_foreach(value, i, item) plain =
        plain && is_plain(tokenizer, item);
    json_object_foreach((json_t *)value, key, item) plain =
        plain && is_plain(tokenizer, item);
    return plain;
}

/* Renders a conversation, in which images become their texts. Sets *images to
 * their number.
 */
static int render(struct dt_chat_coder *coder,
                  const struct dt_chat_input *input, unsigned flags,
                  struct dt_chat_text *text, size_t *images,
                  struct dt_error *err)
{
    *images = 0;
    if (dt_chat_render(coder->chat, input, flags, text, err) < 0)
        return -1;
    if (!coder->images)
        return 0;
    *images = dt_turns_images(input->messages, input->count);
    return dt_images_expand(coder, *images, text, err);
}

static int encode_plain(struct dt_chat_coder *coder,
                        const struct dt_chat_input *input, unsigned flags,
                        struct dt_chat_text *text, struct dt_tokens *out,
                        struct dt_error *err)
{
    size_t images;
    if (render(coder, input, flags, text, &images, err) < 0 ||
        dt_encode(coder->encoder, text->whole.text, text->whole.bytes,
                  DT_ENCODE_SPECIAL |
                      (flags & DT_CHAT_TRAINED ? DT_ENCODE_OFFSETS : 0),
                  out, err) < 0)
        return -1;
    return dt_images_repeat(coder, images, out, err);
}

/* Encodes a conversation with stand-ins. */
static int encode_stand_ins(struct guard *g, const struct dt_chat_input *input,
                            unsigned flags, struct dt_chat_text *text,
                            struct dt_tokens *out)
{
    size_t images;
    if (render(g->coder, input, flags, text, &images, g->err) < 0 ||
        encode_guarded(g, text->whole.text, text->whole.bytes, out) < 0)
        return -1;
    return dt_images_repeat(g->coder, images, out, g->err);
}

/* Encodes a conversation, in which control tokens of messages and tools stay
 * text.
 */
static int encode_as_text(struct guard *g, const struct dt_chat_input *input,
                          unsigned flags, struct dt_chat_text *text,
                          struct dt_tokens *out)
{
    struct dt_chat_input guarded = *input;
    json_t *messages = NULL, *tools = NULL;
    int rc = choose_block(g, input);
    if (rc == 0 && !(messages = guard_messages(g, input->messages)))
        rc = -1;
    g->kept = g->coder->parse_special ? NONE : ALL;
    if (rc == 0 && input->tools)
        rc = (tools = g->kept == NONE ? json_incref((json_t *)input->tools)
                                      : guard_value(g, (json_t *)input->tools))
                 ? 0
                 : -1;
    guarded.messages = messages;
    guarded.tools = tools;
    if (rc == 0 && g->count == 0)
        rc = encode_plain(g->coder, input, flags, text, out, g->err);
    else if (rc == 0)
        rc = encode_stand_ins(g, &guarded, flags, text, out);
    json_decref(messages);
    json_decref(tools);
    return rc;
}

/* Whether control tokens of the conversation may be parsed wherever they are.
 */
static bool may_parse(const struct dt_chat_coder *coder,
                      const struct dt_chat_input *input)
{
    const json_t *message;
    size_t i;
    json_array_foreach(input->messages, i, message)
    {
        if (kept_in(coder, i) != NONE && !is_plain(coder->tokenizer, message))
            return false;
    }
    return coder->parse_special || is_plain(coder->tokenizer, input->tools);
}

int dt_chat_encode(struct dt_chat_coder *coder,
                   const struct dt_chat_input *input, unsigned flags,
                   struct dt_chat_text *text, struct dt_tokens *out,
                   struct dt_error *err)
{
    if (coder->images && coder->parse_special && !coder->answered &&
        !coder->keep_marks &&
        dt_images_check_texts(coder, input->messages, err) < 0)
        return -1;
    if (may_parse(coder, input))
        return encode_plain(coder, input, flags, text, out, err);
    struct guard *guard = malloc(sizeof(*guard));
    if (!guard)
        return dt_error_set(err, EX_OSERR, "out of memory");
    guard->coder = coder;
    guard->count = 0;
    guard->err = err;
    int rc = encode_as_text(guard, input, flags, text, out);
    free(guard);
    return rc;
}
