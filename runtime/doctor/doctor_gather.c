/* SPDX-License-Identifier: Apache-2.0 */
/* doctor_gather.c - starts the probes and collects what they say */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/child.h"
#include "base/clock.h"
#include "doctor/doctor.h"

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

/* Handles what the probes have written, line by line. False: they have ended,
 * or the deadline has passed.
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

/* Writes text before the deadline: srun reads only what it can pass on, and may
 * hang.
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
