/* SPDX-License-Identifier: Apache-2.0 */
/* test_reward_http.c - rewards of servers, good, broken and slow */
#include "config.h"

#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>

#include "tests/unit/reward/reward.h"

#include "base/clock.h"
#include "base/log.h"

/* --- a server: each connection gets the next of these answers --- */

#define OK "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"
#define BUSY "HTTP/1.1 503 Busy\r\nConnection: close\r\n\r\nlater"
#define REFUSED                                                                \
    "HTTP/1.1 404 No\r\nConnection: close\r\n\r\nno \x1b[2J such path"
#define HANG "hang"
#define DROP ""

struct server {
    const char *const *answers; /* the last one is repeated */
    int listener, port;
    atomic_int requests;
    atomic_bool stop;
    char head[1024], body[4096]; /* of the last request */
    pthread_t thread;
};

/* Reads a request up to the end of its body. */
static void read_request(struct server *server, int fd)
{
    char text[8192] = "";
    size_t used = 0, wanted = SIZE_MAX;
    while (used < wanted && used + 1 < sizeof(text)) {
        ssize_t n = read(fd, text + used, sizeof(text) - 1 - used);
        if (n <= 0)
            return;
        used += (size_t)n;
        text[used] = '\0';
        const char *end = strstr(text, "\r\n\r\n");
        const char *length = strcasestr(text, "content-length:");
        if (end && length)
            wanted = (size_t)(end + 4 - text) + strtoul(length + 15, NULL, 10);
    }
    const char *body = strstr(text, "\r\n\r\n");
    snprintf(server->head, sizeof(server->head), "%.1000s", text);
    snprintf(server->body, sizeof(server->body), "%s", body ? body + 4 : "");
}

static void *serve(void *arg)
{
    struct server *server = arg;
    while (!server->stop) {
        struct pollfd p = {.fd = server->listener, .events = POLLIN};
        if (poll(&p, 1, 50) <= 0)
            continue;
        int fd = accept(server->listener, NULL, NULL);
        read_request(server, fd);
        const char *answer = *server->answers;
        server->requests++;
        if (server->answers[1])
            server->answers++;
        while (strcmp(answer, HANG) == 0 && !server->stop)
            dt_clock_sleep(0.02);
        if (send(fd, answer, strlen(answer), MSG_NOSIGNAL) < 0)
            abort();
        shutdown(fd, SHUT_WR);
        close(fd);
    }
    return NULL;
}

/* Takes a port, on which every connection is refused until somebody listens. */
static void take_port(struct server *server)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof(address);
    server->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(server->listener, (struct sockaddr *)&address, bytes),
                     0);
    assert_int_equal(
        getsockname(server->listener, (struct sockaddr *)&address, &bytes), 0);
    server->port = ntohs(address.sin_port);
}

static void begin(struct server *server, const char *const *answers)
{
    *server = (struct server){.answers = answers};
    take_port(server);
    assert_int_equal(listen(server->listener, 8), 0);
    assert_int_equal(pthread_create(&server->thread, NULL, serve, server), 0);
}

static void end(struct server *server)
{
    server->stop = true;
    pthread_join(server->thread, NULL);
    close(server->listener);
}

static json_t *shown; /* images of the first sample, or NULL */

/* Scores two samples of which the first has the answer "x". */
static int run(const struct server *server, const char *more, double values[2],
               struct dt_error *err)
{
    char keys[512];
    struct dt_reward_sample samples[] = {sample_of("ab", "{\"answer\": \"x\"}"),
                                         sample_of("c", NULL)};
    samples[0].images = shown;
    snprintf(keys, sizeof(keys), "type: http, url: ['http://127.0.0.1:%d/r']%s",
             server->port, more);
    struct dt_conf *conf = one_function(keys);
    struct dt_rewards *rewards = open_rewards(conf, err);
    int rc = rewards ? dt_rewards_submit(rewards, 4, samples, 2, err) : -1;
    if (rc == 0)
        rc = dt_rewards_collect(rewards, values, 2, err);
    dt_rewards_close(rewards);
    dt_conf_destroy(conf);
    sample_fini(&samples[0]);
    return rc;
}

static void a_server_gets_what_programs_get(void **state)
{
    static const char *const answers[] = {
        OK "{\"id\": 1, \"rewards\": [0.5, null]}", NULL};
    struct server server;
    struct dt_error err = {.text = ""};
    double values[2];
    (void)state;
    begin(&server, answers);
    assert_int_equal(run(&server, "", values, &err), 0);
    assert_true(values[0] == 0.5 && isnan(values[1]));
    end(&server);
    assert_string_equal(
        server.body,
        "{\"id\":1,\"step\":4,\"samples\":[{\"index\":0,\"copy\":0,\"prompt\":"
        "\"2+3=\",\"completion\":\"ab\",\"completion_ids\":[5,6,7],"
        "\"truncated\":false,\"columns\":{\"answer\":\"x\"}},{\"index\":0,"
        "\"copy\":0,\"prompt\":\"2+3=\",\"completion\":\"c\","
        "\"completion_ids\":[5,6,7],\"truncated\":false,\"columns\":{}}]}\n");
}

/* They are headers of requests, and stand in no message. */
static void a_server_gets_secrets_in_headers(void **state)
{
    static const char *const answers[] = {REFUSED, NULL};
    struct server server;
    struct dt_error err = {.text = ""};
    double values[2];
    (void)state;
    begin(&server, answers);
    setenv("JUDGE_KEY", "a-secret", 1);
    assert_int_equal(
        run(&server, ", secrets_from: 'env:JUDGE_KEY'", values, &err), -1);
    assert_non_null(strstr(server.head, "\r\nJUDGE-KEY: a-secret\r\n"));
    unsetenv("JUDGE_KEY");
    assert_int_equal(
        run(&server, ", secrets_from: 'env:JUDGE_KEY'", values, &err), -1);
    assert_string_equal(err.text, "reward http: secrets_from: the variable "
                                  "JUDGE_KEY is not set on this rank");
    end(&server);
}

/* Their own address is in every message about them. */
static void the_password_of_a_server_is_in_no_message(void **state)
{
    struct dt_error err = {.text = ""};
    struct dt_reward_sample sample = sample_of("ab", NULL);
    double value;
    (void)state;
    struct dt_conf *conf = one_function(
        "type: http, url: ['http://me:hidden@127.0.0.1:1/'], retries: 0");
    struct dt_rewards *rewards = open_rewards(conf, &err);
    assert_non_null(rewards);
    assert_int_equal(dt_rewards_submit(rewards, 4, &sample, 1, &err), 0);
    assert_int_equal(dt_rewards_collect(rewards, &value, 1, &err), -1);
    assert_non_null(strstr(err.text, "http://(removed)@127.0.0.1:1/: "));
    assert_null(strstr(err.text, "hidden"));
    dt_rewards_close(rewards);
    dt_conf_destroy(conf);
}

static void servers_of_openrlhf_are_understood(void **state)
{
    static const char *const answers[] = {
        OK "{\"rewards\": [1, -2.5], \"scores\": [0.5, 1], \"extra_logs\": "
           "{\"a\": [1, 2], \"b\": 3, \"c\": \"text\"}, \"more\": 1}",
        OK "{\"rewards\": [1]}", NULL};
    struct server server;
    struct dt_error err = {.text = ""};
    double values[2];
    (void)state;
    begin(&server, answers);
    assert_int_equal(run(&server, ", style: openrlhf", values, &err), 0);
    assert_true(values[0] == 1 && values[1] == -2.5);
    assert_string_equal(server.body,
                        "{\"query\":[\"2+3=ab\",\"2+3=c\"],\"prompts\":[\"2+3="
                        "\",\"2+3=\"],\"labels\":[\"x\",null]}\n");
    assert_int_equal(
        run(&server, ", style: openrlhf, retries: 0", values, &err), -1);
    assert_non_null(strstr(err.text, "\"rewards\" has 1 values for 2 "
                                     "completions: {\"rewards\": [1]}"));
    end(&server);
}

/* 503 and a lost connection pass; the pauses are 1 and 2 s. */
static void a_server_may_come_back(void **state)
{
    static const char *const answers[] = {
        BUSY, DROP, OK "{\"id\": 3, \"rewards\": [1, 2]}", NULL};
    struct server server;
    struct dt_error err = {.text = ""};
    double values[2], start = dt_clock_now();
    (void)state;
    begin(&server, answers);
    assert_int_equal(run(&server, "", values, &err), 0);
    assert_true(values[0] == 1 && values[1] == 2);
    end(&server);
    assert_int_equal(server.requests, 3);
    assert_true(dt_clock_now() - start >= 2.9);
}

static void a_server_that_hangs_is_left(void **state)
{
    static const char *const answers[] = {HANG, NULL};
    struct server server;
    struct dt_error err = {.text = ""};
    double values[2];
    (void)state;
    begin(&server, answers);
    assert_int_equal(run(&server, ", timeout_s: 1, retries: 0", values, &err),
                     -1);
    assert_non_null(strstr(err.text, "reward http: http://127.0.0.1:"));
    assert_non_null(strstr(err.text, "timed out after 1"));
    assert_int_equal(run(&server,
                         ", timeout_s: 1, retries: 0, on_error: nan, "
                         "max_failed: 1",
                         values, &err),
                     0);
    assert_true(isnan(values[0]) && isnan(values[1]));
    end(&server);
}

/* 4xx ends the run at once, whatever on_error says: nobody would answer. */
static void a_server_that_refuses_ends_the_run(void **state)
{
    static const char *const answers[] = {REFUSED, NULL};
    struct server server;
    struct dt_error err = {.text = ""};
    double values[2];
    (void)state;
    begin(&server, answers);
    assert_int_equal(
        run(&server, ", on_error: nan, max_failed: 1", values, &err), -1);
    assert_non_null(strstr(err.text, "/r: status 404: no ?[2J such path"));
    assert_int_equal(err.status, EX_CONFIG);
    end(&server);
    assert_int_equal(server.requests, 1);
    take_port(&server);
    assert_int_equal(run(&server, ", retries: 0", values, &err), -1);
    close(server.listener);
    assert_non_null(strstr(err.text, "reward http: http://127.0.0.1:"));
}

/* What a repeated call learns is said, not why the first one failed. */
static void a_refusal_after_a_failure_is_told(void **state)
{
    static const char *const answers[] = {BUSY, REFUSED, NULL};
    struct server server;
    struct dt_error err = {.text = ""};
    double values[2];
    (void)state;
    begin(&server, answers);
    assert_int_equal(run(&server, "", values, &err), -1);
    end(&server);
    assert_non_null(strstr(err.text, "/r: status 404: no "));
    assert_int_equal(err.status, EX_CONFIG);
}

static void several_servers_share_requests(void **state)
{
    static const char *const answers[] = {OK "{\"id\": 1, \"rewards\": [1]}",
                                          OK "{\"id\": 2, \"rewards\": [1]}",
                                          NULL};
    struct server one, two;
    struct dt_error err = {.text = ""};
    struct dt_reward_sample samples[] = {sample_of("", NULL),
                                         sample_of("", NULL)};
    char keys[256];
    double values[2];
    (void)state;
    begin(&one, answers);
    begin(&two, answers);
    snprintf(keys, sizeof(keys),
             "type: http, retries: 0, url: ['http://127.0.0.1:%d', "
             "'http://127.0.0.1:%d']",
             one.port, two.port);
    struct dt_conf *conf = one_function(keys);
    struct dt_rewards *rewards = open_rewards(conf, &err);
    assert_int_equal(dt_rewards_submit(rewards, 1, samples, 2, &err), 0);
    assert_int_equal(dt_rewards_collect(rewards, values, 2, &err), 0);
    assert_int_equal(one.requests + two.requests, 2);
    dt_rewards_close(rewards);
    dt_conf_destroy(conf);
    end(&one);
    end(&two);
}

/* Closing in the middle of a request does not wait for the server. */
static void closing_does_not_wait(void **state)
{
    static const char *const answers[] = {HANG, NULL};
    struct server server;
    struct dt_error err = {.text = ""};
    struct dt_reward_sample sample = sample_of("", NULL);
    char keys[256];
    (void)state;
    begin(&server, answers);
    snprintf(keys, sizeof(keys),
             "type: http, timeout_s: 3600, url: ['http://127.0.0.1:%d']",
             server.port);
    struct dt_conf *conf = one_function(keys);
    struct dt_rewards *rewards = open_rewards(conf, &err);
    double start = dt_clock_now();
    assert_int_equal(dt_rewards_submit(rewards, 1, &sample, 1, &err), 0);
    while (server.requests == 0 && dt_clock_now() - start < 60)
        dt_clock_sleep(0.01);
    dt_rewards_close(rewards);
    assert_true(dt_clock_now() - start < 60);
    dt_conf_destroy(conf);
    end(&server);
}

static void images_have_no_place_in_openrlhfs_requests(void **state)
{
    static const char *const answers[] = {OK "{\"rewards\": [1, 2]}", NULL};
    struct server server;
    struct dt_error err = {.text = ""};
    double values[2];
    (void)state;
    begin(&server, answers);
    shown = json_pack("[{s:s}]", "sha256", "5f3a");
    assert_int_equal(
        run(&server, ", style: openrlhf, retries: 0", values, &err), -1);
    assert_non_null(strstr(err.text,
                           "prompt 0 has images, which requests of style "
                           "openrlhf have no place for: write style: "
                           "disttrain"));
    json_decref(shown);
    shown = NULL;
    assert_int_equal(run(&server, ", style: openrlhf", values, &err), 0);
    end(&server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_server_gets_what_programs_get),
        cmocka_unit_test(a_server_gets_secrets_in_headers),
        cmocka_unit_test(the_password_of_a_server_is_in_no_message),
        cmocka_unit_test(servers_of_openrlhf_are_understood),
        cmocka_unit_test(a_server_may_come_back),
        cmocka_unit_test(a_server_that_hangs_is_left),
        cmocka_unit_test(a_server_that_refuses_ends_the_run),
        cmocka_unit_test(a_refusal_after_a_failure_is_told),
        cmocka_unit_test(several_servers_share_requests),
        cmocka_unit_test(closing_does_not_wait),
        cmocka_unit_test(images_have_no_place_in_openrlhfs_requests),
    };
    dt_log_init(0, DT_LOG_ERROR);
    unsetenv("http_proxy");
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, enter_directory, leave_directory);
}
