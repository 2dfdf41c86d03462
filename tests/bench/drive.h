/* SPDX-License-Identifier: Apache-2.0 */
/* drive.h - what the programs that measure a drive share */
#ifndef TESTS_BENCH_DRIVE_H
#define TESTS_BENCH_DRIVE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

/* Ends the program with the text and the status of err unless `done`. */
void drive_must(bool done, const struct dt_error *err);

/* Argument `i`, `fallback` where it is not given. Ends the program unless it is
 * a number above 0.
 */
size_t drive_number(int argc, char **argv, int i, size_t fallback);

#endif /* TESTS_BENCH_DRIVE_H */
