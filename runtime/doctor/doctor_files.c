/* SPDX-License-Identifier: Apache-2.0 */
/*
 * doctor_files.c - reads small files and directories of the kernel below a root
 */
#include "config.h"

#include <limits.h>
#include <stdarg.h>
#include <string.h>

#include "doctor/doctor_files.h"

static bool join_path(char *path, size_t size, const char *root,
                      const char *fmt, va_list ap)
{
    size_t used = strlen(root);
    if (used >= size)
        return false;
    memcpy(path, root, used);
    int n = vsnprintf(path + used, size - used, fmt, ap);
    return n >= 0 && (size_t)n < size - used;
}

FILE *dt_doctor_open(const char *root, const char *fmt, ...)
{
    char path[PATH_MAX];
    va_list ap;
    va_start(ap, fmt);
    bool fits = join_path(path, sizeof(path), root, fmt, ap);
    va_end(ap);
    return fits ? fopen(path, "re") : NULL;
}

DIR *dt_doctor_opendir(const char *root, const char *fmt, ...)
{
    char path[PATH_MAX];
    va_list ap;
    va_start(ap, fmt);
    bool fits = join_path(path, sizeof(path), root, fmt, ap);
    va_end(ap);
    return fits ? opendir(path) : NULL;
}

bool dt_doctor_read_line(char *line, size_t size, const char *root,
                         const char *fmt, ...)
{
    char path[PATH_MAX];
    va_list ap;
    va_start(ap, fmt);
    bool fits = join_path(path, sizeof(path), root, fmt, ap);
    va_end(ap);
    FILE *file = fits ? fopen(path, "re") : NULL;
    if (!file)
        return false;
    bool found = fgets(line, (int)size, file) != NULL;
    fclose(file);
    if (found)
        line[strcspn(line, "\n")] = '\0';
    return found;
}

bool dt_doctor_is_numbered(const char *name, const char *prefix)
{
    size_t len = strlen(prefix);
    if (strncmp(name, prefix, len) != 0 || name[len] == '\0')
        return false;
    return name[len + strspn(name + len, "0123456789")] == '\0';
}

char *dt_doctor_bytes(char *text, size_t size, unsigned long long bytes)
{
    static const char *const units[] = {"B",   "KiB", "MiB", "GiB",
                                        "TiB", "PiB", "EiB"};
    double value = (double)bytes;
    size_t unit = 0;
    while (value >= 1024 && unit + 1 < sizeof(units) / sizeof(*units)) {
        value /= 1024;
        unit++;
    }
    snprintf(text, size, unit > 0 && value < 10 ? "%.1f %s" : "%.0f %s", value,
             units[unit]);
    return text;
}
