/* SPDX-License-Identifier: Apache-2.0 */
/*
 * log.h - lines for people on stderr: `HH:MM:SS.mmm rank module: text`
 *
 * Numbers for machines go to report/, never parsed out of the log.
 */
#ifndef DT_BASE_LOG_H
#define DT_BASE_LOG_H

enum dt_log_level {
    DT_LOG_ERROR,
    DT_LOG_WARN,
    DT_LOG_INFO,
    DT_LOG_DEBUG,
    DT_LOG_NEWS, /* info that is printed even if said.h knows it */
};

/* Sets which lines are printed. Until called: rank 0, level info. Info and
 * debug are printed by rank 0 only, unless level is debug; warnings and errors
 * by all.
 */
void dt_log_init(int rank, enum dt_log_level level);

/* Prints one line without secrets, in one write(2), if the level asks for it.
 * `module` is the folder of the caller, `comm` or `ckpt`. Thread-safe.
 */
void dt_log(enum dt_log_level level, const char *module, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#endif /* DT_BASE_LOG_H */
