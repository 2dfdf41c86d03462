/* SPDX-License-Identifier: Apache-2.0 */
/* test_protobuf.c - bytes of fields, nested messages, random round trips */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "tests/unit/protobuf_reader.h"
#include "report/protobuf.h"

static void assert_hex(const struct dt_protobuf *buffer, const char *hex)
{
    char text[256] = "";
    assert_false(buffer->failed);
    for (size_t i = 0; i < buffer->bytes; i++)
        snprintf(text + 2 * i, sizeof(text) - 2 * i, "%02x", buffer->data[i]);
    assert_string_equal(text, hex);
}

/* The first two are those of protobuf's own description of its encoding. */
static void fields_have_the_bytes_of_other_encoders(void **state)
{
    struct dt_protobuf b = {0};
    (void)state;
    dt_protobuf_varint(&b, 1, 150);
    dt_protobuf_string(&b, 2, "testing");
    assert_hex(&b, "089601120774657374696e67");
    dt_protobuf_clear(&b);
    dt_protobuf_varint(&b, 1, 0);
    dt_protobuf_varint(&b, 1, (uint64_t)-1);
    dt_protobuf_bytes(&b, 16, NULL, 0);
    assert_hex(&b, "080008ffffffffffffffffff01820100");
    dt_protobuf_clear(&b);
    dt_protobuf_fixed64(&b, 47, 0x0102030405060708u);
    dt_protobuf_fixed32(&b, 3, 0x01020304u);
    dt_protobuf_double(&b, 1, 1.0);
    dt_protobuf_float(&b, 2, -2.5f);
    assert_hex(&b, "f902080706050403020"
                   "11d0403020109000000000000f03f15000020c0");
    dt_protobuf_fini(&b);
    assert_null(b.data);
}

/* An event of TensorBoard: a summary with a value, the length after the
 * fields are known.
 */
static void nested_messages_get_their_length(void **state)
{
    struct dt_protobuf b = {0};
    (void)state;
    dt_protobuf_double(&b, 1, 1700000001.0);
    dt_protobuf_varint(&b, 2, 10);
    size_t summary = dt_protobuf_begin(&b, 5);
    size_t value = dt_protobuf_begin(&b, 1);
    dt_protobuf_string(&b, 1, "train/loss");
    dt_protobuf_float(&b, 2, 2.5f);
    dt_protobuf_end(&b, value);
    dt_protobuf_end(&b, summary);
    assert_hex(&b, "0900004040fc54d941100a2a130a110a0a747261696e2f6c6f7373"
                   "1500002040");
    dt_protobuf_clear(&b);
    dt_protobuf_end(&b, dt_protobuf_begin(&b, 1));
    assert_hex(&b, "0a00");
    dt_protobuf_fini(&b);
}

static void a_long_message_has_a_long_length(void **state)
{
    static const size_t lengths[] = {125, 126, 127, 16380, 16381, 70000};
    (void)state;
    for (size_t i = 0; i < sizeof(lengths) / sizeof(*lengths); i++) {
        struct dt_protobuf b = {0};
        char *text = malloc(lengths[i]);
        assert_non_null(text);
        memset(text, 'x', lengths[i]);
        dt_protobuf_varint(&b, 1, 7);
        size_t mark = dt_protobuf_begin(&b, 2);
        dt_protobuf_bytes(&b, 3, text, lengths[i]);
        dt_protobuf_end(&b, mark);
        dt_protobuf_varint(&b, 4, 9);
        struct proto_field inner = proto_find(b.data, b.bytes, 2);
        struct proto_field field = proto_within(inner, 3);
        assert_int_equal(field.bytes, lengths[i]);
        assert_memory_equal(field.data, text, lengths[i]);
        assert_int_equal(proto_find(b.data, b.bytes, 4).value, 9);
        free(text);
        dt_protobuf_fini(&b);
    }
}

/* Random numbers of every length in bits: up to 64, and up to 28. */
static void draw(uint64_t index, uint64_t *value, uint32_t *field)
{
    uint32_t word[4];
    dt_rng_block(17, DT_RNG_INIT, index, word);
    *value = ((uint64_t)word[0] << 32 | word[1]) >> word[2] % 64;
    *field = 1 + ((word[3] >> 4) >> word[2] / 64 % 28);
}

static void what_is_written_is_read(void **state)
{
    struct dt_protobuf b = {0};
    enum { FIELDS = 20000 };
    static uint64_t values[FIELDS];
    static uint32_t numbers[FIELDS];
    (void)state;
    for (size_t i = 0; i < FIELDS; i++) {
        draw(i, &values[i], &numbers[i]);
        if (i % 3 == 0)
            dt_protobuf_varint(&b, numbers[i], values[i]);
        else if (i % 3 == 1)
            dt_protobuf_fixed64(&b, numbers[i], values[i]);
        else
            dt_protobuf_fixed32(&b, numbers[i], (uint32_t)values[i]);
    }
    struct proto in = {b.data, b.data + b.bytes};
    struct proto_field field;
    for (size_t i = 0; i < FIELDS; i++) {
        assert_true(proto_next(&in, &field));
        assert_int_equal(field.number, numbers[i]);
        assert_true(field.value ==
                    (i % 3 == 2 ? (uint32_t)values[i] : values[i]));
    }
    assert_ptr_equal(in.at, in.end);
    dt_protobuf_fini(&b);
}

static void a_buffer_that_is_too_large_fails_until_it_is_cleared(void **state)
{
    struct dt_protobuf b = {0};
    const size_t much = (size_t)1 << 30;
    (void)state;
    size_t mark = dt_protobuf_begin(&b, 1);
    dt_protobuf_bytes(&b, 2, "", much);
    assert_true(b.failed);
    size_t had = b.bytes;
    dt_protobuf_varint(&b, 3, 1);
    dt_protobuf_end(&b, mark);
    assert_true(b.failed);
    assert_int_equal(b.bytes, had);
    dt_protobuf_clear(&b);
    dt_protobuf_varint(&b, 3, 1);
    assert_hex(&b, "1801");
    dt_protobuf_fini(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fields_have_the_bytes_of_other_encoders),
        cmocka_unit_test(nested_messages_get_their_length),
        cmocka_unit_test(a_long_message_has_a_long_length),
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(a_buffer_that_is_too_large_fails_until_it_is_cleared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
