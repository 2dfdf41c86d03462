/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cub.cuh - all of CUB that is emulated
 */
#include "device/device_radix_sort.cuh"
