/* SPDX-License-Identifier: Apache-2.0 */
/* foreign.c - models in other formats, and what to do with them */
#include "config.h"

#include <dirent.h>
#include <stdbool.h>
#include <string.h>

#include "base/foreign.h"
#include "base/str.h"

#define SAVE ".save_pretrained(OUT, safe_serialization=True)"

/* A kind of file, by the end of its name, and what is said of a directory with
 * one; the first kind found is what the directory is.
 */
struct kind {
    const char *end, *what;
};

#define ADAPTER                                                                \
    "an adapter, not a model: `disttrain export DIR MODEL --merge` writes "    \
    "the "                                                                     \
    "model that it was trained on with it"
#define PYTORCH "weights of PyTorch, which are code, too: "
#define LOAD "AutoModelForCausalLM.from_pretrained(DIR"

static const struct kind models[] = {
    {"adapter_config.json", ADAPTER},
    {"adapter_model.safetensors", ADAPTER},
    {".gguf", "a model of llama.cpp: take the Hugging Face directory that it "
              "was made from"},
    {"consolidated.safetensors",
     "weights with Mistral's own names: take the files model*.safetensors of "
     "the same model"},
    {".pt", PYTORCH "let the program that made them save a Hugging Face "
                    "directory"},
    {".pth", PYTORCH "let the program that made them save a Hugging Face "
                     "directory"},
    {"tf_model.h5",
     "weights of TensorFlow: let transformers 4 convert them, " LOAD
     ", from_tf=True)" SAVE},
    {"flax_model.msgpack",
     "weights of Flax: let transformers 4 convert them, " LOAD
     ", from_flax=True)" SAVE},
};

#define LET_WRITE                                                              \
    "there is no tokenizer.json: let transformers write one, "                 \
    "AutoTokenizer.from_pretrained(DIR).save_pretrained(DIR)"

static const struct kind tokenizers[] = {
    {".model", LET_WRITE},
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
            if (dt_str_ends_with(e->d_name, kinds[i].end) &&
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
    for (char *p = name; *p; p++)
        if ((unsigned char)*p < ' ' || *p == 0x7f)
            *p = '?';
    return dt_error_set(err, EX_DATAERR, "%s: %s: %s", dir, name, kind->what);
}

int dt_foreign_dir(const char *dir, struct dt_error *err)
{
    return refuse_dir(dir, models, LENGTH(models), err);
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
