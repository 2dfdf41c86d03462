/* SPDX-License-Identifier: Apache-2.0 */
/* host_copy.h - gives the host access to a flat buffer of the device */
#ifndef DT_WEIGHTS_HOST_COPY_H
#define DT_WEIGHTS_HOST_COPY_H

#include "base/error.h"
#include "ops/ops.h"

/* Host memory for a view: the view itself if it is in host memory, else a copy
 * of the same size.
 */
struct dt_host_copy {
    const struct dt_exec *exec;
    struct dt_view there, here; /* on the device; on the host */
};

/* Opens a host copy of `view`. With `fetch`, waits for the stream and copies
 * the content; else a copy starts with zeros. -1: EX_OSERR, or the device
 * failed. The caller calls dt_host_copy_close in any case.
 */
int dt_host_copy_open(struct dt_host_copy *copy, const struct dt_exec *exec,
                      struct dt_view view, bool fetch, struct dt_error *err);

/* Copies what the host wrote to the device, in stream order. -1: the device
 * failed.
 */
int dt_host_copy_publish(const struct dt_host_copy *copy, struct dt_error *err);

/* Frees the copy. */
void dt_host_copy_close(struct dt_host_copy *copy);

#endif /* DT_WEIGHTS_HOST_COPY_H */
