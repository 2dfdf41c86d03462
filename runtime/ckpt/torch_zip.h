/* SPDX-License-Identifier: Apache-2.0 */
/* torch_zip.h - the members of an archive of torch.save; for ckpt/ only */
#ifndef DT_CKPT_TORCH_ZIP_H
#define DT_CKPT_TORCH_ZIP_H

#include "ckpt/safetensors_impl.h"

/* A member that is stored as it is: bytes [begin, end) of the file. */
struct zip_member {
    const char *name; /* without the archive's own folder */
    uint64_t begin, end;
};

struct zip {
    char *directory;            /* a copy, which owns the names */
    struct zip_member *members; /* sorted by name */
    size_t count;
};

/* Reads the directory of the archive that `part` has mapped. Release with
 * zip_fini, also after a failure. -1: EX_DATAERR, it is damaged, compressed,
 * encrypted, or has more than one folder; EX_IOERR, EX_OSERR.
 */
int zip_init(struct zip *zip, const struct st_part *part, struct dt_error *err);
void zip_fini(struct zip *zip);

/* The member called `name`, or NULL. */
const struct zip_member *zip_find(const struct zip *zip, const char *name);

#endif /* DT_CKPT_TORCH_ZIP_H */
