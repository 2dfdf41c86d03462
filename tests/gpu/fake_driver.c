/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake_driver.c - an NVIDIA driver without a GPU, for test_cudnn
 *
 * cuDNN compiles kernels while it makes a plan, and loads them: here anything
 * can be loaded, and nothing run. The functions are those that it looks for;
 * most are never called.
 */
#include "config.h"

enum { SUCCESS = 0, NO_DEVICE = 100 };

#define NO(name)                                                               \
    int name(void);                                                            \
    int name(void)                                                             \
    {                                                                          \
        return NO_DEVICE;                                                      \
    }

NO(cuCtxGetCurrent)
NO(cuCtxGetLimit)
NO(cuCtxPopCurrent)
NO(cuCtxPushCurrent)
NO(cuDeviceGet)
NO(cuInit)
NO(cuKernelGetAttribute)
NO(cuLaunchCooperativeKernel)
NO(cuLaunchKernel)
NO(cuLaunchKernelEx)
NO(cuLibraryLoadFromFile)
NO(cuLinkAddData)
NO(cuLinkComplete)
NO(cuLinkCreate)
NO(cuLinkDestroy)
NO(cuOccupancyMaxPotentialClusterSize)
NO(cuStreamGetCtx)

int cuDeviceGetCount(int *count);
int cuDeviceGetCount(int *count)
{
    *count = 0;
    return SUCCESS;
}

int cuDriverGetVersion(int *version);
int cuDriverGetVersion(int *version)
{
    *version = 13000;
    return SUCCESS;
}

int cuGetErrorName(int error, const char **name);
int cuGetErrorName(int error, const char **name)
{
    *name = error == SUCCESS ? "CUDA_SUCCESS" : "CUDA_ERROR_NO_DEVICE";
    return SUCCESS;
}

int cuGetErrorString(int error, const char **text);
int cuGetErrorString(int error, const char **text)
{
    return cuGetErrorName(error, text);
}

int cuLibraryLoadData(void **library);
int cuLibraryLoadData(void **library)
{
    *library = library;
    return SUCCESS;
}

int cuLibraryGetKernel(void **kernel);
int cuLibraryGetKernel(void **kernel)
{
    *kernel = kernel;
    return SUCCESS;
}

int cuLibraryUnload(void *library);
int cuLibraryUnload(void *library)
{
    (void)library;
    return SUCCESS;
}

int cuKernelSetAttribute(void);
int cuKernelSetAttribute(void)
{
    return SUCCESS;
}
