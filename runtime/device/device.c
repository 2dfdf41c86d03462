/* SPDX-License-Identifier: Apache-2.0 */
/*
 * device.c - functions common to all devices, and the host as one: anonymous
 * memory, in huge pages if possible
 */
#include "config.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "device/device.h"

/* Bytes that a buffer of so many takes: an empty one has a place, too. */
static size_t taken(size_t bytes)
{
    return bytes > 0 ? bytes : 1;
}

struct dt_buffer *dt_buffer_create(const struct dt_device *device, size_t bytes,
                                   const char *what, struct dt_error *err)
{
    struct dt_buffer *buf = malloc(sizeof(*buf));
    if (!buf) {
        dt_error_set(err, EX_OSERR, "out of memory");
        return NULL;
    }
    *buf = (struct dt_buffer){.bytes = bytes, .device = device};
    if (device->allocate(taken(bytes), &buf->data, err) == 0)
        return buf;
    dt_error_prefix(err, "cannot allocate %zu bytes for %s", bytes, what);
    free(buf);
    return NULL;
}

void dt_buffer_destroy(struct dt_buffer *buf)
{
    if (!buf)
        return;
    buf->device->release(buf->data, taken(buf->bytes));
    free(buf);
}

int dt_event_wait(const struct dt_device *device, struct dt_stream *stream,
                  struct dt_event *event, struct dt_error *err)
{
    int done;
    while ((done = device->event_done(event, err)) == 0) {
        if (stream && device->watch && device->watch(stream, err) < 0)
            return -1;
        dt_clock_sleep(20e-6);
    }
    return done < 0 ? -1 : 0;
}

/* --- memory that this process may still use --- */

/* The number in the file <root><path>, SIZE_MAX if there is none ("max"). */
static size_t read_number(const char *root, const char *path)
{
    char file[2 * PATH_MAX];
    uint64_t value;
    snprintf(file, sizeof(file), "%s%s", root, path);
    FILE *f = fopen(file, "re");
    bool got = f && fscanf(f, "%" SCNu64, &value) == 1;
    if (f)
        fclose(f);
    return got && value < SIZE_MAX ? (size_t)value : SIZE_MAX;
}

/* Sum of the lines "<name> N" or "<name>: N kB" of a file with a name from the
 * list; SIZE_MAX if there is no such file or line.
 */
static size_t sum_lines(const char *root, const char *path,
                        const char *const *names, size_t unit)
{
    char file[2 * PATH_MAX], line[256], name[64];
    uint64_t value;
    size_t sum = 0;
    bool any = false;
    snprintf(file, sizeof(file), "%s%s", root, path);
    FILE *f = fopen(file, "re");
    while (f && fgets(line, sizeof(line), f)) {
        if (sscanf(line, "%63[^: ]%*[: ]%" SCNu64, name, &value) != 2)
            continue;
        for (const char *const *n = names; *n; n++)
            if (!strcmp(*n, name)) {
                sum += (size_t)value * unit;
                any = true;
            }
    }
    if (f)
        fclose(f);
    return any ? sum : SIZE_MAX;
}

/* Free bytes of a control group: its limit minus usage, without page cache,
 * which the kernel can reclaim.
 */
static size_t group_free(const char *root, const char *group, const char *limit,
                         const char *usage)
{
    static const char *const cache[] = {"inactive_file", "active_file",
                                        "total_inactive_file",
                                        "total_active_file", NULL};
    char path[PATH_MAX + 32];
    snprintf(path, sizeof(path), "%s/%s", group, limit);
    size_t most = read_number(root, path);
    snprintf(path, sizeof(path), "%s/%s", group, usage);
    size_t used = read_number(root, path);
    snprintf(path, sizeof(path), "%s/memory.stat", group);
    size_t cached = sum_lines(root, path, cache, 1);
    if (most == SIZE_MAX || used == SIZE_MAX)
        return SIZE_MAX;
    if (cached != SIZE_MAX)
        used -= cached < used ? cached : used;
    return most > used ? most - used : 0;
}

/* The minimum over a group and its parents. `base` is the mount point. */
static size_t hierarchy_free(const char *root, const char *base,
                             const char *group, const char *limit,
                             const char *usage)
{
    char path[PATH_MAX];
    size_t least = SIZE_MAX, top = strlen(base);
    if (snprintf(path, sizeof(path), "%s%s", base, group) >= (int)sizeof(path))
        return SIZE_MAX;
    for (;;) {
        size_t rest = group_free(root, path, limit, usage);
        least = rest < least ? rest : least;
        char *slash = strrchr(path, '/');
        if (!slash || (size_t)(slash - path) < top)
            return least;
        *slash = '\0';
    }
}

size_t dt_memory_available(const char *root)
{
    static const char *const free_lines[] = {"MemAvailable", NULL};
    char file[PATH_MAX], line[PATH_MAX];
    size_t least = sum_lines(root, "/proc/meminfo", free_lines, 1024);
    snprintf(file, sizeof(file), "%s/proc/self/cgroup", root);
    FILE *f = fopen(file, "re");
    while (f && fgets(line, sizeof(line), f)) {
        size_t rest = SIZE_MAX;
        line[strcspn(line, "\n")] = '\0';
        char *group = strchr(line, '/');
        if (!strncmp(line, "0::/", 4))
            rest = hierarchy_free(root, "/sys/fs/cgroup", group, "memory.max",
                                  "memory.current");
        else if (group && strstr(line, ":memory:"))
            rest = hierarchy_free(root, "/sys/fs/cgroup/memory", group,
                                  "memory.limit_in_bytes",
                                  "memory.usage_in_bytes");
        least = rest < least ? rest : least;
    }
    if (f)
        fclose(f);
    return least;
}

/* --- the host as a device --- */

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

/* Work is never in flight. */

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
    .copy_stream_create = stream_create,
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
