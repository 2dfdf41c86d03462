/* SPDX-License-Identifier: Apache-2.0 */
/* test_nodes.c - steps that outlive their nodes, of one or two tasks each */
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
#include "keeper/keeper_impl.h"
#include "keeper/reach.h"
#include "tests/unit/count.h"
#include "tests/unit/keeper/keeper_scene.h"

enum { UNAVAILABLE = EX_UNAVAILABLE << 8 };

static struct scene scene;
static bool silent; /* what host.c would say: the host of lost keepers is */
static char gone[PATH_MAX]; /* and that of srun, where there is such a file */

static char booted[PATH_MAX]; /* it has booted */
static enum dt_answer before; /* of srun, when the step ends */
static int asked;

enum dt_answer dt_host_ask(const char *address, unsigned port)
{
    assert_string_equal(address, "10.0.0.1");
    assert_int_equal(port, 77);
    return asked++ == 0                ? before
           : access(booted, F_OK) == 0 ? DT_ANSWER_REFUSED
                                       : DT_ANSWER_OPEN;
}

bool dt_host_is_silent(const struct dt_wire_row *row)
{
    assert_int_not_equal(row->address[0], '\0');
    return row->hello.port == 9 ? access(gone, F_OK) == 0
                                : silent && access(booted, F_OK) < 0;
}

static const char once[] =
    "echo life $LIFE: $SLURM_PROCID is $RANK of $WORLD_SIZE, $LOCAL_RANK of "
    "$LOCAL_WORLD_SIZE on $NODE_RANK, $MASTER_ADDR. ${DISTTRAIN_EPOCH#* }.\n"
    "[ $LIFE = ${LAST:-1} ] || exec sleep 1000";

/* A step of nodes of one task, or of two. */
static void open_step(int size, int each, int spares, long least)
{
    scene_open(&scene, size, once);
    scene.ranks_per_node = each;
    scene.options.replaces = true;
    scene.options.spares = spares;
    scene.options.least = least;
    scene.options.beat_ms = 3600 * 1000; /* an end is seen by its socket */
}

static void use_directory(const char *name)
{
    static char dir[PATH_MAX];
    snprintf(dir, sizeof(dir), "%s/%s", scratch_root, name);
    scene.options.dir = dir;
}

static void start_step(int ranks)
{
    scene_start(&scene);
    scene_await(&scene, "life 0: ", (size_t)ranks);
}

static void lose(int task)
{
    assert_int_equal(kill(scene.pids[task], SIGKILL), 0);
}

/* Waits for all, of which these were killed. */
static void end_step(void)
{
    for (int i = 0; i < scene.started; i++)
        if (scene.pids[i] > 0)
            scene_join(&scene, i);
    while (waitpid(-1, NULL, 0) > 0) /* workers die with their keepers */
        ;
    scene_read(&scene);
}

static void has(const char *text, size_t count)
{
    if (count_of(scene.text, text) != count)
        fail_msg("not %zu times '%s' in: %s", count, text, scene.text);
}

static void expect(const int *statuses)
{
    for (int i = 0; i < scene.size; i++)
        scene_expect(&scene, i, statuses[i]);
}

static void a_spare_node_takes_the_place_of_a_lost_one(void **state)
{
    (void)state;
    open_step(6, 2, 1, 0);
    start_step(4);
    lose(1);
    end_step();
    /* the other keeper of its node leaves, as the leader of the first epoch */
    expect((int[]){UNAVAILABLE, SIGKILL, 0, 0, 0, 0});
    has("life 0: 0 is 0 of 4, 0 of 2 on 0, ", 1);
    has("life 0: 3 is 3 of 4, 1 of 2 on 1, ", 1);
    has("life 1: ", 4);
    has("life 1: 4 is 0 of 4, 0 of 2 on 0, 127.0.0.1.", 1);
    has("life 1: 5 is 1 of 4, 1 of 2 on 0, 127.0.0.1. 2 1 4.", 1);
    has("life 1: 2 is 2 of 4, 0 of 2 on 1, 127.0.0.1.", 1);
    has("node n3 takes its place: all ranks start again (restart 1; at most "
        "3)\n",
        1);
}

static void fewer_ranks_go_on_without_a_spare(void **state)
{
    (void)state;
    open_step(6, 2, 0, 2);
    start_step(6);
    lose(5);
    end_step();
    expect((int[]){0, 0, 0, 0, UNAVAILABLE, SIGKILL});
    has("disttrain: node n3, rank 4, rank 5, is lost: Connection reset by "
        "peer: 4 ranks are left of 6: all ranks start again (restart 1; at "
        "most 3)\n",
        1);
    has("life 1: ", 4);
    has("life 1: 3 is 3 of 4, 1 of 2 on 1, ", 1);
}

static void the_next_keeper_leads_when_the_leader_is_lost(void **state)
{
    (void)state;
    setenv("LAST", "2", 1);
    open_step(5, 1, 2, 0);
    use_directory("next");
    start_step(3);
    lose(0);
    scene_await(&scene, "life 1: ", 3);
    lose(1);
    end_step();
    unsetenv("LAST");
    expect((int[]){SIGKILL, SIGKILL, 0, 0, 0});
    has("disttrain: node n1, rank 0, is lost: Connection reset by peer: node "
        "n4 takes its place: all ranks start again (restart 1; at most 3)\n",
        1);
    has("disttrain: node n2, rank 1, is lost: Connection reset by peer: node "
        "n5 takes its place: all ranks start again (restart 2; at most 3)\n",
        1);
    has("life 1: 3 is 0 of 3, 0 of 1 on 0, 127.0.0.1.", 1);
    has("life 2: 4 is 1 of 3, 0 of 1 on 1, 127.0.0.1.", 1);
}

static void a_new_leader_knows_how_much_was_lost(void **state)
{
    (void)state;
    setenv("LAST", "9", 1);
    open_step(5, 1, 2, 0);
    scene.options.max_restarts = 1;
    scene.options.token = "70ce4";
    start_step(3);
    lose(0);
    scene_await(&scene, "life 1: ", 3);
    lose(1);
    end_step();
    unsetenv("LAST");
    has("start again (restart 1; at most 1)", 1);
    has("node n2, rank 1, is lost: Connection reset by peer: the allowed "
        "restarts are used up\n",
        1);
    has("disttrain: record: 70ce4 verdict 69 2\n", 1);
}

/* Its worker takes longer to end than a silence, for example. */
static void a_slow_keeper_leads_and_is_waited_for(void **state)
{
    (void)state;
    open_step(3, 1, 0, 1);
    scene.options.beat_ms = 300; /* a silence is 1.5 s */
    start_step(3);
    assert_int_equal(kill(scene.pids[1], SIGSTOP), 0);
    lose(0);
    dt_clock_sleep(2.4);
    assert_int_equal(kill(scene.pids[1], SIGCONT), 0);
    end_step();
    expect((int[]){SIGKILL, 0, 0});
    has("2 ranks are left of 3: ", 1);
    has("it has not come to the next leader", 0);
    has("life 1: 1 is 0 of 2, ", 1);
}

/* The leader is stopped, so that nobody hears of the keeper before it is lost,
 * too.
 */
static void a_next_leader_without_a_keeper_of_its_node_leaves(void **state)
{
    (void)state;
    for (int lost = 2; lost < 4; lost++) {
        open_step(8, 2, 0, 1);
        use_directory(lost == 2 ? "mate2" : "mate3");
        scene.options.beat_ms = 300;
        start_step(8);
        assert_int_equal(kill(scene.pids[0], SIGSTOP), 0);
        lose(lost);
        lose(0);
        end_step();
        expect(lost == 2 ? (int[]){SIGKILL, UNAVAILABLE, SIGKILL, UNAVAILABLE,
                                   0, 0, 0, 0}
                         : (int[]){SIGKILL, UNAVAILABLE, UNAVAILABLE, SIGKILL,
                                   0, 0, 0, 0});
        has("n2: a keeper of this node is lost: the node leaves the step\n",
            lost == 3);
        has("disttrain: keeper: cannot reach n2 at ", lost == 2);
        has("4 ranks are left of 8: ", 1);
        has("life 1: 4 is 0 of 4, ", 1);
    }
}

static void half_of_the_nodes_go_on_with_the_file_of_the_epoch(void **state)
{
    (void)state;
    for (int lost = 0; lost < 2; lost++) {
        open_step(2, 1, 0, 1);
        use_directory(lost ? "half1" : "half0");
        start_step(2);
        lose(lost);
        end_step();
        expect(lost ? (int[]){0, SIGKILL} : (int[]){SIGKILL, 0});
        has("1 ranks are left of 2: ", 1);
    }
}

/* As if a leader had written it, and was lost before it could tell. */
static void a_file_of_others_stops_half_and_no_majority(void **state)
{
    char step[DT_EPOCH_STEP_BYTES];
    (void)state;
    for (int size = 2; size < 4; size++) {
        open_step(size, 1, 0, 1);
        use_directory(size == 2 ? "taken2" : "taken3");
        dt_epoch_step(scene.options.secret, step);
        assert_int_equal(dt_epoch_claim(scene.options.dir, step, 2, "others"),
                         DT_CLAIM_OURS);
        start_step(size);
        lose(1);
        end_step();
        expect(size == 2 ? (int[]){UNAVAILABLE, SIGKILL}
                         : (int[]){0, SIGKILL, 0});
        has("n1: other nodes of the step go on: this part of it ends\n",
            size == 2);
        has("2 ranks are left of 3: all ranks start again", size == 3);
    }
}

static void half_without_a_directory_ends(void **state)
{
    (void)state;
    open_step(2, 1, 0, 1);
    start_step(2);
    lose(1);
    end_step();
    expect((int[]){UNAVAILABLE, SIGKILL});
    has("disttrain: n1: 1 of 2 nodes hear each other here: this part of the "
        "step ends\n",
        1);
    has("life 1: ", 0);
    open_step(2, 1, 0, 1);
    scene.options.dir = "/proc/none";
    start_step(2);
    lose(1);
    end_step();
    expect((int[]){UNAVAILABLE, SIGKILL});
    has(", which has failed: this part of the step ends\n", 1);
}

static void less_than_half_ends_even_with_a_directory(void **state)
{
    (void)state;
    open_step(3, 1, 0, 1);
    use_directory("less");
    start_step(3);
    assert_int_equal(kill(scene.pids[0], SIGSTOP), 0); /* sees both at once */
    for (int task = 1; task < 3; task++) {
        lose(task);
        scene_join(&scene, task);
        scene.pids[task] = 0;
    }
    assert_int_equal(kill(scene.pids[0], SIGCONT), 0);
    end_step();
    expect((int[]){UNAVAILABLE, SIGKILL, SIGKILL});
    has("1 of 3 nodes hear each other here", 1);
    has("life 1: ", 0);
}

static void a_step_ends_when_nothing_takes_a_place(void **state)
{
    (void)state;
    open_step(3, 1, 0, 3);
    start_step(3);
    lose(1);
    end_step();
    expect((int[]){UNAVAILABLE, SIGKILL, UNAVAILABLE});
    has("disttrain: node n2, rank 1, is lost: Connection reset by peer; no "
        "spare takes its place, and launch.min_ranks allows no smaller number: "
        "launch.max_restarts or launch.max_requeues starts another step\n",
        1);
    /* without ranks, there is no step */
    open_step(2, 1, 2, 0);
    scene_start(&scene);
    end_step();
    expect((int[]){78 << 8, 78 << 8});
    has("launch.spares: 2 of the 2 nodes of the step leave none for ranks\n",
        1);
}

/* As a host that does not answer, and later does. */
static void who_was_stopped_and_replaced_ends(void **state)
{
    (void)state;
    for (int lost = 0; lost < 2; lost++) {
        open_step(3, 1, 1, 0);
        use_directory(lost ? "stop1" : "stop0");
        scene.options.beat_ms = 100;
        start_step(2);
        assert_int_equal(kill(-scene.pids[lost], SIGSTOP), 0);
        scene_await(&scene, "life 1: ", 2);
        assert_int_equal(kill(-scene.pids[lost], SIGCONT), 0);
        end_step();
        expect(lost ? (int[]){0, UNAVAILABLE, 0} : (int[]){UNAVAILABLE, 0, 0});
        has(" is lost: it was not heard for 0.5 s: node n3 takes its place", 1);
        has("life 1: ", 2);
    }
}

/* Tasks 0 and 2 are on the first node, and the second one is a spare. */
static void a_lost_keeper_is_named_by_its_rank(void **state)
{
    (void)state;
    for (int lost = 1; lost < 3; lost++) {
        open_step(4, 1, 1, 0);
        scene.in_turn = 2;
        scene.options.replaces = false;
        start_step(2);
        lose(lost);
        end_step();
        has(lost == 1 ? "lost the keeper of a spare on n2: "
                      : "lost the keeper of rank 1 on n1: ",
            1);
    }
}

static void a_lost_spare_leaves_the_ranks_where_they_are(void **state)
{
    (void)state;
    open_step(3, 1, 1, 0);
    start_step(2);
    lose(2);
    end_step();
    expect((int[]){0, 0, SIGKILL});
    has("disttrain: node n3, is lost: Connection reset by peer: it was a "
        "spare: all ranks start again (restart 1; at most 3)\n",
        1);
    has("life 1: 1 is 1 of 2, ", 1);
}

static char job_end[PATH_MAX];

static void end_job(const struct dt_keeper_end *end)
{
    FILE *file = fopen(job_end, "a");
    fprintf(file, "%d%s.", end->status, end->late ? " late" : "");
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

static int leave_out(const char *nodes)
{
    fprintf(stderr, "left out: %s.\n", nodes);
    return 0;
}

/* Slurm would refuse to take its host out of the job, and the others, too. */
static void the_host_of_srun_stays_in_its_job(void **state)
{
    (void)state;
    silent = false;
    setenv("LAST", "2", 1);
    open_srun(5, "out");
    scene.options.leave_out = leave_out;
    start_step(5);
    lose(0);
    scene_await(&scene, "life 1: ", 4);
    lose(1);
    end_step();
    unsetenv("LAST");
    has("left out: ", 1);
    has("left out: n2.\n", 1);
}

static void without_srun_the_last_leader_ends_the_job(void **state)
{
    char step[DT_EPOCH_STEP_BYTES];
    (void)state;
    silent = true;
    open_srun(3, "srun");
    start_step(3);
    lose(0);
    end_step();
    expect((int[]){SIGKILL, 0, 0});
    has("life 1: ", 2);
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
    assert_string_equal(read_job_end(), "69.");
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

/* Starts three nodes, of which n2 alone is left. */
static void leave_one(const char *dir)
{
    open_srun(3, dir);
    scene.options.beat_ms = 300;
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
    leave_one("aside");
    assert_string_equal(read_job_end(), "");
    open_srun(2, "file");
    scratch_write("file", "", 0);
    start_step(2);
    lose(0);
    end_step();
    has("half of the nodes go on only if they can write a file", 1);
    assert_string_equal(read_job_end(), "");
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

static void await_file(const char *name, int rank)
{
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/%s%d", scratch_root, name, rank);
    for (int i = 0; access(path, F_OK) < 0; i++) {
        assert_true(i < 6000);
        dt_clock_sleep(0.01);
    }
}

/* The link of its host fails, and slurmstepd takes no more than the pipe holds,
 * to which the script of life 1 prints ten times as much. Then it is back.
 */
static void a_step_whose_srun_comes_back_ends_as_it_has_ended(void **state)
{
    int ends[2];
    size_t used = 0;
    (void)state;
    silent = false;
    open_srun(3, "flap");
    scene.options.token = "70ce4";
    scene_script(&scene, "touch $W/flap$LIFE$R\n"
                         "[ $LIFE = 1 ] || exec sleep 1000\n"
                         "yes 123456789 | head -c 655360\n"
                         "touch $W/full$R");
    assert_int_equal(pipe(ends), 0);
    scene.pipe = ends[1];
    scene_start(&scene);
    close(ends[1]);
    for (int rank = 0; rank < 3; rank++)
        await_file("flap0", rank);
    lose(0);
    for (int rank = 1; rank < 3; rank++)
        await_file("full", rank);
    for (ssize_t n; (n = read(ends[0], scene.text + used,
                              sizeof(scene.text) - 1 - used)) > 0;) {
        used += (size_t)n;
        if (used > sizeof(scene.text) / 2) {
            memmove(scene.text, scene.text + used - 4096, 4096);
            used = 4096;
        }
    }
    close(ends[0]);
    scene.text[used] = '\0';
    has("disttrain: record: 70ce4 verdict 0 1\n", 1);
    end_step();
    expect((int[]){SIGKILL, 0, 0});
    assert_string_equal(read_job_end(), "");
}

/* The leader is stopped, so that it sees both at once. */
static void who_is_told_to_end_without_a_node_asks_for_a_requeue(void **state)
{
    static const struct {
        int size, lost, status;
    } cases[] = {
        {2, 1, EX_TEMPFAIL}, {3, 1, EX_TEMPFAIL}, {3, 2, EX_UNAVAILABLE}};
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        const int size = cases[i].size, left = size - cases[i].lost;
        char verdict[64];
        open_step(size, 1, 0, 1);
        scene.options.trains = true;
        scene.options.token = "70ce4";
        scene_script(&scene, "trap 'exit 75' TERM\necho life 0: up\n"
                             "while :; do sleep 0.02; done");
        start_step(size);
        assert_int_equal(kill(scene.pids[0], SIGSTOP), 0);
        for (int task = left; task < size; task++) {
            lose(task);
            scene_join(&scene, task);
            scene.pids[task] = 0;
        }
        for (int task = 0; task < left; task++)
            assert_int_equal(kill(-scene.pids[task], SIGTERM), 0);
        assert_int_equal(kill(scene.pids[0], SIGCONT), 0);
        end_step();
        for (int task = 0; task < left; task++)
            scene_expect(&scene, task, cases[i].status << 8);
        snprintf(verdict, sizeof(verdict), "record: 70ce4 verdict 75 %d\n",
                 cases[i].lost);
        has(verdict, cases[i].status == EX_TEMPFAIL);
        has("is lost: Connection reset by peer: the step was told to end\n", 1);
    }
}

static void who_is_told_to_end_is_not_replaced(void **state)
{
    (void)state;
    open_step(3, 1, 1, 0);
    start_step(2);
    scene_signal(&scene, SIGTERM);
    end_step();
    has("life 1: ", 0);
    has("start again", 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_spare_node_takes_the_place_of_a_lost_one),
        cmocka_unit_test(fewer_ranks_go_on_without_a_spare),
        cmocka_unit_test(the_next_keeper_leads_when_the_leader_is_lost),
        cmocka_unit_test(a_new_leader_knows_how_much_was_lost),
        cmocka_unit_test(a_slow_keeper_leads_and_is_waited_for),
        cmocka_unit_test(a_next_leader_without_a_keeper_of_its_node_leaves),
        cmocka_unit_test(half_of_the_nodes_go_on_with_the_file_of_the_epoch),
        cmocka_unit_test(a_file_of_others_stops_half_and_no_majority),
        cmocka_unit_test(half_without_a_directory_ends),
        cmocka_unit_test(less_than_half_ends_even_with_a_directory),
        cmocka_unit_test(a_step_ends_when_nothing_takes_a_place),
        cmocka_unit_test(who_was_stopped_and_replaced_ends),
        cmocka_unit_test(a_lost_keeper_is_named_by_its_rank),
        cmocka_unit_test(a_lost_spare_leaves_the_ranks_where_they_are),
        cmocka_unit_test(where_the_host_of_srun_lives_nobody_ends_the_job),
        cmocka_unit_test(the_host_of_srun_stays_in_its_job),
        cmocka_unit_test(without_srun_the_last_leader_ends_the_job),
        cmocka_unit_test(the_job_ends_when_the_host_of_srun_has_booted),
        cmocka_unit_test(the_signal_before_the_limit_is_told),
        cmocka_unit_test(a_part_that_steps_aside_leaves_the_job),
        cmocka_unit_test(srun_may_be_on_a_node_of_others),
        cmocka_unit_test(a_step_whose_srun_comes_back_ends_as_it_has_ended),
        cmocka_unit_test(who_is_told_to_end_without_a_node_asks_for_a_requeue),
        cmocka_unit_test(who_is_told_to_end_is_not_replaced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
