/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ops.h - the table of math functions; a backend fills it
 *
 * Letters: B rows of a batch, T positions in a row, N = B*T, C channels,
 * OC output channels, NH query heads, NKV heads of keys and values (NH is a
 * multiple), HS head size, V vocabulary, P positions, I width of the MLP. All
 * tensors are contiguous, row-major; the shape follows each name. Views are
 * asserted to have exactly that many elements.
 *
 * Types: activations, their gradients and weights have the compute type X:
 * DT_F32, DT_BF16 or DT_F16, the same for all arguments of a call; everything
 * is computed in fp32 and rounded once. Gradients of parameters, statistics
 * (mean, rstd, lse) and the optimizer's state are DT_F32, ids and positions
 * DT_I32.
 *
 * Functions run in the order of `stream` (cpu: NULL, done on return), never
 * allocate device memory and never fail: shapes are the caller's promise. A
 * NULL slot means that the backend does not have the function.
 *
 * `accumulate`: false overwrites the gradient of a parameter, true adds to it,
 * so that the first micro-batch of a step needs no zeroing pass. A view with
 * count 0 means "absent".
 */
#ifndef DT_OPS_OPS_H
#define DT_OPS_OPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/choices.h"
#include "ops/documents.h"
#include "ops/update.h"
#include "tensor/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How a weight of a linear layer is stored. */
enum dt_weight_order {
    DT_WEIGHT_IN_OUT, /* w(C, OC), y = x w: GPT-2's Conv1D */
    DT_WEIGHT_OUT_IN, /* w(OC, C), y = x w^T: Linear and tied embeddings */
};

/* The activation of an MLP. */
enum dt_activation {
    DT_SILU,       /* x / (1 + exp(-x)) */
    DT_GELU_TANH,  /* x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), GPT-2's
                      gelu_new (Hendrycks, Gimpel, "GELUs", sec. 2) */
    DT_GELU_ERF,   /* x/2 (1 + erf(x / sqrt 2)), which that approximates */
    DT_QUICK_GELU, /* x / (1 + exp(-1.702 x)), and so does this */
};

/* Dropout: an element is kept with probability 1 - rate and divided by it. The
 * decision is a function of (seed, place, row's global number, element of the
 * row, < 2^48) and of nothing else: kept if its word >= rate * 2^32, which is
 * word element % 4 of the block of Philox (base/rng.h) with the counter
 * (element / 4, low and high part with place above it, row, its high part +
 * 2^31).
 */
struct dt_dropout {
    double rate; /* 0: none */
    uint64_t seed;
    uint32_t place;      /* which dropout of the model, < 2^16 */
    struct dt_view rows; /* (B) I64, global sample numbers */
};

/* A pair of matrices that adapts a linear layer (Hu et al., "LoRA", arXiv
 * 2106.09685, sec. 4.1): scale * (dropout(x) a^T) b^T is added to the columns
 * first .. first + OC - 1 of its output.
 */
struct dt_low_rank {
    struct dt_view a, b; /* (R,C), (OC,R) X */
    size_t C, R, OC;
    size_t width, first; /* columns of a row of the output */
    float scale;
    struct dt_dropout dropout; /* of x, element t*C + c */
    struct dt_view low;        /* (N,R) F32, a workspace */
    struct dt_view dropped;    /* (N,C) X, another; absent without dropout */
};

/* A sparse matrix (N, M) by its rows: row n has the entries from starts(n) to
 * starts(n + 1), in the order in which they are summed.
 */
struct dt_sparse {
    struct dt_view starts;  /* (N + 1) I32 */
    struct dt_view columns; /* (entries) I32, < M */
    struct dt_view values;  /* (entries) F32 */
};

enum { DT_MAX_HEAD_SIZE = 1024 };

/* Attention with bounds: position t of a row attends to its positions s with
 * first(t) <= s <= last(t) and t - s < window; first(t) <= t <= last(t) < T,
 * and the positions that attend to a key are neighbors. Text: first is where
 * the document begins, last is absent. A tower: first and last position of the
 * image, or of a window of it, whose largest size may be told as `window`.
 * Images within text: last is the larger one of t and the image's last
 * position. Query head h reads head h / (NH / NKV) of keys and values. qkv is
 * (N, (NH + 2 NKV) HS): all heads of q, of k, of v. HS is even and at most
 * DT_MAX_HEAD_SIZE, here and below.
 */
struct dt_attention {
    size_t B, T, NH, NKV, HS;
    size_t window;        /* 0: no limit */
    float scale;          /* of the scores, > 0 */
    float softcap;        /* scaled scores become softcap tanh(score /
                             softcap); 0: they stay */
    struct dt_view first; /* (N) I32, count 0: all 0 */
    struct dt_view last;  /* (N) I32, count 0: last(t) = t */
    struct dt_documents documents; /* what `first` says, without `last`: some
                                      implementations are faster with it */
    struct dt_dropout
        dropout; /* of the probabilities; element (h*T + t)*T + s */
};

/* Constants of a norm: eps, and `shift`, which is added to each weight. It is 1
 * where weights are stored as their distance from 1.
 */
struct dt_norm_rule {
    float eps, shift;
};

/* Norm and rotation of the heads of q and k before attention. The first R
 * elements of a head are rotated, an even number; fewer than all only without
 * norms. Pair j of row n has the angle of column j of the table at position
 * positions(axis(j), n). Text has one axis; images have two, rows and columns
 * of patches (columns of the table may repeat), and text with images three
 * (Wang et al., Qwen2-VL, arXiv 2409.12191, sec. 2.1).
 */
struct dt_rope {
    size_t NH, NKV, HS, R;
    struct dt_view positions;      /* (A, N) I32, < P */
    struct dt_view axis;           /* (R/2) I32, < A; count 0: all 0 */
    struct dt_view table;          /* (P, R) F32: R/2 cosines, R/2 sines */
    struct dt_view q_norm, k_norm; /* (HS) X, weights of RMSNorm over a head
                                      before it is rotated; count 0: none */
    struct dt_norm_rule norm;
};

/* Norms of queries and keys over all heads together. */
struct dt_heads_norm {
    size_t NH, NKV, HS;
    struct dt_view q_norm, k_norm; /* (NH HS), (NKV HS) X, their weights */
    float eps;
};

/* Keys and values of B sequences that are being generated, in blocks of
 * DT_KV_BLOCK positions: position s of sequence b is row s % DT_KV_BLOCK of
 * block table(b, s / DT_KV_BLOCK). Row r of block i begins at element i *
 * stride + r * NKV*HS of k and of v.
 */
enum { DT_KV_BLOCK = 32 };

struct dt_kv {
    size_t B, NH, NKV, HS;
    size_t window; /* these three as in struct dt_attention */
    float scale, softcap;
    size_t blocks;        /* of a sequence, at most */
    size_t stride;        /* elements from a block to the next one */
    struct dt_view k, v;  /* X */
    struct dt_view table; /* (B, blocks) I32 */
};

enum { DT_SAMPLING_NEVER = 2 };

/* How a token is drawn. Tokens that are equally likely are kept, or dropped,
 * together.
 */
struct dt_sampling {
    double temperature; /* > 0: divides the logits; 0: the likeliest token */
    size_t top_k;       /* keep the k largest logits; 0: all */
    double top_p;       /* of these, keep the fewest tokens that together have
                           this probability (Holtzman et al., "neural text
                           degeneration", sec. 3.1); 1: all */
    double min_p;       /* keep tokens with this part of the largest
                           probability; 0: all */
    double repetition_penalty; /* logits of tokens that were there are divided
                                  by it, negative ones multiplied (Keskar et
                                  al., CTRL, sec. 4.1); 1: none */
    size_t never_count;
    int32_t never[DT_SAMPLING_NEVER]; /* (never_count) different tokens that are
                                         not drawn, whatever their logits */
};

/* Logits z of a head from its products l = x w^T: with s = scale l, z =
 * softcap tanh(s / softcap) / temperature, or s / temperature if softcap is 0.
 * scale and temperature are > 0.
 */
struct dt_logit_rule {
    float scale, softcap, temperature;
};

/* Values of each row of a head, (N) F32 each and 0 in rows without a target;
 * all but the first two may be absent. With z(v) the logits of a row (struct
 * dt_logit_rule) and p = softmax(z):
 */
struct dt_logprobs {
    struct dt_view logp;      /* log p(target), at most 0, or NaN */
    struct dt_view lse;       /* log sum of e^z(v), for the backward pass */
    struct dt_view entropy;   /* of p */
    struct dt_view collision; /* log sum of p(v)^2 */
    struct dt_view mean;      /* of z */
    struct dt_view top;       /* 1 if no z(v) is above the target's, else 0 */
};

struct dt_ops {
    const char *name; /* "cpu/avx512" */

    /* Who multiplies matrices: "oneDNN 2.6.3", "built-in loops" */
    const char *(*library)(void);

    /* NULL if the hardware multiplies matrices of this compute type, else how
     * they are multiplied ("bf16 is computed in fp32: ...").
     */
    const char *(*emulation)(enum dt_dtype type);

    /* Who computes attention, and why no other does: "cuDNN 9.19.0", "kernels
     * of disttrain: ...". NULL slot: there is no choice.
     */
    const char *(*attention_library)(void);

    /* The next notice for the user about operations that have run: one is
     * slower than it could be, and why. Each is given once; NULL: no more. NULL
     * slot: there are never any.
     */
    const char *(*notice)(void);

    /* Operations may take some seconds of a process to find the fastest way for
     * shapes that they see first. Between true and false these are others, so
     * that decoding, which has many shapes, leaves training its own. NULL: they
     * never do.
     */
    void (*search_apart)(bool apart);

    /* out(N,C) = wte(V,C)[ids(N)] + wpe(P,C)[positions(N)], wpe may be absent;
     * then dropout of element t*C + c. At id -1 there are zeros in place of a
     * row of wte.
     */
    void (*embedding_forward)(struct dt_stream *stream, struct dt_view out,
                              struct dt_view ids, struct dt_view positions,
                              struct dt_view wte, struct dt_view wpe, size_t N,
                              size_t C, const struct dt_dropout *dropout);
    /* dwte(V,C) += dout(N,C) at ids (always adds), but nothing at id -1 and at
     * the id `skip`, -1: no other; dwpe(P,C) = or += the sum of dout at
     * positions. dout is that before dropout: see dropout_backward.
     * Deterministic for any number of threads.
     */
    void (*embedding_backward)(struct dt_stream *stream, struct dt_view dwte,
                               struct dt_view dwpe, struct dt_view dout,
                               struct dt_view ids, struct dt_view positions,
                               int32_t skip, size_t N, size_t C,
                               bool accumulate);

    /* out(N,C) = 0, except out[rows(m)] = x[m] for each row m of x(M,C): the
     * gradient of embedding_forward as a choice of rows, which all differ. A
     * row -1 is dropped.
     */
    void (*scatter_rows)(struct dt_stream *stream, struct dt_view out,
                         struct dt_view x, struct dt_view rows, size_t N,
                         size_t C, size_t M);

    /* out(N,C)[rows(m)] += x[m] for each row m of x(M,C), rounded once: rows
     * differ, but any may be -1, which is dropped. Its gradient by x is
     * embedding_forward of the rows of dout.
     */
    void (*add_rows)(struct dt_stream *stream, struct dt_view out,
                     struct dt_view x, struct dt_view rows, size_t N, size_t C,
                     size_t M);

    /* out(M,F) = the row rows(m) of pixels(P,W) U8 for each row m, as a tower's
     * input: each byte is looked up in table(3,256) F32 by its color, rounded,
     * and repeated for each frame. A row of pixels is (3, W/3), one color after
     * another, a row of out (3, frames, W/3), so that F = frames W. rows may be
     * absent: row m is m; a row -1 gives zeros.
     */
    void (*patch_rows)(struct dt_stream *stream, struct dt_view out,
                       struct dt_view pixels, struct dt_view rows,
                       struct dt_view table, size_t frames, size_t M, size_t W);

    /* out(N,C) = or += a x(M,C), summed in fp32 and rounded once; out is X or
     * F32. Its gradient by x is the same with a transposed. Each row of out has
     * the same bits with any others.
     */
    void (*sparse_matmul)(struct dt_stream *stream, struct dt_view out,
                          struct dt_view x, const struct dt_sparse *a, size_t N,
                          size_t C, bool accumulate);

    /* linear_forward of fewer rows than this give each row the bits that it
     * has alone; 0: they do not.
     */
    size_t few_rows;

    /* linear_forward of more rows than this may sum in another order than of
     * as many, down to few_rows, and in fp32 in one that depends on the row and
     * on how many there are; 0: it does not.
     */
    size_t some_rows;

    /* out(N,OC) = x(N,C) w + b(OC); b may be absent. out may be F32 where x is
     * not.
     */
    void (*linear_forward)(struct dt_stream *stream, struct dt_view out,
                           struct dt_view x, struct dt_view w, struct dt_view b,
                           enum dt_weight_order order, size_t N, size_t C,
                           size_t OC);
    /* sum(N,OC) = base(N,OC) + x(N,C) w + b(OC), rounded once; sum may be base.
     * NULL: linear_forward and an addition take no longer.
     */
    void (*linear_add_forward)(struct dt_stream *stream, struct dt_view sum,
                               struct dt_view base, struct dt_view x,
                               struct dt_view w, struct dt_view b,
                               enum dt_weight_order order, size_t N, size_t C,
                               size_t OC);
    /* dx(N,C) = dout(N,OC) w^T; dw = or += x^T dout; db(OC) = or += sum_N dout.
     * dx may be x. It may be absent: nothing before the layer is trained. So
     * may the others: of frozen weights here and below.
     */
    void (*linear_backward)(struct dt_stream *stream, struct dt_view dx,
                            struct dt_view dw, struct dt_view db,
                            struct dt_view dout, struct dt_view x,
                            struct dt_view w, enum dt_weight_order order,
                            size_t N, size_t C, size_t OC, bool accumulate);

    /* LayerNorm: out(N,C) = (x - mean) * rstd * w(C) + b(C), row by row; keeps
     * mean(N) and rstd(N) = 1/sqrt(var + eps) for the backward pass. Without b
     * and mean: RMSNorm, out = x * rstd * w, rstd = 1/sqrt(mean of x^2 + eps).
     * w stands for w + shift.
     */
    void (*norm_forward)(struct dt_stream *stream, struct dt_view out,
                         struct dt_view mean, struct dt_view rstd,
                         struct dt_view x, struct dt_view w, struct dt_view b,
                         struct dt_norm_rule rule, size_t N, size_t C);
    /* sum(N,C) = x(N,C) + dropout of y(N,C), element t*C + c; then norm_forward
     * of sum into out. sum may be x.
     */
    void (*residual_norm_forward)(struct dt_stream *stream, struct dt_view sum,
                                  struct dt_view out, struct dt_view mean,
                                  struct dt_view rstd, struct dt_view x,
                                  struct dt_view y, struct dt_view w,
                                  struct dt_view b, struct dt_norm_rule rule,
                                  size_t N, size_t C,
                                  const struct dt_dropout *dropout);
    /* dx(N,C) += gradient through the norm (adds: the residual stream's own
     * gradient is already there); dw(C), db(C) = or +=. x: the norm's input.
     * sums(C) F32 = the sum of dx over rows, which is the gradient of a bias
     * that was added to x: absent without b, and unless norm_sums.
     */
    void (*norm_backward)(struct dt_stream *stream, struct dt_view dx,
                          struct dt_view dw, struct dt_view db,
                          struct dt_view sums, struct dt_view dout,
                          struct dt_view x, struct dt_view w,
                          struct dt_view mean, struct dt_view rstd, float shift,
                          size_t N, size_t C, bool accumulate);
    /* norm_backward has `sums` in registers, so that linear_backward need not
     * read dout once more for db.
     */
    bool norm_sums;

    /* dx(N,C) = dout(N,C) where the forward pass kept the element t*C + c,
     * divided by 1 - rate, else 0; dx may be dout.
     */
    void (*dropout_backward)(struct dt_stream *stream, struct dt_view dx,
                             struct dt_view dout, size_t N, size_t C,
                             const struct dt_dropout *dropout);

    /* linear_forward into pre(N,OC), and its activation into out(N,OC) */
    void (*linear_activation_forward)(struct dt_stream *stream,
                                      struct dt_view out, struct dt_view pre,
                                      struct dt_view x, struct dt_view w,
                                      struct dt_view b,
                                      enum dt_weight_order order,
                                      enum dt_activation activation, size_t N,
                                      size_t C, size_t OC);
    /* linear_backward of a layer with x(N,C) = act(pre(N,C)), except that it
     * computes dpre(N,C) = dx * act'(pre) instead of dx. dpre may be x, which
     * may be overwritten.
     */
    void (*linear_activation_backward)(struct dt_stream *stream,
                                       struct dt_view dpre, struct dt_view dw,
                                       struct dt_view db, struct dt_view dout,
                                       struct dt_view x, struct dt_view pre,
                                       struct dt_view w,
                                       enum dt_weight_order order,
                                       enum dt_activation activation, size_t N,
                                       size_t C, size_t OC, bool accumulate);

    /* out = act(x), element by element */
    void (*activation_forward)(struct dt_stream *stream, struct dt_view out,
                               struct dt_view x, enum dt_activation activation);
    /* dx = dout * act'(x); dx may be dout or x */
    void (*activation_backward)(struct dt_stream *stream, struct dt_view dx,
                                struct dt_view dout, struct dt_view x,
                                enum dt_activation activation);

    /* out(N,width) += the pair's product with x(N,C), in the pair's columns. A
     * row of fewer than few_rows has the bits that it has alone.
     */
    void (*low_rank_forward)(struct dt_stream *stream, struct dt_view out,
                             struct dt_view x, const struct dt_low_rank *pair,
                             size_t N);
    /* dx(N,C) += its gradient by dout(N,width), unless it is absent; da(R,C),
     * db(OC,R) = or +=
     */
    void (*low_rank_backward)(struct dt_stream *stream, struct dt_view dx,
                              struct dt_view da, struct dt_view db,
                              struct dt_view dout, struct dt_view x,
                              const struct dt_low_rank *pair, size_t N,
                              bool accumulate);

    /* x(N,2I) is the gate g and the input u of each row, side by side:
     * out(N,I) = act(g) * u (Shazeer, "GLU variants", eq. 5 and 6).
     */
    void (*glu_forward)(struct dt_stream *stream, struct dt_view out,
                        struct dt_view x, enum dt_activation activation,
                        size_t N, size_t I);
    /* dx(N,2I) from dout(N,I) and x(N,2I); dx may be x */
    void (*glu_backward)(struct dt_stream *stream, struct dt_view dx,
                         struct dt_view dout, struct dt_view x,
                         enum dt_activation activation, size_t N, size_t I);

    /* out = qkv(N, (NH + 2 NKV) HS) with RMSNorm over all heads of q and over
     * all of k; v is copied. Keeps rstd(N, 2), of q and of k.
     */
    void (*heads_norm_forward)(struct dt_stream *stream, struct dt_view out,
                               struct dt_view rstd, struct dt_view qkv,
                               size_t N, const struct dt_heads_norm *norm);
    /* dqkv, in place, from the gradient of out to that of qkv; dq_norm, dk_norm
     * = or +=; they may be absent
     */
    void (*heads_norm_backward)(struct dt_stream *stream, struct dt_view dqkv,
                                struct dt_view dq_norm, struct dt_view dk_norm,
                                struct dt_view qkv, struct dt_view rstd,
                                size_t N, const struct dt_heads_norm *norm,
                                bool accumulate);

    /* out = qkv(N, (NH + 2 NKV) HS) with the heads of q and k normed, if there
     * are weights for it, and rotated by their position: element j and j + R/2
     * are a pair (Su et al., RoFormer, eq. 34, in Hugging Face's order); v is
     * copied. rstd(N, NH + NKV) is kept for the backward pass, absent without
     * norms; then out may be qkv.
     */
    void (*rope_forward)(struct dt_stream *stream, struct dt_view out,
                         struct dt_view rstd, struct dt_view qkv, size_t N,
                         const struct dt_rope *rope);
    /* dqkv, in place, from the gradient of out to that of qkv; dq_norm(HS),
     * dk_norm(HS) = or +=. qkv and rstd only with norms.
     */
    void (*rope_backward)(struct dt_stream *stream, struct dt_view dqkv,
                          struct dt_view dq_norm, struct dt_view dk_norm,
                          struct dt_view qkv, struct dt_view rstd, size_t N,
                          const struct dt_rope *rope, bool accumulate);

    /* attention_forward cuts sums over keys at multiples of so many positions:
     * a document or an image that begins at one, or has none within it, has the
     * bits that it has alone in a row; 0: that depends on more.
     */
    size_t key_tile;

    /* out(N, NH*HS); lse(B,NH,T) = log-sum-exp of the scaled scores, all that
     * is kept for the backward pass (Dao et al., FlashAttention, alg. 1): no
     * T x T buffer outlives a tile.
     */
    void (*attention_forward)(struct dt_stream *stream, struct dt_view out,
                              struct dt_view lse, struct dt_view qkv,
                              const struct dt_attention *attention);
    /* dqkv = gradient (overwritten); scores are recomputed. workspace: F32, at
     * least attention_workspace elements.
     */
    void (*attention_backward)(struct dt_stream *stream, struct dt_view dqkv,
                               struct dt_view dout, struct dt_view out,
                               struct dt_view lse, struct dt_view qkv,
                               struct dt_view workspace,
                               const struct dt_attention *attention);
    /* Elements of workspace with which attention_backward of X uses all of the
     * hardware. Reads only the sizes and the window of `attention`, and whether
     * it has first, last and dropout.
     */
    size_t (*attention_workspace)(enum dt_dtype type,
                                  const struct dt_attention *attention);

    /* Stores keys and values of qkv(N, (NH + 2 NKV) HS) in the cache, those of
     * row n in row places(N) % DT_KV_BLOCK of block places(N) / DT_KV_BLOCK;
     * negative: nowhere. Does not read the table.
     */
    void (*kv_store)(struct dt_stream *stream, const struct dt_kv *kv,
                     struct dt_view qkv, struct dt_view places, size_t N);
    /* out(B, NH*HS) of one new position of each sequence, qkv(B, (NH + 2 NKV)
     * HS), whose keys and values are stored already: sequence b attends to its
     * positions up to positions(B).
     */
    void (*kv_attention)(struct dt_stream *stream, struct dt_view out,
                         struct dt_view qkv, struct dt_view positions,
                         const struct dt_kv *kv);

    /* Head and cross entropy in one, a chunk of rows at a time: logits(.,V) =
     * x w(V,C)^T exist only in `workspace` (F32, at least loss_workspace of one
     * row). Adds to DT_STEP_LOSS the sum of the token losses of all rows except
     * those with a negative target, such as DT_IGNORE:
     *   (1 - smoothing) * nll(target) + smoothing / V * sum over v of nll(v)
     * The rule's temperature is 1.
     * If dx is not absent, also computes dx(N,C) and dw(V,C) (= or +=), the
     * gradients of DT_STEP_LOSS_SCALE * that sum.
     */
    void (*linear_cross_entropy)(struct dt_stream *stream, struct dt_view step,
                                 struct dt_view dx, struct dt_view dw,
                                 struct dt_view x, struct dt_view w,
                                 struct dt_view targets,
                                 struct dt_view workspace,
                                 const struct dt_logit_rule *rule,
                                 float smoothing, size_t N, size_t C, size_t V,
                                 bool accumulate);

    /* Log-probabilities of targets(N), and the other values of `out`, under the
     * softmax of the logits of x(N,C) w(V,C)^T; a row whose target is negative
     * has none. Goes by chunks of rows, as linear_cross_entropy does; on every
     * device logits are F32.
     */
    void (*linear_logprob_forward)(struct dt_stream *stream,
                                   const struct dt_logprobs *out,
                                   struct dt_view x, struct dt_view w,
                                   struct dt_view targets,
                                   struct dt_view workspace,
                                   const struct dt_logit_rule *rule, size_t N,
                                   size_t C, size_t V);
    /* dx(N,C) and dw(V,C) (= or +=), the gradients of DT_STEP_LOSS_SCALE * sum
     * over n of dlogp(n) logp(n) + dentropy(n) entropy(n), from logits that are
     * computed again. dlogp and dentropy are (N) F32, lse and entropy those of
     * the forward pass; dentropy may be absent, and then entropy may be, too.
     */
    void (*linear_logprob_backward)(struct dt_stream *stream,
                                    struct dt_view step, struct dt_view dx,
                                    struct dt_view dw, struct dt_view dlogp,
                                    struct dt_view dentropy, struct dt_view lse,
                                    struct dt_view entropy, struct dt_view x,
                                    struct dt_view w, struct dt_view targets,
                                    struct dt_view workspace,
                                    const struct dt_logit_rule *rule, size_t N,
                                    size_t C, size_t V, bool accumulate);

    /* The same logits, F32, from their products, in place. */
    void (*apply_logit_rule)(struct dt_stream *stream, struct dt_view logits,
                             const struct dt_logit_rule *rule);

    /* Draws ids(B) I32 from softmax(logits(B, V) / temperature), as `sampling`
     * limits it, by draws(B) F64 in [0, 1): the first token at which the sum of
     * probabilities exceeds the draw. logp(B) F32 are their log-probabilities
     * without limits, and among all tokens, also those that are never drawn;
     * at temperature 1 if it is 0. A negative draw: none, id -1. seen(B, V / 32
     * rounded up) I32, with a bit for each token that was there, is absent
     * without a penalty. logits, F32, become workspace.
     */
    void (*sample)(struct dt_stream *stream, struct dt_view ids,
                   struct dt_view logp, struct dt_view logits,
                   struct dt_view draws, struct dt_view seen,
                   const struct dt_sampling *sampling, size_t B, size_t V);

    /* Elements of workspace with which linear_cross_entropy of rows of type X
     * is fastest; with less, chunks are smaller. Enough for linear_logprob_*,
     * too. `whole`: with which all N rows are one chunk, if a little speed is
     * worth that much memory.
     */
    size_t (*loss_workspace)(enum dt_dtype type, size_t N, size_t C, size_t V,
                             bool whole);

    /* x = 0, element by element, any type */
    void (*zero)(struct dt_stream *stream, struct dt_view x);

    /* out = x, element by element, from or to F32; rounds to nearest even */
    void (*convert)(struct dt_stream *stream, struct dt_view out,
                    struct dt_view x);

    /* out += x; out is F32 and x F32 or BF16 */
    void (*add)(struct dt_stream *stream, struct dt_view out, struct dt_view x);

    /* out = x or += x; out is BF16 and x F32. Rounded at random. */
    void (*add_dithered)(struct dt_stream *stream, struct dt_view out,
                         struct dt_view x, bool accumulate,
                         const struct dt_dither *dither);

    /* out = a x + b y, element by element, all X; without y: a x. out may be
     * one of them.
     */
    void (*combine)(struct dt_stream *stream, struct dt_view out,
                    struct dt_view x, float a, struct dt_view y, float b);

    /* sum(1), I64, += a hash of the bits of x, of any type, whose bytes are a
     * multiple of 4: hash.h. The same on every kind of hardware, for any number
     * of threads.
     */
    void (*hash)(struct dt_stream *stream, struct dt_view sum,
                 struct dt_view x);

    /* Begins a step: zeroes its sums and sets its parameters to params[outcome
     * of the previous step]; DT_STEP_TAKEN if `step` is all zero.
     */
    void (*step_begin)(struct dt_stream *stream, struct dt_view step,
                       const struct dt_step_params params[DT_STEP_OUTCOMES]);
    /* Adds the host's numbers to DT_STEP_TARGETS and DT_STEP_STOP. */
    void (*step_add)(struct dt_stream *stream, struct dt_view step,
                     double targets, double stop);
    /* Adds to DT_STEP_SQUARES the sum of squares of x, F32 or BF16, in double;
     * the same bits for any number of threads. NaN or infinite if an element
     * is.
     */
    void (*sum_of_squares)(struct dt_stream *stream, struct dt_view step,
                           struct dt_view x);
    /* Once the sums are complete: norm, outcome and grad_scale. Clips like
     * torch's clip_grad_norm_: min(1, max_norm / (norm + 1e-6)); not if
     * max_norm <= 0.
     */
    void (*clip_and_check)(struct dt_stream *stream, struct dt_view step,
                           double max_norm);
    /* One AdamW step on p, g, m, v, all (count), if the outcome is
     * DT_STEP_TAKEN: p, m and v F32, or all BF16 and rounded at random; g F32
     * or BF16. w(count) X becomes p, rounded to nearest even; absent if the
     * model computes with p directly; BF16 if p is. The same bits on every kind
     * of hardware, for any number of threads and any cut of a range: adamw.h.
     */
    void (*adamw)(struct dt_stream *stream, struct dt_view step,
                  struct dt_view p, struct dt_view w, struct dt_view g,
                  struct dt_view m, struct dt_view v,
                  const struct dt_adamw *args);
};

/* How many of the next `left` rows to give to linear_forward, so that each has
 * the bits that it has anywhere else: all of them, except in fp32. The last
 * call has few_rows or more, too, unless there are fewer in all.
 */
static inline size_t dt_ops_exact_rows(const struct dt_ops *ops,
                                       enum dt_dtype type, size_t left)
{
    const size_t most = ops->some_rows;

    if (type != DT_F32 || most == 0 || left <= most)
        return left;
    return left < 2 * most ? left / 2 : most;
}

/* Where work runs: device, functions, and their stream. */
struct dt_exec {
    const struct dt_device *device;
    const struct dt_ops *ops;
    struct dt_stream *stream;
};

/* Queues a copy of `from`, in memory of the device or of the host, to `to`. -1:
 * the device failed.
 */
static inline int dt_exec_copy(const struct dt_exec *exec, struct dt_view to,
                               struct dt_view from, struct dt_error *err)
{
    assert(dt_view_bytes(to) == dt_view_bytes(from));
    return exec->device->copy(exec->stream, dt_view_data(to),
                              dt_view_data(from), dt_view_bytes(from), err);
}

/* The CPU backend in the fastest variant that this processor runs
 * (cpu/avx512, cpu/avx2, cpu/generic): OpenMP, and oneDNN for matrix
 * multiplication if it was built in.
 */
const struct dt_ops *dt_ops_cpu(void);

/* The host: dt_cpu and dt_ops_cpu(). */
struct dt_exec dt_exec_cpu(void);

#ifdef __cplusplus
}
#endif

#endif /* DT_OPS_OPS_H */
