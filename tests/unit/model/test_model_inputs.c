/* SPDX-License-Identifier: Apache-2.0 */
/* test_model_inputs.c - batches reach a device that copies as late as it may */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "model/model_impl.h"

enum { TOKENS = 4, BATCHES = 6 };

/* A point in the queue of copies. */
struct dt_event {
    size_t copies;
};

/* The device copies in order, and not before something waits for it. */
static struct {
    struct {
        void *to;
        const void *from;
        size_t bytes;
    } copies[BATCHES];
    size_t queued, done;
    struct dt_event events[DT_MODEL_BATCHES];
    size_t event_count;
    int32_t seen[BATCHES]; /* first token of each copy */
} late;

static int late_copy(struct dt_stream *stream, void *to, const void *from,
                     size_t bytes, struct dt_error *err)
{
    (void)stream, (void)err;
    assert_true(late.queued < BATCHES);
    late.copies[late.queued].to = to;
    late.copies[late.queued].from = from;
    late.copies[late.queued++].bytes = bytes;
    return 0;
}

static void copy_until(size_t end)
{
    for (; late.done < end; late.done++) {
        void *to = late.copies[late.done].to;
        memcpy(to, late.copies[late.done].from, late.copies[late.done].bytes);
        late.seen[late.done] = *(const int32_t *)to;
    }
}

static int late_event_create(struct dt_event **event, struct dt_error *err)
{
    (void)err;
    assert_true(late.event_count < DT_MODEL_BATCHES);
    *event = &late.events[late.event_count++];
    return 0;
}

static void late_event_destroy(struct dt_event *event)
{
    (void)event;
}

static int late_event_record(struct dt_event *event, struct dt_stream *stream,
                             struct dt_error *err)
{
    (void)stream, (void)err;
    event->copies = late.queued;
    return 0;
}

static int late_event_done(struct dt_event *event, struct dt_error *err)
{
    (void)err;
    copy_until(event->copies);
    return 1;
}

static void a_batch_is_copied_before_its_staging_memory_is_used_again(void **s)
{
    struct dt_device device = dt_cpu;
    const struct dt_exec exec = {&device, dt_ops_cpu(), NULL};
    const struct dt_inputs_limits limits = {.B = 1, .N = TOKENS, .axes = 1};
    struct dt_inputs inputs = {0};
    struct dt_error err;
    (void)s;
    device.copy = late_copy;
    device.event_create = late_event_create;
    device.event_destroy = late_event_destroy;
    device.event_record = late_event_record;
    device.event_done = late_event_done;
    assert_int_equal(dt_inputs_init(&inputs, &exec, &limits, &err), 0);
    for (int32_t i = 0; i < BATCHES; i++) {
        const int32_t ids[TOKENS] = {i, i, i, i};
        const struct dt_batch batch = {
            .B = 1, .T = TOKENS, .inputs = ids, .targets = ids};
        assert_int_equal(dt_inputs_upload(&inputs, &batch, NULL, &err), 0);
    }
    assert_true(late.done < BATCHES); /* it did not wait for all of them */
    copy_until(BATCHES);
    for (int32_t i = 0; i < BATCHES; i++)
        assert_int_equal(late.seen[i], i);
    dt_inputs_fini(&inputs);
}

/* In the first table of angles there is room for `longest` positions. */
static void only_documents_beyond_the_limit_use_the_long_angles(void **s)
{
    enum { N = 14, LONGEST = 3, ANGLES = 100 };
    static const int32_t ids[N];
    static const int32_t doc_start[N] = {0, 0, 0, 3, 3, 3, 3,
                                         0, 0, 2, 2, 2, 5, 5};
    static const int32_t expected[N] = {0, 1, 2, 100, 101, 102, 103,
                                        0, 1, 0, 1,   2,   0,   1};
    const struct dt_exec exec = {&dt_cpu, dt_ops_cpu(), NULL};
    const struct dt_inputs_limits limits = {.axes = 1,
                                            .B = 2,
                                            .N = N,
                                            .document = N / 2,
                                            .longest = LONGEST,
                                            .angles = ANGLES};
    const struct dt_batch batch = {.B = 2,
                                   .T = N / 2,
                                   .inputs = ids,
                                   .targets = ids,
                                   .doc_start = doc_start};
    struct dt_inputs inputs = {0};
    struct dt_error err;
    (void)s;
    assert_int_equal(dt_inputs_init(&inputs, &exec, &limits, &err), 0);
    assert_int_equal(dt_inputs_upload(&inputs, &batch, NULL, &err), 0);
    const int32_t *positions = inputs.staged.buf->data;
    assert_memory_equal(positions + inputs.positions.offset, expected,
                        sizeof(expected));
    dt_inputs_fini(&inputs);
}

/* Of 2 x 7 tokens, in a model for 64. */
static void documents_of_a_batch_are_uploaded(void **s)
{
    enum { N = 14 };
    static const int32_t ids[N];
    static const int32_t doc_start[N] = {0, 0, 0, 3, 3, 3, 3,
                                         0, 1, 2, 2, 2, 5, 5};
    static const int32_t expected[4][2] = {{0, 3}, {3, 4}, {9, 3}, {12, 2}};
    const struct dt_exec exec = {&dt_cpu, dt_ops_cpu(), NULL};
    const struct dt_inputs_limits limits = {
        .axes = 1, .B = 2, .N = 64, .document = N / 2};
    const struct dt_batch batch = {.B = 2,
                                   .T = N / 2,
                                   .inputs = ids,
                                   .targets = ids,
                                   .doc_start = doc_start};
    struct dt_inputs inputs = {0};
    struct dt_error err;
    (void)s;
    assert_int_equal(dt_inputs_init(&inputs, &exec, &limits, &err), 0);
    assert_int_equal(dt_inputs_upload(&inputs, &batch, NULL, &err), 0);
    assert_int_equal(inputs.documents.tokens, 64);
    assert_int_equal(inputs.documents.longest, N / 2);
    assert_int_equal(inputs.documents.runs[0], 4); /* of one document */
    assert_memory_equal(dt_view_i32(inputs.documents.spans), expected,
                        sizeof(expected));
    dt_inputs_fini(&inputs);
}

/* The first byte of each array that recorded graphs read. */
struct places {
    size_t rows, ids, targets, first, positions, documents;
};

static struct places places_of(const struct dt_inputs *inputs)
{
    return (struct places){
        inputs->rows.offset * sizeof(int64_t),
        inputs->ids.offset * sizeof(int32_t),
        inputs->targets.offset * sizeof(int32_t),
        inputs->first.offset * sizeof(int32_t),
        inputs->positions.offset * sizeof(int32_t),
        inputs->documents.spans.offset * sizeof(int32_t),
    };
}

/* Recorded graphs keep the addresses of arrays, so what else a batch has must
 * not move them: how many picked tokens, and whether there are numbers of rows,
 * starts of documents and targets.
 */
static void batches_of_one_shape_have_each_array_in_one_place(void **s)
{
    enum { T = 512, WITHOUT = 3 };
    static const size_t counts[] = {0, 1, 63, 64, 65, 128, 129, 511, 512};
    static int32_t ids[T], picks[T];
    const struct dt_exec exec = {&dt_cpu, dt_ops_cpu(), NULL};
    const struct dt_inputs_limits limits = {
        .B = 40, .N = T, .document = T, .picks = true, .axes = 1};
    int64_t rows[40] = {7};
    struct dt_inputs inputs = {0};
    struct places want;
    struct dt_error err;
    (void)s;
    for (int32_t n = 0; n < T; n++)
        ids[n] = 1000 + (picks[n] = n);
    assert_int_equal(dt_inputs_init(&inputs, &exec, &limits, &err), 0);
    for (size_t i = 0; i < (1 << WITHOUT) * sizeof(counts) / sizeof(*counts);
         i++) {
        const size_t count = counts[i >> WITHOUT];
        const struct dt_batch batch = {.B = 1,
                                       .T = T,
                                       .inputs = ids,
                                       .targets = i & 1 && !count ? NULL : ids,
                                       .doc_start = i & 2 ? NULL : picks,
                                       .rows = i & 4 ? NULL : rows,
                                       .picked = count > 0 ? picks : NULL,
                                       .picked_count = count};
        const int32_t *data = inputs.staged.buf->data;
        assert_int_equal(dt_inputs_upload(&inputs, &batch, NULL, &err), 0);
        assert_int_equal(inputs.picked.count, count);
        assert_memory_equal(data + inputs.picked.offset, picks,
                            count * sizeof(*picks));
        assert_memory_equal(data + inputs.picked_targets.offset, ids,
                            count * sizeof(*ids));
        assert_int_equal(inputs.targets.count, batch.targets ? T : 0);
        assert_int_equal(inputs.first.count, batch.doc_start ? T : 0);
        assert_int_equal(inputs.rows.count, batch.rows ? 1 : 0);
        const struct places is = places_of(&inputs);
        want = i == 0 ? is : want;
        assert_int_equal(is.ids, want.ids);
        assert_int_equal(is.positions, want.positions);
        if (batch.targets)
            assert_int_equal(is.targets, want.targets);
        assert_int_equal(inputs.documents.spans.count > 0,
                         batch.doc_start != NULL);
        if (batch.doc_start) {
            assert_int_equal(is.first, want.first);
            assert_int_equal(is.documents, want.documents);
        }
        if (batch.rows)
            assert_int_equal(is.rows, want.rows);
    }
    dt_inputs_fini(&inputs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            a_batch_is_copied_before_its_staging_memory_is_used_again),
        cmocka_unit_test(only_documents_beyond_the_limit_use_the_long_angles),
        cmocka_unit_test(documents_of_a_batch_are_uploaded),
        cmocka_unit_test(batches_of_one_shape_have_each_array_in_one_place),
    };
    return cmocka_run_group_tests_name("model inputs", tests, NULL, NULL);
}
