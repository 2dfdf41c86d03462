/* SPDX-License-Identifier: Apache-2.0 */
/* test_doctor_report.c - from the notes of the nodes to the table */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "doctor/doctor_impl.h"
#include "tests/unit/scratch.h"

static struct dt_doctor_report report;
static char text[16384];

static void take(const char *line)
{
    char copy[512];
    snprintf(copy, sizeof(copy), "%s", line);
    dt_doctor_report_line(&report, copy);
}

/* `count` nodes n1, n2 ... that have nothing to complain of. */
static void begin(int count)
{
    struct dt_error err;
    char line[64];
    assert_int_equal(dt_doctor_report_init(&report, (size_t)count, &err), 0);
    for (int i = 0; i < count; i++) {
        snprintf(line, sizeof(line), "%d hello n%d 10.0.0.%d 4000", i, i + 1,
                 i + 1);
        take(line);
        snprintf(line, sizeof(line), "%d end", i);
        take(line);
    }
}

/* Judges and prints; the report is gone then. */
static const char *table(bool brief)
{
    char *const names[] = {"n1", "n2", "n3", "n4", "n5",
                           "n6", "n7", "n8", "n9", "n10"};
    FILE *out = fmemopen(text, sizeof(text), "w");
    assert_non_null(out);
    dt_doctor_report_judge(&report, names);
    assert_false(report.out_of_memory);
    dt_doctor_report_print(&report, brief, out);
    fclose(out);
    dt_doctor_report_fini(&report);
    return text;
}

static void expect_part(const char *want)
{
    if (!strstr(text, want))
        fail_msg("expected \"%s\" in:\n%s", want, text);
}

static void the_table_shows_what_differs_between_nodes(void **state)
{
    (void)state;
    begin(2);
    take("0 cell memory 1 GiB");
    take("1 cell memory 64 GiB");
    take("0 cell gpus -");
    take("1 cell gpus -");
    take("0 cell slurm 22.05.8");
    take("1 cell slurm 22.05.8");
    take("0 cell disttrain 0.1.0+aa");
    take("1 cell disttrain 0.1.0+aa");
    take("0 warn memory only 1 GiB");
    assert_string_equal(table(false),
                        "node  memory  result\n"
                        "n1    1 GiB!  warning\n"
                        "n2    64 GiB  ok\n"
                        "the same everywhere: disttrain 0.1.0+aa, slurm "
                        "22.05.8\n"
                        "n1: warning: only 1 GiB\n"
                        "2 nodes are good, 1 warning\n");
    begin(2);
    take("0 warn memory only 1 GiB");
    assert_string_equal(table(true), "n1: warning: only 1 GiB\n"
                                     "2 nodes are good, 1 warning\n");
    begin(1);
    assert_string_equal(table(true), "1 node is good, 0 warnings\n");
    begin(2);
    take("0 bad space /tmp is full");
    assert_string_equal(table(true), "node  space  result\n"
                                     "n1    -!     BAD\n"
                                     "n2    -      ok\n"
                                     "n1: /tmp is full\n"
                                     "bad nodes: n1\n");
}

/* One text of several nodes is one line, with as many names as fit. */
static void nodes_with_one_complaint_share_one_line(void **state)
{
    char line[64];
    (void)state;
    begin(10);
    for (int i = 9; i >= 0; i--) {
        snprintf(line, sizeof(line), "%d bad space /tmp is full", i);
        take(line);
    }
    take("4 warn load busy");
    take("2 warn load busy");
    table(false);
    expect_part("\nn1,n2,n3,n4,n5,n6,n7,n8,... (10 nodes): /tmp is full\n");
    expect_part("\nn3,n5: warning: busy\n");
    expect_part("\nbad nodes: n1,n2,n3,n4,n5,n6,n7,n8,n9,n10\n");
}

static void the_node_that_differs_from_most_is_blamed(void **state)
{
    (void)state;
    begin(3);
    take("0 cell driver 550.1");
    take("1 cell driver 535.2");
    take("2 cell driver 550.1");
    take("0 cell rdma 4/4");
    take("1 cell rdma 4/4");
    take("2 cell rdma 3/4");
    take("0 cell interface eth0");
    take("1 cell interface ens1");
    take("2 cell interface eth0");
    take("0 cell slurm 22.05.8");
    take("1 cell slurm -");
    take("2 cell slurm 22.05.8");
    table(false);
    expect_part("n2: the NVIDIA driver is 535.2, and 550.1 elsewhere: install "
                "one release everywhere\n");
    expect_part("n3: the number of active RDMA ports is 3/4, and 4/4 "
                "elsewhere: see ibstat\n");
    expect_part("n2: warning: the interface is ens1, and eth0 elsewhere: no "
                "NCCL_SOCKET_IFNAME or GLOO_SOCKET_IFNAME fits all nodes\n");
    expect_part("the same everywhere: slurm 22.05.8\n");
    expect_part("bad nodes: n2,n3\n");
}

static void different_builds_of_disttrain_are_reported(void **state)
{
    (void)state;
    begin(2);
    take("0 cell disttrain 0.1.0+aa");
    take("1 cell disttrain 0.1.0+bb");
    table(false);
    expect_part("n2: disttrain is 0.1.0+bb, and 0.1.0+aa elsewhere: install "
                "one build everywhere\n");
}

static void only_certain_clock_differences_are_reported(void **state)
{
    (void)state;
    begin(4);
    take("0 clock 0 0");
    take("1 clock -3.000 0.001");
    take("2 clock -3.0001 0.001");
    take("3 clock -2.800 0.001");
    table(false);
    expect_part("n1: its clock is 3.0 s ahead of the others: see chronyc "
                "tracking\n");
    expect_part("n4: warning: its clock is 0.2 s ahead of the others: see "
                "chronyc tracking\n");
    expect_part("n1    +3000.0 ms!  BAD\n");
    expect_part("n2    +0.0 ms      ok\n");
    expect_part("bad nodes: n1\n");
    begin(2); /* a slow answer proves nothing */
    take("0 clock 0 0");
    take("1 clock 1.5 1.45");
    table(true);
    expect_part("2 nodes are good, 0 warnings\n");
}

static void a_node_that_nobody_reaches_is_blamed(void **state)
{
    (void)state;
    begin(4);
    take("0 miss 2 no route to 10.0.0.3");
    take("2 miss 0 no answer");
    table(false);
    expect_part("\nn1 -> n3: no route to 10.0.0.3\n");
    expect_part("\nn3 -> n1: no answer\n");
    expect_part("\nbad nodes: n1,n3\n");
    begin(4); /* nobody reaches n3, which is not the fault of the others */
    take("0 miss 2 refused");
    take("1 miss 2 refused");
    take("3 miss 2 refused");
    table(false);
    expect_part("\nn1,n2,n4 -> n3: refused\n");
    expect_part("\nbad nodes: n3\n");
    for (int lost = 0; lost < 4; lost += 3) { /* the first and the last one */
        char line[64];
        begin(4);
        for (int node = 0; node < 4; node++) {
            snprintf(line, sizeof(line), "%d miss %d refused", node, lost);
            if (node != lost)
                take(line);
        }
        table(false);
        expect_part(lost == 0 ? "\nn2,n3,n4 -> n1: refused\n"
                              : "\nn1,n2,n3 -> n4: refused\n");
        expect_part(lost == 0 ? "\nbad nodes: n1\n" : "\nbad nodes: n4\n");
    }
    begin(5); /* two such nodes, which have lost each other, too */
    take("0 miss 2 refused");
    take("1 miss 2 refused");
    take("4 miss 2 refused");
    take("0 miss 3 refused");
    take("1 miss 3 refused");
    take("4 miss 3 refused");
    take("2 miss 3 refused");
    table(false);
    expect_part("\nbad nodes: n3,n4\n");
}

static void nodes_that_do_not_answer_are_bad(void **state)
{
    struct dt_error err;
    (void)state;
    assert_int_equal(dt_doctor_report_init(&report, 3, &err), 0);
    take("0 hello n3 10.0.0.3 4000");
    take("0 end");
    take("1 hello n1 10.0.0.1 4000");
    take("1 cell gpus -");
    take("1 cell driver -");
    assert_int_equal(dt_doctor_report_present(&report), 2);
    assert_int_equal(dt_doctor_report_done(&report), 1);
    table(false);
    expect_part("\nn1: its checks stopped at rdma: run disttrain doctor on "
                "that node\n");
    expect_part("\nn2: no answer: see scontrol show node, and slurmd's log "
                "there; if it has no disttrain, install it\n");
    expect_part("\nbad nodes: n1,n2\n");
}

/* srun may mix lines of its own in, and a node lines of another release. */
static void lines_that_are_not_notes_are_ignored(void **state)
{
    static const char *const lines[] = {
        "",           "0",          "0 ",         "hello",        "9 end",
        "-1 end",     "0 hello",    "0 hello a",  "0 hello a b",  "0 cell",
        "0 cell x y", "0 bad gpus", "0 miss",     "0 miss x",     "0 miss 7 y",
        "0 clock",    "0 clock x",  "0 colour x", "0 miss -1 no", "0 cell ",
    };
    (void)state;
    begin(2);
    for (size_t i = 0; i < sizeof(lines) / sizeof(*lines); i++)
        take(lines[i]);
    assert_string_equal(table(true), "2 nodes are good, 0 warnings\n");
}

static void probes_that_end_at_once_report_nothing(void **state)
{
    struct dt_error err;
    char *const ends[] = {"true", NULL};
    char *const none[] = {"/no/such/program", NULL};
    (void)state;
    assert_int_equal(dt_doctor_report_init(&report, 2, &err), 0);
    assert_int_equal(dt_doctor_gather(&report, 2, ends, &err), 0);
    assert_int_equal(dt_doctor_report_present(&report), 0);
    assert_int_equal(dt_doctor_gather(&report, 2, none, &err), -1);
    dt_doctor_report_fini(&report);
}

/* A program of Slurm that prints, and tells its arguments to a file. */
static void put_program(const char *name, const char *output)
{
    char script[512];
    snprintf(script, sizeof(script),
             "#!/bin/sh\necho \"$0 $*\" | sed 's|.*/||' >>%s\nprintf '%s'\n",
             scratch_path("asked"), output);
    chmod(scratch_write(name, script, strlen(script)), 0755);
}

static void expect_world(const char *job, const char *want_job,
                         const char *want_list, const char *asked)
{
    struct dt_doctor_world world;
    struct dt_error err;
    unlink(scratch_path("asked"));
    if (dt_doctor_world_init(&world, job, &err) != 0)
        fail_msg("%s", err.text);
    assert_string_equal(world.job, want_job);
    assert_string_equal(world.list, want_list);
    assert_int_equal(world.count, 2);
    assert_string_equal(world.names[0], "n1");
    assert_string_equal(world.names[1], "n2");
    dt_doctor_world_fini(&world);
    char *lines = dt_file_read(scratch_path("asked"), 1000, &err);
    assert_string_equal(lines, asked);
    free(lines);
}

static void set_job_variables(const char *job, const char *step)
{
    setenv("SLURM_JOB_ID", job, 1);
    setenv("SLURM_JOB_NODELIST", "n[1-9]", 1);
    setenv("SLURM_STEP_ID", step, 1);
    setenv("SLURM_STEP_NODELIST", "n[1-2]", 1);
}

static void the_nodes_of_a_job_come_from_slurm(void **state)
{
    struct dt_doctor_world world;
    struct dt_error err;
    char path[1024];
    char *before = strdup(getenv("PATH"));
    (void)state;
    unsetenv("SLURM_JOB_ID");
    assert_int_equal(dt_doctor_world_init(&world, NULL, &err), 0);
    assert_null(world.job);
    assert_int_equal(world.count, 1);
    dt_doctor_world_fini(&world);
    snprintf(path, sizeof(path), "%s:%.800s", scratch_path(""), before);
    setenv("PATH", path, 1);
    put_program("scontrol", "n1\\nn2\\n");
    put_program("squeue", "n[3-4]\\n");
    set_job_variables("7", "0");
    expect_world(NULL, "7", "n[1-2]",
                 "scontrol show hostnames n[1-2]\n"
                 "squeue --noheader --format=%N --jobs=7\n"
                 "scontrol show hostnames n[3-4]\n");
    set_job_variables("7", "4294967290"); /* salloc's shell on the first node */
    expect_world(NULL, "7", "n[1-9]",
                 "scontrol show hostnames n[1-9]\n"
                 "squeue --noheader --format=%N --jobs=7\n"
                 "scontrol show hostnames n[3-4]\n");
    expect_world("8.1", "8", "n[3-4]",
                 "squeue --noheader --format=%N --steps=8.1\n"
                 "scontrol show hostnames n[3-4]\n"
                 "squeue --noheader --format=%N --jobs=8\n"
                 "scontrol show hostnames n[3-4]\n");
    expect_world("8", "8", "n[3-4]",
                 "squeue --noheader --format=%N --jobs=8\n"
                 "scontrol show hostnames n[3-4]\n");
    setenv("SLURM_ARRAY_JOB_ID", "7",
           1); /* whose number is that of the array */
    setenv("SLURM_ARRAY_TASK_ID", "2", 1);
    expect_world("7.1", "7", "n[3-4]",
                 "squeue --noheader --format=%N --steps=7_2.1\n"
                 "scontrol show hostnames n[3-4]\n"
                 "squeue --noheader --format=%N --jobs=7_2\n"
                 "scontrol show hostnames n[3-4]\n");
    expect_world("8", "8", "n[3-4]",
                 "squeue --noheader --format=%N --jobs=8\n"
                 "scontrol show hostnames n[3-4]\n");
    unsetenv("SLURM_ARRAY_JOB_ID");
    put_program("squeue", "");
    assert_int_equal(dt_doctor_world_init(&world, "9", &err), -1);
    assert_string_equal(err.text, "job 9 has no nodes");
    dt_doctor_world_fini(&world);
    setenv("PATH", "/nowhere", 1);
    assert_int_equal(dt_doctor_world_init(&world, NULL, &err), -1);
    assert_string_equal(err.text,
                        "the nodes of a job are examined with Slurm's own "
                        "programs, outside of a container: scontrol: No such "
                        "file or directory");
    dt_doctor_world_fini(&world);
    setenv("PATH", before, 1);
    free(before);
}

/* The programs of Slurm; job 7 has only n10 and n2 of its step's nodes, and job
 * 8 is not known any more.
 */
static void put_slurm(void)
{
    static const char squeue[] =
        "#!/bin/sh\ncase $3 in\n--jobs=7) echo 'n[2,10]' ;;\n"
        "--steps=*) echo 'n[1-2,4,10]' ;;\n*) exit 1 ;;\nesac\n";
    static const char scontrol[] =
        "#!/bin/sh\n[ \"$3\" = 'n[2,10]' ] || set n1 n2 n4 n10\n"
        "[ $# = 4 ] || set n2 n10\nprintf '%s\\n' \"$@\"\n";
    chmod(scratch_write("squeue", squeue, sizeof(squeue) - 1), 0755);
    chmod(scratch_write("scontrol", scontrol, sizeof(scontrol) - 1), 0755);
}

static void nodes_that_the_job_has_lost_are_not_asked(void **state)
{
    static const struct {
        const char *step, *list, *lost;
        size_t count;
    } cases[] = {{"7.0", "n2,n10", "n1,n4", 2},
                 {"8.0", "n[1-2,4,10]", NULL, 4}};
    char path[1024];
    char *before = strdup(getenv("PATH"));
    (void)state;
    snprintf(path, sizeof(path), "%s:%.800s", scratch_path(""), before);
    setenv("PATH", path, 1);
    put_slurm();
    for (int i = 0; i < 2; i++) {
        struct dt_doctor_world world;
        struct dt_error err;
        if (dt_doctor_world_init(&world, cases[i].step, &err) != 0)
            fail_msg("%s", err.text);
        assert_string_equal(world.list, cases[i].list);
        assert_int_equal(world.count, cases[i].count);
        assert_string_equal(world.names[world.count - 1], "n10");
        if (cases[i].lost)
            assert_string_equal(world.lost, cases[i].lost);
        else
            assert_null(world.lost);
        dt_doctor_world_fini(&world);
    }
    setenv("PATH", before, 1);
    free(before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_table_shows_what_differs_between_nodes),
        cmocka_unit_test(nodes_with_one_complaint_share_one_line),
        cmocka_unit_test(the_node_that_differs_from_most_is_blamed),
        cmocka_unit_test(different_builds_of_disttrain_are_reported),
        cmocka_unit_test(only_certain_clock_differences_are_reported),
        cmocka_unit_test(a_node_that_nobody_reaches_is_blamed),
        cmocka_unit_test(nodes_that_do_not_answer_are_bad),
        cmocka_unit_test(lines_that_are_not_notes_are_ignored),
        cmocka_unit_test(probes_that_end_at_once_report_nothing),
        cmocka_unit_test(the_nodes_of_a_job_come_from_slurm),
        cmocka_unit_test(nodes_that_the_job_has_lost_are_not_asked),
    };
    return cmocka_run_group_tests_name("doctor_report", tests, NULL, NULL);
}
