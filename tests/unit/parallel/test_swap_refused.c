/* SPDX-License-Identifier: Apache-2.0 */
/* test_swap_refused.c - what a kernel or a file system may refuse a swap */
#undef _FORTIFY_SOURCE /* its inline functions have the names of ours */
#include "config.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "tests/unit/count.h"
#include "tests/unit/drive.h"

/* What the file system is to say from now on; these functions of libc are
 * replaced below.
 */
static struct {
    unsigned long type; /* 0: what is true */
    bool tells_alignment;
    unsigned alignment;
    int no_direct, no_space; /* an errno, or 0 */
} lies;

int fstatfs(int fd, struct statfs *fs)
{
    int rc = (int)syscall(SYS_fstatfs, fd, fs);
    if (lies.type)
        fs->f_type = (__fsword_t)lies.type;
    return rc;
}

int fcntl(int fd, int command, ...)
{
    va_list ap;
    va_start(ap, command);
    long argument = va_arg(ap, long);
    va_end(ap);
    if (command == F_SETFL && lies.no_direct) {
        errno = lies.no_direct;
        return -1;
    }
    return (int)syscall(SYS_fcntl, fd, command, argument);
}

int fallocate(int fd, int mode, off_t offset, off_t bytes)
{
    errno = lies.no_space;
    return lies.no_space ? -1
                         : (int)syscall(SYS_fallocate, fd, mode, offset, bytes);
}

#ifdef STATX_DIOALIGN
int statx(int fd, const char *path, int flags, unsigned mask, struct statx *stx)
{
    int rc = (int)syscall(SYS_statx, fd, path, flags, mask, stx);
    if (lies.tells_alignment) {
        stx->stx_mask |= STATX_DIOALIGN;
        stx->stx_dio_mem_align = lies.alignment;
        stx->stx_dio_offset_align = lies.alignment;
    }
    return rc;
}
#endif

static int open_count(void)
{
    return names_in("/proc/self/fd");
}

static void expect_refusal(const struct dt_swap_options *options, int status,
                           const char *text)
{
    struct dt_error err = {0};
    int before = open_count();
    assert_null(dt_swap_create(drive(), options, &err));
    if (err.status != status || !strstr(err.text, text) ||
        !strstr(err.text, drive()))
        fail_msg("expected %d \"%s\", got %d \"%s\"", status, text, err.status,
                 err.text);
    assert_int_equal(names_in(drive()), 0);
    assert_int_equal(open_count(), before);
}

static void expect_swap(const struct dt_swap_options *options)
{
    struct dt_error err;
    dt_swap_ticket_t ticket;
    struct dt_swap *swap = dt_swap_create(drive(), options, &err);
    if (!swap)
        fail_msg("%s", err.text);
    fill(dt_swap_buffer(swap, 0), 5);
    assert_int_equal(dt_swap_start_write(swap, 3, 0, &ticket, &err), 0);
    assert_int_equal(dt_swap_start_read(swap, 3, 1, &ticket, &err), 0);
    if (dt_swap_wait(swap, ticket, &err) < 0)
        fail_msg("%s", err.text);
    assert_true(holds(dt_swap_buffer(swap, 1), 5));
    dt_swap_destroy(swap);
}

static void a_file_system_in_memory_is_refused(void **state)
{
    const struct dt_swap_options options = small_swap();
    struct statfs fs;
    (void)state;
    lies.type = 0x01021994;
    expect_refusal(&options, EX_CONFIG,
                   ": tmpfs keeps files in memory, which offloading is to "
                   "save: name a directory on a local drive");
    lies.type = 0x858458f6;
    expect_refusal(&options, EX_CONFIG, ": ramfs keeps files in memory");
    lies.type = 0;
    if (statfs("/dev/shm", &fs) == 0 && fs.f_type == 0x01021994) {
        struct dt_error err;
        assert_null(dt_swap_create("/dev/shm", &options, &err));
        assert_int_equal(err.status, EX_CONFIG);
        assert_non_null(strstr(err.text, "tmpfs keeps files in memory"));
    }
}

static void a_file_system_without_direct_io_is_refused(void **state)
{
    const struct dt_swap_options options = small_swap();
    (void)state;
    lies.no_direct = EINVAL;
    expect_refusal(&options, EX_CONFIG,
                   ": the file system refuses direct I/O (O_DIRECT: Invalid "
                   "argument): name a directory on a local drive");
    lies.no_direct = 0;
#ifdef STATX_DIOALIGN
    lies.tells_alignment = true;
    lies.alignment = 0;
    expect_refusal(&options, EX_CONFIG,
                   ": the file system has no direct I/O for this file");
#endif
}

static void the_alignment_is_that_of_the_file_system(void **state)
{
#ifdef STATX_DIOALIGN
    struct dt_swap_options options = small_swap();
    (void)state;
    lies.tells_alignment = true;
    lies.alignment = 2 * BLOCK;
    expect_refusal(&options, EX_CONFIG,
                   ": expected blocks of a multiple of 131072 bytes, as its "
                   "file system wants them, and not of 65536");
    options.block_bytes = 4 * BLOCK;
    expect_swap(&options);
    lies.alignment = 512; /* a page is never wrong */
    options.block_bytes = 4096;
    expect_swap(&options);
    options.block_bytes = 512;
    expect_refusal(&options, EX_CONFIG,
                   "expected blocks of a multiple of 4096");
#else
    (void)state;
    skip();
#endif
}

static void space_is_reserved_or_refused_at_once(void **state)
{
    struct dt_swap_options options = small_swap();
    (void)state;
    lies.no_space = ENOSPC;
    expect_refusal(&options, EX_CANTCREAT, ": cannot reserve 1.1 MB where ");
    expect_refusal(&options, EX_CANTCREAT,
                   " MB are free: No space left on device");
    lies.no_space = EDQUOT;
    expect_refusal(&options, EX_CANTCREAT, " free: Disk quota exceeded");
    lies.no_space = EOPNOTSUPP;
    expect_refusal(&options, EX_CONFIG,
                   ": the file system cannot reserve space (fallocate): name "
                   "a directory on a local drive");
    /* more than there is; fallocate would have agreed */
    lies.no_space = 0;
    options.tile_bytes = (size_t)1 << 60;
    options.tile_count = 1;
    expect_refusal(&options, EX_CANTCREAT,
                   ": cannot reserve 1152921504606.8 MB where ");
}

static void the_directory_must_be_there(void **state)
{
    const struct dt_swap_options options = small_swap();
    struct dt_error err;
    (void)state;
    assert_null(dt_swap_create("/nowhere", &options, &err));
    assert_int_equal(err.status, EX_CANTCREAT);
    assert_string_equal(err.text, "/nowhere: cannot create a file in it: No "
                                  "such file or directory");
}

/* Forbids io_uring to this process, as containers do. */
static void forbid_uring(int error)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
        BPF_STMT(BPF_RET | BPF_K,
                 SECCOMP_RET_ERRNO | ((unsigned)error & SECCOMP_RET_DATA)),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = sizeof(filter) / sizeof(*filter),
                                 .filter = filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0)
        abort();
}

/* Runs body(argument) in a process of its own; its lines on stderr. */
static char *run_apart(void (*body)(int argument), int argument)
{
    static char text[8192];
    FILE *lines = tmpfile();
    int status;
    if (!lines)
        abort();
    drive();
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(fileno(lines), STDERR_FILENO);
        body(argument);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    rewind(lines);
    text[fread(text, 1, sizeof(text) - 1, lines)] = '\0';
    fclose(lines);
    if (status != 0)
        fail_msg("status %x: %s", (unsigned)status, text);
    return text;
}

static void create_without_uring(int error)
{
    const struct dt_swap_options options = small_swap();
    struct dt_error err;
    forbid_uring(error);
    if (dt_swap_create(drive(), &options, &err) || err.status != EX_CONFIG)
        abort();
    fprintf(stderr, "%s", err.text);
}

static void io_uring_that_is_forbidden_is_explained(void **state)
{
    const int errors[] = {EPERM, EACCES, ENOSYS};
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        const char *text = run_apart(create_without_uring, errors[i]);
        assert_non_null(strstr(text, "io_uring is not allowed here ("));
        assert_non_null(strstr(text, strerror(errors[i])));
        assert_non_null(strstr(text, "kernel.io_uring_disabled"));
        assert_non_null(strstr(text, "seccomp profile"));
    }
}

/* No more locked memory than `bytes`, also for root. */
static void limit_locked_memory(int bytes)
{
    struct rlimit limit = {(rlim_t)bytes, (rlim_t)bytes};
    struct __user_cap_header_struct header = {.version =
                                                  _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2];
    if (setrlimit(RLIMIT_MEMLOCK, &limit) < 0 ||
        syscall(SYS_capget, &header, data) < 0)
        abort();
    data[0].effective &= ~(1u << CAP_IPC_LOCK);
    if (syscall(SYS_capset, &header, data) < 0)
        abort();
}

static void swap_with_limit(int bytes)
{
    const struct dt_swap_options options = small_swap();
    limit_locked_memory(bytes);
    for (int i = 0; i < 2; i++)
        expect_swap(&options);
}

static void without_locked_memory_it_goes_on_and_warns_once(void **state)
{
    (void)state;
    const char *text = run_apart(swap_with_limit, 64 << 10);
    assert_int_equal(count_of(text, "\n"), 1);
    assert_non_null(strstr(text, "does not register 6.3 MB of buffers"));
    assert_non_null(strstr(text, "raise `ulimit -l`"));
    assert_non_null(strstr(text, "PropagateResourceLimitsExcept=MEMLOCK"));
}

static void swap_on(int type)
{
    const struct dt_swap_options options = small_swap();
    lies.type = (unsigned)type;
    for (int i = 0; i < 2; i++)
        expect_swap(&options);
}

static void a_network_file_system_is_warned_of_once(void **state)
{
    (void)state;
    const char *text = run_apart(swap_on, 0x6969);
    assert_int_equal(count_of(text, "\n"), 1);
    assert_non_null(strstr(text, " is on a network (NFS): "));
    text = run_apart(swap_on, 0x0bd00bd0);
    assert_non_null(strstr(text, " is on a network (Lustre): "));
    assert_string_equal(run_apart(swap_on, 0xef53), "");
}

static int setup(void **state)
{
    (void)state;
    memset(&lies, 0, sizeof(lies));
    return 0;
}

#define CASE(test) cmocka_unit_test_setup(test, setup)

/* Without liburing there is no swap, and the error says what to install. */
static void a_build_without_liburing_names_the_package(void **state)
{
    const struct dt_swap_options options = small_swap();
    (void)state;
    expect_refusal(&options, EX_CONFIG,
                   ": this disttrain was built without "
                   "liburing, ");
    expect_refusal(&options, EX_CONFIG, "(Debian: liburing-dev)");
}

int main(void)
{
    const struct CMUnitTest without[] = {
        CASE(a_build_without_liburing_names_the_package),
    };
    const struct CMUnitTest tests[] = {
        CASE(a_file_system_in_memory_is_refused),
        CASE(a_file_system_without_direct_io_is_refused),
        CASE(the_alignment_is_that_of_the_file_system),
        CASE(space_is_reserved_or_refused_at_once),
        CASE(the_directory_must_be_there),
        CASE(io_uring_that_is_forbidden_is_explained),
        CASE(without_locked_memory_it_goes_on_and_warns_once),
        CASE(a_network_file_system_is_warned_of_once),
    };
#ifndef HAVE_URING
    return cmocka_run_group_tests_name("swap_refused", without, NULL, NULL);
#endif
    (void)without;
    if (!may_use_uring())
        return 0;
    return cmocka_run_group_tests_name("swap_refused", tests, NULL, NULL);
}
