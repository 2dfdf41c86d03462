/* SPDX-License-Identifier: Apache-2.0 */
/* generate_file.c - continues the prompts of a file */
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include <jansson.h>

#include "backend/backend.h"
#include "base/fault.h"
#include "cmd/cmd_impl.h"
#include "cmd/generate.h"
#include "comm/comm.h"
#include "data/forms/forms.h"
#include "data/turns.h"
#include "launch/launch.h"
#include "rollout/engine.h"
#include "run/exchange.h"

/* --- ranks --- */

enum { PIECE = 1 << 20 }; /* bytes that travel at a time */

/* The lines of a rank; only rank 0 keeps those of others. */
struct part {
    char *text;
    size_t bytes, printed;
};

static int part_piece(struct dt_comm *comm, struct dt_buffer *piece, int from,
                      size_t bytes, struct dt_error *err)
{
    size_t count = (bytes + sizeof(int32_t) - 1) / sizeof(int32_t);
    struct dt_view view = dt_view_slice(dt_view_of(piece, DT_I32), 0, count);
    dt_ticket_t ticket;
    if (dt_comm_broadcast(comm, view, from, &ticket, err) < 0)
        return -1;
    return dt_comm_wait(comm, ticket, err);
}

/* Brings the text of rank `from` to rank 0, by broadcasts, since comm has no
 * messages between two ranks; texts take little time compared with the model
 * that writes them.
 */
static int part_send(struct dt_comm *comm, struct part *part, int from,
                     const char *text, struct dt_buffer *piece,
                     struct dt_error *err)
{
    int rank = dt_comm_rank(comm);
    if (rank == 0 && !(part->text = malloc(part->bytes + 1)))
        return dt_error_set(err, EX_OSERR, "out of memory");
    if (from == 0) {
        if (rank == 0)
            memcpy(part->text, text, part->bytes);
        return 0;
    }
    for (size_t at = 0; at < part->bytes; at += PIECE) {
        size_t left = part->bytes - at, bytes = left < PIECE ? left : PIECE;
        if (rank == from)
            memcpy(piece->data, text + at, bytes);
        if (part_piece(comm, piece, from, bytes, err) < 0)
            return -1;
        if (rank == 0)
            memcpy(part->text + at, piece->data, bytes);
    }
    return 0;
}

/* Prints the next line of a part, if there is one; 1: there was none. */
static int part_print(struct part *part)
{
    const char *line = part->text + part->printed;
    const char *end =
        part->text ? memchr(line, '\n', part->bytes - part->printed) : NULL;
    if (!end)
        return 1;
    size_t bytes = (size_t)(end - line) + 1;
    part->printed += bytes;
    return fwrite(line, 1, bytes, stdout) == bytes ? 0 : -1;
}

static int print_parts(struct part *parts, int size, struct dt_error *err)
{
    int rc = 0;
    for (int r = 0; rc == 0; r = (r + 1) % size)
        rc = part_print(&parts[r]);
    if (rc < 0 || fflush(stdout))
        return dt_error_set(err, EX_IOERR, "cannot write: %s", strerror(errno));
    return 0;
}

static int gather(struct dt_comm *comm, const char *text, struct part *parts,
                  double *bytes, struct dt_buffer *piece, struct dt_error *err)
{
    int size = dt_comm_size(comm);
    if (dt_comm_reduce_scalars(comm, bytes, (size_t)size, DT_SUM, err) < 0)
        return -1;
    for (int r = 0; r < size; r++) {
        parts[r].bytes = (size_t)bytes[r];
        if (part_send(comm, &parts[r], r, text, piece, err) < 0)
            return -1;
    }
    if (dt_comm_rank(comm) == 0 && print_parts(parts, size, err) < 0)
        return -1;
    return dt_comm_barrier(comm, err);
}

/* Rank 0 prints the first line of each rank's text, in order of ranks, then the
 * second ones, and so on, up to the first rank that has no more. A line ends
 * with \n. All ranks call it, and return when all is printed. -1: EX_IOERR,
 * EX_OSERR, or as dt_comm_wait.
 */
static int print_in_turn(struct dt_comm *comm, const char *text, size_t bytes,
                         struct dt_error *err)
{
    size_t size = (size_t)dt_comm_size(comm);
    struct part *parts = calloc(size, sizeof(*parts));
    double *sizes = calloc(size, sizeof(*sizes));
    struct dt_buffer *piece = dt_buffer_create(&dt_cpu, PIECE, "texts", err);
    int result = -1;
    if (!parts || !sizes)
        dt_error_set(err, EX_OSERR, "out of memory");
    else if (piece) {
        sizes[dt_comm_rank(comm)] = (double)bytes;
        result = gather(comm, text, parts, sizes, piece, err);
    }
    for (size_t r = 0; parts && r < size; r++)
        free(parts[r].text);
    dt_buffer_destroy(piece);
    free(sizes);
    free(parts);
    return result;
}

/* --- prompts --- */

enum {
    TEXT_BYTES = 4096,
    ROUND = 8, /* lines of a slot between two meetings of the ranks */
};

/* A prompt of the file. */
struct line {
    json_t *object; /* NULL: printed */
    size_t number;  /* in the file */
    struct dt_made_prompt prompt;
    bool done; /* the object has a completion */
};

struct work {
    struct dt_engine *engine;
    struct dt_prompter *prompter;
    const struct dt_chat *chat;
    const struct dt_error *no_chat;
    bool warned; /* about chat */
    const char *path;
    size_t number;      /* of the last line read */
    size_t total;       /* prompts of the file */
    size_t rank, size;  /* prompt p is of rank p % size */
    struct line *lines; /* of this rank */
    size_t count, room;
    size_t longest;           /* prompt, in tokens */
    size_t pictures, patches; /* most of a prompt */
    uint8_t *pixels;          /* of the prompt that was given last */
    size_t given, printed;
    size_t end; /* of the lines to give in this round */
    FILE *out;  /* where they are printed */
};

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

/* Makes the prompt of the messages of a line. */
static int make_messages(struct work *work, const json_t *line, json_t *images,
                         struct dt_made_prompt *made, struct dt_error *err)
{
    struct dt_turns turns = {.allow_images = dt_prompter_sees(work->prompter)};
    if (!work->chat)
        return dt_error_set(err, EX_DATAERR, "%s", work->no_chat->text);
    if (!work->warned)
        dt_generate_warn(work->chat);
    work->warned = true;
    const json_t *messages = json_object_get(line, "messages");
    int rc = dt_turns_add_system(&turns, line, messages, err) < 0 ||
                     dt_turns_add(&turns, messages, "messages", err) < 0 ||
                     dt_turns_add_options(&turns, line, err) < 0
                 ? -1
                 : 0;
    if (rc == 0)
        rc = dt_prompter_turns(work->prompter, &turns, images, made, err);
    dt_turns_fini(&turns);
    return rc;
}

/* A new line; NULL if out of memory. */
static struct line *new_line(struct work *work)
{
    if (work->count == work->room) {
        size_t room = 2 * work->room + 64;
        struct line *grown = realloc(work->lines, room * sizeof(*grown));
        if (!grown)
            return NULL;
        work->lines = grown;
        work->room = room;
    }
    work->lines[work->count] = (struct line){0};
    return &work->lines[work->count++];
}

/* Makes the prompt of a line. */
static int make_prompt(struct work *work, const json_t *object,
                       struct dt_made_prompt *made, struct dt_error *err)
{
    const json_t *prompt = json_object_get(object, "prompt");
    const json_t *messages = json_object_get(object, "messages");
    int rc;
    if (!json_is_string(prompt) && !json_is_array(messages))
        return dt_error_set(err, EX_DATAERR,
                            "expected an object with prompt or messages");
    json_t *images = dt_prompter_images(work->prompter, object, err);
    if (!images)
        return -1;
    if (json_is_string(prompt))
        rc = dt_prompter_text(work->prompter, json_string_value(prompt),
                              json_string_length(prompt), images, made, err);
    else
        rc = make_messages(work, object, images, made, err);
    json_decref(images);
    return rc;
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* Parses one line and makes its prompt. */
static int add_line(struct work *work, const char *text, size_t bytes,
                    struct dt_error *err)
{
    struct line *line = new_line(work);
    json_error_t why;
    if (!line)
        return dt_error_set(err, EX_OSERR, "out of memory");
    line->object =
        json_loadb(text, bytes, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &why);
    if (!line->object)
        return set_line_error(work, err, why.text);
    line->number = work->number;
    const struct dt_made_prompt *made = &line->prompt;
    if (make_prompt(work, line->object, &line->prompt, err) < 0)
        return dt_error_prefix(err, "%s:%zu", work->path, work->number);
    work->longest = larger(work->longest, made->count);
    work->patches = larger(work->patches, made->patches);
    work->pictures = larger(work->pictures, made->found.picture_count);
    return 0;
}

static int give_line(void *ctx, struct dt_prompt *prompt, struct dt_error *err)
{
    struct work *work = ctx;
    const struct line *line = &work->lines[work->given];
    if (work->given == work->end)
        return 0;
    *prompt =
        (struct dt_prompt){.number = work->given++ * work->size + work->rank};
    if (dt_prompter_give(work->prompter, &line->prompt, &work->pixels, prompt,
                         err) < 0)
        return dt_error_prefix(err, "%s:%zu", work->path, line->number);
    return 1;
}

/* The text of a completion; NULL if out of memory. */
static json_t *completion_text(const struct work *work,
                               const struct dt_completion *completion)
{
    struct dt_detokenizer state = {.tokenizer = work->engine->tokenizer,
                                   .skip_special = true};
    char token[TEXT_BYTES], *text = NULL;
    size_t bytes = 0;
    FILE *f = open_memstream(&text, &bytes);
    if (!f)
        return NULL;
    for (size_t i = 0; i < completion->count; i++)
        if (!dt_engine_stops(work->engine, completion->ids[i]))
            fwrite(
                token, 1,
                dt_detokenize(&state, completion->ids[i], token, sizeof(token)),
                f);
    fwrite(token, 1, dt_detokenize_end(&state, token, sizeof(token)), f);
    bool failed = ferror(f);
    failed |= fclose(f) != 0;
    json_t *string = failed ? NULL : json_stringn(text, bytes);
    free(text);
    return string;
}

/* Prints the lines that are done, up to the first that is not. */
static int print_lines(struct work *work, struct dt_error *err)
{
    for (; work->printed < work->count && work->lines[work->printed].done;
         work->printed++) {
        struct line *line = &work->lines[work->printed];
        if (json_dumpf(line->object, work->out, JSON_COMPACT) < 0 ||
            putc('\n', work->out) == EOF || fflush(work->out))
            return dt_error_set(err, EX_IOERR, "cannot write: %s",
                                strerror(errno));
        json_decref(line->object);
        line->object = NULL;
    }
    return 0;
}

static int take_completion(void *ctx, const struct dt_completion *completion,
                           struct dt_error *err)
{
    struct work *work = ctx;
    struct line *line = &work->lines[completion->prompt / work->size];
    json_t *text = completion_text(work, completion);
    if (!text || json_object_set_new(line->object, "completion", text) < 0)
        return dt_error_set(err, EX_OSERR, "out of memory");
    line->done = true;
    return print_lines(work, err);
}

static bool is_blank(const char *text, size_t bytes)
{
    return strspn(text, " \t\r\n") == bytes;
}

/* Adds a line, without a byte order mark, if it is not blank and belongs to
 * this rank.
 */
static int take_line(struct work *work, const char *text, size_t bytes,
                     struct dt_error *err)
{
    const bool marked =
        work->number == 1 && strncmp(text, "\xef\xbb\xbf", 3) == 0;
    const size_t mark = marked ? 3 : 0;
    if (is_blank(text + mark, bytes - mark) ||
        work->total++ % work->size != work->rank)
        return 0;
    return add_line(work, text + mark, bytes - mark, err);
}

static int read_lines(struct work *work, struct dt_error *err)
{
    char *text = NULL;
    size_t room = 0;
    ssize_t bytes;
    int result = 0;
    FILE *f = fopen(work->path, "re");
    if (!f)
        return dt_error_set(err, EX_NOINPUT, "%s: cannot open: %s", work->path,
                            strerror(errno));
    do {
        work->number++;
        bytes = dt_line_read(f, &text, &room, DT_LINE_BYTES, err);
        if (bytes < 0)
            result = dt_error_prefix(err, "%s:%zu", work->path, work->number);
        else if (bytes > 0)
            result = take_line(work, text, (size_t)bytes, err);
    } while (result == 0 && bytes > 0);
    free(text);
    fclose(f);
    return result;
}

/* Fails unless all ranks have read the same number of prompts; none continues
 * before all have.
 */
static int agree(const struct work *work, struct dt_comm *comm,
                 struct dt_error *err)
{
    double most[] = {(double)work->total, -(double)work->total};
    if (dt_comm_reduce_scalars(comm, most, 2, DT_MAX, err) < 0)
        return -1;
    if (most[0] + most[1] != 0)
        return dt_error_set(err, EX_DATAERR,
                            "%s: has %zu prompts here, but between %.0f and "
                            "%.0f on the ranks: is it the same file?",
                            work->path, work->total, -most[1], most[0]);
    return 0;
}

/* Continues the lines up to `end`. */
static int complete_lines(struct work *work, size_t end,
                          struct dt_rollout_options options,
                          struct dt_error *err)
{
    const struct dt_rollout_io io = {
        .next = give_line, .done = take_completion, .ctx = work};
    size_t count = end - work->given;
    if (count == 0)
        return 0;
    work->end = end;
    options.max_prompt = work->longest;
    options.patches = work->patches;
    options.pictures = work->pictures;
    options.colors = dt_prompter_colors(work->prompter);
    if (options.slots > count)
        options.slots = count;
    return dt_engine_generate(work->engine, options, &io, err);
}

/* The same, to a text for rank 0. */
static int complete_round(struct work *work, size_t lines,
                          const struct dt_rollout_options *options,
                          struct dt_comm *comm, struct dt_error *err)
{
    char *text = NULL;
    size_t bytes = 0, left = work->count - work->given;
    work->out = open_memstream(&text, &bytes);
    if (!work->out)
        return dt_error_set(err, EX_OSERR, "out of memory");
    int result = complete_lines(
        work, work->given + (left < lines ? left : lines), *options, err);
    if (fclose(work->out) && result == 0)
        result = dt_error_set(err, EX_OSERR, "out of memory");
    if (dt_fault("generate") && result == 0)
        result = dt_error_set(err, EX_SOFTWARE, "injected failure");
    if (result == 0)
        result = print_in_turn(comm, text, bytes, err);
    free(text);
    return result;
}

static int complete_file(struct work *work,
                         const struct dt_rollout_options *options,
                         struct dt_comm *comm, struct dt_error *err)
{
    size_t lines = ROUND * options->slots;
    if (read_lines(work, err) < 0)
        return -1;
    if (work->size == 1)
        return complete_lines(work, work->count, *options, err);
    if (agree(work, comm, err) < 0)
        return -1;
    for (size_t done = 0; done < work->total; done += lines * work->size)
        if (complete_round(work, lines, options, comm, err) < 0)
            return -1;
    return 0;
}

int dt_generate_file(struct dt_engine *engine, struct dt_prompter *prompter,
                     const char *path, const struct dt_chat *chat,
                     const struct dt_error *no_chat,
                     const struct dt_rollout_options *options,
                     struct dt_comm *comm, struct dt_error *err)
{
    struct work work = {
        .engine = engine,
        .prompter = prompter,
        .chat = chat,
        .no_chat = no_chat,
        .path = path,
        .rank = (size_t)dt_comm_rank(comm),
        .size = (size_t)dt_comm_size(comm),
        .out = stdout,
    };
    int result = complete_file(&work, options, comm, err);
    for (size_t i = 0; i < work.count; i++) {
        json_decref(work.lines[i].object);
        dt_made_prompt_fini(&work.lines[i].prompt);
    }
    free(work.pixels);
    free(work.lines);
    return result;
}
