/* SPDX-License-Identifier: Apache-2.0 */
/* test_doctor_pairs.c - what a node finds out about the others */
#include "config.h"

#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "doctor/doctor_impl.h"
#include "tests/unit/turned_clock.h"

static char text[1024];

static void expect_part(const char *want)
{
    if (!strstr(text, want))
        fail_msg("no\n%s\nin\n%s", want, text);
}

/* A node in a process of its own that answers until it is killed. */
static pid_t start_peer(int node, unsigned *port)
{
    struct dt_doctor_pairs *peer = dt_doctor_pairs_create(node, NULL);
    int quiet[2];
    assert_non_null(peer);
    assert_int_equal(pipe(quiet), 0);
    *port = dt_doctor_pairs_port(peer);
    pid_t pid = fork();
    if (pid == 0) {
        dt_doctor_pairs_serve(peer, quiet[0]);
        _exit(0);
    }
    dt_doctor_pairs_destroy(peer);
    close(quiet[0]);
    close(quiet[1]);
    return pid;
}

static void a_probe_names_the_peers_it_cannot_reach(void **state)
{
    struct dt_error err;
    unsigned port[2];
    pid_t pid[2] = {start_peer(0, &port[0]), start_peer(1, &port[1])};
    struct dt_doctor_notes notes = {fmemopen(text, sizeof(text), "w"), 2};
    struct dt_doctor_pairs *pairs = dt_doctor_pairs_create(2, &err);
    double ahead_s;
    double error_s;
    (void)state;
    assert_non_null(pairs);
    assert_int_equal(dt_doctor_pairs_add(pairs, 0, "127.0.0.1", port[0], &err),
                     0);
    assert_int_equal(/* node 1 listens there */
                     dt_doctor_pairs_add(pairs, 3, "127.0.0.1", port[1], &err),
                     0);
    assert_int_equal(dt_doctor_pairs_add(pairs, 4, "127.0.0.1", 1, &err), 0);
    assert_int_equal(dt_doctor_pairs_add(pairs, 2, "127.0.0.1", 1, &err), 0);
    assert_int_equal(dt_doctor_pairs_add(pairs, 5, "n5", 1, &err), -1);
    assert_string_equal(err.text, "node 5 is at \"n5\", which is no "
                                  "address");
    dt_doctor_pairs_probe(pairs, 2000, &notes);
    dt_doctor_pairs_destroy(pairs);
    fclose(notes.file);
    expect_part("2 miss 3 another program answers at 127.0.0.1\n");
    expect_part("2 miss 4 127.0.0.1 refuses the connection\n");
    expect_part("2 cell interface lo\n2 cell peers 1/3\n");
    assert_int_equal(
        sscanf(strstr(text, "2 clock"), "2 clock %lf %lf", &ahead_s, &error_s),
        2);
    assert_true(ahead_s < 0.1 && ahead_s > -0.1 && error_s < 0.5);
    for (int i = 0; i < 2; i++) {
        kill(pid[i], SIGKILL);
        waitpid(pid[i], NULL, 0);
    }
}

static void an_unreachable_first_or_last_node_is_noticed(void **state)
{
    unsigned port[3];
    char miss[64];
    (void)state;
    for (int lost = 0; lost < 3; lost += 2) {
        pid_t pid[3];
        struct dt_doctor_notes notes = {fmemopen(text, sizeof(text), "w"), 3};
        struct dt_doctor_pairs *pairs = dt_doctor_pairs_create(3, NULL);
        for (int i = 0; i < 3; i++) {
            pid[i] = start_peer(i, &port[i]);
            dt_doctor_pairs_add(pairs, i, "127.0.0.1", i == lost ? 1 : port[i],
                                NULL);
        }
        dt_doctor_pairs_probe(pairs, 5000, &notes);
        dt_doctor_pairs_destroy(pairs);
        fclose(notes.file);
        snprintf(miss, sizeof(miss), "3 miss %d 127.0.0.1 refuses", lost);
        expect_part(miss);
        expect_part("3 cell peers 2/3\n");
        for (int i = 0; i < 3; i++) {
            kill(pid[i], SIGKILL);
            waitpid(pid[i], NULL, 0);
        }
    }
}

/* A peer that answers its first question late: its clock is that of the
 * fastest exchange.
 */
static void the_fastest_exchange_tells_the_clock(void **state)
{
    unsigned port;
    pid_t pid = start_peer(0, &port), waker;
    struct dt_doctor_notes notes = {fmemopen(text, sizeof(text), "w"), 1};
    struct dt_doctor_pairs *pairs = dt_doctor_pairs_create(1, NULL);
    double ahead_s, error_s;
    (void)state;
    dt_doctor_pairs_add(pairs, 0, "127.0.0.1", port, NULL);
    kill(pid, SIGSTOP);
    waker = fork();
    if (waker == 0) {
        dt_clock_sleep(2);
        kill(pid, SIGCONT);
        _exit(0);
    }
    dt_doctor_pairs_probe(pairs, 20000, &notes);
    dt_doctor_pairs_destroy(pairs);
    fclose(notes.file);
    waitpid(waker, NULL, 0);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    assert_int_equal(
        sscanf(strstr(text, "1 clock"), "1 clock %lf %lf", &ahead_s, &error_s),
        2);
    assert_true(error_s < 0.5); /* that of the late answer is 1 */
}

/* The peer's clock is an hour behind: what is told is off by half of a round
 * trip at most, and by what six decimals cut off.
 */
static void a_wrong_clock_is_told_with_its_error(void **state)
{
    unsigned port;
    struct dt_doctor_notes notes = {fmemopen(text, sizeof(text), "w"), 1};
    struct dt_doctor_pairs *pairs = dt_doctor_pairs_create(1, NULL);
    double ahead_s, error_s;
    (void)state;
    turned_s = -3600;
    pid_t pid = start_peer(0, &port);
    turned_s = 0;
    dt_doctor_pairs_add(pairs, 0, "127.0.0.1", port, NULL);
    dt_doctor_pairs_probe(pairs, 20000, &notes);
    dt_doctor_pairs_destroy(pairs);
    fclose(notes.file);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    assert_int_equal(
        sscanf(strstr(text, "1 clock"), "1 clock %lf %lf", &ahead_s, &error_s),
        2);
    assert_true(fabs(ahead_s - 3600) <= error_s + 2e-6);
}

/* Somebody listens there and never says anything. */
static void a_silent_peer_is_given_up_in_time(void **state)
{
    struct dt_error err;
    struct dt_doctor_notes notes = {fmemopen(text, sizeof(text), "w"), 1};
    struct dt_doctor_pairs *silent = dt_doctor_pairs_create(0, &err);
    struct dt_doctor_pairs *pairs = dt_doctor_pairs_create(1, &err);
    double start = dt_clock_now();
    (void)state;
    dt_doctor_pairs_add(pairs, 0, "127.0.0.1", dt_doctor_pairs_port(silent),
                        &err);
    dt_doctor_pairs_probe(pairs, 200, &notes);
    assert_true(dt_clock_now() - start < 20);
    fclose(notes.file);
    assert_string_equal(text, "1 miss 0 no answer from 127.0.0.1: is there a "
                              "firewall?\n"
                              "1 cell interface -\n1 cell peers 0/1\n");
    dt_doctor_pairs_destroy(pairs);
    dt_doctor_pairs_destroy(silent);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_probe_names_the_peers_it_cannot_reach),
        cmocka_unit_test(an_unreachable_first_or_last_node_is_noticed),
        cmocka_unit_test(the_fastest_exchange_tells_the_clock),
        cmocka_unit_test(a_wrong_clock_is_told_with_its_error),
        cmocka_unit_test(a_silent_peer_is_given_up_in_time),
    };
    return cmocka_run_group_tests_name("doctor pairs", tests, NULL, NULL);
}
