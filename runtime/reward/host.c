/* SPDX-License-Identifier: Apache-2.0 */
/* host.c - answers requests with a library, in the process made for it */
#include "config.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "reward/library.h"
#include "reward/serve.h"

/* Opens the library with the configuration in the first line. */
static struct dt_library *open_library(const char *path, const char *line,
                                       struct dt_error *err)
{
    json_t *hello = json_loads(line, 0, NULL);
    const json_t *config = json_object_get(hello, "config");
    char *text = config ? json_dumps(config, 0) : NULL;
    struct dt_library *library = dt_library_open(path, text, err);
    free(text);
    json_decref(hello);
    return library;
}

/* The answer to a request, malloc'ed. NULL: out of memory. */
static char *answer(struct dt_library *library, const char *line)
{
    struct dt_reward_asked asked;
    struct dt_error err;
    struct dt_reward_batch *batch = NULL;
    double *values = NULL;
    char *reply = NULL;
    int rc = dt_reward_asked_read(&asked, line, strlen(line), &err);
    if (rc == 0) {
        batch = dt_reward_batch_create(asked.step, asked.samples, asked.count);
        values = calloc(asked.count + 1, sizeof(*values));
        const struct dt_reward_part part = {.batch = batch,
                                            .count = asked.count};
        rc = batch && values ? dt_library_score(library, &part, values, &err)
                             : dt_error_set(&err, EX_OSERR, "out of memory");
    }
    reply = rc == 0
                ? dt_reward_answer(asked.id, values, asked.count, NULL, NULL, 0)
                : dt_reward_answer_error(err.text);
    dt_reward_batch_destroy(batch);
    dt_reward_asked_fini(&asked);
    free(values);
    return reply;
}

/* Writes a line, and releases it. */
static int say(char *line, FILE *out, struct dt_error *err)
{
    bool good = line && fputs(line, out) >= 0 && fflush(out) == 0;
    int status = line ? EX_IOERR : EX_OSERR;
    free(line);
    return good ? 0 : dt_error_set(err, status, "an answer cannot be written");
}

int dt_reward_host(const char *path, FILE *in, FILE *out, struct dt_error *err)
{
    char *line = NULL;
    size_t room = 0;
    struct dt_error why;
    int rc = 0;
    if (getline(&line, &room, in) <= 0) {
        free(line);
        return 0;
    }
    struct dt_library *library = open_library(path, line, &why);
    if (!library)
        rc = say(dt_reward_answer_error(why.text), out, err);
    else
        rc = say(strdup("{\"ready\":true,\"abi\":1}\n"), out, err);
    while (library && rc == 0 && getline(&line, &room, in) > 0)
        rc = say(answer(library, line), out, err);
    dt_library_close(library);
    free(line);
    return rc;
}
