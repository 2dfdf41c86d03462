# SPDX-License-Identifier: Apache-2.0
#
# AX_DT_HARDEN
#
# Flags for code that runs as root, in DT_HARDEN_CFLAGS and DT_HARDEN_LDFLAGS.
# _FORTIFY_SOURCE needs an optimizing compiler and does not go together with
# sanitizers: it is left out where the compiler objects to it.
#
AC_DEFUN([AX_DT_HARDEN], [
DT_HARDEN_CFLAGS=-fstack-protector-strong
dt_save_CFLAGS=$CFLAGS
dt_fortify="-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2"
CFLAGS="$CFLAGS $dt_fortify -Werror"
AC_MSG_CHECKING([whether _FORTIFY_SOURCE works])
AS_IF([test "x$enable_sanitizer" = xno],
    [AC_COMPILE_IFELSE([AC_LANG_PROGRAM([[#include <string.h>]])],
        [dt_fortified=yes], [dt_fortified=no])],
    [dt_fortified=no])
AC_MSG_RESULT([$dt_fortified])
CFLAGS=$dt_save_CFLAGS
AS_IF([test "x$dt_fortified" = xyes],
    [DT_HARDEN_CFLAGS="$DT_HARDEN_CFLAGS $dt_fortify"])
AC_SUBST([DT_HARDEN_CFLAGS])
AC_SUBST([DT_HARDEN_LDFLAGS],
    ["-Wl,-z,relro -Wl,-z,now -Wl,-z,noexecstack"])
])
