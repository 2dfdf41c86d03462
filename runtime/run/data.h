/* SPDX-License-Identifier: Apache-2.0 */
/* data.h - files, tokenizer and rows of a run */
#ifndef DT_RUN_DATA_H
#define DT_RUN_DATA_H

#include <stdbool.h>
#include <stdint.h>

#include "batch/rows.h"
#include "conf/conf.h"
#include "data/dataset.h"
#include "data/prompts.h"
#include "run/images.h"
#include "tokenizer/tokenizer.h"

/* Zeroed before dt_run_data_open, except stop and images; released with
 * dt_run_data_fini.
 */
struct dt_run_data {
    bool (*stop)(void); /* true ends the opening: EX_TEMPFAIL; may be NULL */
    bool cached;        /* opens what is prepared alone, else EX_NOINPUT */
    const struct dt_run_images *images; /* how the model sees them; may be NULL,
                                           and outlives the data */
    struct dt_tokenizer *tokenizer;     /* NULL: streams need none */
    struct dt_dataset *stream, *eval_stream;
    struct dt_examples **examples; /* of data.train, then data.eval */
    size_t example_count;
    struct dt_rows *train, *eval; /* eval may be NULL */
    struct dt_prompts *prompts;   /* in place of rows, to sample from */
    struct dt_prompts *held_out;  /* and to evaluate with; may be NULL */
    uint64_t hash;      /* of all that decides which rows are trained on */
    uint64_t eval_hash; /* of the files of data.eval, 0 without */
};

/* Opens data.train and data.eval of conf: token files and bytes of text as
 * streams, anything else as examples, tokenized if there is no cache of it. Ids
 * are below vocab_size. `speaks`: this rank logs what it finds. -1: as the
 * functions of data/, EX_CONFIG.
 */
int dt_run_data_open(struct dt_run_data *data, const struct dt_conf *conf,
                     size_t vocab_size, bool speaks, struct dt_error *err);
void dt_run_data_fini(struct dt_run_data *data);

/* Whether the configuration holds data out, to evaluate with. */
static inline bool dt_run_holds_out(const struct dt_conf *conf)
{
    return conf->data.eval.count > 0 || conf->data.validation_split > 0;
}

/* Checks the data section without its files: that there is a tokenizer and that
 * it fits a model with vocab_size tokens; that keys of examples are not used
 * for a stream. -1: EX_CONFIG, or as dt_tokenizer_load, and *key is that of the
 * mistake.
 */
int dt_run_data_check(const struct dt_conf *conf, size_t vocab_size,
                      const char **key, struct dt_error *err);

/* Is data.train read as it is, without a tokenizer and a cache? True of token
 * files and of text whose bytes are its tokens.
 */
bool dt_run_is_stream(const struct dt_conf *conf);

/* May a row of the run hold several documents? */
bool dt_run_packs(const struct dt_conf *conf);

/* Batches that a loader makes ahead. */
size_t dt_run_prefetch(const struct dt_conf *conf);

/* The tokenizer of the run: a directory, or "byte". */
const char *dt_run_tokenizer_path(const struct dt_conf *conf);

/* The options of conf's data section; note, progress and ctx stay NULL.
 * `images` may be NULL.
 */
struct dt_example_options dt_run_example_options(
    const struct dt_conf *conf, const struct dt_run_images *images);

/* The directory of the run's tokenizer.json, or of model.path; NULL: neither.
 */
const char *dt_run_tokenizer_dir(const struct dt_conf *conf);

#endif /* DT_RUN_DATA_H */
