# SPDX-License-Identifier: Apache-2.0
runtime_libdisttrain_a_SOURCES += \
	runtime/comm/comm.c \
	runtime/comm/comm.h \
	runtime/comm/comm_self.c \
	runtime/comm/impl.h \
	runtime/comm/op.c \
	# End of runtime/comm

if HAVE_GLOO
runtime_libdisttrain_a_SOURCES += \
	runtime/comm/address.c \
	runtime/comm/address.h \
	runtime/comm/comm_gloo.cc \
	runtime/comm/compat/gloo/common/memory.h \
	runtime/comm/direct.c \
	runtime/comm/direct.h \
	runtime/comm/link.h \
	runtime/comm/mesh.c \
	runtime/comm/peers.c \
	runtime/comm/peers.h \
	runtime/comm/pipeline.c \
	runtime/comm/queue.c \
	runtime/comm/queue.h \
	runtime/comm/reduce.c \
	runtime/comm/reduce.h
endif
