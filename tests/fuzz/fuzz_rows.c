/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_rows.c - any bytes as a data file of any form: an error or lines
 *
 * The first byte is the form, from '0' on, the second the codec; the rest is
 * the file.
 */
#include "config.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "data/forms/forms.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* An error is one line of text. Lines end with a line break. */
static void check(int rc, const struct dt_map *lines,
                  const struct dt_error *err, enum dt_form form)
{
    const char *text = lines->data;
    if (rc < 0 && (!err->text[0] || strpbrk(err->text, "\n\r\x1b")))
        abort();
    if (rc == 0 && form != DT_FORM_PLAIN && lines->bytes > 0 &&
        text[lines->bytes - 1] != '\n')
        abort();
}

/* Keeps bytes unless there are many, and looks at all of them. */
static int keep_bytes(void *ctx, const void *data, size_t bytes,
                      char name[DT_LINES_NAME], struct dt_error *err)
{
    unsigned sum = 0;
    (void)ctx;
    for (size_t i = 0; i < bytes; i++)
        sum += ((const uint8_t *)data)[i];
    snprintf(name, DT_LINES_NAME, "\"%u", sum);
    if (bytes > 3)
        dt_error_set(err, EX_DATAERR, "%zu are many", bytes);
    return bytes > 3;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct dt_lines_keep keep = {keep_bytes, NULL};
    static int fd = -1;
    char path[64];
    struct dt_map lines;
    struct dt_error err = {0};
    if (size < 2)
        return 0;
    const struct dt_found found = {
        .kind = DT_KIND_LINES,
        .form = (enum dt_form)((data[0] - '0') % DT_FORM_COUNT),
        .codec = (enum dt_codec)((data[1] - '0') % 3)};
    if ((int)found.form < 0 || (int)found.codec < 0)
        return 0;
    if (fd < 0)
        fd = memfd_create("fuzz", 0);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    if (ftruncate(fd, 0) < 0 ||
        pwrite(fd, data + 2, size - 2, 0) != (ssize_t)size - 2)
        abort();
    for (uint64_t most = 0; most < 3; most++) {
        int rc = dt_lines_read(&lines, path, &found, NULL, most,
                               most ? &keep : NULL, NULL, &err);
        check(rc, &lines, &err, found.form);
        dt_map_fini(&lines);
    }
    return 0;
}
