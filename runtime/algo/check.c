/* SPDX-License-Identifier: Apache-2.0 */
/* check.c - checks the keys of a configuration that belong to its algorithm */
#include "config.h"

#include "algo/best.h"

int dt_algo_check(const struct dt_conf *conf, struct dt_error *err)
{
    const struct dt_algo *algo = dt_algo_of(conf);
    if (algo->check && algo->check(conf, err) < 0)
        return -1;
    return dt_best_check(conf, err);
}
