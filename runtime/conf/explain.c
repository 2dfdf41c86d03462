/* SPDX-License-Identifier: Apache-2.0 */
/* explain.c - explains a key with the sentences of disttrain.yaml(5) */
#include "config.h"

#include <ctype.h>
#include <string.h>
#include <sysexits.h>

#include "conf/conf_impl.h"

enum { WIDTH = 79, INDENT = 4, TEXT_BYTES = 1024 };

/* Prints text as an indented paragraph with a capital and a period. */
static void print_sentence(const char *text, FILE *out)
{
    size_t column = 0;
    for (const char *word = text; *word; word += strspn(word, " ")) {
        size_t n = strcspn(word, " ");
        size_t room = column + n + (word[n] ? 1 : 2);
        bool breaks = column > 0 && room > WIDTH;
        if (breaks)
            putc('\n', out);
        if (breaks || column == 0)
            column = (size_t)fprintf(out, "%*s", INDENT, "");
        else
            column += (size_t)fprintf(out, " ");
        putc(word == text ? toupper((unsigned char)*word) : *word, out);
        fprintf(out, "%.*s", (int)n - 1, word + 1);
        column += n;
        word += n;
    }
    fputs(".\n", out);
}

/* Prints "One of ddp, auto; default auto". */
static void print_values(const struct dt_conf_key *key, FILE *out)
{
    char expects[TEXT_BYTES / 2], text[TEXT_BYTES];
    dt_conf_key_expects(key, expects, sizeof(expects));
    snprintf(text, sizeof(text), "%s%s%s", expects,
             key->fallback ? "; default " : "",
             key->fallback ? key->fallback : "");
    print_sentence(text, out);
}

static void print_aliases(const struct dt_conf_key *key, FILE *out)
{
    char text[TEXT_BYTES] = "also:";
    if (!key->aliases)
        return;
    for (const char *const *a = key->aliases; *a; a++) {
        size_t used = strlen(text);
        snprintf(text + used, sizeof(text) - used, " %s%s", *a,
                 a[1] ? "," : "");
    }
    print_sentence(text, out);
}

static void explain_key(const struct dt_conf_key *key, FILE *out)
{
    fprintf(out, "%s\n", key->path);
    print_sentence(key->help, out);
    print_values(key, out);
    print_aliases(key, out);
}

static void explain_reward_key(const struct dt_conf_key *row, FILE *out)
{
    char help[TEXT_BYTES];
    struct dt_conf_key key = *row;
    dt_conf_reward_help(row, help, sizeof(help));
    key.help = help;
    explain_key(&key, out);
}

/* Whether `name` is the full path of a key of reward functions. */
static const struct dt_conf_key *find_reward_key(const char *name)
{
    return dt_conf_path_below(name, "reward.functions")
               ? dt_conf_reward_key_find(name)
               : NULL;
}

static void explain_switch(const struct dt_conf_switch *s, FILE *out)
{
    fprintf(out, "%s: %s means %s: %s\n\n", s->alias,
            s->when ? s->when : "true", s->path, s->value);
    explain_key(&dt_conf_keys[dt_conf_key_find(s->path)], out);
}

static void explain_foreign_row(const struct dt_conf_foreign *f, FILE *out)
{
    char text[TEXT_BYTES];
    const char *value = f->values ? f->values : "";
    const char *colon = f->values ? ": " : "";
    if (f->path)
        snprintf(text, sizeof(text), "%s means %s: %s", value, f->path,
                 f->meant);
    else
        snprintf(text, sizeof(text), "%s%s%s%s", value, colon,
                 f->meant ? "" : "no effect here: ",
                 f->meant ? f->meant : f->unused);
    print_sentence(text, out);
}

/* Explains all rows of a key of another trainer. */
static bool explain_foreign(const char *name, FILE *out)
{
    bool found = false;
    for (const struct dt_conf_foreign *f = dt_conf_foreigns; f->names; f++) {
        if (!dt_conf_foreign_has(f, name))
            continue;
        if (!found)
            fprintf(out, "%s\n", name);
        found = true;
        explain_foreign_row(f, out);
    }
    return found;
}

static void explain_later(const char *name, const char *waits, FILE *out)
{
    char text[TEXT_BYTES];
    snprintf(text, sizeof(text), "not supported yet: it needs %s", waits);
    fprintf(out, "%s\n", name);
    print_sentence(text, out);
}

static bool is_in_section(const struct dt_conf_key *key, const char *section)
{
    bool found = dt_conf_path_below(key->path, section);
    for (const char *const *a = key->aliases; a && *a && !found; a++)
        found = dt_conf_path_below(*a, section);
    return found;
}

static void explain_section(const char *section, FILE *out)
{
    for (size_t i = 0; i < dt_conf_key_count; i++)
        if (is_in_section(&dt_conf_keys[i], section)) {
            fprintf(out, "%s\n", dt_conf_keys[i].path);
            print_sentence(dt_conf_keys[i].help, out);
        }
    for (const struct dt_conf_later *l = dt_conf_laters; l->section; l++)
        for (const char *const *k = l->keys; *k; k++) {
            char path[TEXT_BYTES];
            snprintf(path, sizeof(path), "%s.%s", l->section, *k);
            if (dt_conf_path_below(path, section))
                explain_later(path, l->waits, out);
        }
    for (const struct dt_conf_foreign *f = dt_conf_foreigns; f->names; f++)
        if (dt_conf_path_below(f->names, section)) {
            fprintf(out, "%s\n", f->names);
            explain_foreign_row(f, out);
        }
}

static void explain_deepspeed_key(const struct dt_deepspeed_key *key, FILE *out)
{
    char text[TEXT_BYTES];
    const char *value = key->value ? key->value : "";
    switch (key->action) {
    case DT_DS_SECTION:
        return;
    case DT_DS_ON:
        snprintf(text, sizeof(text), "true means %s: %s", key->key, value);
        break;
    case DT_DS_ONLY_ON:
        snprintf(text, sizeof(text), "true means %s: %s; any other is %s",
                 key->key, value, key->text);
        break;
    case DT_DS_LIMIT:
        snprintf(text, sizeof(text), "a limit of %s, which may be lower",
                 key->key);
        break;
    case DT_DS_NO_EFFECT:
        snprintf(text, sizeof(text), "no effect: %s", key->text);
        break;
    case DT_DS_MUST_BE:
        snprintf(text, sizeof(text), "must be %.*s; any other is %s",
                 (int)strcspn(value, " "), value, key->text);
        break;
    case DT_DS_REFUSED:
        snprintf(text, sizeof(text), "%s", key->text);
        break;
    default:
        snprintf(text, sizeof(text), "means %s", key->key);
    }
    fprintf(out, "%s (DeepSpeed)\n", key->path);
    print_sentence(text, out);
}

/* Explains a key of DeepSpeed, or those of a section. */
static void explain_deepspeed(const char *name, FILE *out)
{
    const char *path = dt_deepspeed_find("", name)->path;
    for (const struct dt_deepspeed_key *k = dt_deepspeed_keys; k->path; k++)
        if (strcmp(k->path, path) == 0 || dt_conf_path_below(k->path, path))
            explain_deepspeed_key(k, out);
}

int dt_conf_explain(const char *name, FILE *out, struct dt_error *err)
{
    char buffer[TEXT_BYTES];
    int row = dt_conf_key_match(name, 0);
    const struct dt_conf_switch *s = dt_conf_switch_match(name);
    const char *waits = dt_conf_later_match(name);
    bool section = dt_conf_section_match(name) && !dt_deepspeed_section(name);
    if (row >= 0 && !section) {
        int first = row;
        for (; row >= 0; row = dt_conf_key_match(name, row + 1))
            explain_key(&dt_conf_keys[row], out);
        for (size_t i = 0; i < dt_conf_reward_key_count &&
                           dt_conf_keys[first].type == DT_CONF_REWARDS;
             i++)
            explain_reward_key(&dt_conf_reward_keys[i], out);
    } else if (find_reward_key(name)) {
        explain_reward_key(find_reward_key(name), out);
    } else if (s) {
        explain_switch(s, out);
    } else if (waits) {
        explain_later(name, waits, out);
    } else if (strcmp(name, "env") == 0) {
        fputs("env\n", out);
        print_sentence("variables and their values, as strings; they are "
                       "exported to every rank, unless the user has set them",
                       out);
    } else if (section) {
        explain_section(name, out);
    } else if (dt_deepspeed_find("", name)) {
        explain_deepspeed(name, out);
    } else if (!explain_foreign(name, out)) {
        const char *nearest = dt_conf_nearest(name, buffer, sizeof(buffer));
        return dt_error_set(err, EX_USAGE, "%s: unknown key%s%s%s", name,
                            nearest ? "; did you mean " : "",
                            nearest ? nearest : "", nearest ? "?" : "");
    }
    return 0;
}
