/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_image_store.c - images come from within their root, and out of the store
 * as they were put
 */
#include "config.h"

#include <errno.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "image/store.h"
#include "tests/unit/image/image_files.h"
#include "tests/unit/scratch.h"

static struct dt_image_limits limits;
static char root[300];
static struct dt_image_store in_root = {.dir = root};

static int set_up(void **state)
{
    (void)state;
    limits = dt_image_limits_usual;
    snprintf(root, sizeof(root), "%s", scratch_path("images"));
    dt_file_remove_tree(root, NULL);
    return dt_file_mkdirs(root, NULL);
}

static void write_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0 && fclose(f) == 0);
}

static void write_in(const char *name, const char *text)
{
    char path[400];
    snprintf(path, sizeof(path), "%s/%s", root, name);
    write_file(path, text);
}

static void link_in(const char *name, const char *to)
{
    char path[400];
    snprintf(path, sizeof(path), "%s/%s", root, name);
    assert_int_equal(symlink(to, path), 0);
}

static void assert_fetched(const char *from, const char *wanted)
{
    struct dt_image_file file;
    struct dt_error err;
    if (dt_image_fetch(&file, from, root, &limits, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(file.bytes, strlen(wanted));
    assert_memory_equal(file.data, wanted, file.bytes);
    free(file.data);
}

static void assert_not_fetched(const char *from, int status, const char *text)
{
    struct dt_image_file file;
    struct dt_error err = {0};
    assert_int_equal(dt_image_fetch(&file, from, root, &limits, &err), -1);
    assert_null(file.data);
    assert_string_equal(err.text, text);
    assert_int_equal(err.status, status);
}

static void paths_are_those_within_the_root(void **state)
{
    char path[400];
    (void)state;
    dt_file_mkdirs(scratch_path("images/a/b"), NULL);
    write_in("a/b/c.jpg", "bytes");
    write_in("empty.jpg", "");
    link_in("link.jpg", "a/b/c.jpg");
    link_in("folder", "a");
    snprintf(path, sizeof(path), "%s/a", root);
    link_in("absolute", path);
    assert_fetched("a/b/c.jpg", "bytes");
    assert_fetched("a/../a/./b/c.jpg", "bytes");
    assert_fetched("link.jpg", "bytes");
    assert_fetched("folder/b/c.jpg", "bytes");
    assert_fetched("absolute/b/c.jpg", "bytes");
    assert_fetched("empty.jpg", "");
    snprintf(path, sizeof(path), "%s//a/b/c.jpg", root);
    assert_fetched(path, "bytes");
}

static void paths_out_of_the_root_are_refused(void **state)
{
    static const char *const paths[] = {"../secret", "out", "up/secret",
                                        "/etc/passwd", "a/../../secret"};
    char wanted[1024];
    (void)state;
    scratch_write("secret", "key", 3);
    dt_file_mkdirs(scratch_path("images/a"), NULL);
    dt_file_mkdirs(scratch_path("images_too"), NULL);
    scratch_write("images_too/a.jpg", "key", 3);
    link_in("out", "/etc/passwd");
    link_in("up", "..");
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        snprintf(wanted, sizeof(wanted),
                 "%s: outside of %s, where images are: it, or a link in it, "
                 "leads out",
                 paths[i], root);
        assert_not_fetched(paths[i], EX_DATAERR, wanted);
    }
    const char *near = scratch_path("images_too/a.jpg");
    snprintf(wanted, sizeof(wanted),
             "%s: outside of %s, where images are: it, or a link in it, leads "
             "out",
             near, root);
    assert_not_fetched(near, EX_DATAERR, wanted);
}

/* The same without the system call, in a process that believes it absent. */
static void links_are_resolved_without_openat2(void **state)
{
#ifdef ENABLE_FAULT_INJECTION
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct dt_image_file file;
        struct dt_error err;
        setenv("DISTTRAIN_FAULT", "image.openat2:error", 1);
        write_in("a.jpg", "x");
        link_in("b.jpg", "a.jpg");
        link_in("out", "/etc/passwd");
        int bad = dt_image_fetch(&file, "a.jpg", root, &limits, &err) < 0;
        bad |= dt_image_fetch(&file, "b.jpg", root, &limits, &err) < 0;
        bad |= dt_image_fetch(&file, "out", root, &limits, &err) == 0;
        bad |= dt_image_fetch(&file, "../images_too/a.jpg", root, &limits,
                              &err) == 0;
        bad |= dt_image_fetch(&file, "none.jpg", root, &limits, &err) == 0;
        _exit(bad);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    (void)state;
#else
    (void)state;
    skip();
#endif
}

static void files_that_are_none_are_refused(void **state)
{
    char wanted[1024], path[400];
    (void)state;
    dt_file_mkdirs(scratch_path("images/folder"), NULL);
    snprintf(path, sizeof(path), "%s/fifo", root);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_not_fetched("folder", EX_NOINPUT, "folder: not a regular file");
    assert_not_fetched("fifo", EX_NOINPUT, "fifo: not a regular file");
    snprintf(wanted, sizeof(wanted),
             "no?.jpg: cannot open in %s: No such file or directory", root);
    assert_not_fetched("no\n.jpg", EX_NOINPUT, wanted);
    write_in("large.jpg", "123456");
    limits.bytes = 5;
    assert_not_fetched("large.jpg", EX_DATAERR,
                       "large.jpg: an image of 6 bytes: at most 5 are read");
}

static void nothing_is_fetched_from_the_network(void **state)
{
    struct dt_image_file file;
    struct dt_error err;
    (void)state;
    assert_not_fetched("https://example.org/a.jpg", EX_DATAERR,
                       "https://example.org/a.jpg: nothing is fetched from "
                       "the network: download the images, and name them by "
                       "paths");
    assert_int_equal(dt_image_fetch(&file, "a.jpg", NULL, &limits, &err), -1);
    assert_int_equal(err.status, EX_CONFIG);
    assert_string_equal(
        err.text, "a.jpg: an image by its path, and no "
                  "directory is given that images are in (data.image_root)");
}

static void data_uris_are_decoded(void **state)
{
    (void)state;
    assert_fetched("data:image/png;base64,TWFuTQ==", "ManM");
    assert_fetched("DATA:;BASE64,TWFu", "Man");
    assert_fetched("data:image/jpeg;name=a.jpg;base64,", "");
    assert_not_fetched("data:image/png,plain", EX_DATAERR,
                       "a data: URI that is not base64: expected "
                       "data:image/...;base64,...");
    assert_not_fetched("data:image/png;base64", EX_DATAERR,
                       "a data: URI that is not base64: expected "
                       "data:image/...;base64,...");
    assert_not_fetched("data:image/png;base64,TWF", EX_DATAERR,
                       "a data: URI whose base64 is damaged or cut short");
    limits.bytes = 5;
    assert_not_fetched("data:image/png;base64,TWFuTWFuTWFu", EX_DATAERR,
                       "a data: URI of 12 bytes: at most 5 bytes of an image "
                       "are read");
}

/* --- the store --- */

static const char abc[] =
    "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

static const char *abc_path(void)
{
    char path[200];
    snprintf(path, sizeof(path), "images/ba/%s", abc + 2);
    return scratch_path(path);
}

static void put_good(const void *data, size_t bytes)
{
    char name[DT_SHA256_HEX];
    struct dt_error err;
    if (dt_image_store_put(&in_root, data, bytes, name, &err) < 0)
        fail_msg("%s", err.text);
}

static void bytes_are_kept_under_their_hash(void **state)
{
    char name[DT_SHA256_HEX];
    struct dt_image_file file;
    struct dt_error err;
    struct stat before, after;
    (void)state;
    assert_int_equal(dt_image_store_put(&in_root, "abc", 3, name, &err), 0);
    assert_string_equal(name, abc);
    assert_int_equal(stat(abc_path(), &before), 0);
    put_good("abc", 3);
    assert_int_equal(stat(abc_path(), &after), 0);
    assert_true(before.st_ino == after.st_ino);
    assert_int_equal(dt_image_store_get(&file, &in_root, name, &limits, &err),
                     0);
    assert_int_equal(file.bytes, 3);
    assert_memory_equal(file.data, "abc", 3);
    free(file.data);
}

static void assert_not_got(const char *name, int status, const char *text)
{
    struct dt_image_file file;
    struct dt_error err = {0};
    assert_int_equal(dt_image_store_get(&file, &in_root, name, &limits, &err),
                     -1);
    assert_null(file.data);
    assert_string_equal(err.text, text);
    assert_int_equal(err.status, status);
}

static void what_was_damaged_is_told_and_put_again(void **state)
{
    char wanted[1024];
    (void)state;
    put_good("abc", 3);
    assert_int_equal(chmod(abc_path(), 0644), 0);
    write_file(abc_path(), "abd");
    snprintf(wanted, sizeof(wanted),
             "%s: damaged: its bytes are not those of its name; remove it and "
             "prepare the data again",
             abc_path());
    assert_not_got(abc, EX_DATAERR, wanted);
    write_file(abc_path(), "ab");
    put_good("abc", 3); /* of another size: written again */
    struct dt_image_file file;
    struct dt_error err;
    assert_int_equal(dt_image_store_get(&file, &in_root, abc, &limits, &err),
                     0);
    free(file.data);
}

static void names_that_are_none_are_refused(void **state)
{
    char wanted[1024];
    char name[DT_SHA256_HEX];
    (void)state;
    snprintf(wanted, sizeof(wanted), "%s: an image without a name of 64 digits",
             root);
    assert_not_got("../../etc/passwd", EX_DATAERR, wanted);
    memset(name, '.', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    assert_not_got(name, EX_DATAERR, wanted);
    snprintf(wanted, sizeof(wanted), "%s: cannot open: %s", abc_path(),
             strerror(ENOENT));
    assert_not_got(abc, EX_NOINPUT, wanted);
}

static void *put_many(void *arg)
{
    (void)arg;
    for (uint32_t i = 0; i < 50; i++)
        put_good(&i, sizeof(i));
    return NULL;
}

/* Threads and processes put the same images at once: each is there, whole, and
 * no file of a writer is left.
 */
static void writers_do_not_disturb_each_other(void **state)
{
    pthread_t threads[4];
    (void)state;
    const pid_t child = fork();
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, put_many, NULL), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    if (child == 0)
        _exit(0);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    char command[700];
    snprintf(command, sizeof(command),
             "cd %s && test $(find . -type f | wc -l) = 50 && "
             "test -z \"$(find . -name '*.*.*')\"",
             root);
    assert_int_equal(system(command), 0);
}

/* Sets TMPDIR to an empty directory. */
static const char *empty_tmpdir(void)
{
    const char *dir = scratch_path("tmp");
    assert_int_equal(dt_file_remove_tree(dir, NULL), 0);
    assert_int_equal(dt_file_mkdirs(dir, NULL), 0);
    assert_int_equal(setenv("TMPDIR", dir, 1), 0);
    return dir;
}

static void assert_kept(const struct dt_image_store *store, const char *name,
                        const void *wanted, size_t bytes)
{
    struct dt_image_file file;
    struct dt_error err;
    if (dt_image_store_get(&file, store, name, &limits, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(file.bytes, bytes);
    assert_memory_equal(file.data, wanted, bytes);
    free(file.data);
}

static void a_store_without_a_directory_leaves_no_name(void **state)
{
    struct dt_image_store store = {0};
    char name[3][DT_SHA256_HEX];
    static const char *const bytes[] = {"abc", "", "longer than both"};
    const char *dir = empty_tmpdir();
    (void)state;
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < 3; i++) {
            struct dt_error err;
            if (dt_image_store_put(&store, bytes[i], strlen(bytes[i]), name[i],
                                   &err) < 0)
                fail_msg("%s", err.text);
            assert_kept(&store, name[0], "abc", 3);
        }
    assert_string_equal(name[0], abc);
    for (int i = 0; i < 3; i++)
        assert_kept(&store, name[i], bytes[i], strlen(bytes[i]));
    assert_int_equal(rmdir(dir), 0); /* it is empty */
    dt_image_store_fini(&store);
    dt_image_store_fini(&store);
}

static void a_store_without_a_directory_says_what_is_wrong(void **state)
{
    struct dt_image_store store = {0};
    struct dt_image_file file;
    struct dt_error err;
    char name[DT_SHA256_HEX], wanted[1024];
    const char *dir = empty_tmpdir();
    (void)state;
    assert_int_equal(dt_image_store_get(&file, &store, abc, &limits, &err), -1);
    assert_int_equal(rmdir(dir), 0);
    assert_int_equal(dt_image_store_put(&store, "abc", 3, name, &err), -1);
    snprintf(wanted, sizeof(wanted),
             "%s: cannot create a file for images: No such file or directory: "
             "let TMPDIR name a directory that can be written",
             dir);
    assert_string_equal(err.text, wanted);
    assert_int_equal(err.status, EX_CANTCREAT);
    empty_tmpdir();
    assert_int_equal(dt_image_store_put(&store, "abc", 3, name, &err), 0);
    assert_int_equal(dt_image_store_get(&file, &store, "abc", &limits, &err),
                     -1);
    assert_string_equal(err.text, "there is no image abc");
    assert_int_equal(err.status, EX_NOINPUT);
    assert_null(file.data);
    dt_image_store_fini(&store);
}

static void a_full_disk_leaves_nothing(void **state)
{
#ifdef ENABLE_FAULT_INJECTION
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        char name[DT_SHA256_HEX];
        struct dt_error err;
        setenv("DISTTRAIN_FAULT", "image.write:error", 1);
        int rc = dt_image_store_put(&in_root, "abc", 3, name, &err);
        _exit(rc == 0 || err.status != EX_IOERR ||
              !strstr(err.text, "No space left"));
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(access(abc_path(), F_OK), -1);
    assert_int_equal(rmdir(scratch_path("images/ba")), 0); /* it is empty */
    (void)state;
#else
    (void)state;
    skip();
#endif
}

/* What was put before remains, and what did not fit can be put again. */
static void a_full_tmpdir_keeps_what_is_there(void **state)
{
#ifdef ENABLE_FAULT_INJECTION
    empty_tmpdir();
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct dt_image_store store = {0};
        char name[2][DT_SHA256_HEX];
        struct dt_error err;
        setenv("DISTTRAIN_FAULT", "image.write:nth=2:error", 1);
        int rc = dt_image_store_put(&store, "abc", 3, name[0], &err);
        rc |= dt_image_store_put(&store, "de", 2, name[1], &err) != -1;
        rc |= err.status != EX_IOERR ||
              strcmp(err.text, "TMPDIR: cannot write an image there: No space "
                               "left on device") != 0;
        rc |= dt_image_store_put(&store, "de", 2, name[1], &err);
        assert_kept(&store, name[0], "abc", 3);
        assert_kept(&store, name[1], "de", 2);
        _exit(rc);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    (void)state;
#else
    (void)state;
    skip();
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        /* first: a process reads DISTTRAIN_FAULT once */
        cmocka_unit_test_setup(links_are_resolved_without_openat2, set_up),
        cmocka_unit_test_setup(a_full_disk_leaves_nothing, set_up),
        cmocka_unit_test(a_full_tmpdir_keeps_what_is_there),
        cmocka_unit_test_setup(paths_are_those_within_the_root, set_up),
        cmocka_unit_test_setup(paths_out_of_the_root_are_refused, set_up),
        cmocka_unit_test_setup(files_that_are_none_are_refused, set_up),
        cmocka_unit_test_setup(nothing_is_fetched_from_the_network, set_up),
        cmocka_unit_test_setup(data_uris_are_decoded, set_up),
        cmocka_unit_test_setup(bytes_are_kept_under_their_hash, set_up),
        cmocka_unit_test_setup(what_was_damaged_is_told_and_put_again, set_up),
        cmocka_unit_test_setup(names_that_are_none_are_refused, set_up),
        cmocka_unit_test_setup(writers_do_not_disturb_each_other, set_up),
        cmocka_unit_test(a_store_without_a_directory_leaves_no_name),
        cmocka_unit_test(a_store_without_a_directory_says_what_is_wrong),
    };
    return cmocka_run_group_tests_name("image_store", tests, NULL, NULL);
}
