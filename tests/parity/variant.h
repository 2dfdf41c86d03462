/* SPDX-License-Identifier: Apache-2.0 */
/* variant.h - what make_family_reference.py has stored of a variant */
#ifndef TESTS_PARITY_VARIANT_H
#define TESTS_PARITY_VARIANT_H

#include <jansson.h>

#include "model/model.h"
#include "tests/parity/rows.h"

enum { VARIANT_DOCUMENTS = 3, VARIANT_ROWS = 2, VARIANT_STEPS = 5 };

struct variant {
    const json_t *all, *stored;
    struct dt_model_config config;
    struct rows rows; /* the second document has a row of its own */
    size_t first[VARIANT_DOCUMENTS], length[VARIANT_DOCUMENTS]; /* in the batch
                                                                 */
};

/* Of families.json, by name; fails the test if it is not there. */
void variant_open(struct variant *v, const json_t *all, const char *name);
void variant_close(struct variant *v);

/* A number of the file; asserts that it is there. */
double variant_number(const json_t *object, const char *key);
double variant_number_at(const json_t *list, size_t i);

/* Sets x(count) to the hashes of a name, in [-1, 1), times `scale`. */
void variant_hashes(float *x, size_t count, const char *name, float scale);

/* The dot product of x(count) with the hashes of a name. */
double variant_project(const float *x, size_t count, const char *name);

/* The weights of a parameter of the model: w(param->count). */
void variant_fill(const struct dt_model_config *config,
                  const struct dt_param *param, float *w);

#endif /* TESTS_PARITY_VARIANT_H */
