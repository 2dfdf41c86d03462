/* SPDX-License-Identifier: Apache-2.0 */
/* test_run_open.c - data that cannot be opened, or not by all ranks alike */
#include "config.h"

#include <dirent.h>
#include <malloc.h>
#include <sys/stat.h>

#include "train/train.h"
#include "tests/unit/run_data.h"
#include "tests/unit/world.h"

static size_t lines_in(const char *path)
{
    FILE *file = fopen(path, "r");
    size_t lines = 0;
    assert_non_null(file);
    for (int c; (c = getc(file)) != EOF;)
        lines += c == '\n';
    fclose(file);
    return lines;
}

static size_t open_files(void)
{
    DIR *dir = opendir("/proc/self/fd");
    size_t count = 0;
    assert_non_null(dir);
    while (readdir(dir))
        count++;
    closedir(dir);
    return count;
}

/* Whatever fails to open leaves no descriptor, mapping or memory behind. */
static void a_failed_open_leaves_nothing_behind(void **state)
{
    /* malloc takes 32 bytes for the least block, and keeps some kB of free
     * blocks that it counts as used. Threads that end and allocators take and
     * give mappings, too, though not one in each round. */
#ifdef SANITIZER /* which finds lost memory in one round */
    enum { WARM = 8, ROUNDS = 40, LEAST_BYTES = 24 };
#else
    enum { WARM = 8, ROUNDS = 800, LEAST_BYTES = 24 };
#endif
    static const struct {
        const char *data, *text;
    } cases[] = {
        {"train: [good.txt, late.txt], max_length: 8", "not UTF-8 text"},
        {"train: good.txt, eval: late.txt, max_length: 8", "not UTF-8 text"},
        {"train: good.txt, max_length: 999",
         "are too few for a sample of 999 + 1"},
        {"train: good.txt, max_length: 8, validation_split: 0.001",
         "held-out data"},
        {"train: [ids.bin, large.bin], max_length: 8", "token id 999"},
        {"train: ids.bin, eval: large.bin, max_length: 8", "token id 999"},
        {"train: [good.jsonl, bad.jsonl], max_length: 8", "bad line of "},
        {"train: good.jsonl, eval: bad.jsonl, max_length: 8", "bad line of "},
        {"train: good.jsonl, max_length: 8, validation_split: 0.1",
         "no example in this share"},
        {"train: good.jsonl, max_length: 8, packing: wrapped",
         "data: 4 tokens are too few for a row of 8 + 1: give more data or a "
         "smaller max_length"},
        {"train: good.jsonl, max_length: 1", "examples need at least 2"},
        {"train: good.jsonl, max_length: 8, cache_dir: good.txt/x",
         "no place for the tokens"},
        {"train: [good.jsonl, chat.jsonl], max_length: 8", "chat template"},
        {"train: chat.jsonl, max_length: 8, chat_template: chatml",
         "1 bad line of "},
    };
    static const uint16_t large[] = {1, 999};
    char late[5001];
    (void)state;
    memset(late, 'a', sizeof(late));
    late[5000] = '\xff';
    scratch_write("late.txt", late, sizeof(late));
    scratch_write("good.txt", late, 100);
    write_ids("ids.bin", 100);
    scratch_write("large.bin", large, sizeof(large));
    write_text("good.jsonl", "{\"text\": \"abc\"}\n");
    write_text("bad.jsonl", "{\"text\": 1}\n");
    write_text("chat.jsonl", "{\"messages\": [{\"role\": \"user\", "
                             "\"content\": \"\"}]}\n{}\n");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct dt_conf *conf =
            load(cases[i].data,
                 strstr(cases[i].data, "chatml") ? "tokenizer_name: tok" : "");
        size_t files = 0, maps = 0, bytes = 0;
        for (int n = 0; n < WARM + ROUNDS; n++) {
            struct dt_run_data data = {0};
            struct dt_error err = {0};
            assert_int_equal(dt_run_data_open(&data, conf, VOCAB, false, &err),
                             -1);
            dt_run_data_fini(&data);
            if (!strstr(err.text, cases[i].text))
                fail_msg("expected \"%s\", got \"%s\"", cases[i].text,
                         err.text);
            if (n == WARM - 1) { /* what is kept for good is there by now */
                files = open_files();
                maps = lines_in("/proc/self/maps");
                bytes = mallinfo2().uordblks;
            }
        }
        assert_int_equal(open_files(), files);
        assert_in_range(lines_in("/proc/self/maps"), 0, maps + ROUNDS / 2);
        size_t now = mallinfo2().uordblks;
        if (now >= bytes + ROUNDS * LEAST_BYTES)
            fail_msg("%s: %zu bytes are kept", cases[i].data, now - bytes);
        dt_conf_destroy(conf);
    }
}

/* Rank r's own configuration, and how its start ends. */
struct start {
    struct dt_conf *conf[2];
    struct dt_error err[2];
    int result[2];
};

static int start_rank(const struct dt_comm_world *world, void *arg)
{
    struct start *start = arg;
    const struct dt_comm_options options = {.interface = "lo",
                                            .timeout_ms = 30000};
    const struct dt_exec exec = dt_exec_cpu();
    struct dt_run run = {0};
    int rank = world->rank;
    struct dt_comm *comm =
        dt_comm_create("gloo", world, &options, &start->err[rank]);
    if (!comm)
        return -1;
    start->result[rank] =
        dt_run_init(&run, start->conf[rank], &exec, comm, 1, &start->err[rank]);
    dt_run_fini(&run);
    if (start->result[rank] < 0)
        dt_comm_abandon(comm, &start->err[rank]);
    else
        dt_comm_destroy(comm);
    return 0;
}

/* Rank 0 says it, and rank 1 fails because it did. */
static void check_said(const struct start *start, const char *wanted)
{
    char text[1024];
    assert_int_equal(start->result[0], -1);
    assert_int_equal(start->result[1], -1);
    assert_string_equal(start->err[0].text, wanted);
    snprintf(text, sizeof(text), "comm/gloo: barrier: rank 0 on h0 failed: %s",
             wanted);
    assert_string_equal(start->err[1].text, text);
    assert_int_equal(start->err[1].lost_rank, 0);
}

/* Starts two ranks, which end; `wanted`: what both say, or NULL. */
static void check_ranks(struct start *start, const char *wanted)
{
    char text[512];
    world_threads(2, start_rank, start);
    snprintf(text, sizeof(text),
             "%s: rank 1 on h1 does not see the same %s as rank 0 on h0: are "
             "all files on a shared file system?",
             start->conf[0]->file, wanted ? wanted : "");
    if (wanted)
        check_said(start, text);
    for (int rank = 0; rank < 2; rank++) {
        assert_int_equal(start->result[rank], wanted ? -1 : 0);
        dt_conf_destroy(start->conf[rank]);
    }
}

/* The same with these lines. */
static void check_start(const char *const data[2], const char *const more[2],
                        const char *wanted)
{
    struct start start = {0};
    for (int rank = 0; rank < 2; rank++)
        start.conf[rank] = load(data[rank], more[rank]);
    check_ranks(&start, wanted);
}

static void ranks_that_see_different_files_do_not_start(void **state)
{
    static const char *const usual[] = {
        "run: {output_dir: o, overwrite: true}",
        "run: {output_dir: o, overwrite: true}"};
    const char *lines = "{\"text\": \"one\"}\n{\"text\": \"two\"}\n";
    (void)state;
#ifdef HAVE_GLOO
    scratch_write("0.txt", "abcdefghij", 10);
    scratch_write("1.txt", "abcdefghiJ", 10);
    scratch_write("same.txt", "abcdefghij", 10);
    write_text("0.jsonl", lines);
    scratch_write("1.jsonl", lines, strlen(lines) / 2);
#define ROWS "max_length: 4, "
    check_start(
        (const char *const[]){ROWS "train: 0.txt", ROWS "train: same.txt"},
        usual, NULL);
    check_start((const char *const[]){ROWS "train: 0.txt", ROWS "train: 1.txt"},
                usual, "data.train");
    check_start(
        (const char *const[]){ROWS "train: 0.jsonl", ROWS "train: 1.jsonl"},
        usual, "data.train");
    check_start((const char *const[]){ROWS "train: 0.txt, eval: 0.txt",
                                      ROWS "train: 0.txt, eval: 1.txt"},
                usual, "data.eval");
    check_start((const char *const[]){ROWS "train: 0.jsonl, eval: 0.jsonl",
                                      ROWS "train: 0.jsonl, eval: 1.jsonl"},
                usual, "data.eval");
#else
    (void)usual, (void)lines, (void)check_start;
    skip();
#endif
}

/* Each of them waits for the other after another step, or saves something else.
 */
static void ranks_that_read_two_versions_of_the_file_do_not_start(void **state)
{
    static const char *const keys[][3] = {
        {"checkpoint.steps", "10", "20"},
        {"checkpoint.only_model", "false", "true"},
        {"checkpoint.save_dtype", "fp32", "bf16"},
        {"training.eval_strategy", "steps", "epoch"},
        {"training.eval_steps", "10", "20"},
        {"logging.steps", "10", "20"}};
    (void)state;
#ifdef HAVE_GLOO
    for (int i = 0; i < 6; i++) {
        struct start start = {0};
        char more[256], wanted[512];
        for (int rank = 0; rank < 2; rank++) {
            snprintf(more, sizeof(more),
                     "run: {output_dir: o, overwrite: true}\n%s: %s",
                     keys[i][0], keys[i][1 + rank]);
            start.conf[rank] =
                load("max_length: 4, train: 0.txt, eval: 0.txt", more);
        }
        world_threads(2, start_rank, &start);
        snprintf(wanted, sizeof(wanted),
                 "%s: rank 1 on h1 has read \"%s: %s\", and rank 0 on h0 "
                 "\"%s: %s\": two versions of the file; start the run again "
                 "when all nodes see the same one",
                 start.conf[0]->file, keys[i][0], keys[i][2], keys[i][0],
                 keys[i][1]);
        check_said(&start, wanted);
        for (int rank = 0; rank < 2; rank++)
            dt_conf_destroy(start.conf[rank]);
    }
#else
    (void)keys;
    skip();
#endif
}

/* Each rank has a directory of its own, as on local disks. */
static void ranks_that_would_save_in_different_places_do_not_start(void **state)
{
    struct start start = {0};
    (void)state;
#ifdef HAVE_GLOO
    for (int rank = 0; rank < 2; rank++) {
        char more[128];
        snprintf(more, sizeof(more),
                 "run: {output_dir: disk%d}\ndistributed.timeout_s: 1", rank);
        mkdir(scratch_path(rank ? "disk1" : "disk0"), 0777);
        start.conf[rank] = load("max_length: 4, train: 0.txt", more);
    }
    world_threads(2, start_rank, &start);
    for (int rank = 0; rank < 2; rank++) {
        assert_int_equal(start.result[rank], -1);
        assert_non_null(strstr(start.err[rank].text,
                               "/checkpoints: what rank 0 on h0 makes there is "
                               "not seen on h1: each has a directory of its "
                               "own. "));
        dt_conf_destroy(start.conf[rank]);
    }
#else
    (void)start;
    skip();
#endif
}

static struct dt_conf *load_run(void)
{
    return load("max_length: 4, train: 0.txt",
                "run: {output_dir: o, overwrite: true}");
}

static const char *const checkpoints[] = {"checkpoint-10", "checkpoint-20"};

/* The newest checkpoint of another run may change while ranks start. */
static void ranks_that_found_different_checkpoints_do_not_start(void **state)
{
    static const char *const keys[] = {"model.path", "model.value_path",
                                       "model.reference_path", "adapter.path"};
    (void)state;
#ifdef HAVE_GLOO
    for (int key = 0; key < 4; key++) {
        struct start start = {0};
        for (int rank = 0; rank < 2; rank++) {
            struct dt_conf *conf = start.conf[rank] = load_run();
            char **const paths[] = {&conf->model.path, &conf->model.value_path,
                                    &conf->model.reference_path,
                                    &conf->adapter.path};
            char config[64];
            mkdir(scratch_path(checkpoints[rank]), 0777);
            snprintf(config, sizeof(config), "%s/config.json",
                     checkpoints[rank]);
            write_text(config,
                       "{\"model_type\": \"gpt2\", \"vocab_size\": 257, "
                       "\"n_positions\": 64, \"n_embd\": 32, "
                       "\"n_layer\": 1, \"n_head\": 2}");
            *paths[key] = strdup(scratch_path(checkpoints[rank]));
        }
        check_ranks(&start, keys[key]);
    }
#else
    (void)keys, (void)load_run, (void)check_ranks;
    skip();
#endif
}

/* Two reward models of which both ranks have both, or only the first. */
static void ranks_with_different_reward_models_do_not_start(void **state)
{
    static const int models[][2][2] = {/* of rank 0 and of rank 1 */
                                       {{0, 1}, {1, 0}},
                                       {{0, 0}, {0, 1}}};
    (void)state;
#ifdef HAVE_GLOO
    for (int i = 0; i < 2; i++) {
        struct start start = {0};
        for (int rank = 0; rank < 2; rank++) {
            struct dt_conf *conf = start.conf[rank] = load_run();
            conf->reward.functions = calloc(2, sizeof(struct dt_conf_reward));
            conf->reward.count = 2;
            for (int m = 0; m < 2; m++)
                conf->reward.functions[m].path =
                    strdup(scratch_path(checkpoints[models[i][rank][m]]));
        }
        check_ranks(&start, "models of its rewards");
    }
#else
    (void)models;
    skip();
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_failed_open_leaves_nothing_behind),
        cmocka_unit_test(ranks_that_see_different_files_do_not_start),
        cmocka_unit_test(ranks_that_read_two_versions_of_the_file_do_not_start),
        cmocka_unit_test(
            ranks_that_would_save_in_different_places_do_not_start),
        cmocka_unit_test(ranks_that_found_different_checkpoints_do_not_start),
        cmocka_unit_test(ranks_with_different_reward_models_do_not_start),
    };
    return cmocka_run_group_tests(tests, write_tokenizer, NULL);
}
