/* SPDX-License-Identifier: Apache-2.0 */
/*
 * device.h - memory of one piece of hardware, and the queue its work runs on
 *
 * `cpu` is built in: its memory is anonymous pages (huge where the kernel
 * grants them), its only stream is NULL and everything on it is done when the
 * call returns.
 */
#ifndef DT_DEVICE_DEVICE_H
#define DT_DEVICE_DEVICE_H

#include <stddef.h>

#include "base/error.h"

struct dt_stream; /* in-order queue of work; NULL on the cpu */

struct dt_buffer {
    void *data;   /* 64-byte aligned, zero when created */
    size_t bytes;
};

/* Allocates zeroed memory (bytes > 0). NULL and err (EX_OSERR, with the number
 * of bytes and what they are `what` for) if there is none.
 */
struct dt_buffer *dt_buffer_create(size_t bytes, const char *what,
                                   struct dt_error *err);
void dt_buffer_destroy(struct dt_buffer *buf); /* NULL is fine */

/* Largest resident set of this process so far, in bytes. */
size_t dt_device_peak_bytes(void);

/* Bytes of memory that processes of this job may still use on this node: what
 * the kernel and the control groups of this process (versions 1 and 2) leave,
 * page cache not counted as used. `root` stands before /proc and /sys ("").
 * SIZE_MAX if nothing says so.
 */
size_t dt_memory_available(const char *root);

#endif /* DT_DEVICE_DEVICE_H */
