/* SPDX-License-Identifier: Apache-2.0 */
/*
 * module.c - PTX, as far as nvcc writes it
 *
 * A kernel is read when it is first started. Names of registers have scopes,
 * those of braces in inline assembly; its variables get room of their own, with
 * bytes between them that nobody may touch.
 */
#include "config.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "ptx.h"

enum { MAX_SCOPES = 16, MAX_DECLARED = 256, GAP = 256, MAX_TEXT = 2048 };

/* Registers of a name and a number, or of a name. */
struct declared {
    char prefix[32];
    char kind;
    bool many;
    uint32_t count, at;
};

struct label {
    char *name;
    uint32_t pc;
};

struct reader {
    const char *at;
    struct ptx_module *module;
    struct ptx_kernel *kernel;
    struct declared declared[MAX_DECLARED];
    size_t declared_count, scopes[MAX_SCOPES], scope;
    struct label *labels;
    size_t label_count, label_room;
    size_t constant_room;
    uint16_t file;
    uint32_t line;
};

static char *copy_of(const char *text, size_t length)
{
    return simt_checked(strndup(text, length));
}

static bool starts(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

static void skip_blanks(struct reader *r)
{
    for (;;) {
        while (isspace((unsigned char)*r->at))
            r->at++;
        if (starts(r->at, "//"))
            r->at += strcspn(r->at, "\n");
        else if (starts(r->at, "/*"))
            r->at = strstr(r->at, "*/") + 2;
        else
            return;
    }
}

static size_t word_length(const char *text)
{
    size_t n = 0;
    while (isalnum((unsigned char)text[n]) ||
           (text[n] && strchr("_$%.:", text[n])))
        n++;
    return n;
}

/* Reads a word into `text`. */
static void read_word(struct reader *r, char text[MAX_TEXT])
{
    skip_blanks(r);
    size_t n = word_length(r->at);
    if (n >= MAX_TEXT)
        simt_fail("ptx: a word of %zu bytes: %.80s", n, r->at);
    memcpy(text, r->at, n);
    text[n] = 0;
    r->at += n;
}

__attribute__((noreturn)) static void refuse(const struct reader *r,
                                             const char *why, const char *text)
{
    simt_fail("ptx: %s: %s '%s', line %u of the source", r->kernel->name, why,
              text, r->line);
}

/* --- types and variables --- */

static uint32_t type_bytes(const char *type)
{
    const char *bits = type + strcspn(type, "0123456789");
    return *bits ? (uint32_t)strtoul(bits, NULL, 10) / 8 : 0;
}

static char bytes_kind(uint32_t bytes)
{
    if (bytes == 0)
        return 'p';
    return bytes <= 2 ? 'h' : bytes == 4 ? 'w' : 'd';
}

static uint32_t rounded(uint32_t x, uint32_t to)
{
    return (x + to - 1) / to * to;
}

/* What stands behind .param, .shared or .local: [.align N] .type name[count].
 */
struct variable_text {
    uint32_t align, bytes;
    bool open; /* name[] */
    const char *name;
    size_t name_length;
};

static struct variable_text read_variable(struct reader *r)
{
    struct variable_text v = {0};
    char word[MAX_TEXT];
    uint32_t size = 0;
    for (read_word(r, word); word[0] == '.'; read_word(r, word)) {
        if (strcmp(word, ".align") == 0) {
            skip_blanks(r);
            v.align = (uint32_t)strtoul(r->at, (char **)&r->at, 10);
        } else if (strcmp(word, ".ptr") != 0 && type_bytes(word) > 0) {
            size = type_bytes(word);
        }
    }
    v.name_length = strlen(word);
    v.name = r->at - v.name_length;
    v.bytes = size;
    if (*r->at == '[') {
        uint32_t n = (uint32_t)strtoul(r->at + 1, NULL, 10);
        v.open = n == 0;
        v.bytes = size * n;
        r->at = strchr(r->at, ']') + 1;
    }
    if (v.align == 0)
        v.align = size;
    return v;
}

static void add_variable(struct ptx_kernel *k, enum ptx_space space,
                         const struct variable_text *v, uint32_t at)
{
    struct ptx_variable *added = simt_checked(calloc(1, sizeof(*added)));
    *added = (struct ptx_variable){copy_of(v->name, v->name_length), space, at,
                                   v->bytes, k->variables};
    k->variables = added;
}

static void add_shared(struct ptx_kernel *k, const struct variable_text *v)
{
    uint32_t at = rounded(k->shared_bytes + GAP, v->align < 16 ? 16 : v->align);
    add_variable(k, PTX_SHARED, v, at);
    k->shared_bytes = at + v->bytes;
}

static void add_local(struct ptx_kernel *k, const struct variable_text *v)
{
    uint32_t at = rounded(k->local_bytes, 16);
    add_variable(k, PTX_LOCAL, v, at);
    k->local_bytes = rounded(at + v->bytes, 16);
}

static void read_params(struct reader *r)
{
    struct ptx_kernel *k = r->kernel;
    for (;;) {
        skip_blanks(r);
        if (*r->at == ')')
            break;
        if (*r->at == ',' || *r->at == '(') {
            r->at++;
            continue;
        }
        struct variable_text v = read_variable(r);
        uint32_t at = rounded(k->param_bytes, v.align);
        add_variable(k, PTX_PARAM, &v, at);
        k->param_bytes = at + v.bytes;
    }
    r->at++;
}

/* --- registers --- */

static void declare(struct reader *r, char kind, const char *name, bool many,
                    uint32_t count)
{
    if (r->declared_count == MAX_DECLARED || strlen(name) >= 32)
        refuse(r, "too many registers, or too long a name", name);
    struct declared *d = &r->declared[r->declared_count++];
    struct ptx_kernel *k = r->kernel;
    uint32_t bytes = kind == 'p' ? 4 : kind == 'd' ? PTX_LONG : PTX_WORD;
    *d = (struct declared){
        .kind = kind, .many = many, .count = count, .at = k->register_bytes};
    strcpy(d->prefix, name);
    k->register_bytes = rounded(k->register_bytes + bytes * count, 64);
}

static void read_registers(struct reader *r)
{
    char type[MAX_TEXT], name[MAX_TEXT];
    read_word(r, type);
    do {
        uint32_t count = 1;
        read_word(r, name);
        bool many = *r->at == '<';
        if (many)
            count = (uint32_t)strtoul(r->at + 1, NULL, 10);
        if (many)
            r->at = strchr(r->at, '>') + 1;
        declare(r, bytes_kind(type_bytes(type)), name, many, count);
        skip_blanks(r);
    } while (*r->at++ == ',');
}

/* The kinds: kind 0 if there is no such register. */
static struct ptx_operand find_register(const struct reader *r,
                                        const char *name)
{
    size_t stem = strlen(name);
    while (stem > 0 && isdigit((unsigned char)name[stem - 1]))
        stem--;
    for (size_t i = r->declared_count; i-- > 0;) {
        const struct declared *d = &r->declared[i];
        uint32_t size = d->kind == 'p'   ? 4
                        : d->kind == 'd' ? PTX_LONG
                                         : PTX_WORD;
        if (!d->many && strcmp(d->prefix, name) == 0)
            return (struct ptx_operand){.kind = d->kind, .at = d->at};
        if (!d->many || strlen(d->prefix) != stem ||
            strncmp(d->prefix, name, stem) != 0)
            continue;
        uint32_t number = (uint32_t)strtoul(name + stem, NULL, 10);
        if (number < d->count)
            return (struct ptx_operand){.kind = d->kind,
                                        .at = d->at + number * size};
    }
    return (struct ptx_operand){0};
}

/* Whether words begin with the value, again and again. */
static bool all_are(const uint32_t *at, uint32_t count, const uint32_t *halves,
                    uint32_t words)
{
    for (uint32_t i = 0; i < count; i++)
        if (at[i] != halves[i % words])
            return false;
    return true;
}

/* A register of the kernel whose lanes all are `value`. */
static struct ptx_operand constant(struct reader *r, char kind, uint64_t value)
{
    struct ptx_kernel *k = r->kernel;
    uint32_t step = PTX_WORD / 4, words = kind == 'd' ? 2 : 1, at = 0;
    uint32_t end = k->constant_bytes / 4;
    const uint32_t halves[] = {(uint32_t)value, (uint32_t)(value >> 32)};
    for (; at + words * step <= end; at += step)
        if (all_are(&k->constants[at], words * step, halves, words))
            return (struct ptx_operand){.kind = kind, .bank = 1, .at = at * 4};
    k->constants =
        ptx_grown(k->constants, end + words * step, &r->constant_room, 4);
    for (uint32_t i = 0; i < words * step; i++)
        k->constants[end + i] = halves[i % words];
    k->constant_bytes += words * PTX_WORD;
    return (struct ptx_operand){.kind = kind, .bank = 1, .at = end * 4};
}

/* --- operands --- */

static const char *const SPECIAL[] = {
    "%tid.x",   "%tid.y",    "%tid.z",       "%ctaid.x",
    "%ctaid.y", "%ctaid.z",  "%ntid.x",      "%ntid.y",
    "%ntid.z",  "%nctaid.x", "%nctaid.y",    "%nctaid.z",
    "%laneid",  "%warpid",   "%lanemask_le", "%lanemask_lt",
};

/* They are registers, which run.c sets. */
static struct ptx_operand special(struct reader *r, const char *name)
{
    struct ptx_kernel *k = r->kernel;
    size_t i = 0, count = sizeof(SPECIAL) / sizeof(SPECIAL[0]);
    while (i < count && strcmp(SPECIAL[i], name) != 0)
        i++;
    if (i == count)
        refuse(r, "an unknown register", name);
    if (k->special[i].kind == 0) {
        k->special[i] =
            (struct ptx_operand){.kind = 'w', .at = k->register_bytes};
        k->register_bytes += PTX_WORD;
    }
    return k->special[i];
}

static const struct ptx_variable *find_variable(const struct reader *r,
                                                const char *name)
{
    const struct ptx_variable *v = r->kernel->variables;
    while (v && strcmp(v->name, name) != 0)
        v = v->next;
    return v;
}

static uint64_t number(const char *text)
{
    if (text[0] == '0' && strchr("fFdD", text[1]) && text[1])
        return strtoull(text + 2, NULL, 16);
    return text[0] == '-' ? (uint64_t)strtoll(text, NULL, 0)
                          : strtoull(text, NULL, 0);
}

static struct ptx_operand value(struct reader *r, char kind, const char *text)
{
    struct ptx_operand found = find_register(r, text);
    if (found.kind)
        return found;
    if (text[0] == '%')
        return special(r, text);
    if (isdigit((unsigned char)text[0]) || text[0] == '-') {
        uint64_t n = number(text);
        if (kind == 'p')
            return constant(r, 'w', n ? PTX_ALL : 0);
        return constant(r, kind, kind == 'h' ? n & 0xffff : n);
    }
    const struct ptx_variable *v = find_variable(r, text);
    if (!v)
        refuse(r, "an unknown operand", text);
    return constant(r, kind, v->at);
}

/* A register, variable or number, with a sign. */
static void read_value(struct reader *r, char text[MAX_TEXT])
{
    skip_blanks(r);
    bool negative = *r->at == '-';
    r->at += negative;
    read_word(r, text);
    if (negative) {
        memmove(text + 1, text, MAX_TEXT - 1);
        text[0] = '-';
    }
}

static void add_operand(struct ptx_instr *i, struct ptx_operand op)
{
    i->op = simt_checked(realloc(i->op, (i->ops + 1) * sizeof(*i->op)));
    i->op[i->ops++] = op;
}

static void expect(struct reader *r, char c)
{
    skip_blanks(r);
    if (*r->at != c)
        refuse(r, "an instruction is not understood before",
               copy_of(r->at, 20));
    r->at++;
}

static void read_operand(struct reader *r, struct ptx_instr *i, char kind)
{
    char text[MAX_TEXT];
    bool any = kind == '?';
    if (any)
        kind = bytes_kind(i->bytes);
    read_value(r, text);
    struct ptx_operand op = value(r, kind, text);
    if (!any && op.kind != kind && !(kind == 'p' && op.bank == 1))
        refuse(r, "an operand of another size", text);
    add_operand(i, op);
}

static void read_vector(struct reader *r, struct ptx_instr *i, char kind,
                        unsigned count)
{
    expect(r, '{');
    for (unsigned n = 0; n < count; n++) {
        if (n > 0)
            expect(r, ',');
        read_operand(r, i, kind);
    }
    expect(r, '}');
}

/* [register or variable + number] */
static void read_address(struct reader *r, struct ptx_instr *i)
{
    char text[MAX_TEXT];
    expect(r, '[');
    read_value(r, text);
    struct ptx_operand base = find_register(r, text);
    const struct ptx_variable *v = base.kind ? NULL : find_variable(r, text);
    if (!base.kind && !v)
        refuse(r, "an unknown address", text);
    if (v)
        base = constant(r, 'd', v->at);
    if (v && i->space != v->space)
        refuse(r, "a variable of another space", text);
    skip_blanks(r);
    if (*r->at == '+') {
        r->at++;
        read_value(r, text);
        base.offset = (int32_t)number(text);
    }
    add_operand(i, base);
    expect(r, ']');
}

/* As `shape` says: a kind of register each, '?' any, after a digit a vector of
 * so many; '[' an address, '|' a predicate that may be left out, 'l' a label.
 */
static void read_operands(struct reader *r, struct ptx_instr *i,
                          const char *shape)
{
    char text[MAX_TEXT];
    for (const char *s = shape; *s; s++) {
        skip_blanks(r);
        if (*s == '|') {
            if (*r->at != '|')
                continue;
            r->at++;
            read_operand(r, i, 'p');
            continue;
        }
        if (s != shape)
            expect(r, ',');
        if (*s == '[') {
            read_address(r, i);
        } else if (*s == 'l') {
            read_word(r, text);
            i->label = copy_of(text, strlen(text));
        } else if (isdigit((unsigned char)*s)) {
            read_vector(r, i, s[1], (unsigned)(*s - '0'));
            s++;
        } else {
            read_operand(r, i, *s);
        }
    }
}

/* --- statements --- */

static void read_guard(struct reader *r, struct ptx_instr *i)
{
    char name[MAX_TEXT];
    if (*r->at != '@')
        return;
    r->at++;
    i->guard_not = *r->at == '!';
    r->at += i->guard_not;
    read_word(r, name);
    i->guard = find_register(r, name);
    if (i->guard.kind != 'p')
        refuse(r, "an unknown predicate", name);
}

/* Names a mov between a register and parts of it as the table does. */
static void name_mov(const struct reader *r, char opcode[MAX_TEXT])
{
    const char *end = strchr(r->at, ';'), *brace = strchr(r->at, '{');
    if (!starts(opcode, "mov.") || !brace || brace > end)
        return;
    bool first = strspn(r->at, " \t\n") == (size_t)(brace - r->at);
    strcat(opcode, first ? ".unpack" : ".pack");
}

static const char *decode(struct ptx_instr *i, const char *opcode)
{
    const char *shape = ptx_decode_arithmetic(i, opcode);
    if (!shape)
        shape = ptx_decode_convert(i, opcode);
    if (!shape)
        shape = ptx_decode_memory(i, opcode);
    return shape ? shape : ptx_decode_warp(i, opcode);
}

static void read_instruction(struct reader *r)
{
    struct ptx_kernel *k = r->kernel;
    char opcode[MAX_TEXT];
    struct ptx_instr i = {.file = r->file, .line = r->line};
    read_guard(r, &i);
    read_word(r, opcode);
    name_mov(r, opcode);
    const char *shape = decode(&i, opcode);
    if (!shape)
        refuse(r, "an unknown instruction", opcode);
    read_operands(r, &i, shape);
    expect(r, ';');
    k->code = ptx_grown(k->code, k->count, &k->capacity, sizeof(*k->code));
    k->code[k->count++] = i;
}

static void read_line(struct reader *r)
{
    char *end;
    r->file = (uint16_t)strtoul(r->at, &end, 10);
    r->line = (uint32_t)strtoul(end, NULL, 10);
    r->at = strchr(r->at, '\n');
}

static void read_directive(struct reader *r)
{
    char name[MAX_TEXT];
    read_word(r, name);
    if (strcmp(name, ".loc") == 0) {
        read_line(r);
        return;
    }
    if (strcmp(name, ".reg") == 0) {
        read_registers(r);
        return;
    }
    if (strcmp(name, ".shared") == 0 || strcmp(name, ".local") == 0) {
        struct variable_text v = read_variable(r);
        if (name[1] == 's')
            add_shared(r->kernel, &v);
        else
            add_local(r->kernel, &v);
    } else if (strcmp(name, ".pragma") != 0) {
        refuse(r, "an unknown directive", name);
    }
    r->at = strchr(r->at, ';') + 1;
}

/* True if it was one. */
static bool read_label(struct reader *r)
{
    size_t n = word_length(r->at);
    if (n == 0 || r->at[n - 1] != ':' || *r->at == '.')
        return false;
    r->labels = ptx_grown(r->labels, r->label_count, &r->label_room,
                          sizeof(*r->labels));
    r->labels[r->label_count++] =
        (struct label){copy_of(r->at, n - 1), (uint32_t)r->kernel->count};
    r->at += n;
    return true;
}

static void read_body(struct reader *r)
{
    for (;;) {
        skip_blanks(r);
        if (*r->at == '{') {
            r->at++;
            r->scopes[r->scope++ % MAX_SCOPES] = r->declared_count;
        } else if (*r->at == '}') {
            r->at++;
            r->declared_count = r->scopes[--r->scope % MAX_SCOPES];
            if (r->scope == 0)
                return;
        } else if (*r->at == ';') {
            r->at++;
        } else if (*r->at == '.') {
            read_directive(r);
        } else if (!read_label(r)) {
            read_instruction(r);
        }
    }
}

static void find_targets(struct reader *r)
{
    struct ptx_kernel *k = r->kernel;
    for (size_t n = 0; n < k->count; n++) {
        struct ptx_instr *i = &k->code[n];
        size_t l = 0;
        if (!i->label)
            continue;
        while (l < r->label_count && strcmp(r->labels[l].name, i->label) != 0)
            l++;
        if (l == r->label_count)
            refuse(r, "a branch to nowhere", i->label);
        i->target = r->labels[l].pc;
    }
}

static void find_barriers(struct ptx_kernel *k)
{
    size_t room = 0;
    for (size_t n = 0; n < k->count; n++)
        if (k->code[n].flow == PTX_BARRIER) {
            k->proofs =
                ptx_grown(k->proofs, k->proof_count, &room, sizeof(*k->proofs));
            k->proofs[k->proof_count++] = (struct ptx_proof){.pc = (uint32_t)n};
        }
}

/* --- modules --- */

/* Shared variables outside of kernels. */
static void read_globals(struct reader *r)
{
    const struct ptx_module *m = r->module;
    for (size_t i = 0; i < m->shared_count; i++) {
        r->at = m->shared[i];
        struct variable_text v = read_variable(r);
        if (!v.open)
            add_shared(r->kernel, &v);
        else
            add_variable(r->kernel, PTX_SHARED, &v, PTX_DYNAMIC);
    }
}

static const char *find_entry(const char *text, const char *name)
{
    size_t n = strlen(name);
    while ((text = strstr(text, ".entry "))) {
        text += strlen(".entry ");
        if (strncmp(text, name, n) == 0 && word_length(text) == n)
            return text + n;
    }
    simt_fail("ptx: there is no kernel %s", name);
}

static struct ptx_kernel *read_kernel(struct ptx_module *module,
                                      const char *name)
{
    struct reader *r = simt_checked(calloc(1, sizeof(*r)));
    struct ptx_kernel *k = simt_checked(calloc(1, sizeof(*k)));
    *k = (struct ptx_kernel){.name = copy_of(name, strlen(name)),
                             .module = module,
                             .next = module->kernels};
    *r = (struct reader){.module = module, .kernel = k};
    read_globals(r);
    r->at = find_entry(module->text, name);
    read_params(r);
    r->at = strchr(r->at, '{'); /* after what bounds its blocks */
    read_body(r);
    find_targets(r);
    find_barriers(k);
    for (size_t i = 0; i < r->label_count; i++)
        free(r->labels[i].name);
    free(r->labels);
    free(r);
    return module->kernels = k;
}

struct ptx_kernel *ptx_module_kernel(struct ptx_module *module,
                                     const char *name)
{
    struct ptx_kernel *k = module->kernels;
    while (k && strcmp(k->name, name) != 0)
        k = k->next;
    return k ? k : read_kernel(module, name);
}

/* .file NUMBER "PATH": the name without its folders. */
static void read_file(struct ptx_module *module, const char *at)
{
    char *end;
    unsigned long n = strtoul(at, &end, 10);
    const char *name = strchr(end, '"') + 1, *slash;
    size_t length = strcspn(name, "\"");
    while ((slash = memchr(name, '/', length))) {
        length -= (size_t)(slash + 1 - name);
        name = slash + 1;
    }
    if (n < sizeof(module->files) / sizeof(module->files[0]))
        module->files[n] = copy_of(name, length);
}

/* What is outside of kernels. */
static void read_outside(struct ptx_module *m)
{
    size_t room = 0, depth = 0;
    for (const char *at = m->text; *at; at++) {
        depth += (*at == '{') - (*at == '}');
        if (*at != '.' || depth > 0)
            continue;
        if (starts(at, ".file")) {
            read_file(m, at + strlen(".file"));
        } else if (starts(at, ".shared")) {
            m->shared = ptx_grown(m->shared, m->shared_count, &room,
                                  sizeof(*m->shared));
            m->shared[m->shared_count++] = at + strlen(".shared");
        }
    }
}

struct ptx_module *ptx_module_create(char *text)
{
    struct ptx_module *module = simt_checked(calloc(1, sizeof(*module)));
    module->text = text;
    read_outside(module);
    return module;
}
