/* SPDX-License-Identifier: Apache-2.0 */
/* model.h - how a piece of text becomes tokens; for tokenizer/ only */
#ifndef DT_TOKENIZER_MODEL_H
#define DT_TOKENIZER_MODEL_H

#include "tokenizer/basics.h"

struct dt_tokenizer;
struct dt_encoder;

/* Characters by which BPE's text is cut: those of ASCII, the mark that stands
 * for a space in SentencePiece, and others by a hash.
 */
enum {
    DT_TOK_CUT_MARK = 0x80,
    DT_TOK_CUT_MARK_CHAR = 0x2581,
    DT_TOK_CUT_CLASSES = 256,
};

static inline unsigned dt_tok_cut_class(uint32_t code_point)
{
    if (code_point < DT_TOK_CUT_MARK)
        return code_point;
    return code_point == DT_TOK_CUT_MARK_CHAR
               ? DT_TOK_CUT_MARK
               : DT_TOK_CUT_MARK + 1 + code_point % 127;
}

struct dt_tok_model {
    enum dt_tok_model_kind {
        DT_TOK_BPE,
        DT_TOK_UNIGRAM,
    } kind;
    int32_t unk;        /* -1: none */
    int32_t bytes[256]; /* ids of the ByteLevel alphabet, or of <0xNN> */
    bool byte_fallback;

    /* BPE */
    struct dt_tok_map merges; /* left << 32 | right -> rank << 32 | id */
    struct dt_tok_map chars;  /* code point -> id of that single character */
    int32_t units[256]; /* the id that a byte of text always becomes, or -1 */
    uint64_t *pairs;    /* (256, 256): the merge of the units of two bytes */
    uint64_t cuts[DT_TOK_CUT_CLASSES][DT_TOK_CUT_CLASSES / 64];
    bool byte_level, fuse_unk, ignore_merges;

    /* Unigram: the best sum of scores wins */
    struct dt_tok_trie texts; /* of the vocabulary -> id */
    double *scores;           /* by id */
    double unk_score;         /* of an unknown character */
    bool narrow; /* as SentencePiece: sums are rounded to float, and the text of
                    unknown characters is not looked up */
};

/* Whether a text may be cut between characters of two classes. */
static inline bool dt_tok_may_cut(const struct dt_tok_model *model, unsigned a,
                                  unsigned b)
{
    return model->cuts[a][b / 64] >> b % 64 & 1;
}

/* ---- model_read.c, bpe_*.c, unigram_model.c ---- */

/* Reads the vocabulary, and the rest of `model`. -1: EX_DATAERR, EX_OSERR. */
int dt_tok_vocab_read(struct dt_tokenizer *tokenizer, const json_t *root,
                      struct dt_error *err);
int dt_tok_model_read(struct dt_tokenizer *tokenizer, const json_t *model,
                      struct dt_error *err);
void dt_tok_model_fini(struct dt_tok_model *model);

/* The parts of them for one kind of model. -1: EX_DATAERR, EX_OSERR. */
int dt_tok_bpe_read(struct dt_tokenizer *tokenizer, const json_t *model,
                    struct dt_error *err);
int dt_tok_unigram_vocab(struct dt_tokenizer *tokenizer, const json_t *vocab,
                         struct dt_error *err);
int dt_tok_unigram_read(struct dt_tokenizer *tokenizer, const json_t *model,
                        struct dt_error *err);

/* Fills model.chars, units and pairs from the vocabulary and the merges, once
 * model.bytes is known. -1: EX_OSERR.
 */
int dt_tok_bpe_finish(struct dt_tokenizer *tokenizer, struct dt_error *err);

/* Fills model.cuts, after dt_tok_bpe_finish. False: the text must not be cut.
 */
bool dt_tok_bpe_cuts(struct dt_tokenizer *tokenizer);

/* The alphabet of ByteLevel: the code point that stands for a byte, and the
 * byte that a code point stands for, or -1.
 */
uint32_t dt_tok_byte_char(unsigned char byte);
int dt_tok_char_byte(uint32_t code_point);

/* Fills model.bytes from the vocabulary. */
void dt_tok_model_bytes(struct dt_tokenizer *tokenizer);

/* Whether all bytes of an unknown text have a token to fall back to. */
static inline bool dt_tok_falls_back(const struct dt_tok_model *model,
                                     const char *s, size_t n)
{
    for (size_t i = 0; model->byte_fallback && i < n; i++)
        if (model->bytes[(unsigned char)s[i]] < 0)
            return false;
    return model->byte_fallback;
}

/* BPE's merge of two tokens, as in model.merges, or DT_TOK_NONE. */
static inline uint64_t dt_tok_merge(const struct dt_tok_model *model,
                                    int32_t left, int32_t right)
{
    return dt_tok_map_get(&model->merges,
                          (uint64_t)(uint32_t)left << 32 | (uint32_t)right);
}

/* ---- piece.c: from pieces to tokens, with a cache ---- */

/* A token of a piece, or while BPE merges, a part of it. */
struct dt_tok_symbol {
    int32_t id;
    uint32_t begin, end; /* byte offsets in the piece */
    uint32_t prev, next; /* neighbors, in BPE's long pieces only */
};

#define DT_TOK_NOWHERE UINT32_MAX

/* The best way to cut the text before a byte. */
struct dt_tok_path {
    double score;
    uint32_t begin; /* of the last token; DT_TOK_NOWHERE: there is no way */
    int32_t id;
};

/* One thread's cache and workspace. */
struct dt_tok_work {
    struct dt_tok_cache *cache;
    struct dt_tok_symbol *symbols; /* has room for one for each byte */
    size_t count, capacity;
    uint64_t *heap; /* BPE: rank << 32 | position */
    size_t heap_count, heap_capacity;
    struct dt_tok_path *paths; /* Unigram */
    size_t path_capacity;
};

/* Creates a workspace. NULL: out of memory. */
struct dt_tok_work *dt_tok_work_create(void);
void dt_tok_work_destroy(struct dt_tok_work *work);

static inline void dt_tok_work_add(struct dt_tok_work *work, int32_t id,
                                   size_t begin, size_t end)
{
    work->symbols[work->count++] = (struct dt_tok_symbol){
        id, (uint32_t)begin, (uint32_t)end, DT_TOK_NOWHERE, DT_TOK_NOWHERE};
}

/* Appends the tokens of a piece to e->tokens. -1: EX_OSERR, EX_DATAERR. */
int dt_tok_piece(struct dt_encoder *e, const struct dt_tok_span *piece);

/* ---- bpe.c, unigram.c ---- */

/* Fill work->symbols with the tokens of s[0..n). -1: EX_OSERR, EX_DATAERR. */
int dt_tok_bpe(const struct dt_tokenizer *tokenizer, struct dt_tok_work *work,
               const char *s, size_t n, struct dt_error *err);
int dt_tok_unigram(const struct dt_tokenizer *tokenizer,
                   struct dt_tok_work *work, const char *s, size_t n,
                   struct dt_error *err);

#endif /* DT_TOKENIZER_MODEL_H */
