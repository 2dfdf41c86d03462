/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_console_recorded.c - the console reports what srun of each release says
 *
 * tests/console/SLURM-CASE.txt has a title, the settings of the console as the
 * plugin writes them, "--- srun", what srun printed on stderr, "--- console"
 * and the lines that the console adds. A line of srun comes at the time of the
 * last record, or at the SECONDS.mmm of a line "@SECONDS.mmm" before it.
 */
#include "config.h"

#include <dirent.h>
#include <limits.h>
#include <math.h>
#include <sys/stat.h>

#include "base/file.h"
#include "console/console_impl.h"
#include "tests/unit/console/outcome.h"

enum { FILES_MIN = 16, MESSAGES_MAX = 64 };

static bool used[MESSAGES_MAX]; /* rows of dt_messages that a file has */

/* Returns what follows the line `title` in the text, which it ends there. */
static char *cut(char *text, const char *title)
{
    char *found = strstr(text, title);
    assert_non_null(found);
    *found = '\0';
    return found + strlen(title);
}

static void take_line(struct dt_console_step *s, const char *line, int64_t *now,
                      FILE *out)
{
    struct dt_console_event event;
    uint32_t rank = DT_NO_RANK;
    bool labels = s->labels == DT_LABELS_STRIP;
    size_t len = strlen(line);
    size_t label = labels ? dt_label_parse(line, len, s->tasks, &rank) : 0;
    dt_console_event_parse(line + label, len - label, &s->identity,
                           !labels     ? DT_ORIGIN_UNKNOWN
                           : label > 0 ? DT_ORIGIN_TASK
                                       : DT_ORIGIN_SRUN,
                           &event);
    *now = event.ms > 0 ? event.ms : *now;
    if (event.message)
        used[event.message - dt_messages] = true;
    dt_message_note(s->outcome, &event, rank, *now);
    dt_console_event_tell(&event, s->outcome, out);
    if (!event.from_slurm && !event.message)
        dt_outcome_text(s->outcome, rank, true, line + label, len - label,
                        *now);
}

/* Returns what the console adds to the output of srun, for the caller to free.
 */
static char *replay(char *settings, char *srun)
{
    struct dt_error err;
    struct dt_console_step s = {.tasks = 0};
    char *text = NULL;
    size_t bytes;
    int64_t now = 100000;
    FILE *in = fmemopen(settings, strlen(settings), "r");
    FILE *out = open_memstream(&text, &bytes);
    assert_int_equal(dt_console_step_read(&s, in, now, &err), 0);
    fclose(in);
    for (char *end; (end = strchr(srun, '\n')); srun = end + 1) {
        char line[1024];
        snprintf(line, sizeof(line), "%.*s", (int)(end + 1 - srun), srun);
        if (line[0] == '@')
            now = (int64_t)round(atof(line + 1) * 1000);
        else
            take_line(&s, line, &now, out);
    }
    dt_outcome_report(s.outcome, out);
    fclose(out);
    dt_outcome_destroy(s.outcome);
    return text;
}

static void what_srun_of_each_release_says_is_reported(void **state)
{
    struct dt_error err;
    char path[PATH_MAX];
    struct dirent *entry;
    int files = 0;
    const char *root = getenv("srcdir"); /* set by automake's harness */
    snprintf(path, sizeof(path), "%s/tests/console", root ? root : ".");
    DIR *dir = opendir(path);
    (void)state;
    assert_non_null(dir);
    while ((entry = readdir(dir))) {
        if (!strstr(entry->d_name, ".txt"))
            continue;
        snprintf(path, sizeof(path), "%s/tests/console/%.200s",
                 root ? root : ".", entry->d_name);
        char *text = dt_file_read(path, 1 << 20, &err);
        assert_non_null(text);
        char *settings = cut(text, "\n");
        char *srun = cut(settings, "--- srun\n");
        char *want = cut(srun, "--- console\n");
        char *got = replay(settings, srun);
        if (strcmp(got, want) != 0)
            fail_msg("%s: expected\n%sgot\n%s", entry->d_name, want, got);
        free(got);
        free(text);
        files++;
    }
    closedir(dir);
    assert_true(files >= FILES_MIN);
}

static void each_message_but_progress_is_in_a_file(void **state)
{
    (void)state;
    for (int i = 0; dt_messages[i].pattern; i++)
        if (!used[i] && dt_messages[i].origin != DT_FROM_RUNTIME)
            fail_msg("tests/console has no \"%s\"", dt_messages[i].pattern);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_srun_of_each_release_says_is_reported),
        cmocka_unit_test(each_message_but_progress_is_in_a_file),
    };
    return cmocka_run_group_tests_name("recorded", tests, NULL, NULL);
}
