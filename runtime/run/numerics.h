/* SPDX-License-Identifier: Apache-2.0 */
/* numerics.h - learning rates and loss scale from the configuration */
#ifndef DT_RUN_NUMERICS_H
#define DT_RUN_NUMERICS_H

#include <stddef.h>

#include "conf/conf.h"
#include "optim/optim.h"

/* The factor of distributed.lr_scaling for `world` ranks; 1 without. */
double dt_run_lr_factor(const struct dt_conf *conf, int world);

/* The schedule of a run of `total` steps, after dt_conf_resolve_steps; all its
 * rates are multiplied by that factor.
 */
struct dt_schedule dt_run_schedule(const struct dt_conf *conf, int world,
                                   long total);

/* Writes a warning if no step has a rate above 0, or if warm-up lasts to the
 * end of the run, unless it is longer than max_steps of the file (0: none),
 * which reading the file has warned of; otherwise an empty text.
 */
void dt_run_schedule_note(const struct dt_schedule *schedule, long max_steps,
                          char *text, size_t bytes);

/* The loss scaler of precision.*, before the first step; a static scale of 1
 * unless compute is fp16.
 */
struct dt_scaler dt_run_scaler(const struct dt_conf *conf);

/* Writes "lr 2e-05 x 4 (linear, world 4) = 8e-05"; empty without a factor. */
void dt_run_lr_note(const struct dt_conf *conf, int world, char *text,
                    size_t bytes);

/* The type of a value of the configuration: fp32, bf16, fp16. */
enum dt_dtype dt_run_dtype(int dtype);

#endif /* DT_RUN_NUMERICS_H */
