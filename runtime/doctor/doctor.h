/* SPDX-License-Identifier: Apache-2.0 */
/*
 * doctor.h - what is wrong with the nodes of a job
 *
 * One process asks, and a probe runs on each node. They talk through the stdin
 * and stdout that srun gives the probes, and not over PMIx: a doctor must not
 * need what it examines, and a fence never ends when two nodes cannot talk.
 *
 *     probe: notes.h, "hello" first      asker: a line "NODE NAME ADDRESS PORT"
 *                                               for each probe, then "go"
 *     probe: all the rest, then "end"    asker: closes stdin
 */
#ifndef DT_DOCTOR_DOCTOR_H
#define DT_DOCTOR_DOCTOR_H

#include "doctor/report.h"

/* Examines this node as a probe does, on stdin and stdout. -1: EX_OSERR,
 * EX_PROTOCOL.
 */
int dt_doctor_probe(struct dt_error *err);

/* Starts argv, which runs `count` probes, numbered from 0, and fills report
 * with what they say. They get a few seconds from the first answer on; whoever
 * has not answered by then is absent from report, and since srun passes nothing
 * on before all have begun, the others have not been told to go on. -1:
 * EX_UNAVAILABLE, argv cannot be started.
 */
int dt_doctor_gather(struct dt_doctor_report *report, size_t count,
                     char *const argv[], struct dt_error *err);

#endif /* DT_DOCTOR_DOCTOR_H */
