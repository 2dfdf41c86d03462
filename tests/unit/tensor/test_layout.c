/* SPDX-License-Identifier: Apache-2.0 */
/* test_layout.c - offsets, padding and refusals of the flat layout */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tensor/layout.h"
#include "tests/unit/tower.h"

static struct dt_layout *two_units(int world)
{
    struct dt_layout *layout = dt_layout_create(NULL);
    assert_non_null(layout);
    assert_int_equal(
        dt_layout_add_unit(layout, DT_UNIT_BLOCK, DT_PART_LANGUAGE, NULL), 0);
    assert_int_equal(
        dt_layout_add_param(layout, "wte", true, 2, (size_t[]){5, 3}, NULL), 0);
    assert_int_equal(
        dt_layout_add_param(layout, "wpe", true, 1, (size_t[]){4}, NULL), 1);
    assert_int_equal(
        dt_layout_add_unit(layout, DT_UNIT_BLOCK, DT_PART_LANGUAGE, NULL), 0);
    assert_int_equal(
        dt_layout_add_param(layout, "ln_f", false, 1, (size_t[]){257}, NULL),
        2);
    dt_layout_finish(layout, world);
    return layout;
}

static void each_data_type_has_its_name(void **state)
{
    static const char *const names[] = {"F32", "BF16", "F16", "I32",
                                        "I64", "F64",  "U8"};
    (void)state;
    for (enum dt_dtype dtype = DT_F32; dtype <= DT_U8; dtype++)
        assert_string_equal(dt_dtype_name(dtype), names[dtype]);
    assert_int_equal(dt_dtype_bytes(DT_U8), 1);
}

static void parameters_are_aligned_and_units_padded(void **state)
{
    (void)state;
    struct dt_layout *layout = two_units(2);
    assert_int_equal(layout->params[0].offset, 0);
    assert_int_equal(layout->params[1].offset, 16);
    assert_int_equal(layout->units[0].count, 256);
    assert_int_equal(layout->params[2].offset, 256);
    assert_int_equal(layout->units[1].count, 512);
    assert_int_equal(layout->count, 768);
    assert_int_equal(layout->param_total, 15 + 4 + 257);
    assert_int_equal(dt_layout_find(layout, "ln_f"), 2);
    assert_int_equal(dt_layout_find(layout, "lm_head"), -1);
    dt_layout_destroy(layout);
    dt_layout_destroy(NULL);
}

/* Only what units are padded to for one rank counts. */
static void elements_have_the_same_numbers_in_every_world(void **state)
{
    (void)state;
    for (int world = 1; world < 8; world++) {
        struct dt_layout *layout = two_units(world);
        assert_int_equal(dt_layout_number(layout, 0), 0);
        assert_int_equal(dt_layout_number(layout, 1), 128);
        assert_int_equal(dt_layout_number(layout, 2), 128 + 384);
        dt_layout_destroy(layout);
    }
}

/* Parts have the units of the whole, their parameters at the same elements of
 * a unit, and nothing of others.
 */
static void a_layout_divides_into_layouts_of_its_parts(void **state)
{
    (void)state;
    struct dt_layout *all = tower_layout(3, true);
    for (int choice = TOWER_NONE; choice <= TOWER_ALL; choice++) {
        struct dt_layout *some = tower_share(all, 3, choice);
        size_t offset = 0, params = 0;
        assert_int_equal(some->unit_count, TOWER_UNITS);
        for (size_t u = 0; u < TOWER_UNITS; u++) {
            const struct dt_unit *unit = &some->units[u], *own = &all->units[u];
            const bool there = choice >> own->part & 1;
            assert_int_equal(unit->kind, own->kind);
            assert_int_equal(unit->part, own->part);
            assert_int_equal(unit->offset, offset);
            assert_int_equal(unit->count, there ? own->count : 0);
            assert_int_equal(unit->param_count, there);
            if (there)
                assert_string_equal(some->params[params].name,
                                    all->params[u].name);
            offset += unit->count;
            params += there;
        }
        assert_int_equal(some->count, offset);
        assert_int_equal(some->param_count, params);
        assert_int_equal(dt_layout_is_tied(some, TOWER_TEXT),
                         choice >> DT_PART_LANGUAGE & 1);
        dt_layout_destroy(some);
    }
    dt_layout_destroy(all);
}

static void empty_units_are_passed_over(void **state)
{
    (void)state;
    struct dt_layout *all = tower_layout(1, false);
    struct dt_layout *some =
        tower_share(all, 1, 1 << DT_PART_PROJECTOR | 1 << DT_PART_LANGUAGE);
    assert_int_equal(dt_layout_next(some, 0), TOWER_PROJECTOR);
    assert_int_equal(dt_layout_next(some, TOWER_TEXT), TOWER_TEXT);
    assert_int_equal(dt_layout_next(some, TOWER_UNITS), TOWER_UNITS);
    assert_int_equal(dt_layout_embedding(some), 1);
    assert_int_equal(dt_layout_largest_block(some), 3000);
    assert_false(dt_layout_is_tied(some, some->tied_unit));
    dt_layout_destroy(some);
    some = tower_share(all, 1, TOWER_NONE);
    assert_int_equal(dt_layout_next(some, 0), TOWER_UNITS);
    assert_int_equal(dt_layout_largest_block(some), 0);
    assert_int_equal(some->count, 0);
    dt_layout_destroy(some);
    dt_layout_destroy(all);
}

static void parts_have_names(void **state)
{
    (void)state;
    assert_string_equal(dt_model_part_name(DT_PART_LANGUAGE), "language");
    assert_string_equal(dt_model_part_name(DT_PART_PROJECTOR), "projector");
    assert_string_equal(dt_model_part_name(DT_PART_VISION), "vision");
}

static void a_parameter_view_points_at_its_elements(void **state)
{
    (void)state;
    struct dt_layout *layout = two_units(1);
    struct dt_buffer *buf =
        dt_buffer_create(&dt_cpu, layout->count * sizeof(float), "test", NULL);
    struct dt_view flat = dt_view_of(buf, DT_F32);
    assert_int_equal(flat.count, layout->count);
    struct dt_view ln = dt_layout_param(layout, flat, 2);
    assert_ptr_equal(dt_view_f32(ln), (float *)buf->data + 128);
    assert_int_equal(ln.count, 257);
    assert_int_equal(layout->units[1].count, 384);
    dt_buffer_destroy(buf);
    dt_layout_destroy(layout);
}

/* Joined parameters lie side by side, and are one view. */
static void joined_parameters_form_one_view(void **state)
{
    struct dt_layout *layout = dt_layout_create(NULL);
    struct dt_buffer *buf;
    struct dt_view qkv;
    (void)state;
    assert_int_equal(
        dt_layout_add_unit(layout, DT_UNIT_BLOCK, DT_PART_LANGUAGE, NULL), 0);
    for (int i = 0; i < 4; i++) {
        static const char *const names[] = {"norm", "q", "k", "v"};
        const size_t shape[] = {5, 3};
        assert_int_equal(
            dt_layout_add_param(layout, names[i], true, 2, shape, NULL), i);
        if (i > 1)
            dt_layout_join(layout);
    }
    dt_layout_finish(layout, 1);
    buf =
        dt_buffer_create(&dt_cpu, layout->count * sizeof(float), "test", NULL);
    const struct dt_places places = dt_places_flat(dt_view_of(buf, DT_F32));
    qkv = dt_layout_params(layout, &places, 1, 3);
    assert_int_equal(layout->params[1].offset, 16);
    assert_int_equal(layout->params[2].offset, 31);
    assert_int_equal(layout->params[3].offset, 46);
    assert_int_equal(qkv.offset, 16);
    assert_int_equal(qkv.count, 45);
    dt_buffer_destroy(buf);
    dt_layout_destroy(layout);
}

static void too_many_elements_are_refused(void **state)
{
    struct dt_error err;
    (void)state;
    struct dt_layout *layout = dt_layout_create(&err);
    assert_int_equal(
        dt_layout_add_unit(layout, DT_UNIT_BLOCK, DT_PART_LANGUAGE, &err), 0);
    assert_int_equal(dt_layout_add_param(layout, "huge", true, 2,
                                         (size_t[]){SIZE_MAX, 2}, &err),
                     -1);
    assert_string_equal(err.text, "huge: too many elements");
    assert_int_equal(dt_layout_add_param(layout, "more", true, 2,
                                         (size_t[]){1 << 25, 1 << 24}, &err),
                     -1);
    assert_string_equal(err.text, "more: too many elements");
    assert_int_equal(layout->param_count, 0);
    assert_int_equal(dt_layout_add_param(layout, "most", true, 2,
                                         (size_t[]){1 << 24, 1 << 24}, &err),
                     0);
    dt_layout_destroy(layout);
}

static void a_failed_allocation_names_size_and_purpose(void **state)
{
    struct dt_error err;
    (void)state;
    assert_null(dt_buffer_create(&dt_cpu, (size_t)1 << 62, "weights", &err));
    assert_non_null(strstr(err.text, "cannot allocate 4611686018427387904 "
                                     "bytes for weights: "));
    assert_int_equal(err.status, EX_OSERR);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_data_type_has_its_name),
        cmocka_unit_test(a_layout_divides_into_layouts_of_its_parts),
        cmocka_unit_test(empty_units_are_passed_over),
        cmocka_unit_test(parts_have_names),
        cmocka_unit_test(parameters_are_aligned_and_units_padded),
        cmocka_unit_test(elements_have_the_same_numbers_in_every_world),
        cmocka_unit_test(a_parameter_view_points_at_its_elements),
        cmocka_unit_test(joined_parameters_form_one_view),
        cmocka_unit_test(too_many_elements_are_refused),
        cmocka_unit_test(a_failed_allocation_names_size_and_purpose),
    };
    return cmocka_run_group_tests_name("layout", tests, NULL, NULL);
}
