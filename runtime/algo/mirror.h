/* SPDX-License-Identifier: Apache-2.0 */
/* mirror.h - a flat buffer of the device as the host sees it */
#ifndef DT_ALGO_MIRROR_H
#define DT_ALGO_MIRROR_H

#include "base/error.h"
#include "ops/ops.h"

/* Memory of the host that stands for a view: the view's own where that is the
 * host's, else as large again.
 */
struct dt_mirror {
    const struct dt_exec *exec;
    struct dt_view there, here; /* of the device; of the host */
};

/* A mirror of `view`, with what is in it once the stream is done if `fetch`,
 * else with zeros where it is not the view itself. -1: EX_OSERR, or the device
 * failed; dt_mirror_close in any case.
 */
int dt_mirror_open(struct dt_mirror *mirror, const struct dt_exec *exec,
                   struct dt_view view, bool fetch, struct dt_error *err);

/* Copies what the host wrote to the device. */
int dt_mirror_publish(const struct dt_mirror *mirror, struct dt_error *err);

/* Frees what stands for the view. */
void dt_mirror_close(struct dt_mirror *mirror);

#endif /* DT_ALGO_MIRROR_H */
