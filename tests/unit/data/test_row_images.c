/* SPDX-License-Identifier: Apache-2.0 */
/* test_row_images.c - lines with images: tokens, pictures, targets, refusals */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "data/mask.h"
#include "tests/unit/data/images_scene.h"

#define USER(content) "{\"role\": \"user\", \"content\": " content "}"
#define ANSWER "{\"role\": \"assistant\", \"content\": \"z\"}"
#define TEXT(text) "{\"type\": \"text\", \"text\": \"" text "\"}"
#define IMAGE "{\"type\": \"image\"}"
#define CHAT(content) "\"messages\": [" USER(content) ", " ANSWER "]"

static const char *write_lines(const char *lines)
{
    return scratch_write("lines.jsonl", lines, strlen(lines));
}

/* The only example of a file with that line, as text. */
static const char *shown_line(const char *line,
                              const struct dt_example_options *options)
{
    struct dt_examples *examples = open_good(write_lines(line), options);
    assert_int_equal(dt_examples_count(examples), 1);
    const char *text = shown_images(examples, 0);
    dt_examples_close(examples);
    return text;
}

/* The error of a file with that line, after its name and the number of bad
 * lines: "lines.jsonl:1: ..."
 */
static const char *refusal(const char *line,
                           const struct dt_example_options *options)
{
    static struct dt_error err;
    assert_null(open_file(write_lines(line), options, &err));
    const char *at = strstr(err.text, "lines.jsonl:1: ");
    if (!at)
        fail_msg("%s", err.text);
    return at + strlen("lines.jsonl:1: ");
}

static void expect_shown(const char *line, const char *wanted)
{
    const struct dt_example_options options = with_images();
    assert_string_equal(shown_line(line, &options), wanted);
}

static void expect_refused(const char *line, const char *wanted)
{
    const struct dt_example_options options = with_images();
    const char *text = refusal(line, &options);
    if (strncmp(text, wanted, strlen(wanted)) != 0)
        fail_msg("%s: got %s", line, text);
}

/* --- places --- */

static void images_are_parts_columns_or_both(void **state)
{
    static const char wanted[] = "[u:]Iiiiii[ka:z$]";
    (void)state;
    put_image("a.png", 2, 3);
    expect_shown(
        "{\"images\": [\"a.png\"], " CHAT("[" IMAGE ", " TEXT("k") "]") "}",
        wanted);
    expect_shown(
        "{\"image\": \"a.png\", " CHAT("[" IMAGE ", " TEXT("k") "]") "}",
        wanted);
    expect_shown("{\"image\": [\"a.png\"], " CHAT("\"k\"") "}", wanted);
    expect_shown("{\"image\": {\"path\": \"a.png\", \"bytes\": null}, " CHAT(
                     "\"k\"") "}",
                 wanted);
    expect_shown("{" CHAT("[{\"type\": \"image\", \"image\": \"a.png\", "
                          "\"text\": null}, " TEXT("k") "]") "}",
                 wanted);
    expect_shown(
        "{\"images\": null, " CHAT(
            "[{\"type\": \"image\", \"path\": \"a.png\"}, " TEXT("k") "]") "}",
        wanted);
    expect_shown("{" CHAT("[{\"type\": \"image_url\", \"image_url\": "
                          "{\"url\": \"a.png\"}}, " TEXT("k") "]") "}",
                 wanted);
    expect_shown("{" CHAT("[{\"type\": \"image_url\", \"image_url\": "
                          "\"a.png\"}, " TEXT("k") "]") "}",
                 wanted);
    put_image("b.png", 1, 2);
    expect_shown("{\"images\": [\"b.png\"], " CHAT(
                     "[{\"type\": \"image\", \"image\": \"a.png\"}, " TEXT(
                         "k") ", " IMAGE "]") "}",
                 "[u:]Iiiiii[k]Ii[a:z$]");
}

/* Of 2 x 3 pixels. */
#define BASE64                                                                 \
    "iVBORw0KGgoAAAANSUhEUgAAAAMAAAACCAIAAAASFvFNAAAAEElEQVR4nGP8zwAFTDAGAwAT" \
    "KQED8NgHhAAAAABJRU5ErkJggg=="

static void bytes_in_a_line_are_a_data_uri(void **state)
{
    (void)state;
    expect_shown("{\"image\": \"data:image/png;base64," BASE64
                 "\", " CHAT("\"k\"") "}",
                 "[u:]Iiiiii[ka:z$]");
    expect_shown("{" CHAT("[{\"type\": \"image_url\", \"image_url\": "
                          "{\"url\": \"data:;base64," BASE64 "\"}}]") "}",
                 "[u:]Iiiiii[a:z$]");
    expect_refused(
        "{\"image\": \"data:image/png;base64,iVBO\", " CHAT("\"k\"") "}",
        "image 1: ");
}

/* As TRL's prepare_multimodal_messages does. */
static void images_without_places_precede_the_first_user(void **state)
{
    (void)state;
    put_image("a.png", 1, 2);
    put_image("b.png", 1, 3);
    expect_shown("{\"images\": [\"a.png\", \"b.png\"], \"messages\": "
                 "[{\"role\": \"system\", \"content\": \"s\"}, " USER(
                     "\"k\"") ", " ANSWER ", " USER("\"l\"") "]}",
                 "[s:su:]IiIii[ka:z$u:l]");
    expect_shown("{\"images\": [], " CHAT("\"k\"") "}", "[u:ka:z$]");
    expect_shown("{" CHAT("[" TEXT("k") ", " TEXT("l") "]") "}", "[u:kla:z$]");
    expect_refused("{\"image\": \"a.png\", \"messages\": [" ANSWER "]}",
                   "1 image, and no message of the user that they belong to");
}

/* In the strings of ShareGPT, LLaVA and LLaMA-Factory. */
static void markers_are_the_places_of_images(void **state)
{
    struct dt_example_options options = with_images();
    (void)state;
    put_image("a.png", 1, 2);
    put_image("b.png", 1, 3);
    expect_shown("{\"images\": [\"a.png\", \"b.png\"], \"conversations\": "
                 "[{\"from\": \"human\", \"value\": \"k<image>l\"}, "
                 "{\"from\": \"gpt\", \"value\": \"z\"}, "
                 "{\"from\": \"human\", \"value\": \"<image>\"}, "
                 "{\"from\": \"gpt\", \"value\": \"y\"}]}",
                 "[u:k]Ii[la:z$u:]Iii[a:y$]");
    expect_shown("{\"image\": \"a.png\", " CHAT("[" TEXT("k<image>") "]") "}",
                 "[u:k]Ii[a:z$]");
    /* templates of this family write the line break */
    expect_shown("{\"image\": \"a.png\", " CHAT("\"<image>\\n\\nk\"") "}",
                 "[u:]Ii[\nka:z$]");
    expect_shown("{\"image\": \"a.png\", " CHAT("\"k\\n<image>\"") "}",
                 "[u:k]Ii[a:z$]");
    expect_shown("{\"image\": \"a.png\", " CHAT("\"\\n<image>\"") "}",
                 "[u:]Ii[a:z$]");
    images.text = dt_image_text_find("smolvlm");
    processor.kind = DT_IMAGE_TILES;
    processor.tile = processor.longest = 2;
    processor.tokens = 1;
    assert_string_equal(
        shown_line("{\"image\": \"a.png\", " CHAT("\"<image>\\nk\"") "}",
                   &options),
        "[u:##]I[#\nka:z$]");
}

static void a_json_array_of_llava_is_read(void **state)
{
    static const char array[] =
        "[{\"id\": \"1\", \"image\": \"a.png\", \"conversations\": ["
        "{\"from\": \"human\", \"value\": \"<image>\\nk\"},\n"
        "{\"from\": \"gpt\", \"value\": \"z\"}]},\n"
        "{\"id\": \"2\", \"conversations\": ["
        "{\"from\": \"human\", \"value\": \"k\"}, "
        "{\"from\": \"gpt\", \"value\": \"z\"}]}]";
    const struct dt_example_options options = with_images();
    (void)state;
    put_image("a.png", 1, 2);
    struct dt_examples *examples =
        open_good(scratch_write("llava.json", array, strlen(array)), &options);
    assert_int_equal(dt_examples_count(examples), 2);
    assert_string_equal(shown_images(examples, 0), "[u:]Ii[ka:z$]");
    assert_string_equal(shown_images(examples, 1), "[u:ka:z$]");
    dt_examples_close(examples);
}

static void as_many_places_as_images_are_needed(void **state)
{
    (void)state;
    put_image("a.png", 1, 2);
    expect_refused(
        "{\"images\": [\"a.png\", \"a.png\"], " CHAT("[" IMAGE "]") "}",
        "2 images for 1 place in the messages: expected as many "
        "parts of the type image, or markers <image>, as images");
    expect_refused("{" CHAT("[" IMAGE "]") "}", "0 images for 1 place in");
    expect_refused("{\"image\": \"a.png\", " CHAT("\"<image><image>\"") "}",
                   "1 image for 2 places in");
    expect_refused(
        "{\"images\": [\"a.png\"], \"image\": \"a.png\", " CHAT("\"\"") "}",
        "images and image: expected one of the two");
    expect_refused("{\"image\": \"a.png\", \"text\": \"no place\"}",
                   "its text has not as many <image> as the pictures of its 1 "
                   "image");
    expect_refused("{\"image\": \"a.png\", \"text\": \"<image><image>\"}",
                   "the text has 2 <image> for 1 image: expected one for each");
}

/* --- texts --- */

static void texts_have_marks_for_images(void **state)
{
    struct dt_example_options options = with_images();
    (void)state;
    put_image("a.png", 1, 2);
    put_image("b.png", 1, 3);
    expect_shown("{\"image\": \"a.png\", \"text\": \"<image>k\"}", "Ii[k$]");
    expect_shown("{\"image\": \"a.png\", \"text\": \"k<image>\"}", "[k]Ii[$]");
    expect_shown("{\"images\": [\"a.png\", \"b.png\"], "
                 "\"text\": \"<image><image>\"}",
                 "IiIii[$]");
    expect_shown("{\"text\": \"k\"}", "[k$]");
    expect_shown("{\"images\": [\"a.png\"], \"prompt\": \"k<image>l\", "
                 "\"completion\": \"m\"}",
                 "kIil[m$]");
    expect_shown("{\"images\": [\"a.png\", \"b.png\"], \"prompt\": "
                 "\"<image>\", \"completion\": \"m<image>n\"}",
                 "Ii[m]Iii[n$]");
    options.parse_special = false;
    assert_string_equal(shown_line("{\"image\": \"a.png\", "
                                   "\"text\": \"<image>k\"}",
                                   &options),
                        "Ii[k$]");
    assert_string_equal(shown_line("{\"image\": \"a.png\", "
                                   "\"text\": \"<image></s><think>\"}",
                                   &options),
                        "Ii[</s><think>$]");
}

/* A placeholder that the line's text spells is no image. */
static void spelled_placeholders_are_refused_or_text(void **state)
{
    struct dt_example_options options = with_images();
    static const char beside[] =
        "{\"image\": \"a.png\", " CHAT("[" IMAGE ", " TEXT("<image>") "]") "}";
    static const char alone[] = "{" CHAT("\"<image>\"") "}";
    (void)state;
    put_image("a.png", 1, 2);
    expect_refused(beside, "message 1: its text spells <image>, which stands "
                           "for an image, and the line has none for it: leave "
                           "it out, or keep it as text (data.parse_special: "
                           "false)");
    expect_refused(alone, "message 1: its text spells <image>");
    expect_refused("{\"picture\": \"a.png\", " CHAT("\"<image>\"") "}",
                   "message 1: its text spells <image>, which stands for an "
                   "image, and the line has none for it: images are those of "
                   "the key images or image, and its keys are picture, "
                   "messages; if it shall have none, leave it out, or keep it "
                   "as text (data.parse_special: false)");
    expect_refused("{\"photo\": \"a.png\", \"text\": \"<image>\"}",
                   "its text spells <image>, which stands for an image, and "
                   "the line has none: images are those of the key images or "
                   "image, and its keys are photo, text; if it shall");
    expect_refused("{\"prompt\": \"<image>\", \"completion\": \"k\"}",
                   "its text spells <image>");
    options.parse_special = false;
    assert_string_equal(shown_line(beside, &options), "[u:]Ii[<image>a:z$]");
    assert_string_equal(shown_line(alone, &options), "[u:<image>a:z$]");
    assert_string_equal(shown_line("{\"text\": \"<image>\"}", &options),
                        "[<image>$]");
}

static void ids_have_no_images(void **state)
{
    struct dt_example_options options = with_images();
    (void)state;
    put_image("a.png", 1, 2);
    options.vocab_size = 300;
    assert_string_equal(
        refusal("{\"image\": \"a.png\", \"input_ids\": [1]}", &options),
        "images beside input_ids: give messages or text");
    assert_non_null(strstr(refusal("{\"input_ids\": [1, 270]}", &options),
                           "spells <image>"));
    assert_string_equal(shown_line("{\"input_ids\": [107]}", &options), "[k]");
}

static void a_text_file_is_an_example_without_images(void **state)
{
    const struct dt_example_options options = with_images();
    (void)state;
    struct dt_examples *examples =
        open_good(scratch_write("text.txt", "ab\n", 3), &options);
    assert_string_equal(shown_images(examples, 0), "[ab\n$]");
    assert_int_equal(dt_examples_tokens(examples), 4);
    dt_examples_close(examples);
}

/* --- targets --- */

static void placeholders_are_targets_only_if_asked_for(void **state)
{
    struct dt_example_options options = with_images();
    static const char line[] = "{\"image\": \"a.png\", " CHAT("\"k\"") "}";
    static const char drawn[] = "{\"image\": \"a.png\", \"messages\": [" USER(
        "\"k\"") ", "
                 "{\"role\": \"assistant\", \"content\": [" TEXT(
                     "l") ", " IMAGE ", " TEXT("m") "]}]}";
    (void)state;
    put_image("a.png", 1, 3);
    options.loss_on = DT_LOSS_ASSISTANT;
    assert_string_equal(shown_line(line, &options), "u:Iiika:[z$]");
    assert_string_equal(shown_line(drawn, &options), "u:ka:[l]Iii[m$]");
    images.train_on_image_tokens = true;
    assert_string_equal(shown_line(line, &options), "u:Iiika:[z$]");
    assert_string_equal(shown_line(drawn, &options), "u:ka:[lIiim$]");
    options.loss_on = DT_LOSS_FULL;
    assert_string_equal(shown_line(line, &options), "[u:Iiika:z$]");
}

static void pairs_of_messages_train_the_completion(void **state)
{
    (void)state;
    put_image("a.png", 1, 3);
    expect_shown("{\"images\": [\"a.png\"], \"prompt\": [" USER(
                     "\"k\"") "], \"completion\": [" ANSWER "]}",
                 "u:Iiik[a:z$]");
    expect_shown("{\"images\": [\"a.png\"], \"instruction\": \"k\", "
                 "\"input\": \"<image>\", \"output\": \"z\"}",
                 "u:kIii[a:z$]");
}

/* --- families --- */

static void an_image_of_tiles_has_many_pictures(void **state)
{
    struct dt_example_options options = with_images();
    struct dt_example_image image;
    (void)state;
    images.text = dt_image_text_find("smolvlm");
    processor.kind = DT_IMAGE_TILES;
    processor.longest = 4;
    processor.tile = 2;
    processor.split = true;
    processor.tokens = 3;
    put_image("a.png", 2, 4);
    const char *path = write_lines("{\"image\": \"a.png\", " CHAT("\"k\"") "}");
    struct dt_examples *examples = open_good(path, &options);
    assert_string_equal(shown_images(examples, 0),
                        "[u:##]Iii[##]Iii[\n\n##]Iii[#ka:z$]");
    struct dt_example_parts parts = parts_of(examples, 0);
    assert_true(dt_example_next_image(&parts, &image));
    assert_int_equal(image.height, 2);
    assert_int_equal(image.width, 4);
    assert_int_equal(image.pictures, 3);
    assert_int_equal(image.first[0], 4);
    assert_int_equal(image.first[1], 9);
    assert_int_equal(image.first[2], 16);
    dt_examples_close(examples);
}

/* The text around an image joins the text beside it. */
static void the_text_around_an_image_is_part_of_the_text(void **state)
{
    static const struct dt_image_text around = {.mark = "<image>",
                                                .placeholder = "<image>",
                                                .before =
                                                    "\n\n<start_of_image>",
                                                .after = "<end_of_image>\n"};
    struct dt_example_options options = with_images();
    (void)state;
    put_image("a.png", 1, 3);
    images.text = &around;
    options.loss_on = DT_LOSS_ASSISTANT;
    assert_string_equal(
        shown_line("{\"image\": \"a.png\", " CHAT("\"k\"") "}", &options),
        "u:\n\n#Iii#\nka:[z$]");
    assert_null(dt_image_text_find("llama"));
    assert_string_equal(dt_image_text_find("gemma3")->placeholder,
                        "<image_soft_token>");
    assert_string_equal(dt_image_text_find("qwen2_5_vl")->mark,
                        "<|image_pad|>");
}

/* As in LLaVA's two stages, from the lines of its files. */
static void llava_has_templates_for_its_stages(void **state)
{
    struct dt_example_options options = with_images();
    static const char line[] =
        "{\"id\": \"1\", \"image\": \"a.png\", \"conversations\": ["
        "{\"from\": \"human\", \"value\": \"k?\\n<image>\"}, "
        "{\"from\": \"gpt\", \"value\": \"l\"}]}";
    (void)state;
    put_image("a.png", 1, 3);
    options.loss_on = DT_LOSS_ASSISTANT;
    options.chat_template = "llava-plain";
    assert_string_equal(shown_line(line, &options), "Iii[l\n]");
    options.chat_template = "llava";
    const char *text = shown_line(line, &options);
    assert_string_equal(strstr(text, "questions."),
                        "questions. USER: Iii\nk? ASSISTANT: [l$]");
}

static void a_tokenizer_without_the_placeholder_is_refused(void **state)
{
    static const struct dt_image_text other = {
        .mark = "<pic>", .placeholder = "<pic>", .before = "", .after = ""};
    struct dt_example_options options = with_images();
    struct dt_error err;
    (void)state;
    images.text = &other;
    assert_null(open_file(write_lines("{" CHAT("\"k\"") "}"), &options, &err));
    assert_int_equal(err.status, EX_CONFIG);
    assert_non_null(strstr(err.text, "the tokenizer has no token <pic>, which "
                                     "stands for an image"));
}

/* --- files --- */

static void bad_images_are_named_with_their_line(void **state)
{
    char wanted[600];
    (void)state;
    put_image("a.png", 1, 2);
    snprintf(wanted, sizeof(wanted),
             "image 2: b.png: cannot open in %s: No such file", image_root);
    expect_refused("{\"images\": [\"a.png\", \"b.png\"], " CHAT("\"k\"") "}",
                   wanted);
    expect_refused("{\"image\": \"https://x.org/a.png\", " CHAT("\"k\"") "}",
                   "image 1: https://x.org/a.png: nothing is fetched from the "
                   "network");
    expect_refused("{\"image\": 7, " CHAT("\"k\"") "}",
                   "image 1: expected a path, a data: URI, or an object with "
                   "bytes or a path, got a number");
    expect_refused("{\"image\": {\"bytes\": \"abc\"}, " CHAT("\"k\"") "}",
                   "image 1: expected a path, a data: URI, or an object with "
                   "bytes or a path, got a string");
    scratch_write("root/c.png", "text", 4);
    expect_refused("{\"image\": \"c.png\", " CHAT("\"k\"") "}",
                   "image 1: c.png: not a ");
    expect_refused("{\"image\": {\"image\": \"sha256:12\"}, " CHAT("\"k\"") "}",
                   "image 1: ");
    put_image("long.png", 1, 201);
    expect_refused("{\"image\": \"long.png\", " CHAT("\"k\"") "}",
                   "image 1: long.png: ");
}

static void links_out_of_the_root_are_refused(void **state)
{
    char link[400];
    (void)state;
    small_png_write("outside.png", 1, 2, 3);
    snprintf(link, sizeof(link), "%s/in.png", image_root);
    assert_int_equal(symlink("../outside.png", link), 0);
    expect_refused("{\"image\": \"in.png\", " CHAT("\"k\"") "}",
                   "image 1: in.png: outside of ");
    expect_refused("{\"image\": \"../outside.png\", " CHAT("\"k\"") "}",
                   "image 1: ../outside.png: outside of ");
}

static void a_path_without_a_root_ends_the_reading(void **state)
{
    struct dt_example_options options = with_images();
    struct dt_error err;
    (void)state;
    images.root = NULL;
    options.bad_limit = 1;
    assert_null(
        open_file(write_lines("{\"image\": \"a.png\", " CHAT("\"k\"") "}"),
                  &options, &err));
    assert_int_equal(err.status, EX_CONFIG);
    assert_non_null(strstr(err.text, "lines.jsonl:1: image 1: a.png: an image "
                                     "by its path, and no directory is given"));
}

static void bad_images_are_dropped_and_counted_if_asked_for(void **state)
{
    static const char lines[] = "{\"image\": \"a.png\", " CHAT(
        "\"k\"") "}\n"
                 "{\"image\": \"b.png\", " CHAT("\"l\"") "}\n"
                                                         "{" CHAT(
                                                             "\"m\"") "}\n";
    struct dt_example_options options = with_images();
    (void)state;
    put_image("a.png", 1, 2);
    images.drop = true;
    for (int again = 0; again < 2; again++) {
        struct dt_examples *examples = open_good(write_lines(lines), &options);
        assert_int_equal(dt_examples_count(examples), 2);
        assert_int_equal(dt_examples_dropped(examples), 1);
        assert_int_equal(dt_examples_bad_lines(examples), 0);
        assert_string_equal(shown_images(examples, 1), "[u:ma:z$]");
        assert_int_equal(parts_of(examples, 0).line, 1);
        assert_int_equal(parts_of(examples, 1).line, 3);
        assert_int_equal(dt_examples_tokens(examples), 9 + 7);
        assert_int_equal(dt_examples_targets(examples), 7 + 7);
        dt_examples_close(examples);
        assert_non_null(strstr(notes, "lines.jsonl:2: image 1: b.png: "));
        assert_non_null(strstr(notes, "1 of 3 lines are left out, as an image "
                                      "of theirs is missing or bad"));
    }
    images.drop = false;
    options.bad_limit = 0.5;
    struct dt_examples *examples = open_good(write_lines(lines), &options);
    assert_int_equal(dt_examples_dropped(examples), 0);
    assert_int_equal(dt_examples_bad_lines(examples), 1);
    dt_examples_close(examples);
    images.drop = true;
    options.bad_limit = 0;
    expect_refused("{\"image\": \"a.png\", \"text\": \"no place\"}",
                   "its text has not as many");
}

static void the_same_image_is_kept_once(void **state)
{
    const struct dt_example_options options = with_images();
    struct dt_example_image image[2];
    char hex[DT_SHA256_HEX], path[500];
    struct stat st;
    (void)state;
    put_image("a.png", 1, 2);
    put_image("copy.png", 1, 2);
    struct dt_examples *examples =
        open_good(write_lines("{\"images\": [\"a.png\", \"copy.png\"], " CHAT(
                      "\"k\"") "}"),
                  &options);
    struct dt_example_parts parts = parts_of(examples, 0);
    for (int i = 0; i < 2; i++)
        assert_true(dt_example_next_image(&parts, &image[i]));
    assert_memory_equal(image[0].sha256, image[1].sha256, DT_SHA256_BYTES);
    dt_examples_close(examples);
    for (int i = 0; i < DT_SHA256_BYTES; i++)
        snprintf(hex + 2 * i, 3, "%02x", image[0].sha256[i]);
    snprintf(path, sizeof(path), "%s/%.2s/%s", image_store_dir, hex, hex + 2);
    assert_int_equal(stat(path, &st), 0);
}

static void a_cache_is_of_one_processor(void **state)
{
    static const char line[] = "{\"image\": \"a.png\", " CHAT("\"k\"") "}";
    const struct dt_example_options options = with_images();
    (void)state;
    put_image("a.png", 4, 10);
    expect_shown(line, "[u:]Iiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiii[ka:z$]");
    assert_true(made);
    expect_shown(line, "[u:]Iiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiii[ka:z$]");
    assert_false(made);
    processor.max_pixels = 10;
    assert_string_equal(shown_line(line, &options), "[u:]Iiiiiiiiii[ka:z$]");
    assert_true(made);
    processor.backend = DT_IMAGE_PILLOW;
    shown_line(line, &options);
    assert_true(made);
    images.train_on_image_tokens = true;
    shown_line(line, &options);
    assert_true(made);
}

/* --- tables --- */

static const char *form(const char *name)
{
    static char path[2][600];
    static unsigned next;
    const char *root = getenv("DT_SRCDIR");
    char *to = path[next++ % 2];
    snprintf(to, sizeof(path[0]), "%s/tests/unit/data/forms/%s",
             root ? root : ".", name);
    return to;
}

static void expect_same(const char *a, const char *b)
{
    struct dt_example_options options = with_images();
    options.cache_dir = scratch_path("cache");
    struct dt_examples *one = open_good(form(a), &options);
    struct dt_examples *other = open_good(form(b), &options);
    assert_int_equal(dt_examples_count(one), dt_examples_count(other));
    for (size_t i = 0; i < dt_examples_count(one); i++) {
        size_t n, m;
        const uint32_t *x = dt_example(one, i, &n);
        const uint32_t *y = dt_example(other, i, &m);
        assert_int_equal(n, m);
        assert_memory_equal(x, y, n * sizeof(*x));
    }
    assert_string_equal(shown_images(other, 1), "[u:b]IiiiiiIiiiiiii[a:ok$]");
    dt_examples_close(one);
    dt_examples_close(other);
}

static void bytes_of_tables_are_images(void **state)
{
    (void)state;
    expect_same("images.jsonl", "images.parquet");
    expect_same("images.jsonl", "images.arrow");
}

static void bytes_that_are_no_image_are_named(void **state)
{
    struct dt_example_options options = with_images();
    struct dt_error err;
    (void)state;
    options.cache_dir = scratch_path("cache");
    assert_null(open_file(form("image.parquet"), &options, &err));
    assert_non_null(strstr(err.text,
                           "image.parquet: row 2: image 1: expected a "
                           "path, a data: URI, or an object with "
                           "bytes or a path, got not a "));
    options.bad_limit = 0.5;
    struct dt_examples *examples = open_good(form("image.parquet"), &options);
    assert_int_equal(dt_examples_count(examples), 2);
    assert_string_equal(shown_images(examples, 0), "Iiiiiia[x$]");
    assert_string_equal(shown_images(examples, 1), "c[z$]");
    dt_error_set(&err, EX_DATAERR, "damaged");
    assert_int_equal(
        dt_examples_name_line(examples, parts_of(examples, 1).line, &err), -1);
    assert_non_null(strstr(err.text, "/image.parquet: row 3: damaged"));
    dt_examples_close(examples);
}

/* --- prompts --- */

/* Tokens of a prompt with U+0000 and an image, which count from its words. */
static void a_prompt_is_an_example_without_targets(void **state)
{
    static const char text[] = "k\0<image>l";
    static const uint32_t wanted[] = {'k', 0, PLACEHOLDER, PLACEHOLDER, 'l'};
    const struct dt_error no_chat = {0};
    struct dt_example_parts parts;
    struct dt_example_image image;
    struct dt_marked out = {0};
    struct dt_error err = {0};
    (void)state;
    with_images();
    put_image("a.png", 1, 2);
    struct dt_masker *masker =
        dt_masker_create(tokenizer, NULL, &no_chat, DT_LOSS_FULL, true, &err);
    assert_int_equal(dt_masker_use_images(masker, &images, &err), 0);
    struct dt_prompt_of of = {.text = text,
                              .bytes = sizeof(text) - 1,
                              .images = json_pack("[s]", "a.png")};
    for (int i = 0; i < 2; i++) { /* behind others */
        const size_t at = out.count;
        if (dt_masker_add_prompt(masker, &of, &out, &err) < 0)
            fail_msg("%s", err.text);
        assert_true(dt_example_find(out.tokens + at, out.count - at, &parts));
        assert_int_equal(parts.token_count, 5);
        assert_memory_equal(parts.tokens, wanted, sizeof(wanted));
        assert_true(dt_example_next_image(&parts, &image));
        assert_int_equal(image.first[0], 2);
    }
    of.bytes = 2; /* the image has no mark */
    assert_int_equal(dt_masker_add_prompt(masker, &of, &out, &err), -1);
    assert_int_equal(err.status, EX_DATAERR);
    json_decref((json_t *)(uintptr_t)of.images);
    free(out.tokens);
    dt_masker_destroy(masker);
}

/* --- what is not read --- */

static void videos_and_sounds_are_refused(void **state)
{
    static const char wanted[] =
        ": only text and images are trained on: leave it out";
    static const char *const keys[] = {"videos", "video", "audios", "audio"};
    const struct dt_example_options seeing = with_images(), reading = usual();
    char line[256], text[128];
    (void)state;
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        snprintf(line, sizeof(line), "{\"%s\": [\"a.mp4\"], %s}", keys[i],
                 CHAT("\"k\""));
        snprintf(text, sizeof(text), "%s%s", keys[i], wanted);
        assert_string_equal(refusal(line, &seeing), text);
        assert_string_equal(refusal(line, &reading), text);
    }
    dt_examples_close(open_good(
        write_lines("{\"videos\": [], \"audio\": null, " CHAT("\"k\"") "}"),
        &reading));
}

/* --- models that see only text --- */

static void images_are_refused_where_only_text_is_seen(void **state)
{
    struct dt_example_options options = usual();
    (void)state;
    put_image("a.png", 1, 2);
    assert_string_equal(
        refusal("{\"image\": \"a.png\", " CHAT("\"k\"") "}", &options),
        "image: the model sees only text: leave it out, or train a model with "
        "a vision tower");
    assert_string_equal(
        refusal("{\"images\": [\"a.png\"], \"prompt\": \"k\", "
                "\"completion\": \"l\"}",
                &options),
        "images: the model sees only text: leave it out, or train a model with "
        "a vision tower");
    assert_string_equal(
        refusal("{" CHAT("[" IMAGE "]") "}", &options),
        "messages: message 1: content: a part of type image: only text is "
        "trained on");
    struct dt_examples *examples = open_good(
        write_lines("{\"image\": \"a.png\", \"text\": \"k\"}"), &options);
    assert_string_equal(shown(examples, 0), "[k$]");
    dt_examples_close(examples);
}

static int set_up(void **state)
{
    (void)state;
    tokenizer = images_tokenizer();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    dt_tokenizer_destroy(tokenizer);
    return 0;
}

#define CASE(name) cmocka_unit_test_setup(name, images_set_up)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(images_are_parts_columns_or_both),
        CASE(bytes_in_a_line_are_a_data_uri),
        CASE(images_without_places_precede_the_first_user),
        CASE(markers_are_the_places_of_images),
        CASE(a_json_array_of_llava_is_read),
        CASE(as_many_places_as_images_are_needed),
        CASE(texts_have_marks_for_images),
        CASE(spelled_placeholders_are_refused_or_text),
        CASE(ids_have_no_images),
        CASE(a_text_file_is_an_example_without_images),
        CASE(placeholders_are_targets_only_if_asked_for),
        CASE(pairs_of_messages_train_the_completion),
        CASE(an_image_of_tiles_has_many_pictures),
        CASE(the_text_around_an_image_is_part_of_the_text),
        CASE(llava_has_templates_for_its_stages),
        CASE(a_tokenizer_without_the_placeholder_is_refused),
        CASE(bad_images_are_named_with_their_line),
        CASE(links_out_of_the_root_are_refused),
        CASE(a_path_without_a_root_ends_the_reading),
        CASE(bad_images_are_dropped_and_counted_if_asked_for),
        CASE(the_same_image_is_kept_once),
        CASE(a_cache_is_of_one_processor),
        CASE(bytes_of_tables_are_images),
        CASE(bytes_that_are_no_image_are_named),
        CASE(a_prompt_is_an_example_without_targets),
        CASE(videos_and_sounds_are_refused),
        CASE(images_are_refused_where_only_text_is_seen),
    };
    return cmocka_run_group_tests_name("row images", tests, set_up, tear_down);
}
