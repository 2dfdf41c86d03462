/* SPDX-License-Identifier: Apache-2.0 */
/* tower.h - the units of a small model of images and text, for tests of layouts
 * alone
 */
#ifndef TESTS_UNIT_TOWER_H
#define TESTS_UNIT_TOWER_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "tensor/layout.h"

enum { TOWER_PROJECTOR = 4, TOWER_TEXT = 5, TOWER_UNITS = 9 };

/* A tower's embedding and its three blocks, a projector, and the text's
 * embedding, two blocks and head, which may be tied. The parameter of unit u is
 * called "u".
 */
static const struct {
    enum dt_unit_kind kind;
    enum dt_model_part part;
    size_t count;
} tower_units[TOWER_UNITS] = {
    {DT_UNIT_EDGE, DT_PART_VISION, 400},
    {DT_UNIT_BLOCK, DT_PART_VISION, 1000},
    {DT_UNIT_BLOCK, DT_PART_VISION, 1000},
    {DT_UNIT_BLOCK, DT_PART_VISION, 1000},
    {DT_UNIT_EDGE, DT_PART_PROJECTOR, 800},
    {DT_UNIT_EMBEDDING, DT_PART_LANGUAGE, 9000},
    {DT_UNIT_BLOCK, DT_PART_LANGUAGE, 3000},
    {DT_UNIT_BLOCK, DT_PART_LANGUAGE, 3000},
    {DT_UNIT_EDGE, DT_PART_LANGUAGE, 8000},
};

static inline struct dt_layout *tower_layout(int world, bool tied)
{
    struct dt_layout *layout = dt_layout_create(NULL);
    assert_non_null(layout);
    for (size_t u = 0; u < TOWER_UNITS; u++) {
        char name[16];
        snprintf(name, sizeof(name), "%zu", u);
        assert_int_equal(dt_layout_add_unit(layout, tower_units[u].kind,
                                            tower_units[u].part, NULL),
                         0);
        assert_true(dt_layout_add_param(layout, name, true, 1,
                                        &tower_units[u].count, NULL) >= 0);
    }
    if (tied)
        layout->tied_unit = TOWER_TEXT;
    dt_layout_finish(layout, world);
    return layout;
}

/* The choices of parts that are trained: bit i of a choice is part i. */
enum { TOWER_NONE = 0, TOWER_ALL = (1 << DT_PARTS) - 1 };

/* The layout of the parts in a choice. */
static inline struct dt_layout *tower_share(const struct dt_layout *layout,
                                            int world, int choice)
{
    bool parts[DT_PARTS];
    for (int i = 0; i < DT_PARTS; i++)
        parts[i] = choice >> i & 1;
    struct dt_layout *share = dt_layout_of_parts(layout, parts, world, NULL);
    assert_non_null(share);
    return share;
}

#endif /* TESTS_UNIT_TOWER_H */
