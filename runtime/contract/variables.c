/* SPDX-License-Identifier: Apache-2.0 */
/* variables.c - a table of the variables that programs read */
#include "config.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "contract/variables.h"

/* The names of frameworks, in the order of the bits below. */
const char *const dt_variables_frameworks[] = {
    "accelerate", "composer", "deepspeed",  "horovod", "jax", "lightning",
    "megatron",   "python",   "tensorflow", "torch",   NULL,
};

enum {
    ALWAYS = 0,
    ACCELERATE = 1 << 0, /* its launcher is torchrun */
    COMPOSER = 1 << 1,
    DEEPSPEED = 1 << 2,
    HOROVOD = 1 << 3,
    JAX = 1 << 4,
    LIGHTNING = 1 << 5,
    MEGATRON = 1 << 6,
    PYTHON = 1 << 7,
    TENSORFLOW = 1 << 8,
    TORCH = 1 << 9,

    FIXED = 1 << 0,  /* specific to this task */
    NAMED = 1 << 1,  /* set only if one of its frameworks is named */
    NEEDED = 1 << 2, /* it is an error if it is named and has no value */
};

/* Deliberately left out: TORCHELASTIC_RUN_ID (Lightning would leave its Slurm
 * mode, and with it preemption), OMPI_* and PMI_* (programs that read them
 * prefer them to Slurm), HOROVOD_CONTROLLER and _GLOO_RENDEZVOUS_* (need
 * horovodrun's server). Lightning 1 and others take HOROVOD_RANK as a sign of
 * horovodrun, so it is set only if horovod is named.
 */
static const struct row {
    unsigned frameworks;
    const char *name;
    const char *value; /* each {word} is in the table below */
    unsigned flags;
} rows[] = {
    {ALWAYS, "RANK", "{rank}", FIXED},
    {ALWAYS, "WORLD_SIZE", "{world_size}", FIXED},
    {ALWAYS, "LOCAL_RANK", "{local_rank}", FIXED},
    {ALWAYS, "LOCAL_WORLD_SIZE", "{local_size}", FIXED},
    {ALWAYS, "NODE_RANK", "{node_rank}", FIXED},
    {ALWAYS, "MASTER_ADDR", "{master_addr}", 0},
    {ALWAYS, "MASTER_PORT", "{master_port}", 0},
    {ALWAYS, "OMP_NUM_THREADS", "{cpus}", 0},
    {ALWAYS, "NCCL_SOCKET_IFNAME", "={interface}", 0},
    {ALWAYS, "GLOO_SOCKET_IFNAME", "{interface}", 0},
    {ALWAYS, "TP_SOCKET_IFNAME", "{interface}", 0},
    {ALWAYS, "UCX_NET_DEVICES", "{ucx_device}", 0},
    {ALWAYS, "NCCL_RAS_ADDR", "localhost:{ras_port}", 0},

    {TORCH | ACCELERATE, "GROUP_RANK", "{node_rank}", FIXED},
    {TORCH | ACCELERATE, "GROUP_WORLD_SIZE", "{nodes}", 0},
    {TORCH | ACCELERATE, "ROLE_RANK", "{rank}", 0},
    {TORCH | ACCELERATE, "ROLE_WORLD_SIZE", "{world_size}", 0},
    {TORCH | ACCELERATE, "ROLE_NAME", "default", 0},
    {TORCH | ACCELERATE, "TORCHELASTIC_RESTART_COUNT", "{restarts}", 0},
    {TORCH | ACCELERATE | COMPOSER, "TORCH_NCCL_ASYNC_ERROR_HANDLING", "1", 0},
    /* the flight recorder of collectives, if there is a directory for logs */
    {TORCH | ACCELERATE, "TORCH_NCCL_DEBUG_INFO_TEMP_FILE", "{logs}/nccl-rank-",
     0},
    {TORCH | ACCELERATE, "TORCH_NCCL_TRACE_BUFFER_SIZE", "{logged}2000", 0},
    {TORCH | ACCELERATE, "TORCH_NCCL_DUMP_ON_TIMEOUT", "{logged}1", 0},

    {DEEPSPEED, "CROSS_RANK", "{node_rank}", 0},
    {DEEPSPEED, "CROSS_SIZE", "{nodes}", 0},
    {DEEPSPEED, "LOCAL_SIZE", "{local_size}", 0},

    {LIGHTNING, "SLURM_NTASKS_PER_NODE", "{tasks_per_node}", 0},

    {JAX, "JAX_COORDINATOR_ADDRESS", "{master_host}:{jax_port}", 0},
    {JAX, "JAX_COORDINATOR_PORT", "{jax_port}", 0},
    {JAX, "JAX_LOCAL_DEVICE_IDS", "{local_device}", 0},

    {TENSORFLOW, "TF_CONFIG",
     "{\"cluster\":{\"worker\":[{tf_workers}]},"
     "\"task\":{\"type\":\"worker\",\"index\":{tf_index}}}",
     NEEDED},

    {HOROVOD, "HOROVOD_HOSTNAME", "{host}", NAMED},
    {HOROVOD, "HOROVOD_RANK", "{rank}", NAMED},
    {HOROVOD, "HOROVOD_SIZE", "{world_size}", NAMED},
    {HOROVOD, "HOROVOD_LOCAL_RANK", "{local_rank}", NAMED},
    {HOROVOD, "HOROVOD_LOCAL_SIZE", "{local_size}", NAMED},
    {HOROVOD, "HOROVOD_CROSS_RANK", "{node_rank}", NAMED},
    {HOROVOD, "HOROVOD_CROSS_SIZE", "{nodes}", NAMED},
    {HOROVOD, "HOROVOD_GLOO_IFACE", "{interface}", NAMED},

    {MEGATRON, "CUDA_DEVICE_MAX_CONNECTIONS", "1", NAMED},

    {PYTHON | COMPOSER, "PYTHONUNBUFFERED", "1", 0},
    {PYTHON, "PYTHONFAULTHANDLER", "1", 0},
};

/* A longer value is set only for a framework that is named, because every
 * process carries it.
 */
enum { UNASKED_BYTES = 8192 };

struct text {
    char *bytes; /* of DT_VARIABLE_BYTES */
    size_t used;
};

/* Appends formatted text; -1 if it does not fit. */
static int append_format(struct text *text, const char *format, ...)
{
    va_list ap;
    size_t left = DT_VARIABLE_BYTES - text->used;
    va_start(ap, format);
    int n = vsnprintf(text->bytes + text->used, left, format, ap);
    va_end(ap);
    if (n < 0 || (size_t)n >= left)
        return -1;
    text->used += (size_t)n;
    return 0;
}

static int add_number(struct text *text, const struct dt_task_facts *facts,
                      const void *field)
{
    (void)facts;
    return append_format(text, "%u", *(const unsigned *)field);
}

/* Appends a number unless it is 0, which means unknown. */
static int add_known(struct text *text, const struct dt_task_facts *facts,
                     const void *field)
{
    return *(const unsigned *)field > 0 ? add_number(text, facts, field) : -1;
}

static int add_text(struct text *text, const struct dt_task_facts *facts,
                    const void *field)
{
    const char *value = *(const char *const *)field;
    (void)facts;
    return value ? append_format(text, "%s", value) : -1;
}

/* Appends nothing; fails if there is no directory for logs. */
static int add_logged(struct text *text, const struct dt_task_facts *facts,
                      const void *field)
{
    (void)text;
    (void)field;
    return facts->logs ? 0 : -1;
}

/* Appends a host before ":PORT", where an IPv6 address needs brackets. */
static int add_url_host(struct text *text, const struct dt_task_facts *facts,
                        const void *field)
{
    const char *host = *(const char *const *)field;
    if (host && strchr(host, ':') && host[0] != '[')
        return append_format(text, "[%s]", host);
    return add_text(text, facts, field);
}

/* With RDMA, UCX must choose its devices by itself. */
static int add_ucx_device(struct text *text, const struct dt_task_facts *facts,
                          const void *field)
{
    return facts->rdma ? -1 : add_text(text, facts, field);
}

/* JAX uses the device whose index is its local rank, which does not exist where
 * each task sees a single device.
 */
static int add_device(struct text *text, const struct dt_task_facts *facts,
                      const void *field)
{
    (void)field;
    return append_format(text, "%u", facts->gpus == 1 ? 0 : facts->local_rank);
}

/* Fails unless all nodes have the same number of tasks. */
static int add_tasks_per_node(struct text *text,
                              const struct dt_task_facts *facts,
                              const void *field)
{
    (void)field;
    for (uint32_t i = 0; facts->tasks && i < facts->nodes; i++)
        if (facts->tasks[i] != facts->tasks[0])
            return -1;
    return facts->tasks ? append_format(text, "%u", facts->tasks[0]) : -1;
}

/* Lists workers node by node, whatever the order of ranks, as add_tf_index
 * counts.
 */
static int add_tf_workers(struct text *text, const struct dt_task_facts *facts,
                          const void *field)
{
    (void)field;
    if (!facts->hosts || facts->tf_port == 0)
        return -1;
    for (uint32_t i = 0; i < facts->nodes; i++)
        for (uint32_t k = 0; k < facts->tasks[i]; k++)
            if (append_format(text, "%s\"%s:%u\"", i + k > 0 ? "," : "",
                              facts->hosts[i], facts->tf_port + k) != 0)
                return -1;
    return 0;
}

static int add_tf_index(struct text *text, const struct dt_task_facts *facts,
                        const void *field)
{
    uint32_t index = facts->local_rank;
    (void)field;
    for (uint32_t i = 0; i < facts->node_rank && i < facts->nodes; i++)
        index += facts->tasks[i];
    return append_format(text, "%u", index);
}

/* The words of the rows; `add` returns -1 if there is no value. */
static const struct word {
    const char *name;
    int (*add)(struct text *text, const struct dt_task_facts *facts,
               const void *field);
    size_t field;
} words[] = {
#define FIELD(name) offsetof(struct dt_task_facts, name)
    {"{rank}", add_number, FIELD(rank)},
    {"{world_size}", add_number, FIELD(world_size)},
    {"{local_rank}", add_number, FIELD(local_rank)},
    {"{local_size}", add_number, FIELD(local_size)},
    {"{node_rank}", add_number, FIELD(node_rank)},
    {"{nodes}", add_number, FIELD(nodes)},
    {"{restarts}", add_number, FIELD(restarts)},
    {"{cpus}", add_known, FIELD(cpus)},
    {"{master_port}", add_known, FIELD(master_port)},
    {"{jax_port}", add_known, FIELD(jax_port)},
    {"{ras_port}", add_known, FIELD(ras_port)},
    {"{master_addr}", add_text, FIELD(master_addr)},
    {"{master_host}", add_url_host, FIELD(master_addr)},
    {"{host}", add_text, FIELD(host)},
    {"{interface}", add_text, FIELD(interface)},
    {"{logs}", add_text, FIELD(logs)},
    {"{logged}", add_logged, 0},
    {"{ucx_device}", add_ucx_device, FIELD(interface)},
    {"{local_device}", add_device, 0},
    {"{tasks_per_node}", add_tasks_per_node, 0},
    {"{tf_workers}", add_tf_workers, 0},
    {"{tf_index}", add_tf_index, 0},
#undef FIELD
};

/* Returns the word that p begins with, or NULL. */
static const struct word *find_word(const char *p)
{
    for (size_t i = 0; *p == '{' && i < sizeof(words) / sizeof(*words); i++)
        if (strncmp(p, words[i].name, strlen(words[i].name)) == 0)
            return &words[i];
    return NULL;
}

/* Expands a value; -1 if one of its words has no value. */
static int write_value(const char *p, const struct dt_task_facts *facts,
                       struct text *text)
{
    while (*p) {
        const struct word *word = find_word(p);
        if (word) {
            if (word->add(text, facts, (const char *)facts + word->field) != 0)
                return -1;
            p += strlen(word->name);
        } else if (append_format(text, "%c", *p++) != 0) {
            return -1;
        }
    }
    return 0;
}

/* Returns the bit of the first name in list, of len bytes; 0 if it is unknown.
 */
static unsigned framework_bit(const char *list, size_t len)
{
    for (int i = 0; dt_variables_frameworks[i]; i++)
        if (strlen(dt_variables_frameworks[i]) == len &&
            strncmp(dt_variables_frameworks[i], list, len) == 0)
            return 1U << i;
    return 0;
}

static int parse_frameworks(const char *list, unsigned *named,
                            struct dt_error *err)
{
    *named = 0;
    while (*list) {
        size_t len = strcspn(list, ",");
        unsigned bit = framework_bit(list, len);
        if (bit == 0)
            return dt_error_set(err, EX_CONFIG,
                                "unknown framework \"%.*s\": expected "
                                "accelerate, composer, deepspeed, horovod, "
                                "jax, lightning, megatron, python, tensorflow "
                                "or torch",
                                len < 32 ? (int)len : 32, list);
        *named |= bit;
        list += len + (list[len] == ',');
    }
    return 0;
}

int dt_variables_each(const struct dt_task_facts *facts, const char *frameworks,
                      dt_variables_set_f *set, void *context,
                      struct dt_error *err)
{
    char value[DT_VARIABLE_BYTES];
    unsigned named = 0;
    if (frameworks && parse_frameworks(frameworks, &named, err) != 0)
        return -1;
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        const struct row *row = &rows[i];
        struct text text = {value, 0};
        bool is_named = row->frameworks & named;
        bool by_default = !frameworks && !(row->flags & NAMED);
        if (row->frameworks != ALWAYS && !is_named && !by_default)
            continue;
        int rc = write_value(row->value, facts, &text);
        if (rc == 0 && !is_named && text.used > UNASKED_BYTES)
            continue;
        if (rc == 0) {
            if (set(context, row->name, value, row->flags & FIXED, err) != 0)
                return -1;
        } else if (is_named && (row->flags & NEEDED)) {
            return dt_error_set(err, EX_CONFIG,
                                "%s is not possible, because the step is "
                                "heterogeneous, has too many tasks, or "
                                "port_range is too small for them; take "
                                "tensorflow out of launch.frameworks",
                                row->name);
        }
    }
    return 0;
}
