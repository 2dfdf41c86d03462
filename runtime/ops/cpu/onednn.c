/* SPDX-License-Identifier: Apache-2.0 */
/* onednn.c - matrix products by oneDNN */
#include "config.h"

#ifdef HAVE_ONEDNN

#include <stdio.h>
#include <string.h>

#include <oneapi/dnnl/dnnl.h>

#include "ops/cpu/matmul.h"

const char *dt_onednn_version(void)
{
    static char text[32];
    const dnnl_version_t *version = dnnl_version();
    snprintf(text, sizeof(text), "oneDNN %d.%d.%d", version->major,
             version->minor, version->patch);
    return text;
}

bool dt_onednn_native(enum dt_dtype type)
{
    return type == DT_F32;
}

bool dt_onednn_matmul(const struct dt_cpu_product *p)
{
    float *c = p->c;

    if (p->type != DT_F32)
        return false;
    for (size_t m = 0; m < p->M && p->bias; m++)
        memcpy(c + m * p->N, p->bias, p->N * sizeof(*c));
    return dnnl_sgemm(p->a.transposed ? 'T' : 'N', p->b.transposed ? 'T' : 'N',
                      (dnnl_dim_t)p->M, (dnnl_dim_t)p->N, (dnnl_dim_t)p->K,
                      1.0f, p->a.data, (dnnl_dim_t)p->a.stride, p->b.data,
                      (dnnl_dim_t)p->b.stride,
                      p->accumulate || p->bias ? 1.0f : 0.0f, c,
                      (dnnl_dim_t)p->N) == dnnl_success;
}

#endif
