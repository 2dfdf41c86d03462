/* SPDX-License-Identifier: Apache-2.0 */
/* pretokenizer.c - reads the pre-tokenizer of tokenizer.json into steps */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "tokenizer/impl.h"

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
                               enum dt_tok_step_kind kind, struct dt_error *err)
{
    struct dt_tok_step *step = &tokenizer->steps[tokenizer->step_count];
    if (tokenizer->step_count == DT_TOK_STEPS_MAX) {
        dt_error_set(err, EX_DATAERR, "more than %d steps", DT_TOK_STEPS_MAX);
        return NULL;
    }
    tokenizer->step_count++;
    step->kind = kind;
    step->behavior = DT_TOK_ISOLATED;
    return step;
}

static int set_text(struct dt_tok_step *step, const char *text, size_t bytes,
                    struct dt_error *err)
{
    step->text = malloc(bytes + 1);
    if (!step->text)
        return dt_error_set(err, EX_OSERR, "out of memory");
    memcpy(step->text, text, bytes);
    step->text[bytes] = '\0';
    step->text_bytes = bytes;
    return 0;
}

static int read_byte_level(struct dt_tokenizer *tokenizer, const json_t *value,
                           struct dt_error *err)
{
    bool prefix, regex;
    struct dt_tok_step *step;
    if (dt_tok_json_flag(value, "add_prefix_space", true, &prefix, err) < 0 ||
        dt_tok_json_flag(value, "use_regex", true, &regex, err) < 0)
        return -1;
    if (prefix && !add(tokenizer, DT_TOK_STEP_SPACE, err))
        return -1;
    tokenizer->model.byte_level = true;
    tokenizer->prefix_space = prefix;
    if (!regex)
        return 0;
    step = add(tokenizer, DT_TOK_STEP_WORDS, err);
    if (!step)
        return -1;
    step->words = DT_TOK_WORDS_GPT2;
    return 0;
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
static int read_split(struct dt_tokenizer *tokenizer, const json_t *value,
                      struct dt_error *err)
{
    const json_t *regex =
        json_object_get(json_object_get(value, "pattern"), "Regex");
    struct dt_tok_step *step = add(tokenizer, DT_TOK_STEP_PATTERN, err);
    const json_t *text = regex;
    if (!step || read_behavior(step, value, err) < 0)
        return -1;
    if (!json_is_string(regex)) {
        text = dt_tok_json_string_pattern(value, err);
        return text ? set_text(step, json_string_value(text),
                               json_string_length(text), err)
                    : -1;
    }
    step->words =
        dt_tok_words_find(json_string_value(text), json_string_length(text));
    if (step->words && step->behavior == DT_TOK_ISOLATED && !step->invert) {
        step->kind = DT_TOK_STEP_WORDS;
        return 0;
    }
    step->find = DT_TOK_FIND_REGEX;
    step->regex = dt_tok_regex_create(json_string_value(text),
                                      json_string_length(text), err);
    return step->regex ? 0 : dt_error_prefix(err, "pattern");
}

static int read_digits(struct dt_tokenizer *tokenizer, const json_t *value,
                       struct dt_error *err)
{
    bool single;
    struct dt_tok_step *step = add(tokenizer, DT_TOK_STEP_PATTERN, err);
    if (!step ||
        dt_tok_json_flag(value, "individual_digits", false, &single, err) < 0)
        return -1;
    step->find = DT_TOK_FIND_NUMBER;
    step->behavior = single ? DT_TOK_ISOLATED : DT_TOK_CONTIGUOUS;
    return 0;
}

static int add_spaces(struct dt_tokenizer *tokenizer, const json_t *value,
                      struct dt_error *err)
{
    struct dt_tok_step *step = add(tokenizer, DT_TOK_STEP_PATTERN, err);
    (void)value;
    if (!step)
        return -1;
    step->find = DT_TOK_FIND_SPACE;
    step->behavior = DT_TOK_REMOVED;
    return 0;
}

static int add_runs(struct dt_tokenizer *tokenizer, const json_t *value,
                    struct dt_error *err)
{
    struct dt_tok_step *step = add(tokenizer, DT_TOK_STEP_PATTERN, err);
    (void)value;
    if (!step)
        return -1;
    step->find = DT_TOK_FIND_RUN;
    step->behavior = DT_TOK_REMOVED;
    step->invert = true;
    return 0;
}

static int read_punctuation(struct dt_tokenizer *tokenizer, const json_t *value,
                            struct dt_error *err)
{
    struct dt_tok_step *step = add(tokenizer, DT_TOK_STEP_PATTERN, err);
    if (!step)
        return -1;
    step->find = DT_TOK_FIND_PUNCTUATION;
    return json_object_get(value, "behavior") ? read_behavior(step, value, err)
                                              : 0;
}

static int read_bert(struct dt_tokenizer *tokenizer, const json_t *value,
                     struct dt_error *err)
{
    struct dt_tok_step *step;
    if (add_spaces(tokenizer, value, err) < 0 ||
        !(step = add(tokenizer, DT_TOK_STEP_PATTERN, err)))
        return -1;
    step->find = DT_TOK_FIND_PUNCTUATION;
    return 0;
}

static int read_delimiter(struct dt_tokenizer *tokenizer, const json_t *value,
                          struct dt_error *err)
{
    const json_t *text = dt_tok_json_get(value, "delimiter", JSON_STRING, err);
    struct dt_tok_step *step;
    if (!text || !(step = add(tokenizer, DT_TOK_STEP_PATTERN, err)))
        return -1;
    if (json_string_length(text) == 0 || json_string_length(text) > 4)
        return dt_error_set(err, EX_DATAERR,
                            "delimiter: expected one character");
    step->behavior = DT_TOK_REMOVED;
    return set_text(step, json_string_value(text), json_string_length(text),
                    err);
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

static int read_metaspace(struct dt_tokenizer *tokenizer, const json_t *value,
                          struct dt_error *err)
{
    bool split;
    const json_t *mark =
        dt_tok_json_get(value, "replacement", JSON_STRING, err);
    struct dt_tok_step *step;
    if (!mark || dt_tok_json_flag(value, "split", true, &split, err) < 0 ||
        !(step = add(tokenizer, DT_TOK_STEP_MARK, err)))
        return -1;
    if (json_string_length(mark) == 0 || json_string_length(mark) > 4)
        return dt_error_set(err, EX_DATAERR,
                            "replacement: expected one character");
    if (read_scheme(step, value, err) < 0 ||
        set_text(step, json_string_value(mark), json_string_length(mark), err) <
            0)
        return -1;
    if (!split)
        return 0;
    step = add(tokenizer, DT_TOK_STEP_PATTERN, err);
    if (!step)
        return -1;
    step->behavior = DT_TOK_MERGED_WITH_NEXT;
    return set_text(step, json_string_value(mark), json_string_length(mark),
                    err);
}

static const struct {
    const char *type;
    int (*read)(struct dt_tokenizer *tokenizer, const json_t *value,
                struct dt_error *err);
} readers[] = {
    {"ByteLevel", read_byte_level},
    {"Split", read_split},
    {"Digits", read_digits},
    {"Metaspace", read_metaspace},
    {"Whitespace", add_runs},
    {"WhitespaceSplit", add_spaces},
    {"Punctuation", read_punctuation},
    {"BertPreTokenizer", read_bert},
    {"CharDelimiterSplit", read_delimiter},
};

static int read_one(void *ctx, const json_t *value, struct dt_error *err)
{
    struct dt_tokenizer *tokenizer = ctx;
    const char *type = dt_tok_json_type(value, err);
    if (!type)
        return -1;
    if (tokenizer->model.byte_level)
        return dt_error_set(err, EX_DATAERR, "nothing may follow ByteLevel");
    for (size_t i = 0; i < sizeof(readers) / sizeof(readers[0]); i++)
        if (!strcmp(type, readers[i].type))
            return readers[i].read(tokenizer, value, err);
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
