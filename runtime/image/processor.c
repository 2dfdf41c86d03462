/* SPDX-License-Identifier: Apache-2.0 */
/*
 * processor.c - reads preprocessor_config.json and processor_config.json
 *
 * Defaults are those of the classes of transformers 5.24, which ignore keys
 * that they do not know. A key that they know and that asks for other pixels
 * than this room computes is refused by its name.
 */
#include "config.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>
#include <xxhash.h>

#include "base/json.h"
#include "base/str.h"
#include "image/processor.h"

enum {
    MOST_SIDE = 4096, /* of a size, so that no file asks for all memory */
    MOST_LONGEST = 16384,
    MOST_PIXELS = 1 << 26,
    MOST_PATCH = 256,
};

#define CLIP                                                                   \
    .mean = {0.48145466, 0.4578275, 0.40821073},                               \
    .std = {0.26862954, 0.26130258, 0.27577711}
#define HALF .mean = {0.5, 0.5, 0.5}, .std = {0.5, 0.5, 0.5}

#define CENTER_OF_224                                                          \
    {                                                                          \
        .kind = DT_IMAGE_SHORTEST, .filter = DT_IMAGE_BICUBIC, .height = 224,  \
        .width = 224, .crop_height = 224, .crop_width = 224, CLIP              \
    }

/* Classes of image processors. */
struct type {
    const char *names[2]; /* up to ImageProcessor */
    bool crops;           /* do_center_crop counts */
    bool pads;            /* do_pad is of a square */
    bool square;          /* a size of one number is of both sides */
    const char *tokens;   /* key of the tokens of a tile or an image, or NULL */
    struct dt_image_processor usual;
};

static const struct type types[] = {
    {.names = {"CLIP"}, .crops = true, .usual = CENTER_OF_224},
    {.names = {"Llava"}, .crops = true, .pads = true, .usual = CENTER_OF_224},
    {.names = {"Siglip"},
     .crops = true,
     .usual = {.kind = DT_IMAGE_FIXED,
               .filter = DT_IMAGE_BICUBIC,
               .height = 224,
               .width = 224,
               HALF}},
    {.names = {"Gemma3"},
     .square = true,
     .tokens = "image_seq_length",
     .usual = {.kind = DT_IMAGE_FIXED,
               .filter = DT_IMAGE_BILINEAR,
               .height = 224,
               .width = 224,
               HALF}},
    {.names = {"Qwen2VL", "Qwen2_5_VL"},
     .usual = {.kind = DT_IMAGE_PIXELS,
               .filter = DT_IMAGE_BICUBIC,
               .min_pixels = 56 * 56,
               .max_pixels = 28 * 28 * 1280,
               .patch = 14,
               .temporal = 2,
               .merge = 2,
               CLIP}},
    {.names = {"Idefics3", "SmolVLM"},
     .tokens = "image_seq_len",
     .usual = {.kind = DT_IMAGE_TILES,
               .filter = DT_IMAGE_LANCZOS,
               .longest = 4 * 364,
               .tile = 364,
               .split = true,
               HALF}},
};

/* The keys of one object, with their problems. */
struct keys {
    const json_t *object;
    const char *within; /* before keys in messages: "size." of those of size */
    struct dt_error *problems;
};

/* A key that is null counts as absent. */
static const json_t *find(const struct keys *keys, const char *key)
{
    const json_t *found = json_object_get(keys->object, key);
    return json_is_null(found) ? NULL : found;
}

static void wrong(const struct keys *keys, const char *key, const char *wanted)
{
    dt_error_add(keys->problems, EX_DATAERR, "%s%s: expected %s", keys->within,
                 key, wanted);
}

static void read_bool(const struct keys *keys, const char *key, bool *value)
{
    const json_t *found = find(keys, key);
    if (!found)
        return;
    if (!json_is_boolean(found))
        wrong(keys, key, "true or false");
    else
        *value = json_is_true(found);
}

/* False: it is not there. */
static bool read_count(const struct keys *keys, const char *key, uint64_t least,
                       uint64_t most, uint64_t *value)
{
    char wanted[80];
    const json_t *found = find(keys, key);
    if (!found)
        return false;
    json_int_t number = json_is_integer(found) ? json_integer_value(found) : -1;
    if (number < 0 || (uint64_t)number < least || (uint64_t)number > most) {
        snprintf(wanted, sizeof(wanted), "a whole number from %llu to %llu",
                 (unsigned long long)least, (unsigned long long)most);
        wrong(keys, key, wanted);
    } else {
        *value = (uint64_t)number;
    }
    return true;
}

static bool read_side(const struct keys *keys, const char *key, uint32_t most,
                      uint32_t *value)
{
    uint64_t number = *value;
    bool found = read_count(keys, key, 1, most, &number);
    *value = (uint32_t)number;
    return found;
}

static void read_colors(const struct keys *keys, const char *key, bool is_std,
                        double values[3])
{
    const json_t *found = find(keys, key);
    bool good = json_array_size(found) == 3;
    if (!found)
        return;
    for (size_t c = 0; good && c < 3; c++) {
        const json_t *item = json_array_get(found, c);
        values[c] = json_number_value(item);
        good = json_is_number(item) && isfinite(values[c]) &&
               (!is_std || values[c] > 0);
    }
    if (!good)
        wrong(keys, key,
              is_std ? "3 numbers above 0" : "3 numbers, one for each color");
}

/* Steps that the reference can leave out, and this room cannot. */
static void read_steps(const struct keys *keys,
                       struct dt_image_processor *processor)
{
    static const char *const steps[] = {"do_resize", "do_rescale",
                                        "do_normalize"};
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        bool done = true;
        read_bool(keys, steps[i], &done);
        if (!done)
            wrong(keys, steps[i],
                  "true: images are always resized, rescaled "
                  "and normalized here");
    }
    read_colors(keys, "image_mean", false, processor->mean);
    read_colors(keys, "image_std", true, processor->std);
    const json_t *factor = find(keys, "rescale_factor");
    if (factor)
        processor->factor = json_number_value(factor);
    if (!isfinite(processor->factor) || !(processor->factor > 0))
        wrong(keys, "rescale_factor", "a number above 0");
    if (find(keys, "pad_size"))
        wrong(keys, "pad_size", "null: images are not padded to a size here");
    uint64_t number;
    if (read_count(keys, "resample", 1, 3, &number))
        processor->filter = (enum dt_image_filter)number;
}

/* A size that is no object: one number, or height and width. */
static void read_plain_size(const struct keys *keys, const char *key,
                            uint32_t *height, uint32_t *width)
{
    const json_t *found = find(keys, key);
    const json_t *pair[] = {json_array_get(found, 0), json_array_get(found, 1)};
    const json_int_t h = json_integer_value(pair[0] ? pair[0] : found);
    const json_int_t w = json_integer_value(pair[1] ? pair[1] : found);
    if ((json_is_array(found) && json_array_size(found) != 2) || h < 1 ||
        w < 1 || h > MOST_SIDE || w > MOST_SIDE) {
        wrong(keys, key, "a number of pixels, or height and width");
        return;
    }
    *height = (uint32_t)h;
    *width = (uint32_t)w;
}

/* The keys of a size. Others than the known ones, which NULL ends, are refused:
 * they would make another size of it.
 */
static struct keys size_keys(const struct keys *keys, const char *key,
                             const char *within, const char *const known[])
{
    struct keys size = {find(keys, key), within, keys->problems};
    const char *name;
    json_t *value;
    if (!json_is_object(size.object))
        wrong(keys, key, "an object");
    json_object_foreach((json_t *)(uintptr_t)size.object, name, value)
    {
        size_t i = 0;
        while (known[i] && strcmp(known[i], name) != 0)
            i++;
        if (!known[i] && !json_is_null(value))
            dt_error_add(keys->problems, EX_DATAERR,
                         "%s%s: such a size is not computed here", within,
                         name);
    }
    return size;
}

static void read_fixed_size(const struct keys *keys, const struct type *type,
                            struct dt_image_processor *processor)
{
    const json_t *found = find(keys, "size");
    bool square = type->square;
    if (!found)
        return;
    if (json_is_object(found)) {
        static const char *const known[] = {"shortest_edge", "height", "width",
                                            NULL};
        struct keys size = size_keys(keys, "size", "size.", known);
        if (read_side(&size, "shortest_edge", MOST_SIDE, &processor->height)) {
            processor->kind = DT_IMAGE_SHORTEST;
            processor->width = processor->height;
        } else if (read_side(&size, "height", MOST_SIDE, &processor->height) &&
                   read_side(&size, "width", MOST_SIDE, &processor->width)) {
            processor->kind = DT_IMAGE_FIXED;
        } else {
            wrong(keys, "size", "shortest_edge, or height and width");
        }
        return;
    }
    read_bool(keys, "default_to_square", &square);
    read_plain_size(keys, "size", &processor->height, &processor->width);
    processor->kind =
        square || json_is_array(found) ? DT_IMAGE_FIXED : DT_IMAGE_SHORTEST;
}

static void read_crop(const struct keys *keys, const struct type *type,
                      struct dt_image_processor *processor)
{
    bool crops = processor->crop_height > 0;
    if (type->crops)
        read_bool(keys, "do_center_crop", &crops);
    if (!crops || !type->crops) {
        processor->crop_height = processor->crop_width = 0;
        if (processor->kind == DT_IMAGE_SHORTEST)
            wrong(keys, "do_center_crop",
                  "true, or a size of height and width: images of many sizes "
                  "are not computed here");
        return;
    }
    if (json_is_object(find(keys, "crop_size"))) {
        static const char *const known[] = {"height", "width", NULL};
        struct keys crop = size_keys(keys, "crop_size", "crop_size.", known);
        read_side(&crop, "height", MOST_SIDE, &processor->crop_height);
        read_side(&crop, "width", MOST_SIDE, &processor->crop_width);
    } else if (find(keys, "crop_size")) {
        read_plain_size(keys, "crop_size", &processor->crop_height,
                        &processor->crop_width);
    }
    if (processor->crop_height == 0 || processor->crop_width == 0 ||
        processor->crop_height > processor->height ||
        processor->crop_width > processor->width)
        wrong(keys, "crop_size",
              "no more than size: images are not padded here");
}

static void read_pixels(const struct keys *keys,
                        struct dt_image_processor *processor)
{
    static const char *const known[] = {"shortest_edge", "longest_edge", NULL};
    if (find(keys, "size")) {
        struct keys size = size_keys(keys, "size", "size.", known);
        if (json_is_object(size.object))
            processor->min_pixels = processor->max_pixels = 0;
        read_count(&size, "shortest_edge", 1, MOST_PIXELS,
                   &processor->min_pixels);
        read_count(&size, "longest_edge", 1, MOST_PIXELS,
                   &processor->max_pixels);
    }
    read_count(keys, "min_pixels", 1, MOST_PIXELS, &processor->min_pixels);
    read_count(keys, "max_pixels", 1, MOST_PIXELS, &processor->max_pixels);
    if (processor->min_pixels == 0 || processor->max_pixels == 0)
        wrong(keys, "size", "shortest_edge and longest_edge");
    read_side(keys, "patch_size", MOST_PATCH, &processor->patch);
    read_side(keys, "temporal_patch_size", 16, &processor->temporal);
    read_side(keys, "merge_size", 16, &processor->merge);
}

static void read_tiles(const struct keys *keys,
                       struct dt_image_processor *processor)
{
    static const struct {
        const char *key, *within;
    } sizes[] = {{"size", "size."}, {"max_image_size", "max_image_size."}};
    static const char *const known[] = {"longest_edge", NULL};
    uint32_t *const values[] = {&processor->longest, &processor->tile};
    for (int i = 0; i < 2; i++)
        if (find(keys, sizes[i].key)) {
            struct keys size =
                size_keys(keys, sizes[i].key, sizes[i].within, known);
            if (!read_side(&size, "longest_edge",
                           i > 0 ? MOST_SIDE : MOST_LONGEST, values[i]) &&
                json_is_object(size.object))
                wrong(keys, sizes[i].key, "longest_edge");
        }
    read_bool(keys, "do_image_splitting", &processor->split);
}

/* Whether a class has this name, before ImageProcessor, ImageProcessorFast or
 * FeatureExtractor.
 */
static bool is_named(const char *class, const char *name)
{
    const size_t bytes = name ? strlen(name) : 0;
    return bytes > 0 && strncmp(class, name, bytes) == 0 &&
           (strncmp(class + bytes, "ImageProcessor", 14) == 0 ||
            strcmp(class + bytes, "FeatureExtractor") == 0);
}

static const struct type *find_type(const struct keys *keys)
{
    const json_t *found = find(keys, "image_processor_type");
    if (!found)
        found = find(keys, "feature_extractor_type");
    const char *name = json_string_value(found);
    for (size_t i = 0; name && i < sizeof(types) / sizeof(types[0]); i++)
        if (is_named(name, types[i].names[0]) ||
            is_named(name, types[i].names[1]))
            return &types[i];
    dt_error_add(keys->problems, EX_DATAERR,
                 "image_processor_type: %s%s%s: images of CLIP, LLaVA, SigLIP, "
                 "Gemma 3, Qwen2-VL to Qwen3-VL, Idefics3 and SmolVLM are "
                 "computed",
                 name ? "\"" : "", name ? name : "not there",
                 name ? "\" is not known" : "");
    return NULL;
}

static void read_image_keys(const struct type *type, const struct keys *keys,
                            struct dt_image_processor *processor)
{
    bool flag = false;
    *processor = type->usual;
    processor->factor = 1 / 255.0;
    processor->merge = processor->merge > 0 ? processor->merge : 1;
    processor->temporal = processor->temporal > 0 ? processor->temporal : 1;
    read_steps(keys, processor);
    if (processor->kind == DT_IMAGE_PIXELS) {
        read_pixels(keys, processor);
    } else if (processor->kind == DT_IMAGE_TILES) {
        read_tiles(keys, processor);
    } else {
        read_fixed_size(keys, type, processor);
        read_crop(keys, type, processor);
    }
    if (type->pads)
        read_bool(keys, "do_pad", &processor->pad);
    read_bool(keys, "do_pan_and_scan", &flag);
    if (flag)
        wrong(keys, "do_pan_and_scan",
              "false: pan and scan is not computed here");
}

/* Features of a tower with a class token, as processor_config.json of LLaVA
 * counts them; 0: it does not.
 */
static uint32_t llava_tokens(const struct keys *keys,
                             const struct dt_image_processor *processor)
{
    const char *strategy =
        json_string_value(find(keys, "vision_feature_select_strategy"));
    const bool crops = processor->crop_height > 0;
    const uint32_t height = crops ? processor->crop_height : processor->height;
    const uint32_t width = crops ? processor->crop_width : processor->width;
    uint64_t more = 0;
    if (!strategy || processor->patch == 0)
        return 0;
    read_count(keys, "num_additional_image_tokens", 0, 1, &more);
    const uint32_t patches =
        (height / processor->patch) * (width / processor->patch);
    return patches + (uint32_t)more - (strcmp(strategy, "default") == 0);
}

/* A number that two files have must be one number. */
static void agree(const struct keys *keys, const char *key, uint32_t ours,
                  uint32_t wanted)
{
    if (ours > 0 && wanted > 0 && ours != wanted)
        dt_error_add(keys->problems, EX_DATAERR,
                     "%s%s: %lu, and %lu by the model's config.json: is it the "
                     "processor of another model?",
                     keys->within, key, (unsigned long)ours,
                     (unsigned long)wanted);
}

/* The shorter side of an image or a tile as the tower sees it. */
static uint32_t seen_side(const struct dt_image_processor *processor)
{
    const bool crops = processor->crop_height > 0;
    const uint32_t height = crops ? processor->crop_height : processor->height;
    const uint32_t width = crops ? processor->crop_width : processor->width;
    if (processor->kind == DT_IMAGE_TILES)
        return processor->tile;
    return height < width ? height : width;
}

/* Keys of the processor as a whole, and of the tower. */
static void read_counts(const struct type *type, const struct keys *image,
                        const struct keys *whole,
                        const struct dt_image_options *options,
                        struct dt_image_processor *processor)
{
    const bool pixels = processor->kind == DT_IMAGE_PIXELS;
    if (!pixels)
        read_side(whole, "patch_size", MOST_PATCH, &processor->patch);
    agree(pixels ? image : whole, "patch_size", processor->patch,
          options->patch);
    if (options->patch > 0)
        processor->patch = options->patch;
    if (pixels)
        agree(image, "merge_size", processor->merge, options->merge);
    if (options->merge > 0)
        processor->merge = options->merge;
    if (processor->patch > 0 && !pixels &&
        processor->patch > seen_side(processor))
        wrong(whole, "patch_size", "no more than the size of images");
    if (processor->patch == 0)
        wrong(whole, "patch_size", "the side of the tower's patches");
    if (type->tokens) {
        read_side(image, type->tokens, MOST_SIDE, &processor->tokens);
        read_side(whole, type->tokens, MOST_SIDE, &processor->tokens);
    } else if (!pixels) {
        processor->tokens = llava_tokens(whole, processor);
    }
    agree(whole, type->tokens ? type->tokens : "num_additional_image_tokens",
          processor->tokens, options->tokens);
    if (options->tokens > 0)
        processor->tokens = options->tokens;
    if (type->tokens && processor->tokens == 0)
        wrong(whole, type->tokens, "the tokens of an image");
}

static void apply_wishes(const struct type *type,
                         const struct dt_image_options *options,
                         struct dt_error *problems,
                         struct dt_image_processor *processor)
{
    const bool pixels = processor->kind == DT_IMAGE_PIXELS;
    processor->backend = options->backend;
    processor->limits = *options->limits;
    if ((options->min_pixels > 0 || options->max_pixels > 0) && !pixels)
        dt_error_add(problems, EX_CONFIG,
                     "min_pixels and max_pixels: images of this model have "
                     "one size");
    if (options->min_pixels > 0)
        processor->min_pixels = options->min_pixels;
    if (options->max_pixels > 0)
        processor->max_pixels = options->max_pixels;
    if (processor->max_pixels > 0 &&
        processor->min_pixels > processor->max_pixels)
        dt_error_add(problems, EX_DATAERR,
                     "min_pixels: %llu, more than max_pixels, %llu: give both "
                     "(data.image_min_pixels, data.image_max_pixels)",
                     (unsigned long long)processor->min_pixels,
                     (unsigned long long)processor->max_pixels);
    if (options->pad >= 0)
        processor->pad = options->pad;
    processor->unsaid = processor->pad && !type->crops; /* as Llava's */
    if (processor->pad && (pixels || processor->kind == DT_IMAGE_TILES))
        dt_error_add(problems, EX_CONFIG,
                     "padding to a square (data.image_pad): images of this "
                     "model are not padded");
    for (int c = 0; c < 3; c++) {
        const double color = processor->mean[c] * 255;
        if (processor->pad && !(color >= 0 && color < 256))
            dt_error_add(problems, EX_DATAERR,
                         "image_mean: expected colors from 0 to 1");
        else if (processor->pad)
            processor->background[c] = (uint8_t)color;
    }
}

/* Parses a file of the directory, if it is there. */
static int parse(const char *dir, const char *name, const char *text,
                 json_t **root, struct dt_error *err)
{
    char path[PATH_MAX];
    *root = NULL;
    if (!text)
        return 0;
    if (snprintf(path, sizeof(path), "%s/%s", dir, name) >= (int)sizeof(path))
        return dt_error_set(err, EX_NOINPUT, "%s: the name is too long", dir);
    *root = dt_json_parse(path, text, err);
    if (*root && !json_is_object(*root)) {
        json_decref(*root);
        *root = NULL;
        return dt_error_set(err, EX_DATAERR, "%s: expected an object", path);
    }
    return *root ? 0 : -1;
}

static const char older[] = DT_IMAGE_FILE;
static const char newer[] = DT_IMAGE_FILE_WHOLE;
static const char in_newer[] = "processor_config.json: ";

/* `image` has the keys of images, `whole` those of the processor. */
static int read_files(struct dt_image_processor *processor, const json_t *image,
                      const json_t *whole,
                      const struct dt_image_options *options,
                      struct dt_error *problems)
{
    const struct keys image_keys = {image, "", problems};
    const bool one_file = json_object_get(whole, "image_processor") == image;
    const struct keys whole_keys = {whole, one_file ? "" : in_newer, problems};
    const struct type *type = find_type(&image_keys);
    if (!type)
        return -1;
    read_image_keys(type, &image_keys, processor);
    read_counts(type, &image_keys, &whole_keys, options, processor);
    apply_wishes(type, options, problems, processor);
    return problems->text[0] ? -1 : 0;
}

/* Reads both objects; problems are of file `name`. */
static int read_objects(struct dt_image_processor *processor, const char *dir,
                        const char *name, const json_t *image,
                        const json_t *whole,
                        const struct dt_image_options *options,
                        struct dt_error *err)
{
    struct dt_error problems = {0};
    const int rc = read_files(processor, image, whole, options, &problems);
    dt_str_hide_controls(problems.text); /* keys are a stranger's */
    return rc == 0 ? 0
                   : dt_error_set(err, problems.status, "%s/%s: %s", dir, name,
                                  problems.text);
}

int dt_image_processor_parse(struct dt_image_processor *processor,
                             const char *dir,
                             const struct dt_image_files *files,
                             const struct dt_image_options *options,
                             struct dt_error *err)
{
    json_t *whole = NULL, *alone = NULL;
    int rc = -1;
    if (parse(dir, newer, files->whole, &whole, err) < 0)
        return -1;
    const json_t *image = json_object_get(whole, "image_processor");
    const char *name = newer;
    if (!json_is_object(image)) {
        if (parse(dir, older, files->image, &alone, err) < 0)
            goto done;
        image = alone;
        name = older;
    }
    if (!image) {
        dt_error_set(err, EX_NOINPUT,
                     "%s: no %s and no %s, which say how a model sees images: "
                     "copy those of the model into it",
                     dir, older, newer);
        goto done;
    }
    rc = read_objects(processor, dir, name, image, whole, options, err);
done:
    json_decref(whole);
    json_decref(alone);
    return rc;
}

uint64_t dt_image_processor_hash(const struct dt_image_processor *p)
{
    const uint64_t numbers[] = {
        p->kind,        p->backend,    p->filter, p->height,     p->width,
        p->crop_height, p->crop_width, p->pad,    p->min_pixels, p->max_pixels,
        p->longest,     p->tile,       p->split,  p->patch,      p->merge,
        p->temporal,    p->tokens,
    };
    const struct dt_image_table colors = dt_image_table(p);
    uint64_t hash = XXH3_64bits(numbers, sizeof(numbers));
    hash = XXH3_64bits_withSeed(&colors, sizeof(colors), hash);
    return XXH3_64bits_withSeed(p->background, sizeof(p->background), hash);
}
