/* SPDX-License-Identifier: Apache-2.0 */
/* ckpt_write.c - writes the files that a stage has kept */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt/ckpt_impl.h"

/* The bytes of a file if they are in one piece; else NULL. */
static const char *whole(const struct dt_ckpt_stage *stage,
                         const struct dt_ckpt_staged *file, size_t *bytes)
{
    *bytes = 0;
    for (size_t i = file->first; i < file->end; i++) {
        if (stage->pieces[i].own)
            return NULL;
        *bytes += stage->pieces[i].bytes;
    }
    return file->end > file->first ? stage->pieces[file->first].data : NULL;
}

/* Writes all blocks past the page cache, which halves the CPU time and leaves
 * the cache to the run, and then what is left.
 */
static int write_whole(struct dt_ckpt_sink *sink, const char *data,
                       size_t bytes, struct dt_error *err)
{
    const size_t blocks = bytes & -DT_CKPT_BLOCK;
    if ((uintptr_t)data % DT_CKPT_BLOCK == 0)
        dt_ckpt_sink_direct(sink, true);
    if (dt_ckpt_sink_write(sink, data, blocks, err) < 0)
        return -1;
    dt_ckpt_sink_direct(sink, false);
    return dt_ckpt_sink_write(sink, data + blocks, bytes - blocks, err);
}

static int write_pieces(struct dt_ckpt_sink *sink,
                        const struct dt_ckpt_stage *stage,
                        const struct dt_ckpt_staged *file, struct dt_error *err)
{
    size_t bytes;
    const char *data = whole(stage, file, &bytes);
    if (data)
        return write_whole(sink, data, bytes, err);
    for (size_t i = file->first; i < file->end; i++)
        if (dt_ckpt_sink_write(sink, stage->pieces[i].data,
                               stage->pieces[i].bytes, err) < 0)
            return -1;
    return 0;
}

static int write_content(struct dt_ckpt_writer *writer,
                         const struct dt_ckpt_stage *stage,
                         const struct dt_ckpt_staged *file, const char *name,
                         struct dt_error *err)
{
    struct dt_ckpt_sink sink;
    uint64_t xxh3;
    if (dt_ckpt_sink_init(&sink, NULL, file->path, err) < 0)
        return -1;
    if (write_pieces(&sink, stage, file, err) < 0) {
        dt_ckpt_sink_abandon(&sink);
        return -1;
    }
    return dt_ckpt_sink_finish(&sink, &xxh3, err) < 0
               ? -1
               : dt_ckpt_add_sum(writer, name, xxh3, err);
}

/* Enters the folder of a file, and writes it. */
static int write_file(struct dt_ckpt_writer *writer,
                      const struct dt_ckpt_stage *stage,
                      const struct dt_ckpt_staged *file, struct dt_error *err)
{
    char folder[sizeof(writer->folder)];
    const char *below = file->path + strlen(writer->temp) + 1;
    const char *slash = strchr(below, '/');
    const char *name = slash ? slash + 1 : below;
    snprintf(folder, sizeof(folder), "%.*s", (int)(name - below), below);
    if (strcmp(folder, writer->folder) != 0) {
        folder[slash ? slash - below : 0] = '\0';
        if (dt_ckpt_enter(writer, folder, err) < 0)
            return -1;
    }
    return file->from ? dt_ckpt_add_copy(writer, name, file->from,
                                         file->max_bytes, err)
                      : write_content(writer, stage, file, name, err);
}

int dt_ckpt_write(struct dt_ckpt_writer *writer, struct dt_error *err)
{
    const struct dt_ckpt_stage *stage = writer->stage;
    writer->stage = NULL;
    writer->folder[0] = '\0';
    int rc = dt_ckpt_make_room(writer, err);
    for (size_t i = 0; rc == 0 && i < stage->file_count; i++)
        rc = write_file(writer, stage, &stage->files[i], err);
    return rc < 0 ? -1 : dt_ckpt_enter(writer, "", err);
}
