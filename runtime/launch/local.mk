# SPDX-License-Identifier: Apache-2.0
runtime_libdisttrain_a_SOURCES += \
	runtime/launch/launch.c \
	runtime/launch/launch.h \
	runtime/launch/launch_backend.c \
	runtime/launch/launch_impl.h \
	runtime/launch/launch_single.c \
	# End of runtime/launch

if HAVE_PMIX
runtime_libdisttrain_a_SOURCES += \
	runtime/launch/launch_call.c \
	runtime/launch/launch_call.h \
	runtime/launch/launch_pmix.c
else
runtime_libdisttrain_a_SOURCES += \
	runtime/launch/launch_nopmix.c
endif
