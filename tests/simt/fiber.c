/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fiber.c - stacks of their own for threads of a kernel
 */
#include "config.h"

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "fiber.h"
#include "internal.h"

enum { STACK = 256 << 10, PAGE = 4096 };

/* The end of a stack, with a page below it that ends the process when the stack
 * is too small. Ends are at different places of their page, so that not all of
 * them share the same few lines of the cache.
 */
static char *make_stack(void)
{
    static unsigned count;
    size_t shift = count++ * 7 % 32 * 128;
    char *stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (stack == MAP_FAILED || mprotect(stack, PAGE, PROT_NONE) != 0)
        simt_fail("no memory for a stack");
    return stack + STACK - shift;
}

#if defined(__x86_64__)

/* switch_stacks(&mine, other): saves what a function must preserve (System V
 * ABI for AMD64, 3.2.1) and the stack pointer, and goes on with the other's.
 */
void simt_switch_stacks(void **mine, void *other);
__asm__(".text\n"
        ".globl simt_switch_stacks\n"
        ".hidden simt_switch_stacks\n"
        ".type simt_switch_stacks, @function\n"
        "simt_switch_stacks:\n"
        "    pushq %rbp\n"
        "    pushq %rbx\n"
        "    pushq %r12\n"
        "    pushq %r13\n"
        "    pushq %r14\n"
        "    pushq %r15\n"
        "    movq %rsp, (%rdi)\n"
        "    movq %rsi, %rsp\n"
        "    popq %r15\n"
        "    popq %r14\n"
        "    popq %r13\n"
        "    popq %r12\n"
        "    popq %rbx\n"
        "    popq %rbp\n"
        "    ret\n"
        ".size simt_switch_stacks, . - simt_switch_stacks\n");

struct simt_fiber *simt_fiber_create(void (*run)(void))
{
    struct simt_fiber *fiber = simt_checked(malloc(sizeof(*fiber)));
    /* six registers, where to return to, and where that would return to */
    uintptr_t *top = (uintptr_t *)make_stack() - 8;
    top[6] = (uintptr_t)run;
    fiber->stack_pointer = top;
    return fiber;
}

void simt_fiber_switch(struct simt_fiber *from, struct simt_fiber *to)
{
    simt_switch_stacks(&from->stack_pointer, to->stack_pointer);
}

#else

struct simt_fiber *simt_fiber_create(void (*run)(void))
{
    struct simt_fiber *fiber = simt_checked(malloc(sizeof(*fiber)));
    getcontext(&fiber->context);
    fiber->context.uc_stack.ss_sp = make_stack() - STACK + 2 * PAGE;
    fiber->context.uc_stack.ss_size = STACK - 2 * PAGE;
    makecontext(&fiber->context, run, 0);
    return fiber;
}

void simt_fiber_switch(struct simt_fiber *from, struct simt_fiber *to)
{
    swapcontext(&from->context, &to->context);
}

#endif
