/* SPDX-License-Identifier: Apache-2.0 */
/* job_nodes.c - asks the nodes of a job whether they live */
#include "config.h"

#include <ctype.h>
#include <math.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/answer.h"
#include "base/child.h"
#include "base/job_id.h"
#include "base/log.h"
#include "contract/comment.h"
#include "contract/contract.h"
#include "slurm/job.h"
#include "slurm/job_nodes.h"

enum {
    AT_ONCE = 500,  /* nodes asked in one second: each takes a descriptor */
    SILENCE_S = 3,  /* fewer questions than this may be lost by chance */
    ASK_MS = 10000, /* for commands of Slurm */
    SHRINK_MS = 30000,
    NAMES_BYTES = 1 << 20,
};

/* --- names and addresses --- */

/* Runs a command of Slurm. Returns its output, to be freed; NULL: EX_OSERR,
 * EX_UNAVAILABLE.
 */
static char *ask_command(char *const argv[], struct dt_error *err)
{
    char *text = malloc(NAMES_BYTES);
    if (!text) {
        dt_error_set(err, EX_OSERR, "out of memory");
        return NULL;
    }
    int rc = dt_child_ask(argv, ASK_MS, text, NAMES_BYTES, err);
    if (rc == 0)
        return text;
    if (rc > 0)
        dt_error_set(err, EX_UNAVAILABLE, "exit status %d", rc);
    dt_error_prefix(err, "%s %s", argv[0], argv[1]);
    free(text);
    return NULL;
}

/* Returns the hosts of a list, one a line, to be freed; NULL: as above. */
static char *expand_list(const char *list, struct dt_error *err)
{
    char *const argv[] = {"scontrol", "show", "hostnames", (char *)list, NULL};
    return ask_command(argv, err);
}

/* Finds the address of each node but our own. A name service that does not
 * answer has kept us waiting long enough.
 */
static void find_addresses(struct dt_job_nodes *nodes)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    const char *own = getenv("SLURMD_NODENAME");
    int rc = 0;
    for (int i = 0; i < nodes->count && rc != EAI_AGAIN; i++) {
        struct dt_job_node *node = &nodes->node[i];
        struct addrinfo *list = NULL;
        if (own && strcmp(node->name, own) == 0)
            continue;
        rc = getaddrinfo(node->name, NULL, &hints, &list);
        if (rc == 0 && list->ai_addrlen <= sizeof(node->address))
            memcpy(&node->address, list->ai_addr, list->ai_addrlen);
        else
            dt_log(DT_LOG_WARN, "slurm",
                   "node %s has no address (%s): whether it is lost is left to "
                   "Slurm",
                   node->name, gai_strerror(rc));
        if (list)
            freeaddrinfo(list);
    }
}

static int list_nodes(struct dt_job_nodes *nodes, const char *list,
                      struct dt_error *err)
{
    *nodes = (struct dt_job_nodes){0};
    char *text = expand_list(list, err), *rest = text;
    int lines = 1;
    if (!text)
        return -1;
    for (const char *c = text; *c; c++)
        lines += *c == '\n';
    nodes->node = calloc((size_t)lines, sizeof(*nodes->node));
    bool good = nodes->node != NULL;
    for (char *name; good && (name = strsep(&rest, "\n")) != NULL;) {
        if (!name[0])
            continue;
        struct dt_job_node *node = &nodes->node[nodes->count++];
        node->fd = -1;
        node->name = strdup(name);
        good = node->name != NULL;
    }
    free(text);
    return good ? 0 : dt_error_set(err, EX_OSERR, "out of memory");
}

int dt_job_nodes_init(struct dt_job_nodes *nodes, const char *list,
                      double silence_s, struct dt_error *err)
{
    if (list_nodes(nodes, list, err) < 0)
        return -1;
    int turns = 1 + nodes->count / AT_ONCE;
    nodes->silence_s = fmax(silence_s, SILENCE_S * turns);
    find_addresses(nodes);
    return 0;
}

static void drop_question(struct dt_job_node *node)
{
    if (node->fd >= 0)
        close(node->fd);
    node->fd = -1;
}

void dt_job_nodes_fini(struct dt_job_nodes *nodes)
{
    for (int i = 0; i < nodes->count; i++) {
        drop_question(&nodes->node[i]);
        free(nodes->node[i].name);
    }
    free(nodes->node);
    *nodes = (struct dt_job_nodes){0};
}

/* --- questions and answers --- */

/* A question that this host could not ask counts as answered, but by no node
 * that never answers.
 */
static void note_answer(struct dt_job_node *node, enum dt_answer answer,
                        double now)
{
    if (answer != DT_ANSWER_SILENCE &&
        (answer != DT_ANSWER_UNKNOWN || node->heard > 0))
        node->heard = now;
}

static void ask(struct dt_job_node *node, double now)
{
    enum dt_answer answer;
    node->fd = dt_answer_ask(&node->address, DT_ANSWER_PORT, &answer);
    if (node->fd < 0)
        note_answer(node, answer, now);
}

void dt_job_nodes_take(struct dt_job_nodes *nodes, double now)
{
    for (int i = 0; i < nodes->count; i++) {
        struct dt_job_node *node = &nodes->node[i];
        struct pollfd p = {.fd = node->fd, .events = POLLOUT};
        if (node->fd < 0 || poll(&p, 1, 0) <= 0)
            continue;
        note_answer(node, dt_answer_take(node->fd), now);
        node->fd = -1;
    }
}

void dt_job_nodes_ask(struct dt_job_nodes *nodes, double now)
{
    const int turns = 1 + nodes->count / AT_ONCE;
    dt_job_nodes_take(nodes, now);
    for (int i = 0; i < nodes->count; i++) {
        struct dt_job_node *node = &nodes->node[i];
        drop_question(node);
        if (!node->left_out && node->address.any.sa_family != AF_UNSPEC &&
            i % turns == nodes->turn)
            ask(node, now);
    }
    nodes->turn = (nodes->turn + 1) % turns;
}

int dt_job_nodes_judge(struct dt_job_nodes *nodes, double now)
{
    int lost = 0;
    for (int i = 0; i < nodes->count; i++) {
        struct dt_job_node *node = &nodes->node[i];
        const bool was = node->lost;
        if (node->left_out || node->heard == 0)
            continue;
        node->lost = now - node->heard >= nodes->silence_s;
        lost += node->lost && !was;
    }
    return lost;
}

bool dt_job_nodes_known(const struct dt_job_nodes *nodes, double since)
{
    for (int i = 0; i < nodes->count; i++) {
        const struct dt_job_node *node = &nodes->node[i];
        if (!node->lost && node->heard > 0 && node->heard < since)
            return false;
    }
    return true;
}

/* Whether a text has this line. */
static bool has_line(const char *text, const char *line)
{
    size_t len = strlen(line);
    for (; text; text = strchr(text, '\n') ? strchr(text, '\n') + 1 : NULL)
        if (strncmp(text, line, len) == 0 &&
            (text[len] == '\n' || text[len] == '\0'))
            return true;
    return false;
}

/* Returns one value of a job, as squeue prints it, to be freed; NULL: Slurm
 * does not answer, or does not know the job any more.
 */
static char *ask_job(const char *job, const char *format)
{
    char *const argv[] = {"squeue", "--noheader", (char *)format,
                          "--jobs", (char *)job,  NULL};
    char *answer = ask_command(argv, NULL);
    if (answer)
        answer[strcspn(answer, "\n")] = '\0';
    return answer;
}

/* Returns the nodes of a job, one a line, to be freed; NULL: Slurm does not
 * answer, or the job has none any more.
 */
static char *ask_names(const char *job)
{
    char *list = ask_job(job, "--format=%N"), *names = NULL;
    if (list && list[0])
        names = expand_list(list, NULL);
    free(list);
    if (names && names[0])
        return names;
    free(names);
    return NULL;
}

int dt_job_nodes_ask_slurm(struct dt_job_nodes *nodes, const char *job)
{
    char *names = ask_names(job);
    int lost = 0;
    for (int i = 0; i < nodes->count && names; i++) {
        struct dt_job_node *node = &nodes->node[i];
        if (node->lost || has_line(names, node->name))
            continue;
        node->lost = true;
        lost++;
    }
    free(names);
    return lost;
}

int dt_job_nodes_are_out(const struct dt_job_nodes *nodes, const char *job)
{
    char *names = ask_names(job);
    int out = names ? 1 : -1;
    for (int i = 0; i < nodes->count && out > 0; i++)
        out = !nodes->node[i].lost || !has_line(names, nodes->node[i].name);
    free(names);
    return out;
}

/* scontrol leaves scripts behind that set variables to the new size. */
static void remove_scripts(void)
{
    char script[64];
    for (int i = 0; i < 2; i++) {
        snprintf(script, sizeof(script), "slurm_job_%s_resize.%s",
                 getenv("SLURM_JOB_ID"), i == 0 ? "sh" : "csh");
        unlink(script);
    }
}

int dt_job_nodes_shrink(const struct dt_job_nodes *nodes, const char *job,
                        struct dt_error *err)
{
    char id[DT_JOB_ID_BYTES + 8], answer[1024], *left = NULL;
    struct dt_error why = {.text = ""};
    char *list = dt_job_nodes_list(nodes, nodes->count);
    snprintf(id, sizeof(id), "JobId=%s", job);
    if (!list || asprintf(&left, "NodeList=%s", list) < 0) {
        free(list);
        return dt_error_set(err, EX_OSERR, "out of memory");
    }
    char *const argv[] = {"scontrol", "update", id, left, NULL};
    int rc = list[0]
                 ? dt_child_ask(argv, SHRINK_MS, answer, sizeof(answer), &why)
                 : 0;
    remove_scripts();
    free(left);
    free(list);
    if (rc == 0)
        return 0;
    return dt_error_set(
        err, EX_UNAVAILABLE,
        "the job cannot be reduced to the nodes that are left (%s): Slurm ends "
        "it when it finds a lost node down, unless it was submitted with "
        "--no-kill",
        rc < 0 ? why.text : "scontrol update NodeList= is refused");
}

/* Whether a name is one of "n2,n3". */
static bool is_listed(const char *list, const char *name)
{
    const size_t len = strlen(name);
    for (; list; list = strchr(list, ',') ? strchr(list, ',') + 1 : NULL)
        if (strncmp(list, name, len) == 0 &&
            (list[len] == ',' || list[len] == '\0'))
            return true;
    return false;
}

int dt_job_leave_out(const char *lost, struct dt_error *err)
{
    const char *list = getenv("SLURM_JOB_NODELIST");
    char job[DT_JOB_ID_BYTES];
    struct dt_job_nodes nodes;
    if (!list || !dt_job_id(getenv("SLURM_JOB_ID"), job))
        return dt_error_set(err, EX_UNAVAILABLE, "this is no job of Slurm");
    int rc = list_nodes(&nodes, list, err);
    for (int i = 0; rc == 0 && i < nodes.count; i++)
        nodes.node[i].lost = is_listed(lost, nodes.node[i].name);
    if (rc == 0) {
        dt_job_nodes_ask_slurm(&nodes, job);
        rc = dt_job_nodes_shrink(&nodes, job, err);
    }
    dt_job_nodes_fini(&nodes);
    return rc;
}

bool dt_job_has_left(const char *node)
{
    char job[DT_JOB_ID_BYTES];
    char *names =
        dt_job_id(getenv("SLURM_JOB_ID"), job) ? ask_names(job) : NULL;
    const bool left = names && !has_line(names, node);
    free(names);
    return left;
}

/* --- the end of a job --- */

/* Whether nobody ends the job yet: a requeue would undo a cancellation, and the
 * other way round.
 */
static bool is_running(const char *job)
{
    char *state = ask_job(job, "--format=%T");
    const bool runs = !state || strcmp(state, "RUNNING") == 0;
    free(state);
    return runs;
}

/* Whether a line of squeue, "12.1 UNLIMITED n[1-2]", is a step that the job is
 * left to: another one, and no script. One whose time limit is a minute has
 * said that it is over, or is soon; one on the lost host of srun alone does
 * nothing.
 */
static bool goes_on(const char *line)
{
    const char *own = getenv("SLURM_STEP_ID"), *srun = getenv(DT_ENV_SRUN_NODE);
    char id[96] = "", limit[32] = "", nodes[256] = "";
    sscanf(line, "%95s %31s %255s", id, limit, nodes);
    const char *step = strrchr(id, '.');
    return step && isdigit((unsigned char)step[1]) &&
           !(own && strcmp(step + 1, own) == 0) && strcmp(limit, "1:00") != 0 &&
           !(srun && strcmp(nodes, srun) == 0);
}

/* Whether a step of the job goes on beside this one: 1, 0; -1: Slurm does not
 * answer.
 */
static int has_others(const char *job, struct dt_error *err)
{
    char *const argv[] = {
        "squeue", "--noheader", "--steps", "--format=%i %l %N",
        "--jobs", (char *)job,  NULL};
    char *text = ask_command(argv, err), *rest = text;
    int others = text ? 0 : -1;
    for (char *line; text && (line = strsep(&rest, "\n")) != NULL;)
        others |= goes_on(line);
    free(text);
    return others;
}

/* Leaves the job to steps beside this one, if there are any: the last one that
 * is over ends it. Slurm lists a step until it has heard of all of its nodes,
 * so this one says that it is over: its time limit becomes a minute, the least
 * that there is, and Slurm kills what is left of it. Of two that are over at
 * once one sees what the other has said. 1: they go on; 0: there are none; -1:
 * Slurm does not answer.
 */
static int leave_to_others(const char *job, struct dt_error *err)
{
    char step[96], answer[1024];
    char *const argv[] = {"scontrol", "update", step, "TimeLimit=1", NULL};
    const int others = has_others(job, err);
    if (others <= 0)
        return others;
    snprintf(step, sizeof(step), "StepId=%s.%s", getenv("SLURM_JOB_ID"),
             getenv("SLURM_STEP_ID"));
    dt_child_ask(argv, ASK_MS, answer, sizeof(answer), NULL);
    return has_others(job, err);
}

/* Says so in the comment, and does it; as dt_child_ask. */
static int end_by(char *const argv[], const char *job, const char *why,
                  const char *how, struct dt_error *err)
{
    char comment[256], answer[1024];
    snprintf(comment, sizeof(comment), DT_COMMENT_OURS "%s: %s", why, how);
    if (!getenv(DT_ENV_JOB_COMMENT))
        dt_comment_set(job, comment, ASK_MS / 1e3);
    return dt_child_ask(argv, SHRINK_MS, answer, sizeof(answer), err);
}

/* Slurm refuses to requeue an allocation of salloc, and a job that its user or
 * the cluster lets run only once. What it has put back meanwhile by itself, or
 * without an answer in time, is not cancelled.
 */
static int end_now(const char *job, bool requeue, const char *why,
                   struct dt_error *err)
{
    char *const again[] = {"scontrol", "requeue", (char *)job, NULL};
    char *const cancel[] = {"scancel", "--state=RUNNING", (char *)job, NULL};
    const int rc = requeue ? end_by(again, job, why, "requeued", err) : 1;
    if (rc <= 0)
        return rc;
    return end_by(cancel, job, why,
                  requeue ? "cancelled, as Slurm refuses to requeue the job"
                          : "cancelled",
                  err);
}

int dt_job_end(bool requeue, const char *why, struct dt_error *err)
{
    char job[DT_JOB_ID_BYTES];
    struct dt_error said = {.text = "Slurm refuses it"};
    if (!dt_job_id(getenv("SLURM_JOB_ID"), job))
        return dt_error_set(err, EX_UNAVAILABLE, "this is no job of Slurm");
    if (!is_running(job))
        return 0;
    const int others = leave_to_others(job, &said);
    if (others > 0)
        return dt_error_set(err, EX_UNAVAILABLE,
                            "job %s is left to its other steps", job);
    if (others == 0 && end_now(job, requeue, why, &said) == 0)
        return 0;
    return dt_error_set(err, others < 0 ? EX_TEMPFAIL : EX_UNAVAILABLE,
                        "job %s cannot be ended: %s; it stays until its time "
                        "limit",
                        job, said.text);
}

/* --- those that are left --- */

int dt_job_nodes_left(const struct dt_job_nodes *nodes)
{
    int left = 0;
    for (int i = 0; i < nodes->count; i++)
        left += !nodes->node[i].lost;
    return left;
}

char *dt_job_nodes_list(const struct dt_job_nodes *nodes, int count)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    if (!out)
        return NULL;
    for (int i = 0, written = 0; i < nodes->count && written < count; i++)
        if (!nodes->node[i].lost)
            fprintf(out, "%s%s", written++ > 0 ? "," : "", nodes->node[i].name);
    if (fclose(out) == 0)
        return text;
    free(text);
    return NULL;
}
