/* SPDX-License-Identifier: Apache-2.0 */
/* test_cache.c - caches of tokens: found, stale, damaged, shared, resumed */
#include "config.h"

#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "batch/rows.h"
#include "tests/unit/data/examples_file.h"

/* Files of the folder; the path of one of them. */
static int files_in(const char *folder, char *one, size_t size)
{
    int count = 0;
    DIR *dir = opendir(folder);
    for (struct dirent *e; dir && (e = readdir(dir)) != NULL;)
        if (e->d_name[0] != '.') {
            snprintf(one, size, "%s/%s", folder, e->d_name);
            count++;
        }
    if (dir)
        closedir(dir);
    return count;
}

static void a_cache_is_reused_until_its_input_changes(void **state)
{
    static const char text[] = "{\"text\": \"one\"}\n{\"text\": \"two\"}";
    struct dt_example_options options = usual();
    char folder[512], file[1024];
    (void)state;
    snprintf(folder, sizeof(folder), "%s", scratch_path("caches"));
    options.cache_dir = folder;
    scratch_write("c.jsonl", text, sizeof(text) - 1);
    struct dt_examples *examples = open_good(scratch_path("c.jsonl"), &options);
    uint64_t hash = dt_examples_hash(examples);
    assert_true(made);
    assert_int_equal(dt_examples_tokens(examples), 8);
    assert_int_equal(dt_examples_targets(examples), 8);
    assert_string_equal(shown(examples, 1), "[two$]");
    dt_examples_close(examples);
    assert_int_equal(files_in(folder, file, sizeof(file)), 1);

    examples = open_good(scratch_path("c.jsonl"), &options);
    assert_false(made);
    assert_int_equal(dt_examples_hash(examples), hash);
    assert_string_equal(shown(examples, 0), "[one$]");
    dt_examples_close(examples);

    scratch_write("c.jsonl", "{\"text\": \"new\"}", 15);
    examples = open_good(scratch_path("c.jsonl"), &options);
    assert_true(made);
    assert_int_not_equal(dt_examples_hash(examples), hash);
    assert_string_equal(shown(examples, 0), "[new$]");
    dt_examples_close(examples);
    assert_non_null(strstr(notes, ": made from other content, another "
                                  "tokenizer or other options; made again"));
    assert_int_equal(files_in(folder, file, sizeof(file)), 1);

    options.parse_special = false; /* another cache, beside it */
    dt_examples_close(open_good(scratch_path("c.jsonl"), &options));
    assert_true(made);
    assert_int_equal(files_in(folder, file, sizeof(file)), 2);
}

/* Whichever byte is another one, and wherever it ends: noticed. Every field is
 * longer than three bytes.
 */
static void a_damaged_cache_is_noticed_and_made_again(void **state)
{
    static const char text[] = "{\"text\": \"one\"}\nx\n";
    struct dt_example_options options = usual();
    char folder[512], file[1024], good[1024], bad[1024];
    (void)state;
    options.bad_limit = 0.5;
    snprintf(folder, sizeof(folder), "%s", scratch_path("damaged"));
    options.cache_dir = folder;
    scratch_write("d.jsonl", text, sizeof(text) - 1);
    dt_examples_close(open_good(scratch_path("d.jsonl"), &options));
    assert_int_equal(files_in(folder, file, sizeof(file)), 1);
    FILE *f = fopen(file, "r");
    size_t bytes = fread(good, 1, sizeof(good), f);
    fclose(f);
    assert_in_range(bytes, 120, sizeof(good) - 1);
    for (size_t i = 0; i < 2 * bytes; i += 3) {
        bool flips = i < bytes;
        memcpy(bad, good, bytes);
        bad[i % bytes] ^= 0x10;
        f = fopen(file, "w");
        fwrite(bad, 1, flips ? bytes : i % bytes, f);
        fclose(f);
        dt_examples_close(open_good(scratch_path("d.jsonl"), &options));
        assert_true(made);
        assert_non_null(strstr(notes, "; made again"));
    }
}

/* The end of an example is that of the tokenizer's files. */
static void another_end_token_makes_the_cache_again(void **state)
{
    struct dt_example_options options = usual();
    struct dt_tokenizer *before = tokenizer;
    (void)state;
    scratch_write("e.jsonl", "{\"text\": \"one\"}", 15);
    dt_examples_close(open_good(scratch_path("e.jsonl"), &options));
    tokenizer = bytes_tokenizer("other-eos", NULL, "<|im_end|>", CHATML);
    struct dt_examples *examples = open_good(scratch_path("e.jsonl"), &options);
    assert_true(made);
    assert_string_equal(shown(examples, 0), "[one#]");
    dt_examples_close(examples);
    dt_tokenizer_destroy(tokenizer);
    tokenizer = before;
}

/* Two folders' files of one name have caches of their own, and one hash. */
static void files_of_one_name_have_their_own_caches(void **state)
{
    struct dt_example_options options = usual();
    struct dt_examples *examples[2];
    static const char *const folders[] = {"one", "two"};
    static const char *const files[] = {"one/f.jsonl", "two/f.jsonl"};
    char folder[512], file[1024];
    (void)state;
    snprintf(folder, sizeof(folder), "%s", scratch_path("common"));
    options.cache_dir = folder;
    for (int i = 0; i < 2; i++) {
        dt_file_mkdirs(scratch_path(folders[i]), NULL);
        scratch_write(files[i], "{\"text\": \"a\"}", 13);
        examples[i] = open_good(scratch_path(files[i]), &options);
        assert_true(made);
    }
    assert_int_equal(files_in(folder, file, sizeof(file)), 2);
    assert_int_equal(dt_examples_hash(examples[0]),
                     dt_examples_hash(examples[1]));
    for (int i = 0; i < 2; i++)
        dt_examples_close(examples[i]);
}

/* A file that was written again is read again, whatever its size and time. */
static void a_rewritten_file_is_always_read_again(void **state)
{
    const struct timespec times[] = {{1, 0}, {1, 0}};
    struct dt_example_options options = usual();
    char file[512];
    (void)state;
    snprintf(file, sizeof(file), "%s", scratch_path("s.jsonl"));
    scratch_write("s.jsonl", "{\"text\": \"one\"}", 15);
    utimensat(AT_FDCWD, file, times, 0);
    sleep(3); /* then it is not young */
    dt_examples_close(open_good(file, &options));
    dt_examples_close(open_good(file, &options));
    assert_false(made);
    scratch_write("s.jsonl", "{\"text\": \"two\"}", 15);
    utimensat(AT_FDCWD, file, times, 0);
    struct dt_examples *examples = open_good(file, &options);
    assert_true(made);
    assert_string_equal(shown(examples, 0), "[two$]");
    dt_examples_close(examples);
}

/* A cache, or the file itself, that is cut short while it is in use. */
static void a_cache_cut_short_in_use_is_noticed(void **state)
{
    struct dt_example_options options = usual();
    const struct dt_rows_options row_options = {
        .T = 16, .end = 1.0, .vocab_size = 300};
    struct dt_error err;
    char folder[512], file[1024];
    int32_t in[16], out[16], starts[16];
    struct dt_row row = {in, out, starts, 0, NULL};
    (void)state;
    snprintf(folder, sizeof(folder), "%s", scratch_path("short"));
    options.cache_dir = folder;
    scratch_write("h.jsonl", "{\"text\": \"one\"}", 15);
    struct dt_examples *examples = open_good(scratch_path("h.jsonl"), &options);
    const struct dt_rows_source source = {examples, 1.0};
    struct dt_rows *rows = dt_rows_of_examples(&source, 1, &row_options, &err);
    assert_non_null(rows);
    assert_int_equal(files_in(folder, file, sizeof(file)), 1);
    assert_int_equal(truncate(file, 0), 0);
    assert_int_equal(dt_rows_read(rows, 0, 16, &row, &err), -1);
    assert_int_equal(err.status, EX_IOERR);
    assert_string_equal(err.text, "data: a cache of tokens was cut short while "
                                  "it is read, or its disk fails");
    assert_null(dt_rows_of_examples(&source, 1, &row_options, &err));
    assert_int_equal(err.status, EX_IOERR);
    dt_rows_destroy(rows);
    dt_examples_close(examples);
}

/* A row is read after its cache was damaged: the check is of its first use. */
static void damage_behind_an_open_cache_is_noticed_by_rows(void **state)
{
    static const struct {
        const char *text;
        enum dt_packing packing;
        bool pairs;
    } cases[] = {
        {"{\"text\": \"one\"}\n{\"text\": \"two and three\"}", DT_PACK_NONE,
         false},
        {"{\"text\": \"one\"}\n{\"text\": \"two and three\"}", DT_PACK_WRAPPED,
         false},
        {"{\"prompt\": \"a\", \"chosen\": \"bc\", \"rejected\": \"d\"}",
         DT_PACK_NONE, true},
    };
    struct dt_example_options options = usual();
    char folder[512], file[1024];
    int32_t in[16], out[16], starts[16];
    (void)state;
    for (int i = 0; i < 3; i++) {
        const struct dt_rows_options row_options = {
            .T = 8, .packing = cases[i].packing, .end = 1.0, .vocab_size = 300};
        struct dt_error err = {0};
        struct dt_row row = {in, out, starts, 0, NULL};
        char name[16];
        snprintf(name, sizeof(name), "damage-%d", i);
        snprintf(folder, sizeof(folder), "%s", scratch_path(name));
        options.cache_dir = folder;
        options.format = cases[i].pairs ? DT_FORMAT_PREFERENCE : DT_FORMAT_AUTO;
        scratch_write("d.jsonl", cases[i].text, strlen(cases[i].text));
        struct dt_examples *examples =
            open_good(scratch_path("d.jsonl"), &options);
        const struct dt_rows_source source = {examples, 1.0};
        struct dt_rows *rows =
            cases[i].pairs
                ? NULL
                : dt_rows_of_examples(&source, 1, &row_options, &err);
        assert_int_equal(files_in(folder, file, sizeof(file)), 1);
        int fd = open(file, O_RDWR);
        off_t end = lseek(fd, 0, SEEK_END);
        assert_int_equal(pwrite(fd, "xy", 2, end - 6), 2);
        close(fd);
        if (cases[i].pairs)
            assert_null(dt_rows_of_pairs(&source, 1, &row_options, &err));
        else
            assert_int_equal(
                dt_rows_read(rows, dt_rows_count(rows) - 1, 16, &row, &err),
                -1);
        assert_non_null(
            strstr(err.text, ".tokens: damaged: block 1 of 1, at "));
        dt_rows_destroy(rows);
        dt_examples_close(examples);
    }
}

static void an_impossible_cache_folder_is_refused(void **state)
{
    struct dt_example_options options = usual();
    struct dt_error err;
    char folder[512];
    (void)state;
    snprintf(folder, sizeof(folder), "%s/below", scratch_write("file", "a", 1));
    options.cache_dir = folder;
    scratch_write("p.jsonl", "{\"text\": \"a\"}", 13);
    assert_null(open_file(scratch_path("p.jsonl"), &options, &err));
    assert_int_equal(err.status, EX_CANTCREAT);
    assert_non_null(strstr(err.text, "no place for the tokens of "));
    assert_non_null(strstr(err.text, "(data.cache_dir names one): "));
}

/* --- parts, threads, processes --- */

enum { LINES = 100000 }; /* 9 MB, three parts */

static const char *big_file(void)
{
    FILE *f = fopen(scratch_path("big.jsonl"), "w");
    for (int i = 0; i < LINES; i++)
        fprintf(f, "{\"text\": \"%08d %0*d\"}\n", i, 50 + i % 31, i);
    fclose(f);
    return scratch_path("big.jsonl");
}

static void check_big(const struct dt_examples *examples)
{
    char expected[128];
    assert_int_equal(dt_examples_count(examples), LINES);
    for (int i = 0; i < LINES; i += i < LINES / 2 ? 1 : 997) {
        snprintf(expected, sizeof(expected), "[%08d %0*d$]", i, 50 + i % 31, i);
        assert_string_equal(shown(examples, (size_t)i), expected);
    }
}

/* Opens the big file in a child, with a fault, and keeps its notes in a file.
 * Its exit status is 0 if the cache was made; as waitpid has it.
 */
static int open_in_child(const struct dt_example_options *options,
                         const char *fault)
{
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        setenv("DISTTRAIN_FAULT", fault, 1);
        struct dt_examples *examples =
            open_file(scratch_path("big.jsonl"), options, NULL);
        scratch_write("notes", notes, sizeof(notes));
        _exit(examples && made ? 0 : 9);
    }
    waitpid(pid, &status, 0);
    return status;
}

/* One process is killed behind its second part; the next one makes the third.
 * These two come first: a process reads its fault only once.
 */
static void a_killed_process_leaves_parts_for_the_next(void **state)
{
    struct dt_example_options options = usual();
    char folder[512];
    (void)state;
#ifndef ENABLE_FAULT_INJECTION
    skip();
#endif
    big_file();
    snprintf(folder, sizeof(folder), "%s", scratch_path("killed"));
    options.cache_dir = folder;
    options.threads = 1;
    assert_true(WIFSIGNALED(open_in_child(&options, "data.part:nth=2:kill")));
    assert_int_equal(open_in_child(&options, "data.part:nth=1:error"), 9 << 8);
    assert_int_equal(open_in_child(&options, "data.part:nth=1:error"), 0);
    struct dt_examples *examples =
        open_good(scratch_path("big.jsonl"), &options);
    assert_false(made);
    check_big(examples);
    dt_examples_close(examples);
}

static bool always(void)
{
    return true;
}

/* Another process holds the lock, and does nothing. One that is told to stop
 * does not wait for it.
 */
static void an_idle_maker_is_not_waited_for_forever(void **state)
{
    struct dt_example_options options = usual();
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    char folder[512], parts[1024], path[1100];
    (void)state;
#ifndef ENABLE_FAULT_INJECTION
    skip();
#endif
    big_file();
    snprintf(folder, sizeof(folder), "%s", scratch_path("idle"));
    options.cache_dir = folder;
    open_in_child(&options, "data.part:nth=1:kill");
    assert_int_equal(files_in(folder, parts, sizeof(parts)), 1);
    snprintf(path, sizeof(path), "%s/lock", parts);
    int fd = open(path, O_RDWR);
    assert_true(fd >= 0 && fcntl(fd, F_OFD_SETLK, &lock) == 0);
    options.stop = always;
    assert_int_equal(open_in_child(&options, "data.lock:nth=9:error"), 9 << 8);
    options.stop = NULL;
    assert_int_equal(open_in_child(&options, "data.lock:nth=3:error"), 0);
    close(fd);
    FILE *f = fopen(scratch_path("notes"), "r");
    notes[fread(notes, 1, sizeof(notes) - 1, f)] = '\0';
    fclose(f);
    assert_non_null(
        strstr(notes, "/lock: the process that holds it has made "
                      "no progress for 30 minutes; continuing without it\n"));
}

/* Files may not be longer than 100 kB: an error with a name, and no cache. */
static void a_full_disk_leaves_no_cache_behind(void **state)
{
    struct dt_example_options options = usual();
    struct dt_error err;
    struct rlimit limit, less;
    char folder[512];
    (void)state;
    big_file();
    snprintf(folder, sizeof(folder), "%s", scratch_path("full"));
    options.cache_dir = folder;
    getrlimit(RLIMIT_FSIZE, &limit);
    less = limit;
    less.rlim_cur = 100000;
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &less);
    struct dt_examples *examples =
        open_file(scratch_path("big.jsonl"), &options, &err);
    setrlimit(RLIMIT_FSIZE, &limit);
    assert_null(examples);
    assert_int_equal(err.status, EX_IOERR);
    assert_non_null(strstr(err.text, ": cannot write: File too large"));
    dt_examples_close(open_good(scratch_path("big.jsonl"), &options));
    assert_true(made);
}

static void one_process_makes_the_cache_for_all(void **state)
{
    struct dt_example_options options = usual();
    char folder[512], file[1024];
    int makers = 0;
    (void)state;
    big_file();
    snprintf(folder, sizeof(folder), "%s", scratch_path("shared"));
    options.cache_dir = folder;
    for (int i = 0; i < 4; i++)
        if (fork() == 0) {
            struct dt_examples *examples =
                open_file(scratch_path("big.jsonl"), &options, NULL);
            bool whole = examples && dt_examples_count(examples) == LINES;
            _exit(whole ? made : 9);
        }
    for (int i = 0; i < 4; i++) {
        int status;
        wait(&status);
        assert_true(WIFEXITED(status));
        assert_in_range(WEXITSTATUS(status), 0, 1);
        makers += WEXITSTATUS(status);
    }
    assert_int_equal(makers, 1);
    assert_int_equal(files_in(folder, file, sizeof(file)), 1);
    struct dt_examples *examples =
        open_good(scratch_path("big.jsonl"), &options);
    assert_false(made);
    check_big(examples);
    dt_examples_close(examples);
}

static void a_text_in_pieces_is_one_whole_example(void **state)
{
    struct dt_example_options options = usual();
    char folder[512];
    size_t count;
    struct dt_map map;
    (void)state;
    FILE *f = fopen(scratch_path("big.txt"), "w");
    for (int i = 0; i < LINES; i++)
        fprintf(f, "%d lines of %0*d letters\n", i, 50 + i % 31, i);
    fclose(f);
    snprintf(folder, sizeof(folder), "%s", scratch_path("texts"));
    options.cache_dir = folder;
    struct dt_examples *examples = open_good(scratch_path("big.txt"), &options);
    assert_int_equal(dt_map_init(&map, scratch_path("big.txt"), NULL), 0);
    assert_int_equal(dt_examples_count(examples), 1);
    assert_int_equal(dt_examples_targets(examples), map.bytes + 1);
    const uint32_t *tokens = dt_example(examples, 0, &count);
    assert_int_equal(count, map.bytes + 1);
    for (size_t i = 0; i < map.bytes; i++)
        if ((tokens[i] & 0xff) != ((const unsigned char *)map.data)[i])
            fail_msg("byte %zu is %u", i, tokens[i]);
    assert_int_equal(tokens[map.bytes], 257 | DT_TARGET_BIT);
    dt_map_fini(&map);
    dt_examples_close(examples);
}

static uint64_t done_bytes;

static void keep_progress(void *ctx, uint64_t done, uint64_t total)
{
    (void)ctx;
    assert_true(done > done_bytes && done <= total);
    done_bytes = done;
}

static void any_number_of_threads_makes_the_same_cache(void **state)
{
    struct dt_example_options options = usual();
    struct stat st;
    char folder[512];
    uint64_t hash = 0;
    (void)state;
    big_file();
    stat(scratch_path("big.jsonl"), &st);
    for (int threads = 1; threads <= 8; threads += 7) {
        struct dt_error err;
        snprintf(folder, sizeof(folder), "%s-%d", scratch_path("threads"),
                 threads);
        dt_file_remove_tree(folder, &err);
        options.cache_dir = folder;
        options.threads = threads;
        options.progress = keep_progress;
        done_bytes = 0;
        struct dt_examples *examples =
            open_good(scratch_path("big.jsonl"), &options);
        assert_true(made);
        assert_int_equal(done_bytes, st.st_size);
        assert_true(threads == 1 || dt_examples_hash(examples) == hash);
        hash = dt_examples_hash(examples);
        check_big(examples);
        dt_examples_close(examples);
    }
}

/* The second part is not there any more when it is read. */
static void cut_big(void *ctx, uint64_t done, uint64_t total)
{
    (void)ctx;
    (void)done;
    (void)total;
    assert_int_equal(truncate(scratch_path("big.jsonl"), 4096), 0);
}

static void a_source_cut_short_while_read_is_noticed(void **state)
{
    struct dt_example_options options = usual();
    struct dt_error err;
    char folder[512];
    (void)state;
    big_file();
    snprintf(folder, sizeof(folder), "%s", scratch_path("cut"));
    options.cache_dir = folder;
    options.threads = 1;
    options.progress = cut_big;
    assert_null(open_file(scratch_path("big.jsonl"), &options, &err));
    assert_int_equal(err.status, EX_IOERR);
    assert_non_null(strstr(err.text, "big.jsonl: cut short while it is read, "
                                     "or its disk fails"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_killed_process_leaves_parts_for_the_next),
        cmocka_unit_test(an_idle_maker_is_not_waited_for_forever),
        cmocka_unit_test(a_cache_is_reused_until_its_input_changes),
        cmocka_unit_test(a_damaged_cache_is_noticed_and_made_again),
        cmocka_unit_test(an_impossible_cache_folder_is_refused),
        cmocka_unit_test(a_full_disk_leaves_no_cache_behind),
        cmocka_unit_test(one_process_makes_the_cache_for_all),
        cmocka_unit_test(a_text_in_pieces_is_one_whole_example),
        cmocka_unit_test(any_number_of_threads_makes_the_same_cache),
        cmocka_unit_test(another_end_token_makes_the_cache_again),
        cmocka_unit_test(files_of_one_name_have_their_own_caches),
        cmocka_unit_test(a_rewritten_file_is_always_read_again),
        cmocka_unit_test(a_cache_cut_short_in_use_is_noticed),
        cmocka_unit_test(damage_behind_an_open_cache_is_noticed_by_rows),
        cmocka_unit_test(a_source_cut_short_while_read_is_noticed),
    };
    tokenizer = bytes_tokenizer("tokenizer", NULL, "</s>", CHATML);
    int rc = cmocka_run_group_tests_name("cache", tests, NULL, NULL);
    dt_tokenizer_destroy(tokenizer);
    return rc;
}
