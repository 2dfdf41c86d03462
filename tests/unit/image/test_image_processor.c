/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_image_processor.c - keys of processors are read, or refused by name
 */
#include "config.h"

#include "tests/unit/image/processor_scene.h"

static json_t *processors;

/* Loads `name` with another value of a key of its images. -1: err. */
static int load_with(const char *name, const char *key, const char *value,
                     const struct dt_image_options *options,
                     struct dt_image_processor *processor, struct dt_error *err)
{
    const json_t *entry = json_object_get(processors, name);
    json_t *files = json_deep_copy(json_object_get(entry, "files"));
    json_t *image = json_object_get(files, "preprocessor_config.json");
    if (!image)
        image = json_object_get(json_object_get(files, "processor_config.json"),
                                "image_processor");
    if (key && value)
        json_object_set_new(image, key,
                            json_loads(value, JSON_DECODE_ANY, NULL));
    else if (key)
        json_object_del(image, key);
    const char *dir = scene_write_dir("changed", files);
    int rc = dt_image_processor_load(processor, dir, options, err);
    json_decref(files);
    return rc;
}

static struct dt_image_processor good_with(const char *name, const char *key,
                                           const char *value)
{
    struct dt_image_processor processor;
    struct dt_image_options options = scene_options();
    struct dt_error err;
    options.patch = 14;
    if (load_with(name, key, value, &options, &processor, &err) < 0)
        fail_msg("%s", err.text);
    return processor;
}

static void values_that_ask_for_other_pixels_are_refused(void **state)
{
    static const struct {
        const char *name, *key, *value, *text;
    } cases[] = {
        {"clip", "do_resize", "false",
         "do_resize: expected true: images are always resized, rescaled and "
         "normalized here"},
        {"gemma3", "do_normalize", "false",
         "do_normalize: expected true: images are always resized, rescaled "
         "and normalized here"},
        {"clip", "do_rescale", "0", "do_rescale: expected true or false"},
        {"clip", "resample", "0",
         "resample: expected a whole number from 1 to 3"},
        {"clip", "image_mean", "[0.5, 0.5]",
         "image_mean: expected 3 numbers, one for each color"},
        {"clip", "image_std", "[0.5, 0, 0.5]",
         "image_std: expected 3 numbers above 0"},
        {"clip", "rescale_factor", "0",
         "rescale_factor: expected a number above 0"},
        {"clip", "size", "{\"shortest_edge\": 60, \"longest_edge\": 90}",
         "size.longest_edge: such a size is not computed here"},
        {"clip", "size", "{\"max_height\": 60, \"max_width\": 90}",
         "size.max_height: such a size is not computed here; size.max_width: "
         "such a size is not computed here; size: expected shortest_edge, or "
         "height and width"},
        {"clip", "size", "{\"shortest_edge\": 0}",
         "size.shortest_edge: expected a whole number from 1 to 4096"},
        {"clip", "size", "\"large\"",
         "size: expected a number of pixels, or height and width"},
        {"clip", "size", "50",
         "crop_size: expected no more than size: images are not padded here"},
        {"clip", "do_center_crop", "false",
         "do_center_crop: expected true, or a size of height and width: images "
         "of many sizes are not computed here"},
        {"siglip", "do_center_crop", "true",
         "crop_size: expected no more than size: images are not padded here"},
        {"siglip", "pad_size", "{\"height\": 90, \"width\": 90}",
         "pad_size: expected null: images are not padded to a size here"},
        {"gemma3", "do_pan_and_scan", "true",
         "do_pan_and_scan: expected false: pan and scan is not computed here"},
        {"qwen2_vl", "size", "{\"height\": 90, \"width\": 90}",
         "size.height: such a size is not computed here; size.width: such a "
         "size is not computed here"},
        {"qwen2_vl", "max_pixels", "3000",
         "min_pixels: 3136, more than max_pixels, 3000: give both "
         "(data.image_min_pixels, data.image_max_pixels)"},
        {"qwen3_vl", "size", "{\"shortest_edge\": 4096}",
         "size: expected shortest_edge and longest_edge"},
        {"qwen2_vl", "patch_size", "16",
         "patch_size: 16, and 14 by the model's config.json: is it the "
         "processor of another model?"},
        {"siglip", "size", "{\"height\": 90, \"width\": 13}",
         "processor_config.json: patch_size: expected no more than the size "
         "of images"},
        {"smolvlm", "size", "{\"height\": 90, \"width\": 90}",
         "size.height: such a size is not computed here; size.width: such a "
         "size is not computed here; size: expected longest_edge"},
        {"smolvlm", "size", "{\"lo\\u001bng\": 90}",
         "size.lo?ng: such a size is not computed here; size: expected "
         "longest_edge"},
        {"smolvlm", "max_image_size", "512",
         "max_image_size: expected an object"},
        {"clip", "image_processor_type", "\"ViTImageProcessor\"",
         "image_processor_type: \"ViTImageProcessor\" is not known: images of "
         "CLIP, LLaVA, SigLIP, Gemma 3, Qwen2-VL to Qwen3-VL, Idefics3 and "
         "SmolVLM are computed"},
        {"clip", "image_processor_type", NULL,
         "image_processor_type: not there: images of CLIP, LLaVA, SigLIP, "
         "Gemma 3, Qwen2-VL to Qwen3-VL, Idefics3 and SmolVLM are computed"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct dt_image_processor processor;
        struct dt_image_options options = scene_options();
        struct dt_error err = {0};
        char wanted[1024];
        options.patch = strcmp(cases[i].name, "qwen3_vl") == 0 ? 16 : 14;
        if (load_with(cases[i].name, cases[i].key, cases[i].value, &options,
                      &processor, &err) == 0)
            fail_msg("%s, %s: not refused", cases[i].name, cases[i].key);
        snprintf(wanted, sizeof(wanted), "%s/preprocessor_config.json: %s",
                 scratch_path("changed"), cases[i].text);
        assert_string_equal(err.text, wanted);
        assert_int_equal(err.status, EX_DATAERR);
    }
}

static void keys_of_a_nested_file_are_found_there(void **state)
{
    struct dt_image_processor processor;
    struct dt_image_options options = scene_options();
    struct dt_error err = {0};
    char wanted[1024];
    (void)state;
    options.patch = 14;
    assert_int_equal(load_with("smolvlm_whole", "do_image_splitting", "1",
                               &options, &processor, &err),
                     -1);
    snprintf(wanted, sizeof(wanted),
             "%s/processor_config.json: do_image_splitting: expected true or "
             "false",
             scratch_path("changed"));
    assert_string_equal(err.text, wanted);
}

static void older_spellings_are_read(void **state)
{
    (void)state;
    struct dt_image_processor p = good_with("clip", "size", "[70, 56]");
    assert_int_equal(p.kind, DT_IMAGE_FIXED);
    assert_int_equal(p.height, 70);
    assert_int_equal(p.width, 56);
    p = good_with("clip", "size", "60");
    assert_int_equal(p.kind, DT_IMAGE_SHORTEST);
    assert_int_equal(p.height, 60);
    p = good_with("gemma3", "size", "98");
    assert_int_equal(p.kind, DT_IMAGE_FIXED);
    assert_int_equal(p.width, 98);
    p = good_with("clip", "image_processor_type", "\"CLIPImageProcessorPil\"");
    assert_int_equal(p.kind, DT_IMAGE_SHORTEST);
    p = good_with("clip", "image_processor_type", "\"CLIPImageProcessorFast\"");
    assert_int_equal(p.kind, DT_IMAGE_SHORTEST);
    p = good_with("qwen2_vl", "image_processor_type",
                  "\"Qwen2_5_VLImageProcessor\"");
    assert_int_equal(p.kind, DT_IMAGE_PIXELS);
}

static void absent_keys_have_the_defaults_of_the_class(void **state)
{
    (void)state;
    struct dt_image_processor p = good_with("clip", "size", NULL);
    assert_int_equal(p.height, 224);
    p = good_with("clip", "resample", NULL);
    assert_int_equal(p.filter, DT_IMAGE_BICUBIC);
    p = good_with("gemma3", "resample", "null");
    assert_int_equal(p.filter, DT_IMAGE_BILINEAR);
    p = good_with("smolvlm", "max_image_size", NULL);
    assert_int_equal(p.tile, 364);
    p = good_with("qwen2_vl", "max_pixels", NULL);
    assert_true(p.max_pixels == 1003520);
    p = good_with("clip", "rescale_factor", NULL);
    assert_true(p.factor == 1 / 255.0);
}

/* Tokens are those of processor_config.json, which the tower must have. */
static void tokens_of_the_processor_and_of_the_tower_agree(void **state)
{
    struct dt_image_processor processor;
    struct dt_image_options options = scene_options();
    struct dt_error err = {0};
    char wanted[1024];
    (void)state;
    assert_int_equal(good_with("clip", NULL, NULL).tokens, 12);
    assert_int_equal(good_with("gemma3", NULL, NULL).tokens, 256);
    assert_int_equal(good_with("idefics3", NULL, NULL).tokens, 25);
    options.tokens = 13;
    options.patch = 14;
    assert_int_equal(load_with("clip", NULL, NULL, &options, &processor, &err),
                     -1);
    snprintf(wanted, sizeof(wanted),
             "%s/preprocessor_config.json: processor_config.json: "
             "num_additional_image_tokens: 12, and 13 by the model's "
             "config.json: is it the processor of another model?",
             scratch_path("changed"));
    assert_string_equal(err.text, wanted);
    options.tokens = 64;
    assert_int_equal(load_with("gemma3", "image_seq_length", NULL, &options,
                               &processor, &err),
                     0);
    assert_int_equal(processor.tokens, 64);
}

static void wishes_of_the_user_are_applied_or_refused(void **state)
{
    struct dt_image_processor processor;
    struct dt_image_options options = scene_options();
    struct dt_error err = {0};
    char wanted[1024];
    (void)state;
    options.patch = 14;
    options.max_pixels = 7840;
    assert_int_equal(
        load_with("qwen2_vl", NULL, NULL, &options, &processor, &err), 0);
    assert_true(processor.max_pixels == 7840);
    assert_int_equal(
        load_with("gemma3", NULL, NULL, &options, &processor, &err), -1);
    snprintf(wanted, sizeof(wanted),
             "%s/preprocessor_config.json: min_pixels and max_pixels: images "
             "of this model have one size",
             scratch_path("changed"));
    assert_string_equal(err.text, wanted);
    options.max_pixels = 0;
    options.pad = 1;
    assert_int_equal(load_with("clip", NULL, NULL, &options, &processor, &err),
                     0);
    assert_true(processor.pad);
    assert_int_equal(processor.background[0], 122);
    assert_int_equal(
        load_with("smolvlm", NULL, NULL, &options, &processor, &err), -1);
    assert_non_null(strstr(err.text, "padding to a square (data.image_pad): "
                                     "images of this model are not padded"));
}

/* Loads a processor with these wishes, and then, without any, the files that
 * say so: both give the same pictures.
 */
static void files_say(const char *name, struct dt_image_options options)
{
    struct dt_image_processor asked, read;
    struct dt_image_files files;
    struct dt_error err = {0};
    options.patch = strcmp(name, "qwen3_vl") == 0 ? 16 : 14;
    if (load_with(name, NULL, NULL, &options, &asked, &err) < 0 ||
        dt_image_files_read(&files, scratch_path("changed"), &err) < 0 ||
        dt_image_files_change(&files, scratch_path("changed"), &asked, &err) <
            0)
        fail_msg("%s: %s", name, err.text);
    json_t *again = json_object();
    if (files.image)
        json_object_set_new(again, "preprocessor_config.json",
                            json_loads(files.image, 0, NULL));
    if (files.whole)
        json_object_set_new(again, "processor_config.json",
                            json_loads(files.whole, 0, NULL));
    const char *dir = scene_write_dir("again", again);
    json_decref(again);
    dt_image_files_fini(&files);
    options.min_pixels = options.max_pixels = 0;
    options.pad = -1;
    if (dt_image_processor_load(&read, dir, &options, &err) < 0)
        fail_msg("%s: %s", name, err.text);
    assert_int_equal(read.pad, asked.pad);
    assert_true(dt_image_processor_hash(&read) ==
                dt_image_processor_hash(&asked));
}

static void files_say_what_the_user_has_changed(void **state)
{
    const struct dt_image_options usual = scene_options();
    struct dt_image_options pads = usual, not = usual, bounds = usual;
    (void)state;
    pads.pad = 1;
    not .pad = 0;
    bounds.min_pixels = 6272;
    bounds.max_pixels = 12544;
    files_say("clip", usual);
    files_say("clip", pads);
    files_say("clip", not );
    files_say("siglip", pads);
    files_say("llava_pad", usual);
    files_say("llava_pad", not );
    files_say("qwen2_vl", usual);
    files_say("qwen2_vl", bounds);
    files_say("qwen3_vl", bounds);
}

static void files_that_say_it_already_are_left_as_they_are(void **state)
{
    struct dt_image_processor processor;
    struct dt_image_options options = scene_options();
    struct dt_image_files files;
    struct dt_error err = {0};
    char path[600];
    (void)state;
    options.patch = 14;
    options.pad = 1;
    const char *cases[] = {"llava_pad", "gemma3"};
    for (size_t i = 0; i < 2; i++) {
        if (load_with(cases[i], NULL, NULL, &options, &processor, &err) < 0 ||
            dt_image_files_read(&files, scratch_path("changed"), &err) < 0 ||
            dt_image_files_change(&files, scratch_path("changed"), &processor,
                                  &err) < 0)
            fail_msg("%s: %s", cases[i], err.text);
        assert_int_equal(processor.unsaid, i == 1);
        snprintf(path, sizeof(path), "%s/preprocessor_config.json",
                 scratch_path("changed"));
        char *text = dt_file_read(path, 1 << 20, &err);
        assert_string_equal(files.image, text);
        free(text);
        dt_image_files_fini(&files);
    }
}

static void a_directory_without_the_files_is_told(void **state)
{
    struct dt_image_processor processor;
    struct dt_image_options options = scene_options();
    struct dt_error err = {0};
    char wanted[1024];
    json_t *none = json_object();
    (void)state;
    const char *dir = scene_write_dir("none", none);
    json_decref(none);
    assert_int_equal(dt_image_processor_load(&processor, dir, &options, &err),
                     -1);
    assert_int_equal(err.status, EX_NOINPUT);
    snprintf(wanted, sizeof(wanted),
             "%s: no preprocessor_config.json and no processor_config.json, "
             "which say how a model sees images: copy those of the model into "
             "it",
             dir);
    assert_string_equal(err.text, wanted);
}

static void plans_are_within_limits(void **state)
{
    struct dt_image_plan plan;
    struct dt_error err = {0};
    struct dt_image_processor pad = good_with("llava_pad", NULL, NULL);
    struct dt_image_processor pixels = good_with("qwen2_vl", NULL, NULL);
    (void)state;
    assert_int_equal(dt_image_plan(&plan, &pad, 0, 5, &err), -1);
    assert_string_equal(err.text, "a damaged image: it has no pixels");
    assert_int_equal(dt_image_plan(&plan, &pad, 100, 10000, &err), -1);
    assert_string_equal(err.text,
                        "an image of 10000 x 100 pixels: a square around it "
                        "has more than 89478485 pixels");
    pixels.limits.aspect = 1000;
    assert_int_equal(dt_image_plan(&plan, &pixels, 10, 2001, &err), -1);
    assert_string_equal(err.text,
                        "an image of 2001 x 10 pixels: the longer side is at "
                        "most 200 times the shorter one");
    assert_int_equal(dt_image_plan(&plan, &pixels, 10, 2000, &err), 0);
}

/* Images of many sizes and shapes, of which some come close to the bounds. */
static void images_are_within_the_bounds_of_their_processor(void **state)
{
    static const uint32_t sides[] = {1,   27,   28,   57,   100,  336, 512,
                                     513, 1000, 2048, 2049, 4500, 9400};
    enum { SIDES = sizeof(sides) / sizeof(sides[0]) };
    const char *name;
    const json_t *entry;
    (void)state;
    json_object_foreach(processors, name, entry)
    {
        const struct dt_image_processor p =
            scene_load(processors, name, DT_IMAGE_TORCHVISION);
        const struct dt_image_bounds b = dt_image_bounds(&p);
        uint32_t most = 0;
        for (size_t i = 0; i < SIDES * SIDES; i++) {
            struct dt_image_plan plan;
            struct dt_error err;
            if (dt_image_plan(&plan, &p, sides[i / SIDES], sides[i % SIDES],
                              &err) < 0)
                continue; /* too long */
            assert_in_range(plan.tokens, b.least_tokens, b.tokens);
            assert_in_range(plan.patches, 1, b.patches);
            assert_in_range(plan.tiles, 1, b.tiles);
            most = plan.patches > most ? plan.patches : most;
        }
        assert_true(b.least_tokens > 0);
        if (most < b.patches - b.patches / 10)
            fail_msg("%s: %u patches of at most %u", name, most, b.patches);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_that_ask_for_other_pixels_are_refused),
        cmocka_unit_test(keys_of_a_nested_file_are_found_there),
        cmocka_unit_test(older_spellings_are_read),
        cmocka_unit_test(absent_keys_have_the_defaults_of_the_class),
        cmocka_unit_test(tokens_of_the_processor_and_of_the_tower_agree),
        cmocka_unit_test(wishes_of_the_user_are_applied_or_refused),
        cmocka_unit_test(files_say_what_the_user_has_changed),
        cmocka_unit_test(files_that_say_it_already_are_left_as_they_are),
        cmocka_unit_test(a_directory_without_the_files_is_told),
        cmocka_unit_test(plans_are_within_limits),
        cmocka_unit_test(images_are_within_the_bounds_of_their_processor),
    };
    processors = scene_processors();
    int rc = cmocka_run_group_tests_name("image_processor", tests, NULL, NULL);
    json_decref(processors);
    return rc;
}
