/* SPDX-License-Identifier: Apache-2.0 */
/*
 * doctor_files.h - reads small files and directories of the kernel below a root
 */
#ifndef DT_DOCTOR_DOCTOR_FILES_H
#define DT_DOCTOR_DOCTOR_FILES_H

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Opens root + formatted path for reading; NULL if that fails. The caller
 * closes it.
 */
FILE *dt_doctor_open(const char *root, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
DIR *dt_doctor_opendir(const char *root, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* Reads the first line of a file, without its end, into line[size]. False if
 * there is no such file or it is empty.
 */
bool dt_doctor_read_line(char *line, size_t size, const char *root,
                         const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* Whether `name` is `prefix` followed by a number. */
bool dt_doctor_is_numbered(const char *name, const char *prefix);

/* Writes bytes as "512 MiB" or "3.5 GiB", truncated to size. Returns text. */
char *dt_doctor_bytes(char *text, size_t size, unsigned long long bytes);

#endif /* DT_DOCTOR_DOCTOR_FILES_H */
