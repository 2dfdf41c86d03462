/* SPDX-License-Identifier: Apache-2.0 */
/* key_names.c - finds the row of the schema for a path in a file */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "conf/conf_impl.h"

enum { CANDIDATES_MAX = 512, SECTIONS_MAX = 32, NAME_BYTES = 64 };

static const char *const no_names[] = {NULL};

/* The length of `path` up to its last dot; 0 at top level. */
static size_t section_length(const char *path)
{
    const char *dot = strrchr(path, '.');
    return dot ? (size_t)(dot - path) : 0;
}

static const char *last_name(const char *path)
{
    size_t n = section_length(path);
    return n ? path + n + 1 : path;
}

static bool is_in_section(const char *path, const char *section, size_t n)
{
    return section_length(path) == n && strncmp(path, section, n) == 0;
}

/* Whether `path` is `alias` in a place where aliases of this section's keys are
 * allowed.
 */
static bool is_alias(const char *path, const char *alias, const char *section,
                     size_t section_bytes)
{
    if (strncmp(path, "training.", 9) == 0 && strcmp(path + 9, alias) == 0)
        return true;
    if (strcmp(path, alias) == 0)
        return true;
    return section_bytes > 0 && !strchr(alias, '.') &&
           is_in_section(path, section, section_bytes) &&
           strcmp(last_name(path), alias) == 0;
}

static const char *const *aliases_of(const struct dt_conf_key *key)
{
    return key->aliases ? key->aliases : no_names;
}

int dt_conf_key_match(const char *path, int from)
{
    int exact = dt_conf_key_find(path), row = -1;
    if (exact >= 0)
        return exact >= from ? exact : -1;
    for (size_t i = (size_t)from; row < 0 && i < dt_conf_key_count; i++) {
        const struct dt_conf_key *key = &dt_conf_keys[i];
        for (const char *const *a = aliases_of(key); *a; a++)
            if (is_alias(path, *a, key->path, section_length(key->path)))
                row = (int)i;
    }
    return row;
}

const struct dt_conf_switch *dt_conf_switch_match(const char *path)
{
    for (const struct dt_conf_switch *s = dt_conf_switches; s->alias; s++)
        if (is_alias(path, s->alias, s->path, section_length(s->path)))
            return s;
    return NULL;
}

const char *dt_conf_later_match(const char *path)
{
    for (const struct dt_conf_later *l = dt_conf_laters; l->section; l++) {
        size_t n = strlen(l->section);
        for (const char *const *k = l->keys; *k; k++)
            if (is_in_section(path, l->section, n) &&
                strcmp(last_name(path), *k) == 0)
                return l->waits;
        for (const char *const *a = l->aliases; *a; a++)
            if (is_alias(path, *a, l->section, n))
                return l->waits;
    }
    return NULL;
}

/* The rest of `path` below the first n bytes of `section`; NULL: it is not. */
static const char *below_prefix(const char *path, const char *section, size_t n)
{
    if (strncmp(path, section, n) != 0 || (n > 0 && path[n] != '.'))
        return NULL;
    return path + n + (n > 0);
}

bool dt_conf_path_below(const char *path, const char *section)
{
    return below_prefix(path, section, strlen(section)) ||
           (strncmp(section, "training.", 9) == 0 &&
            dt_conf_path_below(path, section + 9));
}

bool dt_conf_section_match(const char *path)
{
    if (strcmp(path, "env") == 0)
        return true;
    for (size_t i = 0; i < dt_conf_key_count; i++) {
        if (below_prefix(dt_conf_keys[i].path, path, strlen(path)))
            return true;
        for (const char *const *a = aliases_of(&dt_conf_keys[i]); *a; a++)
            if (dt_conf_path_below(*a, path))
                return true;
    }
    for (const struct dt_conf_later *l = dt_conf_laters; l->section; l++)
        for (const char *const *a = l->aliases; *a; a++)
            if (dt_conf_path_below(*a, path))
                return true;
    for (const struct dt_conf_foreign *f = dt_conf_foreigns; f->names; f++)
        if (dt_conf_path_below(f->names, path))
            return true;
    return dt_deepspeed_section(path) != NULL;
}

struct candidates {
    const char *name[CANDIDATES_MAX];
    char section[SECTIONS_MAX][NAME_BYTES];
    size_t count, sections;
};

static void add_candidate(struct candidates *c, const char *name)
{
    if (c->count < CANDIDATES_MAX)
        c->name[c->count++] = name;
}

/* Adds the section, below the first n bytes of `path`, of a key there. */
static void add_section(struct candidates *c, const char *key, const char *path,
                        size_t n)
{
    const char *rest = below_prefix(key, path, n);
    int length = rest ? (int)strcspn(rest, ".") : 0;
    if (!rest || !rest[length] || c->sections == SECTIONS_MAX)
        return;
    char *name = c->section[c->sections];
    snprintf(name, NAME_BYTES, "%.*s", length, rest);
    if (c->sections > 0 && strcmp(name, c->section[c->sections - 1]) == 0)
        return; /* keys of a section follow each other */
    add_candidate(c, name);
    c->sections++;
}

/* Collects all names that are allowed in the section of `path`, of length n. */
static void collect_candidates(struct candidates *c, const char *path, size_t n)
{
    bool anywhere = n == 0 || (n == 8 && strncmp(path, "training", n) == 0);
    for (size_t i = 0; i < dt_conf_key_count; i++) {
        bool inside = is_in_section(dt_conf_keys[i].path, path, n);
        if (inside)
            add_candidate(c, last_name(dt_conf_keys[i].path));
        add_section(c, dt_conf_keys[i].path, path, n);
        for (const char *const *a = aliases_of(&dt_conf_keys[i]); *a; a++)
            if (inside || anywhere)
                add_candidate(c, *a);
    }
    for (const struct dt_conf_later *l = dt_conf_laters; l->section; l++) {
        bool inside =
            strlen(l->section) == n && strncmp(l->section, path, n) == 0;
        for (const char *const *k = l->keys; *k && inside; k++)
            add_candidate(c, *k);
    }
    if (n == 0) {
        add_candidate(c, "env");
        add_candidate(c, "zero_optimization");
    }
}

const char *dt_conf_nearest(const char *path, char *buffer, size_t bytes)
{
    struct candidates c = {.count = 0};
    size_t n = section_length(path);
    collect_candidates(&c, path, n);
    const char *name = dt_str_nearest(last_name(path), c.name, c.count);
    if (name) {
        snprintf(buffer, bytes, "%.*s%s%s", (int)n, path, n ? "." : "", name);
        return buffer;
    }
    for (size_t i = 0; i < dt_conf_key_count; i++) {
        if (strcmp(last_name(dt_conf_keys[i].path), last_name(path)) == 0) {
            snprintf(buffer, bytes, "%s", dt_conf_keys[i].path);
            return buffer;
        }
    }
    return NULL;
}
