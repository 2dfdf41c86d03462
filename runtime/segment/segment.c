/* SPDX-License-Identifier: Apache-2.0 */
/*
 * segment.c - a file of named buffers
 *
 *     header   magic, hash, and an entry for each buffer
 *     buffers  in the order of entries, each from a multiple of ALIGN on
 */
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "device/huge.h"
#include "segment/segment.h"

enum {
    ENTRIES = 64,
    NAME_BYTES = 48,
    ALIGN = DT_HUGE_PAGE,
};

static const uint64_t magic = 0x316765736b746474; /* "dtktseg1" */

struct entry {
    char name[NAME_BYTES];
    uint64_t bytes;
};

struct header {
    uint64_t magic, hash;
    uint64_t count; /* of entries */
    struct entry entries[ENTRIES];
};

struct dt_segment {
    int fd;
    struct header *header;
    size_t count; /* buffers so far */
    size_t end;   /* of them in the file */
    bool found;   /* all of them were there */
    bool any;     /* one of them was */
    struct mapped {
        char *data;
        size_t combined; /* bytes, as far as they are huge pages */
    } mapped[ENTRIES];
};

static int fail(const char *call, struct dt_error *err)
{
    return dt_error_set(err, EX_OSERR, "segment: %s: %s", call,
                        strerror(errno));
}

/* Makes the file `bytes` long, and zero from `keep` on. */
static int cut(int fd, size_t keep, size_t bytes, struct dt_error *err)
{
    if (ftruncate(fd, (off_t)keep) < 0 || ftruncate(fd, (off_t)bytes) < 0)
        return fail("ftruncate", err);
    return 0;
}

/* Whether the file has a header with this hash. */
static bool is_same(const struct dt_segment *segment, uint64_t hash)
{
    const struct header *header = segment->header;
    return header->magic == magic && header->hash == hash &&
           header->count <= ENTRIES;
}

static int map_header(struct dt_segment *segment, uint64_t hash,
                      struct dt_error *err)
{
    struct stat st;
    if (fstat(segment->fd, &st) < 0)
        return fail("fstat", err);
    if (st.st_size < ALIGN && cut(segment->fd, 0, ALIGN, err) < 0)
        return -1;
    segment->header = mmap(NULL, sizeof(struct header), PROT_READ | PROT_WRITE,
                           MAP_SHARED, segment->fd, 0);
    if (segment->header == MAP_FAILED) {
        segment->header = NULL;
        return fail("mmap", err);
    }
    segment->found = is_same(segment, hash);
    if (segment->found)
        return 0;
    if (cut(segment->fd, 0, ALIGN, err) < 0)
        return -1;
    segment->header->hash = hash;
    segment->header->magic = magic;
    return 0;
}

struct dt_segment *dt_segment_open(int fd, uint64_t hash, struct dt_error *err)
{
    struct dt_segment *segment = malloc(sizeof(*segment));
    if (!segment) {
        dt_error_set(err, EX_OSERR, "out of memory");
        return NULL;
    }
    *segment = (struct dt_segment){.fd = fd, .end = ALIGN};
    if (map_header(segment, hash, err) == 0)
        return segment;
    dt_segment_close(segment);
    return NULL;
}

void dt_segment_close(struct dt_segment *segment)
{
    if (!segment)
        return;
    if (segment->header)
        munmap(segment->header, sizeof(struct header));
    free(segment);
}

/* Whether the next buffer is there, whole. */
static bool is_there(const struct dt_segment *segment, const char *name,
                     size_t bytes)
{
    const struct entry *entry = &segment->header->entries[segment->count];
    struct stat st;
    return segment->found && segment->count < segment->header->count &&
           strncmp(entry->name, name, NAME_BYTES) == 0 &&
           entry->bytes == bytes && fstat(segment->fd, &st) == 0 &&
           (size_t)st.st_size >= segment->end + bytes;
}

/* Makes the next buffer the last one, and zero. */
static int append(struct dt_segment *segment, const char *name, size_t bytes,
                  struct dt_error *err)
{
    struct entry *entry = &segment->header->entries[segment->count];
    segment->found = false;
    segment->header->count = segment->count;
    if (cut(segment->fd, segment->end, segment->end + bytes, err) < 0)
        return -1;
    snprintf(entry->name, NAME_BYTES, "%s", name);
    entry->bytes = bytes;
    __atomic_store_n(&segment->header->count, segment->count + 1,
                     __ATOMIC_RELEASE);
    return 0;
}

/* Maps a part of the file where huge pages can be. */
static void *map_aligned(int fd, size_t offset, size_t bytes)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t taken = (bytes + page - 1) / page * page;
    char *room = mmap(NULL, taken + ALIGN, PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == MAP_FAILED)
        return MAP_FAILED;
    const size_t before = (size_t)(-(uintptr_t)room % ALIGN);
    char *data = room + before;
    if (before > 0)
        munmap(room, before);
    if (before < ALIGN)
        munmap(data + taken, ALIGN - before);
    if (mmap(data, taken, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
             (off_t)offset) != MAP_FAILED)
        return data;
    munmap(data, taken);
    return MAP_FAILED;
}

static int map_buffer(struct dt_segment *segment, const char *name,
                      size_t bytes, bool fills, void **data,
                      struct dt_error *err)
{
    struct mapped *mapped = &segment->mapped[segment->count];
    if (segment->count == ENTRIES || strlen(name) >= NAME_BYTES)
        return dt_error_set(err, EX_SOFTWARE, "segment: no entry is left");
    if (is_there(segment, name, bytes))
        segment->any = true;
    else if (append(segment, name, bytes, err) < 0)
        return -1;
    *data = map_aligned(segment->fd, segment->end, bytes);
    if (*data == MAP_FAILED)
        return fail("mmap", err);
    *mapped = (struct mapped){*data, fills ? bytes : 0};
    dt_huge_combine(mapped->data, mapped->combined);
    segment->count++;
    segment->end += (bytes + ALIGN - 1) / ALIGN * ALIGN;
    return 0;
}

static struct dt_buffer *create(struct dt_segment *segment, const char *name,
                                size_t bytes, bool fills, struct dt_error *err)
{
    struct dt_buffer *buf = malloc(sizeof(*buf));
    if (!buf) {
        dt_error_set(err, EX_OSERR, "out of memory");
        return NULL;
    }
    *buf = (struct dt_buffer){.bytes = bytes, .device = &dt_cpu};
    if (map_buffer(segment, name, bytes, fills, &buf->data, err) == 0)
        return buf;
    dt_error_prefix(err, "cannot allocate %zu bytes for %s", bytes, name);
    free(buf);
    return NULL;
}

struct dt_buffer *dt_segment_buffer(struct dt_segment *segment,
                                    const char *name, size_t bytes,
                                    struct dt_error *err)
{
    return create(segment, name, bytes, true, err);
}

struct dt_buffer *dt_segment_room(struct dt_segment *segment, const char *name,
                                  size_t bytes, struct dt_error *err)
{
    return create(segment, name, bytes, false, err);
}

bool dt_segment_found(const struct dt_segment *segment)
{
    return segment->found;
}

int dt_segment_clear(struct dt_segment *segment, struct dt_error *err)
{
    segment->found = false;
    if (!segment->any)
        return 0;
    segment->any = false;
    if (cut(segment->fd, ALIGN, segment->end, err) < 0)
        return -1;
    for (size_t i = 0; i < segment->count; i++)
        dt_huge_combine(segment->mapped[i].data, segment->mapped[i].combined);
    return 0;
}

size_t dt_segment_held(int fd)
{
    enum { BLOCK_BYTES = 512 }; /* of st_blocks */
    struct stat st;
    return fstat(fd, &st) == 0 ? (size_t)st.st_blocks * BLOCK_BYTES : 0;
}
