/* SPDX-License-Identifier: Apache-2.0 */
/* tokenizer.c - loads tokenizers and answers questions about them */
#include "config.h"

#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <xxhash.h>

#include "base/file.h"
#include "base/foreign.h"
#include "tokenizer/tokenizer_impl.h"

/* Reads everything in tokenizer.json. */
static int read_root(struct dt_tokenizer *tokenizer, const json_t *root,
                     struct dt_error *err)
{
    const json_t *added = json_object_get(root, "added_tokens");
    if (added && !json_is_array(added) && !json_is_null(added))
        return dt_error_set(err, EX_DATAERR, "added_tokens: expected a list");
    if (dt_tok_vocab_read(tokenizer, root, err) < 0 ||
        dt_tok_added_read(tokenizer, added, err) < 0)
        return -1;
    if (dt_tok_normalizer_read(tokenizer, json_object_get(root, "normalizer"),
                               err) < 0)
        return dt_error_prefix(err, "normalizer");
    if (dt_tok_added_build(tokenizer, added, err) < 0)
        return -1;
    if (dt_tok_steps_read(tokenizer, json_object_get(root, "pre_tokenizer"),
                          err) < 0)
        return dt_error_prefix(err, "pre_tokenizer");
    if (dt_tok_model_read(tokenizer, json_object_get(root, "model"), err) < 0)
        return -1;
    dt_tok_steps_finish(tokenizer);
    if (dt_tok_post_read(tokenizer, json_object_get(root, "post_processor"),
                         err) < 0)
        return dt_error_prefix(err, "post_processor");
    if (dt_tok_decoder_read(tokenizer, json_object_get(root, "decoder"), err) <
        0)
        return dt_error_prefix(err, "decoder");
    return 0;
}

/* Hashes with the versions of the libraries as the seed, since they have
 * different versions of Unicode.
 */
static uint64_t hash_data(const void *data, size_t bytes)
{
    const char *seed = dt_tokenizer_library();
    return XXH3_64bits_withSeed(data, bytes, XXH3_64bits(seed, strlen(seed)));
}

/* The ids of texts of a vocabulary that is a list of [text, score]. NULL: out
 * of memory.
 */
static json_t *index_pieces(const json_t *vocab)
{
    json_t *ids = json_object(), *piece;
    size_t i;
    json_array_foreach(vocab, i, piece)
    {
        const char *text = json_string_value(json_array_get(piece, 0));
        if (text && json_object_set_new_nocheck(
                        ids, text, json_integer((json_int_t)i)) < 0) {
            json_decref(ids);
            return NULL;
        }
    }
    return ids;
}

/* Puts the tokens of other files into added_tokens. */
static int override_added(json_t *root, const struct dt_tok_beside *beside,
                          struct dt_error *err)
{
    json_t *vocab = json_object_get(json_object_get(root, "model"), "vocab");
    json_t *added = json_object_get(root, "added_tokens");
    const bool list = json_is_array(vocab);
    size_t next = list ? json_array_size(vocab) : json_object_size(vocab);
    json_t *ids = list ? index_pieces(vocab) : json_incref(vocab);
    if (!json_is_array(added)) {
        added = json_array();
        json_object_set_new(root, "added_tokens", added);
    }
    int rc = -1;
    if (added && (ids || !list)) {
        dt_tok_added_end(added, &next);
        rc = dt_tok_added_override(added, beside, ids, next, err);
    } else {
        dt_error_set(err, EX_OSERR, "out of memory");
    }
    json_decref(ids);
    return rc;
}

/* Reads tokenizer.json, and the tokens of other files (NULL: none). */
static int read_json(struct dt_tokenizer *tokenizer, const char *path,
                     const char *text, const struct dt_tok_beside *beside,
                     struct dt_error *err)
{
    json_t *root = dt_tok_json_parse(path, text, err);
    if (!root)
        return -1;
    int rc = beside ? override_added(root, beside, err) : 0;
    if (rc == 0)
        rc = read_root(tokenizer, root, err);
    json_decref(root);
    return rc < 0 ? dt_error_prefix(err, "%s", path) : 0;
}

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

static int read_file(struct dt_tokenizer *tokenizer, const char *path,
                     const struct dt_tok_beside *beside, struct dt_error *err)
{
    struct dt_map map;
    int rc;
    if (ends_with(path, ".model")) {
        if (dt_map_init(&map, path, err) < 0)
            return -1;
        tokenizer->hash = hash_data(map.data, map.bytes);
        rc = dt_foreign_pointer(path, map.data, map.bytes, err);
        if (rc == 0 &&
            dt_tok_spm_read(tokenizer, map.data, map.bytes, beside, err) < 0)
            rc = dt_error_prefix(err, "%s", path);
        dt_map_fini(&map);
        return rc;
    }
    char *text = dt_file_read(path, DT_TOK_FILE_MAX_BYTES, err);
    if (!text)
        return -1;
    tokenizer->hash = hash_data(text, strlen(text));
    rc = read_json(tokenizer, path, text, beside, err);
    free(text);
    return rc;
}

/* The files of a tokenizer; the first one found is read. */
static const char *const file_names[] = {"tokenizer.json", "tokenizer.model",
                                         "spiece.model"};

/* Writes the path of the file of a directory. Returns 1 if it exists, 0 if not,
 * -1 and err: the path is too long.
 */
static int find_tokenizer(const char *directory, char path[PATH_MAX],
                          struct dt_error *err)
{
    for (size_t i = 0; i < sizeof(file_names) / sizeof(file_names[0]); i++) {
        if (snprintf(path, PATH_MAX, "%s/%s", directory, file_names[i]) >=
            PATH_MAX)
            return dt_error_set(err, EX_NOINPUT, "%s: the path is too long",
                                directory);
        if (access(path, F_OK) == 0)
            return 1;
    }
    return 0;
}

bool dt_tokenizer_in(const char *directory)
{
    char path[PATH_MAX];
    return directory && find_tokenizer(directory, path, NULL) > 0;
}

/* Mixes the other files' facts about tokens into the hash. */
static void hash_files(struct dt_tokenizer *t,
                       const struct dt_tok_beside *beside)
{
    const json_t *const lists[] = {beside->decoder, beside->named};
    for (size_t i = 0; i < 2; i++) {
        char *text = lists[i] ? json_dumps(lists[i], JSON_SORT_KEYS) : NULL;
        if (text)
            t->hash = XXH3_64bits_withSeed(text, strlen(text), t->hash);
        free(text);
    }
    t->hash = XXH3_64bits_withSeed(
        t->before, t->before_count * sizeof(t->before[0]), t->hash);
    t->hash = XXH3_64bits_withSeed(
        t->after, t->after_count * sizeof(t->after[0]), t->hash);
}

/* Refuses older files, which list tokens after those of SentencePiece
 * elsewhere.
 */
static int refuse_old_tokens(const char *directory, struct dt_error *err)
{
    char path[PATH_MAX];
    if (snprintf(path, sizeof(path), "%s/added_tokens.json", directory) >=
            (int)sizeof(path) ||
        access(path, F_OK) < 0)
        return 0;
    return dt_error_set(err, EX_DATAERR,
                        "%s: its tokens are read from added_tokens_decoder of "
                        "tokenizer_config.json only: let transformers write "
                        "that, AutoTokenizer.from_pretrained(DIR)"
                        ".save_pretrained(DIR)",
                        path);
}

static int read_directory(struct dt_tokenizer *tokenizer, const char *directory,
                          struct dt_error *err)
{
    char file[PATH_MAX];
    int rc = find_tokenizer(directory, file, err);
    if (rc == 0 && dt_foreign_tokenizer(directory, err) < 0)
        return -1;
    if (rc == 0)
        snprintf(file, sizeof(file), "%s/%s", directory, file_names[0]);
    if (rc < 0)
        return -1;
    struct dt_tok_beside beside;
    if (dt_tok_beside_load(&beside, directory, err) < 0)
        return -1;
    rc = read_file(tokenizer, file, &beside, err);
    if (rc == 0 && tokenizer->spm && !beside.decoder)
        rc = refuse_old_tokens(directory, err);
    if (rc == 0)
        rc = dt_tok_files_read(tokenizer, directory, err);
    if (rc == 0)
        hash_files(tokenizer, &beside);
    dt_tok_beside_fini(&beside);
    return rc;
}

/* Makes the byte tokenizer: one token for each byte, and one for the end of a
 * document, which no text spells.
 */
static int make_bytes(struct dt_tokenizer *tokenizer, struct dt_error *err)
{
    struct dt_tok_vocab *vocab = &tokenizer->vocab;
    char text[4];
    tokenizer->model.byte_level = tokenizer->decoder.byte_level = true;
    tokenizer->model.unk = -1;
    tokenizer->special[DT_TOKEN_EOS] = DT_BYTE_EOT;
    tokenizer->hash = hash_data("byte", 4);
    if (dt_tok_vocab_init(vocab, DT_BYTE_VOCAB, DT_BYTE_VOCAB) < 0 ||
        dt_tok_map_init(&tokenizer->model.merges, 0) < 0)
        return dt_error_set(err, EX_OSERR, "out of memory");
    for (int32_t b = 0; b < DT_BYTE_EOT; b++) {
        size_t n = dt_tok_encode(dt_tok_byte_char((unsigned char)b), text);
        if (dt_tok_vocab_add(vocab, b, text, n, DT_TOK_MODEL, err) < 0)
            return -1;
    }
    dt_tok_model_bytes(tokenizer);
    return dt_tok_vocab_add(vocab, DT_BYTE_EOT, "", 0, DT_TOK_SPECIAL, err) < 0
               ? -1
               : dt_tok_bpe_finish(tokenizer, err);
}

static int load_path(struct dt_tokenizer *tokenizer, const char *path,
                     struct dt_error *err)
{
    struct stat st;
    for (size_t i = 0; i <= DT_TOKEN_UNK; i++)
        tokenizer->special[i] = -1;
    if (dt_tok_added_init(&tokenizer->raw) < 0 ||
        dt_tok_added_init(&tokenizer->normalized) < 0)
        return dt_error_set(err, EX_OSERR, "out of memory");
    if (!strcmp(path, "byte"))
        return make_bytes(tokenizer, err);
    return stat(path, &st) < 0 || !S_ISDIR(st.st_mode)
               ? read_file(tokenizer, path, NULL, err)
               : read_directory(tokenizer, path, err);
}

struct dt_tokenizer *dt_tokenizer_load(const char *path, struct dt_error *err)
{
    struct dt_tokenizer *tokenizer = calloc(1, sizeof(*tokenizer));
    if (!tokenizer) {
        dt_error_set(err, EX_OSERR, "out of memory");
        return NULL;
    }
    if (load_path(tokenizer, path, err) == 0)
        return tokenizer;
    dt_tokenizer_destroy(tokenizer);
    return NULL;
}

void dt_tokenizer_destroy(struct dt_tokenizer *tokenizer)
{
    if (!tokenizer)
        return;
    dt_tok_vocab_fini(&tokenizer->vocab);
    dt_tok_model_fini(&tokenizer->model);
    dt_tok_added_fini(&tokenizer->raw);
    dt_tok_added_fini(&tokenizer->normalized);
    for (size_t i = 0; i < tokenizer->normalizer_count; i++)
        dt_tok_normalizer_fini(&tokenizer->normalizers[i]);
    for (size_t i = 0; i < tokenizer->step_count; i++)
        dt_tok_step_fini(&tokenizer->steps[i]);
    free(tokenizer->before);
    free(tokenizer->after);
    free(tokenizer->decoder.pattern);
    free(tokenizer->decoder.content);
    free(tokenizer->chat_template.text);
    free(tokenizer->chat_template.file);
    free(tokenizer->tool_template.text);
    free(tokenizer->tool_template.file);
    free(tokenizer);
}

size_t dt_tokenizer_vocab_size(const struct dt_tokenizer *tokenizer)
{
    return tokenizer->vocab.count;
}

uint64_t dt_tokenizer_hash(const struct dt_tokenizer *tokenizer)
{
    return tokenizer->hash;
}

int32_t dt_tokenizer_id(const struct dt_tokenizer *tokenizer, const char *text)
{
    return text[0] ? dt_tok_vocab_find(&tokenizer->vocab, text, strlen(text))
                   : -1;
}

int32_t dt_tokenizer_special(const struct dt_tokenizer *tokenizer,
                             enum dt_token_role role)
{
    return tokenizer->special[role];
}

int32_t dt_tokenizer_empty(const struct dt_tokenizer *tokenizer)
{
    const int32_t bos = tokenizer->special[DT_TOKEN_BOS];
    return bos >= 0 ? bos : tokenizer->special[DT_TOKEN_EOS];
}

const char *dt_tokenizer_chat_template(const struct dt_tokenizer *tokenizer)
{
    return tokenizer->chat_template.text;
}

const char *dt_tokenizer_tool_template(const struct dt_tokenizer *tokenizer)
{
    return tokenizer->tool_template.text;
}

const char *dt_tokenizer_template_file(const struct dt_tokenizer *tokenizer)
{
    const char *file = tokenizer->chat_template.file;
    return file ? file : "";
}

const char *dt_tokenizer_tool_template_file(
    const struct dt_tokenizer *tokenizer)
{
    const char *file = tokenizer->tool_template.file;
    return file ? file : "";
}

bool dt_tokenizer_is_special(const struct dt_tokenizer *tokenizer, int32_t id)
{
    return id >= 0 && (size_t)id < dt_tokenizer_vocab_size(tokenizer) &&
           tokenizer->vocab.entries[id].flags & DT_TOK_SPECIAL;
}

static char library[96];

static void name_library(void)
{
    snprintf(library, sizeof(library), "PCRE2 %.32s, utf8proc %.32s",
             dt_tok_regex_library(), dt_tok_unicode_library());
}

const char *dt_tokenizer_library(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, name_library);
    return library;
}
