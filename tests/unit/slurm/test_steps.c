/* SPDX-License-Identifier: Apache-2.0 */
/* test_steps.c - steps whose keepers go on without a node, or do not */
#include "config.h"

#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include <cmocka.h>

#include "base/answer.h"
#include "slurm/job.h"
#include "tests/unit/conf.h"
#include "tests/unit/count.h"
#include "tests/unit/scratch.h"
#include "tests/unit/turned_clock.h"

enum {
    ASK_S = 40, /* passes between two questions to the nodes */
    ROUNDS = 6,
};

/* The second node is silent in these rounds of questions. */
static struct {
    int round, from, to;
    bool trains; /* it writes its status in each round */
} play;

/* Of a file server whose clock is wrong. */
static void write_status(void)
{
    const struct timespec times[2] = {{.tv_sec = 1000 + play.round},
                                      {.tv_sec = 1000 + play.round}};
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s", scratch_path("status.json"));
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

/* In the place of answer.c: nobody is asked. */
enum dt_answer dt_answer_take(int fd)
{
    (void)fd;
    return DT_ANSWER_UNKNOWN;
}

int dt_answer_ask(const union dt_net_address *host, unsigned port,
                  enum dt_answer *answer)
{
    assert_int_equal(port, DT_ANSWER_PORT);
    *answer = DT_ANSWER_REFUSED;
    if ((ntohl(host->v4.sin_addr.s_addr) & 0xff) == 2) {
        turned_s += ASK_S;
        if (play.trains)
            write_status();
        if (++play.round == ROUNDS)
            scratch_write("finish", "", 0);
    } else if (play.round >= play.from && play.round < play.to) {
        *answer = DT_ANSWER_SILENCE;
    }
    return -1;
}

static void write_command(const char *name, const char *body)
{
    char text[512];
    const int n =
        snprintf(text, sizeof(text),
                 "#!/bin/sh\necho \"${0##*/} $*\" >>$W/asked\n%s\n", body);
    assert_int_equal(chmod(scratch_write(name, text, (size_t)n), 0755), 0);
}

static const char *more = ""; /* lines of the configuration */

/* Runs the steps of a job of two nodes, of which the second is silent in rounds
 * from..to, and squeue answers like this. Returns what Slurm was asked.
 */
static const char *run_steps(int from, int to, const char *squeue)
{
    static char asked[1 << 16];
    static const char format[] =
        "algorithm: sft\ndata: {train: train.txt}\nlogging: {dir: %s}\n"
        "model: {n_embd: 32, n_layer: 2, n_head: 2}\n"
        "training: {train_batch_size: 2}\n"
        "launch: {min_ranks: 1, max_restarts: 1, ntasks_per_node: 1}\n%s";
    char conf_text[sizeof(format) + PATH_MAX + 64], *problems, *warnings;
    struct dt_error err;
    struct dt_srun_words none = {NULL, 0};
    snprintf(conf_text, sizeof(conf_text), format, scratch_root, more);
    struct dt_conf *conf = load_text(conf_text, &problems, &warnings);
    if (!conf)
        fail_msg("%s", problems);
    play.round = 0;
    play.from = from;
    play.to = to;
    remove(scratch_path("finish"));
    scratch_write("asked", "", 0);
    write_command("srun", "trap 'exit 1' TERM\n"
                          "until [ -e $W/finish ]; do sleep 0.01; done");
    write_command("scontrol", "case $* in *hostnames*) "
                              "printf '127.0.0.2\\n127.0.0.3\\n'; esac");
    write_command("squeue", squeue);
    assert_int_equal(dt_steps_run(conf, &none, &err), 0);
    turned_s = 0;
    dt_conf_destroy(conf);
    free(problems);
    free(warnings);
    FILE *file = fopen(scratch_path("asked"), "r");
    assert_non_null(file);
    asked[fread(asked, 1, sizeof(asked) - 1, file)] = '\0';
    fclose(file);
    return asked;
}

#define ALL "echo 127.0.0.2,127.0.0.3"

static void a_step_without_a_node_for_long_is_started_again(void **state)
{
    (void)state;
    const char *asked = run_steps(2, ROUNDS, ALL);
    assert_int_equal(count_of(asked, "srun "), 2);
    assert_int_equal(
        count_of(asked, "scontrol update JobId=12 NodeList=127.0.0.2\n"), 1);
}

/* Nobody knows what the keepers have done, and nobody can do more. */
static void while_slurm_does_not_answer_keepers_have_time(void **state)
{
    static const char *const silent[] = {"exit 1", "exit 0"};
    (void)state;
    for (size_t i = 0; i < sizeof(silent) / sizeof(*silent); i++) {
        const char *asked = run_steps(2, ROUNDS, silent[i]);
        assert_int_equal(count_of(asked, "srun "), 1);
        assert_true(count_of(asked, "squeue ") > 60 / ASK_S + 1);
        assert_null(strstr(asked, "scontrol update"));
    }
}

/* Where the cluster lets no job shrink, keepers go on with the node in the job.
 */
static void a_step_that_trains_without_its_node_is_left_alone(void **state)
{
    (void)state;
    scratch_write("status.json", "{}", 2);
    assert_int_equal(count_of(run_steps(2, ROUNDS, ALL), "srun "), 2);
    play.trains = true;
    const char *asked = run_steps(2, ROUNDS, ALL);
    play.trains = false;
    assert_int_equal(count_of(asked, "srun "), 1);
    assert_null(strstr(asked, "scontrol update"));
}

static void a_link_that_is_back_ends_no_step(void **state)
{
    (void)state;
    const char *asked = run_steps(2, 3, ALL);
    assert_int_equal(count_of(asked, "srun "), 1);
    assert_true(count_of(asked, "squeue ") > 0);
    assert_null(strstr(asked, "scontrol update"));
}

/* Those of a network that may be silent for longer need longer, too. */
static void keepers_have_time_for_longer_outages(void **state)
{
    (void)state;
    more = "distributed: {outage_s: 60}\n";
    const char *asked = run_steps(2, ROUNDS, ALL);
    more = "";
    assert_int_equal(count_of(asked, "srun "), 1);
    assert_true(count_of(asked, "squeue ") > 0);
}

static void keepers_wait_for_outages_as_long_as_the_user_says(void **state)
{
    static const struct {
        const char *lines;
        double ends, goes_on; /* the step does, without a lost node */
    } cases[] = {{"", 15, 5},
                 {"distributed: {outage_s: 3}\n", 15, 5},
                 {"distributed: {outage_s: 15}\n", 15, 15},
                 {"distributed: {outage_s: 60}\n", 60, 60}};
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct dt_conf *conf = load_more(cases[i].lines);
        assert_true(dt_job_outage(conf, false) == cases[i].ends);
        assert_true(dt_job_outage(conf, true) == cases[i].goes_on);
        dt_conf_destroy(conf);
    }
    assert_true(dt_job_outage(NULL, false) == 15);
    assert_true(dt_job_outage(NULL, true) == 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_without_a_node_for_long_is_started_again),
        cmocka_unit_test(while_slurm_does_not_answer_keepers_have_time),
        cmocka_unit_test(a_step_that_trains_without_its_node_is_left_alone),
        cmocka_unit_test(a_link_that_is_back_ends_no_step),
        cmocka_unit_test(keepers_have_time_for_longer_outages),
        cmocka_unit_test(keepers_wait_for_outages_as_long_as_the_user_says),
    };
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s", scratch_path(""));
    setenv("W", scratch_root, 1);
    snprintf(path, sizeof(path), "%s:%s", scratch_root, getenv("PATH"));
    setenv("PATH", path, 1);
    setenv("SLURM_JOB_ID", "12", 1);
    setenv("SLURM_JOB_NODELIST", "n[2-3]", 1);
    return cmocka_run_group_tests_name("steps", tests, enter_directory,
                                       leave_directory);
}
