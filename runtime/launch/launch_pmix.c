/* SPDX-License-Identifier: Apache-2.0 */
/*
 * launch_pmix.c - the world of a PMIx server: srun, mpirun, prterun, flux
 *
 * PMIx calls can hang forever when client and server do not fit together, so
 * each of those that block runs in a thread of its own and is waited for with a
 * deadline. A thread that hangs is left alone: the process is about to give up
 * anyway. Those threads, and the ones that libpmix starts, take no signals.
 * Their number, and that of look-ups at the start, does not grow with the
 * ranks.
 */
#include "config.h"

#include <limits.h>
#include <pmix.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/thread.h"
#include "launch/launch_impl.h"

enum {
    CALL_MS = 30000, /* for calls that only ask the server on this host */
    ROLL_MS = 2000,  /* for finding out who is missing */
    LEAVE_MS = 5000, /* for finalize and abort */
    HOST_BYTES = 256,
};

struct pmix {
    struct dt_launch base;
    pmix_proc_t self;
    unsigned fences; /* done or tried */
};

/* One call into PMIx, or one answer of it, which may hang. The one who waits
 * for it shares it with the one who finishes it, a thread or a callback; the
 * last of them frees it.
 */
struct task {
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    int holders;
    bool done;
    pmix_status_t status;
    pmix_status_t (*run)(struct task *task); /* what task_run runs */

    pmix_proc_t proc;
    char key[PMIX_MAX_KEYLEN + 1];
    pmix_value_t *value;
    int code;     /* of abort */
    char **hosts; /* [size], of call_hosts */
    uint32_t size;
};

static struct task *task_create(pmix_status_t (*run)(struct task *task))
{
    struct task *task = calloc(1, sizeof(*task));
    pthread_condattr_t attr;
    if (!task)
        return NULL;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_mutex_init(&task->mutex, NULL);
    pthread_cond_init(&task->cond, &attr);
    pthread_condattr_destroy(&attr);
    task->holders = 2;
    task->run = run;
    return task;
}

/* Ends the use of one of the two; the second time, frees the task. */
static void task_drop(struct task *task)
{
    bool last;
    pthread_mutex_lock(&task->mutex);
    last = --task->holders == 0;
    pthread_mutex_unlock(&task->mutex);
    if (!last)
        return;
    if (task->value)
        PMIX_VALUE_RELEASE(task->value);
    for (uint32_t r = 0; task->hosts && r < task->size; r++)
        free(task->hosts[r]);
    free(task->hosts);
    pthread_cond_destroy(&task->cond);
    pthread_mutex_destroy(&task->mutex);
    free(task);
}

/* The finishing side's last use of the task: it ends with this status. */
static void task_finish(struct task *task, pmix_status_t status)
{
    pthread_mutex_lock(&task->mutex);
    task->status = status;
    task->done = true;
    pthread_cond_signal(&task->cond);
    pthread_mutex_unlock(&task->mutex);
    task_drop(task);
}

/* The status of the task; PMIX_ERR_TIMEOUT if it is not done by `deadline`. */
static pmix_status_t task_wait(struct task *task,
                               const struct timespec *deadline)
{
    pmix_status_t status;
    int rc = 0;
    pthread_mutex_lock(&task->mutex);
    while (!task->done && rc == 0)
        rc = pthread_cond_timedwait(&task->cond, &task->mutex, deadline);
    status = task->done ? task->status : PMIX_ERR_TIMEOUT;
    pthread_mutex_unlock(&task->mutex);
    return status;
}

static void *task_main(void *arg)
{
    struct task *task = arg;
    task_finish(task, task->run(task));
    return NULL;
}

/* Runs the task in a thread that takes no signals. */
static pmix_status_t task_run(struct task *task, int timeout_ms)
{
    struct timespec deadline = dt_clock_in(CLOCK_MONOTONIC, timeout_ms);
    pthread_t thread;
    if (dt_thread_start(&thread, NULL, task_main, task) == 0)
        pthread_detach(thread);
    else
        task_finish(task, PMIX_ERR_NOMEM);
    return task_wait(task, &deadline);
}

static pmix_status_t call_init(struct task *task)
{
    return PMIx_Init(&task->proc, NULL, 0);
}

static pmix_status_t call_finalize(struct task *task)
{
    (void)task;
    return PMIx_Finalize(NULL, 0);
}

static pmix_status_t call_abort(struct task *task)
{
    return PMIx_Abort(task->code, task->key, NULL, 0);
}

/* Notes in task->hosts who is on `node`. */
static pmix_status_t add_node(struct task *task, const char *node)
{
    pmix_proc_t *procs = NULL;
    size_t count = 0;
    pmix_status_t status =
        PMIx_Resolve_peers(node, task->proc.nspace, &procs, &count);
    for (size_t i = 0; status == PMIX_SUCCESS && i < count; i++) {
        uint32_t r = procs[i].rank;
        if (r >= task->size || task->hosts[r] ||
            !(task->hosts[r] = strdup(node)))
            status = PMIX_ERROR;
    }
    if (procs)
        PMIX_PROC_FREE(procs, count);
    return status;
}

/* One look-up for each node, and none for each rank. */
static pmix_status_t call_hosts(struct task *task)
{
    char *nodes = NULL, *left, *node;
    pmix_status_t status = PMIx_Resolve_nodes(task->proc.nspace, &nodes);
    left = nodes;
    while (status == PMIX_SUCCESS && (node = strsep(&left, ",")))
        status = add_node(task, node);
    free(nodes);
    for (uint32_t r = 0; status == PMIX_SUCCESS && r < task->size; r++)
        if (!task->hosts[r])
            status = PMIX_ERR_NOT_FOUND;
    return status;
}

static pmix_status_t call_fence(struct task *task)
{
    bool yes = true;
    pmix_info_t collect;
    pmix_status_t status = PMIx_Commit();
    if (status != PMIX_SUCCESS)
        return status;
    PMIX_PROC_CONSTRUCT(&task->proc);
    PMIX_INFO_CONSTRUCT(&collect);
    PMIX_INFO_LOAD(&collect, PMIX_COLLECT_DATA, &yes, PMIX_BOOL);
    status = PMIx_Fence(NULL, 0, &collect, 1);
    PMIX_INFO_DESTRUCT(&collect);
    return status;
}

/* PMIx keeps `value`. */
static void on_value(pmix_status_t status, pmix_value_t *value, void *arg)
{
    struct task *task = arg;
    if (status == PMIX_SUCCESS) {
        PMIX_VALUE_CREATE(task->value, 1);
        if (task->value)
            PMIX_VALUE_XFER(status, task->value, value);
        else
            status = PMIX_ERR_NOMEM;
    }
    task_finish(task, status);
}

/* A finished get of `key` of `rank`, to be dropped by the caller; NULL and err
 * if there is no answer.
 */
static struct task *fetch(struct pmix *p, pmix_rank_t rank, const char *key,
                          struct dt_error *err)
{
    struct timespec deadline = dt_clock_in(CLOCK_MONOTONIC, CALL_MS);
    struct task *task = task_create(NULL);
    pmix_status_t status;
    if (!task) {
        dt_error_set(err, EX_OSERR, "launch/pmix: no memory");
        return NULL;
    }
    task->proc = p->self;
    task->proc.rank = rank;
    snprintf(task->key, sizeof(task->key), "%s", key);
    status = PMIx_Get_nb(&task->proc, task->key, NULL, 0, on_value, task);
    if (status != PMIX_SUCCESS)
        task_finish(task, status);
    status = task_wait(task, &deadline);
    if (status == PMIX_SUCCESS)
        return task;
    task_drop(task);
    if (rank == PMIX_RANK_WILDCARD)
        dt_error_set(err, EX_UNAVAILABLE,
                     "launch/pmix: PMIx_Get(%s) of the job: %s", key,
                     PMIx_Error_string(status));
    else
        dt_error_set(err, EX_UNAVAILABLE,
                     "launch/pmix: PMIx_Get(%s) of rank %u: %s", key, rank,
                     PMIx_Error_string(status));
    return NULL;
}

static int fetch_number(struct pmix *p, pmix_rank_t rank, const char *key,
                        int *number, struct dt_error *err)
{
    struct task *task = fetch(p, rank, key, err);
    pmix_status_t status;
    if (!task)
        return -1;
    PMIX_VALUE_GET_NUMBER(status, task->value, *number, int);
    task_drop(task);
    if (status != PMIX_SUCCESS)
        return dt_error_set(err, EX_UNAVAILABLE,
                            "launch/pmix: the server's %s is not a number",
                            key);
    return 0;
}

static int pmix_put(struct dt_launch *launch, const char *key, const void *data,
                    size_t bytes, struct dt_error *err)
{
    pmix_value_t value;
    pmix_status_t status;
    (void)launch;
    PMIX_VALUE_CONSTRUCT(&value);
    value.type = PMIX_BYTE_OBJECT;
    value.data.bo.bytes = (char *)(uintptr_t)data; /* copied by PMIx_Put */
    value.data.bo.size = bytes;
    status = PMIx_Put(PMIX_GLOBAL, key, &value);
    if (status != PMIX_SUCCESS)
        return dt_error_set(err, EX_UNAVAILABLE,
                            "launch/pmix: PMIx_Put(%s, %zu bytes): %s", key,
                            bytes, PMIx_Error_string(status));
    return 0;
}

static int pmix_get(struct dt_launch *launch, int rank, const char *key,
                    void **data, size_t *bytes, struct dt_error *err)
{
    struct pmix *p = (struct pmix *)launch;
    struct task *task = fetch(p, (pmix_rank_t)rank, key, err);
    pmix_byte_object_t *object;
    if (!task)
        return dt_error_prefix(err, "reading from %s", launch->hosts[rank]);
    object = &task->value->data.bo;
    if (task->value->type != PMIX_BYTE_OBJECT ||
        !(*data = malloc(object->size + 1))) {
        task_drop(task);
        return dt_error_set(err, EX_OSERR,
                            "launch/pmix: %s of rank %d is not bytes, or "
                            "there is no memory for it",
                            key, rank);
    }
    memcpy(*data, object->bytes, object->size);
    *bytes = object->size;
    task_drop(task);
    return 0;
}

static void on_roll(pmix_status_t status, pmix_value_t *value, void *arg)
{
    (void)value;
    task_finish(arg, status);
}

/* The key that a rank puts on its way into fence number `fence`. */
static void roll_key(char *key, size_t bytes, unsigned fence)
{
    snprintf(key, bytes, "dt.fence.%u", fence);
}

/* Writes to `text` the ranks that have not come to the present fence. Servers
 * also pass on data that was put before a fence is over; ranks that cannot be
 * asked count as missing.
 */
static void name_missing(struct pmix *p, char *text, size_t bytes)
{
    struct timespec deadline = dt_clock_in(CLOCK_MONOTONIC, ROLL_MS);
    struct task **tasks = calloc((size_t)p->base.size, sizeof(struct task *));
    size_t used = 0;
    text[0] = '\0';
    for (int r = 0; tasks && r < p->base.size; r++) {
        if (r == p->base.rank || !(tasks[r] = task_create(NULL)))
            continue;
        tasks[r]->proc = p->self;
        tasks[r]->proc.rank = (pmix_rank_t)r;
        roll_key(tasks[r]->key, sizeof(tasks[r]->key), p->fences);
        pmix_status_t status = PMIx_Get_nb(&tasks[r]->proc, tasks[r]->key, NULL,
                                           0, on_roll, tasks[r]);
        if (status != PMIX_SUCCESS)
            task_finish(tasks[r], status);
    }
    for (int r = 0; tasks && r < p->base.size; r++) {
        if (!tasks[r])
            continue;
        if (task_wait(tasks[r], &deadline) != PMIX_SUCCESS && used < bytes)
            used +=
                (size_t)snprintf(text + used, bytes - used, "%s rank %d on %s",
                                 used ? "," : "", r, p->base.hosts[r]);
        task_drop(tasks[r]);
    }
    free(tasks);
}

static int pmix_fence(struct dt_launch *launch, int timeout_ms,
                      struct dt_error *err)
{
    struct pmix *p = (struct pmix *)launch;
    char missing[DT_ERROR_TEXT_BYTES / 2], key[32];
    struct task *task = task_create(call_fence);
    pmix_status_t status;
    if (!task)
        return dt_error_set(err, EX_OSERR, "launch/pmix: no memory");
    p->fences++;
    roll_key(key, sizeof(key), p->fences);
    if (pmix_put(launch, key, "", 1, err) < 0) {
        task_drop(task); /* for the thread that there will not be */
        task_drop(task);
        return -1;
    }
    status = task_run(task, timeout_ms);
    task_drop(task);
    if (status == PMIX_SUCCESS)
        return 0;
    if (status != PMIX_ERR_TIMEOUT)
        return dt_error_set(err, EX_UNAVAILABLE,
                            "launch/pmix: PMIx_Fence on rank %d on %s: %s",
                            launch->rank, launch->hosts[launch->rank],
                            PMIx_Error_string(status));
    name_missing(p, missing, sizeof(missing));
    return dt_error_set(err, EX_UNAVAILABLE,
                        "launch/pmix: PMIx_Fence on rank %d on %s: not all "
                        "ranks arrived within %d ms; missing:%s",
                        launch->rank, launch->hosts[launch->rank], timeout_ms,
                        missing[0] ? missing
                                   : " none (all arrived, but the servers "
                                     "did not finish the exchange)");
}

static void pmix_abort(struct dt_launch *launch, int status, const char *reason)
{
    struct task *task = task_create(call_abort);
    (void)launch;
    if (!task)
        return;
    task->code = status;
    snprintf(task->key, sizeof(task->key), "%s", reason);
    task_run(task, LEAVE_MS);
    task_drop(task);
}

static void pmix_destroy(struct dt_launch *launch)
{
    struct task *task = task_create(call_finalize);
    if (task) {
        task_run(task, LEAVE_MS);
        task_drop(task);
    }
    free(launch);
}

static const struct dt_launch_backend pmix_backend = {
    .name = "pmix",
    .put = pmix_put,
    .fence = pmix_fence,
    .get = pmix_get,
    .abort = pmix_abort,
    .destroy = pmix_destroy,
};

/* Host names as the launcher knows them; 1 if it tells no rank. A failure that
 * this rank may be alone with is an error: others would not come to
 * exchange_hosts.
 */
static int ask_hosts(struct pmix *p, struct dt_error *err)
{
    struct task *task = task_create(call_hosts);
    pmix_status_t status = PMIX_ERR_NOMEM;
    if (!task)
        return dt_error_set(err, EX_OSERR, "launch/pmix: no memory");
    task->proc = p->self;
    task->size = (uint32_t)p->base.size;
    if (!(task->hosts = calloc(task->size, sizeof(*task->hosts))))
        task_finish(task, status);
    else
        status = task_run(task, CALL_MS);
    if (status == PMIX_SUCCESS)
        for (uint32_t r = 0; r < task->size; r++) {
            free(p->base.hosts[r]);
            p->base.hosts[r] = task->hosts[r];
            task->hosts[r] = NULL;
        }
    task_drop(task);
    if (status == PMIX_ERR_TIMEOUT)
        return dt_error_set(err, EX_UNAVAILABLE,
                            "launch/pmix: PMIx_Resolve_nodes took over %d ms",
                            CALL_MS);
    if (status == PMIX_ERR_NOMEM)
        return dt_error_set(err, EX_OSERR, "launch/pmix: no memory");
    return status == PMIX_SUCCESS ? 0 : 1;
}

/* Host names as the hosts themselves know them. */
static int exchange_hosts(struct pmix *p, int timeout_ms, struct dt_error *err)
{
    char name[HOST_NAME_MAX + 1] = "";
    gethostname(name, sizeof(name) - 1);
    if (pmix_put(&p->base, "dt.host", name, strlen(name) + 1, err) < 0 ||
        pmix_fence(&p->base, timeout_ms, err) < 0)
        return -1;
    for (int r = 0; r < p->base.size; r++) {
        void *data;
        size_t bytes;
        if (pmix_get(&p->base, r, "dt.host", &data, &bytes, err) < 0)
            return -1;
        ((char *)data)[bytes] = '\0';
        free(p->base.hosts[r]);
        p->base.hosts[r] = data;
    }
    return 0;
}

static int learn_world(struct pmix *p, int timeout_ms, struct dt_error *err)
{
    struct dt_launch *launch = &p->base;
    launch->rank = (int)p->self.rank;
    if (fetch_number(p, PMIX_RANK_WILDCARD, PMIX_JOB_SIZE, &launch->size, err) <
            0 ||
        fetch_number(p, PMIX_RANK_WILDCARD, PMIX_LOCAL_SIZE,
                     &launch->local_size, err) < 0 ||
        fetch_number(p, p->self.rank, PMIX_LOCAL_RANK, &launch->local_rank,
                     err) < 0)
        return -1;
    launch->hosts = calloc((size_t)launch->size, sizeof(*launch->hosts));
    if (!launch->hosts)
        return dt_error_set(err, EX_OSERR, "launch: no memory for %d ranks",
                            launch->size);
    for (int r = 0; r < launch->size; r++)
        if (!(launch->hosts[r] = strdup("an unknown host")))
            return dt_error_set(err, EX_OSERR, "launch/pmix: no memory");
    int asked = ask_hosts(p, err);
    if (asked < 0 || (asked > 0 && exchange_hosts(p, timeout_ms, err) < 0))
        return -1;
    for (int r = 0; r < launch->size; r++)
        if (!launch->hosts[r])
            return dt_error_set(err, EX_OSERR, "launch/pmix: no memory");
    return 0;
}

static int join(struct pmix *p, int timeout_ms, struct dt_error *err)
{
    struct task *task = task_create(call_init);
    pmix_status_t status;
    if (!task)
        return dt_error_set(err, EX_OSERR, "launch/pmix: no memory");
    status = task_run(task, timeout_ms);
    if (status == PMIX_SUCCESS)
        p->self = task->proc;
    task_drop(task);
    if (status == PMIX_SUCCESS)
        return 0;
    if (status == PMIX_ERR_TIMEOUT)
        return dt_error_set(
            err, EX_UNAVAILABLE,
            "launch/pmix: PMIx_Init did not return within %d ms (client: %s; "
            "server: %s): PMIx 5.0.8 and 5.0.9 hang under Slurm before "
            "25.11.2, use 4.2 or 5.0.7 there",
            timeout_ms, PMIx_Get_version(),
            getenv("PMIX_VERSION") ? getenv("PMIX_VERSION") : "unknown");
    return dt_error_set(err, EX_UNAVAILABLE,
                        "launch/pmix: PMIx_Init: %s (client: %s; server: %s)",
                        PMIx_Error_string(status), PMIx_Get_version(),
                        getenv("PMIX_VERSION") ? getenv("PMIX_VERSION")
                                               : "unknown");
}

int dt_launch_pmix(struct dt_launch **launch, int timeout_ms,
                   struct dt_error *err)
{
    struct pmix *p = calloc(1, sizeof(*p));
    if (!p)
        return dt_error_set(err, EX_OSERR, "launch/pmix: no memory");
    p->base.backend = &pmix_backend;
    if (join(p, timeout_ms, err) < 0) {
        free(p);
        return -1;
    }
    *launch = &p->base;
    return learn_world(p, timeout_ms, err);
}

const char *dt_launch_library(void)
{
    return PMIx_Get_version();
}
