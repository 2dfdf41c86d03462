/* SPDX-License-Identifier: Apache-2.0 */
/* spm_parse.c - reads the fields of SentencePiece's .model files */
#include "config.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tokenizer/sentencepiece.h"
#include "base/utf8.h"

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

static int read_piece_field(struct dt_spm_piece *piece,
                            const struct dt_pb_field *field,
                            struct dt_error *err)
{
    switch (field->number) {
    case PIECE_TEXT:
        piece->text = (const char *)field->sub.data;
        piece->bytes = field->sub.bytes;
        return dt_pb_expect(field, DT_PB_BYTES, err);
    case PIECE_SCORE:
        piece->score = dt_pb_float(field);
        return dt_pb_expect(field, DT_PB_FIXED32, err);
    case PIECE_TYPE:
        if (field->value < DT_SPM_NORMAL || field->value > DT_SPM_BYTE)
            return dt_error_set(err, EX_DATAERR, "type: %llu is not known",
                                (unsigned long long)field->value);
        piece->type = (enum dt_spm_type)field->value;
        return dt_pb_expect(field, DT_PB_VARINT, err);
    default:
        return 0;
    }
}

static int check_piece(const struct dt_spm_piece *piece, struct dt_error *err)
{
    if (piece->bytes == 0 || memchr(piece->text, '\0', piece->bytes) ||
        dt_utf8_check(piece->text, piece->bytes) < piece->bytes)
        return dt_error_set(err, EX_DATAERR,
                            "expected UTF-8 text, without U+0000");
    if (!isfinite(piece->score))
        return dt_error_set(err, EX_DATAERR, "the score is no number");
    return 0;
}

static int read_piece(struct dt_spm *spm, struct dt_pb pb, struct dt_error *err)
{
    struct dt_spm_piece piece = {.type = DT_SPM_NORMAL};
    struct dt_pb_field field;
    int rc;
    if (spm->count == DT_TOK_IDS_MAX)
        return dt_error_set(err, EX_DATAERR, "more than %d", DT_TOK_IDS_MAX);
    if (spm->count == spm->capacity) {
        size_t capacity = 2 * spm->capacity + 256;
        if (!dt_tok_grow(&spm->pieces, capacity, sizeof(spm->pieces[0])))
            return dt_error_set(err, EX_OSERR, "out of memory");
        spm->capacity = capacity;
    }
    while ((rc = dt_pb_next(&pb, &field, err)) > 0)
        if (read_piece_field(&piece, &field, err) < 0)
            return -1;
    if (rc < 0 || check_piece(&piece, err) < 0)
        return -1;
    spm->pieces[spm->count++] = piece;
    return 0;
}

static int read_flag(bool *flag, const struct dt_pb_field *field,
                     struct dt_error *err)
{
    *flag = field->value != 0;
    return dt_pb_expect(field, DT_PB_VARINT, err);
}

static int read_role(char role[64], const struct dt_pb_field *field,
                     struct dt_error *err)
{
    if (field->wire == DT_PB_BYTES && field->sub.bytes > 0 &&
        field->sub.bytes < 64)
        snprintf(role, 64, "%.*s", (int)field->sub.bytes,
                 (const char *)field->sub.data);
    return dt_pb_expect(field, DT_PB_BYTES, err);
}

static int read_trainer_field(struct dt_spm *spm,
                              const struct dt_pb_field *field,
                              struct dt_error *err)
{
    switch (field->number) {
    case TRAINER_MODEL:
        spm->model_type = field->value;
        return dt_pb_expect(field, DT_PB_VARINT, err);
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

static int read_normalizer_field(struct dt_spm *spm,
                                 const struct dt_pb_field *field,
                                 struct dt_error *err)
{
    switch (field->number) {
    case NORMALIZER_MAP:
        spm->charsmap = field->sub;
        return dt_pb_expect(field, DT_PB_BYTES, err);
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

/* What is decoded would go through a table of its own. */
static int refuse_denormalizer(struct dt_spm *spm,
                               const struct dt_pb_field *field,
                               struct dt_error *err)
{
    (void)spm;
    if (field->number != NORMALIZER_MAP || field->value == 0)
        return 0;
    return dt_error_set(err, EX_DATAERR, "precompiled_charsmap: not supported");
}

static int read_spec(struct dt_spm *spm, struct dt_pb pb,
                     int (*read)(struct dt_spm *spm,
                                 const struct dt_pb_field *field,
                                 struct dt_error *err),
                     const char *name, struct dt_error *err)
{
    struct dt_pb_field field;
    int rc;
    while ((rc = dt_pb_next(&pb, &field, err)) > 0)
        if (read(spm, &field, err) < 0) {
            rc = -1;
            break;
        }
    return rc < 0 ? dt_error_prefix(err, "%s", name) : 0;
}

static int read_field(struct dt_spm *spm, const struct dt_pb_field *field,
                      struct dt_error *err)
{
    if (field->number < MODEL_PIECE || field->number > MODEL_DENORMALIZER)
        return 0;
    if (dt_pb_expect(field, DT_PB_BYTES, err) < 0)
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

int dt_spm_parse(struct dt_spm *spm, const void *data, size_t bytes,
                 struct dt_error *err)
{
    struct dt_pb pb = {data, bytes, 0};
    struct dt_pb_field field;
    int rc;
    *spm = (struct dt_spm){
        .model_type = 1,
        .dummy_prefix = true,
        .trim = true,
        .escape = true,
        .roles = {"<s>", "</s>", "<pad>", ""},
    };
    while ((rc = dt_pb_next(&pb, &field, err)) > 0)
        if (read_field(spm, &field, err) < 0)
            return -1;
    if (rc == 0 && spm->count == 0)
        rc = dt_error_set(err, EX_DATAERR,
                          "expected a model of SentencePiece, and there are no "
                          "pieces");
    return rc;
}

void dt_spm_fini(struct dt_spm *spm)
{
    free(spm->pieces);
    spm->pieces = NULL;
}
