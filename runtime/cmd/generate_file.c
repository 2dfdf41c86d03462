/* SPDX-License-Identifier: Apache-2.0 */
/* generate_file.c - continues the prompts of a file in batches */
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "cmd/generate_file.h"

enum { MAX_MESSAGES = 1024, TEXT_BYTES = 4096 };

/* A line that is being continued. */
struct line {
    json_t *object;
    struct dt_tokens prompt;
    struct dt_detokenizer text;
    char *completion;
    size_t bytes, room;
};

struct work {
    struct dt_engine *engine;
    const struct dt_chat *chat;
    const struct dt_error *no_chat;
    bool warned; /* about chat */
    const char *path;
    size_t number;      /* of the last line read */
    struct line *lines; /* (batch) */
    size_t count;
    bool out_of_memory;
};

static void append_text(struct work *work, struct line *line, const char *text,
                        size_t bytes)
{
    if (line->bytes + bytes + 1 > line->room) {
        size_t room = 2 * line->room + bytes + 64;
        char *grown = realloc(line->completion, room);
        if (!grown) {
            work->out_of_memory = true;
            return;
        }
        line->completion = grown;
        line->room = room;
    }
    memcpy(line->completion + line->bytes, text, bytes);
    line->bytes += bytes;
    line->completion[line->bytes] = '\0';
}

static void append_token(void *ctx, size_t row, int32_t id)
{
    struct work *work = ctx;
    struct line *line = &work->lines[row];
    char text[TEXT_BYTES];
    for (size_t i = 0; i < work->engine->stop_count; i++)
        if (work->engine->stop[i] == id)
            return;
    append_text(work, line, text,
                dt_detokenize(&line->text, id, text, sizeof(text)));
}

static int set_line_error(const struct work *work, struct dt_error *err,
                          const char *what)
{
    return dt_error_set(err, EX_DATAERR, "%s:%zu: %s", work->path, work->number,
                        what);
}

void dt_generate_warn(const struct dt_chat *chat)
{
    if (dt_chat_warning(chat))
        fprintf(stderr, "disttrain: warning: %s\n", dt_chat_warning(chat));
}

static int encode_messages(struct work *work, const json_t *list,
                           struct dt_tokens *out, struct dt_error *err)
{
    struct dt_chat_message messages[MAX_MESSAGES];
    size_t count = json_array_size(list);
    if (!work->chat)
        return set_line_error(work, err, work->no_chat->text);
    if (!work->warned)
        dt_generate_warn(work->chat);
    work->warned = true;
    if (count == 0 || count > MAX_MESSAGES)
        return set_line_error(work, err, "expected 1 to 1024 messages");
    for (size_t i = 0; i < count; i++) {
        const json_t *m = json_array_get(list, i);
        messages[i] = (struct dt_chat_message){
            json_string_value(json_object_get(m, "role")),
            json_string_value(json_object_get(m, "content")), NULL};
        if (!messages[i].role || !messages[i].content)
            return set_line_error(work, err,
                                  "a message needs role and content");
    }
    return dt_engine_encode_chat(work->engine, work->chat, messages, count, out,
                                 err);
}

/* Parses one line and adds it to the batch. */
static int add_line(struct work *work, const char *text, struct dt_error *err)
{
    struct line *line = &work->lines[work->count];
    json_error_t why;
    *line = (struct line){
        .text = {.tokenizer = work->engine->tokenizer, .skip_special = true}};
    line->object = json_loads(text, JSON_REJECT_DUPLICATES, &why);
    if (!line->object)
        return set_line_error(work, err, why.text);
    work->count++;
    const json_t *prompt = json_object_get(line->object, "prompt");
    const json_t *messages = json_object_get(line->object, "messages");
    int result = -1;
    if (json_is_string(prompt))
        result = dt_engine_encode(work->engine, json_string_value(prompt),
                                  &line->prompt, err);
    else if (json_is_array(messages))
        result = encode_messages(work, messages, &line->prompt, err);
    else
        return set_line_error(work, err,
                              "expected an object with prompt or messages");
    return result < 0 ? dt_error_prefix(err, "%s:%zu", work->path, work->number)
                      : 0;
}

static void release_lines(struct work *work)
{
    for (size_t i = 0; i < work->count; i++) {
        struct line *line = &work->lines[i];
        json_decref(line->object);
        dt_tokens_fini(&line->prompt);
        free(line->completion);
    }
    work->count = 0;
}

static int print_line(struct work *work, struct line *line)
{
    char text[TEXT_BYTES];
    append_text(work, line, text,
                dt_detokenize_end(&line->text, text, sizeof(text)));
    json_t *completion =
        json_stringn(line->completion ? line->completion : "", line->bytes);
    if (!completion ||
        json_object_set_new(line->object, "completion", completion) < 0)
        return -1;
    if (json_dumpf(line->object, stdout, JSON_COMPACT) < 0)
        return -1;
    putchar('\n');
    return fflush(stdout);
}

/* Continues and prints the lines of the batch, then empties it. */
static int finish_batch(struct work *work, struct dt_generation *generation,
                        struct dt_error *err)
{
    struct dt_tokens *prompts = calloc(work->count + 1, sizeof(*prompts));
    int result = -1;
    for (size_t i = 0; prompts && i < work->count; i++)
        prompts[i] = work->lines[i].prompt;
    generation->token = append_token;
    generation->ctx = work;
    if (!prompts)
        dt_error_set(err, EX_OSERR, "out of memory");
    else if (work->count > 0)
        result = dt_engine_generate(work->engine, prompts, work->count,
                                    *generation, err);
    else
        result = 0;
    free(prompts);
    for (size_t i = 0; i < work->count && result == 0; i++)
        if (print_line(work, &work->lines[i]) < 0 || work->out_of_memory)
            result = dt_error_set(err, EX_IOERR, "cannot write: %s",
                                  strerror(errno));
    generation->first_row += work->count;
    release_lines(work);
    return result;
}

static bool is_blank(const char *text)
{
    return text[strspn(text, " \t\r\n")] == '\0';
}

int dt_generate_file(struct dt_engine *engine, const char *path,
                     const struct dt_chat *chat, const struct dt_error *no_chat,
                     size_t batch, const struct dt_generation *generation,
                     struct dt_error *err)
{
    struct work work = {
        .engine = engine, .chat = chat, .no_chat = no_chat, .path = path};
    struct dt_generation each = *generation;
    char *text = NULL;
    size_t room = 0;
    int result = 0;
    FILE *f = fopen(path, "re");
    if (!f)
        return dt_error_set(err, EX_NOINPUT, "%s: cannot open: %s", path,
                            strerror(errno));
    work.lines = calloc(batch, sizeof(*work.lines));
    if (!work.lines)
        result = dt_error_set(err, EX_OSERR, "out of memory");
    while (result == 0 && getline(&text, &room, f) > 0) {
        work.number++;
        if (is_blank(text))
            continue;
        result = add_line(&work, text, err);
        if (result == 0 && work.count == batch)
            result = finish_batch(&work, &each, err);
    }
    if (result == 0)
        result = finish_batch(&work, &each, err);
    release_lines(&work);
    free(work.lines);
    free(text);
    fclose(f);
    return result;
}
