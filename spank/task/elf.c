/* SPDX-License-Identifier: Apache-2.0 */
/* elf.c - finds out which libraries a program is linked with */
#include "config.h"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "spank/task/elf.h"

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
        if (strncmp(name, *prefixes, strlen(*prefixes)) == 0)
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
