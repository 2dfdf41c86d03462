/* SPDX-License-Identifier: Apache-2.0 */
/* prompts_read.c - reads files of prompts */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "data/forms/forms.h"
#include "data/image_text.h"
#include "data/jsonl.h"
#include "data/mask.h"
#include "data/prompts_impl.h"
#include "data/row_images.h"

enum { NOTES = 8 };

#define PICTURE UINT32_MAX /* the token -1 */

/* The means to read lines. */
struct reader {
    struct dt_prompts *prompts;
    const struct dt_prompts_options *options;
    struct dt_masker *masker;
    struct dt_marked marked; /* the prompt being made */
    const char *path, *mark; /* of the file, as dt_kind_mark */
    size_t lines;            /* read so far, without blank ones */
    uint64_t most;           /* all lines, with blank ones */
    struct dt_stop stop;
    struct dt_error first; /* of the first bad line */
};

/* --- a line --- */

/* Makes room for one more prompt with so many words. */
static int make_room(struct dt_prompts *p, size_t count, struct dt_error *err)
{
    if (p->stats.count == p->room) {
        size_t room = 2 * p->room + 64;
        struct dt_prompt_place *prompts =
            reallocarray(p->prompts, room, sizeof(*prompts));
        if (!prompts)
            return dt_error_set(err, EX_OSERR, "data: out of memory");
        p->prompts = prompts;
        p->room = room;
    }
    if (p->word_count + count > p->word_room) {
        size_t room = 2 * p->word_room + count + 1024;
        uint32_t *words = reallocarray(p->words, room, sizeof(*words));
        if (!words)
            return dt_error_set(err, EX_OSERR, "data: out of memory");
        p->words = words;
        p->word_room = room;
    }
    return 0;
}

/* The tokens of an example, which are its last words. */
static uint32_t *tokens_of(const struct reader *reader, size_t *count)
{
    const struct dt_marked *marked = &reader->marked;
    struct dt_example_parts parts = {.tokens = marked->tokens,
                                     .token_count = marked->count};
    if (reader->prompts->images)
        dt_example_find(marked->tokens, marked->count, &parts);
    *count = parts.token_count;
    return marked->tokens + marked->count - parts.token_count;
}

/* Encodes a line as an example. An empty text becomes the token that begins
 * texts.
 */
static int encode(struct reader *reader, const struct dt_prompt_parsed *line,
                  struct dt_error *err)
{
    const struct dt_tokenizer *tokenizer = reader->prompts->tokenizer;
    const struct dt_prompt_of of = {.line = line->root,
                                    .text = json_string_value(line->prompt),
                                    .bytes = json_string_length(line->prompt),
                                    .turns = &line->turns,
                                    .images = line->images};
    size_t count;
    reader->marked.count = 0;
    if (dt_masker_add_prompt(reader->masker, &of, &reader->marked, err) < 0)
        return -1;
    tokens_of(reader, &count);
    if (count > 0)
        return 0;
    const int32_t id = dt_tokenizer_empty(tokenizer);
    if (id < 0)
        return dt_error_set(err, EX_DATAERR,
                            "the prompt is empty, and the tokenizer has no "
                            "token that begins a text");
    reader->marked.tokens[reader->marked.count++] = (uint32_t)id;
    return 0;
}

/* Makes the tokens of pictures -1, and checks the others. Returns whether there
 * are pictures; -1: EX_DATAERR.
 */
static int check_ids(const struct reader *reader, uint32_t *tokens,
                     size_t count, struct dt_error *err)
{
    const struct dt_prompts *prompts = reader->prompts;
    bool sees = false;
    for (size_t i = 0; i < count; i++) {
        if (prompts->images && tokens[i] == (uint32_t)prompts->placeholder) {
            tokens[i] = PICTURE;
            sees = true;
        } else if (tokens[i] >= reader->options->vocab_size) {
            return dt_error_set(err, EX_DATAERR,
                                "token id %d, but the model's vocab_size is "
                                "%zu: is this the tokenizer of the model?",
                                (int32_t)tokens[i],
                                reader->options->vocab_size);
        }
    }
    return tokens[count - 1] != PICTURE
               ? sees
               : dt_error_set(err, EX_DATAERR,
                              "the prompt ends with an image: expected text "
                              "behind it");
}

/* Keeps the example that was encoded, with its last `count` tokens, ... */
static int keep(struct reader *reader, const struct dt_prompt_place *of,
                size_t all, size_t count, struct dt_error *err)
{
    struct dt_prompts *p = reader->prompts;
    const struct dt_marked *marked = &reader->marked;
    const size_t head = marked->count - all, words = head + count;
    if (make_room(p, words, err) < 0)
        return -1;
    uint32_t *to = p->words + p->word_count;
    memcpy(to, marked->tokens, head * sizeof(*to));
    memcpy(to + head, marked->tokens + marked->count - count,
           count * sizeof(*to));
    p->prompts[p->stats.count] = *of;
    p->prompts[p->stats.count].first = p->word_count;
    p->prompts[p->stats.count].words = words;
    p->prompts[p->stats.count++].count = count;
    p->word_count += words;
    p->stats.longest = count > p->stats.longest ? count : p->stats.longest;
    p->hash = XXH3_64bits_withSeed(of->line, of->bytes, p->hash);
    p->hash = XXH3_64bits_withSeed(to, words * sizeof(*to), p->hash);
    return 0;
}

/* ... which are all of them, unless they are too many. */
static int keep_some(struct reader *reader, const struct dt_prompt_place *of,
                     struct dt_error *err)
{
    struct dt_prompts_stats *stats = &reader->prompts->stats;
    const size_t most = reader->options->max_length;
    size_t count;
    uint32_t *tokens = tokens_of(reader, &count);
    const bool is_long = count > most;
    const int sees = check_ids(reader, tokens, count, err);
    if (sees < 0)
        return -1;
    if (is_long && (!reader->options->keep_end || sees)) {
        stats->dropped++;
        return 0;
    }
    stats->cut += is_long;
    return keep(reader, of, count, is_long ? most : count, err);
}

static int add_line(struct reader *reader, const struct dt_prompt_place *of,
                    struct dt_error *err)
{
    struct dt_prompt_parsed line;
    int rc = dt_prompt_parse(reader->prompts, of->line, of->bytes, &line, err);
    if (rc == 0)
        rc = encode(reader, &line, err);
    dt_prompt_parsed_fini(&line);
    return rc < 0 ? -1 : keep_some(reader, of, err);
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
    struct dt_prompts_stats *stats = &reader->prompts->stats;
    const bool lost = what->status == EX_NOINPUT; /* an image */
    dt_error_prefix(what, "%s%s%" PRIu64, reader->path, reader->mark, number);
    if (what->status != EX_DATAERR && !lost) {
        *err = *what;
        return -1;
    }
    if (stats->bad + stats->lost < NOTES && lines->note)
        lines->note(lines->ctx, what->text);
    if (lost && lines->images->drop) {
        stats->lost++;
        return 0;
    }
    if (stats->bad++ == 0)
        reader->first = *what;
    return stats->bad > bad_allowed(reader, reader->most)
               ? too_many_bad(reader, err)
               : 0;
}

/* Reads the lines of a file into memory. */
static int read_lines(struct reader *reader, const char *path,
                      struct dt_found *found, struct dt_error *err)
{
    struct dt_prompts *p = reader->prompts;
    struct dt_map *lines = &p->files[p->file_count];
    struct dt_lines_keep keep;
    if (p->images)
        keep = dt_row_images_keep(p->images);
    if (dt_kind_find(path, DT_ASKED_LINES, found, err) < 0 ||
        dt_lines_read(lines, path, found, NULL, 0, p->images ? &keep : NULL,
                      &reader->stop, err) < 0)
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
    size_t at = 0;
    struct dt_prompt_place prompt = {.path = path, .mark = dt_kind_mark(found)};
    reader->path = path;
    reader->mark = dt_kind_mark(found);
    while ((prompt.line = dt_jsonl_next(lines->data, lines->bytes, &at,
                                        &prompt.number, &prompt.bytes))) {
        if (dt_stop_check(&reader->stop, path, err) < 0)
            return -1;
        reader->lines++;
        if (add_line(reader, &prompt, &what) < 0 &&
            note_bad(reader, prompt.number, &what, err) < 0)
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
    if (s->lost > 0)
        return dt_error_set(err, EX_DATAERR,
                            "%s: no prompt is left: an image of %zu of %zu "
                            "lines is missing or bad",
                            reader->path, s->lost, reader->lines);
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

/* Lets prompts have images, which the masker reads. */
static int use_images(struct dt_prompts *prompts, struct dt_masker *masker,
                      const struct dt_example_images *images,
                      struct dt_error *err)
{
    if (!images)
        return 0;
    prompts->images = images;
    prompts->placeholder =
        dt_tokenizer_id(prompts->tokenizer, images->text->placeholder);
    return dt_masker_use_images(masker, images, err);
}

static struct dt_prompts *prompts_create(
    size_t files, const struct dt_tokenizer *tokenizer,
    const struct dt_prompts_options *options, struct dt_error *err)
{
    const struct dt_example_options *lines = &options->lines;
    struct dt_prompts *prompts = calloc(1, sizeof(*prompts));
    if (prompts) {
        *prompts = (struct dt_prompts){
            .tokenizer = tokenizer,
            .prompt_key = dt_key_or(lines->prompt_key, "prompt"),
            .messages_key = dt_key_or(lines->messages_key, "messages"),
            .shuffle = options->shuffle,
            .seed = options->seed,
            .files = calloc(files, sizeof(*prompts->files)),
        };
        if (prompts->files)
            return prompts;
    }
    free(prompts);
    dt_error_set(err, EX_OSERR, "data: out of memory");
    return NULL;
}

struct dt_prompts *dt_prompts_open(const char *const *paths, size_t count,
                                   const struct dt_tokenizer *tokenizer,
                                   const struct dt_prompts_options *options,
                                   struct dt_error *err)
{
    const struct dt_example_options *lines = &options->lines;
    struct dt_prompts *prompts = prompts_create(count, tokenizer, options, err);
    struct dt_error no_chat = {0};
    struct dt_chat *chat = dt_chat_create(
        lines->chat_template, lines->chat_variables, tokenizer, &no_chat);
    struct reader reader = {
        .prompts = prompts, .options = options, .stop = {.asked = lines->stop}};
    if (chat && dt_chat_warning(chat) && lines->note)
        lines->note(lines->ctx, dt_chat_warning(chat));
    if (prompts)
        reader.masker =
            dt_masker_create(tokenizer, chat, &no_chat, DT_LOSS_COMPLETION,
                             lines->parse_special, err);
    int rc = reader.masker &&
                     use_images(prompts, reader.masker, lines->images, err) == 0
                 ? read_files(&reader, paths, count, err)
                 : -1;
    dt_masker_destroy(reader.masker);
    dt_chat_destroy(chat);
    free(reader.marked.tokens);
    if (rc == 0)
        return prompts;
    dt_prompts_close(prompts);
    return NULL;
}
