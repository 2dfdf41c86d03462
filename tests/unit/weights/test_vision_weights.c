/* SPDX-License-Identifier: Apache-2.0 */
/* test_vision_weights.c - directories of models with a tower, read and written
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "ckpt/safetensors.h"
#include "tests/parity/stored.h"
#include "plan/plan.h"
#include "tests/unit/scratch.h"
#include "weights/parts.h"
#include "weights/weights.h"

#define CHECKPOINTS "run/checkpoints"

enum { MAX_TENSORS = 64, CARRIED = 6 /* elements */ };

static const char *const copies[] = {
    "preprocessor_config.json",
    "processor_config.json",
    "video_preprocessor_config.json",
    "chat_template.json",
    "chat_template.jinja",
    "generation_config.json",
};

static float
    values[1 << 14]; /* of all tensors: a tensor begins at its number */

/* The names of tensors in a file. */
struct names {
    const char *text[MAX_TENSORS];
    size_t count;
};

static void must(bool ok, const struct dt_error *err)
{
    if (!ok)
        fail_msg("%s", err->text);
}

static void write_json(const char *path, const json_t *json)
{
    char *text = json_dumps(json, 0);
    assert_non_null(text);
    scratch_write(path, text, strlen(text));
    free(text);
}

/* The parameter of that name in any spelling, or NULL. */
static const struct dt_param *find_param(const struct dt_layout *layout,
                                         const char *name)
{
    for (size_t i = 0; i < layout->param_count; i++)
        if (dt_model_names_alike(layout->params[i].name, name))
            return &layout->params[i];
    return NULL;
}

/* The tensor of that name: a parameter, or one that is carried, in BF16. */
static struct dt_ckpt_tensor make_tensor(const struct dt_layout *layout,
                                         const char *name, size_t number)
{
    static struct dt_buffer buf = {values, sizeof(values), &dt_cpu};
    const struct dt_param *param = find_param(layout, name);
    struct dt_ckpt_tensor tensor = {
        .name = name, .ndim = 2, .shape = {2, CARRIED / 2}};
    if (!param && !dt_carried_is(layout, name))
        fail_msg("%s: neither a parameter nor carried", name);
    if (param) {
        tensor.ndim = param->ndim;
        memcpy(tensor.shape, param->shape, sizeof(tensor.shape));
    }
    tensor.stored = param ? DT_F32 : DT_BF16;
    tensor.view = dt_view_slice(dt_view_of(&buf, tensor.stored), number,
                                param ? param->count : CARRIED);
    return tensor;
}

/* Writes the directory "in"; `head`: the model has one of its own. */
static void write_files(const json_t *json, const struct names *names,
                        bool head)
{
    struct dt_model_config config;
    struct dt_ckpt_tensor tensors[MAX_TENSORS];
    struct dt_error err;
    mkdir("in", 0777);
    write_json("in/config.json", json);
    for (size_t i = 0; i < sizeof(copies) / sizeof(*copies); i++) {
        char path[64];
        snprintf(path, sizeof(path), "in/%s", copies[i]);
        scratch_write(path, copies[i], strlen(copies[i]));
    }
    must(dt_model_config_load(&config, "in", &err) == 0, &err);
    config.tie_word_embeddings &= !head;
    struct dt_layout *layout = dt_model_layout(&config, 1, &err);
    must(layout, &err);
    for (size_t i = 0; i < names->count; i++)
        tensors[i] = make_tensor(layout, names->text[i], i);
    must(dt_safetensors_write("in/model.safetensors", tensors, names->count,
                              NULL, &(uint64_t){0}, &err) == 0,
         &err);
    dt_layout_destroy(layout);
    dt_model_config_fini(&config);
}

/* A directory "in" with these tensors. */
static void write_directory(const json_t *json, const struct names *names)
{
    write_files(json, names, false);
}

/* The same with a head, which the model of config.json need not have. */
static void write_untied(const json_t *json, const struct names *names)
{
    write_files(json, names, true);
}

/* All bytes of a tensor, and what it is. */
static struct dt_buffer *read_tensor(const struct dt_safetensors *st,
                                     const char *name,
                                     struct dt_ckpt_tensor *tensor)
{
    struct dt_error err;
    must(dt_safetensors_describe(st, name, tensor, &err) == 0, &err);
    const size_t bytes = tensor->view.count * dt_dtype_bytes(tensor->stored);
    tensor->view.buf = dt_buffer_create(&dt_cpu, bytes, "a tensor", &err);
    must(tensor->view.buf && dt_safetensors_read_all(st, tensor, 1, &err) == 0,
         &err);
    return tensor->view.buf;
}

static void assert_same_tensor(const struct dt_safetensors *a,
                               const struct dt_safetensors *b, const char *name)
{
    struct dt_ckpt_tensor x, y;
    struct dt_buffer *first = read_tensor(a, name, &x);
    struct dt_buffer *second = read_tensor(b, name, &y);
    assert_int_equal(x.stored, y.stored);
    assert_int_equal(x.ndim, y.ndim);
    assert_memory_equal(x.shape, y.shape, sizeof(x.shape));
    assert_memory_equal(first->data, second->data, first->bytes);
    dt_buffer_destroy(first);
    dt_buffer_destroy(second);
}

/* The names, shapes, types and bytes of tensors are those that were read. */
static void assert_same_files(const char *from, const char *to,
                              const struct names *names)
{
    struct dt_error err;
    struct dt_safetensors *a = dt_safetensors_open_model(from, &err);
    struct dt_safetensors *b = dt_safetensors_open_model(to, &err);
    must(a && b, &err);
    for (size_t i = 0; i < names->count; i++)
        assert_same_tensor(a, b, names->text[i]);
    assert_int_equal(dt_safetensors_count(b), names->count);
    dt_safetensors_close(a);
    dt_safetensors_close(b);
    for (size_t i = 0; i < sizeof(copies) / sizeof(*copies); i++)
        if (!dt_weights_has_file(to, copies[i]))
            fail_msg("%s: was not copied", copies[i]);
}

static void export_directory(const char *from, const char *to)
{
    struct dt_error err;
    struct dt_export export = {.from = from,
                               .to = to,
                               .dtype = DT_F32,
                               .max_shard_bytes = 1 << 20,
                               .overwrite = true};
    must(dt_export(&export, &err) == 0, &err);
}

/* Twice: what is written is read again. */
static void check_round_trip(const json_t *config, const struct names *names)
{
    write_directory(config, names);
    export_directory("in", "out");
    assert_same_files("in", "out", names);
    export_directory("out", "again");
    assert_same_files("in", "again", names);
}

static void take_names(const json_t *list, struct names *names)
{
    names->count = json_array_size(list);
    assert_in_range(names->count, 1, MAX_TENSORS);
    for (size_t i = 0; i < names->count; i++)
        names->text[i] = json_string_value(json_array_get(list, i));
}

/* The list of names, which an older release may have written, too. */
static const json_t *list_of(const json_t *file, const char *family,
                             const json_t *stored, const char *kind)
{
    const json_t *list = json_object_get(stored, kind);
    return json_is_string(list)
               ? json_object_get(
                     json_object_get(
                         json_object_get(file, json_string_value(list)),
                         family),
                     kind)
               : list;
}

static void each_spelling_is_written_as_it_was_read(void **state)
{
    static const char *const kinds[] = {"saved", "memory"};
    json_t *file = stored_load("vision_names.json"), *families, *stored;
    const char *release, *family;
    size_t tried = 0;
    (void)state;
    json_object_foreach(file, release, families) json_object_foreach(
        families, family, stored) for (size_t k = 0; k < 2; k++)
    {
        struct names names;
        const json_t *list = list_of(file, family, stored, kinds[k]);
        if (!list)
            continue;
        take_names(list, &names);
        check_round_trip(json_object_get(stored, "config"), &names);
        tried++;
    }
    assert_int_equal(tried, 30);
    json_decref(file);
}

/* Parameters in a flat buffer, as ranks fetch them. */
struct fetch {
    const struct dt_layout *layout;
    struct dt_view weights;
    const struct dt_ckpt_tensor *tensors; /* set by dt_weights_save */
};

static int fetch_param(void *ctx, const struct dt_ckpt_tensor *tensor,
                       struct dt_view *view, struct dt_error *err)
{
    const struct fetch *fetch = ctx;
    const size_t i = (size_t)(tensor - fetch->tensors);
    (void)err;
    assert_in_range(i, 0, fetch->layout->param_count - 1);
    *view = dt_layout_param(fetch->layout, fetch->weights, i);
    return 0;
}

/* The files of a rank of two, in shards of a few tensors. */
static void save_rank(struct dt_ckpt_writer *writer, int rank,
                      struct fetch *fetch, const struct dt_carried *carried)
{
    struct dt_error err;
    const struct dt_ckpt_source source = {.fetch = fetch_param, .ctx = fetch};
    const struct dt_weights_files files = {.config = "{}",
                                           .layout = fetch->layout,
                                           .carried = carried,
                                           .weights = fetch->weights,
                                           .stored = DT_F32,
                                           .max_shard_bytes = 2048,
                                           .source = &source,
                                           .tensors = &fetch->tensors,
                                           .tokenizer = "in",
                                           .rank = rank,
                                           .world = 2};
    must(writer && dt_weights_save(writer, &files, &err) == 0, &err);
}

/* A run that is resumed has the spelling of its checkpoint, where the first
 * weights are gone.
 */
static void check_resumed(const struct dt_model_config *was)
{
    struct dt_conf conf = {.model.path = (char *)"in",
                           .run.output_dir = (char *)"run"};
    struct dt_model_config config;
    struct dt_error err;
    assert_int_equal(unlink("in/model.safetensors"), 0);
    must(dt_run_model_config(&conf, &config, &err) == 0, &err);
    assert_string_equal(was->vision->names[DT_NAMES_VISION],
                        "model.vision_tower.");
    for (size_t i = 0; i < DT_NAMES; i++)
        assert_string_equal(config.vision->names[i], was->vision->names[i]);
    dt_model_config_fini(&config);
}

/* Moments of AdamW are found by names in another spelling, too. */
static void an_optimizer_may_be_spelled_differently(void **state)
{
    json_t *file = stored_load("vision.json");
    const json_t *json = json_object_get(
        json_object_get(json_object_get(file, "variants"), "llava"), "config");
    struct dt_model_config config;
    struct dt_parts *parts = NULL;
    struct dt_error err;
    size_t count;
    (void)state;
    mkdir("parts", 0777);
    write_json("parts/config.json", json);
    must(dt_model_config_load(&config, "parts", &err) == 0, &err);
    struct dt_layout *layout = dt_model_layout(&config, 1, &err);
    config.vision->names[DT_NAMES_VISION] = "model.vision_tower.";
    config.vision->names[DT_NAMES_TRUNK] = "model.language_model.";
    struct dt_layout *other = dt_model_layout(&config, 1, &err);
    must(layout && other, &err);
    struct dt_buffer *buf =
        dt_buffer_create(&dt_cpu, layout->count * sizeof(float), "m", &err);
    must(buf, &err);
    memset(buf->data, 0, buf->bytes);
    struct dt_view *views =
        calloc(DT_OWNED_GRADS * layout->unit_count, sizeof(*views));
    const struct dt_places places = dt_places_flat(dt_view_of(buf, DT_F32));
    assert_non_null(views);
    for (size_t u = 0; u < layout->unit_count; u++)
        views[DT_OWNED_M * layout->unit_count + u] =
            dt_layout_unit(layout, &places, u);
    struct dt_ckpt_tensor *tensors = dt_parts_list(
        layout, 0, 1, DT_OWNED_M, DT_OWNED_M + 1, views, &count, &err);
    must(tensors, &err);
    must(dt_safetensors_write("parts/optim-rank-00000-of-00001.safetensors",
                              tensors, count, NULL, &(uint64_t){0}, &err) == 0,
         &err);
    must(dt_parts_open("parts", other, &parts, &err) == 0, &err);
    assert_int_equal(dt_parts_have(parts, DT_OWNED_M, &err), 1);
    dt_parts_close(parts);
    dt_parts_free_list(tensors, count);
    free(views);
    dt_buffer_destroy(buf);
    dt_layout_destroy(layout);
    dt_layout_destroy(other);
    dt_model_config_fini(&config);
    json_decref(file);
}

/* Any rank may write the shard that they are in. */
static void what_is_carried_is_in_checkpoints_of_ranks(void **state)
{
    json_t *file = stored_load("vision_names.json");
    const json_t *stored =
        json_object_get(json_object_get(file, "5.24.0"), "llava siglip");
    struct dt_model_config config;
    struct dt_carried carried;
    struct dt_error err;
    struct names names;
    (void)state;
    take_names(json_object_get(stored, "memory"), &names);
    write_directory(json_object_get(stored, "config"), &names);
    must(dt_weights_config("in", &config, &err) == 0, &err);
    struct dt_layout *layout = dt_model_layout(&config, 1, &err);
    must(layout && dt_carried_load(&carried, "in", layout, &err) == 0, &err);
    assert_int_equal(carried.count, names.count - layout->param_count);
    struct dt_buffer *buf = dt_buffer_create(
        &dt_cpu, layout->count * sizeof(float), "weights", &err);
    must(buf &&
             dt_weights_load("in", layout, dt_view_of(buf, DT_F32), &err) == 0,
         &err);
    struct fetch fetch = {layout, dt_view_of(buf, DT_F32), NULL};
    struct dt_ckpt_writer *first = dt_ckpt_begin(CHECKPOINTS, 3, &err);
    struct dt_ckpt_writer *second =
        dt_ckpt_join(CHECKPOINTS, 3, 1, dt_ckpt_nonce(first), &err);
    save_rank(first, 0, &fetch, &carried);
    save_rank(second, 1, &fetch, &carried);
    must(dt_ckpt_merge(first, dt_ckpt_sums(second), &err) == 0 &&
             dt_ckpt_commit(first, &err) == 0,
         &err);
    dt_ckpt_abandon(second);
    assert_same_files("in", CHECKPOINTS "/checkpoint-3", &names);
    check_resumed(&config);
    dt_carried_fini(&carried);
    dt_buffer_destroy(buf);
    dt_layout_destroy(layout);
    dt_model_config_fini(&config);
    json_decref(file);
}

/* A part has a spelling of its own. */
static void parts_may_be_spelled_differently(void **state)
{
    json_t *file = stored_load("vision_names.json");
    const json_t *stored =
        json_object_get(json_object_get(file, "5.24.0"), "llava");
    struct names names, memory;
    (void)state;
    take_names(json_object_get(stored, "saved"), &names);
    take_names(json_object_get(stored, "memory"), &memory);
    for (size_t i = 0; i < names.count; i++)
        for (size_t k = 0; k < memory.count; k++)
            if (strstr(names.text[i], "multi_modal_projector") &&
                dt_model_names_alike(names.text[i], memory.text[k]))
                names.text[i] = memory.text[k];
    check_round_trip(json_object_get(stored, "config"), &names);
    json_decref(file);
}

/* One of them is written. */
static void a_file_may_have_two_spellings(void **state)
{
    json_t *file = stored_load("vision_names.json");
    const json_t *stored =
        json_object_get(json_object_get(file, "4.51.3"), "qwen2_vl");
    struct names names;
    (void)state;
    take_names(json_object_get(stored, "saved"), &names);
    const size_t count = names.count;
    names.text[names.count++] = "model.language_model.norm.weight";
    write_directory(json_object_get(stored, "config"), &names);
    struct dt_error err;
    struct dt_export export = {.from = "in",
                               .to = "out",
                               .max_shard_bytes = 1 << 20,
                               .overwrite = true};
    assert_int_equal(dt_export(&export, &err), -1);
    assert_non_null(strstr(err.text, "model.language_model.norm.weight differs "
                                     "from model.norm.weight"));
    for (size_t i = 0; i < sizeof(values) / sizeof(*values); i++)
        values[i] = 0.5f;
    write_directory(json_object_get(stored, "config"), &names);
    export_directory("in", "out");
    names.count = count;
    assert_same_files("in", "out", &names);
    json_decref(file);
}

static void missing_names_have_the_spelling_of_the_file(void **state)
{
    json_t *file = stored_load("vision_names.json");
    const json_t *stored =
        json_object_get(json_object_get(file, "5.24.0"), "llava siglip");
    struct names names;
    (void)state;
    take_names(json_object_get(stored, "memory"), &names);
    size_t count = 0;
    for (size_t i = 0; i < names.count; i++)
        if (!strstr(names.text[i], "linear_2.bias"))
            names.text[count++] = names.text[i];
    names.count = count;
    write_directory(json_object_get(stored, "config"), &names);
    struct dt_error err;
    struct dt_export export = {.from = "in", .to = "out", .overwrite = true};
    assert_int_equal(dt_export(&export, &err), -1);
    assert_non_null(
        strstr(err.text, "missing model.multi_modal_projector.linear_2.bias"));
    json_decref(file);
}

static void assert_refused(const char *text)
{
    struct dt_error err;
    struct dt_export export = {.from = "in", .to = "out", .overwrite = true};
    assert_int_equal(dt_export(&export, &err), -1);
    if (!strstr(err.text, text))
        fail_msg("%s", err.text);
}

/* What config.json says of the head, and what the file has. */
static void a_tied_head_is_told_by_the_file_too(void **state)
{
    json_t *file = stored_load("vision_names.json");
    const json_t *stored =
        json_object_get(json_object_get(file, "4.51.3"), "llava");
    json_t *config = json_object_get(stored, "config");
    struct names names;
    (void)state;
    take_names(json_object_get(stored, "saved"), &names);
    assert_string_equal(names.text[0], "language_model.lm_head.weight");
    json_object_set_new(config, "tie_word_embeddings", json_true());
    write_untied(config, &names);
    assert_refused("language_model.lm_head.weight differs from "
                   "language_model.model.embed_tokens.weight, but config.json "
                   "ties them");
    json_object_set_new(config, "tie_word_embeddings", json_false());
    names.count--;
    memmove(names.text, names.text + 1, names.count * sizeof(*names.text));
    write_directory(config, &names);
    assert_refused("missing language_model.lm_head.weight; the model was saved "
                   "without its head");
    json_object_set_new(config, "tie_word_embeddings", json_true());
    check_round_trip(config, &names);
    json_decref(file);
}

/* Writes the head of a reward model beside its directory. */
static void write_head(const char *path, size_t width)
{
    static struct dt_buffer buf = {values, sizeof(values), &dt_cpu};
    const struct dt_ckpt_tensor head = {
        .name = "score.weight",
        .ndim = 2,
        .shape = {1, width},
        .stored = DT_F32,
        .view = dt_view_slice(dt_view_of(&buf, DT_F32), 7, width),
    };
    struct dt_error err;
    must(dt_safetensors_write(path, &head, 1, NULL, &(uint64_t){0}, &err) == 0,
         &err);
}

static void the_head_of_a_reward_model_has_its_own_file(void **state)
{
    json_t *file = stored_load("vision_names.json");
    const json_t *stored =
        json_object_get(json_object_get(file, "4.51.3"), "llava");
    json_t *config = json_object_get(stored, "config");
    struct names names;
    (void)state;
    take_names(json_object_get(stored, "saved"), &names);
    names.count--; /* no lm_head.weight */
    memmove(names.text, names.text + 1, names.count * sizeof(*names.text));
    json_object_set_new(config, "architectures",
                        json_pack("[s]", "LlavaModel"));
    json_object_set_new(config, "id2label", json_pack("{ss}", "0", "LABEL_0"));
    write_directory(config, &names);
    assert_refused("in: missing score.weight");
    write_head("in/value_head.safetensors", 3);
    assert_refused("in/value_head.safetensors: ");
    write_head("in/value_head.safetensors", 24);
    export_directory("in", "out");
    assert_same_files("in", "out", &names);
    struct dt_error err;
    struct dt_safetensors *a =
        dt_safetensors_open("in/value_head.safetensors", &err);
    struct dt_safetensors *b =
        dt_safetensors_open("out/value_head.safetensors", &err);
    must(a && b, &err);
    assert_same_tensor(a, b, "score.weight");
    dt_safetensors_close(a);
    dt_safetensors_close(b);
    unlink("in/value_head.safetensors");
    json_decref(file);
}

static int group_setup(void **state)
{
    char top[4096];
    const char *srcdir = getenv("srcdir"); /* set by automake's harness */
    (void)state;
    assert_non_null(realpath(srcdir ? srcdir : ".", top));
    setenv("srcdir", top, 1);
    for (size_t i = 0; i < sizeof(values) / sizeof(*values); i++)
        values[i] = (float)i;
    scratch_path("");
    return chdir(scratch_root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_spelling_is_written_as_it_was_read),
        cmocka_unit_test(what_is_carried_is_in_checkpoints_of_ranks),
        cmocka_unit_test(an_optimizer_may_be_spelled_differently),
        cmocka_unit_test(parts_may_be_spelled_differently),
        cmocka_unit_test(missing_names_have_the_spelling_of_the_file),
        cmocka_unit_test(a_tied_head_is_told_by_the_file_too),
        cmocka_unit_test(a_file_may_have_two_spellings),
        cmocka_unit_test(the_head_of_a_reward_model_has_its_own_file),
    };
    return cmocka_run_group_tests_name("vision_weights", tests, group_setup,
                                       NULL);
}
