# SPDX-License-Identifier: Apache-2.0
#
# AX_DT_CUDA
#
# The module for NVIDIA GPUs. Compiled by nvcc with $CXX as its host compiler;
# libcudart goes in statically and libcublasLt is linked, so that the module
# needs the driver and one library of CUDA. NCCL and cuDNN are loaded when the
# module is used: only their headers are needed here.
#
#   --with-cuda[=DIR]    DIR/bin/nvcc, or nvcc in PATH or /usr/local/cuda/bin
#   --with-nccl[=DIR], --with-cudnn[=DIR]    DIR/include, or where CUDA is
#   --with-cuda-arch=LIST    "80,90": machine code for each, and for the last
#                            one what drivers make code for newer cards from
#
# Substitutes NVCC, NVCCFLAGS (the user's), DT_NVCCFLAGS, CUDA_CPPFLAGS,
# CUDA_LDFLAGS, CUDA_LIBS; defines HAVE_CUDA, HAVE_NCCL, HAVE_CUDNN and
# DT_CUDA_ARCHS; leaves dt_have_, dt_why_ and dt_with_ (versions) of cuda, nccl
# and cudnn.
#

# The value of a macro of an integer in a header, in dt_value ("" for none).
AC_DEFUN([DT_CUDA_MACRO], [
dt_value=$(printf '#include <%s>\ndt_value %s\n' "$1" "$2" |
    $CPP $CPPFLAGS $CUDA_CPPFLAGS - 2>/dev/null | grep -v '^#' | tr -d ' \n' |
    sed -n 's/.*dt_value//p')
])

# Finds nvcc and what it is: NVCC, dt_cuda_root, dt_with_cuda.
AC_DEFUN([DT_CUDA_NVCC], [
AC_ARG_VAR([NVCC], [the CUDA compiler])
AC_ARG_VAR([NVCCFLAGS], [flags for NVCC, by default -O3])
: ${NVCCFLAGS=-O3}
AS_IF([test "x$dt_dir_cuda" != x],
    [AC_PATH_PROG([NVCC], [nvcc], [], [$dt_dir_cuda/bin])],
    [AC_PATH_PROG([NVCC], [nvcc], [], [$PATH:/usr/local/cuda/bin])])
AS_IF([test "x$NVCC" = x], [
    dt_why_cuda="no nvcc in ${dt_dir_cuda:-PATH or /usr/local/cuda}${dt_dir_cuda:+/bin}"
], [
    dt_with_cuda=$("$NVCC" --version |
        sed -n 's/.*release \(@<:@0-9.@:>@*\).*/\1/p')
    dt_cuda_root=$(dirname "$(dirname "$NVCC")")
    AS_IF([test ! -e "$dt_cuda_root/include/cuda_runtime_api.h"],
        [dt_cuda_root=$(dirname "$(dirname "$(readlink -f "$NVCC")")")])
])
])

# The cards to compile for, in dt_cuda_archs, "80 90".
AC_DEFUN([DT_CUDA_ARCH], [
AC_ARG_WITH([cuda-arch],
    [AS_HELP_STRING([--with-cuda-arch=LIST],
        [compute capabilities to compile for, such as 80,90
         @<:@80,90,100,120 as far as nvcc knows them@:>@])],
    [], [with_cuda_arch=auto])
dt_nvcc_archs=" $("$NVCC" --list-gpu-code 2>/dev/null |
    sed -n 's/^sm_//p' | tr '\n' ' ')"
dt_cuda_archs=
AS_IF([test "x$with_cuda_arch" = xauto], [
    for dt_arch in 80 90 100 120; do
        AS_CASE([$dt_nvcc_archs], [*" $dt_arch "*],
            [dt_cuda_archs="$dt_cuda_archs$dt_arch "])
    done
], [
    for dt_arch in $(echo "$with_cuda_arch" | tr ',;' '  '); do
        AS_CASE([$dt_nvcc_archs], [*" $dt_arch "*],
            [dt_cuda_archs="$dt_cuda_archs$dt_arch "],
            [AC_MSG_ERROR([--with-cuda-arch=$with_cuda_arch: $NVCC has no $dt_arch, but$dt_nvcc_archs])])
    done
])
dt_cuda_archs=$(echo "$dt_cuda_archs" | tr ' ' '\n' | sort -n | tr '\n' ' ')
dt_cuda_archs=$(echo $dt_cuda_archs)
DT_NVCCFLAGS=
for dt_arch in $dt_cuda_archs; do
    DT_NVCCFLAGS="$DT_NVCCFLAGS -gencode arch=compute_$dt_arch,code=sm_$dt_arch"
done
DT_NVCCFLAGS="$DT_NVCCFLAGS -gencode arch=compute_$dt_arch,code=compute_$dt_arch"
])

# Headers and libraries; nothing is run, as the driver may be elsewhere.
AC_DEFUN([DT_CUDA_LIBRARIES], [
CUDA_CPPFLAGS="-isystem $dt_cuda_root/include"
dt_cuda_libdir=
for dt_dir in lib64 lib targets/x86_64-linux/lib targets/sbsa-linux/lib \
    lib/x86_64-linux-gnu lib/aarch64-linux-gnu; do
    AS_IF([test "x$dt_cuda_libdir" = x &&
           test -e "$dt_cuda_root/$dt_dir/libcudart_static.a"],
        [dt_cuda_libdir=$dt_cuda_root/$dt_dir])
done
# found without help where the system keeps its own
CUDA_LDFLAGS=${dt_cuda_libdir:+"-L$dt_cuda_libdir -Wl,-rpath,$dt_cuda_libdir"}
AS_CASE([$dt_cuda_root], [/usr], [CUDA_CPPFLAGS= CUDA_LDFLAGS=])
dt_save_CPPFLAGS=$CPPFLAGS dt_save_LIBS=$LIBS
CPPFLAGS="$CPPFLAGS $CUDA_CPPFLAGS"
dt_why_cuda=
AC_CHECK_HEADERS([cuda_runtime_api.h cublasLt.h], [],
    [dt_why_cuda="no $ac_header in $dt_cuda_root/include"; break])
AS_IF([test "x$dt_why_cuda" = x], [
    AC_MSG_CHECKING([whether libcudart_static and libcublasLt link])
    # the second is how packages of Python have it
    for dt_lib in cublasLt :libcublasLt.so.${dt_with_cuda%%.*}; do
    AS_IF([test "x$dt_have_cuda" = xyes], [break])
    CUDA_LIBS="-l$dt_lib -lcudart_static -ldl -lrt -lpthread"
    LIBS="$CUDA_LDFLAGS $CUDA_LIBS $dt_save_LIBS"
    AC_LINK_IFELSE([AC_LANG_PROGRAM([[
            #include <cuda_runtime_api.h>
            #include <cublasLt.h>
        ]], [[
            int count;
            return (int)cudaGetDeviceCount(&count) + (int)cublasLtGetVersion();
        ]])], [dt_have_cuda=yes])
    done
    AS_IF([test "x$dt_have_cuda" != xyes],
        [dt_why_cuda="libcudart_static.a and libcublasLt.so of $dt_cuda_root do not link"])
    AC_MSG_RESULT([$dt_have_cuda])
])
CPPFLAGS=$dt_save_CPPFLAGS LIBS=$dt_save_LIBS
])

# nvcc and $CXX must understand each other.
AC_DEFUN([DT_CUDA_COMPILES], [
AC_MSG_CHECKING([whether nvcc compiles with $CXX])
dt_cxx=$(set -- $CXX; AS_CASE([$[]1], [*ccache], [shift]); echo "$[]1")
DT_NVCCFLAGS="-ccbin $dt_cxx -std=c++17 -lineinfo$DT_NVCCFLAGS"
echo '#include <cuda_bf16.h>
    __global__ void kernel(__nv_bfloat16 *x) { *x = __float2bfloat16(1.0f); }' \
    >conftest.cu
AS_IF(["$NVCC" $DT_NVCCFLAGS -c conftest.cu -o conftest.o >&AS_MESSAGE_LOG_FD 2>&1],
    [], [
    dt_have_cuda=no
    dt_why_cuda="$NVCC does not compile with $dt_cxx: see config.log; a host compiler that it knows is CXX=g++"
])
rm -f conftest.cu conftest.o
AC_MSG_RESULT([$dt_have_cuda])
])

# A library that is loaded when it is needed: NAME, HEADER, the macros of its
# version (major, minor, patch), the lowest version
AC_DEFUN([DT_CUDA_HEADER], [
AS_IF([test "x$dt_have_cuda" != xyes], [dt_why_$1="it is for the CUDA backend"], [
    dt_cppflags=
    AS_IF([test "x$dt_dir_$1" != x], [dt_cppflags="-isystem $dt_dir_$1/include "])
    dt_save_CPPFLAGS=$CPPFLAGS
    CPPFLAGS="$CPPFLAGS $dt_cppflags$CUDA_CPPFLAGS"
    AC_CHECK_HEADER([$2], [
        DT_CUDA_MACRO([$2], [$3])
        dt_major=$dt_value
        DT_CUDA_MACRO([$2], [$4])
        dt_minor=$dt_value
        DT_CUDA_MACRO([$2], [$5])
        dt_with_$1=$dt_major.$dt_minor.$dt_value
        AS_VERSION_COMPARE([$dt_with_$1], [$6],
            [dt_why_$1="$2 is of $dt_with_$1, and $6 is the lowest"],
            [dt_have_$1=yes], [dt_have_$1=yes])
    ], [dt_why_$1="no $2 in ${dt_dir_$1:-$dt_cuda_root}/include"])
    CPPFLAGS=$dt_save_CPPFLAGS
    AS_IF([test "x$dt_have_$1" = xyes],
        [CUDA_CPPFLAGS="$dt_cppflags$CUDA_CPPFLAGS"])
])
])

AC_DEFUN([AX_DT_CUDA], [
AC_REQUIRE([AC_PROG_CPP])
dt_cuda_archs=
DT_WITH([cuda], [the CUDA backend; =DIR: the toolkit], [
    DT_CUDA_NVCC
    AS_IF([test "x$NVCC" != x], [
        DT_CUDA_ARCH
        DT_CUDA_LIBRARIES
    ])
    AS_IF([test "x$dt_have_cuda" = xyes], [DT_CUDA_COMPILES])
])
DT_WITH([nccl], [collectives between GPUs; =DIR: where its headers are], [
    AS_IF([test "x$dt_have_gloo" = xyes],
        [DT_CUDA_HEADER([nccl], [nccl.h], [NCCL_MAJOR], [NCCL_MINOR],
            [NCCL_PATCH], [2.23.0])],
        [dt_why_nccl="it needs gloo, which notices lost ranks"])
])
DT_WITH([cudnn], [attention by cuDNN; =DIR: where its headers are], [
    DT_CUDA_HEADER([cudnn], [cudnn.h], [CUDNN_MAJOR], [CUDNN_MINOR],
        [CUDNN_PATCHLEVEL], [9.8.0])
])
AS_IF([test "x$dt_have_cuda" = xyes],
    [AC_DEFINE([HAVE_CUDA], [1], [The module for NVIDIA GPUs])])
AS_IF([test "x$dt_have_nccl" = xyes],
    [AC_DEFINE([HAVE_NCCL], [1], [Collectives through NCCL])])
AS_IF([test "x$dt_have_cudnn" = xyes],
    [AC_DEFINE([HAVE_CUDNN], [1], [Attention by cuDNN])])
AC_DEFINE_UNQUOTED([DT_CUDA_ARCHS], ["$dt_cuda_archs"],
    [Compute capabilities with machine code in the module])
AM_CONDITIONAL([HAVE_CUDA], [test "x$dt_have_cuda" = xyes])
AM_CONDITIONAL([HAVE_NCCL], [test "x$dt_have_nccl" = xyes])
AC_SUBST([DT_NVCCFLAGS])
AC_SUBST([CUDA_CPPFLAGS])
AC_SUBST([CUDA_LDFLAGS])
AC_SUBST([CUDA_LIBS])
])
