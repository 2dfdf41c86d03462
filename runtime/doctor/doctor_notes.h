/* SPDX-License-Identifier: Apache-2.0 */
/*
 * doctor_notes.h - writes facts about a node, one per line
 *
 *     NODE hello NAME ADDRESS PORT    the probe runs and listens there
 *     NODE cell COLUMN TEXT           one cell of the table
 *     NODE warn COLUMN TEXT           a problem, and what to do
 *     NODE bad COLUMN TEXT            a problem that makes the node unfit
 *     NODE miss PEER REASON           the node PEER could not be reached
 *     NODE clock AHEAD ERROR          seconds ahead of the lowest node
 *     NODE end                        all checks are done
 *
 * NODE and PEER are numbers. Lines are shorter than the 1024 bytes that srun
 * passes on in one piece.
 */
#ifndef DT_DOCTOR_DOCTOR_NOTES_H
#define DT_DOCTOR_DOCTOR_NOTES_H

#include <stdio.h>

enum dt_doctor_column {
    DT_DOCTOR_GPUS,
    DT_DOCTOR_DRIVER,
    DT_DOCTOR_RDMA,
    DT_DOCTOR_LIMITS,
    DT_DOCTOR_SPACE,
    DT_DOCTOR_MEMORY,
    DT_DOCTOR_LOAD,
    DT_DOCTOR_STALE,
    DT_DOCTOR_INTERFACE,
    DT_DOCTOR_PEERS,
    DT_DOCTOR_CLOCK,
    DT_DOCTOR_DISTTRAIN,
    DT_DOCTOR_PMIX,
    DT_DOCTOR_SLURM,
    DT_DOCTOR_COLUMNS,
};

/* Where the checks of a node write their notes. */
struct dt_doctor_notes {
    FILE *file;
    int node;
};

/* Returns the name of a column in notes and in the table's header. */
const char *dt_doctor_column_name(enum dt_doctor_column column);

/* Each writes one line, truncated to DT_DOCTOR_LINE_BYTES; control characters
 * become "?".
 */
void dt_doctor_cell(const struct dt_doctor_notes *notes,
                    enum dt_doctor_column column, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void dt_doctor_warn(const struct dt_doctor_notes *notes,
                    enum dt_doctor_column column, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void dt_doctor_bad(const struct dt_doctor_notes *notes,
                   enum dt_doctor_column column, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

enum {
    DT_DOCTOR_LINE_BYTES = 900,
};

#endif /* DT_DOCTOR_DOCTOR_NOTES_H */
