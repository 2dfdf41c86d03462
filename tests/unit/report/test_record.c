/* SPDX-License-Identifier: Apache-2.0 */
/* test_record.c - events.jsonl, ranks.jsonl, and sinks */
#include "config.h"

#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "report/report.h"
#include "tests/unit/scratch.h"
#include "tests/unit/stderr_text.h"

/* The file of this name in logging.dir; free it. */
static char *read_beside(const char *name)
{
    struct dt_error err;
    char *text = dt_file_read(scratch_path(name), 4096, &err);
    if (!text)
        fail_msg("%s", err.text);
    return text;
}

static struct dt_report *create(long first_step)
{
    const struct dt_report_options options = {.dir = scratch_root,
                                              .first_step = first_step,
                                              .resumes = first_step > 0};
    struct dt_error err;
    scratch_path(""); /* makes it */
    struct dt_report *report = dt_report_create(&options, &err);
    if (!report)
        fail_msg("%s", err.text);
    return report;
}

/* The numbers that stand for the time of day differ in every run. */
static void erase_wall(char *text)
{
    static const char key[] = "\"wall\": ";
    for (char *at = text; (at = strstr(at, key));) {
        char *from = at += sizeof(key) - 1;
        from += strspn(from, "0123456789.");
        memmove(at, from, strlen(from) + 1);
    }
}

static void send_event(struct dt_report *report, const char *kind, long n)
{
    const struct dt_report_event event = {
        .kind = kind, .step = n, .seconds = NAN, .bytes = NAN, .rank = -1};
    dt_report_event(report, &event);
}

static void events_of_all_starts_are_kept_in_order(void **state)
{
    (void)state;
    struct dt_report *report = create(0);
    send_event(report, "start", 0);
    dt_report_event(report, &(struct dt_report_event){.kind = "save",
                                                      .step = 20,
                                                      .seconds = 0.25,
                                                      .bytes = 123456789012,
                                                      .rank = 1,
                                                      .host = "n2",
                                                      .text = "\"a\"\n\xff"});
    dt_report_destroy(report);
    report = create(10); /* of later steps, too: they have happened */
    send_event(report, "resume", 10);
    dt_report_destroy(report);
    char *text = read_beside("events.jsonl");
    erase_wall(text);
    assert_string_equal(
        text, "{\"event\": \"start\", \"step\": 0, \"wall\": }\n"
              "{\"event\": \"save\", \"step\": 20, \"wall\": , \"seconds\": "
              "0.25, \"bytes\": 123456789012, \"rank\": 1, \"host\": \"n2\", "
              "\"text\": \"\\u0022a\\u0022\\u000a\\u00ff\"}\n"
              "{\"event\": \"resume\", \"step\": 10, \"wall\": }\n");
    free(text);
    report = create(0);
    dt_report_destroy(report);
    text = read_beside("events.jsonl");
    assert_string_equal(text, "");
    free(text);
}

static void spend(void *ctx, double spent[DT_ACCOUNT_COUNTED])
{
    spent[DT_ACCOUNT_STARTUP] = 1.5;
    spent[DT_ACCOUNT_SAVING] = *(double *)ctx;
}

/* An event of an earlier process has its own time, and tells nothing of what
 * this one has spent.
 */
static void events_tell_what_their_process_has_spent(void **state)
{
    double saving = 0.0625;
    const struct dt_report_options options = {
        .dir = scratch_root, .spent = spend, .ctx = &saving};
    struct dt_error err;
    (void)state;
    struct dt_report *report = dt_report_create(&options, &err);
    assert_non_null(report);
    dt_report_event(report, &(struct dt_report_event){.kind = "restart",
                                                      .step = 6,
                                                      .wall = 12.5,
                                                      .seconds = 2,
                                                      .bytes = NAN,
                                                      .rank = 1,
                                                      .redone = 2});
    dt_report_event(report,
                    &(struct dt_report_event){.kind = "resume",
                                              .step = 4,
                                              .seconds = NAN,
                                              .bytes = NAN,
                                              .rank = -1,
                                              .allocation = "7, requeue 1"});
    dt_report_destroy(report);
    char *text = read_beside("events.jsonl");
    assert_non_null(strstr(text, "\"wall\": 12.500, "));
    erase_wall(text);
    assert_string_equal(
        text,
        "{\"event\": \"restart\", \"step\": 6, \"wall\": , \"seconds\": 2, "
        "\"rank\": 1, \"redone\": 2}\n"
        "{\"event\": \"resume\", \"step\": 4, \"wall\": , \"allocation\": \"7, "
        "requeue 1\", \"spent\": {\"startup\": 1.500000, \"steps\": 0.000000, "
        "\"data\": 0.000000, \"saving\": 0.062500, \"evaluation\": "
        "0.000000}}\n");
    free(text);
}

static void numbers_of_ranks_are_arrays(void **state)
{
    static const double compute[] = {0.5, NAN};
    (void)state;
    struct dt_report *report = create(0);
    dt_report_ranks(report, &(struct dt_report_ranks){
                                .step = 7, .count = 2, .compute_s = compute});
    dt_report_destroy(report);
    char *text = read_beside("ranks.jsonl");
    erase_wall(text);
    assert_string_equal(text, "{\"step\": 7, \"wall\": , \"compute_s\": [0.5, "
                              "null], \"comm_s\": null, \"data_wait_s\": "
                              "null, \"mem\": null, \"power_w\": null}\n");
    free(text);
}

/* --- a sink that fails when its disk is full --- */

static struct {
    int records, events, closed;
} sunk;

static struct dt_sink *sink_open(const struct dt_sink_options *options,
                                 struct dt_error *err)
{
    if (options->first_step == 0)
        return (struct dt_sink *)&sunk;
    dt_error_set(err, EX_CANTCREAT, "/full: cannot create");
    return NULL;
}

static int sink_record(struct dt_sink *sink,
                       const struct dt_report_record *record,
                       struct dt_error *err)
{
    (void)sink;
    sunk.records++;
    return record->step < 2 ? 0
                            : dt_error_set(err, EX_IOERR, "/full: no space");
}

static int sink_event(struct dt_sink *sink, const struct dt_report_event *event,
                      struct dt_error *err)
{
    (void)sink;
    (void)err;
    sunk.events++;
    assert_string_equal(event->kind, "save");
    return 0;
}

static void sink_close(struct dt_sink *sink)
{
    (void)sink;
    sunk.closed++;
}

static const struct dt_sink_type failing = {.name = "failing",
                                            .open = sink_open,
                                            .record = sink_record,
                                            .event = sink_event,
                                            .close = sink_close};

static void write_to_sink(void)
{
    struct dt_report *report = create(0);
    dt_report_add_sink(report, &failing, &(struct dt_sink_options){0});
    dt_report_add_sink(report, &failing,
                       &(struct dt_sink_options){.first_step = 1});
    send_event(report, "save", 0);
    for (long n = 1; n <= 5; n++)
        dt_report_step(report, &(struct dt_report_step){.step = n});
    send_event(report, "save", 5);
    dt_report_destroy(report);
}

/* What the sinks' run says; free it. */
static char *said_by_sinks(void)
{
    const char *path = scratch_write("said", "", 0);
    int saved = dup(STDERR_FILENO);
    assert_non_null(freopen(path, "w", stderr));
    write_to_sink();
    fflush(stderr);
    assert_int_equal(dup2(saved, STDERR_FILENO), STDERR_FILENO);
    close(saved);
    return dt_file_read(path, 4096, NULL);
}

static void a_sink_that_fails_is_one_warning(void **state)
{
    (void)state;
    char *said = said_by_sinks(), *text;
    const char *opened = strstr(said, "failing: /full: cannot create; the run "
                                      "continues without it\n");
    const char *full = strstr(said, "failing: /full: no space; nothing more "
                                    "is written there, and the run continues");
    assert_non_null(opened);
    assert_non_null(full);
    assert_null(strchr(strchr(full, '\n') + 1, '\n'));
    assert_int_equal(sunk.records, 2);
    assert_int_equal(sunk.events, 1);
    assert_int_equal(sunk.closed, 1);
    text = read_beside("metrics.jsonl");
    assert_non_null(strstr(text, "{\"step\": 5,"));
    free(text);
    free(said);
}

/* --- a disk that does not answer --- */

static struct {
    pthread_mutex_t lock;
    pthread_cond_t thawed;
    bool frozen;
} disk = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false};

static int frozen_record(struct dt_sink *sink,
                         const struct dt_report_record *record,
                         struct dt_error *err)
{
    (void)sink;
    (void)record;
    (void)err;
    pthread_mutex_lock(&disk.lock);
    while (disk.frozen)
        pthread_cond_wait(&disk.thawed, &disk.lock);
    pthread_mutex_unlock(&disk.lock);
    return 0;
}

static const struct dt_sink_type freezing = {.name = "freezing",
                                             .open = sink_open,
                                             .record = frozen_record,
                                             .close = sink_close};

static void set_frozen(bool frozen)
{
    pthread_mutex_lock(&disk.lock);
    disk.frozen = frozen;
    pthread_cond_broadcast(&disk.thawed);
    pthread_mutex_unlock(&disk.lock);
}

/* What a run says whose disk does not answer from its second step to its fifth.
 */
static void freeze_disk(char *said, size_t bytes)
{
    struct dt_report *report = create(0);
    struct dt_error err;
    struct stderr_text log = stderr_text_begin();
    dt_report_add_sink(report, &freezing, &(struct dt_sink_options){0});
    dt_report_step(report, &(struct dt_report_step){.step = 1});
    set_frozen(true);
    for (long n = 2; n <= 5; n++)
        dt_report_step(report, &(struct dt_report_step){.step = n});
    dt_report_event(report, &(struct dt_report_event){.kind = "save"});
    assert_int_equal(dt_report_sync(report, &err), -1);
    set_frozen(false);
    assert_int_equal(dt_report_sync(report, &err), 0);
    dt_report_step(report, &(struct dt_report_step){.step = 6});
    dt_report_destroy(report);
    stderr_text_end(&log, said, bytes);
}

static void steps_go_on_while_the_disk_does_not_answer(void **state)
{
    char said[1024];
    const char *warning;
    long steps = 0;
    (void)state;
    freeze_disk(said, sizeof(said));
    warning = strstr(said, ": the disk has not answered for 2 s; the run "
                           "continues, and what it records waits in memory\n");
    assert_non_null(warning);
    assert_non_null(
        strstr(warning, ": the disk answers again; 0 records are lost\n"));
    char *text = read_beside("metrics.jsonl");
    for (const char *line = text; *line; line = strchr(line, '\n') + 1)
        assert_int_equal(strtol(line + strlen("{\"step\": "), NULL, 10),
                         ++steps);
    assert_int_equal(steps, 6);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(events_of_all_starts_are_kept_in_order),
        cmocka_unit_test(events_tell_what_their_process_has_spent),
        cmocka_unit_test(numbers_of_ranks_are_arrays),
        cmocka_unit_test(a_sink_that_fails_is_one_warning),
        cmocka_unit_test(steps_go_on_while_the_disk_does_not_answer),
    };
    return cmocka_run_group_tests_name("record", tests, NULL, NULL);
}
