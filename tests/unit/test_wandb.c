/* SPDX-License-Identifier: Apache-2.0 */
/* test_wandb.c - bytes, records and directories of Weights & Biases */
#include "config.h"

#include "report/wandb_file.h"
#include "sink_scene.h"

enum {
    RECORD_NUM = 1,
    RECORD_HISTORY = 2,
    RECORD_SUMMARY = 3,
    RECORD_STATS = 7,
    RECORD_METRIC = 12,
    RECORD_RUN = 17,
    RECORD_EXIT = 18,
    RECORD_HEADER = 21,
    BLOCK_BYTES = 32768,
};

static const struct dt_sink_type *const type = &dt_sink_wandb;

/* --- a small reader --- */

struct reader {
    const uint8_t *data;
    size_t bytes, at;
    struct dt_protobuf record;
};

/* Joins the parts of the next record; false at the end. */
static bool read_record(struct reader *in)
{
    struct dt_checksum crc;
    dt_checksum_init(&crc, DT_CHECKSUM_IEEE);
    dt_protobuf_clear(&in->record);
    for (bool begun = false;; begun = true) {
        const size_t left = BLOCK_BYTES - in->at % BLOCK_BYTES;
        if (left < 7)
            in->at += left;
        if (in->at + 7 > in->bytes)
            return false;
        const uint8_t *head = in->data + in->at;
        const size_t n = (size_t)proto_fixed(head + 4, 2);
        const uint8_t part = head[6];
        assert_true(n <= in->bytes - in->at - 7);
        assert_true(in->at % BLOCK_BYTES + 7 + n <= BLOCK_BYTES);
        assert_int_equal(proto_fixed(head, 4),
                         dt_checksum_add(&crc, 0, head + 6, 1 + n));
        assert_int_equal(part == 1 || part == 2, !begun);
        dt_protobuf_raw(&in->record, head + 7, n);
        in->at += 7 + n;
        if (part == 1 || part == 4)
            return true;
    }
}

/* The file of the n-th directory with this prefix, in a reader. */
static struct dt_map open_run(const char *prefix, int n, struct reader *in)
{
    char wandb[80], path[PATH_MAX], file[PATH_MAX];
    snprintf(wandb, sizeof(wandb), "%s/wandb", dir);
    find_name(wandb, prefix, n, path);
    assert_true(path[0]);
    find_name(path, "run-", 0, file);
    struct dt_map map = map_file(file);
    *in = (struct reader){map.data, map.bytes, DT_WANDB_HEADER_BYTES, {0}};
    assert_memory_equal(map.data, dt_wandb_header, DT_WANDB_HEADER_BYTES);
    return map;
}

static void close_run(struct dt_map *map, struct reader *in)
{
    dt_protobuf_fini(&in->record);
    dt_map_fini(map);
}

/* The next record must be of this kind; its message. */
static struct proto_field expect(struct reader *in, uint32_t kind)
{
    assert_true(read_record(in));
    struct proto fields = {in->record.data, in->record.data + in->record.bytes};
    struct proto_field num, message;
    assert_true(proto_next(&fields, &num));
    assert_int_equal(num.number, RECORD_NUM);
    assert_true(proto_next(&fields, &message));
    assert_int_equal(message.number, kind);
    return message;
}

/* The JSON of an item of a list with this key, the last one; "": none. */
static void find_item(struct proto_field list, uint32_t field, uint32_t key,
                      const char *name, char text[64])
{
    struct proto in = {list.data, list.data + list.bytes};
    struct proto_field item;
    text[0] = '\0';
    while (proto_next(&in, &item)) {
        if (item.number != field || !proto_is(proto_within(item, key), name))
            continue;
        struct proto_field json = proto_within(item, 16);
        snprintf(text, 64, "%.*s", (int)json.bytes, (const char *)json.data);
    }
}

static void assert_item(struct proto_field list, const char *name,
                        const char *expected)
{
    char text[64];
    find_item(list, 1, 2, name, text);
    assert_string_equal(text, expected);
}

static void skip_beginning(struct reader *in)
{
    expect(in, RECORD_HEADER);
    expect(in, RECORD_RUN);
    expect(in, RECORD_METRIC);
    expect(in, RECORD_METRIC);
}

/* --- framing --- */

static void chunks_have_the_bytes_of_wandb(void **state)
{
    static const uint8_t version[] = "\x08\x01\xaa\x01\x13\x0a\x11\x0a\x0f"
                                     "disttrain 0.1.0";
    struct dt_checksum crc;
    struct dt_protobuf b = {0};
    (void)state;
    dt_checksum_init(&crc, DT_CHECKSUM_IEEE);
    assert_int_equal(dt_checksum_add(&crc, 0, "123456789", 9), 0xcbf43926);
    assert_hex(dt_wandb_header, DT_WANDB_HEADER_BYTES, "3a572642e1be00");
    dt_wandb_frame(&crc, 7, "\x08\x01", 2, &b);
    assert_hex(b.data, b.bytes, "bb095d410200010801");
    dt_protobuf_clear(&b);
    dt_wandb_frame(&crc, 7, version, sizeof(version) - 1, &b);
    assert_hex(
        b.data, b.bytes,
        "511c12421800010801aa01130a110a0f64697374747261696e20302e312e30");
    dt_protobuf_fini(&b);
}

/* Also where fewer than 7 bytes are left, and exactly 7. */
static void a_record_may_begin_anywhere_in_a_block(void **state)
{
    static uint8_t data[2 * BLOCK_BYTES], file[5 * BLOCK_BYTES];
    struct dt_checksum crc;
    struct dt_protobuf b = {0};
    (void)state;
    dt_checksum_init(&crc, DT_CHECKSUM_IEEE);
    for (size_t i = 0; i < sizeof(data); i++)
        data[i] = (uint8_t)(i * 7 + i / 251);
    for (size_t offset = DT_WANDB_HEADER_BYTES; offset < BLOCK_BYTES;
         offset++) {
        const bool near = offset < 20 || offset + 20 > BLOCK_BYTES;
        const size_t bytes = near ? sizeof(data) - 3 : 40;
        dt_protobuf_clear(&b);
        dt_wandb_frame(&crc, offset, data, bytes, &b);
        memcpy(file + offset, b.data, b.bytes);
        struct reader in = {file, offset + b.bytes, offset, {0}};
        assert_true(read_record(&in));
        assert_int_equal(in.record.bytes, bytes);
        assert_memory_equal(in.record.data, data, bytes);
        assert_int_equal(in.at, in.bytes);
        dt_protobuf_fini(&in.record);
    }
    dt_protobuf_fini(&b);
}

/* --- a run --- */

static void a_run_says_what_it_is_first(void **state)
{
    struct reader in;
    char text[64];
    type->close(open_sink(type, 0, NULL, NULL));
    struct dt_map map = open_run("offline-run-", 0, &in);
    (void)state;
    expect(&in, RECORD_HEADER);
    struct proto_field run = expect(&in, RECORD_RUN);
    assert_true(proto_is(proto_within(run, 1), "0123abcd"));
    assert_int_equal(proto_within(run, 2).number, 0);
    assert_true(proto_is(proto_within(run, 3), "p"));
    assert_int_equal(proto_within(run, 6).number, 0);
    assert_true(proto_is(proto_within(run, 8), "tiny"));
    assert_true(proto_is(proto_within(run, 10), "a"));
    struct proto_field start = proto_within(run, 17);
    assert_int_equal(proto_within(start, 1).value, 1700000000);
    assert_int_equal(proto_within(start, 2).value, 500000000);
    struct proto_field config = proto_within(run, 4);
    find_item(config, 1, 1, "optimizer", text);
    assert_string_equal(text, "{\"lr\":0.001}");
    find_item(config, 1, 1, "distributed", text);
    assert_string_equal(text, "{\"offload_param\":{\"device\":null}}");
    find_item(config, 1, 1, "disttrain", text);
    assert_string_equal(text, "{\"algorithm\":\"sft\",\"world\":2}");
    struct proto_field metric = expect(&in, RECORD_METRIC);
    assert_true(proto_is(proto_within(metric, 1), "train/global_step"));
    metric = expect(&in, RECORD_METRIC);
    assert_true(proto_is(proto_within(metric, 2), "*"));
    assert_true(proto_is(proto_within(metric, 4), "train/global_step"));
    assert_int_equal(proto_within(proto_within(metric, 6), 1).value, 1);
    close_run(&map, &in);
}

static void each_record_is_a_line_of_the_history(void **state)
{
    struct reader in;
    struct dt_sink *sink = open_sink(type, 0, NULL, NULL);
    struct dt_report_record record = a_record(DT_SPLIT_TRAIN, 10, 2.5);
    (void)state;
    put_record(type, sink, &record);
    record = a_record(DT_SPLIT_EVAL, 10, NAN);
    put_record(type, sink, &record);
    type->event(sink, &(struct dt_report_event){.kind = "end"}, NULL);
    type->close(sink);
    struct dt_map map = open_run("offline-run-", 0, &in);
    skip_beginning(&in);
    struct proto_field line = expect(&in, RECORD_HISTORY);
    assert_item(line, "train/loss", "2.5");
    assert_item(line, "train/learning_rate", "0.5");
    assert_item(line, "sys/energy_j", "");
    assert_item(line, "train/global_step", "10");
    assert_item(line, "_step", "0");
    assert_item(line, "_runtime", "9.5");
    assert_item(line, "_timestamp", "1700000010");
    assert_int_equal(proto_within(proto_within(line, 2), 1).value, 0);
    line = expect(&in, RECORD_HISTORY);
    assert_item(line, "eval/loss", "NaN");
    assert_item(line, "_step", "1");
    assert_int_equal(proto_within(proto_within(line, 2), 1).value, 1);
    struct proto_field summary = expect(&in, RECORD_SUMMARY);
    assert_item(summary, "train/loss", "2.5");
    assert_item(summary, "eval/loss", "NaN");
    assert_item(summary, "_step", "1");
    assert_item(summary, "_wandb", "10");
    struct proto_field end = expect(&in, RECORD_EXIT);
    assert_int_equal(proto_within(end, 1).value, 0);
    assert_int_equal(proto_within(end, 2).value, 9);
    assert_false(read_record(&in));
    close_run(&map, &in);
}

/* A summary is written now and then, not with each record. */
static void a_summary_comes_every_15_seconds(void **state)
{
    struct reader in;
    struct dt_sink *sink = open_sink(type, 0, NULL, NULL);
    int summaries = 0;
    (void)state;
    for (long step = 1; step <= 60; step++) {
        struct dt_report_record record = a_record(DT_SPLIT_TRAIN, step, 1.0);
        put_record(type, sink, &record);
    }
    struct dt_map map = open_run("offline-run-", 0, &in);
    skip_beginning(&in);
    while (read_record(&in))
        summaries += proto_find(in.record.data, in.record.bytes, RECORD_SUMMARY)
                         .number != 0;
    assert_int_equal(summaries, 3);
    close_run(&map, &in);
    type->close(sink);
}

static void a_run_that_does_not_end_has_failed(void **state)
{
    static const char *const kinds[] = {"failed", "save", "resume"};
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        struct reader in;
        struct dt_sink *sink = open_sink(type, 0, NULL, NULL);
        if (i == 2)
            type->event(sink, &(struct dt_report_event){.kind = "stop"}, NULL);
        type->event(sink, &(struct dt_report_event){.kind = kinds[i]}, NULL);
        type->close(sink);
        struct dt_map map = open_run("offline-run-", 0, &in);
        skip_beginning(&in);
        assert_int_equal(proto_within(expect(&in, RECORD_EXIT), 1).value, 1);
        close_run(&map, &in);
    }
}

/* Not more often than every 15 seconds. */
static void ranks_are_system_graphs(void **state)
{
    static const double mem[] = {1e9, 2e9}, power[] = {300, NAN};
    struct reader in;
    struct dt_sink *sink = open_sink(type, 0, NULL, NULL);
    char text[64];
    (void)state;
    for (int i = 0; i < 20; i++)
        assert_int_equal(
            type->ranks(sink,
                        &(struct dt_report_ranks){.wall = 1.7e9 + i,
                                                  .count = 2,
                                                  .mem = mem,
                                                  .power_w = power},
                        NULL),
            0);
    struct dt_map map = open_run("offline-run-", 0, &in);
    skip_beginning(&in);
    struct proto_field stats = expect(&in, RECORD_STATS);
    assert_int_equal(proto_within(proto_within(stats, 2), 1).value, 1700000000);
    find_item(stats, 3, 1, "gpu.1.memoryAllocatedBytes", text);
    assert_string_equal(text, "2000000000");
    find_item(stats, 3, 1, "gpu.0.powerWatts", text);
    assert_string_equal(text, "300");
    find_item(stats, 3, 1, "gpu.1.powerWatts", text);
    assert_string_equal(text, "");
    stats = expect(&in, RECORD_STATS);
    assert_int_equal(proto_within(proto_within(stats, 2), 1).value, 1700000015);
    assert_false(read_record(&in));
    close_run(&map, &in);
    type->close(sink);
}

/* --- resuming --- */

static void run_id_of(const char *prefix, int n, char id[64], char group[64])
{
    struct reader in;
    struct dt_map map = open_run(prefix, n, &in);
    expect(&in, RECORD_HEADER);
    struct proto_field run = expect(&in, RECORD_RUN);
    struct proto_field name = proto_within(run, 1), of = proto_within(run, 6);
    snprintf(id, 64, "%.*s", (int)name.bytes, (const char *)name.data);
    snprintf(group, 64, "%.*s", (int)of.bytes, (const char *)of.data);
    close_run(&map, &in);
}

static void a_resumed_run_supersedes_its_old_file(void **state)
{
    char id[64], group[64], wandb[80], path[PATH_MAX];
    (void)state;
    for (int i = 0; i < 3; i++)
        type->close(open_sink(type, i, NULL, NULL));
    snprintf(wandb, sizeof(wandb), "%s/wandb", dir);
    find_name(wandb, "offline-run-", 1, path);
    assert_string_equal(path, "");
    run_id_of("offline-run-", 0, id, group);
    assert_string_equal(id, "0123abcd");
    assert_string_equal(group, "");
    for (int i = 0; i < 2; i++) {
        run_id_of("superseded-offline-run-", i, id, group);
        assert_string_equal(id, "0123abcd");
    }
    assert_true(type->whole);
}

/* The server has the first id; the second one is the same at each resume. */
static void a_run_that_was_uploaded_gets_another_id(void **state)
{
    char id[64], group[64], second[64], wandb[80], path[PATH_MAX];
    char marker[PATH_MAX + 32];
    (void)state;
    type->close(open_sink(type, 0, NULL, NULL));
    snprintf(wandb, sizeof(wandb), "%s/wandb", dir);
    find_name(wandb, "offline-run-", 0, path);
    snprintf(marker, sizeof(marker), "%s/run-0123abcd.wandb.synced", path);
    close(open(marker, O_CREAT | O_WRONLY, 0666));
    for (int i = 0; i < 2; i++) {
        type->close(open_sink(type, 5, NULL, NULL));
        find_name(wandb, "offline-run-", 1, path);
        assert_true(path[0]);
        for (int n = 0; n < 2; n++) {
            run_id_of("offline-run-", n, id, group);
            if (strcmp(id, "0123abcd") == 0)
                continue;
            assert_int_equal(strlen(id), 8);
            assert_string_equal(group, "0123abcd");
            if (i == 1)
                assert_string_equal(id, second);
            snprintf(second, sizeof(second), "%s", id);
        }
    }
    find_name(wandb, "offline-run-", 2, path);
    assert_string_equal(path, "");
}

static void an_id_is_never_a_path(void **state)
{
    json_t *run = json_pack("{s:s}", "run_id", "../../x");
    const struct dt_sink_options options = {.dir = dir, .run = run};
    struct dt_error err;
    char id[64], group[64];
    (void)state;
    struct dt_sink *sink = type->open(&options, &err);
    assert_non_null(sink);
    type->close(sink);
    json_decref(run);
    run_id_of("offline-run-", 0, id, group);
    assert_int_equal(strspn(id, "0123456789abcdef"), 8);
}

/* --- failures --- */

static void a_full_disk_fails_once_and_leaves_whole_records(void **state)
{
    struct reader in;
    struct dt_error err;
    struct dt_sink *sink = open_sink(type, 0, NULL, NULL);
    (void)state;
    limit_files(3000);
    fails_soon(type, sink, &err);
    assert_int_equal(err.status, EX_IOERR);
    assert_non_null(strstr(err.text, ": cannot write: "));
    limit_files(0);
    type->close(sink);
    struct dt_map map = open_run("offline-run-", 0, &in);
    skip_beginning(&in);
    expect(&in, RECORD_HISTORY);
    assert_true(map.bytes <= 3000);
    close_run(&map, &in);
}

static void a_removed_directory_fails(void **state)
{
    struct dt_error err;
    struct dt_sink *sink = open_sink(type, 0, NULL, NULL);
    char wandb[80];
    (void)state;
    snprintf(wandb, sizeof(wandb), "%s/wandb", dir);
    assert_int_equal(dt_file_remove_tree(wandb, &err), 0);
    fails_soon(type, sink, &err);
    assert_non_null(strstr(err.text, ": was removed"));
    type->close(sink);
}

static void a_file_in_place_of_the_directory_is_refused(void **state)
{
    const struct dt_sink_options options = {.dir = dir};
    struct dt_error err;
    char wandb[80], expected[128];
    (void)state;
    snprintf(wandb, sizeof(wandb), "%s/wandb", dir);
    close(open(wandb, O_CREAT | O_WRONLY, 0666));
    assert_null(type->open(&options, &err));
    snprintf(expected, sizeof(expected), "%s: not a directory", wandb);
    assert_string_equal(err.text, expected);
    assert_int_equal(err.status, EX_CANTCREAT);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_dir, remove_dir)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(chunks_have_the_bytes_of_wandb),
        TEST(a_record_may_begin_anywhere_in_a_block),
        TEST(a_run_says_what_it_is_first),
        TEST(each_record_is_a_line_of_the_history),
        TEST(a_summary_comes_every_15_seconds),
        TEST(a_run_that_does_not_end_has_failed),
        TEST(ranks_are_system_graphs),
        TEST(a_resumed_run_supersedes_its_old_file),
        TEST(a_run_that_was_uploaded_gets_another_id),
        TEST(an_id_is_never_a_path),
        TEST(a_full_disk_fails_once_and_leaves_whole_records),
        TEST(a_removed_directory_fails),
        TEST(a_file_in_place_of_the_directory_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
