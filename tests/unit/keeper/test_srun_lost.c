/* SPDX-License-Identifier: Apache-2.0 */
/* test_srun_lost.c - steps that outlive the host of srun */
#include "config.h"

#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "keeper/agree.h"
#include "keeper/reach.h"
#include "tests/unit/keeper/nodes_scene.h"

/* What host.c would say: the host of lost keepers is silent; and that of srun,
 * while there is such a file.
 */
static bool silent;
static char gone[PATH_MAX];

static char booted[PATH_MAX]; /* it has booted */
static enum dt_answer before; /* of srun, when the step ends */
static int asked;
static enum dt_answer of_keepers; /* where lost ones have listened */

enum dt_answer dt_host_ask(const char *address, unsigned port)
{
    if (strcmp(address, "10.0.0.1") != 0)
        return of_keepers;
    assert_int_equal(port, 77);
    return asked++ == 0                ? before
           : access(booted, F_OK) == 0 ? DT_ANSWER_REFUSED
                                       : DT_ANSWER_OPEN;
}

bool dt_host_is_silent(const struct dt_wire_row *row)
{
    assert_int_not_equal(row->address[0], '\0');
    return access(gone, F_OK) == 0 ||
           (row->hello.port != 9 && silent && access(booted, F_OK) < 0);
}

static char job_end[PATH_MAX];

static void end_job(const struct dt_keeper_end *end)
{
    FILE *file = fopen(job_end, "a");
    fprintf(file, "%d%s%s.", end->status, end->late ? " late" : "",
            end->short_of_nodes ? " short" : "");
    fclose(file);
    assert_in_range((int)(end->seconds * 10), 0, 600);
}

/* The text of end_job. */
static const char *read_job_end(void)
{
    static char text[64];
    FILE *file = fopen(job_end, "r");
    text[file ? fread(text, 1, sizeof(text) - 1, file) : 0] = '\0';
    if (file)
        fclose(file);
    return text;
}

static void open_srun(int size, const char *dir)
{
    open_step(size, 1, 0, 1);
    use_directory(dir);
    scene.options.srun_node = "n1";
    scene.options.end_job = end_job;
    snprintf(job_end, sizeof(job_end), "%s/%s.end", scratch_root, dir);
}

/* A keeper of its host was killed, and nothing else: all is seen. */
static void where_the_host_of_srun_lives_nobody_ends_the_job(void **state)
{
    (void)state;
    silent = false;
    for (int lost = 0; lost < 3; lost += 2) {
        open_srun(3, lost ? "there2" : "there0");
        scene.options.token = "70ce4";
        start_step(3);
        lose(lost);
        end_step();
        has("life 1: ", 2);
        has("disttrain: record: 70ce4 verdict 0 1\n", 1);
        assert_string_equal(read_job_end(), "");
    }
}

static int refusals; /* of Slurm */

static void tell_lost(const char *node)
{
    fprintf(stderr, "told: %s.\n", node);
}

static int leave_out(const char *nodes, int n)
{
    fprintf(stderr, "left out: %s%s\n", nodes, n <= refusals ? ", no." : ".");
    return n <= refusals;
}

/* Slurm would refuse to take its host out of the job, and the others, too. */
static void the_host_of_srun_stays_in_its_job(void **state)
{
    (void)state;
    silent = false;
    setenv("LAST", "2", 1);
    open_srun(5, "out");
    scene.options.leave_out = leave_out;
    scene.options.tell_lost = tell_lost;
    start_step(5);
    lose(0);
    scene_await(&scene, "life 1: ", 4);
    lose(1);
    end_step();
    unsetenv("LAST");
    has("told: ", 0);
    has("left out: ", 1);
    has("left out: n2.\n", 1);
}

/* It does not answer for a while. */
static void slurm_is_asked_again_to_leave_nodes_out(void **state)
{
    (void)state;
    silent = false;
    refusals = 2;
    setenv("LAST", "2", 1);
    open_srun(3, "again");
    scene.options.leave_out = leave_out;
    scene.options.shrink_s = 0.05;
    start_step(3);
    lose(2);
    scene_await(&scene, "left out: n3.", 1);
    scene_signal(&scene, SIGTERM);
    end_step();
    unsetenv("LAST");
    refusals = 0;
    has("left out: n3, no.\n", 2);
    has("left out: n3.\n", 1);
}

/* The others may be the larger part, which the leader does not hear. */
static void only_losses_that_are_agreed_on_are_left_out(void **state)
{
    (void)state;
    silent = false;
    refusals = INT_MAX;
    setenv("LAST", "2", 1);
    open_srun(5, "agreed");
    scene.options.leave_out = leave_out;
    scene.options.shrink_s = 0.1;
    scene.options.beat_ms = 300;
    scene.options.outage_s = 1.5;
    start_step(5);
    lose(4);
    scene_await(&scene, "left out: n5, no.", 2);
    assert_int_equal(kill(scene.pids[1], SIGSTOP), 0);
    lose(2);
    lose(3);
    scene_await(&scene, "this part of the step ends", 1);
    lose(1);
    end_step();
    unsetenv("LAST");
    refusals = 0;
    has("left out: n2", 0);
    has("left out: n3", 0);
}

static void without_srun_the_last_leader_ends_the_job(void **state)
{
    char step[DT_EPOCH_STEP_BYTES];
    (void)state;
    silent = true;
    open_srun(3, "srun");
    scene.options.leave_out = leave_out;
    scene.options.tell_lost = tell_lost;
    start_step(3);
    lose(0);
    end_step();
    expect((int[]){SIGKILL, 0, 0});
    has("life 1: ", 2);
    has("told: n1.\n", 1);
    assert_string_equal(read_job_end(), "0.");
    /* nobody knows whether others go on */
    open_srun(2, "other");
    dt_epoch_step(scene.options.secret, step);
    assert_int_equal(dt_epoch_claim(scene.options.dir, step, 2, "others"),
                     DT_CLAIM_OURS);
    start_step(2);
    lose(0);
    end_step();
    expect((int[]){SIGKILL, UNAVAILABLE});
    assert_string_equal(read_job_end(), "");
    /* it is certain that nobody does */
    open_srun(3, "few");
    scene.options.least = 3;
    start_step(3);
    lose(0);
    end_step();
    expect((int[]){SIGKILL, UNAVAILABLE, UNAVAILABLE});
    assert_string_equal(read_job_end(), "69 short.");
}

static int left_in; /* how often Slurm still has the host in the job */

static bool is_left_out(const char *node)
{
    assert_string_equal(node, "n1");
    return left_in-- <= 0;
}

/* Its kernel answers again, or srun has ended, or somebody has set the node
 * down.
 */
static void the_job_ends_when_the_host_of_srun_has_booted(void **state)
{
    static const struct {
        const char *dir, *want;
        enum dt_answer before;
        int boots, left_in; /* boots 1: before the end, 2: after it */
        double boot_s;
    } cases[] = {
        {"known", "0.", DT_ANSWER_REFUSED, 1, 0, 0},
        {"learns", "0.", DT_ANSWER_REFUSED, 1, 1, 60},
        {"boots", "0.", DT_ANSWER_SILENCE, 2, 1, 60},
        {"meanwhile", "0.", DT_ANSWER_SILENCE, 1, 1, 60},
        {"stays", "", DT_ANSWER_REFUSED, 1, 1, 0},
        {"listens", "", DT_ANSWER_OPEN, 0, 0, 60},
        {"over", "", DT_ANSWER_OPEN, 1, 1, 60},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        silent = cases[i].boots == 2;
        before = cases[i].before;
        asked = 0;
        left_in = cases[i].left_in;
        open_srun(3, cases[i].dir);
        scene.options.token = "70ce4";
        scene.options.is_left_out = is_left_out;
        scene.options.srun_address = "10.0.0.1";
        scene.options.srun_port = 77;
        scene.options.silence_s = 60;
        scene.options.boot_s = cases[i].boot_s;
        snprintf(booted, sizeof(booted), "%s", scratch_path("booted"));
        unlink(booted);
        if (cases[i].boots == 1)
            scratch_write("booted", "", 0);
        start_step(3);
        lose(0);
        scene_await(&scene, "record: 70ce4 verdict 0 1", 1);
        if (cases[i].boots == 2)
            scratch_write("booted", "", 0);
        end_step();
        if (strcmp(read_job_end(), cases[i].want) != 0)
            fail_msg("%s: %s", cases[i].dir, read_job_end());
    }
    unlink(booted);
}

/* srun has sent it before it was lost. */
static void the_signal_before_the_limit_is_told(void **state)
{
    static const char waits[] = "#!/bin/sh\ntrap 'echo heard.' USR1\n"
                                "echo up.\nwhile :; do sleep 0.05; done\n";
    (void)state;
    silent = true;
    open_srun(3, "late");
    scene.options.last_signal = SIGUSR1;
    scene.options.max_restarts = 0;
    scene.argv[0] = (char *)scratch_write("waits", waits, sizeof(waits) - 1);
    assert_int_equal(chmod(scene.argv[0], 0755), 0);
    scene_start(&scene);
    scene_await(&scene, "up.", 3);
    scene_signal(&scene, SIGUSR1);
    scene_await(&scene, "heard.", 3);
    lose(0);
    end_step();
    assert_string_equal(read_job_end(), "69 late.");
}

/* The file of the next epoch tells that the lost half does not go on. */
static void half_that_is_told_to_end_ends_the_job(void **state)
{
    (void)state;
    silent = true;
    open_srun(2, "told");
    scene.options.trains = true;
    scene_script(&scene, "trap 'exit 75' TERM\necho life 0: up\n"
                         "while :; do sleep 0.02; done");
    start_step(2);
    assert_int_equal(kill(scene.pids[1], SIGSTOP), 0);
    lose(0);
    assert_int_equal(kill(-scene.pids[1], SIGTERM), 0);
    assert_int_equal(kill(scene.pids[1], SIGCONT), 0);
    end_step();
    assert_string_equal(read_job_end(), "75.");
}

static bool (*of_slurm)(const char *node);
static double down_s;

/* Starts three nodes, of which n2 alone is left. */
static void leave_one(const char *dir)
{
    open_srun(3, dir);
    scene.options.is_left_out = of_slurm;
    scene.options.down_s = down_s;
    scene.options.beat_ms = 300;
    scene.options.outage_s = 1.5;
    start_step(3);
    lose(2);
    lose(0);
    end_step();
    expect((int[]){SIGKILL, UNAVAILABLE, SIGKILL});
    has("n2: 1 of 3 nodes hear each other here: this part of the step ends\n",
        1);
}

/* Others may go on, also where it is half of the nodes that can claim nothing.
 */
static void a_part_that_steps_aside_leaves_the_job(void **state)
{
    (void)state;
    silent = true;
    of_keepers = DT_ANSWER_SILENCE;
    leave_one("aside");
    assert_string_equal(read_job_end(), "");
    open_srun(2, "file");
    scratch_write("file", "", 0);
    start_step(2);
    lose(0);
    end_step();
    has("half of the nodes go on, or end the step, only if they can write a "
        "file",
        1);
    assert_string_equal(read_job_end(), "");
}

static int asked_for; /* how often Slurm was asked of n1 */

static bool is_n1_left_out_later(const char *node)
{
    return strcmp(node, "n3") == 0 || asked_for++ > 0;
}

/* Slurm has found the nodes of the others down. */
static void the_last_part_of_a_step_ends_the_job(void **state)
{
    static const struct {
        const char *dir, *want;
        enum dt_answer answer;
        bool down;
        double down_s;
    } cases[] = {
        {"down", "69 short.", DT_ANSWER_SILENCE, true, 60},
        {"booted", "69 short.", DT_ANSWER_REFUSED, true, 60},
        {"over", "", DT_ANSWER_REFUSED, false, 0},
        {"up", "", DT_ANSWER_SILENCE, true, 0},
        {"alive", "", DT_ANSWER_OPEN, true, 0},
        {"unknown", "", DT_ANSWER_SILENCE, false, 0},
    };
    (void)state;
    silent = true;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        of_keepers = cases[i].answer;
        asked_for = 0;
        of_slurm = cases[i].down ? is_n1_left_out_later : NULL;
        down_s = cases[i].down_s;
        leave_one(cases[i].dir);
        if (strcmp(read_job_end(), cases[i].want) != 0)
            fail_msg("%s: %s", cases[i].dir, read_job_end());
    }
    of_keepers = DT_ANSWER_SILENCE;
    of_slurm = NULL;
    down_s = 0;
}

/* The job has other steps there, for example. One that has never answered may
 * be behind a firewall.
 */
static void srun_may_be_on_a_node_of_others(void **state)
{
    static const char waits[] = "#!/bin/sh\necho up.\n"
                                "until [ -e $W/go ]; do sleep 0.02; done\n";
    static const struct {
        const char *dir;
        bool before, later; /* it is silent */
    } cases[] = {
        {"lives", false, false}, {"dies", false, true}, {"hides", true, true}};
    (void)state;
    silent = true;
    for (int i = 0; i < 3; i++) {
        open_srun(2, cases[i].dir);
        scene.options.srun_node = "n9";
        scene.options.srun_address = "10.0.0.9";
        scene.argv[0] =
            (char *)scratch_write("waits", waits, sizeof(waits) - 1);
        assert_int_equal(chmod(scene.argv[0], 0755), 0);
        snprintf(gone, sizeof(gone), "%s", scratch_path("gone"));
        unlink(gone);
        unlink(scratch_path("go"));
        if (cases[i].before)
            scratch_write("gone", "", 0);
        scene_start(&scene);
        scene_await(&scene, "up.", 2);
        if (cases[i].later)
            scratch_write("gone", "", 0);
        scratch_write("go", "", 0);
        end_step();
        expect((int[]){0, 0});
        assert_string_equal(read_job_end(), i == 1 ? "0." : "");
    }
}

static void await_file(const char *dir, const char *name, int rank)
{
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/%s%s%d", scratch_root, dir, name, rank);
    for (int i = 0; access(path, F_OK) < 0; i++) {
        assert_true(i < 6000);
        dt_clock_sleep(0.01);
    }
}

/* What keepers say may come before the rest of what a script prints. */
static size_t drop_filler(size_t used)
{
    static const char filler[] = "123456789\n";
    const size_t bytes = sizeof(filler) - 1;
    char *to = scene.text;
    for (size_t at = 0; at < used;) {
        if (used - at >= bytes && !memcmp(scene.text + at, filler, bytes))
            at += bytes;
        else
            *to++ = scene.text[at++];
    }
    return (size_t)(to - scene.text);
}

/* srun is silent from life 1 on, and slurmstepd takes no more than the pipe
 * holds, to which the script then prints ten times as much. Then it is back.
 */
static void print_to_nobody(const char *dir, const char *node, int lost)
{
    int ends[2];
    size_t used = 0;
    open_srun(3, dir);
    scene.options.silence_s = 60;
    scene.options.token = "70ce4";
    scene.options.srun_address = "10.0.0.1";
    snprintf(gone, sizeof(gone), "%s", scratch_path("gone"));
    unlink(gone);
    scene_script(&scene, "touch $W/$DIR$LIFE$R\n"
                         "[ $LIFE = 1 ] || exec sleep 1000\n"
                         "yes 123456789 | head -c 655360\n"
                         "touch $W/$DIR.full$R");
    setenv("DIR", dir, 1);
    assert_int_equal(pipe(ends), 0);
    scene.pipe = ends[1];
    scene.options.srun_node = node;
    scene_start(&scene);
    close(ends[1]);
    for (int rank = 0; rank < 3; rank++)
        await_file(dir, "0", rank);
    scratch_write("gone", "", 0);
    lose(lost);
    for (int rank = 0; rank < 3; rank++)
        if (rank != lost)
            await_file(dir, ".full", rank);
    unlink(gone);
    for (ssize_t n; (n = read(ends[0], scene.text + used,
                              sizeof(scene.text) - 1 - used)) > 0;) {
        used = drop_filler(used + (size_t)n);
    }
    close(ends[0]);
    scene.text[used] = '\0';
}

/* It may be on a node of the step, or on another. */
static void a_step_whose_srun_comes_back_ends_as_it_has_ended(void **state)
{
    (void)state;
    silent = false;
    for (int lost = 0; lost < 3; lost += 2) {
        print_to_nobody(lost ? "flap2" : "flap0", lost ? "n9" : "n1", lost);
        has("disttrain: record: 70ce4 verdict 0 1\n", 1);
        has(" lines, which are lost\n", 2);
        end_step();
        expect(lost ? (int[]){0, 0, SIGKILL} : (int[]){SIGKILL, 0, 0});
        assert_string_equal(read_job_end(), "");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(where_the_host_of_srun_lives_nobody_ends_the_job),
        cmocka_unit_test(the_host_of_srun_stays_in_its_job),
        cmocka_unit_test(slurm_is_asked_again_to_leave_nodes_out),
        cmocka_unit_test(only_losses_that_are_agreed_on_are_left_out),
        cmocka_unit_test(without_srun_the_last_leader_ends_the_job),
        cmocka_unit_test(the_job_ends_when_the_host_of_srun_has_booted),
        cmocka_unit_test(the_signal_before_the_limit_is_told),
        cmocka_unit_test(half_that_is_told_to_end_ends_the_job),
        cmocka_unit_test(a_part_that_steps_aside_leaves_the_job),
        cmocka_unit_test(the_last_part_of_a_step_ends_the_job),
        cmocka_unit_test(srun_may_be_on_a_node_of_others),
        cmocka_unit_test(a_step_whose_srun_comes_back_ends_as_it_has_ended),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
