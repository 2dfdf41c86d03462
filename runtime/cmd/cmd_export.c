/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_export.c - `disttrain export`: writes a checkpoint as a Hugging Face
 * directory
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "cmd/cmd.h"
#include "cmd/cmd_impl.h"
#include "weights/weights.h"

/* Why --format is refused, and q8_0, a type that only GGUF had. */
#define ONLY_HF                                                                \
    "DIR gets the format of Hugging Face; of that llama.cpp makes its own: "   \
    "python3 convert_hf_to_gguf.py DIR --outfile FILE --outtype q8_0"

static int take_size(const char *value, void *export)
{
    long bytes;
    if (!dt_conf_parse_size(value, &bytes))
        return dt_cmd_usage_error("export",
                                  "--max-shard-size: expected a size such as "
                                  "500MB or 2GiB, got '%s'",
                                  value);
    ((struct dt_export *)export)->max_shard_bytes = (size_t)bytes;
    return 0;
}

static int take_dtype(const char *value, void *values)
{
    struct dt_export *export = values;
    if (strcmp(value, "q8_0") == 0)
        return dt_cmd_usage_error("export", "%s", ONLY_HF);
    int dtype = dt_cmd_choose("export", "dtype", DT_CMD_DTYPES, value);
    export->same_dtype = false;
    export->dtype = (enum dt_dtype)dtype;
    return dtype < 0 ? EX_USAGE : 0;
}

static const struct dt_option table[] = {
    {"dtype", DT_CMD_DTYPES, "type of the weights [as in CHECKPOINT]",
     .take = take_dtype},
    {"max-shard-size", "SIZE",
     "write larger weights as files of up to this size: 500MB, 2GiB ... [5GB]",
     .take = take_size},
    {"merge", NULL,
     "CHECKPOINT is an adapter: write its base model with the adapter merged "
     "into it",
     DT_INTO(struct dt_export, merge)},
    {"overwrite", NULL, "replace a model that is in DIR",
     DT_INTO(struct dt_export, overwrite)},
    {"format", "FORMAT", ONLY_HF, .kind = DT_OPTION_GONE},
    {0},
};

static const struct dt_cmd_line line = {
    "export",
    "usage: disttrain export CHECKPOINT DIR [OPTIONS]\n\n"
    "Writes the model of CHECKPOINT, a checkpoint or the run.output_dir\n"
    "of a run, to the directory DIR in the format of Hugging Face:\n"
    "weights, config.json and the tokenizer's files, without the state\n"
    "of the training.\n",
    table, NULL};

/* Under srun each task runs this program, and one of them writes. */
static bool is_first_task(void)
{
    const char *task = getenv("SLURM_PROCID");
    return !task || strcmp(task, "0") == 0;
}

int dt_cmd_export(int argc, char **argv)
{
    struct dt_error err;
    struct dt_export export = {.same_dtype = true,
                               .max_shard_bytes = 5000000000};
    int status = dt_cmd_parse(&line, argc, argv, &export);
    if (status != DT_CMD_RUN)
        return status;
    if (argc - optind < 2)
        return dt_cmd_usage_error("export", argc == optind
                                                ? "expected CHECKPOINT and DIR"
                                                : "expected DIR after "
                                                  "CHECKPOINT");
    if (argc - optind > 2)
        return dt_cmd_usage_error("export", "unexpected '%s'",
                                  argv[optind + 2]);
    if (!is_first_task())
        return 0;
    export.from = argv[optind];
    export.to = argv[optind + 1];
    if (dt_export(&export, &err) < 0) {
        fprintf(stderr, "disttrain: %s\n", err.text);
        return err.status;
    }
    printf("%s: %zu parameters in %s, from %s\n", export.to, export.param_count,
           dt_cmd_dtype_name(export.dtype), export.found);
    return 0;
}
