/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_rates.c - any bytes as a file of rates: an error of one line, or rates
 * that read back from what is written of them
 */
#include "config.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "forecast/rates.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool parse(char *text, struct dt_rates *rates)
{
    struct dt_error err = {0};
    if (dt_rates_parse("rates", text, rates, &err) == 0)
        return true;
    if (!err.text[0] || strpbrk(err.text, "\n\r\x1b"))
        abort();
    return false;
}

/* To the four digits that are written. */
static bool same(const struct dt_rates *a, const struct dt_rates *b)
{
    for (int i = 0; i < DT_RATES; i++)
        if (fabs(a->of[i] - b->of[i]) > 1e-3 * a->of[i])
            return false;
    return a->gpu == b->gpu && a->ranks_per_node == b->ranks_per_node;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct dt_rates rates, again;
    char *text = strndup((const char *)data, size), *written = NULL;
    size_t bytes;
    if (text && parse(text, &rates)) {
        FILE *out = open_memstream(&written, &bytes);
        if (!out)
            abort();
        dt_rates_print(&rates, out);
        fclose(out);
        if (!parse(written, &again) || !same(&rates, &again))
            abort();
    }
    free(written);
    free(text);
    return 0;
}
