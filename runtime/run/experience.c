/* SPDX-License-Identifier: Apache-2.0 */
/* experience.c - brings the completions of a generation to all ranks */
#include "config.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "run/experience.h"

enum { CHUNK = 4096 }; /* scalars of a call */

static int no_memory(struct dt_error *err)
{
    return dt_error_set(err, EX_OSERR, "the experience: out of memory");
}

void dt_experience_fini(struct dt_experience *e)
{
    free(e->number);
    free(e->count);
    free(e->end);
    free(e->rewards);
    free(e->advantages);
    free(e->at);
    free(e->ids);
    free(e->logps);
    free(e->old);
    free(e->entropy);
    free(e->reference);
    free(e->values);
    free(e->after);
    free(e->own.ids);
    free(e->own.logps);
    free(e->own.at);
    *e = (struct dt_experience){0};
}

int dt_experience_begin(struct dt_experience *e, const uint64_t *number,
                        size_t groups, size_t copies, size_t columns,
                        struct dt_error *err)
{
    const size_t rows = groups * copies;
    dt_experience_fini(e);
    *e = (struct dt_experience){
        .groups = groups,
        .copies = copies,
        .rows = rows,
        .columns = columns,
        .number = calloc(groups, sizeof(*e->number)),
        .count = calloc(rows, sizeof(*e->count)),
        .end = calloc(rows, sizeof(*e->end)),
        .rewards = calloc(rows * columns + 1, sizeof(*e->rewards)),
        .advantages = calloc(rows, sizeof(*e->advantages)),
        .at = calloc(rows + 1, sizeof(*e->at)),
        .own.at = calloc(rows, sizeof(*e->own.at)),
    };
    if (!e->number || !e->count || !e->end || !e->rewards || !e->advantages ||
        !e->at || !e->own.at)
        return no_memory(err);
    memcpy(e->number, number, groups * sizeof(*number));
    return 0;
}

int dt_experience_add(struct dt_experience *e, size_t row, const int32_t *ids,
                      const float *logps, size_t count, int end,
                      struct dt_error *err)
{
    struct dt_experience_own *own = &e->own;
    assert(row < e->rows && count > 0);
    if (own->count + count > own->room) {
        size_t room = 2 * own->room + count + 1024;
        int32_t *more = reallocarray(own->ids, room, sizeof(*more));
        own->ids = more ? more : own->ids;
        float *more_logps = reallocarray(own->logps, room, sizeof(*more_logps));
        own->logps = more_logps ? more_logps : own->logps;
        if (!more || !more_logps)
            return no_memory(err);
        own->room = room;
    }
    memcpy(own->ids + own->count, ids, count * sizeof(*ids));
    memcpy(own->logps + own->count, logps, count * sizeof(*logps));
    own->at[row] = own->count;
    own->count += count;
    e->count[row] = (int32_t)count;
    e->end[row] = end;
    return 0;
}

const int32_t *dt_experience_ids(const struct dt_experience *e, size_t row)
{
    return e->ids ? e->ids + e->at[row] : e->own.ids + e->own.at[row];
}

/* --- from all ranks to all ranks --- */

/* Words in host memory, and where the communicator sees them. */
struct shared {
    struct dt_comm *comm;
    const struct dt_exec *exec;
    struct dt_buffer *buf; /* on the device */
    int32_t *words;        /* the same if that is the host */
    size_t count;
    int world, rank;
};

static int shared_init(struct shared *s, size_t count, struct dt_error *err)
{
    s->world = dt_comm_size(s->comm);
    s->rank = dt_comm_rank(s->comm);
    s->count = count;
    const size_t bytes = (count + 1) * sizeof(int32_t);
    s->buf = dt_buffer_create(s->exec->device, bytes, "the experience", err);
    if (!s->buf)
        return -1;
    s->words = s->exec->device->is_host ? s->buf->data : malloc(bytes);
    if (!s->words)
        return no_memory(err);
    memset(s->words, 0, bytes);
    return 0;
}

static void shared_fini(struct shared *s)
{
    if (s->buf && s->words != s->buf->data)
        free(s->words);
    dt_comm_forget_memory(s->comm);
    dt_buffer_destroy(s->buf);
}

static int move_words(struct shared *s, bool to_device, struct dt_error *err)
{
    const struct dt_device *device = s->exec->device;
    void *to = to_device ? s->buf->data : s->words;
    const void *from = to_device ? (void *)s->words : s->buf->data;
    if (device->is_host)
        return 0;
    if (device->copy(s->exec->stream, to, from, s->count * sizeof(int32_t),
                     err) < 0)
        return -1;
    return device->stream_wait(s->exec->stream, err);
}

/* Brings each rank's part of the words to all, or with `sums` their sums as
 * fp32.
 */
static int share_words(struct shared *s, bool sums, struct dt_error *err)
{
    dt_ticket_t ticket;
    struct dt_view view =
        dt_view_slice(dt_view_of(s->buf, sums ? DT_F32 : DT_I32), 0, s->count);
    if (s->count == 0)
        return 0;
    if (move_words(s, true, err) < 0 ||
        (sums ? dt_comm_all_reduce(s->comm, view, DT_SUM, DT_F32, &ticket, err)
              : dt_comm_all_gather(s->comm, view, &ticket, err)) < 0 ||
        dt_comm_wait(s->comm, ticket, err) < 0)
        return -1;
    return move_words(s, false, err);
}

/* The most groups, or tokens, that a rank has. */
static size_t most_of_ranks(const struct dt_experience *e, int world,
                            bool tokens)
{
    size_t most = 0;
    for (int rank = 0; rank < world; rank++) {
        size_t sum = 0;
        for (size_t g = 0; g < e->groups; g++) {
            if (dt_experience_rank(e, g, world) != rank)
                continue;
            for (size_t k = 0; k < e->copies && tokens; k++)
                sum += (size_t)e->count[g * e->copies + k];
            sum += !tokens;
        }
        most = sum > most ? sum : most;
    }
    return most;
}

/* Lengths and ends. */
static void copy_counts(struct dt_experience *e, int32_t *words, int rank,
                        int world, bool out)
{
    for (size_t i = 0; i < e->rows; i++) {
        if (dt_experience_rank(e, i / e->copies, world) != rank)
            continue;
        if (out) {
            words[0] = e->count[i];
            words[1] = e->end[i];
        } else {
            e->count[i] = words[0];
            e->end[i] = words[1];
        }
        words += 2;
    }
}

static int gather_counts(struct dt_experience *e, struct dt_comm *comm,
                         const struct dt_exec *exec, struct dt_error *err)
{
    struct shared s = {.comm = comm, .exec = exec};
    const size_t world = (size_t)dt_comm_size(comm);
    size_t part = most_of_ranks(e, (int)world, false) * e->copies * 2;
    int rc = shared_init(&s, world * part, err);
    if (rc == 0) {
        copy_counts(e, s.words + (size_t)s.rank * part, s.rank, s.world, true);
        rc = share_words(&s, false, err);
    }
    for (int rank = 0; rank < s.world && rc == 0; rank++)
        copy_counts(e, s.words + (size_t)rank * part, rank, s.world, false);
    shared_fini(&s);
    return rc;
}

int dt_experience_place(struct dt_experience *e, struct dt_error *err)
{
    for (size_t i = 0; i < e->rows; i++)
        e->at[i + 1] = e->at[i] + (size_t)e->count[i];
    e->tokens = e->at[e->rows];
    e->ids = calloc(e->tokens, sizeof(*e->ids));
    e->logps = calloc(e->tokens, sizeof(*e->logps));
    e->old = calloc(e->tokens, sizeof(*e->old));
    return e->ids && e->logps && e->old ? 0 : no_memory(err);
}

/* The ids of a rank's rows, then their log-probabilities. */
static void place_tokens(struct dt_experience *e, const int32_t *words,
                         size_t most, int rank, int world)
{
    for (size_t i = 0; i < e->rows; i++) {
        size_t count = (size_t)e->count[i];
        if (dt_experience_rank(e, i / e->copies, world) != rank)
            continue;
        memcpy(e->ids + e->at[i], words, count * sizeof(int32_t));
        memcpy(e->logps + e->at[i], words + most, count * sizeof(float));
        words += count;
    }
}

/* This rank's rows in their order. */
static void take_own(const struct dt_experience *e, int32_t *words, size_t most,
                     int rank, int world)
{
    for (size_t i = 0; i < e->rows; i++) {
        size_t count = (size_t)e->count[i], from = e->own.at[i];
        if (dt_experience_rank(e, i / e->copies, world) != rank)
            continue;
        memcpy(words, e->own.ids + from, count * sizeof(int32_t));
        memcpy(words + most, e->own.logps + from, count * sizeof(float));
        words += count;
    }
}

int dt_experience_gather(struct dt_experience *e, struct dt_comm *comm,
                         const struct dt_exec *exec, struct dt_error *err)
{
    struct shared s = {.comm = comm, .exec = exec};
    const size_t world = (size_t)dt_comm_size(comm);
    if (gather_counts(e, comm, exec, err) < 0 ||
        dt_experience_place(e, err) < 0)
        return -1;
    size_t most = most_of_ranks(e, (int)world, true);
    int rc = shared_init(&s, world * 2 * most, err);
    if (rc == 0) {
        take_own(e, s.words + (size_t)s.rank * 2 * most, most, s.rank, s.world);
        rc = share_words(&s, false, err);
    }
    for (int rank = 0; rank < s.world && rc == 0; rank++)
        place_tokens(e, s.words + (size_t)rank * 2 * most, most, rank, s.world);
    shared_fini(&s);
    return rc;
}

/* --- choosing groups --- */

/* Group g of `from`, but for its tokens, becomes group `to` of e. */
static void copy_group(struct dt_experience *e, size_t to,
                       const struct dt_experience *from, size_t g)
{
    const size_t n = e->copies, K = n * e->columns;
    e->number[to] = from->number[g];
    memcpy(e->count + to * n, from->count + g * n, n * sizeof(*e->count));
    memcpy(e->end + to * n, from->end + g * n, n * sizeof(*e->end));
    memcpy(e->rewards + to * K, from->rewards + g * K, K * sizeof(*e->rewards));
}

/* Its tokens, once there is room for them. */
static void copy_group_tokens(struct dt_experience *e, size_t to,
                              const struct dt_experience *from, size_t g)
{
    const size_t at = e->at[to * e->copies], source = from->at[g * e->copies];
    const size_t count = from->at[(g + 1) * e->copies] - source;
    memcpy(e->ids + at, from->ids + source, count * sizeof(*e->ids));
    memcpy(e->logps + at, from->logps + source, count * sizeof(*e->logps));
}

int dt_experience_merge(struct dt_experience *e,
                        const struct dt_experience *more, const bool *keep,
                        struct dt_error *err)
{
    const size_t all = e->groups + more->groups;
    struct dt_experience made = {0};
    size_t groups = 0;
    for (size_t g = 0; g < all; g++)
        groups += keep[g];
    uint64_t *number = calloc(groups + 1, sizeof(*number));
    int rc = number ? dt_experience_begin(&made, number, groups, e->copies,
                                          e->columns, err)
                    : no_memory(err);
    free(number);
    made.prompts = e->prompts;
    for (int pass = 0; pass < 2 && rc == 0; pass++) {
        size_t to = 0;
        for (size_t g = 0; g < all; g++)
            if (keep[g])
                (pass == 0 ? copy_group : copy_group_tokens)(
                    &made, to++, g < e->groups ? e : more,
                    g < e->groups ? g : g - e->groups);
        if (pass == 0)
            rc = dt_experience_place(&made, err);
    }
    if (rc < 0) {
        dt_experience_fini(&made);
        return -1;
    }
    dt_experience_fini(e);
    *e = made;
    return 0;
}

/* --- sharing rewards and values --- */

/* A reward is sent as a number and whether it is one, as NaN does not add up.
 */
int dt_experience_share_rewards(struct dt_experience *e, const bool *have,
                                struct dt_comm *comm, struct dt_error *err)
{
    const size_t count = e->rows * e->columns;
    double *values = calloc(2 * count + 1, sizeof(*values));
    int rc = 0;
    if (!values)
        return no_memory(err);
    for (size_t i = 0; i < count; i++) {
        values[2 * i] = have[i] && !isnan(e->rewards[i]) ? e->rewards[i] : 0;
        values[2 * i + 1] = have[i] && isnan(e->rewards[i]);
    }
    for (size_t i = 0; i < 2 * count && dt_comm_size(comm) > 1 && rc == 0;
         i += CHUNK)
        rc = dt_comm_reduce_scalars(
            comm, values + i, 2 * count - i < CHUNK ? 2 * count - i : CHUNK,
            DT_SUM, err);
    for (size_t i = 0; i < count && rc == 0; i++)
        e->rewards[i] = values[2 * i + 1] > 0 ? NAN : values[2 * i];
    free(values);
    return rc;
}

int dt_experience_share_values(float *values, size_t count,
                               struct dt_comm *comm, const struct dt_exec *exec,
                               struct dt_error *err)
{
    struct shared s = {.comm = comm, .exec = exec};
    int rc = shared_init(&s, count, err);
    if (rc == 0) {
        memcpy(s.words, values, count * sizeof(float));
        rc = share_words(&s, true, err);
    }
    if (rc == 0)
        memcpy(values, s.words, count * sizeof(float));
    shared_fini(&s);
    return rc;
}

uint64_t dt_experience_hash(const struct dt_experience *e)
{
    const struct {
        const void *data;
        size_t bytes;
    } parts[] = {
        {e->number, e->groups * sizeof(*e->number)},
        {e->count, e->rows * sizeof(*e->count)},
        {e->end, e->rows * sizeof(*e->end)},
        {e->ids, e->tokens * sizeof(*e->ids)},
        {e->logps, e->tokens * sizeof(*e->logps)},
        {e->rewards, e->rows * e->columns * sizeof(*e->rewards)},
        {e->advantages, e->rows * sizeof(*e->advantages)},
    };
    uint64_t hash = 0;
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        hash = XXH3_64bits_withSeed(parts[i].data, parts[i].bytes, hash);
    return hash;
}
