/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fiber.h - fibers, which give each thread of a kernel its own stack
 */
#ifndef DT_SIMT_FIBER_H
#define DT_SIMT_FIBER_H

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

struct simt_fiber {
#if defined(__x86_64__)
    void *stack_pointer; /* while it does not run */
#else
    ucontext_t context;
#endif
};

/* Creates a fiber that will call `run`, which must not return. It is never
 * freed.
 */
struct simt_fiber *simt_fiber_create(void (*run)(void));

/* Continues in `to`; returns when a fiber switches back to `from`. */
void simt_fiber_switch(struct simt_fiber *from, struct simt_fiber *to);

#endif /* DT_SIMT_FIBER_H */
