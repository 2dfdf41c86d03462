/* SPDX-License-Identifier: Apache-2.0 */
/* rank_states.c - finds the states of the ranks of a step on a node, and prints
 * those of all nodes
 */
#include "config.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/child.h"
#include "base/clock.h"
#include "base/epoch.h"
#include "base/proc.h"
#include "base/rankset.h"
#include "doctor/doctor_impl.h"

/* --- on a node --- */

#define INTERVAL_S 0.5
#define STACKS_S 5.0 /* for the stacks of all ranks together */

enum {
    STACK_MS = 3000,
    STACK_BYTES = 64 * 1024,
    FRAMES = 3,
    COMMAND_BYTES = 100,
    STATE_BYTES = 1024,
    BUSY_PERCENT = 10, /* threads that only wait use less */
    LIFE_S = 15,
};

struct dt_doctor_process {
    uint32_t rank;
    int pid;
    struct dt_proc_stat stat;
};

/* Reads the rank and the number of ranks: those of the task, or what its keeper
 * has made of them. Returns whether the process is a task of the step or was
 * started by one.
 */
static bool read_environment(struct dt_doctor_process *p, const char *root,
                             const char *step, uint32_t *tasks)
{
    FILE *file = dt_doctor_open(root, "/proc/%d/environ", p->pid);
    char *entry = NULL;
    size_t size = 0;
    char job[32] = "";
    char number[32] = "";
    char own[72];
    uint32_t kept_rank, kept_tasks = 0;
    bool has_rank = false;
    while (file && getdelim(&entry, &size, '\0', file) > 0) {
        if (sscanf(entry, "SLURM_PROCID=%" SCNu32, &p->rank) == 1)
            has_rank = true;
        sscanf(entry, DT_EPOCH_ENV "=%*s %*s %" SCNu32 " %" SCNu32, &kept_rank,
               &kept_tasks);
        sscanf(entry, "SLURM_JOB_ID=%31s", job);
        sscanf(entry, "SLURM_STEP_ID=%31s", number);
        sscanf(entry, "SLURM_STEP_NUM_TASKS=%" SCNu32, tasks);
    }
    free(entry);
    if (file)
        fclose(file);
    if (kept_tasks > 0) {
        p->rank = kept_rank;
        *tasks = kept_tasks;
    }
    snprintf(own, sizeof(own), "%s.%s", job, number);
    return has_rank && strcmp(own, step) == 0;
}

static bool add_process(struct dt_doctor_ranks *ranks,
                        const struct dt_doctor_process *p)
{
    if (ranks->count == ranks->size) {
        size_t size = ranks->size ? 2 * ranks->size : 64;
        void *list = reallocarray(ranks->list, size, sizeof(*p));
        if (!list)
            return false;
        ranks->list = list;
        ranks->size = size;
    }
    ranks->list[ranks->count++] = *p;
    return true;
}

static int by_rank(const void *a, const void *b)
{
    const struct dt_doctor_process *p = a;
    const struct dt_doctor_process *q = b;
    if (p->rank != q->rank)
        return p->rank < q->rank ? -1 : 1;
    if (p->stat.start_ticks != q->stat.start_ticks)
        return p->stat.start_ticks < q->stat.start_ticks ? -1 : 1;
    return p->pid - q->pid;
}

void dt_doctor_ranks_look(struct dt_doctor_ranks *ranks, const char *root,
                          uid_t uid, const char *step)
{
    DIR *dir = dt_doctor_opendir(root, "/proc");
    for (int pid; dir && (pid = dt_proc_next(dir, uid)) != 0;) {
        struct dt_doctor_process p = {.pid = pid};
        uint32_t tasks = 0;
        if (read_environment(&p, root, step, &tasks) &&
            dt_proc_stat(&p.stat, root, pid) &&
            strcmp(p.stat.name, DT_PROC_KEEPER) != 0 && add_process(ranks, &p))
            ranks->tasks = tasks;
    }
    if (dir)
        closedir(dir);
    if (ranks->count > 0)
        qsort(ranks->list, ranks->count, sizeof(*ranks->list), by_rank);
}

void dt_doctor_ranks_fini(struct dt_doctor_ranks *ranks)
{
    free(ranks->list);
    *ranks = (struct dt_doctor_ranks){0};
}

static const struct dt_doctor_process *find_process(
    const struct dt_doctor_ranks *ranks, int pid)
{
    for (size_t i = 0; i < ranks->count; i++)
        if (ranks->list[i].pid == pid)
            return &ranks->list[i];
    return NULL;
}

/* Whether a program only waits for another one that it has started. */
static bool is_wrapper(const char *name)
{
    static const char *const wrappers[] = {
        "sh", "bash", "dash", "ksh", "zsh", "timeout", "time", "env", "xargs"};
    for (size_t i = 0; i < sizeof(wrappers) / sizeof(*wrappers); i++)
        if (strcmp(name, wrappers[i]) == 0)
            return true;
    return false;
}

/* Chooses the most informative process of a rank, of p[0..count): one that is
 * stopped or hangs in the kernel, or else the oldest that is not a wrapper.
 */
static const struct dt_doctor_process *choose_process(
    const struct dt_doctor_process *p, size_t count,
    const struct dt_doctor_ranks *before)
{
    for (size_t i = 0; i < count; i++) {
        const struct dt_doctor_process *old = find_process(before, p[i].pid);
        if (p[i].stat.state == 'T' || p[i].stat.state == 't' ||
            (p[i].stat.state == 'D' && old && old->stat.state == 'D'))
            return &p[i];
    }
    const struct dt_doctor_process *chosen = p;
    for (size_t i = 1; i < count && is_wrapper(chosen->stat.name); i++)
        if (p[i].stat.parent == chosen->pid)
            chosen = &p[i];
    return chosen;
}

static double cpu_percent(const struct dt_doctor_process *p, size_t count,
                          const struct dt_doctor_ranks *before, double seconds)
{
    double ticks = 0;
    for (size_t i = 0; i < count; i++) {
        const struct dt_doctor_process *old = find_process(before, p[i].pid);
        if (old && old->stat.cpu_ticks <= p[i].stat.cpu_ticks)
            ticks += (double)(p[i].stat.cpu_ticks - old->stat.cpu_ticks);
    }
    return 100 * ticks / (double)sysconf(_SC_CLK_TCK) / seconds;
}

static void describe_state(char *text, size_t size, const char *root,
                           const struct dt_doctor_process *p, double cpu)
{
    char where[128] = "";
    dt_doctor_read_line(where, sizeof(where), root, "/proc/%d/wchan", p->pid);
    bool known = where[0] && strcmp(where, "0") != 0;
    if (p->stat.state == 'T' || p->stat.state == 't')
        snprintf(text, size, "stopped (state %c)", p->stat.state);
    else if (p->stat.state == 'Z' || p->stat.state == 'X')
        snprintf(text, size, "has ended (state %c)", p->stat.state);
    else if (p->stat.state == 'D')
        snprintf(text, size, "waits in %s (state D)",
                 known ? where : "the kernel");
    else if (cpu >= BUSY_PERCENT || p->stat.state == 'R')
        snprintf(text, size, "busy (computes, or polls as in a collective)");
    else if (known)
        snprintf(text, size, "waits in %s", where);
    else
        snprintf(text, size, "sleeps");
}

/* Adds the innermost frames of a Python program, if py-spy is installed. */
static void add_frames(char *text, size_t size,
                       const struct dt_doctor_process *p, double deadline)
{
    char pid[16];
    char main_thread[32];
    char *const argv[] = {"py-spy", "dump", "--nonblocking",
                          "--pid",  pid,    NULL};
    double left_ms = 1e3 * (deadline - dt_clock_now());
    char *dump = calloc(1, STACK_BYTES);
    snprintf(pid, sizeof(pid), "%d", p->pid);
    snprintf(main_thread, sizeof(main_thread), "\nThread %d ", p->pid);
    if (dump && left_ms > 0 && strncmp(p->stat.name, "python", 6) == 0 &&
        dt_child_ask(argv, left_ms < STACK_MS ? (int)left_ms : STACK_MS, dump,
                     STACK_BYTES, NULL) == 0) {
        char *rest = strstr(dump, main_thread);
        const char *before = ", in";
        for (int i = 0; i < 2 && rest; i++)
            strsep(&rest, "\n");
        for (int i = 0; i < FRAMES && rest; i++) {
            const char *frame = strsep(&rest, "\n");
            size_t used = strlen(text);
            if (strncmp(frame, "    ", 4) != 0 || used >= size)
                break;
            snprintf(text + used, size - used, "%s %s", before, frame + 4);
            before = " <";
        }
    }
    free(dump);
}

/* Reads the command line, or the name of a process that has none. */
static void read_command(char text[COMMAND_BYTES], const char *root,
                         const struct dt_doctor_process *p)
{
    FILE *file = dt_doctor_open(root, "/proc/%d/cmdline", p->pid);
    size_t used = file ? fread(text, 1, COMMAND_BYTES - 1, file) : 0;
    if (file)
        fclose(file);
    while (used > 0 && text[used - 1] == '\0')
        used--;
    for (size_t i = 0; i < used; i++)
        if (!isprint((unsigned char)text[i]))
            text[i] = ' ';
    text[used] = '\0';
    if (used == 0)
        snprintf(text, COMMAND_BYTES, "%s", p->stat.name);
    /* without the directory of the program */
    size_t word = strcspn(text, " ");
    while (word > 0 && text[word - 1] != '/')
        word--;
    memmove(text, text + word, strlen(text + word) + 1);
}

void dt_doctor_ranks_print(const struct dt_doctor_ranks *before,
                           const struct dt_doctor_ranks *now, double seconds,
                           const char *root, const char *host, FILE *out)
{
    double deadline = dt_clock_now() + STACKS_S;
    for (size_t i = 0; i < now->count;) {
        const struct dt_doctor_process *first = &now->list[i];
        size_t count = 0;
        char state[STATE_BYTES];
        char command[COMMAND_BYTES];
        while (i < now->count && now->list[i].rank == first->rank) {
            i++;
            count++;
        }
        const struct dt_doctor_process *p =
            choose_process(first, count, before);
        double cpu = cpu_percent(first, count, before, seconds);
        describe_state(state, sizeof(state), root, p, cpu);
        add_frames(state, sizeof(state), p, deadline);
        read_command(command, root, p);
        fprintf(out, "rank %" PRIu32 " %" PRIu32 " %d %.0f %s\t%s\t%s\n",
                p->rank, now->tasks, p->pid, cpu, host, state, command);
    }
}

void dt_doctor_ranks_probe(const char *step)
{
    struct dt_doctor_ranks before = {0};
    struct dt_doctor_ranks now = {0};
    const char *name = getenv("SLURMD_NODENAME");
    char host[256] = "localhost";
    gethostname(host, sizeof(host) - 1);
    name = name ? name : host;
    alarm(LIFE_S);
    double begin = dt_clock_now();
    dt_doctor_ranks_look(&before, "", getuid(), step);
    dt_clock_sleep(INTERVAL_S);
    double seconds = dt_clock_now() - begin;
    dt_doctor_ranks_look(&now, "", getuid(), step);
    dt_doctor_ranks_print(&before, &now, seconds, "", name, stdout);
    printf("end %s\n", name);
    fflush(stdout);
    dt_doctor_ranks_fini(&before);
    dt_doctor_ranks_fini(&now);
}

/* --- of all nodes --- */

enum {
    ASK_MS = 20000,
    TEXT_BYTES = 16 * 1024 * 1024,
    KINDS_SHOWN = 16,
    HOSTS_SHOWN = 8,
};

struct rank {
    uint32_t rank;
    int pid, cpu;
    const char *host, *state, *command;
};

/* Ranks that are in the same state. */
struct kind {
    const struct rank *ranks;
    size_t count;
};

struct states {
    struct rank *ranks;
    size_t count;
    uint32_t tasks; /* 0: unknown */
    char *const *nodes;
    size_t node_count;
    bool *heard; /* whether each node has answered */
    size_t silent;
};

static void parse_rank(struct states *states, char *line)
{
    struct rank *r = &states->ranks[states->count];
    int used = 0;
    char *rest = line;
    char *host = strsep(&rest, "\t");
    if (sscanf(host, "rank %" SCNu32 " %" SCNu32 " %d %d %n", &r->rank,
               &states->tasks, &r->pid, &r->cpu, &used) != 4 ||
        used == 0)
        return;
    r->host = host + used;
    r->state = strsep(&rest, "\t");
    r->command = rest;
    if (r->command)
        states->count++;
}

static void parse_line(struct states *states, char *line)
{
    if (strncmp(line, "rank ", 5) == 0)
        parse_rank(states, line);
    for (size_t i = 0; strncmp(line, "end ", 4) == 0 && i < states->node_count;
         i++)
        if (!states->heard[i] && strcmp(states->nodes[i], line + 4) == 0) {
            states->heard[i] = true;
            states->silent--;
        }
}

static int by_state(const void *a, const void *b)
{
    const struct rank *p = a;
    const struct rank *q = b;
    int order = strcmp(p->state, q->state);
    if (order != 0)
        return order;
    return p->rank < q->rank ? -1 : p->rank > q->rank;
}

/* Orders kinds: ranks that cannot continue by themselves come before ranks that
 * may only be waiting for them.
 */
static int get_severity(const struct kind *kind)
{
    const char *state = kind->ranks->state;
    if (strncmp(state, "has ended", 9) == 0)
        return 0;
    if (strncmp(state, "stopped", 7) == 0)
        return 1;
    return strstr(state, "(state D)") ? 2 : 3;
}

/* On a tie in count, computing ranks come last: they are the least likely
 * cause.
 */
static int by_suspicion(const void *a, const void *b)
{
    const struct kind *p = a;
    const struct kind *q = b;
    if (get_severity(p) != get_severity(q))
        return get_severity(p) - get_severity(q);
    if (p->count != q->count)
        return p->count < q->count ? -1 : 1;
    int busy = (strncmp(p->ranks->state, "busy", 4) == 0) -
               (strncmp(q->ranks->state, "busy", 4) == 0);
    return busy != 0 ? busy : strcmp(q->ranks->state, p->ranks->state);
}

static void print_hosts(const struct kind *kind, FILE *out)
{
    const char *before = " on ";
    int shown = 0;
    for (size_t i = 0; i < kind->count; i++) {
        bool known = false;
        for (size_t k = 0; k < i && !known; k++)
            known = strcmp(kind->ranks[k].host, kind->ranks[i].host) == 0;
        if (known)
            continue;
        if (shown++ == HOSTS_SHOWN) {
            fputs(", ...", out);
            return;
        }
        fprintf(out, "%s%s", before, kind->ranks[i].host);
        before = ", ";
    }
}

static int print_kind(const struct kind *kind, uint32_t tasks, FILE *out,
                      struct dt_error *err)
{
    const struct rank *first = kind->ranks;
    int low = first->cpu;
    int high = first->cpu;
    bool same = true;
    struct dt_rankset set;
    if (dt_rankset_init(&set, tasks, err) != 0)
        return -1;
    for (size_t i = 0; i < kind->count; i++) {
        const struct rank *r = &first[i];
        low = r->cpu < low ? r->cpu : low;
        high = r->cpu > high ? r->cpu : high;
        same = same && strcmp(r->command, first->command) == 0;
        dt_rankset_add(&set, r->rank);
    }
    dt_rankset_print(&set, out);
    dt_rankset_fini(&set);
    print_hosts(kind, out);
    fprintf(out, ": %s, %d", first->state, low);
    if (high > low)
        fprintf(out, "-%d", high);
    fprintf(out, " %% of a CPU: %s%s", first->command, same ? "" : " ...");
    if (kind->count == 1)
        fprintf(out, " (pid %d)", first->pid);
    fputc('\n', out);
    return 0;
}

/* Finds the ranks that no probe has reported. -1: EX_OSERR. */
static int find_missing(const struct states *states, struct dt_rankset *set,
                        struct dt_error *err)
{
    if (dt_rankset_init(set, states->tasks, err) != 0)
        return -1;
    for (uint32_t rank = 0; rank < states->tasks; rank++)
        dt_rankset_add(set, rank);
    for (size_t i = 0; i < states->count; i++) {
        uint32_t rank = states->ranks[i].rank;
        if (rank < set->size && set->has[rank]) {
            set->has[rank] = false;
            set->count--;
        }
    }
    return 0;
}

/* Ranks of a node that does not answer may still run. */
static void print_missing(const struct states *states,
                          const struct dt_rankset *missing, FILE *out)
{
    dt_rankset_print(missing, out);
    fputs(states->silent > 0 ? ": unknown, or no longer running\n"
                             : ": no longer running\n",
          out);
}

static int print_kinds(struct states *states, FILE *out, struct dt_error *err)
{
    struct kind *kinds = calloc(states->count + 1, sizeof(*kinds));
    size_t count = 0;
    int rc = 0;
    if (!kinds)
        return dt_error_set(err, EX_OSERR, "out of memory");
    qsort(states->ranks, states->count, sizeof(*states->ranks), by_state);
    for (size_t i = 0; i < states->count; i++) {
        const struct rank *r = &states->ranks[i];
        if (i == 0 || strcmp(r->state, r[-1].state) != 0)
            kinds[count++].ranks = r;
        kinds[count - 1].count++;
    }
    qsort(kinds, count, sizeof(*kinds), by_suspicion);
    for (size_t i = 0; i < count && i < KINDS_SHOWN && rc == 0; i++)
        rc = print_kind(&kinds[i], states->tasks, out, err);
    if (count > KINDS_SHOWN)
        fprintf(out, "and %zu more groups\n", count - KINDS_SHOWN);
    free(kinds);
    return rc;
}

static int print_states(struct states *states, FILE *out, struct dt_error *err)
{
    struct dt_rankset missing;
    if (find_missing(states, &missing, err) != 0)
        return -1;
    for (size_t i = 0; i < states->node_count; i++)
        if (!states->heard[i])
            fprintf(out, "node %s does not answer\n", states->nodes[i]);
    if (missing.count > 0)
        print_missing(states, &missing, out);
    int rc = print_kinds(states, out, err);
    if (states->count == 0)
        fputs("no rank is running\n", out);
    dt_rankset_fini(&missing);
    return rc;
}

int dt_rank_states_print(char *text, char *const *nodes, size_t count,
                         FILE *out, struct dt_error *err)
{
    struct states states = {
        .nodes = nodes, .node_count = count, .silent = count};
    size_t lines = 1;
    int rc;
    for (const char *c = text; *c; c++)
        lines += *c == '\n';
    states.ranks = calloc(lines, sizeof(*states.ranks));
    states.heard = calloc(count + 1, sizeof(*states.heard));
    if (!states.ranks || !states.heard) {
        rc = dt_error_set(err, EX_OSERR, "out of memory");
    } else {
        for (char *line; (line = strsep(&text, "\n")) != NULL;)
            parse_line(&states, line);
        rc = print_states(&states, out, err);
    }
    free(states.ranks);
    free(states.heard);
    return rc;
}

/* Starts a probe on each node. Fails only if no node answers; single nodes that
 * do not are named in the output.
 */
static int ask_nodes(const struct dt_doctor_world *world, const char *step,
                     char *text, struct dt_error *err)
{
    struct dt_doctor_probes probes;
    if (dt_doctor_probes_init(&probes, world->job, world->list, world->count,
                              step, err) < 0)
        return -1;
    int status = dt_child_hear(probes.argv, ASK_MS, text, TEXT_BYTES, err);
    if (strstr(text, "end "))
        return 0;
    if (status >= 0)
        dt_error_set(err, EX_UNAVAILABLE,
                     "srun: exit status %d: see its message above", status);
    dt_error_prefix(err, "no node answers");
    return -1;
}

int dt_doctor_print_ranks(const struct dt_doctor_world *world, const char *step,
                          FILE *out, struct dt_error *err)
{
    char *text = calloc(1, TEXT_BYTES);
    if (!text)
        return dt_error_set(err, EX_OSERR, "out of memory");
    int rc = ask_nodes(world, step, text, err);
    if (rc == 0)
        rc = dt_rank_states_print(text, world->names, world->count, out, err);
    free(text);
    return rc;
}
