/* SPDX-License-Identifier: Apache-2.0 */
/* doctor_rates.h - `disttrain doctor --rates` */
#ifndef DT_CMD_DOCTOR_RATES_H
#define DT_CMD_DOCTOR_RATES_H

/* A measurement, and the file for its results. */
struct dt_doctor_rates {
    const char *file;
    const char *config; /* whose shapes; NULL: GPT-2 124M's */
    const char *drive;  /* a directory; NULL: none */
};

/* Measures the rates of the step, as one of its ranks; rank 0 writes the file,
 * and keeps the other rates of an older one. Returns the exit status, after a
 * message if there is one.
 */
int dt_doctor_rates(const struct dt_doctor_rates *what);

#endif /* DT_CMD_DOCTOR_RATES_H */
