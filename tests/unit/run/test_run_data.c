/* SPDX-License-Identifier: Apache-2.0 */
/* test_run_data.c - the rows that a configuration's data section means */
#include "config.h"

#include "sampling/sampling.h"
#include "tests/unit/run_data.h"
#include "tests/unit/stderr_text.h"

struct row {
    int32_t inputs[ROW], targets[ROW], doc_start[ROW];
};

static struct row read_row(const struct dt_rows *rows, size_t i)
{
    struct row row = {0};
    struct dt_row out = {row.inputs, row.targets, row.doc_start, 0, NULL};
    struct dt_error err;
    if (dt_rows_read(rows, i, ROW, &out, &err) < 0)
        fail_msg("%s", err.text);
    return row;
}

static void check_same_rows(const struct dt_rows *a, const struct dt_rows *b)
{
    assert_int_equal(dt_rows_count(a), dt_rows_count(b));
    for (size_t i = 0; i < dt_rows_count(a); i++) {
        struct row x = read_row(a, i), y = read_row(b, i);
        assert_memory_equal(&x, &y, sizeof(x));
    }
}

/* Lines of JSON are examples under any name, packed as data.packing says. */
static void lines_of_json_are_examples_under_any_name(void **state)
{
    static const char lines[] = "{\"text\": \"one\"}\n{\"text\": \"two\"}\n"
                                "{\"text\": \"three\"}\n";
    static const char *const names[] = {"a.ndjson", "a.txt", "lines"};
    static const char *const packings[] = {"none", "bfd", "wrapped"};
    static const size_t rows[] = {3, 2, 1};
    (void)state;
    scratch_write("a.jsonl", lines, sizeof(lines) - 1);
    for (size_t p = 0; p < 3; p++) {
        struct dt_run_data wanted, data;
        char section[128];
        snprintf(section, sizeof(section),
                 "train: a.jsonl, max_length: 10, packing: %s", packings[p]);
        struct dt_conf *conf = load(section, "");
        open_data(&wanted, conf);
        assert_int_equal(dt_rows_count(wanted.train), rows[p]);
        dt_conf_destroy(conf);
        for (size_t i = 0; i < 3; i++) {
            scratch_write(names[i], lines, sizeof(lines) - 1);
            snprintf(section, sizeof(section),
                     "train: %s, max_length: 10, packing: %s", names[i],
                     packings[p]);
            conf = load(section, "");
            assert_false(dt_run_is_stream(conf));
            assert_int_equal(dt_run_packs(conf), p == 1);
            open_data(&data, conf);
            assert_true(data.hash == wanted.hash);
            check_same_rows(data.train, wanted.train);
            dt_run_data_fini(&data);
            dt_conf_destroy(conf);
        }
        dt_run_data_fini(&wanted);
    }
}

/* Without a shuffle, wrapped text is the files as they are, and a run that is
 * gone on with another order is one on other data.
 */
static void without_a_shuffle_wrapped_text_keeps_its_order(void **state)
{
    static const char lines[] = "{\"text\": \"abc\"}\n{\"text\": \"de\"}\n"
                                "{\"text\": \"fghi\"}\n{\"text\": \"j\"}\n";
    static const char wanted[] = "abc$de$fghi$";
    struct dt_run_data data, mixed;
    (void)state;
    scratch_write("w.jsonl", lines, sizeof(lines) - 1);
    struct dt_conf *conf = load(
        "train: w.jsonl, max_length: 4, packing: wrapped, shuffle: false", "");
    open_data(&data, conf);
    assert_int_equal(dt_rows_count(data.train), 3);
    for (size_t i = 0; i < 12; i++) {
        struct row row = read_row(data.train, i / 4);
        char c =
            (char)(row.inputs[i % 4] == DT_BYTE_EOT ? '$' : row.inputs[i % 4]);
        assert_int_equal(c, wanted[i]);
    }
    assert_int_equal(dt_rows_stats(data.train).tail, 1);
    dt_conf_destroy(conf);
    conf = load("train: w.jsonl, max_length: 4, packing: wrapped", "");
    open_data(&mixed, conf);
    assert_true(mixed.hash != data.hash);
    dt_run_data_fini(&mixed);
    dt_run_data_fini(&data);
    dt_conf_destroy(conf);
}

static void text_beside_lines_of_json_is_wrapped_whole(void **state)
{
    static const char wanted[] = "one$a text that is longer than a row";
    struct dt_run_data data;
    (void)state;
    write_text("m.jsonl", "{\"text\": \"one\"}\n");
    scratch_write("m.txt", wanted + 4, sizeof(wanted) - 5);
    struct dt_conf *conf = load("train: [m.jsonl, m.txt], max_length: 4, "
                                "packing: wrapped, shuffle: false",
                                "");
    open_data(&data, conf);
    assert_int_equal(dt_rows_count(data.train), 9);
    for (size_t i = 0; i < 36; i++) {
        int32_t id = read_row(data.train, i / 4).inputs[i % 4];
        assert_int_equal(id == DT_BYTE_EOT ? '$' : id, wanted[i]);
    }
    dt_run_data_fini(&data);
    dt_conf_destroy(conf);
}

/* What is held out of a stream is nobody's input or target in training. */
static void training_never_sees_the_held_out_stream(void **state)
{
    static const char *const splits[] = {"0.1", "0.25", "0.5"};
    static const int32_t held_out[] = {29, 72, 145}; /* of 291 */
    (void)state;
    write_ids("ids.bin", 291);
    for (size_t s = 0; s < 3; s++) {
        struct dt_run_data data;
        char section[128];
        int32_t last = -1, first = VOCAB, most = -1;
        snprintf(section, sizeof(section),
                 "train: ids.bin, max_length: 8, validation_split: %s",
                 splits[s]);
        struct dt_conf *conf = load(section, "");
        open_data(&data, conf);
        assert_int_equal(dt_rows_count(data.train),
                         (291 - held_out[s] - 1) / 8);
        assert_int_equal(dt_rows_count(data.eval), (held_out[s] - 1) / 8);
        assert_int_equal(dt_rows_stats(data.train).tail,
                         (291 - held_out[s] - 1) % 8);
        for (size_t i = 0; i < dt_rows_count(data.train); i++) {
            struct row row = read_row(data.train, i);
            for (size_t t = 0; t < 8; t++) {
                assert_int_equal(row.inputs[t], 8 * i + t);
                last = row.targets[t] > last ? row.targets[t] : last;
            }
        }
        for (size_t i = 0; i < dt_rows_count(data.eval); i++) {
            struct row row = read_row(data.eval, i);
            for (size_t t = 0; t < 8; t++) {
                first = row.inputs[t] < first ? row.inputs[t] : first;
                most = row.targets[t] > most ? row.targets[t] : most;
            }
        }
        assert_true(last < 291 - held_out[s]);
        assert_int_equal(first, 291 - held_out[s]);
        assert_true(most < 291);
        dt_run_data_fini(&data);
        dt_conf_destroy(conf);
    }
}

/* data.eval has rows of its own files, whole, and data.train keeps all of its.
 */
static void training_and_evaluation_read_their_own_files(void **state)
{
    static const char *const data[] = {
        "train: t.txt, eval: e.txt, max_length: 4",
        "train: t.jsonl, eval: e.jsonl, max_length: 5",
    };
    (void)state;
    write_text("t.txt", "TTTTTTTT");
    write_text("e.txt", "eeeeeeee");
    write_text("t.jsonl", "{\"text\": \"TTTT\"}\n{\"text\": \"TTTT\"}\n");
    write_text("e.jsonl", "{\"text\": \"eeee\"}\n{\"text\": \"eeee\"}\n");
    for (size_t i = 0; i < 2; i++) {
        struct dt_run_data run;
        struct dt_conf *conf = load(data[i], "");
        open_data(&run, conf);
        assert_int_equal(dt_rows_count(run.train), 2);
        assert_int_equal(dt_rows_count(run.eval), 2);
        for (size_t r = 0; r < 2; r++)
            for (size_t t = 0; t < 4; t++) {
                assert_int_equal(read_row(run.train, r).inputs[t], 'T');
                assert_int_equal(read_row(run.eval, r).inputs[t], 'e');
            }
        dt_run_data_fini(&run);
        dt_conf_destroy(conf);
    }
}

/* Text whose tokens are not its bytes is cut into rows, too, and its end is
 * held out.
 */
static void tokenized_text_is_cut_into_rows_and_split(void **state)
{
    struct dt_run_data data;
    (void)state;
    write_text("u.txt", "abcdefghijklmnopqrs"); /* and </s> */
    struct dt_conf *conf =
        load("train: u.txt, max_length: 4, validation_split: 0.5",
             "tokenizer_name: tok");
    assert_false(dt_run_is_stream(conf));
    open_data(&data, conf);
    assert_int_equal(dt_rows_count(data.train), 2);
    assert_int_equal(dt_rows_count(data.eval), 2);
    for (size_t i = 0; i < 8; i++) {
        assert_int_equal(read_row(data.train, i / 4).inputs[i % 4], 'a' + i);
        assert_int_equal(read_row(data.eval, i / 4).inputs[i % 4], 'k' + i);
    }
    dt_run_data_fini(&data);
    dt_conf_destroy(conf);
}

/* The bytes that stand in for a tokenizer have 257. */
static void ids_may_be_any_of_the_models_vocabulary(void **state)
{
    struct dt_run_data data = {0};
    struct dt_error err;
    (void)state;
    write_text("i.jsonl", "{\"input_ids\": [5, 257, 299, 7]}\n");
    struct dt_conf *conf =
        load("train: i.jsonl, format: tokenized, max_length: 8", "");
    open_data(&data, conf);
    assert_int_equal(read_row(data.train, 0).inputs[2], VOCAB - 1);
    dt_run_data_fini(&data);
    write_text("i.jsonl", "{\"input_ids\": [5, 300]}\n");
    data = (struct dt_run_data){0};
    assert_int_equal(dt_run_data_open(&data, conf, VOCAB, false, &err), -1);
    assert_non_null(strstr(err.text, "i.jsonl:1: input_ids[1]: expected an "
                                     "integer from 0 to 299"));
    dt_run_data_fini(&data);
    dt_conf_destroy(conf);
}

/* The first ids of 16 rows in the order in which a run learns them. */
static void learned_order(const char *data, const char *more, int32_t order[16])
{
    struct dt_conf *conf = load(data, more);
    struct dt_run run = {.spec = {.conf = *conf,
                                  .exec = dt_exec_cpu(),
                                  .world = 1,
                                  .B = 2,
                                  .T = 8}};
    struct dt_batch batch;
    open_data(&run.data, conf);
    struct dt_loader *loader = dt_run_loader(&run, NULL);
    assert_non_null(loader);
    for (size_t i = 0; i < 16; i += 2) {
        assert_int_equal(dt_loader_next(loader, &batch, NULL), 1);
        order[i] = batch.inputs[0];
        order[i + 1] = batch.inputs[batch.T];
    }
    dt_loader_destroy(loader);
    dt_run_data_fini(&run.data);
    dt_conf_destroy(conf);
}

/* The order of data depends on run.data_seed, which is run.seed unless it is
 * given: other weights and dropout on data in the same order.
 */
static void the_data_seed_alone_decides_the_order(void **state)
{
    char lines[64 * 20] = "";
    static const char *const data[] = {
        "train: ids.bin, max_length: 8",
        "train: [{path: s.jsonl, weight: 0.5}], max_length: 8",
        "train: s.jsonl, max_length: 8, packing: wrapped",
        "train: ids.bin, max_length: 8, shuffle: false",
    };
    (void)state;
    write_ids("ids.bin", 291);
    for (int i = 0; i < 64; i++)
        sprintf(lines + strlen(lines), "{\"text\": \"%c%03d\"}\n",
                '$' + i + (i >= '\\' - '$'), i);
    write_text("s.jsonl", lines);
    for (size_t i = 0; i < 4; i++) {
        int32_t one[16], two[16], other[16], derived[16];
        bool shuffled = i < 3;
        learned_order(data[i], "run: {seed: 1, data_seed: 5}", one);
        learned_order(data[i], "run: {seed: 2, data_seed: 5}", two);
        learned_order(data[i], "run: {seed: 1, data_seed: 6}", other);
        learned_order(data[i], "run: {seed: 5}", derived);
        assert_memory_equal(one, two, sizeof(one));
        assert_memory_equal(one, derived, sizeof(one));
        assert_int_equal(memcmp(one, other, sizeof(one)) != 0, shuffled);
    }
}

/* The rows themselves, too: which examples a weight chooses, and how they are
 * wrapped.
 */
static void another_seed_makes_other_rows(void **state)
{
    static const char *const data[] = {
        "train: [{path: s.jsonl, weight: 0.5}], max_length: 8, shuffle: false",
        "train: s.jsonl, max_length: 8, packing: wrapped",
    };
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct dt_conf *confs[] = {load(data[i], "run: {seed: 1}"),
                                   load(data[i], "run: {seed: 2}")};
        struct dt_run_data runs[2];
        size_t equal = 0;
        for (size_t k = 0; k < 2; k++)
            open_data(&runs[k], confs[k]);
        size_t count = dt_rows_count(runs[0].train);
        assert_int_equal(dt_rows_count(runs[1].train), count);
        for (size_t r = 0; r < count; r++) {
            struct row a = read_row(runs[0].train, r);
            struct row b = read_row(runs[1].train, r);
            equal += memcmp(&a, &b, sizeof(a)) == 0;
        }
        assert_true(equal < count / 2);
        for (size_t k = 0; k < 2; k++) {
            dt_run_data_fini(&runs[k]);
            dt_conf_destroy(confs[k]);
        }
    }
}

/* What a run with these conversations warns of. */
static const char *warned(const char *section, int32_t eos)
{
    static char text[2048];
    struct dt_conf *conf = load(section, "tokenizer_name: tok");
    struct dt_run run = {.spec.conf = *conf};
    open_data(&run.data, conf);
    run.spec.learner.config.vocab_size = VOCAB;
    run.spec.learner.config.eos[0] = eos;
    run.spec.learner.config.eos_count = 1;
    struct stderr_text log = stderr_text_begin();
    dt_run_warn_answers(&run);
    stderr_text_end(&log, text, sizeof(text));
    dt_run_data_fini(&run.data);
    dt_conf_destroy(conf);
    return text;
}

/* Of the tokenizer, of config.json or of generation_config.json. */
static void an_end_of_answers_that_is_no_end_of_the_model_is_said(void **state)
{
    static const char chat[] =
        "{\"messages\": [{\"role\": \"user\", \"content\": \"u\"}, "
        "{\"role\": \"assistant\", \"content\": \"a\"}]}\n";
    (void)state;
    write_text("end.jsonl", chat);
    write_text("plain.jsonl", "{\"text\": \"a\"}\n");
#define WITH(file, template)                                                   \
    "train: " file ", max_length: 60, chat_template: " template
    assert_non_null(
        strstr(warned(WITH("end.jsonl", "chatml"), 1),
               "the chat template ends answers with <|im_end|>, token 259, "
               "which is no end token of the model: `disttrain generate` will "
               "not stop there unless it is named in eos_token_id of "
               "generation_config.json\n"));
    assert_string_equal(warned(WITH("end.jsonl", "chatml"), 259), "");
    assert_string_equal(warned(WITH("end.jsonl", "mistral"), 1), "");
    assert_string_equal(warned(WITH("plain.jsonl", "auto"), 1), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_of_json_are_examples_under_any_name),
        cmocka_unit_test(without_a_shuffle_wrapped_text_keeps_its_order),
        cmocka_unit_test(text_beside_lines_of_json_is_wrapped_whole),
        cmocka_unit_test(training_never_sees_the_held_out_stream),
        cmocka_unit_test(training_and_evaluation_read_their_own_files),
        cmocka_unit_test(tokenized_text_is_cut_into_rows_and_split),
        cmocka_unit_test(ids_may_be_any_of_the_models_vocabulary),
        cmocka_unit_test(the_data_seed_alone_decides_the_order),
        cmocka_unit_test(another_seed_makes_other_rows),
        cmocka_unit_test(an_end_of_answers_that_is_no_end_of_the_model_is_said),
    };
    return cmocka_run_group_tests(tests, write_tokenizer, NULL);
}
