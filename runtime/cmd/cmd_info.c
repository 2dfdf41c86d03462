/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_info.c - `disttrain info`: prints the version, features and libraries */
#include "config.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "backend/backend.h"
#include "cmd/cmd_impl.h"
#include "comm/comm.h"
#include "conf/conf.h"
#include "launch/launch.h"
#include "ops/ops.h"
#include "tokenizer/tokenizer.h"

static const struct dt_cmd_line line = {
    "info",
    "usage: disttrain info\n\n"
    "Prints the version, the features, and the libraries in use.\n",
    (const struct dt_option[]){{0}}, NULL};

/* Prints the lines "name: value" of the CUDA module, or why there is none. */
static void print_cuda(void)
{
    char text[4096], *next = text;
    struct dt_error err;
    const struct dt_backend *cuda = dt_backend_load(&err);
    if (!cuda) {
        printf("%-16s none, %s\n", "CUDA:", err.text);
        return;
    }
    cuda->describe(text, sizeof(text));
    while (*next) {
        char *row = strsep(&next, "\n"), *value = strstr(row, ": ");
        if (value)
            printf("%.*s%*s %s\n", (int)(value - row + 1), row,
                   (int)(value - row < 15 ? 15 - (value - row) : 0), "",
                   value + 2);
    }
}

int dt_cmd_info(int argc, char **argv)
{
    int status = dt_cmd_parse(&line, argc, argv, NULL);
    if (status != DT_CMD_RUN)
        return status;
    if (optind < argc)
        return dt_cmd_usage_error("info", "unexpected '%s'", argv[optind]);
    puts(PACKAGE_STRING);
    printf("start-up:        %s\n", dt_launch_library());
    printf("collectives:     %s\n", dt_comm_library());
    printf("matmul:          %s\n", dt_ops_cpu()->library());
    printf("vector code:     %s\n", dt_ops_cpu()->name);
    printf("tokenizers:      %s\n", dt_tokenizer_library());
    printf("configuration:   %s\n", dt_conf_library());
    print_cuda();
    printf("CPUs:            %ld online\n", sysconf(_SC_NPROCESSORS_ONLN));
#ifdef ENABLE_FAULT_INJECTION
    puts("fault injection: on");
#endif
    return 0;
}
