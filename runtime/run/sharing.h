/* SPDX-License-Identifier: Apache-2.0 */
/* sharing.h - how ranks share weights, gradients and state, as the file says */
#ifndef DT_RUN_SHARING_H
#define DT_RUN_SHARING_H

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

#endif /* DT_RUN_SHARING_H */
