/* SPDX-License-Identifier: Apache-2.0 */
/* adapter_rules.c - rules of section adapter: LoRA on frozen weights */
#include "config.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "conf/keys/draft.h"

enum { MAX_BYTES = 1 << 20 };

#define FILE_NAME "adapter_config.json"

static bool has_file(const char *dir, const char *name)
{
    char path[PATH_MAX];
    return snprintf(path, sizeof(path), "%s/%s", dir, name) <
               (int)sizeof(path) &&
           access(path, F_OK) == 0;
}

/* The model that the adapter in `dir` names, malloc'ed, or NULL: none. */
static char *base_of(const char *dir)
{
    char path[PATH_MAX];
    struct dt_error late; /* the reader of the adapter reports it */
    snprintf(path, sizeof(path), "%s/" FILE_NAME, dir);
    char *text = dt_file_read(path, MAX_BYTES, &late);
    json_t *root = text ? dt_json_parse(path, text, &late) : NULL;
    const char *base =
        json_string_value(json_object_get(root, "base_model_name_or_path"));
    char *copy = base ? strdup(base) : NULL;
    json_decref(root);
    free(text);
    return copy;
}

/* A model.path that is an adapter's means that adapter and its model. */
static void split_path(struct dt_conf_draft *draft)
{
    struct dt_conf *conf = draft->conf;
    const char *dir = conf->model.path;
    if (!dir || !has_file(dir, FILE_NAME) || has_file(dir, "config.json"))
        return;
    char *named = base_of(dir), base[PATH_MAX];
    if (conf->adapter.path) {
        PROBLEM(draft, "adapter.path",
                "model.path is an adapter, too: write the model that it was "
                "trained beside");
    } else if (!named) {
        PROBLEM(draft, "model.path",
                "%s: an adapter, and its " FILE_NAME " does not say of which "
                "model: write that model's directory, and this one in "
                "adapter.path",
                dir);
    } else if (!dt_file_find_dir(dir, named, base) ||
               !has_file(base, "config.json")) {
        PROBLEM(draft, "model.path",
                "%s: an adapter beside the model %.200s, which is not here: "
                "write that model's directory, and this one in adapter.path",
                dir, named);
    } else {
        conf->adapter.path = conf->model.path;
        conf->model.path = strdup(base);
        draft->problems.out_of_memory |= !conf->model.path;
        dt_conf_is_left(conf, "adapter.path");
    }
    free(named);
}

void dt_conf_derive_adapter(struct dt_conf_draft *draft)
{
    struct dt_conf *conf = draft->conf;
    split_path(draft);
    if (conf->adapter.path && dt_conf_is_left(draft->conf, "adapter.type"))
        conf->adapter.type = DT_CONF_ADAPTER_LORA;
}

/* Keys that the file of an adapter has must not be given again. */
static void check_path(struct dt_conf_draft *draft)
{
    static const char *const there[] = {
        "adapter.r",
        "adapter.alpha",
        "adapter.dropout",
        "adapter.target_modules",
        "adapter.modules_to_save",
        "adapter.use_rslora",
        "adapter.bias",
    };
    for (size_t i = 0; i < sizeof(there) / sizeof(there[0]); i++)
        if (draft->conf->adapter.path && dt_conf_given(draft->conf, there[i]))
            PROBLEM(draft, there[i],
                    "cannot be used with adapter.path: its " FILE_NAME
                    " says this");
}

static void check_uses(struct dt_conf_draft *draft)
{
    const struct dt_conf *conf = draft->conf;
    const bool follows = conf->algorithm == DT_CONF_GRPO
                             ? conf->grpo.sync_ref.enabled
                             : conf->dpo.sync_ref.enabled;
    if (conf->algorithm == DT_CONF_PPO && conf->ppo.critic_shares)
        PROBLEM(draft, "ppo.critic.share_backbone",
                "E124 cannot be used with adapter.type: lora: the critic has "
                "an adapter of its own");
    if (dt_conf_starts_random(conf))
        PROBLEM(draft, "adapter.type",
                "E124 lora is trained beside the weights of model.path, and "
                "random ones are not saved");
    if (conf->model.reference_path)
        PROBLEM(draft, "model.reference_path",
                "E124 cannot be used with adapter.type: lora: the reference "
                "is the model without its adapter");
    if (conf->adapter.path &&
        conf->dpo.reference.mode == DT_CONF_REFERENCE_PRECOMPUTE)
        PROBLEM(draft, "dpo.reference.mode",
                "E124 precompute cannot be used with adapter.path: write live");
    if (follows)
        PROBLEM(draft,
                conf->algorithm == DT_CONF_GRPO ? "grpo.sync_ref.enabled"
                                                : "dpo.sync_ref.enabled",
                "E124 cannot be used with adapter.type: lora: the reference "
                "is the model without its adapter");
    if (conf->distributed.offload_param.device != DT_CONF_OFFLOAD_NONE)
        PROBLEM(draft, "distributed.offload_param.device",
                "E124 cannot be used with adapter.type: lora: weights that "
                "are not trained stay on the device; distributed.strategy: "
                "zero3 shards them");
}

void dt_conf_check_adapter(struct dt_conf_draft *draft)
{
    const struct dt_conf *conf = draft->conf;
    if (conf->adapter.type == DT_CONF_ADAPTER_NONE) {
        if (conf->adapter.path)
            PROBLEM(draft, "adapter.path",
                    "cannot be used with adapter.type: none");
        return;
    }
    check_path(draft);
    check_uses(draft);
    if (dt_conf_differs(draft, "adapter.dropout") &&
        conf->model.disable_dropout)
        WARNING(draft, "adapter.dropout",
                "no effect: model.disable_dropout is true%s",
                dt_conf_given(conf, "model.disable_dropout")
                    ? ""
                    : " unless algorithm sft trains");
}
