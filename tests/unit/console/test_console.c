/* SPDX-License-Identifier: Apache-2.0 */
/* test_console.c - what srun prints is sorted by rank and kept */
#include "config.h"

#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/rankset.h"
#include "console/console.h"
#include "console/console_impl.h"
#include "contract/contract.h"

static void only_valid_labels_name_a_rank(void **state)
{
    static const struct {
        const char *line;
        uint32_t tasks;
        size_t bytes;
        uint32_t rank;
    } cases[] = {
        {"0: x\n", 1, 3, 0},
        {"7: \n", 8, 3, 7},
        {" 3: x", 12, 4, 3},
        {"11: x", 12, 4, 11},
        {"099: x", 1000, 5, 99},
        {"  9: x", 1000, 5, 9},
        {"999: x", 1000, 5, 999},
        {"8: x\n", 8, 0, 0},
        {"3: x", 12, 0, 0},
        {"03:x", 12, 0, 0},
        {"srun: x", 8, 0, 0},
        {" : x", 8, 0, 0},
        {"  : x", 12, 0, 0},
        {"1", 8, 0, 0},
        {"", 8, 0, 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        uint32_t rank = 0;
        size_t bytes = dt_label_parse(cases[i].line, strlen(cases[i].line),
                                      cases[i].tasks, &rank);
        assert_int_equal(bytes, cases[i].bytes);
        if (bytes > 0)
            assert_int_equal(rank, cases[i].rank);
    }
}

static void the_newline_that_srun_adds_is_recognized(void **state)
{
    char text[1026];
    (void)state;
    memset(text, 'x', sizeof(text));
    text[1024] = '\n';
    assert_true(dt_label_adds_newline(text, 1025));
    text[1023] = '\n';
    assert_false(dt_label_adds_newline(text, 1024));
    text[1025] = '\n';
    assert_false(dt_label_adds_newline(text, 1026));
    assert_false(dt_label_adds_newline("x\n", 2));
}

static char *print_set(const char *text, uint32_t size)
{
    struct dt_rankset set;
    struct dt_error err;
    char *out = NULL;
    size_t bytes;
    assert_int_equal(dt_rankset_init(&set, size, &err), 0);
    int rc = dt_rankset_parse(&set, text, &err);
    FILE *file = open_memstream(&out, &bytes);
    assert_non_null(file);
    if (rc == 0)
        dt_rankset_print(&set, file);
    else
        fputs(err.text, file);
    fclose(file);
    dt_rankset_fini(&set);
    return out;
}

static void ranks_are_parsed_and_printed_as_ranges(void **state)
{
    static const struct {
        const char *text;
        const char *printed;
    } cases[] = {
        {"0", "rank 0"},
        {"4-7,0", "ranks 0, 4-7"},
        {"1,2,3,5-5", "ranks 1-3, 5"},
        {"0-4294967295", "ranks 0-8"},
        {"8,9,10", "rank 8"},
        {"", "expected ranks like 0,4-7, got \"\""},
        {"1,", "expected ranks like 0,4-7, got \"1,\""},
        {"3-1", "expected ranks like 0,4-7, got \"3-1\""},
        {"-1", "expected ranks like 0,4-7, got \"-1\""},
        {"1-", "expected ranks like 0,4-7, got \"1-\""},
        {"1 2", "expected ranks like 0,4-7, got \"1 2\""},
        {"4294967296", "expected ranks like 0,4-7, got \"4294967296\""},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        char *printed = print_set(cases[i].text, 9);
        assert_string_equal(printed, cases[i].printed);
        free(printed);
    }
}

static char *print_tail(const struct dt_last_lines *tail)
{
    char *out = NULL;
    size_t bytes;
    FILE *file = open_memstream(&out, &bytes);
    assert_non_null(file);
    bool any = dt_last_lines_print(tail, "> ", file);
    fclose(file);
    assert_int_equal(any, bytes > 0);
    return out;
}

static void expect_tail(const char *text, const char *printed)
{
    struct dt_last_lines tail = {.keep = 4096};
    dt_last_lines_append(&tail, text, strlen(text));
    char *out = print_tail(&tail);
    assert_string_equal(out, printed);
    free(out);
    free(tail.text);
}

#define TB "Traceback (most recent call last):\n"
#define CAUSE                                                                  \
    "The above exception was the direct cause of the following exception:\n"
#define DURING                                                                 \
    "During handling of the above exception, another exception occurred:\n"

static void the_tail_shows_the_last_lines_or_traceback(void **state)
{
    (void)state;
    expect_tail("", "");
    expect_tail("\n\n", "");
    expect_tail("a\n\nb\n\n", "> a\n\n> b\n");
    expect_tail("no newline", "> no newline\n");
    expect_tail(" 10%\r 50%\r100%\nend\r\n", "> 100%\n> end\n");
    expect_tail("1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n13\n14\n15\n16\n17\n18"
                "\n19\n20\n21\n",
                "> 2\n> 3\n> 4\n> 5\n> 6\n> 7\n> 8\n> 9\n> 10\n> 11\n> 12\n> 13"
                "\n> 14\n> 15\n> 16\n> 17\n> 18\n> 19\n> 20\n> 21\n");
    expect_tail("noise\n" TB "  File\nE: x\n",
                "> Traceback (most recent call last):\n>   File\n> E: x\n");
    /* of two that have nothing to do with each other the last */
    expect_tail(TB "E: 1\n[rank5]: " TB "[rank5]: E: 2\nafter\n",
                "> [rank5]: Traceback (most recent call last):\n"
                "> [rank5]: E: 2\n> after\n");
    /* and all of a chain */
    expect_tail(TB "E: 0\n" TB "E: 1\n\n" DURING "\n" TB "E: 2\n\n" CAUSE
                   "\n" TB "E: 3\n",
                "> Traceback (most recent call last):\n> E: 1\n\n> " DURING
                "\n> Traceback (most recent call last):\n> E: 2\n\n> " CAUSE
                "\n> Traceback (most recent call last):\n> E: 3\n");
    expect_tail("multiprocessing.pool.RemoteTraceback: \n\"\"\"\n" TB
                "E: 1\n\"\"\"\n\n" CAUSE "\n" TB "E: 1\n",
                "> Traceback (most recent call last):\n> E: 1\n> \"\"\"\n\n"
                "> " CAUSE "\n> Traceback (most recent call last):\n> E: 1\n");
}

#define C_STACK "Current thread's C stack trace (most recent call first):\n"
#define FRAME "  Binary file \"/lib/libc.so.6\", at abort+0x22 [0x7f3a]\n"
#define FOUR_FRAMES FRAME FRAME FRAME FRAME

static void the_tail_leaves_out_the_c_stack_of_faulthandler(void **state)
{
    (void)state;
    expect_tail(
        "free(): double free\nFatal Python error: Aborted\n\n"
        "Stack (most recent call first):\n  File \"t.py\", line 3\n\n" C_STACK
            FOUR_FRAMES FOUR_FRAMES FOUR_FRAMES FOUR_FRAMES FOUR_FRAMES
        "  <truncated rest of calls>\n\n"
        "Extension modules: numpy (total: 1)\nsrun: end\n",
        "> free(): double free\n> Fatal Python error: Aborted\n\n"
        "> Stack (most recent call first):\n>   File \"t.py\", line 3\n"
        "\n> [the C stack is left out]\n\n"
        "> Extension modules: numpy (total: 1)\n> srun: end\n");
    expect_tail(TB "E: 1\n" C_STACK FRAME,
                "> Traceback (most recent call last):\n> E: 1\n"
                "> [the C stack is left out]\n");
}

static void the_tail_of_endless_output_stays_bounded(void **state)
{
    struct dt_last_lines tail = {.keep = 1024};
    char line[64];
    (void)state;
    for (int i = 0; i < 10000; i++) {
        snprintf(line, sizeof(line), "line %d\n", i);
        dt_last_lines_append(&tail, line, strlen(line));
        assert_true(tail.size <= 2 * tail.keep);
        assert_true(tail.used <= tail.size);
        assert_true(i < 200 || tail.used >= tail.keep);
    }
    char *out = print_tail(&tail);
    assert_non_null(strstr(out, "> line 9999\n"));
    free(out);

    char *big = malloc(100000);
    assert_non_null(big);
    memset(big, 'x', 100000);
    dt_last_lines_append(&tail, big, 100000);
    assert_int_equal(tail.used, 1024);
    out = print_tail(&tail);
    assert_int_equal(strlen(out), 1024 + 3);
    free(out);

    /* a line that has lost its beginning is not shown as one */
    dt_last_lines_append(&tail, "\nend\n", 5);
    assert_true(dt_last_lines_ends_with(&tail, "end"));
    assert_false(dt_last_lines_ends_with(&tail, "ends"));
    out = print_tail(&tail);
    assert_string_equal(out, "> end\n");
    free(out);
    free(big);
    free(tail.text);
}

static void a_long_traceback_loses_its_middle(void **state)
{
    struct dt_last_lines tail = {.keep = 4096};
    int lines = 0;
    (void)state;
    dt_last_lines_append(&tail, TB, strlen(TB));
    for (int i = 1; i < 100; i++) {
        char line[32];
        snprintf(line, sizeof(line), "  frame %d\n", i);
        dt_last_lines_append(&tail, line, strlen(line));
    }
    char *out = print_tail(&tail);
    for (const char *p = out; (p = strchr(p, '\n')) != NULL; p++)
        lines++;
    assert_int_equal(lines, DT_TRACEBACK_LINES);
    assert_non_null(strstr(out, "> Traceback"));
    assert_non_null(strstr(out, ">   frame 14\n> [41 lines left out]\n"
                                ">   frame 56\n"));
    assert_non_null(strstr(out, ">   frame 99\n"));
    free(out);
    free(tail.text);
}

static void each_rank_gets_its_own_log(void **state)
{
    struct dt_error err;
    char dir[] = "/tmp/dt-ranklogs.XXXXXX";
    char path[96];
    char log[128];
    (void)state;
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof(path), "%s/a/b", dir);
    for (int run = 0; run < 2; run++) { /* the second one appends */
        struct dt_ranklogs *logs = dt_ranklogs_create(path, 2000, &err);
        assert_non_null(logs);
        assert_int_equal(dt_ranklogs_write(logs, 12, "x\n", 2, &err), 0);
        assert_int_equal(dt_ranklogs_write(logs, 1999, "y", 1, &err), 0);
        assert_int_equal(dt_ranklogs_flush(logs, &err), 0);
        /* each flush makes visible what has come since the last one */
        assert_int_equal(dt_ranklogs_write(logs, 12, "z\n", 2, &err), 0);
        assert_int_equal(dt_ranklogs_flush(logs, &err), 0);
        snprintf(log, sizeof(log), "%s/rank-0012.log", path);
        char *text = dt_file_read(log, 100, &err);
        assert_string_equal(text, run ? "x\nz\nx\nz\n" : "x\nz\n");
        free(text);
        dt_ranklogs_destroy(logs);
    }

    /* a directory that cannot be */
    assert_null(dt_ranklogs_create(log, 2, &err));
    assert_int_equal(err.status, EX_CANTCREAT);
    struct dt_ranklogs *logs = dt_ranklogs_create(dir, 2, &err);
    assert_int_equal(dt_file_remove_tree(dir, &err), 0);
    assert_int_equal(dt_ranklogs_write(logs, 1, "x", 1, &err), -1);
    assert_non_null(strstr(err.text, "/rank-0001.log: No such file"));
    dt_ranklogs_destroy(logs);

    /* a full disk; the test is root or not, and /dev/full is there for all */
    assert_non_null(mkdtemp(strcpy(dir, "/tmp/dt-ranklogs.XXXXXX")));
    snprintf(path, sizeof(path), "%s/rank-0000.log", dir);
    assert_int_equal(symlink("/dev/full", path), 0);
    logs = dt_ranklogs_create(dir, 1, &err);
    assert_int_equal(dt_ranklogs_write(logs, 0, "x", 1, &err), 0);
    assert_int_equal(dt_ranklogs_flush(logs, &err), -1);
    assert_non_null(strstr(err.text, "rank-0000.log: No space left on device"));
    dt_ranklogs_destroy(logs);
    assert_int_equal(dt_file_remove_tree(dir, &err), 0);
}

static void put(int fd, const char *text)
{
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
}

/* Reads a piece and checks the lines that come: "a|b|". */
static void expect_lines(struct dt_console_stream *s, const char *want)
{
    char lines[256] = "";
    const char *line;
    size_t len;
    dt_console_stream_read(s);
    while ((line = dt_console_stream_next(s, &len)))
        snprintf(lines + strlen(lines), sizeof(lines) - strlen(lines), "%.*s|",
                 (int)len, line);
    assert_string_equal(lines, want);
}

/* srun -u writes the two pieces of a record by themselves. */
static void a_record_in_pieces_is_one_line(void **state)
{
    static const char record[] = "disttrain: record: a1b2 exit 0 n1 1.000 15\n";
    static const char *const others[] = {"\r50%", "loss 3.1", "x"};
    static struct dt_console_stream s;
    char want[128], piece[64];
    int fd[2];
    (void)state;
    assert_int_equal(pipe(fd), 0);
    dt_console_stream_init(&s, fd[0], STDERR_FILENO, true);
    for (size_t cut = 1; cut < strlen(record); cut++) {
        snprintf(piece, sizeof(piece), "a\n%.*s", (int)cut, record);
        put(fd[1], piece);
        expect_lines(&s, "a\n|");
        assert_true(dt_console_stream_left(&s) <= 2);
        put(fd[1], record + cut);
        snprintf(want, sizeof(want), "%s|", record);
        expect_lines(&s, want);
        assert_true(isinf(dt_console_stream_left(&s)));
    }
    put(fd[1], "loss 3.1 disttra");
    expect_lines(&s, "");
    put(fd[1], record + strlen("disttra"));
    snprintf(want, sizeof(want), "loss 3.1 %s|", record);
    expect_lines(&s, want);
    /* what cannot become a record is not held back, and nothing for long */
    for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++) {
        put(fd[1], others[i]);
        snprintf(want, sizeof(want), "%s|", others[i]);
        expect_lines(&s, want);
    }
    put(fd[1], "srun");
    expect_lines(&s, "");
    while (dt_console_stream_left(&s) > 0)
        usleep(1000);
    size_t len;
    assert_non_null(dt_console_stream_next(&s, &len));
    assert_int_equal(len, 4);
    put(fd[1], "slurmstep");
    close(fd[1]);
    expect_lines(&s, "");
    expect_lines(&s, "slurmstep|");
}

/* The same where a line of another node, or of srun, comes between the pieces.
 */
static void a_line_between_two_pieces_of_a_record_comes_first(void **state)
{
    static const struct dt_step_identity step = {.token = "a1b2", .id = "5.0"};
    static const char *const records[] = {
        "disttrain: record: a1b2 exit 0 n1 1.000 15\n",
        "slurmstepd: disttrain: record: a1b2 exit 0 n1 1.000 15\n"};
    static const char *const inners[] = {
        "disttrain: record: a1b2 exit 1 n2 1.000 1024\n",
        "slurmstepd: disttrain: record: a1b2 start 1 n2 1.000\n",
        "slurmstepd-n1: error: *** STEP 5.0 ON n1 CANCELLED AT now ***\n",
        "srun: error: n2: task 1: Exited with exit code 4\n",
        "srun: Terminating StepId=5.0\n"};
    static struct dt_console_stream s;
    char text[256];
    int fd[2];
    size_t len;
    (void)state;
    assert_int_equal(pipe(fd), 0);
    dt_console_stream_init(&s, fd[0], STDERR_FILENO, true);
    for (size_t i = 0; i < 2 * sizeof(inners) / sizeof(*inners); i++) {
        const char *record = records[i % 2], *inner = inners[i / 2];
        for (size_t cut = 1; cut < strlen(record); cut++) {
            if (record[cut] == 'd' && inner[0] == 'd')
                continue; /* then the rest is a record, too */
            snprintf(text, sizeof(text), "%.*s%s%s", (int)cut, record, inner,
                     record + cut);
            put(fd[1], text);
            dt_console_stream_read(&s);
            const char *line = dt_console_stream_next(&s, &len);
            assert_int_equal(dt_console_event_find_inner(line, len, &step),
                             cut);
            line = dt_console_stream_put_back(&s, len, cut);
            assert_memory_equal(line, inner, strlen(inner));
            line = dt_console_stream_next(&s, &len);
            assert_int_equal(len, strlen(record));
            assert_memory_equal(line, record, len);
            assert_int_equal(dt_console_event_find_inner(line, len, &step), 0);
            assert_null(dt_console_stream_next(&s, &len));
        }
    }
    close(fd[0]);
    close(fd[1]);
}

/* What a program prints stays where it is, though it looks alike. */
static void no_text_of_a_program_is_moved(void **state)
{
    static const struct dt_step_identity step = {.token = "a1b2", .id = "5.0"};
    static const char *const lines[] = {
        "loss 3.1 srun: error: n2: task 1: Exited with exit code 4\n",
        "loss 3.1 slurmstepd: disttrain: record: a1b2 exit 0 n1 1.000 15\n",
        "disttrain: record: c3d4disttrain: record: c3d4 exit 0 n1 1.000 15\n",
        "disttrain: record: a1disttrain: record: a1b2 exit 0 n1 1.000 15",
        "\n"};
    (void)state;
    for (size_t i = 0; i < sizeof(lines) / sizeof(*lines); i++)
        assert_int_equal(
            dt_console_event_find_inner(lines[i], strlen(lines[i]), &step), 0);
}

static void a_record_without_its_end_is_not_shown(void **state)
{
    static const struct dt_step_identity step = {
        .token = "a1b2", .progress = "c3d4", .id = "5.0"};
    static const struct {
        const char *line;
        enum dt_console_event_kind kind;
    } cases[] = {
        {"slurmstepd: disttrain: record: a1b2 exit 0 n1 1.0", DT_EVENT_BROKEN},
        {"disttrain: record: a1b2 exit", DT_EVENT_BROKEN},
        {"disttrain: record: a1b", DT_EVENT_BROKEN},
        {"disttrain: record: c", DT_EVENT_BROKEN},
        {"disttrain: record: ", DT_EVENT_NONE},
        {"disttrain: record: b1b2 exit 0 n1 1.0", DT_EVENT_NONE}};
    struct dt_console_event event;
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        dt_console_event_parse(cases[i].line, strlen(cases[i].line), &step,
                               DT_ORIGIN_UNKNOWN, &event);
        assert_int_equal(event.kind, cases[i].kind);
        assert_int_equal(event.begin, 0);
    }
}

/* The plugin starts the console with all signals blocked. */
static void the_first_ctrl_c_says_what_a_second_one_loses(void **state)
{
    static const char settings[] = DT_CONSOLE_VERSION_LINE
        "\n" DT_CONSOLE_LABELS "none\n" DT_CONSOLE_STEP
        "42.7\n" DT_CONSOLE_TASKS "1\n" DT_CONSOLE_TOKEN "0af9\n";
    char said[512] = "";
    sigset_t all, before;
    int out[2], err[2], shown[2], status = 0;
    size_t used = 0;
    (void)state;
    assert_int_equal(pipe(out) | pipe(err) | pipe(shown), 0);
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &before);
    pid_t pid = fork();
    if (pid == 0) {
        FILE *in = fmemopen((char *)settings, sizeof(settings) - 1, "r");
        int from[2] = {fcntl(out[0], F_DUPFD, 20), fcntl(err[0], F_DUPFD, 20)};
        if (dup2(shown[1], STDERR_FILENO) < 0 ||
            dup2(from[0], DT_CONSOLE_OUT_FD) < 0 ||
            dup2(from[1], DT_CONSOLE_ERR_FD) < 0)
            _exit(1);
        close_range(5, UINT_MAX, 0);
        setenv(DT_ENV_RUN, "/none", 1);
        _exit(dt_console_run(in));
    }
    sigprocmask(SIG_SETMASK, &before, NULL);
    close(shown[1]);
    kill(pid, SIGINT);
    for (ssize_t n = 1; n > 0 && !strchr(said, '\n'); used += (size_t)n)
        n = read(shown[0], said + used, sizeof(said) - 1 - used);
    assert_string_equal(
        said, "disttrain: a second Ctrl-C ends the ranks without a checkpoint; "
              "`scancel --signal=USR1 42.7` lets them save one and end\n");
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    close(shown[0]);
    for (int i = 0; i < 2; i++) {
        close(out[i]);
        close(err[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_ctrl_c_says_what_a_second_one_loses),
        cmocka_unit_test(only_valid_labels_name_a_rank),
        cmocka_unit_test(the_newline_that_srun_adds_is_recognized),
        cmocka_unit_test(ranks_are_parsed_and_printed_as_ranges),
        cmocka_unit_test(the_tail_shows_the_last_lines_or_traceback),
        cmocka_unit_test(the_tail_leaves_out_the_c_stack_of_faulthandler),
        cmocka_unit_test(the_tail_of_endless_output_stays_bounded),
        cmocka_unit_test(a_long_traceback_loses_its_middle),
        cmocka_unit_test(each_rank_gets_its_own_log),
        cmocka_unit_test(a_record_in_pieces_is_one_line),
        cmocka_unit_test(a_line_between_two_pieces_of_a_record_comes_first),
        cmocka_unit_test(no_text_of_a_program_is_moved),
        cmocka_unit_test(a_record_without_its_end_is_not_shown),
    };
    return cmocka_run_group_tests_name("console", tests, NULL, NULL);
}
