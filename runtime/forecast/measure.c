/* SPDX-License-Identifier: Apache-2.0 */
/* measure.c - measures rates on the nodes of a step */
#include "config.h"

#include "forecast/measure_impl.h"

int dt_measure_rates(const struct dt_measure *measure, struct dt_rates *rates,
                     struct dt_error *err)
{
    rates->gpu = !measure->exec->device->is_host;
    rates->ranks_per_node = measure->local_size;
    rates->measured = true;
    if (dt_measure_passes(measure, rates, err) < 0)
        return dt_error_prefix(err, "measuring passes");
    if (dt_measure_links(measure, rates, err) < 0)
        return dt_error_prefix(err, "measuring links");
    return 0;
}
