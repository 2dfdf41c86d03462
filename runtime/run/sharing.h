/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sharing.h - how ranks share weights, gradients and state
 *
 * As the configuration says, on these nodes and this device. State that a rank
 * does not keep on the device is offloaded to host memory or files.
 */
#ifndef DT_RUN_SHARING_H
#define DT_RUN_SHARING_H

#include "comm/comm.h"
#include "report/report.h"
#include "run/spec.h"

/* How ranks share the run, with weights of type `compute`; and its
 * critic, whose blocks may have another size.
 */
struct dt_parallel_options dt_spec_parallel_options(const struct dt_spec *spec,
                                                    enum dt_dtype compute);
struct dt_parallel_options dt_spec_critic_sharing(
    const struct dt_spec *spec, const struct dt_parallel_options *parallel);

/* How ranks share the weights of a reference model. */
struct dt_parallel_options dt_spec_reference_options(const struct dt_spec *spec,
                                                     enum dt_dtype compute);

/* --- which ranks sum gradients first --- */

/* Refuses a configuration that these nodes cannot satisfy. -1: EX_CONFIG. */
int dt_groups_check(const struct dt_conf *conf, const struct dt_nodes *nodes,
                    const struct dt_comm *world, struct dt_error *err);

/* Sets group, order and hybrid, and replaces options without effect in groups
 * of one rank or steps of one micro-batch. distributed.shard_group: auto counts
 * as world. options->strategy and `when` are set.
 */
void dt_groups_apply(const struct dt_conf *conf, const struct dt_nodes *nodes,
                     int world, size_t micro_batches,
                     struct dt_parallel_options *options);

/* Reports which ranks share what state, and how sums are made. */
void dt_groups_report(const struct dt_conf *conf, const struct dt_nodes *nodes,
                      int world, const struct dt_parallel_options *options,
                      struct dt_report *report);

/* --- offload --- */

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

#endif /* DT_RUN_SHARING_H */
