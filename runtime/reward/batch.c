/* SPDX-License-Identifier: Apache-2.0 */
/* batch.c - copies samples, so that the caller can continue */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "reward/impl.h"

/* Copies text with U+FFFD for each byte that is no part of a character, and
 * stores its length. NULL: out of memory.
 */
static char *copy_text(const char *text, size_t bytes, size_t *copied)
{
    static const char replacement[] = "\xef\xbf\xbd";
    size_t bad = 0;
    for (size_t at = 0; at < bytes; at++) {
        at += dt_utf8_check(text + at, bytes - at);
        bad += at < bytes;
    }
    char *copy = malloc(bytes + 2 * bad + 1), *end = copy;
    for (size_t at = 0; copy && at < bytes; at++) {
        size_t good = dt_utf8_check(text + at, bytes - at);
        memcpy(end, text + at, good);
        end += good;
        at += good;
        if (at < bytes)
            end = memcpy(end, replacement, 3), end += 3;
    }
    if (copy) {
        *end = '\0';
        *copied = (size_t)(end - copy);
    }
    return copy;
}

/* The completions of a prompt follow each other, and their common parts are
 * copied once: `copy` was made of `before`, the sample before this one. Both
 * are NULL for the first.
 */
static bool copy_prompt(struct dt_reward_sample *to,
                        const struct dt_reward_sample *from,
                        const struct dt_reward_sample *before,
                        const struct dt_reward_sample *copy)
{
    if (before && from->prompt_text == before->prompt_text &&
        from->prompt_bytes == before->prompt_bytes) {
        to->prompt_text = copy->prompt_text;
        to->prompt_bytes = copy->prompt_bytes;
    } else {
        to->prompt_text =
            copy_text(from->prompt_text, from->prompt_bytes, &to->prompt_bytes);
    }
    to->messages = before && from->messages == before->messages
                       ? json_incref((json_t *)copy->messages)
                       : json_deep_copy(from->messages);
    to->columns = before && from->columns == before->columns
                      ? json_incref((json_t *)copy->columns)
                      : json_deep_copy(from->columns);
    return to->prompt_text && !to->messages == !from->messages &&
           !to->columns == !from->columns;
}

static bool copy_completion(struct dt_reward_sample *to,
                            const struct dt_reward_sample *from)
{
    int32_t *ids = malloc(from->count * sizeof(*ids) + 1);
    to->completion_text = copy_text(
        from->completion_text, from->completion_bytes, &to->completion_bytes);
    to->ids = ids;
    if (ids && from->count > 0)
        memcpy(ids, from->ids, from->count * sizeof(*ids));
    return to->completion_text && ids;
}

struct dt_reward_batch *dt_reward_batch_create(
    long step, const struct dt_reward_sample *samples, size_t count)
{
    struct dt_reward_batch *batch =
        calloc(1, sizeof(*batch) + count * sizeof(batch->sample[0]));
    bool good = true;
    if (!batch)
        return NULL;
    batch->step = step;
    for (size_t i = 0; i < count && good; i++) {
        batch->sample[i] = samples[i];
        batch->count = i + 1;
        good = copy_prompt(&batch->sample[i], &samples[i],
                           i > 0 ? &samples[i - 1] : NULL,
                           i > 0 ? &batch->sample[i - 1] : NULL);
        good = copy_completion(&batch->sample[i], &samples[i]) && good;
    }
    if (good)
        return batch;
    dt_reward_batch_destroy(batch);
    return NULL;
}

void dt_reward_batch_destroy(struct dt_reward_batch *batch)
{
    if (!batch)
        return;
    for (size_t i = batch->count; i-- > 0;) {
        struct dt_reward_sample *s = &batch->sample[i];
        if (i == 0 || s->prompt_text != s[-1].prompt_text)
            free((char *)s->prompt_text);
        free((char *)s->completion_text);
        free((int32_t *)s->ids);
        json_decref((json_t *)s->messages);
        json_decref((json_t *)s->columns);
    }
    free(batch);
}
