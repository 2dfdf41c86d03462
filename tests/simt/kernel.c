/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kernel.c - a kernel on the CPU: blocks one by one, threads as fibers
 *
 * A fiber runs one thread after another on its stack until one of them has to
 * wait at a barrier or a shuffle; only then is there a second fiber. So a
 * kernel without barriers is a loop of calls.
 */
#include "config.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fiber.h"
#include "internal.h"
#include "kernel.h"

/* What kernels see. */
uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

struct warp {
    unsigned arrived, turn;
    uint64_t values[2][SIMT_LANES]; /* of this turn and the one before */
    struct simt_fiber *waiting[SIMT_LANES];
};

static struct {
    const struct simt_kernel *kernel; /* NULL: none runs */
    unsigned threads, next, done; /* of the block; next in `order` to begin */
    unsigned order[SIMT_MAX_BLOCK];
    struct simt_fiber *ready[SIMT_MAX_BLOCK]; /* a ring */
    unsigned ready_first, ready_count;
    struct simt_fiber *idle[SIMT_MAX_BLOCK];
    unsigned idle_count;
    struct warp warps[SIMT_MAX_BLOCK / SIMT_LANES];
    /* the barrier */
    unsigned arrived, turn, sums[2];
    struct simt_fiber *waiting[SIMT_MAX_BLOCK];
} block;

static unsigned long long barriers; /* passed by blocks, ever */

static struct simt_fiber scheduler;
static struct simt_fiber *running = &scheduler;

static unsigned thread; /* the number of that one in its block */

unsigned simt_thread(void)
{
    return thread;
}

const char *simt_where(void)
{
    static char text[512];
    Dl_info info;
    if (!block.kernel)
        return "";
    const char *name = "?", *file = "?";
    size_t offset = 0;
    if (dladdr(block.kernel->address, &info) != 0) {
        name = info.dli_sname ? info.dli_sname : "?";
        file = info.dli_fname;
        offset = (size_t)((const char *)block.kernel->address -
                          (const char *)info.dli_fbase);
    }
    snprintf(text, sizeof(text),
             "\nsimt: in kernel %s (%s+0x%zx), block (%u,%u,%u) of "
             "(%u,%u,%u), thread (%u,%u,%u) of (%u,%u,%u)",
             name, file, offset, blockIdx.x, blockIdx.y, blockIdx.z, gridDim.x,
             gridDim.y, gridDim.z, threadIdx.x, threadIdx.y, threadIdx.z,
             blockDim.x, blockDim.y, blockDim.z);
    return text;
}

/* --- fibers of a block --- */

static void run_threads(void);

static void make_ready(struct simt_fiber *fiber)
{
    unsigned at = block.ready_first + block.ready_count++;
    block.ready[at % SIMT_MAX_BLOCK] = fiber;
}

/* The lanes of a warp go on before other warps do: their stacks are in the
 * cache.
 */
static void make_warp_ready(const struct warp *warp)
{
    block.ready_first += SIMT_MAX_BLOCK - SIMT_LANES;
    block.ready_first %= SIMT_MAX_BLOCK;
    block.ready_count += SIMT_LANES;
    for (unsigned i = 0; i < SIMT_LANES; i++)
        block.ready[(block.ready_first + i) % SIMT_MAX_BLOCK] =
            warp->waiting[i];
}

static struct simt_fiber *take_ready(void)
{
    struct simt_fiber **first = &block.ready[block.ready_first];
    unsigned at = block.ready_first + simt_random(block.ready_count);
    struct simt_fiber **chosen = &block.ready[at % SIMT_MAX_BLOCK];
    struct simt_fiber *fiber = *chosen;
    *chosen = *first;
    block.ready_first = (block.ready_first + 1) % SIMT_MAX_BLOCK;
    block.ready_count--;
    return fiber;
}

/* Who goes on when a thread waits or no thread is left to begin. */
static struct simt_fiber *next_fiber(void)
{
    unsigned unbegun = block.threads - block.next;
    bool begin = block.ready_count == 0;
    if (!begin && unbegun > 0)
        begin = simt_random(block.ready_count + unbegun) >= block.ready_count;
    if (!begin)
        return take_ready();
    if (unbegun == 0)
        return &scheduler;
    if (block.idle_count > 0)
        return block.idle[--block.idle_count];
    return simt_fiber_create(run_threads);
}

/* Lets others run until this fiber is chosen again. */
static void yield(void)
{
    struct simt_fiber *self = running, *next = next_fiber();
    uint3 index = threadIdx;
    unsigned number = thread;
    if (next == self)
        return;
    running = next;
    simt_fiber_switch(self, next);
    running = self;
    threadIdx = index;
    thread = number;
}

static void run_thread(unsigned number)
{
    unsigned rest = number / blockDim.x;
    thread = number;
    threadIdx.x = number - rest * blockDim.x;
    threadIdx.y = rest;
    threadIdx.z = 0;
    if (blockDim.z > 1) {
        threadIdx.z = rest / blockDim.y;
        threadIdx.y = rest - threadIdx.z * blockDim.y;
    }
    block.kernel->body(block.kernel->call);
    simt_copy_end();
    block.done++;
}

/* What every fiber but the scheduler does. */
static void run_threads(void)
{
    for (;;) {
        while (block.next < block.threads)
            run_thread(block.order[block.next++]);
        block.idle[block.idle_count++] = running;
        yield();
    }
}

/* --- waiting for each other --- */

unsigned simt_barrier(unsigned value)
{
    unsigned turn = block.turn & 1;
    if (block.arrived == 0)
        block.sums[turn] = 0;
    block.sums[turn] += value;
    block.waiting[block.arrived++] = running;
    if (block.arrived == block.threads) {
        for (unsigned i = 0; i < block.threads; i++)
            make_ready(block.waiting[i]);
        block.arrived = 0;
        block.turn++;
        barriers++;
    }
    yield();
    return block.sums[turn];
}

unsigned long long simt_barriers(void)
{
    return barriers;
}

const uint64_t *simt_gather(unsigned mask, uint64_t value)
{
    struct warp *warp = &block.warps[thread / SIMT_LANES];
    uint64_t *values = warp->values[warp->turn & 1];
    if (mask != 0xffffffffu)
        simt_fail("mask %#x: only whole warps are emulated", mask);
    values[thread % SIMT_LANES] = value;
    warp->waiting[warp->arrived++] = running;
    if (warp->arrived == SIMT_LANES) {
        make_warp_ready(warp);
        warp->arrived = 0;
        warp->turn++;
    }
    yield();
    return values;
}

/* Threads are left, and none can go on. */
__attribute__((noreturn)) static void report_deadlock(void)
{
    for (unsigned w = 0; w < block.threads / SIMT_LANES; w++)
        if (block.warps[w].arrived > 0)
            simt_fail("%u lanes of warp %u wait at a shuffle that the others "
                      "do not reach: of %u threads %u have returned and %u "
                      "wait at __syncthreads",
                      block.warps[w].arrived, w, block.threads, block.done,
                      block.arrived);
    simt_fail("%u of %u threads wait at __syncthreads, %u have returned",
              block.arrived, block.threads, block.done);
}

/* --- blocks --- */

static void shuffle_order(void)
{
    for (unsigned i = block.threads - 1; i > 0; i--) {
        unsigned j = i - simt_random(i + 1), other = block.order[j];
        block.order[j] = block.order[i];
        block.order[i] = other;
    }
}

static void run_block(uint64_t number)
{
    blockIdx.x = (unsigned)(number % gridDim.x);
    number /= gridDim.x;
    blockIdx.y = (unsigned)(number % gridDim.y);
    blockIdx.z = (unsigned)(number / gridDim.y);
    block.next = block.done = 0;
    simt_shared_begin_block();
    if (simt_seed() > 0)
        shuffle_order();
    while (block.done < block.threads) {
        if (block.next == block.threads && block.ready_count == 0)
            report_deadlock();
        yield();
    }
}

/* All blocks, for seed 0 in order, else in the order a n + b mod blocks. */
static void run_blocks(void)
{
    uint64_t blocks = (uint64_t)gridDim.x * gridDim.y * gridDim.z;
    uint64_t step = 1, at = 0;
    if (simt_seed() > 0) {
        uint32_t bound = blocks < UINT32_MAX ? (uint32_t)blocks : UINT32_MAX;
        uint64_t a, b;
        at = simt_random(bound);
        do {
            step = 1 + simt_random(bound);
            for (a = blocks, b = step; b != 0;) {
                uint64_t rest = a % b;
                a = b;
                b = rest;
            }
        } while (a != 1);
    }
    for (uint64_t i = 0; i < blocks; i++) {
        run_block(at);
        at = (at + step) % blocks;
    }
}

struct launch {
    struct simt_kernel kernel;
    dim3 grid, block;
    size_t shared; /* bytes, dynamic */
};

static enum simt_progress run_launch(void *ctx)
{
    const struct launch *launch = ctx;
    gridDim = launch->grid;
    blockDim = launch->block;
    block.kernel = &launch->kernel;
    block.threads = blockDim.x * blockDim.y * blockDim.z;
    for (unsigned i = 0; i < block.threads; i++)
        block.order[i] = i;
    /* shared memory begins as garbage: NaN */
    memset(launch->kernel.shared, 0xff,
           (size_t)(launch->kernel.shared_end - launch->kernel.shared));
    simt_shared_begin(launch->shared);
    run_blocks();
    simt_check_zones_locked("a kernel");
    block.kernel = NULL;
    return SIMT_DONE;
}

static void release_launch(void *ctx)
{
    struct launch *launch = ctx;
    launch->kernel.release(launch->kernel.call);
    free(launch);
}

/* --- launches --- */

static bool fits(const cudaLaunchConfig_t *config)
{
    dim3 g = config->gridDim, b = config->blockDim;
    if (g.x == 0 || g.y == 0 || g.z == 0 || b.x == 0 || b.y == 0 || b.z == 0)
        return false;
    if (g.x > 0x7fffffff || g.y > 65535 || g.z > 65535)
        return false;
    return b.x <= 1024 && b.y <= 1024 && b.z <= 64 &&
           b.x * b.y * b.z <= SIMT_MAX_BLOCK;
}

static void check_pointers(const void *const *pointers, size_t count,
                           int device)
{
    for (size_t i = 1; i < count; i++) {
        int owner = simt_device_of_locked(pointers[i]);
        if (pointers[i] && owner < 0 && !simt_is_pinned(pointers[i], 0))
            simt_fail("argument %zu of a kernel, %p, is neither memory of a "
                      "device nor pinned",
                      i, pointers[i]);
        if (owner >= 0 && owner != device)
            simt_fail("argument %zu of a kernel on device %d is memory of "
                      "device %d",
                      i, device, owner);
    }
}

/* What a launch fails with, before it is queued. */
static cudaError_t check_launch_locked(const cudaLaunchConfig_t *config,
                                       const void *address)
{
    static unsigned long long launches;
    const struct CUstream_st *stream = simt_stream_locked(config->stream);
    if (!stream || stream->device != simt_device())
        return cudaErrorInvalidResourceHandle;
    if (!fits(config) ||
        !simt_shared_fits_locked(address, config->dynamicSmemBytes))
        return cudaErrorInvalidConfiguration;
    return simt_counts_to("SIMT_FAIL_LAUNCH", &launches)
               ? cudaErrorLaunchOutOfResources
               : cudaSuccess;
}

cudaError_t simt_launch_work(const cudaLaunchConfig_t *config,
                             const void *address, struct simt_work work)
{
    simt_lock();
    cudaError_t error = check_launch_locked(config, address);
    if (error == cudaSuccess)
        error = simt_enqueue_work(config->stream, work);
    else
        work.release(work.ctx);
    simt_unlock();
    return simt_error(error);
}

cudaError_t simt_launch(const cudaLaunchConfig_t *config,
                        const struct simt_kernel *kernel,
                        const void *const *pointers, size_t pointer_count)
{
    dim3 b = config->blockDim;
    struct launch *launch = simt_checked(malloc(sizeof(*launch)));
    *launch =
        (struct launch){*kernel, config->gridDim, b, config->dynamicSmemBytes};
    simt_lock();
    if (fits(config) && b.x * b.y * b.z % SIMT_LANES != 0)
        simt_fail("a kernel with %u threads in a block: only whole warps are "
                  "emulated",
                  b.x * b.y * b.z);
    check_pointers(pointers, pointer_count, simt_device());
    cudaError_t error = simt_launch_work(
        config, kernel->address,
        (struct simt_work){
            .progress = run_launch, .release = release_launch, .ctx = launch});
    simt_unlock();
    return error;
}

cudaError_t cudaFuncSetAttribute(const void *kernel,
                                 enum cudaFuncAttribute attr, int value)
{
    bool good = kernel && value >= 0;
    simt_lock();
    if (good && attr == cudaFuncAttributeMaxDynamicSharedMemorySize)
        good = simt_allow_shared_locked(kernel, (size_t)value);
    simt_unlock();
    return simt_error(good ? cudaSuccess : cudaErrorInvalidValue);
}

cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attributes,
                                  const void *kernel)
{
    *attributes =
        (struct cudaFuncAttributes){.maxThreadsPerBlock = SIMT_MAX_BLOCK,
                                    .numRegs = 32,
                                    .ptxVersion = 90,
                                    .binaryVersion = 90};
    return simt_error(kernel ? cudaSuccess : cudaErrorInvalidValue);
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks,
                                                          const void *kernel,
                                                          int block_size,
                                                          size_t shared_bytes)
{
    (void)shared_bytes;
    *blocks = block_size > 0 ? 2048 / block_size : 0;
    return simt_error(kernel ? cudaSuccess : cudaErrorInvalidValue);
}
