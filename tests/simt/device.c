/* SPDX-License-Identifier: Apache-2.0 */
/*
 * device.c - settings, errors, and devices that do not exist
 */
#include "config.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

/* recursive: work may ask what memory is */
static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static _Thread_local cudaError_t last_error;
static _Thread_local int current;
static unsigned seed;
static uint64_t random_state; /* 0 for seed 0 */

void simt_lock(void)
{
    pthread_mutex_lock(&lock);
}

void simt_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

void simt_fail(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("simt: ", stderr);
    vfprintf(stderr, format, args);
    fprintf(stderr, "%s\n", simt_where());
    va_end(args);
    abort();
}

void *simt_checked(void *data)
{
    if (!data)
        simt_fail("out of memory of the host");
    return data;
}

unsigned long long simt_setting(const char *name, unsigned long long fallback)
{
    const char *text = getenv(name);
    if (!text || !*text)
        return fallback;
    char *end;
    unsigned long long value = strtoull(text, &end, 10);
    if (*end)
        simt_fail("%s: expected a number, got \"%s\"", name, text);
    return value;
}

bool simt_counts_to(const char *name, unsigned long long *count)
{
    return ++*count == simt_setting(name, 0);
}

void simt_read_seed_locked(void)
{
    unsigned now = (unsigned)simt_setting("SIMT_SEED", 0);
    if (now != seed)
        random_state = now * 0x9e3779b97f4a7c15u;
    seed = now;
}

unsigned simt_seed(void)
{
    return seed;
}

int simt_device_count(void)
{
    unsigned long long count = simt_setting("SIMT_DEVICES", 1);
    return count < SIMT_MAX_DEVICES ? (int)count : SIMT_MAX_DEVICES;
}

size_t simt_memory(void)
{
    return (size_t)simt_setting("SIMT_MEMORY", 4ull << 30);
}

size_t simt_shared_memory(void)
{
    unsigned long long bytes = simt_setting("SIMT_SHARED", SIMT_MAX_SHARED);
    return bytes < SIMT_MAX_SHARED ? (size_t)bytes : SIMT_MAX_SHARED;
}

int simt_device(void)
{
    return current;
}

/* xorshift64* of Vigna, "An experimental exploration of Marsaglia's xorshift
 * generators, scrambled"
 */
uint32_t simt_random(uint32_t bound)
{
    if (random_state == 0 || bound < 2)
        return 0;
    random_state ^= random_state >> 12;
    random_state ^= random_state << 25;
    random_state ^= random_state >> 27;
    uint64_t high = (random_state * 0x2545f4914f6cdd1du) >> 32;
    return (uint32_t)(high * bound >> 32);
}

cudaError_t simt_error(cudaError_t error)
{
    if (error != cudaSuccess)
        last_error = error;
    return error;
}

cudaError_t cudaGetLastError(void)
{
    cudaError_t error = last_error;
    last_error = cudaSuccess;
    return error;
}

cudaError_t cudaPeekAtLastError(void)
{
    return last_error;
}

static const struct {
    cudaError_t error;
    const char *name, *text;
} errors[] = {
#define ERROR(name, text)                                                      \
    {                                                                          \
        cudaError##name, "cudaError" #name, text                               \
    }
    {cudaSuccess, "cudaSuccess", "no error"},
    ERROR(InvalidValue, "invalid argument"),
    ERROR(MemoryAllocation, "out of memory"),
    ERROR(InitializationError, "initialization error"),
    ERROR(InvalidConfiguration, "invalid configuration argument"),
    ERROR(InvalidMemcpyDirection, "invalid copy direction for memcpy"),
    ERROR(InsufficientDriver,
          "CUDA driver version is insufficient for CUDA runtime version"),
    ERROR(NoDevice, "no CUDA-capable device is detected"),
    ERROR(InvalidDevice, "invalid device ordinal"),
    ERROR(NotSupported, "operation not supported"),
    ERROR(InvalidResourceHandle, "invalid resource handle"),
    ERROR(ECCUncorrectable, "uncorrectable ECC error encountered"),
    ERROR(NotReady, "device not ready"),
    ERROR(IllegalAddress, "an illegal memory access was encountered"),
    ERROR(LaunchFailure, "unspecified launch failure"),
    ERROR(StreamCaptureUnsupported,
          "operation not permitted when stream is capturing"),
    ERROR(StreamCaptureInvalidated,
          "operation failed due to a previous error during capture"),
    ERROR(StreamCaptureMerge, "operation would result in a merge of separate "
                              "capture sequences"),
    ERROR(StreamCaptureUnmatched,
          "capture was not ended in the same stream as it began"),
    ERROR(StreamCaptureUnjoined, "capturing stream has unjoined work"),
    ERROR(StreamCaptureIsolation,
          "dependency created on uncaptured work in another stream"),
    ERROR(StreamCaptureImplicit, "operation would make the legacy stream "
                                 "depend on a capturing blocking stream"),
    ERROR(CapturedEvent,
          "operation not permitted on an event last recorded in a capturing "
          "stream"),
#undef ERROR
};

const char *cudaGetErrorString(cudaError_t error)
{
    for (size_t i = 0; i < sizeof(errors) / sizeof(*errors); i++)
        if (errors[i].error == error)
            return errors[i].text;
    return "unrecognized error code";
}

const char *cudaGetErrorName(cudaError_t error)
{
    for (size_t i = 0; i < sizeof(errors) / sizeof(*errors); i++)
        if (errors[i].error == error)
            return errors[i].name;
    return "unrecognized error code";
}

/* --- devices --- */

static bool exists(int device)
{
    return device >= 0 && device < simt_device_count();
}

cudaError_t cudaGetDeviceCount(int *count)
{
    *count = simt_device_count();
    return simt_error(*count > 0 ? cudaSuccess : cudaErrorNoDevice);
}

cudaError_t cudaSetDevice(int device)
{
    if (!exists(device))
        return simt_error(cudaErrorInvalidDevice);
    current = device;
    return cudaSuccess;
}

cudaError_t cudaInitDevice(int device, unsigned device_flags, unsigned flags)
{
    (void)device_flags;
    (void)flags;
    return simt_error(exists(device) ? cudaSuccess : cudaErrorInvalidDevice);
}

cudaError_t cudaGetDevice(int *device)
{
    *device = current;
    return cudaSuccess;
}

cudaError_t cudaSetDeviceFlags(unsigned flags)
{
    (void)flags;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *prop, int device)
{
    if (!exists(device))
        return simt_error(cudaErrorInvalidDevice);
    *prop = (struct cudaDeviceProp){
        .name = "SIMT",
        .totalGlobalMem = simt_memory(),
        .sharedMemPerBlock = 48 << 10,
        .sharedMemPerBlockOptin = simt_shared_of_block(),
        .sharedMemPerMultiprocessor = simt_shared_memory(),
        .regsPerBlock = 65536,
        .warpSize = SIMT_LANES,
        .maxThreadsPerBlock = SIMT_MAX_BLOCK,
        .maxThreadsDim = {1024, 1024, 64},
        .maxGridSize = {2147483647, 65535, 65535},
        .maxThreadsPerMultiProcessor = 2048,
        .maxBlocksPerMultiProcessor = 32,
        .major = 9,
        .multiProcessorCount = 4,
        .memoryBusWidth = 64,
        .l2CacheSize = 1 << 20,
        .pciBusID = device + 1,
        .asyncEngineCount = 1,
        .unifiedAddressing = 1,
        .concurrentKernels = 1,
        .memoryPoolsSupported = 1,
    };
    memset(prop->uuid.bytes, 0x51, sizeof(prop->uuid.bytes));
    prop->uuid.bytes[15] = (char)device;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attr,
                                   int device)
{
    struct cudaDeviceProp prop;
    if (!exists(device))
        return simt_error(cudaErrorInvalidDevice);
    cudaGetDeviceProperties(&prop, device);
    switch (attr) {
    case cudaDevAttrMaxThreadsPerBlock:
        *value = prop.maxThreadsPerBlock;
        break;
    case cudaDevAttrMaxSharedMemoryPerBlock:
        *value = (int)prop.sharedMemPerBlock;
        break;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
        *value = (int)prop.sharedMemPerMultiprocessor;
        break;
    case cudaDevAttrReservedSharedMemoryPerBlock:
        *value = SIMT_SHARED_RESERVED;
        break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
        *value = (int)prop.sharedMemPerBlockOptin;
        break;
    case cudaDevAttrWarpSize:
        *value = prop.warpSize;
        break;
    case cudaDevAttrMultiProcessorCount:
        *value = prop.multiProcessorCount;
        break;
    case cudaDevAttrPciBusId:
        *value = prop.pciBusID;
        break;
    case cudaDevAttrPciDeviceId:
        *value = prop.pciDeviceID;
        break;
    case cudaDevAttrPciDomainId:
        *value = prop.pciDomainID;
        break;
    case cudaDevAttrClockRate:
    case cudaDevAttrMemoryClockRate:
        *value = 1000000; /* kHz */
        break;
    case cudaDevAttrGlobalMemoryBusWidth:
        *value = prop.memoryBusWidth;
        break;
    case cudaDevAttrL2CacheSize:
        *value = prop.l2CacheSize;
        break;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
        *value = prop.maxThreadsPerMultiProcessor;
        break;
    case cudaDevAttrComputeCapabilityMajor:
        *value = prop.major;
        break;
    case cudaDevAttrComputeCapabilityMinor:
        *value = prop.minor;
        break;
    case cudaDevAttrMemoryPoolsSupported:
        *value = prop.memoryPoolsSupported;
        break;
    default:
        return simt_error(cudaErrorInvalidValue);
    }
    return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char *id, int bytes, int device)
{
    if (!exists(device) || bytes < 13)
        return simt_error(cudaErrorInvalidValue);
    snprintf(id, (size_t)bytes, "0000:%02x:00.0", (unsigned)device + 1);
    return cudaSuccess;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    *least = 0;
    *greatest = -5;
    return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int *version)
{
    *version = simt_device_count() > 0 ? CUDART_VERSION : 0;
    return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
    *version = CUDART_VERSION;
    return cudaSuccess;
}
