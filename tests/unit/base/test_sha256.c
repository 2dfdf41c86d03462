/* SPDX-License-Identifier: Apache-2.0 */
/* test_sha256.c - the hashes of FIPS 180-4, and those of all lengths */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/sha256.h"

static void assert_hash(const void *data, size_t bytes, const char *wanted)
{
    char hex[DT_SHA256_HEX];
    dt_sha256_hex(data, bytes, hex);
    assert_string_equal(hex, wanted);
}

static void hashes_are_those_of_the_standard(void **state)
{
    const size_t million = 1000000;
    char *a = malloc(million);
    (void)state;
    assert_non_null(a);
    memset(a, 'a', million);
    assert_hash("", 0,
                "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b"
                "855");
    assert_hash("abc", 3,
                "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015"
                "ad");
    assert_hash("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 56,
                "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06"
                "c1");
    assert_hash(a, million,
                "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112"
                "cd0");
    free(a);
}

/* The hash of the hashes of 0 to 199 bytes 0, 7, 14 ..., as Python's hashlib
 * has it: each number of bytes in the last block, in one block or two.
 */
static void every_length_of_a_last_block_is_right(void **state)
{
    uint8_t data[200], hashes[200][DT_SHA256_BYTES];
    (void)state;
    for (size_t i = 0; i < sizeof(data); i++)
        data[i] = (uint8_t)(7 * i);
    for (size_t bytes = 0; bytes < sizeof(data); bytes++)
        dt_sha256(data, bytes, hashes[bytes]);
    assert_hash(hashes, sizeof(hashes),
                "0a716dcd52ebb45d547cf893c2616d1641ae3c122398e759ddeb1d0698a65c"
                "1a");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hashes_are_those_of_the_standard),
        cmocka_unit_test(every_length_of_a_last_block_is_right),
    };
    return cmocka_run_group_tests_name("sha256", tests, NULL, NULL);
}
