# SPDX-License-Identifier: Apache-2.0
runtime_libdisttrain_a_SOURCES += \
	runtime/launch/backend.h \
	runtime/launch/contract.h \
	runtime/launch/launch.c \
	runtime/launch/launch.h \
	runtime/launch/launch_single.c \
	runtime/launch/variables.c \
	runtime/launch/variables.h \
	# End of runtime/launch

if HAVE_PMIX
runtime_libdisttrain_a_SOURCES += \
	runtime/launch/launch_pmix.c
endif
