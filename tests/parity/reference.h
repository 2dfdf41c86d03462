/* SPDX-License-Identifier: Apache-2.0 */
/* reference.h - what make_model_reference.py has stored of one model */
#ifndef TESTS_PARITY_REFERENCE_H
#define TESTS_PARITY_REFERENCE_H

#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>

#include "ckpt/ckpt.h"
#include "ckpt/safetensors.h"
#include "tests/parity/rows.h"
#include "tests/parity/subject.h"

enum {
    REFERENCE_STEPS = 20,
    REFERENCE_BATCHES = 3,   /* that the steps go round */
    REFERENCE_DOCUMENTS = 6, /* of a batch */
};

struct reference {
    const char *name;
    struct dt_model_config config;
    json_t *sft;  /* models/sft.json */
    json_t *runs; /* models/<name>/reference.json */
    struct dt_safetensors *model, *first;
};

/* One test of each family: its state is the name of the model. */
#define REFERENCE_TESTS(test)                                                  \
    {#test ": gpt2", test, NULL, NULL, "gpt2"},                                \
        {#test ": llama", test, NULL, NULL, "llama"},                          \
        {#test ": llama_linear", test, NULL, NULL, "llama_linear"},            \
        {#test ": mistral", test, NULL, NULL, "mistral"},                      \
        {#test ": qwen2", test, NULL, NULL, "qwen2"},                          \
    {                                                                          \
#test ": qwen3", test, NULL, NULL, "qwen3"                             \
    }

/* The same for tests that take long. With a sanitizer those are of the models
 * whose layers differ most; shorter tests have all models.
 */
#ifdef SANITIZER
#define REFERENCE_LONG_TESTS(test)                                             \
    {#test ": gpt2", test, NULL, NULL, "gpt2"},                                \
    {                                                                          \
#test ": qwen3", test, NULL, NULL, "qwen3"                             \
    }
#else
#define REFERENCE_LONG_TESTS(test) REFERENCE_TESTS(test)
#endif

/* Opens a model by name, or fails the test. */
void reference_open(struct reference *r, const char *name);
void reference_close(struct reference *r);

/* The path of a file of the model, valid until the next call. */
const char *reference_path(const char *name, const char *file);

/* The directory of the model's adapter, valid until the next call. */
const char *reference_adapter(const char *name);

/* The stored weights as master weights, published. */
void reference_load(const struct reference *r, struct subject *s);

/* The tensor `name` of the first step, of ndim dimensions; free() it. */
float *reference_tensor(const struct reference *r, const char *name, int ndim,
                        const size_t *shape);

/* A number of sft.json; that of step k of a list of numbers in it. */
double reference_number(const struct reference *r, const char *key);
double reference_listed(const struct reference *r, const char *key, size_t k);

/* Number k of `key` ("losses", "grad_norms") of a run ("padded", ...). */
double reference_result(const struct reference *r, const char *run,
                        const char *key, size_t k);

/* `key` of the run in 16 bits ("bf16", "fp16"). */
double reference_error(const struct reference *r, const char *run,
                       const char *key);

/* Document i of a batch; all its tokens are targets, or what an assistant
 * said.
 */
void reference_document(const struct reference *r, size_t batch, size_t i,
                        bool assistant, struct document *document);

/* The documents of a batch, each in a row of its own or packed. places(6, 2)
 * may be NULL: row and position of each document.
 */
void reference_rows(const struct reference *r, size_t batch, bool packed,
                    bool assistant, struct rows *rows, size_t (*places)[2]);

#endif /* TESTS_PARITY_REFERENCE_H */
