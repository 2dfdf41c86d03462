/* SPDX-License-Identifier: Apache-2.0 */
/* measure.c - measures rates on the nodes of a step */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "forecast/cost.h"
#include "forecast/measure.h"
#include "forecast/timeline_impl.h"
#include "optim/optim.h"
#include "parallel/swap.h"

/* --- a median on each rank, and the slowest of them --- */

enum { ROUNDS = 7 };

/* Seconds of rounds; the first one warms up. */
struct stopwatch {
    double all[ROUNDS];
    int count;
};

/* Adds a round. */
static void stopwatch_add(struct stopwatch *watch, double seconds)
{
    if (watch->count < ROUNDS)
        watch->all[watch->count++] = seconds;
}

static int by_size(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* The median of all rounds but the first. */
static double stopwatch_median(const struct stopwatch *watch)
{
    double sorted[ROUNDS];
    size_t count = (size_t)watch->count - 1;
    memcpy(sorted, watch->all + 1, count * sizeof(*sorted));
    qsort(sorted, count, sizeof(*sorted), by_size);
    return sorted[count / 2];
}

/* Sets a rate to amount / seconds, with the seconds of the slowest rank. All
 * ranks call it. -1: a peer failed.
 */
static int set_rate(const struct dt_measure *measure, struct dt_rates *rates,
                    enum dt_rate rate, double amount, double seconds,
                    struct dt_error *err)
{
    if (dt_comm_size(measure->comm) > 1 &&
        dt_comm_reduce_scalars(measure->comm, &seconds, 1, DT_MAX, err) < 0)
        return -1;
    rates->of[rate] = amount / seconds;
    return 0;
}

/* --- passes --- */

enum {
    MOST_BLOCKS = 4,
    MOST_VOCABULARY = 50304, /* a larger head is as fast */
    MOST_UPDATED = 1 << 26,  /* elements */
    ADAMW_BYTES = 28,        /* of an element: p, m, v both ways, g */
};

struct bench {
    const struct dt_measure *measure;
    const struct dt_exec *exec;
    struct dt_model_config config;
    struct dt_model_options options;
    struct dt_layout *layout;
    struct dt_buffer *weights, *grads, *master, *m, *v, *scalars;
    struct dt_model *model;
    struct dt_optim *optim;
    int32_t *ids;
    struct stopwatch blocks, head, update;
};

static struct dt_buffer *allocate(const struct bench *b, size_t count,
                                  enum dt_dtype type, struct dt_error *err)
{
    return dt_buffer_create(b->exec->device, count * dt_dtype_bytes(type),
                            "measuring", err);
}

static size_t updated_elements(const struct bench *b)
{
    size_t count = b->layout->count;
    return count < MOST_UPDATED ? count : MOST_UPDATED;
}

/* Random weights, as zeros would cost a GPU less power; by way of the
 * gradients, which are fp32 and as many.
 */
static int fill_weights(struct bench *b, struct dt_error *err)
{
    const struct dt_exec *exec = b->exec;
    size_t bytes = b->layout->count * sizeof(float);
    struct dt_buffer *host = dt_buffer_create(&dt_cpu, bytes, "measuring", err);
    if (!host)
        return -1;
    const struct dt_places places = dt_places_flat(dt_view_of(host, DT_F32));
    for (size_t u = 0; u < b->layout->unit_count; u++)
        dt_model_init_unit(&b->config, b->layout, u,
                           dt_layout_unit(b->layout, &places, u), 1);
    int rc = exec->device->copy(exec->stream, b->grads->data, host->data, bytes,
                                err);
    if (rc == 0) {
        exec->ops->convert(exec->stream,
                           dt_view_of(b->weights, b->options.compute),
                           dt_view_of(b->grads, DT_F32));
        rc = exec->device->stream_wait(exec->stream, err);
    }
    dt_buffer_destroy(host);
    return rc;
}

static int create(struct bench *b, struct dt_error *err)
{
    const struct dt_optim_options adamw = {
        .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1};
    enum dt_dtype compute = b->options.compute;
    if (!(b->layout = dt_model_layout(&b->config, 1, err)))
        return -1;
    size_t count = b->layout->count, updated = updated_elements(b);
    size_t tokens = b->options.B * b->options.T;
    if (!(b->weights = allocate(b, count, compute, err)) ||
        !(b->grads = allocate(b, count, DT_F32, err)) ||
        !(b->master = allocate(b, updated, DT_F32, err)) ||
        !(b->m = allocate(b, updated, DT_F32, err)) ||
        !(b->v = allocate(b, updated, DT_F32, err)) ||
        !(b->scalars = allocate(b, DT_STEP_COUNT, DT_F64, err)) ||
        fill_weights(b, err) < 0)
        return -1;
    b->model = dt_model_create(&b->config, b->layout, b->exec,
                               dt_places_flat(dt_view_of(b->weights, compute)),
                               dt_places_flat(dt_view_of(b->grads, DT_F32)),
                               &b->options, err);
    if (!b->model ||
        !(b->optim = dt_optim_create(b->layout, b->exec, &adamw, err)))
        return -1;
    b->ids = calloc(tokens, sizeof(*b->ids));
    for (size_t i = 0; b->ids && i < tokens; i++)
        b->ids[i] = (int32_t)(i * 7919 % b->config.vocab_size);
    return b->ids ? 0 : dt_error_set(err, EX_OSERR, "out of memory");
}

static void destroy(struct bench *b)
{
    free(b->ids);
    dt_optim_destroy(b->optim);
    dt_model_destroy(b->model);
    dt_buffer_destroy(b->weights);
    dt_buffer_destroy(b->grads);
    dt_buffer_destroy(b->master);
    dt_buffer_destroy(b->m);
    dt_buffer_destroy(b->v);
    dt_buffer_destroy(b->scalars);
    dt_layout_destroy(b->layout);
}

/* Seconds since *start, with all queued work done; and starts again. */
static int lap(const struct bench *b, double *start, double *seconds,
               struct dt_error *err)
{
    if (b->exec->device->stream_wait(b->exec->stream, err) < 0)
        return -1;
    double now = dt_clock_now();
    *seconds = now - *start;
    *start = now;
    return 0;
}

static int bind_batch(struct bench *b, struct dt_view step,
                      struct dt_error *err)
{
    const struct dt_ops *ops = b->exec->ops;
    struct dt_step_params params[DT_STEP_OUTCOMES];
    const struct dt_batch batch = {.B = b->options.B,
                                   .T = b->options.T,
                                   .inputs = b->ids,
                                   .targets = b->ids,
                                   .target_count = b->options.B * b->options.T};
    for (int i = 0; i < DT_STEP_OUTCOMES; i++) {
        params[i] = dt_optim_step_params(b->optim, 1, 0);
        params[i].loss_scale = 1.0;
    }
    ops->step_begin(b->exec->stream, step, params);
    ops->step_add(b->exec->stream, step, (double)batch.target_count, 0);
    return dt_model_bind(b->model, &batch, true, err);
}

/* AdamW with a rate of 0, in ranges of one call. */
static void queue_update(struct bench *b, struct dt_view step)
{
    size_t count = updated_elements(b);
    b->exec->ops->clip_and_check(b->exec->stream, step, 0);
    dt_optim_update(b->optim, false, step, 0, dt_view_of(b->master, DT_F32),
                    (struct dt_view){0},
                    dt_view_slice(dt_view_of(b->grads, DT_F32), 0, count),
                    dt_view_of(b->m, DT_F32), dt_view_of(b->v, DT_F32), NULL);
}

/* The passes of a micro-batch, timed in three parts. */
static int run_round(struct bench *b, struct dt_error *err)
{
    struct dt_view step = dt_view_of(b->scalars, DT_F64);
    size_t last = b->layout->unit_count - 1;
    double start = dt_clock_now(), other, up, head, down, update;
    if (bind_batch(b, step, err) < 0)
        return -1;
    dt_model_forward(b->model, 0);
    if (lap(b, &start, &other, err) < 0)
        return -1;
    for (size_t u = 1; u < last; u++)
        dt_model_forward(b->model, u);
    if (lap(b, &start, &up, err) < 0)
        return -1;
    dt_model_loss_and_backward(b->model, step, false);
    if (lap(b, &start, &head, err) < 0)
        return -1;
    for (size_t u = last; u-- > 1;)
        dt_model_backward(b->model, u, false);
    if (lap(b, &start, &down, err) < 0)
        return -1;
    dt_model_backward(b->model, 0, false);
    if (lap(b, &start, &other, err) < 0)
        return -1;
    queue_update(b, step);
    if (lap(b, &start, &update, err) < 0)
        return -1;
    stopwatch_add(&b->blocks, up + down);
    stopwatch_add(&b->head, head);
    stopwatch_add(&b->update, update);
    return 0;
}

static int set_rates(const struct bench *b, struct dt_rates *rates,
                     struct dt_error *err)
{
    bool fp32 = b->options.compute == DT_F32;
    size_t B = b->options.B, T = b->options.T;
    double flops = 0;
    for (size_t u = 1; u + 1 < b->layout->unit_count; u++)
        flops += 3 * dt_cost_block(&b->config, b->layout, u, B, T);
    if (set_rate(b->measure, rates,
                 fp32 ? DT_RATE_BLOCKS_FP32 : DT_RATE_BLOCKS_BF16, flops,
                 stopwatch_median(&b->blocks), err) < 0 ||
        set_rate(b->measure, rates,
                 fp32 ? DT_RATE_HEAD_FP32 : DT_RATE_HEAD_BF16,
                 dt_cost_head(&b->config, B, T), stopwatch_median(&b->head),
                 err) < 0)
        return -1;
    return set_rate(b->measure, rates, DT_RATE_MEMORY,
                    ADAMW_BYTES * (double)updated_elements(b),
                    stopwatch_median(&b->update), err);
}

static int measure_passes(const struct dt_measure *measure,
                          struct dt_rates *rates, struct dt_error *err)
{
    struct bench b = {
        .measure = measure,
        .exec = measure->exec,
        .config = *measure->model,
        .options = {.B = measure->B,
                    .T = measure->T,
                    .compute = measure->compute,
                    .train = true,
                    .save_activations = !measure->exec->device->is_host},
    };
    b.config.text = NULL;
    b.config.vision = NULL; /* rates are of its language model */
    if (b.config.n_layer > MOST_BLOCKS)
        b.config.n_layer = MOST_BLOCKS;
    if (b.config.vocab_size > MOST_VOCABULARY)
        b.config.vocab_size = MOST_VOCABULARY;
    int rc = create(&b, err);
    for (int i = 0; rc == 0 && i < ROUNDS; i++)
        rc = run_round(&b, err);
    if (rc == 0)
        rc = set_rates(&b, rates, err);
    destroy(&b);
    return rc;
}

/* --- links --- */

enum {
    SENT = 1 << 22,   /* elements: about a block of GPT-2 */
    COPIED = 1 << 27, /* bytes */
    TILES = 8,        /* to the drive */
    TILE_BYTES = 1 << 26,
    TRIAD = 1 << 24,  /* elements of each of three vectors */
    TRIAD_BYTES = 12, /* as STREAM counts */
    WORK_ELEMENTS = 2048,
    WORK_TURNS = 4000, /* about a millisecond */
    LONGER = 4,        /* work goes on so many times as long as an exchange */
};

/* Most seconds of an exchange; and the share of its time that its CPUs are
 * taken to need if no slowdown is measured.
 */
#define MOST_SENDING 0.1
#define LEAST_SENDING 0.01

/* --- collectives --- */

/* A reduce-scatter and a gather of `count` elements. */
static int exchange(const struct dt_measure *measure, struct dt_view all,
                    size_t count, double *seconds, struct dt_error *err)
{
    struct dt_comm *comm = measure->comm;
    struct dt_view v = dt_view_slice(all, 0, count);
    dt_ticket_t ticket;
    if (dt_comm_barrier(comm, err) < 0)
        return -1;
    double start = dt_clock_now();
    if (dt_comm_reduce_scatter(comm, v, DT_SUM, DT_F32, &ticket, err) < 0 ||
        dt_comm_all_gather(comm, v, &ticket, err) < 0 ||
        dt_comm_wait(comm, ticket, err) < 0 ||
        measure->exec->device->stream_wait(measure->exec->stream, err) < 0)
        return -1;
    *seconds = dt_clock_now() - start;
    return 0;
}

static int median_exchange(const struct dt_measure *measure, struct dt_view all,
                           size_t count, double *seconds, struct dt_error *err)
{
    struct stopwatch watch = {.count = 0};
    for (int i = 0; i < ROUNDS; i++) {
        if (exchange(measure, all, count, seconds, err) < 0)
            return -1;
        stopwatch_add(&watch, *seconds);
    }
    *seconds = stopwatch_median(&watch);
    return dt_comm_reduce_scalars(measure->comm, seconds, 1, DT_MAX, err);
}

/* --- CPU time of collectives --- */

/* Seconds of some work in the first cache. */
static double work(void)
{
    double start = dt_clock_now();
#pragma omp parallel
    {
        float x[WORK_ELEMENTS];
        for (int i = 0; i < WORK_ELEMENTS; i++)
            x[i] = (float)i;
        for (int turn = 0; turn < WORK_TURNS; turn++) {
#pragma omp simd
            for (int i = 0; i < WORK_ELEMENTS; i++)
                x[i] = x[i] * 0.999f + 0.5f;
            __asm__ volatile("" : : "r"(x) : "memory");
        }
    }
    return dt_clock_now() - start;
}

/* Measures how much longer work takes that starts together with an exchange,
 * which takes `exchange` seconds by itself, and ends long after it.
 */
static int time_sending(const struct dt_measure *measure, struct dt_view v,
                        double exchange, double *seconds, struct dt_error *err)
{
    struct stopwatch alone = {.count = 0};
    double left = 0, start, each;
    dt_ticket_t ticket;
    for (int i = 0; i < ROUNDS; i++)
        stopwatch_add(&alone, work());
    each = stopwatch_median(&alone);
    if (dt_comm_barrier(measure->comm, err) < 0)
        return -1;
    start = dt_clock_now();
    if (dt_comm_reduce_scatter(measure->comm, v, DT_SUM, DT_F32, &ticket, err) <
            0 ||
        dt_comm_all_gather(measure->comm, v, &ticket, err) < 0)
        return -1;
    for (; left < LONGER * exchange; left += each)
        work();
    *seconds = dt_clock_now() - start - left;
    return dt_comm_wait(measure->comm, ticket, err);
}

/* Only where the ranks' own CPUs send. */
static int measure_sending(const struct dt_measure *measure, struct dt_view v,
                           double exchange, struct dt_rates *rates,
                           struct dt_error *err)
{
    struct stopwatch watch = {.count = 0};
    double size = dt_comm_size(measure->comm), seconds;
    double bytes = 2 * (size - 1) / size * (double)v.count * sizeof(float);
    if (!measure->exec->device->is_host)
        return 0;
    for (int i = 0; i < ROUNDS; i++) {
        if (time_sending(measure, v, exchange, &seconds, err) < 0)
            return -1;
        stopwatch_add(&watch, seconds);
    }
    seconds = stopwatch_median(&watch);
    if (seconds < LEAST_SENDING * exchange)
        seconds = LEAST_SENDING * exchange;
    return set_rate(measure, rates, DT_RATE_SENDING, bytes, seconds, err);
}

/* --- collectives, and these --- */

/* Sets the rates of collectives. Two collectives of `few` elements cost two
 * calls; those of `many` cost in addition the bytes on the slower path.
 */
static int set_collectives(const struct dt_measure *measure,
                           struct dt_rates *rates, double few, double many,
                           size_t count)
{
    int size = dt_comm_size(measure->comm);
    bool rings = !measure->exec->device->is_host;
    const struct dt_traffic_group all =
        dt_traffic_neighbors(size, measure->local_size);
    const struct dt_rates each = {
        .of = {[DT_RATE_NODE] = 1, [DT_RATE_NETWORK] = 1}};
    struct dt_traffic_cost cost =
        dt_traffic_cost(&each, &all, (double)count * sizeof(float), rings);
    bool leaves = cost.out_of_node > 0;
    double bytes = leaves ? cost.out_of_node : cost.in_node;
    double seconds = many > few ? many - few : many;
    rates->of[leaves ? DT_RATE_NETWORK : DT_RATE_NODE] = 2 * bytes / seconds;
    rates->of[leaves ? DT_RATE_NETWORK_CALL : DT_RATE_NODE_CALL] = few / 2;
    return 0;
}

static int measure_collectives(const struct dt_measure *measure,
                               struct dt_rates *rates, struct dt_error *err)
{
    size_t ranks = (size_t)dt_comm_size(measure->comm);
    size_t least = ranks * 16, most = (SENT + least - 1) / least * least;
    double few = 0, many = 0;
    if (ranks == 1)
        return 0;
    struct dt_buffer *buf = dt_buffer_create(
        measure->exec->device, most * sizeof(float), "measuring", err);
    if (!buf)
        return -1;
    struct dt_view all = dt_view_of(buf, DT_F32);
    int rc = median_exchange(measure, all, least, &few, err);
    if (rc == 0)
        rc = median_exchange(measure, all, most, &many, err);
    if (rc == 0)
        rc = set_collectives(measure, rates, few, many, most);
    /* no long wait for slow links: only the cost per byte matters */
    double part = many > MOST_SENDING ? MOST_SENDING / many : 1;
    size_t sent = (size_t)(part * (double)most) / least * least;
    if (rc == 0)
        rc = measure_sending(measure,
                             dt_view_slice(all, 0, sent > least ? sent : least),
                             part * many, rates, err);
    dt_comm_forget_memory(measure->comm);
    dt_buffer_destroy(buf);
    return rc;
}

/* --- PCIe --- */

static int time_copy(const struct dt_exec *exec, void *to, const void *from,
                     double *seconds, struct dt_error *err)
{
    struct stopwatch watch = {.count = 0};
    for (int i = 0; i < ROUNDS; i++) {
        double start = dt_clock_now();
        if (exec->device->copy(exec->stream, to, from, COPIED, err) < 0 ||
            exec->device->stream_wait(exec->stream, err) < 0)
            return -1;
        stopwatch_add(&watch, dt_clock_now() - start);
    }
    *seconds = stopwatch_median(&watch);
    return 0;
}

static int measure_copies(const struct dt_measure *measure,
                          struct dt_rates *rates, struct dt_error *err)
{
    const struct dt_exec *exec = measure->exec;
    double up, down;
    void *host;
    if (exec->device->is_host)
        return 0;
    struct dt_buffer *buf =
        dt_buffer_create(exec->device, COPIED, "measuring", err);
    if (!buf)
        return -1;
    int rc = exec->device->allocate_staging(COPIED, &host, err);
    if (rc == 0) {
        if (time_copy(exec, buf->data, host, &up, err) < 0 ||
            time_copy(exec, host, buf->data, &down, err) < 0 ||
            set_rate(measure, rates, DT_RATE_PCIE_UP, COPIED, up, err) < 0 ||
            set_rate(measure, rates, DT_RATE_PCIE_DOWN, COPIED, down, err) < 0)
            rc = -1;
        exec->device->release_staging(host, COPIED);
    }
    dt_buffer_destroy(buf);
    return rc;
}

/* --- host memory --- */

/* Seconds of a[i] = b[i] + s c[i] (McCalpin, STREAM). */
static double triad(float *restrict a, const float *restrict b,
                    const float *restrict c)
{
    double start = dt_clock_now();
#pragma omp parallel for simd schedule(static)
    for (size_t i = 0; i < TRIAD; i++)
        a[i] = b[i] + 3.0f * c[i];
    return dt_clock_now() - start;
}

/* Measures host memory with all ranks of a node at once, as in an update. */
static int measure_host(const struct dt_measure *measure,
                        struct dt_rates *rates, struct dt_error *err)
{
    struct stopwatch watch = {.count = 0};
    struct dt_buffer *buf = dt_buffer_create(
        &dt_cpu, (size_t)3 * TRIAD * sizeof(float), "measuring", err);
    if (!buf)
        return -1;
    float *x = buf->data;
    for (int i = 0; i < ROUNDS; i++)
        stopwatch_add(&watch, triad(x, x + TRIAD, x + (size_t)2 * TRIAD));
    dt_buffer_destroy(buf);
    return set_rate(measure, rates, DT_RATE_HOST_MEMORY,
                    (double)TRIAD_BYTES * TRIAD * measure->local_size,
                    stopwatch_median(&watch), err);
}

/* --- the drive --- */

/* Writes and reads all tiles. */
static int move_tiles(struct dt_swap *swap, struct dt_error *err)
{
    dt_swap_ticket_t ticket = 0;
    for (int read = 0; read < 2; read++) {
        for (size_t i = 0; i < TILES; i++)
            if ((read ? dt_swap_start_read
                      : dt_swap_start_write)(swap, i, i % 3, &ticket, err) < 0)
                return -1;
        for (dt_swap_ticket_t t = ticket - TILES + 1; t <= ticket; t++)
            if (dt_swap_wait(swap, t, err) < 0)
                return -1;
    }
    return 0;
}

/* One rank of each node has the drive for itself. */
static int time_drive(const struct dt_measure *measure,
                      struct dt_swap_stats *stats, struct dt_error *err)
{
    const struct dt_swap_options options = {
        .tile_bytes = TILE_BYTES, .tile_count = TILES, .buffer_count = 3};
    struct dt_swap *swap = dt_swap_create(measure->drive, &options, err);
    if (!swap)
        return -1;
    int rc = move_tiles(swap, err);
    *stats = dt_swap_get_stats(swap);
    dt_swap_destroy(swap);
    return rc;
}

static int measure_drive(const struct dt_measure *measure,
                         struct dt_rates *rates, struct dt_error *err)
{
    struct dt_swap_stats stats = {0};
    double bytes = (double)TILES * TILE_BYTES;
    if (!measure->drive)
        return 0;
    if (measure->local_rank == 0 && time_drive(measure, &stats, err) < 0)
        return -1;
    if (set_rate(measure, rates, DT_RATE_DRIVE_READ, bytes, stats.read_seconds,
                 err) < 0)
        return -1;
    return set_rate(measure, rates, DT_RATE_DRIVE_WRITE, bytes,
                    stats.write_seconds, err);
}

static int measure_links(const struct dt_measure *measure,
                         struct dt_rates *rates, struct dt_error *err)
{
    if (measure_collectives(measure, rates, err) < 0 ||
        measure_copies(measure, rates, err) < 0 ||
        measure_host(measure, rates, err) < 0)
        return -1;
    return measure_drive(measure, rates, err);
}

/* --- all of it --- */

int dt_measure_rates(const struct dt_measure *measure, struct dt_rates *rates,
                     struct dt_error *err)
{
    rates->gpu = !measure->exec->device->is_host;
    rates->ranks_per_node = measure->local_size;
    rates->measured = true;
    if (measure_passes(measure, rates, err) < 0)
        return dt_error_prefix(err, "measuring passes");
    if (measure_links(measure, rates, err) < 0)
        return dt_error_prefix(err, "measuring links");
    return 0;
}
