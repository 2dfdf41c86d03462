/* SPDX-License-Identifier: Apache-2.0 */
/* examples.c - which cache a file needs, and opening it */
#include "config.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include <xxhash.h>

#include "base/kind.h"
#include "data/examples_impl.h"
#include "data/utf8.h"

enum {
    FIRST_LINES = 100, /* looked at for the layout */
    SHOWN = 3,         /* bad lines in an error */
    SEAM_SHARE = 100,  /* one in so many pairs may not join */
    YOUNG_S = 2,       /* longer than the clock of any file system */
};

struct dt_examples {
    struct dt_cache cache;
    uint64_t key;
};

/* --- what is in the file? --- */

/* The layout of the first line that has one. */
static int find_layout(struct dt_make *make, struct dt_error *err)
{
    struct dt_error other;
    const char *data = make->map.data, *line;
    size_t at = 0, length;
    uint64_t number = 0;
    make->layout = make->options->layout;
    if (make->layout != DT_LINES_AUTO)
        return 0;
    for (int i = 0; i < FIRST_LINES; i++) {
        line = dt_jsonl_next(data, make->map.bytes, &at, &number, &length);
        if (!line && i == 0)
            dt_error_set(err, EX_DATAERR, "%s: empty", make->path);
        if (!line)
            break;
        if (dt_jsonl_layout(line, length, make->options, &make->layout,
                            i ? &other : err) == 0)
            return 0;
        if (i == 0)
            dt_error_prefix(err, "%s:%" PRIu64, make->path, number);
    }
    return -1;
}

/* The loss of AUTO, or a complaint. */
static int choose_loss(struct dt_make *make, struct dt_error *err)
{
    static const char *const names[] = {"text", "text", "prompt_completion",
                                        "messages", "tokens"};
    bool pairs = make->layout == DT_LINES_PROMPT_COMPLETION;
    bool turns = make->layout == DT_LINES_MESSAGES;
    make->loss_on = make->options->loss_on;
    if (make->loss_on == DT_LOSS_AUTO)
        make->loss_on = pairs ? DT_LOSS_COMPLETION : DT_LOSS_FULL;
    if (make->loss_on == DT_LOSS_COMPLETION && !pairs)
        return dt_error_set(err, EX_DATAERR,
                            "%s: data.loss_on: completion needs prompt and "
                            "completion, the file holds %s",
                            make->path, names[make->layout]);
    if (make->loss_on == DT_LOSS_ASSISTANT && !pairs && !turns)
        return dt_error_set(err, EX_DATAERR,
                            "%s: data.loss_on: assistant needs messages, the "
                            "file holds %s",
                            make->path, names[make->layout]);
    return 0;
}

/* A chat template is needed for messages; for pairs it turns out later. */
static int choose_chat(struct dt_make *make, struct dt_error *err)
{
    const char *name = make->options->chat_template;
    if (make->layout != DT_LINES_MESSAGES &&
        make->layout != DT_LINES_PROMPT_COMPLETION)
        return 0;
    if (strcmp(name, "none") == 0)
        dt_error_set(&make->no_chat, EX_CONFIG,
                     "messages need a chat template, and data.chat_template is "
                     "none; there are " DT_CHAT_NAMES);
    else
        make->chat = dt_chat_create(name, make->tokenizer, &make->no_chat);
    if (make->chat && dt_chat_warning(make->chat))
        dt_make_note(make, "%s: %s", make->path, dt_chat_warning(make->chat));
    if (make->chat || make->layout == DT_LINES_PROMPT_COMPLETION)
        return 0;
    if (err)
        *err = make->no_chat;
    return dt_error_prefix(err, "%s", make->path);
}

static int examine(struct dt_make *make, struct dt_error *err)
{
    static const enum dt_kind_asked asked[] = {
        [DT_LINES_AUTO] = DT_ASKED_AUTO,
        [DT_LINES_TEXT] = DT_ASKED_TEXT,
        [DT_LINES_PROMPT_COMPLETION] = DT_ASKED_LINES,
        [DT_LINES_MESSAGES] = DT_ASKED_LINES,
        [DT_LINES_TOKENS] = DT_ASKED_LINES,
    };
    enum dt_kind kind;
    if (dt_kind_find(make->path, asked[make->options->layout], &kind, err) < 0)
        return -1;
    if (kind == DT_KIND_TOKENS)
        return dt_error_set(err, EX_DATAERR,
                            "%s: a token file, which is read as it is and "
                            "needs no preparing",
                            make->path);
    if (kind == DT_KIND_LINES)
        return find_layout(make, err) < 0 || choose_loss(make, err) < 0 ||
                       choose_chat(make, err) < 0
                   ? -1
                   : 0;
    make->layout = DT_LINES_TEXT;
    make->is_text = true;
    if (make->map.bytes == 0)
        return dt_error_set(err, EX_DATAERR, "%s: empty", make->path);
    return choose_loss(make, err);
}

/* --- its cache --- */

static void hash_string(XXH3_state_t *state, const char *string)
{
    XXH3_64bits_update(state, string ? string : "",
                       string ? strlen(string) : 0);
    XXH3_64bits_update(state, "", 1);
}

/* What the tokens depend on besides the file. */
static void hash_options(XXH3_state_t *state, const struct dt_make *make)
{
    const struct dt_example_options *options = make->options;
    const uint64_t numbers[] = {
        dt_tokenizer_hash(make->tokenizer),
        (uint64_t)dt_tokenizer_special(make->tokenizer, DT_TOKEN_BOS),
        (uint64_t)dt_tokenizer_special(make->tokenizer, DT_TOKEN_EOS),
        make->layout,
        make->loss_on,
        options->parse_special,
        make->is_text,
    };
    XXH3_64bits_update(state, numbers, sizeof(numbers));
    hash_string(state, options->text_key ? options->text_key : "text");
    hash_string(state, options->prompt_key ? options->prompt_key : "prompt");
    hash_string(state, options->completion_key ? options->completion_key
                                               : "completion");
    hash_string(state,
                options->messages_key ? options->messages_key : "messages");
    hash_string(state, options->chat_template);
    hash_string(state, dt_tokenizer_chat_template(make->tokenizer));
}

/* What shows that a file was changed, in place or by another one; 0 for one so
 * young that its time may stay as it is.
 */
static uint64_t stamp_of(const char *path)
{
    struct stat st;
    if (stat(path, &st) < 0 || time(NULL) - st.st_ctim.tv_sec < YOUNG_S)
        return 0;
    const int64_t numbers[] = {
        st.st_size,         (int64_t)st.st_ino, st.st_mtim.tv_sec,
        st.st_mtim.tv_nsec, st.st_ctim.tv_sec,  st.st_ctim.tv_nsec,
    };
    return XXH3_64bits(numbers, sizeof(numbers));
}

/* The whole file. */
struct content {
    const struct dt_make *make;
    uint64_t seed, hash;
    size_t good; /* bytes of UTF-8, of a text */
    unsigned char bad;
};

static void read_content(void *ctx)
{
    struct content *content = ctx;
    const struct dt_map *map = &content->make->map;
    const unsigned char *bytes = map->data;
    content->hash = XXH3_64bits_withSeed(bytes, map->bytes, content->seed);
    content->good = map->bytes;
    if (content->make->is_text)
        content->good = dt_utf8_check(bytes, map->bytes);
    if (content->good < map->bytes)
        content->bad = bytes[content->good];
}

/* Fills make->key, from the cache if the file is known to be as it was. */
static int find_key(struct dt_make *make, uint64_t seed, struct dt_error *err)
{
    struct content content = {.make = make, .seed = seed};
    if (dt_cache_key(make->cache, make->stamp, &make->key))
        return 0;
    if (dt_make_read(make, read_content, &content, err) < 0)
        return -1;
    make->key = content.hash;
    if (content.good == make->map.bytes)
        return 0;
    return dt_error_set(err, EX_DATAERR,
                        "%s: byte %zu (0x%02x): not UTF-8 text", make->path,
                        content.good, content.bad);
}

/* Fills make->key and the names of the files. Caches of several folders may
 * meet in cache_dir.
 */
static int name_cache(struct dt_make *make, struct dt_error *err)
{
    const char *slash = strrchr(make->path, '/');
    const char *base = slash ? slash + 1 : make->path;
    const char *dir = make->options->cache_dir;
    char real[PATH_MAX];
    XXH3_state_t *state = XXH3_createState();
    int n;
    if (!state)
        return dt_error_set(err, EX_OSERR, "out of memory");
    XXH3_64bits_reset(state);
    hash_options(state, make);
    uint64_t seed = XXH3_64bits_digest(state), name = seed;
    XXH3_freeState(state);
    if (dir && realpath(make->path, real))
        name = XXH3_64bits_withSeed(real, strlen(real), seed);
    if (dir)
        n = snprintf(make->dir, sizeof(make->dir), "%s", dir);
    else
        n = snprintf(make->dir, sizeof(make->dir), "%.*s.disttrain-cache",
                     (int)(base - make->path), make->path);
    if ((size_t)n < sizeof(make->dir))
        n = snprintf(make->cache, sizeof(make->cache),
                     "%s/%s-%016" PRIx64 ".tokens", make->dir, base, name);
    if ((size_t)n >= sizeof(make->cache))
        return dt_error_set(err, EX_CANTCREAT, "%s: path too long", make->path);
    snprintf(make->parts_dir, sizeof(make->parts_dir), "%s.parts", make->cache);
    return find_key(make, seed, err);
}

/* --- is it good enough? --- */

static int too_many_bad(const struct dt_make *make,
                        const struct dt_cache *cache, struct dt_error *err)
{
    const char *note = cache->notes, *end = note + cache->notes_bytes;
    dt_error_set(err, EX_DATAERR,
                 "%" PRIu64 " of %" PRIu64 " lines of %s are bad, more than "
                 "the %g %% allowed",
                 cache->counts.bad, cache->counts.lines, make->path,
                 100 * make->options->bad_limit);
    for (int i = 0; i < SHOWN && note < end; i++) {
        dt_error_add(err, EX_DATAERR, "%s:%s", make->path, note);
        note += strlen(note) + 1;
    }
    return -1;
}

static int judge(const struct dt_make *make, const struct dt_cache *cache,
                 struct dt_error *err)
{
    const struct dt_cache_counts *counts = &cache->counts;
    if ((double)counts->bad > make->options->bad_limit * (double)counts->lines)
        return too_many_bad(make, cache, err);
    if (counts->seams > counts->pairs / SEAM_SHARE)
        return dt_error_set(
            err, EX_DATAERR,
            "%s: in %" PRIu64 " of %" PRIu64 " lines the last token of the "
            "prompt takes in the beginning of the completion, so it is not "
            "clear where the loss begins: let prompts end, or completions "
            "begin, with a blank or a new line, as the tokenizer wants it",
            make->path, counts->seams, counts->pairs);
    if (cache->count == 0)
        return dt_error_set(err, EX_DATAERR, "%s: no example in it",
                            make->path);
    return 0;
}

/* Tells the caller what was left out or taken for something else. */
static void tell(const struct dt_make *make, const struct dt_cache *cache)
{
    const char *note = cache->notes, *end = note + cache->notes_bytes;
    uint64_t told = 0;
    for (; note < end; note += strlen(note) + 1, told++)
        dt_make_note(make, "%s:%s", make->path, note);
    if (cache->counts.bad > told)
        dt_make_note(make, "%s: %" PRIu64 " more bad lines", make->path,
                     cache->counts.bad - told);
    if (cache->counts.renamed > 0)
        dt_make_note(make,
                     "%s: %" PRIu64 " messages of human and gpt are taken for "
                     "those of user and assistant",
                     make->path, cache->counts.renamed);
    if (cache->counts.seams > 0)
        dt_make_note(make,
                     "%s: %" PRIu64 " of %" PRIu64 " prompts do not join their "
                     "completions in tokens",
                     make->path, cache->counts.seams, cache->counts.pairs);
}

/* --- the interface --- */

int dt_examples_layout(const char *path,
                       const struct dt_example_options *options,
                       enum dt_layout_kind *layout, struct dt_error *err)
{
    struct dt_make make = {.path = path, .options = options};
    if (dt_map_init(&make.map, path, err) < 0)
        return -1;
    int rc = find_layout(&make, err);
    *layout = make.layout;
    dt_map_fini(&make.map);
    return rc;
}

static int open_or_make(struct dt_make *make, struct dt_cache *cache,
                        bool *made, struct dt_error *err)
{
    make->stamp = stamp_of(make->path);
    if (dt_map_init(&make->map, make->path, err) < 0)
        return -1;
    if (examine(make, err) < 0 || name_cache(make, err) < 0 ||
        dt_make_run(make, cache, made, err) < 0)
        return -1;
    if (judge(make, cache, err) < 0)
        return -1;
    tell(make, cache);
    return 0;
}

struct dt_examples *dt_examples_open(const char *path,
                                     const struct dt_tokenizer *tokenizer,
                                     const struct dt_example_options *options,
                                     bool *made, struct dt_error *err)
{
    struct dt_make make = {
        .path = path, .tokenizer = tokenizer, .options = options};
    struct dt_examples *examples = calloc(1, sizeof(*examples));
    if (!examples) {
        dt_error_set(err, EX_OSERR, "%s: out of memory", path);
        return NULL;
    }
    if (open_or_make(&make, &examples->cache, made, err) < 0) {
        dt_examples_close(examples);
        examples = NULL;
    } else {
        examples->key = make.key;
    }
    dt_chat_destroy(make.chat);
    dt_map_fini(&make.map);
    return examples;
}

void dt_examples_close(struct dt_examples *examples)
{
    if (!examples)
        return;
    dt_cache_close(&examples->cache);
    free(examples);
}

size_t dt_examples_count(const struct dt_examples *examples)
{
    return examples->cache.count;
}

uint64_t dt_examples_bad_lines(const struct dt_examples *examples)
{
    return examples->cache.counts.bad;
}

uint64_t dt_examples_tokens(const struct dt_examples *examples)
{
    return examples->cache.token_count;
}

uint64_t dt_examples_targets(const struct dt_examples *examples)
{
    return examples->cache.counts.targets;
}

uint64_t dt_examples_hash(const struct dt_examples *examples)
{
    return examples->key;
}

const uint32_t *dt_example(const struct dt_examples *examples, size_t i,
                           size_t *count)
{
    const uint64_t *offsets = examples->cache.offsets;
    *count = offsets[i + 1] - offsets[i];
    return examples->cache.tokens + offsets[i];
}
