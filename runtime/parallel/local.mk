# SPDX-License-Identifier: Apache-2.0
runtime_libdisttrain_a_SOURCES += \
	runtime/parallel/create.c \
	runtime/parallel/find.c \
	runtime/parallel/gather.c \
	runtime/parallel/impl.h \
	runtime/parallel/levels.c \
	runtime/parallel/memory.c \
	runtime/parallel/memory.h \
	runtime/parallel/offload.c \
	runtime/parallel/parallel.h \
	runtime/parallel/reduce.c \
	runtime/parallel/swap.c \
	runtime/parallel/swap.h \
	runtime/parallel/swap_file.c \
	runtime/parallel/swap_impl.h \
	runtime/parallel/swap_ring.h \
	runtime/parallel/swap_worker.c \
	runtime/parallel/tiles.c \
	runtime/parallel/tiles.h \
	runtime/parallel/update.c \
	# End of runtime/parallel

if HAVE_URING
runtime_libdisttrain_a_SOURCES += \
	runtime/parallel/swap_ring.c
else
runtime_libdisttrain_a_SOURCES += \
	runtime/parallel/swap_noring.c
endif
