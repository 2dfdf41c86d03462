/* SPDX-License-Identifier: Apache-2.0 */
/*
 * read_arrow.c - the rows of an Arrow stream, or of a file, which is a stream
 * behind its magic and with a footer that nobody needs to read it in order
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "data/forms/arrow.h"
#include "data/forms/reader.h"

enum { METADATA_BYTES = 256 << 20 };

enum header { SCHEMA = 1, DICTIONARY_BATCH = 2, RECORD_BATCH = 3 };

struct stream {
    const struct dt_input *input;
    uint64_t at, bytes; /* of the file */
    struct dt_arrow arrow;
    bool has_schema;
    uint8_t *metadata, *body, *unpacked; /* of the message that is read */
    size_t metadata_bytes, body_bytes;
};

/* Reads bytes of the file into memory of their own, in place of *to. */
static int read_bytes(struct stream *s, uint64_t count, uint8_t **to,
                      struct dt_error *err)
{
    free(*to);
    *to = NULL;
    if (count > s->bytes - s->at)
        return dt_arrow_bad(&s->arrow, "cut short", err);
    *to = malloc(count + 1);
    if (!*to)
        return dt_error_set(err, EX_OSERR, "%s: out of memory", s->arrow.path);
    if (dt_input_at(s->input, s->at, *to, count, err) < 0)
        return -1;
    s->at += count;
    return 0;
}

static uint32_t number_at(const uint8_t *from)
{
    return (uint32_t)from[0] | (uint32_t)from[1] << 8 |
           (uint32_t)from[2] << 16 | (uint32_t)from[3] << 24;
}

/* Reads the next message. 1, or 0 at the end of the stream. */
static int read_message(struct stream *s, struct dt_error *err)
{
    uint8_t begin[8];
    if (s->at == s->bytes)
        return 0;
    if (s->bytes - s->at < sizeof(begin))
        return dt_arrow_bad(&s->arrow, "cut short", err);
    if (dt_input_at(s->input, s->at, begin, sizeof(begin), err) < 0)
        return -1;
    if (number_at(begin) != UINT32_MAX)
        return dt_arrow_bad(&s->arrow, "a message does not begin as it should",
                            err);
    s->at += sizeof(begin);
    s->metadata_bytes = number_at(begin + 4);
    if (s->metadata_bytes == 0)
        return 0;
    if (s->metadata_bytes > METADATA_BYTES)
        return dt_arrow_bad(&s->arrow, "a message is too large", err);
    if (read_bytes(s, s->metadata_bytes, &s->metadata, err) < 0)
        return -1;
    const struct dt_flat_table message =
        dt_flat_root(s->metadata, s->metadata_bytes);
    const uint64_t body = (uint64_t)dt_flat_number(message, 3, 8, 0);
    if (read_bytes(s, body, &s->body, err) < 0)
        return -1;
    s->body_bytes = body;
    return 1;
}

/* Writes the rows of a batch. 1: there are enough. */
static int put_batch(struct stream *s, struct dt_flat_table batch,
                     struct dt_line_out *out, struct dt_error *err)
{
    free(s->unpacked);
    s->unpacked = NULL;
    if (!s->has_schema)
        return dt_arrow_bad(&s->arrow, "a batch before the schema", err);
    if (dt_arrow_open_batch(&s->arrow, batch, s->body, s->body_bytes,
                            &s->unpacked, err) < 0)
        return -1;
    for (uint64_t i = 0; i < s->arrow.fields[0].count; i++) {
        if (dt_arrow_put(&s->arrow, 0, i, out, err) < 0)
            return -1;
        int more = dt_line_out_end(out, err);
        if (more)
            return more;
    }
    return 0;
}

static int read_all(struct stream *s, struct dt_line_out *out,
                    struct dt_error *err)
{
    int rc;
    while ((rc = read_message(s, err)) > 0) {
        const struct dt_flat_table message =
            dt_flat_root(s->metadata, s->metadata_bytes);
        const struct dt_flat_table header = dt_flat_child(message, 2);
        const int64_t type = dt_flat_number(message, 1, 1, 0);
        if (type == SCHEMA && !s->has_schema) {
            s->has_schema = true;
            rc = dt_arrow_init(&s->arrow, s->arrow.path, header, err);
        } else if (type == RECORD_BATCH) {
            rc = put_batch(s, header, out, err);
        } else {
            rc = dt_arrow_bad(&s->arrow, "a message of an unknown type", err);
        }
        if (rc)
            return rc < 0 ? -1 : 0;
    }
    if (rc == 0 && !s->has_schema)
        return dt_arrow_bad(&s->arrow, "it has no schema", err);
    return rc;
}

int dt_read_arrow(struct dt_bytes *bytes, struct dt_line_out *out,
                  struct dt_error *err)
{
    static const char magic[] = "ARROW1\0";
    char begin[sizeof(magic)] = "";
    struct stream s = {.input = bytes->input,
                       .bytes = dt_input_bytes(bytes->input),
                       .arrow = {.path = bytes->path}};
    if (s.bytes >= sizeof(begin) &&
        dt_input_at(s.input, 0, begin, sizeof(begin), err) < 0)
        return -1;
    if (memcmp(begin, magic, sizeof(magic)) == 0)
        s.at = sizeof(magic);
    int rc = read_all(&s, out, err);
    dt_arrow_fini(&s.arrow);
    free(s.metadata);
    free(s.body);
    free(s.unpacked);
    return rc;
}
