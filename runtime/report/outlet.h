/* SPDX-License-Identifier: Apache-2.0 */
/*
 * outlet.h - where records go: files of lines, and sinks
 *
 * A thread writes them. A record is written when a call returns, unless the
 * disk takes longer than two seconds: then records wait in memory, which costs
 * one warning, and the run goes on.
 */
#ifndef DT_REPORT_OUTLET_H
#define DT_REPORT_OUTLET_H

#include "base/error.h"
#include "report/record.h"

struct dt_outlet;

/* Opens metrics.jsonl, events.jsonl and ranks.jsonl in `dir`, as
 * dt_report_create does; NULL: there are sinks only. NULL and err:
 * EX_CANTCREAT, EX_IOERR, EX_OSERR.
 */
struct dt_outlet *dt_outlet_create(const char *dir, long first_step,
                                   bool resumes, struct dt_error *err);

/* Waits some seconds for what is not written yet; NULL is fine. */
void dt_outlet_destroy(struct dt_outlet *outlet);

/* As dt_report_add_sink. */
void dt_outlet_add_sink(struct dt_outlet *outlet,
                        const struct dt_sink_type *type,
                        const struct dt_sink_options *options);

/* `time` is that of the process, in seconds. */
void dt_outlet_record(struct dt_outlet *outlet,
                      const struct dt_report_record *record, double time);
void dt_outlet_event(struct dt_outlet *outlet,
                     const struct dt_report_event *event);
void dt_outlet_ranks(struct dt_outlet *outlet,
                     const struct dt_report_ranks *ranks);

/* Syncs metrics.jsonl to disk. -1: EX_IOERR, also if records wait for it. */
int dt_outlet_sync(struct dt_outlet *outlet, struct dt_error *err);

#endif /* DT_REPORT_OUTLET_H */
