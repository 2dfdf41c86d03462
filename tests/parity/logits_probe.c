/* SPDX-License-Identifier: Apache-2.0 */
/*
 * logits_probe.c - the logits of a model directory, for another program
 *
 * Usage: logits_probe DIR ID...
 *
 * Prints a line for each of the tokens: the logits of what comes next, in fp32.
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>

#include "model/model.h"
#include "tests/parity/logits.h"
#include "weights/weights.h"

static struct dt_error err;

static int fail(void)
{
    fprintf(stderr, "%s\n", err.text);
    return err.status;
}

int main(int argc, char **argv)
{
    enum { LONGEST = 64 };
    struct dt_model_config config;
    int32_t ids[LONGEST];
    size_t T = (size_t)argc - 2;
    if (argc < 3 || T > LONGEST)
        return EX_USAGE;
    for (size_t t = 0; t < T; t++)
        ids[t] = atoi(argv[t + 2]);
    static const float colors[3 * 256]; /* there is no picture */
    const struct dt_model_options options = {
        .B = 1, .T = T, .patches = 1024, .pictures = 1, .colors = colors};
    const struct dt_batch batch = {.B = 1, .T = T, .inputs = ids};

    if (dt_model_config_load(&config, argv[1], &err) < 0)
        return fail();
    struct dt_layout *layout = dt_model_layout(&config, 1, &err);
    struct dt_buffer *buf = dt_buffer_create(
        &dt_cpu, layout->count * sizeof(float), "weights", &err);
    struct dt_view weights = dt_view_of(buf, DT_F32);
    if (dt_weights_load(argv[1], layout, weights, &err) < 0)
        return fail();
    const struct dt_exec exec = dt_exec_cpu();
    struct dt_model *model =
        dt_model_create(&config, layout, &exec, dt_places_flat(weights),
                        (struct dt_places){0}, &options, &err);
    if (!model || dt_model_bind(model, &batch, false, &err) < 0)
        return fail();
    float *logits = calloc(config.vocab_size, sizeof(*logits));
    for (size_t u = 0; u + 1 < layout->unit_count; u++)
        dt_model_forward(model, u);
    for (size_t t = 0; t < T; t++) {
        if (position_logits(model, 0, t, logits, &err) < 0)
            return fail();
        for (size_t v = 0; v < config.vocab_size; v++)
            printf("%.9g%c", (double)logits[v],
                   v + 1 < config.vocab_size ? ' ' : '\n');
    }
    free(logits);
    dt_model_destroy(model);
    dt_buffer_destroy(buf);
    dt_layout_destroy(layout);
    dt_model_config_fini(&config);
    return 0;
}
