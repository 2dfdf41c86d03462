/* SPDX-License-Identifier: Apache-2.0 */
/* data.h - files, tokenizer and rows of a run (private to algo/) */
#ifndef DT_ALGO_DATA_H
#define DT_ALGO_DATA_H

#include <stdbool.h>
#include <stdint.h>

#include "conf/conf.h"
#include "data/dataset.h"
#include "data/rows.h"
#include "tokenizer/tokenizer.h"

/* What was opened; zeroed before, released with dt_run_data_fini. */
struct dt_run_data {
    struct dt_tokenizer *tokenizer; /* NULL: streams need none */
    struct dt_dataset *stream, *eval_stream;
    struct dt_examples **examples; /* of data.train, then data.eval */
    size_t example_count;
    struct dt_rows *train, *eval; /* eval may be NULL */
    uint64_t hash;      /* of all that decides which rows are learnt from */
    uint64_t eval_hash; /* of the files of data.eval, 0 without */
};

/* Opens data.train and data.eval of conf: token files and bytes of text as
 * streams, anything else as examples, tokenised if there is no cache of it. Ids
 * will be below vocab_size. `speaks`: logs what was found. -1: as the functions
 * of data/, EX_CONFIG.
 */
int dt_run_data_open(struct dt_run_data *data, const struct dt_conf *conf,
                     size_t vocab_size, bool speaks, struct dt_error *err);
void dt_run_data_fini(struct dt_run_data *data);

/* What can be said of the data section without its files: whether there is a
 * tokenizer, and whether it is one of a model with vocab_size tokens; for a
 * stream, that no weight and no part of examples is asked for. -1: EX_CONFIG,
 * or as dt_tokenizer_load.
 */
int dt_run_data_check(const struct dt_conf *conf, size_t vocab_size,
                      struct dt_error *err);

/* Is data.train read as it is, without a tokenizer and a cache? True of token
 * files and of text whose bytes are its tokens.
 */
bool dt_run_is_stream(const struct dt_conf *conf);

/* May a row of the run hold several documents? */
bool dt_run_packs(const struct dt_conf *conf);

/* Where text gets its tokens from: a directory, or "byte". */
const char *dt_run_tokenizer_path(const struct dt_conf *conf);

/* What data of conf asks for; note, progress and ctx are left NULL. */
struct dt_example_options dt_run_example_options(const struct dt_conf *conf);

/* The directory of the run's tokenizer.json, or of model.path; NULL: neither.
 */
const char *dt_run_tokenizer_dir(const struct dt_conf *conf);

#endif /* DT_ALGO_DATA_H */
