/* SPDX-License-Identifier: Apache-2.0 */
/* report_impl.h - parts of the sink for TensorBoard, for its tests */
#ifndef DT_REPORT_REPORT_IMPL_H
#define DT_REPORT_REPORT_IMPL_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "report/protobuf.h"
#include "report/record.h"

struct dt_event_file;

/* Numbers of the fields of an Event and a Summary.Value. */
enum {
    DT_EVENT_SUMMARY = 5,
    DT_SUMMARY_VALUE = 1,
    DT_VALUE_TAG = 1,
    DT_VALUE_SIMPLE = 2,
};

/* Creates a file in the directory, and the directory if necessary. The name
 * sorts after all names in it, even if the clock was set back, because one
 * reader takes files by name. The file begins with the version of its format
 * and with the start of a session at `step`, which makes the other reader
 * forget points of older files from there on. `wall` is in seconds since 1970.
 * Release with dt_event_file_destroy. NULL and err: EX_CANTCREAT, EX_IOERR,
 * EX_OSERR.
 */
struct dt_event_file *dt_event_file_create(const char *dir, double wall,
                                           long step, struct dt_error *err);
void dt_event_file_destroy(struct dt_event_file *file); /* NULL is fine */

/* Begins an event; the caller appends its other fields, and dt_event_file_end
 * writes it. -1: EX_OSERR, or EX_IOERR, also if the file was removed; nothing
 * may be written after that.
 */
struct dt_protobuf *dt_event_file_begin(struct dt_event_file *file, double wall,
                                        long step);
int dt_event_file_end(struct dt_event_file *file, struct dt_error *err);

/* logging.names */
enum dt_names { DT_NAMES_HF, DT_NAMES_DEEPSPEED };

enum { DT_TAG_BYTES = 192 };

/* Writes the tag of value i of a record, always valid UTF-8. False: the value
 * has no tag. A NaN has one only where it means that training has diverged;
 * elsewhere it means that the value is unknown.
 */
bool dt_names_tag(enum dt_names names, const struct dt_report_record *record,
                  size_t i, char tag[DT_TAG_BYTES]);

#endif /* DT_REPORT_REPORT_IMPL_H */
