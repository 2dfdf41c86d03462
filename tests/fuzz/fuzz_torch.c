/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_torch.c - any bytes as pytorch_model.bin, or, if they begin with the
 * pickle's protocol, as its data.pkl: an error or tensors that can be read
 */
#include "config.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt/safetensors.h"
#include "ckpt/torch_pickle.h"
#include "tests/unit/scratch.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Names, dtypes and storages are within the pickle. */
static int add(void *ctx, const struct pickle_tensor *tensor,
               struct dt_error *err)
{
    size_t *sum = ctx;
    (void)err;
    for (size_t i = 0; i < tensor->name_bytes; i++)
        *sum += (unsigned char)tensor->name[i];
    for (size_t i = 0; i < tensor->storage_bytes; i++)
        *sum += (unsigned char)tensor->storage[i];
    *sum += strlen(tensor->dtype);
    return 0;
}

static void read_all(const struct dt_safetensors *st)
{
    int64_t out[16];
    struct dt_buffer buf = {out, sizeof(out), &dt_cpu};
    for (size_t i = 0; i < dt_safetensors_count(st); i++) {
        const char *name = dt_safetensors_name(st, i);
        for (size_t n = 1; n <= 8; n++) {
            struct dt_error err = {0};
            const struct dt_view view = {&buf, 0, n, DT_F32};
            if (dt_safetensors_read(st, name, 1, &n, view, &err) < 0 &&
                !err.text[0])
                abort();
        }
        dt_safetensors_equal(st, name, dt_safetensors_name(st, 0), NULL);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct dt_error err = {0};
    size_t sum = 0;
    if (size > 0 && data[0] == 0x80) {
        if (pickle_read(data, size, add, &sum, &err) < 0 && !err.text[0])
            abort();
        return 0;
    }
    scratch_write("pytorch_model.bin", data, size);
    struct dt_safetensors *st = dt_safetensors_open_model(scratch_root, &err);
    if (!st && (!err.text[0] || strpbrk(err.text, "\n\r\x1b")))
        abort();
    if (st)
        read_all(st);
    dt_safetensors_close(st);
    return 0;
}
