/* SPDX-License-Identifier: Apache-2.0 */
/* export.c - `disttrain export`: writes a checkpoint as a Hugging Face
 * directory
 */
#include "config.h"

#include <getopt.h>
#include <stdio.h>
#include <sysexits.h>

#include "cmd/cmd.h"
#include "weights/export.h"

static void print_help(void)
{
    fputs("usage: disttrain export CHECKPOINT DIR [OPTIONS]\n\n"
          "Writes the model of CHECKPOINT, a checkpoint or the run.output_dir\n"
          "of a run, to the directory DIR in the format of Hugging Face:\n"
          "weights, config.json and the tokenizer's files, without the state\n"
          "of the training.\n\n"
          "  --dtype fp32|bf16|fp16  type of the weights [as in CHECKPOINT]\n"
          "  --max-shard-size SIZE   write larger weights as files of up to\n"
          "                          this size: 500MB, 2GiB ... [5GB]\n"
          "  --overwrite             replace a model that is in DIR\n"
          "  --help                  this text\n",
          stdout);
}

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

/* Fills export. Returns -1 to continue, or the exit status. */
static int parse_options(struct dt_export *export, int argc, char **argv)
{
    static const struct option options[] = {
        {"help", no_argument, NULL, 'h'},
        {"dtype", required_argument, NULL, 'd'},
        {"max-shard-size", required_argument, NULL, 's'},
        {"overwrite", no_argument, NULL, 'o'},
        {0},
    };
    int c, status = 0;
    opterr = 0;
    while (!status && (c = getopt_long(argc, argv, ":h", options, NULL)) != -1)
        switch (c) {
        case 'h':
            print_help();
            return 0;
        case 'd':
            export->same_dtype = false;
            status = dt_cmd_take_dtype("export", optarg, &export->dtype);
            break;
        case 's':
            status = parse_size(export);
            break;
        case 'o':
            export->overwrite = true;
            break;
        default:
            return dt_cmd_option_error("export", c, argv[optind - 1]);
        }
    return status ? status : -1;
}

int dt_cmd_export(int argc, char **argv)
{
    struct dt_error err;
    struct dt_export export = {.same_dtype = true,
                               .max_shard_bytes = 5000000000};
    int status = parse_options(&export, argc, argv);
    if (status >= 0)
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
