/* SPDX-License-Identifier: Apache-2.0 */
/* section.c - reads sections whose keys are the user's */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "conf/conf_impl.h"

int dt_conf_weights_set(struct dt_conf_reader *reader,
                        const struct dt_conf_key *key,
                        const struct dt_tree *node)
{
    struct dt_conf_list list = {0}, *slot;
    size_t count = 0;
    for (const struct dt_tree *c = node->child; c; c = c->next)
        count++;
    if (node->kind != DT_TREE_MAP || count == 0)
        return dt_conf_expected(reader, key, node);
    list.text = calloc(count, sizeof(list.text[0]));
    list.weight = calloc(count, sizeof(list.weight[0]));
    bool good = list.text && list.weight;
    reader->draft.problems.out_of_memory |= !good;
    for (const struct dt_tree *c = node->child; c && good; c = c->next) {
        if (c->kind != DT_TREE_SCALAR || c->quoted ||
            !dt_conf_parse_number(c->text, &list.weight[list.count])) {
            dt_conf_note(&reader->draft.problems, c->place, key->path,
                         "%.*s: expected a number", DT_CONF_SHOWN_BYTES,
                         c->key);
            good = false;
        } else if ((list.text[list.count] = strdup(c->key))) {
            list.count++;
        } else {
            good = false;
            reader->draft.problems.out_of_memory = true;
        }
    }
    slot = (struct dt_conf_list *)((char *)reader->values + key->offset);
    dt_conf_list_clear(good ? slot : &list);
    if (good)
        *slot = list;
    return good ? 0 : -1;
}

/* Prints a scalar as JSON: with the type that YAML 1.2 gives it. */
static void print_scalar(const struct dt_tree *node, FILE *out)
{
    double number;
    long whole;
    bool plain = !node->quoted;
    if (plain && (dt_conf_is_null(node) || dt_conf_is_empty(node)))
        fputs("null", out);
    else if (plain && (strcmp(node->text, "true") == 0 ||
                       strcmp(node->text, "false") == 0))
        fputs(node->text, out);
    else if (plain && !strpbrk(node->text, ".eE") &&
             dt_conf_parse_int(node->text, &whole))
        fprintf(out, "%ld", whole);
    else if (plain && dt_conf_parse_number(node->text, &number))
        fprintf(out, "%.17g", number);
    else
        dt_conf_string_print(node->text, out);
}

/* Prints a tree, whose depth is limited, as JSON. */
static void print_tree(const struct dt_tree *node, FILE *out)
{
    bool map = node->kind == DT_TREE_MAP;
    if (node->kind == DT_TREE_SCALAR) {
        print_scalar(node, out);
        return;
    }
    putc(map ? '{' : '[', out);
    for (const struct dt_tree *c = node->child; c; c = c->next) {
        fputs(c == node->child ? "" : ", ", out);
        if (map) {
            dt_conf_string_print(c->key, out);
            fputs(": ", out);
        }
        print_tree(c, out);
    }
    putc(map ? '}' : ']', out);
}

int dt_conf_free_set(struct dt_conf_reader *reader,
                     const struct dt_conf_key *key, const struct dt_tree *node)
{
    char **slot = (char **)((char *)reader->values + key->offset), *text = NULL;
    size_t bytes = 0;
    if (node->kind != DT_TREE_MAP)
        return dt_conf_expected(reader, key, node);
    FILE *stream = open_memstream(&text, &bytes);
    bool good = stream != NULL;
    if (stream) {
        print_tree(node, stream);
        good = !ferror(stream);
        good = fclose(stream) == 0 && text && good;
    }
    if (!good) {
        free(text);
        reader->draft.problems.out_of_memory = true;
        return -1;
    }
    free(*slot);
    *slot = text;
    return 0;
}
