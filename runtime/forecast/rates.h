/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rates.h - how fast a rank computes, and how fast its links are
 *
 * `disttrain doctor --rates` writes a file of them, a line each:
 *
 *     # measured on node1
 *     device: cpu
 *     ranks_per_node: 2
 *     blocks_fp32: 152.3 GFLOP/s
 *     network: 1.14 GB/s
 *
 * A line `like: NAME` takes all rates of a known device, for a file that says
 * only what differs. The format is YAML; units are required.
 */
#ifndef DT_FORECAST_RATES_H
#define DT_FORECAST_RATES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/error.h"
#include "tensor/tensor.h"

enum dt_rate {
    /* of a rank: floating-point operations a second in a forward and backward
     * pass of blocks, and of the head with its loss */
    DT_RATE_BLOCKS_FP32,
    DT_RATE_BLOCKS_BF16, /* and fp16 */
    DT_RATE_HEAD_FP32,
    DT_RATE_HEAD_BF16,
    DT_RATE_MEMORY, /* bytes a second that AdamW reads and writes, of a rank */

    DT_RATE_NODE,         /* bytes a second that a rank sends within a node */
    DT_RATE_NODE_CALL,    /* seconds of a collective without data */
    DT_RATE_NETWORK,      /* bytes a second that leave a node */
    DT_RATE_NETWORK_CALL, /* seconds */
    DT_RATE_SENDING, /* bytes a second that the CPUs of a rank would send and
                        receive if they did nothing else; 0: sending takes
                        nothing from passes */

    DT_RATE_PCIE_UP, /* bytes a second from host memory to a GPU */
    DT_RATE_PCIE_DOWN,
    DT_RATE_HOST_MEMORY, /* bytes a second, of a node */
    DT_RATE_DRIVE_READ,  /* bytes a second, of a node */
    DT_RATE_DRIVE_WRITE,

    DT_RATE_GPU_MEMORY, /* bytes of a GPU; 0: there is none */
    DT_RATES
};

struct dt_rates {
    char from[256]; /* for people: a file, or the name of a known device */
    bool measured;  /* false: a known device's, or partly so */
    bool gpu;
    long ranks_per_node; /* that shared the node, or its CPUs, meanwhile */
    double of[DT_RATES];
};

/* The name of a rate in files, and whether `rates` has it. */
const char *dt_rate_name(enum dt_rate rate);
bool dt_rates_has(const struct dt_rates *rates, enum dt_rate rate);

/* The rates of a known device: "h100", "h200", "a100", "cpu". False if it is
 * not known; `names` is then set to a list of those that are.
 */
bool dt_rates_known(const char *name, struct dt_rates *rates,
                    const char **names);

/* The known device that a process computes on, by the device's description
 * (dt_device.describe). False if none matches: the known rates are those of
 * GPUs with NVLink.
 */
bool dt_rates_of_device(const char *description, bool gpu,
                        struct dt_rates *rates);

/* Reads a file. -1: EX_NOINPUT as dt_file_read; EX_DATAERR with all mistakes,
 * each as file:line:column: what was expected.
 */
int dt_rates_load(const char *path, struct dt_rates *rates,
                  struct dt_error *err);

/* The same for a text, which it changes. -1: EX_DATAERR. */
int dt_rates_parse(const char *path, char *text, struct dt_rates *rates,
                   struct dt_error *err);

/* Writes the rates that there are, as dt_rates_load reads them. */
void dt_rates_print(const struct dt_rates *rates, FILE *out);

/* The rates of each of `ranks` ranks of a node. CPUs, memory and sockets are
 * shared by its ranks, GPUs are not.
 */
struct dt_rates dt_rates_for(const struct dt_rates *rates, int ranks);

/* The rate of blocks, or of the head, in a type. */
double dt_rates_blocks(const struct dt_rates *rates, enum dt_dtype type);
double dt_rates_head(const struct dt_rates *rates, enum dt_dtype type);

#endif /* DT_FORECAST_RATES_H */
