/* SPDX-License-Identifier: Apache-2.0 */
/* sharing.h - how ranks share weights, gradients and state, as the file says */
#ifndef DT_RUN_SHARING_H
#define DT_RUN_SHARING_H

#include "run/run.h"

/* How ranks share the run, with weights of type `compute`; and its
 * critic, whose blocks may have another size.
 */
struct dt_parallel_options dt_run_parallel_options(const struct dt_run *run,
                                                   enum dt_dtype compute);
struct dt_parallel_options dt_run_critic_sharing(
    const struct dt_run *run, const struct dt_parallel_options *parallel);

/* Whether the run needs a reference model, and how ranks share its weights. */
bool dt_run_needs_reference(const struct dt_run *run);
struct dt_parallel_options dt_run_reference_options(const struct dt_run *run,
                                                    enum dt_dtype compute);

#endif /* DT_RUN_SHARING_H */
