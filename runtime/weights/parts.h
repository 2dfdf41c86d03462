/* SPDX-License-Identifier: Apache-2.0 */
/*
 * parts.h - the files of a checkpoint with AdamW's moments and weights
 *
 * Rank r of W writes optim-rank-<r>-of-<W>.safetensors with the part of each
 * unit that it owns, which need not be part r of it (dt_layout_part). A
 * parameter that it owns as a whole has its name and shape; of others, the
 * elements first .. end - 1 are a row called "name[first:end]". Padding is not
 * stored, so a world of any size can read them.
 */
#ifndef DT_WEIGHTS_PARTS_H
#define DT_WEIGHTS_PARTS_H

#include "base/error.h"
#include "ckpt/ckpt.h"
#include "parallel/parallel.h"
#include "tensor/layout.h"

enum { DT_PARTS_NAME_BYTES = 64 };

/* The kinds of tensors of each unit: DT_OWNED_MASTER, _M and _V, and the
 * weights of a reference model.
 */
enum { DT_PARTS_REFERENCE = DT_OWNED_V + 1, DT_PARTS_KINDS };

/* The name of the file of `rank`. */
void dt_parts_name(char name[DT_PARTS_NAME_BYTES], int rank, int world);

/* The tensors of such a file: part `part` of every unit, of the kinds first ..
 * end - 1; parts(end, unit_count) are the views of these parts. *count is how
 * many there are. Release with dt_parts_free_list, which accepts NULL. NULL and
 * err: EX_OSERR.
 */
struct dt_ckpt_tensor *dt_parts_list(const struct dt_layout *layout, int part,
                                     int world, int first, int end,
                                     const struct dt_view *parts, size_t *count,
                                     struct dt_error *err);
void dt_parts_free_list(struct dt_ckpt_tensor *tensors, size_t count);

/* Whether `dir` has such files: 1 or 0. -1: EX_NOINPUT, EX_IOERR.
 */
int dt_parts_exist(const char *dir, struct dt_error *err);

struct dt_parts; /* the open files of a checkpoint */

/* Opens the files in `dir` of however many ranks; *parts is NULL if there are
 * none. -1: EX_NOINPUT, EX_DATAERR naming a file that is missing, or a tensor
 * that does not belong to the layout.
 */
int dt_parts_open(const char *dir, const struct dt_layout *layout,
                  struct dt_parts **parts, struct dt_error *err);
void dt_parts_close(struct dt_parts *parts); /* NULL is fine */

/* Checks that all elements of a kind are there: 1, or 0 if none is. -1:
 * EX_DATAERR naming a parameter that lacks some.
 */
int dt_parts_have(const struct dt_parts *parts, int kind, struct dt_error *err);

/* The same, or 2 if all elements of some parameters are there, and none of
 * others, which were frozen.
 */
int dt_parts_have_some(const struct dt_parts *parts, int kind,
                       struct dt_error *err);

/* Reads the elements `range` of a kind that are there into the view, of as
 * many, rounded if it is of a narrower type; padding stays as it is. -1:
 * EX_IOERR, EX_DATAERR naming the first tensor that is not finite.
 */
int dt_parts_read(const struct dt_parts *parts, int kind, struct dt_range range,
                  struct dt_view to, struct dt_error *err);

#endif /* DT_WEIGHTS_PARTS_H */
