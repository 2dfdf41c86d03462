# SPDX-License-Identifier: Apache-2.0
runtime_libdisttrain_a_SOURCES += \
	runtime/ckpt/add.c \
	runtime/ckpt/add_model.c \
	runtime/ckpt/checkpoint.c \
	runtime/ckpt/checkpoint_impl.h \
	runtime/ckpt/ckpt.h \
	runtime/ckpt/find.c \
	runtime/ckpt/probe.c \
	runtime/ckpt/safetensors.c \
	runtime/ckpt/safetensors.h \
	runtime/ckpt/safetensors_header.c \
	runtime/ckpt/safetensors_impl.h \
	runtime/ckpt/safetensors_model.c \
	runtime/ckpt/safetensors_write.c \
	runtime/ckpt/sink.c \
	runtime/ckpt/sink.h \
	runtime/ckpt/tidy.c \
	runtime/ckpt/verify.c \
	# End of runtime/ckpt
