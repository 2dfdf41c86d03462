/* SPDX-License-Identifier: Apache-2.0 */
/* entry.h - a record with all that it refers to, on its way to a file */
#ifndef DT_REPORT_ENTRY_H
#define DT_REPORT_ENTRY_H

#include "report/record.h"

struct dt_entry {
    enum dt_entry_kind { DT_ENTRY_RECORD, DT_ENTRY_EVENT, DT_ENTRY_RANKS } kind;
    double time; /* of a record: that of the process, in seconds */
    union {
        struct dt_report_record record;
        struct dt_report_event event;
        struct dt_report_ranks ranks;
    };
};

/* Copies; free() them. NULL: no memory. */
struct dt_entry *dt_entry_record(const struct dt_report_record *record,
                                 double time);
struct dt_entry *dt_entry_event(const struct dt_report_event *event);
struct dt_entry *dt_entry_ranks(const struct dt_report_ranks *ranks);

#endif /* DT_REPORT_ENTRY_H */
