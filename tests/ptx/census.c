/* SPDX-License-Identifier: Apache-2.0 */
/*
 * census.c - what nvcc's objects have: machine code that spills, atomics on
 * floats, wide loads
 *
 * The bytes of a kernel's frame are in section .nv.info of its machine code,
 * those that PTX asks for are its local variables: the rest is spilled
 * registers.
 */
#include "config.h"

#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ptx.h"

/* An attribute in .nv.info: a form, a name, and a size or value. */
struct attribute {
    uint8_t form, name;
    uint16_t bytes;
};
enum { FORM_SIZED = 4, FRAME_SIZE = 0x11 };

/* --- machine code --- */

static const Elf64_Shdr *section(const unsigned char *elf, const char *name)
{
    const Elf64_Ehdr *head = (const void *)elf;
    const Elf64_Shdr *all = (const void *)(elf + head->e_shoff);
    const char *names = (const char *)elf + all[head->e_shstrndx].sh_offset;
    for (unsigned n = 0; n < head->e_shnum; n++)
        if (strcmp(names + all[n].sh_name, name) == 0)
            return &all[n];
    return NULL;
}

/* 0 if the symbol is not that kernel. */
static uint32_t frame_of(const unsigned char *elf, const unsigned char *at,
                         const char *kernel)
{
    uint32_t words[2]; /* of a symbol, bytes */
    const Elf64_Shdr *symbols = section(elf, ".symtab");
    const Elf64_Shdr *names = section(elf, ".strtab");
    memcpy(words, at, sizeof(words));
    const Elf64_Sym *all = (const void *)(elf + symbols->sh_offset);
    const char *text = (const char *)elf + names->sh_offset;
    return strcmp(text + all[words[0]].st_name, kernel) == 0 ? words[1] : 0;
}

uint32_t ptx_frame_bytes(const unsigned char *elf, const char *kernel)
{
    struct attribute a;
    uint32_t frame = 0;
    const Elf64_Shdr *info = section(elf, ".nv.info");
    if (!info)
        return 0;
    const unsigned char *at = elf + info->sh_offset, *end = at + info->sh_size;
    for (; at < end && frame == 0; at += sizeof(a)) {
        memcpy(&a, at, sizeof(a));
        if (a.form != FORM_SIZED)
            continue;
        if (a.name == FRAME_SIZE)
            frame = frame_of(elf, at + sizeof(a), kernel);
        at += a.bytes;
    }
    return frame;
}

/* --- PTX --- */

/* The number behind the first `text` of the kernel's, or 0. */
static uint32_t number_behind(const char *begin, const char *end,
                              const char *text)
{
    const char *at = memmem(begin, (size_t)(end - begin), text, strlen(text));
    return at ? (uint32_t)strtoul(at + strlen(text), NULL, 10) : 0;
}

/* The next instruction behind `at` whose name begins with `verb`, a letter of
 * white space before it; NULL: there is none.
 */
static const char *next_opcode(const char *at, const char *end,
                               const char *verb, char opcode[64])
{
    size_t n = strlen(verb);
    while ((at = memmem(at, (size_t)(end - at), verb, n))) {
        at += n;
        if (at[-1 - (ptrdiff_t)n] <= ' ' && sscanf(at - n, "%63s", opcode) == 1)
            return at;
    }
    return NULL;
}

static bool is_of_floats(const char *opcode)
{
    return strstr(opcode, ".f32") || strstr(opcode, ".f64") ||
           strstr(opcode, ".f16") || strstr(opcode, ".bf16");
}

static unsigned float_atomics(const char *begin, const char *end)
{
    static const char *const verbs[] = {"atom.", "red."};
    char opcode[64];
    unsigned count = 0;
    for (size_t v = 0; v < sizeof(verbs) / sizeof(verbs[0]); v++)
        for (const char *at = begin;
             (at = next_opcode(at, end, verbs[v], opcode));)
            count += is_of_floats(opcode);
    return count;
}

/* Bits that one of them reads: those of its type, as often as .v says. */
static unsigned long bits_of(const char *opcode)
{
    const char *v = strstr(opcode, ".v"), *type = strrchr(opcode, '.');
    unsigned long count = v ? strtoul(v + 2, NULL, 10) : 1;
    return (count > 0 ? count : 1) * strtoul(type + 2, NULL, 10);
}

static unsigned wide_loads(const char *begin, const char *end)
{
    enum { WIDE = 128 };
    char opcode[64];
    unsigned count = 0;
    const char *at = begin;
    while ((at = next_opcode(at, end, "ld.global", opcode)))
        count += bits_of(opcode) >= WIDE;
    for (at = begin; (at = next_opcode(at, end, "cp.async.cg", opcode));)
        count++;
    return count;
}

void ptx_census(FILE *f, const char *text, const char *kernel, uint32_t frame)
{
    char head[2048];
    snprintf(head, sizeof(head), ".entry %s(", kernel);
    const char *begin = strstr(text, head), *end = NULL, *local = NULL;
    if (begin)
        end = strstr(begin, "\n}");
    if (!end)
        return;
    local = memmem(begin, (size_t)(end - begin), "__local_depot", 13);
    fprintf(f, "code %u %u %u %u %s\n", frame,
            local ? number_behind(local, end, "[") : 0,
            float_atomics(begin, end), wide_loads(begin, end), kernel);
}
