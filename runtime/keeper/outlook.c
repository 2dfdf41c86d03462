/* SPDX-License-Identifier: Apache-2.0 */
/* outlook.c - the state of a step as a keeper sees it, in a message */
#include "config.h"

#include <string.h>

#include "base/clock.h"
#include "keeper/outlook.h"
#include "keeper/roster.h"

/* Without the losses. */
static size_t fixed_bytes(const struct dt_roster *roster)
{
    return sizeof(struct dt_wire_view) +
           (size_t)roster->count * sizeof(struct dt_wire_post);
}

size_t dt_view_bytes(const struct dt_roster *roster)
{
    return fixed_bytes(roster) + roster->loss_count * sizeof(*roster->losses);
}

/* The post of a keeper in the life that has begun last. */
static struct dt_wire_post read_post(const void *bytes, int id)
{
    struct dt_wire_post post;
    memcpy(&post,
           (const uint8_t *)bytes + sizeof(struct dt_wire_view) +
               (size_t)id * sizeof(post),
           sizeof(post));
    return post;
}

void dt_view_put(const struct dt_roster *roster, void *bytes)
{
    const struct dt_wire_view view = {
        .epoch = roster->epoch, .ballot = roster->ballot, .past = roster->past};
    uint8_t *at = bytes;
    memcpy(at, &view, sizeof(view));
    at += sizeof(view);
    for (int i = 0; i < roster->count; i++, at += sizeof(struct dt_wire_post)) {
        const struct dt_post *p = &roster->posts[i];
        const struct dt_wire_post post = {
            .rank = dt_roster_has(roster, i) ? p->rank : p->left,
            .votes = p->votes,
            .next = p->next};
        memcpy(at, &post, sizeof(post));
    }
    for (size_t i = 0; i < roster->loss_count; i++) {
        struct dt_launch_loss loss = roster->losses[i];
        loss.at = dt_clock_now() - loss.at;
        memcpy(at + i * sizeof(loss), &loss, sizeof(loss));
    }
}

/* Reads the head. -1: there is no whole view, or it has no voters. */
static int read_view(const struct dt_roster *roster, const void *bytes,
                     size_t count, struct dt_wire_view *view)
{
    bool votes = false;
    if (count < fixed_bytes(roster))
        return -1;
    memcpy(view, bytes, sizeof(*view));
    for (int i = 0; i < roster->count; i++) {
        const struct dt_wire_post post = read_post(bytes, i);
        if (post.rank < DT_WIRE_LOST || post.rank >= roster->count)
            return -1;
        votes |= post.votes != 0;
    }
    return votes && view->epoch > 0 && view->ballot < roster->count ? 0 : -1;
}

/* Takes the voters and the proposal. */
static void take_votes(struct dt_roster *roster, const void *bytes,
                       const struct dt_wire_view *view)
{
    roster->epoch = view->epoch;
    roster->ballot = view->ballot;
    for (int i = 0; i < roster->count; i++) {
        const struct dt_wire_post post = read_post(bytes, i);
        roster->posts[i].votes = post.votes;
        roster->posts[i].next = post.next;
    }
}

/* Takes the losses, with their times as on this host. -1: no memory. */
static int take_losses(struct dt_roster *roster, const void *bytes,
                       size_t count)
{
    const size_t fixed = fixed_bytes(roster);
    if (dt_roster_note_losses(roster, (const uint8_t *)bytes + fixed,
                              (count - fixed) / sizeof(*roster->losses)) < 0)
        return -1;
    for (size_t i = 0; i < roster->loss_count; i++)
        roster->losses[i].at = dt_clock_now() - roster->losses[i].at;
    return 0;
}

/* Takes the ranks; who is lost and has one leaves it. */
static void take_ranks(struct dt_roster *roster, const void *bytes,
                       const struct dt_wire_view *view, uint32_t life)
{
    roster->life = life;
    roster->past = view->past;
    roster->size = 0;
    for (int i = 0; i < roster->count; i++) {
        struct dt_post *post = &roster->posts[i];
        const int rank = read_post(bytes, i).rank;
        const bool lost = post->rank == DT_WIRE_LOST;
        post->rank = lost ? DT_WIRE_LOST : rank;
        post->left = lost ? rank : DT_WIRE_LOST;
        roster->size += rank >= 0;
    }
    if (roster->first == 0)
        roster->first = roster->size;
}

int dt_view_take_proposal(struct dt_roster *roster, const void *bytes,
                          size_t count)
{
    struct dt_wire_view view;
    if (read_view(roster, bytes, count, &view) < 0 ||
        view.epoch < roster->epoch || view.ballot < 0)
        return -1;
    take_votes(roster, bytes, &view);
    return 0;
}

int dt_view_take_life(struct dt_roster *roster, const void *bytes, size_t count,
                      uint32_t life)
{
    struct dt_wire_view view;
    bool zero = false;
    if (read_view(roster, bytes, count, &view) < 0 ||
        view.epoch < roster->epoch)
        return -1;
    for (int i = 0; i < roster->count; i++) {
        roster->posts[i].rank = DT_WIRE_SPARE; /* as the leader knows it */
        zero |= read_post(bytes, i).rank == 0;
    }
    take_votes(roster, bytes, &view);
    take_ranks(roster, bytes, &view, life);
    return zero ? take_losses(roster, bytes, count) : -1;
}

void dt_view_learn(struct dt_roster *roster, const void *bytes, size_t count,
                   uint32_t life)
{
    struct dt_wire_view view;
    if (read_view(roster, bytes, count, &view) < 0)
        return;
    if (view.epoch > roster->epoch ||
        (view.epoch == roster->epoch && view.ballot > roster->ballot))
        take_votes(roster, bytes, &view);
    if (life > roster->life) {
        take_ranks(roster, bytes, &view, life);
        take_losses(roster, bytes, count); /* records, and no more */
    }
}
