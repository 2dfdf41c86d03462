/* SPDX-License-Identifier: Apache-2.0 */
/* offload.h - applies distributed.offload_* to this device */
#ifndef DT_RUN_OFFLOAD_H
#define DT_RUN_OFFLOAD_H

#include "run/spec.h"

/* State that a rank does not keep on the device under `strategy`. Nothing with
 * ddp; on a host, whose memory is the device's, only state in files.
 *
 * compute: auto takes the side predicted to need less time, with rates of a
 * usual GPU node. Of s elements a rank has, AdamW on the device moves 12 bytes
 * each way and reads and writes host memory once; on the CPUs it reads and
 * writes about 36 bytes, and 4 go down. The ranks of a node share its memory.
 */
struct dt_offload dt_spec_offload(const struct dt_spec *spec,
                                  enum dt_strategy strategy);

/* Logs, on rank 0, where state is kept, as `options` say, and which keys have
 * no effect.
 */
void dt_spec_offload_note(const struct dt_spec *spec,
                          const struct dt_parallel_options *options);

#endif /* DT_RUN_OFFLOAD_H */
