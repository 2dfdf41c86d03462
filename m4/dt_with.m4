# SPDX-License-Identifier: Apache-2.0
#
# DT_WITH(FEATURE, HELP, PROBE)
#
# Tri-state --with-FEATURE[=yes|no|auto|DIR]. PROBE is shell code that sets
# dt_have_FEATURE=yes, or dt_why_FEATURE to the reason why not; dt_dir_FEATURE
# is DIR, or empty. Asked for and missing is an error that names the flag;
# guessed and missing is off. The answer is left in dt_have_FEATURE (yes|no)
# for the summary.
#
AC_DEFUN([DT_WITH], [
AC_ARG_WITH([$1],
    [AS_HELP_STRING([--with-$1], [$2 @<:@auto@:>@])],
    [], [with_$1=auto])
dt_have_$1=no
dt_why_$1="switched off by --without-$1"
dt_dir_$1=
AS_CASE([$with_$1],
    [no|yes|auto], [],
    [/*], [dt_dir_$1=$with_$1],
    [AC_MSG_ERROR([--with-$1=$with_$1: expected yes, no, auto or an absolute directory])])
AS_IF([test "x$with_$1" != xno], [
    dt_why_$1="not found"
    $3
])
AS_IF([test "x$with_$1" != xno && test "x$with_$1" != xauto &&
       test "x$dt_have_$1" != xyes],
    [AC_MSG_ERROR([--with-$1 was asked for, but: $dt_why_$1])])
])
