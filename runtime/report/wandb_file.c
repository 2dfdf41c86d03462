/* SPDX-License-Identifier: Apache-2.0 */
/* wandb_file.c - frames records and writes them */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "report/wandb_file.h"

enum {
    BLOCK_BYTES = 1 << 15,
    PART_HEAD_BYTES = 7, /* checksum, length, type */
    RECORD_NUM = 1,
};

enum part { PART_FULL = 1, PART_FIRST, PART_MIDDLE, PART_LAST };

/* ":W&B", a number of two bytes, the version. */
const uint8_t dt_wandb_header[DT_WANDB_HEADER_BYTES] = {0x3a, 0x57, 0x26, 0x42,
                                                        0xe1, 0xbe, 0x00};

struct dt_wandb_file {
    int fd;
    char *path;
    size_t bytes; /* written */
    uint64_t count;
    struct dt_checksum checksum;
    struct dt_protobuf record, framed;
};

static void put_part(const struct dt_checksum *checksum, enum part type,
                     const uint8_t *data, size_t bytes, struct dt_protobuf *to)
{
    const uint8_t kind = (uint8_t)type;
    uint8_t head[PART_HEAD_BYTES];
    uint32_t crc = dt_checksum_add(checksum, 0, &kind, 1);
    crc = dt_checksum_add(checksum, crc, data, bytes);
    for (int i = 0; i < 4; i++)
        head[i] = (uint8_t)(crc >> 8 * i);
    head[4] = (uint8_t)bytes;
    head[5] = (uint8_t)(bytes >> 8);
    head[6] = kind;
    dt_protobuf_raw(to, head, sizeof(head));
    dt_protobuf_raw(to, data, bytes);
}

void dt_wandb_frame(const struct dt_checksum *checksum, size_t offset,
                    const void *record, size_t bytes, struct dt_protobuf *to)
{
    static const uint8_t zeros[PART_HEAD_BYTES];
    const uint8_t *data = record;
    bool first = true, last;
    do {
        size_t left = BLOCK_BYTES - offset % BLOCK_BYTES;
        if (left < PART_HEAD_BYTES) {
            dt_protobuf_raw(to, zeros, left);
            offset += left;
            left = BLOCK_BYTES;
        }
        const size_t room = left - PART_HEAD_BYTES;
        const size_t now = bytes < room ? bytes : room;
        last = now == bytes;
        put_part(checksum,
                 first ? (last ? PART_FULL : PART_FIRST)
                       : (last ? PART_LAST : PART_MIDDLE),
                 data, now, to);
        offset += PART_HEAD_BYTES + now;
        data += now;
        bytes -= now;
        first = false;
    } while (!last);
}

void dt_wandb_file_destroy(struct dt_wandb_file *file)
{
    if (!file)
        return;
    if (file->fd >= 0)
        close(file->fd);
    dt_protobuf_fini(&file->record);
    dt_protobuf_fini(&file->framed);
    free(file->path);
    free(file);
}

struct dt_wandb_file *dt_wandb_file_create(const char *path,
                                           struct dt_error *err)
{
    struct dt_wandb_file *file = calloc(1, sizeof(*file));
    if (!file || !(file->path = strdup(path))) {
        dt_error_set(err, EX_OSERR, "out of memory");
        free(file);
        return NULL;
    }
    dt_checksum_init(&file->checksum, DT_CHECKSUM_IEEE);
    file->fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file->fd < 0) {
        dt_error_set(err, EX_CANTCREAT, "%s: cannot create: %s", path,
                     strerror(errno));
        goto error;
    }
    if (dt_file_append(file->fd, path, dt_wandb_header, sizeof(dt_wandb_header),
                       err) < 0)
        goto error;
    file->bytes = sizeof(dt_wandb_header);
    return file;
error:
    dt_wandb_file_destroy(file);
    return NULL;
}

struct dt_protobuf *dt_wandb_file_begin(struct dt_wandb_file *file)
{
    dt_protobuf_clear(&file->record);
    dt_protobuf_varint(&file->record, RECORD_NUM, ++file->count);
    return &file->record;
}

int dt_wandb_file_end(struct dt_wandb_file *file, struct dt_error *err)
{
    struct dt_protobuf *framed = &file->framed;
    dt_protobuf_clear(framed);
    dt_wandb_frame(&file->checksum, file->bytes, file->record.data,
                   file->record.bytes, framed);
    if (file->record.failed || framed->failed)
        return dt_error_set(err, EX_OSERR, "out of memory");
    if (dt_file_append(file->fd, file->path, framed->data, framed->bytes, err) <
        0)
        return -1;
    file->bytes += framed->bytes;
    return 0;
}
