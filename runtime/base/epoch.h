/* SPDX-License-Identifier: Apache-2.0 */
/*
 * epoch.h - the files by which the two halves of a step that has lost its links
 * agree which of them goes on
 *
 * Each time that nodes leave a step, the rest of it begins a new epoch. Of two
 * halves that one goes on which creates the file of the next epoch in the
 * output directory. The file has a hash of the nodes of that epoch, and is named
 * after a hash of the secret of its step, so that those of other steps say
 * nothing.
 */
#ifndef DT_BASE_EPOCH_H
#define DT_BASE_EPOCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DT_EPOCH_DIR ".epochs"

/* "STEP EPOCH RANK RANKS" in the environment of a worker: the name of its step
 * in files, the epoch in which it was started, and its place in that.
 */
#define DT_EPOCH_ENV "DISTTRAIN_EPOCH"

enum {
    DT_EPOCH_STEP_BYTES = 17, /* 16 digits, and NUL */
    DT_EPOCH_PROPOSAL_BYTES = 17,
};

/* Writes the path of the file of an epoch, PATH_MAX bytes at most. */
void dt_epoch_path(char *path, const char *dir, const char *step,
                   uint32_t epoch);

/* Reads the variable. False: no keeper has set it. */
bool dt_epoch_find(char step[DT_EPOCH_STEP_BYTES], uint32_t *epoch);

/* Whether the epoch after that of this process has begun, according to a file
 * in this directory: whatever this process does there is late. False without
 * the variable.
 */
bool dt_epoch_is_over(const char *dir);

#endif /* DT_BASE_EPOCH_H */
