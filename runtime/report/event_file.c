/* SPDX-License-Identifier: Apache-2.0 */
/* event_file.c - frames events and writes them */
#include "config.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "report/checksum.h"
#include "report/event_file.h"

#define PREFIX "events.out.tfevents."

enum {
    EVENT_WALL_TIME = 1,
    EVENT_STEP = 2,
    EVENT_FILE_VERSION = 3,
    EVENT_SESSION_LOG = 7,
    SESSION_STATUS = 1,
    SESSION_START = 1,
    HEAD_BYTES = 12, /* a length and its CRC */
};

struct dt_event_file {
    int fd;
    char *path;
    struct dt_checksum checksum;
    struct dt_protobuf record;
};

void dt_event_file_destroy(struct dt_event_file *file)
{
    if (!file)
        return;
    if (file->fd >= 0)
        close(file->fd);
    dt_protobuf_fini(&file->record);
    free(file->path);
    free(file);
}

/* The latest time in the names of event files of a directory; 0: there are
 * none.
 */
static long newest_seconds(const char *dir)
{
    long newest = 0;
    const struct dirent *entry;
    DIR *stream = opendir(dir);
    while (stream && (entry = readdir(stream))) {
        if (strncmp(entry->d_name, PREFIX, sizeof(PREFIX) - 1) != 0)
            continue;
        long seconds = strtol(entry->d_name + sizeof(PREFIX) - 1, NULL, 10);
        /* Others than of ten digits are not ordered by their name. */
        if (seconds > newest && seconds < 9999999999)
            newest = seconds;
    }
    if (stream)
        closedir(stream);
    return newest;
}

static int open_file(struct dt_event_file *file, const char *dir, double wall,
                     struct dt_error *err)
{
    char host[256] = "host";
    const long newest = newest_seconds(dir);
    const long seconds = (long)wall > newest ? (long)wall : newest + 1;
    gethostname(host, sizeof(host) - 1);
    if (asprintf(&file->path, "%s/" PREFIX "%010ld.%s.%ld.0", dir, seconds,
                 host, (long)getpid()) < 0) {
        file->path = NULL;
        return dt_error_set(err, EX_OSERR, "out of memory");
    }
    file->fd = open(file->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file->fd < 0)
        return dt_error_set(err, EX_CANTCREAT, "%s: cannot create: %s",
                            file->path, strerror(errno));
    return 0;
}

struct dt_protobuf *dt_event_file_begin(struct dt_event_file *file, double wall,
                                        long step)
{
    static const uint8_t head[HEAD_BYTES];
    struct dt_protobuf *record = &file->record;
    dt_protobuf_clear(record);
    dt_protobuf_raw(record, head, sizeof(head));
    dt_protobuf_double(record, EVENT_WALL_TIME, wall);
    if (step != 0)
        dt_protobuf_varint(record, EVENT_STEP, (uint64_t)step);
    return record;
}

static void store_u32(uint8_t *to, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        to[i] = (uint8_t)(value >> 8 * i);
}

/* CRCs of data that has CRCs in it are poor, so the format masks them. */
static uint32_t masked_checksum(const struct dt_event_file *file,
                                const void *data, size_t bytes)
{
    uint32_t crc = dt_checksum_add(&file->checksum, 0, data, bytes);
    return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

static void end_record(struct dt_event_file *file)
{
    struct dt_protobuf *record = &file->record;
    uint8_t tail[4];
    if (record->failed)
        return;
    const size_t bytes = record->bytes - HEAD_BYTES;
    store_u32(record->data, (uint32_t)bytes);
    store_u32(record->data + 8, masked_checksum(file, record->data, 8));
    store_u32(tail, masked_checksum(file, record->data + HEAD_BYTES, bytes));
    dt_protobuf_raw(record, tail, sizeof(tail));
}

int dt_event_file_end(struct dt_event_file *file, struct dt_error *err)
{
    end_record(file);
    if (file->record.failed)
        return dt_error_set(err, EX_OSERR, "out of memory");
    return dt_file_append(file->fd, file->path, file->record.data,
                          file->record.bytes, err);
}

static int begin_session(struct dt_event_file *file, double wall, long step,
                         struct dt_error *err)
{
    struct dt_protobuf *event = dt_event_file_begin(file, wall, 0);
    dt_protobuf_string(event, EVENT_FILE_VERSION, "brain.Event:2");
    if (dt_event_file_end(file, err) < 0)
        return -1;
    event = dt_event_file_begin(file, wall, step);
    size_t session = dt_protobuf_begin(event, EVENT_SESSION_LOG);
    dt_protobuf_varint(event, SESSION_STATUS, SESSION_START);
    dt_protobuf_end(event, session);
    return dt_event_file_end(file, err);
}

struct dt_event_file *dt_event_file_create(const char *dir, double wall,
                                           long step, struct dt_error *err)
{
    struct dt_event_file *file = calloc(1, sizeof(*file));
    if (!file) {
        dt_error_set(err, EX_OSERR, "out of memory");
        return NULL;
    }
    file->fd = -1;
    dt_checksum_init(&file->checksum);
    if (dt_file_mkdirs(dir, err) < 0 || open_file(file, dir, wall, err) < 0 ||
        begin_session(file, wall, step, err) < 0) {
        dt_event_file_destroy(file);
        return NULL;
    }
    return file;
}
