/* SPDX-License-Identifier: Apache-2.0 */
/* test_claim.c - the file of an epoch, on any file system */
#include "config.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "keeper/agree.h"
#include "tests/unit/disk.h"
#include "tests/unit/scratch.h"

static const char step[DT_EPOCH_STEP_BYTES] = "0123456789abcdef";

/* What the file system answers to these calls; 0: it does them. */
static struct {
    int link, rename;
} answers;

static int answer(const char *call, const char *a, const char *b)
{
    (void)b;
    (void)a;
    return strcmp(call, "link") == 0        ? answers.link
           : strcmp(call, "renameat2") == 0 ? answers.rename
                                            : 0;
}

static int watch(void **state)
{
    (void)state;
    memset(&answers, 0, sizeof(answers));
    disk_watch(answer);
    return 0;
}

/* A new directory for each case. */
static const char *next_dir(void)
{
    static int count;
    static char dir[PATH_MAX];
    char name[16];
    snprintf(name, sizeof(name), "out%d", count++);
    snprintf(dir, sizeof(dir), "%s", scratch_path(name));
    return dir;
}

static int count_files(const char *dir)
{
    char path[PATH_MAX];
    int count = -2; /* "." and ".." */
    snprintf(path, sizeof(path), "%s/" DT_EPOCH_DIR, dir);
    DIR *list = opendir(path);
    assert_non_null(list);
    while (readdir(list))
        count++;
    closedir(list);
    return count;
}

/* The first proposal stays, and no other file. */
static void check_claims(const char *dir)
{
    assert_int_equal(dt_epoch_claim(dir, step, 2, "ab"), DT_CLAIM_OURS);
    assert_int_equal(dt_epoch_claim(dir, step, 2, "ac"), DT_CLAIM_LOST);
    assert_int_equal(dt_epoch_claim(dir, step, 2, "a"), DT_CLAIM_LOST);
    assert_int_equal(dt_epoch_claim(dir, step, 2, "ab"), DT_CLAIM_OURS);
    assert_int_equal(dt_epoch_claim(dir, step, 3, "ac"), DT_CLAIM_OURS);
    assert_int_equal(count_files(dir), 2);
}

/* FAT, file systems of users, object stores: each has an error of its own. One
 * that can neither link nor rename so has no proposal of anybody.
 */
static void a_file_system_without_links_has_one_proposal(void **state)
{
    static const int errors[] = {EPERM,  EOPNOTSUPP, ENOSYS,
                                 EMLINK, EINVAL,     EACCES};
    const size_t count = sizeof(errors) / sizeof(*errors);
    (void)state;
    for (size_t i = 0; i < count; i++) {
        answers.link = errors[i];
        check_claims(next_dir());
    }
    for (size_t i = 0; i < count; i++) {
        const char *dir = next_dir();
        answers.rename = errors[i];
        assert_int_equal(dt_epoch_claim(dir, step, 2, "ab"), DT_CLAIM_FAILED);
        assert_int_equal(count_files(dir), 0);
    }
}

/* Runs a command of the shell, which finds the scratch directory in $W. */
static bool does(const char *command)
{
    setenv("W", scratch_root, 1);
    return system(command) == 0;
}

static void fat_has_one_proposal(void **state)
{
    (void)state;
    scratch_path("fat"); /* makes the directory */
    if (!does("exec 2>/dev/null >&2; cd $W && mkdir fat && "
              "truncate --size=1M fat.disk && mkfs.vfat fat.disk && "
              "mount -o loop fat.disk fat"))
        skip();
    check_claims(scratch_path("fat"));
    assert_true(does("umount $W/fat"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_file_system_without_links_has_one_proposal,
                               watch),
        cmocka_unit_test_setup(fat_has_one_proposal, watch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
