/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wandb_file.h - a file of records of Weights & Biases
 *
 * LevelDB's log format with a header of its own: records are cut where a block
 * of 32 KiB ends, and each part has its type and a CRC-32 (wandb,
 * core/internal/transactionlog; LevelDB, doc/log_format.md).
 */
#ifndef DT_REPORT_WANDB_FILE_H
#define DT_REPORT_WANDB_FILE_H

#include "base/error.h"
#include "report/checksum.h"
#include "report/protobuf.h"

enum { DT_WANDB_HEADER_BYTES = 7 };

/* The first bytes of a file. */
extern const uint8_t dt_wandb_header[DT_WANDB_HEADER_BYTES];

/* Appends a record of `bytes` bytes to `to` as it is in a file at `offset`, by
 * a table of DT_CHECKSUM_IEEE.
 */
void dt_wandb_frame(const struct dt_checksum *checksum, size_t offset,
                    const void *record, size_t bytes, struct dt_protobuf *to);

struct dt_wandb_file;

/* Creates the file, which must not exist, with its header. Release with
 * dt_wandb_file_destroy. NULL and err: EX_CANTCREAT, EX_IOERR, EX_OSERR.
 */
struct dt_wandb_file *dt_wandb_file_create(const char *path,
                                           struct dt_error *err);
void dt_wandb_file_destroy(struct dt_wandb_file *file); /* NULL is fine */

/* Begins a Record, which has its number and whose one further field the caller
 * appends; dt_wandb_file_end writes it. -1: EX_IOERR, also if the file was
 * removed; no more may be written after that. EX_OSERR.
 */
struct dt_protobuf *dt_wandb_file_begin(struct dt_wandb_file *file);
int dt_wandb_file_end(struct dt_wandb_file *file, struct dt_error *err);

#endif /* DT_REPORT_WANDB_FILE_H */
