/* SPDX-License-Identifier: Apache-2.0 */
/* items.c - attributes, items and methods of values */
#include "config.h"

#include "template/template_run.h"

static struct dt_tpl_value loop_attribute(const struct dt_tpl_loop *loop,
                                          struct dt_tpl_text name)
{
    const int64_t index = (int64_t)loop->index;
    const int64_t count = (int64_t)loop->items->count;
    const struct {
        const char *name;
        struct dt_tpl_value value;
    } all[] = {
        {"index", dt_tpl_int(index + 1)},
        {"index0", dt_tpl_int(index)},
        {"first", dt_tpl_bool(index == 0)},
        {"last", dt_tpl_bool(index + 1 == count)},
        {"length", dt_tpl_int(count)},
        {"revindex", dt_tpl_int(count - index)},
        {"revindex0", dt_tpl_int(count - index - 1)},
        {"depth", dt_tpl_int(1)},
        {"depth0", dt_tpl_int(0)},
    };
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (dt_tpl_text_is(name, all[i].name))
            return all[i].value;
    if (dt_tpl_text_is(name, "previtem") && index > 0)
        return loop->items->items[index - 1];
    if (dt_tpl_text_is(name, "nextitem") && index + 1 < count)
        return loop->items->items[index + 1];
    struct dt_tpl_value none = dt_tpl_undefined(name);
    none.flag = true;
    return none;
}

/* The method of a value, or undefined. */
static bool find_method(struct dt_tpl_run *r, const struct dt_tpl_value *value,
                        struct dt_tpl_text name, struct dt_tpl_value *out)
{
    *out = dt_tpl_undefined(name);
    out->flag = true;
    if (!dt_tpl_has_method(value->kind, name))
        return true;
    struct dt_tpl_method *method = dt_tpl_alloc(r, sizeof(*method));
    if (!method)
        return false;
    *method = (struct dt_tpl_method){*value, name};
    *out = (struct dt_tpl_value){.kind = V_METHOD, .method = method};
    return true;
}

/* Refuses what values have in Python and not here, which would be empty. */
static bool check_attribute(struct dt_tpl_run *r,
                            const struct dt_tpl_value *value,
                            struct dt_tpl_text name)
{
    static const char *const numbers[] = {"real",
                                          "imag",
                                          "numerator",
                                          "denominator",
                                          "is_integer",
                                          "bit_length",
                                          "bit_count",
                                          "to_bytes",
                                          "from_bytes",
                                          "conjugate",
                                          "hex",
                                          "fromhex",
                                          "as_integer_ratio",
                                          NULL};
    static const char *const ranges[] = {"start", "stop", "step", NULL};
    static const char *const views[] = {"isdisjoint", "mapping", NULL};
    static const char *const macros[] = {"arguments",       "caller",
                                         "catch_kwargs",    "catch_varargs",
                                         "explicit_caller", NULL};
    static const char *const *const all[] = {
        [V_BOOL] = numbers, [V_INT] = numbers, [V_FLOAT] = numbers,
        [V_RANGE] = ranges, [V_VIEW] = views,  [V_MACRO] = macros};
    const char *const *names = value->kind <= V_MACRO ? all[value->kind] : NULL;
    for (; names && *names; names++)
        if (dt_tpl_text_is(name, *names))
            return dt_tpl_fail(r, "the attribute '%s' of %s is not supported",
                               *names, dt_tpl_kind_name(value));
    return true;
}

bool dt_tpl_attribute(struct dt_tpl_run *r, const struct dt_tpl_value *value,
                      struct dt_tpl_text name, struct dt_tpl_value *out)
{
    struct dt_tpl_value *found = NULL;
    if (value->kind == V_UNDEFINED)
        return dt_tpl_fail_undefined(r, value);
    if (value->kind == V_LOOP && !dt_tpl_has_method(V_LOOP, name)) {
        *out = loop_attribute(value->loop, name);
        return true;
    }
    if (value->kind == V_MACRO && dt_tpl_text_is(name, "name")) {
        *out = dt_tpl_string(value->macro->node->text);
        return true;
    }
    if (!check_attribute(r, value, name))
        return false;
    const struct dt_tpl_value key = dt_tpl_string(name);
    if ((value->kind == V_NAMESPACE ||
         (value->kind == V_DICT && !dt_tpl_has_method(V_DICT, name))) &&
        !dt_tpl_dict_find(r, value->dict, &key, &found))
        return false;
    if (found) {
        *out = *found;
        return true;
    }
    return find_method(r, value, name, out);
}

/* The item of a list or text at an index; undefined outside. */
static bool item_at(struct dt_tpl_run *r, const struct dt_tpl_value *value,
                    int64_t index, struct dt_tpl_value *out)
{
    size_t count;
    if (value->kind == V_STRING && !dt_tpl_step(r, value->text.n))
        return false;
    if (!dt_tpl_length(value, &count))
        return true;
    if (index < 0)
        index += (int64_t)count;
    if (index < 0 || (size_t)index >= count)
        return true;
    if (value->kind != V_STRING) {
        *out = value->list->items[index];
        return true;
    }
    size_t at = dt_tpl_offset(value->text, (size_t)index);
    *out = dt_tpl_string((struct dt_tpl_text){
        value->text.s + at, dt_tpl_sequence(value->text, at)});
    out->flag = value->flag;
    return true;
}

bool dt_tpl_item(struct dt_tpl_run *r, const struct dt_tpl_value *value,
                 const struct dt_tpl_value *key, struct dt_tpl_value *out)
{
    struct dt_tpl_value *found;
    if (value->kind == V_UNDEFINED)
        return dt_tpl_fail_undefined(r, value);
    *out = dt_tpl_undefined(key->kind == V_STRING ? key->text : TEXT("item"));
    out->flag = true;
    bool has_items = value->kind == V_STRING || value->kind == V_LIST ||
                     value->kind == V_TUPLE || value->kind == V_RANGE;
    if (has_items && (key->kind == V_INT || key->kind == V_BOOL))
        return item_at(r, value, dt_tpl_integer(key), out);
    if (value->kind == V_DICT) {
        if (!dt_tpl_dict_find(r, value->dict, key, &found))
            return false;
        if (found) {
            *out = *found;
            return true;
        }
    }
    if (key->kind != V_STRING)
        return true;
    return value->kind == V_DICT ? find_method(r, value, key->text, out)
                                 : dt_tpl_attribute(r, value, key->text, out);
}
