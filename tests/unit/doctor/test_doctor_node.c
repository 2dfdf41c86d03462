/* SPDX-License-Identifier: Apache-2.0 */
/* test_doctor_node.c - the checks of one node, on trees made for them */
#include "config.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "doctor/doctor_impl.h"
#include "tests/unit/scratch.h"

#define GIB (UINT64_C(1) << 30)

static char text[8192];
static struct dt_doctor_notes notes;
static char root[256];

static int setup(void **state)
{
    (void)state;
    snprintf(root, sizeof(root), "%s", scratch_path("root"));
    dt_file_remove_tree(root, NULL);
    dt_file_mkdirs(root, NULL);
    memset(text, 0, sizeof(text));
    notes = (struct dt_doctor_notes){fmemopen(text, sizeof(text), "w"), 3};
    return notes.file ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    return fclose(notes.file);
}

/* Writes a file of the tree, with its folders. */
static const char *put(const char *name, const char *content)
{
    static char path[512];
    snprintf(path, sizeof(path), "%s%s", root, name);
    *strrchr(path, '/') = '\0';
    assert_int_equal(dt_file_mkdirs(path, NULL), 0);
    snprintf(path, sizeof(path), "%s%s", root, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(content, file);
    fclose(file);
    return path;
}

static void forget(void)
{
    fflush(notes.file);
    rewind(notes.file);
    memset(text, 0, sizeof(text));
}

/* What a check has written, and nothing else. */
static void expect(const char *want)
{
    assert_string_equal(text, want);
    forget();
}

static void expect_part(const char *want)
{
    if (!strstr(text, want))
        fail_msg("expected \"%s\" in:\n%s", want, text);
}

static void missing_gpus_and_drivers_are_reported(void **state)
{
    (void)state;
    dt_doctor_check_gpus(&notes, root, 0);
    expect("3 cell driver -\n3 cell gpus -\n");
    dt_doctor_check_gpus(&notes, root, 2);
    expect("3 cell driver -\n3 cell gpus -\n"
           "3 bad gpus Slurm gives the job GPUs there, but no NVIDIA driver "
           "is loaded: modprobe nvidia, or correct gres.conf\n");
    put("/proc/driver/nvidia/version",
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  "
        "Release Build\nGCC version: gcc 12.2.0\n");
    put("/dev/nvidia0", "");
    put("/dev/nvidia11", "");
    put("/dev/nvidiactl", "");
    put("/dev/nvidia-uvm", "");
    dt_doctor_check_gpus(&notes, root, 2);
    expect("3 cell driver 580.65.06\n3 cell gpus 2\n");
    dt_doctor_check_gpus(&notes, root, 8);
    expect("3 cell driver 580.65.06\n3 cell gpus 2\n"
           "3 bad gpus only 2 of the job's 8 GPUs have a /dev/nvidiaN: see "
           "dmesg (Xid) and nvidia-smi -L, and drain the node\n");
    put("/proc/driver/nvidia/version", "nonsense");
    dt_doctor_check_gpus(&notes, root, 0);
    expect("3 cell driver unknown\n3 cell gpus 2\n");
}

static void amd_gpus_are_recognized(void **state)
{
    (void)state;
    put("/dev/kfd", "");
    dt_doctor_check_gpus(&notes, root, 4);
    expect("3 cell driver -\n3 cell gpus AMD\n");
}

static void an_inactive_rdma_port_is_reported(void **state)
{
    (void)state;
    assert_int_equal(dt_doctor_check_rdma(&notes, root), 0);
    expect("3 cell rdma -\n");
    put("/sys/class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE\n");
    put("/sys/class/infiniband/mlx5_0/ports/2/state", "1: DOWN\n");
    assert_int_equal(dt_doctor_check_rdma(&notes, root), 2);
    expect("3 warn rdma port 2 of mlx5_0 is \"1: DOWN\", not ACTIVE: check the "
           "cable and the subnet manager\n"
           "3 cell rdma 1/2\n");
}

static void unsuitable_resource_limits_are_reported(void **state)
{
    const struct dt_doctor_limits good = {
        .memlock = 8 << 20,
        .nofile = 4096,
        .core = 0,
        .stack = 8 << 20,
        .dump_bytes = 64 * GIB,
        .room_bytes = GIB,
    };
    struct dt_doctor_limits limits = good;
    (void)state;
    dt_doctor_check_limits(&notes, &limits);
    expect("3 cell limits ok\n");
    limits.rdma = true;
    dt_doctor_check_limits(&notes, &limits);
    expect("3 bad limits RDMA needs to pin memory, and memlock is 8.0 MiB: "
           "ulimit -l unlimited before srun; LimitMEMLOCK=infinity for slurmd, "
           "and PropagateResourceLimitsExcept=MEMLOCK\n"
           "3 cell limits memlock\n");
    limits.memlock = RLIM_INFINITY;
    limits.nofile = 1024;
    dt_doctor_check_limits(&notes, &limits);
    expect("3 warn limits a process may open only 1024 files: ulimit -n 4096 "
           "before srun\n"
           "3 cell limits nofile\n");
    limits = good;
    limits.stack = 1 << 20;
    dt_doctor_check_limits(&notes, &limits);
    expect("3 warn limits a stack may have only 1.0 MiB: ulimit -s 8192\n"
           "3 cell limits stack\n");
    limits = good;
    limits.core = RLIM_INFINITY;
    dt_doctor_check_limits(&notes, &limits);
    expect("3 warn limits a core file may have 64 GiB, and the working "
           "directory has 1.0 GiB left: ulimit -c 0\n"
           "3 cell limits core\n");
    limits.dump_bytes = 0;
    limits.stack = RLIM_INFINITY;
    limits.nofile = RLIM_INFINITY;
    dt_doctor_check_limits(&notes, &limits);
    expect("3 cell limits ok\n");
}

static void only_plain_core_patterns_dump_to_files(void **state)
{
    (void)state;
    assert_false(dt_doctor_dumps_to_file(root));
    put("/proc/sys/kernel/core_pattern", "core.%p\n");
    assert_true(dt_doctor_dumps_to_file(root));
    put("/proc/sys/kernel/core_pattern", "|/usr/lib/systemd-coredump %P\n");
    assert_false(dt_doctor_dumps_to_file(root));
}

static void full_and_nearly_full_volumes_are_reported(void **state)
{
    struct dt_doctor_volume v[2] = {
        {.path = "/a", .total_bytes = 500 * GIB, .free_bytes = 200 * GIB},
        {.path = "/b", .total_bytes = 5000 * GIB, .free_bytes = 120 * GIB},
    };
    (void)state;
    dt_doctor_check_space(&notes, v, 2);
    expect("3 cell space 120 GiB\n");
    v[0].free_bytes = 20 * GIB;
    v[1].free_bytes = GIB / 2;
    dt_doctor_check_space(&notes, v, 2);
    expect("3 warn space /a has only 20 GiB left\n"
           "3 warn space /b has only 512 MiB left\n"
           "3 cell space 512 MiB\n");
    v[0].free_bytes = 0;
    v[1] = (struct dt_doctor_volume){.path = "/b",
                                     .total_bytes = 50 * GIB,
                                     .free_bytes = 40 * GIB,
                                     .total_inodes = 10};
    dt_doctor_check_space(&notes, v, 2);
    expect("3 bad space /a is full: remove files there\n"
           "3 bad space /b has no inodes left: remove files there\n"
           "3 cell space 0 B\n");
    dt_doctor_volume_read(&v[0], "/no/such/folder");
    dt_doctor_check_space(&notes, v, 1);
    expect("3 bad space /no/such/folder: No such file or directory\n"
           "3 cell space 0 B\n");
    dt_doctor_volume_read(&v[0], root);
    assert_int_equal(v[0].error, 0);
    assert_true(v[0].total_bytes > 0);
}

static void scarce_memory_is_reported(void **state)
{
    (void)state;
    assert_int_equal(dt_doctor_check_memory(&notes, root), 0);
    expect("3 cell memory -\n");
    put("/proc/meminfo", "MemTotal:  67108864 kB\nMemFree: 1 kB\n"
                         "MemAvailable:  6710887 kB\n");
    assert_int_equal(dt_doctor_check_memory(&notes, root), 64 * GIB);
    expect("3 cell memory 6.4 GiB\n");
    put("/proc/meminfo", "MemTotal:  67108864 kB\nMemAvailable: 1048576 kB\n");
    dt_doctor_check_memory(&notes, root);
    expect("3 cell memory 1.0 GiB\n"
           "3 warn memory only 1.0 GiB of memory is available, less than a "
           "tenth: who uses it? (ps, /dev/shm)\n");
}

static void load_above_the_processor_count_is_reported(void **state)
{
    (void)state;
    dt_doctor_check_load(&notes, root, 4);
    expect("3 cell load -\n");
    put("/proc/loadavg", "4.00 9.00 9.00 1/99 7\n");
    dt_doctor_check_load(&notes, root, 4);
    expect("3 cell load 4.0/4\n");
    dt_doctor_check_load(&notes, root, 3);
    expect("3 cell load 4.0/3\n"
           "3 warn load the load is above the number of CPUs: another "
           "program uses the CPUs (see top), and ranks wait for them; a small "
           "model is then fastest with OMP_NUM_THREADS=1\n");
}

/* Files of the tree belong to somebody who is not root. */
static uid_t user(void)
{
    return geteuid() != 0 ? geteuid() : 60900;
}

static void give(const char *path)
{
    if (geteuid() == 0)
        assert_int_equal(lchown(path, user(), (gid_t)-1), 0);
}

/* A process that began 50 s ago and has used some ticks of a CPU. */
static void put_process(int pid, const char *command, int tty, int ticks,
                        const char *job)
{
    char name[64];
    char content[256];
    char environment[128];
    long hz = sysconf(_SC_CLK_TCK);
    snprintf(name, sizeof(name), "/proc/%d/stat", pid);
    snprintf(content, sizeof(content),
             "%d (%s) S 1 %d %d %d -1 4194560 1 0 0 0 %d 0 0 0 20 0 1 0 %ld 0",
             pid, command, pid, pid, tty, ticks, 50 * hz);
    put(name, content);
    snprintf(name, sizeof(name), "/proc/%d/environ", pid);
    snprintf(environment, sizeof(environment), "HOME=/%s%s",
             job ? "\nSLURM_JOB_ID=" : "", job ? job : "");
    const char *path = put(name, environment);
    FILE *file = fopen(path, "r+");
    assert_non_null(file);
    if (job) { /* as the kernel has it, with NUL between entries */
        fseek(file, (long)strlen("HOME=/"), SEEK_SET);
        fputc('\0', file);
    }
    fclose(file);
    snprintf(content, sizeof(content), "%.200s/proc/%d", root, pid);
    give(content);
}

static void put_descriptor(int pid, int fd, const char *target)
{
    char path[512];
    snprintf(path, sizeof(path), "%s/proc/%d/fd", root, pid);
    dt_file_mkdirs(path, NULL);
    snprintf(path, sizeof(path), "%s/proc/%d/fd/%d", root, pid, fd);
    assert_int_equal(symlink(target, path), 0);
}

static void busy_processes_of_no_running_job_are_reported(void **state)
{
    int hz = (int)sysconf(_SC_CLK_TCK);
    (void)state;
    put("/proc/uptime", "100.00 1.00\n");
    put_process(10, "python (train)", 0, 25 * hz, NULL);
    put_process(11, "idle", 0, hz, NULL);
    put_process(12, "shell", 1025, 40 * hz, NULL);
    put_process(13, "mine", 0, 40 * hz, "7");
    put_process(14, "other", 0, 40 * hz, "8");
    put_process(15, "dead", 0, 40 * hz, "9");
    put("/proc/16/cmdline", "slurmstepd: [8.0]");
    dt_doctor_check_stale(&notes, root, user(), "7");
    expect_part("3 warn stale your process 10 (python (train)) is in no "
                "running job and uses a CPU: kill 10\n");
    expect_part("3 warn stale your process 15 (dead) is in no running job and "
                "uses a CPU: kill 15\n");
    expect_part("3 cell stale 2\n");
    forget();
    dt_doctor_check_stale(&notes, root, user(), NULL);
    expect("3 cell stale 0\n");
    dt_doctor_check_stale(&notes, root, 0, "7");
    expect("3 cell stale -\n");
}

static void stale_holders_of_gpus_and_ports_are_reported(void **state)
{
    char line[256];
    (void)state;
    put("/proc/uptime", "100.00 1.00\n");
    put_process(10, "python", 0, 0, "9");
    put_descriptor(10, 3, "/dev/nvidia3");
    put_process(11, "store", 0, 0, NULL);
    put_descriptor(11, 4, "socket:[4711]");
    put_process(12, "client", 0, 0, NULL);
    put_descriptor(12, 4, "socket:[4712]");
    put_descriptor(12, 5, "/dev/nvidiactl");
    put_process(13, "srun", 0, 0, NULL);
    put_descriptor(13, 4, "socket:[4711]");
    snprintf(line, sizeof(line),
             "  sl  local_address rem_address st ...\n"
             "   0: 00000000:7148 00000000:0000 0A 0:0 00:00 0 %u 0 4711 1\n"
             "   1: 00000000:7149 01000000:0016 01 0:0 00:00 0 %u 0 4712 1\n",
             (unsigned)user(), (unsigned)user());
    put("/proc/net/tcp", line);
    dt_doctor_check_stale(&notes, root, user(), "7");
    expect_part("3 bad stale your process 10 (python) is in no running job and "
                "holds a GPU: kill -9 10\n");
    expect_part("3 warn stale your process 11 (store) is in no running job and "
                "listens on a port: kill 11\n");
    expect_part("3 cell stale 2\n");
}

static void unused_shared_memory_is_reported(void **state)
{
    char line[256];
    (void)state;
    give(put("/dev/shm/torch_1", "12345"));
    give(put("/dev/shm/mapped", "1"));
    give(put("/dev/shm/open", "1"));
    put_process(10, "python", 0, 0, "7");
    put("/proc/10/maps",
        "7f00-7f01 r--p 0 08:01 1 /usr/lib/libc.so.6\n"
        "7f02-7f03 rw-s 0 00:1a 2                   /dev/shm/mapped\n");
    put_descriptor(10, 3, "/dev/shm/open");
    snprintf(line, sizeof(line),
             "key shmid perms size cpid lpid nattch uid gid\n"
             "0 32 1600 4096 1 1 0 %u 1\n0 33 1600 4096 1 1 2 %u 1\n"
             "0 34 1600 4096 1 1 0 %u 1\n",
             (unsigned)user(), (unsigned)user(), (unsigned)user() + 1);
    put("/proc/sysvipc/shm", line);
    dt_doctor_check_stale(&notes, root, user(), "7");
    expect("3 warn stale /dev/shm has 1 file of yours (5 B) that no process "
           "uses: rm /dev/shm/torch_1\n"
           "3 warn stale 1 System V shared memory segment of yours that no "
           "process uses: ipcrm -m 32\n"
           "3 cell stale 2\n");
    unlink(put("/proc/10/maps", ""));
    dt_doctor_check_stale(&notes, root, user(), "7");
    expect_part("/dev/shm has 2 files of yours (6 B) that no process uses: rm "
                "/dev/shm/");
}

/* One line a note, whatever the name of a file is. */
static void a_note_is_always_one_short_line(void **state)
{
    char huge[2000];
    (void)state;
    dt_doctor_warn(&notes, DT_DOCTOR_SPACE, "a\nb\033[1mc");
    expect("3 warn space a?b?[1mc\n");
    memset(huge, 'x', sizeof(huge) - 1);
    huge[sizeof(huge) - 1] = '\0';
    dt_doctor_bad(&notes, DT_DOCTOR_SPACE, "%s", huge);
    assert_true(strlen(text) < 1000);
}

static void an_address_has_its_interface_and_names_resolve(void **state)
{
    union dt_net_address address;
    char name[64] = "";
    const char *why;
    (void)state;
    dt_net_parse(&address, "127.0.0.1", 1);
    assert_true(dt_doctor_interface(&address, name, sizeof(name)));
    assert_string_equal(name, "lo");
    dt_net_parse(&address, "192.0.2.1", 1);
    assert_false(dt_doctor_interface(&address, name, sizeof(name)));
    assert_true(dt_doctor_resolve("127.0.0.2", 2000, &address, &why));
    assert_false(dt_doctor_resolve("a..b", 2000, &address, &why));
    assert_non_null(why);
}

static void a_host_name_that_resolves_wrongly_is_reported(void **state)
{
    char address[DT_NET_ADDRESS_BYTES];
    (void)state;
    dt_doctor_own_address(&notes, "127.0.1.1", NULL, address);
    assert_string_equal(address, "127.0.0.1");
    expect("3 bad interface its own name resolves to 127.0.1.1 there, where no "
           "other node reaches it: correct /etc/hosts\n");
    dt_doctor_own_address(&notes, "192.0.2.1", "127.0.0.1", address);
    assert_string_equal(address, "127.0.0.1");
    expect("3 bad interface its own name resolves to 192.0.2.1, which is not "
           "one of its addresses: correct /etc/hosts or DNS\n");
    dt_doctor_own_address(&notes, "a..b", "nonsense", address);
    expect_part("3 bad interface its own name does not resolve there (");
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(missing_gpus_and_drivers_are_reported),
        TEST(amd_gpus_are_recognized),
        TEST(an_inactive_rdma_port_is_reported),
        TEST(unsuitable_resource_limits_are_reported),
        TEST(full_and_nearly_full_volumes_are_reported),
        TEST(only_plain_core_patterns_dump_to_files),
        TEST(scarce_memory_is_reported),
        TEST(load_above_the_processor_count_is_reported),
        TEST(busy_processes_of_no_running_job_are_reported),
        TEST(stale_holders_of_gpus_and_ports_are_reported),
        TEST(a_note_is_always_one_short_line),
        TEST(unused_shared_memory_is_reported),
        TEST(an_address_has_its_interface_and_names_resolve),
        TEST(a_host_name_that_resolves_wrongly_is_reported),
    };
    return cmocka_run_group_tests_name("doctor_node", tests, NULL, NULL);
}
