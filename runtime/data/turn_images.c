/* SPDX-License-Identifier: Apache-2.0 */
/*
 * turn_images.c - gives each image of a line its place among the messages
 *
 * Templates of models with images go over parts, so that all contents become
 * parts, as in TRL. Where no part is an image, the markers in texts are the
 * places of a line's images, as in LLaVA and LLaMA-Factory; without markers,
 * the images come before the text of the first message of the user, as in TRL.
 */
#include "config.h"

#include <string.h>

#include "base/str.h"
#include "data/forms/forms.h"
#include "data/image_text.h"
#include "data/turns.h"

/* Images on their way into the messages of a line. */
struct placing {
    json_t *listed; /* images without a part of their own */
    json_t *values; /* images in the order of their parts */
    size_t bare;    /* parts for those of the list, so far */
    size_t leading; /* images that the next user's message begins with */
    bool split;     /* texts have markers */
    bool line;      /* not the line break beside a marker */
};

static bool is_image(const json_t *part)
{
    const char *type = json_string_value(json_object_get(part, "type"));
    return type &&
           (strcmp(type, "image") == 0 || strcmp(type, "image_url") == 0);
}

size_t dt_turns_images(const json_t *messages, size_t count)
{
    size_t n = 0, k;
    const json_t *part;
    for (size_t i = 0; i < count; i++) {
        const json_t *content =
            json_object_get(json_array_get(messages, i), "content");
        json_array_foreach(content, k, part) n += is_image(part);
    }
    return n;
}

/* --- markers --- */

static const char *next_marker(const char *at, const char *end)
{
    return memmem(at, (size_t)(end - at), DT_IMAGE_MARKER,
                  strlen(DT_IMAGE_MARKER));
}

static size_t markers_in(const json_t *text)
{
    const char *at = json_string_value(text);
    const char *end = at + json_string_length(text);
    size_t n = 0;
    for (; at && (at = next_marker(at, end)); at += strlen(DT_IMAGE_MARKER))
        n++;
    return n;
}

static size_t count_markers(const struct dt_turns *turns)
{
    size_t n = 0, k;
    const json_t *part;
    for (size_t i = 0; i < turns->count; i++) {
        const json_t *content =
            json_object_get(json_array_get(turns->messages, i), "content");
        n += markers_in(content);
        json_array_foreach(content, k, part) n +=
            markers_in(json_object_get(part, "text"));
    }
    return n;
}

/* --- parts --- */

/* The value of an image that is in its part; NULL: it is in the list. */
static json_t *own_value(const json_t *part)
{
    static const char *const keys[] = {"image", "image_url", "url", "path"};
    json_t *value = NULL, *url;
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]) && !value; i++)
        value = dt_line_value(part, keys[i]);
    url = dt_line_value(value, "url");
    return url ? url : value;
}

/* -1: out of memory. */
static int add_image(struct placing *p, json_t *parts, json_t *own)
{
    if (!own) /* too few are an error later */
        own = json_array_get(p->listed, p->bare++);
    if (own && json_array_append(p->values, own) < 0)
        return -1;
    return json_array_append_new(parts, json_pack("{ss}", "type", "image"));
}

static int add_piece(json_t *parts, const char *text, size_t bytes)
{
    return json_array_append_new(
        parts, json_pack("{ss, ss%}", "type", "text", "text", text, bytes));
}

/* Adds the pieces of a text between its markers, and the images. */
static int add_split(struct placing *p, json_t *parts, const json_t *text)
{
    const char *at = json_string_value(text), *mark;
    const char *end = at + json_string_length(text);
    while ((mark = next_marker(at, end))) {
        const char *rest = mark + strlen(DT_IMAGE_MARKER);
        const bool last = p->line && rest == end;
        const size_t bytes = (size_t)(mark - at);
        const size_t kept = bytes - (last && bytes > 0 && mark[-1] == '\n');
        if ((kept > 0 && add_piece(parts, at, kept) < 0) ||
            add_image(p, parts, NULL) < 0)
            return -1;
        at = rest + (p->line && rest < end && *rest == '\n');
    }
    return at < end ? add_piece(parts, at, (size_t)(end - at)) : 0;
}

/* Adds a part of text without the keys that tables fill with null. */
static int add_part(json_t *parts, const json_t *part)
{
    json_t *copy = json_object(), *value;
    const char *key;
    int rc = copy ? 0 : -1;
    json_object_foreach((json_t *)(uintptr_t)part, key, value)
    {
        if (rc == 0 && !json_is_null(value))
            rc = json_object_set(copy, key, value);
    }
    if (rc == 0)
        return json_array_append_new(parts, copy);
    json_decref(copy);
    return -1;
}

static int add_content(struct placing *p, json_t *parts, const json_t *content)
{
    const json_t *part;
    size_t k;
    int rc = 0;
    if (json_is_string(content))
        return markers_in(content) > 0 && p->split
                   ? add_split(p, parts, content)
                   : add_piece(parts, json_string_value(content),
                               json_string_length(content));
    json_array_foreach(content, k, part)
    {
        const json_t *text = json_object_get(part, "text");
        if (rc < 0)
            break;
        if (is_image(part))
            rc = add_image(p, parts, own_value(part));
        else if (p->split && markers_in(text) > 0)
            rc = add_split(p, parts, text);
        else
            rc = add_part(parts, part);
    }
    return rc;
}

/* Replaces the content of a message. -1: out of memory. */
static int place_in(struct placing *p, json_t *message)
{
    const json_t *content = json_object_get(message, "content");
    const char *role = json_string_value(json_object_get(message, "role"));
    if (!content) /* it calls tools */
        return 0;
    json_t *parts = json_array();
    int rc = parts ? 0 : -1;
    for (; rc == 0 && p->leading > 0 && strcmp(role, "user") == 0; p->leading--)
        rc = add_image(p, parts, NULL);
    if (rc == 0)
        rc = add_content(p, parts, content);
    if (rc == 0)
        return json_object_set_new(message, "content", parts);
    json_decref(parts);
    return -1;
}

/* --- all of a line --- */

static int check_places(const struct placing *p, size_t listed,
                        struct dt_error *err)
{
    if (p->leading > 0)
        return dt_error_set(err, EX_DATAERR,
                            "%zu image%s, and no message of the user that they "
                            "belong to",
                            listed, dt_str_plural(listed));
    if (p->bare != listed)
        return dt_error_set(err, EX_DATAERR,
                            "%zu image%s for %zu place%s in the messages: "
                            "expected as many parts of the type image, or "
                            "markers " DT_IMAGE_MARKER ", as images",
                            listed, dt_str_plural(listed), p->bare,
                            dt_str_plural(p->bare));
    return 0;
}

json_t *dt_turns_place_images(struct dt_turns *turns, json_t *listed, bool line,
                              struct dt_error *err)
{
    const size_t count = json_array_size(listed);
    struct placing p = {.listed = listed, .line = line};
    if (count > 0 && dt_turns_images(turns->messages, turns->count) == 0) {
        p.split = count_markers(turns) > 0;
        p.leading = p.split ? 0 : count;
    }
    p.values = json_array();
    int rc = p.values ? 0 : -1;
    for (size_t i = 0; rc == 0 && i < turns->count; i++)
        rc = place_in(&p, json_array_get(turns->messages, i));
    rc = rc < 0 ? dt_error_set(err, EX_OSERR, "out of memory")
                : check_places(&p, count, err);
    if (rc == 0)
        return p.values;
    json_decref(p.values);
    return NULL;
}
