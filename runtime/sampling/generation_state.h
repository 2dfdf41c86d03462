/* SPDX-License-Identifier: Apache-2.0 */
/*
 * generation_state.h - what a checkpoint has of sampled completions
 *
 * alignment.json says where the run is in its generations. While a generation
 * is partly used, experience.safetensors holds it with its rewards, which are
 * not asked for again; with rollout.overlap, it holds the completions of the
 * next one.
 */
#ifndef DT_SAMPLING_GENERATION_STATE_H
#define DT_SAMPLING_GENERATION_STATE_H

#include "run/run.h"

/* Adds the files of rank 0; none of other algorithms. -1: as
 * dt_ckpt_add_tensors.
 */
int dt_alignment_save(struct dt_run *run, struct dt_ckpt_writer *writer,
                      struct dt_error *err);

/* Reads them from the checkpoint `dir`, on every rank. -1: EX_DATAERR, they are
 * wrong; EX_CONFIG, generations of this run are of another size than the one
 * that is there.
 */
int dt_alignment_load(struct dt_run *run, const char *dir,
                      struct dt_error *err);

#endif /* DT_SAMPLING_GENERATION_STATE_H */
