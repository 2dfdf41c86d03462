/* SPDX-License-Identifier: Apache-2.0 */
/* cache.c - writing caches whole, and believing none */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <xxhash.h>

#include "data/cache.h"
#include "data/examples.h"

enum {
    WRITE_BYTES = 1 << 20, /* at a time */
};

#define MAGIC UINT64_C(0x534e4b5454440a01) /* of version 1 */

struct header {
    uint64_t magic, key;
    uint64_t count, token_count, notes_bytes;
    struct dt_cache_counts counts;
    uint64_t body_hash; /* XXH3 of all behind the header */
    uint64_t hash;      /* XXH3 of the header before it */
};

static uint64_t header_hash(const struct header *header)
{
    return XXH3_64bits(header, offsetof(struct header, hash));
}

/* --- reading --- */

/* Do the sizes in the header add up to those of the file? */
static bool sizes_fit(const struct header *header, size_t bytes)
{
    size_t rest = bytes - sizeof(*header);
    if (header->count >= rest / sizeof(uint64_t))
        return false;
    rest -= (header->count + 1) * sizeof(uint64_t);
    if (header->token_count > rest / sizeof(uint32_t))
        return false;
    return rest - header->token_count * sizeof(uint32_t) == header->notes_bytes;
}

static bool counts_fit(const struct header *header)
{
    const struct dt_cache_counts *counts = &header->counts;
    return counts->bad <= counts->lines && counts->seams <= counts->pairs &&
           counts->pairs <= header->count &&
           header->count == counts->lines - counts->bad &&
           counts->targets <= header->token_count;
}

static bool offsets_fit(const struct dt_cache *cache)
{
    bool fit = cache->offsets[0] == 0 &&
               cache->offsets[cache->count] == cache->token_count;
    for (uint64_t i = 0; i < cache->count; i++)
        fit &= cache->offsets[i] <= cache->offsets[i + 1];
    return fit;
}

static bool ids_fit(const struct dt_cache *cache, size_t vocab_size)
{
    uint32_t largest = 0;
    for (uint64_t i = 0; i < cache->token_count; i++) {
        uint32_t id = cache->tokens[i] & ~DT_TARGET_BIT;
        largest = largest > id ? largest : id;
    }
    return cache->token_count == 0 || largest < vocab_size;
}

/* Strings without control characters. */
static bool notes_fit(const struct dt_cache *cache)
{
    for (uint64_t i = 0; i < cache->notes_bytes; i++)
        if (cache->notes[i] != '\0' && (unsigned char)cache->notes[i] < 0x20)
            return false;
    return cache->notes_bytes == 0 ||
           cache->notes[cache->notes_bytes - 1] == '\0';
}

/* What is wrong with the file, or NULL; fills the rest of *cache. */
static const char *examine(struct dt_cache *cache, uint64_t key,
                           size_t vocab_size)
{
    struct header header;
    if (cache->map.bytes < sizeof(header))
        return "shorter than its header";
    memcpy(&header, cache->map.data, sizeof(header));
    if (header.magic != MAGIC)
        return "not a cache of this version";
    if (header.hash != header_hash(&header))
        return "a damaged header";
    if (header.key != key)
        return "made from other content, another tokenizer or other options";
    if (!sizes_fit(&header, cache->map.bytes) || !counts_fit(&header))
        return "not of the size that its header says";
    const char *body = (const char *)cache->map.data + sizeof(header);
    if (header.body_hash !=
        XXH3_64bits(body, cache->map.bytes - sizeof(header)))
        return "damaged";
    cache->counts = header.counts;
    cache->count = header.count;
    cache->token_count = header.token_count;
    cache->notes_bytes = header.notes_bytes;
    cache->offsets = (const void *)body;
    cache->tokens = (const void *)(cache->offsets + header.count + 1);
    cache->notes = (const char *)(cache->tokens + header.token_count);
    if (!offsets_fit(cache) || !ids_fit(cache, vocab_size) || !notes_fit(cache))
        return "its offsets, tokens or notes are out of range";
    return NULL;
}

int dt_cache_open(struct dt_cache *cache, const char *path, uint64_t key,
                  size_t vocab_size, struct dt_error *err)
{
    *cache = (struct dt_cache){0};
    if (dt_map_init(&cache->map, path, err) < 0)
        return -1;
    const char *wrong = examine(cache, key, vocab_size);
    if (!wrong)
        return 0;
    dt_cache_close(cache);
    return dt_error_set(err, EX_DATAERR, "%s: %s", path, wrong);
}

void dt_cache_close(struct dt_cache *cache)
{
    dt_map_fini(&cache->map);
    *cache = (struct dt_cache){0};
}

/* --- writing --- */

struct sink {
    int fd;
    XXH3_state_t *hash;
    unsigned char *buffer; /* WRITE_BYTES */
    size_t held;
};

static int write_all(int fd, const void *data, size_t bytes, off_t at)
{
    const char *p = data;
    while (bytes > 0) {
        ssize_t n = at < 0 ? write(fd, p, bytes) : pwrite(fd, p, bytes, at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return -1;
        p += n;
        bytes -= (size_t)n;
        at = at < 0 ? at : at + n;
    }
    return 0;
}

static int flush_sink(struct sink *sink)
{
    XXH3_64bits_update(sink->hash, sink->buffer, sink->held);
    int rc = write_all(sink->fd, sink->buffer, sink->held, -1);
    sink->held = 0;
    return rc;
}

static int put(struct sink *sink, const void *data, size_t bytes)
{
    const char *p = data;
    while (bytes > 0) {
        size_t n = WRITE_BYTES - sink->held;
        n = n < bytes ? n : bytes;
        memcpy(sink->buffer + sink->held, p, n);
        sink->held += n;
        p += n;
        bytes -= n;
        if (sink->held == WRITE_BYTES && flush_sink(sink) < 0)
            return -1;
    }
    return 0;
}

/* The first notes_limit notes; their bytes go to *bytes. */
static int put_notes(struct sink *sink, const struct dt_cache *parts,
                     size_t part_count, size_t notes_limit, uint64_t *bytes)
{
    for (size_t i = 0; i < part_count; i++) {
        const char *note = parts[i].notes;
        const char *end = note + parts[i].notes_bytes;
        while (note < end && notes_limit > 0) {
            size_t n = strlen(note) + 1;
            if (put(sink, note, n) < 0)
                return -1;
            *bytes += n;
            note += n;
            notes_limit--;
        }
    }
    return 0;
}

static int put_offsets(struct sink *sink, const struct dt_cache *parts,
                       size_t part_count, const struct header *header,
                       bool one_example)
{
    uint64_t offset = 0;
    if (put(sink, &offset, sizeof(offset)) < 0)
        return -1;
    if (one_example)
        return put(sink, &header->token_count, sizeof(header->token_count));
    for (size_t i = 0; i < part_count; i++) {
        for (uint64_t e = 1; e <= parts[i].count; e++) {
            uint64_t end = offset + parts[i].offsets[e];
            if (put(sink, &end, sizeof(end)) < 0)
                return -1;
        }
        offset += parts[i].token_count;
    }
    return 0;
}

static int put_body(struct sink *sink, const struct dt_cache *parts,
                    size_t part_count, bool one_example, size_t notes_limit,
                    struct header *header)
{
    if (put_offsets(sink, parts, part_count, header, one_example) < 0)
        return -1;
    for (size_t i = 0; i < part_count; i++)
        if (put(sink, parts[i].tokens,
                parts[i].token_count * sizeof(*parts[i].tokens)) < 0)
            return -1;
    if (put_notes(sink, parts, part_count, notes_limit, &header->notes_bytes) <
        0)
        return -1;
    return flush_sink(sink);
}

static struct header sum_up(uint64_t key, const struct dt_cache *parts,
                            size_t part_count)
{
    struct header header = {.magic = MAGIC, .key = key};
    for (size_t i = 0; i < part_count; i++) {
        const struct dt_cache_counts *counts = &parts[i].counts;
        header.count += parts[i].count;
        header.token_count += parts[i].token_count;
        header.counts.lines += counts->lines;
        header.counts.bad += counts->bad;
        header.counts.pairs += counts->pairs;
        header.counts.seams += counts->seams;
        header.counts.renamed += counts->renamed;
        header.counts.targets += counts->targets;
    }
    return header;
}

/* Everything, with the header last. -1 and errno. */
static int write_cache(struct sink *sink, uint64_t key,
                       const struct dt_cache *parts, size_t part_count,
                       bool one_example, size_t notes_limit)
{
    struct header header = sum_up(key, parts, part_count);
    if (one_example)
        header.count = header.counts.lines = 1;
    if (!sink->hash || !sink->buffer) {
        errno = ENOMEM;
        return -1;
    }
    XXH3_64bits_reset(sink->hash);
    if (lseek(sink->fd, sizeof(header), SEEK_SET) < 0 ||
        put_body(sink, parts, part_count, one_example, notes_limit, &header) <
            0)
        return -1;
    header.body_hash = XXH3_64bits_digest(sink->hash);
    header.hash = header_hash(&header);
    if (write_all(sink->fd, &header, sizeof(header), 0) < 0)
        return -1;
    return fsync(sink->fd);
}

int dt_cache_write(const char *path, const char *temporary, uint64_t key,
                   const struct dt_cache *parts, size_t part_count,
                   bool one_example, size_t notes_limit, struct dt_error *err)
{
    struct sink sink = {
        .fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)};
    if (sink.fd < 0)
        return dt_error_set(err, EX_CANTCREAT, "%s: cannot create: %s",
                            temporary, strerror(errno));
    sink.hash = XXH3_createState();
    sink.buffer = malloc(WRITE_BYTES);
    int rc =
        write_cache(&sink, key, parts, part_count, one_example, notes_limit);
    int cause = errno;
    XXH3_freeState(sink.hash);
    free(sink.buffer);
    if (close(sink.fd) < 0 && rc == 0) {
        rc = -1;
        cause = errno;
    }
    if (rc == 0 && rename(temporary, path) == 0)
        return 0;
    if (rc == 0)
        cause = errno;
    unlink(temporary);
    return dt_error_set(err, EX_IOERR, "%s: cannot write: %s", path,
                        strerror(cause));
}
