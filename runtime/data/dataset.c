/* SPDX-License-Identifier: Apache-2.0 */
/* dataset.c - maps text and token files and reads them as one token stream */
#include "config.h"

#include <assert.h>
#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "base/file.h"
#include "base/kind.h"
#include "base/str.h"
#include "data/dataset.h"
#include "tokenizer/tokenizer.h"

enum {
    LLMC_HEADER_BYTES = 1024,
    SAMPLES = 64, /* ranges of the stream that are checked at open */
    SAMPLE_TOKENS = 16384,
};

struct shard {
    char *path;
    struct dt_map map;
    const void *data; /* the first token, inside map */
    size_t width;     /* bytes of a token: 1 for text, or 2, 4 */
    size_t first;     /* position of its first token in the stream */
    size_t count;     /* number of tokens, with the EOT that ends text */
};

struct dt_dataset {
    struct shard *shards;
    size_t shard_count;
    size_t tokens;
    size_t vocab_size;
    uint64_t hash;
};

/* --- open one file --- */

/* Files of llm.c by their first word. A width of 0 marks files that are known
 * but hold no training data.
 */
static const struct {
    uint32_t magic, version;
    size_t width;
    const char *what;
} llmc_files[] = {
    {20240520, 1, 2, "llm.c tokens (GPT-2)"},
    {20240801, 7, 4, "llm.c tokens (Llama 3)"},
    {20240522, 1, 0, "an llm.c evaluation file"},
    {20240326, 0, 0, "an llm.c model"},
    {20240328, 0, 0, "an llm.c tokenizer"},
};

static uint32_t header_word(const struct dt_map *map, size_t i)
{
    uint32_t word;
    memcpy(&word, (const char *)map->data + 4 * i, sizeof(word));
    return le32toh(word);
}

/* Index in llmc_files, or -1. */
static int find_magic(const struct dt_map *map)
{
    int count = sizeof(llmc_files) / sizeof(llmc_files[0]);
    for (int i = 0; map->bytes >= sizeof(uint32_t) && i < count; i++)
        if (header_word(map, 0) == llmc_files[i].magic)
            return i;
    return -1;
}

static int open_llmc(struct shard *shard, int kind, struct dt_error *err)
{
    const struct dt_map *map = &shard->map;
    const char *what = llmc_files[kind].what;
    size_t width = llmc_files[kind].width;
    if (width == 0)
        return dt_error_set(err, EX_DATAERR, "%s: %s, not training tokens",
                            shard->path, what);
    if (map->bytes < LLMC_HEADER_BYTES)
        return dt_error_set(err, EX_DATAERR,
                            "%s: %zu bytes, shorter than the "
                            "%d of the header of %s",
                            shard->path, map->bytes, LLMC_HEADER_BYTES, what);
    uint32_t version = header_word(map, 1);
    size_t count = header_word(map, 2);
    if (version != llmc_files[kind].version)
        return dt_error_set(err, EX_DATAERR,
                            "%s: byte 4: version %u of %s, "
                            "expected %u",
                            shard->path, version, what,
                            llmc_files[kind].version);
    if (count == 0 || map->bytes - LLMC_HEADER_BYTES != count * width)
        return dt_error_set(err, EX_DATAERR,
                            "%s: byte 8: header says %zu "
                            "tokens of %zu bytes, but %zu bytes follow it",
                            shard->path, count, width,
                            map->bytes - LLMC_HEADER_BYTES);
    shard->data = (const char *)map->data + LLMC_HEADER_BYTES;
    shard->width = width;
    shard->count = count;
    return 0;
}

static int open_raw(struct shard *shard, struct dt_error *err)
{
    if (shard->map.bytes % 2)
        return dt_error_set(err, EX_DATAERR,
                            "%s: %zu bytes, not a whole "
                            "number of 2-byte tokens",
                            shard->path, shard->map.bytes);
    shard->data = shard->map.data;
    shard->width = 2;
    shard->count = shard->map.bytes / 2;
    return 0;
}

/* Reports a read that failed because the file was truncated or the disk failed.
 */
static int lost_file(const struct shard *shard, struct dt_error *err)
{
    return dt_error_set(err, EX_IOERR,
                        "%s: cut short while it is read, or its disk fails",
                        shard->path);
}

struct text_check {
    const struct dt_map *map;
    size_t good;
    unsigned char bad;
};

static void check_text(void *ctx)
{
    struct text_check *check = ctx;
    const unsigned char *text = check->map->data;
    check->good = dt_utf8_check(text, check->map->bytes);
    if (check->good < check->map->bytes)
        check->bad = text[check->good];
}

static int open_text(struct shard *shard, struct dt_error *err)
{
    struct text_check check = {.map = &shard->map};
    if (dt_guard_run(check_text, &check) < 0)
        return lost_file(shard, err);
    if (check.good < shard->map.bytes)
        return dt_error_set(err, EX_DATAERR,
                            "%s: byte %zu (0x%02x): not UTF-8 text: `iconv -f "
                            "LATIN1 -t UTF-8` makes UTF-8 of Latin-1; token "
                            "files end in .bin",
                            shard->path, check.good, check.bad);
    shard->data = shard->map.data;
    shard->width = 1;
    shard->count = shard->map.bytes + 1;
    return 0;
}

static int open_shard(struct shard *shard, const char *path,
                      enum dt_format format, struct dt_error *err)
{
    struct dt_found found;
    shard->path = strdup(path);
    if (!shard->path)
        return dt_error_set(err, EX_OSERR, "%s: out of memory", path);
    if (dt_kind_find(path, dt_kind_asked_by(format), &found, err) < 0)
        return -1;
    if (found.kind == DT_KIND_LINES)
        return dt_error_set(err, EX_DATAERR,
                            "%s: lines of JSON, not a stream of tokens", path);
    if (dt_map_init(&shard->map, path, err) < 0)
        return -1;
    if (shard->map.bytes == 0)
        return dt_error_set(err, EX_DATAERR, "%s: empty", path);
    if (found.kind == DT_KIND_TEXT)
        return open_text(shard, err);
    int magic = find_magic(&shard->map);
    return magic < 0 ? open_raw(shard, err) : open_llmc(shard, magic, err);
}

/* --- read --- */

/* The shard that holds token `at`. */
static const struct shard *find_shard(const struct dt_dataset *dataset,
                                      size_t at)
{
    size_t low = 0, high = dataset->shard_count;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (dataset->shards[middle].first <= at)
            low = middle;
        else
            high = middle;
    }
    return &dataset->shards[low];
}

/* Copies tokens of one shard and returns the largest id. */
static uint32_t copy_from(const struct shard *shard, size_t first, size_t count,
                          int32_t *out)
{
    uint32_t largest = 0, id;
    if (shard->width == 1) {
        const uint8_t *in = (const uint8_t *)shard->data + first;
        size_t bytes = shard->map.bytes - first;
        for (size_t i = 0; i < (count < bytes ? count : bytes); i++)
            out[i] = in[i];
        if (count > bytes)
            out[bytes] = DT_BYTE_EOT;
        return DT_BYTE_EOT; /* open has checked that vocab_size is larger */
    }
    for (size_t i = 0; i < count; i++) {
        id = shard->width == 2
                 ? le16toh(((const uint16_t *)shard->data)[first + i])
                 : le32toh(((const uint32_t *)shard->data)[first + i]);
        out[i] = (int32_t)id;
        largest = largest > id ? largest : id;
    }
    return largest;
}

struct copy {
    const struct shard *shard;
    size_t first, count;
    int32_t *out;
    uint32_t largest;
};

static void copy_tokens(void *ctx)
{
    struct copy *copy = ctx;
    copy->largest = copy_from(copy->shard, copy->first, copy->count, copy->out);
}

/* Reports the first of the tokens just read that is too large. */
static int bad_token(const struct dt_dataset *dataset,
                     const struct shard *shard, size_t first,
                     const int32_t *tokens, struct dt_error *err)
{
    size_t i = 0;
    while ((uint32_t)tokens[i] < dataset->vocab_size)
        i++;
    size_t offset =
        (size_t)((const char *)shard->data - (const char *)shard->map.data) +
        (first + i) * shard->width;
    return dt_error_set(err, EX_DATAERR,
                        "%s: byte %zu: token id %u, but the "
                        "model's vocab_size is %zu",
                        shard->path, offset, (uint32_t)tokens[i],
                        dataset->vocab_size);
}

int dt_dataset_read(const struct dt_dataset *dataset, size_t first,
                    size_t count, int32_t *out, struct dt_error *err)
{
    assert(first <= dataset->tokens && count <= dataset->tokens - first);
    if (count == 0)
        return 0;
    for (const struct shard *s = find_shard(dataset, first); count; s++) {
        size_t at = first - s->first;
        size_t n = s->count - at < count ? s->count - at : count;
        struct copy copy = {s, at, n, out, 0};
        if (dt_guard_run(copy_tokens, &copy) < 0)
            return lost_file(s, err);
        if (copy.largest >= dataset->vocab_size)
            return bad_token(dataset, s, at, out, err);
        first += n;
        count -= n;
        out += n;
    }
    return 0;
}

/* --- the dataset --- */

static int open_shards(struct dt_dataset *dataset, const char *const *paths,
                       enum dt_format format, struct dt_error *err)
{
    for (size_t i = 0; i < dataset->shard_count; i++) {
        struct shard *shard = &dataset->shards[i];
        if (open_shard(shard, paths[i], format, err) < 0)
            return -1;
        if ((shard->width == 1) != (dataset->shards[0].width == 1))
            return dt_error_set(err, EX_DATAERR,
                                "%s holds %s, but %s holds "
                                "%s: one dataset has one kind",
                                paths[0], shard->width == 1 ? "tokens" : "text",
                                paths[i],
                                shard->width == 1 ? "text" : "tokens");
        shard->first = dataset->tokens;
        dataset->tokens += shard->count;
    }
    if (dataset->shards[0].width == 1 && dataset->vocab_size < DT_BYTE_VOCAB)
        return dt_error_set(err, EX_DATAERR,
                            "%s: text needs a vocab_size of "
                            "at least %d (256 bytes and the end of a "
                            "document), the model has %zu",
                            paths[0], DT_BYTE_VOCAB, dataset->vocab_size);
    return 0;
}

/* Reads, and so checks, SAMPLES ranges spread over the stream. */
static int compute_fingerprint(struct dt_dataset *dataset, struct dt_error *err)
{
    int rc = -1;
    uint64_t tokens = dataset->tokens;
    size_t n = tokens < SAMPLE_TOKENS ? tokens : SAMPLE_TOKENS;
    size_t samples =
        (tokens + n - 1) / n < SAMPLES ? (tokens + n - 1) / n : SAMPLES;
    XXH3_state_t *state = XXH3_createState();
    int32_t *sample = malloc(n * sizeof(*sample));
    if (!state || !sample) {
        dt_error_set(err, EX_OSERR, "dataset: out of memory");
        goto done;
    }
    XXH3_64bits_reset(state);
    XXH3_64bits_update(state, &tokens, sizeof(tokens));
    for (size_t i = 0; i < samples; i++) {
        size_t first = samples > 1 ? (tokens - n) * i / (samples - 1) : 0;
        if (dt_dataset_read(dataset, first, n, sample, err) < 0)
            goto done;
        XXH3_64bits_update(state, sample, n * sizeof(*sample));
    }
    dataset->hash = XXH3_64bits_digest(state);
    rc = 0;
done:
    free(sample);
    XXH3_freeState(state);
    return rc;
}

struct dt_dataset *dt_dataset_open(const char *const *paths, size_t path_count,
                                   enum dt_format format, size_t vocab_size,
                                   struct dt_error *err)
{
    assert(path_count > 0);
    struct dt_dataset *dataset = calloc(1, sizeof(*dataset));
    if (dataset)
        dataset->shards = calloc(path_count, sizeof(*dataset->shards));
    if (!dataset || !dataset->shards) {
        free(dataset);
        dt_error_set(err, EX_OSERR, "dataset: out of memory");
        return NULL;
    }
    dataset->shard_count = path_count;
    dataset->vocab_size = vocab_size;
    if (open_shards(dataset, paths, format, err) < 0 ||
        compute_fingerprint(dataset, err) < 0) {
        dt_dataset_close(dataset);
        return NULL;
    }
    return dataset;
}

void dt_dataset_close(struct dt_dataset *dataset)
{
    if (!dataset)
        return;
    for (size_t i = 0; i < dataset->shard_count; i++) {
        dt_map_fini(&dataset->shards[i].map);
        free(dataset->shards[i].path);
    }
    free(dataset->shards);
    free(dataset);
}

size_t dt_dataset_tokens(const struct dt_dataset *dataset)
{
    return dataset->tokens;
}

uint64_t dt_dataset_hash(const struct dt_dataset *dataset)
{
    return dataset->hash;
}
