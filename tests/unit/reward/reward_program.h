/* SPDX-License-Identifier: Apache-2.0 */
/* reward_program.h - a program that gives rewards, well or badly */
#ifndef DT_TESTS_UNIT_REWARD_PROGRAM_H
#define DT_TESTS_UNIT_REWARD_PROGRAM_H

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <jansson.h>

/* Answers a request: each reward is the length of the completion, plus 0.5. */
static void answer_well(const json_t *request)
{
    const json_t *samples = json_object_get(request, "samples");
    printf("{\"id\": %d, \"rewards\": [",
           (int)json_integer_value(json_object_get(request, "id")));
    for (size_t i = 0; i < json_array_size(samples); i++)
        printf("%s%.1f", i ? ", " : "",
               0.5 + (double)json_string_length(json_object_get(
                         json_array_get(samples, i), "completion")));
    puts("], \"more\": [{}]}"); /* which is left out */
    fflush(stdout);
}

/* Ends if the first completion is this text. */
static void exit_on(const json_t *request, const char *text)
{
    const json_t *first =
        json_array_get(json_object_get(request, "samples"), 0);
    if (strcmp(json_string_value(json_object_get(first, "completion")), text) ==
        0)
        exit(3);
}

static void say(const char *text)
{
    fputs(text, stdout);
    fflush(stdout);
}

static void hang(void)
{
    for (;;)
        pause();
}

/* A process that outlives this one, holds its pipes and writes its number; only
 * then does this one go on.
 */
static void leave_grandchild(void)
{
    int written[2];
    char none;
    if (pipe(written) < 0)
        exit(9);
    if (fork() == 0) {
        FILE *file = fopen("pids", "a");
        fprintf(file, "%d\n", (int)getpid());
        fclose(file);
        close(written[0]);
        close(written[1]);
        hang();
    }
    close(written[1]);
    if (read(written[0], &none, 1) != 0)
        exit(9);
}

/* Writes without ever ending the line. */
static void write_endlessly(void)
{
    char text[4096];
    memset(text, 'x', sizeof(text));
    while (write(1, text, sizeof(text)) > 0)
        continue;
    hang();
}

/* Writes to stderr for ever, and faster than lines go to the log. */
static void flood_stderr(void)
{
    char text[65536];
    for (size_t i = 0; i < sizeof(text); i++)
        text[i] = i % 2 ? '\n' : 'x';
    while (write(2, text, sizeof(text)) > 0)
        continue;
}

static void fill_stderr(void)
{
    for (int i = 0; i < 20000; i++)
        fprintf(stderr, "line %d of much that nobody reads\n", i);
}

/* What a program sees of where it is. */
static void tell_surroundings(const json_t *request)
{
    const char *devices = getenv("CUDA_VISIBLE_DEVICES");
    char here[256] = "";
    DIR *dir = opendir("/proc/self/fd");
    int open_files = 0;
    while (dir && readdir(dir))
        open_files++;
    printf("{\"id\": %d, \"rewards\": [%d, %d, %d, %d]}\n",
           (int)json_integer_value(json_object_get(request, "id")),
           devices && !*devices, getenv("RANK") != NULL,
           getcwd(here, sizeof(here)) && strstr(here, "disttrain-conf") != NULL,
           open_files - 3 - 3); /* ., .., of the folder; the three pipes */
    fflush(stdout);
}

/* Does what `mode` says in place of an answer. */
static void misbehave(const char *mode, const json_t *request)
{
    static const struct {
        const char *mode, *reply;
    } replies[] = {
        {"garbage", "Loading weights ...\n"},
        {"binary", "\x01\xff\x1b[2J\n"},
        {"empty", "\n"},
        {"list", "[1, 2]\n"},
        {"few", "{\"id\": 1, \"rewards\": [1]}\n"},
        {"many", "{\"id\": 1, \"rewards\": [1, 2, 3, 4]}\n"},
        {"none", "{\"id\": 1}\n"},
        {"nan", "{\"id\": 1, \"rewards\": [1, NaN, 2]}\n"},
        {"large", "{\"id\": 1, \"rewards\": [1e30, null, -1.1e30]}\n"},
        {"inf", "{\"id\": 1, \"rewards\": [1, 1e999, 2]}\n"},
        {"text", "{\"id\": 1, \"rewards\": [1, \"2\", 3]}\n"},
        {"id", "{\"id\": 7, \"rewards\": [1, 2, 3]}\n"},
        {"channels", "{\"id\": 1, \"channels\": {\"a\": [1, 2, 3]}}\n"},
        {"error", "{\"error\": \"no judge is left\"}\n"},
        {"twice", "{\"id\": 1, \"rewards\": [1, 2, 3]}\n{}\n"},
    };
    for (size_t i = 0; i < sizeof(replies) / sizeof(*replies); i++)
        if (strcmp(mode, replies[i].mode) == 0)
            say(replies[i].reply);
    if (strcmp(mode, "exit") == 0) {
        fprintf(stderr, "Traceback:\nValueError: no\n");
        exit(3);
    } else if (strcmp(mode, "abort") == 0) {
        signal(SIGABRT, SIG_DFL);
        abort();
    } else if (strcmp(mode, "killed") == 0) {
        raise(SIGKILL);
    } else if (strcmp(mode, "stopped") == 0) {
        raise(SIGSTOP);
    } else if (strcmp(mode, "huge") == 0) {
        write_endlessly();
    } else if (strcmp(mode, "stdout") == 0) {
        close(1);
    } else if (strcmp(mode, "null") == 0) {
        say("{\"id\": 1, \"rewards\": [null, null, 2]}\n");
        return;
    } else if (strcmp(mode, "stderr") == 0) {
        fill_stderr();
        answer_well(request);
        return;
    } else if (strcmp(mode, "where") == 0) {
        tell_surroundings(request);
        return;
    } else if (strcmp(mode, "picky") == 0) {
        exit_on(request, "1");
        answer_well(request);
        return;
    } else if (strcmp(mode, "grandchild") == 0) {
        leave_grandchild();
        exit(0);
    } else if (strcmp(mode, "memory") == 0) {
        void *volatile memory = calloc(2048, 1 << 20); /* is not left out */
        if (!memory)
            exit(9);
    } else if (strcmp(mode, "cpu") == 0) {
        while (clock() >= 0)
            continue;
    }
    hang(); /* also "hang" itself */
}

/* What happens instead of the answer to the first line. */
static void start_badly(const char *mode)
{
    if (strcmp(mode, "start-exit") == 0)
        exit(4);
    if (strcmp(mode, "start-hang") == 0)
        hang();
    if (strcmp(mode, "start-flood") == 0)
        flood_stderr();
    if (strcmp(mode, "start-garbage") == 0)
        say("hello\n");
    if (strcmp(mode, "start-abi") == 0)
        say("{\"ready\": true, \"abi\": 2}\n");
    if (strcmp(mode, "start-error") == 0)
        say("{\"error\": \"no model at /x\"}\n");
    if (strcmp(mode, "unasked") == 0)
        say("{\"ready\": true, \"abi\": 1}\n{\"id\": 1, \"rewards\": []}\n");
    hang();
}

/* The program: argv is NAME as MODE [once]. With `once` only the first process
 * in this directory misbehaves.
 */
static int reward_program(int argc, char **argv)
{
    const char *mode = argv[2];
    bool bad = strcmp(mode, "well") != 0;
    char *line = NULL;
    size_t room = 0;
    signal(SIGTERM, SIG_IGN);
    FILE *pids = fopen("pids", "a");
    fprintf(pids, "%d\n", (int)getpid());
    fclose(pids);
    if (argc > 3)
        bad = open("once", O_CREAT | O_EXCL | O_CLOEXEC, 0600) >= 0;
    if (getline(&line, &room, stdin) <= 0)
        return 0;
    if (bad && (strncmp(mode, "start", 5) == 0 || strcmp(mode, "unasked") == 0))
        start_badly(mode);
    if (bad && strcmp(mode, "stdin") == 0)
        close(0);
    say("{\"ready\": true, \"abi\": 1}\n");
    if (bad && (strcmp(mode, "mute") == 0 || strcmp(mode, "stdin") == 0))
        hang(); /* without reading a request that does not fit into the pipe */
    while (getline(&line, &room, stdin) > 0) {
        json_t *request = json_loads(line, 0, NULL);
        if (!request)
            return 5;
        if (bad)
            misbehave(mode, request);
        else
            answer_well(request);
        json_decref(request);
    }
    free(line);
    return 0;
}

#endif /* DT_TESTS_UNIT_REWARD_PROGRAM_H */
