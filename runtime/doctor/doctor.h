/* SPDX-License-Identifier: Apache-2.0 */
/*
 * doctor.h - finds what is wrong with the nodes of a job
 */
#ifndef DT_DOCTOR_DOCTOR_H
#define DT_DOCTOR_DOCTOR_H

#include "doctor/doctor_report.h"

/* Examines this node as a probe does, on stdin and stdout. -1: EX_OSERR,
 * EX_PROTOCOL.
 */
int dt_doctor_probe(struct dt_error *err);

/* Starts argv, which runs `count` probes, numbered from 0, and fills report
 * with what they say. After the first answer, the others get a few seconds. If
 * a node has not answered by then, it is absent from report, and no probe has
 * been told to continue: srun passes no input on before all tasks have started.
 * -1: EX_UNAVAILABLE, argv cannot be started.
 */
int dt_doctor_gather(struct dt_doctor_report *report, size_t count,
                     char *const argv[], struct dt_error *err);

#endif /* DT_DOCTOR_DOCTOR_H */
