/* SPDX-License-Identifier: Apache-2.0 */
/* exchange.c - what ranks tell each other, and whether they read the same */
#include "config.h"

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "base/secret.h"
#include "ckpt/ckpt.h"
#include "run/exchange.h"

/* --- the world --- */

static const char *launch_host(void *ctx, int rank)
{
    return dt_launch_host(ctx, rank);
}

static int launch_put(void *ctx, const char *key, const void *data,
                      size_t bytes, struct dt_error *err)
{
    return dt_launch_put(ctx, key, data, bytes, err);
}

static int launch_fence(void *ctx, int timeout_ms, struct dt_error *err)
{
    return dt_launch_fence(ctx, timeout_ms, err);
}

static int launch_get(void *ctx, int rank, const char *key, void **data,
                      size_t *bytes, struct dt_error *err)
{
    return dt_launch_get(ctx, rank, key, data, bytes, err);
}

struct dt_comm_world dt_world_of(struct dt_launch *launch)
{
    return (struct dt_comm_world){
        .rank = dt_launch_rank(launch),
        .size = dt_launch_size(launch),
        .host = launch_host,
        .put = launch_put,
        .fence = launch_fence,
        .get = launch_get,
        .ctx = launch,
    };
}

/* --- numbers and texts of ranks --- */

enum { PACKED = 6 }; /* bytes in a double, whose whole numbers have 53 bits */

int dt_gather(struct dt_comm *comm, const double *mine, size_t count,
              double *all, struct dt_error *err)
{
    const size_t world = (size_t)dt_comm_size(comm);
    memset(all, 0, world * count * sizeof(*all));
    memcpy(all + (size_t)dt_comm_rank(comm) * count, mine,
           count * sizeof(*all));
    return world > 1
               ? dt_comm_reduce_scalars(comm, all, world * count, DT_SUM, err)
               : 0;
}

static void pack(const void *data, size_t bytes, double *to)
{
    const unsigned char *from = data;
    for (size_t i = 0; i < bytes; i += PACKED) {
        uint64_t bits = 0;
        for (size_t b = 0; b < PACKED && i + b < bytes; b++)
            bits |= (uint64_t)from[i + b] << 8 * b;
        to[i / PACKED] = (double)bits;
    }
}

static void unpack(const double *from, size_t numbers, char *text)
{
    for (size_t i = 0; i < numbers * PACKED; i++)
        text[i] = (char)((uint64_t)from[i / PACKED] >> 8 * (i % PACKED));
    text[numbers * PACKED] = '\0';
}

int dt_gather_texts(struct dt_comm *comm, const char *mine, size_t bytes,
                    char *texts, struct dt_error *err)
{
    const size_t world = (size_t)dt_comm_size(comm), n = bytes / PACKED;
    double *all = calloc((world + 1) * n, sizeof(*all));
    if (!all)
        return dt_error_set(err, EX_OSERR, "out of memory");
    pack(mine, strnlen(mine, bytes), all + world * n);
    int rc = dt_gather(comm, all + world * n, n, all, err);
    for (size_t r = 0; rc == 0 && r < world; r++)
        unpack(all + r * n, n, texts + r * (bytes + 1));
    free(all);
    return rc;
}

int dt_gather_bytes_of(struct dt_comm *comm, int root, void *data, size_t bytes,
                       struct dt_error *err)
{
    const size_t n = (bytes + PACKED - 1) / PACKED;
    double *numbers = calloc(n, sizeof(*numbers));
    char *whole = malloc(n * PACKED + 1);
    int rc = 0;
    if (!numbers || !whole)
        rc = dt_error_set(err, EX_OSERR, "out of memory");
    if (rc == 0 && dt_comm_rank(comm) == root)
        pack(data, bytes, numbers);
    if (rc == 0 && dt_comm_size(comm) > 1)
        rc = dt_comm_reduce_scalars(comm, numbers, n, DT_MAX, err);
    if (rc == 0) {
        unpack(numbers, n, whole);
        memcpy(data, whole, bytes);
    }
    free(whole);
    free(numbers);
    return rc;
}

int dt_gather_text_of(struct dt_comm *comm, int root, char *text, size_t bytes,
                      struct dt_error *err)
{
    const size_t length = strnlen(text, bytes);
    memset(text + length, 0, bytes - length);
    int rc = dt_gather_bytes_of(comm, root, text, bytes, err);
    text[bytes - 1] = '\0';
    return rc;
}

/* --- whether they agree --- */

#define EXACT UINT64_C(0xffffffffffff) /* bits that a double holds */

/* Compares the `count` ids of each rank with those of rank 0. Sets *which to
 * the first id that differs, or `count`, and *rank to the first rank where it
 * does.
 */
static int compare(struct dt_comm *comm, const uint64_t *ids, int count,
                   int *which, int *rank, struct dt_error *err)
{
    enum { MOST = 8 };
    const int mine = dt_comm_rank(comm), world = dt_comm_size(comm);
    double first[MOST], other[MOST];
    assert(count <= MOST);
    for (int i = 0; i < count; i++)
        first[i] = mine == 0 ? (double)(ids[i] & EXACT) : 0;
    if (dt_comm_reduce_scalars(comm, first, (size_t)count, DT_MAX, err) < 0)
        return -1;
    for (int i = 0; i < count; i++) /* the lowest rank wins */
        other[i] = (double)(ids[i] & EXACT) != first[i] ? world - mine : 0;
    if (dt_comm_reduce_scalars(comm, other, (size_t)count, DT_MAX, err) < 0)
        return -1;
    for (*which = 0; *which < count && other[*which] == 0;)
        ++*which;
    *rank = *which < count ? world - (int)other[*which] : 0;
    return 0;
}

/* Fails with an error that all ranks have found together. Rank 0 tells the
 * user; the others wait until it has, and fail with its words, so that the user
 * reads it once.
 */
static int fail_together(struct dt_comm *comm, struct dt_error *err)
{
    struct dt_error told;
    if (dt_comm_rank(comm) > 0 && dt_comm_barrier(comm, &told) < 0)
        *err = told;
    return -1;
}

/* --- the file --- */

enum {
    SHOWN_BYTES = 120, /* of a value */
    LINE_BYTES = 512,
    SUM_BYTES = 17, /* of a line: its sum and a space come first */
};

/* Prints a line `key: value` after a checksum of the whole line. Secrets in the
 * value, and its end if it is long, are left out.
 */
static int print_line(const char *line, size_t bytes, FILE *out)
{
    const char *colon = strstr(line, ": ");
    char *key = strndup(line, (size_t)(colon - line));
    char *value = strndup(colon + 2, bytes - (size_t)(colon + 2 - line));
    char *clean = value ? dt_secret_remove_seen(value) : NULL;
    bool good = key && clean;
    if (good)
        fprintf(out, "%016" PRIx64 " %s: %.*s%s\n",
                (uint64_t)XXH3_64bits(line, bytes), key, SHOWN_BYTES,
                dt_secret_name(key) ? DT_SECRET_REMOVED : clean,
                strlen(clean) > SHOWN_BYTES ? "..." : "");
    free(clean);
    free(value);
    free(key);
    return good ? 0 : -1;
}

/* Lines of all keys, to be freed by the caller. NULL and err: EX_OSERR. */
static char *lines_of(const struct dt_conf *conf, struct dt_error *err)
{
    char *given = NULL, *lines = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&given, &bytes);
    bool good = out;
    if (out) {
        dt_conf_print_given(conf, out);
        good = fclose(out) == 0;
    }
    if (good && (out = open_memstream(&lines, &bytes))) {
        for (const char *p = given, *end; (end = strchr(p, '\n')) && good;
             p = end + 1)
            good = print_line(p, (size_t)(end - p), out) == 0;
        good = fclose(out) == 0 && good;
    }
    free(given);
    if (good && lines)
        return lines;
    free(lines);
    dt_error_set(err, EX_OSERR, "out of memory");
    return NULL;
}

/* Copies the first line of `mine` that differs from `first`, and its
 * counterpart there, without their checksums.
 */
static void find_difference(const char *mine, const char *first,
                            char lines[2][LINE_BYTES])
{
    while (*mine && *first) {
        const size_t a = strcspn(mine, "\n"), b = strcspn(first, "\n");
        if (a != b || memcmp(mine, first, a) != 0) {
            snprintf(lines[0], LINE_BYTES, "%.*s", (int)(a - SUM_BYTES),
                     mine + SUM_BYTES);
            snprintf(lines[1], LINE_BYTES, "%.*s", (int)(b - SUM_BYTES),
                     first + SUM_BYTES);
            return;
        }
        mine += a + 1;
        first += b + 1;
    }
}

/* Shares the line that `rank` has read in place of rank 0's. */
static int share_difference(struct dt_comm *comm, const char *mine, int rank,
                            char lines[2][LINE_BYTES], struct dt_error *err)
{
    const bool is_first = dt_comm_rank(comm) == 0;
    double bytes = is_first ? (double)strlen(mine) + 1 : 0;
    if (dt_comm_reduce_scalars(comm, &bytes, 1, DT_MAX, err) < 0)
        return -1;
    char *first = calloc((size_t)bytes, 1);
    if (!first)
        return dt_error_set(err, EX_OSERR, "out of memory");
    if (is_first)
        snprintf(first, (size_t)bytes, "%s", mine);
    int rc = dt_gather_text_of(comm, 0, first, (size_t)bytes, err);
    if (rc == 0 && dt_comm_rank(comm) == rank)
        find_difference(mine, first, lines);
    free(first);
    for (int i = 0; i < 2 && rc == 0; i++)
        rc = dt_gather_text_of(comm, rank, lines[i], LINE_BYTES, err);
    return rc;
}

int dt_agree_conf(struct dt_comm *comm, const struct dt_conf *conf,
                  struct dt_error *err)
{
    char lines[2][LINE_BYTES] = {"", ""};
    int which, rank;
    char *mine = dt_comm_size(comm) > 1 ? lines_of(conf, err) : NULL;
    if (!mine)
        return dt_comm_size(comm) > 1 ? -1 : 0;
    const uint64_t sum = XXH3_64bits(mine, strlen(mine));
    int rc = compare(comm, &sum, 1, &which, &rank, err);
    if (rc == 0 && which == 0)
        rc = share_difference(comm, mine, rank, lines, err);
    free(mine);
    if (rc < 0 || which > 0)
        return rc;
    dt_error_set(err, EX_CONFIG,
                 "%s: rank %d on %s has read \"%s\", and rank 0 on %s \"%s\": "
                 "two versions of the file; start the run again when all nodes "
                 "see the same one",
                 conf->file, rank, dt_comm_host(comm, rank), lines[0],
                 dt_comm_host(comm, 0), lines[1]);
    return fail_together(comm, err);
}

/* --- the data --- */

/* The number of the checkpoint that a model is. It may be the newest one of
 * another run, so ranks may see different ones.
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

int dt_agree_data(struct dt_comm *comm, const struct dt_conf *conf,
                  const struct dt_run_data *data, struct dt_error *err)
{
    static const char *const what[] = {
        "configuration", "data.train",           "data.eval",
        "model.path",    "model.value_path",     "model.reference_path",
        "adapter.path",  "models of its rewards"};
    enum { COUNT = sizeof(what) / sizeof(what[0]) };
    const uint64_t ids[COUNT] = {conf->fingerprint,
                                 data->hash,
                                 data->eval_hash,
                                 model_id(conf->model.path),
                                 model_id(conf->model.value_path),
                                 model_id(conf->model.reference_path),
                                 model_id(conf->adapter.path),
                                 rewards_id(&conf->reward)};
    int which, rank;
    if (compare(comm, ids, COUNT, &which, &rank, err) < 0)
        return -1;
    if (which == COUNT)
        return 0;
    dt_error_set(err, EX_CONFIG,
                 "%s: rank %d on %s does not see the same %s as rank 0 on %s: "
                 "are all files on a shared file system?",
                 conf->file, rank, dt_comm_host(comm, rank), what[which],
                 dt_comm_host(comm, 0));
    return fail_together(comm, err);
}

/* --- the directory of checkpoints --- */

/* Writes the hosts of the ranks that are `blind`, each once and at most four:
 * "n2, n3 and 5 more".
 */
static void list_hosts(const struct dt_comm *comm, const double *blind,
                       char *list, size_t bytes)
{
    enum { MOST = 4 };
    const char *hosts[MOST];
    size_t count = 0, used = 0;
    int more = 0;
    for (int r = 0; r < dt_comm_size(comm); r++) {
        const char *host = dt_comm_host(comm, r);
        bool known = blind[r] == 0;
        for (size_t i = 0; i < count && !known; i++)
            known = strcmp(hosts[i], host) == 0;
        if (!known && count < MOST)
            hosts[count++] = host;
        else if (!known)
            more++;
    }
    for (size_t i = 0; i < count && used < bytes; i++)
        used += (size_t)snprintf(list + used, bytes - used, "%s%s",
                                 i ? ", " : "", hosts[i]);
    if (more > 0 && used < bytes)
        snprintf(list + used, bytes - used, " and others (%d ranks)", more);
}

int dt_agree_directory(struct dt_comm *comm, const char *dir, int wait_ms,
                       struct dt_error *err)
{
    const size_t world = (size_t)dt_comm_size(comm);
    char name[DT_CKPT_MARK_BYTES] = "", hosts[256] = "";
    bool first = dt_comm_rank(comm) == 0;
    double *blind = calloc(world, sizeof(*blind)), any = 0;
    int rc = blind ? 0 : dt_error_set(err, EX_OSERR, "out of memory");
    if (rc == 0 && first)
        rc = dt_ckpt_mark(dir, name, err);
    if (rc == 0)
        rc = dt_gather_text_of(comm, 0, name, sizeof(name), err);
    if (rc == 0) {
        const double mine = !first && !dt_ckpt_sees_mark(dir, name, wait_ms);
        rc = dt_gather(comm, &mine, 1, blind, err);
    }
    if (first && *name)
        dt_ckpt_unmark(dir, name);
    for (size_t r = 0; rc == 0 && r < world; r++)
        any += blind[r];
    if (rc == 0 && any > 0) {
        list_hosts(comm, blind, hosts, sizeof(hosts));
        dt_error_set(
            err, EX_CANTCREAT,
            "%s: what rank 0 on %s makes there is not seen on %s: each "
            "has a directory of its own. All ranks write checkpoints, "
            "so run.output_dir has to be on a file system that all "
            "nodes share",
            dir, dt_comm_host(comm, 0), hosts);
        rc = fail_together(comm, err);
    }
    free(blind);
    return rc;
}
