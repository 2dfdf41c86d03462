/* SPDX-License-Identifier: Apache-2.0 */
/* item.c - reads paths, and keeps the items of lists */
#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/foreign.h"
#include "conf/conf_impl.h"

char *dt_conf_parse_path(struct dt_conf_reader *reader,
                         const struct dt_conf_key *key,
                         const struct dt_tree *node)
{
    struct dt_error err;
    if (node->kind != DT_TREE_SCALAR || node->unknown) {
        dt_conf_expected(reader, key, node);
        return NULL;
    }
    char *path = dt_conf_check_braces(
                     node->written ? node->written : node->text, &err) == 0
                     ? dt_conf_path(reader->draft.directory, node->text, &err)
                     : NULL;
    if (!path && err.status == EX_OSERR)
        reader->draft.problems.out_of_memory = true;
    else if (!path)
        dt_conf_note(&reader->draft.problems, node->place, key->path, "%s",
                     err.text);
    return path;
}

/* Whether text looks like the name of a model on a hub, as organization/model.
 */
static bool is_hub_name(const char *text)
{
    const char *slash = strchr(text, '/');
    return slash && slash > text && slash[1] && !strchr(slash + 1, '/') &&
           !strchr("./~", text[0]);
}

int dt_conf_check_exists(struct dt_conf_reader *reader,
                         const struct dt_conf_key *key,
                         const struct dt_tree *node, const char *path,
                         mode_t type)
{
    struct stat st;
    struct dt_error foreign;
    if (dt_conf_is_later(path))
        return 0;
    const char *why =
        type == S_IFDIR ? "not a directory" : "not a regular file";
    if (stat(path, &st) < 0 || access(path, R_OK) < 0)
        why = strerror(errno);
    else if ((st.st_mode & S_IFMT) == type)
        return 0;
    else if (type == S_IFDIR && S_ISREG(st.st_mode) &&
             dt_foreign_file(path, &foreign) < 0)
        why = foreign.text + strlen(path) + strlen(": ");
    bool hub = type == S_IFDIR && is_hub_name(node->text);
    dt_conf_note(&reader->draft.problems, node->place, key->path, "%s%s: %s%s",
                 hub ? "E129 " : "", path, why,
                 hub ? " (names on a hub are not looked up)" : "");
    return -1;
}

void dt_conf_list_clear(struct dt_conf_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->text[i]);
    free(list->text);
    free(list->weight);
    *list = (struct dt_conf_list){0};
}

int dt_conf_list_add(struct dt_conf_reader *reader, struct dt_conf_list *list,
                     const char *text, double weight)
{
    const size_t n = list->count + 1;
    char **texts = reallocarray(list->text, n, sizeof(*texts));
    list->text = texts ? texts : list->text;
    double *weights = reallocarray(list->weight, n, sizeof(*weights));
    list->weight = weights ? weights : list->weight;
    char *copy = strdup(text);
    if (!texts || !weights || !copy) {
        free(copy);
        reader->draft.problems.out_of_memory = true;
        return -1;
    }
    texts[list->count] = copy;
    weights[list->count++] = weight;
    return 0;
}
