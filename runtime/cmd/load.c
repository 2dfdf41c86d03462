/* SPDX-License-Identifier: Apache-2.0 */
/* load.c - loads a configuration and prints its problems */
#include "config.h"

#include <stdio.h>

#include "algo/models.h"
#include "cmd/cmd.h"

struct dt_conf *dt_cmd_load(const char *name, const char *file, bool warn)
{
    struct dt_conf_problems problems, warnings;
    struct dt_conf *conf = dt_conf_load(file, &problems, &warnings);
    for (size_t i = 0; i < warnings.count && warn; i++)
        fprintf(stderr, "warning: %s\n", warnings.text[i]);
    for (size_t i = 0; i < problems.count; i++)
        fprintf(stderr, "%s\n", problems.text[i]);
    if (!conf && problems.count == 0)
        fprintf(stderr, "disttrain %s: out of memory\n", name);
    dt_conf_problems_fini(&problems);
    dt_conf_problems_fini(&warnings);
    if (conf)
        dt_models_find(conf, false);
    return conf;
}
