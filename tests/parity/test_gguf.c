/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_gguf.c - files of GGUF are those that llama.cpp's own writer makes
 *
 * make_gguf.py stored the head of each, up to the data, and a hash of all.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>
#include <xxhash.h>

#include "ckpt/safetensors.h"
#include "model/model.h"
#include "tests/unit/scratch.h"
#include "weights/export.h"

static const char *source(const char *name)
{
    static char paths[4][600];
    static unsigned next;
    const char *root = getenv("DT_SRCDIR");
    char *path = paths[next++ % 4];
    snprintf(path, sizeof(paths[0]), "%s/tests/parity/gguf/%s",
             root ? root : ".", name);
    return path;
}

static struct dt_map map_file(const char *path)
{
    struct dt_map map;
    struct dt_error err;
    if (dt_map_init(&map, path, &err) < 0)
        fail_msg("%s", err.text);
    return map;
}

/* As value() in make_gguf.py. */
static void fill(const char *name, float *values, size_t count)
{
    uint32_t seed = 2166136261U;
    for (; *name; name++)
        seed = (seed ^ (unsigned char)*name) * 16777619U;
    for (size_t i = 0; i < count; i++) {
        uint32_t bits = (seed + (uint32_t)i * 2654435761U) >> 16;
        values[i] = (float)((int)bits - 32768) / 131072.0F;
    }
}

static void write_weights(const char *dir, const struct dt_layout *layout)
{
    struct dt_ckpt_tensor *tensors =
        calloc(layout->param_count, sizeof(*tensors));
    struct dt_error err;
    char path[300];
    struct dt_buffer *buf = dt_buffer_create(
        &dt_cpu, layout->count * sizeof(float), "weights", &err);
    for (size_t i = 0; i < layout->param_count; i++) {
        const struct dt_param *p = &layout->params[i];
        tensors[i] =
            (struct dt_ckpt_tensor){.name = p->name,
                                    .ndim = p->ndim,
                                    .view = {buf, p->offset, p->count, DT_F32}};
        for (int d = 0; d < p->ndim; d++)
            tensors[i].shape[d] = p->shape[d];
        fill(p->name, dt_view_data(tensors[i].view), p->count);
    }
    snprintf(path, sizeof(path), "%s/model.safetensors", dir);
    if (dt_safetensors_write(path, tensors, layout->param_count, NULL,
                             &(uint64_t){0}, &err) < 0)
        fail_msg("%s", err.text);
    dt_buffer_destroy(buf);
    free(tensors);
}

/* Makes the model `family` in the scratch directory. */
static void make_model(const char *family, char *dir, size_t size)
{
    static const char *const files[] = {"config.json", "tokenizer.json",
                                        "tokenizer_config.json"};
    struct dt_model_config config = {0};
    struct dt_error err;
    snprintf(dir, size, "%s", scratch_path(family));
    mkdir(dir, 0777);
    for (size_t i = 0; i < 3; i++) {
        char name[100];
        snprintf(name, sizeof(name), "%s/%s", family, files[i]);
        struct dt_map map = map_file(source(name));
        scratch_write(name, map.data, map.bytes);
        dt_map_fini(&map);
    }
    if (dt_model_config_load(&config, dir, &err) < 0)
        fail_msg("%s", err.text);
    struct dt_layout *layout = dt_model_layout(&config, 1, &err);
    write_weights(dir, layout);
    dt_layout_destroy(layout);
    dt_model_config_fini(&config);
}

static struct dt_export export_of(const char *dir, const char *to,
                                  const char *type)
{
    return (struct dt_export){
        .from = dir,
        .to = to,
        .format = DT_EXPORT_GGUF,
        .q8_0 = strcmp(type, "q8_0") == 0,
        .dtype = strcmp(type, "f16") == 0    ? DT_F16
                 : strcmp(type, "bf16") == 0 ? DT_BF16
                                             : DT_F32,
        .overwrite = true,
    };
}

static void compare(const char *family, const char *type, size_t head,
                    uint64_t hash)
{
    char dir[300], name[100];
    struct dt_error err;
    make_model(family, dir, sizeof(dir));
    const char *to = scratch_path("model.gguf");
    struct dt_export export = export_of(dir, to, type);
    if (dt_export(&export, &err) < 0)
        fail_msg("%s", err.text);
    snprintf(name, sizeof(name), "%s.%s.head", family, type);
    struct dt_map made = map_file(to), wanted = map_file(source(name));
    assert_int_equal(wanted.bytes, head);
    const char *a = made.data, *b = wanted.data;
    for (size_t i = 0; i < head; i++)
        if (i >= made.bytes || a[i] != b[i])
            fail_msg("%s: the head differs from byte %zu on", name, i);
    if (XXH3_64bits(made.data, made.bytes) != hash)
        fail_msg("%s.%s: the data differ", family, type);
    dt_map_fini(&made);
    dt_map_fini(&wanted);
}

static void every_family_is_written_as_llama_cpp_writes_it(void **state)
{
    char text[1000], family[16], type[16];
    struct dt_map map = map_file(source("files.txt"));
    (void)state;
    snprintf(text, sizeof(text), "%.*s", (int)map.bytes,
             (const char *)map.data);
    dt_map_fini(&map);
    int count = 0;
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        char *dot = strchr(line, '.'), *space = strchr(line, ' '), *end;
        snprintf(family, sizeof(family), "%.*s", (int)(dot - line), line);
        snprintf(type, sizeof(type), "%.*s", (int)(space - dot - 1), dot + 1);
        size_t head = strtoul(space, &end, 10);
        compare(family, type, head, strtoull(end, NULL, 16));
        count++;
    }
    assert_int_equal(count, 6);
}

static void what_llama_cpp_would_read_otherwise_is_refused(void **state)
{
    static const struct {
        const char *file, *from, *to, *text;
    } cases[] = {
        {"qwen2/tokenizer.json", "\\\\p{N}|", "\\\\p{N}+|",
         "tokenizer.json: GGUF: its pre-tokenizer is none that llama.cpp is "
         "known to have (those of GPT-2, Llama 3 and Qwen 2), so that tokens "
         "would differ"},
        {"qwen2/config.json", "\"vocab_size\": 292", "\"vocab_size\": 285",
         "tokenizer.json: GGUF: a token that the model has no row for"},
        {"qwen2/config.json", "\"silu\"", "\"gelu_pytorch_tanh\"",
         "GGUF: llama.cpp has only silu for qwen2 models"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char dir[300], text[20000];
        struct dt_error err = {0};
        struct dt_model_config config = {0};
        make_model("qwen2", dir, sizeof(dir));
        struct dt_map map = map_file(source(cases[i].file));
        const char *at =
            memmem(map.data, map.bytes, cases[i].from, strlen(cases[i].from));
        assert_non_null(at);
        const size_t before = (size_t)(at - (const char *)map.data);
        int n = snprintf(text, sizeof(text), "%.*s%s%.*s", (int)before,
                         (const char *)map.data, cases[i].to,
                         (int)(map.bytes - before - strlen(cases[i].from)),
                         at + strlen(cases[i].from));
        dt_map_fini(&map);
        scratch_write(cases[i].file, text, (size_t)n);
        assert_int_equal(dt_model_config_load(&config, dir, &err), 0);
        struct dt_layout *layout = dt_model_layout(&config, 1, &err);
        write_weights(dir, layout);
        dt_layout_destroy(layout);
        dt_model_config_fini(&config);
        const char *to = scratch_path("refused.gguf");
        struct dt_export export = export_of(dir, to, "f32");
        assert_int_equal(dt_export(&export, &err), -1);
        if (!strstr(err.text, cases[i].text))
            fail_msg("%s", err.text);
        assert_int_equal(access(to, F_OK), -1);
    }
}

static void an_existing_file_is_kept_unless_it_may_be_replaced(void **state)
{
    char dir[300];
    struct dt_error err;
    (void)state;
    make_model("gpt2", dir, sizeof(dir));
    const char *to = scratch_write("there.gguf", "x", 1);
    struct dt_export export = export_of(dir, to, "f32");
    export.overwrite = false;
    assert_int_equal(dt_export(&export, &err), -1);
    assert_non_null(strstr(err.text, "there.gguf: exists; --overwrite "
                                     "replaces it"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_family_is_written_as_llama_cpp_writes_it),
        cmocka_unit_test(what_llama_cpp_would_read_otherwise_is_refused),
        cmocka_unit_test(an_existing_file_is_kept_unless_it_may_be_replaced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
