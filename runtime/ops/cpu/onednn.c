/* SPDX-License-Identifier: Apache-2.0 */
/* onednn.c - matrix multiplication by oneDNN, version 2 (Debian 12) or 3
 * (Debian 13)
 */
#include "config.h"

#ifdef HAVE_ONEDNN

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include <oneapi/dnnl/dnnl.h>

#include "ops/cpu/cpu.h"
#include "ops/cpu/matmul.h"

enum { CACHED = 64, A = 0, B, BIAS, C, OPERANDS };

/* A primitive for one shape, with the operands that it is called for. */
struct entry {
    struct dt_cpu_matmul shape; /* without addresses */
    dnnl_primitive_t primitive; /* NULL: oneDNN has none */
    dnnl_memory_t memory[OPERANDS];
};

/* The operands of an entry belong to one thread at a time. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    struct entry entries[CACHED];
    size_t count, oldest;
} cache;

const char *dt_onednn_version(void)
{
    static char text[32];
    const dnnl_version_t *version = dnnl_version();
    snprintf(text, sizeof(text), "oneDNN %d.%d.%d", version->major,
             version->minor, version->patch);
    return text;
}

/* Zen 3 and 4 multiply vectors of 256 bits. In bf16, Intel's AVX512-BF16 has
 * half the multiply-adds a second of its fp32, AMD's twice as many; AMX sixteen
 * times as many.
 */
bool dt_onednn_fastest(enum dt_dtype type)
{
#ifdef __x86_64__
    int isa = (int)dnnl_get_effective_cpu_isa();
    bool bf16 =
        (isa & dnnl_cpu_isa_avx512_core_bf16) == dnnl_cpu_isa_avx512_core_bf16;
    bool amx =
        (isa & dnnl_cpu_isa_avx512_core_amx) == dnnl_cpu_isa_avx512_core_amx;
    if (type == DT_F32)
        return !__builtin_cpu_is("amdfam19h");
    if (type == DT_BF16)
        return amx || (bf16 && __builtin_cpu_is("amd"));
#endif
    return type == DT_F32;
}

/* Differences of the versions: a memory descriptor is a struct in version 2, a
 * pointer in version 3.
 */
#if DNNL_VERSION_MAJOR >= 3

#define DESC(layout) (layout)

static dnnl_status_t add_to_c(dnnl_post_ops_t ops)
{
    return dnnl_post_ops_append_sum(ops, 1.0f, 0, dnnl_data_type_undef);
}

static dnnl_status_t desc_create(dnnl_primitive_desc_t *desc,
                                 dnnl_memory_desc_t *layout, bool bias,
                                 dnnl_primitive_attr_t attr)
{
    return dnnl_matmul_primitive_desc_create(
        desc, cache.engine, layout[A], layout[B], bias ? layout[BIAS] : NULL,
        layout[C], attr);
}

#else

#define DESC(layout) (&(layout))
#define dnnl_memory_desc_create_with_strides dnnl_memory_desc_init_by_strides
#define dnnl_memory_desc_destroy(layout) ((void)(layout))

static dnnl_status_t add_to_c(dnnl_post_ops_t ops)
{
    return dnnl_post_ops_append_sum(ops, 1.0f);
}

static dnnl_status_t desc_create(dnnl_primitive_desc_t *desc,
                                 dnnl_memory_desc_t *layout, bool bias,
                                 dnnl_primitive_attr_t attr)
{
    dnnl_matmul_desc_t matmul;
    dnnl_status_t status =
        dnnl_matmul_desc_init(&matmul, &layout[A], &layout[B],
                              bias ? &layout[BIAS] : NULL, &layout[C]);

    if (status != dnnl_success)
        return status;
    return dnnl_primitive_desc_create(desc, &matmul, attr, cache.engine, NULL);
}

#endif

static bool same_shape(const struct dt_cpu_matmul *p,
                       const struct dt_cpu_matmul *q)
{
    return p->M == q->M && p->N == q->N && p->K == q->K &&
           p->a.stride == q->a.stride && p->a.transposed == q->a.transposed &&
           p->b.stride == q->b.stride && p->b.transposed == q->b.transposed &&
           p->type == q->type && p->c_type == q->c_type &&
           !p->bias == !q->bias && p->accumulate == q->accumulate;
}

/* Descriptions of the operands, in the order of their numbers; returns how many
 * could be made.
 */
static int layouts_init(dnnl_memory_desc_t *layout,
                        const struct dt_cpu_matmul *p)
{
    const size_t rows[OPERANDS] = {p->M, p->K, 1, p->M};
    const size_t columns[OPERANDS] = {p->K, p->N, p->N, p->N};
    const size_t stride[OPERANDS] = {p->a.stride, p->b.stride, p->N, p->N};
    const bool transposed[OPERANDS] = {p->a.transposed, p->b.transposed};

    for (int i = 0; i < OPERANDS; i++) {
        enum dt_dtype type = i == C ? p->c_type : p->type;
        dnnl_dim_t step = (dnnl_dim_t)stride[i];
        dnnl_dims_t dims = {(dnnl_dim_t)rows[i], (dnnl_dim_t)columns[i]};
        dnnl_dims_t strides = {transposed[i] ? 1 : step,
                               transposed[i] ? step : 1};
        if (dnnl_memory_desc_create_with_strides(
                &layout[i], 2, dims, type == DT_F32 ? dnnl_f32 : dnnl_bf16,
                strides) != dnnl_success)
            return i;
    }
    return OPERANDS;
}

static dnnl_status_t attr_init(dnnl_primitive_attr_t *attr, bool accumulate)
{
    dnnl_post_ops_t ops = NULL;
    dnnl_status_t status = dnnl_primitive_attr_create(attr);

    if (status != dnnl_success || !accumulate)
        return status;
    status = dnnl_post_ops_create(&ops);
    if (status == dnnl_success)
        status = add_to_c(ops);
    if (status == dnnl_success)
        status = dnnl_primitive_attr_set_post_ops(*attr, ops);
    if (ops)
        dnnl_post_ops_destroy(ops);
    return status;
}

static dnnl_status_t primitive_init(struct entry *e, dnnl_memory_desc_t *layout)
{
    dnnl_primitive_attr_t attr = NULL;
    dnnl_primitive_desc_t desc = NULL;
    dnnl_status_t status = attr_init(&attr, e->shape.accumulate);

    if (status == dnnl_success)
        status = desc_create(&desc, layout, e->shape.bias, attr);
    if (status == dnnl_success)
        status = dnnl_primitive_create(&e->primitive, desc);
    for (int i = 0; i < OPERANDS && status == dnnl_success; i++)
        status = dnnl_memory_create(&e->memory[i], DESC(layout[i]),
                                    cache.engine, DNNL_MEMORY_NONE);
    if (desc)
        dnnl_primitive_desc_destroy(desc);
    if (attr)
        dnnl_primitive_attr_destroy(attr);
    return status;
}

static void entry_fini(struct entry *e)
{
    for (int i = 0; i < OPERANDS; i++) {
        if (e->memory[i])
            dnnl_memory_destroy(e->memory[i]);
    }
    if (e->primitive)
        dnnl_primitive_destroy(e->primitive);
    memset(e, 0, sizeof(*e));
}

/* Makes e for the shape of p; without a primitive if oneDNN has none. */
static void entry_init(struct entry *e, const struct dt_cpu_matmul *p)
{
    dnnl_memory_desc_t layout[OPERANDS];
    int made = layouts_init(layout, p);

    e->shape = *p;
    if (made < OPERANDS || primitive_init(e, layout) != dnnl_success) {
        entry_fini(e);
        e->shape = *p;
    }
    while (made-- > 0)
        dnnl_memory_desc_destroy(layout[made]);
}

/* The entry for the shape of p, in place of the oldest if there are many;
 * NULL without oneDNN's engine.
 */
static struct entry *find_entry(const struct dt_cpu_matmul *p)
{
    struct entry *e = cache.entries;

    if (!cache.stream &&
        (dnnl_engine_create(&cache.engine, dnnl_cpu, 0) != dnnl_success ||
         dnnl_stream_create(&cache.stream, cache.engine,
                            dnnl_stream_default_flags) != dnnl_success))
        return NULL;
    for (size_t i = 0; i < cache.count; i++, e++) {
        if (same_shape(&e->shape, p))
            return e;
    }
    if (cache.count == CACHED) {
        e = &cache.entries[cache.oldest++ % CACHED];
        entry_fini(e);
    } else {
        cache.count++;
    }
    entry_init(e, p);
    return e;
}

static bool matmul_bf16(const struct dt_cpu_matmul *p)
{
    const struct entry *e = find_entry(p);
    dnnl_exec_arg_t args[] = {
        {DNNL_ARG_SRC, NULL},
        {DNNL_ARG_WEIGHTS, NULL},
        {DNNL_ARG_BIAS, NULL},
        {DNNL_ARG_DST, NULL},
    };
    /* oneDNN takes no const, but does not write to its sources */
    void *data[OPERANDS] = {(void *)p->a.data, (void *)p->b.data,
                            (void *)p->bias, p->c};

    if (!e || !e->primitive)
        return false;
    for (int i = 0; i < OPERANDS; i++) {
        args[i].memory = e->memory[i];
        if (dnnl_memory_set_data_handle(e->memory[i], data[i]) != dnnl_success)
            return false;
    }
    if (!p->bias)
        args[BIAS] = args[C];
    return dnnl_primitive_execute(e->primitive, cache.stream,
                                  p->bias ? OPERANDS : OPERANDS - 1,
                                  args) == dnnl_success &&
           dnnl_stream_wait(cache.stream) == dnnl_success;
}

static void add_bias(const struct dt_cpu_matmul *p)
{
    const float *bias = p->bias;

#pragma omp parallel for schedule(static) if (p->M * p->N > DT_CPU_SMALL)
    for (size_t m = 0; m < p->M; m++) {
        float *row = (float *)p->c + m * p->N;
#pragma omp simd
        for (size_t n = 0; n < p->N; n++)
            row[n] += bias[n];
    }
}

static bool matmul_f32(const struct dt_cpu_matmul *p)
{
    dnnl_status_t status = dnnl_sgemm(
        p->a.transposed ? 'T' : 'N', p->b.transposed ? 'T' : 'N',
        (dnnl_dim_t)p->M, (dnnl_dim_t)p->N, (dnnl_dim_t)p->K, 1.0f, p->a.data,
        (dnnl_dim_t)p->a.stride, p->b.data, (dnnl_dim_t)p->b.stride,
        p->accumulate ? 1.0f : 0.0f, p->c, (dnnl_dim_t)p->N);

    if (status == dnnl_success && p->bias)
        add_bias(p);
    return status == dnnl_success;
}

bool dt_onednn_matmul(const struct dt_cpu_matmul *p)
{
    if (p->type == DT_F32)
        return matmul_f32(p);
    if (p->type != DT_BF16)
        return false;
    pthread_mutex_lock(&lock);
    bool done = matmul_bf16(p);
    pthread_mutex_unlock(&lock);
    return done;
}

#endif
