/* SPDX-License-Identifier: Apache-2.0 */
/*
 * internal.h - the functions that the files of the emulation share
 *
 * One recursive lock protects everything. Callers of *_locked functions must
 * hold it; queued work runs while it is held.
 */
#ifndef DT_SIMT_INTERNAL_H
#define DT_SIMT_INTERNAL_H

#include "simt.h"

enum {
    SIMT_MAX_DEVICES = 16,
    SIMT_LANES = 32,
    SIMT_MAX_BLOCK = 1024,
    SIMT_MAX_SHARED = 228 << 10,    /* bytes of a multiprocessor, sm_90 */
    SIMT_SHARED_RESERVED = 1 << 10, /* of them for each block */
};

/* One queued piece of work; see simt_enqueue. */
struct simt_work {
    enum simt_progress (*progress)(void *ctx);
    void (*release)(void *ctx);
    void *ctx;
    /* Asked first, without device memory, which takes a system call for each
     * allocation to open; NULL: progress says it.
     */
    bool (*blocked)(void *ctx);
};

/* The end of a stream in a capture: the nodes on which its next node depends.
 */
struct simt_tail {
    size_t *nodes, count;
};

/* --- settings and errors (device.c) --- */

void simt_lock(void);
void simt_unlock(void);
/* Reads $SIMT_SEED, which is done before work is run; returns the last value.
 */
void simt_read_seed_locked(void);
unsigned simt_seed(void);
int simt_device_count(void); /* $SIMT_DEVICES */
/* The number in an environment variable, or `fallback`. */
unsigned long long simt_setting(const char *name, unsigned long long fallback);

/* Counts a call that may fail: true if this is the one whose number is in the
 * environment variable ($SIMT_FAIL_LAUNCH, $SIMT_FAIL_CAPTURE,
 * $SIMT_FAIL_QUERY).
 */
bool simt_counts_to(const char *name, unsigned long long *count);
size_t simt_memory(void); /* bytes of a device, $SIMT_MEMORY */
int simt_device(void);    /* of this thread */
/* Bytes of shared memory of a multiprocessor, $SIMT_SHARED. */
size_t simt_shared_memory(void);
/* Returns `data`; ends the process if it is NULL, as the host is out of memory.
 */
void *simt_checked(void *data);
/* Keeps the error for cudaGetLastError and returns it. */
cudaError_t simt_error(cudaError_t error);

/* --- memory (memory.c) --- */

/* Device memory can be accessed only between these two, that is, by the work
 * that the host runs for the device. An allocation is opened when it is touched
 * for the first time; a system call touches nothing, so it needs open_at.
 */
void simt_memory_open_locked(void);
void simt_memory_open_at_locked(const void *data);
void simt_memory_close_locked(void);
/* Checks that kernel `who` has not written to the bytes around allocations. */
void simt_check_zones_locked(const char *who);
/* Whether NCCL would go on using some of it (nccl.c). */
bool simt_is_registered_locked(const void *data, size_t bytes);
/* The bytes of device memory that begins at `to`, if page-locked memory of the
 * same size begins at `from`; otherwise 0.
 */
size_t simt_twin_bytes(const void *to, const void *from);
/* The device that an address belongs to, -1: none. */
int simt_device_of_locked(const void *data);
/* The last allocation of a device that begins at or below an address, or else
 * the page-locked memory that has it; NULL: none.
 */
const void *simt_allocation_locked(const void *data, size_t *bytes);
/* True if the address is among those of devices: how far from the first. */
bool simt_arena_offset(const void *data, size_t *offset);

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
    struct simt_tail last;      /* the nodes on which its next one depends */
    struct CUstream_st *next;
};

extern struct CUstream_st *simt_streams; /* all streams of all devices */

/* The stream of a handle; resolves the two kinds of default stream. NULL: there
 * is no such stream.
 */
struct CUstream_st *simt_stream_locked(cudaStream_t stream);
/* As simt_enqueue. */
cudaError_t simt_enqueue_work(cudaStream_t stream, struct simt_work work);
cudaError_t simt_enqueue_locked(struct CUstream_st *stream,
                                struct simt_work work);
/* A point that is passed when everything now in the stream is done. The caller
 * owns a reference.
 */
struct ticket *simt_mark_locked(struct CUstream_st *stream);
void simt_unref(struct ticket *ticket);
/* Lets the stream wait until the point is passed. */
void simt_push_wait_locked(struct CUstream_st *stream, struct ticket *ticket);
/* Lets stream 0 and the streams that block it wait for each other. */
void simt_order_with_legacy_locked(struct CUstream_st *stream);
/* Runs work until the point is passed. */
void simt_wait_locked(const struct ticket *ticket);
/* Runs a little work. */
void simt_poll_locked(void);
/* Wait for a stream, or for the whole device of this thread. An error during
 * capture.
 */
cudaError_t simt_wait_stream(cudaStream_t stream);
cudaError_t simt_wait_device(void);

/* --- graphs (graph.c); callers hold the lock --- */

/* Takes a reference. */
struct CUgraph_st *simt_graph_ref(struct CUgraph_st *graph);
void simt_graph_unref(struct CUgraph_st *graph);
/* Adds a node after `tail` and sets `tail` to it. */
void simt_graph_add(struct CUgraph_st *graph, struct simt_tail *tail,
                    struct simt_work work);
/* Lets the nodes after `tail` also depend on `other`. */
void simt_tail_join(struct simt_tail *tail, const struct simt_tail *other);
bool simt_stream_captures(const struct CUstream_st *stream);
bool simt_capture_broken(const struct CUstream_st *stream);
/* Marks the capture of the stream as failed. Returns
 * cudaErrorStreamCaptureUnsupported.
 */
cudaError_t simt_break_capture(struct CUstream_st *stream);
/* For calls that a capture does not allow to its thread, or if it is global to
 * any: breaks such captures and returns the error.
 */
cudaError_t simt_unsafe_locked(void);

/* --- kernels (kernel.c) --- */

/* A text that names the running kernel and thread, or "". */
const char *simt_where(void);
/* The number of the running thread in its block. */
unsigned simt_thread(void);

/* --- dynamic shared memory (shared.c) --- */

/* The most that a block can have. */
size_t simt_shared_of_block(void);
/* Lets launches of the kernel have so many bytes; false: no block has them. */
bool simt_allow_shared_locked(const void *kernel, size_t bytes);
bool simt_shared_fits_locked(const void *kernel, size_t bytes);
/* A kernel begins, a block of it, and a thread has returned. */
void simt_shared_begin(size_t bytes);
void simt_shared_begin_block(void);
void simt_copy_end(void);
bool simt_is_behind_shared(const void *at);

#endif /* DT_SIMT_INTERNAL_H */
