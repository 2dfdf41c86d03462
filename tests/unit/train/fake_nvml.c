/* SPDX-License-Identifier: Apache-2.0 */
/* fake_nvml.c - a libnvidia-ml whose counter is what a file says */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int nvmlInit_v2(void);
int nvmlShutdown(void);
int nvmlDeviceGetHandleByPciBusId_v2(const char *id, void **device);
int nvmlDeviceGetTotalEnergyConsumption(void *device,
                                        unsigned long long *millijoules);

static const char *setting(void)
{
    const char *text = getenv("FAKE_NVML");
    return text ? text : "";
}

int nvmlInit_v2(void)
{
    return strcmp(setting(), "no driver") == 0 ? 9 : 0;
}

int nvmlShutdown(void)
{
    return 0;
}

int nvmlDeviceGetHandleByPciBusId_v2(const char *id, void **device)
{
    *device = (void *)(size_t)7;
    return strcmp(id, "0000:18:00.0") == 0 ? 0 : 6;
}

int nvmlDeviceGetTotalEnergyConsumption(void *device,
                                        unsigned long long *millijoules)
{
    return (size_t)device == 7 && sscanf(setting(), "%llu", millijoules) == 1
               ? 0
               : 3;
}
