# SPDX-License-Identifier: Apache-2.0
runtime_libdisttrain_a_SOURCES += \
	runtime/ckpt/add.c \
	runtime/ckpt/checkpoint.c \
	runtime/ckpt/ckpt.h \
	runtime/ckpt/ckpt_find.c \
	runtime/ckpt/ckpt_impl.h \
	runtime/ckpt/ckpt_list.c \
	runtime/ckpt/ckpt_probe.c \
	runtime/ckpt/ckpt_rename.c \
	runtime/ckpt/ckpt_tidy.c \
	runtime/ckpt/ckpt_write.c \
	runtime/ckpt/safetensors.c \
	runtime/ckpt/safetensors.h \
	runtime/ckpt/safetensors_header.c \
	runtime/ckpt/safetensors_write.c \
	runtime/ckpt/stage.c \
	runtime/ckpt/verify.c \
	# End of runtime/ckpt
