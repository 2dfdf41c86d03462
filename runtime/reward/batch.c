/* SPDX-License-Identifier: Apache-2.0 */
/* batch.c - copies samples, so that the caller can go on */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "reward/impl.h"
#include "tokenizer/utf8.h"

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

static bool copy_sample(struct dt_reward_sample *to,
                        const struct dt_reward_sample *from)
{
    int32_t *ids = malloc(from->count * sizeof(*ids) + 1);
    *to = *from;
    to->prompt_text =
        copy_text(from->prompt_text, from->prompt_bytes, &to->prompt_bytes);
    to->completion_text = copy_text(
        from->completion_text, from->completion_bytes, &to->completion_bytes);
    to->ids = ids;
    if (ids && from->count > 0)
        memcpy(ids, from->ids, from->count * sizeof(*ids));
    to->messages = from->messages ? json_deep_copy(from->messages) : NULL;
    to->columns = from->columns ? json_deep_copy(from->columns) : NULL;
    return to->prompt_text && to->completion_text && ids &&
           !to->messages == !from->messages && !to->columns == !from->columns;
}

struct dt_reward_batch *dt_reward_batch_create(
    long step, const struct dt_reward_sample *samples, size_t count)
{
    struct dt_reward_batch *batch =
        calloc(1, sizeof(*batch) + count * sizeof(batch->sample[0]));
    if (!batch)
        return NULL;
    batch->step = step;
    batch->count = count;
    for (size_t i = 0; i < count; i++) {
        if (!copy_sample(&batch->sample[i], &samples[i])) {
            batch->count = i + 1;
            dt_reward_batch_destroy(batch);
            return NULL;
        }
    }
    return batch;
}

void dt_reward_batch_destroy(struct dt_reward_batch *batch)
{
    if (!batch)
        return;
    for (size_t i = 0; i < batch->count; i++) {
        struct dt_reward_sample *s = &batch->sample[i];
        free((char *)s->prompt_text);
        free((char *)s->completion_text);
        free((int32_t *)s->ids);
        json_decref((json_t *)s->messages);
        json_decref((json_t *)s->columns);
    }
    free(batch);
}
