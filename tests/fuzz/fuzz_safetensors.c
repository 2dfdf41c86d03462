/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_safetensors.c - any bytes as a safetensors file, or as an index and the
 * files "1", "2" ... behind it with "\n--\n" between them: errors or tensors
 */
#include "config.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/file.h"
#include "ckpt/safetensors.h"
#include "tests/unit/tensor_read.h"

#define BETWEEN "\n--\n"
#define INDEX "model.safetensors.index.json"

static char dir[64];

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void remove_dir(void)
{
    dt_file_remove_tree(dir, NULL);
}

static void check_text(int rc, const struct dt_error *err, const char *path)
{
    if (rc < 0 && (strncmp(err->text, path, strlen(path)) ||
                   strpbrk(err->text, "\n\033")))
        abort();
}

/* What was opened can be read as every type, or fails with a text. */
static void read_all(const struct dt_safetensors *st, const char *path)
{
    int64_t out[4];
    struct dt_buffer buf = {out, sizeof(out), &dt_cpu};
    const size_t shape[] = {2, 2};
    for (size_t i = 0; i < dt_safetensors_count(st); i++) {
        const char *name = dt_safetensors_name(st, i);
        for (int ndim = 0; ndim <= 2; ndim++)
            for (enum dt_dtype dtype = DT_F32; dtype <= DT_I64; dtype++) {
                struct dt_error err = {0};
                struct dt_view view = {&buf, 0, (size_t)1 << ndim, dtype};
                int rc = tensor_read(st, name, ndim, shape, view, &err);
                check_text(rc, &err, path);
            }
        struct dt_error err = {0};
        const char *first = dt_safetensors_name(st, 0);
        check_text(dt_safetensors_equal(st, first, name, &err), &err, path);
    }
}

/* As a file, that afterwards is cut to half of it while it is open. */
static void one_file(const uint8_t *data, size_t size)
{
    static int fd = -1;
    char path[64];
    struct dt_error err = {0};
    if (fd < 0)
        fd = memfd_create("fuzz", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, 0) < 0 ||
        pwrite(fd, data, size, 0) != (ssize_t)size)
        abort();
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    struct dt_safetensors *st = dt_safetensors_open(path, &err);
    check_text(st ? 0 : -1, &err, path);
    if (st) {
        read_all(st, path);
        if (ftruncate(fd, (off_t)size / 2) < 0)
            abort();
        read_all(st, path);
    }
    dt_safetensors_close(st);
}

static const uint8_t *find_cut(const uint8_t *data, size_t size)
{
    return memmem(data, size, BETWEEN, strlen(BETWEEN));
}

static void write_file(const char *name, const uint8_t *data, size_t size)
{
    char path[128];
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(data, 1, size, f) != size || fclose(f) != 0)
        abort();
}

/* As an index and up to three files; `cut` is where the first of them begins.
 */
static void model(const uint8_t *data, size_t size, const uint8_t *cut)
{
    static const char *const names[] = {INDEX, "1", "2", "3"};
    struct dt_error err = {0};
    if (!dir[0]) {
        strcpy(dir, "/dev/shm/disttrain-fuzz-XXXXXX");
        if (!mkdtemp(dir))
            abort();
        atexit(remove_dir);
    }
    const uint8_t *end = data + size;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && data; i++) {
        write_file(names[i], data, (size_t)((cut ? cut : end) - data));
        data = cut ? cut + strlen(BETWEEN) : NULL;
        cut = cut ? find_cut(data, (size_t)(end - data)) : NULL;
    }
    struct dt_safetensors *st = dt_safetensors_open_model(dir, &err);
    check_text(st ? 0 : -1, &err, dir);
    if (st)
        read_all(st, dir);
    dt_safetensors_close(st);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *cut = find_cut(data, size);
    if (cut)
        model(data, size, cut);
    else
        one_file(data, size);
    return 0;
}
