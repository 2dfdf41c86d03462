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

static unsigned count_of(const char *begin, const char *end, const char *text)
{
    unsigned count = 0;
    size_t n = strlen(text);
    while ((begin = memmem(begin, (size_t)(end - begin), text, n))) {
        begin += n;
        count++;
    }
    return count;
}

static unsigned float_atomics(const char *begin, const char *end)
{
    static const char *const verbs[] = {"\natom.", "\nred.", " atom.", " red."};
    unsigned count = 0;
    for (size_t v = 0; v < sizeof(verbs) / sizeof(verbs[0]); v++)
        for (const char *at = begin;
             (at = memmem(at, (size_t)(end - at), verbs[v], strlen(verbs[v])));
             at++) {
            char opcode[64] = "";
            sscanf(at + 1, "%63s", opcode);
            count += strstr(opcode, ".f32") || strstr(opcode, ".f64") ||
                     strstr(opcode, ".f16") || strstr(opcode, ".bf16");
        }
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
            float_atomics(begin, end),
            count_of(begin, end, "ld.global.v4.u32") +
                count_of(begin, end, "ld.global.v4.f32") +
                count_of(begin, end, "ld.global.v2.u64") +
                count_of(begin, end, "ld.global.v2.b64") +
                count_of(begin, end, "cp.async.cg"),
            kernel);
}
