# SPDX-License-Identifier: Apache-2.0
runtime_libdisttrain_a_SOURCES += \
	runtime/parallel/host_copy.c \
	runtime/parallel/host_copy.h \
	runtime/parallel/levels.c \
	runtime/parallel/parallel.c \
	runtime/parallel/parallel.h \
	runtime/parallel/parallel_gather.c \
	runtime/parallel/parallel_impl.h \
	runtime/parallel/parallel_memory.c \
	runtime/parallel/parallel_offload.c \
	runtime/parallel/parallel_reduce.c \
	runtime/parallel/replicas.c \
	runtime/parallel/replicas.h \
	runtime/parallel/swap.c \
	runtime/parallel/swap.h \
	runtime/parallel/swap_impl.h \
	runtime/parallel/swap_ring.c \
	runtime/parallel/swap_worker.c \
	runtime/parallel/tiles.c \
	runtime/parallel/tiles.h \
	runtime/parallel/update.c \
	# End of runtime/parallel
