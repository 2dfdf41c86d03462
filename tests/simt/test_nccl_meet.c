/* SPDX-License-Identifier: Apache-2.0 */
/* test_nccl_meet.c - ids and facts of worlds that are too large to be run */
#include "config.h"

#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "comm/comm_nccl.h"

enum { SIZE = 300 };

/* What one rank sees of SIZE ranks, eight a host: the others have put the same
 * as it has, but for what `change` makes of it.
 */
struct mock {
    struct dt_comm_world world;
    void (*change)(int rank, struct dt_nccl_facts *facts);
    int longer; /* rank that puts a byte too many, if not 0 */
    struct dt_nccl_facts own;
    char puts[256], gets[256]; /* "key ", "key@rank " of ids */
};

static int listened;

int dt_nccl_listen(struct dt_nccl_id *id, struct dt_error *err)
{
    if (getenv("NO_NETWORK"))
        return dt_error_set(err, EX_OSERR, "ncclGetUniqueId: no network");
    memset(id, ++listened, sizeof(*id));
    return 0;
}

static const char *mock_host(void *ctx, int rank)
{
    static char name[16];
    (void)ctx;
    snprintf(name, sizeof(name), "h%d", rank / 8);
    return name;
}

static int mock_put(void *ctx, const char *key, const void *data, size_t bytes,
                    struct dt_error *err)
{
    struct mock *m = ctx;
    size_t used = strlen(m->puts);
    (void)err;
    if (bytes == sizeof(m->own)) {
        memcpy(&m->own, data, bytes);
        return 0;
    }
    snprintf(m->puts + used, sizeof(m->puts) - used, "%s ", key);
    return 0;
}

static int mock_fence(void *ctx, int timeout_ms, struct dt_error *err)
{
    (void)ctx;
    (void)err;
    assert_int_equal(timeout_ms, 1234);
    return 0;
}

static int mock_get(void *ctx, int rank, const char *key, void **data,
                    size_t *bytes, struct dt_error *err)
{
    struct mock *m = ctx;
    struct dt_nccl_facts facts = m->own;
    size_t used = strlen(m->gets);
    (void)err;
    if (strstr(key, ".facts")) {
        snprintf(facts.gpu, sizeof(facts.gpu), "0000:%02x:00.0", rank % 8);
        snprintf(facts.uuid, sizeof(facts.uuid), "%d", rank % 8);
        if (m->change)
            m->change(rank, &facts);
        *bytes = sizeof(facts) + (m->longer && rank == m->longer);
        *data = calloc(1, *bytes);
        memcpy(*data, &facts, sizeof(facts));
        return 0;
    }
    snprintf(m->gets + used, sizeof(m->gets) - used, "%s@%d ", key, rank);
    *bytes = sizeof(struct dt_nccl_id);
    *data = malloc(*bytes);
    memset(*data, rank / 100 + 1, *bytes);
    return 0;
}

/* Lets rank `rank` meet the others. */
static struct dt_nccl_id *meet(struct mock *m, int rank, struct dt_error *err)
{
    struct dt_nccl_facts facts;
    m->world = (struct dt_comm_world){.rank = rank,
                                      .size = SIZE,
                                      .host = mock_host,
                                      .put = mock_put,
                                      .fence = mock_fence,
                                      .get = mock_get,
                                      .ctx = m};
    unsetenv("NCCL_HOSTID");
    dt_nccl_facts_init(&facts);
    facts.version = 22809;
    strcpy(facts.gpu_name, "NVIDIA H200");
    return dt_nccl_meet(&m->world, &facts, dt_nccl_id_count(SIZE, true), 1234,
                        err);
}

/* One rank after the other, as NCCL deals them out to n ids. */
static void ids_are_dealt_out_to_ranks_as_in_nccl(void **state)
{
    (void)state;
    assert_int_equal(dt_nccl_id_count(1, true), 1);
    assert_int_equal(dt_nccl_id_count(128, true), 1);
    assert_int_equal(dt_nccl_id_count(129, true), 2);
    assert_int_equal(dt_nccl_id_count(1024, true), 8);
    assert_int_equal(dt_nccl_id_count(1025, true), 9);
    assert_int_equal(dt_nccl_id_count(1025, false), 1);
    for (int size = 1; size < 1500; size += 7) {
        int ids = dt_nccl_id_count(size, true), rank = 0;
        for (int i = 0; i < ids; i++) {
            int length = size / ids + (i < size % ids);
            assert_int_equal(dt_nccl_root(size, ids, i), rank);
            assert_true(length <= DT_NCCL_RANKS_PER_ID);
            rank += length;
        }
        assert_int_equal(rank, size);
    }
}

/* Has `text` exactly the ids 0.. of one epoch, at these ranks? */
static void assert_keys(const char *text, const char *fmt, ...)
{
    char want[256], *at;
    unsigned epoch = 0;
    int n = 0;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(want, sizeof(want), fmt, ap);
    va_end(ap);
    if (*text)
        assert_int_equal(sscanf(text, "disttrain.nccl.%u.%n", &epoch, &n), 1);
    while ((at = strchr(want, '#'))) { /* stands for the epoch */
        assert_true(epoch < 10);
        *at = (char)('0' + epoch);
    }
    assert_string_equal(text, want);
}

static void each_root_publishes_an_id_that_all_ranks_get(void **state)
{
    struct mock first = {0}, other = {0}, second = {0};
    struct dt_error err;
    struct dt_nccl_id *ids;
    (void)state;
    ids = meet(&first, 0, &err);
    assert_non_null(ids);
    free(ids);
    assert_keys(first.puts, "disttrain.nccl.#.0 ");
    ids = meet(&other, 5, &err);
    assert_non_null(ids);
    assert_string_equal(other.puts, "");
    assert_keys(other.gets, "disttrain.nccl.#.0@0 disttrain.nccl.#.1@100 "
                            "disttrain.nccl.#.2@200 ");
    assert_string_not_equal(other.gets, first.gets); /* another epoch */
    for (int i = 0; i < 3; i++)
        assert_int_equal(ids[i].bytes[DT_NCCL_ID_BYTES - 1], i + 1);
    free(ids);
    ids = meet(&second, 100, &err);
    assert_non_null(ids);
    free(ids);
    assert_keys(second.puts, "disttrain.nccl.#.1 ");
}

static void older_last(int rank, struct dt_nccl_facts *facts)
{
    if (rank == SIZE - 1)
        facts->version = 22304;
}

static void same_gpu_130(int rank, struct dt_nccl_facts *facts)
{
    if (rank == 133) {
        strcpy(facts->gpu, "0000:02:00.0");
        strcpy(facts->uuid, "2");
    }
}

/* Every rank has an eighth of one GPU. */
static void divided_gpus(int rank, struct dt_nccl_facts *facts)
{
    (void)rank;
    strcpy(facts->gpu, "0000:02:00.0");
}

static void failed(struct dt_nccl_facts *facts)
{
    strcpy(facts->failure, "cudaGetDevice: no CUDA-capable device");
}

static void failed_first(int rank, struct dt_nccl_facts *facts)
{
    if (rank == 0)
        failed(facts);
}

static void failed_7(int rank, struct dt_nccl_facts *facts)
{
    if (rank == 7)
        failed(facts);
}

static void failed_last(int rank, struct dt_nccl_facts *facts)
{
    if (rank == SIZE - 1)
        failed(facts);
}

static void shared_gpus(int rank, struct dt_nccl_facts *facts)
{
    same_gpu_130(rank, facts);
    facts->shared = true;
}

/* Only one of the two says that it may be shared. */
static void shared_by_one(int rank, struct dt_nccl_facts *facts)
{
    same_gpu_130(rank, facts);
    facts->shared = rank == 130;
}

static void refused(void (*change)(int rank, struct dt_nccl_facts *facts),
                    int status, int lost_rank, const char *text)
{
    struct mock m = {.change = change};
    struct dt_error err;
    setenv("CUDA_VISIBLE_DEVICES", "2", 1);
    assert_null(meet(&m, 3, &err));
    unsetenv("CUDA_VISIBLE_DEVICES");
    assert_string_equal(err.text, text);
    assert_int_equal(err.status, status);
    assert_int_equal(err.lost_rank, lost_rank);
}

static void ranks_that_do_not_fit_together_are_refused(void **state)
{
    static const char same_gpu[] =
        "ranks 130 and 133 on h16 have the same GPU, 0000:02:00.0 (NVIDIA "
        "H200): each rank needs one of its own. Start no more tasks on a node "
        "than it has GPUs, and let each task see all of them (srun "
        "--gpus-per-node=N) or one of its own (launch.gpu_visibility: one); "
        "CUDA_VISIBLE_DEVICES of rank 133 is \"2\"";
    (void)state;
    refused(older_last, EX_CONFIG, -1,
            "rank 0 on h0 has NCCL 2.28.9, rank 299 on h37 has 2.23.4: all "
            "ranks need the same one; see LD_LIBRARY_PATH and the installed "
            "libnccl2 there");
    refused(same_gpu_130, EX_CONFIG, -1, same_gpu);
    refused(shared_by_one, EX_CONFIG, -1, same_gpu);
    refused(failed_first, EX_UNAVAILABLE, 0,
            "rank 0 on h0: cudaGetDevice: no CUDA-capable device");
    refused(failed_7, EX_UNAVAILABLE, 7,
            "rank 7 on h0: cudaGetDevice: no CUDA-capable device");
    refused(failed_last, EX_UNAVAILABLE, SIZE - 1,
            "rank 299 on h37: cudaGetDevice: no CUDA-capable device");
}

/* Facts of another length are those of another disttrain. */
static void facts_of_another_disttrain_are_refused(void **state)
{
    struct mock m = {.longer = 7};
    struct dt_error err;
    char want[256];
    (void)state;
    assert_null(meet(&m, 3, &err));
    snprintf(want, sizeof(want),
             "facts, not %zu: do all ranks run the same "
             "disttrain?",
             sizeof(struct dt_nccl_facts));
    assert_non_null(strstr(err.text, want));
    snprintf(want, sizeof(want), "rank 7 has put %zu bytes as ",
             sizeof(struct dt_nccl_facts) + 1);
    assert_int_equal(strncmp(err.text, want, strlen(want)), 0);
    assert_int_equal(err.status, EX_SOFTWARE);
}

/* Whether or not the ranks fit together, no memory is left behind. */
static void meeting_leaves_no_memory_behind(void **state)
{
    enum { WARM = 16, TIMES = 24 }; /* the allocator keeps a few at first */
    size_t used = 0;
    (void)state;
    for (int i = 0; i < TIMES; i++) {
        struct mock good = {0}, bad = {.change = failed_7};
        struct dt_error err;
        if (i == WARM)
            used = mallinfo2().uordblks;
        free(meet(&good, 3, &err));
        assert_null(meet(&bad, 3, &err));
    }
    assert_int_equal(mallinfo2().uordblks, used);
}

static void ranks_may_share_a_gpu_that_they_declare_shared(void **state)
{
    struct mock m = {.change = shared_gpus};
    struct dt_error err;
    struct dt_nccl_id *ids = meet(&m, 3, &err);
    (void)state;
    assert_non_null(ids);
    free(ids);
}

static void parts_of_one_gpu_are_gpus(void **state)
{
    struct mock m = {.change = divided_gpus};
    struct dt_error err;
    struct dt_nccl_id *ids = meet(&m, 3, &err);
    (void)state;
    assert_non_null(ids);
    free(ids);
}

/* Who makes an id and cannot comes to the fence all the same. */
static void a_root_without_an_id_still_comes_to_the_fence(void **state)
{
    struct mock m = {0};
    struct dt_error err;
    (void)state;
    setenv("NO_NETWORK", "1", 1);
    assert_null(meet(&m, 200, &err));
    unsetenv("NO_NETWORK");
    assert_string_equal(m.own.failure, "ncclGetUniqueId: no network");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_are_dealt_out_to_ranks_as_in_nccl),
        cmocka_unit_test(each_root_publishes_an_id_that_all_ranks_get),
        cmocka_unit_test(ranks_that_do_not_fit_together_are_refused),
        cmocka_unit_test(ranks_may_share_a_gpu_that_they_declare_shared),
        cmocka_unit_test(parts_of_one_gpu_are_gpus),
        cmocka_unit_test(a_root_without_an_id_still_comes_to_the_fence),
        cmocka_unit_test(facts_of_another_disttrain_are_refused),
        cmocka_unit_test(meeting_leaves_no_memory_behind),
    };
    return cmocka_run_group_tests_name("nccl_meet", tests, NULL, NULL);
}
