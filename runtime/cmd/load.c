/* SPDX-License-Identifier: Apache-2.0 */
/* load.c - loads a configuration and prints its problems */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "cmd/cmd.h"
#include "contract/contract.h"
#include "run/resolve_checkpoints.h"

/* Writes the hash of a file's warnings, without its name: it may have another
 * one where it is read again.
 */
static void sum_warnings(const char *file,
                         const struct dt_conf_problems *warnings, char sum[17])
{
    uint64_t hash = 0;
    size_t n = strlen(file);
    for (size_t i = 0; i < warnings->count; i++) {
        const char *text = warnings->text[i];
        text += strncmp(text, file, n) == 0 ? n : 0;
        hash = XXH3_64bits_withSeed(text, strlen(text), hash);
    }
    snprintf(sum, 17, "%016" PRIx64, hash);
}

static void print_warnings(const char *file,
                           const struct dt_conf_problems *warnings)
{
    char sum[17];
    for (size_t i = 0; i < warnings->count; i++)
        fprintf(stderr, "warning: %s\n", warnings->text[i]);
    sum_warnings(file, warnings, sum);
    if (warnings->count > 0)
        setenv(DT_ENV_WARNED, sum, 1);
}

void dt_cmd_warn_once(const char *file, const struct dt_conf_problems *warnings)
{
    char sum[17];
    const char *warned = getenv(DT_ENV_WARNED);
    sum_warnings(file, warnings, sum);
    if (!warned || strcmp(warned, sum) != 0)
        print_warnings(file, warnings);
}

struct dt_conf *dt_cmd_load(const char *name, const char *file, bool warn)
{
    struct dt_conf_problems problems, warnings;
    struct dt_conf *conf =
        dt_conf_load(file, dt_cmd_overrides(), &problems, &warnings);
    if (warn)
        print_warnings(file, &warnings);
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
