/* SPDX-License-Identifier: Apache-2.0 */
/* pair_rules.c - rules of algorithms that learn from preference pairs: sections
 * rm and dpo
 */
#include "config.h"

#include "conf/keys/draft.h"

static bool learns_pairs(const struct dt_conf *conf)
{
    return conf->algorithm == DT_CONF_RM || conf->algorithm == DT_CONF_DPO;
}

/* Defaults of TRL's trainers, for short runs from pretrained weights. */
void dt_conf_derive_pairs(struct dt_conf_draft *draft)
{
    struct dt_conf *conf = draft->conf;
    if (!learns_pairs(conf))
        return;
    if (dt_conf_is_left(draft->conf, "data.format"))
        conf->data.format = DT_FORMAT_PREFERENCE;
    if (dt_conf_is_left(draft->conf, "model.disable_dropout"))
        conf->model.disable_dropout = true;
    if (conf->algorithm == DT_CONF_RM &&
        dt_conf_is_left(draft->conf, "data.truncation"))
        conf->data.truncation = DT_CONF_DROP;
    if (dt_conf_is_left(draft->conf, "optimizer.lr"))
        conf->optimizer.lr = conf->algorithm == DT_CONF_RM ? 1e-4 : 1e-6;
}

/* Keys of one algorithm that another would not look at. */
static void check_users(struct dt_conf_draft *draft)
{
    char users[64];
    for (size_t i = 0; i < dt_conf_key_count; i++)
        if (!dt_conf_is_used(draft->conf, &dt_conf_keys[i]) &&
            dt_conf_differs(draft, dt_conf_keys[i].path)) {
            dt_conf_users(&dt_conf_keys[i], users, sizeof(users));
            PROBLEM(draft, dt_conf_keys[i].path, "only %s it", users);
        }
}

static void check_reference(struct dt_conf_draft *draft)
{
    static const char *const how[] = {"dpo.sync_ref.alpha",
                                      "dpo.sync_ref.steps"};
    const struct dt_conf *conf = draft->conf;
    if (conf->dpo.reference.mode == DT_CONF_REFERENCE_NONE &&
        conf->model.reference_path)
        PROBLEM(draft, "model.reference_path",
                "cannot be used with dpo.reference.mode: none");
    if (conf->algorithm == DT_CONF_DPO &&
        conf->dpo.f_divergence != DT_DIVERGENCE_ALPHA &&
        dt_conf_differs(draft, "dpo.f_alpha"))
        PROBLEM(draft, "dpo.f_alpha",
                "only dpo.f_divergence: alpha_divergence uses it");
    for (int i = 0; i < 2 && !conf->dpo.sync_ref.enabled; i++)
        if (dt_conf_differs(draft, how[i]))
            PROBLEM(draft, how[i], "only dpo.sync_ref.enabled: true uses it");
    if (conf->dpo.sync_ref.enabled &&
        conf->dpo.reference.mode != DT_CONF_REFERENCE_LIVE)
        PROBLEM(draft, "dpo.sync_ref.enabled",
                "E114 only a reference that computes beside the model can "
                "follow it: leave out dpo.reference.mode, or write live");
}

static void check_rows(struct dt_conf_draft *draft)
{
    const struct dt_conf *conf = draft->conf;
    if (conf->data.format == DT_FORMAT_PREFERENCE ||
        conf->data.format == DT_FORMAT_PROMPT)
        PROBLEM(draft, "data.format",
                "%s: sft trains on text, completions or conversations",
                conf->data.format == DT_FORMAT_PROMPT
                    ? "prompt is for algorithms ppo and grpo"
                    : "preference is for algorithms rm and dpo");
    if (conf->data.truncation == DT_CONF_DROP)
        PROBLEM(draft, "data.truncation",
                "drop is for preference pairs: write keep_start or keep_end");
    if (conf->training.micro_batch_tokens > 0)
        PROBLEM(draft, "training.micro_batch_tokens",
                "is for preference pairs and sampled completions; of rows, "
                "per_device_batch_size and data.max_length set the size");
}

static void check_pairs(struct dt_conf_draft *draft)
{
    const struct dt_conf *conf = draft->conf;
    long least = 2 * conf->data.max_length;
    long most = conf->training.micro_batch_tokens;
    if (conf->data.format != DT_FORMAT_PREFERENCE)
        PROBLEM(draft, "data.format",
                "this algorithm trains on pairs: write preference, or leave "
                "it out");
    if (conf->data.packing != DT_PACK_NONE)
        PROBLEM(draft, "data.packing",
                "E111 is not for preference pairs, which always follow each "
                "other in one row without padding");
    if (conf->data.loss_on != DT_LOSS_AUTO)
        PROBLEM(draft, "data.loss_on",
                "does not apply: with preference pairs only the completions "
                "are trained on");
    if (conf->training.label_smoothing > 0)
        PROBLEM(draft, "training.label_smoothing",
                "is not for preference pairs%s",
                conf->algorithm == DT_CONF_DPO
                    ? ": remove it; labels that may be swapped are "
                      "dpo.label_smoothing, with dpo.loss: cdpo"
                    : "");
    if (!conf->model.disable_dropout)
        PROBLEM(draft, "model.disable_dropout",
                "false: this algorithm compares two sides, which dropout "
                "would change differently");
    if (most > 0 && most < least)
        PROBLEM(draft, "training.micro_batch_tokens",
                "%ld is too few for a pair, whose sides have up to "
                "data.max_length tokens each: at least %ld",
                most, least);
}

void dt_conf_check_pairs(struct dt_conf_draft *draft)
{
    if (!dt_conf_knows_algorithm(draft))
        return;
    check_users(draft);
    check_reference(draft);
    if (learns_pairs(draft->conf))
        check_pairs(draft);
    else if (draft->conf->algorithm == DT_CONF_SFT)
        check_rows(draft);
}
