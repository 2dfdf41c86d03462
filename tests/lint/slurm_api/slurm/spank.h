/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spank.h - what the plugin may use of Slurm, by release
 *
 * Not Slurm's header, but its promises as far as the plugin relies on them: a
 * use of anything that SLURM_VERSION_NUMBER (from the command line) does not
 * have is a compile error. See tests/lint/spank.sh.
 */
#ifndef LINT_SPANK_H
#define LINT_SPANK_H

#include <stdint.h>

#define SLURM_VERSION_NUM(a, b, c) (((a) << 16) + ((b) << 8) + (c))

typedef struct spank_handle *spank_t;
typedef int(spank_f)(spank_t spank, int ac, char *argv[]);
typedef int (*spank_opt_cb_f)(int val, const char *optarg, int remote);

typedef enum {
    ESPANK_SUCCESS = 0,
    ESPANK_ERROR = 3000,
#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(25, 5, 0)
    ESPANK_JOB_FAILURE,
#endif
} spank_err_t;

typedef enum {
    S_CTX_ERROR,
    S_CTX_LOCAL,
    S_CTX_REMOTE,
    S_CTX_ALLOCATOR,
    S_CTX_SLURMD,
    S_CTX_JOB_SCRIPT,
} spank_context_t;

typedef enum {
    S_JOB_ID,
    S_JOB_STEPID,
    S_JOB_LOCAL_TASK_COUNT,
    S_JOB_TOTAL_TASK_COUNT,
    S_JOB_ARGV,
    S_JOB_ENV,
    S_TASK_GLOBAL_ID,
    S_TASK_EXIT_STATUS,
} spank_item_t;

struct spank_option {
    char *name;
    char *arginfo;
    char *usage;
    int has_arg;
    int val;
    spank_opt_cb_f cb;
};

extern spank_f slurm_spank_init;
extern spank_f slurm_spank_init_post_opt;
extern spank_f slurm_spank_local_user_init;
extern spank_f slurm_spank_user_init;
extern spank_f slurm_spank_task_init;
extern spank_f slurm_spank_task_exit;
#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(25, 5, 0)
extern int slurm_spank_init_failure_mode;
#endif

spank_context_t spank_context(void);
spank_err_t spank_option_register(spank_t spank, struct spank_option *option);
spank_err_t spank_get_item(spank_t spank, spank_item_t item, ...);
spank_err_t spank_setenv(spank_t spank, const char *name, const char *value,
                         int overwrite);
spank_err_t spank_unsetenv(spank_t spank, const char *name);
spank_err_t spank_job_control_setenv(spank_t spank, const char *name,
                                     const char *value, int overwrite);
const char *spank_strerror(spank_err_t err);
void slurm_error(const char *format, ...);
void slurm_spank_log(const char *format, ...);
#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(23, 11, 0)
spank_err_t spank_prepend_task_argv(spank_t spank, int argc,
                                    const char *argv[]);
#endif

#define SPANK_PLUGIN(name, version)                                            \
    const char plugin_name[] = #name;                                          \
    const char plugin_type[] = "spank";                                        \
    const unsigned int plugin_version = SLURM_VERSION_NUMBER;                  \
    const unsigned int spank_plugin_version = version;

#endif /* LINT_SPANK_H */
