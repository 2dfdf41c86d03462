/* SPDX-License-Identifier: Apache-2.0 */
/* test_secret.c - what is removed from files that people pass on */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/secret.h"

static void names_of_secrets_are_known_by_their_words(void **state)
{
    static const char *const secret[] = {
        "WANDB_API_KEY", "env.HF_TOKEN",  "--password",
        "PGPASSWORD",    "MYSQL_PWD",     "DB_PASS",
        "PASS",          "GITHUB_PAT",    "AWS_SECRET_ACCESS_KEY",
        "X-Api-Key",     "apiKey",        "http.Authorization",
        "db-passwd",     "token",         "credentials",
        "_authToken",    "access_tokens", "X_PWD",
        "DBPWD",         "env.sa-pwd",    "Pwd"};
    static const char *const plain[] = {"model.tokenizer",
                                        "micro_batch_tokens",
                                        "max_tokens",
                                        "max_token",
                                        "pad_token",
                                        "rm.last_token",
                                        "KEYBOARD",
                                        "monkey",
                                        "key",
                                        "key_path",
                                        "token_file",
                                        "SSH_AUTH_SOCK",
                                        "answer_key",
                                        "secrets_from",
                                        "forward_pass",
                                        "pass",
                                        "pattern",
                                        "PWD",
                                        "OLDPWD",
                                        "OLD_PWD",
                                        "env.PWD",
                                        "pwd",
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

struct text {
    const char *value, *clean;
};

static const struct text texts[] = {
    /* URLs */
    {"https://user:pw@host/x?y", "https://(removed)@host/x?y"},
    {"https://user:p@w@host", "https://(removed)@host"},
    {"https://host/a@b", "https://host/a@b"},
    {"https://h/?api_key=ab&n=1", "https://h/?api_key=(removed)&n=1"},
    {"[\"http://a:b@c\", \"http://d:e@f\"]",
     "[\"http://(removed)@c\", \"http://(removed)@f\"]"},
    /* looks */
    {"a hf_abcdefghijklmnopqrst, b", "a (removed), b"},
    {"sk-short", "sk-short"},
    {"out/sk-learn-experiment-2024-run1", "out/sk-learn-experiment-2024-run1"},
    {"hf_smollm2-135m-lr-sweep", "hf_smollm2-135m-lr-sweep"},
    {"hf_models-smollm2-135m-instruct", "hf_models-smollm2-135m-instruct"},
    {"sk-proj-A1b2C3d4-E5f6G7h8_I9j0K1l2M3", "(removed)"},
    {"disk-abcdefghijklmnopqrst", "disk-abcdefghijklmnopqrst"},
    {"{h: \"Bearer abc.def\"}", "{h: \"(removed)\"}"},
    {"the basic idea. Basic authentication failed",
     "the basic idea. Basic authentication failed"},
    /* values with names */
    {"PGPASSWORD=a,b curl", "PGPASSWORD=(removed) curl"},
    {"Authorization: Bearer abcdef, and", "Authorization: (removed), and"},
    {"Authorization: Token abcdef0123, and", "Authorization: (removed), and"},
    {"authorization: ApiKey QWxhZGRpbg==", "authorization: (removed)"},
    {"login(password='a b', n=1)", "login(password='(removed)', n=1)"},
    {"[\"p\", \"--token\", \"ab\", \"x\"]",
     "[\"p\", \"--token\", \"(removed)\", \"x\"]"},
    {"p --api-key ab -v", "p --api-key (removed) -v"},
    {"p --api-key=ab -v", "p --api-key=(removed) -v"},
    {"{\"api_key\": \"a\\\"b\", \"n\": 1}",
     "{\"api_key\": \"(removed)\", \"n\": 1}"},
    {"{\"password\": 12345, \"secrets\": {\"a\": [\"b\"]}, \"n\": 1}",
     "{\"password\": \"(removed)\", \"secrets\": \"(removed)\", \"n\": 1}"},
    {"{\"said\": \"{\\\"token\\\": \\\"abc\\\"}\"}",
     "{\"said\": \"{\\\"token\\\": \\\"(removed)\\\"}\"}"},
    {"token: null, auth: true", "token: null, auth: true"},
    {"token: expected a string", "token: expected a string"},
    {"secret: not found, password: abcdef",
     "secret: not found, password: (removed)"},
    {"token: x9y8z7", "token: (removed)"},
    {"special token: <|im_start|>, x", "special token: <|im_start|>, x"},
    {"special token: im_start0", "special token: im_start0"},
    {"stop token=128009", "stop token=128009"},
    {"token=123456789012345", "token=123456789012345"},
    {"token=1234567890123456", "token=(removed)"},
    {"api_key=128009", "api_key=(removed)"},
    {"--my-token=<token> my-token=...", "--my-token=<token> my-token=..."},
    {"my-token=\xe2\x80\xa6", "my-token=\xe2\x80\xa6"},
    {"my-token=<ab my-token=ab", "my-token=(removed) my-token=(removed)"},
    {"password=<ab>", "password=(removed)>"},
    {"new token: im_start0", "new token: (removed)"},
    {"\"env.A_TOKEN=${A_TOKEN:?}\"", "\"env.A_TOKEN=${A_TOKEN:?}\""},
    {"A_TOKEN=${A}, A_TOKEN='${A}'", "A_TOKEN=${A}, A_TOKEN='${A}'"},
    {"A_TOKEN=${A}b A_TOKEN=${A:-b} A_TOKEN=$A",
     "A_TOKEN=(removed) A_TOKEN=(removed)} A_TOKEN=(removed)"},
    {"Uid=me;Pwd=ab;", "Uid=me;Pwd=(removed);"},
    {"max_tokens: 512, pad_token: \"<pad>\"",
     "max_tokens: 512, pad_token: \"<pad>\""},
    {"/etc/passwd: Permission denied", "/etc/passwd: Permission denied"},
    {"judge.secrets: No such file", "judge.secrets: No such file"},
    {"a/secrets.txt: others may use it", "a/secrets.txt: others may use it"},
    {"password=(removed)", "password=(removed)"},
    {"got Bearer (removed).", "got Bearer (removed)."},
    {"password=", "password="},
    {"", ""},
};

static void secrets_in_values_are_removed(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
        char *clean = dt_secret_remove(texts[i].value);
        assert_string_equal(clean, texts[i].clean);
        char *again = dt_secret_remove(clean);
        assert_string_equal(again, clean);
        free(again);
        free(clean);
    }
}

/* In a buffer of any size the text is cut, and no part of a secret is left. */
static void a_text_is_cleaned_in_its_buffer(void **state)
{
    static const char text[] = "at http://u:p@h: 5",
                      clean[] = "at http://(removed)@h: 5";
    (void)state;
    for (size_t size = sizeof(text); size <= sizeof(clean) + 2; size++) {
        char *buffer = malloc(size);
        memcpy(buffer, text, sizeof(text));
        dt_secret_clean(buffer, size);
        size_t n = strlen(buffer);
        assert_memory_equal(buffer, clean, n);
        assert_int_equal(n, size < 20              ? 10
                            : size < sizeof(clean) ? size - 1
                                                   : sizeof(clean) - 1);
        free(buffer);
    }
}

static void expect_clean(const char *text, const char *expected)
{
    char *clean = dt_secret_remove(text);
    assert_string_equal(clean, expected);
    free(clean);
}

/* What is learned is known wherever it is. */
static void what_was_learned_is_removed_anywhere(void **state)
{
    static const char text[] = "a long-value-2 and long-value, seven77";
    (void)state;
    dt_secret_learn("long-value");
    dt_secret_learn("long-value-2");
    dt_secret_learn("seven77");
    expect_clean(text, "a (removed) and (removed), seven77");
    char *clean = dt_secret_remove_seen(text);
    assert_string_equal(clean, text);
    free(clean);

    dt_secret_learn_text("[--token, x, \"--key\"] {\"config\": {\"token\": "
                         "\"with \\\"quote\"}} url: http://me:my-words@h");
    expect_clean("with \"quote", "(removed)");
    expect_clean("\"with \\\"quote\"", "\"(removed)\"");
    expect_clean("user me, my-words", "user me, (removed)");

    setenv("JUDGE_PASS", "of-the-judge", 1);
    setenv("PROXY", "http://a:of-proxy@h", 1);
    setenv("SECRETS_ROOT", "/usr/bin", 1);
    setenv("TOKEN_BUDGET", "10000000", 1);
    dt_secret_learn_environment();
    expect_clean("(of-the-judge) of-proxy", "((removed)) (removed)");
    expect_clean("/usr/bin 10000000", "/usr/bin 10000000");
}

static void errors_have_no_secrets(void **state)
{
    struct dt_error err;
    char url[DT_ERROR_TEXT_BYTES] = "";
    (void)state;
    dt_error_set(&err, EX_CONFIG, "%s: refused", "http://a:b@c");
    dt_error_prefix(&err, "%s", "x --token t1");
    dt_error_add(&err, EX_CONFIG, "%s", "MY_PASS=t2");
    assert_string_equal(err.text, "x --token (removed): http://(removed)@c: "
                                  "refused; MY_PASS=(removed)");
    memset(url, 'x', sizeof(url) - 10); /* cut within the secret */
    dt_error_set(&err, EX_CONFIG, "%s://user:pass@h", url);
    assert_null(strstr(err.text, "user"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_of_secrets_are_known_by_their_words),
        cmocka_unit_test(secrets_in_values_are_removed),
        cmocka_unit_test(a_text_is_cleaned_in_its_buffer),
        cmocka_unit_test(what_was_learned_is_removed_anywhere),
        cmocka_unit_test(errors_have_no_secrets),
    };
    return cmocka_run_group_tests_name("secret", tests, NULL, NULL);
}
