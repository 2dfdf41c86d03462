/* SPDX-License-Identifier: Apache-2.0 */
/* bridge.c - runs an operation of another device on tensors of the host */
#include "config.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bridge.h"
#include "harness.h"

enum { MAX_USED = 32 };

/* What two orders of a sum, and two ways to an exp, differ by. */
static const double SAME = 1e-5;

enum pass { BEFORE, DIRECT, RECORD, HOST };

const struct dt_ops *bridge_ops, *bridge_now;
struct dt_stream *bridge_stream;

static struct {
    const struct dt_backend *backend;
    struct dt_stream *stream;
    const char *op;
    double slack;
    bool deterministic;
    enum pass pass;
    struct tensor *used[MAX_USED];
    size_t used_count;
    struct dt_buffer host_workspace;
} bridge;

/* Fails the case if a call of the device did. */
#define TRY(call)                                                              \
    do {                                                                       \
        struct dt_error err = {0};                                             \
        if (device->call < 0)                                                  \
            fail_msg("%s: %s: %s", bridge.op, #call, err.text);                \
    } while (0)

const struct dt_ops *bridge_open(const char *backend,
                                 const struct dt_backend_options *options,
                                 struct dt_error *err)
{
    char note[256];

    bridge.deterministic = options->deterministic;

    bridge.backend = dt_backend_open(backend, options, note, sizeof(note), err);
    if (!bridge.backend ||
        bridge.backend->device->stream_create(&bridge.stream, err) < 0)
        return NULL;
    bridge_ops = bridge.backend->ops;
    bridge_table.name = bridge_ops->name;
    bridge_table.norm_sums = bridge_ops->norm_sums;
    return &bridge_table;
}

bool bridge_is_real(void)
{
    return !strcasestr(bridge.backend->device->describe(), "simt");
}

void bridge_forget(struct tensor *tensor)
{
    dt_buffer_destroy(tensor->twin);
    free(tensor->before);
    free(tensor->direct);
    tensor->twin = NULL;
    tensor->before = tensor->direct = NULL;
}

/* --- copies --- */

static void wait_all(void)
{
    const struct dt_device *device = bridge.backend->device;

    TRY(stream_wait(bridge.stream, &err));
}

static void upload(const struct tensor *t, const void *from)
{
    const struct dt_device *device = bridge.backend->device;

    TRY(copy(bridge.stream, t->twin->data, from, t->host.bytes, &err));
}

static void download(const struct tensor *t, void *to)
{
    const struct dt_device *device = bridge.backend->device;

    TRY(copy(bridge.stream, to, t->twin->data, t->host.bytes, &err));
    wait_all();
}

/* Notes that the call uses the tensor, and copies it to the device. */
static void use(struct tensor *t)
{
    for (size_t i = 0; i < bridge.used_count; i++) {
        if (bridge.used[i] == t)
            return;
    }
    assert_true(bridge.used_count < MAX_USED);
    bridge.used[bridge.used_count++] = t;
    t->lost = t->workspace;
    if (!t->twin) {
        struct dt_error err;
        t->twin = dt_buffer_create(bridge.backend->device, t->host.bytes,
                                   "a tensor", &err);
        if (!t->twin)
            fail_msg("%s", err.text);
        t->before = malloc(t->host.bytes);
        t->direct = malloc(t->host.bytes);
        assert_true(t->before && t->direct);
    }
    memcpy(t->before, t->host.data, t->host.bytes);
    upload(t, t->before);
}

struct dt_view at(struct dt_view v)
{
    struct tensor *t = (struct tensor *)v.buf;

    if (v.count == 0 || bridge.pass == HOST)
        return v;
    if (bridge.pass == DIRECT)
        use(t);
    v.buf = t->twin;
    return v;
}

struct dt_view at_lost(struct dt_view v)
{
    struct dt_view there = at(v);

    if (v.count > 0)
        ((struct tensor *)v.buf)->lost = true;
    return there;
}

struct dt_view at_workspace(struct dt_view v, size_t count)
{
    size_t bytes = count * sizeof(float);

    if (bridge.pass != HOST)
        return at(v);
    if (bridge.host_workspace.bytes < bytes) {
        free(bridge.host_workspace.data);
        bridge.host_workspace.data = aligned_alloc(64, (bytes + 63) / 64 * 64);
        bridge.host_workspace.bytes = bytes;
        assert_non_null(bridge.host_workspace.data);
    }
    return (struct dt_view){&bridge.host_workspace, 0, count, DT_F32};
}

/* --- checks --- */

/* All tensors must be as before the call, or as the direct call left them. */
static void check_bits(bool called, const char *what)
{
    for (size_t i = 0; i < bridge.used_count; i++) {
        struct tensor *t = bridge.used[i];
        const size_t bytes = t->host.bytes;
        char *got = malloc(bytes);
        assert_non_null(got);
        download(t, got);
        bool same = memcmp(got, called ? t->direct : t->before, bytes) == 0;
        if (called && !bridge.deterministic)
            memcpy(t->direct, got, bytes);
        free(got);
        if (!same && !t->lost && (!called || bridge.deterministic))
            fail_msg("%s: tensor %zu of the call has other bits %s", bridge.op,
                     i, what);
    }
}

/* All elements that `data` has for a tensor. */
static struct dt_view view_of(const struct tensor *t, struct dt_buffer *buf,
                              char *data)
{
    const size_t count = t->host.bytes / dt_dtype_bytes(t->type) - 2 * GUARD;

    *buf = (struct dt_buffer){.data = data, .bytes = t->host.bytes};
    return (struct dt_view){buf, GUARD, count, t->type};
}

/* The largest finite one; NaN if there is any. */
static double largest_of(struct dt_view v)
{
    double largest = 0.0;

    for (size_t i = 0; i < v.count; i++) {
        double x = fabs(element(v, i));
        if (isnan(x))
            return NAN;
        if (x > largest && isfinite(x))
            largest = x;
    }
    return largest;
}

/* The CPU's result lies in t->host, the device's in t->direct, both rounded
 * once. Where the CPU has NaN nothing is compared: how far that spreads within
 * a tile is nobody's promise.
 */
static void check_host(struct tensor *t, size_t index)
{
    struct dt_buffer buf, other;
    struct dt_view wanted = view_of(t, &buf, t->host.data);
    struct dt_view result = view_of(t, &other, t->direct);
    const double largest = largest_of(wanted);

    for (size_t i = 0; i < wanted.count && !isnan(largest); i++) {
        double want = element(wanted, i), got = element(result, i);
        double scale = t->type == DT_F64 ? fabs(want) : largest;
        double allowed = (SAME + bridge.slack) * scale +
                         2.0 * rounding(t->type) * fabs(want);
        if (got != want && !(fabs(got - want) <= allowed))
            fail_msg("%s: element %zu of tensor %zu of the call is %.9g, by "
                     "the CPU %.9g (largest %.3g)",
                     bridge.op, i, index, got, want, largest);
    }
}

/* --- passes --- */

void bridge_begin(const char *op, bool supported, double slack)
{
    if (!supported) {
        print_message("# %s has no %s\n", bridge_table.name, op);
        skip();
    }
    bridge.op = op;
    bridge.slack = slack;
    bridge.pass = BEFORE;
    bridge.used_count = 0;
}

static void upload_all(void)
{
    for (size_t i = 0; i < bridge.used_count; i++)
        upload(bridge.used[i], bridge.used[i]->before);
}

static void replay_twice(void)
{
    const struct dt_device *device = bridge.backend->device;
    struct dt_graph *graph;
    size_t bytes;

    TRY(record_end(bridge.stream, &graph, &bytes, &err));
    check_bits(false, "when it is only recorded");
    for (int i = 0; i < 2; i++) {
        upload_all();
        TRY(replay(bridge.stream, graph, &err));
        check_bits(true, "when it is replayed");
    }
    device->graph_destroy(graph);
}

bool bridge_pass(void)
{
    const struct dt_device *device = bridge.backend->device;

    switch (bridge.pass) {
    case BEFORE:
        bridge.pass = DIRECT;
        bridge_now = bridge_ops;
        bridge_stream = bridge.stream;
        return true;
    case DIRECT:
        for (size_t i = 0; i < bridge.used_count; i++)
            download(bridge.used[i], bridge.used[i]->direct);
        bridge.pass = RECORD;
        if (device->record_begin) {
            upload_all();
            TRY(record_begin(bridge.stream, &err));
            return true;
        }
        break;
    case RECORD:
        replay_twice();
        break;
    case HOST:
        for (size_t i = 0; i < bridge.used_count; i++) {
            struct tensor *t = bridge.used[i];
            if (!t->lost)
                check_host(t, i);
            memcpy(t->host.data, t->direct, t->host.bytes);
        }
        return false;
    }
    bridge.pass = HOST;
    bridge_now = dt_ops_cpu();
    bridge_stream = NULL;
    return true;
}
