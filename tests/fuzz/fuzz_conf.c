/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_conf.c - any bytes as a configuration: an answer, and never a crash
 *
 * What is accepted must read back from its own dump as the same configuration.
 */
#include "config.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "conf/conf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct dt_conf *load(const char *text, size_t bytes)
{
    struct dt_conf_problems problems, warnings;
    struct dt_conf *conf =
        dt_conf_load_text("/fuzz.yaml", text, bytes, &problems, &warnings);
    if (!conf && problems.count == 0)
        abort();
    dt_conf_problems_fini(&problems);
    dt_conf_problems_fini(&warnings);
    return conf;
}

static char *dump(const struct dt_conf *conf, size_t *bytes)
{
    char *text = NULL;
    FILE *out = open_memstream(&text, bytes);
    if (!out)
        abort();
    dt_conf_dump(conf, out);
    fclose(out);
    return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct dt_error err;
    struct dt_conf *conf = load((const char *)data, size);
    if (!conf)
        return 0;
    size_t bytes;
    char *text = dump(conf, &bytes);
    struct dt_conf *again = load(text, bytes);
    if (!again || again->fingerprint != conf->fingerprint)
        abort();
    free(text);
    dt_conf_destroy(again);
    for (int world = 1; world < 5; world++)
        if (dt_conf_resolve_batch(conf, world, &err) == 0)
            dt_conf_resolve_steps(conf, world, &err);
    dt_conf_destroy(conf);
    return 0;
}
