/* SPDX-License-Identifier: Apache-2.0 */
/* test_reward_serve.c - rewards for other programs, and those of contrib */
#include "config.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "reward.h"

#include "base/log.h"
#include "reward/serve.h"

static char source[512]; /* root of the sources */

/* --- a server in a thread --- */

static atomic_bool stopped;

struct serving {
    struct dt_conf *conf;
    struct dt_rewards *rewards;
    int listener, rc;
    struct dt_error err;
    pthread_t thread;
};

static bool must_stop(void)
{
    return stopped;
}

static void *serve(void *arg)
{
    struct serving *s = arg;
    s->rc = dt_reward_serve(s->rewards, s->listener, must_stop, &s->err);
    return NULL;
}

static void begin_serving(struct serving *s, const char *text)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "socket"};
    const struct dt_reward_options options = {.where = DT_REWARD_ANYWHERE};
    stopped = false;
    s->conf = load_good(text, "");
    s->rewards = dt_rewards_open(s->conf, &options, &s->err);
    assert_non_null(s->rewards);
    s->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
    assert_int_equal(
        bind(s->listener, (const struct sockaddr *)&address, sizeof(address)),
        0);
    assert_int_equal(listen(s->listener, 4), 0);
    assert_int_equal(pthread_create(&s->thread, NULL, serve, s), 0);
}

static void end_serving(struct serving *s)
{
    stopped = true;
    pthread_join(s->thread, NULL);
    dt_rewards_close(s->rewards);
    dt_conf_destroy(s->conf);
    close(s->listener);
    unlink("socket");
}

static FILE *connect_client(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "socket"};
    const struct timeval limit = {.tv_sec = 60};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    assert_int_equal(
        connect(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
    return fdopen(fd, "r+");
}

/* Sends a line and compares the answer. */
static void check_answer(FILE *client, const char *line, const char *wanted)
{
    char answer[1024] = "";
    fprintf(client, "%s\n", line);
    fflush(client);
    if (!fgets(answer, sizeof(answer), client))
        answer[0] = '\0';
    answer[strcspn(answer, "\n")] = '\0';
    assert_string_equal(answer, wanted);
}

#define TWO                                                                    \
    "reward.functions:\n"                                                      \
    "  - {type: exact, weight: 2}\n"                                           \
    "  - {type: contains, name: a, texts: [a], where: all}\n"
#define GREETING                                                               \
    "{\"ready\":true,\"abi\":1,\"columns\":[{\"name\":\"exact\",\"weight\":"   \
    "2.0},{\"name\":\"a\",\"weight\":1.0}]}"

static void clients_get_sums_and_channels(void **state)
{
    struct serving s;
    (void)state;
    begin_serving(&s, TWO);
    FILE *one = connect_client(), *two = connect_client();
    check_answer(one, "{\"disttrain_reward\":1}", GREETING);
    check_answer(two, "{}", GREETING);
    check_answer(one,
                 "{\"id\":5,\"samples\":[{\"prompt\":\"p\",\"completion\":"
                 "\"a\",\"columns\":{\"answer\":\"a\"}},{\"prompt\":[],"
                 "\"completion\":\"b\",\"columns\":{\"answer\":null}}]}",
                 "{\"id\":5,\"rewards\":[3.0,0.0],\"channels\":{\"exact\":[1.0,"
                 "null],\"a\":[1.0,0.0]}}");
    fclose(one); /* the other one goes on */
    check_answer(two,
                 "{\"id\":6,\"samples\":[{\"prompt\":\"p\",\"completion\":"
                 "\"b\",\"columns\":{\"answer\":\"b\"},\"truncated\":false,"
                 "\"index\":3,\"completion_ids\":[1,2]}]}",
                 "{\"id\":6,\"rewards\":[2.0],\"channels\":{\"exact\":[1.0],"
                 "\"a\":[0.0]}}");
    check_answer(two, "{\"id\":7,\"samples\":[]}",
                 "{\"id\":7,\"rewards\":[],\"channels\":{\"exact\":[],"
                 "\"a\":[]}}");
    fclose(two);
    end_serving(&s);
    assert_int_equal(s.rc, 0);
}

/* A client that asks wrongly is told, and may ask again. */
static void wrong_requests_are_answered(void **state)
{
    static const char *const cases[][2] = {
        {"hello", "expected a line {\\\"id\\\":n,\\\"samples\\\":[..]}"},
        {"{\"id\":1}", "expected a line {\\\"id\\\":n,\\\"samples\\\":[..]}"},
        {"{\"id\":1,\"samples\":[1]}",
         "sample 0: expected an object, got an integer"},
        {"{\"id\":1,\"samples\":[{\"prompt\":\"\"}]}",
         "sample 0: \\\"completion\\\": expected a string, got none"},
        {"{\"id\":1,\"samples\":[{\"prompt\":1,\"completion\":\"\"}]}",
         "sample 0: \\\"prompt\\\": expected a string, got an integer"},
        {"{\"id\":1,\"samples\":[{\"prompt\":\"\",\"completion\":\"\","
         "\"truncated\":1}]}",
         "sample 0: \\\"truncated\\\": expected a boolean, got an integer"},
        {"{\"id\":1,\"samples\":[{\"prompt\":\"\",\"completion\":\"\","
         "\"completion_ids\":[-1]}]}",
         "sample 0: \\\"completion_ids\\\"[0]: expected a token id"},
    };
    struct serving s;
    (void)state;
    begin_serving(&s, TWO);
    FILE *client = connect_client();
    check_answer(client, "{}", GREETING);
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        char wanted[256];
        snprintf(wanted, sizeof(wanted), "{\"error\":\"%s\"}", cases[i][1]);
        check_answer(client, cases[i][0], wanted);
    }
    fclose(client);
    end_serving(&s);
    assert_int_equal(s.rc, 0);
}

static void a_failure_ends_the_server(void **state)
{
    struct serving s;
    (void)state;
    begin_serving(&s, TWO);
    FILE *client = connect_client();
    check_answer(client, "{}", GREETING);
    check_answer(client,
                 "{\"id\":1,\"samples\":[{\"prompt\":\"\",\"completion\":\"\"}]"
                 "}",
                 "{\"error\":\"reward exact: the line of prompt 0 has no key "
                 "\\\"answer\\\", only: none (null there would mean no "
                 "reward)\"}");
    assert_int_equal(fgetc(client), EOF);
    pthread_join(s.thread, NULL);
    assert_int_equal(s.rc, -1);
    assert_int_equal(s.err.status, EX_DATAERR);
    fclose(client);
    dt_rewards_close(s.rewards);
    dt_conf_destroy(s.conf);
    close(s.listener);
    unlink("socket");
}

/* --- what contrib/rewards has --- */

static bool has_python(void)
{
    return system("python3 -c 'import json, socket' 2>/dev/null") == 0;
}

static void the_client_in_python_works(void **state)
{
    struct serving s;
    char command[2048];
    (void)state;
    if (!has_python())
        skip();
    begin_serving(&s, TWO);
    snprintf(
        command, sizeof(command),
        "PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=%s/contrib/rewards "
        "python3 -c \"\n"
        "from reward_client import RewardClient, RewardError\n"
        "with RewardClient('socket') as client:\n"
        "    assert [c['name'] for c in client.columns] == ['exact', 'a']\n"
        "    rewards, channels = client.score(['p', [], 'r'],\n"
        "        ['a', 'b', 'c'], [{'answer': 'a'}, {'answer': None},\n"
        "        {'answer': 'c'}])\n"
        "    assert rewards == [3, 0, 2], rewards\n"
        "    assert channels['exact'] == [1, None, 1], channels\n"
        "    try:\n"
        "        client.score(['p'], ['a'])\n"
        "    except RewardError as error:\n"
        "        assert 'no key' in str(error), error\n"
        "    else:\n"
        "        raise SystemExit(1)\n"
        "\"",
        source);
    assert_int_equal(system(command), 0);
    end_serving(&s);
}

static void the_program_in_python_judges_numbers(void **state)
{
    static const struct {
        const char *columns, *completion;
        double reward;
    } cases[] = {
        {"{\"answer\": 42}", "so it is 42.", 1},
        {"{\"answer\": \"6*7 = #### 42\"}", "#### 42", 1},
        {"{\"answer\": \"0.5\"}", "Thus \\boxed{\\frac{1}{2}}.", 1},
        {"{\"answer\": \"1/2\"}", "50%", 1},
        {"{\"answer\": \"1234.5\"}", "$1,234.50", 1},
        {"{\"answer\": 42}", "\\boxed{41} or 42", 0},
        {"{\"answer\": -3}", "-3", 1},
        {"{\"answer\": 3}", "none", 0},
        {"{\"answer\": 3}", "", 0},
        {"{\"answer\": null}", "3", NAN},
    };
    enum { CASES = sizeof(cases) / sizeof(*cases) };
    struct dt_reward_sample samples[CASES];
    struct dt_error err = {.text = ""};
    double values[CASES];
    char keys[1024];
    (void)state;
    if (!has_python())
        skip();
    snprintf(keys, sizeof(keys),
             "type: command, command: [python3, %s/contrib/rewards/"
             "math_reward.py]",
             source);
    struct dt_conf *conf = one_function(keys);
    struct dt_rewards *rewards = open_rewards(conf, &err);
    assert_string_equal(err.text, "");
    for (int i = 0; i < CASES; i++)
        samples[i] = sample_of(cases[i].completion, cases[i].columns);
    assert_int_equal(dt_rewards_submit(rewards, 1, samples, CASES, &err), 0);
    assert_int_equal(dt_rewards_collect(rewards, values, CASES, &err), 0);
    for (int i = 0; i < CASES; i++) {
        bool same = isnan(cases[i].reward)
                        ? isnan(values[i])
                        : fabs(values[i] - cases[i].reward) < 1e-12;
        if (!same)
            fail_msg("%s: got %g", cases[i].completion, values[i]);
    }
    sample_fini(&samples[0]);
    samples[0].columns = json_loads("{\"answer\": \"x\"}", 0, NULL);
    assert_int_equal(dt_rewards_submit(rewards, 1, samples, 1, &err), 0);
    assert_int_equal(dt_rewards_collect(rewards, values, 1, &err), -1);
    assert_string_equal(err.text, "reward command: it says: ValueError: prompt "
                                  "0: the answer has no number");
    dt_rewards_close(rewards);
    dt_conf_destroy(conf);
    for (int i = 0; i < CASES; i++)
        sample_fini(&samples[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(clients_get_sums_and_channels),
        cmocka_unit_test(wrong_requests_are_answered),
        cmocka_unit_test(a_failure_ends_the_server),
        cmocka_unit_test(the_client_in_python_works),
        cmocka_unit_test(the_program_in_python_judges_numbers),
    };
    const char *root = getenv("DT_SRCDIR");
    if (!realpath(root ? root : ".", source))
        return 1;
    dt_log_init(0, DT_LOG_ERROR);
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, enter_directory, leave_directory);
}
