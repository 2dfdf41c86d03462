/* SPDX-License-Identifier: Apache-2.0 */
/* device.c - functions common to all devices */
#include "config.h"

#include <stdlib.h>

#include "base/clock.h"
#include "device/device.h"

struct dt_buffer *dt_buffer_create(const struct dt_device *device, size_t bytes,
                                   const char *what, struct dt_error *err)
{
    struct dt_buffer *buf = malloc(sizeof(*buf));
    if (!buf) {
        dt_error_set(err, EX_OSERR, "out of memory");
        return NULL;
    }
    *buf = (struct dt_buffer){.bytes = bytes, .device = device};
    if (device->allocate(bytes, &buf->data, err) == 0)
        return buf;
    dt_error_prefix(err, "cannot allocate %zu bytes for %s", bytes, what);
    free(buf);
    return NULL;
}

void dt_buffer_destroy(struct dt_buffer *buf)
{
    if (!buf)
        return;
    buf->device->release(buf->data, buf->bytes);
    free(buf);
}

int dt_event_wait(const struct dt_device *device, struct dt_event *event,
                  struct dt_error *err)
{
    int done;
    while ((done = device->event_done(event, err)) == 0)
        dt_clock_sleep(20e-6);
    return done < 0 ? -1 : 0;
}
