/* SPDX-License-Identifier: Apache-2.0 */
/* test_defaults.c - a key of TRL's that is left out has TRL's default */
#include "config.h"

#include <jansson.h>

#include "tests/unit/conf.h"

static json_t *defaults; /* what make_default_reference.py wrote */

static int setup(void **state)
{
    const char *srcdir = getenv("srcdir"); /* set by automake's harness */
    char path[4096];
    snprintf(path, sizeof(path), "%s/tests/parity/defaults.json",
             srcdir ? srcdir : ".");
    defaults = json_load_file(path, 0, NULL);
    return defaults ? enter_directory(state) : -1;
}

static int teardown(void **state)
{
    json_decref(defaults);
    return leave_directory(state);
}

/* Files that give no more than they must; of each the fields of a class. */
#define FILE_OF(algorithm)                                                     \
    "algorithm: " algorithm "\nmodel.path: .\ndata.train: train.txt\n"         \
    "training.per_device_batch_size: 8\n"
static const struct {
    const char *class, *text;
} files[] = {
    {"sft", FILE_OF("sft")},
    {"rm", FILE_OF("rm")},
    {"dpo", FILE_OF("dpo")},
    {"adapter", FILE_OF("sft") "use_peft: true\n"},
    {"grpo", FILE_OF("grpo") "reward.functions: [{type: exact}]\n"},
};

/* Fields of another default here; docs/migrating.md names those that change
 * results.
 */
static const struct {
    const char *class, *field; /* class NULL: of each */
} wanted[] = {
    /* what is reported, and how fast and in which memory it is computed */
    {NULL, "dataloader_num_workers"},
    {NULL, "gradient_checkpointing"},
    {NULL, "logging_first_step"},
    {NULL, "per_device_eval_batch_size"},
    /* probabilities of the sampler and of the trainer are those of one model */
    {"grpo", "disable_dropout"},
    {"grpo", "vllm_importance_sampling_mode"},
};

static bool is_wanted(const char *class, const char *field)
{
    for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++)
        if (wanted[i].field && strcmp(wanted[i].field, field) == 0 &&
            (!wanted[i].class || strcmp(wanted[i].class, class) == 0))
            return true;
    return false;
}

static void print_value(void *ctx, const char *key, const char *value,
                        bool given)
{
    (void)given;
    fprintf(ctx, "%s: %s\n", key, value);
}

/* All values of a file, malloc'ed, or NULL and what is wrong with it. */
static char *values_of(const char *text, char **problems)
{
    char *values = NULL, *warnings;
    size_t bytes;
    struct dt_conf *conf = load_text(text, problems, &warnings);
    FILE *out = open_memstream(&values, &bytes);
    if (!out || (conf && dt_conf_each(conf, print_value, out) < 0))
        abort();
    fclose(out);
    dt_conf_destroy(conf);
    free(warnings);
    if (conf)
        return values;
    free(values);
    return NULL;
}

/* Whether a file that spells the default out is the file without it. */
static bool agrees(const char *class, const char *text, const char *field,
                   const json_t *value)
{
    char more[1024], *problems, *none;
    char *json = json_dumps(value, JSON_ENCODE_ANY);
    snprintf(more, sizeof(more), "%s%s: %s\n", text, field, json);
    char *left = values_of(text, &none), *given = values_of(more, &problems);
    assert_string_equal(none, "");
    const bool same = given && strcmp(left, given) == 0;
    const bool good = same != is_wanted(class, field);
    if (!good)
        fprintf(stderr, "%s: %s: %s is %s\n", class, field, json,
                given ? same ? "the default" : "another default" : problems);
    free(json);
    free(left);
    free(given);
    free(none);
    free(problems);
    return good;
}

/* Of a file with all fields of a class, or those that are not `wanted`. */
static char *with_all(const char *class, const char *text, json_t *fields,
                      bool all)
{
    char *whole = NULL, *problems;
    size_t bytes;
    const char *field;
    const json_t *value;
    FILE *out = open_memstream(&whole, &bytes);
    fputs(text, out);
    json_object_foreach(fields, field, value)
    {
        if (!all && is_wanted(class, field))
            continue;
        fprintf(out, "%s: ", field);
        json_dumpf(value, out, JSON_ENCODE_ANY);
        fputc('\n', out);
    }
    fclose(out);
    char *values = values_of(whole, &problems);
    assert_string_equal(problems, "");
    free(problems);
    free(whole);
    return values;
}

/* No field contradicts another one. */
static void a_file_of_all_defaults_is_the_file_without_them(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        const char *class = files[i].class;
        json_t *fields = json_object_get(defaults, class);
        char *none, *left = values_of(files[i].text, &none);
        char *same = with_all(class, files[i].text, fields, false);
        char *all = with_all(class, files[i].text, fields, true);
        assert_string_equal(same, left);
        free(all);
        free(same);
        free(left);
        free(none);
    }
}

static void defaults_are_those_of_trl(void **state)
{
    size_t bad = 0;
    (void)state;
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        const char *field;
        const json_t *value;
        json_t *fields = json_object_get(defaults, files[i].class);
        assert_true(json_object_size(fields) >= 8);
        json_object_foreach(fields, field, value) bad +=
            !agrees(files[i].class, files[i].text, field, value);
    }
    assert_int_equal(bad, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_are_those_of_trl),
        cmocka_unit_test(a_file_of_all_defaults_is_the_file_without_them),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
