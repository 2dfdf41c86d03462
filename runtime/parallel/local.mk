# SPDX-License-Identifier: Apache-2.0
runtime_libdisttrain_a_SOURCES += \
	runtime/parallel/create.c \
	runtime/parallel/gather.c \
	runtime/parallel/impl.h \
	runtime/parallel/memory.c \
	runtime/parallel/memory.h \
	runtime/parallel/reduce.c \
	runtime/parallel/parallel.h \
	# End of runtime/parallel
