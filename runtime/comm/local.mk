# SPDX-License-Identifier: Apache-2.0
runtime_libdisttrain_a_SOURCES += \
	runtime/comm/comm.c \
	runtime/comm/comm.h \
	runtime/comm/comm_impl.h \
	runtime/comm/op.c

if HAVE_GLOO
runtime_libdisttrain_a_SOURCES += \
	runtime/comm/address.c \
	runtime/comm/arrivals.c \
	runtime/comm/comm_gloo.c \
	runtime/comm/comm_gloo.h \
	runtime/comm/comm_reduce.c \
	runtime/comm/compat/gloo/common/memory.h \
	runtime/comm/direct.c \
	runtime/comm/int8.c \
	runtime/comm/log_rounds.c \
	runtime/comm/messages.c \
	runtime/comm/peers.c \
	runtime/comm/peers.h \
	runtime/comm/queue.c \
	runtime/comm/rendezvous.c \
	runtime/comm/rendezvous.h \
	runtime/comm/token.c \
	runtime/comm/transport.h \
	runtime/comm/transport_gloo.cc \
	# End of runtime/comm
endif

# Collectives of the module for NVIDIA GPUs; see runtime/backend/local.mk, and
# tests/simt/module.mk, which compiles the same against another nccl.h.
nccl_all = \
	runtime/base/fault.c \
	runtime/base/handshake.c \
	runtime/base/net.c \
	runtime/base/proc.c \
	runtime/base/siphash.c \
	runtime/base/thread.c \
	runtime/comm/address.c \
	runtime/comm/arrivals.c \
	runtime/comm/comm_nccl.c \
	runtime/comm/comm_nccl.h \
	runtime/comm/nccl_api.c \
	runtime/comm/nccl_bootstrap.c \
	runtime/comm/nccl_watch.c \
	runtime/comm/nccl_wire.cu \
	runtime/comm/nccl_wire.h \
	runtime/comm/op.c \
	runtime/comm/peers.c \
	runtime/comm/rendezvous.c \
	runtime/comm/token.c \
	runtime/comm/transport_gloo.cc \
	# End of nccl_all
nccl_none = runtime/comm/nccl_none.c

if HAVE_NCCL
nccl_sources = $(nccl_all)
nccl_libs = $(GLOO_LIBS)
else
nccl_sources = $(nccl_none)
endif
