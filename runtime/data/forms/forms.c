/* SPDX-License-Identifier: Apache-2.0 */
/* forms.c - chooses the reader of a file */
#include "config.h"

#include <inttypes.h>
#include <string.h>

#include "data/forms/forms_impl.h"

static dt_reader_f *const readers[] = {
    [DT_FORM_PLAIN] = dt_read_plain,     [DT_FORM_ARRAY] = dt_read_array,
    [DT_FORM_CSV] = dt_read_csv,         [DT_FORM_TSV] = dt_read_tsv,
    [DT_FORM_PARQUET] = dt_read_parquet, [DT_FORM_ARROW] = dt_read_arrow,
};

int dt_read_plain(struct dt_bytes *bytes, struct dt_line_out *out,
                  struct dt_error *err)
{
    for (int more = 0; more == 0;) {
        const char *begin = (const char *)bytes->buffer + bytes->at;
        const char *lf = memchr(begin, '\n', bytes->count - bytes->at);
        size_t n = lf ? (size_t)(lf - begin) : bytes->count - bytes->at;
        if (out->bytes - out->began + n > DT_LINE_BYTES)
            return dt_error_set(err, EX_DATAERR, "%s:%" PRIu64 ": %s",
                                bytes->path, out->line, DT_LINE_TOO_LONG);
        dt_line_out_put(out, begin, n);
        bytes->at += n + (lf != NULL);
        if (lf)
            more = dt_line_out_end(out, err);
        else if (dt_bytes_fill(bytes, err) < 0)
            return -1;
        else if (bytes->count == 0)
            more = 1;
        if (more < 0)
            return -1;
    }
    return 0;
}

int dt_lines_read(struct dt_map *lines, const char *path,
                  const struct dt_found *found, const char *dir, uint64_t most,
                  const struct dt_lines_keep *keep, struct dt_stop *stop,
                  struct dt_error *err)
{
    struct dt_line_out out = {0};
    struct dt_bytes bytes = {.path = path, .line = 1};
    int rc = -1;
    *lines = (struct dt_map){0};
    bytes.input = dt_input_open(path, found->codec, err);
    if (bytes.input && dt_line_out_init(&out, path, dir, most, err) == 0) {
        out.stop = stop;
        out.keep = keep;
        if (readers[found->form](&bytes, &out, err) == 0)
            rc = dt_line_out_map(&out, lines, err);
    }
    dt_line_out_fini(&out);
    dt_input_close(bytes.input);
    return rc;
}
