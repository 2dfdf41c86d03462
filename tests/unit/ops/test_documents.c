/* SPDX-License-Identifier: Apache-2.0 */
/* test_documents.c - documents are in runs of their class */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ops/documents.h"

enum { MOST = 1 << 15 };

/* A batch of rows of T positions whose documents have lengths[0], ... */
struct batch {
    size_t B, T;
    int32_t doc_start[MOST];
};

static void fill(struct batch *batch, size_t B, size_t T, const size_t *lengths)
{
    *batch = (struct batch){.B = B, .T = T};
    for (size_t n = 0, end; n < B * T; n = end)
        for (end = n + *lengths++; n < end; n++)
            batch->doc_start[n] = (int32_t)((end - lengths[-1]) % T);
}

/* Each document of more than one position is in a run of its class once, and
 * all places behind the last one of a class are empty.
 */
static void check(const struct batch *batch, size_t tokens, size_t longest)
{
    struct dt_document *at = calloc(dt_document_places(tokens), sizeof(*at));
    struct dt_documents d = {.tokens = tokens, .longest = longest}, counted = d;
    static uint8_t seen[MOST];
    size_t place = 0;

    assert_non_null(at);
    memset(seen, 0, sizeof(seen));
    dt_documents_find(&d, at, batch->doc_start, batch->B, batch->T);
    dt_documents_find(&counted, NULL, batch->doc_start, batch->B, batch->T);
    assert_memory_equal(d.runs, counted.runs, sizeof(d.runs));
    for (size_t c = 0; c < dt_document_classes(&d); c++) {
        const size_t length = dt_document_length(&d, c);
        const size_t count = dt_document_count(&d, c);
        bool ended = false;
        assert_true(length * count <= tokens);
        for (size_t i = 0; i < d.runs[c] * count; i++) {
            const struct dt_document one = at[place++];
            assert_in_range(one.count, 0, length);
            assert_false(one.count == 0 && i % count == 0);
            assert_false(one.count > 0 && ended);
            ended = one.count == 0;
            assert_true(one.count == 0 || one.count > 1);
            assert_true(one.count == 0 || c == 0 ||
                        (size_t)one.count > length / 4);
            for (int32_t t = 0; t < one.count; t++)
                seen[one.first + t]++;
        }
    }
    assert_in_range(place, 0, dt_document_places(tokens));
    for (size_t n = 0; n < batch->B * batch->T; n++) {
        const int32_t t = (int32_t)(n % batch->T);
        const bool alone =
            batch->doc_start[n] == t &&
            ((size_t)t + 1 == batch->T || batch->doc_start[n + 1] == t + 1);
        assert_int_equal(seen[n], !alone);
    }
    free(at);
}

static void every_document_is_in_a_run_of_its_class(void **state)
{
    static struct batch batch;
    const size_t ones[] = {1, 1, 1, 1, 1, 1}, one[] = {6};
    const size_t borders[] = {63, 64, 65, 1, 255, 256, 257, 1, 1, 61};
    (void)state;
    fill(&batch, 1, 6, one);
    check(&batch, 6, 6);
    check(&batch, 4096, 6);
    check(&batch, 4096, 4096);
    fill(&batch, 3, 2, ones);
    check(&batch, 6, 2);
    fill(&batch, 1, 1024, borders);
    check(&batch, 1024, 257);
    check(&batch, 1024, 1024);
    check(&batch, 1025, 1025);
}

static void any_lengths_fit(void **state)
{
    static struct batch batch;
    static size_t lengths[MOST];
    (void)state;
    for (size_t longest = 2; longest <= 4096; longest *= 4) {
        for (size_t i = 0, left = MOST; left > 0; left -= lengths[i++]) {
            lengths[i] = (i * 2654435761u >> 7) % longest + 1;
            if (lengths[i] > left)
                lengths[i] = left;
        }
        fill(&batch, 1, MOST, lengths);
        check(&batch, MOST, longest);
        check(&batch, MOST, MOST);
    }
}

/* Each class is a plan of its own for the length that it has. Rows of several
 * documents, and several rows, are longer than any document.
 */
static void no_class_is_longer_than_the_longest_document(void **state)
{
    static const struct {
        size_t tokens, longest, classes, length, count;
    } cases[] = {{16384, 1024, 3, 1024, 16},
                 {16384, 2048, 4, 2048, 8},
                 {16384, 1025, 4, 1025, 15},
                 {16384, 16384, 5, 16384, 1},
                 {16384, 64, 1, 64, 256},
                 {16384, 10, 1, 64, 256},
                 {48, 48, 1, 48, 1},
                 {48, 10, 1, 48, 1},
                 {1, 1, 1, 1, 1}};
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct dt_documents d = {.tokens = cases[i].tokens,
                                       .longest = cases[i].longest};
        const size_t last = dt_document_classes(&d) - 1;
        assert_int_equal(last + 1, cases[i].classes);
        assert_int_equal(dt_document_length(&d, last), cases[i].length);
        assert_int_equal(dt_document_count(&d, last), cases[i].count);
    }
}

/* What a graph may be recorded for: with other lengths of the same classes it
 * is the same.
 */
static void only_the_number_of_runs_is_not_data(void **state)
{
    static struct batch batch;
    const size_t lengths[2][4] = {{100, 200, 20, 192}, {256, 65, 60, 131}};
    struct dt_documents d[2];
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        d[i] = (struct dt_documents){.tokens = 512, .longest = 512};
        fill(&batch, 1, 512, lengths[i]);
        dt_documents_find(&d[i], NULL, batch.doc_start, 1, 512);
    }
    assert_memory_equal(d[0].runs, d[1].runs, sizeof(d[0].runs));
    assert_int_equal(d[0].runs[0], 1);
    assert_int_equal(d[0].runs[1], 2);
    assert_int_equal(dt_document_count(&d[0], 1), 2);
}

static void a_batch_without_tokens_has_no_runs(void **state)
{
    struct dt_documents d = {.tokens = 0};
    const uint8_t none[DT_DOCUMENT_CLASSES] = {0};
    (void)state;
    dt_documents_find(&d, NULL, NULL, 0, 0);
    assert_memory_equal(d.runs, none, sizeof(none));
    assert_int_equal(dt_document_count(&d, 0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_document_is_in_a_run_of_its_class),
        cmocka_unit_test(any_lengths_fit),
        cmocka_unit_test(no_class_is_longer_than_the_longest_document),
        cmocka_unit_test(only_the_number_of_runs_is_not_data),
        cmocka_unit_test(a_batch_without_tokens_has_no_runs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
