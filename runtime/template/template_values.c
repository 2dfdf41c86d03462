/* SPDX-License-Identifier: Apache-2.0 */
/* template_values.c - values: truth, equality, order, lists and objects */
#include "config.h"

#include <math.h>
#include <string.h>

#include "template/template_impl.h"

struct dt_tpl_value dt_tpl_none(void)
{
    return (struct dt_tpl_value){.kind = V_NONE};
}

struct dt_tpl_value dt_tpl_bool(bool b)
{
    return (struct dt_tpl_value){.kind = V_BOOL, .b = b};
}

struct dt_tpl_value dt_tpl_int(int64_t i)
{
    return (struct dt_tpl_value){.kind = V_INT, .i = i};
}

struct dt_tpl_value dt_tpl_float(double d)
{
    return (struct dt_tpl_value){.kind = V_FLOAT, .d = d};
}

struct dt_tpl_value dt_tpl_string(struct dt_tpl_text text)
{
    return (struct dt_tpl_value){.kind = V_STRING, .text = text};
}

struct dt_tpl_value dt_tpl_undefined(struct dt_tpl_text name)
{
    return (struct dt_tpl_value){.kind = V_UNDEFINED, .text = name};
}

const char *dt_tpl_kind_name(const struct dt_tpl_value *value)
{
    static const char *const names[] = {
        [V_UNDEFINED] = "an undefined value",
        [V_NONE] = "none",
        [V_BOOL] = "a boolean",
        [V_INT] = "an integer",
        [V_FLOAT] = "a float",
        [V_STRING] = "a string",
        [V_LIST] = "a list",
        [V_TUPLE] = "a tuple",
        [V_RANGE] = "a range",
        [V_VIEW] = "a view of an object",
        [V_GENERATOR] = "a generator",
        [V_DICT] = "an object",
        [V_NAMESPACE] = "a namespace",
        [V_MACRO] = "a macro",
        [V_FUNCTION] = "a function",
        [V_METHOD] = "a method",
        [V_LOOP] = "a loop",
    };
    return names[value->kind];
}

bool dt_tpl_is_number(const struct dt_tpl_value *value)
{
    return value->kind >= V_BOOL && value->kind <= V_FLOAT;
}

int64_t dt_tpl_integer(const struct dt_tpl_value *value)
{
    return value->kind == V_BOOL ? value->b : value->i;
}

double dt_tpl_number(const struct dt_tpl_value *value)
{
    return value->kind == V_FLOAT ? value->d : (double)dt_tpl_integer(value);
}

bool dt_tpl_truth(const struct dt_tpl_value *value)
{
    switch (value->kind) {
    case V_UNDEFINED:
    case V_NONE:
        return false;
    case V_BOOL:
        return value->b;
    case V_INT:
        return value->i != 0;
    case V_FLOAT:
        return value->d != 0;
    case V_STRING:
        return value->text.n > 0;
    case V_LIST:
    case V_TUPLE:
    case V_RANGE:
    case V_VIEW:
        return value->list->count > 0;
    case V_DICT:
        return value->dict->count > 0;
    default:
        return true;
    }
}

bool dt_tpl_length(const struct dt_tpl_value *value, size_t *out)
{
    switch (value->kind) {
    case V_UNDEFINED:
        *out = 0;
        return true;
    case V_STRING:
        *out = dt_tpl_characters(value->text);
        return true;
    case V_LIST:
    case V_TUPLE:
    case V_RANGE:
    case V_VIEW:
        *out = value->list->count;
        return true;
    case V_DICT:
        *out = value->dict->count;
        return true;
    case V_LOOP:
        *out = value->loop->items->count;
        return true;
    default:
        return false;
    }
}

/* --- lists --- */

struct dt_tpl_list *dt_tpl_list(struct dt_tpl_run *r, enum dt_tpl_kind kind,
                                size_t count, struct dt_tpl_value *out)
{
    struct dt_tpl_list *list = dt_tpl_alloc(r, sizeof(*list));
    *out = (struct dt_tpl_value){.kind = (uint8_t)kind, .list = list};
    if (!list || count == 0)
        return list;
    if (count > DT_TEMPLATE_BYTES / sizeof(*list->items)) {
        dt_tpl_fail(r, "more than %d MiB are needed", DT_TEMPLATE_BYTES >> 20);
        return NULL;
    }
    list->items = dt_tpl_alloc(r, count * sizeof(*list->items));
    list->room = count;
    return list->items ? list : NULL;
}

bool dt_tpl_list_add(struct dt_tpl_run *r, struct dt_tpl_list *list,
                     struct dt_tpl_value value)
{
    if (list->count == list->room) {
        size_t room = 2 * list->room + 8;
        struct dt_tpl_value *grown = dt_tpl_alloc(r, room * sizeof(*grown));
        if (!grown)
            return false;
        if (list->count > 0)
            memcpy(grown, list->items, list->count * sizeof(*grown));
        list->items = grown;
        list->room = room;
    }
    list->items[list->count++] = value;
    return dt_tpl_step(r, 0);
}

static bool characters_of(struct dt_tpl_run *r, struct dt_tpl_text text,
                          struct dt_tpl_list *list)
{
    for (size_t at = 0; at < text.n;) {
        size_t n = dt_tpl_sequence(text, at);
        if (!dt_tpl_list_add(
                r, list, dt_tpl_string((struct dt_tpl_text){text.s + at, n})))
            return false;
        at += n;
    }
    return true;
}

/* What a generator has not given yet. */
static struct dt_tpl_list *drain(struct dt_tpl_run *r, struct dt_tpl_list *list)
{
    struct dt_tpl_list *rest = dt_tpl_alloc(r, sizeof(*rest));
    if (!rest)
        return NULL;
    *rest = *list;
    if (list->at > 0)
        rest->items += list->at;
    rest->count -= list->at;
    rest->room = rest->count;
    rest->at = 0;
    list->at = list->count;
    return rest;
}

bool dt_tpl_iterate(struct dt_tpl_run *r, const struct dt_tpl_value *value,
                    struct dt_tpl_list **out)
{
    struct dt_tpl_value list;
    switch (value->kind) {
    case V_GENERATOR:
        *out = drain(r, value->list);
        return *out;
    case V_LIST:
    case V_TUPLE:
    case V_RANGE:
    case V_VIEW:
        *out = value->list;
        return true;
    case V_UNDEFINED:
        *out = dt_tpl_list(r, V_LIST, 0, &list);
        return *out;
    case V_STRING:
        *out = dt_tpl_list(r, V_LIST, 0, &list);
        return *out && characters_of(r, value->text, *out);
    case V_DICT:
        *out = dt_tpl_list(r, V_LIST, value->dict->count, &list);
        for (size_t i = 0; *out && i < value->dict->count; i++)
            if (!dt_tpl_list_add(r, *out, value->dict->pairs[i].key))
                return false;
        return *out;
    default:
        return dt_tpl_fail(r, "%s has no items to go over",
                           dt_tpl_kind_name(value));
    }
}

/* --- objects --- */

bool dt_tpl_dict(struct dt_tpl_run *r, struct dt_tpl_value *out)
{
    *out = (struct dt_tpl_value){.kind = V_DICT,
                                 .dict = dt_tpl_alloc(r, sizeof(*out->dict))};
    return out->dict;
}

/* The value of a key that is a text, or NULL; adds the bytes compared. */
static struct dt_tpl_value *find_text(const struct dt_tpl_dict *dict,
                                      struct dt_tpl_text text, size_t *bytes)
{
    for (size_t i = 0; i < dict->count; i++) {
        const struct dt_tpl_value *key = &dict->pairs[i].key;
        if (key->kind != V_STRING || key->text.n != text.n)
            continue;
        *bytes += text.n;
        if (dt_tpl_same_text(key->text, text))
            return &dict->pairs[i].value;
    }
    return NULL;
}

bool dt_tpl_dict_find(struct dt_tpl_run *r, const struct dt_tpl_dict *dict,
                      const struct dt_tpl_value *key, struct dt_tpl_value **out)
{
    size_t bytes = 8 * dict->count;
    *out = NULL;
    if (key->kind == V_STRING)
        *out = find_text(dict, key->text, &bytes);
    else if (!dt_tpl_is_number(key) && key->kind != V_NONE &&
             key->kind != V_TUPLE && key->kind != V_UNDEFINED)
        return dt_tpl_fail(r, "%s cannot be a key", dt_tpl_kind_name(key));
    for (size_t i = 0; key->kind != V_STRING && i < dict->count; i++) {
        bool same;
        if (!dt_tpl_equal(r, &dict->pairs[i].key, key, &same))
            return false;
        if (same)
            *out = &dict->pairs[i].value;
    }
    return dt_tpl_step(r, bytes);
}

bool dt_tpl_dict_set(struct dt_tpl_run *r, struct dt_tpl_dict *dict,
                     struct dt_tpl_value key, struct dt_tpl_value value)
{
    struct dt_tpl_value *found;
    if (!dt_tpl_dict_find(r, dict, &key, &found))
        return false;
    if (found) {
        *found = value;
        return true;
    }
    if (dict->count == dict->room) {
        size_t room = 2 * dict->room + 4;
        struct dt_tpl_pair *grown = dt_tpl_alloc(r, room * sizeof(*grown));
        if (!grown)
            return false;
        if (dict->count > 0)
            memcpy(grown, dict->pairs, dict->count * sizeof(*grown));
        dict->pairs = grown;
        dict->room = room;
    }
    dict->pairs[dict->count++] = (struct dt_tpl_pair){key, value};
    return true;
}

/* --- equality and order --- */

static bool equal_lists(struct dt_tpl_run *r, const struct dt_tpl_list *a,
                        const struct dt_tpl_list *b, bool *out)
{
    *out = a->count == b->count;
    for (size_t i = 0; *out && i < a->count; i++)
        if (!dt_tpl_equal(r, &a->items[i], &b->items[i], out))
            return false;
    return true;
}

static bool equal_dicts(struct dt_tpl_run *r, const struct dt_tpl_dict *a,
                        const struct dt_tpl_dict *b, bool *out)
{
    struct dt_tpl_value *other;
    *out = a->count == b->count;
    for (size_t i = 0; *out && i < a->count; i++) {
        if (!dt_tpl_dict_find(r, b, &a->pairs[i].key, &other))
            return false;
        *out = other;
        if (other && !dt_tpl_equal(r, &a->pairs[i].value, other, out))
            return false;
    }
    return true;
}

static bool equal_numbers(const struct dt_tpl_value *a,
                          const struct dt_tpl_value *b)
{
    if (a->kind != V_FLOAT && b->kind != V_FLOAT)
        return dt_tpl_integer(a) == dt_tpl_integer(b);
    return dt_tpl_number(a) == dt_tpl_number(b);
}

static bool equal_values(struct dt_tpl_run *r, const struct dt_tpl_value *a,
                         const struct dt_tpl_value *b, bool *out)
{
    *out = false;
    if (dt_tpl_is_number(a) && dt_tpl_is_number(b))
        *out = equal_numbers(a, b);
    else if (a->kind != b->kind)
        return true;
    else if (a->kind == V_STRING) {
        *out = dt_tpl_same_text(a->text, b->text);
        return dt_tpl_step(r, a->text.n == b->text.n ? a->text.n : 0);
    } else if (a->kind == V_LIST || a->kind == V_TUPLE || a->kind == V_RANGE)
        return a->list == b->list ? (*out = true)
                                  : equal_lists(r, a->list, b->list, out);
    else if (a->kind == V_DICT)
        return a->dict == b->dict ? (*out = true)
                                  : equal_dicts(r, a->dict, b->dict, out);
    else
        *out = a->kind <= V_NONE ||
               (a->kind == V_FUNCTION ? a->i == b->i : a->list == b->list);
    return true;
}

bool dt_tpl_equal(struct dt_tpl_run *r, const struct dt_tpl_value *a,
                  const struct dt_tpl_value *b, bool *out)
{
    if (!dt_tpl_deeper(r) || !dt_tpl_step(r, 0) || !equal_values(r, a, b, out))
        return false;
    r->depth--;
    return true;
}

static int order_text(struct dt_tpl_text a, struct dt_tpl_text b)
{
    size_t n = a.n < b.n ? a.n : b.n;
    int order = n > 0 ? memcmp(a.s, b.s, n) : 0;
    return order ? (order > 0) - (order < 0) : (a.n > b.n) - (a.n < b.n);
}

static bool order_lists(struct dt_tpl_run *r, const struct dt_tpl_list *a,
                        const struct dt_tpl_list *b, int *out)
{
    size_t n = a->count < b->count ? a->count : b->count;
    bool same;
    *out = (a->count > b->count) - (a->count < b->count);
    for (size_t i = 0; i < n; i++) {
        if (!dt_tpl_equal(r, &a->items[i], &b->items[i], &same))
            return false;
        if (!same)
            return dt_tpl_order(r, &a->items[i], &b->items[i], out);
    }
    return true;
}

bool dt_tpl_order(struct dt_tpl_run *r, const struct dt_tpl_value *a,
                  const struct dt_tpl_value *b, int *out)
{
    if (!dt_tpl_step(r, 0))
        return false;
    if (dt_tpl_is_number(a) && dt_tpl_is_number(b)) {
        if (a->kind != V_FLOAT && b->kind != V_FLOAT) {
            int64_t x = dt_tpl_integer(a), y = dt_tpl_integer(b);
            *out = (x > y) - (x < y);
            return true;
        }
        double x = dt_tpl_number(a), y = dt_tpl_number(b);
        if (isnan(x) || isnan(y))
            return dt_tpl_fail(r, "NaN has no order");
        *out = (x > y) - (x < y);
        return true;
    }
    if (a->kind == V_STRING && b->kind == V_STRING) {
        *out = order_text(a->text, b->text);
        return dt_tpl_step(r, a->text.n);
    }
    if ((a->kind == V_LIST || a->kind == V_TUPLE) && a->kind == b->kind) {
        bool done = dt_tpl_deeper(r) && order_lists(r, a->list, b->list, out);
        r->depth--;
        return done;
    }
    return dt_tpl_fail(r, "%s and %s have no order", dt_tpl_kind_name(a),
                       dt_tpl_kind_name(b));
}

/* --- from JSON --- */

static bool from_object(struct dt_tpl_run *r, const json_t *json, int depth,
                        struct dt_tpl_value *out)
{
    const size_t count = json_object_size(json);
    struct dt_tpl_dict *dict;
    const char *key;
    size_t length;
    json_t *value;
    if (!dt_tpl_dict(r, out))
        return false;
    dict = out->dict;
    if (count > 0 &&
        !(dict->pairs = dt_tpl_alloc(r, count * sizeof(*dict->pairs))))
        return false;
    dict->room = count;
    json_object_keylen_foreach((json_t *)json, key, length, value)
    {
        struct dt_tpl_pair *pair = &dict->pairs[dict->count++];
        pair->key = dt_tpl_string((struct dt_tpl_text){key, length});
        if (!dt_tpl_from_json(r, value, depth + 1, &pair->value))
            return false;
    }
    return true;
}

static bool from_array(struct dt_tpl_run *r, const json_t *json, int depth,
                       struct dt_tpl_value *out)
{
    struct dt_tpl_list *list =
        dt_tpl_list(r, V_LIST, json_array_size(json), out);
    size_t i;
    json_t *item;
    if (!list)
        return false;
    json_array_foreach(json, i, item)
    {
        if (!dt_tpl_from_json(r, item, depth + 1, &list->items[i]))
            return false;
    }
    list->count = json_array_size(json);
    return true;
}

bool dt_tpl_from_json(struct dt_tpl_run *r, const json_t *json, int depth,
                      struct dt_tpl_value *out)
{
    if (depth > DT_TEMPLATE_DEPTH)
        return dt_tpl_fail(r, "the data has more than %d levels",
                           DT_TEMPLATE_DEPTH);
    switch (json_typeof(json)) {
    case JSON_OBJECT:
        return from_object(r, json, depth, out);
    case JSON_ARRAY:
        return from_array(r, json, depth, out);
    case JSON_STRING:
        *out = dt_tpl_string((struct dt_tpl_text){json_string_value(json),
                                                  json_string_length(json)});
        return true;
    case JSON_INTEGER:
        *out = dt_tpl_int(json_integer_value(json));
        return true;
    case JSON_REAL:
        *out = dt_tpl_float(json_real_value(json));
        return true;
    case JSON_NULL:
        *out = dt_tpl_none();
        return true;
    default:
        *out = dt_tpl_bool(json_is_true(json));
        return true;
    }
}

/* --- arguments of functions, methods, filters and tests --- */

/* Whether the text is an item of the list "a, b, c". */
static bool is_listed(struct dt_tpl_text text, const char *names)
{
    while (*names) {
        size_t n = strcspn(names, ",");
        if (dt_tpl_same_text(text, (struct dt_tpl_text){names, n}))
            return true;
        names += n + strspn(names + n, ", ");
    }
    return false;
}

bool dt_tpl_check_args(struct dt_tpl_run *r, const struct dt_tpl_args *args,
                       const char *what, const char *names)
{
    size_t most = *names ? 1 : 0;
    for (const char *c = names; *c; c++)
        most += *c == ',';
    for (size_t i = 0; i < args->keyword_count; i++)
        if (!is_listed(args->keywords[i].key.text, names))
            return dt_tpl_fail(r, "%s has no argument '%.*s' here", what,
                               (int)args->keywords[i].key.text.n,
                               args->keywords[i].key.text.s);
    return args->count + args->keyword_count <= most ||
           dt_tpl_fail(r, "%s has at most %zu arguments here", what, most);
}

struct dt_tpl_value dt_tpl_arg(const struct dt_tpl_args *args, size_t position,
                               const char *name, struct dt_tpl_value fallback)
{
    if (position < args->count)
        return args->items[position];
    for (size_t i = 0; name && i < args->keyword_count; i++)
        if (dt_tpl_text_is(args->keywords[i].key.text, name))
            return args->keywords[i].value;
    return fallback;
}

bool dt_tpl_text_arg(struct dt_tpl_run *r, const struct dt_tpl_args *args,
                     size_t position, const char *name, const char *fallback,
                     struct dt_tpl_text *out)
{
    struct dt_tpl_value value =
        dt_tpl_arg(args, position, name, dt_tpl_undefined(TEXT("argument")));
    if (value.kind == V_UNDEFINED && fallback)
        value = dt_tpl_string((struct dt_tpl_text){fallback, strlen(fallback)});
    *out = value.text;
    return value.kind == V_STRING ||
           dt_tpl_fail(r, "expected a string as an argument, got %s",
                       dt_tpl_kind_name(&value));
}

bool dt_tpl_int_arg(struct dt_tpl_run *r, const struct dt_tpl_args *args,
                    size_t position, const char *name, int64_t fallback,
                    int64_t *out)
{
    struct dt_tpl_value value =
        dt_tpl_arg(args, position, name, dt_tpl_int(fallback));
    bool whole = value.kind == V_INT || value.kind == V_BOOL;
    *out = whole ? dt_tpl_integer(&value) : fallback;
    return whole || dt_tpl_fail(r, "expected an integer as an argument, got %s",
                                dt_tpl_kind_name(&value));
}

bool dt_tpl_true_arg(const struct dt_tpl_args *args, size_t position,
                     const char *name)
{
    struct dt_tpl_value value =
        dt_tpl_arg(args, position, name, dt_tpl_bool(false));
    return dt_tpl_truth(&value);
}
