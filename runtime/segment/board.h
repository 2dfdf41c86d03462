/* SPDX-License-Identifier: Apache-2.0 */
/*
 * board.h - how far a worker is, in a page that its keeper can read even after
 * the worker's end
 *
 * The page is a file in memory without a name: it ends with the last process
 * that has it. While the worker runs, it alone stores, and nobody locks: a lock
 * would outlive an owner that was killed.
 */
#ifndef DT_SEGMENT_BOARD_H
#define DT_SEGMENT_BOARD_H

#include <stdint.h>

#include "base/error.h"
#include "base/said.h"

struct dt_board;

/* Makes an empty page. NULL: EX_OSERR. */
struct dt_board *dt_board_create(struct dt_error *err);

/* Maps the page that this worker has from its keeper; *board is NULL in a
 * process that is no worker. -1: EX_SOFTWARE, that is no such page; EX_OSERR.
 */
int dt_board_open(struct dt_board **board, struct dt_error *err);

/* Its descriptor, which is closed by exec. */
int dt_board_fd(const struct dt_board *board);

/* Unmaps and closes it; NULL is fine. */
void dt_board_close(struct dt_board *board);

/* The optimizer steps that are done; -1 before a worker has come to its steps.
 * NULL is fine for set.
 */
void dt_board_set_step(struct dt_board *board, long step);
long dt_board_step(const struct dt_board *board);

/* Where the collectives that were started are counted (dt_comm_count); NULL for
 * NULL.
 */
uint64_t *dt_board_started(struct dt_board *board);

/* Seconds without a step or a collective after which the worker hangs; 0, as at
 * first: it may take any time. NULL is fine for set.
 */
void dt_board_set_patience(struct dt_board *board, double seconds);
double dt_board_patience(const struct dt_board *board);

/* The lines of all its workers, which dt_board_clear leaves; NULL for NULL. */
struct dt_said *dt_board_said(struct dt_board *board);

/* Forgets the rest, before another worker starts. */
void dt_board_clear(struct dt_board *board);

#endif /* DT_SEGMENT_BOARD_H */
