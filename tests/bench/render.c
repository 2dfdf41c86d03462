/* SPDX-License-Identifier: Apache-2.0 */
/*
 * render.c - renders conversations and says how fast
 *
 * usage: render TEMPLATE FILE HASHES
 * FILE has lines of JSON with messages, TEMPLATE is a Jinja template. HASHES is
 * made of the XXH3 of each text, a line each. Prints seconds of the CPU to
 * parse the lines, to render them, and to find what the assistant wrote.
 */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <xxhash.h>

#include "base/file.h"
#include "data/jsonl.h"

static void die(const char *what)
{
    fprintf(stderr, "render: %s\n", what);
    exit(1);
}

static double seconds(void)
{
    return (double)clock() / CLOCKS_PER_SEC;
}

/* The conversations of a file; *count of them. */
static struct dt_record *read_file(const struct dt_map *file, size_t *count)
{
    const struct dt_example_options options = {0};
    struct dt_record *records = NULL;
    struct dt_error err;
    const char *line;
    size_t at = 0, length, room = 0;
    uint64_t number = 0;
    for (*count = 0; (line = dt_jsonl_next((const char *)file->data,
                                           file->bytes, &at, &number, &length));
         ++*count) {
        if (*count == room) {
            room = 2 * room + 1024;
            records = reallocarray(records, room, sizeof(*records));
            if (!records)
                die("out of memory");
        }
        if (dt_jsonl_read(line, length, DT_FORMAT_MESSAGES, &options, 1,
                          &records[*count], &err) < 0)
            die(err.text);
    }
    return records;
}

/* Renders all of them; hashes go to `file` unless it is NULL. */
static void render(const struct dt_chat *chat, const struct dt_record *records,
                   size_t count, unsigned flags, FILE *file)
{
    struct dt_chat_text out = {0};
    struct dt_error err;
    for (size_t i = 0; i < count; i++) {
        const struct dt_turns *turns = &records[i].turns;
        const struct dt_chat_input input = dt_turns_input(turns, turns->count);
        if (dt_chat_render(chat, &input, flags, &out, &err) < 0)
            die(err.text);
        if (file)
            fprintf(file, "%016" PRIx64 "\n",
                    XXH3_64bits(out.whole.text, out.whole.bytes));
    }
    dt_chat_text_fini(&out);
}

int main(int argc, char **argv)
{
    struct dt_error err;
    struct dt_map file;
    size_t count;
    if (argc != 4)
        die("usage: render TEMPLATE FILE HASHES");
    struct dt_tokenizer *tokenizer = dt_tokenizer_load("byte", &err);
    struct dt_chat *chat =
        tokenizer ? dt_chat_create(argv[1], NULL, tokenizer, &err) : NULL;
    if (!chat || dt_map_init(&file, argv[2], &err) < 0)
        die(err.text);
    double start = seconds();
    struct dt_record *records = read_file(&file, &count);
    double parsed = seconds();
    render(chat, records, count, 0, NULL);
    double rendered = seconds();
    render(chat, records, count, DT_CHAT_TRAINED, NULL);
    printf("parse %.3f s, render %.3f s, trained %.3f s\n", parsed - start,
           rendered - parsed, seconds() - rendered);
    FILE *hashes = fopen(argv[3], "w");
    if (!hashes)
        die("cannot create HASHES");
    render(chat, records, count, 0, hashes);
    if (fclose(hashes) != 0)
        die("cannot write");
    for (size_t i = 0; i < count; i++)
        dt_record_fini(&records[i]);
    free(records);
    dt_chat_destroy(chat);
    dt_tokenizer_destroy(tokenizer);
    dt_map_fini(&file);
    return 0;
}
