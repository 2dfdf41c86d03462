/* SPDX-License-Identifier: Apache-2.0 */
/* data_rules.c - rules of section data: kinds of files, and keys for each */
#include "config.h"

#include <string.h>

#include "conf/keys/draft.h"

/* Facts about the files that their names tell. */
static enum dt_kind kind_asked(enum dt_kind_asked asked)
{
    return asked == DT_ASKED_TOKENS  ? DT_KIND_TOKENS
           : asked == DT_ASKED_LINES ? DT_KIND_LINES
                                     : DT_KIND_TEXT;
}

/* Sets the kind of several files, which must agree. Text may be mixed with JSON
 * lines only with data.packing: wrapped, which makes one stream of both. With
 * any other packing a text file would be a single example, cut to one row.
 */
static void join_kinds(struct dt_conf_draft *draft, const char *key,
                       const char *path, const struct dt_found *found,
                       const char *first, const struct dt_found *first_found)
{
    struct dt_conf *conf = draft->conf;
    bool textual =
        found->kind != DT_KIND_TOKENS && conf->data.kind != DT_KIND_TOKENS;
    if (found->kind == conf->data.kind)
        return;
    if (textual && conf->data.packing == DT_PACK_WRAPPED)
        conf->data.kind = DT_KIND_LINES;
    else
        PROBLEM(draft, key,
                "%s holds %s, but %s holds %s: a run reads one kind of file%s",
                path, dt_kind_name(found), first, dt_kind_name(first_found),
                textual ? "; with data.packing: wrapped, both are one text"
                        : "");
}

/* TRL has two keys, of which one says that there is packing. */
static void derive_packing(struct dt_conf_draft *draft)
{
    static const char key[] = "data.packing_strategy";
    struct dt_conf *conf = draft->conf;
    const bool given = dt_conf_given(conf, key);
    if (conf->data.packing == DT_CONF_PACK_BY_STRATEGY)
        conf->data.packing = given ? conf->data.packing_strategy : DT_PACK_BFD;
    else if (given && conf->data.packing != conf->data.packing_strategy)
        WARNING(draft, key, "no effect: only data.packing: true uses it");
    dt_conf_place_for(conf, key)->line = 0;
}

void dt_conf_derive_data(struct dt_conf_draft *draft)
{
    struct dt_conf *conf = draft->conf;
    static const char *const keys[] = {"data.train", "data.eval"};
    const struct dt_conf_list *lists[] = {&conf->data.train, &conf->data.eval};
    enum dt_kind_asked asked = dt_kind_asked_by(conf->data.format);
    const char *first = NULL;
    struct dt_error err;
    struct dt_found found, first_found;
    bool later = false; /* a file that is not known yet */
    derive_packing(draft);
    conf->data.kind = kind_asked(asked);
    for (size_t k = 0; k < 2; k++)
        for (size_t i = 0; i < lists[k]->count; i++) {
            const char *path = lists[k]->text[i];
            if (dt_conf_is_later(path)) {
                later = true;
                continue;
            }
            if (dt_kind_find(path, asked, &found, &err) < 0) {
                PROBLEM(draft, keys[k], "%s", err.text);
                continue;
            }
            if (first) {
                join_kinds(draft, keys[k], path, &found, first, &first_found);
            } else {
                conf->data.kind = found.kind;
                first_found = found;
                first = path;
            }
        }
    bool asked_for = later && asked != DT_ASKED_AUTO;
    if (!first && !asked_for && lists[0]->count > 0) /* nothing more is said */
        conf->data.kind = DT_KIND_LINES;
}

/* Warns of keys that affect only JSON lines, which alone have columns and are
 * examples that can be packed, truncated or left out.
 */
static void warn_of_stream(struct dt_conf_draft *draft)
{
    const struct dt_conf *conf = draft->conf;
    bool tokens = conf->data.kind == DT_KIND_TOKENS;
    const struct {
        const char *path;
        bool given;
    } keys[] = {
        {"data.packing", conf->data.packing != DT_PACK_NONE &&
                             conf->data.packing != DT_PACK_WRAPPED},
        {"data.truncation", conf->data.truncation},
        {"data.bad_lines", conf->data.bad_lines > 0},
        {"data.text_column", strcmp(conf->data.text_column, "text") != 0},
        {"data.prompt_column", strcmp(conf->data.prompt_column, "prompt") != 0},
        {"data.completion_column",
         strcmp(conf->data.completion_column, "completion") != 0},
        {"data.messages_column",
         strcmp(conf->data.messages_column, "messages") != 0},
        {"data.chat_template", conf->data.chat_template != DT_CONF_CHAT_AUTO},
        {"data.chat_template_kwargs", conf->data.chat_template_kwargs},
        {"data.parse_special", tokens && !conf->data.parse_special},
    };
    if (conf->data.kind == DT_KIND_LINES || conf->data.train.count == 0)
        return;
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        if (keys[i].given)
            WARNING(draft, keys[i].path, "no effect: data.train is one %s",
                    tokens ? "stream of tokens" : "text");
}

/* --- rules --- */

static void check_evaluation(struct dt_conf_draft *draft)
{
    const struct dt_conf *conf = draft->conf;
    const bool given = dt_conf_given(conf, "data.eval");
    if (given && conf->data.validation_split > 0)
        WARNING(draft, "data.validation_split",
                "no effect: data.eval is given");
    if ((conf->training.eval_strategy != DT_CONF_NO ||
         conf->training.eval_only) &&
        !given && conf->data.validation_split <= 0)
        PROBLEM(draft,
                conf->training.eval_only ? "training.eval_only"
                                         : "training.eval_strategy",
                "E128 nothing to evaluate on: give data.eval or "
                "data.validation_split");
}

/* Checks that the lines have the tokens that data.loss_on trains on. */
static void check_loss(struct dt_conf_draft *draft)
{
    const struct dt_conf *conf = draft->conf;
    int loss = conf->data.loss_on, format = conf->data.format;
    const char *name =
        dt_conf_word_of(&dt_conf_keys[dt_conf_key_find("data.format")], format);
    bool chat = format == DT_FORMAT_MESSAGES;
    bool prompt = format == DT_FORMAT_PROMPT_COMPLETION;
    if (format == DT_FORMAT_AUTO)
        return; /* known when the file is read */
    if (loss == DT_LOSS_ASSISTANT && !chat && !prompt)
        PROBLEM(draft, "data.loss_on",
                "E112 assistant: data.format %s has no conversations", name);
    if (loss == DT_LOSS_COMPLETION && !prompt)
        PROBLEM(draft, "data.loss_on",
                "E112 completion: data.format %s has no completions", name);
}

void dt_conf_check_data(struct dt_conf_draft *draft)
{
    check_evaluation(draft);
    check_loss(draft);
    warn_of_stream(draft);
}
