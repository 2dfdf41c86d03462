/* SPDX-License-Identifier: Apache-2.0 */
/* mask.c - tokenizes records and marks the tokens that are targets */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "data/data_impl.h"
#include "data/image_text.h"
#include "data/mask.h"
#include "data/example.h"

struct dt_masker {
    struct dt_encoder *encoder;
    struct dt_chat_coder coder;
    struct dt_error no_chat;
    enum dt_loss_on loss_on;
    unsigned special; /* DT_ENCODE_SPECIAL, or 0: do not parse special */
    int32_t eos;
    struct dt_tokens tokens, prompt, other;
    struct dt_chat_text chat_text;
    char *joined; /* prompt and completion as one text */
    size_t joined_capacity;
    struct dt_row_images row; /* of the record */
    uint32_t *first;          /* of its pictures */
    size_t first_capacity;
};

struct dt_masker *dt_masker_create(const struct dt_tokenizer *tokenizer,
                                   const struct dt_chat *chat,
                                   const struct dt_error *no_chat,
                                   enum dt_loss_on loss_on, bool parse_special,
                                   struct dt_error *err)
{
    struct dt_masker *masker = calloc(1, sizeof(*masker));
    if (!masker) {
        dt_error_set(err, EX_OSERR, "out of memory");
        return NULL;
    }
    masker->coder.chat = chat;
    masker->coder.tokenizer = tokenizer;
    masker->coder.parse_special = parse_special;
    masker->no_chat = *no_chat;
    masker->loss_on = loss_on;
    masker->special = parse_special ? DT_ENCODE_SPECIAL : 0;
    masker->eos = dt_tokenizer_special(tokenizer, DT_TOKEN_EOS);
    masker->encoder = dt_encoder_create(tokenizer, err);
    if (!masker->encoder) {
        dt_masker_destroy(masker);
        return NULL;
    }
    masker->coder.encoder = masker->encoder;
    return masker;
}

void dt_masker_destroy(struct dt_masker *masker)
{
    if (!masker)
        return;
    dt_encoder_destroy(masker->encoder);
    dt_tokens_fini(&masker->tokens);
    dt_tokens_fini(&masker->prompt);
    dt_tokens_fini(&masker->coder.part);
    dt_tokens_fini(&masker->other);
    dt_chat_text_fini(&masker->chat_text);
    dt_row_images_fini(&masker->row);
    free(masker->first);
    free(masker->joined);
    free(masker);
}

int dt_masker_use_images(struct dt_masker *masker,
                         const struct dt_example_images *images,
                         struct dt_error *err)
{
    struct dt_chat_coder *coder = &masker->coder;
    const char *placeholder = images->text->placeholder;
    coder->placeholder = dt_tokenizer_id(coder->tokenizer, placeholder);
    if (coder->placeholder < 0)
        return dt_error_set(err, EX_CONFIG,
                            "the tokenizer has no token %s, which stands for "
                            "an image: is it that of the model?",
                            placeholder);
    coder->images = images;
    coder->row = &masker->row;
    return 0;
}

void dt_masker_keep_marks(struct dt_masker *masker)
{
    masker->coder.keep_marks = true;
}

/* Makes room for `more` tokens after those of out and returns their place. NULL
 * and err: EX_OSERR.
 */
static uint32_t *make_room(struct dt_marked *out, size_t more,
                           struct dt_error *err)
{
    size_t needed = out->count + more;
    if (needed > out->capacity) {
        size_t capacity = needed + needed / 2 + 1024;
        uint32_t *tokens =
            realloc(out->tokens, capacity * sizeof(*out->tokens));
        if (!tokens) {
            dt_error_set(err, EX_OSERR, "out of memory");
            return NULL;
        }
        out->tokens = tokens;
        out->capacity = capacity;
    }
    return out->tokens + out->count;
}

/* Appends tokens; those from `first_target` on are targets. With `end`, appends
 * EOS unless it is the last token already.
 */
static int add_tokens(const struct dt_masker *masker,
                      const struct dt_tokens *tokens, size_t first_target,
                      bool end, struct dt_marked *out, struct dt_error *err)
{
    size_t n = tokens->count;
    uint32_t *to = make_room(out, n + 1, err);
    if (!to)
        return -1;
    for (size_t i = 0; i < n; i++)
        to[i] =
            (uint32_t)tokens->ids[i] | (i < first_target ? 0 : DT_TARGET_BIT);
    if (end && masker->eos >= 0 &&
        (n == 0 || tokens->ids[n - 1] != masker->eos))
        to[n++] = (uint32_t)masker->eos | DT_TARGET_BIT;
    out->count += n;
    return 0;
}

/* --- images --- */

/* Reads the images of a record, and makes room for their words. */
static int begin_images(struct dt_masker *masker, const json_t *values,
                        json_t *line, struct dt_marked *out,
                        struct dt_error *err)
{
    struct dt_row_images *row = &masker->row;
    masker->coder.line = line;
    if (dt_row_images_read(row, values, masker->coder.images, err) < 0)
        return -1;
    const size_t words = dt_example_images_words(row->images, row->count);
    if (words > masker->first_capacity) { /* of which some are pictures */
        free(masker->first);
        masker->first_capacity = 0;
        masker->first = calloc(words, sizeof(*masker->first));
        if (!masker->first)
            return dt_error_set(err, EX_OSERR, "out of memory");
        masker->first_capacity = words;
    }
    if (!make_room(out, words, err))
        return -1;
    out->count += words;
    return 0;
}

/* Finds the images in the tokens [begin, end), and writes the words at `at`. */
static int end_images(struct dt_masker *masker, size_t at, size_t begin,
                      size_t end, struct dt_marked *out, struct dt_error *err)
{
    struct dt_row_images *row = &masker->row;
    uint32_t *first = masker->first, *example = out->tokens + at;
    if (dt_images_find(&masker->coder, out->tokens + begin, end - begin, first,
                       err) < 0)
        return -1;
    for (size_t i = 0; i < row->count; i++) {
        row->images[i].first = first;
        first += row->images[i].pictures;
    }
    dt_example_images_write(example, row->images, row->count);
    return 0;
}

int dt_masker_add_text(struct dt_masker *masker, const char *text, size_t bytes,
                       bool first, bool last, struct dt_marked *out,
                       struct dt_error *err)
{
    const unsigned flags = masker->special | (first ? DT_ENCODE_POST : 0);
    const struct dt_chat_coder *coder = &masker->coder;
    if (coder->images && first) {
        const size_t begin = out->count;
        if (begin_images(masker, NULL, NULL, out, err) < 0)
            return -1;
        dt_example_images_write(out->tokens + begin, NULL, 0);
    }
    const size_t at = out->count;
    if (dt_encode(masker->encoder, text, bytes, flags, &masker->tokens, err) <
            0 ||
        add_tokens(masker, &masker->tokens, 0, last, out, err) < 0)
        return -1;
    return coder->images ? dt_images_find(coder, out->tokens + at,
                                          out->count - at, NULL, err)
                         : 0;
}

static size_t common_tokens(const struct dt_tokens *a,
                            const struct dt_tokens *b)
{
    size_t n = 0;
    while (n < a->count && n < b->count && a->ids[n] == b->ids[n])
        n++;
    return n;
}

/* The length of the prompt in masker->tokens: the completion begins where they
 * part from the prompt alone, as in TRL. *seam: that is within the prompt.
 */
static size_t prompt_length(const struct dt_masker *masker, bool *seam)
{
    const size_t common = common_tokens(&masker->prompt, &masker->tokens);
    *seam = common < masker->prompt.count;
    return common;
}

/* Encodes masker->joined, in which the marks of images become these. */
static int encode_images(struct dt_masker *masker, size_t bytes, size_t own,
                         struct dt_tokens *out, struct dt_error *err)
{
    struct dt_chat_coder *coder = &masker->coder;
    struct dt_expanded longer;
    int rc =
        dt_images_expand_text(coder, masker->joined, bytes, own, &longer, err);
    if (rc == 0)
        rc = dt_encode_within(masker->encoder, longer.text, longer.bytes,
                              longer.spans, longer.span_count, DT_ENCODE_POST,
                              out, err);
    if (rc == 0)
        rc = dt_images_repeat(coder, longer.images, out, err);
    dt_expanded_fini(&longer);
    return rc;
}

/* Encodes masker->joined, of which a model has written all but `own` bytes. */
static int encode_answered(struct dt_masker *masker, size_t bytes, size_t own,
                           struct dt_tokens *out, struct dt_error *err)
{
    const struct dt_text_span span = {0, masker->special ? own : 0};
    if (own < bytes)
        return dt_encode_within(masker->encoder, masker->joined, bytes, &span,
                                1, DT_ENCODE_POST, out, err);
    return dt_encode(masker->encoder, masker->joined, bytes,
                     DT_ENCODE_POST | masker->special, out, err);
}

/* Encodes two texts as one. */
static int encode_joined(struct dt_masker *masker, const char *first,
                         size_t first_bytes, const char *second,
                         size_t second_bytes, struct dt_tokens *out,
                         struct dt_error *err)
{
    const size_t bytes = first_bytes + second_bytes;
    const struct dt_chat_coder *coder = &masker->coder;
    const bool keeps = coder->images && coder->keep_marks;
    const bool answers = keeps || coder->answered;
    const size_t own = answers ? first_bytes : bytes;
    if (bytes >= masker->joined_capacity) {
        char *joined = realloc(masker->joined, bytes + 1);
        if (!joined)
            return dt_error_set(err, EX_OSERR, "out of memory");
        masker->joined = joined;
        masker->joined_capacity = bytes + 1;
    }
    memcpy(masker->joined, first, first_bytes);
    memcpy(masker->joined + first_bytes, second, second_bytes);
    return keeps || (coder->images && masker->row.count > 0)
               ? encode_images(masker, bytes, own, out, err)
               : encode_answered(masker, bytes, own, out, err);
}

static int add_pair(struct dt_masker *masker, const struct dt_record *record,
                    struct dt_marked *out, bool *seam, struct dt_error *err)
{
    const size_t bytes = strlen(record->prompt);
    if (encode_joined(masker, record->prompt, bytes, "", 0, &masker->prompt,
                      err) < 0 ||
        encode_joined(masker, record->prompt, bytes, record->completion,
                      record->completion_bytes, &masker->tokens, err) < 0)
        return -1;
    const size_t prompt = prompt_length(masker, seam);
    const bool ends = !record->cut || masker->tokens.count == 0;
    return add_tokens(masker, &masker->tokens,
                      masker->loss_on == DT_LOSS_FULL ? 0 : prompt, ends, out,
                      err);
}

/* --- messages --- */

/* Renders the first messages and encodes them with offsets. */
static int encode_turns(struct dt_masker *masker, const struct dt_turns *turns,
                        size_t count, unsigned flags, struct dt_tokens *out,
                        struct dt_error *err)
{
    const struct dt_chat_input input = dt_turns_input(turns, count);
    if (!masker->coder.chat) {
        if (err)
            *err = masker->no_chat;
        return -1;
    }
    if (masker->loss_on == DT_LOSS_ASSISTANT)
        flags |= DT_CHAT_TRAINING;
    return dt_chat_encode(&masker->coder, &input, flags, &masker->chat_text,
                          out, err);
}

/* Removes targets with a byte of an answer that is left out and, for
 * assistant-only loss, those without a byte of an answer.
 */
static void keep_trained(const struct dt_masker *masker,
                         const struct dt_turns *turns, bool leaves_out,
                         uint32_t *marked)
{
    const struct dt_chat_text *chat = &masker->chat_text;
    const struct dt_tokens *tokens = &masker->tokens;
    size_t span = 0;
    for (size_t i = 0; i < tokens->count; i++) {
        bool keep = masker->loss_on != DT_LOSS_ASSISTANT, left_out = false;
        while (span < chat->trained_count &&
               chat->trained[span].end <= tokens->begin[i])
            span++;
        for (size_t k = span;
             k < chat->trained_count && chat->trained[k].begin < tokens->end[i];
             k++) {
            const char *key;
            keep = true;
            left_out |= leaves_out &&
                        dt_turns_said(turns, chat->trained[k].message, &key) ==
                            DT_SAID_NO;
        }
        if (!keep || left_out)
            marked[i] &= ~DT_TARGET_BIT;
    }
}

/* Compares the choices that the file makes for messages with the default:
 * *leaves_out is whether to exclude an answer. The places of other messages in
 * a rendering are not known.
 */
static int compare_said(const struct dt_masker *masker,
                        const struct dt_record *record, bool *leaves_out,
                        struct dt_error *err)
{
    const struct dt_turns *turns = &record->turns;
    const bool all = masker->loss_on != DT_LOSS_ASSISTANT;
    size_t i = masker->loss_on == DT_LOSS_FULL ? 0 : record->prompt_turns;
    for (*leaves_out = false; i < turns->count; i++) {
        const char *role = dt_turns_role(turns, i), *key;
        const bool answer = strcmp(role, "assistant") == 0;
        const enum dt_said said = dt_turns_said(turns, i, &key);
        *leaves_out |= answer && said == DT_SAID_NO;
        if (answer || said != (all ? DT_SAID_NO : DT_SAID_YES))
            continue;
        return dt_error_set(err, EX_DATAERR,
                            "message %zu: %s says that this message of the "
                            "role %s is %s: data.loss_on: %s",
                            i + 1, key, role,
                            all ? "not trained on, but all messages are"
                                : "trained on, but only answers are",
                            all ? "assistant trains on answers alone"
                                : "full trains on all messages");
    }
    return 0;
}

static int add_turns(struct dt_masker *masker, const struct dt_record *record,
                     struct dt_marked *out, bool *seam, struct dt_error *err)
{
    const struct dt_turns *turns = &record->turns;
    size_t first_target = 0, at = out->count;
    unsigned flags = masker->loss_on == DT_LOSS_ASSISTANT ? DT_CHAT_TRAINED : 0;
    bool leaves_out = false;
    if (masker->coder.chat &&
        compare_said(masker, record, &leaves_out, err) < 0)
        return -1;
    if (leaves_out)
        flags = DT_CHAT_TRAINED | DT_CHAT_OWNERS;
    if (record->prompt_turns > 0 &&
        encode_turns(masker, turns, record->prompt_turns, DT_CHAT_PROMPT,
                     &masker->prompt, err) < 0)
        return -1;
    if (encode_turns(masker, turns, turns->count, flags, &masker->tokens, err) <
        0)
        return -1;
    if (record->prompt_turns > 0) {
        const size_t prompt = prompt_length(masker, seam);
        if (masker->loss_on != DT_LOSS_FULL)
            first_target = prompt;
    }
    if (add_tokens(masker, &masker->tokens, first_target, false, out, err) < 0)
        return -1;
    if (flags)
        keep_trained(masker, turns, leaves_out, out->tokens + at);
    return 0;
}

/* --- prompts --- */

int dt_masker_prompt(struct dt_masker *masker, const struct dt_prompt_of *of,
                     const struct dt_tokens **tokens, struct dt_error *err)
{
    *tokens = &masker->prompt;
    if (of->text)
        return encode_joined(masker, of->text, of->bytes, "", 0,
                             &masker->prompt, err);
    return encode_turns(masker, of->turns, of->turns->count, DT_CHAT_PROMPT,
                        &masker->prompt, err);
}

int dt_masker_add_prompt(struct dt_masker *masker,
                         const struct dt_prompt_of *of, struct dt_marked *out,
                         struct dt_error *err)
{
    const size_t at = out->count;
    const bool sees = masker->coder.images;
    const struct dt_tokens *tokens;
    if (sees && begin_images(masker, of->images, of->line, out, err) < 0)
        return -1;
    const size_t begin = out->count;
    if (dt_masker_prompt(masker, of, &tokens, err) < 0 ||
        add_tokens(masker, tokens, tokens->count, false, out, err) < 0)
        return -1;
    return sees ? end_images(masker, at, begin, out->count, out, err) : 0;
}

/* --- preference pairs --- */

/* Encodes the prompt and both sides into masker->prompt, tokens and other. */
static int encode_texts(struct dt_masker *masker, const struct dt_preference *p,
                        struct dt_error *err)
{
    return encode_joined(masker, p->prompt, p->prompt_bytes, "", 0,
                         &masker->prompt, err) < 0 ||
                   encode_joined(masker, p->prompt, p->prompt_bytes,
                                 p->completion[DT_CHOSEN],
                                 strlen(p->completion[DT_CHOSEN]),
                                 &masker->tokens, err) < 0 ||
                   encode_joined(masker, p->prompt, p->prompt_bytes,
                                 p->completion[DT_REJECTED],
                                 strlen(p->completion[DT_REJECTED]),
                                 &masker->other, err) < 0
               ? -1
               : 0;
}

static int encode_conversations(struct dt_masker *masker,
                                const struct dt_preference *p,
                                struct dt_error *err)
{
    const struct dt_turns *chosen = &p->turns[DT_CHOSEN];
    const struct dt_turns *rejected = &p->turns[DT_REJECTED];
    return encode_turns(masker, chosen, p->prompt_turns, DT_CHAT_PROMPT,
                        &masker->prompt, err) < 0 ||
                   encode_turns(masker, rejected, rejected->count, 0,
                                &masker->other, err) < 0 ||
                   encode_turns(masker, chosen, chosen->count, 0,
                                &masker->tokens, err) < 0
               ? -1
               : 0;
}

/* Appends a side; its tokens from `prompt` on are targets. */
static int add_side(const struct dt_masker *masker,
                    const struct dt_preference *p, enum dt_side side,
                    size_t prompt, struct dt_marked *out, struct dt_error *err)
{
    if (!p->ids[side])
        return add_tokens(masker,
                          side == DT_CHOSEN ? &masker->tokens : &masker->other,
                          prompt, p->prompt, out, err);
    uint32_t *to = make_room(out, p->id_count[side], err);
    if (!to)
        return -1;
    for (size_t i = 0; i < p->id_count[side]; i++)
        to[i] = (uint32_t)p->ids[side][i] | (i < prompt ? 0 : DT_TARGET_BIT);
    out->count += p->id_count[side];
    return 0;
}

/* Encodes a pair. *prompt is the number of tokens that both sides share with
 * the prompt.
 */
static int encode_preference(struct dt_masker *masker,
                             const struct dt_preference *p, size_t *prompt,
                             struct dt_error *err)
{
    if ((p->prompt ? encode_texts : encode_conversations)(masker, p, err) < 0)
        return -1;
    size_t chosen = common_tokens(&masker->prompt, &masker->tokens);
    size_t rejected = common_tokens(&masker->prompt, &masker->other);
    *prompt = chosen < rejected ? chosen : rejected;
    return 0;
}

/* Writes the images of a pair, whose sides begin at `begin` with so many tokens
 * of the prompt: all of them have to be there.
 */
static int end_prompt(struct dt_masker *masker, size_t at, size_t begin,
                      size_t prompt, struct dt_marked *out,
                      struct dt_error *err)
{
    const uint32_t placeholder = (uint32_t)masker->coder.placeholder;
    for (size_t i = begin; i < out->count; i++)
        if (out->tokens[i] == (placeholder | DT_TARGET_BIT))
            return dt_error_set(err, EX_DATAERR,
                                "a completion spells %s, which stands for an "
                                "image: images belong to the prompt, which "
                                "both sides share",
                                masker->coder.images->text->placeholder);
    return end_images(masker, at, begin, begin + prompt, out, err);
}

/* Appends a pair without the words about its images. */
static int add_sides(struct dt_masker *masker, const struct dt_preference *p,
                     size_t prompt, struct dt_marked *out, struct dt_error *err)
{
    const size_t at = out->count, begin = at + DT_PAIR_WORDS;
    if (!make_room(out, DT_PAIR_WORDS, err))
        return -1;
    out->count = begin;
    if (add_side(masker, p, DT_CHOSEN, prompt, out, err) < 0)
        return -1;
    dt_pair_write(out->tokens + at, p->margin, out->count - begin);
    return add_side(masker, p, DT_REJECTED, prompt, out, err);
}

int dt_masker_add_preference(struct dt_masker *masker,
                             const struct dt_preference *p,
                             struct dt_marked *out, bool *seam,
                             struct dt_error *err)
{
    const size_t at = out->count;
    const bool sees = masker->coder.images;
    size_t prompt = p->prompt_ids;
    *seam = false;
    if (sees && begin_images(masker, p->images, p->json, out, err) < 0)
        return -1;
    const size_t begin = out->count + DT_PAIR_WORDS;
    if (!p->ids[DT_CHOSEN]) {
        if (encode_preference(masker, p, &prompt, err) < 0)
            return -1;
        *seam = prompt < masker->prompt.count && !p->implicit;
    }
    if (add_sides(masker, p, prompt, out, err) < 0)
        return -1;
    return sees ? end_prompt(masker, at, begin, prompt, out, err) : 0;
}

/* --- any record --- */

static int add_ids(const struct dt_record *record, struct dt_marked *out,
                   struct dt_error *err)
{
    uint32_t *to = make_room(out, record->id_count, err);
    if (!to)
        return -1;
    for (size_t i = 0; i < record->id_count; i++)
        to[i] =
            (uint32_t)record->ids[i] | (record->targets[i] ? DT_TARGET_BIT : 0);
    out->count += record->id_count;
    return 0;
}

static int add_text(struct dt_masker *masker, const char *text,
                    struct dt_marked *out, struct dt_error *err)
{
    return encode_joined(masker, text, strlen(text), "", 0, &masker->tokens,
                         err) < 0
               ? -1
               : add_tokens(masker, &masker->tokens, 0, true, out, err);
}

static int add_fields(struct dt_masker *masker, const struct dt_record *record,
                      struct dt_marked *out, bool *seam, struct dt_error *err)
{
    if (record->ids)
        return add_ids(record, out, err);
    if (record->text)
        return add_text(masker, record->text, out, err);
    if (record->prompt)
        return add_pair(masker, record, out, seam, err);
    return add_turns(masker, record, out, seam, err);
}

int dt_masker_add(struct dt_masker *masker, const struct dt_record *record,
                  struct dt_marked *out, bool *seam, struct dt_error *err)
{
    const size_t at = out->count;
    *seam = false;
    masker->coder.answered = record->answered;
    masker->coder.prompt_turns = record->prompt_turns;
    if (!masker->coder.images)
        return add_fields(masker, record, out, seam, err);
    if (begin_images(masker, record->images, record->json, out, err) < 0)
        return -1;
    const size_t begin = out->count;
    return add_fields(masker, record, out, seam, err) < 0
               ? -1
               : end_images(masker, at, begin, out->count, out, err);
}
