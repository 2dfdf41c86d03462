/* SPDX-License-Identifier: Apache-2.0 */
/* dump.c - prints a configuration as YAML, what its file gives, and the schema
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "conf/conf_impl.h"

static void print_source(const struct dt_conf *conf, struct dt_conf_place place,
                         FILE *out)
{
    if (place.line > 0 && place.source == DT_CONF_OF_OVERRIDE) {
        fputs("  # --set\n", out);
    } else if (place.line > 0 && place.source == DT_CONF_OF_DEEPSPEED) {
        fprintf(out, "  # line %d of ", place.line);
        dt_conf_string_print(conf->distributed.deepspeed_config, out);
        putc('\n', out);
    } else if (place.line > 0) {
        fprintf(out, "  # line %d\n", place.line);
    } else {
        fprintf(out, "  # %s\n", place.line < 0 ? "worked out" : "default");
    }
}

void dt_conf_dump(const struct dt_conf *conf, FILE *out)
{
    char section[64] = "";
    fputs("# ", out);
    dt_conf_string_print(conf->file, out);
    putc('\n', out);
    for (size_t i = 0; i < dt_conf_key_count; i++) {
        const char *path = dt_conf_keys[i].path;
        const char *name = strchr(path, '.');
        if (!dt_conf_has_value(conf, i))
            continue;
        size_t n = name ? (size_t)(name - path) : 0;
        if (n != strlen(section) || strncmp(section, path, n) != 0) {
            snprintf(section, sizeof(section), "%.*s", (int)n, path);
            fprintf(out, "%s:\n", section);
        }
        fprintf(out, "%s%s: ", n ? "  " : "", n ? name + 1 : path);
        dt_conf_value_print(conf, &dt_conf_keys[i], out);
        print_source(conf, conf->place[i], out);
    }
    if (conf->env_count > 0)
        fputs("env:\n", out);
    for (size_t i = 0; i < conf->env_count; i++) {
        fprintf(out, "  %s: ", conf->env[i].name);
        dt_conf_string_print(conf->env[i].value, out);
        putc('\n', out);
    }
}

int dt_conf_each(const struct dt_conf *conf, dt_conf_each_f f, void *ctx)
{
    char name[256];
    for (size_t i = 0; i < dt_conf_key_count; i++) {
        if (!dt_conf_has_value(conf, i))
            continue;
        char *text = dt_conf_text_of(conf, &dt_conf_keys[i]);
        if (!text)
            return -1;
        f(ctx, dt_conf_keys[i].path, text, conf->place[i].line > 0);
        free(text);
    }
    for (size_t i = 0; i < conf->env_count; i++) {
        snprintf(name, sizeof(name), "env.%s", conf->env[i].name);
        f(ctx, name, conf->env[i].value, true);
    }
    return 0;
}

/* --- the keys that a file gives --- */

static bool is_path(const struct dt_conf_key *key, const void *values)
{
    switch (key->type) {
    case DT_CONF_DIR:
    case DT_CONF_OLD_DIR:
        return true;
    case DT_CONF_OLD_OR_WORD:
    case DT_CONF_FILE_OR_WORD:
        return *(const int *)((const char *)values + key->offset) == key->other;
    default:
        return false;
    }
}

/* How many files there are, and what those weigh that have weights. */
static void print_file_weights(const struct dt_conf_list *list, FILE *out)
{
    fprintf(out, "%zu files", list->count);
    for (size_t i = 0; i < list->count; i++)
        if (list->weight[i] > 0)
            fprintf(out, ", weight %.17g", list->weight[i]);
}

/* Each key of each function has a line, so that a difference names it. */
static void print_given_rewards(const struct dt_conf_rewards *rewards,
                                FILE *out)
{
    fprintf(out, "%zu functions\n", rewards->count);
    for (size_t i = 0; i < rewards->count; i++) {
        const struct dt_conf_reward *reward = &rewards->functions[i];
        for (size_t k = 0; k < dt_conf_reward_key_count; k++) {
            const struct dt_conf_key *key = &dt_conf_reward_keys[k];
            fprintf(out, "reward.functions[%zu].%s: ", i,
                    strrchr(key->path, '.') + 1);
            if (!dt_conf_value_known(reward, key))
                fputs("(not given)", out);
            else if (is_path(key, reward))
                fputs("(a path)", out);
            else
                dt_conf_value_print(reward, key, out);
            putc('\n', out);
        }
    }
}

void dt_conf_print_given(const struct dt_conf *conf, FILE *out)
{
    for (size_t i = 0; i < dt_conf_key_count; i++) {
        const struct dt_conf_key *key = &dt_conf_keys[i];
        fprintf(out, "%s: ", key->path);
        if (key->type == DT_CONF_REWARDS) {
            print_given_rewards(&conf->reward, out);
            continue;
        }
        if (conf->place[i].line <= 0)
            fputs("(not given)", out);
        else if (is_path(key, conf))
            fputs("(a path)", out);
        else if (key->type == DT_CONF_FILES)
            print_file_weights((const void *)((const char *)conf + key->offset),
                               out);
        else
            dt_conf_value_print(conf, key, out);
        putc('\n', out);
    }
    fprintf(out, "env: %zu variables\n", conf->env_count);
    for (size_t i = 0; i < conf->env_count; i++) {
        fprintf(out, "env.%s: ", conf->env[i].name);
        dt_conf_string_print(conf->env[i].value, out);
        putc('\n', out);
    }
}

/* --- the schema --- */

static void print_names(const char *const *names, FILE *out)
{
    if (!names || !*names)
        putc('-', out);
    for (; names && *names; names++)
        fprintf(out, "%s%s", *names, names[1] ? " " : "");
}

static void print_key(const struct dt_conf_key *key, const char *help,
                      FILE *out)
{
    char expects[512];
    dt_conf_key_expects(key, expects, sizeof(expects));
    fprintf(out, "%s\t%s\t%s\t", key->path, expects,
            key->fallback ? key->fallback : "-");
    print_names(key->aliases, out);
    fprintf(out, "\t%s\n", help);
}

static void print_reward_keys(FILE *out)
{
    for (size_t i = 0; i < dt_conf_reward_key_count; i++) {
        char help[1024];
        dt_conf_reward_help(&dt_conf_reward_keys[i], help, sizeof(help));
        print_key(&dt_conf_reward_keys[i], help, out);
    }
}

void dt_conf_schema(FILE *out)
{
    for (size_t i = 0; i < dt_conf_key_count; i++) {
        print_key(&dt_conf_keys[i], dt_conf_keys[i].help, out);
        if (dt_conf_keys[i].type == DT_CONF_REWARDS)
            print_reward_keys(out);
    }
    for (const struct dt_conf_later *l = dt_conf_laters; l->section; l++)
        for (const char *const *k = l->keys; *k; k++)
            fprintf(out, "%s%s%s\tlater\t-\t-\t%s\n", l->section,
                    *l->section ? "." : "", *k, l->waits);
}
