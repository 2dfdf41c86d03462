/* SPDX-License-Identifier: Apache-2.0 */
/*
 * locker.h - host memory that a device copies to by itself, got ready in a
 * thread
 *
 * The kernel clears each page that memory gets, and a device locks it: seconds
 * for every ten gigabytes, for which nobody has to wait.
 */
#ifndef DT_DEVICE_LOCKER_H
#define DT_DEVICE_LOCKER_H

#include <stdbool.h>
#include <stddef.h>

#include "device/device.h"

struct dt_locker;

/* Begins with these buffers of host memory, which stay the caller's until
 * dt_locker_close; their content is kept. NULL and err: EX_OSERR.
 */
struct dt_locker *dt_locker_open(const struct dt_device *device,
                                 struct dt_buffer *const *buffers, size_t count,
                                 struct dt_error *err);

/* 1: all are ready; 0: not yet, and never with `wait`; -1 and err: EX_OSERR,
 * one of them cannot be.
 */
int dt_locker_done(struct dt_locker *locker, bool wait, struct dt_error *err);

/* Stops where it is, and unlocks what was locked; NULL is fine. */
void dt_locker_close(struct dt_locker *locker);

#endif /* DT_DEVICE_LOCKER_H */
