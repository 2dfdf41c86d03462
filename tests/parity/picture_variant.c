/* SPDX-License-Identifier: Apache-2.0 */
/* picture_variant.c - reads vision.json, and makes pictures as its script does
 */
#include "config.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/parity/picture_variant.h"
#include "tests/parity/variant.h"

/* What bytes become: the processor's numbers, as torchvision computes. */
static void read_colors(struct picture_variant *v)
{
    const json_t *processor = json_object_get(v->stored, "processor");
    const json_t *image = json_object_get(processor, "image_processor");
    struct dt_image_processor p = {.factor = 1.0 / 255};
    for (size_t c = 0; c < 3; c++) {
        p.mean[c] = variant_number_at(json_object_get(image, "image_mean"), c);
        p.std[c] = variant_number_at(json_object_get(image, "image_std"), c);
    }
    v->colors = dt_image_table(&p);
}

void picture_variant_open(struct picture_variant *v, const json_t *all,
                          const char *name, bool packed)
{
    static const size_t documents[PICTURE_DOCUMENTS] = {0, 1, 2, 3};
    struct dt_error err = {0};
    *v = (struct picture_variant){.all = all};
    v->stored = json_object_get(json_object_get(all, "variants"), name);
    char *text = json_dumps(json_object_get(v->stored, "config"), 0);
    assert_non_null(text);
    if (dt_model_config_parse(&v->config, text, name, &err) < 0)
        fail_msg("%s", err.text);
    assert_non_null(v->config.vision);
    free(text);
    read_colors(v);
    picture_variant_take(v, documents, PICTURE_DOCUMENTS, packed);
    v->patches = 0;
    for (size_t i = 0; i < v->batch.picture_count; i++)
        v->patches += (size_t)v->pictures[i].height * v->pictures[i].width;
    v->picture_count = v->batch.picture_count;
}

static void free_batch(struct picture_variant *v)
{
    free(v->inputs);
    free(v->targets);
    free(v->doc_start);
    free(v->pixels);
}

void picture_variant_close(struct picture_variant *v)
{
    free_batch(v);
    dt_model_config_fini(&v->config);
}

void picture_variant_options(const struct picture_variant *v,
                             struct dt_model_options *options)
{
    options->B = PICTURE_DOCUMENTS;
    options->T = PICTURE_WIDTH;
    options->documents = true;
    options->patches = v->patches;
    options->pictures = v->picture_count;
    options->colors = &v->colors.of[0][0];
}

/* The bytes of picture `number`: those of the script are numbered from left to
 * right and top to bottom, ours by features.
 */
static void add_pixels(struct picture_variant *v, size_t number,
                       const struct dt_batch_picture *picture, uint8_t *to)
{
    const struct dt_vision_config *vision = v->config.vision;
    const size_t bytes = 3 * vision->patch * vision->patch;
    const size_t m = vision->merge, width = picture->width;
    const size_t count = (size_t)picture->height * width;
    float *x = malloc(count * bytes * sizeof(*x));
    char name[32];
    assert_non_null(x);
    snprintf(name, sizeof(name), "image %zu", number);
    variant_hashes(x, count * bytes, name, 1);
    for (size_t i = 0; i < count; i++) {
        const size_t feature = i / (m * m), part = i % (m * m);
        const size_t y = feature / (width / m) * m + part / m;
        const size_t from = y * width + feature % (width / m) * m + part % m;
        for (size_t c = 0; c < bytes; c++)
            to[i * bytes + c] =
                (uint8_t)floor(((double)x[from * bytes + c] + 1) * 128);
    }
    free(x);
}

/* A document being added at position n of the batch. */
struct adding {
    struct picture_variant *v;
    size_t start, n;
    size_t patches; /* of pictures so far */
};

static void add_token(struct adding *a, int32_t id, bool target)
{
    struct picture_variant *v = a->v;
    v->inputs[a->n] = target ? id : -1;
    v->doc_start[a->n] = (int32_t)(a->start % PICTURE_WIDTH);
    if (target && a->n > a->start) {
        v->targets[a->n - 1] = id;
        v->batch.target_count++;
    }
    a->n++;
}

static void add_picture(struct adding *a, size_t number)
{
    struct picture_variant *v = a->v;
    const struct dt_vision_config *vision = v->config.vision;
    const json_t *size =
        json_array_get(json_object_get(v->stored, "images"), number);
    struct dt_batch_picture picture = {
        .height = (uint32_t)variant_number_at(size, 0),
        .width = (uint32_t)variant_number_at(size, 1),
        .first = a->n,
    };
    const size_t patches = (size_t)picture.height * picture.width;
    const size_t bytes = 3 * vision->patch * vision->patch;
    picture.tokens = dt_vision_features(vision, picture.height, picture.width);
    assert_in_range(v->batch.picture_count, 0, PICTURE_MOST - 1);
    v->pixels = realloc(v->pixels, (a->patches + patches) * bytes);
    assert_non_null(v->pixels);
    add_pixels(v, number, &picture, v->pixels + a->patches * bytes);
    a->patches += patches;
    v->pictures[v->batch.picture_count++] = picture;
    for (size_t i = 0; i < picture.tokens; i++)
        add_token(a, vision->token, false);
}

static void add_document(struct adding *a, const json_t *pieces)
{
    a->start = a->n;
    for (size_t i = 0; i < json_array_size(pieces); i++) {
        const json_t *piece = json_array_get(pieces, i);
        if (json_is_integer(piece))
            add_picture(a, (size_t)json_integer_value(piece));
        for (size_t t = 0; t < json_array_size(piece); t++)
            add_token(a, (int32_t)variant_number_at(piece, t), true);
    }
}

void picture_variant_take(struct picture_variant *v, const size_t *documents,
                          size_t count, bool packed)
{
    const size_t each = packed ? 2 : 1, B = (count + each - 1) / each;
    const size_t N = B * PICTURE_WIDTH;
    const json_t *stored = json_object_get(v->stored, "documents");
    struct adding a = {.v = v};
    free_batch(v);
    v->inputs = calloc(N, sizeof(*v->inputs));
    v->targets = malloc(N * sizeof(*v->targets));
    v->doc_start = malloc(N * sizeof(*v->doc_start));
    v->pixels = NULL;
    assert_true(v->inputs && v->targets && v->doc_start);
    v->batch = (struct dt_batch){.B = B,
                                 .T = PICTURE_WIDTH,
                                 .inputs = v->inputs,
                                 .targets = v->targets,
                                 .doc_start = v->doc_start,
                                 .rows = v->rows};
    for (size_t n = 0; n < N; n++) {
        v->targets[n] = DT_IGNORE;
        v->doc_start[n] = (int32_t)(n % PICTURE_WIDTH);
    }
    for (size_t i = 0; i < count; i++) {
        if (i % each == 0)
            a.n = i / each * PICTURE_WIDTH;
        v->first[documents[i]] = a.n;
        add_document(&a, json_array_get(stored, documents[i]));
        v->length[documents[i]] = a.n - v->first[documents[i]];
        assert_in_range(a.n, 1, (i / each + 1) * PICTURE_WIDTH);
    }
    v->batch.pictures = v->pictures;
    v->batch.pixels = v->pixels;
}

/* As the script: hashes of names, norms near one. */
void picture_variant_fill(struct subject *s)
{
    for (size_t i = 0; i < s->layout->param_count; i++)
        variant_fill(s->config, &s->layout->params[i], subject_weights(s, i));
    subject_publish(s);
}
