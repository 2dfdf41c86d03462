/* SPDX-License-Identifier: Apache-2.0 */
/* slurm.h - as spank.h beside it: what the plugin may use, by release */
#ifndef LINT_SLURM_H
#define LINT_SLURM_H

#include <stdint.h>

#define NO_VAL (0xfffffffe)
#define SHOW_ALL 0x0001
#define JOB_STATE_BASE 0x000000ff
#define SLURM_MAX_NORMAL_STEP_ID (0xfffffff0)

typedef struct {
#if SLURM_VERSION_NUMBER >= 0x190b00
    uint64_t sluid;
#endif
    uint32_t job_id;
    uint32_t step_het_comp;
    uint32_t step_id;
} slurm_step_id_t;

typedef struct {
    char *plugindir;
} slurm_conf_t;

typedef struct slurm_step_layout {
    uint32_t node_cnt;
    char *node_list;
    uint16_t *tasks;
    uint32_t **tids;
} slurm_step_layout_t;

#define SLURM_STEP_ID_INITIALIZER                                              \
    {                                                                          \
        .job_id = NO_VAL                                                       \
    }

enum job_states { JOB_CANCELLED = 4 };

typedef struct {
    uint32_t job_state;
} slurm_job_info_t;

typedef struct {
    uint32_t record_count;
    slurm_job_info_t *job_array;
} job_info_msg_t;

typedef struct {
    uint32_t job_array_count;
    char **job_array_id;
    uint32_t *error_code;
} job_array_resp_msg_t;

#endif /* LINT_SLURM_H */
