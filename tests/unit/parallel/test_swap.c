/* SPDX-License-Identifier: Apache-2.0 */
/* test_swap.c - tiles go to the drive and come back */
#include "config.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/span.h"
#include "tests/unit/drive.h"

static struct dt_swap *must_create(const struct dt_swap_options *options)
{
    struct dt_error err;
    struct dt_swap *swap = dt_swap_create(drive(), options, &err);
    if (!swap)
        fail_msg("%s", err.text);
    return swap;
}

static struct dt_swap *small(void)
{
    const struct dt_swap_options options = small_swap();
    return must_create(&options);
}

static void must_wait(struct dt_swap *swap, dt_swap_ticket_t ticket)
{
    struct dt_error err;
    if (dt_swap_wait(swap, ticket, &err) < 0)
        fail_msg("%s", err.text);
}

static dt_swap_ticket_t move(struct dt_swap *swap, bool write, size_t tile,
                             size_t buffer)
{
    dt_swap_ticket_t ticket = 0;
    struct dt_error err;
    int rc = write ? dt_swap_start_write(swap, tile, buffer, &ticket, &err)
                   : dt_swap_start_read(swap, tile, buffer, &ticket, &err);
    if (rc < 0)
        fail_msg("%s", err.text);
    return ticket;
}

static void tiles_come_back_as_they_were_written(void **state)
{
    struct dt_swap *swap = small();
    (void)state;
    for (unsigned round = 0; round < 2; round++) {
        for (size_t tile = 0; tile < TILES; tile++) {
            void *buffer = dt_swap_buffer(swap, tile % BUFFERS);
            fill(buffer, (unsigned)tile + 100 * round);
            must_wait(swap, move(swap, true, tile, tile % BUFFERS));
        }
        for (size_t tile = TILES; tile-- > 0;) {
            must_wait(swap, move(swap, false, tile, 0));
            assert_true(
                holds(dt_swap_buffer(swap, 0), (unsigned)tile + 100 * round));
        }
    }
    must_wait(swap, 0);
    dt_swap_destroy(swap);
    dt_swap_destroy(NULL);
}

static void a_tile_that_was_never_written_is_zero(void **state)
{
    static const char zeros[TILE];
    struct dt_swap *swap = small();
    (void)state;
    fill(dt_swap_buffer(swap, 1), 1);
    must_wait(swap, move(swap, false, 4, 1));
    assert_memory_equal(dt_swap_buffer(swap, 1), zeros, TILE);
    assert_int_equal(dt_swap_get_stats(swap).bytes_read, 0);
    assert_true(dt_swap_get_stats(swap).read_seconds == 0);
    dt_swap_destroy(swap);
}

/* A few hundred transfers, started without a wait, are as if each had ended
 * before the next began. What moves is the number of a pattern; 0 is zeros.
 */
static void transfers_of_a_tile_or_buffer_keep_their_order(void **state)
{
    unsigned buffers[BUFFERS], tiles[TILES] = {0};
    struct dt_swap_options options = small_swap();
    options.queue_depth = 64; /* all that may overlap does */
    struct dt_swap *swap = must_create(&options);
    dt_swap_ticket_t last = 0;
    uint32_t random = 1;
    (void)state;
    for (unsigned i = 0; i < BUFFERS; i++) {
        buffers[i] = i + 1;
        fill(dt_swap_buffer(swap, i), buffers[i]);
    }
    for (unsigned i = 0; i < TILES; i++) {
        move(swap, true, i, i % BUFFERS);
        tiles[i] = buffers[i % BUFFERS];
    }
    for (int i = 0; i < 400; i++) {
        random = random * 1664525u + 1013904223u;
        size_t tile = (random >> 24) % TILES, buffer = (random >> 16) % BUFFERS;
        bool write = random >> 31;
        last = move(swap, write, tile, buffer);
        if (write)
            tiles[tile] = buffers[buffer];
        else
            buffers[buffer] = tiles[tile];
    }
    for (dt_swap_ticket_t t = last; t > 0; t--)
        must_wait(swap, t);
    for (size_t i = 0; i < BUFFERS; i++)
        assert_true(holds(dt_swap_buffer(swap, i), buffers[i]));
    for (size_t i = 0; i < TILES; i++) {
        must_wait(swap, move(swap, false, i, 0));
        assert_true(holds(dt_swap_buffer(swap, 0), tiles[i]));
    }
    dt_swap_destroy(swap);
}

/* The descriptor of the file of the only swap; -1: there is none. */
static int find_file(void)
{
    char link[64], path[512];
    for (int fd = 0; fd < 256; fd++) {
        snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
        ssize_t n = readlink(link, path, sizeof(path) - 1);
        path[n > 0 ? n : 0] = '\0';
        if (strstr(path, "/disttrain-swap-") && strstr(path, " (deleted)"))
            return fd;
    }
    return -1;
}

static void the_file_is_private_reserved_and_has_no_name(void **state)
{
    struct stat st;
    (void)state;
    assert_int_equal(find_file(), -1);
    struct dt_swap *swap = small();
    int fd = find_file();
    assert_true(fd >= 0);
    assert_int_equal(names_in(drive()), 0);
    assert_int_equal(fstat(fd, &st), 0);
    assert_int_equal(st.st_mode, S_IFREG | 0600);
    assert_int_equal(st.st_nlink, 0);
    assert_true(st.st_size >= (off_t)TILE * TILES);
    assert_true(st.st_blocks * 512 >= (off_t)TILE * TILES);
    assert_true(fcntl(fd, F_GETFL) & O_DIRECT);
    assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    dt_swap_destroy(swap);
    assert_int_equal(find_file(), -1);
}

static void nothing_stays_behind_a_kill(void **state)
{
    int status;
    (void)state;
    drive();
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        struct dt_swap *swap = small();
        move(swap, true, 1, 1);
        kill(getpid(), SIGKILL);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(names_in(drive()), 0);
}

static void buffers_are_aligned_and_zero_at_first(void **state)
{
    static const char zeros[TILE];
    struct dt_swap *swap = small();
    (void)state;
    for (size_t i = 0; i < BUFFERS; i++) {
        assert_int_equal((uintptr_t)dt_swap_buffer(swap, i) % (2 << 20), 0);
        assert_memory_equal(dt_swap_buffer(swap, i), zeros, TILE);
    }
    dt_swap_destroy(swap);
}

static void statistics_count_what_the_drive_moved(void **state)
{
    const size_t page = 4096, moved = (TILE + page - 1) / page * page;
    struct dt_span_totals spent;
    dt_span_totals(&spent);
    const uint64_t spans = spent.count[DT_SPAN_DRIVE];
    struct dt_swap *swap = small();
    (void)state;
    for (size_t tile = 0; tile < 3; tile++)
        must_wait(swap, move(swap, true, tile, tile));
    must_wait(swap, move(swap, false, 2, 0));
    struct dt_swap_stats stats = dt_swap_get_stats(swap);
    assert_int_equal(stats.bytes_written, 3 * moved);
    assert_int_equal(stats.bytes_read, moved);
    assert_true(stats.write_seconds > 0 && stats.read_seconds > 0);
    dt_swap_destroy(swap);
    dt_span_totals(&spent); /* its thread waited for each in a span */
    assert_true(spent.count[DT_SPAN_DRIVE] - spans >= 4);
}

static int open_count(void)
{
    return names_in("/proc/self/fd");
}

/* What has begun ends, the rest is dropped. */
static void a_swap_can_be_destroyed_in_the_middle(void **state)
{
    int before = open_count();
    (void)state;
    for (int round = 0; round < 20; round++) {
        struct dt_swap *swap = small();
        for (size_t i = 0; i < 20; i++)
            move(swap, i % 3 > 0, i % TILES, i % BUFFERS);
        dt_swap_destroy(swap);
    }
    assert_int_equal(open_count(), before);
}

static void a_block_may_be_larger_than_a_tile(void **state)
{
    struct dt_swap_options options = small_swap();
    (void)state;
    options.block_bytes = 1 << 30;
    struct dt_swap *swap = must_create(&options);
    fill(dt_swap_buffer(swap, 0), 7);
    must_wait(swap, move(swap, true, 1, 0));
    must_wait(swap, move(swap, false, 1, 2));
    assert_true(holds(dt_swap_buffer(swap, 2), 7));
    dt_swap_destroy(swap);
}

struct part {
    struct dt_swap *swap;
    size_t i; /* of its tile and buffer */
    bool good;
};

static void *use_part(void *arg)
{
    struct part *part = arg;
    struct dt_error err;
    void *buffer = dt_swap_buffer(part->swap, part->i);
    part->good = true;
    for (unsigned round = 1; round <= 50 && part->good; round++) {
        dt_swap_ticket_t ticket;
        fill(buffer, round);
        dt_swap_start_write(part->swap, part->i, part->i, &ticket, &err);
        part->good = dt_swap_wait(part->swap, ticket, &err) == 0;
        memset(buffer, 0, TILE);
        dt_swap_start_read(part->swap, part->i, part->i, &ticket, &err);
        part->good = part->good &&
                     dt_swap_wait(part->swap, ticket, &err) == 0 &&
                     ((const uint32_t *)buffer)[1] != 0;
    }
    return NULL;
}

static void threads_share_a_swap(void **state)
{
    struct dt_swap *swap = small();
    struct part parts[BUFFERS];
    pthread_t threads[BUFFERS];
    (void)state;
    for (size_t i = 0; i < BUFFERS; i++) {
        parts[i] = (struct part){.swap = swap, .i = i};
        assert_int_equal(pthread_create(&threads[i], NULL, use_part, &parts[i]),
                         0);
    }
    for (size_t i = 0; i < BUFFERS; i++) {
        pthread_join(threads[i], NULL);
        assert_true(parts[i].good);
        assert_true(holds(dt_swap_buffer(swap, i), 50));
    }
    dt_swap_destroy(swap);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tiles_come_back_as_they_were_written),
        cmocka_unit_test(a_tile_that_was_never_written_is_zero),
        cmocka_unit_test(transfers_of_a_tile_or_buffer_keep_their_order),
        cmocka_unit_test(the_file_is_private_reserved_and_has_no_name),
        cmocka_unit_test(nothing_stays_behind_a_kill),
        cmocka_unit_test(buffers_are_aligned_and_zero_at_first),
        cmocka_unit_test(statistics_count_what_the_drive_moved),
        cmocka_unit_test(a_swap_can_be_destroyed_in_the_middle),
        cmocka_unit_test(a_block_may_be_larger_than_a_tile),
        cmocka_unit_test(threads_share_a_swap),
    };
    if (!may_use_uring())
        return 0;
    return cmocka_run_group_tests_name("swap", tests, NULL, NULL);
}
