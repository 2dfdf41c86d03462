/* SPDX-License-Identifier: Apache-2.0 */
/* ckpt_write.c - writes the files that a stage has kept */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt/ckpt_impl.h"

static int write_content(struct dt_ckpt_writer *writer,
                         const struct dt_ckpt_stage *stage,
                         const struct dt_ckpt_staged *file, const char *name,
                         struct dt_error *err)
{
    struct dt_ckpt_sink sink;
    uint64_t xxh3;
    if (dt_ckpt_sink_init(&sink, NULL, file->path, err) < 0)
        return -1;
    for (size_t i = file->first; i < file->end; i++)
        if (dt_ckpt_sink_write(&sink, stage->pieces[i].data,
                               stage->pieces[i].bytes, err) < 0) {
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
