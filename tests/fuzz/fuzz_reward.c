/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_reward.c - any bytes as the answer of a program that gives rewards */
#include "config.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "reward/reward_impl.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* An error is one line of text that a terminal can show. */
static void check_error(const struct dt_error *err)
{
    if (!err->text[0])
        abort();
    for (const char *s = err->text; *s; s++)
        if (*s < ' ' || *s > '~')
            abort();
}

static void read_reply(const char *line, size_t bytes,
                       const struct dt_conf_list *channels)
{
    const struct dt_reward_form form = {
        .id = 1, .count = 2, .channels = channels};
    struct dt_error err = {.text = ""};
    double values[4];
    size_t n = form.count * (channels->count ? channels->count : 1);
    if (dt_reward_reply(line, bytes, &form, values, &err) < 0)
        check_error(&err);
    else
        for (size_t i = 0; i < n; i++)
            if (isinf(values[i]))
                abort();
}

/* The same bytes as what a model has written. */
static void read_text(const char *text, size_t bytes)
{
    static char think[] = "think", answer[] = "answer";
    static char *const tags[] = {think, answer};
    static const double numbers[] = {1, 2, 2};
    const struct dt_piece piece = {.s = text, .n = bytes};
    double value;
    if (dt_piece_last_number(piece, &value) && !isfinite(value))
        abort();
    dt_piece_arithmetic(piece, numbers, 3, &value);
    dt_piece_has_elements(piece, tags, 2);
    if (dt_piece_trim(piece).n > bytes)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char a[] = "a", b[] = "b";
    static char *names[] = {a, b};
    static const struct dt_conf_list none, two = {.text = names, .count = 2};
    struct dt_error err = {.text = ""};
    char *line = malloc(size + 1); /* nothing may be read behind it */
    if (!line)
        return 0;
    memcpy(line, data, size);
    char *exact = realloc(line, size ? size : 1);
    line = exact ? exact : line;
    read_reply(line, size, &none);
    read_reply(line, size, &two);
    read_text(line, size);
    if (dt_reward_ready(line, size, &err) < 0)
        check_error(&err);
    free(line);
    return 0;
}
