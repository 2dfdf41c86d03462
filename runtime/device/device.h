/* SPDX-License-Identifier: Apache-2.0 */
/*
 * device.h - memory, streams and events of one kind of hardware
 *
 * A device is a table of functions; a process has one of each kind. `cpu` is
 * built in: its memory is anonymous pages (huge where the kernel grants them),
 * its only stream is NULL, its events are NULL, and all work is done when
 * the call returns. Others come with their backend (backend/backend.h).
 */
#ifndef DT_DEVICE_DEVICE_H
#define DT_DEVICE_DEVICE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

#ifdef __cplusplus
extern "C" {
#endif

struct dt_stream; /* in-order queue of work */
struct dt_event;  /* a point in a stream */
struct dt_graph;  /* recorded work, to be replayed */

/* The use of the time from one lap to the next. */
enum dt_lap {
    DT_LAP_OTHER,   /* between two steps */
    DT_LAP_COMPUTE, /* in a step */
    DT_LAP_WAIT,    /* in a step, for a collective */
    DT_LAPS
};

/* Times of all steps that ended on a device. */
struct dt_lap_times {
    double seconds[DT_LAPS]; /* of DT_LAP_OTHER: none */
    long steps;
};

/* The functions of a device. Those that queue work return at once; errors of
 * queued work are reported by a later call that waits. Only one thread uses a
 * device, except for events: any thread may wait for them.
 */
struct dt_device {
    const char *name; /* "cpu", "cuda" */
    bool is_host;     /* memory is the host's, work is done on return */

    /* Zeroed memory, 256-byte aligned. -1: EX_OSERR, with how much is free. */
    int (*allocate)(size_t bytes, void **data, struct dt_error *err);
    void (*release)(void *data, size_t bytes);
    /* Host memory that copies use without waiting. */
    int (*allocate_staging)(size_t bytes, void **data, struct dt_error *err);
    void (*release_staging)(void *data, size_t bytes);
    /* Makes other memory of the host staging memory, until it is unlocked,
     * which waits for its copies. NULL: it is anyway. -1: EX_OSERR.
     */
    int (*lock)(void *data, size_t bytes, struct dt_error *err);
    void (*unlock)(void *data);

    int (*stream_create)(struct dt_stream **stream, struct dt_error *err);
    /* One for copies alone, without the memory that operations need. */
    int (*copy_stream_create)(struct dt_stream **stream, struct dt_error *err);
    void (*stream_destroy)(struct dt_stream *stream);
    /* Waits until all queued work is done. */
    int (*stream_wait)(struct dt_stream *stream, struct dt_error *err);
    /* To be called again and again by who waits for work of the stream. -1:
     * that waits for a rank that is lost. NULL: nothing waits for ranks.
     */
    int (*watch)(struct dt_stream *stream, struct dt_error *err);

    /* Queues a copy between any two of device, staging and host memory. The
     * source must stay until it is done; host memory that is not staging is
     * copied before the call returns.
     */
    int (*copy)(struct dt_stream *stream, void *to, const void *from,
                size_t bytes, struct dt_error *err);

    int (*event_create)(struct dt_event **event, struct dt_error *err);
    void (*event_destroy)(struct dt_event *event);
    /* Sets the event to the current end of `stream`. */
    int (*event_record)(struct dt_event *event, struct dt_stream *stream,
                        struct dt_error *err);
    /* 1: the stream has reached the event, 0: not yet, -1: work before it
     * failed. An event that was never recorded has been reached.
     */
    int (*event_done)(struct dt_event *event, struct dt_error *err);

    /* Between begin and end, work queued to the stream is recorded and not run;
     * replay queues all of it. After record_end failed the stream is as before
     * record_begin, and the error has been reported. *bytes: of the device that
     * the graph took, with what other programs took meanwhile; SIZE_MAX: they
     * freed more than that. NULL: the device has no graphs.
     */
    int (*record_begin)(struct dt_stream *stream, struct dt_error *err);
    int (*record_end)(struct dt_stream *stream, struct dt_graph **graph,
                      size_t *bytes, struct dt_error *err);
    int (*replay)(struct dt_stream *stream, struct dt_graph *graph,
                  struct dt_error *err);
    void (*graph_destroy)(struct dt_graph *graph);

    /* From the end of the work that is queued now, the time of `stream` counts
     * as `lap`; in one stream alone, and not while work is recorded. A step
     * begins with DT_LAP_COMPUTE and ends with DT_LAP_OTHER; a wait between two
     * steps changes nothing. Returns the lap before. NULL: work is done when a
     * call returns, and spans (base/span.h) have its times.
     */
    enum dt_lap (*lap)(struct dt_stream *stream, enum dt_lap lap);
    /* The times of the steps whose end the stream has passed. */
    void (*lap_times)(struct dt_lap_times *times);

    /* Tells a profiler of the device, if one is attached, that this thread is
     * in a range of this name, until range_end; ranges nest. NULL: there is
     * none for it.
     */
    void (*range_begin)(const char *name);
    void (*range_end)(void);

    /* Bytes this process may still allocate (SIZE_MAX: unknown), those it has
     * now (0: unknown), and its peak so far.
     */
    size_t (*available_bytes)(void);
    size_t (*used_bytes)(void);
    size_t (*peak_bytes)(void);
    /* "NVIDIA H200, 139.8 GiB, sm_90, driver 13.0": valid until the next call.
     */
    const char *(*describe)(void);
    /* The PCI bus id of the GPU, "0000:18:00.0": valid until the next call.
     * NULL, the function or its result: it has none.
     */
    const char *(*bus_id)(void);
};

/* The host itself. */
extern const struct dt_device dt_cpu;

struct dt_buffer {
    void *data; /* zero when created; the host may touch it only on is_host */
    size_t bytes;
    const struct dt_device *device;
};

/* Allocates zeroed memory, which may be empty. NULL and err: EX_OSERR, with the
 * number of bytes and their purpose `what`.
 */
struct dt_buffer *dt_buffer_create(const struct dt_device *device, size_t bytes,
                                   const char *what, struct dt_error *err);
void dt_buffer_destroy(struct dt_buffer *buf); /* NULL is fine */

/* Waits until the event of a stream is reached, polling every few microseconds,
 * and watches the stream, unless that is NULL: in threads other than its own.
 * -1: work before it failed, or waits for a rank that is lost.
 */
int dt_event_wait(const struct dt_device *device, struct dt_stream *stream,
                  struct dt_event *event, struct dt_error *err);

/* Bytes of memory that processes of this job may still use on this node,
 * according to the kernel and the control groups of this process (versions 1
 * and 2); page cache does not count as used. `root` ("") is prepended to /proc
 * and /sys. SIZE_MAX if unknown.
 */
size_t dt_memory_available(const char *root);

/* --- energy, by the counters of a GPU and of a node's processors ---
 *
 * RAPL (powercap) counts packages and, where they are apart from those, DRAM,
 * in microjoules; its counters wrap after some minutes at full power. NVML
 * counts millijoules since the driver was loaded, and renews its count about
 * every 100 ms: for windows of a second and more. Nothing is estimated.
 */

struct dt_energy;

struct dt_energy_options {
    bool node;        /* read RAPL: one process of a node does */
    const char *gpu;  /* PCI bus id of this process's GPU; NULL: it has none */
    const char *root; /* prepended to /sys ("") */
    const char *nvml; /* the library; NULL: libnvidia-ml.so.1 */
};

/* Energy used since dt_energy_open. NAN: unknown. */
struct dt_energy_reading {
    double gpu_j; /* of the GPU; 0 without one */
    double cpu_j; /* of the node's processors; 0 if another process reads them
                   */
};

/* NULL: out of memory. Destroy it with dt_energy_close. */
struct dt_energy *dt_energy_open(const struct dt_energy_options *options);
void dt_energy_close(struct dt_energy *energy); /* NULL is fine */

/* Reads the counters. Call it at least once a minute, so that no wrap is
 * missed: some microseconds. A counter that was reset or failed is unknown from
 * then on.
 */
void dt_energy_read(struct dt_energy *energy,
                    struct dt_energy_reading *reading);

/* Why a number is unknown, "RAPL: permission denied"; "": both are known. */
const char *dt_energy_problem(const struct dt_energy *energy);

#ifdef __cplusplus
}
#endif

#endif /* DT_DEVICE_DEVICE_H */
