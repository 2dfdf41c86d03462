/* SPDX-License-Identifier: Apache-2.0 */
/* test_swap_faults.c - every failure of a drive is seen, and is final */
#include "config.h"

#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>

#include "tests/unit/drive.h"

/* What a process with a fault has found. */
struct outcome {
    int rc;              /* of the first call that failed */
    struct dt_error err; /* and its error */
    bool again;          /* later calls return the same */
    bool good;           /* without a failure: the data came back */
    struct dt_swap_stats stats;
    bool closed; /* by dt_swap_destroy */
};

static struct outcome *outcome; /* shared with the process */

/* Only a drive that never answers is waited for so long. */
static int timeout_ms = 60000;

/* Whether the drive does nothing before somebody waits for a read. */
static bool is_slow;
static atomic_bool is_held; /* no wait has begun yet */

/* Replaces that of libc, which both threads of a swap ask: one when a wait
 * begins, the other before it starts a request.
 */
int clock_gettime(clockid_t clock, struct timespec *now)
{
    if (getpid() == syscall(SYS_gettid))
        is_held = false;
    while (is_held)
        usleep(1000);
    return (int)syscall(SYS_clock_gettime, clock, now);
}

/* Notes the first failure; false if there is one. */
static bool went(int rc, const struct dt_error *err)
{
    if (rc == 0)
        return true;
    outcome->rc = rc;
    outcome->err = *err;
    return false;
}

static bool move(struct dt_swap *swap, bool write, size_t tile, size_t buffer)
{
    dt_swap_ticket_t ticket = 0;
    struct dt_error err;
    is_held = is_slow && !write;
    int rc = write ? dt_swap_start_write(swap, tile, buffer, &ticket, &err)
                   : dt_swap_start_read(swap, tile, buffer, &ticket, &err);
    return went(rc, &err) && went(dt_swap_wait(swap, ticket, &err), &err);
}

static bool is_same_failure(int rc, const struct dt_error *err)
{
    return rc == -1 && err->status == outcome->err.status &&
           !strcmp(err->text, outcome->err.text);
}

static bool fails_for_ever(struct dt_swap *swap)
{
    dt_swap_ticket_t ticket = 0;
    struct dt_error err;
    return is_same_failure(dt_swap_wait(swap, 1, &err), &err) &&
           is_same_failure(dt_swap_wait(swap, 0, &err), &err) &&
           is_same_failure(dt_swap_start_read(swap, 4, 2, &ticket, &err),
                           &err) &&
           is_same_failure(dt_swap_start_write(swap, 4, 2, &ticket, &err),
                           &err) &&
           ticket == 0;
}

/* Writes two tiles and reads them into other buffers. */
static void use_swap(void)
{
    struct dt_swap_options options = small_swap();
    struct dt_error err;
    options.timeout_ms = timeout_ms;
    int before = names_in("/proc/self/fd");
    struct dt_swap *swap = dt_swap_create(drive(), &options, &err);
    if (!swap)
        abort();
    fill(dt_swap_buffer(swap, 0), 10);
    fill(dt_swap_buffer(swap, 1), 11);
    bool done = move(swap, true, 0, 0) && move(swap, true, 1, 1) &&
                move(swap, false, 1, 2) && move(swap, false, 0, 1);
    outcome->good = done && holds(dt_swap_buffer(swap, 2), 11) &&
                    holds(dt_swap_buffer(swap, 1), 10);
    outcome->again = !done && fails_for_ever(swap);
    outcome->stats = dt_swap_get_stats(swap);
    dt_swap_destroy(swap);
    outcome->closed = names_in("/proc/self/fd") == before;
}

static void run_with(const char *fault)
{
    int status;
    drive();
    memset(outcome, 0, sizeof(*outcome));
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        setenv("DISTTRAIN_FAULT", fault, 1);
        alarm(120); /* ends a wait that has no end */
        use_swap();
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void expect_error(const char *text)
{
    assert_int_equal(outcome->rc, -1);
    assert_int_equal(outcome->err.status, EX_IOERR);
    if (!strstr(outcome->err.text, text) ||
        !strstr(outcome->err.text, "/disttrain-swap-"))
        fail_msg("expected \"%s\", got \"%s\"", text, outcome->err.text);
    assert_true(outcome->again);
}

static void expect_failure(const char *text)
{
    expect_error(text);
    assert_true(outcome->closed);
}

/* Fails the n-th request of `point` for every n; the number of requests. */
static int fail_every_request(const char *point, const char *text)
{
    char fault[64];
    for (int n = 1;; n++) {
        snprintf(fault, sizeof(fault), "%s:nth=%d:error", point, n);
        run_with(fault);
        if (outcome->rc == 0)
            return n - 1;
        expect_failure(text);
    }
}

enum { REQUESTS = 8 }; /* two tiles of four blocks */

static void a_write_that_fails_is_an_error_whichever_it_is(void **state)
{
    (void)state;
    assert_int_equal(fail_every_request("swap.write", "cannot write"),
                     REQUESTS);
    assert_true(outcome->good);
    run_with("swap.write:nth=1:error");
    expect_failure("cannot write 65536 bytes at offset ");
    expect_failure(" (tile 0): Input/output error");
    run_with("swap.write:nth=5:error");
    expect_failure(" (tile 1): Input/output error");
}

static void a_read_that_fails_is_an_error_whichever_it_is(void **state)
{
    (void)state;
    assert_int_equal(fail_every_request("swap.read", "cannot read"), REQUESTS);
    run_with("swap.read:nth=5:error");
    expect_failure(" (tile 0): Input/output error");
}

static void a_full_drive_is_named(void **state)
{
    (void)state;
    run_with("swap.space:nth=3:error");
    expect_failure(" (tile 0): No space left on device");
}

/* Requests 1 to 8 write, 9 to 16 read. One is of a page only, or is said to
 * have left out a byte, so that a whole page has to be moved again.
 */
static void the_rest_of_a_short_transfer_follows(void **state)
{
    char fault[64];
    (void)state;
    run_with("none:error");
    struct dt_swap_stats all = outcome->stats;
    for (int i = 0; i < 4 * REQUESTS; i++) {
        snprintf(fault, sizeof(fault), "swap.%s:nth=%d:error",
                 i % 2 ? "odd" : "short", i / 2 + 1);
        run_with(fault);
        if (outcome->rc != 0)
            fail_msg("%s: %s", fault, outcome->err.text);
        assert_true(outcome->good && outcome->closed);
        assert_int_equal(outcome->stats.bytes_read, all.bytes_read);
        assert_int_equal(outcome->stats.bytes_written, all.bytes_written);
    }
}

static void a_read_of_nothing_is_an_error(void **state)
{
    (void)state;
    run_with("swap.empty_read:nth=2:error");
    expect_failure(": no data was transferred");
}

static void a_flipped_bit_is_found_wherever_it_is(void **state)
{
    (void)state;
    assert_int_equal(fail_every_request("swap.flip", ": damaged: "), REQUESTS);
    run_with("swap.flip:error");
    expect_failure(" (tile 1) have the checksum ");
    expect_failure(" was written: the drive or the memory of this node is "
                   "broken");
}

/* Three blocks of the tile are read after the wait has begun, and then no more.
 */
static void a_drive_that_does_not_answer_ends_every_wait(void **state)
{
    (void)state;
    timeout_ms = 2000; /* writes, which are not lost, have as long */
    is_slow = true;
    run_with("swap.lost:nth=9:error"); /* the first block read: of tile 1 */
    timeout_ms = 60000;
    is_slow = false;
    expect_error("the drive has completed nothing for 2 s: read of tile 1, "
                 "151552 of 217088 bytes done, and 0 more transfers behind");
    assert_false(outcome->closed); /* the drive may still write there */
}

static int setup(void **state)
{
    (void)state;
    outcome = mmap(NULL, sizeof(*outcome), PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return outcome == MAP_FAILED ? -1 : 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_write_that_fails_is_an_error_whichever_it_is),
        cmocka_unit_test(a_read_that_fails_is_an_error_whichever_it_is),
        cmocka_unit_test(a_full_drive_is_named),
        cmocka_unit_test(the_rest_of_a_short_transfer_follows),
        cmocka_unit_test(a_read_of_nothing_is_an_error),
        cmocka_unit_test(a_flipped_bit_is_found_wherever_it_is),
        cmocka_unit_test(a_drive_that_does_not_answer_ends_every_wait),
    };
#ifndef ENABLE_FAULT_INJECTION
    printf("1..0 # SKIP needs --enable-fault-injection\n");
    return 0;
#endif
    if (!may_use_uring())
        return 0;
    return cmocka_run_group_tests_name("swap_faults", tests, setup, NULL);
}
