/* SPDX-License-Identifier: Apache-2.0 */
/* doctor_gather.c - finds the nodes, starts the probes and collects their notes
 */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/child.h"
#include "base/clock.h"
#include "base/job_id.h"
#include "base/proc.h"
#include "doctor/doctor_impl.h"

/* --- the nodes --- */

enum {
    ASK_MS = 5000,
    TEXT_BYTES = 1024 * 1024,
};

static int keep_string(char **to, const char *text, struct dt_error *err)
{
    *to = strdup(text);
    return *to ? 0 : dt_error_set(err, EX_OSERR, "out of memory");
}

/* Returns the nodes of the step if this is one, otherwise those of the job. The
 * numbers of batch, interactive and extern steps are higher than any other.
 */
static const char *own_nodes(void)
{
    const char *step = getenv("SLURM_STEP_ID");
    const char *nodes = getenv("SLURM_STEP_NODELIST");
    if (step && nodes && strtoul(step, NULL, 10) < 0xfffffff0)
        return nodes;
    return getenv("SLURM_JOB_NODELIST");
}

/* Runs a program of Slurm and stores its output. */
static int ask_slurm(char *const argv[], char *text, struct dt_error *err)
{
    int status = dt_child_ask(argv, ASK_MS, text, TEXT_BYTES, err);
    if (status > 0)
        dt_error_set(err, EX_UNAVAILABLE, "%s: exit status %d", argv[0],
                     status);
    else if (status < 0)
        dt_error_prefix(err, "the nodes of a job are examined with Slurm's "
                             "own programs, outside of a container");
    return status == 0 ? 0 : -1;
}

/* Stores the nodes of a job or a step as Slurm writes them, n[1-4]. */
static int ask_nodes(const char *job, char *text, struct dt_error *err)
{
    char which[DT_JOB_ID_BYTES + 32], id[DT_JOB_ID_BYTES];
    const char *step = strchr(job, '.');
    char *const argv[] = {"squeue", "--noheader", "--format=%N", which, NULL};
    dt_job_id(job, id);
    snprintf(which, sizeof(which), "--%s=%s%.16s", step ? "steps" : "jobs", id,
             step ? step : "");
    if (ask_slurm(argv, text, err) < 0)
        return -1;
    text[strcspn(text, "\n")] = '\0';
    if (text[0] == '\0')
        return dt_error_set(err, EX_UNAVAILABLE, "job %s has no nodes", job);
    return 0;
}

/* Fills job, list, and text with the names, one per line. */
static int find_nodes(struct dt_doctor_world *world, const char *job,
                      struct dt_error *err)
{
    const char *own = getenv("SLURM_JOB_ID");
    char *argv[] = {"scontrol", "show", "hostnames", NULL, NULL};
    if (!job && (!own || !own_nodes())) {
        gethostname(world->text, HOST_NAME_MAX);
        return 0;
    }
    if (keep_string(&world->job, job ? job : own, err) < 0)
        return -1;
    if (job && ask_nodes(job, world->text, err) < 0)
        return -1;
    if (keep_string(&world->list, job ? world->text : own_nodes(), err) < 0)
        return -1;
    world->job[strcspn(world->job, ".")] = '\0';
    argv[3] = world->list;
    return ask_slurm(argv, world->text, err);
}

static bool has_line(const char *text, const char *line)
{
    const size_t len = strlen(line);
    while (text && !(strcspn(text, "\n") == len && !strncmp(text, line, len)))
        text = strchr(text, '\n') ? strchr(text, '\n') + 1 : NULL;
    return text != NULL;
}

/* Keeps the names that are lines of text, and lists the others. */
static int part_names(struct dt_doctor_world *world, const char *text,
                      struct dt_error *err)
{
    const size_t all = world->count;
    char *list = NULL;
    size_t bytes[2];
    FILE *kept = open_memstream(&list, &bytes[0]);
    FILE *lost = open_memstream(&world->lost, &bytes[1]);
    bool good = kept && lost;
    world->count = 0;
    for (size_t i = 0; good && i < all; i++) {
        char *name = world->names[i];
        const bool has = has_line(text, name);
        const size_t before = has ? world->count : i - world->count;
        fprintf(has ? kept : lost, "%s%s", before > 0 ? "," : "", name);
        if (has)
            world->names[world->count++] = name;
    }
    good &= kept && fclose(kept) == 0;
    good &= lost && fclose(lost) == 0;
    if (good && world->count < all) {
        free(world->list);
        world->list = list;
        list = NULL;
    }
    free(list);
    return good ? 0 : dt_error_set(err, EX_OSERR, "out of memory");
}

/* Leaves out the nodes that the job has no more. Slurm goes on listing them as
 * those of the step, and refuses to start anything where one is asked for.
 * Where it does not answer, all are asked.
 */
static int leave_lost(struct dt_doctor_world *world, struct dt_error *err)
{
    char *argv[] = {"scontrol", "show", "hostnames", NULL, NULL};
    char *text = calloc(1, TEXT_BYTES), *list = NULL;
    int rc = text ? 0 : dt_error_set(err, EX_OSERR, "out of memory");
    if (rc == 0 && ask_nodes(world->job, text, NULL) == 0 &&
        (list = argv[3] = strdup(text)) && ask_slurm(argv, text, NULL) == 0)
        rc = part_names(world, text, err);
    free(list);
    free(text);
    return rc;
}

int dt_doctor_world_init(struct dt_doctor_world *world, const char *job,
                         struct dt_error *err)
{
    *world = (struct dt_doctor_world){.text = calloc(1, TEXT_BYTES)};
    if (!world->text)
        return dt_error_set(err, EX_OSERR, "out of memory");
    if (find_nodes(world, job, err) < 0)
        return -1;
    size_t lines = 1;
    for (const char *c = world->text; *c; c++)
        lines += *c == '\n';
    world->names = calloc(lines, sizeof(*world->names));
    if (!world->names)
        return dt_error_set(err, EX_OSERR, "out of memory");
    char *rest = world->text;
    for (char *name; (name = strsep(&rest, "\n")) != NULL;)
        if (name[0])
            world->names[world->count++] = name;
    const bool whole = !world->job || (job && !strchr(job, '.'));
    if (!whole && leave_lost(world, err) < 0)
        return -1;
    if (world->count == 0)
        return dt_error_set(err, EX_UNAVAILABLE, "%s: no nodes", world->list);
    return 0;
}

void dt_doctor_world_fini(struct dt_doctor_world *world)
{
    free(world->job);
    free(world->list);
    free(world->lost);
    free(world->text);
    free(world->names);
}

static void add_word(struct dt_doctor_probes *probes, const char *word)
{
    char **end = probes->argv;
    while (*end)
        end++;
    *end = (char *)word;
}

int dt_doctor_probes_init(struct dt_doctor_probes *probes, const char *job,
                          const char *list, size_t count, const char *step,
                          struct dt_error *err)
{
    static const char *const always[] = {
        "--ntasks-per-node=1",  "--overlap", "--mpi=none", "--quiet",
        "--kill-on-bad-exit=0",
    };
    *probes = (struct dt_doctor_probes){.argv = {NULL}};
    if (dt_proc_path(probes->self) < 0)
        return dt_error_set(err, EX_OSERR, DT_PROC_SELF ": %s",
                            strerror(errno));
    snprintf(probes->job, sizeof(probes->job), "--jobid=%s", job ? job : "");
    snprintf(probes->nodes, sizeof(probes->nodes), "--nodes=%zu", count);
    snprintf(probes->tasks, sizeof(probes->tasks), "--ntasks=%zu", count);
    snprintf(probes->step, sizeof(probes->step), "--job=%s", step ? step : "");
    if (job) {
        const char *const where[] = {"srun", probes->job,   "--nodelist",
                                     list,   probes->nodes, probes->tasks};
        for (size_t i = 0; i < sizeof(where) / sizeof(*where); i++)
            add_word(probes, where[i]);
        for (size_t i = 0; i < sizeof(always) / sizeof(*always); i++)
            add_word(probes, always[i]);
    }
    add_word(probes, probes->self);
    add_word(probes, "doctor");
    add_word(probes, "--probe");
    if (step) {
        add_word(probes, "--ranks");
        add_word(probes, probes->step);
    }
    return 0;
}

/* --- the probes --- */

/* A job may have to wait for its first step, and large steps take longer to
 * start. CHECKS_S is longer than the probes' own deadlines together.
 */
#define FIRST_S 20.0
#define OTHERS_S 3.0
#define OTHERS_S_PER_NODE 0.01
#define GO_S 5.0
#define CHECKS_S 8.0

enum {
    LEAVE_MS = 2000,
    LINE_BYTES = 4096,
};

struct gathering {
    struct dt_doctor_report *report;
    struct dt_child child;
    char line[LINE_BYTES];
    size_t used;
};

/* Handles the output of the probes, line by line. False: they have ended, or
 * the deadline has passed.
 */
static bool read_lines(struct gathering *g, double deadline)
{
    struct pollfd p = {.fd = g->child.out, .events = POLLIN};
    double left = deadline - dt_clock_now();
    if (left <= 0)
        return false;
    if (poll(&p, 1, (int)(left * 1e3) + 1) < 0)
        return errno == EINTR;
    if (p.revents == 0)
        return false;
    ssize_t n =
        read(g->child.out, g->line + g->used, sizeof(g->line) - 1 - g->used);
    if (n <= 0)
        return n < 0 && errno == EINTR;
    g->used += (size_t)n;
    g->line[g->used] = '\0';
    char *rest = g->line;
    for (char *end; (end = strchr(rest, '\n')) != NULL; rest = end + 1) {
        *end = '\0';
        dt_doctor_report_line(g->report, rest);
    }
    g->used = strlen(rest);
    if (g->used == sizeof(g->line) - 1)
        g->used = 0; /* no probe writes such a long line */
    memmove(g->line, rest, g->used);
    return true;
}

/* Waits for the hello of each probe. False: one is missing. */
static bool read_hellos(struct gathering *g, size_t all)
{
    double deadline = dt_clock_now() + FIRST_S;
    while (dt_doctor_report_present(g->report) == 0)
        if (!read_lines(g, deadline))
            return false;
    deadline = dt_clock_now() + OTHERS_S + OTHERS_S_PER_NODE * (double)all;
    while (dt_doctor_report_present(g->report) < all)
        if (!read_lines(g, deadline))
            return false;
    return true;
}

/* Writes text before the deadline: srun reads no more than it can pass on, and
 * may hang.
 */
static bool write_by(int fd, const char *text, size_t left, double deadline)
{
    fcntl(fd, F_SETFL, O_NONBLOCK);
    while (left > 0) {
        struct pollfd p = {.fd = fd, .events = POLLOUT};
        double wait_s = deadline - dt_clock_now();
        if (wait_s <= 0 || poll(&p, 1, (int)(wait_s * 1e3) + 1) == 0)
            return false;
        ssize_t n = write(fd, text, left);
        if (n < 0 && errno != EAGAIN && errno != EINTR)
            return false;
        text += n > 0 ? n : 0;
        left -= n > 0 ? (size_t)n : 0;
    }
    return true;
}

/* Sends each probe the list of all probes, then "go". */
static bool send_go(const struct gathering *g)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *in = open_memstream(&text, &bytes);
    if (!in)
        return false;
    for (size_t i = 0; i < g->report->node_count; i++) {
        const struct dt_doctor_node *node = &g->report->nodes[i];
        if (node->address)
            fprintf(in, "%zu %s %s %u\n", i, node->name, node->address,
                    node->port);
    }
    fputs("go\n", in);
    bool said = fclose(in) == 0 &&
                write_by(g->child.in, text, bytes, dt_clock_now() + GO_S);
    free(text);
    return said;
}

int dt_doctor_gather(struct dt_doctor_report *report, size_t count,
                     char *const argv[], struct dt_error *err)
{
    struct gathering g = {.report = report};
    if (dt_child_start(&g.child, argv, err) < 0)
        return -1;
    if (read_hellos(&g, count) && send_go(&g)) {
        double deadline = dt_clock_now() + CHECKS_S;
        while (dt_doctor_report_done(report) < count &&
               read_lines(&g, deadline))
            continue;
    }
    bool complete = dt_doctor_report_done(report) == count;
    dt_child_wait(&g.child, complete ? LEAVE_MS : 0, NULL);
    return 0;
}
