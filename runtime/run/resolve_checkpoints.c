/* SPDX-License-Identifier: Apache-2.0 */
/* resolve_checkpoints.c - finds the checkpoints that a configuration names */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "ckpt/ckpt.h"
#include "run/resolve_checkpoints.h"
#include "weights/weights.h"

/* Whether a checkpoint is the one that the link `best` in its directory names.
 */
static bool is_best(const char *path)
{
    char root[PATH_MAX];
    snprintf(root, sizeof(root), "%.*s", (int)(strrchr(path, '/') - path),
             path);
    return dt_ckpt_best(root) == dt_ckpt_step(path);
}

/* Replaces a path by the directory of the checkpoint that it names: `latest`
 * may soon be another one. A path without a model stays; whoever reads it
 * reports the error.
 */
static void find_model(const char *key, char **path, bool says)
{
    char found[PATH_MAX];
    struct dt_error err;
    if (!*path || dt_weights_find(*path, found, &err) < 0 ||
        dt_ckpt_step(found) < 0)
        return;
    char *copy = strdup(found);
    if (!copy)
        return;
    const char *name = strrchr(copy, '/') + 1, *slash = strrchr(*path, '/');
    if (says && strcmp(slash ? slash + 1 : *path, name) != 0)
        dt_log(DT_LOG_INFO, "algo", "%s: %s: its %s checkpoint is %s", key,
               *path, is_best(copy) ? "best" : "newest", name);
    free(*path);
    *path = copy;
}

void dt_models_find(struct dt_conf *conf, bool says)
{
    const struct {
        const char *key;
        char **path;
    } models[] = {
        {"model.path", &conf->model.path},
        {"model.reference_path", &conf->model.reference_path},
        {"model.value_path", &conf->model.value_path},
        {"adapter.path", &conf->adapter.path},
    };
    for (size_t i = 0; i < sizeof(models) / sizeof(models[0]); i++)
        find_model(models[i].key, models[i].path, says);
    for (size_t i = 0; i < conf->reward.count; i++)
        if (conf->reward.functions[i].type == DT_CONF_REWARD_MODEL)
            find_model("reward.functions.path", &conf->reward.functions[i].path,
                       says);
}
