/* SPDX-License-Identifier: Apache-2.0 */
/* device_cpu.c - anonymous memory, in huge pages where the kernel has them */
#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "device/device.h"

struct dt_buffer *dt_buffer_create(size_t bytes, const char *what,
                                   struct dt_error *err)
{
    struct dt_buffer *buf = malloc(sizeof(*buf));
    void *data = buf ? mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
                     : MAP_FAILED;
    if (data == MAP_FAILED) {
        dt_error_set(err, EX_OSERR, "cannot allocate %zu bytes for %s: %s",
                     bytes, what, strerror(errno));
        free(buf);
        return NULL;
    }
    madvise(data, bytes, MADV_HUGEPAGE); /* a wish: refusal costs only speed */
    buf->data = data;
    buf->bytes = bytes;
    return buf;
}

void dt_buffer_destroy(struct dt_buffer *buf)
{
    if (!buf)
        return;
    munmap(buf->data, buf->bytes);
    free(buf);
}

size_t dt_device_peak_bytes(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (size_t)usage.ru_maxrss * 1024;
}
