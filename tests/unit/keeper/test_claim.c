/* SPDX-License-Identifier: Apache-2.0 */
/* test_claim.c - the file of an epoch, on any file system */
#include "config.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "keeper/agree.h"
#include "tests/unit/disk.h"
#include "tests/unit/scratch.h"

static const char step[DT_EPOCH_STEP_BYTES] = "0123456789abcdef";

/* What the file system answers to these calls; 0: it does them. */
static struct {
    int link, rename, create, write;
} answers;

static int answer(const char *call, const char *a, const char *b)
{
    (void)b;
    const bool own = strlen(a) > 7 && a[strlen(a) - 7] == '.';
    return strcmp(call, "link") == 0             ? answers.link
           : strcmp(call, "renameat2") == 0      ? answers.rename
           : strcmp(call, "create") == 0 && !own ? answers.create
           : strcmp(call, "write") == 0 && !own  ? answers.write
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

/* FAT, file systems of users, object stores: each has an error of its own. */
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
        answers.rename = errors[i];
        check_claims(next_dir());
    }
}

/* Whoever comes next may have it. */
static void a_line_that_cannot_be_finished_binds_nobody(void **state)
{
    const char *dir = next_dir();
    (void)state;
    answers.link = EPERM;
    answers.rename = EINVAL;
    answers.create = EROFS;
    assert_int_equal(dt_epoch_claim(dir, step, 2, "ab"), DT_CLAIM_FAILED);
    answers.create = 0;
    answers.write = ENOSPC;
    assert_int_equal(dt_epoch_claim(dir, step, 2, "ab"), DT_CLAIM_FAILED);
    assert_int_equal(count_files(dir), 0);
    answers.write = 0;
    assert_int_equal(dt_epoch_claim(dir, step, 2, "ac"), DT_CLAIM_OURS);
}

static void append(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
}

/* Another node writes it in its place, or was lost meanwhile. */
static void a_part_of_a_line_is_no_proposal(void **state)
{
    const char *dir = next_dir();
    char path[PATH_MAX];
    (void)state;
    assert_int_equal(dt_epoch_claim(dir, step, 1, "ab"), DT_CLAIM_OURS);
    dt_epoch_path(path, dir, step, 2);
    append(path, "a");
    assert_int_equal(dt_epoch_claim(dir, step, 2, "a"), DT_CLAIM_FAILED);
    const pid_t pid = fork();
    if (pid == 0) {
        dt_clock_sleep(0.3);
        append(path, "c\n");
        _exit(0);
    }
    assert_int_equal(dt_epoch_claim(dir, step, 2, "a"), DT_CLAIM_LOST);
    assert_int_equal(dt_epoch_claim(dir, step, 2, "ac"), DT_CLAIM_OURS);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
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
        cmocka_unit_test_setup(a_line_that_cannot_be_finished_binds_nobody,
                               watch),
        cmocka_unit_test_setup(a_part_of_a_line_is_no_proposal, watch),
        cmocka_unit_test_setup(fat_has_one_proposal, watch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
