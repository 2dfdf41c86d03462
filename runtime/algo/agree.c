/* SPDX-License-Identifier: Apache-2.0 */
/* agree.c - checks that all ranks have the same configuration and data */
#include "config.h"

#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include "algo/run.h"

enum { HOST_BYTES = 64 };

#define EXACT UINT64_C(0xffffffffffff) /* bits that a double holds */

/* Fills `name` with "rank 3 on n2"; only that rank knows its host, and all
 * call this.
 */
static int name_rank(struct dt_run *run, int rank, char *name, size_t bytes,
                     struct dt_error *err)
{
    char host[HOST_BYTES] = "";
    double codes[HOST_BYTES];
    if (run->rank == rank)
        gethostname(host, sizeof(host) - 1);
    for (size_t i = 0; i < sizeof(host); i++)
        codes[i] = (unsigned char)host[i];
    if (dt_comm_reduce_scalars(run->comm, codes, HOST_BYTES, DT_MAX, err) < 0)
        return -1;
    for (size_t i = 0; i < sizeof(host); i++)
        host[i] = (char)codes[i];
    snprintf(name, bytes, "rank %d on %s", rank, host);
    return 0;
}

/* Of a model that is a checkpoint, which may be the newest one of another run,
 * its number.
 */
static uint64_t model_id(const char *dir)
{
    return dir ? (uint64_t)(dt_ckpt_step(dir) + 1) : 0;
}

static uint64_t rewards_id(const struct dt_conf_rewards *rewards)
{
    uint64_t id = 0;
    for (size_t i = 0; i < rewards->count; i++)
        id = id * 1000003 + model_id(rewards->functions[i].path);
    return id;
}

int dt_run_agree(struct dt_run *run, struct dt_error *err)
{
    static const char *const what[] = {
        "configuration", "data.train",           "data.eval",
        "model.path",    "model.value_path",     "model.reference_path",
        "adapter.path",  "models of its rewards"};
    enum { COUNT = sizeof(what) / sizeof(what[0]) };
    const struct dt_conf *conf = &run->conf;
    const uint64_t ids[COUNT] = {conf->fingerprint,
                                 run->data.hash,
                                 run->data.eval_hash,
                                 model_id(conf->model.path),
                                 model_id(conf->model.value_path),
                                 model_id(conf->model.reference_path),
                                 model_id(conf->adapter.path),
                                 rewards_id(&conf->reward)};
    double first[COUNT], other[COUNT];
    char names[2][HOST_BYTES + 32];
    int i;
    for (i = 0; i < COUNT; i++)
        first[i] = run->rank == 0 ? (double)(ids[i] & EXACT) : 0;
    if (dt_comm_reduce_scalars(run->comm, first, COUNT, DT_MAX, err) < 0)
        return -1;
    for (i = 0; i < COUNT; i++) /* the lowest rank wins */
        other[i] =
            (double)(ids[i] & EXACT) != first[i] ? run->world - run->rank : 0;
    if (dt_comm_reduce_scalars(run->comm, other, COUNT, DT_MAX, err) < 0)
        return -1;
    for (i = 0; i < COUNT && other[i] == 0;)
        i++;
    if (i == COUNT)
        return 0;
    if (name_rank(run, run->world - (int)other[i], names[0], sizeof(names[0]),
                  err) < 0 ||
        name_rank(run, 0, names[1], sizeof(names[1]), err) < 0)
        return -1;
    return dt_error_set(err, EX_CONFIG,
                        "%s: %s does not see the same %s as %s: are all files "
                        "on a shared file system?",
                        run->conf.file, names[0], what[i], names[1]);
}
