/* SPDX-License-Identifier: Apache-2.0 */
/* device_cpu.c - the CPU: anonymous memory, in huge pages if possible */
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "device/device.h"

static int cpu_allocate(size_t bytes, void **data, struct dt_error *err)
{
    *data = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (*data == MAP_FAILED)
        return dt_error_set(err, EX_OSERR, "%s", strerror(errno));
    madvise(*data, bytes,
            MADV_HUGEPAGE); /* if refused, that costs only speed */
    return 0;
}

static void cpu_release(void *data, size_t bytes)
{
    munmap(data, bytes);
}

/* --- work is never in flight --- */

static int stream_create(struct dt_stream **stream, struct dt_error *err)
{
    (void)err;
    *stream = NULL;
    return 0;
}

static void stream_destroy(struct dt_stream *stream)
{
    (void)stream;
}

static int stream_wait(struct dt_stream *stream, struct dt_error *err)
{
    (void)stream;
    (void)err;
    return 0;
}

static int cpu_copy(struct dt_stream *stream, void *to, const void *from,
                    size_t bytes, struct dt_error *err)
{
    (void)stream;
    (void)err;
    memcpy(to, from, bytes);
    return 0;
}

static int event_create(struct dt_event **event, struct dt_error *err)
{
    (void)err;
    *event = NULL;
    return 0;
}

static void event_destroy(struct dt_event *event)
{
    (void)event;
}

static int event_record(struct dt_event *event, struct dt_stream *stream,
                        struct dt_error *err)
{
    (void)event;
    (void)stream;
    (void)err;
    return 0;
}

static int event_done(struct dt_event *event, struct dt_error *err)
{
    (void)event;
    (void)err;
    return 1;
}

static size_t available_bytes(void)
{
    return dt_memory_available("");
}

/* The resident pages: the second number of statm. */
static size_t used_bytes(void)
{
    unsigned long pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    if (!file)
        return 0;
    if (fscanf(file, "%*u %lu", &pages) != 1)
        pages = 0;
    fclose(file);
    return (size_t)pages * (size_t)sysconf(_SC_PAGESIZE);
}

static size_t peak_bytes(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (size_t)usage.ru_maxrss * 1024;
}

static const char *cpu_describe(void)
{
    return "the CPUs of this host";
}

const struct dt_device dt_cpu = {
    .name = "cpu",
    .is_host = true,
    .allocate = cpu_allocate,
    .release = cpu_release,
    .allocate_staging = cpu_allocate,
    .release_staging = cpu_release,
    .stream_create = stream_create,
    .stream_destroy = stream_destroy,
    .stream_wait = stream_wait,
    .copy = cpu_copy,
    .event_create = event_create,
    .event_destroy = event_destroy,
    .event_record = event_record,
    .event_done = event_done,
    .available_bytes = available_bytes,
    .used_bytes = used_bytes,
    .peak_bytes = peak_bytes,
    .describe = cpu_describe,
};
