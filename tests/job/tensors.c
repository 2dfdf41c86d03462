/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tensors.c - what a file of safetensors has, for tests to compare
 *
 * Usage: tensors FILE
 *
 * Prints a line "name dtype hash" for each tensor.
 */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>

#include <xxhash.h>

#include "ckpt/ckpt.h"
#include "ckpt/safetensors.h"

static struct dt_error err;

static int print_tensor(const struct dt_safetensors *st, const char *name)
{
    struct dt_ckpt_tensor tensor = {0};
    if (dt_safetensors_describe(st, name, &tensor, &err) < 0)
        return -1;
    const size_t bytes = tensor.view.count * dt_dtype_bytes(tensor.view.dtype);
    tensor.view.buf = dt_buffer_create(&dt_cpu, bytes, name, &err);
    if (!tensor.view.buf || dt_safetensors_read_all(st, &tensor, 1, &err) < 0)
        return -1;
    printf("%s %s %016" PRIx64 "\n", name, dt_dtype_name(tensor.view.dtype),
           XXH3_64bits(tensor.view.buf->data, bytes));
    dt_buffer_destroy(tensor.view.buf);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc != 2)
        return EX_USAGE;
    struct dt_safetensors *st = dt_safetensors_open(argv[1], &err);
    int rc = st ? 0 : -1;
    for (size_t i = 0; rc == 0 && i < dt_safetensors_count(st); i++)
        rc = print_tensor(st, dt_safetensors_name(st, i));
    if (rc < 0)
        fprintf(stderr, "%s\n", err.text);
    return rc < 0 ? err.status : 0;
}
