/* SPDX-License-Identifier: Apache-2.0 */
/* test_secret.c - what is removed from files that people pass on */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/secret.h"

static void names_of_secrets_are_known_by_their_words(void **state)
{
    static const char *const secret[] = {"WANDB_API_KEY",
                                         "env.HF_TOKEN",
                                         "--password",
                                         "AWS_SECRET_ACCESS_KEY",
                                         "http.Authorization",
                                         "db-passwd",
                                         "token"};
    static const char *const plain[] = {"model.tokenizer",
                                        "micro_batch_tokens",
                                        "KEYBOARD",
                                        "monkey",
                                        "key",
                                        "key_path",
                                        "authors",
                                        "PATH",
                                        ""};
    (void)state;
    for (size_t i = 0; i < sizeof(secret) / sizeof(*secret); i++)
        if (!dt_secret_name(secret[i]))
            fail_msg("%s is no secret", secret[i]);
    for (size_t i = 0; i < sizeof(plain) / sizeof(*plain); i++)
        if (dt_secret_name(plain[i]))
            fail_msg("%s is a secret", plain[i]);
}

static void secrets_in_values_are_removed(void **state)
{
    static const struct {
        const char *value, *clean;
    } cases[] = {
        {"https://user:pw@host/x?y", "https://(removed)@host/x?y"},
        {"https://host/a@b", "https://host/a@b"},
        {"a hf_abcdefghijklmnopqrst, b", "a (removed), b"},
        {"sk-short", "sk-short"},
        {"disk-abcdefghijklmnopqrst", "disk-abcdefghijklmnopqrst"},
        {"{h: \"Bearer abc.def\"}", "{h: \"(removed)\"}"},
        {"[\"http://a:b@c\", \"http://d:e@f\"]",
         "[\"http://(removed)@c\", \"http://(removed)@f\"]"},
        {"", ""},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        char *clean = dt_secret_remove(cases[i].value);
        assert_string_equal(clean, cases[i].clean);
        free(clean);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_of_secrets_are_known_by_their_words),
        cmocka_unit_test(secrets_in_values_are_removed),
    };
    return cmocka_run_group_tests_name("secret", tests, NULL, NULL);
}
