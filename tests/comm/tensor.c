/* SPDX-License-Identifier: Apache-2.0 */
/* tensor.c - a tensor on the device, with a copy on the host for each way */
#include "config.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "tensor.h"

void *before(const struct ctx *c)
{
    return c->before + c->v.offset * dt_dtype_bytes(c->v.dtype);
}

void *after(const struct ctx *c)
{
    return c->after + c->v.offset * dt_dtype_bytes(c->v.dtype);
}

int open_case(struct ctx *c, size_t count, enum dt_dtype dtype, size_t guard)
{
    const struct dt_device *device = c->rank.device;
    size_t bytes = (count + 2 * guard) * dt_dtype_bytes(dtype);
    void *data;
    c->buf = dt_buffer_create(device, bytes, "a test", &c->err);
    TRY(c->buf);
    c->v = (struct dt_view){c->buf, guard, count, dtype};
    TRY(device->allocate_staging(bytes, &data, &c->err) == 0);
    c->before = data;
    TRY(device->allocate_staging(bytes, &data, &c->err) == 0);
    c->after = data;
    memset(c->before, 0x5a, bytes);
    return 0;
}

int upload(struct ctx *c)
{
    TRY(c->rank.device->copy(c->rank.stream, c->buf->data, c->before,
                             c->buf->bytes, &c->err) == 0);
    return 0;
}

int download(struct ctx *c)
{
    TRY(dt_comm_wait(c->rank.comm, c->ticket, &c->err) == 0);
    TRY(c->rank.device->copy(c->rank.stream, c->after, c->buf->data,
                             c->buf->bytes, &c->err) == 0);
    TRY(rank_finish(&c->rank, &c->err) == 0);
    return 0;
}

int close_case(struct ctx *c)
{
    size_t guard = c->v.offset * dt_dtype_bytes(c->v.dtype);
    for (size_t i = 0; i < guard; i++)
        TRY(c->after[i] == 0x5a && c->after[c->buf->bytes - 1 - i] == 0x5a);
    c->rank.device->release_staging(c->before, c->buf->bytes);
    c->rank.device->release_staging(c->after, c->buf->bytes);
    dt_buffer_destroy(c->buf);
    return 0;
}
