/* SPDX-License-Identifier: Apache-2.0 */
/* config.c - reads and checks config.json of a model */
#include "config.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/foreign.h"
#include "base/json.h"
#include "model/family/family.h"

enum { CONFIG_MAX_BYTES = 1 << 20 };

/* Sets the family. false: it is unknown, and nothing else can be read. */
static bool parse_family(struct dt_model_config *config, const json_t *root,
                         struct dt_error *problems)
{
    const json_t *type = json_object_get(root, "model_type");
    char known[1024] = "";
    config->family = dt_model_family_find(
        json_is_string(type) ? json_string_value(type) : "");
    for (size_t i = 0; dt_families[i]; i++)
        dt_config_add_word(known, sizeof(known), dt_families[i]->type);
    for (size_t i = 0; dt_vision_families[i]; i++)
        dt_config_add_word(known, sizeof(known), dt_vision_families[i]->type);
    if (!config->family)
        dt_config_unexpected(problems, "", "model_type", known, type);
    return config->family;
}

static void parse_architecture(struct dt_model_config *config,
                               const json_t *root, struct dt_error *problems)
{
    const struct dt_family *family = config->family;
    const json_t *list = json_object_get(root, "architectures");
    const json_t *first = json_array_get(list, 0);
    const char *name = json_string_value(first);
    config->scores = name && family->scores && !strcmp(name, family->scores);
    if (config->scores)
        dt_config_parse_labels(root, problems);
    else if (first && (!name || (strcmp(name, family->causal) != 0 &&
                                 strcmp(name, family->base) != 0)))
        dt_config_unexpected(problems, "", "architectures", family->causal,
                             first);
}

/* Fills config, which is zero, from the object `root`. */
static void parse_object(struct dt_model_config *config, const json_t *root,
                         struct dt_error *problems)
{
    const char *type = json_string_value(json_object_get(root, "model_type"));
    const struct dt_vision_family *seeing = dt_vision_family_find(type);
    if (seeing) {
        dt_config_parse_vision(config, seeing, root, problems);
    } else if (parse_family(config, root, problems)) {
        parse_architecture(config, root, problems);
        dt_config_parse_model(config, root, false, problems);
    }
}

int dt_model_config_check(const struct dt_model_config *config,
                          struct dt_error *err)
{
    struct dt_error problems = {0};
    for (const struct dt_field *field = config->family->fields; field->key;
         field++) {
        double value = dt_field_get(config, field);
        char got[32];
        snprintf(got, sizeof(got), "%.15g", value);
        if (dt_field_of(field, config) && !dt_field_in_range(field, value))
            dt_field_unexpected(field, "", got, &problems);
    }
    dt_config_check_relations(config, &problems);
    if (problems.text[0])
        return dt_error_set(err, EX_CONFIG, "%s", problems.text);
    return 0;
}

int dt_model_config_parse(struct dt_model_config *config, const char *json,
                          const char *name, struct dt_error *err)
{
    struct dt_error problems = {0};
    json_t *root = dt_json_parse(name, json, err);
    *config = (struct dt_model_config){0};
    if (!root)
        return -1;
    if (json_is_object(root))
        parse_object(config, root, &problems);
    else
        dt_error_add(&problems, EX_DATAERR, "expected a JSON object");
    json_decref(root);
    if (problems.text[0])
        return dt_error_set(err, EX_DATAERR, "%s: %s", name, problems.text);
    if (!(config->text = strdup(json)))
        return dt_error_set(err, EX_OSERR, "out of memory");
    return 0;
}

void dt_model_config_fini(struct dt_model_config *config)
{
    free(config->vision);
    config->vision = NULL;
    free(config->text);
    config->text = NULL;
}

int dt_model_config_load(struct dt_model_config *config, const char *path,
                         struct dt_error *err)
{
    char file[PATH_MAX];
    struct stat st;
    bool is_file = stat(path, &st) == 0 && S_ISREG(st.st_mode);
    *config = (struct dt_model_config){0};
    if (snprintf(file, sizeof(file), "%s%s", path,
                 is_file ? "" : "/config.json") >= (int)sizeof(file))
        return dt_error_set(err, EX_NOINPUT, "%s: path too long", path);
    if (!is_file && access(file, F_OK) < 0 && dt_foreign_dir(path, err) < 0)
        return -1;
    char *json = dt_file_read(file, CONFIG_MAX_BYTES, err);
    int result = json ? dt_model_config_parse(config, json, file, err) : -1;
    free(json);
    return result;
}
