/* SPDX-License-Identifier: Apache-2.0 */
/* test_foreign.c - models that we cannot read are told by name, in one line */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/foreign.h"
#include "ckpt/safetensors.h"
#include "model/model.h"
#include "tests/unit/scratch.h"
#include "tokenizer/tokenizer.h"
#include "weights/weights.h"

static const char pointer[] =
    "version https://git-lfs.github.com/spec/v1\n"
    "oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e23"
    "93\nsize 497\n";

/* A new directory with these files, each empty; a '*' before its name: it is a
 * pointer of git-lfs.
 */
static const char *make_dir(const char *const *names)
{
    static char dir[512];
    static int count;
    char name[64], file[128];
    snprintf(name, sizeof(name), "dir%d", count++);
    snprintf(dir, sizeof(dir), "%s", scratch_path(name));
    assert_int_equal(dt_file_mkdirs(dir, NULL), 0);
    for (; *names; names++) {
        bool is_pointer = **names == '*';
        snprintf(file, sizeof(file), "%s/%s", name, *names + is_pointer);
        scratch_write(file, pointer, is_pointer ? sizeof(pointer) - 1 : 0);
    }
    return dir;
}

#define DIR(...) make_dir((const char *const[]){__VA_ARGS__, NULL})

static void assert_text(const struct dt_error *err, const char *dir,
                        const char *text)
{
    assert_int_equal(err->status, EX_DATAERR);
    assert_memory_equal(err->text, dir, strlen(dir));
    assert_string_equal(err->text + strlen(dir), text);
    assert_null(strchr(err->text, '\n'));
}

/* Whichever part of a model is looked for first in the directory. */
static void assert_no_model(const char *dir, const char *text)
{
    struct dt_model_config config;
    struct dt_error err;
    assert_int_equal(dt_model_config_load(&config, dir, &err), -1);
    assert_text(&err, dir, text);
    assert_null(dt_safetensors_open_model(dir, &err));
    assert_text(&err, dir, text);
}

/* Nor is it anything else that can be read. */
static void assert_refused(const char *dir, const char *text)
{
    struct dt_error err;
    char found[PATH_MAX];
    assert_no_model(dir, text);
    assert_int_equal(dt_weights_find(dir, found, &err), -1);
    assert_text(&err, dir, text);
}

#define OLD_PEFT                                                               \
    "an adapter of an older PEFT, in a file that is code, too: let PEFT save " \
    "it again, PeftModel.from_pretrained(MODEL, DIR).save_pretrained(OUT)"
#define SAVED ".save_pretrained(OUT, safe_serialization=True)"

static void models_of_foreign_formats_are_refused_by_name(void **state)
{
    (void)state;
    assert_no_model(
        DIR("adapter_config.json", "adapter_model.bin", "a.gguf"),
        ": adapter_config.json: an adapter, not a model: `disttrain export DIR "
        "MODEL --merge` writes the model that it was trained on with it");
    assert_refused(
        DIR("adapter_model.safetensors", "README.md"),
        ": adapter_model.safetensors: an adapter, not a model: `disttrain "
        "export DIR MODEL --merge` writes the model that it was trained on "
        "with it");
    assert_refused(DIR("tiny\n.Q4_K_M.gguf"),
                   ": tiny?.Q4_K_M.gguf: a model of llama.cpp: take the "
                   "Hugging Face directory that it was made from");
    assert_refused(DIR("consolidated.00.pth"),
                   ": consolidated.00.pth: weights of PyTorch, which are code, "
                   "too: let the program that made them save a Hugging Face "
                   "directory");
    assert_refused(DIR("consolidated.safetensors"),
                   ": consolidated.safetensors: weights with Mistral's own "
                   "names: take the files model*.safetensors of the same "
                   "model");
    assert_refused(DIR("tf_model.h5"),
                   ": tf_model.h5: weights of TensorFlow: let transformers 4 "
                   "convert them, AutoModelForCausalLM.from_pretrained(DIR, "
                   "from_tf=True)" SAVED);
    assert_refused(DIR("flax_model.msgpack"),
                   ": flax_model.msgpack: weights of Flax: let transformers 4 "
                   "convert them, AutoModelForCausalLM.from_pretrained(DIR, "
                   "from_flax=True)" SAVED);
    assert_refused(DIR("M.GGUF"), ": M.GGUF: a model of llama.cpp: take the "
                                  "Hugging Face directory that it was made "
                                  "from");
    assert_refused(DIR("decoder.onnx"),
                   ": decoder.onnx: a model of ONNX: take the Hugging Face "
                   "directory that it was made from");
    assert_refused(DIR("adapter_model.bin"), ": adapter_model.bin: " OLD_PEFT);
}

/* Beside a config.json. */
static void weights_that_lack_their_name_or_index_are_told(void **state)
{
    static const char *const cases[][2] = {
        {"model-00001-of-00002.safetensors",
         "a shard, and there is no model.safetensors.index.json, which lists "
         "all of them: take that file from where the model is from"},
        {"my_model.safetensors", "weights under another name: if it is the "
                                 "whole model, call it model.safetensors"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct dt_error err;
        char text[256];
        const char *dir = DIR("config.json", cases[i][0], "value_head.bin");
        snprintf(text, sizeof(text), ": %s: %s", cases[i][0], cases[i][1]);
        assert_null(dt_safetensors_open_model(dir, &err));
        assert_text(&err, dir, text);
        assert_int_equal(dt_foreign_dir(dir, &err), 0);
    }
}

#define PICKLED                                                                \
    "weights of PyTorch, which are code, too: let transformers save "          \
    "safetensors beside them, python3 -c \"from transformers import "          \
    "AutoModelForCausalLM as M; M.from_pretrained('DIR').save_pretrained("     \
    "'DIR', safe_serialization=True)\""

static void pickled_weights_are_refused_with_the_line_that_saves_others(
    void **state)
{
    static const char *const cases[][3] = {
        {"pytorch_model.bin", "generation_config.json"},
        {"pytorch_model.bin.index.json", "pytorch_model-00001-of-00002.bin",
         "pytorch_model-00002-of-00002.bin"},
        {"pytorch_model-00001-of-00002.bin", "training_args.bin"},
        {"model.bin", "optimizer.bin"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct dt_error err;
        char text[512];
        const char *dir = make_dir((const char *const[]){
            "config.json", cases[i][0], cases[i][1], cases[i][2], NULL});
        snprintf(text, sizeof(text), ": %s: " PICKLED, cases[i][0]);
        assert_null(dt_safetensors_open_model(dir, &err));
        assert_text(&err, dir, text);
    }
}

static void an_adapter_of_an_older_peft_is_refused(void **state)
{
    struct dt_error err;
    const char *dir = DIR("adapter_config.json", "adapter_model.bin");
    struct dt_layout *layout = dt_layout_create(&err);
    (void)state;
    assert_non_null(layout);
    assert_null(dt_weights_open_adapter(dir, layout, &err));
    assert_text(&err, dir, ": adapter_model.bin: " OLD_PEFT);
    dt_layout_destroy(layout);
}

/* Where a directory is expected. */
static void a_file_is_known_by_its_name_or_its_bytes(void **state)
{
    static const char text[] = ": a model of llama.cpp: take the Hugging Face "
                               "directory that it was made from";
    struct dt_error err;
    char path[512];
    (void)state;
    strcpy(path, scratch_write("model.Gguf", "", 0));
    assert_int_equal(dt_foreign_file(path, &err), -1);
    assert_text(&err, path, text);
    strcpy(path, scratch_write("model", "GGUF\3", 5));
    assert_int_equal(dt_foreign_file(path, &err), -1);
    assert_text(&err, path, text);
    strcpy(path, scratch_write("model", "GG", 2));
    assert_int_equal(dt_foreign_file(path, &err), 0);
    assert_int_equal(dt_foreign_file("/nowhere", &err), 0);
}

#define PULL                                                                   \
    ": a pointer of git-lfs, not the file itself: run 'git lfs pull' in its "  \
    "repository"

static void a_pointer_of_git_lfs_is_refused(void **state)
{
    struct dt_model_config config;
    struct dt_error err;
    const char *dir =
        DIR("*config.json", "*model.safetensors", "*tokenizer.json");
    (void)state;
    assert_int_equal(dt_model_config_load(&config, dir, &err), -1);
    assert_text(&err, dir, "/config.json" PULL);
    assert_null(dt_safetensors_open_model(dir, &err));
    assert_text(&err, dir, "/model.safetensors" PULL);
    assert_null(dt_tokenizer_load(dir, &err));
    assert_text(&err, dir, "/tokenizer.json" PULL);
    dir = DIR("*model.safetensors.index.json");
    assert_null(dt_safetensors_open_model(dir, &err));
    assert_text(&err, dir, "/model.safetensors.index.json" PULL);
}

static void tokenizers_of_foreign_formats_are_refused(void **state)
{
    static const char *const names[] = {"sentencepiece.bpe.model", "x.model",
                                        "vocab.json", "vocab.txt"};
    (void)state;
    for (size_t i = 0; i < 4; i++) {
        struct dt_error err;
        char text[256];
        const char *dir = DIR(names[i]);
        assert_null(dt_tokenizer_load(dir, &err));
        snprintf(text, sizeof(text),
                 ": %s: there is no tokenizer.json: let transformers write "
                 "one, AutoTokenizer.from_pretrained(DIR).save_pretrained(DIR)",
                 names[i]);
        assert_text(&err, dir, text);
    }
}

/* Others have the messages of what is missing. */
static void unrelated_files_are_not_taken_for_foreign_ones(void **state)
{
    struct dt_error err;
    (void)state;
    assert_int_equal(dt_foreign_dir(DIR("training_args.bin"), &err), 0);
    assert_int_equal(dt_foreign_dir("/nowhere", &err), 0);
    assert_int_equal(dt_foreign_tokenizer(DIR("config.json"), &err), 0);
    assert_int_equal(dt_foreign_pointer("f", "version ", 8, &err), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(models_of_foreign_formats_are_refused_by_name),
        cmocka_unit_test(weights_that_lack_their_name_or_index_are_told),
        cmocka_unit_test(
            pickled_weights_are_refused_with_the_line_that_saves_others),
        cmocka_unit_test(an_adapter_of_an_older_peft_is_refused),
        cmocka_unit_test(a_file_is_known_by_its_name_or_its_bytes),
        cmocka_unit_test(a_pointer_of_git_lfs_is_refused),
        cmocka_unit_test(tokenizers_of_foreign_formats_are_refused),
        cmocka_unit_test(unrelated_files_are_not_taken_for_foreign_ones),
    };
    return cmocka_run_group_tests_name("foreign", tests, NULL, NULL);
}
