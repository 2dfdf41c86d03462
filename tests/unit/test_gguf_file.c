/* SPDX-License-Identifier: Apache-2.0 */
/* test_gguf_file.c - a file of GGUF has its name once it is on the disk */
#include "config.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/disk.h"
#include "tests/unit/scratch.h"
#include "weights/gguf.h"

/* Writes a file with one tensor; `rc` is that of whoever makes its data. */
static int write_file(const char *path, int rc, struct dt_error *err)
{
    const float data[32] = {1};
    const size_t shape[] = {32};
    struct dt_gguf gguf;
    assert_int_equal(dt_gguf_open(&gguf, path, err), 0);
    dt_gguf_put_u32(&gguf, "general.alignment", 32);
    dt_gguf_add_tensor(&gguf, "weight", DT_GGUF_F32, 1, shape);
    dt_gguf_begin_data(&gguf);
    dt_gguf_put_data(&gguf, data, sizeof(data));
    return dt_gguf_close(&gguf, rc, err);
}

/* The name of the file that is written, in scratch_root. */
static const char *partial(const char *name)
{
    static char text[64];
    snprintf(text, sizeof(text), "%s.partial-%ld", name, (long)getpid());
    return text;
}

static void the_file_is_synced_before_it_takes_its_place(void **state)
{
    const char *name = partial("model.gguf");
    struct dt_error err;
    char expected[256];
    (void)state;
    disk_record();
    assert_int_equal(write_file(scratch_path("model.gguf"), 0, &err), 0);
    snprintf(expected, sizeof(expected),
             "fsync %s\n"
             "rename %s model.gguf\n",
             name, name);
    assert_string_equal(disk_recorded(), expected);
    assert_int_equal(access(scratch_path("model.gguf"), F_OK), 0);
}

static void a_failure_leaves_only_what_was_there(void **state)
{
    const struct {
        const char *call, *name, *text;
        int error;
    } cases[] = {
        {"fsync", partial("old.gguf"), "cannot write: ", EIO},
        {"rename", "old.gguf", "old.gguf: cannot create: ", ESTALE},
    };
    const char *path = scratch_write("old.gguf", "old", 3);
    struct dt_error err;
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        disk_refuse(cases[i].call, cases[i].name, cases[i].error);
        int rc = write_file(path, 0, &err);
        disk_refuse(NULL, NULL, 0);
        if (rc != -1 || !strstr(err.text, cases[i].text) ||
            !strstr(err.text, strerror(cases[i].error)))
            fail_msg("%s: %d %s", cases[i].call, rc, err.text);
        assert_int_equal(err.status, EX_IOERR);
        assert_int_equal(access(scratch_path(partial("old.gguf")), F_OK), -1);
    }
    disk_record();
    dt_error_set(&err, EX_UNAVAILABLE, "the weights cannot be read");
    assert_int_equal(write_file(path, -1, &err), -1);
    assert_null(strstr(disk_recorded(), "rename"));
    assert_string_equal(err.text, "the weights cannot be read");
    assert_int_equal(access(scratch_path(partial("old.gguf")), F_OK), -1);
    char *text = dt_file_read(path, 10, &err);
    assert_string_equal(text, "old");
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_file_is_synced_before_it_takes_its_place),
        cmocka_unit_test(a_failure_leaves_only_what_was_there),
    };
    return cmocka_run_group_tests_name("gguf_file", tests, NULL, NULL);
}
