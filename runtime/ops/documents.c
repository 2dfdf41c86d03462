/* SPDX-License-Identifier: Apache-2.0 */
/* documents.c - sorts the documents of a batch into runs */
#include "config.h"

#include <assert.h>
#include <string.h>

#include "ops/documents.h"

static size_t class_of(size_t length)
{
    size_t c = 0;

    while (((size_t)DT_DOCUMENT_LEAST << (2 * c)) < length)
        c++;
    return c;
}

/* The end of the document that begins at token n. */
static size_t end_of(const int32_t *doc_start, size_t n, size_t N, size_t T)
{
    size_t end = n + 1;

    while (end < N && end % T != 0 && doc_start[end] == doc_start[n])
        end++;
    return end;
}

/* Adds the number of documents of each class to count. */
static void count_classes(size_t count[DT_DOCUMENT_CLASSES],
                          const struct dt_documents *documents,
                          const int32_t *doc_start, size_t N, size_t T)
{
    for (size_t n = 0, end; n < N; n = end) {
        end = end_of(doc_start, n, N, T);
        if (end - n > 1) {
            assert(end - n <= documents->longest);
            count[class_of(end - n)]++;
        }
    }
}

void dt_documents_find(struct dt_documents *documents,
                       struct dt_document *spans, const int32_t *doc_start,
                       size_t B, size_t T)
{
    const size_t N = B * T, classes = dt_document_classes(documents);
    size_t count[DT_DOCUMENT_CLASSES] = {0}, next[DT_DOCUMENT_CLASSES];
    size_t place = 0;

    assert(N <= documents->tokens);
    count_classes(count, documents, doc_start, N, T);
    memset(documents->runs, 0, sizeof(documents->runs));
    for (size_t c = 0; c < classes; c++) {
        const size_t most = dt_document_count(documents, c);
        const size_t runs = count[c] > 0 ? (count[c] + most - 1) / most : 0;
        assert(runs == 0 || (runs - 1) * most < count[c]); /* none is empty */
        documents->runs[c] = (uint8_t)runs;
        next[c] = place;
        place += runs * most;
    }
    assert(place <= dt_document_places(documents->tokens));
    if (!spans)
        return;
    memset(spans, 0, place * sizeof(*spans)); /* empty behind the documents */
    for (size_t n = 0, end; n < N; n = end) {
        end = end_of(doc_start, n, N, T);
        if (end - n > 1)
            spans[next[class_of(end - n)]++] =
                (struct dt_document){(int32_t)n, (int32_t)(end - n)};
    }
}
