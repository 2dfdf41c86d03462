/* SPDX-License-Identifier: Apache-2.0 */
/* preference.c - keys of algorithms that learn from preference pairs */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "conf/read.h"

static bool learns_pairs(const struct dt_conf *conf)
{
    return conf->algorithm == DT_CONF_RM || conf->algorithm == DT_CONF_DPO;
}

/* Defaults of TRL's trainers, for short runs from pretrained weights. */
void dt_conf_derive_preference(struct dt_conf_reader *reader)
{
    struct dt_conf *conf = reader->conf;
    if (!learns_pairs(conf))
        return;
    if (dt_conf_is_left(reader, "data.format"))
        conf->data.format = DT_FORMAT_PREFERENCE;
    if (dt_conf_is_left(reader, "model.disable_dropout"))
        conf->model.disable_dropout = true;
    if (conf->algorithm == DT_CONF_RM &&
        dt_conf_is_left(reader, "data.truncation"))
        conf->data.truncation = DT_CONF_DROP;
    if (dt_conf_is_left(reader, "optimizer.lr"))
        conf->optimizer.lr = conf->algorithm == DT_CONF_RM ? 1e-4 : 1e-6;
}

/* Takes the quotes out of a value, which a list of words may have. */
static void remove_quotes(char *text)
{
    char *to = text;
    for (const char *from = text; *from; from++)
        if (*from != '"')
            *to++ = *from;
    *to = '\0';
}

bool dt_conf_differs(struct dt_conf_reader *reader, int row)
{
    const struct dt_conf_key *key = &dt_conf_keys[row];
    char *text = reader->conf->place[row].line > 0
                     ? dt_conf_value_text(reader, key)
                     : NULL;
    if (text)
        remove_quotes(text);
    bool result = text && (!key->fallback || strcmp(text, key->fallback) != 0);
    free(text);
    return result;
}

/* Keys of one algorithm that another would not look at. */
static void check_users(struct dt_conf_reader *reader)
{
    char users[64];
    for (size_t i = 0; i < dt_conf_key_count; i++)
        if (!dt_conf_is_used(reader->conf, &dt_conf_keys[i]) &&
            dt_conf_differs(reader, (int)i)) {
            dt_conf_users(&dt_conf_keys[i], users, sizeof(users));
            PROBLEM(reader, dt_conf_keys[i].path, "only %s it", users);
        }
}

static void check_reference(struct dt_conf_reader *reader)
{
    static const char *const how[] = {"dpo.sync_ref.alpha",
                                      "dpo.sync_ref.steps"};
    const struct dt_conf *conf = reader->conf;
    if (conf->dpo.reference.mode == DT_CONF_REFERENCE_NONE &&
        conf->model.reference_path)
        PROBLEM(reader, "model.reference_path",
                "cannot be used with dpo.reference.mode: none");
    if (conf->algorithm == DT_CONF_DPO &&
        conf->dpo.f_divergence != DT_DIVERGENCE_ALPHA &&
        dt_conf_differs(reader, dt_conf_key_find("dpo.f_alpha")))
        PROBLEM(reader, "dpo.f_alpha",
                "only dpo.f_divergence: alpha_divergence uses it");
    for (int i = 0; i < 2 && !conf->dpo.sync_ref.enabled; i++)
        if (dt_conf_differs(reader, dt_conf_key_find(how[i])))
            PROBLEM(reader, how[i], "only dpo.sync_ref.enabled: true uses it");
    if (conf->dpo.sync_ref.enabled &&
        conf->dpo.reference.mode != DT_CONF_REFERENCE_LIVE)
        PROBLEM(reader, "dpo.sync_ref.enabled",
                "E114 only a reference that computes beside the model can "
                "follow it: leave out dpo.reference.mode, or write live");
}

static void check_rows(struct dt_conf_reader *reader)
{
    const struct dt_conf *conf = reader->conf;
    if (conf->data.format == DT_FORMAT_PREFERENCE ||
        conf->data.format == DT_FORMAT_PROMPT)
        PROBLEM(reader, "data.format",
                "%s: sft trains on text, completions or conversations",
                conf->data.format == DT_FORMAT_PROMPT
                    ? "prompt is for algorithms ppo and grpo"
                    : "preference is for algorithms rm and dpo");
    if (conf->data.truncation == DT_CONF_DROP)
        PROBLEM(reader, "data.truncation",
                "drop is for preference pairs: write keep_start or keep_end");
    if (conf->training.micro_batch_tokens > 0)
        PROBLEM(reader, "training.micro_batch_tokens",
                "is for preference pairs and sampled completions; of rows, "
                "per_device_batch_size and data.max_length set the size");
}

static void check_pairs(struct dt_conf_reader *reader)
{
    const struct dt_conf *conf = reader->conf;
    long least = 2 * conf->data.max_length;
    long most = conf->training.micro_batch_tokens;
    if (conf->data.format != DT_FORMAT_PREFERENCE)
        PROBLEM(reader, "data.format",
                "this algorithm trains on pairs: write preference, or leave "
                "it out");
    if (conf->data.packing != DT_PACK_NONE)
        PROBLEM(reader, "data.packing",
                "E111 is not for preference pairs, which always follow each "
                "other in one row without padding");
    if (conf->data.loss_on != DT_LOSS_AUTO)
        PROBLEM(reader, "data.loss_on",
                "does not apply: with preference pairs only the completions "
                "are trained on");
    if (conf->training.label_smoothing > 0)
        PROBLEM(reader, "training.label_smoothing",
                "is not for preference pairs%s",
                conf->algorithm == DT_CONF_DPO ? ": write dpo.label_smoothing"
                                               : "");
    if (!conf->model.disable_dropout)
        PROBLEM(reader, "model.disable_dropout",
                "false: this algorithm compares two sides, which dropout "
                "would change differently");
    if (most > 0 && most < least)
        PROBLEM(reader, "training.micro_batch_tokens",
                "%ld is too few for a pair, whose sides have up to "
                "data.max_length tokens each: at least %ld",
                most, least);
}

void dt_conf_check_preference(struct dt_conf_reader *reader)
{
    if (!dt_conf_knows_algorithm(reader))
        return;
    check_users(reader);
    check_reference(reader);
    if (learns_pairs(reader->conf))
        check_pairs(reader);
    else if (reader->conf->algorithm == DT_CONF_SFT)
        check_rows(reader);
}
