/* SPDX-License-Identifier: Apache-2.0 */
/* test_tiles.c - arrays in tiles are as if they were in memory */
#include "config.h"

#include "tests/unit/drive.h"
#include "parallel/tiles.h"

enum { ARRAYS = 3, COUNT = 5000, ODD_TILE = 768, STEPS = 400 };

/* What the arrays should be. */
static float model[ARRAYS][COUNT];

static uint32_t random_state;

static size_t draw(size_t below)
{
    random_state = random_state * 1664525u + 1013904223u;
    return (random_state >> 8) % below;
}

static struct dt_tiles *must_create(const struct dt_tiles_options *options)
{
    const struct dt_exec exec = dt_exec_cpu();
    struct dt_error err;
    struct dt_tiles *tiles = dt_tiles_create(options, &exec, &err);
    if (!tiles)
        fail_msg("%s", err.text);
    memset(model, 0, sizeof(model));
    return tiles;
}

static struct dt_tiles_options options_of(enum dt_tier tier, size_t buffers)
{
    return (struct dt_tiles_options){
        .tier = tier,
        .arrays = ARRAYS,
        .type = DT_F32,
        .count = COUNT,
        .tile = ODD_TILE,
        .buffers = buffers,
        .path = drive(),
        .block_bytes = 4096,
        .queue_depth = 4,
    };
}

static void must(int rc, const struct dt_error *err)
{
    if (rc < 0)
        fail_msg("%s", err->text);
}

static void put_range(struct dt_tiles *tiles)
{
    size_t array = draw(ARRAYS), first = draw(COUNT);
    size_t count = 1 + draw(COUNT - first);
    struct dt_error err;
    for (size_t i = 0; i < count; i++)
        model[array][first + i] = (float)draw(1 << 20);
    must(dt_tiles_put(tiles, array, first, count, &model[array][first], &err),
         &err);
}

static void check_range(struct dt_tiles *tiles)
{
    static float found[COUNT];
    size_t array = draw(ARRAYS), first = draw(COUNT);
    size_t count = 1 + draw(COUNT - first);
    struct dt_view seen;
    struct dt_error err;
    must(dt_tiles_get(tiles, array, first, count, found, &err), &err);
    assert_memory_equal(found, &model[array][first], count * sizeof(float));
    must(dt_tiles_see(tiles, array, first, count, &seen, &err), &err);
    assert_true(seen.count > 0 && seen.count <= count);
    assert_memory_equal(dt_view_f32(seen), &model[array][first],
                        seen.count * sizeof(float));
}

/* Reads a tile, or overwrites it, and changes all of it. */
static void update_tile(struct dt_tiles *tiles)
{
    bool overwrite = draw(4) == 0;
    size_t i = draw((COUNT + ODD_TILE - 1) / ODD_TILE), first = i * ODD_TILE;
    struct dt_view views[ARRAYS];
    struct dt_error err;
    must(dt_tiles_open(tiles, i, overwrite, views, &err), &err);
    assert_int_equal(views[0].count,
                     COUNT - first < ODD_TILE ? COUNT - first : ODD_TILE);
    for (size_t array = 0; array < ARRAYS; array++)
        for (size_t j = 0; j < views[array].count; j++) {
            float *now = &dt_view_f32(views[array])[j];
            assert_true(overwrite || *now == model[array][first + j]);
            *now = model[array][first + j] = (float)draw(1 << 20);
        }
    must(dt_tiles_close(tiles, &err), &err);
}

static void any_order_of_calls_is_as_if_in_memory(void **state)
{
    (void)state;
    for (size_t buffers = 0; buffers <= 4; buffers++) {
        const struct dt_tiles_options options =
            options_of(buffers ? DT_TIER_FILE : DT_TIER_HOST, buffers);
        struct dt_tiles *tiles = must_create(&options);
        struct dt_error err;
        random_state = (uint32_t)buffers + 1;
        check_range(tiles); /* zeros */
        for (int step = 0; step < STEPS; step++) {
            size_t what = draw(8);
            if (what < 2)
                put_range(tiles);
            else if (what < 4)
                check_range(tiles);
            else if (what == 4)
                must(dt_tiles_expect(tiles, draw(COUNT / 2), COUNT / 2, &err),
                     &err);
            else
                update_tile(tiles);
        }
        dt_tiles_destroy(tiles);
    }
    dt_tiles_destroy(NULL);
}

/* --- a device that copies when it is waited for --- */

enum { LATE = 64 };

static struct {
    void *to;
    const void *from;
    size_t bytes;
} late[LATE];
static size_t late_count, late_done, locked;

/* An event is the number of copies before it. */
struct dt_event {
    size_t end;
};

static void copy_until(size_t end)
{
    for (; late_done < end; late_done++)
        memcpy(late[late_done % LATE].to, late[late_done % LATE].from,
               late[late_done % LATE].bytes);
}

static int late_lock(void *data, size_t bytes, struct dt_error *err)
{
    (void)data, (void)bytes, (void)err;
    locked++;
    return 0;
}

static void late_unlock(void *data)
{
    (void)data;
    locked--;
}

static int late_copy(struct dt_stream *stream, void *to, const void *from,
                     size_t bytes, struct dt_error *err)
{
    (void)stream, (void)err;
    assert_true(late_count - late_done < LATE);
    late[late_count % LATE].to = to;
    late[late_count % LATE].from = from;
    late[late_count++ % LATE].bytes = bytes;
    return 0;
}

static int late_wait(struct dt_stream *stream, struct dt_error *err)
{
    (void)stream, (void)err;
    copy_until(late_count);
    return 0;
}

static int late_event(struct dt_event **event, struct dt_error *err)
{
    (void)err;
    *event = calloc(1, sizeof(**event));
    return *event ? 0 : -1;
}

static void late_event_destroy(struct dt_event *event)
{
    free(event);
}

static int late_record(struct dt_event *event, struct dt_stream *stream,
                       struct dt_error *err)
{
    (void)stream, (void)err;
    event->end = late_count;
    return 0;
}

static int late_is_done(struct dt_event *event, struct dt_error *err)
{
    (void)err;
    copy_until(event->end);
    return 1;
}

static struct dt_device late_device(void)
{
    struct dt_device device = dt_cpu;
    device.is_host = false;
    device.lock = late_lock;
    device.unlock = late_unlock;
    device.copy = late_copy;
    device.stream_wait = late_wait;
    device.event_create = late_event;
    device.event_destroy = late_event_destroy;
    device.event_record = late_record;
    device.event_done = late_is_done;
    return device;
}

/* The host changes the tile of element `at`, whatever is still to be copied. */
static void change_tile(struct dt_tiles *tiles, size_t at, float *all)
{
    struct dt_view views[ARRAYS];
    struct dt_error err;
    size_t first = at / ODD_TILE * ODD_TILE;
    must(dt_tiles_open(tiles, at / ODD_TILE, false, views, &err), &err);
    for (size_t i = 0; i < views[0].count; i++)
        all[first + i] = dt_view_f32(views[0])[i] += 1;
    must(dt_tiles_close(tiles, &err), &err);
}

/* A buffer is not read into, written back or changed while it is copied. */
static void buffers_are_locked_and_outlast_their_copies(void **state)
{
    enum { ROUNDS = 20, GETS = 6, LENGTH = 700 };
    static float found[GETS][LENGTH], before[COUNT];
    const struct dt_tiles_options options = options_of(DT_TIER_FILE, 1);
    const struct dt_device device = late_device();
    const struct dt_exec exec = {&device, dt_ops_cpu(), NULL};
    struct dt_error err;
    size_t at[GETS];
    (void)state;
    struct dt_tiles *tiles = dt_tiles_create(&options, &exec, &err);
    assert_non_null(tiles);
    assert_int_equal(locked, ARRAYS);
    for (size_t i = 0; i < COUNT; i++)
        model[0][i] = (float)i;
    must(dt_tiles_put(tiles, 0, 0, COUNT, model[0], &err), &err);
    for (int round = 0; round < ROUNDS; round++) {
        for (size_t i = 0; i < GETS; i++) {
            at[i] = draw(COUNT - LENGTH);
            must(dt_tiles_get(tiles, 0, at[i], LENGTH, found[i], &err), &err);
        }
        memcpy(before, model[0], sizeof(before));
        change_tile(tiles, at[GETS - 1], model[0]);
        late_wait(NULL, NULL);
        for (size_t i = 0; i < GETS; i++)
            assert_memory_equal(found[i], &before[at[i]], sizeof(found[i]));
    }
    dt_tiles_destroy(tiles);
    assert_int_equal(locked, 0);
}

static void the_plan_says_where_bytes_are(void **state)
{
    struct dt_tiles_options options = options_of(DT_TIER_HOST, 2);
    (void)state;
    struct dt_tiles_bytes bytes = dt_tiles_plan(&options);
    assert_int_equal(bytes.host, 3 * 4 * COUNT);
    assert_int_equal(bytes.device + bytes.file, 0);
    options.on_device = true;
    assert_int_equal(dt_tiles_plan(&options).device, 3 * 4 * ODD_TILE);
    options.tier = DT_TIER_FILE;
    bytes = dt_tiles_plan(&options);
    assert_int_equal(bytes.file, 3 * 7 * 4096); /* 7 tiles of 3072 bytes */
    assert_int_equal(bytes.host, (size_t)3 * 2 * 2097152);
}

static void a_directory_that_cannot_be_used_is_named(void **state)
{
    struct dt_tiles_options options = options_of(DT_TIER_FILE, 3);
    const struct dt_exec exec = dt_exec_cpu();
    struct dt_error err;
    (void)state;
    options.path = "/nowhere";
    assert_null(dt_tiles_create(&options, &exec, &err));
    assert_int_equal(err.status, EX_CANTCREAT);
    assert_non_null(strstr(err.text, "/nowhere: cannot create a file in it: "));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_order_of_calls_is_as_if_in_memory),
        cmocka_unit_test(buffers_are_locked_and_outlast_their_copies),
        cmocka_unit_test(the_plan_says_where_bytes_are),
        cmocka_unit_test(a_directory_that_cannot_be_used_is_named),
    };
    if (!may_use_uring())
        return 0;
    return cmocka_run_group_tests_name("tiles", tests, NULL, NULL);
}
