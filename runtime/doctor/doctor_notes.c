/* SPDX-License-Identifier: Apache-2.0 */
/* doctor_notes.c - writes facts about a node, one per line, for the table */
#include "config.h"

#include <stdarg.h>

#include "doctor/doctor_notes.h"

static const char *const names[DT_DOCTOR_COLUMNS] = {
    [DT_DOCTOR_GPUS] = "gpus",           [DT_DOCTOR_DRIVER] = "driver",
    [DT_DOCTOR_RDMA] = "rdma",           [DT_DOCTOR_LIMITS] = "limits",
    [DT_DOCTOR_SPACE] = "space",         [DT_DOCTOR_MEMORY] = "memory",
    [DT_DOCTOR_LOAD] = "load",           [DT_DOCTOR_STALE] = "stale",
    [DT_DOCTOR_INTERFACE] = "interface", [DT_DOCTOR_PEERS] = "peers",
    [DT_DOCTOR_CLOCK] = "clock",         [DT_DOCTOR_DISTTRAIN] = "disttrain",
    [DT_DOCTOR_PMIX] = "pmix",           [DT_DOCTOR_SLURM] = "slurm",
};

const char *dt_doctor_column_name(enum dt_doctor_column column)
{
    return names[column];
}

static void write_line(const struct dt_doctor_notes *notes, const char *kind,
                       enum dt_doctor_column column, const char *fmt,
                       va_list ap)
{
    char text[DT_DOCTOR_LINE_BYTES];
    vsnprintf(text, sizeof(text), fmt, ap);
    for (char *c = text; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            *c = '?';
    fprintf(notes->file, "%d %s %s %s\n", notes->node, kind, names[column],
            text);
    fflush(notes->file);
}

void dt_doctor_cell(const struct dt_doctor_notes *notes,
                    enum dt_doctor_column column, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    write_line(notes, "cell", column, fmt, ap);
    va_end(ap);
}

void dt_doctor_warn(const struct dt_doctor_notes *notes,
                    enum dt_doctor_column column, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    write_line(notes, "warn", column, fmt, ap);
    va_end(ap);
}

void dt_doctor_bad(const struct dt_doctor_notes *notes,
                   enum dt_doctor_column column, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    write_line(notes, "bad", column, fmt, ap);
    va_end(ap);
}
