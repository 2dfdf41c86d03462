# SPDX-License-Identifier: Apache-2.0
#
# AX_DT_COMPILER
#
# C17 and the warnings of the house. --enable-werror makes warnings errors
# (on in contrib/check, off in a release). --enable-sanitizer=LIST compiles and
# links everything with -fsanitize=LIST; without a list it is address,undefined.
# --enable-fuzzers builds tests/fuzz (needs clang). --enable-coverage counts
# which lines run, for `make coverage`.
#
AC_DEFUN([AX_DT_COMPILER], [
dt_warn="-Wall -Wextra -Wshadow -Wvla"
dt_warn_c="-Wstrict-prototypes -Wmissing-prototypes"
AC_ARG_ENABLE([werror],
    [AS_HELP_STRING([--enable-werror], [warnings are errors @<:@no@:>@])],
    [], [enable_werror=no])
# functions of the GPU are unused ones to the host compiler
dt_warn_nvcc="-Xcompiler -Wall,-Wextra,-Wno-unused-function"
AS_IF([test "x$enable_werror" = xyes], [
    dt_warn="$dt_warn -Werror"
    dt_warn_nvcc="$dt_warn_nvcc -Werror all-warnings"
])

AC_ARG_ENABLE([sanitizer],
    [AS_HELP_STRING([--enable-sanitizer@<:@=LIST@:>@],
        [compile with -fsanitize=LIST, e.g. thread @<:@address,undefined@:>@])],
    [], [enable_sanitizer=no])
dt_unchecked=vptr
# "address" checks what a pointer leads to. Checks of its arithmetic and of NULL
# as well would nearly double the time to compile kernels.
AS_IF([test "x$enable_sanitizer" = xyes], [
    enable_sanitizer=address,undefined
    dt_unchecked="$dt_unchecked,pointer-overflow,null"
])
dt_instrument=
# The C compiler links, and clang's has no checks of C++ classes. clang no longer
# makes vectors of some "omp simd" loops then, and would say so.
AS_IF([test "x$enable_sanitizer" != xno], [
    dt_instrument="-fsanitize=$enable_sanitizer -fno-sanitize=$dt_unchecked"
    dt_instrument="$dt_instrument -fno-omit-frame-pointer"
    dt_warn="$dt_warn -Wno-pass-failed"
    AC_DEFINE([SANITIZER], [1], [Tests leave malloc() to a sanitizer])
])
AM_CONDITIONAL([SANITIZER], [test "x$enable_sanitizer" != xno])

AC_ARG_ENABLE([fuzzers],
    [AS_HELP_STRING([--enable-fuzzers],
        [build the fuzz targets (clang only) @<:@no@:>@])],
    [], [enable_fuzzers=no])
AS_IF([test "x$enable_fuzzers" = xyes],
    [dt_instrument="$dt_instrument -fsanitize=fuzzer-no-link"])

AC_ARG_ENABLE([coverage],
    [AS_HELP_STRING([--enable-coverage],
        [count the lines that tests run, for `make coverage' @<:@no@:>@])],
    [], [enable_coverage=no])
# gcc then sees values used that are not set, and is wrong
AS_IF([test "x$enable_coverage" = xyes], [
    dt_instrument="$dt_instrument --coverage -fprofile-update=atomic"
    dt_warn="$dt_warn -Wno-error"
])

# A multiplication and an addition in one expression are fused, always: where
# that depends on what is around it, one source has several bits. So clang does
# with `fast`, which is all that gcc has. And gcc from 13 on leaves out sums in
# loops, for vectors of up to as many bits as suit the processor that it tunes
# for.
AC_COMPILE_IFELSE([AC_LANG_PROGRAM([[
#ifndef __clang__
#error
#endif
]])], [dt_contract=-ffp-contract=on],
    [dt_contract="-ffp-contract=fast --param=avoid-fma-max-bits=0"])
AC_SUBST([DT_FP_CONTRACT], [$dt_contract])

AC_SUBST([DT_CFLAGS], ["-std=gnu17 $dt_warn $dt_warn_c $dt_instrument"])
AC_SUBST([DT_CXXFLAGS], ["-std=gnu++17 $dt_warn $dt_instrument"])
AC_SUBST([DT_NVCC_WARN], ["$dt_warn_nvcc"])
AC_SUBST([DT_LDFLAGS], ["$dt_instrument"])
])
