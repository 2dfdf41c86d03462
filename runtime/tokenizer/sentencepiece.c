/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sentencepiece.c - makes a tokenizer of SentencePiece's .model files
 *
 * Text has the ids that SentencePiece itself gives it. Control symbols, which
 * SentencePiece never finds in text, are added tokens, as in transformers.
 */
#include "config.h"

#include <float.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "tokenizer/tokenizer_impl.h"

/* A message being parsed. The data belong to the caller. */
struct message {
    const unsigned char *data;
    size_t bytes, at;
};

enum wire {
    WIRE_VARINT = 0,
    WIRE_FIXED64 = 1,
    WIRE_BYTES = 2, /* bytes, texts, messages */
    WIRE_FIXED32 = 5,
};

struct field {
    uint64_t number;
    enum wire wire;
    uint64_t value;     /* of a number; FIXED: its bits */
    struct message sub; /* of BYTES */
};

/* --- fields of a protobuf message --- */

enum { VARINT_BYTES = 10 };

static int refuse_at(const struct message *pb, const char *what,
                     struct dt_error *err)
{
    return dt_error_set(err, EX_DATAERR, "byte %zu: %s", pb->at, what);
}

static int read_varint(struct message *pb, uint64_t *value,
                       struct dt_error *err)
{
    *value = 0;
    for (unsigned i = 0; i < VARINT_BYTES && pb->at < pb->bytes; i++) {
        unsigned char byte = pb->data[pb->at++];
        *value |= (uint64_t)(byte & 0x7f) << 7 * i;
        if (byte < 0x80)
            return 0;
    }
    return refuse_at(pb, "a number is too long or cut short", err);
}

static int read_fixed(struct message *pb, size_t bytes, uint64_t *value,
                      struct dt_error *err)
{
    *value = 0;
    if (pb->bytes - pb->at < bytes)
        return refuse_at(pb, "a number is cut short", err);
    for (size_t i = 0; i < bytes; i++)
        *value |= (uint64_t)pb->data[pb->at++] << 8 * i;
    return 0;
}

/* Reads the next field. Returns 1, or 0 at the end. -1: EX_DATAERR, with the
 * offset in the message.
 */
static int next_field(struct message *pb, struct field *field,
                      struct dt_error *err)
{
    uint64_t key;
    *field = (struct field){0};
    if (pb->at == pb->bytes)
        return 0;
    if (read_varint(pb, &key, err) < 0)
        return -1;
    field->number = key >> 3;
    field->wire = (enum wire)(key & 7);
    switch (field->wire) {
    case WIRE_VARINT:
        return read_varint(pb, &field->value, err) < 0 ? -1 : 1;
    case WIRE_FIXED64:
        return read_fixed(pb, 8, &field->value, err) < 0 ? -1 : 1;
    case WIRE_FIXED32:
        return read_fixed(pb, 4, &field->value, err) < 0 ? -1 : 1;
    case WIRE_BYTES:
        if (read_varint(pb, &field->value, err) < 0)
            return -1;
        if (field->value > pb->bytes - pb->at)
            return refuse_at(pb, "a field is longer than its message", err);
        field->sub = (struct message){pb->data + pb->at, field->value, 0};
        pb->at += field->value;
        return 1;
    }
    return refuse_at(pb, "expected a field of protobuf", err);
}

/* Checks the kind of a field. -1: EX_DATAERR. */
static int expect_wire(const struct field *field, enum wire wire,
                       struct dt_error *err)
{
    if (field->wire == wire)
        return 0;
    return dt_error_set(err, EX_DATAERR, "field %llu: of another type",
                        (unsigned long long)field->number);
}

/* The float of a FIXED32 field. */
static float field_float(const struct field *field)
{
    uint32_t bits = (uint32_t)field->value;
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

struct piece {
    const char *text; /* in the file's data */
    size_t bytes;
    float score;
    enum dt_spm_type type;
};

/* The content of a file. */
struct model {
    struct piece *pieces; /* by id */
    size_t count, capacity;
    uint64_t model_type; /* 1: Unigram, 2: BPE */
    bool byte_fallback, suffix;
    bool dummy_prefix, trim, escape;
    struct message charsmap;
    char roles[DT_TOKEN_UNK + 1][64]; /* texts of BOS, EOS, PAD */
};

/* --- fields of the file --- */

/* Numbers of fields, in sentencepiece_model.proto. */
enum {
    MODEL_PIECE = 1,
    MODEL_TRAINER = 2,
    MODEL_NORMALIZER = 3,
    MODEL_DENORMALIZER = 5,
    PIECE_TEXT = 1,
    PIECE_SCORE = 2,
    PIECE_TYPE = 3,
    TRAINER_MODEL = 3,
    TRAINER_SUFFIX = 24,
    TRAINER_BYTES = 35,
    TRAINER_BOS = 46,
    TRAINER_EOS = 47,
    TRAINER_PAD = 48,
    NORMALIZER_MAP = 2,
    NORMALIZER_PREFIX = 3,
    NORMALIZER_TRIM = 4,
    NORMALIZER_ESCAPE = 5,
};

static int read_piece_field(struct piece *piece, const struct field *field,
                            struct dt_error *err)
{
    switch (field->number) {
    case PIECE_TEXT:
        piece->text = (const char *)field->sub.data;
        piece->bytes = field->sub.bytes;
        return expect_wire(field, WIRE_BYTES, err);
    case PIECE_SCORE:
        piece->score = field_float(field);
        return expect_wire(field, WIRE_FIXED32, err);
    case PIECE_TYPE:
        if (field->value < DT_SPM_NORMAL || field->value > DT_SPM_BYTE)
            return dt_error_set(err, EX_DATAERR, "type: %llu is not known",
                                (unsigned long long)field->value);
        piece->type = (enum dt_spm_type)field->value;
        return expect_wire(field, WIRE_VARINT, err);
    default:
        return 0;
    }
}

static int check_piece(const struct piece *piece, struct dt_error *err)
{
    if (piece->bytes == 0 || memchr(piece->text, '\0', piece->bytes) ||
        dt_utf8_check(piece->text, piece->bytes) < piece->bytes)
        return dt_error_set(err, EX_DATAERR,
                            "expected UTF-8 text, without U+0000");
    if (!isfinite(piece->score))
        return dt_error_set(err, EX_DATAERR, "the score is no number");
    return 0;
}

static int read_piece(struct model *spm, struct message pb,
                      struct dt_error *err)
{
    struct piece piece = {.type = DT_SPM_NORMAL};
    struct field field;
    int rc;
    if (spm->count == DT_TOK_IDS_MAX)
        return dt_error_set(err, EX_DATAERR, "more than %d", DT_TOK_IDS_MAX);
    if (spm->count == spm->capacity) {
        size_t capacity = 2 * spm->capacity + 256;
        if (!dt_tok_grow(&spm->pieces, capacity, sizeof(spm->pieces[0])))
            return dt_error_set(err, EX_OSERR, "out of memory");
        spm->capacity = capacity;
    }
    while ((rc = next_field(&pb, &field, err)) > 0)
        if (read_piece_field(&piece, &field, err) < 0)
            return -1;
    if (rc < 0 || check_piece(&piece, err) < 0)
        return -1;
    spm->pieces[spm->count++] = piece;
    return 0;
}

static int read_flag(bool *flag, const struct field *field,
                     struct dt_error *err)
{
    *flag = field->value != 0;
    return expect_wire(field, WIRE_VARINT, err);
}

static int read_role(char role[64], const struct field *field,
                     struct dt_error *err)
{
    if (field->wire == WIRE_BYTES && field->sub.bytes > 0 &&
        field->sub.bytes < 64)
        snprintf(role, 64, "%.*s", (int)field->sub.bytes,
                 (const char *)field->sub.data);
    return expect_wire(field, WIRE_BYTES, err);
}

static int read_trainer_field(struct model *spm, const struct field *field,
                              struct dt_error *err)
{
    switch (field->number) {
    case TRAINER_MODEL:
        spm->model_type = field->value;
        return expect_wire(field, WIRE_VARINT, err);
    case TRAINER_SUFFIX:
        return read_flag(&spm->suffix, field, err);
    case TRAINER_BYTES:
        return read_flag(&spm->byte_fallback, field, err);
    case TRAINER_BOS:
        return read_role(spm->roles[DT_TOKEN_BOS], field, err);
    case TRAINER_EOS:
        return read_role(spm->roles[DT_TOKEN_EOS], field, err);
    case TRAINER_PAD:
        return read_role(spm->roles[DT_TOKEN_PAD], field, err);
    default:
        return 0;
    }
}

static int read_normalizer_field(struct model *spm, const struct field *field,
                                 struct dt_error *err)
{
    switch (field->number) {
    case NORMALIZER_MAP:
        spm->charsmap = field->sub;
        return expect_wire(field, WIRE_BYTES, err);
    case NORMALIZER_PREFIX:
        return read_flag(&spm->dummy_prefix, field, err);
    case NORMALIZER_TRIM:
        return read_flag(&spm->trim, field, err);
    case NORMALIZER_ESCAPE:
        return read_flag(&spm->escape, field, err);
    default:
        return 0;
    }
}

/* Refuses a table for decoded text. */
static int refuse_denormalizer(struct model *spm, const struct field *field,
                               struct dt_error *err)
{
    (void)spm;
    if (field->number != NORMALIZER_MAP || field->value == 0)
        return 0;
    return dt_error_set(err, EX_DATAERR, "precompiled_charsmap: not supported");
}

static int read_spec(struct model *spm, struct message pb,
                     int (*read)(struct model *spm, const struct field *field,
                                 struct dt_error *err),
                     const char *name, struct dt_error *err)
{
    struct field field;
    int rc;
    while ((rc = next_field(&pb, &field, err)) > 0)
        if (read(spm, &field, err) < 0) {
            rc = -1;
            break;
        }
    return rc < 0 ? dt_error_prefix(err, "%s", name) : 0;
}

static int read_field(struct model *spm, const struct field *field,
                      struct dt_error *err)
{
    if (field->number < MODEL_PIECE || field->number > MODEL_DENORMALIZER)
        return 0;
    if (expect_wire(field, WIRE_BYTES, err) < 0)
        return -1;
    switch (field->number) {
    case MODEL_PIECE:
        return read_piece(spm, field->sub, err) < 0
                   ? dt_error_prefix(err, "pieces[%zu]", spm->count)
                   : 0;
    case MODEL_TRAINER:
        return read_spec(spm, field->sub, read_trainer_field, "trainer_spec",
                         err);
    case MODEL_NORMALIZER:
        return read_spec(spm, field->sub, read_normalizer_field,
                         "normalizer_spec", err);
    case MODEL_DENORMALIZER:
        return read_spec(spm, field->sub, refuse_denormalizer,
                         "denormalizer_spec", err);
    default:
        return 0;
    }
}

/* Parses a file's data, which must stay. -1: EX_DATAERR, EX_OSERR. */
static int parse_file(struct model *spm, const void *data, size_t bytes,
                      struct dt_error *err)
{
    struct message pb = {data, bytes, 0};
    struct field field;
    int rc;
    *spm = (struct model){
        .model_type = 1,
        .dummy_prefix = true,
        .trim = true,
        .escape = true,
        .roles = {"<s>", "</s>", "<pad>", ""},
    };
    while ((rc = next_field(&pb, &field, err)) > 0)
        if (read_field(spm, &field, err) < 0)
            return -1;
    if (rc == 0 && spm->count == 0)
        rc = dt_error_set(err, EX_DATAERR,
                          "expected a model of SentencePiece, and there are no "
                          "pieces");
    return rc;
}

/* --- the tokenizer --- */

enum { MODEL_UNIGRAM = 1, MODEL_BPE = 2 };

static const double unk_penalty = 10;     /* below the lowest score */
static const double symbol_penalty = 0.1; /* of a user-defined symbol */

static int no_memory(struct dt_error *err)
{
    return dt_error_set(err, EX_OSERR, "out of memory");
}

/* --- vocabulary --- */

/* Whether the model's own rules may produce this piece. */
static bool is_regular(const struct piece *piece)
{
    return piece->type == DT_SPM_NORMAL || piece->type == DT_SPM_USER;
}

static int add_piece(struct dt_tokenizer *t, const struct piece *piece,
                     int32_t id, struct dt_error *err)
{
    bool special =
        piece->type == DT_SPM_CONTROL || piece->type == DT_SPM_UNKNOWN;
    if (piece->type == DT_SPM_UNKNOWN && t->model.unk >= 0)
        return dt_error_set(err, EX_DATAERR, "a second unknown piece");
    if (piece->type == DT_SPM_UNKNOWN)
        t->model.unk = id;
    return dt_tok_vocab_add(
        &t->vocab, id, piece->text, piece->bytes,
        special ? DT_TOK_ADDED | DT_TOK_SPECIAL : DT_TOK_MODEL, err);
}

static int add_pieces(struct dt_tokenizer *t, const struct model *spm,
                      struct dt_error *err)
{
    t->model.unk = -1;
    for (size_t i = 0; i < spm->count; i++)
        if (add_piece(t, &spm->pieces[i], (int32_t)i, err) < 0)
            return dt_error_prefix(err, "pieces[%zu]", i);
    if (t->model.unk < 0)
        return dt_error_set(err, EX_DATAERR, "no piece is of type UNKNOWN");
    t->special[DT_TOKEN_UNK] = t->model.unk;
    for (size_t role = DT_TOKEN_BOS; role <= DT_TOKEN_PAD; role++) {
        int32_t id = dt_tok_vocab_find(&t->vocab, spm->roles[role],
                                       strlen(spm->roles[role]));
        if (id >= 0 && spm->pieces[id].type == DT_SPM_CONTROL)
            t->special[role] = id;
    }
    t->model.byte_fallback = spm->byte_fallback;
    dt_tok_model_bytes(t);
    for (size_t b = 0; spm->byte_fallback && b < 256; b++)
        if (t->model.bytes[b] < 0 ||
            spm->pieces[t->model.bytes[b]].type != DT_SPM_BYTE)
            return dt_error_set(err, EX_DATAERR,
                                "byte_fallback: no piece for the byte %zu", b);
    return 0;
}

/* --- Unigram --- */

static int make_unigram(struct dt_tokenizer *t, const struct model *spm,
                        struct dt_error *err)
{
    struct dt_tok_model *model = &t->model;
    float least = FLT_MAX, most = FLT_MIN;
    model->kind = DT_TOK_UNIGRAM;
    model->narrow = true;
    model->scores = calloc(spm->count + 1, sizeof(double));
    if (!model->scores || dt_tok_trie_init(&model->texts) < 0)
        return no_memory(err);
    for (size_t i = 0; i < spm->count; i++)
        if (spm->pieces[i].type == DT_SPM_NORMAL) {
            least = spm->pieces[i].score < least ? spm->pieces[i].score : least;
            most = spm->pieces[i].score > most ? spm->pieces[i].score : most;
        }
    for (size_t i = 0; i < spm->count; i++) {
        const struct piece *piece = &spm->pieces[i];
        model->scores[i] = piece->type == DT_SPM_USER
                               ? (float)piece->bytes * most - symbol_penalty
                               : piece->score;
        if (is_regular(piece) && dt_tok_trie_add(&model->texts, piece->text,
                                                 piece->bytes, (int32_t)i) < 0)
            return no_memory(err);
    }
    model->unk_score = (double)(float)(least - unk_penalty);
    return 0;
}

/* --- BPE: the merge to the piece with the highest score comes first --- */

static int compare_pieces(const void *a, const void *b)
{
    float x = (*(const struct piece *const *)a)->score;
    float y = (*(const struct piece *const *)b)->score;
    return (x < y) - (x > y);
}

/* Refuses pieces that no merge of known characters produces. */
static int check_chars(const struct dt_tokenizer *t, const struct model *spm,
                       const struct piece *piece, struct dt_error *err)
{
    size_t bytes;
    for (size_t i = 0; i < piece->bytes; i += bytes) {
        dt_tok_decode(piece->text + i, &bytes);
        int32_t id = dt_tok_vocab_model(&t->vocab, piece->text + i, bytes);
        if (id < 0 || !is_regular(&spm->pieces[id]))
            return dt_error_set(err, EX_DATAERR,
                                "pieces[%zu]: it has a character that is no "
                                "piece, which is not supported with BPE",
                                (size_t)(piece - spm->pieces));
    }
    return 0;
}

/* Adds each way to merge two pieces to this one. */
static int add_merges(struct dt_tokenizer *t, const struct model *spm,
                      const struct piece *piece, uint64_t rank,
                      struct dt_error *err)
{
    const uint64_t id = (uint64_t)(piece - spm->pieces);
    size_t bytes;
    for (size_t i = 0; i < piece->bytes; i += bytes) {
        dt_tok_decode(piece->text + i, &bytes);
        int32_t left =
            i > 0 ? dt_tok_vocab_model(&t->vocab, piece->text, i) : -1;
        int32_t right =
            dt_tok_vocab_model(&t->vocab, piece->text + i, piece->bytes - i);
        if (left < 0 || right < 0 || spm->pieces[left].type != DT_SPM_NORMAL ||
            spm->pieces[right].type != DT_SPM_NORMAL)
            continue;
        if (dt_tok_map_put(&t->model.merges,
                           (uint64_t)left << 32 | (uint64_t)right,
                           rank << 32 | id) < 0)
            return no_memory(err);
    }
    return 0;
}

/* Adds the merges of pieces(count), in this order. */
static int rank_merges(struct dt_tokenizer *t, const struct model *spm,
                       const struct piece *const *pieces, size_t count,
                       struct dt_error *err)
{
    uint64_t rank = 0;
    for (size_t i = 0; i < count; i++) {
        rank += i > 0 && pieces[i]->score < pieces[i - 1]->score;
        if (check_chars(t, spm, pieces[i], err) < 0 ||
            add_merges(t, spm, pieces[i], rank, err) < 0)
            return -1;
    }
    return 0;
}

/* Adds the user-defined symbols, which cut the text before any merge. */
static int add_symbols(struct dt_tokenizer *t, const struct model *spm,
                       struct dt_error *err)
{
    for (size_t i = 0; i < spm->count; i++) {
        const struct piece *piece = &spm->pieces[i];
        const struct dt_tok_leaf leaf = {.id = (int32_t)i};
        if (piece->type == DT_SPM_USER &&
            dt_tok_added_put(&t->normalized, piece->text, piece->bytes, &leaf) <
                0)
            return no_memory(err);
        if (piece->type == DT_SPM_UNUSED)
            return dt_error_set(err, EX_DATAERR,
                                "pieces[%zu]: type UNUSED is not supported "
                                "with BPE",
                                i);
    }
    return 0;
}

static int make_bpe(struct dt_tokenizer *t, const struct model *spm,
                    struct dt_error *err)
{
    const struct piece **pieces = calloc(spm->count, sizeof(*pieces));
    size_t count = 0;
    int rc = -1;
    t->model.kind = DT_TOK_BPE;
    t->model.fuse_unk = true;
    if (!pieces || dt_tok_map_init(&t->model.merges, spm->count) < 0) {
        free(pieces);
        return no_memory(err);
    }
    for (size_t i = 0; i < spm->count; i++)
        if (spm->pieces[i].type == DT_SPM_NORMAL)
            pieces[count++] = &spm->pieces[i];
    qsort(pieces, count, sizeof(*pieces), compare_pieces);
    if (rank_merges(t, spm, pieces, count, err) == 0 &&
        add_symbols(t, spm, err) == 0)
        rc = dt_tok_bpe_finish(t, err);
    if (rc == 0)
        dt_tok_steps_finish(t);
    free(pieces);
    return rc;
}

/* --- the rest --- */

static int make_normalizer(struct dt_tokenizer *t, const struct model *file,
                           struct dt_error *err)
{
    struct dt_tok_spm *spm = calloc(1, sizeof(*spm));
    if (!spm)
        return no_memory(err);
    t->normalizers[0] =
        (struct dt_tok_normalizer){.kind = DT_TOK_SPM, .spm = spm};
    t->normalizer_count = 1;
    spm->dummy_prefix = file->dummy_prefix;
    spm->trim = file->trim;
    spm->escape = file->escape;
    spm->suffix = file->suffix;
    if (dt_tok_trie_init(&spm->symbols) < 0)
        return no_memory(err);
    for (size_t i = 0; i < file->count; i++)
        if (file->pieces[i].type == DT_SPM_USER &&
            dt_tok_trie_add(&spm->symbols, file->pieces[i].text,
                            file->pieces[i].bytes, (int32_t)i) < 0)
            return no_memory(err);
    if (file->charsmap.bytes == 0)
        return 0;
    spm->map =
        dt_tok_charsmap_create(file->charsmap.data, file->charsmap.bytes, err);
    return spm->map ? 0 : dt_error_prefix(err, "normalizer_spec");
}

/* Makes the decoder that transformers uses for such models. */
static int make_decoder(struct dt_tokenizer *t, const struct model *spm,
                        struct dt_error *err)
{
    t->decoder.fallback = spm->byte_fallback;
    t->decoder.strip = spm->dummy_prefix || spm->trim;
    t->decoder.strip_each = spm->trim;
    t->decoder.pattern = strdup(DT_TOK_MARK);
    t->decoder.content = strdup(" ");
    t->decoder.pattern_bytes = sizeof(DT_TOK_MARK) - 1;
    t->decoder.content_bytes = 1;
    return t->decoder.pattern && t->decoder.content ? 0 : no_memory(err);
}

/* Control symbols and the unknown piece as tokens of tokenizer.json. */
static json_t *list_controls(const struct model *spm)
{
    json_t *list = json_array();
    for (size_t i = 0; list && i < spm->count; i++) {
        const struct piece *piece = &spm->pieces[i];
        if (piece->type != DT_SPM_CONTROL && piece->type != DT_SPM_UNKNOWN)
            continue;
        json_t *token = json_pack("{sI, ss%, sb, sb}", "id", (json_int_t)i,
                                  "content", piece->text, piece->bytes,
                                  "special", true, "normalized", false);
        if (json_array_append_new(list, token) < 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

/* Makes all tokens be searched in the raw text, which finds the same as in
 * normalized text unless a table changes the text of a token.
 */
static int search_raw(json_t *added, const struct model *spm,
                      struct dt_error *err)
{
    size_t i;
    json_t *token;
    json_array_foreach(added, i, token)
    {
        const json_t *normalized = json_object_get(token, "normalized");
        bool special = json_is_true(json_object_get(token, "special"));
        char shown[DT_TOK_SHOWN_BYTES];
        if (json_is_false(normalized) || (special && !normalized))
            continue;
        if (spm->charsmap.bytes > 0)
            return dt_error_set(
                err, EX_DATAERR,
                "added_tokens_decoder: \"%s\": normalized: true is not "
                "supported with a model of SentencePiece that changes text",
                dt_tok_shown(
                    json_string_value(json_object_get(token, "content")), 40,
                    shown));
        if (json_object_set_new(token, "normalized", json_false()) < 0)
            return no_memory(err);
    }
    return 0;
}

static int make_model(struct dt_tokenizer *t, const struct model *spm,
                      struct dt_error *err)
{
    switch (spm->model_type) {
    case MODEL_UNIGRAM:
        return make_unigram(t, spm, err);
    case MODEL_BPE:
        return make_bpe(t, spm, err);
    default:
        return dt_error_set(err, EX_DATAERR,
                            "trainer_spec: model_type %llu is not supported; "
                            "UNIGRAM (1) and BPE (2) are",
                            (unsigned long long)spm->model_type);
    }
}

/* The ids of all pieces; NULL: out of memory. */
static json_t *index_pieces(const struct model *spm)
{
    json_t *ids = json_object();
    int rc = ids ? 0 : -1;
    for (size_t i = 0; i < spm->count && rc == 0; i++) {
        const struct piece *piece = &spm->pieces[i];
        char *text = strndup(piece->text, piece->bytes);
        rc = text ? json_object_set_new_nocheck(ids, text,
                                                json_integer((json_int_t)i))
                  : -1;
        free(text);
    }
    if (rc == 0)
        return ids;
    json_decref(ids);
    return NULL;
}

static int make_tokenizer(struct dt_tokenizer *t, const struct model *spm,
                          const struct dt_tok_beside *beside,
                          struct dt_error *err)
{
    json_t *added = list_controls(spm), *ids = index_pieces(spm);
    int rc = added && ids
                 ? dt_tok_added_override(added, beside, ids, spm->count, err)
                 : no_memory(err);
    size_t end = spm->count;
    json_decref(ids);
    if (rc == 0)
        rc = search_raw(added, spm, err);
    dt_tok_added_end(added, &end);
    if (rc == 0 && dt_tok_vocab_init(&t->vocab, end,
                                     spm->count + json_array_size(added)) < 0)
        rc = no_memory(err);
    if (rc == 0 &&
        (add_pieces(t, spm, err) < 0 || dt_tok_added_read(t, added, err) < 0 ||
         dt_tok_added_build(t, added, err) < 0 || make_model(t, spm, err) < 0 ||
         make_normalizer(t, spm, err) < 0 || make_decoder(t, spm, err) < 0))
        rc = -1;
    json_decref(added);
    return rc;
}

int dt_tok_spm_read(struct dt_tokenizer *tokenizer, const void *data,
                    size_t bytes, const struct dt_tok_beside *beside,
                    struct dt_error *err)
{
    struct model spm;
    int rc = parse_file(&spm, data, bytes, err);
    tokenizer->spm = true;
    if (rc == 0)
        rc = make_tokenizer(tokenizer, &spm, beside, err);
    free(spm.pieces);
    return rc;
}
