/* SPDX-License-Identifier: Apache-2.0 */
/* machine.h - the hardware of a benchmark, and a random model on it
 *
 * Each ends the program with what went wrong, and its status.
 */
#ifndef TESTS_BENCH_MACHINE_H
#define TESTS_BENCH_MACHINE_H

#include <stdbool.h>

#include "model/model.h"
#include "ops/ops.h"

/* Ends the program with err unless `done`. */
void machine_must(bool done, const struct dt_error *err);

/* The device, its operations and a stream; `device` is cpu or cuda. */
struct dt_exec machine_open(const char *device);

/* `count` elements of the device's memory, never freed. */
struct dt_view machine_memory(const struct dt_exec *exec, size_t count,
                              enum dt_dtype dtype, const char *what);

/* Random weights of the whole layout, in fp32, made by the host. */
struct dt_view machine_weights(const struct dt_exec *exec,
                               const struct dt_model_config *config,
                               const struct dt_layout *layout);

/* The type that a command line calls fp32, bf16 or fp16. False: none. */
bool machine_type(const char *name, enum dt_dtype *type);

#endif /* TESTS_BENCH_MACHINE_H */
