/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sink.h - another form of what a run records, such as files of TensorBoard
 *
 * A sink takes records as they come, live from the run or read back from its
 * files. No error of a sink costs the run: report.c prints one warning, closes
 * the sink, and the run goes on.
 */
#ifndef DT_REPORT_SINK_H
#define DT_REPORT_SINK_H

#include <jansson.h>

#include "base/error.h"
#include "report/record.h"

struct dt_sink;

struct dt_sink_options {
    const char *dir;   /* where its files go: logging.dir, if live */
    const json_t *run; /* the object of run.json */
    long first_step;   /* steps done before this start of the run */
    void *context;     /* what this kind of sink asks for; may be NULL */
};

/* A kind of sink. Functions that may be NULL have nothing to do then; -1:
 * EX_CANTCREAT, EX_IOERR, and only `close` is called after that.
 */
struct dt_sink_type {
    const char *name; /* "tensorboard" */
    struct dt_sink *(*open)(const struct dt_sink_options *options,
                            struct dt_error *err);
    int (*record)(struct dt_sink *sink, const struct dt_report_record *record,
                  struct dt_error *err);
    int (*event)(struct dt_sink *sink, const struct dt_report_event *event,
                 struct dt_error *err); /* may be NULL */
    int (*ranks)(struct dt_sink *sink, const struct dt_report_ranks *ranks,
                 struct dt_error *err); /* may be NULL */
    void (*close)(struct dt_sink *sink);
};

extern const struct dt_sink_type dt_sink_tensorboard;

/* A value of the configuration in run.json by its name, or NULL: not known,
 * null; and the text of one that is a text that is not empty, or NULL.
 */
const json_t *dt_sink_setting(const json_t *run, const char *key);
const char *dt_sink_setting_text(const json_t *run, const char *key);

#endif /* DT_REPORT_SINK_H */
