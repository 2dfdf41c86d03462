/* SPDX-License-Identifier: Apache-2.0 */
/* sentencepiece.h - SentencePiece's .model files; for tokenizer/ only */
#ifndef DT_TOKENIZER_SENTENCEPIECE_H
#define DT_TOKENIZER_SENTENCEPIECE_H

#include "tokenizer/impl.h"
#include "tokenizer/protobuf.h"

enum dt_spm_type {
    DT_SPM_NORMAL = 1,
    DT_SPM_UNKNOWN = 2,
    DT_SPM_CONTROL = 3,
    DT_SPM_USER = 4, /* user-defined: found in the text before all others */
    DT_SPM_UNUSED = 5,
    DT_SPM_BYTE = 6,
};

struct dt_spm_piece {
    const char *text; /* in the file's data */
    size_t bytes;
    float score;
    enum dt_spm_type type;
};

/* What a file says. */
struct dt_spm {
    struct dt_spm_piece *pieces; /* by id */
    size_t count, capacity;
    uint64_t model_type; /* 1: Unigram, 2: BPE */
    bool byte_fallback, suffix;
    bool dummy_prefix, trim, escape;
    struct dt_pb charsmap;
    char roles[DT_TOKEN_UNK + 1][64]; /* texts of BOS, EOS, PAD */
};

/* Reads a file's data, which must stay. -1: EX_DATAERR, EX_OSERR. */
int dt_spm_parse(struct dt_spm *spm, const void *data, size_t bytes,
                 struct dt_error *err);
void dt_spm_fini(struct dt_spm *spm);

#endif /* DT_TOKENIZER_SENTENCEPIECE_H */
