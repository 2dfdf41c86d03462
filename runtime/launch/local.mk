# SPDX-License-Identifier: Apache-2.0
runtime_libdisttrain_a_SOURCES += \
	runtime/launch/launch_impl.h \
	runtime/contract/contract.h \
	runtime/launch/launch.c \
	runtime/launch/launch.h \
	runtime/launch/launch_single.c \
	runtime/contract/variables.c \
	runtime/contract/variables.h \
	# End of runtime/launch

if HAVE_PMIX
runtime_libdisttrain_a_SOURCES += \
	runtime/launch/launch_pmix.c
endif
