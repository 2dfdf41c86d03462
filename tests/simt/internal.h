/* SPDX-License-Identifier: Apache-2.0 */
/*
 * internal.h - what the files of the emulation share
 *
 * One recursive lock guards everything. Functions *_locked are called with it
 * held; work runs with it held.
 */
#ifndef DT_SIMT_INTERNAL_H
#define DT_SIMT_INTERNAL_H

#include "simt.h"

enum { SIMT_MAX_DEVICES = 16, SIMT_LANES = 32, SIMT_MAX_BLOCK = 1024 };

/* One queued piece of work; see simt_enqueue. */
struct simt_work {
    enum simt_progress (*progress)(void *ctx);
    void (*release)(void *ctx);
    void *ctx;
};

/* Where a stream stands in a capture: the nodes that its next comes after. */
struct simt_tail {
    size_t *nodes, count;
};

/* --- settings and errors (device.c) --- */

void simt_lock(void);
void simt_unlock(void);
/* $SIMT_SEED, and what it was when it was read last: before work is run. */
void simt_read_seed_locked(void);
unsigned simt_seed(void);
int simt_device_count(void); /* $SIMT_DEVICES */
size_t simt_memory(void);    /* bytes of a device, $SIMT_MEMORY */
int simt_device(void);       /* of this thread */
/* Not NULL: else the host is out of memory and the process ends. */
void *simt_checked(void *data);
/* Keeps the error for cudaGetLastError and returns it. */
cudaError_t simt_error(cudaError_t error);

/* --- memory (memory.c) --- */

/* The host, or rather the work that it runs for the device, may touch device
 * memory between the two.
 */
void simt_memory_open_locked(void);
void simt_memory_close_locked(void);
/* Bytes around allocations that kernel `who` must not have written. */
void simt_check_zones_locked(const char *who);
/* The device that an address belongs to, -1: none. */
int simt_device_of_locked(const void *data);

/* --- streams (stream.c) --- */

/* A point in a stream. */
struct ticket {
    int references;
    bool passed;
    struct timespec when;
};

struct CUstream_st {
    int device;
    bool blocking, destroyed;
    struct item *head, *tail;
    size_t queued, done;        /* so far */
    struct CUgraph_st *capture; /* NULL: none */
    struct simt_tail last;      /* what the next node of it comes after */
    struct CUstream_st *next;
};

extern struct CUstream_st *simt_streams; /* all there are, of all devices */

/* The two kinds of cudaStream_t 0 become what they stand for. NULL: there is no
 * such stream.
 */
struct CUstream_st *simt_stream_locked(cudaStream_t stream);
/* As simt_enqueue. */
cudaError_t simt_enqueue_locked(struct CUstream_st *stream,
                                struct simt_work work);
/* A point that is passed when all that the stream has now is done; the caller
 * has a reference.
 */
struct ticket *simt_mark_locked(struct CUstream_st *stream);
void simt_unref(struct ticket *ticket);
/* The stream does not go on until the point is passed. */
void simt_push_wait_locked(struct CUstream_st *stream, struct ticket *ticket);
/* Stream 0 and the streams that are made to block it wait for each other. */
void simt_order_with_legacy_locked(struct CUstream_st *stream);
/* Runs work until the point is passed. */
void simt_wait_locked(const struct ticket *ticket);
/* Runs a little work. */
void simt_poll_locked(void);
/* Wait for a stream, for all of the device of this thread; an error during
 * capture.
 */
cudaError_t simt_wait_stream(cudaStream_t stream);
cudaError_t simt_wait_device(void);

/* --- graphs (graph.c); all of them locked --- */

/* Takes a reference. */
struct CUgraph_st *simt_graph_ref(struct CUgraph_st *graph);
void simt_graph_unref(struct CUgraph_st *graph);
/* Adds a node after `tail`, which then is that node. */
void simt_graph_add(struct CUgraph_st *graph, struct simt_tail *tail,
                    struct simt_work work);
/* What comes after `tail` shall come after `other` too. */
void simt_tail_join(struct simt_tail *tail, const struct simt_tail *other);
bool simt_stream_captures(const struct CUstream_st *stream);
bool simt_capture_broken(const struct CUstream_st *stream);
/* The capture that the stream belongs to has failed: returns
 * cudaErrorStreamCaptureUnsupported.
 */
cudaError_t simt_break_capture(struct CUstream_st *stream);
/* For calls that no capture allows: breaks all and returns the error. */
cudaError_t simt_unsafe_locked(void);

/* --- kernels (kernel.c) --- */

/* Text about the kernel and thread that run now, or "". */
const char *simt_where(void);

#endif /* DT_SIMT_INTERNAL_H */
