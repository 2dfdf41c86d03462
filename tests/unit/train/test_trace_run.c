/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_trace_run.c - two ranks, processes of their own, train and are traced;
 * the file is decoded again
 */
#include "config.h"

#include "train/train.h"
#include "base/span.h"
#include "tests/unit/protobuf_reader.h"
#include "tests/unit/small_run.h"
#include "trace/trace_impl.h"

enum {
    RANKS = 2,
    STEPS = 3, /* that are traced */
    TRACKS_MAX = 64,
    FLOWS_MAX = 4096,
    NAMES_MAX = 64,
};

#define RUN                                                                    \
    EACH "training: {max_steps: 8, per_device_batch_size: 2}\n"                \
         "checkpoint.strategy: \"no\"\n"

static bool never(void)
{
    return false;
}

static int train_rank(const struct dt_comm_world *world, void *arg)
{
    const struct dt_exec exec = dt_exec_cpu();
    struct dt_error err = {0};
    struct dt_comm *comm = small_comm(world, &err);
    int rc = comm ? dt_trainer_run(arg, &exec, comm, 1, NULL, never, NULL, &err)
                  : -1;
    dt_comm_destroy(comm);
    if (rc < 0)
        fprintf(stderr, "# %s\n", err.text);
    return rc < 0;
}

static void train(const char *lines)
{
    struct dt_conf *conf = small_conf(lines);
    int statuses[RANKS];
    world_processes(RANKS, train_rank, conf, statuses);
    for (int r = 0; r < RANKS; r++)
        assert_int_equal(statuses[r], 0);
    dt_conf_destroy(conf);
}

/* --- reading a trace --- */

struct track {
    uint64_t id, parent;
    char name[80];
    int depth; /* spans that are open */
    size_t spans, counts;
    uint64_t time; /* of the last event */
};

struct flow {
    uint64_t id;
    int ranks; /* a bit each */
};

struct reading {
    struct track tracks[TRACKS_MAX];
    size_t track_count;
    struct flow flows[FLOWS_MAX];
    size_t flow_count;
    char names[RANKS + 2][NAMES_MAX][32]; /* of a sequence, by id */
    size_t spans[RANKS + 2][NAMES_MAX];   /* begun, by that name */
    char about[512];
};

static void copy_text(struct proto_field field, char *text, size_t bytes)
{
    assert_true(field.type == 2 && field.bytes < bytes);
    memcpy(text, field.data, field.bytes);
    text[field.bytes] = '\0';
}

static struct track *find_track(struct reading *reading, uint64_t id)
{
    for (size_t i = 0; i < reading->track_count; i++)
        if (reading->tracks[i].id == id)
            return &reading->tracks[i];
    return NULL;
}

static void read_track(struct reading *reading, struct proto_field of)
{
    assert_true(reading->track_count < TRACKS_MAX);
    struct track *track = &reading->tracks[reading->track_count++];
    struct proto_field process = proto_within(of, 3);
    *track = (struct track){.id = proto_within(of, 1).value,
                            .parent = proto_within(of, 5).value};
    copy_text(process.number ? proto_within(process, 6) : proto_within(of, 2),
              track->name, sizeof(track->name));
    assert_true(track->parent == 0 || find_track(reading, track->parent));
}

static void read_names(struct reading *reading, uint64_t sequence,
                       struct proto_field names)
{
    struct proto in = {names.data, names.data + names.bytes};
    struct proto_field field;
    while (proto_next(&in, &field)) {
        uint64_t id = proto_within(field, 1).value;
        assert_in_range(id, 1, NAMES_MAX - 1);
        if (field.number == 2)
            copy_text(proto_within(field, 2), reading->names[sequence][id], 32);
    }
    assert_ptr_equal(in.at, in.end);
}

static void read_flow(struct reading *reading, uint64_t id, int rank)
{
    size_t i = 0;
    while (i < reading->flow_count && reading->flows[i].id != id)
        i++;
    assert_true(i < FLOWS_MAX);
    if (i == reading->flow_count)
        reading->flows[reading->flow_count++] = (struct flow){.id = id};
    assert_true((reading->flows[i].ranks & 1 << rank) == 0);
    reading->flows[i].ranks |= 1 << rank;
}

static void read_event(struct reading *reading, uint64_t sequence,
                       uint64_t time, struct proto_field event)
{
    enum { BEGIN = 1, END = 2, INSTANT = 3, COUNTER = 4 };
    const uint64_t type = proto_within(event, 9).value;
    struct proto_field flow = proto_within(event, 47);
    struct track *track = find_track(reading, proto_within(event, 11).value);
    assert_non_null(track);
    assert_true(time >= track->time && time > 0);
    track->time = time;
    if (type == BEGIN) {
        uint64_t name = proto_within(event, 10).value;
        assert_true(name < NAMES_MAX && reading->names[sequence][name][0]);
        reading->spans[sequence][name]++;
        track->depth++;
        track->spans++;
        if (flow.number)
            read_flow(reading, flow.value, (int)sequence - 2);
    } else if (type == END) {
        assert_true(track->depth-- > 0);
    } else if (type == COUNTER) {
        assert_true(proto_within(event, 30).value > 1000000);
        track->counts++;
    } else {
        assert_int_equal(type, INSTANT);
        copy_text(proto_within(event, 23), reading->about,
                  sizeof(reading->about));
    }
}

static void read_packet(struct reading *reading, struct proto_field packet)
{
    const uint64_t sequence = proto_within(packet, 10).value;
    struct proto_field track = proto_within(packet, 60);
    struct proto_field names = proto_within(packet, 12);
    struct proto_field event = proto_within(packet, 11);
    assert_in_range(sequence, 1, RANKS + 1);
    assert_int_equal(packet.number, 1);
    if (track.number)
        read_track(reading, track);
    if (names.number)
        read_names(reading, sequence, names);
    if (event.number)
        read_event(reading, sequence, proto_within(packet, 8).value, event);
    assert_true(track.number || names.number || event.number);
}

static struct reading *read_trace(const char *path)
{
    struct reading *reading = calloc(1, sizeof(*reading));
    struct proto_field packet;
    struct dt_map map;
    struct dt_error err;
    if (dt_map_init(&map, path, &err) < 0)
        fail_msg("%s", err.text);
    struct proto in = {map.data, (const uint8_t *)map.data + map.bytes};
    while (proto_next(&in, &packet))
        read_packet(reading, packet);
    assert_ptr_equal(in.at, in.end);
    dt_map_fini(&map);
    return reading;
}

/* Spans of this name on a rank. */
static size_t spans_of(const struct reading *reading, int rank,
                       const char *name)
{
    size_t count = 0;
    for (size_t i = 0; i < NAMES_MAX; i++)
        if (strcmp(reading->names[rank + 2][i], name) == 0)
            count += reading->spans[rank + 2][i];
    return count;
}

/* The lane or counter of a rank. */
static const struct track *track_of(struct reading *reading, int rank,
                                    const char *name)
{
    for (size_t i = 0; i < reading->track_count; i++) {
        struct track *track = &reading->tracks[i];
        if (track->parent == (uint64_t)(rank + 1) << 32 &&
            strcmp(track->name, name) == 0)
            return track;
    }
    return NULL;
}

/* --- the tests --- */

/* Three units: embedding, block, head. */
static void check_rank(struct reading *reading, int rank)
{
    char name[16];
    const struct track *process =
        find_track(reading, (uint64_t)(rank + 1) << 32);
    const struct track *host = track_of(reading, rank, "host");
    const struct track *comm = track_of(reading, rank, "comm");
    const struct track *memory = track_of(reading, rank, "memory");
    snprintf(name, sizeof(name), "rank %d h%d", rank, rank);
    assert_true(process && strcmp(process->name, name) == 0);
    assert_true(host && comm && memory);
    assert_int_equal(spans_of(reading, rank, "step"), STEPS);
    assert_int_equal(spans_of(reading, rank, "data wait"), STEPS);
    assert_int_equal(spans_of(reading, rank, "forward"), 2 * STEPS);
    assert_int_equal(spans_of(reading, rank, "backward"), 2 * STEPS);
    assert_int_equal(spans_of(reading, rank, "loss"), STEPS);
    assert_int_equal(spans_of(reading, rank, "optimizer"), STEPS);
    assert_int_equal(comm->spans,
                     spans_of(reading, rank, "all_reduce") +
                         spans_of(reading, rank, "reduce_scalars"));
    assert_true(spans_of(reading, rank, "all_reduce") >= STEPS);
    assert_true(spans_of(reading, rank, "collective wait") >= STEPS);
    assert_int_equal(memory->counts, 2 * STEPS);
}

static void a_trace_of_two_ranks_has_all_spans(void **state)
{
    double residual;
    int end = 0;
    (void)state;
    train(RUN "logging.trace: {steps: [3, 5]}\n");
    struct reading *reading = read_trace("out/logs/trace-3.pftrace");
    for (size_t i = 0; i < reading->track_count; i++)
        assert_int_equal(reading->tracks[i].depth, 0);
    for (int rank = 0; rank < RANKS; rank++)
        check_rank(reading, rank);
    assert_true(reading->flow_count > STEPS);
    for (size_t i = 0; i < reading->flow_count; i++)
        assert_int_equal(reading->flows[i].ranks, 3);
    assert_int_equal(reading->flow_count, track_of(reading, 0, "comm")->spans);
    assert_int_equal(sscanf(reading->about,
                            "steps 3 to 5 of all 2 ranks; clocks aligned to "
                            "+-%lf us%n",
                            &residual, &end),
                     1);
    assert_string_equal(reading->about + end, "");
    print_message("# %s\n", reading->about);
    assert_int_equal(access("out/logs/trace-3.pftrace.new", F_OK), -1);
    free(reading);
}

static void a_running_job_is_traced_on_request(void **state)
{
    struct dt_error err;
    (void)state;
    assert_int_equal(dt_file_mkdirs("out/logs", &err), 0);
    assert_int_equal(dt_trace_request_write("out/logs", 2, &err), 0);
    train(RUN "run.overwrite: true\nlogging.trace.ranks: \"0\"\n");
    /* it is found in step 1, and all ranks know it when they collect that */
    struct reading *reading = read_trace("out/logs/trace-2.pftrace");
    assert_int_equal(spans_of(reading, 0, "step"), 2);
    assert_int_equal(reading->flow_count, 0); /* one rank only */
    assert_string_equal(reading->about,
                        "steps 2 to 3 of 1 of 2 ranks; one clock");
    free(reading);
    assert_false(dt_trace_request_waits("out/logs"));
}

static void a_trace_ends_with_the_run(void **state)
{
    (void)state;
    train(RUN "logging.trace: {steps: [7, 100]}\n");
    struct reading *reading = read_trace("out/logs/trace-7.pftrace");
    assert_int_equal(spans_of(reading, 1, "step"), 2);
    assert_non_null(strstr(reading->about, "steps 7 to 8 of all"));
    free(reading);
}

/* --- gathering --- */

enum { MANY = 50000 }; /* events, which travel in three pieces */

/* A part of many events, numbered from 0, as of `rank`. */
static void *make_part(int rank, size_t *bytes, struct dt_error *err)
{
    const struct dt_trace_head of = {.rank = rank};
    void *data = NULL;
    if (dt_trace_pack(&of, &data, bytes, err) < 0)
        return NULL;
    struct dt_trace_head *head =
        realloc(data, sizeof(*head) + MANY * sizeof(struct dt_trace_event));
    if (!head)
        abort();
    struct dt_trace_event *event = (struct dt_trace_event *)(head + 1);
    for (uint32_t i = 0; i < MANY; i++)
        event[i] = (struct dt_trace_event){.number = i, .name = DT_TRACE_NAMES};
    head->lanes = 1;
    head->events = MANY;
    *bytes = sizeof(*head) + MANY * sizeof(*event);
    return head;
}

static bool has_all(const struct dt_trace_part *part, int rank)
{
    bool all = part->head.rank == rank && part->head.events == MANY;
    for (uint32_t i = 0; all && i < MANY; i++)
        all = part->events[i].number == i;
    return all;
}

static int gather_rank(const struct dt_comm_world *world, void *arg)
{
    const struct dt_exec exec = dt_exec_cpu();
    struct dt_error err = {0};
    struct dt_comm *comm = small_comm(world, &err);
    struct dt_trace_set set = {0};
    struct dt_trace_gather gather = {
        .comm = comm, .device = exec.device, .stream = exec.stream};
    void *data = make_part(world->rank, &gather.bytes, &err);
    (void)arg;
    gather.data = data;
    int rc = comm && data ? dt_trace_gather(&gather, &set, &err) : -1;
    bool good = rc == 1;
    if (good && world->rank == 0)
        good = set.count == RANKS && has_all(&set.parts[0], 0) &&
               has_all(&set.parts[1], 1);
    dt_trace_set_fini(&set);
    free(data);
    dt_comm_destroy(comm);
    return !good;
}

static void a_part_of_several_pieces_arrives_whole(void **state)
{
    int statuses[RANKS];
    (void)state;
    world_processes(RANKS, gather_rank, NULL, statuses);
    for (int r = 0; r < RANKS; r++)
        assert_int_equal(statuses[r], 0);
}

/* A directory in the place of the file. */
static void a_file_that_cannot_be_written_costs_no_run(void **state)
{
    struct dt_error err;
    (void)state;
    assert_int_equal(dt_file_mkdirs("out/logs/trace-3.pftrace", &err), 0);
    train(RUN "run.overwrite: true\nlogging.trace: {steps: [3, 5]}\n");
    assert_int_equal(access("out/logs/trace-3.pftrace.new", F_OK), -1);
    FILE *file = fopen("out/logs/metrics.jsonl", "r");
    char line[4096], *last = NULL;
    assert_non_null(file);
    while (fgets(line, sizeof(line), file))
        last = line;
    fclose(file);
    assert_non_null(last);
    assert_true(strncmp(last, "{\"step\": 8,", 11) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_trace_of_two_ranks_has_all_spans, small_clean),
        cmocka_unit_test_setup(a_running_job_is_traced_on_request, small_clean),
        cmocka_unit_test_setup(a_trace_ends_with_the_run, small_clean),
        cmocka_unit_test(a_part_of_several_pieces_arrives_whole),
        cmocka_unit_test_setup(a_file_that_cannot_be_written_costs_no_run,
                               small_clean),
    };
    return cmocka_run_group_tests(tests, small_enter, small_leave);
}
