/* SPDX-License-Identifier: Apache-2.0 */
/*
 * example.h - one example: the options that make it, and its layout in words
 *
 * The words are u32. Each is a token: the id, with DT_TARGET_BIT set if the
 * model is trained to predict it. The first token of an example has the bit,
 * too; at the start of a row nothing predicts it, so the batch must ignore it.
 *
 * An example that is a preference pair begins with two words that are not
 * tokens: the margin's bits, and the number of tokens of the chosen side. The
 * tokens of the chosen and of the rejected side follow, each after the prompt,
 * whose tokens do not have DT_TARGET_BIT.
 *
 * Where options have images, each example begins with words about its own, and
 * example_images.c writes and finds them: the number of images, and of the line
 * that the example is of, for messages, 0 if it is of none; then of each image
 * 8 words of the SHA-256 of its file, its height and width, the number of its
 * pictures, and of each of these the index, among the tokens of the example, or
 * of either side of a pair, of its first token. The tokens follow; those of a
 * picture are neighbors and all have the id of the placeholder. The images of a
 * pair are in its prompt, so that they are at the same place in both sides.
 */
#ifndef DT_DATA_EXAMPLE_H
#define DT_DATA_EXAMPLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/choices.h"
#include "base/sha256.h"

struct dt_image_processor;
struct dt_image_store;
struct dt_image_text;

/* How the images of lines become pictures of examples. */
struct dt_example_images {
    const struct dt_image_processor *processor;
    const struct dt_image_text *text; /* as the model's family writes them */
    const char *root; /* directory of paths; NULL: paths are refused */
    struct dt_image_store *store; /* keeps the files */
    bool drop; /* a line is left out and counted if an image of it is missing or
                  bad; else it is a bad line */
    bool train_on_image_tokens; /* placeholders may be targets, as in TRL */
};

/* How lines of a file become examples. */
struct dt_example_options {
    enum dt_format format; /* of lines; not TOKENS_BIN */
    enum dt_loss_on loss_on;
    size_t vocab_size; /* of the model: ids in lines are smaller; 0: not known,
                          than the tokenizer's */
    /* Names of keys; NULL: text, prompt, completion, messages, and, of
     * preference pairs, chosen, rejected, margin. */
    const char *text_key, *prompt_key, *completion_key, *messages_key;
    const char *chosen_key, *rejected_key, *margin_key;
    const char *chat_template;  /* as in chat.h, or "none" */
    const char *chat_variables; /* JSON, as in chat.h */
    bool parse_special; /* text that spells a control token becomes it */
    bool keep_marks;    /* completions may spell marks of images, as text; else
                           such a line is bad */
    const struct dt_example_images *images; /* NULL: lines with images are bad,
                                               and examples have no words for
                                               them */
    double bad_limit; /* a larger share of bad lines is an error */
    int threads;
    const char *cache_dir; /* NULL: .disttrain-cache next to the file */
    bool cached;           /* make nothing: EX_NOINPUT, there is no cache yet */
    bool (*stop)(void);    /* true ends the reading; see dt_stop_check; may be
                              NULL */
    /* Bytes done, from one thread at a time; may be NULL. */
    void (*progress)(void *ctx, uint64_t done, uint64_t total);
    /* Told of a bad line, or of input that was interpreted; may be NULL. */
    void (*note)(void *ctx, const char *text);
    void *ctx;
};

/* The name of a key, or the usual one if it is NULL. */
static inline const char *dt_key_or(const char *key, const char *usual)
{
    return key ? key : usual;
}

#define DT_TARGET_BIT UINT32_C(0x80000000)

enum dt_side { DT_CHOSEN, DT_REJECTED, DT_SIDES };

enum { DT_PAIR_WORDS = 2 };

struct dt_pair {
    const uint32_t *tokens[DT_SIDES]; /* with DT_TARGET_BIT */
    size_t count[DT_SIDES];
    float margin;
};

/* Writes the two words of an example. */
static inline void dt_pair_write(uint32_t *example, float margin,
                                 size_t chosen_count)
{
    memcpy(example, &margin, sizeof(*example));
    example[1] = (uint32_t)chosen_count;
}

/* Finds the parts of an example of `count` words. False: it is not a pair. */
static inline bool dt_pair_find(const uint32_t *example, size_t count,
                                struct dt_pair *pair)
{
    if (count < DT_PAIR_WORDS || example[1] > count - DT_PAIR_WORDS)
        return false;
    memcpy(&pair->margin, example, sizeof(pair->margin));
    pair->count[DT_CHOSEN] = example[1];
    pair->count[DT_REJECTED] = count - DT_PAIR_WORDS - example[1];
    pair->tokens[DT_CHOSEN] = example + DT_PAIR_WORDS;
    pair->tokens[DT_REJECTED] =
        pair->tokens[DT_CHOSEN] + pair->count[DT_CHOSEN];
    return true;
}

/* An image of an example. A picture is what the tower sees at a time: the image
 * or, of a processor of tiles, one of its tiles.
 */
struct dt_example_image {
    uint8_t sha256[DT_SHA256_BYTES]; /* of its file in the store */
    uint32_t height, width;          /* upright, in pixels */
    uint32_t pictures;
    const uint32_t *first; /* (pictures): indices of their first tokens */
};

/* The words that an example with these images begins with. */
size_t dt_example_images_words(const struct dt_example_image *images,
                               size_t count);

/* Writes these words, without a line, to the begin of an example, which has
 * room for them, ...
 */
void dt_example_images_write(uint32_t *example,
                             const struct dt_example_image *images,
                             size_t count);

/* ... and sets the line; one beyond 2^32 - 1 becomes that. */
void dt_example_set_line(uint32_t *example, uint64_t line);

/* The parts of an example where a data set may have images. */
struct dt_example_parts {
    const uint32_t *tokens; /* with DT_TARGET_BIT; or the words of a pair */
    size_t token_count;
    uint32_t line;        /* of the file; 0: none */
    size_t images;        /* left to read by dt_example_next_image */
    const uint32_t *next; /* the words of the next of them */
};

/* Finds the parts of an example of `count` words. False: these are not the
 * words of one; first tokens of pictures are among the tokens, in order.
 */
bool dt_example_find(const uint32_t *example, size_t count,
                     struct dt_example_parts *parts);

/* Reads the next image, in the order of tokens; image->first is valid as long
 * as the example. False: there are no more.
 */
bool dt_example_next_image(struct dt_example_parts *parts,
                           struct dt_example_image *image);

#endif /* DT_DATA_EXAMPLE_H */
