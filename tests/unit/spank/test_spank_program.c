/* SPDX-License-Identifier: Apache-2.0 */
/* test_spank_program.c - the program of a task: is it there, is it MPI's */
#include "config.h"

#include <elf.h>
#include <link.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "contract/contract.h"
#include "spank/task/task_impl.h"
#include "tests/unit/scratch.h"
#include "tests/unit/spank/spank_stub.h"

static const char runtime[] = "/opt/bin/disttrain";

/* A program that needs two libraries, as a linker would write it. */
static struct program {
    ElfW(Ehdr) head;
    ElfW(Phdr) load, dynamic;
    ElfW(Dyn) entry[4];
    char names[40];
} good;

static int setup(void **state)
{
    (void)state;
    stub_reset();
    spank_setenv(NULL, "SLURM_PROCID", "0", 1);
    spank_setenv(NULL, "SLURM_STEP_NUM_TASKS", "2", 1);
    spank_setenv(NULL, "SLURMD_NODENAME", "n2", 1);
    good = (struct program){
        .head = {.e_phoff = offsetof(struct program, load),
                 .e_phentsize = sizeof(ElfW(Phdr)),
                 .e_phnum = 2},
        .load = {.p_type = PT_LOAD,
                 .p_vaddr = 0x1000,
                 .p_filesz = sizeof(struct program)},
        .dynamic = {.p_type = PT_DYNAMIC,
                    .p_offset = offsetof(struct program, entry),
                    .p_filesz = sizeof(good.entry)},
        .entry = {{.d_tag = DT_NEEDED, .d_un.d_val = 1},
                  {.d_tag = DT_NEEDED, .d_un.d_val = 11},
                  {.d_tag = DT_STRTAB,
                   .d_un.d_ptr = 0x1000 + offsetof(struct program, names)}},
        .names = "\0libc.so.6\0libmpi.so.40",
    };
    memcpy(good.head.e_ident, ELFMAG, SELFMAG);
    good.head.e_ident[EI_CLASS] = sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32;
    return 0;
}

/* "": it needs none of them. */
static const char *needed(const void *program, size_t bytes)
{
    static char library[DTSPANK_LIBRARY_BYTES];
    static const char *const prefixes[] = {"libother", "libmpi", NULL};
    const char *path = scratch_write("program", program, bytes);
    return dtspank_elf_needs(path, prefixes, library) ? library : "";
}

static void a_library_that_a_program_needs_is_found(void **state)
{
    (void)state;
    assert_string_equal(needed(&good, sizeof(good)), "libmpi.so.40");
    good.names[12] = 'x';
    assert_string_equal(needed(&good, sizeof(good)), "");
    assert_string_equal(needed("#!/bin/sh\n", 10), "");
    assert_string_equal(needed("", 0), "");
}

static void the_null_entry_ends_the_dynamic_section(void **state)
{
    (void)state;
    good.entry[3] = good.entry[1];
    good.entry[1] = good.entry[2];
    good.entry[2] = (ElfW(Dyn)){.d_tag = DT_NULL};
    assert_string_equal(needed(&good, sizeof(good)), "");
    good.entry[2] = good.entry[1];
    assert_string_equal(needed(&good, sizeof(good)), "libmpi.so.40");
}

/* Cut anywhere, or with any byte changed: an answer, and no other damage. */
static void a_damaged_program_still_gets_an_answer(void **state)
{
    unsigned char bytes[sizeof(good)];
    (void)state;
    for (size_t n = 0; n < offsetof(struct program, names); n++)
        assert_string_equal(needed(&good, n), "");
    for (size_t i = 0; i < sizeof(good); i++) {
        memcpy(bytes, &good, sizeof(good));
        bytes[i] ^= 0xff;
        needed(bytes, sizeof(bytes));
    }
    good.head.e_phnum = UINT16_MAX;
    assert_string_equal(needed(&good, sizeof(good)), "");
}

static void what_is_no_file_needs_no_library(void **state)
{
    char library[DTSPANK_LIBRARY_BYTES];
    static const char *const prefixes[] = {"", NULL};
    const char *fifo = scratch_path("fifo");
    (void)state;
    assert_int_equal(mkfifo(fifo, 0600), 0);
    assert_false(dtspank_elf_needs(fifo, prefixes, library));
    assert_false(dtspank_elf_needs(scratch_path("no"), prefixes, library));
}

static void warn(const char *program, const char *said)
{
    char word[600];
    snprintf(word, sizeof(word), "%s", program);
    stub.argv[0] = word;
    stub.said[0] = '\0';
    dtspank_program_warn_mpi(NULL, runtime);
    stub.argv[0] = NULL;
    assert_string_equal(stub.said, said);
}

static void an_mpi_program_without_mpi_brings_a_warning(void **state)
{
    const char *path = scratch_write("program", &good, sizeof(good));
    char dir[512];
    char said[1024];
    (void)state;
    assert_int_equal(chmod(path, 0755), 0);
    snprintf(said, sizeof(said),
             "disttrain: warning: %s is linked with libmpi.so.40, but this "
             "step has no MPI, and each rank may be alone: give srun "
             "--mpi=pmix\n",
             path);
    warn(path, said);
    snprintf(dir, sizeof(dir),
             "/nowhere:%.*s:", (int)(strlen(path) - strlen("/program")), path);
    spank_setenv(NULL, "PATH", dir, 1);
    const char *name = "disttrain: warning: program is linked with";
    stub.argv[0] = "program";
    dtspank_program_warn_mpi(NULL, runtime);
    assert_non_null(strstr(stub.said, name));
    /* an empty part of PATH is the directory of the task */
    *strrchr(dir, ':') = '\0';
    assert_int_equal(chdir(dir + strlen("/nowhere:")), 0);
    spank_setenv(NULL, "PATH", "/nowhere:", 1);
    stub.said[0] = '\0';
    dtspank_program_warn_mpi(NULL, runtime);
    assert_non_null(strstr(stub.said, name));
    assert_int_equal(chdir("/"), 0);
    warn("no-program", "");
    warn("/bin/sh", "");
    spank_setenv(NULL, "SLURM_STEP_NUM_TASKS", "1", 1);
    warn(path, "");
    spank_setenv(NULL, "SLURM_STEP_NUM_TASKS", "2", 1);
    spank_setenv(NULL, "SLURM_PROCID", "1", 1);
    warn(path, "");
}

/* launch.command is what the runtime is about to become. */
static void the_warning_looks_at_the_configured_command(void **state)
{
    char words[600];
    const char *path = scratch_write("program", &good, sizeof(good));
    (void)state;
    warn("/usr/bin/disttrain", "");
    snprintf(words, sizeof(words), "%s\n-x", path);
    spank_setenv(NULL, DT_ENV_COMMAND, words, 1);
    stub.argv[0] = "disttrain";
    dtspank_program_warn_mpi(NULL, runtime);
    assert_non_null(strstr(stub.said, "/program is linked with libmpi"));
}

static void a_step_with_mpi_brings_no_warning(void **state)
{
    static const char *const names[] = {"PMIX_RANK", "PMI_RANK", "PMI_FD",
                                        "PMI_SIZE", "PALS_RANKID"};
    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        setup(NULL);
        spank_setenv(NULL, names[i], "0", 1);
        warn(scratch_write("program", &good, sizeof(good)), "");
    }
}

static void check(const char *program, const char *problem)
{
    struct dt_error err = {.text = ""};
    char word[600];
    snprintf(word, sizeof(word), "%s", program);
    stub.argv[0] = word;
    assert_int_equal(dtspank_program_check(NULL, runtime, &err),
                     problem[0] ? -1 : 0);
    assert_string_equal(err.text, problem);
    stub.argv[0] = NULL;
}

static void a_runtime_that_cannot_run_names_its_node(void **state)
{
    const char *path = scratch_write("disttrain", "", 0);
    char problem[1024];
    (void)state;
    check("/no/bin/disttrain", "no runtime at /no/bin/disttrain on n2: install "
                               "disttrain there");
    snprintf(problem, sizeof(problem), "cannot run %s on n2: Permission denied",
             path);
    check(path, problem);
    assert_int_equal(chmod(path, 0755), 0);
    check(path, "");
    check("/no/bin/prog", ""); /* Slurm says it well enough */
}

/* As batch scripts name it. */
static void a_runtime_that_is_not_in_path_names_its_node(void **state)
{
    const char *path = scratch_write("disttrain", "", 0);
    struct dt_error err;
    char dirs[1024], problem[1024];
    (void)state;
    snprintf(dirs, sizeof(dirs), "/nowhere:%.*s",
             (int)(strlen(path) - strlen("/disttrain")), path);
    spank_setenv(NULL, "PATH", "/nowhere", 1);
    check("disttrain", "no disttrain in PATH on n2, and no runtime at "
                       "/opt/bin/disttrain: install disttrain there");
    assert_int_equal(chmod(path, 0755), 0);
    stub.argv[0] = "disttrain";
    assert_int_equal(dtspank_program_check(NULL, path, &err), -1);
    snprintf(problem, sizeof(problem), "no disttrain in PATH on n2: write %s",
             path);
    assert_string_equal(err.text, problem);
    spank_setenv(NULL, "PATH", dirs, 1);
    check("disttrain", "");
    check("other", "");
}

/* As in a script with #SBATCH --export=NONE. */
static void a_task_without_path_is_told_what_to_write(void **state)
{
    const char *path = scratch_write("disttrain", "", 0);
    char problem[1024], dir[1024], before[1024];
    struct dt_error err;
    (void)state;
    check("disttrain", "no disttrain in PATH on n2, and no runtime at "
                       "/opt/bin/disttrain: install disttrain there");
    assert_int_equal(chmod(path, 0755), 0);
    stub.argv[0] = "disttrain";
    assert_int_equal(dtspank_program_check(NULL, path, &err), -1);
    snprintf(problem, sizeof(problem),
             "the task has no PATH on n2, as with --export=NONE: write %s, or "
             "give srun --export=ALL",
             path);
    assert_string_equal(err.text, problem);
    /* what is in its directory, Slurm finds */
    snprintf(dir, sizeof(dir), "%.*s",
             (int)(strlen(path) - strlen("/disttrain")), path);
    assert_non_null(getcwd(before, sizeof(before)));
    assert_int_equal(chdir(dir), 0);
    check("disttrain", "");
    assert_int_equal(chdir(before), 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup(name, setup)
    const struct CMUnitTest tests[] = {
        TEST(a_library_that_a_program_needs_is_found),
        TEST(the_null_entry_ends_the_dynamic_section),
        TEST(a_damaged_program_still_gets_an_answer),
        TEST(what_is_no_file_needs_no_library),
        TEST(an_mpi_program_without_mpi_brings_a_warning),
        TEST(the_warning_looks_at_the_configured_command),
        TEST(a_step_with_mpi_brings_no_warning),
        TEST(a_runtime_that_cannot_run_names_its_node),
        TEST(a_runtime_that_is_not_in_path_names_its_node),
        TEST(a_task_without_path_is_told_what_to_write),
    };
    return cmocka_run_group_tests_name("spank_program", tests, NULL, NULL);
}
