# SPDX-License-Identifier: Apache-2.0
runtime_libdisttrain_a_SOURCES += \
	runtime/launch/launch.c \
	runtime/launch/launch.h \
	runtime/launch/launch_impl.h \
	runtime/launch/launch_keeper.c \
	runtime/launch/wire.c \
	runtime/launch/wire.h \
	# End of runtime/launch

if HAVE_PMIX
runtime_libdisttrain_a_SOURCES += \
	runtime/launch/launch_pmix.c
endif
