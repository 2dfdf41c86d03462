/* SPDX-License-Identifier: Apache-2.0 */
/* prompts.c - an endless stream of prompts, and what rewards see of them */
#include "config.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "data/prompts_impl.h"
#include "data/row_images.h"

void dt_prompts_close(struct dt_prompts *prompts)
{
    if (!prompts)
        return;
    for (size_t i = 0; i < prompts->file_count; i++)
        dt_map_fini(&prompts->files[i]);
    free(prompts->files);
    free(prompts->prompts);
    free(prompts->words);
    free(prompts);
}

/* --- the stream --- */

struct dt_prompts_stats dt_prompts_stats(const struct dt_prompts *prompts)
{
    return prompts->stats;
}

uint64_t dt_prompts_hash(const struct dt_prompts *prompts)
{
    const struct dt_example_images *images = dt_prompts_images(prompts);
    return images ? prompts->hash ^ dt_image_processor_hash(images->processor)
                  : prompts->hash;
}

const struct dt_prompt_place *dt_prompts_at(const struct dt_prompts *prompts,
                                            uint64_t p)
{
    uint64_t n = prompts->stats.count, i = p % n;
    if (prompts->shuffle)
        i = dt_rng_permute(prompts->seed, p / n, i, n);
    return &prompts->prompts[prompts->from + i];
}

const int32_t *dt_prompts_ids(const struct dt_prompts *prompts, uint64_t p,
                              size_t *count)
{
    const struct dt_prompt_place *prompt = dt_prompts_at(prompts, p);
    *count = prompt->count;
    return (const int32_t *)prompts->words + prompt->first + prompt->words -
           prompt->count;
}

const struct dt_example_images *dt_prompts_images(
    const struct dt_prompts *prompts)
{
    return prompts->images;
}

const uint32_t *dt_prompts_example(const struct dt_prompts *prompts, uint64_t p,
                                   size_t *words)
{
    const struct dt_prompt_place *prompt = dt_prompts_at(prompts, p);
    *words = prompt->words;
    return prompts->words + prompt->first;
}

int dt_prompts_name(const struct dt_prompts *prompts, uint64_t p,
                    struct dt_error *err)
{
    const struct dt_prompt_place *prompt = dt_prompts_at(prompts, p);
    return dt_error_prefix(err, "%s%s%" PRIu64, prompt->path, prompt->mark,
                           prompt->number);
}

/* --- what rewards see --- */

/* Reads the images of a prompt, and lets ids(count) have one placeholder in
 * place of the tokens of each picture. Returns how many ids are left.
 */
static size_t read_images(const struct dt_prompts *prompts, uint64_t p,
                          const json_t *values, int32_t *ids, size_t count,
                          json_t **names)
{
    const size_t images = json_array_size(values);
    struct dt_example_image *read = calloc(images + 1, sizeof(*read));
    struct dt_example_parts parts;
    size_t words, left = 0;
    const uint32_t *example = dt_prompts_example(prompts, p, &words);
    dt_example_find(example, words, &parts);
    for (size_t i = 0; read && i < images; i++) {
        dt_example_next_image(&parts, &read[i]);
        for (uint32_t k = 0; k < read[i].pictures; k++)
            ids[read[i].first[k]] = prompts->placeholder;
    }
    for (size_t i = 0; i < count; i++)
        if (ids[i] >= 0)
            ids[left++] = ids[i];
    *names = read ? dt_row_images_names(values, read) : NULL;
    free(read);
    return left;
}

/* Sets text, messages and images of *line. */
static int show(const struct dt_prompts *prompts, uint64_t p,
                const struct dt_prompt_parsed *from,
                struct dt_prompt_line *line)
{
    const bool sees = json_array_size(from->images) > 0;
    size_t count;
    const int32_t *tokens = dt_prompts_ids(prompts, p, &count);
    int32_t *ids = calloc(count, sizeof(*ids));
    if (!ids)
        return -1;
    memcpy(ids, tokens, count * sizeof(*ids));
    if (sees)
        count =
            read_images(prompts, p, from->images, ids, count, &line->images);
    if (json_is_array(from->prompt)) {
        line->messages =
            json_incref(sees ? from->turns.messages : from->prompt);
        line->text = dt_detokenize_all(prompts->tokenizer, false, ids, count,
                                       &line->bytes);
    } else {
        line->text = strdup(json_string_value(from->prompt));
        line->bytes = json_string_length(from->prompt);
    }
    free(ids);
    return line->text && (line->images || !sees) ? 0 : -1;
}

int dt_prompts_read(const struct dt_prompts *prompts, uint64_t p,
                    struct dt_prompt_line *line, struct dt_error *err)
{
    const struct dt_prompt_place *prompt = dt_prompts_at(prompts, p);
    struct dt_prompt_parsed from;
    *line = (struct dt_prompt_line){0};
    int rc = dt_prompt_parse(prompts, prompt->line, prompt->bytes, &from, err);
    if (rc == 0 && show(prompts, p, &from, line) < 0)
        rc = dt_error_set(err, EX_OSERR, "data: out of memory");
    if (rc == 0) {
        line->columns = json_incref(from.root);
        json_object_del(line->columns, from.key);
        if (prompts->images) {
            json_object_del(line->columns, "images");
            json_object_del(line->columns, "image");
        }
    }
    dt_prompt_parsed_fini(&from);
    return rc;
}

void dt_prompt_line_fini(struct dt_prompt_line *line)
{
    free(line->text);
    json_decref(line->messages);
    json_decref(line->images);
    json_decref(line->columns);
    *line = (struct dt_prompt_line){0};
}
