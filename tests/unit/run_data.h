/* SPDX-License-Identifier: Apache-2.0 */
/* run_data.h - loads configurations with a data section and opens their data */
#ifndef DT_TESTS_UNIT_RUN_DATA_H
#define DT_TESTS_UNIT_RUN_DATA_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "run/run.h"
#include "tests/unit/bytes_tokenizer.h"
#include "tests/unit/scratch.h"

enum { VOCAB = 300, ROW = 64 };

/* Loads a configuration whose data section has these lines. */
static inline struct dt_conf *load(const char *data, const char *more)
{
    char text[2048];
    struct dt_conf_problems problems, warnings;
    int n =
        snprintf(text, sizeof(text),
                 "algorithm: sft\nmodel: {n_embd: 96, vocab_size: %d}\n"
                 "training: {per_device_batch_size: 2}\n%s\n"
                 "data: {%s%s}\n",
                 VOCAB, more,
                 strstr(data, "cache_dir") ? "" : "cache_dir: cache, ", data);
    struct dt_conf *conf = dt_conf_load(
        scratch_write("t.yaml", text, (size_t)n), NULL, &problems, &warnings);
    if (!conf)
        fail_msg("%s", problems.count ? problems.text[0] : "");
    dt_conf_problems_fini(&problems);
    dt_conf_problems_fini(&warnings);
    return conf;
}

static inline void write_text(const char *name, const char *text)
{
    scratch_write(name, text, strlen(text));
}

static inline void open_data(struct dt_run_data *data,
                             const struct dt_conf *conf)
{
    struct dt_error err;
    *data = (struct dt_run_data){0};
    if (dt_run_data_open(data, conf, VOCAB, false, &err) < 0)
        fail_msg("%s", err.text);
}

/* Writes a token file of the ids 0, 1, 2, ..., so each token is its position.
 */
static inline void write_ids(const char *name, uint16_t count)
{
    uint16_t ids[VOCAB];
    for (uint16_t i = 0; i < count; i++)
        ids[i] = i;
    scratch_write(name, ids, count * sizeof(ids[0]));
}

/* Writes the tokenizer to the directory tok. */
static inline int write_tokenizer(void **state)
{
    (void)state;
    dt_tokenizer_destroy(bytes_tokenizer("tok", NULL, "</s>", NULL));
    return 0;
}

#endif /* DT_TESTS_UNIT_RUN_DATA_H */
