/* SPDX-License-Identifier: Apache-2.0 */
/* mirror.c - copies of flat buffers, where the host cannot reach them */
#include "config.h"

#include "algo/mirror.h"

int dt_mirror_open(struct dt_mirror *mirror, const struct dt_exec *exec,
                   struct dt_view view, bool fetch, struct dt_error *err)
{
    size_t bytes = view.count * dt_dtype_bytes(view.dtype);
    *mirror = (struct dt_mirror){exec, view, view};
    if (exec->device->is_host)
        return 0;
    mirror->here = (struct dt_view){.count = view.count, .dtype = view.dtype};
    mirror->here.buf = dt_buffer_create(&dt_cpu, bytes, "a copy", err);
    if (!mirror->here.buf)
        return -1;
    if (!fetch)
        return 0;
    if (exec->device->copy(exec->stream, mirror->here.buf->data,
                           dt_view_data(view), bytes, err) < 0)
        return -1;
    return exec->device->stream_wait(exec->stream, err);
}

int dt_mirror_publish(const struct dt_mirror *mirror, struct dt_error *err)
{
    const struct dt_exec *exec = mirror->exec;
    if (exec->device->is_host)
        return 0;
    return exec->device->copy(exec->stream, dt_view_data(mirror->there),
                              mirror->here.buf->data, mirror->here.buf->bytes,
                              err);
}

void dt_mirror_close(struct dt_mirror *mirror)
{
    if (mirror->exec && !mirror->exec->device->is_host)
        dt_buffer_destroy(mirror->here.buf);
}
