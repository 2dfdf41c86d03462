/* SPDX-License-Identifier: Apache-2.0 */
/* serve.c - gives the rewards of a configuration to other programs */
#include "config.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "reward/serve.h"

enum {
    CLIENTS = 64,
    LOOK_MS = 300, /* how often to ask whether to stop */
    READ_BYTES = 65536,
    LINE_BYTES = 256 << 20,
};
static const double write_s = 30; /* that a client may take to read an answer */

struct client {
    int fd;
    bool greeted;
    char *buffer;
    size_t used, room;
};

struct server {
    struct dt_rewards *rewards;
    const struct dt_reward_column *columns;
    size_t K;
    const char **names;
    struct client client[CLIENTS];
    size_t count;
};

static void drop_client(struct server *server, size_t i)
{
    close(server->client[i].fd);
    free(server->client[i].buffer);
    server->client[i] = server->client[--server->count];
}

/* Writes a line to a client within the time. */
static int write_line(int fd, const char *line)
{
    double deadline = dt_clock_now() + write_s;
    size_t left = strlen(line);
    while (left > 0) {
        struct pollfd p = {.fd = fd, .events = POLLOUT};
        double rest = deadline - dt_clock_now();
        if (rest <= 0 ||
            (poll(&p, 1, (int)(rest * 1e3) + 1) < 0 && errno != EINTR))
            return -1;
        ssize_t n = send(fd, line, left, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno != EAGAIN && errno != EINTR)
            return -1;
        line += n > 0 ? n : 0;
        left -= n > 0 ? (size_t)n : 0;
    }
    return 0;
}

/* The answer to the first line: which columns there are. */
static char *greeting(const struct server *server)
{
    json_t *columns = json_array();
    for (size_t c = 0; c < server->K; c++)
        json_array_append_new(
            columns, json_pack("{s:s, s:f}", "name", server->columns[c].name,
                               "weight", server->columns[c].weight));
    json_t *root =
        json_pack("{s:b, s:i, s:o}", "ready", 1, "abi", 1, "columns", columns);
    char *text = root ? json_dumps(root, JSON_COMPACT) : NULL, *line = NULL;
    json_decref(root);
    if (text && asprintf(&line, "%s\n", text) < 0)
        line = NULL;
    free(text);
    return line;
}

/* The weighted sum of the columns that have a reward. */
static double total(const struct server *server, const double *values)
{
    double sum = 0;
    bool any = false;
    for (size_t c = 0; c < server->K; c++) {
        if (isnan(values[c]))
            continue;
        sum += server->columns[c].weight * values[c];
        any = true;
    }
    return any ? sum : (double)NAN;
}

/* Scores a request into *reply. -1: a function has failed, which ends all. */
static int score(struct server *server, const struct dt_reward_asked *asked,
                 char **reply, struct dt_error *err)
{
    size_t n = asked->count, K = server->K;
    double *values = calloc(n * K + 1, sizeof(*values));
    double *sums = calloc(n + 1, sizeof(*sums));
    int rc = values && sums ? dt_rewards_submit(server->rewards, asked->step,
                                                asked->samples, n, err)
                            : dt_error_set(err, EX_OSERR, "out of memory");
    if (rc == 0)
        rc = dt_rewards_collect(server->rewards, values, n, err);
    for (size_t i = 0; i < n && rc == 0; i++)
        sums[i] = total(server, values + i * K);
    *reply =
        rc == 0 ? dt_reward_answer(asked->id, sums, n, values, server->names, K)
                : dt_reward_answer_error(err->text);
    json_decref(dt_rewards_metrics(server->rewards));
    free(values);
    free(sums);
    return rc;
}

/* Answers a line of a client. -1: a function has failed. */
static int answer(struct server *server, struct client *client, char *line,
                  size_t bytes, bool *gone, struct dt_error *err)
{
    struct dt_reward_asked asked = {.root = NULL};
    struct dt_error why;
    char *reply = NULL;
    int rc = 0;
    if (!client->greeted) {
        reply = greeting(server);
        client->greeted = true;
    } else if (dt_reward_asked_read(&asked, line, bytes, &why) < 0) {
        reply = dt_reward_answer_error(why.text);
    } else {
        rc = score(server, &asked, &reply, err);
    }
    *gone = !reply || write_line(client->fd, reply) < 0;
    dt_reward_asked_fini(&asked);
    free(reply);
    return rc;
}

/* Reads what a client has sent, and answers a line that has ended. */
static int read_client(struct server *server, struct client *client, bool *gone,
                       struct dt_error *err)
{
    if (client->room - client->used < READ_BYTES) {
        size_t room = 2 * client->room + READ_BYTES;
        char *buffer =
            room <= LINE_BYTES ? realloc(client->buffer, room) : NULL;
        *gone = !buffer;
        if (!buffer)
            return 0;
        client->buffer = buffer;
        client->room = room;
    }
    ssize_t n = recv(client->fd, client->buffer + client->used, READ_BYTES, 0);
    *gone = n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
    if (n <= 0)
        return 0;
    client->used += (size_t)n;
    for (char *end;
         !*gone && (end = memchr(client->buffer, '\n', client->used));) {
        size_t bytes = (size_t)(end - client->buffer);
        if (answer(server, client, client->buffer, bytes, gone, err) < 0)
            return -1;
        client->used -= bytes + 1;
        memmove(client->buffer, end + 1, client->used);
    }
    return 0;
}

static void accept_client(struct server *server, int listener)
{
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= 0)
        server->client[server->count++] = (struct client){.fd = fd};
}

/* Waits a moment for something to do, and does it. */
static int look(struct server *server, int listener, struct dt_error *err)
{
    struct pollfd fds[CLIENTS + 1];
    size_t n = server->count;
    for (size_t i = 0; i < n; i++)
        fds[i] = (struct pollfd){.fd = server->client[i].fd, .events = POLLIN};
    fds[n] =
        (struct pollfd){.fd = n < CLIENTS ? listener : -1, .events = POLLIN};
    if (poll(fds, n + 1, LOOK_MS) < 0 && errno != EINTR)
        return dt_error_set(err, EX_OSERR, "poll: %s", strerror(errno));
    for (size_t i = n; i-- > 0;) { /* drop_client moves the last one */
        bool gone = false;
        if (!fds[i].revents)
            continue;
        if (read_client(server, &server->client[i], &gone, err) < 0)
            return -1;
        if (gone)
            drop_client(server, i);
    }
    if (fds[n].revents)
        accept_client(server, listener);
    return 0;
}

int dt_reward_serve(struct dt_rewards *rewards, int listener,
                    bool (*stop)(void), struct dt_error *err)
{
    struct server *server = calloc(1, sizeof(*server));
    int rc = 0;
    if (server) {
        server->rewards = rewards;
        server->columns = dt_rewards_columns(rewards, &server->K);
        server->names = calloc(server->K + 1, sizeof(*server->names));
    }
    if (!server || !server->names) {
        free(server);
        return dt_error_set(err, EX_OSERR, "out of memory");
    }
    for (size_t c = 0; c < server->K; c++)
        server->names[c] = server->columns[c].name;
    while (rc == 0 && !stop())
        rc = look(server, listener, err);
    while (server->count > 0)
        drop_client(server, 0);
    free(server->names);
    free(server);
    return rc;
}
