/* SPDX-License-Identifier: Apache-2.0 */
/* examples.c - finds the cache of a file and opens it */
#include "config.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include <xxhash.h>

#include "base/str.h"
#include "data/data_impl.h"
#include "data/examples.h"
#include "data/forms/forms.h"
#include "data/image_text.h"
#include "image/store.h"

enum {
    FIRST_LINES = 100,  /* looked at for the format */
    CHAT_VERSION = 3,   /* of the text that chat templates make */
    LINES_VERSION = 1,  /* of the lines that readers of other forms make */
    IMAGES_VERSION = 2, /* of the words and texts that images become */
    YOUNG_S = 2,        /* longer than the resolution of any file system */
};

struct dt_examples {
    struct dt_cache cache;
    uint64_t key;
    char *path;       /* of the file */
    const char *mark; /* between it and a line of it */
};

/* --- the content of the file --- */

/* The format of the first of these lines that has one. */
static int find_in_lines(struct dt_make *make, const struct dt_map *lines,
                         struct dt_error *err)
{
    struct dt_error other;
    const char *line;
    size_t at = 0, length;
    uint64_t number = 0;
    for (int i = 0; i < FIRST_LINES; i++) {
        line = dt_jsonl_next(lines->data, lines->bytes, &at, &number, &length);
        if (!line && i == 0)
            dt_error_set(err, EX_DATAERR,
                         make->found.form == DT_FORM_PLAIN
                             ? "%s: empty"
                             : "%s: it has no rows",
                         make->path);
        if (!line)
            break;
        if (dt_jsonl_format(line, length, make->options, &make->format,
                            i ? &other : err) == 0)
            return 0;
        if (i == 0)
            dt_error_prefix(err, "%s%s%" PRIu64, make->path,
                            dt_kind_mark(&make->found), number);
    }
    return -1;
}

/* Sets make->format. */
static int find_format(struct dt_make *make, struct dt_error *err)
{
    struct dt_map first;
    make->format = make->options->format;
    if (make->format != DT_FORMAT_AUTO)
        return 0;
    if (dt_make_is_plain(make))
        return find_in_lines(make, &make->map, err);
    if (dt_lines_read(&first, make->path, &make->found, NULL, FIRST_LINES, NULL,
                      NULL, err) < 0)
        return -1;
    int rc = find_in_lines(make, &first, err);
    dt_map_fini(&first);
    return rc;
}

static int choose_preference_loss(struct dt_make *make, struct dt_error *err)
{
    if (make->loss_on != DT_LOSS_AUTO && make->loss_on != DT_LOSS_COMPLETION)
        return dt_error_set(err, EX_DATAERR,
                            "%s: data.loss_on: preference pairs are compared "
                            "by their completions: leave it out",
                            make->path);
    make->loss_on = DT_LOSS_COMPLETION;
    return 0;
}

/* Sets make->loss_on; EX_DATAERR if the requested loss does not fit the layout.
 */
static int choose_loss(struct dt_make *make, struct dt_error *err)
{
    static const char *const names[] = {[DT_FORMAT_AUTO] = "text",
                                        [DT_FORMAT_TEXT] = "text",
                                        [DT_FORMAT_PROMPT_COMPLETION] =
                                            "prompt_completion",
                                        [DT_FORMAT_MESSAGES] = "messages",
                                        [DT_FORMAT_TOKENIZED] = "tokens"};
    bool pairs = make->format == DT_FORMAT_PROMPT_COMPLETION;
    bool turns = make->format == DT_FORMAT_MESSAGES;
    make->loss_on = make->options->loss_on;
    if (make->format == DT_FORMAT_PREFERENCE)
        return choose_preference_loss(make, err);
    if (make->loss_on == DT_LOSS_AUTO)
        make->loss_on = pairs ? DT_LOSS_COMPLETION : DT_LOSS_FULL;
    if (make->loss_on == DT_LOSS_COMPLETION && !pairs)
        return dt_error_set(err, EX_DATAERR,
                            "%s: data.loss_on: completion needs prompt and "
                            "completion, the file holds %s",
                            make->path, names[make->format]);
    if (make->loss_on == DT_LOSS_ASSISTANT && !pairs && !turns)
        return dt_error_set(err, EX_DATAERR,
                            "%s: data.loss_on: assistant needs messages, the "
                            "file holds %s",
                            make->path, names[make->format]);
    return 0;
}

/* Creates the chat template. Messages need one. A prompt, a completion or a
 * side of a pair may also be messages, so without a template such formats fail
 * only when a line needs it.
 */
static int choose_chat(struct dt_make *make, struct dt_error *err)
{
    const char *name = make->options->chat_template;
    const bool needed = make->format == DT_FORMAT_MESSAGES;
    if (!needed && make->format != DT_FORMAT_PROMPT_COMPLETION &&
        make->format != DT_FORMAT_PREFERENCE)
        return 0;
    if (strcmp(name, "none") == 0)
        dt_error_set(&make->no_chat, EX_CONFIG,
                     "messages need a chat template, and data.chat_template is "
                     "none; it may be auto, a file, or one of " DT_CHAT_NAMES);
    else
        make->chat = dt_chat_create(name, make->options->chat_variables,
                                    make->tokenizer, &make->no_chat);
    if (make->chat && dt_chat_warning(make->chat))
        dt_make_note(make, "%s: %s", make->path, dt_chat_warning(make->chat));
    if (make->chat || !needed)
        return 0;
    if (err)
        *err = make->no_chat;
    return dt_error_prefix(err, "%s", make->path);
}

/* Warns that without EOS, text that no chat template renders has no end. */
static void warn_ends(const struct dt_make *make)
{
    if (make->format != DT_FORMAT_MESSAGES &&
        make->format != DT_FORMAT_TOKENIZED &&
        dt_tokenizer_special(make->tokenizer, DT_TOKEN_EOS) < 0)
        dt_make_note(make,
                     "%s: the tokenizer names no eos_token, so that nothing "
                     "ends texts without a chat template, and a model does "
                     "not learn to stop: name one in tokenizer_config.json",
                     make->path);
}

static int examine_file(struct dt_make *make, struct dt_error *err)
{
    const enum dt_kind kind = make->found.kind;
    if (kind == DT_KIND_TOKENS)
        return dt_error_set(err, EX_DATAERR,
                            "%s: a token file, which is read as it is and "
                            "needs no preparing",
                            make->path);
    make->is_text = kind == DT_KIND_TEXT;
    make->format = DT_FORMAT_TEXT;
    if (make->map.bytes == 0)
        return dt_error_set(err, EX_DATAERR, "%s: empty", make->path);
    if ((!make->is_text && find_format(make, err) < 0) ||
        choose_loss(make, err) < 0 ||
        (!make->is_text && choose_chat(make, err) < 0))
        return -1;
    warn_ends(make);
    return 0;
}

/* --- the cache of the file --- */

static void hash_string(XXH3_state_t *state, const char *string)
{
    XXH3_64bits_update(state, string ? string : "",
                       string ? strlen(string) : 0);
    XXH3_64bits_update(state, "", 1);
}

/* Hashes everything that the pictures of an image depend on, and where its file
 * is kept.
 */
static void hash_images(XXH3_state_t *state,
                        const struct dt_example_images *images)
{
    const struct dt_image_limits *l = &images->processor->limits;
    const uint64_t numbers[] = {
        IMAGES_VERSION, images->train_on_image_tokens,
        images->drop,   dt_image_processor_hash(images->processor),
        l->bytes,       l->side,
        l->pixels,      l->aspect,
        l->scans,       l->warnings,
    };
    const struct dt_image_text *text = images->text;
    XXH3_64bits_update(state, numbers, sizeof(numbers));
    hash_string(state, text->mark);
    hash_string(state, text->placeholder);
    hash_string(state, text->before);
    hash_string(state, text->after);
    hash_string(state, text->whole);
    hash_string(state, text->line ? "line" : "");
    hash_string(state, images->root);
    hash_string(state, images->store->dir);
}

/* Hashes everything that the tokens depend on except the file. */
static void hash_options(XXH3_state_t *state, const struct dt_make *make)
{
    const struct dt_example_options *options = make->options;
    const uint64_t numbers[] = {
        dt_tokenizer_hash(make->tokenizer),
        (uint64_t)dt_tokenizer_special(make->tokenizer, DT_TOKEN_BOS),
        (uint64_t)dt_tokenizer_special(make->tokenizer, DT_TOKEN_EOS),
        make->format,
        make->loss_on,
        options->parse_special,
        make->is_text,
    };
    XXH3_64bits_update(state, numbers, sizeof(numbers));
    if (make->format == DT_FORMAT_PREFERENCE) { /* others have older caches */
        hash_string(state, dt_key_or(options->chosen_key, "chosen"));
        hash_string(state, dt_key_or(options->rejected_key, "rejected"));
        hash_string(state, dt_key_or(options->margin_key, "margin"));
    }
    if (options->keep_marks)
        hash_string(state, "keep_marks");
    hash_string(state, dt_key_or(options->text_key, "text"));
    hash_string(state, dt_key_or(options->prompt_key, "prompt"));
    hash_string(state, dt_key_or(options->completion_key, "completion"));
    hash_string(state, dt_key_or(options->messages_key, "messages"));
    if (!dt_make_is_plain(make)) {
        const uint64_t form[] = {LINES_VERSION, make->found.form};
        XXH3_64bits_update(state, form, sizeof(form));
    }
    /* lines of any other format have no ids */
    if ((make->format == DT_FORMAT_TOKENIZED ||
         make->format == DT_FORMAT_PREFERENCE) &&
        options->vocab_size > 0 &&
        options->vocab_size != dt_tokenizer_vocab_size(make->tokenizer)) {
        const uint64_t limit = options->vocab_size;
        XXH3_64bits_update(state, &limit, sizeof(limit));
    }
    if (options->images)
        hash_images(state, options->images);
    if (make->chat) {
        const uint64_t chat[] = {CHAT_VERSION, dt_chat_hash(make->chat)};
        XXH3_64bits_update(state, chat, sizeof(chat));
    }
}

/* A stamp that differs if the file was changed or replaced. It is 0 for a file
 * modified so recently that another change might not alter its times.
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

/* Results of read_content, for the whole file, in dt_guard_run. */
struct content {
    const struct dt_make *make;
    uint64_t seed, hash;
    size_t good;       /* bytes before the first that is not UTF-8 text */
    unsigned char bad; /* that byte, if good is less than the file's size */
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

/* Fills make->key: takes it from the cache if the stamp says that the file has
 * not changed, else reads the file.
 */
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
                        "%s: byte %zu (0x%02x): not UTF-8 text: `iconv -f "
                        "LATIN1 -t UTF-8` makes UTF-8 of Latin-1",
                        make->path, content.good, content.bad);
}

/* Fills make->key and the paths of the cache. In cache_dir, files of different
 * folders may have the same name, so the name of the cache has a hash of the
 * full path.
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

/* --- the interface --- */

/* Finds the file's format, and maps it. */
static int open_file(struct dt_make *make, struct dt_error *err)
{
    return dt_kind_find(make->path, dt_kind_asked_by(make->options->format),
                        &make->found, err) < 0
               ? -1
               : dt_map_init(&make->map, make->path, err);
}

int dt_examples_format(const char *path,
                       const struct dt_example_options *options,
                       enum dt_format *format, struct dt_error *err)
{
    struct dt_make make = {.path = path, .options = options};
    if (open_file(&make, err) < 0)
        return -1;
    int rc = find_format(&make, err);
    *format = make.format;
    dt_map_fini(&make.map);
    return rc;
}

static int open_or_make(struct dt_make *make, struct dt_cache *cache,
                        bool *made, struct dt_error *err)
{
    make->stamp = stamp_of(make->path);
    if (open_file(make, err) < 0)
        return -1;
    return examine_file(make, err) < 0 || name_cache(make, err) < 0
               ? -1
               : dt_make_run(make, cache, made, err);
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
    if (!(examples->path = strdup(path))) {
        dt_error_set(err, EX_OSERR, "%s: out of memory", path);
        dt_examples_close(examples);
        return NULL;
    }
    if (open_or_make(&make, &examples->cache, made, err) < 0) {
        dt_examples_close(examples);
        examples = NULL;
    } else {
        examples->key = make.key;
        examples->mark = dt_kind_mark(&make.found);
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
    free(examples->path);
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

uint64_t dt_examples_dropped(const struct dt_examples *examples)
{
    return examples->cache.counts.dropped;
}

uint64_t dt_examples_tokens(const struct dt_examples *examples)
{
    return examples->cache.token_count - examples->cache.counts.words;
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

int dt_examples_check(const struct dt_examples *examples,
                      const uint32_t *tokens, size_t count,
                      struct dt_error *err)
{
    return dt_cache_check(&examples->cache,
                          (uint64_t)(tokens - examples->cache.tokens), count,
                          err);
}

int dt_examples_name_line(const struct dt_examples *examples, uint64_t line,
                          struct dt_error *err)
{
    return dt_error_prefix(err, "%s%s%" PRIu64, examples->path, examples->mark,
                           line);
}
