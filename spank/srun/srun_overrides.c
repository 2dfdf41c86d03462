/* SPDX-License-Identifier: Apache-2.0 */
/*
 * srun_overrides.c - keeps the values of --disttrain-set, also as one variable
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "spank/srun/srun_impl.h"

int dtspank_overrides_check(const char *text, struct dt_error *err)
{
    if (text[0] != '-' && text[0] != '=' && strchr(text, '='))
        return 0;
    return dt_error_set(err, EX_USAGE,
                        "--disttrain-set: expected KEY=VALUE, such as "
                        "optimizer.lr=1e-5, got \"%.60s\"",
                        text);
}

int dtspank_overrides_add(struct dtspank_overrides *overrides, const char *text)
{
    for (size_t i = 0; i < overrides->count; i++) {
        char *same = overrides->text[i];
        if (strcmp(same, text) != 0)
            continue;
        overrides->count--;
        memmove(overrides->text + i, overrides->text + i + 1,
                sizeof(*overrides->text) * (overrides->count - i));
        overrides->text[overrides->count++] = same;
        return 0;
    }
    char **more = reallocarray(overrides->text, overrides->count + 1,
                               sizeof(*overrides->text));
    char *copy = strdup(text);
    overrides->text = more ? more : overrides->text;
    if (!more || !copy) {
        free(copy);
        return -1;
    }
    overrides->text[overrides->count++] = copy;
    return 0;
}

int dtspank_overrides_decode(struct dtspank_overrides *overrides,
                             const char *list)
{
    char *copy = strdup(list), *rest = copy;
    int rc = copy ? 0 : -1;
    for (char *word; rc == 0 && (word = strsep(&rest, " ")) != NULL;) {
        dt_escape_undo(word);
        if (word[0])
            rc = dtspank_overrides_add(overrides, word);
    }
    free(copy);
    return rc;
}

char *dtspank_overrides_encode(const struct dtspank_overrides *overrides)
{
    char *list = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&list, &size);
    if (!out)
        return NULL;
    for (size_t i = 0; i < overrides->count; i++) {
        fputs(i > 0 ? " " : "", out);
        for (const char *p = overrides->text[i]; *p; p++) {
            if (*p == ' ' || *p == '\n' || *p == '\\')
                putc('\\', out);
            putc(*p == ' ' ? 's' : *p == '\n' ? 'n' : *p, out);
        }
    }
    if (fclose(out) == 0)
        return list;
    free(list);
    return NULL;
}

bool dtspank_overrides_equal(const struct dtspank_overrides *left,
                             const struct dtspank_overrides *right)
{
    bool equal = left->count == right->count;
    for (size_t i = 0; equal && i < left->count; i++)
        equal = strcmp(left->text[i], right->text[i]) == 0;
    return equal;
}

void dtspank_overrides_fini(struct dtspank_overrides *overrides)
{
    for (size_t i = 0; i < overrides->count; i++)
        free(overrides->text[i]);
    free(overrides->text);
    *overrides = (struct dtspank_overrides){0};
}
