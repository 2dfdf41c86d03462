/* SPDX-License-Identifier: Apache-2.0 */
/* info.c - `disttrain info`: version, features, libraries found */
#include "config.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "comm/comm.h"
#include "conf/conf.h"
#include "data/tokenizer.h"
#include "launch/launch.h"
#include "ops/ops.h"

int dt_cmd_info(int argc, char **argv)
{
    if (argc == 2 && !strcmp(argv[1], "--help")) {
        puts("usage: disttrain info\n\n"
             "Prints the version, and the libraries it runs with.");
        return 0;
    }
    if (argc > 1)
        return dt_cmd_usage_error("info", "unexpected '%s'", argv[1]);
    puts(PACKAGE_STRING);
    printf("start-up:        %s\n", dt_launch_library());
    printf("collectives:     %s\n", dt_comm_library());
    printf("matrix products: %s\n", dt_ops_cpu()->library());
    printf("vector code:     %s\n", dt_ops_cpu()->name);
    printf("tokenizers:      %s\n", dt_tokenizer_library());
    printf("configuration:   %s\n", dt_conf_library());
    printf("processors:      %ld online\n", sysconf(_SC_NPROCESSORS_ONLN));
#ifdef ENABLE_FAULT_INJECTION
    puts("fault injection: on");
#endif
    return 0;
}
