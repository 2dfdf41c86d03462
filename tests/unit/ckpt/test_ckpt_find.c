/* SPDX-License-Identifier: Apache-2.0 */
/* test_ckpt_find.c - which checkpoint is gone on from, and which is not */
#include "config.h"

#include <errno.h>
#include <sys/stat.h>

#include "ckpt/safetensors.h"
#include "tests/unit/ckpt/ckpt_root.h"
#include "weights/weights.h"

static void foreign_names_are_not_taken_for_checkpoints(void **state)
{
    (void)state;
    must_save(5, 5, 0);
    put("checkpoint-99", "a file, not a directory");
    static const char *names[] = {"checkpoint-007", "checkpoint-",
                                  "checkpoint-8x", "checkpoint--6",
                                  "checkpoint-99999999999999999999"};
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        assert_int_equal(mkdir(in_root(names[i]), 0777), 0);
    assert_int_equal(unlink(in_root("latest")), 0);
    assert_true(found_value() == 5);
    assert_note("checkpoint-99/checksums.txt: cannot open: Not a directory");
    assert_ptr_equal(strchr(notes, '\n') + 1, notes + strlen(notes));
}

/* checksums.txt of checkpoint-2 without its last line, and those of the model
 * and of state.json by themselves.
 */
static void read_sums(char all[512], char model[256], char text[256])
{
    struct dt_error err;
    char *sums = dt_file_read(in_root("checkpoint-2/checksums.txt"), 512, &err);
    assert_non_null(sums);
    char *seal = strstr(sums, "# XXH3 of the lines above = ");
    assert_non_null(seal);
    assert_int_equal(strlen(strchr(seal, '=') + 2), 17);
    *seal = '\0';
    snprintf(all, 512, "%s", sums);
    char *second = strchr(sums, '\n') + 1;
    snprintf(text, 256, "%s", second);
    *second = '\0';
    snprintf(model, 256, "%s", sums);
    free(sums);
}

static void a_damaged_checkpoint_is_passed_over(void **state)
{
    /* what follows the line of the model */
    static const struct {
        const char *text, *note;
    } sums[] = {
        {"XXH3 (state.json) = daa13e4f205dc5b", "checksums.txt:2: expected"},
        {"XXH3 (state.json) = daa13e4f205dc5ba", "checksums.txt:2: expected"},
        {"XXH3 (state.json) = daa13e4f205dc5ba\n\n",
         "checksums.txt:3: expected \"XXH3 (file) = 16 hex digits\""},
        {"XXH3 (state.json) = daa13e4f205dc5ba\nXXH3 (../x) = "
         "daa13e4f205dc5ba\n",
         "checksums.txt:3: expected"},
        {"XXH3 (state.json) = daa13e4f205dc5ba\nXXH3 () = daa13e4f205dc5ba\n",
         "checksums.txt:3: expected"},
        {"XXH3 (state.json) = daa13e4f205dc5bg\n", "checksums.txt:2: expected"},
        {"XXH3 (state.json) = 0000000000000000\n",
         "checkpoint-2/state.json: checksum daa13e4f205dc5ba, "
         "expected 0000000000000000"},
        {"XXH3 (state.json) = daa13e4f205dc5ba\nXXH3 (.) = daa13e4f205dc5ba\n",
         "checkpoint-2/.: not a regular file"},
        {"XXH3 (state.json) = daa13e4f205dc5ba\nXXH3 (b) = daa13e4f205dc5ba\n",
         "checkpoint-2/b: cannot open: No"},
    };
    char text[1024], all[512], model[256], second[256];
    (void)state;
    must_save(1, 1, 0);
    must_save(2, 2, 0);
    put("checkpoint-2/state.json", "{ }");
    assert_true(found_value() == 1);
    assert_note("checkpoint-2/state.json: checksum ");
    put("checkpoint-2/state.json", "{}\n");
    assert_true(found_value() == 2);
    read_sums(all, model, second);
    for (size_t i = 0; i < sizeof(sums) / sizeof(*sums); i++) {
        snprintf(text, sizeof(text), "%s%s", model, sums[i].text);
        put("checkpoint-2/checksums.txt", text);
        assert_true(found_value() == 1);
        assert_note(sums[i].note);
    }
    put("checkpoint-2/checksums.txt", "");
    assert_true(found_value() == 1);
    assert_note("checkpoint-2/checksums.txt: empty");
    assert_int_equal(unlink(in_root("checkpoint-2/checksums.txt")), 0);
    assert_true(found_value() == 1);
    assert_note("checkpoint-2/checksums.txt: cannot open: No such file");
    must_save(2, 22, 0); /* a damaged one of the same step gives way */
    assert_true(found_value() == 22);
}

/* What is not listed was not checked. */
static void a_checkpoint_with_unlisted_files_is_passed_over(void **state)
{
    char text[1024], all[512], model[256], second[256];
    (void)state;
    must_save(1, 1, 0);
    must_save(2, 2, 0);
    read_sums(all, model, second);
    char *sealed =
        dt_file_read(in_root("checkpoint-2/checksums.txt"), 512, NULL);
    assert_non_null(sealed);
    put("checkpoint-2/notes.json", "of the user's");
    assert_true(found_value() == 2);
    put("checkpoint-2/model-00001-of-00001.safetensors", "");
    assert_true(found_value() == 1);
    assert_note("checkpoint-2/model-00001-of-00001.safetensors: not listed in "
                "checksums.txt");
    unlink(in_root("checkpoint-2/model-00001-of-00001.safetensors"));
    put("checkpoint-2/model.safetensors.index.json", "{}");
    assert_true(found_value() == 1);
    assert_note("checkpoint-2/model.safetensors.index.json: not listed");
    unlink(in_root("checkpoint-2/model.safetensors.index.json"));
    snprintf(text, sizeof(text), "%s# XXH3 of the lines above = %016x\n", all,
             1);
    put("checkpoint-2/checksums.txt", text);
    assert_true(found_value() == 1);
    assert_note("checkpoint-2/checksums.txt: its last line is not "
                "the checksum of the lines above");
    snprintf(text, sizeof(text), "%s%s", sealed, second);
    put("checkpoint-2/checksums.txt", text);
    assert_true(found_value() == 1);
    assert_note("checkpoint-2/checksums.txt: its last line is not");
    /* as older versions wrote it, without that line: complete, or not */
    unlink(in_root("checkpoint-2/notes.json"));
    put("checkpoint-2/state.json.old", "{}\n");
    put("checkpoint-2/my-state.json.old", "{}\n");
    snprintf(text, sizeof(text),
             "%sXXH3 (state.json.old) = daa13e4f205dc5ba\n"
             "XXH3 (my-state.json) = daa13e4f205dc5ba\n",
             model);
    put("checkpoint-2/checksums.txt", text);
    assert_true(found_value() == 1);
    assert_note("checkpoint-2/state.json: not listed in checksums.txt");
    put("checkpoint-2/checksums.txt", all);
    assert_true(found_value() == 2);
    put("checkpoint-2/checksums.txt", model);
    assert_true(found_value() == 1);
    assert_note("checkpoint-2/state.json: not listed in checksums.txt");
    put("checkpoint-2/checksums.txt", second);
    assert_true(found_value() == 1);
    assert_note("checkpoint-2/model.safetensors: not listed in checksums.txt");
    unlink(in_root("checkpoint-2/model.safetensors"));
    assert_true(found_value() == 1);
    assert_note("checkpoint-2/checksums.txt: lists no model");
    free(sealed);
}

/* Saves a checkpoint of step 2 that has these files, too. */
static void save_with(const char *const *files)
{
    float data[WEIGHTS];
    struct dt_buffer buf = {data, sizeof(data), &dt_cpu};
    struct dt_ckpt_tensor tensor = {
        "w", 1, {WEIGHTS}, dt_view_of(&buf, DT_F32), DT_F32, false, 0};
    struct dt_error err = {0};
    for (int i = 0; i < WEIGHTS; i++)
        data[i] = 2;
    struct dt_ckpt_writer *writer = dt_ckpt_begin(root, 2, &err);
    assert_non_null(writer);
    if (dt_ckpt_add_tensors(writer, "model.safetensors", &tensor, 1, NULL,
                            &err) < 0)
        fail_msg("%s", err.text);
    for (; *files; files += 2)
        if (dt_ckpt_add_text(writer, files[0], files[1], &err) < 0)
            fail_msg("%s", err.text);
    if (dt_ckpt_commit(writer, &err) < 0)
        fail_msg("%s", err.text);
}

#define RANK(rank, world) "optim-rank-0000" rank "-of-0000" world ".safetensors"
#define INDEX "model.safetensors.index.json"

static void a_checkpoint_that_lacks_files_of_a_series_is_passed_over(
    void **state)
{
    static const struct {
        const char *files[9], *note;
    } cases[] = {
        {{RANK("0", "2"), "a", RANK("1", "2"), "b", "trainer_state.json", "{}"},
         NULL},
        {{RANK("0", "2"), "a"},
         "/checkpoint-2: not whole: " RANK(
             "0", "2") " is one of 2 files, and checksums.txt lists 1 of this "
                       "kind"},
        {{RANK("0", "2"), "a", RANK("1", "2"), "b", RANK("0", "1"), "c"},
         "is one of 2 files, and checksums.txt lists 3 of this kind"},
        {{"trainer_state.json", "{}"},
         "/checkpoint-2: not whole: checksums.txt lists trainer_state.json and "
         "no file of the optimizer"},
        {{INDEX, "{\"weight_map\": {\"w\": \"model.safetensors\"}}"}, NULL},
        {{INDEX, "{\"weight_map\": {\"w\": \"model.safetensors\", \"v\": "
                 "\"more.safetensors\"}}"},
         "/checkpoint-2: not whole: " INDEX " has v in more.safetensors, which "
         "checksums.txt does not list"},
        {{INDEX, "{\"weight_map\": {\"w\": 1}}"},
         INDEX " has w in no file, which checksums.txt does not list"},
        {{"part-1-of-", "a", "-of-2", "b", "x1-of-y", "c", "cut-of-5", "d"},
         NULL},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        must_save(1, 1, 0);
        save_with(cases[i].files);
        assert_true(found_value() == (cases[i].note ? 1 : 2));
        if (!cases[i].note)
            continue;
        assert_note(cases[i].note);
        assert_note("; checkpoint-2 is passed over\n");
    }
}

static void only_regular_files_make_a_checkpoint(void **state)
{
    static const char *names[] = {"state.json", "model.safetensors",
                                  "checksums.txt"};
    (void)state;
    must_save(1, 1, 0);
    for (size_t i = 0; i < 3; i++) {
        char name[64], note_of[128];
        must_save(2, 2, 0);
        snprintf(name, sizeof(name), "checkpoint-2/%s", names[i]);
        snprintf(note_of, sizeof(note_of), "%s: not a regular file", name);
        assert_int_equal(unlink(in_root(name)), 0);
        assert_int_equal(mkfifo(in_root(name), 0600), 0);
        assert_true(found_value() == 1);
        assert_note(note_of);
        assert_int_equal(unlink(in_root(name)), 0);
        assert_int_equal(symlink("/dev/zero", in_root(name)), 0);
        assert_true(found_value() == 1);
        assert_note(note_of);
        assert_int_equal(unlink(in_root(name)), 0);
        assert_int_equal(symlink(strrchr(name, '/') + 1, in_root(name)), 0);
        assert_true(found_value() == 1);
        assert_note("cannot open: Too many levels of symbolic links");
    }
}

static void expect_unreadable(const char *call, const char *name, int error)
{
    struct dt_error err = {0};
    char *path = (char *)"";
    int before = disk_open_count();
    notes[0] = '\0';
    disk_refuse(call, name, error);
    int rc = dt_ckpt_find(root, &watch, &path, &err);
    disk_refuse(NULL, NULL, 0);
    assert_int_equal(rc, -1);
    assert_null(path);
    assert_int_equal(err.status, EX_IOERR);
    assert_string_equal(notes, "");
    if (!strstr(err.text, name) || !strstr(err.text, strerror(error)))
        fail_msg("%s %s: %s", call, name, err.text);
    assert_int_equal(disk_open_count(), before);
}

/* A checkpoint that cannot be read is not damaged: no older one is taken. */
static void an_unreadable_checkpoint_is_not_passed_over(void **state)
{
    (void)state;
    must_save(1, 1, 0);
    must_save(2, 2, 0);
    expect_unreadable("open", "checksums.txt", EACCES);
    expect_unreadable("open", "checksums.txt", EMFILE);
    expect_unreadable("open", "model.safetensors", ESTALE);
    expect_unreadable("open", "state.json", ENOMEM);
    expect_unreadable("read", "model.safetensors", EIO);
    expect_unreadable("read", "state.json", ESTALE);
    assert_true(found_value() == 2);
    expect_unreadable("readlink", "latest", EIO);
    expect_unreadable("readlink", "latest", EACCES);
}

/* A run that fails so is put back into the queue, and one with a mistake is
 * not.
 */
static void a_failing_disk_is_no_missing_file(void **state)
{
    struct dt_error err = {0};
    char dir[320], path[PATH_MAX];
    (void)state;
    must_save(1, 1, 0);
    snprintf(dir, sizeof(dir), "%s/checkpoint-1", root);
    snprintf(path, sizeof(path), "%s/model.safetensors", dir);
    disk_refuse("open", "model.safetensors", EIO);
    assert_null(dt_safetensors_open(path, &err));
    assert_int_equal(err.status, EX_IOERR);
    disk_refuse("access", "model.safetensors", EIO);
    assert_null(dt_safetensors_open_model(dir, &err));
    assert_int_equal(err.status, EX_IOERR);
    disk_refuse("access", "model.safetensors.index.json", ESTALE);
    assert_null(dt_safetensors_open_model(dir, &err));
    assert_int_equal(err.status, EX_IOERR);
    disk_refuse("access", "config.json", EIO);
    assert_int_equal(dt_weights_find(dir, path, &err), -1);
    assert_int_equal(err.status, EX_IOERR);
    disk_refuse("open", "state.json", EIO);
    struct dt_ckpt_writer *writer = dt_ckpt_begin(root, 2, &err);
    assert_int_equal(dt_ckpt_add_copy(writer, "state.json", dir, 99, &err), -1);
    assert_int_equal(err.status, EX_IOERR);
    assert_int_equal(dt_ckpt_add_copy(writer, "none.json", dir, 99, &err), 0);
    dt_ckpt_abandon(writer);
    disk_refuse(NULL, NULL, 0);
    snprintf(path, sizeof(path), "%s/none", dir);
    assert_null(dt_safetensors_open(path, &err));
    assert_int_equal(err.status, EX_NOINPUT);
}

static void an_interrupted_call_is_made_again(void **state)
{
    static const char *calls[] = {"read", "write", "fsync", "close"};
    (void)state;
    for (int i = 0; i < 4; i++) {
        disk_refuse(calls[i], "model.safetensors", EINTR);
        must_save(2, (float)i, 0);
        assert_true(found_value() == (float)i);
        disk_refuse(NULL, NULL, 0);
    }
    disk_refuse("fsync", ".tmp-checkpoint-2", EINTR);
    must_save(2, 5, 0);
    disk_refuse("fsync", strrchr(root, '/') + 1, EINTR);
    must_save(2, 6, 0);
    disk_refuse(NULL, NULL, 0);
}

static void no_whole_checkpoint_is_an_error(void **state)
{
    struct dt_error err = {0};
    char *path;
    (void)state;
    must_save(1, 1, 0);
    must_save(2, 2, 0);
    put("checkpoint-1/state.json", "");
    put("checkpoint-2/state.json", "");
    notes[0] = '\0';
    assert_int_equal(dt_ckpt_find(root, &watch, &path, &err), -1);
    assert_null(path);
    assert_int_equal(err.status, EX_DATAERR);
    assert_non_null(strstr(err.text, ": no checkpoint here is whole, the last "
                                     "one because of "));
    assert_note("checkpoint-1/state.json: checksum ");
    assert_note("checkpoint-2/state.json: checksum ");
    assert_int_equal(dt_ckpt_find(root, NULL, &path, &err), -1);
}

static void point_latest(const char *target)
{
    unlink(in_root("latest"));
    assert_int_equal(symlink(target, in_root("latest")), 0);
}

/* Somebody may have made the link by hand. */
static void latest_may_be_spelled_in_any_way(void **state)
{
    char other[320];
    (void)state;
    must_save(1, 1, 0);
    must_save(2, 2, 0);
    snprintf(other, sizeof(other), "%s/checkpoint-1", root);
    const char *const targets[] = {"checkpoint-1//", "./checkpoint-1", other};
    for (int i = 0; i < 3; i++) {
        point_latest(targets[i]);
        assert_true(found_value() == 1);
        assert_note("/checkpoint-2: passed over, because latest names "
                    "checkpoint-1; to resume from checkpoint-2, make latest a "
                    "link to it");
    }
    point_latest("checkpoint-2");
    assert_true(found_value() == 2);
    assert_string_equal(notes, "");
    point_latest("checkpoint-3");
    assert_true(found_value() == 2);
    assert_note("/latest: names checkpoint-3, which is no checkpoint here; the "
                "one of the highest step is taken");
    /* the same name elsewhere */
    setup(state);
    must_save(1, 11, 0);
    must_save(2, 22, 0);
    point_latest(other);
    assert_true(found_value() == 22);
    assert_note("/checkpoint-1, which is no checkpoint here; the one of");
}

static void expect_no_start(const char *expected)
{
    struct dt_error err = {0};
    char *path;
    assert_int_equal(dt_ckpt_find(root, NULL, &path, &err), -1);
    assert_null(path);
    assert_int_equal(err.status, EX_DATAERR);
    if (!strstr(err.text, expected))
        fail_msg("%s", err.text);
}

/* A new run would begin its metrics anew. */
static void renamed_checkpoints_are_not_taken_for_none(void **state)
{
    (void)state;
    must_save(4, 4, 0);
    assert_int_equal(rename(in_root("checkpoint-4"), in_root("good-4")), 0);
    expect_no_start("/latest: names checkpoint-4, and no checkpoint is here");
    assert_int_equal(unlink(in_root("latest")), 0);
    assert_true(found_value() == -1);
    assert_int_equal(rename(in_root("good-4"), in_root("checkpoint-04")), 0);
    expect_no_start("/checkpoint-04: its name is not checkpoint-STEP, and no "
                    "other checkpoint is here");
}

static int asked;

static bool stop_at_third(void)
{
    return ++asked == 3;
}

static void a_search_stops_when_asked_to(void **state)
{
    const struct dt_ckpt_watch stopping = {.stop = stop_at_third};
    struct dt_error err = {0};
    char *path;
    (void)state;
    must_save(1, 1, 0);
    must_save(2, 2, 0);
    put("checkpoint-2/state.json", "");
    asked = 0;
    assert_int_equal(dt_ckpt_find(root, &stopping, &path, &err), -1);
    assert_null(path);
    assert_int_equal(err.status, EX_TEMPFAIL);
    assert_int_equal(asked, 3);
}

/* Ranks share the files, and nobody reads what another one does. */
static void each_file_is_compared_by_one_rank(void **state)
{
    enum { WORLD = 3 };
    static const char *const files[] = {
        "a", "b", "optim-rank-00000-of-00003.safetensors",
        "optim-rank-00001-of-00003.safetensors",
        "optim-rank-00002-of-00003.safetensors"};
    static const int owner[] = {1, 2, 0, 1, 2};
    struct dt_error err = {0};
    (void)state;
    struct dt_ckpt_writer *writer = dt_ckpt_begin(root, 1, &err);
    dt_ckpt_add_text(writer, "model.safetensors", "model", &err);
    for (int i = 0; i < 5; i++)
        dt_ckpt_add_text(writer, files[i], files[i], &err);
    assert_int_equal(dt_ckpt_commit(writer, &err), 0);
    char *sums = dt_ckpt_read_sums(in_root("checkpoint-1"), &err);
    assert_non_null(sums);
    for (int i = 0; i < 5; i++) {
        char name[80];
        snprintf(name, sizeof(name), "checkpoint-1/%s", files[i]);
        put(name, "spoiled");
        for (int rank = 0; rank < WORLD; rank++) {
            int rc = dt_ckpt_verify_share(in_root("checkpoint-1"), sums, rank,
                                          WORLD, NULL, &err);
            assert_int_equal(rc, rank == owner[i] ? -1 : 0);
        }
        assert_int_equal(err.status, EX_DATAERR);
        assert_non_null(strstr(err.text, name));
        put(name, files[i]);
    }
    free(sums);
    unlink(in_root("checkpoint-1/b"));
    assert_null(dt_ckpt_read_sums(in_root("checkpoint-1"), &err));
    assert_int_equal(err.status, EX_NOINPUT);
}

/* Killed after the new one was in its place, before `latest` named it. */
static void the_link_of_a_killed_save_is_followed(void **state)
{
    struct dt_error err = {0};
    (void)state;
    must_save(1, 1, 0);
    must_save(2, 2, 0);
    unlink(in_root("latest"));
    assert_int_equal(symlink("checkpoint-1", in_root("latest")), 0);
    assert_true(found_value() == 1);
    assert_int_equal(symlink("checkpoint-2", in_root(".tmp-latest")), 0);
    assert_true(found_value() == 2);
    dt_ckpt_abandon(dt_ckpt_begin(root, 3, &err));
    assert_latest("checkpoint-2");
    assert_int_equal(temp_count(), 0);
    /* before it was in its place */
    assert_int_equal(symlink("checkpoint-3", in_root(".tmp-latest")), 0);
    assert_true(found_value() == 2);
    dt_ckpt_abandon(dt_ckpt_begin(root, 3, &err));
    assert_latest("checkpoint-2");
    assert_int_equal(temp_count(), 0);
}

static void a_directory_of_checkpoints_is_not_taken_for_one(void **state)
{
    struct dt_error err = {0};
    char path[256], text[1024];
    (void)state;
    assert_int_equal(dt_ckpt_check_path(root, &err), -1);
    assert_int_equal(err.status, EX_NOINPUT);
    snprintf(text, sizeof(text), "%s: No such file or directory", root);
    assert_string_equal(err.text, text);
    assert_int_equal(mkdir(root, 0755), 0);
    assert_int_equal(dt_ckpt_check_path(root, &err), -1);
    snprintf(text, sizeof(text),
             "%s: not a checkpoint: there is no checksums.txt", root);
    assert_string_equal(err.text, text);
    must_save(9, 9, 0);
    must_save(10, 10, 0);
    assert_int_equal(dt_ckpt_check_path(root, &err), -1);
    snprintf(text, sizeof(text),
             "%s: not a checkpoint, but it has some: name one of them, such as "
             "%s/checkpoint-10",
             root, root);
    assert_string_equal(err.text, text);
    assert_int_equal(dt_ckpt_check_path(in_root("latest"), &err), 0);
    /* the run.output_dir of a run */
    assert_int_equal(mkdir(in_root("run"), 0777), 0);
    assert_int_equal(symlink("..", in_root("run/checkpoints")), 0);
    snprintf(path, sizeof(path), "%s", in_root("run"));
    assert_int_equal(dt_ckpt_check_path(path, &err), -1);
    snprintf(text, sizeof(text), "such as %s/checkpoints/checkpoint-10", path);
    assert_non_null(strstr(err.text, text));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(foreign_names_are_not_taken_for_checkpoints,
                               setup),
        cmocka_unit_test_setup(a_damaged_checkpoint_is_passed_over, setup),
        cmocka_unit_test_setup(a_checkpoint_with_unlisted_files_is_passed_over,
                               setup),
        cmocka_unit_test_setup(
            a_checkpoint_that_lacks_files_of_a_series_is_passed_over, setup),
        cmocka_unit_test_setup(only_regular_files_make_a_checkpoint, setup),
        cmocka_unit_test_setup(an_unreadable_checkpoint_is_not_passed_over,
                               setup),
        cmocka_unit_test_setup(a_failing_disk_is_no_missing_file, setup),
        cmocka_unit_test_setup(an_interrupted_call_is_made_again, setup),
        cmocka_unit_test_setup(no_whole_checkpoint_is_an_error, setup),
        cmocka_unit_test_setup(latest_may_be_spelled_in_any_way, setup),
        cmocka_unit_test_setup(renamed_checkpoints_are_not_taken_for_none,
                               setup),
        cmocka_unit_test_setup(a_search_stops_when_asked_to, setup),
        cmocka_unit_test_setup(each_file_is_compared_by_one_rank, setup),
        cmocka_unit_test_setup(the_link_of_a_killed_save_is_followed, setup),
        cmocka_unit_test_setup(a_directory_of_checkpoints_is_not_taken_for_one,
                               setup),
    };
    return cmocka_run_group_tests_name("ckpt_find", tests, NULL, NULL);
}
