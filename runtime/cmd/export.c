/* SPDX-License-Identifier: Apache-2.0 */
/* export.c - `disttrain export`: writes a checkpoint as a Hugging Face
 * directory
 */
#include "config.h"

#include <stdio.h>
#include <string.h>
#include <sysexits.h>

#include "cmd/cmd.h"
#include "weights/export.h"

static const char help[] =
    "usage: disttrain export CHECKPOINT DIR [OPTIONS]\n\n"
    "Writes the model of CHECKPOINT, a checkpoint or the run.output_dir\n"
    "of a run, to the directory DIR in the format of Hugging Face:\n"
    "weights, config.json and the tokenizer's files, without the state\n"
    "of the training.\n\n"
    "  --dtype fp32|bf16|fp16  type of the weights [as in CHECKPOINT]\n"
    "  --max-shard-size SIZE   write larger weights as files of up to\n"
    "                          this size: 500MB, 2GiB ... [5GB]\n"
    "  --merge                 CHECKPOINT is an adapter: write the model that\n"
    "                          it was trained beside, with the adapter in it\n"
    "  --overwrite             replace a model that is in DIR\n"
    "  --help                  this text\n";

/* For --format, and the type that only GGUF had. */
static const char only_hf[] =
    "DIR gets the format of Hugging Face; of that llama.cpp makes its own: "
    "python3 convert_hf_to_gguf.py DIR --outfile FILE --outtype q8_0";

static int parse_size(struct dt_export *export)
{
    long bytes;
    if (!dt_conf_parse_size(optarg, &bytes))
        return dt_cmd_usage_error("export",
                                  "--max-shard-size: expected a size such as "
                                  "500MB or 2GiB, got '%s'",
                                  optarg);
    export->max_shard_bytes = (size_t)bytes;
    return 0;
}

/* Fills export. Returns DT_CMD_RUN, or the exit status. */
static int parse_options(struct dt_export *export, int argc, char **argv)
{
    static const struct option table[] = {
        {"help", no_argument, NULL, 'h'},
        {"dtype", required_argument, NULL, 'd'},
        {"format", required_argument, NULL, 'f'},
        {"max-shard-size", required_argument, NULL, 's'},
        {"merge", no_argument, NULL, 'm'},
        {"overwrite", no_argument, NULL, 'o'},
        {0},
    };
    struct dt_cmd_line line = {"export", help, table, .status = DT_CMD_RUN};
    for (int c; (c = dt_cmd_next_option(&line, argc, argv)) != -1;) {
        int bad = 0;
        export->merge |= c == 'm';
        export->overwrite |= c == 'o';
        if (c == 'f' || (c == 'd' && strcmp(optarg, "q8_0") == 0))
            return dt_cmd_usage_error("export", "%s", only_hf);
        if (c == 'd') {
            export->same_dtype = false;
            bad = dt_cmd_take_dtype("export", optarg, &export->dtype);
        }
        if (c == 's')
            bad = parse_size(export);
        if (bad)
            return bad;
    }
    return line.status;
}

int dt_cmd_export(int argc, char **argv)
{
    struct dt_error err;
    struct dt_export export = {.same_dtype = true,
                               .max_shard_bytes = 5000000000};
    int status = parse_options(&export, argc, argv);
    if (status != DT_CMD_RUN)
        return status;
    if (argc - optind < 2)
        return dt_cmd_usage_error("export", argc == optind
                                                ? "expected CHECKPOINT and "
                                                  "DIR"
                                                : "expected DIR after "
                                                  "CHECKPOINT");
    if (argc - optind > 2)
        return dt_cmd_usage_error("export", "unexpected '%s'",
                                  argv[optind + 2]);
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
