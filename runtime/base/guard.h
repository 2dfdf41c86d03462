/* SPDX-License-Identifier: Apache-2.0 */
/*
 * guard.h - reading a mapped file that may shrink or fail: an error, no crash
 *
 * A page of a mapping that the file no longer has, or that the disk cannot
 * give, is a SIGBUS for the thread that touches it. In dt_guard_run it becomes
 * a result; anywhere else SIGBUS does what it did before.
 */
#ifndef DT_BASE_GUARD_H
#define DT_BASE_GUARD_H

/* Calls read(ctx), which only copies from a mapping: it owns nothing and holds
 * no lock. -1 if it was cut off by a SIGBUS; what it wrote is undefined then.
 * Any number of threads may be in it.
 */
int dt_guard_run(void (*read)(void *ctx), void *ctx);

#endif /* DT_BASE_GUARD_H */
