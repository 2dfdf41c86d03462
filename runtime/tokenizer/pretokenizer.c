/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pretokenizer.c - reads the pre-tokenizer of tokenizer.json, and cuts text by
 * its steps
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "tokenizer/tokenizer_impl.h"

/* --- reading --- */

static const char *const behaviors[] = {
    [DT_TOK_REMOVED] = "Removed",
    [DT_TOK_ISOLATED] = "Isolated",
    [DT_TOK_MERGED_WITH_PREVIOUS] = "MergedWithPrevious",
    [DT_TOK_MERGED_WITH_NEXT] = "MergedWithNext",
    [DT_TOK_CONTIGUOUS] = "Contiguous",
};

void dt_tok_step_fini(struct dt_tok_step *step)
{
    dt_tok_regex_destroy(step->regex);
    free(step->text);
}

/* Adds a step. NULL and err: EX_DATAERR, there are too many. */
static struct dt_tok_step *add(struct dt_tokenizer *tokenizer,
                               const struct dt_tok_step *step,
                               struct dt_error *err)
{
    if (tokenizer->step_count == DT_TOK_STEPS_MAX) {
        dt_error_set(err, EX_DATAERR, "more than %d steps", DT_TOK_STEPS_MAX);
        return NULL;
    }
    tokenizer->steps[tokenizer->step_count] = *step;
    return &tokenizer->steps[tokenizer->step_count++];
}

static int read_byte_level(struct dt_tokenizer *tokenizer, const json_t *value,
                           struct dt_error *err)
{
    static const struct dt_tok_step space = {.kind = DT_TOK_STEP_SPACE};
    static const struct dt_tok_step words = {.kind = DT_TOK_STEP_WORDS,
                                             .words = DT_TOK_WORDS_GPT2};
    bool prefix, regex;
    if (dt_tok_json_flag(value, "add_prefix_space", true, &prefix, err) < 0 ||
        dt_tok_json_flag(value, "use_regex", true, &regex, err) < 0)
        return -1;
    if (prefix && !add(tokenizer, &space, err))
        return -1;
    tokenizer->model.byte_level = true;
    tokenizer->prefix_space = prefix;
    return !regex || add(tokenizer, &words, err) ? 0 : -1;
}

/* Copies a string to the text of a step. */
static int copy_text(struct dt_tok_step *step, const json_t *text,
                     struct dt_error *err)
{
    return dt_tok_json_copy(text, SIZE_MAX, &step->text, &step->text_bytes,
                            err);
}

static int read_behavior(struct dt_tok_step *step, const json_t *value,
                         struct dt_error *err)
{
    const json_t *name = dt_tok_json_get(value, "behavior", JSON_STRING, err);
    char shown[DT_TOK_SHOWN_BYTES];
    if (!name ||
        dt_tok_json_flag(value, "invert", false, &step->invert, err) < 0)
        return -1;
    for (size_t i = 0; i < sizeof(behaviors) / sizeof(behaviors[0]); i++)
        if (!strcmp(behaviors[i], json_string_value(name))) {
            step->behavior = (enum dt_tok_behavior)i;
            return 0;
        }
    return dt_error_set(err, EX_DATAERR, "behavior: \"%s\" is not known",
                        dt_tok_shown(json_string_value(name), 40, shown));
}

/* Reads a Split. A known pattern with the usual behavior becomes a WORDS step.
 */
static int read_split(struct dt_tokenizer *tokenizer, struct dt_tok_step *step,
                      const json_t *value, struct dt_error *err)
{
    const json_t *regex =
        json_object_get(json_object_get(value, "pattern"), "Regex");
    (void)tokenizer;
    if (read_behavior(step, value, err) < 0)
        return -1;
    if (!json_is_string(regex)) {
        const json_t *text = dt_tok_json_string_pattern(value, err);
        return text ? copy_text(step, text, err) : -1;
    }
    step->words =
        dt_tok_words_find(json_string_value(regex), json_string_length(regex));
    if (step->words && step->behavior == DT_TOK_ISOLATED && !step->invert) {
        step->kind = DT_TOK_STEP_WORDS;
        return 0;
    }
    step->find = DT_TOK_FIND_REGEX;
    step->regex = dt_tok_regex_create(json_string_value(regex),
                                      json_string_length(regex), err);
    return step->regex ? 0 : dt_error_prefix(err, "pattern");
}

static int read_digits(struct dt_tokenizer *tokenizer, struct dt_tok_step *step,
                       const json_t *value, struct dt_error *err)
{
    bool single;
    (void)tokenizer;
    if (dt_tok_json_flag(value, "individual_digits", false, &single, err) < 0)
        return -1;
    step->behavior = single ? DT_TOK_ISOLATED : DT_TOK_CONTIGUOUS;
    return 0;
}

static int read_punctuation(struct dt_tokenizer *tokenizer,
                            struct dt_tok_step *step, const json_t *value,
                            struct dt_error *err)
{
    (void)tokenizer;
    return json_object_get(value, "behavior") ? read_behavior(step, value, err)
                                              : 0;
}

/* Reads a key with one character as the text of a step. */
static int read_character(struct dt_tok_step *step, const json_t *value,
                          const char *key, struct dt_error *err)
{
    const json_t *text = dt_tok_json_get(value, key, JSON_STRING, err);
    if (!text)
        return -1;
    if (json_string_length(text) == 0 || json_string_length(text) > 4)
        return dt_error_set(err, EX_DATAERR, "%s: expected one character", key);
    return copy_text(step, text, err);
}

static int read_delimiter(struct dt_tokenizer *tokenizer,
                          struct dt_tok_step *step, const json_t *value,
                          struct dt_error *err)
{
    (void)tokenizer;
    return read_character(step, value, "delimiter", err);
}

/* Reads prepend_scheme, or add_prefix_space of older files. */
static int read_scheme(struct dt_tok_step *step, const json_t *value,
                       struct dt_error *err)
{
    const char *scheme =
        json_string_value(json_object_get(value, "prepend_scheme"));
    bool prefix;
    if (dt_tok_json_flag(value, "add_prefix_space", true, &prefix, err) < 0)
        return -1;
    if (!scheme)
        scheme = prefix ? "always" : "never";
    if (!strcmp(scheme, "always"))
        step->prepend = DT_TOK_ALWAYS;
    else if (!strcmp(scheme, "first"))
        step->prepend = DT_TOK_FIRST;
    else if (!strcmp(scheme, "never"))
        step->prepend = DT_TOK_NEVER;
    else
        return dt_error_set(err, EX_DATAERR,
                            "prepend_scheme: expected always, first or never");
    return 0;
}

static int read_metaspace(struct dt_tokenizer *tokenizer,
                          struct dt_tok_step *step, const json_t *value,
                          struct dt_error *err)
{
    static const struct dt_tok_step cut = {.kind = DT_TOK_STEP_PATTERN,
                                           .behavior = DT_TOK_MERGED_WITH_NEXT};
    bool split;
    if (read_character(step, value, "replacement", err) < 0 ||
        dt_tok_json_flag(value, "split", true, &split, err) < 0 ||
        read_scheme(step, value, err) < 0)
        return -1;
    if (!split)
        return 0;
    step = add(tokenizer, &cut, err);
    return step ? read_character(step, value, "replacement", err) : -1;
}

/* Steps by the types that have them, in order; `read` reads their keys. */
static const struct {
    const char *type;
    struct dt_tok_step step;
    int (*read)(struct dt_tokenizer *tokenizer, struct dt_tok_step *step,
                const json_t *value, struct dt_error *err);
} types[] = {
    {"Split", {.kind = DT_TOK_STEP_PATTERN}, read_split},
    {"Digits",
     {.kind = DT_TOK_STEP_PATTERN, .find = DT_TOK_FIND_NUMBER},
     read_digits},
    {"Metaspace", {.kind = DT_TOK_STEP_MARK}, read_metaspace},
    {"Whitespace",
     {.kind = DT_TOK_STEP_PATTERN, .find = DT_TOK_FIND_RUN, .invert = true},
     NULL},
    {"WhitespaceSplit",
     {.kind = DT_TOK_STEP_PATTERN, .find = DT_TOK_FIND_SPACE},
     NULL},
    {"Punctuation",
     {.kind = DT_TOK_STEP_PATTERN,
      .find = DT_TOK_FIND_PUNCTUATION,
      .behavior = DT_TOK_ISOLATED},
     read_punctuation},
    {"BertPreTokenizer",
     {.kind = DT_TOK_STEP_PATTERN, .find = DT_TOK_FIND_SPACE},
     NULL},
    {"BertPreTokenizer",
     {.kind = DT_TOK_STEP_PATTERN,
      .find = DT_TOK_FIND_PUNCTUATION,
      .behavior = DT_TOK_ISOLATED},
     NULL},
    {"CharDelimiterSplit", {.kind = DT_TOK_STEP_PATTERN}, read_delimiter},
};

static int read_one(void *ctx, const json_t *value, struct dt_error *err)
{
    struct dt_tokenizer *tokenizer = ctx;
    const char *type = dt_tok_json_type(value, err);
    bool known = false;
    if (!type)
        return -1;
    if (tokenizer->model.byte_level)
        return dt_error_set(err, EX_DATAERR, "nothing may follow ByteLevel");
    if (!strcmp(type, "ByteLevel"))
        return read_byte_level(tokenizer, value, err);
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        if (strcmp(type, types[i].type) != 0)
            continue;
        known = true;
        struct dt_tok_step *step = add(tokenizer, &types[i].step, err);
        if (!step ||
            (types[i].read && types[i].read(tokenizer, step, value, err) < 0))
            return -1;
    }
    if (known)
        return 0;
    return dt_tok_json_unsupported(
        type,
        "ByteLevel, Split, Digits, Metaspace, Whitespace, WhitespaceSplit, "
        "Punctuation, BertPreTokenizer, CharDelimiterSplit and Sequence",
        err);
}

int dt_tok_steps_read(struct dt_tokenizer *tokenizer, const json_t *value,
                      struct dt_error *err)
{
    return dt_tok_json_parts(value, "pretokenizers", read_one, tokenizer, err);
}

void dt_tok_steps_finish(struct dt_tokenizer *tokenizer)
{
    const struct dt_tok_model *model = &tokenizer->model;
    if (model->kind == DT_TOK_BPE && !model->byte_level &&
        !model->ignore_merges && dt_tok_bpe_cuts(tokenizer))
        tokenizer->steps[tokenizer->step_count++].kind = DT_TOK_STEP_CUTS;
}

/* --- cutting --- */

/* The state while a pattern cuts a span into parts. A part is held back until
 * the next one is known, since the two may be merged.
 */
struct parts {
    struct dt_encoder *e;
    size_t step;
    const struct dt_tok_span *span;
    size_t begin, end; /* of the part that is held back */
    bool holds, held_match;
};

static int emit_part(const struct parts *p, size_t begin, size_t end)
{
    struct dt_tok_span part = dt_tok_span_part(p->span, begin, end);
    return begin < end ? dt_tok_split(p->e, p->step + 1, &part) : 0;
}

/* Whether the next part is merged with the one that is held back. */
static bool joins_held(const struct parts *p, enum dt_tok_behavior behavior,
                       bool match)
{
    switch (behavior) {
    case DT_TOK_CONTIGUOUS:
        return p->held_match == match;
    case DT_TOK_MERGED_WITH_PREVIOUS:
        return match && !p->held_match;
    case DT_TOK_MERGED_WITH_NEXT:
        return p->held_match && !match;
    default:
        return false;
    }
}

/* Adds one part, which is a match or the text between two matches. */
static int put_part(struct parts *p, size_t begin, size_t end, bool match)
{
    const struct dt_tok_step *step = &p->e->tokenizer->steps[p->step];
    match ^= step->invert;
    if (step->behavior == DT_TOK_ISOLATED)
        return emit_part(p, begin, end);
    if (step->behavior == DT_TOK_REMOVED)
        return match ? 0 : emit_part(p, begin, end);
    if (p->holds && joins_held(p, step->behavior, match)) {
        p->end = end;
    } else {
        if (p->holds && emit_part(p, p->begin, p->end) < 0)
            return -1;
        p->begin = begin;
        p->end = end;
    }
    p->holds = true;
    p->held_match = match;
    return 0;
}

static bool is_punctuation(uint32_t cp)
{
    if (cp < 0x80)
        return cp > ' ' && cp < 0x7f && !(cp >= '0' && cp <= '9') &&
               !((cp | 0x20) >= 'a' && (cp | 0x20) <= 'z');
    return dt_tok_in_set(DT_TOK_SET_PUNCTUATION, cp);
}

/* Whether a step finds this character. */
static bool finds_char(const struct dt_tok_step *step, const uint8_t *classes,
                       uint32_t cp)
{
    if (step->find == DT_TOK_FIND_PUNCTUATION)
        return is_punctuation(cp);
    if (step->find == DT_TOK_FIND_NUMBER)
        return cp < 0x80 ? cp >= '0' && cp <= '9'
                         : dt_tok_in_set(DT_TOK_SET_NUMBER, cp);
    return classes[cp] & DT_TOK_SPACE;
}

/* Finds the next character of the step's kind, at or after `from`. */
static int find_char(const struct dt_tok_step *step, const uint8_t *classes,
                     const struct dt_tok_span *span, size_t from, size_t *begin,
                     size_t *end)
{
    size_t bytes;
    for (size_t i = from; i < span->n; i += bytes)
        if (finds_char(step, classes, dt_tok_decode(span->s + i, &bytes))) {
            *begin = i;
            *end = i + bytes;
            return 1;
        }
    return 0;
}

enum run { SPACES, WORD, OTHERS };

static enum run run_of(const uint8_t *classes, uint32_t cp)
{
    if (dt_tok_in_set(DT_TOK_SET_WORD, cp))
        return WORD;
    return classes[cp] & DT_TOK_SPACE ? SPACES : OTHERS;
}

/* Finds the next run of characters of words, or of others but spaces. */
static int find_run(const uint8_t *classes, const struct dt_tok_span *span,
                    size_t from, size_t *begin, size_t *end)
{
    enum run found = SPACES;
    size_t i, bytes;
    for (i = from; i < span->n; i += bytes) {
        enum run run = run_of(classes, dt_tok_decode(span->s + i, &bytes));
        if (found == SPACES)
            *begin = i;
        else if (run != found)
            break;
        found = run;
    }
    *end = i;
    return found != SPACES;
}

static int find_match(const struct parts *p, size_t from, size_t *begin,
                      size_t *end)
{
    const struct dt_tok_step *step = &p->e->tokenizer->steps[p->step];
    const struct dt_tok_span *span = p->span;
    if (step->find == DT_TOK_FIND_REGEX)
        return dt_tok_regex_find(step->regex, p->e->matcher, span->s, span->n,
                                 from, begin, end, p->e->err);
    if (step->find == DT_TOK_FIND_RUN)
        return find_run(p->e->classes, span, from, begin, end);
    if (step->find != DT_TOK_FIND_TEXT)
        return find_char(step, p->e->classes, span, from, begin, end);
    const char *found =
        memmem(span->s + from, span->n - from, step->text, step->text_bytes);
    if (!found)
        return 0;
    *begin = (size_t)(found - span->s);
    *end = *begin + step->text_bytes;
    return 1;
}

/* Cuts a span by a pattern. An empty match counts, except directly after
 * another match.
 */
static int split_pattern(struct dt_encoder *e, size_t step,
                         const struct dt_tok_span *span)
{
    struct parts p = {.e = e, .step = step, .span = span};
    size_t done = 0, from = 0, begin, end, bytes;
    bool any = false;
    int rc = 0;
    while (from <= span->n && (rc = find_match(&p, from, &begin, &end)) > 0) {
        if (begin == end && any && end == done) {
            bytes = 1;
            if (from < span->n)
                dt_tok_decode(span->s + from, &bytes);
            from += bytes;
            continue;
        }
        if ((begin > done && put_part(&p, done, begin, false) < 0) ||
            put_part(&p, begin, end, true) < 0)
            return -1;
        done = from = end;
        any = true;
    }
    if (rc < 0 || (done < span->n && put_part(&p, done, span->n, false) < 0))
        return -1;
    return p.holds ? emit_part(&p, p.begin, p.end) : 0;
}

static int split_words(struct dt_encoder *e, size_t step,
                       const struct dt_tok_span *span)
{
    enum dt_tok_words words = e->tokenizer->steps[step].words;
    const bool last = step + 1 == e->tokenizer->step_count;
    for (size_t i = 0; i < span->n;) {
        size_t n = dt_tok_word(words, e->classes, span->s + i, span->n - i);
        struct dt_tok_span part = dt_tok_span_part(span, i, i + n);
        if ((last ? dt_tok_piece(e, &part) : dt_tok_split(e, step + 1, &part)) <
            0)
            return -1;
        i += n;
    }
    return 0;
}

/* Cuts a span where no merge of BPE joins its characters: the last step. */
static int split_cuts(struct dt_encoder *e, const struct dt_tok_span *span)
{
    const struct dt_tok_model *model = &e->tokenizer->model;
    size_t begin = 0, bytes;
    unsigned last = dt_tok_cut_class(dt_tok_decode(span->s, &bytes));
    for (size_t i = bytes; i < span->n; i += bytes) {
        const unsigned next =
            dt_tok_cut_class(dt_tok_decode(span->s + i, &bytes));
        if (dt_tok_may_cut(model, last, next)) {
            struct dt_tok_span part = dt_tok_span_part(span, begin, i);
            if (dt_tok_piece(e, &part) < 0)
                return -1;
            begin = i;
        }
        last = next;
    }
    struct dt_tok_span part = dt_tok_span_part(span, begin, span->n);
    return dt_tok_piece(e, &part);
}

static int prepend_text(struct dt_encoder *e, size_t step,
                        const struct dt_tok_span *span, const char *s, size_t n)
{
    struct dt_tok_text *text = &e->stepped[step];
    struct dt_tok_span longer = *span;
    uint32_t at = dt_tok_span_begin(span, 0);
    if (span->n >= n && !memcmp(span->s, s, n))
        return dt_tok_split(e, step + 1, span);
    dt_tok_text_clear(text, e->flags & DT_ENCODE_OFFSETS);
    dt_tok_text_add(text, s, n, at, at);
    dt_tok_text_copy(text, span, 0, span->n);
    return dt_tok_text_span(text, &longer, e->err) < 0
               ? -1
               : dt_tok_split(e, step + 1, &longer);
}

static int split_mark(struct dt_encoder *e, size_t step,
                      const struct dt_tok_span *span)
{
    const struct dt_tok_step *mark = &e->tokenizer->steps[step];
    struct dt_tok_text *text = &e->stepped[step];
    struct dt_tok_span marked = *span;
    bool in_front = mark->prepend == DT_TOK_ALWAYS ||
                    (mark->prepend == DT_TOK_FIRST && span->first);
    uint32_t at = dt_tok_span_begin(span, 0);
    dt_tok_text_clear(text, e->flags & DT_ENCODE_OFFSETS);
    if (in_front && span->s[0] != ' ' &&
        (span->n < mark->text_bytes ||
         memcmp(span->s, mark->text, mark->text_bytes) != 0))
        dt_tok_text_add(text, mark->text, mark->text_bytes, at, at);
    for (size_t i = 0; i < span->n;) {
        const char *space = memchr(span->s + i, ' ', span->n - i);
        size_t end = space ? (size_t)(space - span->s) : span->n;
        dt_tok_text_copy(text, span, i, end);
        if (space)
            dt_tok_text_add(text, mark->text, mark->text_bytes,
                            dt_tok_span_begin(span, end),
                            dt_tok_span_end(span, end));
        i = end + (space != NULL);
    }
    return dt_tok_text_span(text, &marked, e->err) < 0
               ? -1
               : dt_tok_split(e, step + 1, &marked);
}

int dt_tok_split(struct dt_encoder *e, size_t step,
                 const struct dt_tok_span *span)
{
    if (step == e->tokenizer->step_count)
        return dt_tok_piece(e, span);
    switch (e->tokenizer->steps[step].kind) {
    case DT_TOK_STEP_WORDS:
        return split_words(e, step, span);
    case DT_TOK_STEP_PATTERN:
        return split_pattern(e, step, span);
    case DT_TOK_STEP_SPACE:
        return prepend_text(e, step, span, " ", 1);
    case DT_TOK_STEP_MARK:
        return split_mark(e, step, span);
    default:
        return split_cuts(e, span);
    }
}
