/* SPDX-License-Identifier: Apache-2.0 */
/*
 * launch.c - the functions of CUDA's runtime that nvcc's objects call
 *
 * An object registers its fat binary when it is loaded, and the name that each
 * of its kernels has in PTX. The rest of the runtime is that of tests/simt,
 * which knows what CUDA would not start.
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef HAVE_ZSTD
#include <zstd.h>
#endif

#include "internal.h"
#include "kernel.h"
#include "ptx.h"

struct binary {
    const unsigned char *data;
    struct ptx_module *module; /* NULL: not read yet */
};

struct function {
    const void *host; /* what the host calls it by */
    const char *name;
    struct binary *binary;
    struct function *next;
};
static struct function *functions;

/* --- fat binaries --- */

/* As nvcc writes them: a header, then entries with a header each. */
struct fat_header {
    uint32_t magic;
    uint16_t version, header_bytes;
    uint64_t bytes; /* behind the header */
};
struct fat_entry {
    uint16_t kind, version;
    uint32_t header_bytes;
    uint64_t bytes; /* behind the header */
};
enum { FAT_MAGIC = (int)0xba55ed50u, FAT_PTX = 1, FAT_ELF = 2 };

#ifdef HAVE_ZSTD
/* NULL: it is in another form. */
static char *decompressed(const unsigned char *data, size_t bytes)
{
    unsigned long long size = ZSTD_getFrameContentSize(data, bytes);
    if (size == ZSTD_CONTENTSIZE_ERROR || size == ZSTD_CONTENTSIZE_UNKNOWN)
        return NULL;
    char *text = simt_checked(calloc(1, size + 1));
    if (ZSTD_isError(ZSTD_decompress(
            text, size, data, ZSTD_findFrameCompressedSize(data, bytes))))
        simt_fail("ptx: an object has PTX that cannot be decompressed");
    return text;
}
#else
static char *decompressed(const unsigned char *data, size_t bytes)
{
    (void)data;
    (void)bytes;
    return NULL;
}
#endif

static char *text_of(const unsigned char *data, size_t bytes)
{
    char *text;
    if (bytes > 0 && strchr("\n./", data[0])) {
        text = simt_checked(calloc(1, bytes + 1));
        memcpy(text, data, bytes);
        return text;
    }
    text = decompressed(data, bytes);
    if (!text)
        simt_fail("ptx: an object has PTX in a form that is not known");
    return text;
}

/* The next entry of the kind behind `at`, or the first; NULL: there is none. */
static const unsigned char *next_entry(const struct binary *b,
                                       const unsigned char *at,
                                       struct fat_entry *entry, int kind)
{
    struct fat_header head;
    memcpy(&head, b->data, sizeof(head));
    const unsigned char *first = b->data + head.header_bytes;
    const unsigned char *end = first + head.bytes;
    at = at ? at + entry->bytes : first;
    for (; at < end; at += entry->header_bytes + entry->bytes) {
        memcpy(entry, at, sizeof(*entry));
        if (entry->kind == kind)
            return at + entry->header_bytes;
    }
    return NULL;
}

static struct ptx_module *module_of(struct binary *b)
{
    struct fat_entry entry;
    if (b->module)
        return b->module;
    const unsigned char *at = next_entry(b, NULL, &entry, FAT_PTX);
    if (!at)
        simt_fail("ptx: an object has no PTX");
    return b->module = ptx_module_create(text_of(at, entry.bytes));
}

void **__cudaRegisterFatBinary(void *wrapper);
void **__cudaRegisterFatBinary(void *wrapper)
{
    struct binary *b = simt_checked(calloc(1, sizeof(*b)));
    struct fat_header head;
    memcpy(&b->data, (char *)wrapper + 8, sizeof(b->data));
    memcpy(&head, b->data, sizeof(head));
    if (head.magic != (uint32_t)FAT_MAGIC)
        simt_fail("ptx: an object has a fat binary of an unknown form");
    return (void **)b;
}

void __cudaRegisterFatBinaryEnd(void **handle);
void __cudaRegisterFatBinaryEnd(void **handle)
{
    (void)handle;
}

void __cudaUnregisterFatBinary(void **handle);
void __cudaUnregisterFatBinary(void **handle)
{
    (void)handle;
}

char __cudaInitModule(void **handle);
char __cudaInitModule(void **handle)
{
    (void)handle;
    return 1;
}

void __cudaRegisterFunction(void **handle, const char *host, char *device,
                            const char *name, int thread_limit, uint3 *tid,
                            uint3 *bid, dim3 *block, dim3 *grid, int *warp);
void __cudaRegisterFunction(void **handle, const char *host, char *device,
                            const char *name, int thread_limit, uint3 *tid,
                            uint3 *bid, dim3 *block, dim3 *grid, int *warp)
{
    (void)device, (void)thread_limit, (void)tid, (void)bid, (void)block;
    (void)grid, (void)warp;
    struct function *f = simt_checked(calloc(1, sizeof(*f)));
    *f = (struct function){host, name, (struct binary *)handle, functions};
    functions = f;
}

void __cudaRegisterVar(void **handle, char *host, char *device,
                       const char *name, int external, size_t bytes,
                       int constant, int global);
void __cudaRegisterVar(void **handle, char *host, char *device,
                       const char *name, int external, size_t bytes,
                       int constant, int global)
{
    (void)handle, (void)host, (void)device, (void)name, (void)external;
    (void)bytes, (void)constant, (void)global;
}

/* --- launches --- */

struct launch {
    struct ptx_kernel *kernel;
    struct ptx_grid grid;
    unsigned char params[];
};

static struct ptx_kernel *kernel_of(const void *host)
{
    const struct function *f = functions;
    while (f && f->host != host)
        f = f->next;
    if (!f)
        simt_fail("ptx: a kernel is launched that no object has registered");
    return ptx_module_kernel(module_of(f->binary), f->name);
}

static enum simt_progress run_launch(void *ctx)
{
    const struct launch *launch = ctx;
    ptx_run(launch->kernel, &launch->grid);
    simt_check_zones_locked("a kernel");
    return SIMT_DONE;
}

/* Argument n of the call is the parameter with n others before it. */
static void copy_params(struct launch *launch, void **args)
{
    const struct ptx_variable *first = launch->kernel->variables;
    for (const struct ptx_variable *v = first; v; v = v->next) {
        size_t n = 0;
        if (v->space != PTX_PARAM)
            continue;
        for (const struct ptx_variable *o = first; o; o = o->next)
            n += o->space == PTX_PARAM && o->at < v->at;
        memcpy(launch->params + v->at, args[n], v->bytes);
    }
}

static struct ptx_size size_of(dim3 d)
{
    return (struct ptx_size){d.x, d.y, d.z};
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *config,
                                const void *function, void **args);
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *config,
                                const void *function, void **args)
{
    struct ptx_kernel *kernel = kernel_of(function);
    struct launch *launch =
        simt_checked(calloc(1, sizeof(*launch) + kernel->param_bytes));
    launch->kernel = kernel;
    launch->grid =
        (struct ptx_grid){size_of(config->gridDim), size_of(config->blockDim),
                          config->dynamicSmemBytes, launch->params};
    copy_params(launch, args);
    return simt_launch_work(config, function,
                            (struct simt_work){run_launch, free, launch, NULL});
}

/* --- kernel<<<grid, block, shared, stream>>>(...) --- */

static _Thread_local cudaLaunchConfig_t pushed;

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared,
                                     cudaStream_t stream);
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared,
                                     cudaStream_t stream)
{
    pushed = (cudaLaunchConfig_t){.gridDim = grid,
                                  .blockDim = block,
                                  .dynamicSmemBytes = shared,
                                  .stream = stream};
    return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared,
                                       void *stream);
cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared,
                                       void *stream)
{
    *grid = pushed.gridDim;
    *block = pushed.blockDim;
    *shared = pushed.dynamicSmemBytes;
    *(cudaStream_t *)stream = pushed.stream;
    return cudaSuccess;
}

cudaError_t __cudaGetKernel(const void **kernel, const void *function);
cudaError_t __cudaGetKernel(const void **kernel, const void *function)
{
    *kernel = function;
    return cudaSuccess;
}

cudaError_t __cudaLaunchKernel(const void *kernel, dim3 grid, dim3 block,
                               void **args, size_t shared, cudaStream_t stream);
cudaError_t __cudaLaunchKernel(const void *kernel, dim3 grid, dim3 block,
                               void **args, size_t shared, cudaStream_t stream)
{
    __cudaPushCallConfiguration(grid, block, shared, stream);
    return cudaLaunchKernelExC(&pushed, kernel, args);
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    int *blocks, const void *kernel, int block_size, size_t shared_bytes,
    unsigned flags);
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    int *blocks, const void *kernel, int block_size, size_t shared_bytes,
    unsigned flags)
{
    (void)flags;
    return cudaOccupancyMaxActiveBlocksPerMultiprocessor(
        blocks, kernel, block_size, shared_bytes);
}

/* --- what there is --- */

/* Writes to $PTX_CENSUS what is known of each kernel without running it. */
__attribute__((destructor)) static void write_census(void)
{
    const char *path = getenv("PTX_CENSUS");
    FILE *f = path ? fopen(path, "a") : NULL;
    for (const struct function *n = functions; f && n; n = n->next) {
        const char *text = module_of(n->binary)->text;
        struct fat_entry entry;
        const unsigned char *elf = NULL;
        while ((elf = next_entry(n->binary, elf, &entry, FAT_ELF)))
            ptx_census(f, text, n->name, ptx_frame_bytes(elf, n->name));
    }
    if (f)
        fclose(f);
}
