/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_safetensors.c - any bytes as a safetensors file: an error or a file */
#include "config.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ckpt/ckpt.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What was opened can be read, or fails with a text. */
static void read_all(const struct dt_safetensors *file)
{
    float out[4];
    struct dt_buffer buf = {out, sizeof(out)};
    const size_t shape[] = {2, 2};
    for (size_t i = 0; i < dt_safetensors_count(file); i++)
        for (int ndim = 0; ndim <= 2; ndim++) {
            struct dt_error err = {0};
            struct dt_view view = {&buf, 0, (size_t)1 << ndim, DT_F32};
            if (dt_safetensors_read(file, dt_safetensors_name(file, i), ndim,
                                    shape, view, &err) < 0 &&
                !err.text[0])
                abort();
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
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
    struct dt_safetensors *file = dt_safetensors_open(path, &err);
    if (file)
        read_all(file);
    else if (strncmp(err.text, path, strlen(path)) != 0 ||
             strchr(err.text, '\n'))
        abort();
    dt_safetensors_close(file);
    return 0;
}
