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
	runtime/comm/transport_gloo.cc \
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

# Collectives of the module for NVIDIA GPUs; see runtime/backend/local.mk, and
# tests/simt/module.mk, which compiles the same against another nccl.h.
nccl_all = \
	runtime/base/fault.c \
	runtime/comm/address.c \
	runtime/comm/transport_gloo.cc \
	runtime/comm/comm_nccl.c \
	runtime/comm/comm_nccl.h \
	runtime/comm/nccl_bootstrap.c \
	runtime/comm/nccl_bootstrap.h \
	runtime/comm/nccl_lane.c \
	runtime/comm/nccl_lane.h \
	runtime/comm/nccl_watch.c \
	runtime/comm/nccl_wire.cu \
	runtime/comm/nccl_wire.h \
	runtime/comm/op.c \
	runtime/comm/peers.c \
	runtime/comm/roll.c \
	runtime/comm/roll.h \
	# End of nccl_all
nccl_none = runtime/comm/nccl_none.c

if HAVE_NCCL
nccl_sources = $(nccl_all)
nccl_libs = $(GLOO_LIBS)
else
nccl_sources = $(nccl_none)
endif
