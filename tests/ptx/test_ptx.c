/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_ptx.c - the machine that runs PTX finds what it is there to find
 *
 * Kernels are written here, and registered as nvcc's objects register theirs.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <cuda_runtime_api.h>

void **__cudaRegisterFatBinary(void *wrapper);
void __cudaRegisterFunction(void **handle, const char *host, char *device,
                            const char *name, int thread_limit, uint3 *tid,
                            uint3 *bid, dim3 *block, dim3 *grid, int *warp);
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *config,
                                const void *function, void **args);

enum { WORDS = 256, TEXT = 8192 };

/* --- kernels --- */

struct fat {
    uint32_t magic;
    uint16_t version, header_bytes;
    uint64_t bytes;
    uint16_t kind, entry_version;
    uint32_t entry_header;
    uint64_t entry_bytes;
    char text[TEXT];
};

/* A kernel with parameters `out` and `in`, whose addresses are in %out and %in:
 * threads compute with %r, %f, %rd and %p. Returns what launches know it by.
 */
static const void *kernel_of(const char *body)
{
    static struct {
        int magic, version;
        const void *data;
    } wrapper;
    struct fat *fat = calloc(1, sizeof(*fat));
    *fat = (struct fat){.magic = 0xba55ed50u,
                        .header_bytes = 16,
                        .bytes = sizeof(*fat) - 16,
                        .kind = 1,
                        .entry_header = 16,
                        .entry_bytes = TEXT};
    snprintf(fat->text, TEXT,
             ".version 8.0\n.target sm_80\n.address_size 64\n"
             ".file 1 \"there/some.cu\"\n"
             ".extern .shared .align 16 .b8 dynamic[];\n"
             ".visible .entry some(.param .u64 a, .param .u64 b)\n{\n"
             ".reg .pred %%p<9>;\n.reg .b16 %%h<9>;\n.reg .b32 %%r<20>;\n"
             ".reg .f32 %%f<20>;\n.reg .f64 %%d<9>;\n.reg .b64 %%rd<20>;\n"
             ".reg .b64 %%out;\n.reg .b64 %%in;\n.reg .b32 %%t;\n"
             ".shared .align 4 .b8 words[1024];\n"
             ".shared .align 4 .b8 others[64];\n"
             "ld.param.u64 %%out, [a];\nld.param.u64 %%in, [b];\n"
             "mov.u32 %%t, %%tid.x;\n.loc 1 7 0\n%s\n.loc 1 9 0\nret;\n}\n",
             body);
    wrapper.data = fat;
    __cudaRegisterFunction(__cudaRegisterFatBinary(&wrapper), (char *)fat, NULL,
                           "some", -1, NULL, NULL, NULL, NULL, NULL);
    return fat;
}

struct shape {
    unsigned blocks, threads;
    size_t dynamic;
};

/* Runs it; `words` (WORDS) go there and come back. */
static void run(const char *body, struct shape s, uint32_t *words)
{
    void *out, *in;
    assert_int_equal(cudaMalloc(&out, WORDS * 4), cudaSuccess);
    assert_int_equal(cudaMalloc(&in, WORDS * 4), cudaSuccess);
    assert_int_equal(cudaMemset(out, 0, WORDS * 4), cudaSuccess);
    assert_int_equal(cudaMemcpy(in, words, WORDS * 4, cudaMemcpyHostToDevice),
                     cudaSuccess);
    void *args[] = {&out, &in};
    cudaLaunchConfig_t config = {.gridDim = {s.blocks, 1, 1},
                                 .blockDim = {s.threads, 1, 1},
                                 .dynamicSmemBytes = s.dynamic};
    assert_int_equal(cudaLaunchKernelExC(&config, kernel_of(body), args),
                     cudaSuccess);
    assert_int_equal(cudaMemcpy(words, out, WORDS * 4, cudaMemcpyDeviceToHost),
                     cudaSuccess);
    cudaFree(out);
    cudaFree(in);
}

/* Runs it in another process, which ends with a message that has `text`; NULL:
 * which does not fail.
 */
static void expect(const char *body, struct shape s, const char *text)
{
    char said[4096] = "";
    uint32_t words[WORDS] = {0};
    int ends[2], status;
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        run(body, s, words);
        _exit(0);
    }
    close(ends[1]);
    size_t n = 0;
    ssize_t got;
    while ((got = read(ends[0], said + n, sizeof(said) - 1 - n)) > 0)
        n += (size_t)got;
    close(ends[0]);
    waitpid(child, &status, 0);
    if (text && !strstr(said, text))
        fail_msg("said '%s' instead of '%s'", said, text);
    if (!text && status != 0)
        fail_msg("failed: %s", said);
}

static const struct shape WARP = {1, 32, 0}, TWO_WARPS = {1, 64, 0};

/* Every thread stores r0 as its word of `out`. */
#define STORE                                                                  \
    "mul.wide.u32 %rd1, %t, 4; add.s64 %rd1, %rd1, %out;"                      \
    " st.global.u32 [%rd1], %r0;"
/* %r1: the address of the thread's shared word; %r2: of the next thread's. */
#define SHARED                                                                 \
    "mov.u32 %r9, words; shl.b32 %r1, %t, 2; add.s32 %r1, %r1, %r9;"           \
    " add.s32 %r3, %t, 1; and.b32 %r3, %r3, 63; shl.b32 %r2, %r3, 2;"          \
    " add.s32 %r2, %r2, %r9;"

/* --- where lanes go --- */

static void test_lanes_part_and_meet(void **state)
{
    (void)state;
    uint32_t words[WORDS] = {0};
    /* t steps around a loop, the odd ones then by another way */
    run("mov.u32 %r0, 0; mov.u32 %r1, 0;\n"
        "$again:\nsetp.ge.u32 %p1, %r1, %t;\n@%p1 bra $done;\n"
        "add.s32 %r0, %r0, 3; add.s32 %r1, %r1, 1;\nbra $again;\n"
        "$done:\nand.b32 %r2, %t, 1; setp.ne.s32 %p2, %r2, 0;\n"
        "@!%p2 bra $even;\nadd.s32 %r0, %r0, 100;\nbra.uni $end;\n"
        "$even:\nadd.s32 %r0, %r0, 200;\n"
        "$end:\nshfl.sync.bfly.b32 %r0|%p3, %r0, 1, 31, -1;\n" STORE,
        WARP, words);
    for (unsigned t = 0; t < 32; t++)
        assert_int_equal(words[t], 3 * (t ^ 1) + ((t ^ 1) & 1 ? 100 : 200));
}

static void test_lanes_that_do_not_come(void **state)
{
    (void)state;
    expect("setp.lt.u32 %p1, %t, 7;\n@%p1 bra $end;\n"
           "shfl.sync.bfly.b32 %r0|%p3, %t, 1, 31, -1;\n$end:\n",
           WARP,
           "some.cu:7: the lanes 0xffffff80 of warp 0 wait here for "
           "others");
    expect("setp.lt.u32 %p1, %t, 16;\n@%p1 bra $end;\n"
           "shfl.sync.idx.b32 %r0|%p3, %t, 3, 31, 0xffff0000;\n$end:\n",
           WARP, "lane 16 reads lane 3, which is not there");
    expect("shfl.sync.bfly.b32 %r0|%p3, %t, 1, 31, 0xffff;\n", WARP,
           "lane 16 names the lanes 0xffff");
    expect("setp.lt.u32 %p1, %t, 40;\n@%p1 bra $end;\nbar.sync 0;\n$end:\n",
           TWO_WARPS, "of warp 1 wait here for others");
}

/* --- memory --- */

static void test_bounds(void **state)
{
    (void)state;
    expect("st.global.u32 [%out+1020], %t;\n", (struct shape){1, 1, 0}, NULL);
    expect("st.global.u32 [%out+1024], %t;\n", (struct shape){1, 1, 0},
           "some.cu:7: thread 0: 4 bytes at ");
    expect("ld.global.u32 %r0, [%out+-4];\n", WARP, "are in no allocation");
    expect("ld.global.u64 %rd0, [%out+4];\n", WARP, "is not aligned");
    expect("st.shared.u32 [words+1020], %t;\n", (struct shape){1, 1, 0}, NULL);
    expect("st.shared.u32 [words+1024], %t;\n", WARP, "belong to no variable");
    expect("st.shared.u32 [words+-4], %t;\n", WARP, "belong to no variable");
    expect("st.shared.u32 [dynamic+12], %t;\n", (struct shape){1, 1, 16}, NULL);
    expect("st.shared.u32 [dynamic+16], %t;\n", (struct shape){1, 1, 16},
           "belong to no variable");
    expect("ld.param.u32 %r0, [b+8];\n", WARP, "are not in the parameters");
    expect("ld.shared.u32 %r0, [words];\n", WARP,
           "reads shared memory that nobody has written");
}

static void test_eight_words(void **state)
{
    uint32_t words[WORDS];
    (void)state;

    for (unsigned n = 0; n < WORDS; n++)
        words[n] = n + 1;
    run("ld.global.v8.b32 {%r0, %r1, %r2, %r3, %r4, %r5, %r6, %r7}, [%in+32];\n"
        "st.global.v8.b32 [%out], {%r7, %r6, %r5, %r4, %r3, %r2, %r1, %r0};\n",
        (struct shape){1, 1, 0}, words);
    for (unsigned n = 0; n < 8; n++)
        assert_int_equal(words[n], 16 - n);
    expect("ld.global.v8.b32 {%r0, %r1, %r2, %r3, %r4, %r5, %r6, %r7},"
           " [%in+16];\n",
           WARP, "an access of 32 bytes");
}

static void test_races(void **state)
{
    (void)state;
    expect(SHARED "st.shared.u32 [%r1], %t;\n.loc 1 8 0\n"
                  "ld.shared.u32 %r0, [%r2];\n",
           TWO_WARPS,
           "some.cu:8: thread 0 reads what another thread has "
           "written at some.cu:7, with no barrier in between");
    expect(SHARED "st.shared.u32 [%r1], %t;\nbar.sync 0;\n"
                  "ld.shared.u32 %r0, [%r2];\n",
           TWO_WARPS, NULL);
    expect(SHARED "st.shared.u32 [%r1], %t;\nbar.sync 0;\n"
                  "ld.shared.u32 %r0, [%r2];\nst.shared.u32 [%r1], %r0;\n",
           TWO_WARPS, "writes what another thread has read");
    expect("st.shared.u32 [words], %t;\n", WARP,
           "writes what another thread has written");
    expect("st.global.u32 [%out], %t;\n", (struct shape){2, 1, 0},
           "writes what another block has written");
    expect("atom.global.add.u32 %r0, [%out], 1;\n", (struct shape){2, 64, 0},
           NULL);
    expect("st.shared.u32 [words], 0;\nbar.sync 0;\n"
           "atom.shared.add.u32 %r0, [words], 1;\n"
           "ld.shared.u32 %r0, [words];\n",
           (struct shape){1, 1, 0}, NULL);
    expect("setp.eq.u32 %p1, %t, 0;\n@%p1 st.shared.u32 [words], 0;\n"
           "atom.shared.add.u32 %r0, [words], 1;\n",
           WARP, "thread 1 writes what another thread has written");
}

static void test_barriers_of_a_warp(void **state)
{
    (void)state;
#define EXCHANGE(barrier)                                                      \
    SHARED "xor.b32 %r3, %t, 1; shl.b32 %r2, %r3, 2; add.s32 %r2, %r2, %r9;"   \
           "st.shared.u32 [%r1], %t;\n" barrier "ld.shared.u32 %r0, [%r2];\n"
    expect(EXCHANGE("bar.warp.sync -1;\n"), TWO_WARPS, NULL);
    expect(EXCHANGE(""), TWO_WARPS, "reads what another thread has written");
    expect(SHARED "st.shared.u32 [%r1], %t;\nbar.sync 0;\n"
                  "st.shared.u32 [%r1], %t;\nbar.warp.sync -1;\n"
                  "ld.shared.u32 %r0, [%r2];\n",
           TWO_WARPS, "thread 32 writes what another thread has read");
}

static void test_two_bytes(void **state)
{
    (void)state;
    expect("mov.u32 %r9, words; shl.b32 %r1, %t, 1; add.s32 %r1, %r1, %r9;\n"
           "cvt.u16.u32 %h1, %t; st.shared.u16 [%r1], %h1;\n",
           TWO_WARPS, NULL);
}

static void test_asynchronous_copies(void **state)
{
    (void)state;
#define COPY                                                                   \
    "mov.u32 %r1, dynamic; shl.b32 %r2, %t, 4; add.s32 %r1, %r1, %r2;"         \
    " mul.wide.u32 %rd2, %t, 16; add.s64 %rd2, %rd2, %in;"                     \
    " cp.async.cg.shared.global [%r1], [%rd2], 16;\n"
    const struct shape s = {1, 32, 512};
    uint32_t words[WORDS];
    for (unsigned n = 0; n < WORDS; n++)
        words[n] = 7 * n;
    run(COPY "cp.async.commit_group; cp.async.wait_group 0;"
             " ld.shared.u32 %r0, [%r1+4];\n" STORE,
        s, words);
    for (unsigned t = 0; t < 32; t++)
        assert_int_equal(words[t], 7 * (4 * t + 1));
    expect(COPY "cp.async.commit_group; ld.shared.u32 %r0, [%r1];\n", s,
           "wait for an asynchronous copy");
    expect(COPY "cp.async.commit_group; cp.async.wait_group 1;"
                " ld.shared.u32 %r0, [%r1];\n",
           s, "wait for an asynchronous copy");
    expect(COPY "cp.async.commit_group;\n", s,
           "ends and has not waited for its asynchronous copy");
}

/* --- runs without a barrier --- */

static void test_needless_barriers(void **state)
{
    (void)state;
    char path[] = "/tmp/ptx-report-XXXXXX", line[512], *end;
    bool needed = false, needless = false;
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    pid_t child = fork();
    if (child == 0) {
        uint32_t words[WORDS] = {0};
        setenv("PTX_REPORT", path, 1);
        run(SHARED
            "st.shared.u32 [%r1], %t;\n.loc 1 70 0\nbar.sync 0;\n"
            "ld.shared.u32 %r0, [%r2];\n.loc 1 80 0\nbar.sync 0;\n" STORE,
            TWO_WARPS, words);
        exit(words[5] == 6 ? 0 : 1);
    }
    int status;
    waitpid(child, &status, 0);
    assert_int_equal(status, 0);
    FILE *f = fdopen(fd, "r");
    while (fgets(line, sizeof(line), f)) {
        if ((end = strchr(line, '\n')))
            *end = 0;
        needed |= strcmp(line, "barrier needed some.cu:70 some") == 0;
        needless |= strcmp(line, "barrier quiet some.cu:80 some") == 0;
    }
    fclose(f);
    unlink(path);
    assert_true(needed && needless);
}

/* --- instructions --- */

static void test_words(void **state)
{
    static const struct {
        const char *instruction; /* r0 from r1, r2, r3 and their floats */
        uint32_t a, b, c, want;
    } cases[] = {
        {"add.s32 %r0, %r1, %r2", 0xffffffff, 2, 0, 1},
        {"mad.lo.s32 %r0, %r1, %r2, %r3", 5, 7, 9, 44},
        {"mul.hi.u32 %r0, %r1, %r2", 0x80000000, 6, 0, 3},
        {"shl.b32 %r0, %r1, %r2", 1, 32, 0, 0},
        {"shr.s32 %r0, %r1, %r2", 0x80000000, 40, 0, 0xffffffff},
        {"shr.u32 %r0, %r1, %r2", 0x80000000, 31, 0, 1},
        {"prmt.b32 %r0, %r1, %r2, %r3", 0x33221100, 0x77665544, 0x7531,
         0x77553311},
        {"prmt.b32 %r0, %r1, %r2, %r3", 0x80, 0, 0x8888, 0xffffffff},
        {"bfi.b32 %r0, %r1, %r2, 7, 25", 3, 0xffffffff, 0, 0x000001ff},
        {"bfe.u32 %r0, %r1, 4, 8", 0x12345678, 0, 0, 0x67},
        {"lop3.b32 %r0, %r1, %r2, %r3, 0x96", 0xf0, 0xcc, 0xaa, 0x96},
        {"brev.b32 %r0, %r1", 1, 0, 0, 0x80000000},
        {"clz.b32 %r0, %r1", 0, 0, 0, 32},
        {"bfind.shiftamt.u32 %r0, %r1", 0x10000, 0, 0, 15},
        {"bmsk.clamp.b32 %r0, %r1, %r2", 4, 8, 0, 0xff0},
        {"div.s32 %r0, %r1, %r2", (uint32_t)-7, 2, 0, (uint32_t)-3},
        {"rem.u32 %r0, %r1, %r2", 17, 5, 0, 2},
        {"min.s32 %r0, %r1, %r2", (uint32_t)-1, 1, 0, (uint32_t)-1},
        {"max.u32 %r0, %r1, %r2", (uint32_t)-1, 1, 0, (uint32_t)-1},
        {"cvt.u16.u32 %h1, %r1; cvt.u32.u16 %r0, %h1", 0x12345, 0, 0, 0x2345},
        {"cvt.s64.s32 %rd1, %r1; shr.u64 %rd1, %rd1, 32; cvt.u32.u64 %r0, %rd1",
         0x80000000, 0, 0, 0xffffffff},
        {"mov.b32 {%h1, %h2}, %r1; mov.b32 %r0, {%h2, %h1}", 0x12345678, 0, 0,
         0x56781234},
        {"fma.rn.f32 %f0, %f1, %f2, %f3", 0x3f800001, 0x3f800001, 0xbf800002,
         0x28800000},
        {"fma.rm.f32 %f0, %f1, %f2, %f3", 0x3f800000, 0x3f800000, 0xa0000000,
         0x3f7fffff},
        {"add.f32 %f0, %f1, %f2", 0x3f800000, 0x40000000, 0, 0x40400000},
        {"max.f32 %f0, %f1, %f2", 0x7fc00000, 0x3f800000, 0, 0x3f800000},
        {"min.f32 %f0, %f1, %f2", 0x00000000, 0x80000000, 0, 0x80000000},
        {"copysign.f32 %f0, %f1, %f2", 0x80000000, 0x3f800000, 0, 0xbf800000},
        {"ex2.approx.ftz.f32 %f0, %f1", 0xc3020000, 0, 0, 0}, /* 2^-130 */
        {"ex2.approx.f32 %f0, %f1", 0x40400000, 0, 0, 0x41000000},
        {"rcp.approx.ftz.f32 %f0, %f1", 0x40000000, 0, 0, 0x3f000000},
        {"cvt.rn.bf16.f32 %h1, %f1; cvt.u32.u16 %r0, %h1", 0x3f808000, 0, 0,
         0x3f80},
        {"cvt.rn.bf16x2.f32 %r0, %f1, %f2", 0x3f818000, 0x40000000, 0,
         0x3f824000},
        {"cvt.rn.f16x2.f32 %r0, %f1, %f2", 0x3f800000, 0xc0000000, 0,
         0x3c00c000},
        {"cvt.sat.f32.f32 %f0, %f1", 0x40000000, 0, 0, 0x3f800000},
        {"cvt.rmi.f32.f32 %f0, %f1", 0xbf000000, 0, 0, 0xbf800000},
        {"cvt.rni.s32.f32 %r0, %f1", 0x40200000, 0, 0, 2}, /* 2.5 */
        {"cvt.rzi.s32.f32 %r0, %f1", 0x7f800000, 0, 0, 0x7fffffff},
        {"cvt.rzi.u32.f32 %r0, %f1", 0xbf800000, 0, 0, 0},
        {"cvt.rn.f32.s32 %f0, %r1", (uint32_t)-3, 0, 0, 0xc0400000},
        {"cvt.rn.f32.u32 %f0, %r1", 0x01000001, 0, 0, 0x4b800000},
        {"cvt.rn.f16.s32 %h1, %r1; cvt.u32.u16 %r0, %h1", (uint32_t)-3, 0, 0,
         0xc200},
        {"cvt.rn.f16.u32 %h1, %r1; cvt.u32.u16 %r0, %h1", 65535, 0, 0, 0x7c00},
        {"cvt.rn.bf16.u32 %h1, %r1; cvt.u32.u16 %r0, %h1", 0x01010001, 0, 0,
         0x4b81},
        {"setp.ltu.f32 %p1, %f1, %f2; selp.b32 %r0, 1, 2, %p1", 0x7fc00000, 0,
         0, 1},
        {"setp.ge.f32 %p1, %f1, %f2; selp.b32 %r0, 1, 2, %p1", 0x7fc00000, 0, 0,
         2},
        {"setp.lt.s32 %p1, %r1, %r2; selp.b32 %r0, 1, 2, %p1", (uint32_t)-1, 0,
         0, 1},
        {"setp.lt.u32 %p1, %r1, %r2; not.pred %p2, %p1;"
         " selp.b32 %r0, 1, 2, %p2",
         (uint32_t)-1, 0, 0, 1},
    };
    (void)state;

    for (size_t n = 0; n < sizeof(cases) / sizeof(cases[0]); n++) {
        uint32_t words[WORDS] = {cases[n].a, cases[n].b, cases[n].c};
        char body[1024];
        const char *f = strstr(cases[n].instruction, "%f0") ? "%f0" : "%r0";
        snprintf(body, sizeof(body),
                 "ld.global.u32 %%r1, [%%in]; ld.global.u32 %%r2, [%%in+4];"
                 " ld.global.u32 %%r3, [%%in+8]; mov.b32 %%f1, %%r1;"
                 " mov.b32 %%f2, %%r2; mov.b32 %%f3, %%r3; %s;"
                 " st.global.u32 [%%out], %s;",
                 cases[n].instruction, f);
        run(body, (struct shape){1, 1, 0}, words);
        if (words[0] != cases[n].want)
            fail_msg("%s: %#x instead of %#x", cases[n].instruction, words[0],
                     cases[n].want);
    }
}

/* Behind a word of 7 is a long one of 7 and 5, then one of 7 and 7. */
static void test_constants(void **state)
{
    uint32_t words[WORDS] = {0};
    (void)state;
    run("mov.u32 %r0, 7; mov.u64 %rd1, 0x700000005; mov.u64 %rd2, 0x700000007;"
        " cvt.u32.u64 %r0, %rd2;\n" STORE,
        WARP, words);
    for (unsigned t = 0; t < 32; t++)
        assert_int_equal(words[t], 7);
}

/* Two neighbors of A(r, k) = r + k % 3, and of B(k, c) = k % 4 - c; %r10: the
 * lane / 4, %r11: twice the rest.
 */
#define PAIR_OF_A(r, row, column)                                              \
    "add.s32 %r12, %r10, " row "; add.s32 %r13, %r11, " column ";"             \
    " rem.u32 %r14, %r13, 3; add.s32 %r14, %r14, %r12;"                        \
    " cvt.rn.f32.s32 %f1, %r14; add.s32 %r13, %r13, 1; rem.u32 %r14, %r13, 3;" \
    " add.s32 %r14, %r14, %r12; cvt.rn.f32.s32 %f2, %r14;"                     \
    " cvt.rn.bf16x2.f32 " r ", %f2, %f1;\n"
#define PAIR_OF_B(r, row)                                                      \
    "add.s32 %r13, %r11, " row "; and.b32 %r14, %r13, 3;"                      \
    " sub.s32 %r14, %r14, %r10; cvt.rn.f32.s32 %f1, %r14;"                     \
    " add.s32 %r13, %r13, 1; and.b32 %r14, %r13, 3; sub.s32 %r14, %r14, %r10;" \
    " cvt.rn.f32.s32 %f2, %r14; cvt.rn.bf16x2.f32 " r ", %f2, %f1;\n"

/* D = A B + 1 */
static void test_matrices(void **state)
{
    static const char body[] =
        "shr.u32 %r10, %t, 2; and.b32 %r11, %t, 3; shl.b32 %r11, %r11, "
        "1;\n" PAIR_OF_A("%r1", "0", "0") PAIR_OF_A("%r2", "8", "0") PAIR_OF_A(
            "%r3", "0", "8") PAIR_OF_A("%r4", "8", "8") PAIR_OF_B("%r5", "0")
            PAIR_OF_B(
                "%r6",
                "8") "mov.f32 %f4, 0f3F800000; mov.f32 %f5, %f4; mov.f32 %f6, "
                     "%f4;"
                     " mov.f32 %f7, %f4;\n"
                     "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"
                     " {%f4,%f5,%f6,%f7}, {%r1,%r2,%r3,%r4}, {%r5,%r6}, "
                     "{%f4,%f5,%f6,%f7};\n"
                     "shl.b32 %r12, %r10, 3; add.s32 %r12, %r12, %r11;"
                     " mul.wide.u32 %rd1, %r12, 4; add.s64 %rd1, %rd1, %out;\n"
                     "st.global.v2.f32 [%rd1], {%f4, %f5};"
                     " st.global.v2.f32 [%rd1+256], {%f6, %f7};\n";
    uint32_t words[WORDS] = {0};
    (void)state;

    run(body, WARP, words);
    for (int r = 0; r < 16; r++)
        for (int c = 0; c < 8; c++) {
            float got, want = 1.0f;
            for (int k = 0; k < 16; k++)
                want += (float)((r + k % 3) * (k % 4 - c));
            memcpy(&got, &words[r * 8 + c], sizeof(got));
            assert_true(got == want);
        }
}

static void test_unknown(void **state)
{
    (void)state;
    expect("sin.rn.f32 %f0, %f1;\n", WARP,
           "an unknown instruction 'sin.rn.f32', line 7 of the source");
    expect("add.s32 %r0, %r1, %rd1;\n", WARP,
           "an operand of another size '%rd1'");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lanes_part_and_meet),
        cmocka_unit_test(test_lanes_that_do_not_come),
        cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_eight_words),
        cmocka_unit_test(test_races),
        cmocka_unit_test(test_barriers_of_a_warp),
        cmocka_unit_test(test_two_bytes),
        cmocka_unit_test(test_asynchronous_copies),
        cmocka_unit_test(test_needless_barriers),
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_constants),
        cmocka_unit_test(test_matrices),
        cmocka_unit_test(test_unknown),
    };
    return cmocka_run_group_tests_name("ptx", tests, NULL, NULL);
}
