/* SPDX-License-Identifier: Apache-2.0 */
/* test_parts.c - the optimizer's files of more ranks than files may be open */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include "ckpt/safetensors.h"
#include "device/device.h"
#include "tests/unit/scratch.h"
#include "weights/parts.h"

enum { RANKS = 1000, OPEN_FILES = 40 };

static void must(bool ok, const struct dt_error *err)
{
    if (!ok)
        fail_msg("%s", err->text);
}

/* Two units: a matrix that every rank has some of, and one that few have. */
static struct dt_layout *make_layout(int world)
{
    static const size_t large[] = {500, 600}, small[] = {7, 11};
    struct dt_error err;
    struct dt_layout *layout = dt_layout_create(&err);
    must(layout &&
             dt_layout_add_unit(layout, DT_UNIT_BLOCK, DT_PART_LANGUAGE,
                                &err) == 0 &&
             dt_layout_add_param(layout, "large", true, 2, large, &err) == 0 &&
             dt_layout_add_unit(layout, DT_UNIT_BLOCK, DT_PART_LANGUAGE,
                                &err) == 0 &&
             dt_layout_add_param(layout, "small", true, 2, small, &err) == 1,
         &err);
    dt_layout_finish(layout, world);
    return layout;
}

/* Element i of parameter p of a kind. */
static float value(enum dt_owned kind, size_t p, size_t i)
{
    return (float)((size_t)kind * 1000000 + p * 400000 + i);
}

static void fill(const struct dt_layout *layout, enum dt_owned kind, float *all)
{
    for (size_t p = 0; p < layout->param_count; p++)
        for (size_t i = 0; i < layout->params[p].count; i++)
            all[layout->params[p].offset + i] = value(kind, p, i);
}

/* Writes the file of one rank; flat: the buffers of the two moments. */
static void write_file(const struct dt_layout *layout, int rank,
                       const struct dt_view *flat)
{
    struct dt_view parts[DT_OWNED_GRADS * 2];
    struct dt_error err;
    char path[DT_PARTS_NAME_BYTES];
    uint64_t checksum;
    size_t count;
    for (enum dt_owned kind = DT_OWNED_M; kind < DT_OWNED_GRADS; kind++)
        for (size_t u = 0; u < 2; u++) {
            struct dt_range part = dt_layout_part(layout, u, rank, RANKS);
            parts[(size_t)kind * 2 + u] =
                dt_view_slice(flat[kind], part.first, part.count);
        }
    struct dt_ckpt_tensor *tensors = dt_parts_list(
        layout, rank, RANKS, DT_OWNED_M, DT_OWNED_GRADS, parts, &count, &err);
    must(tensors, &err);
    dt_parts_name(path, rank, RANKS);
    must(dt_safetensors_write(path, tensors, count, NULL, &checksum, &err) == 0,
         &err);
    dt_parts_free_list(tensors, count);
}

static void write_files(void)
{
    struct dt_layout *layout = make_layout(RANKS);
    struct dt_buffer *bufs[DT_OWNED_GRADS] = {0};
    struct dt_view flat[DT_OWNED_GRADS];
    struct dt_error err;
    for (enum dt_owned kind = DT_OWNED_M; kind < DT_OWNED_GRADS; kind++) {
        bufs[kind] = dt_buffer_create(&dt_cpu, layout->count * sizeof(float),
                                      "a test", &err);
        must(bufs[kind], &err);
        flat[kind] = dt_view_of(bufs[kind], DT_F32);
        fill(layout, kind, dt_view_f32(flat[kind]));
    }
    for (int r = 0; r < RANKS; r++)
        write_file(layout, r, flat);
    for (enum dt_owned kind = DT_OWNED_M; kind < DT_OWNED_GRADS; kind++)
        dt_buffer_destroy(bufs[kind]);
    dt_layout_destroy(layout);
}

/* Reads all of a kind at once, as a world of one rank does. */
static void check_kind(const struct dt_layout *layout,
                       const struct dt_parts *parts, enum dt_owned kind)
{
    struct dt_error err;
    struct dt_buffer *buf = dt_buffer_create(
        &dt_cpu, layout->count * sizeof(float), "a test", &err);
    must(buf && dt_parts_have(parts, kind, &err) == 1, &err);
    struct dt_view to = dt_view_of(buf, DT_F32);
    must(dt_parts_read(parts, kind, (struct dt_range){0, layout->count}, to,
                       &err) == 0,
         &err);
    for (size_t p = 0; p < layout->param_count; p++)
        for (size_t i = 0; i < layout->params[p].count; i++)
            if (dt_view_f32(to)[layout->params[p].offset + i] !=
                value(kind, p, i))
                fail_msg("kind %d, parameter %zu, element %zu", kind, p, i);
    dt_buffer_destroy(buf);
}

static void one_process_reads_the_files_of_a_thousand_ranks(void **state)
{
    struct rlimit limit, low;
    struct dt_error err;
    struct dt_parts *parts;
    (void)state;
    write_files();
    struct dt_layout *layout = make_layout(1);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    low = (struct rlimit){OPEN_FILES, limit.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    must(dt_parts_open(".", layout, &parts, &err) == 0 && parts, &err);
    for (enum dt_owned kind = DT_OWNED_M; kind < DT_OWNED_GRADS; kind++)
        check_kind(layout, parts, kind);
    dt_parts_close(parts);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    dt_layout_destroy(layout);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_process_reads_the_files_of_a_thousand_ranks),
    };
    scratch_path("");
    if (chdir(scratch_root) < 0)
        return 1;
    return cmocka_run_group_tests_name("parts", tests, NULL, NULL);
}
