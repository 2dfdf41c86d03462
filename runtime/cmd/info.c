/* SPDX-License-Identifier: Apache-2.0 */
/* info.c - `disttrain info`: prints the version, features and libraries */
#include "config.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "backend/backend.h"
#include "cmd/cmd.h"
#include "comm/comm.h"
#include "conf/conf.h"
#include "launch/launch.h"
#include "ops/ops.h"
#include "tokenizer/tokenizer.h"

static const char help[] =
    "usage: disttrain info\n\n"
    "Prints the version, the features, and the libraries in use.\n";

/* Prints what the CUDA module says in lines "name: value", or why there is
 * none.
 */
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
        char *line = strsep(&next, "\n"), *value = strstr(line, ": ");
        if (value)
            printf("%.*s%*s %s\n", (int)(value - line + 1), line,
                   (int)(value - line < 15 ? 15 - (value - line) : 0), "",
                   value + 2);
    }
}

int dt_cmd_info(int argc, char **argv)
{
    static const struct option table[] = {{"help", no_argument, NULL, 'h'},
                                          {0}};
    struct dt_cmd_line line = {"info", help, table, .status = DT_CMD_RUN};
    dt_cmd_next_option(&line, argc, argv);
    if (line.status != DT_CMD_RUN)
        return line.status;
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
