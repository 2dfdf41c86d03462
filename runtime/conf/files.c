/* SPDX-License-Identifier: Apache-2.0 */
/* files.c - what the data files hold, and the keys that have no effect on it */
#include "config.h"

#include <string.h>

#include "conf/read.h"

static enum dt_kind_asked asked_of(const struct dt_conf *conf)
{
    switch ((enum dt_conf_format)conf->data.format) {
    case DT_CONF_FORMAT_AUTO:
        return DT_ASKED_AUTO;
    case DT_CONF_FORMAT_TEXT:
        return DT_ASKED_TEXT;
    case DT_CONF_FORMAT_TOKENS_BIN:
        return DT_ASKED_TOKENS;
    default:
        return DT_ASKED_LINES;
    }
}

/* What is known of the files without looking at them. */
static enum dt_kind kind_asked(enum dt_kind_asked asked)
{
    return asked == DT_ASKED_TOKENS  ? DT_KIND_TOKENS
           : asked == DT_ASKED_LINES ? DT_KIND_LINES
                                     : DT_KIND_TEXT;
}

/* Text and lines of JSON become one text only where all is one text: else a
 * text would be one row of many, and the rest of it left out.
 */
static void join_kinds(struct dt_conf_reader *reader, const char *key,
                       const char *path, enum dt_kind kind, const char *first)
{
    struct dt_conf *conf = reader->conf;
    bool textual = kind != DT_KIND_TOKENS && conf->data.kind != DT_KIND_TOKENS;
    if (kind == conf->data.kind)
        return;
    if (textual && conf->data.packing == DT_CONF_PACK_WRAPPED)
        conf->data.kind = DT_KIND_LINES;
    else
        PROBLEM(reader, key,
                "%s holds %s, but %s holds %s: a run reads one "
                "kind of file%s",
                path, dt_kind_name(kind), first, dt_kind_name(conf->data.kind),
                textual ? "; with data.packing: wrapped, both are one text"
                        : "");
}

void dt_conf_derive_kind(struct dt_conf_reader *reader)
{
    struct dt_conf *conf = reader->conf;
    static const char *const keys[] = {"data.train", "data.eval"};
    const struct dt_conf_list *lists[] = {&conf->data.train, &conf->data.eval};
    enum dt_kind_asked asked = asked_of(conf);
    const char *first = NULL;
    struct dt_error err;
    enum dt_kind kind;
    conf->data.kind = kind_asked(asked);
    for (size_t k = 0; k < 2; k++)
        for (size_t i = 0; i < lists[k]->count; i++) {
            const char *path = lists[k]->text[i];
            if (dt_kind_find(path, asked, &kind, &err) < 0) {
                PROBLEM(reader, keys[k], "%s", err.text);
                continue;
            }
            if (first) {
                join_kinds(reader, keys[k], path, kind, first);
            } else {
                conf->data.kind = kind;
                first = path;
            }
        }
}

/* Only lines of JSON are examples that can be packed, cut or left out, and
 * have keys.
 */
void dt_conf_warn_of_stream(struct dt_conf_reader *reader)
{
    const struct dt_conf *conf = reader->conf;
    bool tokens = conf->data.kind == DT_KIND_TOKENS;
    const struct {
        const char *path;
        bool given;
    } keys[] = {
        {"data.packing", conf->data.packing != DT_CONF_PACK_NONE &&
                             conf->data.packing != DT_CONF_PACK_WRAPPED},
        {"data.truncation", conf->data.truncation},
        {"data.bad_lines", conf->data.bad_lines > 0},
        {"data.text_column", strcmp(conf->data.text_column, "text") != 0},
        {"data.prompt_column", strcmp(conf->data.prompt_column, "prompt") != 0},
        {"data.completion_column",
         strcmp(conf->data.completion_column, "completion") != 0},
        {"data.messages_column",
         strcmp(conf->data.messages_column, "messages") != 0},
        {"data.chat_template", conf->data.chat_template != DT_CONF_CHAT_AUTO},
        {"data.parse_special", tokens && !conf->data.parse_special},
    };
    if (conf->data.kind == DT_KIND_LINES || conf->data.train.count == 0)
        return;
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        if (keys[i].given)
            WARNING(reader, keys[i].path, "no effect: data.train is one %s",
                    tokens ? "stream of tokens" : "text");
}
