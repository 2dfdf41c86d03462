/* SPDX-License-Identifier: Apache-2.0 */
/* stage.c - keeps the files of a checkpoint in memory until they are written */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "ckpt/ckpt_impl.h"

enum { PAGE = 4096 };

static int no_memory(const char *path, struct dt_error *err)
{
    return dt_error_set(err, EX_OSERR, "%s: no memory to keep it in", path);
}

struct dt_ckpt_stage *dt_ckpt_stage_create(void *memory, size_t bytes,
                                           struct dt_error *err)
{
    struct dt_ckpt_stage *stage = calloc(1, sizeof(*stage));
    if (!stage) {
        dt_error_set(err, EX_OSERR, "out of memory");
        return NULL;
    }
    stage->memory = memory;
    stage->bytes = bytes;
#pragma omp parallel for
    for (size_t i = 0; i < bytes; i += PAGE)
        stage->memory[i] = 0;
    return stage;
}

void dt_ckpt_stage_destroy(struct dt_ckpt_stage *stage)
{
    if (!stage)
        return;
    dt_ckpt_stage_clear(stage);
    free(stage->files);
    free(stage->pieces);
    free(stage);
}

/* Makes room for one more element in an array. */
static void *grow(void *array, size_t count, size_t bytes)
{
    enum { STEP = 64 };
    return count % STEP ? array : realloc(array, (count + STEP) * bytes);
}

int dt_ckpt_stage_file(struct dt_ckpt_stage *stage, const char *path,
                       struct dt_error *err)
{
    void *files = grow(stage->files, stage->file_count, sizeof(*stage->files));
    char *copy = strdup(path);
    if (files)
        stage->files = files;
    if (!files || !copy) {
        free(copy);
        return no_memory(path, err);
    }
    /* its bytes are in one piece from here, as the disk may want them */
    const size_t begin = (stage->used + DT_CKPT_BLOCK - 1) & -DT_CKPT_BLOCK;
    stage->used = begin < stage->bytes ? begin : stage->bytes;
    stage->files[stage->file_count++] = (struct dt_ckpt_staged){
        .path = copy, .first = stage->piece_count, .end = stage->piece_count};
    return 0;
}

int dt_ckpt_stage_copy(struct dt_ckpt_stage *stage, const char *path,
                       const char *from, size_t max_bytes, struct dt_error *err)
{
    char *copy = strdup(from);
    if (!copy || dt_ckpt_stage_file(stage, path, err) < 0) {
        free(copy);
        return no_memory(path, err);
    }
    stage->files[stage->file_count - 1].from = copy;
    stage->files[stage->file_count - 1].max_bytes = max_bytes;
    return 0;
}

#ifdef __SSE2__
enum { LINE = 64, PAGES = 4, AT_ONCE = 2 * LINE };

/* Copies PAGES pages to a place at the begin of a line, past the cache: nobody
 * reads the copy soon, and no line of it has to be read before it is written.
 * Memory is faster at several pages side by side than at one after another.
 */
static void copy_pages(char *to, const char *from)
{
    for (size_t i = 0; i < PAGE; i += AT_ONCE) {
        for (size_t k = i; k < PAGES * PAGE; k += PAGE)
            for (size_t j = k; j < k + AT_ONCE; j += LINE)
                _mm_prefetch(from + PAGES * PAGE + j, _MM_HINT_T0);
        for (size_t k = i; k < PAGES * PAGE; k += PAGE)
            for (size_t j = k; j < k + AT_ONCE; j += sizeof(__m128i))
                _mm_stream_si128((__m128i *)(to + j),
                                 _mm_loadu_si128((const __m128i *)(from + j)));
    }
}

static void copy_part(char *to, const char *from, size_t bytes)
{
    size_t i = -(uintptr_t)to % LINE;
    memcpy(to, from, i < bytes ? i : bytes);
    for (; i + PAGES * PAGE <= bytes; i += PAGES * PAGE)
        copy_pages(to + i, from + i);
    _mm_sfence();
    if (i < bytes)
        memcpy(to + i, from + i, bytes - i);
}
#else
static void copy_part(char *to, const char *from, size_t bytes)
{
    memcpy(to, from, bytes);
}
#endif

static void copy_bytes(char *to, const char *from, size_t bytes)
{
    enum { PART = 1 << 20 };
#pragma omp parallel for if (bytes > PART)
    for (size_t i = 0; i < bytes; i += PART)
        copy_part(to + i, from + i, bytes - i < PART ? bytes - i : PART);
}

void *dt_ckpt_stage_room(struct dt_ckpt_stage *stage, size_t bytes,
                         struct dt_error *err)
{
    struct dt_ckpt_staged *file = &stage->files[stage->file_count - 1];
    struct dt_ckpt_piece *pieces =
        grow(stage->pieces, stage->piece_count, sizeof(*pieces));
    struct dt_ckpt_piece piece = {stage->memory + stage->used, bytes, false};
    if (pieces)
        stage->pieces = pieces;
    if (bytes > stage->bytes - stage->used) {
        piece.data = malloc(bytes);
        piece.own = true;
    } else {
        stage->used += bytes;
    }
    if (!pieces || !piece.data) {
        if (piece.own)
            free(piece.data);
        no_memory(file->path, err);
        return NULL;
    }
    stage->pieces[stage->piece_count++] = piece;
    file->end = stage->piece_count;
    return piece.data;
}

int dt_ckpt_stage_put(struct dt_ckpt_stage *stage, const void *data,
                      size_t bytes, struct dt_error *err)
{
    char *to = dt_ckpt_stage_room(stage, bytes, err);
    if (!to)
        return -1;
    copy_bytes(to, data, bytes);
    return 0;
}

void dt_ckpt_stage_drop(struct dt_ckpt_stage *stage)
{
    const struct dt_ckpt_staged *file = &stage->files[--stage->file_count];
    for (size_t i = file->end; i-- > file->first; stage->piece_count--) {
        struct dt_ckpt_piece *piece = &stage->pieces[i];
        if (piece->own)
            free(piece->data);
        else
            stage->used -= piece->bytes;
    }
    free(file->from);
    free(file->path);
}

void dt_ckpt_stage_clear(struct dt_ckpt_stage *stage)
{
    while (stage->file_count > 0)
        dt_ckpt_stage_drop(stage);
    stage->used = 0;
}
