/* SPDX-License-Identifier: Apache-2.0 */
/*
 * conf.h - one YAML file into one checked, read-only struct
 *
 * The schema is a table (schema.c): one row a key with path, type, default,
 * range, unit and help; it drives parsing, `disttrain check`, and the key list
 * of disttrain.yaml(5). Every problem of a file is reported, as
 * file:line:col: key: text, in file order.
 */
#ifndef DT_CONF_CONF_H
#define DT_CONF_CONF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/error.h"

struct dt_conf_env {
    char *name, *value;
};

struct dt_conf_paths {
    char **path; /* absolute */
    size_t count;
};

enum { DT_CONF_ADAMW };
enum { DT_CONF_AUTO_BACKEND, DT_CONF_GLOO };
enum { DT_CONF_RESUME_NONE, DT_CONF_RESUME_AUTO, DT_CONF_RESUME_PATH };
enum { DT_CONF_NO, DT_CONF_STEPS, DT_CONF_EPOCH };

/* Field names are the keys. Strings are NUL-terminated and owned by the
 * configuration; NULL means not given. Paths are absolute.
 */
struct dt_conf {
    char *file; /* absolute path of the file itself */
    struct {
        char *name, *output_dir;
        bool overwrite;
        uint64_t seed, data_seed;
    } run;
    struct {
        char *path;        /* directory with config.json, or NULL: inline */
        bool random_init;  /* model.init: random | pretrained */
        char *type;        /* inline keys, as config.json spells them */
        long vocab_size, n_positions, n_embd, n_layer, n_head, n_inner;
        double layer_norm_epsilon, initializer_range;
        char *tokenizer;   /* "byte" */
    } model;
    struct {
        struct dt_conf_paths train, eval;
        int format;             /* enum dt_data_format */
        long max_length;        /* T */
        double validation_split; /* last part of train, when eval is empty */
        bool shuffle;
        long prefetch_factor;
    } data;
    struct {
        long per_device_batch_size, global_micro_batch_size, train_batch_size;
        long gradient_accumulation_steps;
        double epochs;
        long max_steps;         /* -1: by epochs */
        double max_grad_norm;
        int eval_strategy;      /* DT_CONF_NO | STEPS | EPOCH */
        long eval_steps;
        int resume;             /* DT_CONF_RESUME_* */
        char *resume_path;
    } training;
    struct {
        int backend;
        char *interface;
        long timeout_s;
        long bucket_cap_mb;
    } distributed;
    struct {
        int name;
        double lr, beta1, beta2, eps, weight_decay;
        int decay_filter;       /* hf | ndim2 | all | none */
    } optimizer;
    struct {
        int name;               /* enum dt_schedule_name */
        double warmup_steps;    /* < 1: a ratio */
        double warmup_ratio;
        double min_lr;
    } scheduler;
    struct {
        bool reduce_bf16;       /* precision.reduce_dtype: bf16 */
    } precision;
    struct {
        int strategy;           /* DT_CONF_NO | STEPS */
        long steps, total_limit;
    } checkpoint;
    struct {
        long steps;
        bool first_step, to_stdout, to_jsonl;
        int level;              /* enum dt_log_level */
        char *dir;
    } logging;
    struct dt_conf_env *env;
    size_t env_count;
    uint64_t fingerprint;       /* of everything that changes the result */
};

/* A list of problems, in file order. */
struct dt_conf_problems {
    char **text; /* "file:line:col: key: what" */
    size_t count;
};
void dt_conf_problems_fini(struct dt_conf_problems *problems);

/* Reads and checks `path`. NULL if there is any problem (all in *problems, at
 * least one entry then); free with dt_conf_destroy. Warnings go to *warnings.
 */
struct dt_conf *dt_conf_load(const char *path,
                             struct dt_conf_problems *problems,
                             struct dt_conf_problems *warnings);
void dt_conf_destroy(struct dt_conf *conf); /* NULL is fine */

/* What depends on the world: fills per_device_batch_size,
 * global_micro_batch_size and train_batch_size from those that are given. -1:
 * EX_CONFIG with all numbers if no exact division exists.
 */
int dt_conf_resolve_batch(struct dt_conf *conf, int world,
                          struct dt_error *err);

/* Writes the final configuration as YAML, every key with its value. */
void dt_conf_dump(const struct dt_conf *conf, FILE *out);

/* Writes the schema, one `path type default help` line a key, tab-separated:
 * what tests compare disttrain.yaml(5) with.
 */
void dt_conf_schema(FILE *out);

#endif /* DT_CONF_CONF_H */
