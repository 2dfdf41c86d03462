/* SPDX-License-Identifier: Apache-2.0 */
/* cache.c - writes caches atomically and checks them when they are opened */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <xxhash.h>

#include "base/file.h"
#include "data/cache.h"

enum {
    WRITE_BYTES = 1 << 20, /* size of the write buffer */
    SAMPLES = 64,          /* ranges of tokens that are checked at once */
    SAMPLE_TOKENS = 16384,
};

#define MAGIC UINT64_C(0x534e4b5454440a07) /* version 7 */

struct header {
    uint64_t magic, key, stamp;
    uint64_t count, token_count, notes_bytes;
    struct dt_cache_counts counts;
    uint64_t body_hash;
    uint64_t hash; /* XXH3 of the fields above */
};

static uint64_t header_hash(const struct header *header)
{
    return XXH3_64bits(header, offsetof(struct header, hash));
}

static uint64_t block_count(uint64_t tokens)
{
    return tokens / DT_CACHE_BLOCK_TOKENS +
           (tokens % DT_CACHE_BLOCK_TOKENS > 0);
}

/* Sets the pointers and counts of a mapped cache from its header. */
static void locate_parts(struct dt_cache *cache, const struct header *header)
{
    const char *body = (const char *)cache->map.data + sizeof(*header);
    cache->counts = header->counts;
    cache->count = header->count;
    cache->token_count = header->token_count;
    cache->notes_bytes = header->notes_bytes;
    cache->offsets = (const void *)body;
    cache->sums = cache->offsets + header->count + 1;
    cache->tokens =
        (const void *)(cache->sums + block_count(header->token_count));
    cache->notes = (const char *)(cache->tokens + header->token_count);
}

/* XXH3 of the offsets, the sums, the notes and ranges of tokens spread over the
 * file: damage that can be found quickly is found before the run begins, when
 * the cache can be made again.
 */
static uint64_t body_hash(const struct dt_cache *cache)
{
    const uint64_t n = SAMPLE_TOKENS, tokens = cache->token_count;
    uint64_t samples = (tokens + n - 1) / n;
    samples = samples < SAMPLES ? samples : SAMPLES;
    uint64_t hash =
        XXH3_64bits(cache->offsets,
                    (const char *)cache->tokens - (const char *)cache->offsets);
    hash = XXH3_64bits_withSeed(cache->notes, cache->notes_bytes, hash);
    for (uint64_t i = 0; i < samples; i++) {
        uint64_t at = samples > 1 ? (tokens - n) * i / (samples - 1) : 0;
        hash = XXH3_64bits_withSeed(
            cache->tokens + at,
            (tokens < n ? tokens : n) * sizeof(*cache->tokens), hash);
    }
    return hash;
}

/* --- reading --- */

/* Whether the sizes in the header add up to the size of the file. */
static bool sizes_fit(const struct header *header, size_t bytes)
{
    size_t rest = bytes - sizeof(*header);
    if (header->count >= rest / sizeof(uint64_t))
        return false;
    rest -= (header->count + 1) * sizeof(uint64_t);
    if (header->token_count > rest / sizeof(uint32_t))
        return false;
    const uint64_t sums = block_count(header->token_count) * sizeof(uint64_t);
    if (sums > rest - header->token_count * sizeof(uint32_t))
        return false;
    rest -= sums;
    return rest - header->token_count * sizeof(uint32_t) == header->notes_bytes;
}

static bool counts_fit(const struct header *header)
{
    const struct dt_cache_counts *counts = &header->counts;
    return counts->bad <= counts->lines &&
           counts->dropped <= counts->lines - counts->bad &&
           counts->seams <= counts->pairs && counts->pairs <= header->count &&
           header->count == counts->lines - counts->bad - counts->dropped &&
           counts->words <= header->token_count &&
           counts->targets <= header->token_count - counts->words;
}

static bool offsets_fit(const struct dt_cache *cache)
{
    bool fit = cache->offsets[0] == 0 &&
               cache->offsets[cache->count] == cache->token_count;
    for (uint64_t i = 0; i < cache->count; i++)
        fit &= cache->offsets[i] <= cache->offsets[i + 1];
    return fit;
}

/* Whether the notes are NUL-terminated and have no control characters. */
static bool notes_fit(const struct dt_cache *cache)
{
    for (uint64_t i = 0; i < cache->notes_bytes; i++)
        if (cache->notes[i] != '\0' && (unsigned char)cache->notes[i] < 0x20)
            return false;
    return cache->notes_bytes == 0 ||
           cache->notes[cache->notes_bytes - 1] == '\0';
}

/* Returns the defect of the mapped file, or NULL after filling the rest of
 * *cache.
 */
static const char *examine_cache(struct dt_cache *cache, uint64_t key)
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
    locate_parts(cache, &header);
    if (header.body_hash != body_hash(cache))
        return "damaged";
    if (!offsets_fit(cache) || !notes_fit(cache))
        return "its offsets or notes are out of range";
    return NULL;
}

struct examination {
    struct dt_cache *cache;
    uint64_t key;
    const char *wrong;
};

static void guarded_examine(void *ctx)
{
    struct examination *e = ctx;
    e->wrong = examine_cache(e->cache, e->key);
}

int dt_cache_open(struct dt_cache *cache, const char *path, uint64_t key,
                  struct dt_error *err)
{
    struct examination e = {.cache = cache, .key = key};
    *cache = (struct dt_cache){0};
    if (dt_map_init(&cache->map, path, err) < 0)
        return -1;
    if (dt_guard_run(guarded_examine, &e) < 0)
        e.wrong = "cut short while it is read, or its disk fails";
    if (e.wrong) {
        dt_cache_close(cache);
        return dt_error_set(err, EX_DATAERR, "%s: %s", path, e.wrong);
    }
    cache->path = strdup(path);
    cache->checked = calloc(block_count(cache->token_count) + 1, 1);
    if (cache->path && cache->checked)
        return 0;
    dt_cache_close(cache);
    return dt_error_set(err, EX_OSERR, "out of memory");
}

static uint64_t block_sum(const struct dt_cache *cache, uint64_t block)
{
    const uint64_t first = block * DT_CACHE_BLOCK_TOKENS;
    const uint64_t left = cache->token_count - first;
    return XXH3_64bits(cache->tokens + first,
                       sizeof(*cache->tokens) * (left < DT_CACHE_BLOCK_TOKENS
                                                     ? left
                                                     : DT_CACHE_BLOCK_TOKENS));
}

int dt_cache_check(const struct dt_cache *cache, uint64_t first, uint64_t count,
                   struct dt_error *err)
{
    const uint64_t end = block_count(first + count);
    for (uint64_t b = first / DT_CACHE_BLOCK_TOKENS; b < end; b++) {
        if (__atomic_load_n(&cache->checked[b], __ATOMIC_RELAXED))
            continue;
        if (block_sum(cache, b) != cache->sums[b])
            return dt_error_set(
                err, EX_DATAERR,
                "%s: damaged: block %" PRIu64 " of %" PRIu64
                ", at byte %" PRIu64 ", has another checksum: remove the file, "
                "which is made again, and look at the disk that it is on",
                cache->path, b + 1, block_count(cache->token_count),
                (uint64_t)((const char *)(cache->tokens +
                                          b * DT_CACHE_BLOCK_TOKENS) -
                           (const char *)cache->map.data));
        __atomic_store_n(&cache->checked[b], 1, __ATOMIC_RELAXED);
    }
    return 0;
}

bool dt_cache_key(const char *path, uint64_t stamp, uint64_t *key)
{
    struct header header;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    bool known = fd >= 0 && stamp != 0 &&
                 read(fd, &header, sizeof(header)) == sizeof(header) &&
                 header.magic == MAGIC && header.hash == header_hash(&header) &&
                 header.stamp == stamp;
    if (fd >= 0)
        close(fd);
    if (known)
        *key = header.key;
    return known;
}

void dt_cache_close(struct dt_cache *cache)
{
    dt_map_fini(&cache->map);
    free(cache->checked);
    free(cache->path);
    *cache = (struct dt_cache){0};
}

/* --- writing --- */

struct sink {
    int fd;
    unsigned char *buffer; /* WRITE_BYTES */
    size_t held;
    uint64_t *sums;      /* of the blocks of tokens so far */
    uint64_t tokens;     /* so far */
    XXH3_state_t *state; /* of the block that is not full yet */
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
    int rc = write_all(sink->fd, sink->buffer, sink->held, -1);
    sink->held = 0;
    return rc;
}

static int put_bytes(struct sink *sink, const void *data, size_t bytes)
{
    const char *p = data;
    if (bytes >= WRITE_BYTES)
        return flush_sink(sink) < 0 ? -1 : write_all(sink->fd, p, bytes, -1);
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

/* Writes the first notes_limit notes and adds their size to *bytes. */
static int put_notes(struct sink *sink, const struct dt_cache *parts,
                     size_t part_count, size_t notes_limit, uint64_t *bytes)
{
    for (size_t i = 0; i < part_count; i++) {
        const char *note = parts[i].notes;
        const char *end = note + parts[i].notes_bytes;
        while (note < end && notes_limit > 0) {
            size_t n = strlen(note) + 1;
            if (put_bytes(sink, note, n) < 0)
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
    if (put_bytes(sink, &offset, sizeof(offset)) < 0)
        return -1;
    if (one_example)
        return put_bytes(sink, &header->token_count,
                         sizeof(header->token_count));
    for (size_t i = 0; i < part_count; i++) {
        for (uint64_t e = 1; e <= parts[i].count; e++) {
            uint64_t end = offset + parts[i].offsets[e];
            if (put_bytes(sink, &end, sizeof(end)) < 0)
                return -1;
        }
        offset += parts[i].token_count;
    }
    return 0;
}

/* Writes tokens and sums up their blocks. */
static int put_tokens(struct sink *sink, const uint32_t *tokens, uint64_t count)
{
    while (count > 0) {
        const uint64_t in_block = sink->tokens % DT_CACHE_BLOCK_TOKENS;
        uint64_t n = DT_CACHE_BLOCK_TOKENS - in_block;
        n = n < count ? n : count;
        if (in_block == 0)
            XXH3_64bits_reset(sink->state);
        XXH3_64bits_update(sink->state, tokens, n * sizeof(*tokens));
        sink->sums[sink->tokens / DT_CACHE_BLOCK_TOKENS] =
            XXH3_64bits_digest(sink->state);
        if (put_bytes(sink, tokens, n * sizeof(*tokens)) < 0)
            return -1;
        sink->tokens += n;
        tokens += n;
        count -= n;
    }
    return 0;
}

/* The sums are written again once they are known. */
static int put_body(struct sink *sink, const struct dt_cache *parts,
                    size_t part_count, bool one_example, size_t notes_limit,
                    struct header *header)
{
    const size_t sums = block_count(header->token_count) * sizeof(*sink->sums);
    if (put_offsets(sink, parts, part_count, header, one_example) < 0 ||
        put_bytes(sink, sink->sums, sums) < 0)
        return -1;
    for (size_t i = 0; i < part_count; i++)
        if (put_tokens(sink, parts[i].tokens, parts[i].token_count) < 0)
            return -1;
    if (put_notes(sink, parts, part_count, notes_limit, &header->notes_bytes) <
            0 ||
        flush_sink(sink) < 0)
        return -1;
    return write_all(
        sink->fd, sink->sums, sums,
        (off_t)(sizeof(*header) + (header->count + 1) * sizeof(uint64_t)));
}

static struct header sum_up(uint64_t key, uint64_t stamp,
                            const struct dt_cache *parts, size_t part_count)
{
    struct header header = {.magic = MAGIC, .key = key, .stamp = stamp};
    for (size_t i = 0; i < part_count; i++) {
        const struct dt_cache_counts *counts = &parts[i].counts;
        header.count += parts[i].count;
        header.token_count += parts[i].token_count;
        header.counts.lines += counts->lines;
        header.counts.bad += counts->bad;
        header.counts.dropped += counts->dropped;
        header.counts.pairs += counts->pairs;
        header.counts.seams += counts->seams;
        header.counts.renamed += counts->renamed;
        header.counts.targets += counts->targets;
        header.counts.words += counts->words;
    }
    return header;
}

/* Computes the checksum of the body by reading it back from the file. Returns
 * -1 and errno on failure.
 */
static int sum_body(const struct sink *sink, struct header *header)
{
    struct dt_cache cache = {.map.bytes =
                                 sizeof(*header) + header->notes_bytes};
    cache.map.bytes += (header->count + 1) * sizeof(*cache.offsets) +
                       block_count(header->token_count) * sizeof(*cache.sums) +
                       header->token_count * sizeof(*cache.tokens);
    void *data =
        mmap(NULL, cache.map.bytes, PROT_READ, MAP_SHARED, sink->fd, 0);
    if (data == MAP_FAILED)
        return -1;
    cache.map.data = data;
    locate_parts(&cache, header);
    header->body_hash = body_hash(&cache);
    return munmap(data, cache.map.bytes);
}

/* Writes the body, then the header before it, which needs the sizes and the
 * checksum of the body. Returns -1 and errno on failure.
 */
static int write_cache(struct sink *sink, struct header header,
                       const struct dt_cache *parts, size_t part_count,
                       bool one_example, size_t notes_limit)
{
    if (one_example)
        header.count = header.counts.lines = 1;
    if (!sink->buffer || !sink->sums || !sink->state ||
        lseek(sink->fd, sizeof(header), SEEK_SET) < 0 ||
        put_body(sink, parts, part_count, one_example, notes_limit, &header) <
            0 ||
        sum_body(sink, &header) < 0)
        return -1;
    header.hash = header_hash(&header);
    if (write_all(sink->fd, &header, sizeof(header), 0) < 0)
        return -1;
    return fsync(sink->fd);
}

int dt_cache_write(const char *path, const char *temporary, uint64_t key,
                   uint64_t stamp, const struct dt_cache *parts,
                   size_t part_count, bool one_example, size_t notes_limit,
                   struct dt_error *err)
{
    struct sink sink = {
        .fd = open(temporary, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)};
    if (sink.fd < 0)
        return dt_error_set(err, EX_CANTCREAT, "%s: cannot create: %s",
                            temporary, strerror(errno));
    const struct header header = sum_up(key, stamp, parts, part_count);
    sink.buffer = malloc(WRITE_BYTES);
    sink.sums = calloc(block_count(header.token_count) + 1, sizeof(*sink.sums));
    sink.state = XXH3_createState();
    int rc =
        write_cache(&sink, header, parts, part_count, one_example, notes_limit);
    int cause = errno;
    XXH3_freeState(sink.state);
    free(sink.sums);
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
