/* SPDX-License-Identifier: Apache-2.0 */
/* test_cmd_export.c - what `disttrain export` writes, and refuses */
#include "config.h"

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <unistd.h>

#include <cmocka.h>

#include "cmd/cmd.h"
#include "tests/unit/command.h"
#include "model/model.h"
#include "tests/unit/scratch.h"
#include "weights/weights.h"
#include "tests/unit/random_weights.h"
#include "weights/parts.h"

#define TO_GGUF                                                                \
    "disttrain export: DIR gets the format of Hugging Face; of that "          \
    "llama.cpp makes its own: python3 convert_hf_to_gguf.py DIR --outfile "    \
    "FILE --outtype q8_0 (see disttrain export --help)\n"
#define OPTIM_FILE "optim-rank-00000-of-00001.safetensors"

static const char config_json[] =
    "{\"model_type\": \"gpt2\", \"vocab_size\": 5, \"n_positions\": 4,"
    " \"n_embd\": 4, \"n_layer\": 2, \"n_head\": 2}";

static char srcdir[PATH_MAX];
static struct dt_layout *layout;
static struct dt_buffer *buf; /* the fp32 weights of the checkpoint */

static void must(bool ok, const struct dt_error *err)
{
    if (!ok)
        fail_msg("%s", err->text);
}

static int run(const char *const *words)
{
    char *argv[16] = {"export"};
    int argc = 1;
    for (; words[argc - 1]; argc++)
        argv[argc] = (char *)words[argc - 1];
    return run_command_here(dt_cmd_export, argc, argv);
}

#define RUN(...) run((const char *const[]){__VA_ARGS__, NULL})

/* Writes run/checkpoints/checkpoint-7 with the weights as `stored`, and with
 * `master` the fp32 ones beside them.
 */
static void write_checkpoint(enum dt_dtype stored, bool master)
{
    struct dt_error err;
    struct dt_ckpt_writer *writer = dt_ckpt_begin("run/checkpoints", 7, &err);
    must(writer, &err);
    const struct dt_view weights = dt_view_of(buf, DT_F32);
    const struct dt_weights_files files = {.config = config_json,
                                           .layout = layout,
                                           .weights = weights,
                                           .stored = stored,
                                           .max_shard_bytes = 1 << 20,
                                           .tokenizer = "tokenizer"};
    must(dt_weights_save(writer, &files, &err) == 0, &err);
    const struct dt_places places = dt_places_flat(weights);
    enum dt_owned kind = master ? DT_OWNED_MASTER : DT_OWNED_M;
    size_t units = layout->unit_count, count;
    struct dt_view *parts = calloc(DT_OWNED_GRADS * units, sizeof(*parts));
    for (size_t u = 0; u < units; u++)
        parts[(size_t)kind * units + u] = dt_layout_unit(layout, &places, u);
    struct dt_ckpt_tensor *tensors =
        dt_parts_list(layout, 0, 1, kind, kind + 1, parts, &count, &err);
    must(tensors, &err);
    must(dt_ckpt_add_tensors(writer, OPTIM_FILE, tensors, count, NULL, &err) ==
             0,
         &err);
    dt_parts_free_list(tensors, count);
    free(parts);
    must(dt_ckpt_add_text(writer, "trainer_state.json", "{}", &err) == 0, &err);
    must(dt_ckpt_commit(writer, &err) == 0, &err);
}

static int group_setup(void **state)
{
    struct dt_model_config config;
    struct dt_error err;
    const char *top = getenv("srcdir"); /* set by automake's harness */
    (void)state;
    assert_non_null(realpath(top ? top : ".", srcdir));
    scratch_write("config.json", config_json, strlen(config_json));
    must(chdir(scratch_root) == 0 &&
             dt_model_config_load(&config, scratch_root, &err) == 0,
         &err);
    layout = dt_model_layout(&config, 1, &err);
    buf = dt_buffer_create(&dt_cpu, layout->count * sizeof(float), "weights",
                           &err);
    must(buf, &err);
    random_weights(&config, layout, dt_view_of(buf, DT_F32), 3);
    dt_model_config_fini(&config);
    unlink("config.json");
    mkdir("tokenizer", 0777);
    scratch_write("tokenizer/tokenizer.json", "{\"t\": 1}", 8);
    scratch_write("tokenizer/generation_config.json", "{}", 2);
    scratch_write("tokenizer/optimizer.pt", "no", 2);
    return 0;
}

static int group_teardown(void **state)
{
    (void)state;
    dt_layout_destroy(layout);
    dt_buffer_destroy(buf);
    return chdir("/");
}

static int setup(void **state)
{
    (void)state;
    dt_file_remove_tree("model", NULL);
    dt_file_remove_tree("run", NULL);
    write_checkpoint(DT_F32, false);
    return 0;
}

static bool exists(const char *path)
{
    return access(path, F_OK) == 0;
}

/* What is in model/ is stored as `dtype` and differs by at most `bound`. */
static void expect_weights(enum dt_dtype dtype, float bound)
{
    struct dt_error err;
    enum dt_dtype found = DT_F32;
    struct dt_buffer *loaded =
        dt_buffer_create(&dt_cpu, buf->bytes, "loaded", &err);
    must(loaded && dt_weights_dtype("model", layout, &found, &err) == 0 &&
             dt_weights_load("model", layout, dt_view_of(loaded, DT_F32),
                             &err) == 0,
         &err);
    assert_int_equal(found, dtype);
    const float *a = buf->data, *b = loaded->data;
    for (size_t i = 0; i < layout->count; i++)
        if (!(a[i] - b[i] <= bound && b[i] - a[i] <= bound))
            fail_msg("element %zu is %g, expected %g", i, b[i], a[i]);
    dt_buffer_destroy(loaded);
}

static void an_export_holds_the_model_and_nothing_else(void **state)
{
    (void)state;
    assert_int_equal(RUN("run/checkpoints/checkpoint-7", "model"), 0);
    assert_string_equal(errors, "");
    assert_non_null(strstr(out, "model: 532 parameters in fp32, from /"));
    assert_non_null(strstr(out, "/run/checkpoints/checkpoint-7\n"));
    expect_weights(DT_F32, 0);
    assert_true(exists("model/config.json") && exists("model/tokenizer.json") &&
                exists("model/generation_config.json"));
    assert_false(exists("model/" OPTIM_FILE) || exists("model/optimizer.pt") ||
                 exists("model/trainer_state.json") ||
                 exists("model/checksums.txt") || exists(".tmp-model"));
}

static void of_the_tasks_of_a_step_the_first_one_writes(void **state)
{
    (void)state;
    setenv("SLURM_PROCID", "3", 1);
    assert_int_equal(RUN("run/checkpoints/checkpoint-7", "model"), 0);
    assert_string_equal(out, "");
    assert_false(exists("model"));
    setenv("SLURM_PROCID", "0", 1);
    assert_int_equal(RUN("run/checkpoints/checkpoint-7", "model"), 0);
    assert_true(exists("model/config.json"));
    unsetenv("SLURM_PROCID");
}

static void options_set_the_type_and_the_shard_size(void **state)
{
    (void)state;
    assert_int_equal(RUN("run", "model", "--dtype", "bf16"), 0);
    expect_weights(DT_BF16, 1e-3f);
    assert_int_equal(RUN("run", "model", "--dtype=fp16", "--overwrite",
                         "--max-shard-size", "0.5KB"),
                     0);
    expect_weights(DT_F16, 1e-4f);
    assert_true(exists("model/model.safetensors.index.json"));
    assert_false(exists("model/model.safetensors"));
    assert_int_equal(RUN("model", "model", "--overwrite"), 0); /* convert */
    expect_weights(DT_F16, 1e-4f);
    assert_true(exists("model/model.safetensors"));
}

static void a_bf16_run_exports_fp32_weights_on_request(void **state)
{
    (void)state;
    dt_file_remove_tree("run", NULL);
    write_checkpoint(DT_BF16, true);
    assert_int_equal(RUN("run", "model"), 0);
    expect_weights(DT_BF16, 1e-3f);
    assert_int_equal(RUN("run", "model", "--dtype", "fp32", "--overwrite"), 0);
    expect_weights(DT_F32, 0);
}

/* Flat weights of the model in `dir`, of its own layout; free with
 * dt_buffer_destroy.
 */
static struct dt_buffer *load_any(const char *dir, enum dt_dtype dtype)
{
    struct dt_model_config config;
    struct dt_error err;
    must(dt_model_config_load(&config, dir, &err) == 0, &err);
    struct dt_layout *any = dt_model_layout(&config, 1, &err);
    must(any, &err);
    struct dt_buffer *weights = dt_buffer_create(
        &dt_cpu, any->count * dt_dtype_bytes(dtype), "weights", &err);
    must(weights &&
             dt_weights_load(dir, any, dt_view_of(weights, dtype), &err) == 0,
         &err);
    dt_layout_destroy(any);
    dt_model_config_fini(&config);
    return weights;
}

/* Every family as transformers writes it comes out as it went in. */
static void every_family_comes_out_as_it_went_in(void **state)
{
    static const char *const families[] = {"gpt2",    "llama", "llama_linear",
                                           "mistral", "qwen2", "qwen3"};
    static const struct {
        const char *name;
        enum dt_dtype dtype;
    } types[] = {{"fp32", DT_F32}, {"bf16", DT_BF16}, {"fp16", DT_F16}};
    char dir[PATH_MAX + 64];
    (void)state;
    for (size_t i = 0; i < 3 * sizeof(families) / sizeof(families[0]); i++) {
        snprintf(dir, sizeof(dir), "%s/tests/parity/models/%s", srcdir,
                 families[i / 3]);
        if (RUN(dir, "model", "--overwrite", "--dtype", types[i % 3].name,
                "--max-shard-size", "30KB") != 0)
            fail_msg("%s", errors);
        assert_true(exists("model/model.safetensors.index.json"));
        struct dt_buffer *a = load_any(dir, types[i % 3].dtype);
        struct dt_buffer *b = load_any("model", types[i % 3].dtype);
        assert_int_equal(a->bytes, b->bytes);
        assert_memory_equal(a->data, b->data, a->bytes);
        dt_buffer_destroy(a);
        dt_buffer_destroy(b);
    }
}

static void wrong_arguments_and_directories_are_refused(void **state)
{
    static const struct {
        const char *args[5], *text;
        int status;
    } cases[] = {
        {{NULL}, "expected CHECKPOINT and DIR", EX_USAGE},
        {{"run"}, "expected DIR after CHECKPOINT", EX_USAGE},
        {{"run", "model", "more"}, "unexpected 'more'", EX_USAGE},
        {{"run", "model", "--dtype"}, "'--dtype' needs a value", EX_USAGE},
        {{"run", "model", "--dtype", "int8"},
         "--dtype: expected fp32, bf16 or fp16, got 'int8'",
         EX_USAGE},
        {{"run", "model", "--format", "gguf"}, TO_GGUF, EX_USAGE},
        {{"run", "model", "--dtype", "q8_0"}, TO_GGUF, EX_USAGE},
        {{"run", "model", "--max-shard-size", "5 potatoes"},
         "--max-shard-size: expected a size such as 500MB or 2GiB, got "
         "'5 potatoes'",
         EX_USAGE},
        {{"run", "model", "--replace"}, "unknown option '--replace'", EX_USAGE},
        {{"nowhere", "model"},
         "nowhere: neither a model nor the run.output_dir of a run: there is "
         "no "
         "config.json and no checkpoints/latest",
         EX_NOINPUT},
        {{"run", "file"}, "file: cannot open: Not a directory", EX_CANTCREAT},
        {{"run", "tokenizer"},
         "tokenizer: not empty; --overwrite replaces a model there",
         EX_CANTCREAT},
        {{"run", "tokenizer", "--overwrite"},
         "tokenizer: holds more than the files of a model, so it is not "
         "overwritten",
         EX_CANTCREAT},
        {{"run", ".", "--overwrite"},
         ".: holds more than the files of a model, so it is not overwritten",
         EX_CANTCREAT},
        {{"run", "run/checkpoints/checkpoint-7", "--overwrite"},
         "checkpoint-7: holds more than the files of a model",
         EX_CANTCREAT},
    };
    (void)state;
    scratch_write("file", "", 0);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        int status = run(cases[i].args);
        if (status != cases[i].status || !strstr(errors, cases[i].text))
            fail_msg("expected %d '%s', got %d '%s'", cases[i].status,
                     cases[i].text, status, errors);
    }
    assert_false(exists("model"));
    assert_int_equal(RUN("--help"), 0);
    assert_non_null(strstr(out, "usage: disttrain export CHECKPOINT DIR"));
}

/* What is wrong with the checkpoint is said, and nothing is written. */
static void a_damaged_checkpoint_is_not_exported(void **state)
{
    (void)state;
    FILE *f = fopen("run/checkpoints/latest/tokenizer.json", "a");
    assert_non_null(f);
    fclose(f);
    assert_int_equal(RUN("run", "model"), 0);
    f = fopen("run/checkpoints/latest/tokenizer.json", "a");
    fputs(" ", f);
    fclose(f);
    assert_int_equal(RUN("run", "model", "--overwrite"), EX_DATAERR);
    assert_non_null(strstr(errors, "tokenizer.json: checksum"));
    expect_weights(DT_F32, 0);
    unlink("run/checkpoints/latest/checksums.txt");
    unlink("run/checkpoints/latest/model.safetensors");
    assert_int_equal(RUN("run", "new"), EX_NOINPUT);
    assert_non_null(strstr(errors, ": no weights here: expected "));
    assert_false(exists("new") || exists(".tmp-new"));
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup(f, setup)
    const struct CMUnitTest tests[] = {
        TEST(an_export_holds_the_model_and_nothing_else),
        TEST(of_the_tasks_of_a_step_the_first_one_writes),
        TEST(options_set_the_type_and_the_shard_size),
        TEST(a_bf16_run_exports_fp32_weights_on_request),
        TEST(every_family_comes_out_as_it_went_in),
        TEST(wrong_arguments_and_directories_are_refused),
        TEST(a_damaged_checkpoint_is_not_exported),
    };
    return cmocka_run_group_tests_name("cmd_export", tests, group_setup,
                                       group_teardown);
}
