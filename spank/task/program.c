/* SPDX-License-Identifier: Apache-2.0 */
/* program.c - checks the program that a task is about to execute */
#include "config.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/str.h"
#include "contract/contract.h"
#include "spank/task/task_impl.h"

enum {
    SEGMENTS_MAX = 64,
    ENTRIES_MAX = 512,
};

struct image {
    int fd;
    size_t segments;
    ElfW(Phdr) segment[SEGMENTS_MAX];
};

static bool read_at(const struct image *image, uint64_t offset, void *to,
                    size_t bytes)
{
    return offset <= INT64_MAX &&
           pread(image->fd, to, bytes, (off_t)offset) == (ssize_t)bytes;
}

static bool read_segments(struct image *image)
{
    ElfW(Ehdr) head;
    const unsigned char class = sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32;
    if (!read_at(image, 0, &head, sizeof(head)) ||
        memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 ||
        head.e_ident[EI_CLASS] != class ||
        head.e_phentsize != sizeof(image->segment[0]) ||
        head.e_phnum > SEGMENTS_MAX)
        return false;
    image->segments = head.e_phnum;
    return read_at(image, head.e_phoff, image->segment,
                   image->segments * sizeof(image->segment[0]));
}

/* Returns the file offset of an address of the program; 0: not in the file. */
static uint64_t file_offset(const struct image *image, uint64_t address)
{
    for (size_t i = 0; i < image->segments; i++) {
        const ElfW(Phdr) *s = &image->segment[i];
        if (s->p_type == PT_LOAD && address >= s->p_vaddr &&
            address - s->p_vaddr < s->p_filesz)
            return s->p_offset + (address - s->p_vaddr);
    }
    return 0;
}

static bool has_prefix(const char *name, const char *const *prefixes)
{
    for (; *prefixes; prefixes++)
        if (dt_str_after(name, *prefixes))
            return true;
    return false;
}

/* Searches the `count` entries of the dynamic section. */
static bool find_library(const struct image *image, const ElfW(Dyn) * entries,
                         size_t count, const char *const *prefixes,
                         char library[DTSPANK_LIBRARY_BYTES])
{
    uint64_t names = 0;
    for (size_t i = 0; i < count && entries[i].d_tag != DT_NULL; i++)
        if (entries[i].d_tag == DT_STRTAB)
            names = file_offset(image, entries[i].d_un.d_ptr);
    for (size_t i = 0; names > 0 && i < count && entries[i].d_tag != DT_NULL;
         i++) {
        if (entries[i].d_tag != DT_NEEDED)
            continue;
        uint64_t at = names + entries[i].d_un.d_val;
        ssize_t n = at > INT64_MAX
                        ? -1
                        : pread(image->fd, library, DTSPANK_LIBRARY_BYTES - 1,
                                (off_t)at);
        library[n > 0 ? n : 0] = '\0';
        if (has_prefix(library, prefixes))
            return true;
    }
    return false;
}

static bool image_needs(struct image *image, const char *const *prefixes,
                        char library[DTSPANK_LIBRARY_BYTES])
{
    ElfW(Dyn) entries[ENTRIES_MAX];
    if (!read_segments(image))
        return false;
    for (size_t i = 0; i < image->segments; i++) {
        const ElfW(Phdr) *s = &image->segment[i];
        if (s->p_type != PT_DYNAMIC || s->p_filesz > sizeof(entries))
            continue;
        return read_at(image, s->p_offset, entries, s->p_filesz) &&
               find_library(image, entries, s->p_filesz / sizeof(entries[0]),
                            prefixes, library);
    }
    return false;
}

/* O_NONBLOCK, so that a FIFO without a writer does not block us. */
bool dtspank_elf_needs(const char *path, const char *const *prefixes,
                       char library[DTSPANK_LIBRARY_BYTES])
{
    struct stat st;
    struct image image = {
        .fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)};
    bool found = image.fd >= 0 && fstat(image.fd, &st) == 0 &&
                 S_ISREG(st.st_mode) && image_needs(&image, prefixes, library);
    if (image.fd >= 0)
        close(image.fd);
    return found;
}

/* Returns the first word of the command; NULL if Slurm does not say. */
static const char *get_program(spank_t spank)
{
    int argc = 0;
    char **argv = NULL;
    if (spank_get_item(spank, S_JOB_ARGV, &argc, &argv) != ESPANK_SUCCESS ||
        argc < 1 || !argv)
        return NULL;
    return argv[0];
}

static bool is_runtime(const char *program, const char *runtime)
{
    return strcmp(dt_str_base_name(program), dt_str_base_name(runtime)) == 0;
}

/* Finds the path that Slurm will execute: without PATH, only programs in the
 * directory of the task.
 */
static bool find_program(spank_t spank, const char *program,
                         char path[PATH_MAX])
{
    if (strchr(program, '/'))
        return snprintf(path, PATH_MAX, "%s", program) < PATH_MAX;
    const char *dir = dtspank_task_getenv(spank, "PATH");
    for (dir = dir ? dir : ""; dir;) {
        size_t len = strcspn(dir, ":"); /* 0: the directory of the task */
        int n = snprintf(path, PATH_MAX, "%.*s%s%s", (int)len, dir,
                         len > 0 ? "/" : "", program);
        if (n > 0 && n < PATH_MAX && access(path, X_OK) == 0)
            return true;
        dir = dir[len] ? dir + len + 1 : NULL;
    }
    return false;
}

/* The runtime by its name alone, as batch scripts write it. */
static int check_name(spank_t spank, const char *program, const char *runtime,
                      struct dt_error *err)
{
    char path[PATH_MAX];
    const char *node = dtspank_task_node(spank);
    bool has_path = dtspank_task_getenv(spank, "PATH") != NULL;
    if (find_program(spank, program, path))
        return 0;
    if (access(runtime, X_OK) == 0 && !has_path)
        return dt_error_set(err, EX_UNAVAILABLE,
                            "the task has no PATH on %s, as with "
                            "--export=NONE: write %s, or give srun "
                            "--export=ALL",
                            node, runtime);
    if (access(runtime, X_OK) == 0)
        return dt_error_set(err, EX_UNAVAILABLE,
                            "no %s in PATH on %s: write %s", program, node,
                            runtime);
    return dt_error_set(err, EX_UNAVAILABLE,
                        "no %s in PATH on %s, and no runtime at %s: install "
                        "disttrain there",
                        program, node, runtime);
}

int dtspank_program_check(spank_t spank, const char *runtime,
                          struct dt_error *err)
{
    const char *program = get_program(spank);
    if (!program || !is_runtime(program, runtime))
        return 0;
    if (!strchr(program, '/'))
        return check_name(spank, program, runtime, err);
    if (program[0] != '/' || access(program, X_OK) == 0)
        return 0;
    if (errno == ENOENT)
        return dt_error_set(err, EX_UNAVAILABLE,
                            "no runtime at %s on %s: install disttrain there",
                            program, dtspank_task_node(spank));
    return dt_error_set(err, EX_UNAVAILABLE, "cannot run %s on %s: %s", program,
                        dtspank_task_node(spank), strerror(errno));
}

/* Returns the user's program; if the task runs the runtime, the one of
 * launch.command. False if there is none.
 */
static bool get_users_program(spank_t spank, const char *runtime,
                              char program[PATH_MAX])
{
    const char *word = get_program(spank);
    if (word && is_runtime(word, runtime))
        word = dtspank_task_getenv(spank, DT_ENV_COMMAND);
    size_t len = word ? strcspn(word, "\n") : 0;
    if (len == 0 || len >= PATH_MAX)
        return false;
    memcpy(program, word, len);
    program[len] = '\0';
    return true;
}

/* MPI libraries find their rank in these; with MPI, one of them is always set.
 */
static bool has_mpi(spank_t spank)
{
    static const char *const names[] = {"PMIX_RANK", "PMI_RANK", "PMI_FD",
                                        "PMI_SIZE", "PALS_RANKID"};
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        if (dtspank_task_getenv(spank, names[i]))
            return true;
    return false;
}

void dtspank_program_warn_mpi(spank_t spank, const char *runtime)
{
    static const char *const libraries[] = {"libmpi", "libpmix", "libpmi.",
                                            "libpmi2.", NULL};
    uint32_t rank;
    uint32_t ranks;
    char program[PATH_MAX];
    char path[PATH_MAX];
    char library[DTSPANK_LIBRARY_BYTES];
    if (!dtspank_task_number(spank, "SLURM_PROCID", &rank) || rank != 0 ||
        !dtspank_task_number(spank, "SLURM_STEP_NUM_TASKS", &ranks) ||
        ranks < 2 || has_mpi(spank) ||
        !get_users_program(spank, runtime, program) ||
        !find_program(spank, program, path) ||
        !dtspank_elf_needs(path, libraries, library))
        return;
    slurm_spank_log("disttrain: warning: %s is linked with %s, but this step "
                    "has no MPI, and each rank may be alone: give srun "
                    "--mpi=pmix",
                    dtspank_printable(program), dtspank_printable(library));
}
