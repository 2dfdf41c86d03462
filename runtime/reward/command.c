/* SPDX-License-Identifier: Apache-2.0 */
/* command.c - a reward function that is a program */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "reward/reward_impl.h"

enum {
    REPLY_BYTES = 1 << 20, /* of a reply, and for each value in it: */
    VALUE_BYTES = 64,
};
static const double grace_s = 0.5; /* after its stdin is closed */

struct command {
    struct dt_process process;
    char **argv;
    json_int_t id; /* of the last request */
};

/* Ends the program, if it runs. A broken one is not given time. */
static void stop_program(struct command *command, double wait_s)
{
    dt_process_end(&command->process, wait_s);
}

/* Starts the program and waits until it is ready. */
static int start_program(struct dt_reward_lane *lane, struct dt_error *err)
{
    struct command *command = lane->state;
    const struct dt_process_options options = {
        .argv = command->argv,
        .directory = lane->directory,
        .name = lane->conf->name,
        .secrets = lane->conf->secrets,
        .gpu = lane->conf->gpu,
        .memory_mb = lane->conf->memory_mb,
        .cpu_s = lane->conf->cpu_s,
        .stop = lane->stop,
    };
    const char *reply;
    size_t bytes;
    char *hello = dt_reward_hello(lane->conf, lane->run);
    int rc = hello ? dt_process_start(&command->process, &options, err)
                   : dt_error_set(err, EX_OSERR, "out of memory");
    if (rc == 0)
        rc = dt_process_ask(&command->process, hello, REPLY_BYTES,
                            lane->conf->timeout_s, &reply, &bytes, err);
    if (rc == 0)
        rc = dt_reward_ready(reply, bytes, err);
    free(hello);
    if (rc < 0) {
        stop_program(command, 0);
        return dt_error_prefix(err, "the start");
    }
    return 0;
}

/* The words that start the program; NULL: out of memory. */
static char **make_argv(const struct dt_conf_list *words)
{
    char **argv = calloc(words->count + 1, sizeof(*argv));
    if (argv)
        memcpy(argv, words->text, words->count * sizeof(*argv));
    return argv;
}

static int open_command(struct dt_reward_lane *lane, struct dt_error *err)
{
    if (dt_conf_check_secrets(lane->conf, err) < 0)
        return -1;
    struct command *command = calloc(1, sizeof(*command));
    lane->state = command;
    if (command)
        command->argv = make_argv(&lane->conf->command);
    return command && command->argv
               ? start_program(lane, err)
               : dt_error_set(err, EX_OSERR, "out of memory");
}

static int ask(struct dt_reward_lane *lane, const struct dt_reward_part *part,
               double *values, struct dt_error *err)
{
    struct command *command = lane->state;
    const struct dt_reward_form form = {.id = ++command->id,
                                        .count = part->count,
                                        .channels = &lane->conf->channels};
    size_t most = REPLY_BYTES + VALUE_BYTES * part->count *
                                    dt_conf_reward_channels(lane->conf);
    char *request = dt_reward_request(
        part, form.id, lane->conf->image_bytes ? lane->images : NULL, err);
    const char *reply;
    size_t bytes;
    int rc = request
                 ? dt_process_ask(&command->process, request, most,
                                  lane->conf->timeout_s, &reply, &bytes, err)
                 : -1;
    if (rc == 0)
        rc = dt_reward_reply(reply, bytes, &form, values, err);
    free(request);
    return rc;
}

static int score_command(struct dt_reward_lane *lane,
                         const struct dt_reward_part *part, double *values,
                         struct dt_error *err)
{
    struct command *command = lane->state;
    if (command->process.pid == 0 && start_program(lane, err) < 0)
        return -1;
    if (ask(lane, part, values, err) == 0)
        return 0;
    stop_program(command, 0);
    return -1;
}

static void close_command(struct dt_reward_lane *lane)
{
    struct command *command = lane->state;
    if (!command)
        return;
    stop_program(command, grace_s);
    free(command->argv);
    free(command);
}

const struct dt_reward_kind dt_reward_command = {
    .open = open_command,
    .score = score_command,
    .close = close_command,
};
