/* SPDX-License-Identifier: Apache-2.0 */
/* find.c - finds the status.json of runs */
#include "config.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/child.h"
#include "base/file.h"
#include "top/top.h"
#include "top/top_impl.h"

enum {
    ASK_MS = 10000,
    ANSWER_BYTES = 64 * 1024,
    STATUS_BYTES = 1024 * 1024, /* of a file; a run writes 64 KiB */
    DEPTH = 4,                  /* of directories below the one to search */
    ENTRIES = 20000,            /* of directories that are examined */
};

#define STATUS "status.json"

struct search {
    struct dt_top_found *found;
    const char *job; /* the run must belong to it; NULL: any */
    long left;       /* entries that may still be examined */
};

void dt_top_found_fini(struct dt_top_found *found)
{
    for (size_t i = 0; i < found->count; i++)
        free(found->path[i]);
    *found = (struct dt_top_found){0};
}

int dt_top_read(const char *path, struct dt_live_state *state,
                struct dt_error *err)
{
    char *text = dt_file_read(path, STATUS_BYTES, err);
    int rc = text ? dt_live_parse_status(state, path, text, err) : -1;
    free(text);
    return rc;
}

/* Whether the run of the file belongs to a job; "123" means any of its steps.
 */
static bool is_of_job(const char *path, const char *job)
{
    struct dt_error err;
    struct dt_live_state *state = calloc(1, sizeof(*state));
    size_t len = strlen(job);
    bool is = state && dt_top_read(path, state, &err) == 0 &&
              strncmp(state->job, job, len) == 0 &&
              (state->job[len] == '\0' || state->job[len] == '.');
    free(state);
    return is;
}

static bool is_file(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

/* Adds the file if it exists and is wanted. */
static void add_file(struct search *search, const char *path)
{
    struct dt_top_found *found = search->found;
    if (!is_file(path) || (search->job && !is_of_job(path, search->job)))
        return;
    if (found->count == DT_TOP_RUNS)
        found->left_out++;
    else if ((found->path[found->count] = strdup(path)))
        found->count++;
}

/* Directories that hold no runs and may be large. */
static bool is_skipped(const char *name)
{
    return name[0] == '.' || strcmp(name, "checkpoints") == 0;
}

static void search_dir(struct search *search, const char *dir, int depth)
{
    char path[PATH_MAX];
    struct dirent **list = NULL;
    int n = snprintf(path, sizeof(path), "%s/" STATUS, dir);
    if (n < 0 || (size_t)n >= sizeof(path))
        return;
    add_file(search, path);
    int count = depth > 0 ? scandir(dir, &list, NULL, alphasort) : 0;
    for (int i = 0; i < count; i++) {
        bool may_be =
            list[i]->d_type == DT_DIR || list[i]->d_type == DT_UNKNOWN;
        n = snprintf(path, sizeof(path), "%s/%s", dir, list[i]->d_name);
        if (may_be && !is_skipped(list[i]->d_name) && search->left-- > 0 &&
            n > 0 && (size_t)n < sizeof(path))
            search_dir(search, path, depth - 1);
        free(list[i]);
    }
    free(list);
}

/* Runs a command of Slurm. Returns its output, or NULL; free() it. */
static char *ask_slurm(char *const argv[])
{
    char *text = calloc(1, ANSWER_BYTES);
    if (text && dt_child_ask(argv, ASK_MS, text, ANSWER_BYTES, NULL) == 0)
        return text;
    free(text);
    return NULL;
}

/* Finds the directory where the job was submitted; "" if Slurm does not know.
 */
static void find_work_dir(const char *job, char dir[PATH_MAX])
{
    static const char key[] = "WorkDir=";
    char id[32];
    snprintf(id, sizeof(id), "%.*s", (int)strcspn(job, "."), job);
    char *const now[] = {"scontrol", "show", "job", id, NULL};
    char *const past[] = {"sacct", "-n", "-P",      "-X", "-j",
                          id,      "-o", "WorkDir", NULL};
    char *text = ask_slurm(now);
    const char *at = text ? strstr(text, key) : NULL;
    if (at) {
        at += sizeof(key) - 1;
    } else {
        free(text);
        at = text = ask_slurm(past);
    }
    snprintf(dir, PATH_MAX, "%.*s", at ? (int)strcspn(at, "\n") : 0,
             at ? at : "");
    free(text);
}

static int find_job(const char *job, struct dt_top_found *found,
                    struct dt_error *err)
{
    char dir[PATH_MAX];
    find_work_dir(job, dir);
    struct search search = {found, job, ENTRIES};
    if (dir[0])
        search_dir(&search, dir, DEPTH);
    if (found->count == 0)
        search_dir(&search, ".", DEPTH);
    if (found->count > 0)
        return 0;
    if (!dir[0])
        return dt_error_set(err, EX_NOINPUT,
                            "job %s: Slurm does not know it, and nothing of it "
                            "is below this directory: name the run's output "
                            "directory",
                            job);
    return dt_error_set(err, EX_NOINPUT,
                        "job %s: no " STATUS " of it below %s, where it was "
                        "submitted: it has not begun to train, or its "
                        "run.output_dir is elsewhere: name that directory",
                        job, dir);
}

/* Tries the running jobs of the user, newest first, each with its directory. */
static int find_newest(struct dt_top_found *found, struct dt_error *err)
{
    char *const argv[] = {"squeue",     "--me", "--noheader",
                          "--states=R", "-S-S", "--format=%A %Z",
                          NULL};
    char *text = ask_slurm(argv);
    char *rest = text, *line;
    while (found->count == 0 && (line = strsep(&rest, "\n"))) {
        char *dir = strchr(line, ' ');
        if (!dir)
            continue;
        *dir++ = '\0';
        struct search search = {found, line, ENTRIES};
        search_dir(&search, dir, DEPTH);
    }
    free(text);
    struct search here = {found, NULL, ENTRIES};
    if (found->count == 0)
        search_dir(&here, ".", DEPTH);
    if (found->count == 0)
        return dt_error_set(
            err, EX_NOINPUT,
            "no run: none of your jobs in the queue has a " STATUS
            " below the directory where it was "
            "submitted, nor is there one below this "
            "directory; name a run's output directory or a "
            "job");
    return 0;
}

static bool is_job(const char *text)
{
    size_t digits = strspn(text, "0123456789");
    return digits > 0 && strspn(text, "0123456789.") == strlen(text);
}

int dt_top_find(const char *asked, struct dt_top_found *found,
                struct dt_error *err)
{
    char path[PATH_MAX];
    struct stat st;
    *found = (struct dt_top_found){0};
    if (!asked)
        return find_newest(found, err);
    struct search search = {found, NULL, ENTRIES};
    if (stat(asked, &st) < 0) {
        if (is_job(asked))
            return find_job(asked, found, err);
        return dt_error_set(err, EX_NOINPUT,
                            "%s: %s; expected a run's output directory, a "
                            "directory of runs, or the number of a job",
                            asked, strerror(errno));
    }
    snprintf(path, sizeof(path), "%.*s/logs/" STATUS, PATH_MAX - 32, asked);
    if (!S_ISDIR(st.st_mode))
        add_file(&search, asked);
    else if (is_file(path))
        add_file(&search, path);
    else
        search_dir(&search, asked, DEPTH);
    if (found->count == 0)
        return dt_error_set(err, EX_NOINPUT,
                            "%s: no " STATUS " in it: no run has begun to "
                            "train there, or it was made with "
                            "logging.report_to: none",
                            asked);
    return 0;
}

void dt_top_ask(const char *job, char *text, size_t size)
{
    char id[32], state[64] = "";
    snprintf(id, sizeof(id), "%.*s", (int)strcspn(job, "."), job);
    if (!is_job(id)) {
        snprintf(text, size, "it runs without Slurm");
        return;
    }
    char *const argv[] = {"squeue", "--noheader", "--states=all",
                          "--jobs", id,           "--format=%A %T",
                          NULL};
    char *answer = ask_slurm(argv), *rest = answer, *line;
    while ((line = strsep(&rest, "\n")) != NULL) /* of an array, all jobs */
        if (strncmp(line, id, strlen(id)) == 0 && line[strlen(id)] == ' ')
            snprintf(state, sizeof(state), "%s", line + strlen(id) + 1);
    if (!answer)
        snprintf(text, size, "squeue knows no job %s", id);
    else
        snprintf(text, size, "squeue: job %s is %s", id,
                 state[0] ? state : "no longer there");
    free(answer);
}
