/* SPDX-License-Identifier: Apache-2.0 */
/* facts.h - what run.json says, checked */
#ifndef DT_HISTORY_FACTS_H
#define DT_HISTORY_FACTS_H

#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>

#include "base/error.h"

/* A key of the configuration, as run.json has it. */
struct dt_history_setting {
    const char *key;   /* "optimizer.lr" */
    const char *value; /* JSON, but a string is as it is */
    bool given;        /* by the file of the user */
};

struct dt_history_node {
    const char *host;
    size_t ranks; /* on this host */
};

/* The run began, or was resumed. */
struct dt_history_start {
    double wall; /* seconds since 1970 */
    long step;   /* done before */
    const char *job;
};

/* What run.json says. Unknown texts are NULL, unknown numbers NaN and unknown
 * lists empty.
 */
struct dt_history_facts {
    const char *name; /* or else that of the directory: never NULL */
    const char *run_id, *job, *algorithm, *output_dir, *program;
    const char *config_path, *config_hash;
    const char *status;  /* running, finished, stopped, failed */
    const char *verdict; /* a sentence about the end */
    const char *resume;  /* the command that continues the run */
    const char *family, *data_hash, *peak_name;
    const char *train_data; /* the files, with commas between them */
    double parameters, layers, width, rows, total_steps, world, ended;
    double flops_per_token; /* of training, forward and backward */
    double peak_flops;      /* a second, of one rank's device */
    struct dt_history_node *nodes;
    size_t node_count;
    const char **devices; /* one a rank */
    size_t device_count;
    const char **argv;
    size_t argc;
    struct dt_history_start *starts;
    size_t start_count;
    struct dt_history_setting *settings;
    size_t setting_count;
    const json_t *json;  /* all of run.json; NULL: there is none */
    const char *problem; /* why run.json could not be read; NULL: it was, or
                            there is none */
};

/* The facts and what owns their texts. */
struct dt_run_facts {
    struct dt_history_facts facts;
    json_t *json;
    char **texts; /* values of settings that are not strings in run.json */
    char *name, *train_data;
    char problem[DT_ERROR_TEXT_BYTES];
};

/* Reads the text of run.json. What is missing or of the wrong type stays
 * unknown; facts.problem says why, if the text is no JSON object. -1: EX_OSERR.
 */
int dt_run_facts_read(struct dt_run_facts *facts, const char *path,
                      const char *text, struct dt_error *err);

/* Fills in what is known without run.json: nothing but the name, the last
 * component of `dir` that is not "logs". -1: EX_OSERR.
 */
int dt_run_facts_name(struct dt_run_facts *facts, const char *dir,
                      struct dt_error *err);

void dt_run_facts_fini(struct dt_run_facts *facts); /* a zeroed one is fine */

#endif /* DT_HISTORY_FACTS_H */
