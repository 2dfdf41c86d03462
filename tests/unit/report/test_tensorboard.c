/* SPDX-License-Identifier: Apache-2.0 */
/* test_tensorboard.c - bytes of event files, names of scalars, failures */
#include "config.h"

#include "base/rng.h"
#include "report/report_impl.h"
#include "tests/unit/sink_scene.h"

enum { EVENT_WALL = 1, EVENT_STEP = 2, EVENT_VERSION = 3, EVENT_SESSION = 7 };

/* --- a small reader --- */

/* A masked CRC-32C, bit by bit. */
static uint32_t checksum_of(const uint8_t *data, size_t bytes)
{
    uint32_t crc = UINT32_MAX;
    for (size_t i = 0; i < bytes; i++) {
        crc ^= data[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78 : 0);
    }
    crc = ~crc;
    return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

/* The next event of a file; false at its end, or where it is torn. */
static bool next_event(const struct dt_map *map, size_t *at,
                       struct proto_field *event)
{
    const uint8_t *data = map->data;
    if (*at + 16 > map->bytes)
        return false;
    const size_t bytes = (size_t)proto_fixed(data + *at, 8);
    assert_int_equal(proto_fixed(data + *at + 8, 4),
                     checksum_of(data + *at, 8));
    if (bytes > map->bytes - *at - 16)
        return false;
    *event = (struct proto_field){
        .type = 2, .data = data + *at + 12, .bytes = bytes};
    assert_int_equal(proto_fixed(event->data + bytes, 4),
                     checksum_of(event->data, bytes));
    *at += 16 + bytes;
    return true;
}

/* Whether an event has a value of this tag; its number. */
static bool find_tag(struct proto_field event, const char *tag, float *value)
{
    struct proto_field summary = proto_within(event, DT_EVENT_SUMMARY), one;
    struct proto in = {summary.data, summary.data + summary.bytes};
    while (proto_next(&in, &one)) {
        if (!proto_is(proto_within(one, DT_VALUE_TAG), tag))
            continue;
        *value = proto_float(proto_within(one, DT_VALUE_SIMPLE));
        return true;
    }
    return false;
}

/* The points of a tag in all files of a run, as "step:value " each. */
static void read_points(const char *tag, char *text, size_t size)
{
    char tb[80], path[PATH_MAX];
    text[0] = '\0';
    snprintf(tb, sizeof(tb), "%s/tb", dir);
    for (int n = 0; find_name(tb, "events.", n, path), path[0]; n++) {
        struct dt_map map = map_file(path);
        struct proto_field event;
        float value;
        for (size_t at = 0; next_event(&map, &at, &event);) {
            const size_t used = strlen(text);
            if (find_tag(event, tag, &value))
                snprintf(text + used, size - used, "%d:%g ",
                         (int)proto_within(event, EVENT_STEP).value,
                         (double)value);
        }
        dt_map_fini(&map);
    }
}

static void assert_points(const char *tag, const char *expected)
{
    char text[256];
    read_points(tag, text, sizeof(text));
    assert_string_equal(text, expected);
}

/* --- files --- */

/* Creates file n of the directory, which comes after the n before it. */
static struct dt_event_file *create_file(int n, double wall, long step,
                                         char path[PATH_MAX])
{
    struct dt_error err;
    char before[PATH_MAX], other[PATH_MAX];
    find_name(dir, "events.", n - 1, before);
    struct dt_event_file *file = dt_event_file_create(dir, wall, step, &err);
    if (!file)
        fail_msg("%s", err.text);
    find_name(dir, "events.", n - 1, other);
    assert_string_equal(other, before);
    find_name(dir, "events.", n, path);
    assert_true(path[0]);
    return file;
}

/* Bytes that TensorBoard's own readers and writers agree on. */
static void records_have_the_bytes_of_tensorboard(void **state)
{
    char path[PATH_MAX];
    struct dt_event_file *file = create_file(0, 1.7e9, 10, path);
    struct dt_error err;
    (void)state;
    struct dt_protobuf *event = dt_event_file_begin(file, 1700000001.0, 10);
    size_t summary = dt_protobuf_begin(event, DT_EVENT_SUMMARY);
    size_t value = dt_protobuf_begin(event, DT_SUMMARY_VALUE);
    dt_protobuf_string(event, DT_VALUE_TAG, "train/loss");
    dt_protobuf_float(event, DT_VALUE_SIMPLE, 2.5f);
    dt_protobuf_end(event, value);
    dt_protobuf_end(event, summary);
    assert_int_equal(dt_event_file_end(file, &err), 0);
    struct dt_map map = map_file(path);
    const uint8_t *data = map.data;
    assert_hex(data, 40,
               "1800000000000000a37f4b220900000040fc54d9411a0d627261696e2e4576"
               "656e743a32eced8f9d");
    assert_hex(data + 40 + 31, 48,
               "200000000000000029eda9500900004040fc54d941100a2a130a110a0a7472"
               "61696e2f6c6f73731500002040a6466f5b");
    assert_int_equal(map.bytes, 40 + 31 + 48);
    dt_map_fini(&map);
    dt_event_file_destroy(file);
    file = create_file(1, 1700000002.0, 10, path);
    map = map_file(path);
    assert_hex((const uint8_t *)map.data + 40, 31,
               "0f000000000000006d532b090900008040fc54d941100a3a02080176b766f"
               "3");
    dt_map_fini(&map);
    dt_event_file_destroy(file);
}

/* The clock is set back by an hour, and two starts are in one second. */
static void each_file_comes_after_those_before_it(void **state)
{
    static const double walls[] = {1.7e9, 1.7e9 - 3600, 1.7e9 - 3600, 1.7e9};
    char path[PATH_MAX];
    (void)state;
    for (int i = 0; i < 4; i++)
        dt_event_file_destroy(create_file(i, walls[i], 0, path));
}

/* --- the sink --- */

static void a_run_is_scalars_by_step(void **state)
{
    const struct dt_sink_type *type = &dt_sink_tensorboard;
    struct dt_sink *sink = open_sink(type, 0, NULL, NULL);
    (void)state;
    for (long step = 1; step <= 3; step++) {
        struct dt_report_record record =
            a_record(DT_SPLIT_TRAIN, step, step == 2 ? NAN : 1.5);
        put_record(type, sink, &record);
    }
    struct dt_report_record eval = a_record(DT_SPLIT_EVAL, 3, 2.25);
    eval.wall = NAN;
    put_record(type, sink, &eval);
    assert_points("train/loss", "1:1.5 2:nan 3:1.5 ");
    assert_points("train/learning_rate", "1:0.5 2:0.5 3:0.5 ");
    assert_points("eval/loss", "3:2.25 ");
    assert_points("sys/energy_j", "");
    type->close(sink);
}

/* A run is resumed after its step 2 though it had written step 3. Readers that
 * purge are told where; the other one drops points itself.
 */
static void a_resumed_run_has_a_new_file_that_starts_after_its_step(
    void **state)
{
    const struct dt_sink_type *type = &dt_sink_tensorboard;
    char tb[80], path[PATH_MAX];
    (void)state;
    struct dt_sink *sink = open_sink(type, 0, NULL, NULL);
    for (long step = 1; step <= 3; step++) {
        struct dt_report_record record = a_record(DT_SPLIT_TRAIN, step, 1.0);
        put_record(type, sink, &record);
    }
    type->close(sink);
    sink = open_sink(type, 2, NULL, NULL);
    struct dt_report_record record = a_record(DT_SPLIT_TRAIN, 3, 2.0);
    put_record(type, sink, &record);
    type->close(sink);
    assert_points("train/loss", "1:1 2:1 3:1 3:2 ");
    snprintf(tb, sizeof(tb), "%s/tb", dir);
    for (int n = 0; n < 2; n++) {
        struct proto_field event;
        size_t at = 0;
        find_name(tb, "events.", n, path);
        struct dt_map map = map_file(path);
        assert_true(next_event(&map, &at, &event));
        assert_true(
            proto_is(proto_within(event, EVENT_VERSION), "brain.Event:2"));
        assert_true(next_event(&map, &at, &event));
        assert_int_equal(proto_within(event, EVENT_SESSION).bytes, 2);
        assert_int_equal(proto_within(event, EVENT_STEP).value, n ? 3 : 0);
        dt_map_fini(&map);
    }
}

static void deepspeed_counts_samples_and_has_names_of_its_own(void **state)
{
    const struct dt_sink_type *type = &dt_sink_tensorboard;
    struct dt_sink *sink = open_sink(type, 0, "logging.names", "deepspeed");
    struct dt_report_record record = a_record(DT_SPLIT_TRAIN, 2, 1.5);
    (void)state;
    put_record(type, sink, &record);
    type->close(sink);
    assert_points("Train/Samples/train_loss", "64:1.5 ");
    assert_points("Train/Samples/lr", "64:0.5 ");
    assert_points("train/loss", "");
}

/* Nothing but scalars follows the version and the session. */
static void what_is_written_is_read(void **state)
{
    enum { RECORDS = 200 };
    const struct dt_sink_type *type = &dt_sink_tensorboard;
    struct dt_sink *sink = open_sink(type, 0, NULL, NULL);
    char tb[80], path[PATH_MAX], names[20][8];
    size_t at = 0;
    struct proto_field event;
    (void)state;
    for (long step = 1; step <= RECORDS; step++) {
        struct dt_report_record record = {
            .step = step << step % 40, .wall = 1.7e9, .count = 20};
        for (size_t i = 0; i < record.count; i++) {
            snprintf(names[i], sizeof(names[i]), "v%d", (int)i);
            record.value[i] = (struct dt_report_value){
                names[i],
                (double)dt_rng_uniform(17, DT_RNG_INIT,
                                       (uint64_t)step * 20 + i),
                false};
        }
        put_record(type, sink, &record);
    }
    type->close(sink);
    snprintf(tb, sizeof(tb), "%s/tb", dir);
    find_name(tb, "events.", 0, path);
    struct dt_map map = map_file(path);
    for (int i = 0; i < 2; i++)
        assert_true(next_event(&map, &at, &event));
    for (long step = 1; step <= RECORDS; step++) {
        float value;
        char tag[32];
        assert_true(next_event(&map, &at, &event));
        assert_int_equal(proto_within(event, EVENT_STEP).value,
                         step << step % 40);
        assert_true(proto_double(proto_within(event, EVENT_WALL)) == 1.7e9);
        for (uint64_t i = 0; i < 20; i++) {
            snprintf(tag, sizeof(tag), "train/v%d", (int)i);
            assert_true(find_tag(event, tag, &value));
            assert_true(value == dt_rng_uniform(17, DT_RNG_INIT,
                                                (uint64_t)step * 20 + i));
        }
    }
    assert_int_equal(at, map.bytes);
    dt_map_fini(&map);
}

/* --- names --- */

/* Names of metrics.jsonl, by algorithm, and those that transformers 5 and TRL
 * 1.16 write to TensorBoard.
 */
static void values_have_the_names_of_trl(void **state)
{
    static const struct {
        enum dt_split split;
        const char *name, *tag;
    } cases[] = {
        {DT_SPLIT_TRAIN, "loss", "train/loss"},
        {DT_SPLIT_TRAIN, "lr", "train/learning_rate"},
        {DT_SPLIT_TRAIN, "grad_norm", "train/grad_norm"},
        {DT_SPLIT_TRAIN, "epoch", "train/epoch"},
        {DT_SPLIT_TRAIN, "total_tokens", "train/num_tokens"},
        {DT_SPLIT_EVAL, "loss", "eval/loss"},
        {DT_SPLIT_TRAIN, "mean_token_accuracy", "train/mean_token_accuracy"},
        {DT_SPLIT_TRAIN, "margin", "train/margin"},
        {DT_SPLIT_EVAL, "accuracy", "eval/accuracy"},
        {DT_SPLIT_TRAIN, "rewards/chosen", "train/rewards/chosen"},
        {DT_SPLIT_EVAL, "rewards/margins", "eval/rewards/margins"},
        {DT_SPLIT_TRAIN, "logps/rejected", "train/logps/rejected"},
        {DT_SPLIT_TRAIN, "objective/kl", "train/objective/kl"},
        {DT_SPLIT_TRAIN, "val/ratio", "train/val/ratio"},
        {DT_SPLIT_TRAIN, "reward", "train/reward"},
        {DT_SPLIT_TRAIN, "clip_ratio/low_mean", "train/clip_ratio/low_mean"},
        {DT_SPLIT_TRAIN, "completions/mean_length",
         "train/completions/mean_length"},
        {DT_SPLIT_TRAIN, "step_s", "perf/step_s"},
        {DT_SPLIT_TRAIN, "mfu", "perf/mfu"},
        {DT_SPLIT_TRAIN, "mem_peak", "sys/mem_peak"},
        {DT_SPLIT_TRAIN, "ckpt_stall_s", "ckpt/stall_s"},
        {DT_SPLIT_TRAIN, "rank_step_s/max", "ranks/slowest_s"},
        {DT_SPLIT_EVAL, "tokens", "eval/tokens"},
        {DT_SPLIT_TRAIN, "rewards/a\xc3\xa4\xff\xe2\x82/mean",
         "train/rewards/a\xc3\xa4___/mean"},
    };
    char tag[DT_TAG_BYTES];
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        const struct dt_report_record record = {
            .split = cases[i].split,
            .count = 1,
            .value = {{cases[i].name, 1.0, false}}};
        assert_true(dt_names_tag(DT_NAMES_HF, &record, 0, tag));
        assert_string_equal(tag, cases[i].tag);
    }
}

static void only_a_loss_that_is_no_number_is_shown(void **state)
{
    char tag[DT_TAG_BYTES];
    struct dt_report_record record = {.count = 1,
                                      .value = {{"kl", NAN, false}}};
    (void)state;
    assert_false(dt_names_tag(DT_NAMES_HF, &record, 0, tag));
    record.value[0].name = "grad_norm";
    assert_true(dt_names_tag(DT_NAMES_HF, &record, 0, tag));
    record.value[0].name = "loss";
    assert_true(dt_names_tag(DT_NAMES_HF, &record, 0, tag));
}

/* Two points of a tag at one step would be one too many. */
static void tokens_have_one_tag(void **state)
{
    char tag[DT_TAG_BYTES];
    const struct dt_report_record record = {
        .count = 2,
        .value = {{"num_tokens", 64, false}, {"total_tokens", 64, false}}};
    (void)state;
    assert_true(dt_names_tag(DT_NAMES_HF, &record, 0, tag));
    assert_string_equal(tag, "train/num_tokens");
    assert_false(dt_names_tag(DT_NAMES_HF, &record, 1, tag));
}

/* --- failures --- */

static void a_full_disk_fails_once_and_leaves_whole_events(void **state)
{
    const struct dt_sink_type *type = &dt_sink_tensorboard;
    struct dt_sink *sink = open_sink(type, 0, NULL, NULL);
    struct dt_error err;
    char text[2048];
    (void)state;
    limit_files(2000);
    fails_soon(type, sink, &err);
    type->close(sink);
    limit_files(0);
    assert_int_equal(err.status, EX_IOERR);
    assert_non_null(strstr(err.text, ": cannot write: "));
    read_points("train/loss", text, sizeof(text));
    assert_memory_equal(text, "1:1 2:1 3:1 ", 12);
}

static void a_removed_directory_fails(void **state)
{
    const struct dt_sink_type *type = &dt_sink_tensorboard;
    struct dt_sink *sink = open_sink(type, 0, NULL, NULL);
    struct dt_error err;
    char tb[80];
    (void)state;
    snprintf(tb, sizeof(tb), "%s/tb", dir);
    assert_int_equal(dt_file_remove_tree(tb, &err), 0);
    fails_soon(type, sink, &err);
    assert_non_null(strstr(err.text, ": was removed"));
    type->close(sink);
}

static void a_file_in_place_of_the_directory_is_refused(void **state)
{
    const struct dt_sink_options options = {.dir = dir};
    struct dt_error err;
    char tb[80], expected[128];
    (void)state;
    snprintf(tb, sizeof(tb), "%s/tb", dir);
    close(open(tb, O_CREAT | O_WRONLY, 0666));
    assert_null(dt_sink_tensorboard.open(&options, &err));
    snprintf(expected, sizeof(expected), "%s: not a directory", tb);
    assert_string_equal(err.text, expected);
    assert_int_equal(err.status, EX_CANTCREAT);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_dir, remove_dir)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(records_have_the_bytes_of_tensorboard),
        TEST(each_file_comes_after_those_before_it),
        TEST(a_run_is_scalars_by_step),
        TEST(a_resumed_run_has_a_new_file_that_starts_after_its_step),
        TEST(deepspeed_counts_samples_and_has_names_of_its_own),
        TEST(what_is_written_is_read),
        TEST(values_have_the_names_of_trl),
        TEST(only_a_loss_that_is_no_number_is_shown),
        TEST(tokens_have_one_tag),
        TEST(a_full_disk_fails_once_and_leaves_whole_events),
        TEST(a_removed_directory_fails),
        TEST(a_file_in_place_of_the_directory_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
