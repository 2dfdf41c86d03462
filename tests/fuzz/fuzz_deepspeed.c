/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_deepspeed.c - any bytes as a DeepSpeed file: an answer, never a crash
 *
 * What is refused has a line that says why.
 */
#include "config.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "conf/conf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct dt_error err;
    char *text = strndup((const char *)data, size), *lines = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&lines, &bytes);
    if (!text || !out)
        abort();
    int rc = dt_conf_explain_deepspeed_text("/fuzz.json", text, out, &err);
    fclose(out);
    if (rc < 0 && bytes == 0)
        abort();
    free(lines);
    free(text);
    return 0;
}
