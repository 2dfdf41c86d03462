/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_tokenizer.c - any bytes as tokenizer.json, and any text through it
 *
 * The text begins behind the first zero byte.
 */
#include "config.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/fuzz/encode_any.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int fd = -1;
    char path[64];
    struct dt_error err = {0};
    const uint8_t *zero = size > 0 ? memchr(data, 0, size) : NULL;
    size_t json = zero ? (size_t)(zero - data) : size;
    if (fd < 0)
        fd = memfd_create("fuzz", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, 0) < 0 ||
        pwrite(fd, data, json, 0) != (ssize_t)json)
        abort();
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    struct dt_tokenizer *tokenizer = dt_tokenizer_load(path, &err);
    if (!tokenizer) {
        if (strncmp(err.text, path, strlen(path)) != 0 ||
            strchr(err.text, '\n'))
            abort();
        return 0;
    }
    if (zero)
        encode_any(tokenizer, (const char *)zero + 1, size - json - 1);
    dt_tokenizer_destroy(tokenizer);
    return 0;
}
