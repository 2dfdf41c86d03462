/* SPDX-License-Identifier: Apache-2.0 */
/*
 * comm.c - our collectives against gloo's ring, in one run
 *
 * Usage: srun --mpi=pmix -N2 -n2 tests/bench/comm [ROUNDS]
 *
 * Rounds of both alternate; each line is the median of a size.
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "comm/rendezvous.h"
#include "run/exchange.h"
#include "gloo_ring.h"
#include "launch/launch.h"

static struct dt_error err;

static void check(int rc)
{
    if (rc >= 0)
        return;
    fprintf(stderr, "%s\n", err.text);
    exit(err.status);
}

static int ring_put(void *ctx, const char *key, const void *data, size_t bytes,
                    struct dt_error *e)
{
    char own[64];
    snprintf(own, sizeof(own), "ring.%s", key);
    return dt_launch_put(ctx, own, data, bytes, e);
}

static int ring_get(void *ctx, int rank, const char *key, void **data,
                    size_t *bytes, struct dt_error *e)
{
    char own[64];
    snprintf(own, sizeof(own), "ring.%s", key);
    return dt_launch_get(ctx, rank, own, data, bytes, e);
}

static struct gloo_ring *ring_join(struct dt_launch *launch,
                                   const struct dt_comm_world *world,
                                   const struct dt_comm_options *options)
{
    struct dt_comm_world other = *world; /* with keys of its own */
    struct dt_token token;
    union dt_net_address own;
    char address[DT_NET_ADDRESS_BYTES];
    struct dt_rendezvous *door;
    struct gloo_ring *ring;
    const void *doors;
    size_t bytes;
    other.put = ring_put;
    other.get = ring_get;
    check(dt_token_offer(&other, NULL, &err));
    check(dt_address_choose(&other, options, &token, &own, &door, &err));
    dt_net_print(&own, address);
    ring = gloo_ring_create(world->rank, world->size, address);
    doors = gloo_ring_doors(ring, &bytes);
    check(dt_launch_put(launch, "ring", doors, bytes, &err));
    check(dt_launch_fence(launch, options->timeout_ms, &err));
    dt_rendezvous_close(door);
    for (int r = 0; r < world->size; r++) {
        void *theirs;
        if (r == world->rank)
            continue;
        check(dt_launch_get(launch, r, "ring", &theirs, &bytes, &err));
        gloo_ring_connect(ring, r, theirs, bytes);
        free(theirs);
    }
    return ring;
}

static void reduce(struct dt_comm *comm, struct dt_view v, enum dt_dtype wire)
{
    dt_ticket_t ticket;
    check(dt_comm_all_reduce(comm, v, DT_SUM, wire, &ticket, &err));
    check(dt_comm_wait(comm, ticket, &err));
}

static int by_size(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static double median(double *times, int count)
{
    qsort(times, (size_t)count, sizeof(*times), by_size);
    return times[count / 2];
}

static void compare(struct dt_comm *comm, struct gloo_ring *ring,
                    struct dt_view v, int rounds)
{
    double ours[101], half[101], gloos[101], m, h, g;
    for (int i = -1; i < rounds; i++) {
        double t[4];
        int at = i < 0 ? 0 : i; /* the first one warms up */
        check(dt_comm_barrier(comm, &err));
        t[0] = dt_clock_now();
        reduce(comm, v, DT_F32);
        t[1] = dt_clock_now();
        gloo_ring_all_reduce(ring, dt_view_f32(v), v.count);
        t[2] = dt_clock_now();
        reduce(comm, v, DT_BF16);
        t[3] = dt_clock_now();
        ours[at] = t[1] - t[0];
        gloos[at] = t[2] - t[1];
        half[at] = t[3] - t[2];
    }
    m = median(ours, rounds);
    g = median(gloos, rounds);
    h = median(half, rounds);
    if (dt_comm_rank(comm) == 0)
        printf("%11zu %12.3f %12.3f %12.3f %12.2f\n", v.count * 4, m * 1e3,
               g * 1e3, h * 1e3, g / m);
}

int main(int argc, char **argv)
{
    static const size_t counts[] = {1, 1024, 16384, 262144, 2097152, 16777216};
    const struct dt_comm_options options = {.timeout_ms = 60000};
    int rounds = argc > 1 ? atoi(argv[1]) : 11;
    double begun = dt_clock_now();
    struct dt_launch *launch = dt_launch_create(30000, &err);
    struct gloo_ring *ring;
    struct dt_buffer *buf;
    struct dt_comm *comm;
    check(launch ? 0 : -1);
    struct dt_comm_world world = dt_world_of(launch);
    double launched = dt_clock_now();
    comm = dt_comm_create("gloo", &world, &options, &err);
    check(comm ? 0 : -1);
    double joined = dt_clock_now();
    buf = dt_buffer_create(&dt_cpu, counts[5] * 4, "the bench", &err);
    check(buf && rounds > 0 && rounds <= 101 ? 0 : -1);
    ring = ring_join(launch, &world, &options);
    if (world.rank == 0)
        printf("%d ranks; launch %.1f ms, comm %.1f ms\n%11s %12s %12s %12s "
               "%12s\n",
               world.size, (launched - begun) * 1e3, (joined - launched) * 1e3,
               "bytes", "ours ms", "gloo ring ms", "ours bf16 ms", "gloo/ours");
    for (size_t i = 0; i < sizeof(counts) / sizeof(*counts); i++)
        compare(comm, ring,
                dt_view_slice(dt_view_of(buf, DT_F32), 0, counts[i]), rounds);
    gloo_ring_destroy(ring);
    dt_buffer_destroy(buf);
    dt_comm_destroy(comm);
    dt_launch_destroy(launch);
    return 0;
}
