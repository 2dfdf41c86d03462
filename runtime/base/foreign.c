/* SPDX-License-Identifier: Apache-2.0 */
/* foreign.c - models in other formats, and how to convert them */
#include "config.h"

#include <dirent.h>
#include <fnmatch.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/foreign.h"
#include "base/str.h"

#define SAVE ".save_pretrained(OUT, safe_serialization=True)"

/* A kind of file, by its name in any case, and the advice for a directory with
 * one; the first kind found counts.
 */
struct kind {
    const char *pattern, *what;
};

#define ADAPTER                                                                \
    "an adapter, not a model: `disttrain export DIR MODEL --merge` writes "    \
    "the "                                                                     \
    "model that it was trained on with it"
#define PYTORCH "weights of PyTorch, which are code, too: "
#define OLD_ADAPTER                                                            \
    "an adapter of an older PEFT, in a file that is code, too: let PEFT save " \
    "it again, PeftModel.from_pretrained(MODEL, DIR).save_pretrained(OUT)"
#define LLAMA_CPP                                                              \
    "a model of llama.cpp: take the Hugging Face directory that it was made "  \
    "from"
#define LOAD "AutoModelForCausalLM.from_pretrained(DIR"

static const struct kind models[] = {
    {"adapter_config.json", ADAPTER},
    {"adapter_model.safetensors", ADAPTER},
    {"adapter_model.bin", OLD_ADAPTER},
    {"*.gguf", LLAMA_CPP},
    {"consolidated.safetensors",
     "weights with Mistral's own names: take the files model*.safetensors of "
     "the same model"},
    {"*.pt", PYTORCH "let the program that made them save a Hugging Face "
                     "directory"},
    {"*.pth", PYTORCH "let the program that made them save a Hugging Face "
                      "directory"},
    {"tf_model.h5",
     "weights of TensorFlow: let transformers 4 convert them, " LOAD
     ", from_tf=True)" SAVE},
    {"flax_model.msgpack",
     "weights of Flax: let transformers 4 convert them, " LOAD
     ", from_flax=True)" SAVE},
    {"*.onnx", "a model of ONNX: take the Hugging Face directory that it was "
               "made from"},
};

#define PICKLED                                                                \
    PYTORCH                                                                    \
    "let transformers save safetensors beside them, python3 -c \"from "        \
    "transformers import AutoModelForCausalLM as M; "                          \
    "M.from_pretrained('DIR').save_pretrained('DIR', "                         \
    "safe_serialization=True)\""

static const struct kind weights[] = {
    {"model-*-of-*.safetensors",
     "a shard, and there is no model.safetensors.index.json, which lists all "
     "of them: take that file from where the model is from"},
    {"*model*.safetensors", "weights under another name: if it is the whole "
                            "model, call it model.safetensors"},
    {"pytorch_model.bin.index.json", PICKLED},
    {"*model*.bin", PICKLED},
};

static const struct kind adapters[] = {{"adapter_model.bin", OLD_ADAPTER}};

#define LET_WRITE                                                              \
    "there is no tokenizer.json: let transformers write one, "                 \
    "AutoTokenizer.from_pretrained(DIR).save_pretrained(DIR)"

static const struct kind tokenizers[] = {
    {"*.model", LET_WRITE},
    {"vocab.json", LET_WRITE},
    {"vocab.txt", LET_WRITE},
};

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

/* The first of kinds(count) that a file of `dir` is of, and the file's name. */
static const struct kind *find_kind(const char *dir, const struct kind *kinds,
                                    size_t count, char name[256])
{
    const struct kind *found = NULL;
    DIR *d = opendir(dir);
    for (struct dirent *e; d && (e = readdir(d));)
        for (size_t i = 0; i < count; i++)
            if (fnmatch(kinds[i].pattern, e->d_name, FNM_CASEFOLD) == 0 &&
                (!found || &kinds[i] < found)) {
                found = &kinds[i];
                memcpy(name, e->d_name, sizeof(e->d_name));
            }
    if (d)
        closedir(d);
    return found;
}

static int refuse_dir(const char *dir, const struct kind *kinds, size_t count,
                      struct dt_error *err)
{
    char name[sizeof(((struct dirent *)0)->d_name)];
    const struct kind *kind = find_kind(dir, kinds, count, name);
    if (!kind)
        return 0;
    dt_str_hide_controls(name);
    return dt_error_set(err, EX_DATAERR, "%s: %s: %s", dir, name, kind->what);
}

int dt_foreign_dir(const char *dir, struct dt_error *err)
{
    return refuse_dir(dir, models, LENGTH(models), err);
}

int dt_foreign_weights(const char *dir, struct dt_error *err)
{
    if (dt_foreign_dir(dir, err) < 0)
        return -1;
    return refuse_dir(dir, weights, LENGTH(weights), err);
}

int dt_foreign_adapter(const char *dir, struct dt_error *err)
{
    return refuse_dir(dir, adapters, LENGTH(adapters), err);
}

/* Whether it begins as GGUF does, whatever its name. */
static bool is_gguf(const char *path)
{
    char magic[4];
    FILE *file = fopen(path, "re");
    bool same = file && fread(magic, sizeof(magic), 1, file) == 1 &&
                memcmp(magic, "GGUF", sizeof(magic)) == 0;
    if (file)
        fclose(file);
    return same;
}

int dt_foreign_file(const char *path, struct dt_error *err)
{
    const char *name = dt_str_base_name(path);
    const char *what = is_gguf(path) ? LLAMA_CPP : NULL;
    for (size_t i = 0; i < LENGTH(models) && !what; i++)
        if (fnmatch(models[i].pattern, name, FNM_CASEFOLD) == 0)
            what = models[i].what;
    return what ? dt_error_set(err, EX_DATAERR, "%s: %s", path, what) : 0;
}

int dt_foreign_tokenizer(const char *dir, struct dt_error *err)
{
    return refuse_dir(dir, tokenizers, LENGTH(tokenizers), err);
}

int dt_foreign_pointer(const char *path, const void *data, size_t bytes,
                       struct dt_error *err)
{
    static const char begin[] = "version https://git-lfs.";
    if (bytes < sizeof(begin) - 1 || memcmp(data, begin, sizeof(begin) - 1))
        return 0;
    return dt_error_set(err, EX_DATAERR,
                        "%s: a pointer of git-lfs, not the file itself: run "
                        "'git lfs pull' in its repository",
                        path);
}
