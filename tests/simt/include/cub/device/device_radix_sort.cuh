/* SPDX-License-Identifier: Apache-2.0 */
/*
 * device_radix_sort.cuh - stable sorts of keys with values
 *
 * The temporary storage is filled with garbage when the sort runs.
 */
#ifndef DT_SIMT_CUB_DEVICE_RADIX_SORT_CUH
#define DT_SIMT_CUB_DEVICE_RADIX_SORT_CUH

#include <algorithm>
#include <numeric>
#include <vector>

#include "cuda_runtime.h"

extern "C" {
/* Queues call(ctx), then release(ctx), in the stream. */
cudaError_t simt_enqueue_call(cudaStream_t stream, void (*call)(void *ctx),
                              void (*release)(void *ctx), void *ctx);
/* Ends the process unless the bytes are inside one allocation of a device. */
void simt_expect_device(const void *data, size_t bytes, const char *what);
}

namespace cub
{

template <typename Key, typename Value> struct simt_sort {
    void *storage;
    size_t storage_bytes, count;
    const Key *keys_in;
    Key *keys_out;
    const Value *values_in;
    Value *values_out;
    int begin_bit, end_bit;

    /* What is compared; negative keys come first. */
    auto bits(size_t i) const
    {
        using Bits = std::make_unsigned_t<Key>;
        const int width = (int)sizeof(Key) * 8;
        Bits x = (Bits)keys_in[i];
        if (std::is_signed_v<Key>)
            x ^= Bits(1) << (width - 1);
        return (Bits)((Bits)(x << (width - end_bit)) >>
                      (width - end_bit + begin_bit));
    }
    void run() const
    {
        memset(storage, 0xee, storage_bytes);
        std::vector<size_t> order(count);
        std::iota(order.begin(), order.end(), 0);
        std::stable_sort(
            order.begin(), order.end(),
            [this](size_t a, size_t b) { return bits(a) < bits(b); });
        for (size_t i = 0; i < count; i++) {
            keys_out[i] = keys_in[order[i]];
            values_out[i] = values_in[order[i]];
        }
    }
    static void call(void *ctx)
    {
        ((simt_sort *)ctx)->run();
    }
    static void release(void *ctx)
    {
        delete (simt_sort *)ctx;
    }
};

struct DeviceRadixSort {
    template <typename Key, typename Value, typename Count>
    static cudaError_t SortPairs(void *storage, size_t &storage_bytes,
                                 const Key *keys_in, Key *keys_out,
                                 const Value *values_in, Value *values_out,
                                 Count count, int begin_bit = 0,
                                 int end_bit = sizeof(Key) * 8,
                                 cudaStream_t stream = 0)
    {
        cudaGetLastError(); /* as CUB does before it checks its own calls */
        size_t n = (size_t)count;
        size_t needed = n * (sizeof(Key) + sizeof(Value)) + 1024;
        if (!storage) {
            storage_bytes = needed;
            return cudaSuccess;
        }
        if (storage_bytes < needed)
            return cudaErrorInvalidValue;
        simt_expect_device(storage, storage_bytes, "temporary storage");
        simt_expect_device(keys_in, n * sizeof(Key), "keys");
        simt_expect_device(keys_out, n * sizeof(Key), "sorted keys");
        simt_expect_device(values_in, n * sizeof(Value), "values");
        simt_expect_device(values_out, n * sizeof(Value), "sorted values");
        using Sort = simt_sort<Key, Value>;
        Sort *sort =
            new Sort{storage,   storage_bytes, n,         keys_in, keys_out,
                     values_in, values_out,    begin_bit, end_bit};
        return simt_enqueue_call(stream, Sort::call, Sort::release, sort);
    }
};

} // namespace cub

#endif /* DT_SIMT_CUB_DEVICE_RADIX_SORT_CUH */
