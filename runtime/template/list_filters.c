/* SPDX-License-Identifier: Apache-2.0 */
/* list_filters.c - filters of lists */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "template/template_impl.h"

/* An application of a filter, with the items of the value. */
struct use {
    struct dt_tpl_run *r;
    struct dt_tpl_text name;
    struct dt_tpl_value value;
    struct dt_tpl_list *items; /* NULL for those that take the value itself */
    const struct dt_tpl_args *args;
    struct dt_tpl_value *out;
};

static bool is_filter(const struct use *use, const char *name)
{
    return dt_tpl_text_is(use->name, name);
}

/* The item "a.b.0" of a value: attributes, keys and indices. An undefined
 * `path` is the value itself.
 */
static bool value_at(struct dt_tpl_run *r, struct dt_tpl_value value,
                     const struct dt_tpl_value *path, struct dt_tpl_value *out)
{
    *out = value;
    if (path->kind == V_UNDEFINED || path->kind == V_NONE)
        return true;
    if (path->kind != V_STRING)
        return dt_tpl_item(r, &value, path, out);
    struct dt_tpl_text rest = path->text;
    for (bool more = true; more;) {
        size_t n = dt_tpl_find(rest, TEXT("."), 0);
        more = n != SIZE_MAX;
        struct dt_tpl_text part = {rest.s, more ? n : rest.n};
        struct dt_tpl_value key = dt_tpl_string(part), from = *out;
        if (part.n > 0 && part.n < 10 && strspn(part.s, "0123456789") >= part.n)
            key = dt_tpl_int(strtoll(part.s, NULL, 10));
        if (!dt_tpl_item(r, &from, &key, out))
            return false;
        if (more)
            rest = (struct dt_tpl_text){rest.s + n + 1, rest.n - n - 1};
    }
    return true;
}

/* A generator with as many items as `use` has; NULL: failed. */
static struct dt_tpl_list *new_generator(const struct use *use)
{
    return dt_tpl_list(use->r, V_GENERATOR, 0, use->out);
}

/* --- single items --- */

static bool filter_first(const struct use *use)
{
    size_t count = use->items->count;
    *use->out = dt_tpl_undefined(TEXT("the first item of nothing"));
    if (is_filter(use, "last") && use->value.kind == V_GENERATOR)
        return dt_tpl_fail(use->r, "a generator has no last item");
    if (count > 0)
        *use->out = use->items->items[is_filter(use, "last") ? count - 1 : 0];
    if (use->value.kind == V_GENERATOR && count > 0)
        use->value.list->at = use->value.list->count - count + 1;
    return dt_tpl_check_args(use->r, use->args, "first or last", "");
}

/* The key to compare: an attribute, in lower case. */
static bool sort_key(const struct use *use, const struct dt_tpl_value *path,
                     bool sensitive, struct dt_tpl_value item,
                     struct dt_tpl_value *out)
{
    return value_at(use->r, item, path, out) &&
           (sensitive || out->kind != V_STRING ||
            dt_tpl_change_case(use->r, out->text, CASE_LOWER, &out->text));
}

static bool filter_min_max(const struct use *use)
{
    struct dt_tpl_value path =
        dt_tpl_arg(use->args, 1, "attribute", dt_tpl_undefined(TEXT("")));
    bool sensitive = dt_tpl_true_arg(use->args, 0, "case_sensitive");
    struct dt_tpl_value best = {0}, key;
    int order;
    *use->out = dt_tpl_undefined(TEXT("the least or greatest of nothing"));
    for (size_t i = 0; i < use->items->count; i++) {
        if (!sort_key(use, &path, sensitive, use->items->items[i], &key) ||
            (i > 0 && !dt_tpl_order(use->r, &key, &best, &order)))
            return false;
        if (i > 0 && (is_filter(use, "min") ? order >= 0 : order <= 0))
            continue;
        best = key;
        *use->out = use->items->items[i];
    }
    return true;
}

static bool filter_sum(const struct use *use)
{
    struct dt_tpl_value path =
        dt_tpl_arg(use->args, 0, "attribute", dt_tpl_undefined(TEXT("")));
    struct dt_tpl_value total =
                            dt_tpl_arg(use->args, 1, "start", dt_tpl_int(0)),
                        item;
    if (total.kind == V_STRING)
        return dt_tpl_fail(use->r, "sum of strings: join adds them up");
    for (size_t i = 0; i < use->items->count; i++) {
        struct dt_tpl_value before = total;
        if (!value_at(use->r, use->items->items[i], &path, &item) ||
            !dt_tpl_binary(use->r, OP_ADD, &before, &item, &total))
            return false;
    }
    *use->out = total;
    return true;
}

static bool filter_join(const struct use *use)
{
    struct dt_tpl_builder b = {.run = use->r};
    struct dt_tpl_value path =
        dt_tpl_arg(use->args, 1, "attribute", dt_tpl_undefined(TEXT("")));
    struct dt_tpl_value between =
        dt_tpl_arg(use->args, 0, "d", dt_tpl_string(TEXT("")));
    struct dt_tpl_value item;
    struct dt_tpl_text text, mark;
    if (!dt_tpl_check_args(use->r, use->args, "join", "d, attribute") ||
        !dt_tpl_show(use->r, &between, &mark))
        return false;
    for (size_t i = 0; i < use->items->count; i++) {
        if (!value_at(use->r, use->items->items[i], &path, &item) ||
            !dt_tpl_show(use->r, &item, &text))
            return false;
        if (i > 0)
            dt_tpl_add_text(&b, mark);
        dt_tpl_add_text(&b, text);
    }
    *use->out = dt_tpl_string((struct dt_tpl_text){NULL, 0});
    return dt_tpl_built(&b, &use->out->text);
}

/* --- lists of the same items --- */

static bool filter_list(const struct use *use)
{
    struct dt_tpl_list *list =
        dt_tpl_list(use->r, V_LIST, use->items->count, use->out);
    for (size_t i = 0; list && i < use->items->count; i++)
        if (!dt_tpl_list_add(use->r, list, use->items->items[i]))
            return false;
    return list && dt_tpl_check_args(use->r, use->args, "list", "");
}

static bool filter_reverse(const struct use *use)
{
    struct dt_tpl_builder b = {.run = use->r};
    bool text = use->value.kind == V_STRING;
    struct dt_tpl_list *list = text ? NULL : new_generator(use);
    for (size_t i = use->items->count; i-- > 0;) {
        if (text)
            dt_tpl_add_text(&b, use->items->items[i].text);
        else if (!list || !dt_tpl_list_add(use->r, list, use->items->items[i]))
            return false;
    }
    if (!text)
        return list;
    *use->out = dt_tpl_string((struct dt_tpl_text){NULL, 0});
    return dt_tpl_built(&b, &use->out->text);
}

/* A stable sort of items by their keys, by merging. */
static bool merge_sort(struct dt_tpl_run *r, struct dt_tpl_pair *pairs,
                       struct dt_tpl_pair *spare, size_t count, int sign)
{
    size_t half = count / 2, left = 0, right = half, to = 0;
    int order = 0;
    if (count < 2)
        return true;
    if (!merge_sort(r, pairs, spare, half, sign) ||
        !merge_sort(r, pairs + half, spare, count - half, sign))
        return false;
    while (left < half || right < count) {
        if (left < half && right < count &&
            !dt_tpl_order(r, &pairs[left].key, &pairs[right].key, &order))
            return false;
        bool first = right == count || (left < half && sign * order <= 0);
        spare[to++] = pairs[first ? left++ : right++];
    }
    memcpy(pairs, spare, count * sizeof(*pairs));
    return true;
}

/* Gives a list of the items, sorted by their keys. */
static bool give_sorted(const struct use *use, const struct dt_tpl_value *path,
                        bool sensitive, bool reverse)
{
    const size_t count = use->items->count;
    struct dt_tpl_list *list = dt_tpl_list(use->r, V_LIST, count, use->out);
    struct dt_tpl_pair *pairs =
        dt_tpl_alloc(use->r, (2 * count + 1) * sizeof(*pairs));
    for (size_t i = 0; pairs && i < count; i++) {
        pairs[i].value = use->items->items[i];
        if (!sort_key(use, path, sensitive, pairs[i].value, &pairs[i].key))
            return false;
    }
    if (!list || !pairs ||
        !merge_sort(use->r, pairs, pairs + count, count, reverse ? -1 : 1))
        return false;
    for (size_t i = 0; i < count; i++)
        if (!dt_tpl_list_add(use->r, list, pairs[i].value))
            return false;
    return true;
}

static bool filter_sort(const struct use *use)
{
    struct dt_tpl_value path =
        dt_tpl_arg(use->args, 2, "attribute", dt_tpl_undefined(TEXT("")));
    if (!dt_tpl_check_args(use->r, use->args, "sort",
                           "reverse, case_sensitive, attribute"))
        return false;
    if (path.kind == V_STRING &&
        dt_tpl_find(path.text, TEXT(","), 0) != SIZE_MAX)
        return dt_tpl_fail(use->r, "sort by several attributes is not "
                                   "supported");
    return give_sorted(use, &path,
                       dt_tpl_true_arg(use->args, 1, "case_sensitive"),
                       dt_tpl_true_arg(use->args, 0, "reverse"));
}

/* Adds the pairs of an object. */
static bool add_pairs(struct dt_tpl_run *r, const struct dt_tpl_dict *dict,
                      struct dt_tpl_list *list)
{
    struct dt_tpl_value item;
    for (size_t i = 0; i < dict->count; i++) {
        struct dt_tpl_list *pair = dt_tpl_list(r, V_TUPLE, 2, &item);
        if (!pair || !dt_tpl_list_add(r, pair, dict->pairs[i].key) ||
            !dt_tpl_list_add(r, pair, dict->pairs[i].value) ||
            !dt_tpl_list_add(r, list, item))
            return false;
    }
    return true;
}

static bool filter_items(const struct use *use)
{
    struct dt_tpl_list *list = new_generator(use);
    if (use->value.kind == V_UNDEFINED)
        return list;
    if (use->value.kind != V_DICT)
        return dt_tpl_fail(use->r, "items of %s",
                           dt_tpl_kind_name(&use->value));
    return list && add_pairs(use->r, use->value.dict, list);
}

static bool filter_dictsort(const struct use *use)
{
    struct dt_tpl_text by;
    struct dt_tpl_value pairs_value, path = dt_tpl_int(0);
    struct use pairs = *use;
    if (use->value.kind != V_DICT)
        return dt_tpl_fail(use->r, "dictsort of %s",
                           dt_tpl_kind_name(&use->value));
    if (!dt_tpl_check_args(use->r, use->args, "dictsort",
                           "case_sensitive, by, reverse") ||
        !dt_tpl_text_arg(use->r, use->args, 1, "by", "key", &by) ||
        !(pairs.items = dt_tpl_list(use->r, V_LIST, 0, &pairs_value)) ||
        !add_pairs(use->r, use->value.dict, pairs.items))
        return false;
    path.i = dt_tpl_text_is(by, "value");
    return give_sorted(&pairs, &path,
                       dt_tpl_true_arg(use->args, 0, "case_sensitive"),
                       dt_tpl_true_arg(use->args, 2, "reverse"));
}

static bool filter_unique(const struct use *use)
{
    struct dt_tpl_value path =
        dt_tpl_arg(use->args, 1, "attribute", dt_tpl_undefined(TEXT("")));
    bool sensitive = dt_tpl_true_arg(use->args, 0, "case_sensitive"), same;
    struct dt_tpl_value seen_value, key;
    struct dt_tpl_list *seen = dt_tpl_list(use->r, V_LIST, 0, &seen_value);
    struct dt_tpl_list *list = new_generator(use);
    for (size_t i = 0; list && seen && i < use->items->count; i++) {
        same = false;
        if (!sort_key(use, &path, sensitive, use->items->items[i], &key))
            return false;
        for (size_t k = 0; k < seen->count && !same; k++)
            if (!dt_tpl_equal(use->r, &seen->items[k], &key, &same))
                return false;
        if (!same && (!dt_tpl_list_add(use->r, seen, key) ||
                      !dt_tpl_list_add(use->r, list, use->items->items[i])))
            return false;
    }
    return list && seen;
}

/* --- map, select --- */

/* The arguments from `skip` on. */
static struct dt_tpl_args rest_of(const struct dt_tpl_args *args, size_t skip)
{
    struct dt_tpl_args rest = *args;
    if (rest.count >= skip) {
        rest.items += skip;
        rest.count -= skip;
    } else {
        rest.count = 0;
    }
    return rest;
}

/* map(attribute='a', default=x) */
static bool map_attribute(const struct use *use, struct dt_tpl_list *list)
{
    struct dt_tpl_value path =
        dt_tpl_arg(use->args, SIZE_MAX, "attribute", dt_tpl_none());
    struct dt_tpl_value missing =
        dt_tpl_arg(use->args, SIZE_MAX, "default", dt_tpl_undefined(TEXT("")));
    struct dt_tpl_value item;
    for (size_t i = 0; i < use->items->count; i++) {
        if (!value_at(use->r, use->items->items[i], &path, &item))
            return false;
        if (item.kind == V_UNDEFINED && missing.kind != V_UNDEFINED)
            item = missing;
        if (!dt_tpl_list_add(use->r, list, item))
            return false;
    }
    return dt_tpl_check_args(use->r, use->args, "map", "attribute, default");
}

static bool filter_map(const struct use *use)
{
    struct dt_tpl_list *list = new_generator(use);
    struct dt_tpl_text name;
    struct dt_tpl_args rest = rest_of(use->args, 1);
    struct dt_tpl_value item;
    if (!list)
        return false;
    if (use->args->count == 0)
        return map_attribute(use, list);
    if (!dt_tpl_text_arg(use->r, use->args, 0, NULL, NULL, &name))
        return false;
    for (size_t i = 0; i < use->items->count; i++)
        if (!dt_tpl_filter(use->r, name, use->items->items[i], &rest, &item) ||
            !dt_tpl_list_add(use->r, list, item))
            return false;
    return true;
}

/* select, reject, selectattr, rejectattr */
static bool filter_select(const struct use *use)
{
    bool by_attribute = use->name.n > 6, keep = use->name.s[0] == 's';
    size_t skip = by_attribute ? 1 : 0;
    struct dt_tpl_list *list = new_generator(use);
    struct dt_tpl_value path = dt_tpl_undefined(TEXT("")), value;
    struct dt_tpl_args rest = rest_of(use->args, skip + 1);
    struct dt_tpl_text name = {NULL, 0};
    bool tests = use->args->count > skip;
    if (by_attribute && use->args->count == 0)
        return dt_tpl_fail(use->r, "this filter expects an attribute");
    if (by_attribute)
        path = use->args->items[0];
    if (!list ||
        (tests && !dt_tpl_text_arg(use->r, use->args, skip, NULL, NULL, &name)))
        return false;
    for (size_t i = 0; i < use->items->count; i++) {
        if (!value_at(use->r, use->items->items[i], &path, &value))
            return false;
        bool holds = dt_tpl_truth(&value);
        if (tests && !dt_tpl_test(use->r, name, &value, &rest, &holds))
            return false;
        if (holds == keep &&
            !dt_tpl_list_add(use->r, list, use->items->items[i]))
            return false;
    }
    return true;
}

/* Groups the items into lists of `n`. */
static bool filter_batch(const struct use *use)
{
    int64_t n;
    struct dt_tpl_list *list = new_generator(use), *part = NULL;
    struct dt_tpl_value fill = dt_tpl_arg(use->args, 1, "fill_with",
                                          dt_tpl_none()),
                        value;
    if (!list ||
        !dt_tpl_check_args(use->r, use->args, "batch",
                           "linecount, fill_with") ||
        !dt_tpl_int_arg(use->r, use->args, 0, "linecount", 0, &n))
        return false;
    if (n < 1)
        return dt_tpl_fail(use->r, "batch expects a number of at least 1");
    for (size_t i = 0; i < use->items->count; i++) {
        if (i % (size_t)n == 0 &&
            (!(part = dt_tpl_list(use->r, V_LIST, 0, &value)) ||
             !dt_tpl_list_add(use->r, list, value)))
            return false;
        if (!dt_tpl_list_add(use->r, part, use->items->items[i]))
            return false;
    }
    while (part && fill.kind != V_NONE && part->count < (size_t)n)
        if (!dt_tpl_list_add(use->r, part, fill))
            return false;
    return true;
}

/* --- all of them --- */

static const struct {
    const char *name;
    bool (*apply)(const struct use *use);
    bool whole; /* takes the value, not its items */
} filters[] = {
    {"join", filter_join, false},         {"list", filter_list, false},
    {"first", filter_first, false},       {"last", filter_first, false},
    {"items", filter_items, true},        {"map", filter_map, false},
    {"select", filter_select, false},     {"reject", filter_select, false},
    {"selectattr", filter_select, false}, {"rejectattr", filter_select, false},
    {"sort", filter_sort, false},         {"dictsort", filter_dictsort, true},
    {"reverse", filter_reverse, false},   {"unique", filter_unique, false},
    {"min", filter_min_max, false},       {"max", filter_min_max, false},
    {"sum", filter_sum, false},           {"batch", filter_batch, false},
};

bool dt_tpl_is_list_filter(struct dt_tpl_text name)
{
    for (size_t i = 0; i < sizeof(filters) / sizeof(filters[0]); i++)
        if (dt_tpl_text_is(name, filters[i].name))
            return true;
    return false;
}

bool dt_tpl_filter_list(struct dt_tpl_run *r, struct dt_tpl_text name,
                        struct dt_tpl_value value,
                        const struct dt_tpl_args *args,
                        struct dt_tpl_value *out)
{
    struct use use = {r, name, value, NULL, args, out};
    for (size_t i = 0; i < sizeof(filters) / sizeof(filters[0]); i++)
        if (dt_tpl_text_is(name, filters[i].name))
            return (filters[i].whole ||
                    dt_tpl_iterate(r, &value, &use.items)) &&
                   filters[i].apply(&use);
    return false;
}
