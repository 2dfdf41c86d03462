/* SPDX-License-Identifier: Apache-2.0 */
/* prompts.c - reads files of prompts, and their endless stream */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "base/file.h"
#include "base/rng.h"
#include "data/forms/forms.h"
#include "data/jsonl.h"
#include "data/mask.h"
#include "data/prompts.h"
#include "data/turns.h"

enum { NOTES = 8 };

/* A prompt: its line, and its tokens. */
struct prompt {
    const char *line; /* in a file's text */
    size_t bytes;
    size_t first, count; /* in ids */
};

struct dt_prompts {
    const struct dt_tokenizer *tokenizer;
    const char *prompt_key, *messages_key;
    bool shuffle;
    uint64_t seed, hash;
    struct dt_map *files; /* their rows as lines */
    size_t file_count;
    struct prompt *prompts;
    size_t room, from; /* from: number of the first in the stream */
    int32_t *ids;      /* of all prompts */
    size_t id_count, id_room;
    struct dt_prompts_stats stats;
};

/* The means to read lines. */
struct reader {
    struct dt_prompts *prompts;
    const struct dt_prompts_options *options;
    struct dt_masker *masker;
    const char *path, *mark; /* of the file, as dt_kind_mark */
    size_t lines;            /* read so far, without blank ones */
    uint64_t most;           /* all lines, with blank ones */
    struct dt_stop stop;
    struct dt_error first; /* of the first bad line */
};

void dt_prompts_close(struct dt_prompts *prompts)
{
    if (!prompts)
        return;
    for (size_t i = 0; i < prompts->file_count; i++)
        dt_map_fini(&prompts->files[i]);
    free(prompts->files);
    free(prompts->prompts);
    free(prompts->ids);
    free(prompts);
}

void dt_prompt_line_fini(struct dt_prompt_line *line)
{
    free(line->text);
    json_decref(line->messages);
    json_decref(line->columns);
    *line = (struct dt_prompt_line){0};
}

/* --- a line --- */

/* Refuses images, which are not read here. */
static int refuse_images(const json_t *root, struct dt_error *err)
{
    static const char *const keys[] = {"image", "images", "video", "videos"};
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        const json_t *value = json_object_get(root, keys[i]);
        if (value && !json_is_null(value) &&
            !(json_is_array(value) && json_array_size(value) == 0))
            return dt_error_set(err, EX_CONFIG,
                                "E136 %s: only text is trained on", keys[i]);
    }
    return 0;
}

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

/* Makes room for one more prompt with `count` ids. */
static int make_room(struct dt_prompts *p, size_t count, struct dt_error *err)
{
    if (p->stats.count == p->room) {
        size_t room = 2 * p->room + 64;
        struct prompt *prompts =
            reallocarray(p->prompts, room, sizeof(*prompts));
        if (!prompts)
            return dt_error_set(err, EX_OSERR, "data: out of memory");
        p->prompts = prompts;
        p->room = room;
    }
    if (p->id_count + count > p->id_room) {
        size_t room = 2 * p->id_room + count + 1024;
        int32_t *ids = reallocarray(p->ids, room, sizeof(*ids));
        if (!ids)
            return dt_error_set(err, EX_OSERR, "data: out of memory");
        p->ids = ids;
        p->id_room = room;
    }
    return 0;
}

static int check_ids(const struct reader *reader, const int32_t *ids,
                     size_t count, struct dt_error *err)
{
    for (size_t i = 0; i < count; i++)
        if ((size_t)ids[i] >= reader->options->vocab_size)
            return dt_error_set(err, EX_DATAERR,
                                "token id %d, but the model's vocab_size is "
                                "%zu: is this the tokenizer of the model?",
                                ids[i], reader->options->vocab_size);
    return 0;
}

/* Keeps a prompt with these tokens, unless it is too long. */
static int keep(struct reader *reader, const char *line, size_t bytes,
                const int32_t *ids, size_t count, struct dt_error *err)
{
    struct dt_prompts *p = reader->prompts;
    const size_t most = reader->options->max_length;
    bool is_long = count > most;
    if (is_long && !reader->options->keep_end) {
        p->stats.dropped++;
        return 0;
    }
    if (is_long) {
        ids += count - most;
        count = most;
    }
    if (check_ids(reader, ids, count, err) < 0 || make_room(p, count, err) < 0)
        return -1;
    memcpy(p->ids + p->id_count, ids, count * sizeof(*ids));
    p->prompts[p->stats.count++] =
        (struct prompt){line, bytes, p->id_count, count};
    p->id_count += count;
    p->stats.cut += is_long;
    p->stats.longest = count > p->stats.longest ? count : p->stats.longest;
    p->hash = XXH3_64bits_withSeed(line, bytes, p->hash);
    p->hash = XXH3_64bits_withSeed(ids, count * sizeof(*ids), p->hash);
    return 0;
}

/* Keeps an empty prompt as the token that begins texts. */
static int keep_empty(struct reader *reader, const char *line, size_t bytes,
                      struct dt_error *err)
{
    const struct dt_tokenizer *tokenizer = reader->prompts->tokenizer;
    int32_t id = dt_tokenizer_special(tokenizer, DT_TOKEN_BOS);
    if (id < 0)
        id = dt_tokenizer_special(tokenizer, DT_TOKEN_EOS);
    if (id < 0)
        return dt_error_set(err, EX_DATAERR,
                            "the prompt is empty, and the tokenizer has no "
                            "token that begins a text");
    return keep(reader, line, bytes, &id, 1, err);
}

static int add_line(struct reader *reader, const char *line, size_t bytes,
                    struct dt_error *err)
{
    const char *key;
    const struct dt_tokens *tokens;
    struct dt_turns turns = {0};
    int rc = -1;
    json_t *root = dt_line_parse(line, bytes, err);
    json_t *prompt = NULL;
    if (root && refuse_images(root, err) == 0)
        prompt = find_prompt(reader->prompts, root, &key, err);
    if (prompt)
        rc = json_is_array(prompt) ? dt_turns_add_options(&turns, root, err)
                                   : dt_turns_refuse_options(root, err);
    if (rc == 0 && json_is_string(prompt))
        rc = dt_turns_refuse_system(root, err);
    if (rc == 0 && json_is_array(prompt))
        rc = dt_turns_add_system(&turns, root, prompt, err) < 0 ||
                     dt_turns_add(&turns, prompt, key, err) < 0 ||
                     check_turns(&turns, err) < 0
                 ? -1
                 : 0;
    if (rc == 0)
        rc = dt_masker_prompt(
            reader->masker,
            &(struct dt_prompt_of){.text = json_string_value(prompt),
                                   .bytes = json_string_length(prompt),
                                   .turns = &turns},
            &tokens, err);
    if (rc == 0)
        rc = tokens->count > 0
                 ? keep(reader, line, bytes, tokens->ids, tokens->count, err)
                 : keep_empty(reader, line, bytes, err);
    dt_turns_fini(&turns);
    json_decref(root);
    return rc;
}

/* --- files --- */

/* The number of lines, of so many, that may be bad. */
static size_t bad_allowed(const struct reader *reader, uint64_t lines)
{
    return (size_t)(reader->options->lines.bad_limit * (double)lines);
}

/* Reports too many bad lines; later lines may be bad, too. Returns -1. */
static int too_many_bad(const struct reader *reader, struct dt_error *err)
{
    const struct dt_prompts_stats *s = &reader->prompts->stats;
    return s->bad == 1
               ? dt_error_set(err, EX_DATAERR, "%s", reader->first.text)
               : dt_error_set(err, EX_DATAERR,
                              "%s; %zu of the first %zu lines are no prompt",
                              reader->first.text, s->bad, reader->lines);
}

/* Notes a bad line. -1: the failure is another one, or there are too many. */
static int note_bad(struct reader *reader, uint64_t number,
                    struct dt_error *what, struct dt_error *err)
{
    const struct dt_example_options *lines = &reader->options->lines;
    dt_error_prefix(what, "%s%s%" PRIu64, reader->path, reader->mark, number);
    if (what->status != EX_DATAERR) {
        *err = *what;
        return -1;
    }
    if (reader->prompts->stats.bad++ == 0)
        reader->first = *what;
    if (reader->prompts->stats.bad > bad_allowed(reader, reader->most))
        return too_many_bad(reader, err);
    if (reader->prompts->stats.bad <= NOTES && lines->note)
        lines->note(lines->ctx, what->text);
    return 0;
}

/* Reads the lines of a file into memory. */
static int read_lines(struct reader *reader, const char *path,
                      struct dt_found *found, struct dt_error *err)
{
    struct dt_prompts *p = reader->prompts;
    struct dt_map *lines = &p->files[p->file_count];
    if (dt_kind_find(path, DT_ASKED_LINES, found, err) < 0 ||
        dt_lines_read(lines, path, found, NULL, 0, NULL, &reader->stop, err) <
            0)
        return -1;
    p->file_count++;
    reader->most += dt_jsonl_count(lines->data, lines->bytes);
    return 0;
}

static int add_file(struct reader *reader, const char *path,
                    const struct dt_found *found, const struct dt_map *lines,
                    struct dt_error *err)
{
    struct dt_error what;
    size_t at = 0, length;
    uint64_t number = 0;
    const char *line;
    reader->path = path;
    reader->mark = dt_kind_mark(found);
    while ((line = dt_jsonl_next(lines->data, lines->bytes, &at, &number,
                                 &length))) {
        if (dt_stop_check(&reader->stop, path, err) < 0)
            return -1;
        reader->lines++;
        if (add_line(reader, line, length, &what) < 0 &&
            note_bad(reader, number, &what, err) < 0)
            return -1;
    }
    return 0;
}

static int check_count(const struct reader *reader, struct dt_error *err)
{
    const struct dt_prompts_stats *s = &reader->prompts->stats;
    if (s->bad > bad_allowed(reader, reader->lines))
        return too_many_bad(reader, err);
    if (s->count > 0)
        return 0;
    if (s->dropped == 0)
        return dt_error_set(err, EX_DATAERR, "%s: no prompt in it",
                            reader->path);
    return dt_error_set(err, EX_DATAERR,
                        "%s: all %zu prompts are longer than %zu tokens",
                        reader->path, s->dropped, reader->options->max_length);
}

/* Keeps the requested share of the prompts. */
static int choose_share(const struct reader *reader, struct dt_error *err)
{
    struct dt_prompts *p = reader->prompts;
    const double all = (double)p->stats.count, end = reader->options->end;
    p->from = (size_t)(all * reader->options->begin);
    p->stats.count = (size_t)(all * (end > 0 ? end : 1)) - p->from;
    if (p->stats.count > 0)
        return 0;
    return dt_error_set(err, EX_DATAERR,
                        "%.0f prompts are too few to divide them", all);
}

/* Reads all files before the first line is parsed, as the limit of bad lines
 * depends on their number.
 */
static int read_files(struct reader *reader, const char *const *paths,
                      size_t count, struct dt_error *err)
{
    struct dt_found *found = calloc(count, sizeof(*found));
    int rc = found ? 0 : dt_error_set(err, EX_OSERR, "data: out of memory");
    for (size_t i = 0; i < count && rc == 0; i++)
        rc = read_lines(reader, paths[i], &found[i], err);
    for (size_t i = 0; i < count && rc == 0; i++)
        rc = add_file(reader, paths[i], &found[i], &reader->prompts->files[i],
                      err);
    free(found);
    if (rc == 0)
        rc = check_count(reader, err);
    return rc == 0 ? choose_share(reader, err) : rc;
}

struct dt_prompts *dt_prompts_open(const char *const *paths, size_t count,
                                   const struct dt_tokenizer *tokenizer,
                                   const struct dt_prompts_options *options,
                                   struct dt_error *err)
{
    const struct dt_example_options *lines = &options->lines;
    struct dt_prompts *prompts = calloc(1, sizeof(*prompts));
    struct dt_error no_chat = {0};
    struct dt_chat *chat = dt_chat_create(
        lines->chat_template, lines->chat_variables, tokenizer, &no_chat);
    struct reader reader = {
        .prompts = prompts, .options = options, .stop = {.asked = lines->stop}};
    int rc = -1;
    if (chat && dt_chat_warning(chat) && lines->note)
        lines->note(lines->ctx, dt_chat_warning(chat));
    reader.masker =
        dt_masker_create(tokenizer, chat, &no_chat, DT_LOSS_COMPLETION,
                         lines->parse_special, err);
    if (prompts && reader.masker) {
        prompts->tokenizer = tokenizer;
        prompts->prompt_key = dt_key_or(lines->prompt_key, "prompt");
        prompts->messages_key = dt_key_or(lines->messages_key, "messages");
        prompts->shuffle = options->shuffle;
        prompts->seed = options->seed;
        prompts->files = calloc(count, sizeof(*prompts->files));
        rc = prompts->files ? 0 : -1;
    }
    if (rc < 0)
        dt_error_set(err, EX_OSERR, "data: out of memory");
    else
        rc = read_files(&reader, paths, count, err);
    dt_masker_destroy(reader.masker);
    dt_chat_destroy(chat);
    if (rc == 0)
        return prompts;
    dt_prompts_close(prompts);
    return NULL;
}

/* --- the stream --- */

struct dt_prompts_stats dt_prompts_stats(const struct dt_prompts *prompts)
{
    return prompts->stats;
}

uint64_t dt_prompts_hash(const struct dt_prompts *prompts)
{
    return prompts->hash;
}

static const struct prompt *prompt_at(const struct dt_prompts *prompts,
                                      uint64_t p)
{
    uint64_t n = prompts->stats.count, i = p % n;
    if (prompts->shuffle)
        i = dt_rng_permute(prompts->seed, p / n, i, n);
    return &prompts->prompts[prompts->from + i];
}

const int32_t *dt_prompts_ids(const struct dt_prompts *prompts, uint64_t p,
                              size_t *count)
{
    const struct prompt *prompt = prompt_at(prompts, p);
    *count = prompt->count;
    return prompts->ids + prompt->first;
}

int dt_prompts_read(const struct dt_prompts *prompts, uint64_t p,
                    struct dt_prompt_line *line, struct dt_error *err)
{
    const struct prompt *prompt = prompt_at(prompts, p);
    const char *key;
    *line = (struct dt_prompt_line){0};
    if (!(line->columns = dt_line_parse(prompt->line, prompt->bytes, err)))
        return -1;
    json_t *value = find_prompt(prompts, line->columns, &key, err);
    if (json_is_array(value)) {
        line->messages = json_incref(value);
        size_t count;
        const int32_t *ids = dt_prompts_ids(prompts, p, &count);
        line->text = dt_detokenize_all(prompts->tokenizer, false, ids, count,
                                       &line->bytes);
    } else {
        line->text = strdup(json_string_value(value));
        line->bytes = json_string_length(value);
    }
    json_object_del(line->columns, key);
    return line->text ? 0 : dt_error_set(err, EX_OSERR, "data: out of memory");
}
