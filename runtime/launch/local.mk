# SPDX-License-Identifier: Apache-2.0
runtime_libdisttrain_a_SOURCES += \
	runtime/launch/launch.c \
	runtime/launch/launch.h \
	runtime/launch/launch_impl.h

if HAVE_PMIX
runtime_libdisttrain_a_SOURCES += \
	runtime/launch/launch_pmix.c
endif
