/* SPDX-License-Identifier: Apache-2.0 */
/* test_siphash.c - the hashes that OpenSSL computes */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "base/siphash.h"

/* The key is 00 01 .. 0f, and the data 00 01 .. of that length. */
static void hashes_are_those_of_openssl(void **state)
{
    const struct {
        size_t bytes;
        const char *hash;
    } cases[] = {
        {0, "a3817f04ba25a8e66df67214c7550293"},
        {1, "da87c1d86b99af44347659119b22fc45"},
        {15, "5493e99933b0a8117e08ec0f97cfc3d9"},
        {56, "1938f2cf72d54ee97e94166fa91d2a36"},
        {63, "5150d1772f50834a503e069a973fbd7c"},
    };
    uint8_t key[DT_SIPHASH_BYTES], data[64], hash[DT_SIPHASH_BYTES];
    char text[2 * DT_SIPHASH_BYTES + 1];
    (void)state;
    for (size_t i = 0; i < sizeof(data); i++)
        data[i] = key[i % sizeof(key)] = (uint8_t)i;
    for (size_t i = 0; i < sizeof(key); i++)
        key[i] = (uint8_t)i;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        dt_siphash(key, data, cases[i].bytes, hash);
        for (size_t b = 0; b < sizeof(hash); b++)
            snprintf(text + 2 * b, 3, "%02x", hash[b]);
        assert_string_equal(text, cases[i].hash);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hashes_are_those_of_openssl),
    };
    return cmocka_run_group_tests_name("siphash", tests, NULL, NULL);
}
