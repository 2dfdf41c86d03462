/* SPDX-License-Identifier: Apache-2.0 */
/* sequence.c - the tokens of a completion, and where it ends */
#include "config.h"

#include <string.h>

#include "rollout/rollout_impl.h"

static void mark_seen(struct dt_sequence *s, int32_t id)
{
    s->seen[id / 32] |= (int32_t)(1u << id % 32);
}

void dt_sequence_begin(const struct dt_rollout *r, struct dt_sequence *s,
                       struct dt_entry *prompt, uint32_t copy)
{
    s->prompt = prompt;
    s->copy = copy;
    s->count = s->blocks = s->tail_bytes = 0;
    s->has_ended = false;
    s->text = (struct dt_detokenizer){
        .tokenizer = r->options.tokenizer, .skip_special = true, .begun = true};
    if (!s->seen)
        return;
    memset(s->seen, 0, r->words * sizeof(*s->seen));
    for (size_t i = 0; i < prompt->count; i++)
        mark_seen(s, prompt->ids[i]);
}

static bool is_stop(const struct dt_rollout_options *options, int32_t id)
{
    for (size_t i = 0; i < options->stop_count; i++)
        if (options->stop[i] == id)
            return true;
    return false;
}

/* Whether a stop string ends in the text of this token. As much text is kept as
 * may begin one.
 */
static bool completes_string(const struct dt_rollout *r, struct dt_sequence *s,
                             int32_t id)
{
    const struct dt_rollout_options *options = &r->options;
    size_t keep = r->longest_string - 1;
    bool found = false;
    s->tail_bytes +=
        dt_detokenize(&s->text, id, s->tail + s->tail_bytes, DT_TOKEN_BYTES);
    for (size_t i = 0; i < options->string_count && !found; i++)
        found = memmem(s->tail, s->tail_bytes, options->strings[i],
                       strlen(options->strings[i])) != NULL;
    if (s->tail_bytes > keep) {
        memmove(s->tail, s->tail + s->tail_bytes - keep, keep);
        s->tail_bytes = keep;
    }
    return found;
}

bool dt_sequence_append(const struct dt_rollout *r, struct dt_sequence *s,
                        int32_t id, float logp, enum dt_end *end)
{
    const struct dt_rollout_options *options = &r->options;
    s->ids[s->count] = id;
    s->logps[s->count++] = logp;
    if (s->seen)
        mark_seen(s, id);
    *end = DT_END_LENGTH;
    if (is_stop(options, id))
        *end = DT_END_EOS;
    else if (s->tail && completes_string(r, s, id))
        *end = DT_END_STRING;
    else if (s->count < options->max_tokens &&
             s->prompt->count + s->count < r->limits.length)
        return false;
    return true;
}
