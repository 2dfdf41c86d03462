/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pictures.c - the batches of images that the loader makes, and how fast
 *
 * usage: pictures MODEL STORE WORKERS B BATCHES FILE...
 * MODEL has a preprocessor_config.json, and patches of 14 pixels; STORE is an
 * empty directory. Each file is an example of its own. Prints images per second
 * of BATCHES batches, after as many that are not counted.
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "batch/loader.h"
#include "image/store.h"

/* Examples in memory instead of a cache. */
struct dt_examples {
    size_t count;
    struct {
        uint32_t *words;
        size_t count;
    } * at;
};

size_t dt_examples_count(const struct dt_examples *examples)
{
    return examples->count;
}

const uint32_t *dt_example(const struct dt_examples *examples, size_t i,
                           size_t *count)
{
    *count = examples->at[i].count;
    return examples->at[i].words;
}

int dt_examples_check(const struct dt_examples *examples,
                      const uint32_t *tokens, size_t count,
                      struct dt_error *err)
{
    (void)examples, (void)tokens, (void)count, (void)err;
    return 0;
}

int dt_examples_name_line(const struct dt_examples *examples, uint64_t line,
                          struct dt_error *err)
{
    (void)examples, (void)line, (void)err;
    return -1;
}

static void die(const char *what)
{
    fprintf(stderr, "pictures: %s\n", what);
    exit(1);
}

/* Puts a file into the store, and makes an example of its image and a text of
 * two tokens.
 */
static void add_file(struct dt_examples *examples, const char *path,
                     const struct dt_example_images *options)
{
    const struct dt_image_processor *processor = options->processor;
    uint32_t first[1024], n = 0;
    char name[DT_SHA256_HEX];
    struct dt_image_info info;
    struct dt_image_plan plan;
    struct dt_error err;
    struct dt_map map;
    if (dt_map_init(&map, path, &err) < 0 ||
        dt_image_store_put(options->store, map.data, map.bytes, name, &err) <
            0 ||
        dt_image_info(&info, map.data, map.bytes, &processor->limits, &err) <
            0 ||
        dt_image_plan(&plan, processor, info.height, info.width, &err) < 0)
        die(err.text);
    if (plan.tiles > 1024)
        die("too many tiles");
    for (uint32_t p = 0; p < plan.tiles; p++)
        first[p] = p * (plan.tokens / plan.tiles);
    struct dt_example_image image = {.height = info.height,
                                     .width = info.width,
                                     .pictures = plan.tiles,
                                     .first = first};
    dt_sha256(map.data, map.bytes, image.sha256);
    const size_t words = dt_example_images_words(&image, 1);
    uint32_t *to = malloc((words + plan.tokens + 2) * sizeof(*to));
    if (!to)
        die("out of memory");
    dt_example_images_write(to, &image, 1);
    for (; n < plan.tokens + 2; n++)
        to[words + n] = n < plan.tokens ? 0 : 1 | DT_TARGET_BIT;
    examples->at[examples->count].words = to;
    examples->at[examples->count++].count = words + n;
    dt_map_fini(&map);
}

/* Seconds for so many batches. */
static double take(struct dt_loader *loader, int batches)
{
    const double start = dt_clock_now();
    struct dt_batch batch;
    struct dt_error err;
    for (int k = 0; k < batches; k++)
        if (dt_loader_next(loader, &batch, &err) < 0)
            die(err.text);
    return dt_clock_now() - start;
}

int main(int argc, char **argv)
{
    struct dt_image_processor processor;
    struct dt_examples examples = {0};
    struct dt_error err;
    if (argc < 7)
        die("usage: pictures MODEL STORE WORKERS B BATCHES FILE...");
    const struct dt_image_options of_model = {
        .limits = &dt_image_limits_usual, .patch = 14, .pad = -1};
    if (dt_image_processor_load(&processor, argv[1], &of_model, &err) < 0)
        die(err.text);
    struct dt_image_store store = {.dir = argv[2]};
    const struct dt_example_images images = {.processor = &processor,
                                             .store = &store};
    const int batches = atoi(argv[5]);
    const struct dt_loader_options options = {
        .B = (size_t)atoi(argv[4]),
        .multiple_of = 8,
        .world = 1,
        .repeat = true,
        .shuffle = true,
        .workers = (size_t)atoi(argv[3]),
        .prefetch = 2 * (size_t)atoi(argv[3]),
        .timeout_ms = 60000,
    };
    examples.at = calloc((size_t)argc, sizeof(*examples.at));
    if (!examples.at)
        die("out of memory");
    for (int i = 6; i < argc; i++)
        add_file(&examples, argv[i], &images);
    const struct dt_rows_source source = {&examples, 1.0};
    const struct dt_rows_options of_rows = {
        .T = 32768, .end = 1, .vocab_size = 2, .images = &images};
    struct dt_rows *rows = dt_rows_of_examples(&source, 1, &of_rows, &err);
    struct dt_loader *loader =
        rows ? dt_loader_create(rows, &options, 0, &err) : NULL;
    if (!loader)
        die(err.text);
    take(loader, batches);
    printf("%.2f\n",
           (double)batches * (double)options.B / take(loader, batches));
    dt_loader_destroy(loader);
    dt_rows_destroy(rows);
    for (size_t i = 0; i < examples.count; i++)
        free(examples.at[i].words);
    free(examples.at);
    return 0;
}
