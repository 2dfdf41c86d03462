/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tensorboard.c - records as scalars of TensorBoard
 *
 * A file has records in the framing of TFRecord: length, its masked CRC, an
 * Event, its masked CRC (tensorflow/core/lib/io/record_writer.cc and
 * tensorflow/core/util/event.proto). Each is one write, so that a reader never
 * sees more than the last one torn.
 *
 * metrics.jsonl has the names of TRL's trainers. Here they are tags with the
 * split in front, as transformers' Trainer writes them (train/loss,
 * eval/rewards/margins), or those of DeepSpeed's monitor where it has one.
 * Values that neither has, such as times and memory, are in groups of our own:
 * perf/, sys/, ckpt/, ranks/. contrib/wandb-follow has the same table.
 */
#include "config.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/str.h"
#include "report/record.h"
#include "report/report_impl.h"

/* Values of steps whose tag is not train/ and their name. */
static const struct row {
    const char *name;
    const char *hf;        /* transformers' and TRL's, or ours; NULL: train/ and
                              the name */
    const char *deepspeed; /* NULL: that of hf */
} rows[] = {
    {"loss", NULL, "Train/Samples/train_loss"},
    {"lr", "train/learning_rate", "Train/Samples/lr"},
    {"loss_scale", NULL, "Train/Samples/loss_scale"},
    {"total_tokens", "train/num_tokens", NULL},
    {"tokens", "perf/tokens", NULL},
    {"tokens_per_s", "perf/tokens_per_s", NULL},
    {"step_s", "perf/step_s", NULL},
    {"compute_s", "perf/compute_s", NULL},
    {"comm_s", "perf/comm_s", NULL},
    {"comm_exposed_s", "perf/comm_exposed_s", NULL},
    {"data_wait_s", "perf/data_wait_s", NULL},
    {"mfu", "perf/mfu", NULL},
    {"skipped", "perf/skipped", NULL},
    {"ckpt_stall_s", "ckpt/stall_s", NULL},
    {"mem", "sys/mem", NULL},
    {"mem_peak", "sys/mem_peak", NULL},
    {"energy_j", "sys/energy_j", NULL},
    {"tokens_per_j", "sys/tokens_per_j", NULL},
    {"rank_step_s/min", "ranks/fastest_s", NULL},
    {"rank_step_s/median", "ranks/median_s", NULL},
    {"rank_step_s/max", "ranks/slowest_s", NULL},
    {"rank_step_s/argmax", "ranks/slowest", NULL},
};

static const char *known_tag(enum dt_names names, const char *name)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (!strcmp(rows[i].name, name))
            return names == DT_NAMES_DEEPSPEED && rows[i].deepspeed
                       ? rows[i].deepspeed
                       : rows[i].hf;
    return NULL;
}

/* Replaces bytes that are not UTF-8: a reward may have any name, and readers
 * give up a file with such a string.
 */
static void clean_tag(char *tag)
{
    const size_t bytes = strlen(tag);
    for (size_t good; (good = dt_utf8_check(tag, bytes)) < bytes;)
        tag[good] = '_';
}

/* Whether the algorithm counts tokens as TRL does; else all tokens count. */
static bool counts_tokens(const struct dt_report_record *record)
{
    for (size_t i = 0; i < record->count; i++)
        if (!strcmp(record->value[i].name, "num_tokens"))
            return true;
    return false;
}

bool dt_names_tag(enum dt_names names, const struct dt_report_record *record,
                  size_t i, char tag[DT_TAG_BYTES])
{
    const char *name = record->value[i].name;
    const bool trains = record->split == DT_SPLIT_TRAIN;
    if (!isfinite(record->value[i].value) && strcmp(name, "loss") != 0 &&
        strcmp(name, "grad_norm") != 0)
        return false;
    if (!strcmp(name, "total_tokens") && counts_tokens(record))
        return false;
    const char *known = trains ? known_tag(names, name) : NULL;
    if (known)
        snprintf(tag, DT_TAG_BYTES, "%s", known);
    else
        snprintf(tag, DT_TAG_BYTES, "%s/%s", trains ? "train" : "eval", name);
    clean_tag(tag);
    return true;
}

/* --- files of events --- */

/* CRC-32C, masked: CRCs of data that has CRCs in it are poor. Castagnoli's
 * polynomial, reflected, from ones, inverted at the end: of "123456789" it is
 * e3069283.
 */
static uint32_t masked_checksum(const uint8_t *data, size_t bytes)
{
    static const uint32_t of_bits[16] = {
        0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1, 0x417b1dbc, 0x5125dad3,
        0x61c69362, 0x7198540d, 0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9,
        0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75};
    uint32_t crc = UINT32_MAX;
    for (size_t i = 0; i < bytes; i++) {
        crc = crc >> 4 ^ of_bits[(crc ^ data[i]) & 0xf];
        crc = crc >> 4 ^ of_bits[(crc ^ data[i] >> 4) & 0xf];
    }
    crc = ~crc;
    return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

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
        /* Only numbers of ten digits are ordered by name. */
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

static void end_record(struct dt_event_file *file)
{
    struct dt_protobuf *record = &file->record;
    uint8_t tail[4];
    if (record->failed)
        return;
    const size_t bytes = record->bytes - HEAD_BYTES;
    store_u32(record->data, (uint32_t)bytes);
    store_u32(record->data + 8, masked_checksum(record->data, 8));
    store_u32(tail, masked_checksum(record->data + HEAD_BYTES, bytes));
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
    if (dt_file_mkdirs(dir, err) < 0 || open_file(file, dir, wall, err) < 0 ||
        begin_session(file, wall, step, err) < 0) {
        dt_event_file_destroy(file);
        return NULL;
    }
    return file;
}

/* --- the sink --- */

struct dt_sink {
    struct dt_event_file *file;
    enum dt_names names;
    long samples; /* per step: the x axis of DeepSpeed's monitor; 0: steps */
    double wall;  /* of the last record: the reader refuses an event without a
                   * time
                   */
};

static void tensorboard_close(struct dt_sink *sink)
{
    if (sink)
        dt_event_file_destroy(sink->file);
    free(sink);
}

/* The place of a step on the x axis. */
static long tensorboard_x(const struct dt_sink *sink, long step)
{
    return sink->samples > 0 ? step * sink->samples : step;
}

static struct dt_sink *tensorboard_open(const struct dt_sink_options *options,
                                        struct dt_error *err)
{
    char *dir = NULL;
    const long first = options->first_step > 0 ? options->first_step + 1 : 0;
    struct dt_sink *sink = calloc(1, sizeof(*sink));
    if (!sink || asprintf(&dir, "%s/tb", options->dir) < 0) {
        dt_error_set(err, EX_OSERR, "out of memory");
        free(sink);
        return NULL;
    }
    sink->wall = dt_clock_wall();
    const json_t *config = json_object_get(options->run, "config");
    const char *names =
        json_string_value(json_object_get(config, "logging.names"));
    if (names && !strcmp(names, "deepspeed")) {
        sink->names = DT_NAMES_DEEPSPEED;
        sink->samples = (long)json_integer_value(
            json_object_get(config, "training.train_batch_size"));
    }
    sink->file =
        dt_event_file_create(dir, sink->wall, tensorboard_x(sink, first), err);
    free(dir);
    if (!sink->file) {
        free(sink);
        return NULL;
    }
    return sink;
}

/* All values of a record are one event. The steps of each tag rise, because
 * evaluations have other tags than training.
 */
static int tensorboard_record(struct dt_sink *sink,
                              const struct dt_report_record *record,
                              struct dt_error *err)
{
    char tag[DT_TAG_BYTES];
    if (isfinite(record->wall))
        sink->wall = record->wall;
    struct dt_protobuf *event = dt_event_file_begin(
        sink->file, sink->wall, tensorboard_x(sink, record->step));
    const size_t summary = dt_protobuf_begin(event, DT_EVENT_SUMMARY);
    for (size_t i = 0; i < record->count; i++) {
        if (!dt_names_tag(sink->names, record, i, tag))
            continue;
        const size_t value = dt_protobuf_begin(event, DT_SUMMARY_VALUE);
        dt_protobuf_string(event, DT_VALUE_TAG, tag);
        dt_protobuf_float(event, DT_VALUE_SIMPLE,
                          (float)record->value[i].value);
        dt_protobuf_end(event, value);
    }
    dt_protobuf_end(event, summary);
    return dt_event_file_end(sink->file, err);
}

const struct dt_sink_type dt_sink_tensorboard = {
    .name = "tensorboard",
    .open = tensorboard_open,
    .record = tensorboard_record,
    .close = tensorboard_close,
};
