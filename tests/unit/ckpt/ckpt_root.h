/* SPDX-License-Identifier: Apache-2.0 */
/* ckpt_root.h - saves and finds checkpoints under a new root in each test */
#ifndef TESTS_UNIT_CKPT_ROOT_H
#define TESTS_UNIT_CKPT_ROOT_H

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "ckpt/ckpt.h"
#include "ckpt/safetensors.h"
#include "tests/unit/disk.h"
#include "tests/unit/tensor_read.h"
#include "tests/unit/scratch.h"

enum {
    WEIGHTS = 1000,
};

static char root[300];
static char notes[8192];

/* A fresh root for every test. */
static inline int setup(void **state)
{
    static int number;
    char name[16];
    (void)state;
    snprintf(name, sizeof(name), "root-%d", number++);
    snprintf(root, sizeof(root), "%s", scratch_path(name));
    notes[0] = '\0';
    return 0;
}

static const char *in_root(const char *name)
{
    static char paths[4][600];
    static unsigned next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof(paths[0]), "%s/%s", root, name);
    return path;
}

/* Saves WEIGHTS weights that all equal `value`, then prunes. Returns 1 if only
 * pruning failed.
 */
static inline int save(const char *dir, long step, float value, int total_limit,
                       struct dt_error *err)
{
    float data[WEIGHTS];
    struct dt_buffer buf = {data, sizeof(data), &dt_cpu};
    struct dt_ckpt_tensor tensor = {
        "w", 1, {WEIGHTS}, dt_view_of(&buf, DT_F32), DT_F32, false, 0};
    for (int i = 0; i < WEIGHTS; i++)
        data[i] = value;
    struct dt_ckpt_writer *writer = dt_ckpt_begin(dir, step, err);
    if (!writer)
        return -1;
    if (dt_ckpt_add_tensors(writer, "model.safetensors", &tensor, 1, NULL,
                            err) < 0 ||
        dt_ckpt_add_text(writer, "state.json", "{}\n", err) < 0) {
        dt_ckpt_abandon(writer);
        return -1;
    }
    if (dt_ckpt_commit(writer, err) < 0)
        return -1;
    const struct dt_ckpt_keep keep = {.limit = total_limit, .step = step};
    return dt_ckpt_prune(dir, &keep, err) < 0;
}

static inline void must_save(long step, float value, int total_limit)
{
    struct dt_error err = {0};
    if (save(root, step, value, total_limit, &err) < 0)
        fail_msg("%s", err.text);
}

static inline void note(const char *text)
{
    size_t n = strlen(notes);
    snprintf(notes + n, sizeof(notes) - n, "%s\n", text);
}

static const struct dt_ckpt_watch watch = {.note = note};

/* The value of the newest whole checkpoint, or -1 if there is none. */
static inline float found_value(void)
{
    struct dt_error err = {0};
    float data[WEIGHTS];
    struct dt_buffer buf = {data, sizeof(data), &dt_cpu};
    const size_t shape[] = {WEIGHTS};
    char *path, model[700];
    notes[0] = '\0';
    if (dt_ckpt_find(root, &watch, &path, &err) < 0)
        fail_msg("%s", err.text);
    if (!path)
        return -1;
    snprintf(model, sizeof(model), "%s/model.safetensors", path);
    free(path);
    struct dt_safetensors *file = dt_safetensors_open(model, &err);
    if (!file ||
        tensor_read(file, "w", 1, shape, dt_view_of(&buf, DT_F32), &err) < 0)
        fail_msg("%s", err.text);
    dt_safetensors_close(file);
    for (int i = 1; i < WEIGHTS; i++)
        assert_true(data[i] == data[0]);
    return data[0];
}

static inline void assert_note(const char *text)
{
    if (!strstr(notes, text))
        fail_msg("expected a note \"%s\", got \"%s\"", text, notes);
}

static inline void put(const char *name, const char *text)
{
    FILE *f = fopen(in_root(name), "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static inline bool exists(const char *name)
{
    return access(in_root(name), F_OK) == 0;
}

static inline int temp_count(void)
{
    int count = 0;
    DIR *dir = opendir(root);
    assert_non_null(dir);
    for (struct dirent *e; (e = readdir(dir));)
        count += strncmp(e->d_name, ".tmp-", 5) == 0;
    closedir(dir);
    return count;
}

static inline void assert_latest(const char *expected)
{
    char target[256];
    ssize_t n = readlink(in_root("latest"), target, sizeof(target) - 1);
    assert_true(n > 0);
    target[n] = '\0';
    assert_string_equal(target, expected);
}

#endif /* TESTS_UNIT_CKPT_ROOT_H */
