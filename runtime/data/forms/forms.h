/* SPDX-License-Identifier: Apache-2.0 */
/* forms.h - the rows of a file of any form as lines of JSON */
#ifndef DT_DATA_FORMS_FORMS_H
#define DT_DATA_FORMS_FORMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include <jansson.h>

#include "base/error.h"
#include "base/file.h"
#include "base/kind.h"

/* The state of requests to stop, for one thread. Starts zeroed, except `asked`.
 */
struct dt_stop {
    bool (*asked)(void); /* from any thread; NULL: never stops */
    double next;         /* time of the next question */
};

/* Calls `asked` a few times a second at most. -1: EX_TEMPFAIL with the path,
 * the caller must stop.
 */
int dt_stop_check(struct dt_stop *stop, const char *path, struct dt_error *err);

/* The limit of a line: a text without line breaks, or one that unpacks to far
 * more than the file has, is refused before memory runs out.
 */
enum { DT_LINE_BYTES = 1 << 28 };
#define DT_LINE_TOO_LONG "a line of more than 256 MiB: is a line break missing?"

/* Reads a line of at most `most` bytes with its end, and terminates it, as
 * getline does; *line starts as NULL with *room 0, and the caller frees it.
 * Returns its bytes, 0 at the end of the file; -1: EX_DATAERR, it is longer;
 * EX_IOERR; EX_OSERR; without the file's name.
 */
ssize_t dt_line_read(FILE *file, char **line, size_t *room, size_t most,
                     struct dt_error *err);

/* Parses a line, which must be an object; release with json_decref. NULL and
 * err: EX_DATAERR, without the file's name.
 */
json_t *dt_line_parse(const char *line, size_t length, struct dt_error *err);

/* The value of a key; NULL also if it is null, which tables write for an empty
 * field.
 */
json_t *dt_line_value(const json_t *root, const char *key);

/* The kind of a value: "a string", "nothing" if it is NULL; all numbers are "a
 * number"; a type of columns that JSON lacks keeps its name there.
 */
const char *dt_line_kind(const json_t *value);

/* Copies text from a file for use in a message; control characters become '?'.
 */
void dt_line_printable(const char *text, char *out, size_t size);

/* Lists the keys of an object for a message: "a, b, c", or nothing. */
void dt_line_keys(json_t *root, char *out, size_t size);

enum { DT_LINES_NAME = 80 };

/* What becomes of the bytes of a column, which JSON cannot hold. */
struct dt_lines_keep {
    /* Keeps bytes, and sets the name under which they are kept: the line gets
     * {"image": name}. 1: they are not of the kind that is kept, as err says,
     * and are not read; -1: another failure.
     */
    int (*keep)(void *ctx, const void *data, size_t bytes,
                char name[DT_LINES_NAME], struct dt_error *err);
    void *ctx;
};

/* Reads rows, at most `most` of them if that is not 0, into a file without a
 * name in `dir`, or in memory if dir is NULL, and maps it; release with
 * dt_map_fini. Lines are numbered as in messages, which have dt_kind_mark
 * before the number. Bytes of columns are not read if `keep` is NULL. -1:
 * EX_NOINPUT, EX_IOERR; EX_DATAERR with the file and the
 * place in it; EX_CANTCREAT, EX_OSERR; as keep; as dt_stop_check, unless stop
 * is NULL.
 */
int dt_lines_read(struct dt_map *lines, const char *path,
                  const struct dt_found *found, const char *dir, uint64_t most,
                  const struct dt_lines_keep *keep, struct dt_stop *stop,
                  struct dt_error *err);

#endif /* DT_DATA_FORMS_FORMS_H */
