/* SPDX-License-Identifier: Apache-2.0 */
/* preferences.c - reads lines of JSON as preference pairs */
#include "config.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "data/image_text.h"
#include "data/row_images.h"
#include "data/turns.h"
#include "data/forms/forms.h"
#include "data/preferences.h"

/* A line, and the keys and values of its sides. */
struct line {
    json_t *root;
    const char *prompt_key;
    const char *key[DT_SIDES];
    json_t *side[DT_SIDES]; /* their values, or NULL */
};

static int same_sides(const struct line *line, struct dt_error *err)
{
    return dt_error_set(err, EX_DATAERR, "%s and %s are the same",
                        line->key[DT_CHOSEN], line->key[DT_REJECTED]);
}

static int no_completion(const struct line *line, enum dt_side side,
                         struct dt_error *err)
{
    return dt_error_set(err, EX_DATAERR,
                        "%s: an empty completion: %s begins with all of it",
                        line->key[side], line->key[!side]);
}

/* --- text --- */

/* The length of the common start of both texts, in whole characters. If they
 * differ after a space, that belongs to the completions, as tokenizers expect a
 * word to begin with it.
 */
static size_t common_text(const char *a, const char *b)
{
    size_t n = 0;
    while (a[n] && a[n] == b[n])
        n++;
    while (n > 0 && ((unsigned char)a[n] & 0xc0) == 0x80)
        n--;
    return a[n] && b[n] && n > 0 && a[n - 1] == ' ' ? n - 1 : n;
}

static int read_texts(const struct line *line, struct dt_preference *p,
                      struct dt_error *err)
{
    if (dt_turns_refuse_options(line->root, err) < 0)
        return -1;
    const json_t *prompt = dt_line_value(line->root, line->prompt_key);
    const char *text[DT_SIDES];
    for (int i = 0; i < DT_SIDES; i++)
        text[i] = json_string_value(line->side[i]);
    if (strcmp(text[DT_CHOSEN], text[DT_REJECTED]) == 0)
        return same_sides(line, err);
    if (prompt && !json_is_string(prompt))
        return dt_error_set(err, EX_DATAERR,
                            "%s: expected a string as %s and %s are, got %s",
                            line->prompt_key, line->key[DT_CHOSEN],
                            line->key[DT_REJECTED], dt_line_kind(prompt));
    if (dt_turns_refuse_system(line->root, err) < 0)
        return -1;
    p->implicit = !prompt;
    p->prompt = prompt ? json_string_value(prompt) : text[DT_CHOSEN];
    p->prompt_bytes = prompt ? strlen(p->prompt)
                             : common_text(text[DT_CHOSEN], text[DT_REJECTED]);
    for (int i = 0; i < DT_SIDES; i++) {
        p->completion[i] = text[i] + (prompt ? 0 : p->prompt_bytes);
        if (*p->completion[i])
            continue;
        if (!prompt && *text[i])
            return no_completion(line, (enum dt_side)i, err);
        return dt_error_set(err, EX_DATAERR, "%s: an empty string",
                            line->key[i]);
    }
    return 0;
}

/* --- conversations --- */

static size_t common_turns(const struct dt_turns *a, const struct dt_turns *b)
{
    size_t n = 0;
    while (n < a->count && n < b->count &&
           json_equal(json_array_get(a->messages, n),
                      json_array_get(b->messages, n)))
        n++;
    return n;
}

static bool is_assistant(const struct dt_turns *turns, size_t i)
{
    return strcmp(dt_turns_role(turns, i), "assistant") == 0;
}

/* A completion begins and ends with the assistant's messages, and is not empty.
 */
static int check_completion(const struct line *line,
                            const struct dt_preference *p, enum dt_side side,
                            struct dt_error *err)
{
    const struct dt_turns *turns = &p->turns[side];
    const size_t ends[] = {p->prompt_turns, turns->count - 1};
    bool empty = true;
    for (int i = 0; i < 2; i++)
        if (!is_assistant(turns, ends[i]))
            return dt_error_set(err, EX_DATAERR,
                                "%s: message %zu is of the role %s: a "
                                "completion begins and ends with the "
                                "assistant's",
                                line->key[side],
                                ends[i] + 1 -
                                    (p->implicit ? 0 : p->prompt_turns),
                                dt_turns_role(turns, ends[i]));
    for (size_t i = p->prompt_turns; i < turns->count; i++) {
        const char *key;
        empty &= dt_turns_is_empty(turns, i);
        if (dt_turns_said(turns, i, &key) == DT_SAID_NO)
            return dt_error_set(err, EX_DATAERR,
                                "%s: %s says that a message is not trained on, "
                                "but pairs compare whole completions",
                                line->key[side], key);
    }
    return empty ? dt_error_set(err, EX_DATAERR, "%s: an empty completion",
                                line->key[side])
                 : 0;
}

static int check_turns(const struct line *line, const struct dt_preference *p,
                       struct dt_error *err)
{
    const struct dt_turns *chosen = &p->turns[DT_CHOSEN];
    if (p->prompt_turns == 0)
        return dt_error_set(err, EX_DATAERR,
                            "%s and %s have no message in common that could "
                            "be the prompt",
                            line->key[DT_CHOSEN], line->key[DT_REJECTED]);
    if (is_assistant(chosen, p->prompt_turns - 1))
        return dt_error_set(err, EX_DATAERR,
                            "the last message of the prompt is the "
                            "assistant's, so there is nothing left to answer");
    for (int i = 0; i < DT_SIDES; i++)
        if (check_completion(line, p, (enum dt_side)i, err) < 0)
            return -1;
    return 0;
}

/* Counts the messages that both sides share, which are the prompt. */
static int find_prompt(const struct line *line, struct dt_preference *p,
                       struct dt_error *err)
{
    const struct dt_turns *turns = p->turns;
    const size_t n = common_turns(&turns[DT_CHOSEN], &turns[DT_REJECTED]);
    if (n == turns[DT_CHOSEN].count && n == turns[DT_REJECTED].count)
        return same_sides(line, err);
    if (!p->implicit)
        return 0;
    p->prompt_turns = n;
    for (int i = 0; i < DT_SIDES; i++)
        if (turns[i].count == n)
            return no_completion(line, (enum dt_side)i, err);
    return 0;
}

/* Whether messages repeat those of a side, as many files do for fine-tuning.
 * The reader of the messages reports errors in them.
 */
static bool is_side(const json_t *messages, const json_t *side)
{
    struct dt_turns a = {.allow_images = true}, b = a;
    bool same = dt_turns_add(&a, messages, "", NULL) == 0 &&
                dt_turns_add(&b, side, "", NULL) == 0 && a.count == b.count &&
                common_turns(&a, &b) == a.count;
    dt_turns_fini(&a);
    dt_turns_fini(&b);
    return same;
}

/* The array of messages that is the prompt, and its *key; NULL: none. */
static json_t *prompt_messages(const struct line *line, const char **key,
                               const struct dt_example_options *options)
{
    const char *const keys[] = {line->prompt_key,
                                dt_key_or(options->messages_key, "messages"),
                                "conversations"};
    for (int i = 0; i < 3; i++) {
        json_t *value = dt_line_value(line->root, keys[i]);
        *key = keys[i];
        if (value && !json_is_string(value) &&
            (i == 0 || (!is_side(value, line->side[DT_CHOSEN]) &&
                        !is_side(value, line->side[DT_REJECTED]))))
            return value;
    }
    return NULL;
}

static int read_turns(const struct line *line,
                      const struct dt_example_options *options,
                      struct dt_preference *p, struct dt_error *err)
{
    const char *key;
    json_t *prompt = prompt_messages(line, &key, options);
    p->implicit = !prompt;
    for (int i = 0; i < DT_SIDES; i++) {
        struct dt_turns *turns = &p->turns[i];
        if (dt_turns_add_options(turns, line->root, err) < 0 ||
            dt_turns_add_system(turns, line->root,
                                prompt ? prompt : line->side[i], err) < 0 ||
            (prompt && dt_turns_add(turns, prompt, key, err) < 0))
            return -1;
        p->prompt_turns = turns->count;
        if ((json_is_object(line->side[i]) ? dt_turns_add_one : dt_turns_add)(
                turns, line->side[i], line->key[i], err) < 0)
            return -1;
    }
    return find_prompt(line, p, err) < 0 || check_turns(line, p, err) < 0 ? -1
                                                                          : 0;
}

/* Makes a conversation of the instruction, the input and the sides. */
static int read_alpaca(struct line *line,
                       const struct dt_example_options *options,
                       struct dt_preference *p, struct dt_error *err)
{
    json_t *prompt = dt_alpaca_prompt(line->root, err);
    if (!prompt)
        return -1;
    line->prompt_key = "prompt";
    if (json_object_set_new(line->root, "prompt", prompt) < 0)
        return dt_error_set(err, EX_OSERR, "out of memory");
    for (int i = 0; i < DT_SIDES; i++) {
        line->side[i] = dt_alpaca_answer(line->side[i], line->key[i], err);
        if (!line->side[i])
            return -1;
        if (json_object_set_new(line->root, line->key[i], line->side[i]) < 0)
            return dt_error_set(err, EX_OSERR, "out of memory");
    }
    return read_turns(line, options, p, err);
}

/* --- ids --- */

/* Appends the ids of an array to those of a side. */
static int append_ids(const json_t *array, const char *key, size_t vocab_size,
                      struct dt_preference *p, int side, struct dt_error *err)
{
    const size_t n = json_array_size(array), before = p->id_count[side];
    if (n == 0)
        return dt_error_set(
            err, EX_DATAERR, "%s: expected an array of ids, got %s", key,
            json_is_array(array) ? "an empty one" : dt_line_kind(array));
    int32_t *ids =
        reallocarray(p->ids[side], before + n, sizeof(*p->ids[side]));
    if (!ids)
        return dt_error_set(err, EX_OSERR, "out of memory");
    p->ids[side] = ids;
    for (size_t i = 0; i < n; i++) {
        const json_t *id = json_array_get(array, i);
        json_int_t value = json_integer_value(id);
        if (!json_is_integer(id) || value < 0 || (size_t)value >= vocab_size)
            return dt_error_set(err, EX_DATAERR,
                                "%s[%zu]: expected an integer from 0 to %zu",
                                key, i, vocab_size - 1);
        ids[before + i] = (int32_t)value;
    }
    p->id_count[side] += n;
    return 0;
}

static size_t common_ids(const struct dt_preference *p)
{
    size_t n = 0;
    while (n < p->id_count[DT_CHOSEN] && n < p->id_count[DT_REJECTED] &&
           p->ids[DT_CHOSEN][n] == p->ids[DT_REJECTED][n])
        n++;
    return n;
}

static int read_ids(const struct line *line, size_t vocab_size,
                    struct dt_preference *p, struct dt_error *err)
{
    const json_t *prompt = dt_line_value(line->root, line->prompt_key);
    p->implicit = !prompt;
    for (int i = 0; i < DT_SIDES; i++) {
        if (prompt &&
            append_ids(prompt, line->prompt_key, vocab_size, p, i, err) < 0)
            return -1;
        p->prompt_ids = p->id_count[i];
        if (append_ids(line->side[i], line->key[i], vocab_size, p, i, err) < 0)
            return -1;
    }
    const size_t n = common_ids(p);
    if (n == p->id_count[DT_CHOSEN] && n == p->id_count[DT_REJECTED])
        return same_sides(line, err);
    if (prompt)
        return 0;
    p->prompt_ids = n;
    for (int i = 0; i < DT_SIDES; i++)
        if (p->id_count[i] == n)
            return no_completion(line, (enum dt_side)i, err);
    return 0;
}

/* --- any line --- */

/* Finds the keys of the sides; true if their values are ids. */
static bool find_ids(struct line *line)
{
    static const char *const names[2][3] = {
        {"prompt_ids", "chosen_ids", "rejected_ids"},
        {"prompt_input_ids", "chosen_input_ids", "rejected_input_ids"}};
    for (int i = 0; i < 2; i++) {
        json_t *chosen = dt_line_value(line->root, names[i][1]);
        json_t *rejected = dt_line_value(line->root, names[i][2]);
        if (!chosen && !rejected)
            continue;
        *line = (struct line){line->root,
                              names[i][0],
                              {names[i][1], names[i][2]},
                              {chosen, rejected}};
        return true;
    }
    return false;
}

static int missing_side(const struct line *line, struct dt_error *err)
{
    const bool chosen = line->side[DT_CHOSEN],
               any = chosen || line->side[DT_REJECTED];
    char keys[200];
    if (any)
        return dt_error_set(err, EX_DATAERR,
                            "%s is missing: a pair needs %s and %s",
                            line->key[chosen ? DT_REJECTED : DT_CHOSEN],
                            line->key[DT_CHOSEN], line->key[DT_REJECTED]);
    if (json_is_boolean(json_object_get(line->root, "label")))
        return dt_error_set(err, EX_DATAERR,
                            "completions with a label are unpaired "
                            "preferences, which are not supported: a pair "
                            "needs %s and %s",
                            line->key[DT_CHOSEN], line->key[DT_REJECTED]);
    dt_line_keys(line->root, keys, sizeof(keys));
    return dt_error_set(err, EX_DATAERR,
                        "expected the keys %s and %s, got %s (data.columns "
                        "renames keys)",
                        line->key[DT_CHOSEN], line->key[DT_REJECTED],
                        keys[0] ? keys : "none");
}

/* Puts the images of a line into the prompt of one side. Returns their values
 * in order; NULL and err.
 */
static json_t *place_side(struct dt_preference *p, enum dt_side side,
                          json_t *listed,
                          const struct dt_example_images *images,
                          const char *key, struct dt_error *err)
{
    struct dt_turns *turns = &p->turns[side];
    json_t *values =
        dt_turns_place_images(turns, listed, images->text->line, err);
    if (!values || dt_turns_images(turns->messages, p->prompt_turns) ==
                       json_array_size(values))
        return values;
    dt_error_set(err, EX_DATAERR,
                 "%s: an image in a completion: images belong to the prompt, "
                 "which both sides share",
                 key);
    json_decref(values);
    return NULL;
}

/* Sets p->images to those of the prompt. */
static int read_images(const struct line *line,
                       const struct dt_example_images *images,
                       struct dt_preference *p, struct dt_error *err)
{
    if (!images)
        return 0;
    json_t *listed = dt_row_images_listed(line->root, err), *other;
    p->images = listed;
    if (!listed || p->prompt)
        return listed ? 0 : -1;
    if (p->ids[DT_CHOSEN])
        return json_array_size(listed) == 0
                   ? 0
                   : dt_error_set(err, EX_DATAERR,
                                  "images beside %s: give messages or text",
                                  line->key[DT_CHOSEN]);
    p->images =
        place_side(p, DT_CHOSEN, listed, images, line->key[DT_CHOSEN], err);
    other = p->images ? place_side(p, DT_REJECTED, listed, images,
                                   line->key[DT_REJECTED], err)
                      : NULL;
    json_decref(listed);
    json_decref(other); /* the prompts are the same, so are their images */
    return other ? 0 : -1;
}

static int read_margin(const json_t *root, const char *key, float *margin,
                       struct dt_error *err)
{
    const json_t *value = dt_line_value(root, key);
    if (json_is_string(value)) { /* tables have only strings */
        char *end;
        const char *text = json_string_value(value);
        *margin = strtof(text, &end);
        if (end > text && !*end && isfinite(*margin))
            return 0;
    }
    if (value && !json_is_number(value))
        return dt_error_set(err, EX_DATAERR, "%s: expected a number, got %s",
                            key, dt_line_kind(value));
    *margin = (float)json_number_value(value);
    if (!isfinite(*margin))
        return dt_error_set(err, EX_DATAERR, "%s: %g is too large for fp32",
                            key, json_number_value(value));
    return 0;
}

static bool are_messages(const json_t *side)
{
    return json_is_array(side) || json_is_object(side);
}

static int read_sides(struct line *line,
                      const struct dt_example_options *options,
                      struct dt_preference *p, struct dt_error *err)
{
    const json_t *chosen = line->side[DT_CHOSEN];
    const json_t *rejected = line->side[DT_REJECTED];
    if (are_messages(chosen) && are_messages(rejected))
        return read_turns(line, options, p, err);
    if (!json_is_string(chosen) || !json_is_string(rejected))
        return dt_error_set(err, EX_DATAERR,
                            "%s and %s: expected two strings or two arrays of "
                            "messages, got %s and %s",
                            line->key[DT_CHOSEN], line->key[DT_REJECTED],
                            dt_line_kind(chosen), dt_line_kind(rejected));
    if (dt_line_value(line->root, line->prompt_key))
        return read_texts(line, p, err);
    if (dt_alpaca_is(line->root))
        return read_alpaca(line, options, p, err);
    const char *key;
    if (prompt_messages(line, &key, options))
        return dt_error_set(err, EX_DATAERR,
                            "%s holds messages, so %s and %s must be messages, "
                            "got strings",
                            key, line->key[DT_CHOSEN], line->key[DT_REJECTED]);
    return read_texts(line, p, err);
}

int dt_preference_read(const char *text, size_t length,
                       const struct dt_example_options *options,
                       size_t vocab_size, struct dt_preference *p,
                       struct dt_error *err)
{
    struct line line = {.prompt_key = dt_key_or(options->prompt_key, "prompt"),
                        .key = {dt_key_or(options->chosen_key, "chosen"),
                                dt_key_or(options->rejected_key, "rejected")}};
    const char *margin = dt_key_or(options->margin_key, "margin");
    *p = (struct dt_preference){0};
    p->json = line.root = dt_line_parse(text, length, err);
    if (!line.root ||
        dt_row_images_refuse(line.root, options->images, err) < 0 ||
        read_margin(line.root, margin, &p->margin, err) < 0)
        return -1;
    for (int i = 0; i < DT_SIDES; i++)
        line.side[i] = dt_line_value(line.root, line.key[i]);
    bool ids =
        !line.side[DT_CHOSEN] && !line.side[DT_REJECTED] && find_ids(&line);
    if (!line.side[DT_CHOSEN] || !line.side[DT_REJECTED])
        return missing_side(&line, err);
    for (int i = 0; i < DT_SIDES; i++)
        p->turns[i].allow_images = options->images != NULL;
    if ((ids ? read_ids(&line, vocab_size, p, err)
             : read_sides(&line, options, p, err)) < 0)
        return -1;
    return read_images(&line, options->images, p, err);
}

void dt_preference_fini(struct dt_preference *p)
{
    json_decref(p->json);
    json_decref(p->images);
    for (int i = 0; i < DT_SIDES; i++) {
        dt_turns_fini(&p->turns[i]);
        free(p->ids[i]);
    }
    *p = (struct dt_preference){0};
}
