/* SPDX-License-Identifier: Apache-2.0 */
/* silence.h - when ranks have printed nothing for too long
 *
 * Times are seconds on any clock that does not jump.
 */
#ifndef DT_REPORT_SILENCE_H
#define DT_REPORT_SILENCE_H

#include <stdbool.h>

struct dt_silence {
    double limit_s; /* 0: any silence is fine; grows with false alarms */
    double since;
    bool told;
};

/* A rank has printed or started now. A silence that was told and ends by itself
 * was no hang, but a compilation or a long step: only twice its length is too
 * long from now on.
 */
void dt_silence_break(struct dt_silence *silence, double now);

/* Seconds until it has been too long; INFINITY: it has been told, or there is
 * no limit.
 */
double dt_silence_left(const struct dt_silence *silence, double now);

/* Whether it has been too long: true once for each silence. */
bool dt_silence_tell(struct dt_silence *silence, double now);

#endif /* DT_REPORT_SILENCE_H */
