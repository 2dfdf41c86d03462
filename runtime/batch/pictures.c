/* SPDX-License-Identifier: Apache-2.0 */
/* pictures.c - finds images among tokens, and reads their pixels */
#include "config.h"

#include <inttypes.h>
#include <stdlib.h>

#include "batch/pictures.h"
#include "image/store.h"

/* --- of an example --- */

/* Plans an image and finds its span; *plan is that of all of its pictures. -1:
 * EX_DATAERR, no image that the processor makes.
 */
static int find_span(struct dt_image_span *span, struct dt_image_plan *plan,
                     const struct dt_example_image *image,
                     const struct dt_image_processor *processor,
                     struct dt_error *err)
{
    if (dt_image_plan(plan, processor, image->height, image->width, err) < 0)
        return -1;
    const uint32_t tokens = plan->tokens / plan->tiles;
    bool fits = image->pictures == plan->tiles;
    for (uint32_t p = 1; fits && p < plan->tiles; p++)
        fits = image->first[p] - image->first[p - 1] >= tokens;
    if (!fits)
        return dt_error_set(err, EX_DATAERR,
                            "an image of %" PRIu32 " x %" PRIu32 " pixels has "
                            "other tokens than this image processor gives it: "
                            "remove the cache",
                            image->width, image->height);
    *span = (struct dt_image_span){
        .begin = image->first[0],
        .end = (size_t)image->first[plan->tiles - 1] + tokens,
        .pictures = image->pictures,
        .patches = plan->patches,
    };
    return 0;
}

static int add_span(struct dt_image_spans *spans, struct dt_image_span span,
                    struct dt_error *err)
{
    if (spans->count == spans->room) {
        const size_t room = spans->room ? 2 * spans->room : 8;
        struct dt_image_span *at = reallocarray(spans->at, room, sizeof(*at));
        if (!at)
            return dt_error_set(err, EX_OSERR, "out of memory");
        spans->at = at;
        spans->room = room;
    }
    spans->at[spans->count++] = span;
    return 0;
}

static int refuse_words(struct dt_error *err)
{
    return dt_error_set(err, EX_DATAERR,
                        "damaged: its images are not among its tokens: remove "
                        "the cache");
}

int dt_image_spans_find(struct dt_image_spans *spans, const uint32_t *example,
                        size_t count, const struct dt_example_images *options,
                        struct dt_example_parts *parts, struct dt_error *err)
{
    struct dt_example_image image;
    struct dt_image_plan plan;
    struct dt_image_span span;
    size_t end = 0;
    spans->count = 0;
    if (!dt_example_find(example, count, parts))
        return refuse_words(err);
    struct dt_example_parts rest = *parts;
    while (dt_example_next_image(&rest, &image)) {
        if (find_span(&span, &plan, &image, options->processor, err) < 0)
            return -1;
        if (span.begin < end || span.end > parts->token_count)
            return refuse_words(err);
        if (add_span(spans, span, err) < 0)
            return -1;
        end = span.end;
    }
    return 0;
}

void dt_image_spans_fini(struct dt_image_spans *spans)
{
    free(spans->at);
    *spans = (struct dt_image_spans){0};
}

size_t dt_image_spans_end(const struct dt_image_spans *spans, size_t begin,
                          size_t limit)
{
    for (size_t i = 0; i < spans->count; i++)
        if (spans->at[i].begin >= begin && spans->at[i].begin < limit &&
            spans->at[i].end > limit)
            return spans->at[i].begin;
    return limit;
}

size_t dt_image_spans_begin(const struct dt_image_spans *spans, size_t least)
{
    for (size_t i = 0; i < spans->count; i++)
        if (spans->at[i].begin < least && spans->at[i].end > least)
            return spans->at[i].end;
    return least;
}

struct dt_image_sums dt_image_spans_sum(const struct dt_image_spans *spans,
                                        size_t begin, size_t end)
{
    struct dt_image_sums sums = {0};
    for (size_t i = 0; i < spans->count; i++)
        if (spans->at[i].begin >= begin && spans->at[i].end <= end) {
            sums.images++;
            sums.pictures += spans->at[i].pictures;
            sums.patches += spans->at[i].patches;
        }
    return sums;
}

/* --- of a row --- */

static bool holds(const struct dt_picture_part *part,
                  const struct dt_image_span *span)
{
    return span->begin >= part->from && span->end <= part->from + part->count;
}

/* Appends an image of a part. */
static void append_image(struct dt_pictures *found,
                         const struct dt_picture_part *part, uint32_t line,
                         uint32_t number, const struct dt_example_image *image)
{
    struct dt_picture_image *to = &found->images[found->image_count++];
    *to = (struct dt_picture_image){
        .example = part->example,
        .line = line,
        .number = number,
        .height = image->height,
        .width = image->width,
        .pictures = image->pictures,
    };
    memcpy(to->sha256, image->sha256, sizeof(to->sha256));
}

/* Appends its pictures, whose plan is this. */
static void append_pictures(struct dt_pictures *found,
                            const struct dt_picture_part *part,
                            const struct dt_example_image *image,
                            const struct dt_image_plan *plan, size_t repeats)
{
    for (uint32_t p = 0; p < plan->tiles; p++)
        found->pictures[found->picture_count++] = (struct dt_batch_picture){
            .height = plan->grid_height,
            .width = plan->grid_width,
            .first = image->first[p] - part->from,
            .tokens = plan->tokens / plan->tiles,
            .repeats = repeats,
        };
}

/* Takes an image from those that are left. False: there are none. */
static bool take(struct dt_image_sums *left, const struct dt_image_span *span)
{
    if (left->images == 0 || left->pictures < span->pictures ||
        left->patches < span->patches)
        return false;
    left->images--;
    left->pictures -= span->pictures;
    left->patches -= span->patches;
    return true;
}

static bool are_none(const struct dt_image_sums *left)
{
    return left->images == 0 && left->pictures == 0 && left->patches == 0;
}

/* The words of a mapped file may change, so what fits into the arrays is
 * counted again.
 */
int dt_pictures_add(struct dt_pictures *found,
                    const struct dt_picture_part *part,
                    const struct dt_picture_part *before,
                    const struct dt_example_images *options,
                    struct dt_error *err)
{
    struct dt_example_parts parts;
    struct dt_example_image image;
    struct dt_image_plan plan;
    struct dt_image_span span;
    struct dt_image_sums left = part->sums, shared = part->shared;
    size_t other = found->picture_count - (before ? before->sums.pictures : 0);
    bool same = dt_example_find(part->example, part->words, &parts);
    for (uint32_t i = 1; same && dt_example_next_image(&parts, &image); i++) {
        if (find_span(&span, &plan, &image, options->processor, err) < 0)
            return -1;
        const bool both = before && holds(before, &span);
        if (holds(part, &span)) {
            same = take(&left, &span) && (!both || take(&shared, &span));
            if (!same)
                break;
            append_pictures(found, part, &image, &plan,
                            both ? found->picture_count - other : 0);
            if (!both)
                append_image(found, part, parts.line, i, &image);
        }
        other += both ? plan.tiles : 0;
    }
    return same && are_none(&left) && are_none(&shared)
               ? 0
               : dt_error_set(err, EX_DATAERR, "changed while it is read");
}

int dt_pictures_find(struct dt_pictures *found, size_t *patches,
                     const uint32_t *example, size_t words,
                     const struct dt_example_images *options,
                     struct dt_error *err)
{
    struct dt_picture_part part = {.example = example, .words = words};
    struct dt_image_spans spans = {0};
    struct dt_example_parts parts;
    *found = (struct dt_pictures){0};
    int rc = dt_image_spans_find(&spans, example, words, options, &parts, err);
    if (rc == 0) {
        part.count = parts.token_count;
        part.sums = dt_image_spans_sum(&spans, 0, part.count);
    }
    dt_image_spans_fini(&spans);
    if (rc < 0)
        return -1;
    *patches = part.sums.patches;
    found->images = calloc(part.sums.images + 1, sizeof(*found->images));
    found->pictures = calloc(part.sums.pictures + 1, sizeof(*found->pictures));
    return found->images && found->pictures
               ? dt_pictures_add(found, &part, NULL, options, err)
               : dt_error_set(err, EX_OSERR, "out of memory");
}

void dt_pictures_fini(struct dt_pictures *found)
{
    free(found->images);
    free(found->pictures);
    *found = (struct dt_pictures){0};
}

/* Decodes an image of the store; its pixels are those that were planned. */
static int decode(struct dt_image *to, const struct dt_picture_image *from,
                  const struct dt_example_images *options, struct dt_error *err)
{
    const struct dt_image_limits *limits = &options->processor->limits;
    char name[DT_SHA256_HEX];
    struct dt_image_file file;
    dt_sha256_text(from->sha256, name);
    if (dt_image_store_get(&file, options->store, name, limits, err) < 0)
        return -1;
    int rc = dt_image_decode(to, file.data, file.bytes, limits, err);
    free(file.data);
    if (rc == 0 && (to->height != from->height || to->width != from->width)) {
        rc = dt_error_set(err, EX_DATAERR,
                          "%" PRIu32 " x %" PRIu32 " pixels, but its example "
                          "says %" PRIu32 " x %" PRIu32 ": remove the cache",
                          to->width, to->height, from->width, from->height);
        dt_image_fini(to);
    }
    return rc;
}

uint8_t *dt_pictures_read(uint8_t *pixels, const struct dt_picture_image *image,
                          const struct dt_example_images *options,
                          struct dt_error *err)
{
    const struct dt_image_processor *processor = options->processor;
    struct dt_image_plan plan;
    struct dt_image decoded = {0};
    int rc =
        dt_image_plan(&plan, processor, image->height, image->width, err) < 0 ||
                decode(&decoded, image, options, err) < 0
            ? -1
            : dt_image_rows(pixels, &plan, processor, &decoded, err);
    dt_image_fini(&decoded);
    return rc < 0 ? NULL
                  : pixels + plan.patches * dt_image_row_bytes(processor);
}
