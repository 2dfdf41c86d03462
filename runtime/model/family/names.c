/* SPDX-License-Identifier: Apache-2.0 */
/*
 * names.c - names of parameters, which releases of transformers spell otherwise
 *
 * What differs is how they begin: "model.language_model.layers.0..." was
 * "language_model.model.layers.0...", and "model.layers.0..." of Qwen.
 */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include "model/family/family.h"

/* Words that names begin with in some spellings, and those of a tower. */
static const struct {
    const char *word;
    bool tower;
} words[] = {
    {"base_model.", false},     {"model.", false},      {"transformer.", false},
    {"language_model.", false}, {"text_model.", false}, {"vision_model.", true},
    {"vision_tower.", true},    {"visual.", true},
};

/* Skips one of these words. */
static bool skip_word(const char **name, bool *tower)
{
    for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++) {
        const size_t bytes = strlen(words[i].word);
        if (strncmp(*name, words[i].word, bytes) != 0)
            continue;
        *name += bytes;
        *tower |= words[i].tower;
        return true;
    }
    return false;
}

/* What follows these words. */
static const char *bare(const char *name, bool *tower)
{
    *tower = false;
    while (skip_word(&name, tower))
        continue;
    return name;
}

bool dt_model_names_alike(const char *a, const char *b)
{
    bool first, second;
    const char *x = bare(a, &first), *y = bare(b, &second);
    return first == second && !strcmp(x, y);
}

bool dt_model_name_begins(const char *name, const char *prefix)
{
    bool first, second;
    const char *x = bare(name, &first), *y = bare(prefix, &second);
    return first == second && !strncmp(x, y, strlen(y));
}

/* --- spellings --- */

/* The first parameter of a part, without what names of the part begin with. */
static const char *first_of(const struct dt_model_config *config,
                            enum dt_name_part part)
{
    const struct dt_vision_config *vision = config->vision;
    const char *trunk = config->family->params->name;
    switch (part) {
    case DT_NAMES_VISION:
        return vision->tower.family->params->name;
    case DT_NAMES_PROJECTOR:
        return vision->family->projector->name;
    case DT_NAMES_TRUNK:
        return trunk + strlen("model.");
    default:
        return "lm_head.weight";
    }
}

void dt_model_config_spell(struct dt_model_config *config,
                           bool (*has)(const void *files, const char *name),
                           const void *files)
{
    struct dt_vision_config *vision = config->vision;
    for (int part = 0; vision && part < DT_NAMES; part++) {
        const char *const *known = vision->family->names[part];
        for (size_t k = DT_SPELLINGS; k-- > 0;) {
            char name[DT_NAME_BYTES];
            snprintf(name, sizeof(name), "%s%s", known[k] ? known[k] : "",
                     first_of(config, part));
            if (known[k] && has(files, name))
                vision->names[part] = known[k];
        }
    }
}

static const char *last_of(const char *const names[DT_SPELLINGS])
{
    size_t k = DT_SPELLINGS - 1;
    while (!names[k])
        k--;
    return names[k];
}

void dt_model_memory_name(const struct dt_model_config *config,
                          const char *name, char memory[DT_NAME_BYTES])
{
    /* the projector's may begin as the tower's, and the head's as all */
    static const enum dt_name_part order[] = {
        DT_NAMES_PROJECTOR, DT_NAMES_VISION, DT_NAMES_TRUNK, DT_NAMES_HEAD};
    const struct dt_vision_config *vision = config->vision;
    for (size_t i = 0; vision && i < DT_NAMES; i++) {
        const char *own = vision->names[order[i]];
        const size_t bytes = strlen(own);
        if (strncmp(name, own, bytes) == 0) {
            snprintf(memory, DT_NAME_BYTES, "%s%s",
                     last_of(vision->family->names[order[i]]), name + bytes);
            return;
        }
    }
    snprintf(memory, DT_NAME_BYTES, "%s", name);
}
