/* SPDX-License-Identifier: Apache-2.0 */
/* sample_pictures.c - finds the images of prompts, and decodes them */
#include "config.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "batch/loader.h"
#include "run/sample_pictures.h"

/* A prompt of the micro-batch, at its first place. */
struct dt_sample_prompt {
    const int32_t *ids;  /* the same for completions of one prompt */
    size_t at;           /* position of its first token */
    size_t first, count; /* of its pictures */
};

/* An image of a prompt, and where its pixels go. */
struct dt_sample_image {
    struct dt_picture_image image;
    uint64_t number; /* of the prompt */
    uint8_t *pixels;
};

static int no_memory(struct dt_error *err)
{
    return dt_error_set(err, EX_OSERR, "pictures of prompts: out of memory");
}

int dt_sample_pictures_init(struct dt_sample_pictures *p,
                            const struct dt_prompts *prompts, size_t patches,
                            struct dt_error *err)
{
    const struct dt_example_images *images = dt_prompts_images(prompts);
    *p = (struct dt_sample_pictures){.prompts = prompts, .patches = patches};
    if (!images)
        return 0;
    p->row_bytes = dt_image_row_bytes(images->processor);
    p->pixels = calloc(patches + 1, p->row_bytes);
    return p->pixels ? 0 : no_memory(err);
}

void dt_sample_pictures_fini(struct dt_sample_pictures *p)
{
    free(p->pixels);
    free(p->at);
    free(p->of);
    free(p->image);
    *p = (struct dt_sample_pictures){0};
}

void dt_sample_pictures_begin(struct dt_sample_pictures *p)
{
    p->count = p->prompt_count = p->image_count = p->used = 0;
}

/* The array with room for `more` elements; NULL: no memory, and it stays. */
static void *make_room(void *array, size_t *room, size_t used, size_t more,
                       size_t bytes)
{
    if (array && used + more <= *room)
        return array;
    const size_t next = 2 * *room + more + 16;
    void *moved = reallocarray(array, next, bytes);
    if (moved)
        *room = next;
    return moved;
}

static int make_rooms(struct dt_sample_pictures *p, size_t pictures,
                      size_t images, struct dt_error *err)
{
    struct dt_batch_picture *at =
        make_room(p->at, &p->room, p->count, pictures, sizeof(*at));
    p->at = at ? at : p->at;
    struct dt_sample_prompt *of =
        make_room(p->of, &p->prompt_room, p->prompt_count, 1, sizeof(*of));
    p->of = of ? of : p->of;
    struct dt_sample_image *image = make_room(
        p->image, &p->image_room, p->image_count, images, sizeof(*image));
    p->image = image ? image : p->image;
    return at && of && image ? 0 : no_memory(err);
}

/* Repeats the pictures of a prompt that is there already. */
static int repeat(struct dt_sample_pictures *p,
                  const struct dt_sample_prompt *of, size_t at,
                  struct dt_error *err)
{
    const struct dt_sample_prompt first = *of;
    if (make_rooms(p, first.count, 0, err) < 0)
        return -1;
    for (size_t i = first.first; i < first.first + first.count; i++) {
        struct dt_batch_picture picture = p->at[i];
        picture.first = picture.first - first.at + at;
        picture.repeats = p->count - i;
        p->at[p->count++] = picture;
    }
    return 0;
}

/* Appends pictures with pixels of their own, and their images. */
static int append(struct dt_sample_pictures *p, const struct dt_pictures *found,
                  size_t patches, uint64_t number, size_t at,
                  struct dt_error *err)
{
    size_t count, used = p->used, k = 0;
    if (patches > p->patches - p->used)
        return dt_error_set(err, EX_SOFTWARE,
                            "pictures of %zu patches in a micro-batch, and "
                            "memory for %zu: please report this",
                            p->used + patches, p->patches);
    if (make_rooms(p, found->picture_count, found->image_count, err) < 0)
        return -1;
    p->of[p->prompt_count++] =
        (struct dt_sample_prompt){dt_prompts_ids(p->prompts, number, &count),
                                  at, p->count, found->picture_count};
    for (size_t i = 0; i < found->image_count; i++) {
        p->image[p->image_count++] = (struct dt_sample_image){
            found->images[i], number, p->pixels + used * p->row_bytes};
        for (uint32_t n = found->images[i].pictures; n > 0; n--, k++) {
            struct dt_batch_picture picture = found->pictures[k];
            used += (size_t)picture.height * picture.width;
            picture.first += at;
            p->at[p->count++] = picture;
        }
    }
    p->used = used;
    return 0;
}

int dt_sample_pictures_add(struct dt_sample_pictures *p, uint64_t number,
                           size_t at, struct dt_error *err)
{
    const struct dt_example_images *images = dt_prompts_images(p->prompts);
    struct dt_pictures found;
    size_t count, words, patches;
    if (!images)
        return 0;
    const int32_t *ids = dt_prompts_ids(p->prompts, number, &count);
    for (size_t i = 0; i < p->prompt_count; i++)
        if (p->of[i].ids == ids)
            return repeat(p, &p->of[i], at, err);
    const uint32_t *example = dt_prompts_example(p->prompts, number, &words);
    int rc = dt_pictures_find(&found, &patches, example, words, images, err);
    if (rc == 0)
        rc = append(p, &found, patches, number, at, err);
    dt_pictures_fini(&found);
    return rc;
}

/* The first image that cannot be read is told, whichever thread finds it. */
int dt_sample_pictures_read(const struct dt_sample_pictures *p,
                            struct dt_batch *batch, struct dt_error *err)
{
    const struct dt_example_images *images = dt_prompts_images(p->prompts);
    size_t bad = SIZE_MAX;
#pragma omp parallel for schedule(dynamic) if (p->image_count > 1)
    for (size_t i = 0; i < p->image_count; i++) {
        const struct dt_sample_image *image = &p->image[i];
        struct dt_error own;
        if (dt_pictures_read(image->pixels, &image->image, images, &own))
            continue;
#pragma omp critical
        if (i < bad) {
            bad = i;
            *err = own;
        }
    }
    batch->pictures = p->at;
    batch->picture_count = p->count;
    batch->pixels = p->pixels;
    if (bad == SIZE_MAX)
        return 0;
    dt_error_prefix(err, "image %" PRIu32, p->image[bad].image.number);
    return dt_prompts_name(p->prompts, p->image[bad].number, err);
}

/* --- the most of them --- */

/* What a micro-batch has at most: that of the prompts with the most, or as much
 * as fits into its tokens.
 */
static size_t most_of(struct dt_most_item *items, size_t count,
                      const struct dt_sample_room *room)
{
    const size_t rows = room->rows < room->prompts ? room->rows : room->prompts;
    const size_t fit = dt_most_value(items, count, 1, room->tokens);
    for (size_t i = 0; i < count; i++)
        items[i].room = 1;
    const size_t largest = dt_most_value(items, count, 1, rows);
    return fit < largest ? fit : largest;
}

/* Counts prompt p of the stream. */
static int count_prompt(const struct dt_prompts *prompts, uint64_t p,
                        struct dt_sample_most *most,
                        struct dt_most_item *pictures,
                        struct dt_most_item *patches, struct dt_error *err)
{
    struct dt_pictures found;
    size_t words, count, n = 0;
    const uint32_t *example = dt_prompts_example(prompts, p, &words);
    dt_prompts_ids(prompts, p, &count);
    int rc = dt_pictures_find(&found, &n, example, words,
                              dt_prompts_images(prompts), err);
    *pictures = (struct dt_most_item){found.picture_count, count};
    *patches = (struct dt_most_item){n, count};
    dt_pictures_fini(&found);
    if (n > most->prompt_patches)
        most->prompt_patches = n;
    if (pictures->value > most->prompt_pictures)
        most->prompt_pictures = pictures->value;
    most->all_patches += (double)n;
    most->all_pictures += (double)pictures->value;
    most->tokens += (double)count;
    return rc;
}

int dt_sample_pictures_most(const struct dt_prompts *prompts,
                            const struct dt_sample_room *room,
                            struct dt_sample_most *most, struct dt_error *err)
{
    const size_t count = dt_prompts_stats(prompts).count;
    struct dt_most_item *pictures = calloc(count, sizeof(*pictures));
    struct dt_most_item *patches = calloc(count, sizeof(*patches));
    size_t n = 0, shortest = SIZE_MAX;
    int rc = pictures && patches ? 0 : no_memory(err);
    *most = (struct dt_sample_most){0};
    for (uint64_t p = 0; p < count && rc == 0 && dt_prompts_images(prompts);
         p++) {
        rc = count_prompt(prompts, p, most, &pictures[n], &patches[n], err);
        if (pictures[n].value == 0)
            continue;
        shortest = pictures[n].room < shortest ? pictures[n].room : shortest;
        n++;
    }
    if (rc == 0 && n > 0) {
        const size_t places = room->tokens / shortest;
        most->places = places < room->rows ? places : room->rows;
        most->pictures = most_of(pictures, n, room);
        most->patches = most_of(patches, n, room);
    }
    free(pictures);
    free(patches);
    return rc;
}
