/* SPDX-License-Identifier: Apache-2.0 */
/* report_to.c - gives the records of a run to a sink */
#include "config.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cmd/report_to.h"
#include "report/sink.h"

static const struct form {
    const char *name, *file; /* in the directory */
    const struct dt_sink_type *sink;
} forms[] = {
    {"tensorboard", "tb", &dt_sink_tensorboard},
    {"wandb", "wandb", &dt_sink_wandb},
};

static const struct form *find_form(const char *name)
{
    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++)
        if (!strcmp(forms[i].name, name))
            return &forms[i];
    return NULL;
}

bool dt_report_form_known(const char *form)
{
    return find_form(form) != NULL;
}

/* How the run has ended, if it has: a sink wants to know. */
static int give_end(const struct dt_history_facts *facts,
                    const struct dt_sink_type *type, struct dt_sink *sink,
                    struct dt_error *err)
{
    static const char *const kinds[][2] = {
        {"finished", "end"}, {"stopped", "stop"}, {"failed", "failed"}};
    for (size_t i = 0; type->event && facts->status && i < 3; i++)
        if (!strcmp(facts->status, kinds[i][0]))
            return type->event(sink,
                               &(struct dt_report_event){.kind = kinds[i][1],
                                                         .wall = facts->ended,
                                                         .seconds = NAN,
                                                         .bytes = NAN,
                                                         .rank = -1},
                               err);
    return 0;
}

static int give_records(struct dt_history *history,
                        const struct dt_sink_type *type, struct dt_sink *sink,
                        struct dt_error *err)
{
    struct dt_report_record record;
    struct dt_report_ranks ranks;
    int more;
    while ((more = dt_history_next(history, &record, err)) > 0)
        if (type->record(sink, &record, err) < 0)
            return -1;
    while (more == 0 && type->ranks &&
           (more = dt_history_next_ranks(history, &ranks, err)) > 0) {
        if (type->ranks(sink, &ranks, err) < 0)
            return -1;
        more = 0;
    }
    if (more < 0 || (type->flush && type->flush(sink, err) < 0))
        return -1;
    return give_end(dt_history_facts(history), type, sink, err);
}

static int write_sink(struct dt_history *history,
                      const struct dt_sink_type *type, const char *dir,
                      struct dt_error *err)
{
    const struct dt_sink_options options = {
        .dir = dir, .run = dt_history_facts(history)->json};
    struct dt_sink *sink = type->open(&options, err);
    if (!sink)
        return -1;
    int rc = give_records(history, type, sink, err);
    type->close(sink);
    return rc;
}

int dt_report_to(const char *name, const char *run, const char *output,
                 struct dt_error *err)
{
    const struct form *form = find_form(name);
    char path[PATH_MAX];
    struct dt_history *history = dt_history_open(run, err);
    if (!history)
        return -1;
    const char *dir = output ? output : dt_history_dir(history);
    const int n = snprintf(path, sizeof(path), "%s/%s", dir, form->file);
    int rc = n < 0 || (size_t)n >= sizeof(path)
                 ? dt_error_set(err, EX_CANTCREAT, "%s: path too long", dir)
                 : write_sink(history, form->sink, dir, err);
    dt_history_destroy(history);
    if (rc == 0)
        puts(path);
    return rc;
}
