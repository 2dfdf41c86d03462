/* SPDX-License-Identifier: Apache-2.0 */
/* device_cuda.h - one NVIDIA GPU (private to the module) */
#ifndef DT_DEVICE_DEVICE_CUDA_H
#define DT_DEVICE_DEVICE_CUDA_H

#include <stddef.h>

#include "device/device.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The card that dt_cuda_device_open chose. */
extern const struct dt_device dt_cuda_device;

/* Chooses a card (dt_cuda_card_choose) and makes it this thread's.
 * *capability is 90 for sm_90, *multiprocessors how many it has. -1:
 * EX_UNAVAILABLE, what is missing.
 */
int dt_cuda_device_open(int local_rank, int *capability, int *multiprocessors,
                        struct dt_error *err);

/* The number of the only card that is visible, or else that of local_rank, and
 * its capability; nothing is allocated on it. -1: there is no driver, or none
 * that is new enough, no card, not as many as ranks, or none that this module
 * is built for (EX_UNAVAILABLE, with what to look at).
 */
int dt_cuda_card_choose(int local_rank, int *capability, struct dt_error *err);

/* Writes "NVIDIA H200, 139.8 GiB, sm_90, driver 13.0". */
void dt_cuda_card_describe(int index, char *text, size_t bytes);

/* Writes a line "GPU 0: NVIDIA H200, ...\n" for each card that is visible, or
 * "GPU: " and why there is none, cut to `bytes`.
 */
void dt_cuda_card_list(char *text, size_t bytes);

#ifdef __cplusplus
}
#endif

#endif /* DT_DEVICE_DEVICE_CUDA_H */
