/* SPDX-License-Identifier: Apache-2.0 */
/* host_copy.c - copies flat buffers that the host cannot access */
#include "config.h"

#include "weights/host_copy.h"

int dt_host_copy_open(struct dt_host_copy *copy, const struct dt_exec *exec,
                      struct dt_view view, bool fetch, struct dt_error *err)
{
    size_t bytes = view.count * dt_dtype_bytes(view.dtype);
    *copy = (struct dt_host_copy){exec, view, view};
    if (exec->device->is_host)
        return 0;
    copy->here = (struct dt_view){.count = view.count, .dtype = view.dtype};
    copy->here.buf = dt_buffer_create(&dt_cpu, bytes, "a copy", err);
    if (!copy->here.buf)
        return -1;
    if (!fetch)
        return 0;
    if (exec->device->copy(exec->stream, copy->here.buf->data,
                           dt_view_data(view), bytes, err) < 0)
        return -1;
    return exec->device->stream_wait(exec->stream, err);
}

int dt_host_copy_publish(const struct dt_host_copy *copy, struct dt_error *err)
{
    const struct dt_exec *exec = copy->exec;
    if (exec->device->is_host)
        return 0;
    return exec->device->copy(exec->stream, dt_view_data(copy->there),
                              copy->here.buf->data, copy->here.buf->bytes, err);
}

void dt_host_copy_close(struct dt_host_copy *copy)
{
    if (copy->exec && !copy->exec->device->is_host)
        dt_buffer_destroy(copy->here.buf);
}
