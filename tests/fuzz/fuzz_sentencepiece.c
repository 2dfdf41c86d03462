/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_sentencepiece.c - any bytes as a .model file, and any text through it
 *
 * The first byte is the length of the text, which comes next.
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

static char path[64];

static void remove_path(void)
{
    unlink(path);
}

/* Makes `path`, which ends with .model, a file with these bytes. */
static void write_model(const uint8_t *data, size_t size)
{
    static int fd = -1;
    if (fd < 0) {
        char target[32];
        fd = memfd_create("fuzz", MFD_CLOEXEC);
        snprintf(target, sizeof(target), "/proc/self/fd/%d", fd);
        snprintf(path, sizeof(path), "/tmp/disttrain-fuzz-%d.model",
                 (int)getpid());
        unlink(path);
        if (symlink(target, path) < 0 || atexit(remove_path) != 0)
            abort();
    }
    if (ftruncate(fd, 0) < 0 || pwrite(fd, data, size, 0) != (ssize_t)size)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct dt_error err = {0};
    if (size == 0 || data[0] >= size)
        return 0;
    const size_t text = data[0];
    write_model(data + 1 + text, size - 1 - text);
    struct dt_tokenizer *tokenizer = dt_tokenizer_load(path, &err);
    if (tokenizer)
        encode_any(tokenizer, (const char *)data + 1, text);
    else if (strncmp(err.text, path, strlen(path)) != 0 ||
             strchr(err.text, '\n'))
        abort();
    dt_tokenizer_destroy(tokenizer);
    return 0;
}
