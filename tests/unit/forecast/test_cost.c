/* SPDX-License-Identifier: Apache-2.0 */
/* test_cost.c - the operations of a model's passes */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "forecast/cost.h"
#include "tests/unit/model.h"

/* Of 16 tokens each sees 8.5 on average, or 3.625 through a window of 4. */
static void windowed_layers_cost_less(void **state)
{
    struct dt_model_config config;
    struct dt_error err;
    (void)state;
    parse(&config, OTHER("gemma2", "\"sliding_window\": 4"));
    struct dt_layout *layout = dt_model_layout(&config, 1, &err);
    double cost[4];
    assert_non_null(layout);
    for (size_t u = 1; u <= 4; u++)
        cost[u - 1] = dt_cost_block(&config, layout, u, 3, 16);
    assert_true(cost[0] == cost[2] && cost[1] == cost[3]);
    assert_true(cost[1] - cost[2] == 3 * 16 * 4 * 32 * (8.5 - 3.625));
    dt_layout_destroy(layout);
    dt_model_config_fini(&config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(windowed_layers_cost_less),
    };
    return cmocka_run_group_tests_name("cost", tests, NULL, NULL);
}
