/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sequences.c - which sequences run, with which blocks, and where they end
 *
 * The oldest sequence always gets what it needs: prompts that are computed for
 * copies that wait give up their blocks first, then the youngest sequences.
 */
#include "config.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "rollout/rollout_impl.h"

/* --- blocks with a count of their users --- */

int dt_blocks_init(struct dt_blocks *blocks, size_t count, struct dt_error *err)
{
    *blocks = (struct dt_blocks){
        .count = count,
        .unused = count,
        .stack = calloc(count, sizeof(*blocks->stack)),
        .users = calloc(count, sizeof(*blocks->users)),
    };
    if (!blocks->stack || !blocks->users)
        return dt_error_set(err, EX_OSERR, "out of memory");
    for (size_t i = 0; i < count; i++)
        blocks->stack[i] = (int32_t)(count - 1 - i);
    return 0;
}

void dt_blocks_fini(struct dt_blocks *blocks)
{
    free(blocks->stack);
    free(blocks->users);
}

int32_t dt_blocks_take(struct dt_blocks *blocks)
{
    if (blocks->unused == 0)
        return -1;
    int32_t block = blocks->stack[--blocks->unused];
    blocks->users[block] = 1;
    return block;
}

void dt_blocks_share(struct dt_blocks *blocks, int32_t block)
{
    assert(blocks->users[block] > 0);
    blocks->users[block]++;
}

void dt_blocks_drop(struct dt_blocks *blocks, int32_t block)
{
    assert(blocks->users[block] > 0);
    if (--blocks->users[block] == 0)
        blocks->stack[blocks->unused++] = block;
}

/* --- the tokens of a completion, and where it ends --- */

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
        if (prompt->ids[i] >= 0)
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

/* --- which sequences run --- */

/* --- the list of prompts --- */

static void entry_destroy(struct dt_entry *entry)
{
    if (!entry)
        return;
    free(entry->ids);
    free(entry->pictures);
    free(entry->pixels);
    free(entry->copies);
    free(entry->blocks);
    free(entry);
}

/* Patches of all pictures of a prompt. */
static size_t patches_of(const struct dt_prompt *prompt)
{
    size_t patches = 0;
    for (size_t i = 0; i < prompt->picture_count; i++)
        patches +=
            (size_t)prompt->pictures[i].height * prompt->pictures[i].width;
    return patches;
}

static int check_prompt(const struct dt_rollout *r,
                        const struct dt_prompt *prompt, struct dt_error *err)
{
    const struct dt_rollout_options *options = &r->options;
    const unsigned long long number = prompt->number;
    if (prompt->count == 0 || prompt->count > options->max_prompt)
        return dt_error_set(err, EX_DATAERR,
                            "prompt %llu has %zu tokens, expected 1 to %zu",
                            number, prompt->count, options->max_prompt);
    if (prompt->ids[prompt->count - 1] < 0)
        return dt_error_set(err, EX_DATAERR,
                            "prompt %llu ends with an image: expected text "
                            "behind it",
                            number);
    if (prompt->picture_count > options->pictures ||
        patches_of(prompt) > options->patches)
        return dt_error_set(err, EX_DATAERR,
                            "prompt %llu has %zu pictures of %zu patches, "
                            "expected at most %zu of %zu",
                            number, prompt->picture_count, patches_of(prompt),
                            options->pictures, options->patches);
    return 0;
}

/* malloc'ed; NULL if out of memory. */
static void *copy_of(const void *from, size_t count, size_t size)
{
    void *copy = calloc(count + 1, size);
    if (copy && count > 0)
        memcpy(copy, from, count * size);
    return copy;
}

static struct dt_entry *entry_create(const struct dt_rollout *r,
                                     const struct dt_prompt *prompt,
                                     struct dt_error *err)
{
    if (check_prompt(r, prompt, err) < 0)
        return NULL;
    const size_t count = prompt->count, pictures = prompt->picture_count;
    const size_t patches = patches_of(prompt);
    struct dt_entry *entry = calloc(1, sizeof(*entry));
    if (entry) {
        *entry = (struct dt_entry){
            .number = prompt->number,
            .order = r->taken,
            .ids = copy_of(prompt->ids, count, sizeof(*entry->ids)),
            .count = count,
            .pictures =
                copy_of(prompt->pictures, pictures, sizeof(*entry->pictures)),
            .picture_count = pictures,
            .pixels = copy_of(prompt->pixels, patches * r->patch_bytes, 1),
            .patches = patches,
            .shift = dt_decoder_shift(r->config, prompt->pictures, pictures),
            .copies = calloc(r->options.copies, sizeof(*entry->copies)),
            .waiting = r->options.copies,
            .blocks = calloc(r->most_blocks, sizeof(*entry->blocks)),
        };
    }
    if (!entry || !entry->ids || !entry->pictures || !entry->pixels ||
        !entry->copies || !entry->blocks) {
        dt_error_set(err, EX_OSERR, "out of memory");
        entry_destroy(entry);
        return NULL;
    }
    return entry;
}

/* Appends the next prompt of the run to the list: *entry, NULL if there is no
 * more. -1 and err.
 */
static int take_prompt(struct dt_rollout *r, const struct dt_rollout_io *io,
                       struct dt_entry **entry, struct dt_error *err)
{
    struct dt_prompt prompt = {0}; /* who has no pictures sets none */
    *entry = NULL;
    if (r->no_more)
        return 0;
    int got = io->next(io->ctx, &prompt, err);
    if (got <= 0) {
        r->no_more = true;
        return got;
    }
    *entry = entry_create(r, &prompt, err);
    if (!*entry)
        return -1;
    r->taken++;
    *r->last = *entry;
    r->last = &(*entry)->next;
    return 0;
}

/* The first prompt with a copy that waits. */
static int find_waiting(struct dt_rollout *r, const struct dt_rollout_io *io,
                        struct dt_entry **entry, struct dt_error *err)
{
    for (*entry = r->entries; *entry; *entry = (*entry)->next)
        if ((*entry)->waiting > 0)
            return 0;
    return take_prompt(r, io, entry, err);
}

/* --- blocks --- */

static void drop_prompt(struct dt_rollout *r, struct dt_entry *entry)
{
    for (size_t i = 0; i < dt_prompt_blocks(entry); i++)
        dt_blocks_drop(&r->blocks, entry->blocks[i]);
    entry->computed = false;
}

/* Takes the blocks of the youngest prompt that is computed, except `keep`.
 * Returns whether there was one.
 */
static bool drop_youngest_prompt(struct dt_rollout *r,
                                 const struct dt_entry *keep)
{
    struct dt_entry *youngest = NULL;
    for (struct dt_entry *e = r->entries; e; e = e->next)
        if (e->computed && e != keep && dt_prompt_blocks(e) > 0)
            youngest = e;
    if (youngest)
        drop_prompt(r, youngest);
    return youngest;
}

/* Whether so many blocks may be taken and leave one for each sequence's next
 * position. If nothing runs, prompts other than `keep` make room.
 */
static bool have_blocks(struct dt_rollout *r, size_t count,
                        const struct dt_entry *keep)
{
    while (r->running == 0 && r->blocks.unused < count &&
           drop_youngest_prompt(r, keep))
        ;
    return r->blocks.unused >= count + r->running;
}

/* --- prompts are computed --- */

/* Fills the batch up to `end` with tokens that nobody reads. */
static void fill_pack(struct dt_pack *pack, size_t end)
{
    for (; pack->used < end; pack->used++) {
        pack->ids[pack->used] = 0;
        pack->starts[pack->used] = (int32_t)pack->used;
        pack->places[pack->used] = -1;
    }
}

/* Where the prompt begins in the batch. */
static size_t place_in_pack(const struct dt_rollout *r,
                            const struct dt_entry *entry)
{
    return dt_decoder_place(r->config, r->ops, r->limits.length, r->pack.used,
                            entry->count - 1);
}

/* Adds the pictures of a prompt whose first token is at `first`. */
static void pack_pictures(struct dt_rollout *r, const struct dt_entry *entry,
                          size_t first)
{
    struct dt_pack *pack = &r->pack;
    for (size_t i = 0; i < entry->picture_count; i++) {
        pack->pictures[pack->picture_count] = entry->pictures[i];
        pack->pictures[pack->picture_count++].first += first;
    }
    memcpy(pack->pixels + pack->patches * r->patch_bytes, entry->pixels,
           entry->patches * r->patch_bytes);
    pack->patches += entry->patches;
}

static void pack_prompt(struct dt_rollout *r, struct dt_entry *entry)
{
    struct dt_pack *pack = &r->pack;
    size_t first = place_in_pack(r, entry);
    fill_pack(pack, first);
    pack_pictures(r, entry, first);
    for (size_t i = 0; i < dt_prompt_blocks(entry); i++)
        entry->blocks[i] = dt_blocks_take(&r->blocks);
    for (size_t t = 0; t + 1 < entry->count; t++, pack->used++) {
        pack->ids[pack->used] = entry->ids[t];
        pack->starts[pack->used] = (int32_t)first;
        pack->places[pack->used] =
            entry->blocks[t / DT_KV_BLOCK] * DT_KV_BLOCK +
            (int32_t)(t % DT_KV_BLOCK);
    }
    entry->computed = true;
    r->counts.prompts++;
}

/* Whether there is room for the pictures of the prompt, too. */
static bool pictures_fit(const struct dt_rollout *r,
                         const struct dt_entry *entry)
{
    const struct dt_pack *pack = &r->pack;
    const bool alone = r->options.exact && entry->patches > 0;
    return pack->patches + entry->patches <= r->limits.patches &&
           pack->picture_count + entry->picture_count <= r->limits.pictures &&
           !(alone && pack->patches > 0);
}

/* Whether the prompt, which is not the next one, should be packed with it. */
static bool fits_pack(const struct dt_rollout *r, const struct dt_entry *entry)
{
    size_t end = place_in_pack(r, entry) + entry->count - 1;
    return end <= r->limits.tokens && pictures_fit(r, entry) &&
           dt_prompt_blocks(entry) + r->options.slots <= r->blocks.unused;
}

/* Packs prompts that will be next, since they cost little more now. */
static int pack_others(struct dt_rollout *r, const struct dt_rollout_io *io,
                       struct dt_entry *entry, struct dt_error *err)
{
    while (r->pack.used < r->limits.tokens) {
        entry = entry->next;
        if (!entry && take_prompt(r, io, &entry, err) < 0)
            return -1;
        if (!entry)
            return 0;
        if (entry->computed || entry->waiting == 0)
            continue;
        if (entry->count == 1 || !fits_pack(r, entry))
            return 0;
        pack_prompt(r, entry);
    }
    return 0;
}

static int compute_prompts(struct dt_rollout *r, const struct dt_rollout_io *io,
                           struct dt_entry *entry, struct dt_error *err)
{
    struct dt_pack *pack = &r->pack;
    if (entry->count == 1) { /* a sequence computes it */
        entry->computed = true;
        return 0;
    }
    pack->used = pack->picture_count = pack->patches = 0;
    pack_prompt(r, entry);
    if (pack_others(r, io, entry, err) < 0)
        return -1;
    fill_pack(pack, r->options.exact
                        ? r->limits.tokens
                        : dt_round_up(pack->used, DT_PROMPT_MULTIPLE));
    const struct dt_prompt_rows rows = {
        .count = pack->used,
        .ids = pack->ids,
        .doc_start = pack->starts,
        .places = pack->places,
        .pictures = pack->pictures,
        .picture_count = pack->picture_count,
        .pixels = pack->pixels,
    };
    return dt_decoder_prefill(r->decoder, &rows, err);
}

/* --- sequences --- */

static uint64_t age_of(const struct dt_rollout *r, const struct dt_sequence *s)
{
    return s->prompt->order * r->options.copies + s->copy;
}

/* The next copy of a computed prompt takes a slot. The last one that waits also
 * takes the prompt's blocks; others share them, and copy the one that is not
 * full.
 */
static int start_sequence(struct dt_rollout *r, struct dt_entry *entry,
                          struct dt_error *err)
{
    struct dt_sequence *s = &r->slots[r->running];
    size_t full = (entry->count - 1) / DT_KV_BLOCK;
    bool last = entry->waiting == 1;
    uint32_t copy = 0;
    while (entry->copies[copy] != DT_COPY_WAITS)
        copy++;
    dt_sequence_begin(r, s, entry, copy);
    s->blocks = dt_prompt_blocks(entry);
    for (size_t i = 0; i < s->blocks; i++) {
        s->table[i] = entry->blocks[i];
        if (!last && i < full)
            dt_blocks_share(&r->blocks, s->table[i]);
    }
    entry->computed = !last;
    entry->copies[copy] = DT_COPY_RUNS;
    entry->waiting--;
    r->running++;
    if (last || s->blocks == full)
        return 0;
    s->table[full] = dt_blocks_take(&r->blocks);
    return dt_decoder_copy(r->decoder, s->table[full], entry->blocks[full],
                           err);
}

int dt_rollout_admit(struct dt_rollout *r, const struct dt_rollout_io *io,
                     struct dt_error *err)
{
    while (r->running < r->options.slots) {
        struct dt_entry *entry;
        if (find_waiting(r, io, &entry, err) < 0)
            return -1;
        if (!entry)
            return 0;
        if (!entry->computed) {
            if (!have_blocks(r, dt_prompt_blocks(entry) + 1, entry))
                return 0;
            if (compute_prompts(r, io, entry, err) < 0)
                return -1;
        }
        if (!have_blocks(r, 1, entry))
            return 0;
        if (start_sequence(r, entry, err) < 0)
            return -1;
    }
    return 0;
}

/* Gives the slot of sequence i back. */
static void remove_sequence(struct dt_rollout *r, size_t i)
{
    struct dt_sequence *s = &r->slots[i], *last = &r->slots[--r->running];
    struct dt_sequence swap = *s;
    for (size_t b = 0; b < s->blocks; b++)
        dt_blocks_drop(&r->blocks, s->table[b]);
    *s = *last;
    *last = swap;
}

static void preempt_youngest(struct dt_rollout *r)
{
    size_t youngest = 0;
    for (size_t i = 1; i < r->running; i++)
        if (age_of(r, &r->slots[i]) > age_of(r, &r->slots[youngest]))
            youngest = i;
    struct dt_sequence *s = &r->slots[youngest];
    s->prompt->copies[s->copy] = DT_COPY_WAITS;
    s->prompt->waiting++;
    r->counts.preempted++;
    remove_sequence(r, youngest);
}

void dt_rollout_grow(struct dt_rollout *r)
{
    size_t i = 0;
    while (i < r->running) {
        struct dt_sequence *s = &r->slots[i];
        size_t position = s->prompt->count - 1 + s->count;
        if (position / DT_KV_BLOCK < s->blocks) {
            i++;
        } else if (r->blocks.unused > 0) {
            s->table[s->blocks++] = dt_blocks_take(&r->blocks);
        } else if (!drop_youngest_prompt(r, NULL)) {
            preempt_youngest(r);
            i = 0; /* another sequence may be here now */
        }
    }
}

/* --- ends --- */

static void remove_prompts(struct dt_rollout *r)
{
    struct dt_entry **at = &r->entries;
    while (*at) {
        struct dt_entry *entry = *at;
        if (entry->ended < r->options.copies) {
            at = &entry->next;
            continue;
        }
        *at = entry->next;
        entry_destroy(entry);
    }
    r->last = at;
}

void dt_rollout_remove_ended(struct dt_rollout *r)
{
    for (size_t i = r->running; i-- > 0;) {
        struct dt_sequence *s = &r->slots[i];
        if (!s->has_ended)
            continue;
        s->prompt->copies[s->copy] = DT_COPY_ENDED;
        s->prompt->ended++;
        remove_sequence(r, i);
    }
    remove_prompts(r);
}

void dt_rollout_clear(struct dt_rollout *r)
{
    while (r->running > 0)
        remove_sequence(r, r->running - 1);
    while (r->entries) {
        struct dt_entry *entry = r->entries;
        r->entries = entry->next;
        if (entry->computed)
            drop_prompt(r, entry);
        entry_destroy(entry);
    }
    r->last = &r->entries;
    r->taken = 0;
    r->no_more = false;
}
